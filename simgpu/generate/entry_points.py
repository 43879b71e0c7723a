#!/usr/bin/env python3
"""Reads the CUDA headers and writes what libcuda.so.1 must have for every public function:

  entry_points_weak.cpp   a weak definition of every exported symbol. A hand-written strong definition wins. A `_ptsz`/`_ptds`
                          twin calls its base with the per-thread default stream selected; an older ABI of the same signature
                          calls the newer one; everything else answers CUDA_ERROR_NOT_SUPPORTED and is named in the call log.
  proc_table.inc          X-macro rows (base name, ABI version, per-thread?, symbol) for cuGetProcAddress. The ABI versions are
                          those of the PFN_ types; the i-th version of a name is the i-th exported suffix (nothing, _v2, _v3, ...).
  nvml_weak.cpp           the same for nvml.h.
"""
import re
import subprocess
import sys
from pathlib import Path

OTHER_TYPEDEFS = ["cudaGLTypedefs.h", "cudaEGLTypedefs.h", "cudaVDPAUTypedefs.h", "cudaProfilerTypedefs.h"]


def preprocess(compiler, include, header, *options):
    command = [compiler, "-x", "c++", "-E", "-P", "-D__CUDA_API_VERSION_INTERNAL", *options, "-I", str(include), str(include / header)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def parameters(text):
    """[(declaration, name)] of a C parameter list."""
    text = " ".join(text.split())
    if text in ("", "void"):
        return []
    result = []
    for part in text.split(","):
        name = re.search(r"(\w+)\s*(\[\s*\w*\s*\])?$", part.strip())
        result.append((part.strip(), name.group(1)))
    return result


def signature(params):
    return [re.sub(r"\s*\b" + re.escape(name) + r"\b(\s*\[\s*\w*\s*\])?$", r"\1", declaration).replace(" ", "")
            for declaration, name in params]


def suffix_order(symbol, base):
    found = re.search(r"_v(\d+)", symbol[len(base):])
    return int(found.group(1)) if found else 1


def pfn_versions(text):
    """{(base, variant): [versions]} of the PFN_ types."""
    found = {}
    for base, version, variant in re.findall(r"PFN_(cu\w+?)_v(\d+)(_ptsz|_ptds)?\)", text):
        found.setdefault((base, variant), set()).add(int(version))
    return {key: sorted(versions) for key, versions in found.items()}


def symbols_of(base, variant, versions, exported):
    """The exported symbols of a base name, in the order of its ABI versions."""
    pattern = re.compile(re.escape(base) + r"(_v\d+)?" + variant + "$")
    symbols = sorted((s for s in exported if pattern.match(s)), key=lambda s: suffix_order(s, base))
    if len(symbols) != len(versions):
        sys.exit(f"entry_points.py: {base}{variant} has ABI versions {versions} but exports {symbols}: "
                 "the headers follow a new rule, teach it here")
    return symbols


def weak(declaration, body):
    return f'extern "C" SIMGPU_WEAK {declaration} {{ {body} }}\n'


def cuda_weak_source(functions):
    out = ['#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>\n\n#include "simgpu/libcuda_entry.h"\n\n',
           "#define SIMGPU_WEAK __attribute__((weak, visibility(\"default\")))\n",
           "using cuheap::sim::PerThreadDefaultStream;\n\n"]
    for name, params in sorted(functions.items()):
        declaration = f"CUresult {name}({', '.join(d for d, _ in params)})"
        arguments = ", ".join(n for _, n in params)
        twin = re.match(r"(\w+)_pts[zd]$|(\w+)_ptds$", name)
        base = re.sub(r"_(ptsz|ptds)$", "", name)
        newer = [f"{base}_v{i}" for i in range(2, 5) if f"{base}_v{i}" in functions]
        newer = [n for n in newer if signature(functions[n]) == signature(params)]
        if twin and base in functions and signature(functions[base]) == signature(params):
            out.append(weak(declaration, f"PerThreadDefaultStream scope; return {base}({arguments});"))
        elif not twin and newer:
            out.append(weak(declaration, f"return {newer[0]}({arguments});"))
        else:
            unnamed = f"CUresult {name}({', '.join(signature_text(params))})"
            out.append(weak(unnamed, f'SIMGPU_NOT_SUPPORTED("{name}");'))
    return out


def signature_text(params):
    return [re.sub(r"\b" + re.escape(name) + r"\b(\s*\[\s*\w*\s*\])?$", r"\1", declaration) for declaration, name in params]


def generate_cuda(compiler, include, out_dir):
    text = preprocess(compiler, include, "cuda.h")
    generate_errors(text, out_dir)
    functions = {name: parameters(arguments) for name, arguments in
                 re.findall(r"CUresult\s+(cu\w+)\s*\(([^;{]*?)\)\s*;", text)}
    source = cuda_weak_source(functions)
    rows = []

    def add_rows(base, variant, versions, symbols):
        for version, symbol in zip(versions, symbols):
            rows.append((base, version, 1 if variant else 0, symbol))

    for (base, variant), versions in pfn_versions((include / "cudaTypedefs.h").read_text()).items():
        add_rows(base, variant, versions, symbols_of(base, variant, versions, functions))
    foreign = set()
    for header in OTHER_TYPEDEFS:
        if not (include / header).exists():
            continue
        for (base, variant), versions in pfn_versions((include / header).read_text()).items():
            symbols = [base + (f"_v{i + 1}" if i else "") + variant for i in range(len(versions))]
            add_rows(base, variant, versions, symbols)
            foreign.update(symbols)
    foreign -= set(functions)
    for name in sorted(foreign):
        source.append(weak(f"CUresult {name}()", f'SIMGPU_NOT_SUPPORTED("{name}");'))
    (out_dir / "entry_points_weak.cpp").write_text("".join(source))
    declare = "".join(f"SIMGPU_FOREIGN({name})\n" for name in sorted(foreign))
    table = "".join(f'SIMGPU_PROC("{b}", {v}, {p}, {s})\n' for b, v, p, s in sorted(rows))
    (out_dir / "proc_table.inc").write_text(table)
    (out_dir / "proc_foreign.inc").write_text(declare)
    (out_dir / "exports.txt").write_text("".join(f"{n}\n" for n in sorted(set(functions) | foreign)))


def generate_errors(text, out_dir):
    """A name and a plain sentence for every CUresult: the sentence is made of the name's own words."""
    enum = re.search(r"typedef enum cudaError_enum\s*\{(.*?)\}\s*CUresult", text, re.S).group(1)
    special = {"CUDA_SUCCESS": "no error", "CUDA_ERROR_OUT_OF_MEMORY": "out of memory",
               "CUDA_ERROR_INVALID_VALUE": "invalid argument", "CUDA_ERROR_NOT_INITIALIZED": "initialization error",
               "CUDA_ERROR_DEINITIALIZED": "driver shutting down", "CUDA_ERROR_INVALID_DEVICE": "invalid device ordinal",
               "CUDA_ERROR_NO_DEVICE": "no CUDA-capable device is detected",
               "CUDA_ERROR_INVALID_CONTEXT": "invalid device context", "CUDA_ERROR_INVALID_HANDLE": "invalid resource handle",
               "CUDA_ERROR_NOT_FOUND": "named symbol not found", "CUDA_ERROR_NOT_READY": "device not ready",
               "CUDA_ERROR_ILLEGAL_ADDRESS": "an illegal memory access was encountered",
               "CUDA_ERROR_NOT_SUPPORTED": "operation not supported"}
    rows = []
    for name in re.findall(r"(CUDA_\w+)\s*=", enum):
        words = name.replace("CUDA_ERROR_", "").lower().replace("_", " ")
        rows.append(f'SIMGPU_ERROR({name}, "{special.get(name, words)}")\n')
    (out_dir / "error_texts.inc").write_text("".join(rows))


def generate_nvml(compiler, include, out_dir):
    text = preprocess(compiler, include, "nvml.h", "-DNVML_NO_UNVERSIONED_FUNC_DEFS")
    names = sorted({name for name in re.findall(r"nvmlReturn_t\s+(nvml\w+)\s*\(", text)})
    out = ['#include "simgpu/nvml_entry.h"\n\n',
           "#define SIMGPU_WEAK __attribute__((weak, visibility(\"default\")))\n\n"]
    out += [weak(f"int {name}()", f'return cuheap::sim::nvml_not_supported("{name}");') for name in names]
    (out_dir / "nvml_weak.cpp").write_text("".join(out))


def main():
    compiler, include, out_dir = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    out_dir.mkdir(parents=True, exist_ok=True)
    generate_cuda(compiler, include, out_dir)
    generate_nvml(compiler, include, out_dir)


if __name__ == "__main__":
    main()
