"""The C++ compiler by which MLX fuses operations on the processor, and what is said without one."""

from __future__ import annotations

import shutil
import warnings
from functools import cache
from typing import Any

import mlx.core as mx

__all__ = ["tell_of_missing_compiler"]


def tell_of_missing_compiler(device: Any) -> None:
    """Warn, once, where MLX looks for a compiler and finds none.

    MLX then runs compiled functions one operation after the other, says nothing, and remembers it
    until the process ends. On a GPU it needs none.
    """
    if device.type == mx.cpu and shutil.which("g++") is None:
        _tell()


@cache
def _tell() -> None:
    warnings.warn(
        "mode='MLX': no C++ compiler was found, so that MLX computes one operation after the other "
        "on the processor. Results are the same, and often slower. Install g++ (on Debian and "
        "Ubuntu: apt install g++) and start anew, or ask for it with Mode('MLX', compile=False).",
        RuntimeWarning,
        stacklevel=3,
    )
