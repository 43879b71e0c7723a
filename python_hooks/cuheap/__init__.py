"""cuheap: tell the recording what the program is doing.

>>> import cuheap
>>> with cuheap.phase("load"):
...     model = load()
>>> @cuheap.phase("step")
... def step(batch): ...
>>> cuheap.mark("epoch 3")

Phases nest and show in the timeline, the tables and the JSON of every report; marks are moments and serve the leak verdict
as its clock. In a process that was not started with ``cuheap run`` every call is a no-op.
"""
from __future__ import annotations

import contextlib
from typing import Iterator

from . import _native

__all__ = ["is_recording", "mark", "phase"]
__version__ = "0.1.0"


def _text(name: str) -> bytes:
    if not isinstance(name, str):
        raise TypeError(f"a phase or mark is named by a str, not {type(name).__name__}")
    if not name:
        raise ValueError("a phase or mark needs a name")
    # A C string ends at its first zero byte; surrogates come from undecodable file names.
    return name.replace("\0", " ").encode("utf-8", "surrogateescape")


def is_recording() -> bool:
    """True if this process runs under ``cuheap run`` and has begun to record (after its first use of CUDA)."""
    return _native.is_recording is not None and bool(_native.is_recording())


@contextlib.contextmanager
def phase(name: str) -> Iterator[None]:
    """Names what happens until the block, or the decorated function, ends.

    ``name`` is any non-empty string; the same name may be used again and nested. The phase ends on exceptions too. It holds
    for the calling thread, and for threads that set none themselves. Raises TypeError and ValueError for a bad name, before
    anything is recorded; nothing else.
    """
    text = _text(name)
    if _native.phase_begin is None:
        yield
        return
    _native.phase_begin(text)
    try:
        yield
    finally:
        _native.phase_end()


def mark(name: str = "step") -> None:
    """Records a moment: a step, a request, an epoch. Raises TypeError and ValueError for a bad name."""
    text = _text(name)
    if _native.mark is not None:
        _native.mark(text)
