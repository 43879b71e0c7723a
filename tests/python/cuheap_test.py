"""The package `cuheap`: a no-op without the library, phases and marks in the trace with it."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import cuheap
from cuheap import _native

BUILD = pathlib.Path(os.environ["CUHEAP_BUILD"])


class WithoutTheLibrary(unittest.TestCase):
    def test_nothing_is_found(self):
        self.assertIsNone(_native.phase_begin)
        self.assertFalse(cuheap.is_recording())

    def test_a_block_runs_and_passes_its_exception(self):
        ran = []
        with self.assertRaises(KeyError):
            with cuheap.phase("load"):
                ran.append(1)
                raise KeyError("inner")
        self.assertEqual(ran, [1])

    def test_a_decorated_function_returns_its_value_each_time(self):
        @cuheap.phase("step")
        def double(value):
            return 2 * value

        self.assertEqual([double(1), double(2)], [2, 4])

    def test_bad_names_are_refused(self):
        with self.assertRaises(ValueError):
            cuheap.mark("")
        with self.assertRaises(TypeError):
            cuheap.mark(3)
        with self.assertRaises(ValueError):
            with cuheap.phase(""):
                pass


HOST = """
import ctypes, cuheap
cuda = ctypes.CDLL("libcuda.so.1")
def check(code):
    assert code == 0, code
def alloc(size):
    pointer = ctypes.c_uint64()
    check(cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size)))
    return pointer.value
check(cuda.cuInit(0))
context = ctypes.c_void_p()
check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
check(cuda.cuCtxSetCurrent(context))
assert cuheap.is_recording()
with cuheap.phase("load"):
    kept = alloc(20001)
    with cuheap.phase("warm\\u00fcp"):
        alloc(20002)
cuheap.mark("epoch")
alloc(20003)
"""


class UnderRun(unittest.TestCase):
    def test_phases_and_marks_are_in_the_timeline(self):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "run")
            cli = str(BUILD / "bin" / "cuheap")
            subprocess.run([cli, "run", "--simgpu=24GiB", "--pool", "off", "-o", out, "--", sys.executable, "-c", HOST],
                           check=True, capture_output=True, timeout=60)
            timeline = json.loads(subprocess.run([cli, "timeline", out, "--json"], check=True, capture_output=True, timeout=60).stdout)
        phases = {phase["name"]: phase for phase in timeline["phases"]}
        self.assertEqual(set(phases), {"load", "warm\u00fcp"})
        self.assertLessEqual(phases["load"]["begin_ns"], phases["warm\u00fcp"]["begin_ns"])
        self.assertGreaterEqual(phases["load"]["end_ns"], phases["warm\u00fcp"]["end_ns"])
        self.assertEqual([mark["name"] for mark in timeline["marks"]], ["epoch"])


if __name__ == "__main__":
    unittest.main()
