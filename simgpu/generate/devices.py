#!/usr/bin/env python3
"""Turns simgpu/devices/*.device into devices_table.inc (for simgpu) and device_names.inc (for tools that only list the names)."""
import sys
from pathlib import Path

KEYS = ["name", "total_memory", "context_bytes", "capability", "multiprocessors", "max_threads_per_multiprocessor",
        "max_blocks_per_multiprocessor", "shared_memory_per_block", "shared_memory_per_block_optin",
        "shared_memory_per_multiprocessor", "l2_cache_bytes", "persisting_l2_bytes", "clock_khz", "memory_clock_khz",
        "memory_bus_bits", "copy_engines", "ecc", "pci_device_id", "nvlink"]


def read(path):
    values = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.split("#", 1)[0].strip()
        if not line:
            continue
        key, separator, value = (part.strip() for part in line.partition("="))
        if not separator or key not in KEYS or key in values:
            sys.exit(f"{path}:{number}: want one 'key = value' of {' '.join(KEYS)}")
        values[key] = value
    missing = [key for key in KEYS if key not in values]
    if missing:
        sys.exit(f"{path}: missing {' '.join(missing)}")
    return values


def row(key, values):
    major, minor = values["capability"].split(".")
    fields = [f'"{key}"', f'"{values["name"]}"']
    for name in KEYS[1:]:
        if name == "capability":
            fields += [major, minor]
        else:
            fields.append(values[name] + ("ull" if name in ("total_memory", "context_bytes") else ""))
    return "{" + ", ".join(fields) + "},\n"


def main():
    folder, out_dir = Path(sys.argv[1]), Path(sys.argv[2])
    out_dir.mkdir(parents=True, exist_ok=True)
    devices = {path.stem: read(path) for path in sorted(folder.glob("*.device"))}
    (out_dir / "devices_table.inc").write_text("".join(row(k, v) for k, v in devices.items()))
    (out_dir / "device_names.inc").write_text("".join(
        f'SIMGPU_DEVICE("{k}", "{v["name"]}", {v["total_memory"]}ull, "{v["capability"]}", {v["multiprocessors"]}, '
        f'{v["context_bytes"]}ull)\n'
        for k, v in devices.items()))


if __name__ == "__main__":
    main()
