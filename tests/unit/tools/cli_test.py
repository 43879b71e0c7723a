"""cli_test BUILD: cuheap as a person meets it: its answers, its one line for bad input, and what it does to the program that it runs."""
import contextlib
import ctypes
import json
import os
import pathlib
import pickle
import pty
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
CUHEAP = BUILD / "bin" / "cuheap"
RECORDER = BUILD / "lib" / "libcuheap.so"
SIMGPU = BUILD / "simgpu" / "libcuda.so.1"

SNAPSHOT = {
    "segments": [{"device": 0, "address": 0x10000, "total_size": 1 << 21, "stream": 0, "is_expandable": False, "frames": [],
                  "blocks": [{"address": 0x10000, "size": 512, "requested_size": 500, "state": "active_allocated", "frames": []},
                             {"address": 0x10200, "size": (1 << 21) - 512, "requested_size": 0, "state": "inactive", "frames": []}]}],
    "device_traces": [[{"action": "alloc", "addr": 0x10200, "size": 20001, "stream": 0, "time_us": 1000,
                        "frames": [{"name": "step", "filename": "train.py", "line": 7},
                                   {"name": "<module>", "filename": "train.py", "line": 9}]},
                       {"action": "free_requested", "addr": 0x10200, "size": 20001, "stream": 0, "time_us": 2000, "frames": []},
                       {"action": "free_completed", "addr": 0x10200, "size": 20001, "stream": 0, "time_us": 2000, "frames": []},
                       {"action": "oom", "device_free": 5, "size": 1 << 40, "stream": 0, "time_us": 3000, "frames": []}]],
    "external_annotations": [{"stage": "START", "name": "load", "device": 0, "time_us": 900},
                             {"stage": "END", "name": "load", "device": 0, "time_us": 1500}],
}


def cuheap(*words, **options):
    return subprocess.run([CUHEAP, *map(str, words)], capture_output=True, text=True, timeout=120, check=False, **options)


class InFolder(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.scratch.name)

    def tearDown(self):
        self.scratch.cleanup()

    def snapshot(self, protocol=4, content=None):
        path = self.folder / "s.pickle"
        path.write_bytes(pickle.dumps(SNAPSHOT if content is None else content, protocol=protocol))
        return path

    def trace(self):
        made = cuheap("import", self.snapshot(), "-o", self.folder / "run")
        self.assertEqual(made.returncode, 0, made.stderr)
        return self.folder / "run"

    def refused(self, *words, naming):
        answer = cuheap(*words)
        self.assertEqual(answer.returncode, 2, answer.stdout + answer.stderr)
        self.assertEqual(answer.stdout, "")
        self.assertEqual(answer.stderr.count("\n"), 1, answer.stderr)
        self.assertIn(naming, answer.stderr)


