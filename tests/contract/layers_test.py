"""layers_test ROOT: who may include whom (docs/architecture.md, "Directions"). Data flows one way; this holds it."""
import pathlib
import re
import sys
import tempfile

# folder -> prefixes of "..." includes that it may use; the longest matching folder rules.
ALLOWED = {
    "simgpu": ["simgpu/"],
    "tracer/format": ["tracer/format/"],
    "tracer/base": ["tracer/base/", "tracer/format/"],
    "tracer": ["tracer/"],
    "shim/driver": ["shim/driver/", "tracer/base/"],
    "shim/pool": ["shim/pool/", "shim/driver/", "tracer/base/", "tracer/format/event.h", "tracer/event_sink.h"],
    "shim": ["shim/", "tracer/"],
    "tools/model": ["tools/model/", "tracer/format/"],
    "tools/reader": ["tools/reader/", "tools/model/", "tracer/format/"],
    "tools/importers": ["tools/importers/", "tools/reader/", "tools/model/", "tracer/format/"],
    "tools/exporters": ["tools/exporters/", "tools/model/", "tools/analysis/", "tracer/format/"],
    "tools/analysis": ["tools/analysis/", "tools/model/", "tracer/format/event.h"],
    "tools/report": ["tools/report/", "tools/analysis/", "tools/model/", "tracer/format/event.h"],
    "tools": ["tools/", "tracer/format/", "simgpu/devices/"],
    "examples": ["shim/annotate.h"],
    "bench": ["bench/", "shim/", "tracer/", "tools/", "simgpu/"],
}
# System headers that may not be seen in a folder: the host has no C++ runtime and no CUDA where it is not asked for.
FORBIDDEN = {
    "tracer": re.compile(r"<(cuda.*|iostream|string|vector|map|unordered_map|functional|memory|regex|fmt/.*|thread|mutex)>"),
    "shim": re.compile(r"<(cuda_runtime.*|iostream|string|vector|map|unordered_map|functional|memory|regex|fmt/.*|thread|mutex)>"),
    "tools/analysis": re.compile(r"<(fstream|filesystem|iostream|chrono|cuda.*)>"),
}
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|(<[^>]+>))', re.M)
SOURCES = {".h", ".cpp", ".inc", ".S", ".c"}


def rule(table, path):
    """The entry of the longest folder that holds `path`, or None."""
    matches = [folder for folder in table if path.startswith(folder + "/")]
    return max(matches, key=len) if matches else None


ROOMS = ("simgpu", "tracer", "shim", "tools", "examples", "bench")


def offences(root):
    """(what is wrong, files looked at) below the rooms of `root`."""
    found, seen = [], 0
    for path in sorted(p for room in ROOMS for p in (root / room).rglob("*")):
        name = path.relative_to(root).as_posix()
        folder, forbidden = rule(ALLOWED, name), rule(FORBIDDEN, name)
        if path.suffix not in SOURCES or "node_modules" in path.parts or folder is None:
            continue
        seen += 1
        for ours, system in INCLUDE.findall(path.read_text()):
            sibling = ours and "/" not in ours and (path.parent / ours).exists()
            if ours and not sibling and not any(ours.startswith(prefix) for prefix in ALLOWED[folder]):
                found.append(f'{name}: includes "{ours}"; {folder}/ may include {", ".join(ALLOWED[folder])}')
            if system and forbidden and FORBIDDEN[forbidden].match(system):
                found.append(f"{name}: includes {system}, which {forbidden}/ may not")
    return found, seen


def can_fail():
    """A bad include of each kind must be found."""
    bad = {"tracer/base/x.h": '#include "shim/pool/pool.h"\n', "shim/pool/y.cpp": "#include <vector>\n",
           "tools/analysis/z.cpp": '#include "tools/reader/trace_reader.h"\n', "simgpu/w.cpp": '#include "tracer/recorder.h"\n'}
    with tempfile.TemporaryDirectory() as folder:
        for name, text in bad.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return len(offences(pathlib.Path(folder))[0]) == len(bad)


def main(root):
    if not can_fail():
        print("layers_test: its own negative fixture was not found")
        return 1
    found, seen = offences(pathlib.Path(root))
    print("\n".join(found))
    print(f"{seen} checks passed" if seen and not found else f"{len(found)} offences in {seen} files")
    return 0 if seen and not found else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
