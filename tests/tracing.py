"""What stands for ``mx.compile`` in tests: it traces, and has no C++ compiler make kernels."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx

from graphc.link.mlx.arrays import is_traced
from graphc.link.mlx.tiers import saved_program

__all__ = ["traced"]


def traced(function: Callable[..., Sequence[Any]]) -> Callable[..., Any]:
    """The program that MLX traces of a function, run one operation at a time.

    MLX traces it once for all arguments of the same shapes and dtypes, as it does for
    ``mx.compile``, and it is the program that runs. MLX cannot save contiguous copies: other copies
    stand for them. It cannot read a program in another thread than the first, nor save some of its
    operations: the function runs.
    """
    programs: dict[Any, Callable[..., Any]] = {}

    def run(*arrays: Any) -> Any:
        # MLX does not compile what is traced within other code either.
        if threading.current_thread() is not threading.main_thread() or is_traced(arrays):
            return function(*arrays)
        key = tuple([(x.shape, x.dtype) for x in arrays])
        if key not in programs:
            programs[key] = _program(function, arrays) or function
        return [*programs[key](*arrays)]

    return run


def _program(function: Callable[..., Any], arrays: Sequence[Any]) -> Callable[..., Any] | None:
    copy = mx.contiguous
    mx.contiguous = _copied
    try:
        return saved_program(function, arrays)
    finally:
        mx.contiguous = copy


def _copied(x: Any, *_: Any, **__: Any) -> Any:
    return mx.concatenate([x, x[:0]]) if x.ndim else x
