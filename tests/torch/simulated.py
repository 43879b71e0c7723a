"""How the PyTorch tests run a command on the make-believe GPU: bare (no cuheap in the process) or through the CLI."""
import os
import pathlib
import subprocess
import sys

TIMEOUT_S = 600


class Failed(Exception):
    """A run or a comparison that went wrong; its text is the one line to print."""


class Build:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder).resolve()
        self.simgpu = self.folder / "simgpu"
        self.cuheap = self.folder / "bin" / "cuheap"
        for needed in (self.simgpu / "preload.list", self.cuheap):
            if not needed.exists():
                raise Failed(f"{needed} is missing: run ./dev build")

    def preload(self):
        """The stand-ins in the order of simgpu/preload.list."""
        lines = (line.split("#")[0].strip() for line in (self.simgpu / "preload.list").read_text().splitlines())
        return ":".join(str(self.simgpu / line) for line in lines if line)

    def bare(self, command, device, directory=None):
        environment = dict(os.environ, LD_PRELOAD=self.preload(), SIMGPU_DEVICES=device,
                           LD_LIBRARY_PATH=":".join(filter(None, [str(self.simgpu), os.environ.get("LD_LIBRARY_PATH")])))
        return run(command, environment, directory)

    def through(self, verb, flags, command, directory=None):
        return run([str(self.cuheap), verb, *flags, "--", *command], dict(os.environ), directory)

    def json(self, *arguments):
        import json
        return json.loads(run([str(self.cuheap), *map(str, arguments), "--json"], dict(os.environ)))


def run(command, environment, directory=None):
    """The command's standard output; what it says on standard error is shown only when it fails."""
    try:
        done = subprocess.run(command, env=environment, cwd=directory, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise Failed(f"still running after {TIMEOUT_S} s: {' '.join(map(str, command))}") from None
    if done.returncode != 0:
        sys.stderr.write(done.stderr[-4000:])
        raise Failed(f"exit code {done.returncode}: {' '.join(map(str, command))}")
    return done.stdout
