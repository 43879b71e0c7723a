#!/usr/bin/env python3
"""Rehearses a public training script whose runs on a real GPU left memory snapshots, and compares what PyTorch writes on
the make-believe GPU with those recordings: the same events of the same size in the same order, peak reserved equal or
within one segment.

    rehearse_real.py BUILD PYTHON [--bare] [--on DEVICE] [RUN...]

The recordings are not part of the project: $CUHEAP_REAL_DATA (default ../shared/data beside the checkout); without them this says so and
succeeds. --bare leaves cuheap out and tests simgpu alone. Exit code 1 on any difference."""
import argparse
import os
import pathlib
import sys
import tempfile

from simulated import Build, Failed
from snapshots import Snapshot, differing

COMMON = ("--d_model 1024 --d_ff 4096 --num_layers 24 --num_heads 16 --memory-profiler pytorch --model_name medium "
          "--warmup-steps 5").split()
RUNS = {
    "medium_256_training": "--context_length 256 --pattern full-training-step",
    "medium_512_training": "--context_length 512 --pattern full-training-step --autocast true",
    "medium_256_inference": "--context_length 256 --pattern forward-only",
    "medium_1024_inference": "--context_length 1024 --pattern forward-only",
}


def real_data():
    beside = pathlib.Path(__file__).resolve().parents[2].parent / "shared" / "data"
    return pathlib.Path(os.environ.get("CUHEAP_REAL_DATA", beside))


def rehearse(build, python, data, run, mode, device, folder):
    """The snapshot that PyTorch wrote in this rehearsal."""
    command = [python, str(data / "rehearsal" / "train.py"), *COMMON, *RUNS[run].split()]
    if mode == "bare":
        build.bare(command, device, folder)
    else:
        trace = pathlib.Path(folder) / "trace"
        build.through("rehearse", ["--on", device, "--pool", mode, "-o", str(trace)], command, folder)
    return Snapshot(pathlib.Path(folder) / f"{run}_memory_snapshot.pickle")


def check(real, rehearsed):
    """One line about what is equal; Failed with what is not."""
    wrong = differing(real, rehearsed)
    if wrong:
        raise Failed(f"{wrong:,} of {len(real.events):,} events differ")
    reserved, real_reserved = rehearsed.peak_reserved(), real.peak_reserved()
    if abs(reserved - real_reserved) > real.largest_segment():
        raise Failed(f"peak reserved is {reserved:,} bytes, on the real GPU {real_reserved:,}")
    peaks = "peak reserved equal"
    if reserved != real_reserved:
        peaks = f"peak reserved {reserved - real_reserved:+,} bytes (within one segment)"
    allocated = rehearsed.peak_allocated() - real.peak_allocated()
    return f"{len(real.events):,} events, all equal; {peaks}; peak allocated " + ("equal" if allocated == 0 else f"{allocated:+,} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("python")
    parser.add_argument("runs", nargs="*", metavar="RUN", help=f"of {', '.join(RUNS)}")
    parser.add_argument("--bare", action="store_true")
    parser.add_argument("--on", default="l40s", metavar="DEVICE")
    arguments = parser.parse_intermixed_args()
    unknown = set(arguments.runs) - set(RUNS)
    if unknown:
        parser.error(f"no run named {', '.join(sorted(unknown))}")
    data = real_data()
    if not (data / "rehearsal" / "train.py").exists():
        print(f"rehearsals skipped: no recordings of a real GPU in {data} (set CUHEAP_REAL_DATA)")
        return
    failures = 0
    events = 0
    for run in arguments.runs or RUNS:
        real = Snapshot(data / "pytorch_snapshots" / f"{run}_memory_snapshot.pickle")
        for mode in ["bare"] if arguments.bare else ["off", "on"]:
            name = f"{run} on {arguments.on}, " + (mode if mode == "bare" else f"pool {mode}")
            try:
                with tempfile.TemporaryDirectory(prefix="cuheap-rehearse-") as folder:
                    rehearsed = rehearse(Build(arguments.build), arguments.python, data, run, mode, arguments.on, folder)
                print(f"{name}: {check(real, rehearsed)}", flush=True)
                events += len(rehearsed.events)
            except Failed as failure:
                failures += 1
                print(f"{name}: {failure}", file=sys.stderr, flush=True)
    if failures:
        sys.exit(f"rehearse_real: {failures} rehearsals differ from the real GPU")
    print(f"rehearsals: {events:,} events of simulated runs equal those of the real GPU")


if __name__ == "__main__":
    main()
