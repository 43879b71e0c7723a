"""kill_test BUILD ROUNDS: SIGKILL of a recording process at random moments: every trace opens, and nothing that a thread had
finished is missing from it."""
import collections
import csv
import io
import os
import pathlib
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time

THREADS = 4


def counted(path):
    """Finished calls of each thread, as the dead process left them."""
    data = pathlib.Path(path).read_bytes()
    return [struct.unpack_from("<Q", data, 64 * i)[0] for i in range(THREADS)]


def one_round(build, folder, delay):
    """What was wrong with one killed recording (empty: nothing), and how many events it held."""
    run, counters = os.path.join(folder, "run"), os.path.join(folder, "counters")
    os.mkdir(run)
    environment = dict(os.environ, LD_PRELOAD=str(build / "lib/libcuheap.so"), LD_LIBRARY_PATH=str(build / "simgpu"),
                       CUHEAP_DIR=run, CUHEAP_POOL="off", SIMGPU_DEVICES="24GiB")
    with open(os.path.join(folder, "stderr"), "w+") as errors:
        host = subprocess.Popen([str(build / "tests/kill/kill_host"), counters], env=environment, stderr=errors)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and host.poll() is None:
            if os.path.exists(counters) and os.path.getsize(counters) >= 64 * THREADS and sum(counted(counters)) > 0:
                break
            time.sleep(0.001)
        time.sleep(delay)
        if host.poll() is not None:
            errors.seek(0)
            return f"the host ended by itself with {host.returncode}: {errors.read()[:300]}", 0
        host.send_signal(signal.SIGKILL)
        host.wait()
    exported = subprocess.run([str(build / "bin/cuheap"), "export", run, "--to", "csv"], capture_output=True, text=True, timeout=120)
    if exported.returncode != 0:
        return f"the trace does not open: {exported.stderr.strip()[:300]}", 0
    seen, thread_of = collections.Counter(), {}
    for row in csv.DictReader(io.StringIO(exported.stdout)):
        if row["floor"] != "allocation" or row["kind"] not in ("allocate", "free"):
            continue
        if row["kind"] == "allocate":
            thread_of[row["thread"]] = int(row["size"]) - 20001
        seen[row["thread"]] += 1
    by_thread = {thread_of[thread]: events for thread, events in seen.items() if thread in thread_of}
    for thread, calls in enumerate(counted(counters)):
        # A finished call is in the trace, whole; one more may have been under way.
        if by_thread.get(thread, 0) < calls:
            return f"thread {thread} had finished {calls} calls, the trace has {by_thread.get(thread, 0)}", 0
        if by_thread.get(thread, 0) > calls + 1:
            return f"thread {thread} had finished {calls} calls, the trace has {by_thread[thread]}", 0
    return "", sum(seen.values())


def main(build, rounds):
    build, rounds, chance = pathlib.Path(build), int(rounds), random.Random(7)
    events = 0
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            wrong, seen = one_round(build, folder, chance.uniform(0, 0.05))
        if wrong:
            print(f"round {number}: {wrong}")
            return 1
        events += seen
    if events < 1000 * rounds // 10:
        print(f"only {events} events in {rounds} rounds: nothing was tested")
        return 1
    print(f"{rounds} recordings killed, {events} events, none of a finished call missing")
    print(f"{rounds} checks passed")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
