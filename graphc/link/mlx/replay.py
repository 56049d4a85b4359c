"""Functions that MLX traces once and then runs without Python, one operation at a time.

MLX offers this for functions that are saved and loaded: a loaded program runs unfused, where
``mx.compile`` would first call a C++ compiler to fuse it.
"""

from __future__ import annotations

import re
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx

from graphc.link.mlx.arrays import put_bounded

REFUSED = re.compile(r"\[(export_function|import_function|write|read)\]|no Stream\(")
"""Errors of MLX if it cannot save a program, or cannot run one in this thread."""


class Replayed(threading.local):
    """A function that MLX traces for each combination of shapes, and then runs without Python.

    Python's function is called instead if MLX cannot save it, and in all threads but the first,
    where MLX cannot run loaded programs.

    Args:
        traced: Function of arrays that returns a list of arrays, called while MLX traces.
        plain: The same function, called while MLX does not trace.
    """

    def __init__(self, traced: Callable[..., Any], plain: Callable[..., Any]) -> None:
        self.traced = traced
        self.plain = plain
        self.programs: OrderedDict[Any, Callable[..., Any]] = OrderedDict()

    def __call__(self, *arrays: Any) -> list[Any]:
        """Return the results."""
        shapes = tuple([x.shape for x in arrays])
        program = self.programs.get(shapes)
        if program is None:
            program = (_thread.replays and saved_program(self.traced, arrays)) or self.plain
            put_bounded(self.programs, shapes, program)
        return [*program(*arrays)]


def saved_program(function: Callable[..., Any], arrays: Sequence[Any]) -> Callable[..., Any] | None:
    """Return MLX's saved and loaded program for arrays of these shapes, or None."""
    try:
        with tempfile.NamedTemporaryFile(prefix="graphc-", suffix=".mlxfn") as file:
            mx.export_function(file.name, function, *arrays)
            program: Any = mx.import_function(file.name)
    except OSError:
        return None
    except (RuntimeError, ValueError) as error:
        if REFUSED.search(str(error)):
            return None
        raise
    return program  # type: ignore[no-any-return]


class _ThreadAbilities(threading.local):
    """Abilities of MLX in this thread.

    Attributes:
        replays: Whether MLX runs loaded programs in this thread.
    """

    def __init__(self) -> None:
        program = saved_program(lambda x: [x + x], [mx.array(1.0)])
        self.replays = program is not None
        try:
            if program:
                mx.eval(program(mx.array(1.0)))
        except RuntimeError:
            self.replays = False


_thread = _ThreadAbilities()
