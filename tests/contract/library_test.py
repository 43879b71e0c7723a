"""library_test LIBRARY EXPORTS_MAP ALLOW: what libcuheap.so shows, asks for and carries, held against lists.

Exports are exactly the names of exports.map; imports only names of imports.allow; NEEDED libraries only libc's own; static
TLS small."""
import re
import subprocess
import sys

NEEDED = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "libpthread.so.0", "libdl.so.2"}
MAX_TLS_BYTES = 1024  # a preloaded library shares the static TLS surplus with everybody (research: 512 to 1664 bytes)


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def exported_by(map_text):
    text = re.sub(r"/\*.*?\*/|#.*|//.*", "", map_text, flags=re.S if "/*" in map_text else 0)
    body = re.search(r"global:(.*?)local:", text, re.S).group(1)
    return {name for name in re.findall(r"([A-Za-z_][\w]*)\s*;", body)}


def check(symbols, dynamic, segments, map_text, allow_text):
    """Everything wrong, as lines."""
    wrong = []
    exports = set(re.findall(r"^[0-9a-f]+ [TWVDBRi] ([\w]+)", symbols, re.M))
    listed = exported_by(map_text)
    wrong += [f"exports {name}, which exports.map does not list" for name in sorted(exports - listed)]
    wrong += [f"does not export {name}, which exports.map lists" for name in sorted(listed - exports)]
    allowed = {line.split("#")[0].strip() for line in allow_text.splitlines()} - {""}
    imports = re.findall(r"^\s+[UwV] ([\w]+)(?:@+(\S+))?", symbols, re.M)
    wrong += [f"imports {name}, which imports.allow does not list" for name, _ in imports if name not in allowed]
    wrong += [f"needs {name}" for name in re.findall(r"NEEDED.*\[(.+)\]", dynamic) if name not in NEEDED]
    tls = re.search(r"^\s+TLS\s+\S+\s+\S+\s+\S+\s+\S+\s+(0x[0-9a-f]+)", segments, re.M)
    if tls and int(tls.group(1), 16) > MAX_TLS_BYTES:
        wrong.append(f"has {int(tls.group(1), 16)} bytes of static TLS, more than {MAX_TLS_BYTES}")
    return wrong, len(exports) + len(imports)


def can_fail():
    """A library that breaks each rule must be refused."""
    symbols = "0000 T cuInit\n0000 T stray\n                 U _Znwm@GLIBCXX_3.4\n"
    dynamic = " 0x1 (NEEDED) Shared library: [libcudart.so.13]\n"
    segments = "  TLS            0x000000 0x0000000000000000 0x0000000000000000 0x000000 0x002000 R   0x8\n"
    wrong, _ = check(symbols, dynamic, segments, "{ global: cuInit; cuMemAlloc_v2; local: *; };", "malloc\n")
    return len(wrong) == 5


def main(library, map_path, allow_path):
    if not can_fail():
        print("library_test: its own negative fixture was not found")
        return 1
    with open(map_path) as map_file, open(allow_path) as allow_file:
        wrong, seen = check(run("nm", "-D", library), run("readelf", "-dW", library), run("readelf", "-lW", library),
                            map_file.read(), allow_file.read())
    print("\n".join(f"libcuheap.so {line}" for line in wrong))
    if not wrong:
        print(f"{seen} checks passed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