class Answers(InFolder):
    def test_every_protocol_of_pickle_is_imported(self):
        for protocol in (2, 3, 4, 5):
            answer = cuheap("import", self.snapshot(protocol), "-o", self.folder / f"run{protocol}", "--json")
            self.assertEqual(answer.returncode, 0, answer.stderr)
            self.assertTrue(json.loads(answer.stdout)["check"]["passed"])

    def test_every_answer_begins_alike(self):
        trace = self.trace()
        for command in ("summary", "flame", "leaks", "frag", "oom", "timeline"):
            answer = cuheap(command, trace, "--json")
            self.assertEqual(answer.returncode, 0, f"{command}: {answer.stderr}")
            head = json.loads(answer.stdout)
            self.assertEqual(head["loss"], {"events": 0, "reasons": []})
            self.assertEqual([head["ground"], head["trace"]], ["imported", str(trace)])
            self.assertIn("cuheap", head)
            self.assertEqual(cuheap(command, trace).returncode, 0)

    def test_summary_has_the_peak_to_the_byte(self):
        answer = json.loads(cuheap("summary", self.trace(), "--json").stdout)
        floor = answer["devices"][0]["floors"]["framework"]
        self.assertEqual([floor["peak"], floor["end"], floor["allocations"], floor["frees"]], [20501, 500, 2, 1])
        self.assertEqual(answer["devices"][0]["floors"]["physical"]["peak"], 1 << 21)

    def test_flame_at_a_moment(self):
        trace = self.trace()
        self.assertIn("<module>;step 20001", cuheap("flame", trace, "--folded").stdout)
        self.assertNotIn("step", cuheap("flame", trace, "--folded", "--at", "end").stdout)
        self.assertEqual(json.loads(cuheap("flame", trace, "--json", "--at", "200us").stdout)["total"], 20501)

    def test_every_command_that_takes_a_moment_takes_the_same_ones(self):
        trace = self.trace()
        ends = {"peak": 20501, "peak:framework": 20501, "end": 500, "oom": 500, "0s": 500, "1ms": 20501, "1.1ms": 500, "1100us": 500}
        for at, live in ends.items():
            flame = json.loads(cuheap("flame", trace, "--at", at, "--json").stdout)
            frag = json.loads(cuheap("frag", trace, "--at", at, "--json").stdout)
            folded = cuheap("export", trace, "--to", "folded", "--at", at).stdout.split("\n")
            self.assertEqual(flame["total"], live, at)
            self.assertEqual(frag["floors"]["framework"]["live"], live, at)
            self.assertEqual(sum(int(line.rsplit(" ", 1)[1]) for line in folded if line), live, at)
            self.assertEqual(flame["at_ns"], frag["at_ns"], at)
        for command in (["flame"], ["frag"], ["export", "--to", "speedscope"]):
            self.refused(command[0], trace, *command[1:], "--at", "peak:cellar", naming="framework")
            self.refused(command[0], trace, *command[1:], "--at", "99s", naming="--at 99s")

    def test_a_window_has_what_was_allocated_in_it_and_lives_at_its_end(self):
        trace = self.trace()
        def total(*window):
            return json.loads(cuheap("flame", trace, *window, "--json").stdout)["total"]
        self.assertEqual(total("--from", "50us", "--to", "500us"), 20001)   # allocated at 100 us
        self.assertEqual(total("--from", "150us", "--to", "500us"), 0)
        self.assertEqual(total("--to", "500us"), 20001)                     # the other block was there before
        self.assertEqual(total("--from", "50us"), 0)                        # freed before the end
        self.assertEqual(total("--to", "100us"), 0)                         # the end of a window is not in it
        self.assertEqual(total("--to", "101us"), 20001)

    def test_a_window_of_the_timeline_has_its_samples_only(self):
        trace = self.trace()
        def times(*window):
            answer = json.loads(cuheap("timeline", trace, "--samples", "100", *window, "--json").stdout)
            return [s["t_ns"] for s in answer["samples"] if s["floor"] == "framework"], answer["width_ns"]
        whole, width = times()
        self.assertEqual([whole[0], len(whole)], [0, 100])
        part, _ = times("--from", "500us", "--to", "1ms")
        self.assertLessEqual(part[0], 500000)
        self.assertGreater(part[0] + width, 500000)
        self.assertGreater(1000000, part[-1])
        self.assertGreaterEqual(part[-1] + width, 1000000)
        self.assertEqual(part, [t for t in whole if part[0] <= t <= part[-1]])
        for command in ("flame", "timeline"):
            self.refused(command, trace, "--from", "1ms", "--to", "1ms", naming="empty")
            self.refused(command, trace, "--from", "noon", naming="--from noon")
            self.refused(command, trace, "--to", "noon", naming="--to noon")

    def test_phases_tell_memory_and_refusals_apart(self):
        content = json.loads(json.dumps(SNAPSHOT))
        content["external_annotations"][1]["time_us"] = 5000  # open to the end
        made = cuheap("import", self.snapshot(content=content), "-o", self.folder / "phased")
        self.assertEqual(made.returncode, 0, made.stderr)
        sites = json.loads(cuheap("summary", self.folder / "phased", "--json").stdout)["top_sites"]
        phases = {site["peak_bytes"]: site.get("phases") for site in sites if site["floor"] == "framework"}
        self.assertEqual(phases, {20001: [{"phase": "load", "bytes": 20001, "count": 1}], 500: None})
        self.assertIn("step (train.py:7), in load\n", cuheap("summary", self.folder / "phased").stdout)
        self.assertEqual(json.loads(cuheap("oom", self.folder / "phased", "--json").stdout)["ooms"][0]["phase"], "load")
        self.assertRegex(cuheap("oom", self.folder / "phased").stdout, "asked by .*, in load\n")
        trace = self.trace()
        self.assertIsNone(json.loads(cuheap("oom", trace, "--json").stdout)["ooms"][0]["phase"])
        self.assertNotRegex(cuheap("oom", trace).stdout, "asked by .*, in ")

    def test_timeline_has_phases_and_samples(self):
        answer = json.loads(cuheap("timeline", self.trace(), "--json").stdout)
        self.assertEqual([p["name"] for p in answer["phases"]], ["load"])
        self.assertIn(20501, [s["live_max"] for s in answer["samples"] if s["floor"] == "framework"])

    def test_oom_has_the_request(self):
        answer = json.loads(cuheap("oom", self.trace(), "--json").stdout)
        self.assertEqual([o["request"] for o in answer["ooms"]], [1 << 40])

    def test_oom_has_the_fatal_one_first_and_folds_the_others(self):
        content = json.loads(json.dumps(SNAPSHOT))
        events = content["device_traces"][0]
        events[3:] = [{"action": "oom", "device_free": 5, "size": (1 << 40) + i, "stream": 0, "time_us": 3000 + i, "frames": []}
                      for i in range(20)]
        made = cuheap("import", self.snapshot(content=content), "-o", self.folder / "run")
        self.assertEqual(made.returncode, 0, made.stderr)
        text = cuheap("oom", self.folder / "run").stdout
        self.assertEqual(text.count("refused on device"), 1, text)
        self.assertRegex(text, r"\n  19 \w+, asked by .*1\.00 TiB, from ")
        self.assertIn(f"cuheap frag {self.folder / 'run'} --at oom", text)

    def test_the_moment_of_the_last_oom_has_a_name(self):
        trace = self.trace()
        ooms = json.loads(cuheap("oom", trace, "--json").stdout)["ooms"]
        for command in ("frag", "flame"):
            answer = json.loads(cuheap(command, trace, "--at", "oom", "--json").stdout)
            self.assertEqual(answer["at_ns"], ooms[-1]["at_ns"], command)

    def test_report_is_one_file(self):
        answer = cuheap("report", self.trace(), "-o", self.folder / "page.html")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("page.html", answer.stdout)
        self.assertGreater((self.folder / "page.html").stat().st_size, 10000)
        self.assertEqual([p.name for p in self.folder.iterdir() if p.name.endswith(".part")], [])

    def test_dump_has_a_line_a_record(self):
        lines = cuheap("dump", self.trace()).stdout.splitlines()
        self.assertEqual(len([line for line in lines if " allocate " in line]), 3)
        self.assertEqual(len([line for line in lines if line.startswith("site ")]), 2)

    def test_losses_come_first(self):
        trace = self.trace()
        path = next(trace.iterdir())
        path.write_bytes(path.read_bytes()[:-7])
        for command in ("summary", "flame", "leaks", "frag", "oom", "timeline"):
            self.assertTrue(cuheap(command, trace).stdout.startswith("LOST: "), command)
        self.assertTrue(json.loads(cuheap("summary", trace, "--json").stdout)["loss"]["reasons"])


