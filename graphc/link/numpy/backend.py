"""NumPy as a backend: operations perform themselves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any

import numpy as np

from graphc.ir import Node, Op, TensorType
from graphc.link.backend import Backend, Executable
from graphc.link.call_spec import CallSpec
from graphc.link.compile_context import CompileContext
from graphc.link.program import Program
from graphc.tensor.core.elementwise import Elementwise


def array(value: Any, type: TensorType, options: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    """A NumPy array of that dtype: a copy, which nobody else changes."""
    return np.array(value, type.numpy_dtype)


def compile(
    spec: CallSpec,
    program: Callable[[], Program],
    options: Mapping[str, Any],
    donated: tuple[int, ...],
    context: CompileContext,
) -> Executable:
    """The function itself; what is not a number comes out without a warning, as elsewhere."""
    dtypes = [type.numpy_dtype for type in spec.results]
    lock = threading.Lock()
    # As a decorator it takes half of the time that it takes as a context.
    quiet = np.errstate(all="ignore")
    run: Callable[..., Any]

    def first(*arguments: Any) -> Any:
        """The results, once there is the program."""
        nonlocal run
        seconds = None
        with lock:
            if run is first:
                start = perf_counter()
                run = quiet(program().run)
                seconds = perf_counter() - start
        if seconds is not None:
            context.record("compile", [x.shape for x in arguments], {}, seconds)
        return run(*arguments)

    run = first

    def one(*arguments: Any) -> Any:
        (y,) = run(*arguments)
        return _own(y, dtypes[0], {*map(id, arguments)})

    def several(*arguments: Any) -> Any:
        taken = {*map(id, arguments)}
        return [_own(y, dtype, taken) for y, dtype in zip(run(*arguments), dtypes, strict=True)]

    return one if spec.single else several


def _own(y: Any, dtype: np.dtype[Any], taken: set[int]) -> np.ndarray[Any, Any]:
    """A result as an array of its own, whose id is added to those that are taken."""
    if y.__class__ is not np.ndarray or y.dtype is not dtype:
        y = np.asarray(y, dtype)
    # A view of an argument, or the argument itself, would change with it.
    if id(y) in taken or not y.flags.owndata:
        y = y.copy()
    taken.add(id(y))
    return y  # type: ignore[no-any-return]


class NumPyBackend(Backend):
    """An elementwise row is its NumPy function, with nothing between."""

    def bind(self, node: Node) -> Callable[..., Any]:
        if isinstance(node.op, Elementwise):
            return node.op.reference
        found = self.lowering(node.op)
        return node.op.perform if found is perform else super().bind(node)


backend = NumPyBackend(
    "NUMPY",
    array=array,
    numpy=np.asarray,
    compile=compile,
    kinds=(np.ndarray,),
    eager=True,
    describe=lambda options: f"NumPy {np.__version__}, on the host",
    gains=frozenset({"coupled_recurrence"}),
)


@backend.lower(Op)
def perform(op: Op, *values: Any) -> Any:
    """Every operation has a NumPy reference."""
    return op.perform(*values)
