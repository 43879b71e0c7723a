"""golden_test CUHEAP [--update]: traces of every format version read for ever, with the answers that they had.

Each folder v<N>/ holds a run directory `run` and, for every answer, the file of its expected text. JSON may have gained keys since
(docs/json.md: keys stay, more may be added)."""
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


def without_new_keys(got, expected):
    if isinstance(got, dict) and isinstance(expected, dict):
        return {key: without_new_keys(value, expected[key]) for key, value in got.items() if key in expected}
    if isinstance(got, list) and isinstance(expected, list) and len(got) == len(expected):
        return [without_new_keys(*pair) for pair in zip(got, expected)]
    return got


def as_expected(got, expected):
    """`got` without the keys that are new; as it is where either is no JSON."""
    try:
        return json.dumps(without_new_keys(json.loads(got), json.loads(expected)), indent=1) + "\n"
    except ValueError:
        return got


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
            if name.endswith(".json"):
                got = as_expected(got, expected)
            if got != expected:
                failures += 1
                print(f"{path}:")
                print("".join(difflib.unified_diff(expected.splitlines(True), got.splitlines(True), "expected", "got")))
    if checks and not failures:
        print(f"{checks} checks passed")
    return 0 if checks and not failures else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