class BadInput(InFolder):
    def test_no_trace(self):
        self.refused("summary", self.folder / "none", naming="none: No such file or directory; name a trace file, or a run directory")
        self.refused("summary", self.folder, naming="no .cuheap file")
        self.refused("summary", "/dev/null", naming="not a regular file")
        self.refused("summary", CUHEAP, naming="not a cuheap trace")

    def test_future_version(self):
        trace = next(self.trace().iterdir())
        content = bytearray(trace.read_bytes())
        content[8] = 99
        trace.write_bytes(content)
        self.refused("summary", trace, naming="version 99")

    def test_words(self):
        self.refused(naming="no command")
        self.refused("sumary", "x", naming="no such command")
        self.refused("summary", naming="TRACE is required")
        self.refused("summary", "x", "--jason", naming="--jason")
        self.refused("summary", "x", "y", "z", naming="not expected: y z")
        self.refused("run", "./lru", "20", naming="put -- before the program: cuheap run -- ./lru 20")
        self.refused("run", naming="no program")
        self.refused("summary", "x", "--", "y", naming="takes no program")
        self.refused("run", "--pool", "maybe", "--", "true", naming="--pool")
        self.refused("run", "--simgpu=b9000", "--", "true", naming="h100-80g")
        self.refused("rehearse", "--on", "b9000", "--", "true", naming="h100-80g")
        self.refused("run", "--simgpu=24", "--", "true", naming="did you mean 24GiB?")

    def test_values(self):
        trace = self.trace()
        self.refused("flame", trace, "--at", "noon", naming="--at noon")
        self.refused("frag", trace, "--at", "99s", naming="--at 99s")
        self.refused("report", trace, "-o", self.folder, naming="is a directory")
        self.refused("flame", trace, "--floor", "cellar", naming="framework")
        for command in ("summary", "flame", "leaks", "frag"):
            self.refused(command, trace, "--floor", "allocation", naming="run has no allocation floor; it has physical, framework")
            self.assertEqual(cuheap(command, trace, "--floor", "framework").returncode, 0, command)
        self.refused("flame", trace, "--device", "7", naming="--device 7")
        self.refused("flame", trace, "--from", "2s", "--to", "1s", naming="empty")
        self.refused("export", trace, "--to", "gif", naming="--to")
        self.refused("report", trace, "-o", "/nowhere/page.html", naming="/nowhere/page.html")

    def test_no_moment_of_an_oom_without_one(self):
        content = json.loads(json.dumps(SNAPSHOT))
        del content["device_traces"][0][3]
        made = cuheap("import", self.snapshot(content=content), "-o", self.folder / "run")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.refused("frag", self.folder / "run", "--at", "oom", naming="nothing ran out of memory")

    def test_truncated_snapshots(self):
        whole = self.snapshot().read_bytes()
        for size in (0, 1, 2, 10, len(whole) // 2, len(whole) - 1):
            path = self.folder / "cut.pickle"
            path.write_bytes(whole[:size])
            self.refused("import", path, "-o", self.folder / "run", naming="cut.pickle")
        self.assertFalse((self.folder / "run").exists(), "a refused import leaves nothing behind")

    def test_snapshots_that_would_run_code(self):
        class Bomb:
            def __reduce__(self):
                return (os.system, ("touch ran",))
        for protocol in (2, 4):
            self.refused("import", self.snapshot(protocol, {"segments": [Bomb()]}), "-o", self.folder / "run", naming="refused")
        self.assertFalse(pathlib.Path("ran").exists())

    def test_other_kinds_of_files(self):
        for content, naming in ((b"{}", "JSON"), (b"PK\x03\x04", "zip"), (b"\x1f\x8b\x08", "gzip"), (b"cuheap\r\n", "already")):
            path = self.folder / "other"
            path.write_bytes(content)
            self.refused("import", path, "-o", self.folder / "run", naming=naming)

    def test_an_import_overwrites_nothing(self):
        self.trace()
        self.refused("import", self.folder / "s.pickle", "-o", self.folder / "run", naming="already there")


class Running(InFolder):
    def run_program(self, *words, **options):
        return cuheap("run", "-o", self.folder / "run", "--", *words, **options)

    def test_the_exit_status_is_the_programs(self):
        self.assertEqual(self.run_program("sh", "-c", "exit 7").returncode, 7)

    def test_a_death_by_signal_is_one_for_whoever_waits(self):
        self.assertEqual(self.run_program("sh", "-c", "kill -TERM $$").returncode, -signal.SIGTERM)
        shell = f'"{CUHEAP}" run -q -o "{self.folder}/run" -- sh -c "kill -KILL \\$\\$"; echo $?'
        self.assertEqual(subprocess.run(["sh", "-c", shell], capture_output=True, text=True).stdout, "137\n")

    def test_a_missing_program_is_127(self):
        answer = self.run_program("/nowhere/program")
        self.assertEqual(answer.returncode, 127)
        self.assertIn("/nowhere/program: command not found", answer.stderr)

    def test_a_program_that_cannot_be_started_is_told_from_a_missing_one(self):
        (self.folder / "train.py").write_text("print(1)")
        for name in ("train.py", "./train.py"):
            answer = cuheap("run", "-o", self.folder / "run", "--", name, cwd=self.folder)
            self.assertIn(f"{name}: exists but is not executable; python {name}?", answer.stderr)
            self.assertIn(answer.returncode, (126, 127))

    def test_a_directory_is_no_program(self):
        answer = self.run_program(self.folder)
        self.assertEqual([answer.returncode, answer.stdout], [126, ""])
        self.assertIn(f"{self.folder}: is a directory", answer.stderr)
        self.assertNotIn("Permission denied", answer.stderr)

    def test_a_quiet_run_without_cuda_leaves_nothing_either(self):
        answer = cuheap("run", "-q", "-o", self.folder / "run", "--", "true")
        self.assertEqual([answer.returncode, answer.stderr], [0, ""])
        self.assertFalse((self.folder / "run").exists())

    def test_stdout_is_the_programs_alone(self):
        self.assertEqual(self.run_program("echo", "--json", "-o", "", "x").stdout, "--json -o  x\n")

    def test_stdin_reaches_the_program(self):
        self.assertEqual(self.run_program("cat", input="in").stdout, "in")

    def test_a_program_without_cuda_leaves_nothing(self):
        self.assertIn("never initialised CUDA", self.run_program("true").stderr)
        self.assertFalse((self.folder / "run").exists())

    def test_a_program_that_failed_before_cuda_is_not_said_to_do_without(self):
        for script, how in (("exit 127", "the program ended with 127 before"), ("kill -9 $$", "the program was ended by signal 9 before")):
            lines = self.run_program("sh", "-c", script).stderr
            self.assertIn(f"no trace: {how} it initialised CUDA", lines)
            self.assertNotIn("never", lines)

    def test_a_machine_without_a_driver_has_the_make_believe_gpu_named(self):
        there = cuheap("run", "-o", self.folder / "run", "--", "true", env={**os.environ, "LD_LIBRARY_PATH": str(SIMGPU.parent)})
        self.assertNotIn("no NVIDIA driver", there.stderr)
        self.assertNotIn("no NVIDIA driver", cuheap("run", "--simgpu", "-o", self.folder / "run", "--", "true").stderr)
        try:
            ctypes.CDLL("libcuda.so.1")
        except OSError:
            self.assertIn("no NVIDIA driver here: add --simgpu=24GiB", self.run_program("true").stderr)

    def test_an_unwritable_directory_does_not_stop_the_program(self):
        answer = cuheap("run", "-o", "/proc/nowhere", "--", "sh", "-c", "echo works; echo much more >&2; exit 3")
        self.assertEqual([answer.returncode, answer.stdout], [3, "works\n"])
        first, programs_own, last = answer.stderr.splitlines()
        self.assertIn("runs as without cuheap: cannot make /proc/nowhere", first)
        self.assertEqual(programs_own, "much more")
        self.assertIn("nothing was recorded: cannot make /proc/nowhere", last)  # the first one is far up by then
        for line in (first, last):
            self.assertIn("name another directory with -o", line)
        quiet = cuheap("run", "-q", "-o", "/proc/nowhere", "--", "true")
        self.assertEqual(quiet.stderr.count("\n"), 1, quiet.stderr)

    def test_signals_reach_the_program(self):
        script = "trap 'echo got; exit 5' TERM; echo ready; while :; do sleep 0.05; done"
        with subprocess.Popen([CUHEAP, "run", "-o", self.folder / "run", "--", "sh", "-c", script], stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.DEVNULL) as process:
            self.assertEqual(process.stdout.readline(), "ready\n")
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.stdout.read(), "got\n")
            self.assertEqual(process.wait(timeout=20), 5)

    # Counts its signals; SIGUSR2 asks for the counts.
    COUNTER = """
import signal, sys, time
counts = dict.fromkeys(("SIGINT", "SIGTERM", "SIGHUP", "SIGCONT", "SIGUSR1"), 0)
def count(number, frame):
    counts[signal.Signals(number).name] += 1
for name in counts:
    signal.signal(getattr(signal, name), count)
signal.signal(signal.SIGUSR2, lambda *_: print(*(name for name in counts for _ in range(counts[name])), flush=True))
print("ready", flush=True)
while True:
    time.sleep(10)
"""

    @contextlib.contextmanager
    def counter(self):
        """The program under `cuheap run` in a process group of its own, as a shell's job; and a function that asks it."""
        path = self.folder / "counter.py"
        path.write_text(self.COUNTER)
        with subprocess.Popen([CUHEAP, "run", "-q", "-o", self.folder / "run", "--", sys.executable, path], stdout=subprocess.PIPE,
                              text=True, stderr=subprocess.DEVNULL, preexec_fn=os.setpgrp) as process:
            try:
                self.assertEqual(process.stdout.readline(), "ready\n")

                def ask():
                    time.sleep(0.2)
                    process.send_signal(signal.SIGUSR2)
                    self.assertTrue(select.select([process.stdout], [], [], 20)[0], "no answer")
                    return process.stdout.readline().split()

                yield process, ask
            finally:
                os.killpg(process.pid, signal.SIGKILL)

    def test_a_signal_to_the_group_comes_once(self):
        with self.counter() as (process, ask):
            os.killpg(process.pid, signal.SIGINT)
            self.assertEqual(ask(), ["SIGINT"])
            os.killpg(process.pid, signal.SIGTERM)
            os.killpg(process.pid, signal.SIGHUP)
            self.assertEqual(ask(), ["SIGINT", "SIGTERM", "SIGHUP"])

    def test_a_signal_to_us_alone_comes_once(self):
        with self.counter() as (process, ask):
            process.send_signal(signal.SIGTERM)
            self.assertEqual(ask(), ["SIGTERM"])
            os.killpg(process.pid, signal.SIGTERM)
            self.assertEqual(ask(), ["SIGTERM", "SIGTERM"])
            process.send_signal(signal.SIGTERM)
            process.send_signal(signal.SIGUSR1)
            self.assertEqual(ask(), ["SIGTERM", "SIGTERM", "SIGTERM", "SIGUSR1"])

    def test_a_key_at_the_terminal_comes_once(self):
        path = self.folder / "counter.py"
        path.write_text(self.COUNTER)
        pid, terminal = pty.fork()
        if pid == 0:
            os.execv(CUHEAP, [CUHEAP, "run", "-q", "-o", str(self.folder / "run"), "--", sys.executable, str(path)])
        try:
            with os.fdopen(terminal, "rb+", buffering=0) as console:
                self.assertEqual(console.readline(), b"ready\r\n")
                console.write(b"\x03")
                time.sleep(0.2)
                os.kill(pid, signal.SIGUSR2)
                self.assertEqual(console.readline().replace(b"^C", b""), b"SIGINT\r\n")
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    @staticmethod
    def program_of(process):
        """Our child that is not the witness."""
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii").split()
        return next(int(pid) for pid in children
                    if pathlib.Path(f"/proc/{pid}/comm").read_text(encoding="utf-8") != "cuheap-witness\n")

    def wait_for_stop(self, process):
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            changed, status = os.waitpid(process.pid, os.WUNTRACED | os.WNOHANG)
            if changed != 0:
                self.assertTrue(os.WIFSTOPPED(status), f"ended with {status}")
                return
            time.sleep(0.01)
        self.fail("still running")

    @contextlib.contextmanager
    def script(self, text):
        """A shell script under `cuheap run` in a process group of its own, which ends with the block."""
        with subprocess.Popen([CUHEAP, "run", "-q", "-o", self.folder / "run", "--", "sh", "-c", text], stdout=subprocess.PIPE,
                              text=True, preexec_fn=os.setpgrp) as process:
            try:
                yield process
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    def test_a_stop_at_the_terminal_stops_us_too_and_fg_wakes_both(self):
        with self.counter() as (process, ask):
            for woken in (["SIGCONT"], ["SIGCONT", "SIGCONT"]):
                os.killpg(process.pid, signal.SIGTSTP)
                self.wait_for_stop(process)
                os.killpg(process.pid, signal.SIGCONT)
                self.assertEqual(ask(), woken)

    def test_a_stop_of_the_program_alone_is_seen_by_whoever_waits(self):
        with self.script("kill -STOP $$; echo woken") as process:
            self.wait_for_stop(process)
            process.send_signal(signal.SIGCONT)
            self.assertEqual(process.communicate(timeout=20)[0], "woken\n")
            self.assertEqual(process.returncode, 0)

    def test_we_wake_with_the_program_if_it_alone_is_woken(self):
        with self.script("echo $$; kill -STOP $$; exit 5") as process:
            program = int(process.stdout.readline())
            self.wait_for_stop(process)
            os.kill(program, signal.SIGCONT)
            self.assertEqual(process.wait(timeout=20), 5)

    def test_we_wake_when_the_stopped_program_is_killed(self):
        with self.script("echo $$; kill -STOP $$") as process:
            program = int(process.stdout.readline())
            self.wait_for_stop(process)
            os.kill(program, signal.SIGKILL)
            self.assertEqual(process.wait(timeout=20), -signal.SIGKILL)

    def test_a_stop_and_wake_of_the_program_alone_may_come_again(self):
        with self.counter() as (process, ask):
            os.kill(process.pid, signal.SIGUSR1)  # passed on as ever
            program = self.program_of(process)
            for woken in (1, 2):
                os.kill(program, signal.SIGSTOP)
                self.wait_for_stop(process)
                os.kill(program, signal.SIGCONT)
                self.assertEqual(ask(), ["SIGCONT"] * woken + ["SIGUSR1"])
            # One sent to us alone is passed on as before.
            process.send_signal(signal.SIGCONT)
            self.assertEqual(ask(), ["SIGCONT"] * 3 + ["SIGUSR1"])

    def test_a_killed_recorder_leaves_no_program_behind(self):
        with subprocess.Popen([CUHEAP, "run", "-o", self.folder / "run", "--", "sh", "-c", "echo $$; exec sleep 60"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            self.assertNotEqual(process.stdout.readline(), "")
            killed = time.monotonic()
            process.kill()
            # The pipe ends when nobody can write to it any more: the program is gone.
            self.assertEqual(process.stdout.read(), "")
            self.assertLess(time.monotonic() - killed, 30)

    def test_the_programs_signal_state_is_untouched(self):
        bare = subprocess.run(["grep", "^Sig[BIC]", "/proc/self/status"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(self.run_program("grep", "^Sig[BIC]", "/proc/self/status").stdout, bare)

    @unittest.skipUnless(RECORDER.exists(), "libcuheap.so is not built")
    def test_a_second_run_gets_a_directory_of_its_own(self):
        (self.folder / "run").mkdir()
        (self.folder / "run" / "old.cuheap").write_bytes(b"")
        answer = self.run_program("sh", "-c", "echo $CUHEAP_DIR")
        self.assertEqual(answer.stdout, f"{self.folder}/run-2\n")
        self.assertIn("earlier run", answer.stderr)

    @unittest.skipUnless(RECORDER.exists(), "libcuheap.so is not built")
    def test_an_existing_preload_stays_behind_ours(self):
        answer = self.run_program("sh", "-c", "echo $LD_PRELOAD", env={**os.environ, "LD_PRELOAD": "libm.so.6"})
        self.assertEqual(answer.stdout, f"{RECORDER}:libm.so.6\n")

    @unittest.skipUnless(shutil.which("cc") and RECORDER.exists(), "no compiler, or libcuheap.so is not built")
    def test_a_program_built_with_address_sanitizer_starts(self):
        source = self.folder / "clean.c"
        source.write_text('#include <stdio.h>\nint main(void) { puts("started"); return 0; }\n')
        built = subprocess.run(["cc", "-fsanitize=address", source, "-o", self.folder / "clean"], capture_output=True)
        if built.returncode != 0:
            self.skipTest("the compiler has no AddressSanitizer")
        answer = self.run_program(self.folder / "clean", env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"})
        self.assertEqual((answer.returncode, answer.stdout), (0, "started\n"), answer.stderr)


@unittest.skipUnless(RECORDER.exists() and SIMGPU.exists(), "libcuheap.so and simgpu are not built")
class OnTheMakeBelieveGpu(InFolder):
    # Any CUDA program will do; the interpreter is at hand and needs no compiler.
    PROGRAM = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, device, pointer = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0
cuda.cuDeviceGet(ctypes.byref(device), 0)
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
cuda.cuCtxSetCurrent(context)
status, blocks = 0, []
for size in map(int, sys.argv[1:]):  # not positive: the block of that number goes
    if size <= 0:
        status |= cuda.cuMemFree_v2(ctypes.c_uint64(blocks[-size]))
        continue
    status |= cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size))
    blocks.append(pointer.value)
print("status", status)
"""

    def program(self, *sizes):
        path = self.folder / "program.py"
        path.write_text(self.PROGRAM)
        return [sys.executable, path, *sizes]

    def test_a_run_is_recorded_and_summed_up(self):
        answer = cuheap("run", "--simgpu=24GiB", "--pool", "off", "-o", self.folder / "run", "--", *self.program(20001, 40003))
        self.assertEqual([answer.returncode, answer.stdout], [0, "status 0\n"], answer.stderr)
        self.assertIn("cuheap report", answer.stderr)
        summary = json.loads(cuheap("summary", self.folder / "run", "--json").stdout)
        self.assertEqual(summary["ground"], "simulated")
        self.assertEqual(summary["devices"][0]["floors"]["allocation"]["peak"], 60004)

    def test_a_program_that_leaves_without_a_word_takes_no_more_of_the_disk_than_it_wrote(self):
        path = self.program()[1]
        for how in ("os._exit(0)", "os.kill(os.getpid(), 9)", "sys.exit()"):
            path.write_text(self.PROGRAM + "import os\n" + how)
            run = self.folder / how[:7]
            cuheap("run", "-q", "--simgpu=24GiB", "--pool", "off", "-o", run, "--", sys.executable, path, 20001)
            [trace] = run.iterdir()
            self.assertLess(trace.stat().st_blocks * 512, 200_000, how)
            self.assertLess(trace.stat().st_size, 1_000_000, how)
            answer = json.loads(cuheap("summary", run, "--json").stdout)
            self.assertEqual(answer["devices"][0]["floors"]["allocation"]["peak"], 20001, how)
            self.assertEqual(answer["loss"], {"events": 0, "reasons": []}, how)

    def test_a_staged_run_ends_up_in_its_directory(self):
        local = self.folder / "local"
        local.mkdir()
        answer = cuheap("run", "-q", "--stage", "--simgpu=24GiB", "--pool", "off", "-o", self.folder / "run", "--", *self.program(20001),
                        env={**os.environ, "TMPDIR": str(local)})
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn(f"recording into {local}/cuheap-", answer.stderr)
        self.assertEqual(list(local.iterdir()), [])
        [trace] = (self.folder / "run").iterdir()
        self.assertLess(trace.stat().st_blocks * 512, 200_000)
        summary = json.loads(cuheap("summary", self.folder / "run", "--json").stdout)
        self.assertEqual(summary["devices"][0]["floors"]["allocation"]["peak"], 20001)

    def test_a_staged_trace_that_is_still_written_stays_where_it_is(self):
        local = self.folder / "local"
        local.mkdir()
        path = self.program()[1]
        # The shell ends, the program that it started does not.
        path.write_text(self.PROGRAM + "sys.stdout.close()\nimport os, time\nopen(sys.argv[0] + '.ready', 'w').close()\n"
                        "while not os.path.exists(sys.argv[0] + '.go'): time.sleep(0.01)\n")
        script = f'"{sys.executable}" "{path}" 20001 >/dev/null 2>&1 & while [ ! -e "{path}.ready" ]; do sleep 0.05; done'
        answer = cuheap("run", "-q", "--stage", "--simgpu=24GiB", "--pool", "off", "-o", self.folder / "run", "--", "sh", "-c", script,
                        env={**os.environ, "TMPDIR": str(local)})
        try:
            self.assertIn("is still being written", answer.stderr)
            [folder] = local.iterdir()
            self.assertEqual(len(list(folder.glob("*.cuheap"))), 1)
            self.assertFalse(any((self.folder / "run").glob("*")) if (self.folder / "run").exists() else False)
        finally:
            pathlib.Path(f"{path}.go").touch()
            time.sleep(0.3)

    def pooled(self, *sizes):
        name = self.folder / f"run{len(sizes)}"
        answer = cuheap("run", "-q", "--simgpu=24GiB", "--pool", "on", "-o", name, "--", *self.program(*sizes))
        self.assertEqual([answer.returncode, answer.stdout], [0, "status 0\n"], answer.stderr)
        return json.loads(cuheap("frag", name, "--at", "end", "--json").stdout)["floors"]["allocation"]

    def test_where_cuheaps_own_pool_has_memory_is_known(self):
        block = 8 << 20
        floor = self.pooled(*[block] * 8, 0, -2, -4)
        self.assertTrue(floor["segments_known"])
        self.assertEqual([floor["segment_bytes"], floor["idle_bytes"], floor["largest_hole"]], [8 * block, 3 * block, block])
        # What it moved to make room is where it was moved to.
        floor = self.pooled(*[block] * 8, 0, -2, -4, 3 * block)
        self.assertEqual([floor["segment_bytes"], floor["idle_bytes"], floor["largest_hole"]], [8 * block, 0, 0])
        self.assertEqual(floor["live"], 8 * block)

    def test_the_pool_that_came_unasked_is_named(self):
        block = 8 << 20
        for words, pool, line in (([], [True, "auto"],
                                   "pool: on (auto, as always on simgpu); --pool off shows what CUDA alone would hold\n"),
                                  (["--pool", "on"], [True, "on"], "pool: on (--pool on); --pool off"),
                                  (["--pool", "off"], [False, "off"], None)):
            name = self.folder / f"run{len(words)}{words[-1:]}"
            answer = cuheap("run", "--simgpu=24GiB", *words, "-o", name, "--", *self.program(block))
            process = json.loads(cuheap("summary", name, "--json").stdout)["processes"][0]
            self.assertEqual([process["pool"], process["pool_mode"]], pool, words)
            for text in (answer.stderr, cuheap("summary", name).stdout):
                self.assertIn(line or "floor", text)
                self.assertEqual("pool: on" in text, line is not None, text)
        [process] = json.loads(cuheap("summary", self.trace(), "--json").stdout)["processes"]
        self.assertEqual([process["pool"], process["pool_mode"]], [False, None])

    def test_a_python_program_without_python_frames_is_told_so(self):
        cuheap("run", "-q", "--simgpu=24GiB", "-o", self.folder / "run", "--", *self.program(20001))
        text = cuheap("summary", self.folder / "run").stdout
        python = json.loads(cuheap("summary", self.folder / "run", "--json").stdout)["processes"][0]["python"]
        self.assertEqual("Python frames are not recorded yet" in text, python is not None, text)

    def test_another_build_of_the_program_is_a_note_on_stderr(self):
        shell = self.folder / "python"
        shell.write_bytes(pathlib.Path(sys.executable).resolve().read_bytes())
        shell.chmod(0o755)
        words = self.program(20001)[1:]
        cuheap("run", "-q", "--simgpu=24GiB", "-o", self.folder / "run", "--", shell, *words,
               env={**os.environ, "PYTHONHOME": sys.base_prefix})
        shell.unlink()
        for command in (["summary"], ["flame"], ["flame", "--folded"], ["leaks"], ["frag"], ["oom"], ["timeline"], ["dump"],
                        ["export", "--to", "folded"]):
            answer = cuheap(command[0], self.folder / "run", *command[1:])
            self.assertEqual(answer.returncode, 0, answer.stderr)
            notes = [line for line in answer.stderr.splitlines() if line.startswith("note: ")]
            self.assertEqual(len([line for line in notes if f"{shell} is not on this machine" in line]), 1, (command, answer.stderr))
            self.assertNotIn("note: ", answer.stdout)

    def test_a_leak_on_the_make_believe_gpu_is_told_by_its_births_first(self):
        # Every tenth of 600 blocks stays.
        words = [size for i in range(600) for size in ((20001,) if i % 10 == 5 else (20001, -i or "-0"))]
        cuheap("run", "-q", "--simgpu=24GiB", "--pool", "off", "-o", self.folder / "run", "--", *self.program(*words))
        text = cuheap("leaks", self.folder / "run").stdout
        verdict = json.loads(cuheap("leaks", self.folder / "run", "--json").stdout)["verdicts"][0]
        self.assertEqual(verdict["verdict"], "leak", text)
        rate = next(line for line in text.splitlines() if "(95 %" in line)
        self.assertRegex(rate, r"^ +\S+ KiB per \d+ births at this site, .*/s in simulated time \(95 % in this run: ")
        self.assertRegex(rate, r"; out of memory in .* of it$")
        self.assertIn("no kernel ran", text)
        whole = cuheap("leaks", self.folder / "run", "--stacks").stdout
        self.assertNotIn("more; --stacks has all", whole)
        for frame in verdict["site"]["frames"]:
            self.assertIn(frame["file"] or frame["module"], whole)
        self.assertGreater(whole.count("\n"), text.count("\n"))

    def test_a_rehearsal_says_where_else_it_fits(self):
        answer = cuheap("rehearse", "--on", "a100-40g", "-o", self.folder / "run", "--json", "--", *self.program(20 << 30))
        self.assertEqual(answer.returncode, 0, answer.stderr)
        result = json.loads(answer.stdout)
        self.assertTrue(result["fits"])
        self.assertGreaterEqual(result["needs"][0]["need"], 20 << 30)
        fits = {row["device"]: row["fits"] for row in result["would_fit"]}
        self.assertEqual([fits["t4"], fits["h200"]], [False, True])

    def test_a_rehearsal_that_does_not_fit_says_so(self):
        answer = cuheap("rehearse", "--on", "t4", "-o", self.folder / "run", "--", *self.program(1 << 30, 20 << 30))
        self.assertEqual(answer.stdout, "status 2\n")
        self.assertIn("DOES NOT FIT", answer.stderr)
        self.assertIn("simulated on t4", answer.stderr)


if __name__ == "__main__":
    unittest.main(argv=["cli_test", *sys.argv[1:]])
