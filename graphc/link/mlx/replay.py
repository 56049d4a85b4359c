"""Functions that MLX traces once and runs again without Python, an operation at a time.

MLX has this for functions that are saved and read again: a saved program is run as it is, where
``mx.compile`` would have a C++ compiler fuse it first.
"""

from __future__ import annotations

import re
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx

from graphc.link.mlx.arrays import bounded

REFUSED = re.compile(r"\[(export_function|import_function|write|read)\]|no Stream\(")
"""What the errors of MLX say where it cannot save a program, or run it in this thread."""


class Replayed(threading.local):
    """A function that is traced for each combination of shapes, and then run without Python.

    What MLX cannot save is called instead; so is every function in other threads than the first,
    where MLX does not run what was saved.

    Args:
        traced: Takes arrays, and gives a list of them, while MLX traces.
        plain: The same while it does not.
    """

    def __init__(self, traced: Callable[..., Any], plain: Callable[..., Any]) -> None:
        self.traced = traced
        self.plain = plain
        self.programs: OrderedDict[Any, Callable[..., Any]] = OrderedDict()

    def __call__(self, *arrays: Any) -> list[Any]:
        """The results."""
        shapes = tuple([x.shape for x in arrays])
        program = self.programs.get(shapes)
        if program is None:
            program = (_thread.replays and saved(self.traced, arrays)) or self.plain
            bounded(self.programs, shapes, program)
        return [*program(*arrays)]


def saved(function: Callable[..., Any], arrays: Sequence[Any]) -> Callable[..., Any] | None:
    """The function as MLX saves and reads it, for arrays of these shapes; None where it cannot."""
    try:
        with tempfile.NamedTemporaryFile(prefix="graphc-", suffix=".mlxfn") as file:
            mx.export_function(file.name, function, *arrays)
            read: Any = mx.import_function(file.name)
    except OSError:
        return None
    except (RuntimeError, ValueError) as error:
        if REFUSED.search(str(error)):
            return None
        raise
    return read  # type: ignore[no-any-return]


class _Thread(threading.local):
    """What MLX does in this thread.

    Attributes:
        replays: Whether it runs saved programs here.
    """

    def __init__(self) -> None:
        found = saved(lambda x: [x + x], [mx.array(1.0)])
        self.replays = found is not None
        try:
            if found:
                mx.eval(found(mx.array(1.0)))
        except RuntimeError:
            self.replays = False


_thread = _Thread()
