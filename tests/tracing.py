"""What stands for ``mx.compile`` in tests: it traces, and has no C++ compiler make kernels."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx

__all__ = ["traced"]


def traced(function: Callable[..., Sequence[Any]]) -> Callable[..., Any]:
    """The program that MLX traces of a function, run one operation at a time.

    MLX traces it once for all arguments of the same shapes and dtypes, as it does for
    ``mx.compile``, and it is the program that runs. Contiguous copies are not in it, as MLX cannot
    save these.
    """
    programs: dict[Any, Callable[..., Any]] = {}

    def run(*arrays: Any) -> Any:
        key = tuple([(x.shape, x.dtype) for x in arrays])
        if key not in programs:
            programs[key] = _program(function, arrays)
        return programs[key](*arrays)

    return run


def _program(function: Callable[..., Any], arrays: Sequence[Any]) -> Callable[..., Any]:
    with _lock, tempfile.TemporaryDirectory() as folder:
        copy = mx.contiguous
        path = str(Path(folder) / "program.mlxfn")
        mx.contiguous = lambda x, *_, **__: mx.stop_gradient(x)
        try:
            mx.export_function(path, function, *arrays)
        finally:
            mx.contiguous = copy
        return mx.import_function(path)


_lock = threading.RLock()
