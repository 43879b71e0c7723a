"""The C annotation calls of libcuheap.so, through ctypes; None where the library is not in this process.

Source of the calls: shim/annotate.h. Nothing is loaded: a process that was not started under ``cuheap run`` finds no such
symbol in its global scope, and every function of this package is then a no-op.
"""
from __future__ import annotations

import ctypes
from typing import Callable, Optional


def _find(name: str, restype, *argtypes) -> Optional[Callable]:
    try:
        function = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError):
        return None
    function.restype = restype
    function.argtypes = list(argtypes)
    return function


phase_begin = _find("cuheap_phase_begin", None, ctypes.c_char_p)
phase_end = _find("cuheap_phase_end", None)
mark = _find("cuheap_mark", None, ctypes.c_char_p)
is_recording = _find("cuheap_is_recording", ctypes.c_int)
