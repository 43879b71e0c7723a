#!/usr/bin/env python3
"""Runs a PyTorch script three times on the make-believe GPU - bare, under cuheap without its pool, under cuheap with it - and checks that

  * the script prints the same lines each time;
  * cuheap's framework floor equals PyTorch's own statistics to the byte: peak, allocations, frees, out-of-memories.

    compare_run.py [--device SPEC] BUILD PYTHON SCRIPT [ARGUMENTS...]

The script's last line is "statistics {...}" (see examples/train_gpt.py), printed when it has let go of its tensors:
what Python frees at exit is in the trace and not in the line. Prints one line; exit code 1 on any difference."""
import argparse
import difflib
import json
import pathlib
import sys
import tempfile

from simulated import Build, Failed


def statistics_of(output, script):
    lines = [line for line in output.splitlines() if line.startswith("statistics ")]
    if not lines:
        raise Failed(f"{script} prints no line 'statistics {{...}}': nothing to compare the framework floor with")
    return json.loads(lines[-1].removeprefix("statistics "))


def same_lines(expected, actual, names):
    if expected == actual:
        return
    difference = difflib.unified_diff(expected.splitlines(), actual.splitlines(), *names, lineterm="", n=0)
    raise Failed("printed lines differ:\n  " + "\n  ".join(list(difference)[:20]))


def check_floor(build, trace, statistics, mode):
    summary = build.json("summary", trace)
    if summary["loss"]["events"]:
        raise Failed(f"{mode}: the trace lost {summary['loss']['events']} events: {summary['loss']['reasons']}")
    floors = [device["floors"]["framework"] for device in summary["devices"] if "framework" in device["floors"]]
    if len(floors) != 1:
        raise Failed(f"{mode}: the summary shows the framework floor of {len(floors)} devices, not of one")
    seen = {name: floors[0][name] for name in ("peak", "allocations", "frees", "ooms")}
    wrong = [f"{name}: PyTorch {statistics[name]}, cuheap {seen[name]}" for name in seen if seen[name] != statistics[name]]
    if wrong:
        raise Failed(f"{mode}: the framework floor differs: " + "; ".join(wrong))


def compare(arguments):
    build = Build(arguments.build)
    command = [arguments.python, *arguments.script]
    name = pathlib.Path(arguments.script[0]).name + "".join(f" {a}" for a in arguments.script[1:])
    bare = build.bare(command, arguments.device)
    statistics = statistics_of(bare, name)
    with tempfile.TemporaryDirectory(prefix="cuheap-torch-") as folder:
        for mode, pool in (("direct", "off"), ("pool", "on")):
            trace = pathlib.Path(folder) / mode
            flags = ["-o", str(trace), "--pool", pool, f"--simgpu={arguments.device}"]
            same_lines(bare, build.through("run", flags, command), ("bare", mode))
            check_floor(build, trace, statistics, mode)
    return (f"{name}: bare = direct = pool, framework floor equal: peak {statistics['peak']:,} bytes, "
            f"{statistics['allocations']:,} allocations, {statistics['frees']:,} frees, {statistics['ooms']} ooms")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="l40s", help="a device of simgpu's table, or a size such as 24GiB")
    parser.add_argument("build")
    parser.add_argument("python")
    parser.add_argument("script", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    if not arguments.script:
        parser.error("no script given")
    try:
        print(compare(arguments))
    except Failed as failure:
        sys.exit(f"compare_run: {pathlib.Path(arguments.script[0]).name}: {failure}")


if __name__ == "__main__":
    main()
