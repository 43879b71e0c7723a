"""hooks_test ROOT: no loader call, heap, exit or exception in code that runs inside the host (style 4.2, redteam A2).

dlsym, dlopen, dladdr and their kin block while another thread runs a library's constructor; a hook that calls one under a
framework's allocator lock can deadlock the host. They may be named only in the files that run at arming or at load."""
import pathlib
import re
import sys
import tempfile

LOADER = re.compile(r"(?<![\w.>])(dlsym|dlvsym|dlopen|dlclose|dladdr1?|dlinfo)\s*\(")
# Where the real functions are found, once, outside every hook. Each entry says why.
LOADER_ALLOWED = {
    "shim/driver/driver.cpp": "fills the driver table at arming",
    "shim/hooks/lookup_hooks.cpp": "the look-up hooks forward the host's own look-ups",
    "shim/hooks/resolver.cpp": "finds the real dlsym",
    "shim/lifecycle.cpp": "arming",
}
DEADLY = re.compile(r"(?<![\w.>:])(abort|_exit|exit|quick_exit|malloc|calloc|realloc|printf|fprintf|getenv)\s*\(|\bthrow\b")


def code_of(text):
    """The text without comments and string literals, line by line."""
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.S)
    return [re.sub(r'"(?:[^"\\]|\\.)*"', '""', re.sub(r"//.*", "", line)) for line in text.splitlines()]


def offences(root):
    found, seen = [], 0
    for path in sorted(p for room in ("shim", "tracer") for p in (root / room).rglob("*")):
        if path.suffix not in (".h", ".cpp", ".inc"):
            continue
        seen += 1
        name = path.relative_to(root).as_posix()
        for number, line in enumerate(code_of(path.read_text()), 1):
            loader = LOADER.search(line)
            if loader and name not in LOADER_ALLOWED:
                found.append(f"{name}:{number}: {loader.group(1)} is a loader call; only {', '.join(LOADER_ALLOWED)} may make one")
            deadly = DEADLY.search(line)
            if deadly:
                found.append(f"{name}:{number}: {deadly.group(0).strip()} has no place in the host process")
    return found, seen


def can_fail():
    bad = {"shim/hooks/a.cpp": "void f() { dlsym(0, \"x\"); }\n", "tracer/b.cpp": "int* p = (int*)malloc(4);\n",
           "shim/pool/c.cpp": "void g() { abort(); }\n"}
    with tempfile.TemporaryDirectory() as folder:
        for name, text in bad.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return len(offences(pathlib.Path(folder))[0]) == len(bad)


def main(root):
    if not can_fail():
        print("hooks_test: its own negative fixture was not found")
        return 1
    found, seen = offences(pathlib.Path(root))
    print("\n".join(found))
    if seen and not found:
        print(f"{seen} checks passed")
    return 0 if seen and not found else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
