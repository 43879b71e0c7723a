"""golden_test CUHEAP [--update]: traces of every format version read for ever, with the answers that they had.

Each folder v<N>/ holds a run directory `run` and, for every answer, the file of its expected text."""
import difflib
import json
import pathlib
import subprocess
import sys

ANSWERS = {
    "dump.txt": ["dump", "run"],
    "summary.json": ["summary", "run", "--json"],
    "flame.json": ["flame", "run", "--json"],
    "flame_end.json": ["flame", "run", "--json", "--floor", "allocation", "--at", "end"],
    "folded.txt": ["flame", "run", "--folded"],
    "events.csv": ["export", "run", "--to", "csv"],
}


def answer(cuheap, folder, words):
    finished = subprocess.run([cuheap, *words], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    if finished.returncode != 0:
        return f"exit {finished.returncode}: {finished.stderr}"
    if "--json" not in words:
        return finished.stdout
    content = json.loads(finished.stdout)
    del content["cuheap"]  # the program's version
    return json.dumps(content, indent=1) + "\n"


def main(cuheap, *flags):
    cuheap = str(pathlib.Path(cuheap).resolve())
    folders = sorted(p for p in pathlib.Path(__file__).parent.glob("v*") if p.is_dir())
    checks = failures = 0
    for folder in folders:
        for name, words in ANSWERS.items():
            got, path = answer(cuheap, folder, words), folder / name
            if "--update" in flags:
                path.write_text(got)
            expected = path.read_text() if path.exists() else ""
            checks += 1
            if got != expected:
                failures += 1
                print(f"{path}:")
                print("".join(difflib.unified_diff(expected.splitlines(True), got.splitlines(True), "expected", "got")))
    if checks and not failures:
        print(f"{checks} checks passed")
    return 0 if checks and not failures else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
