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
    single = spec.single
    lock = threading.Lock()
    run: Callable[..., Any]

    def first(*arguments: Any) -> Any:
        """The results, once there is the program."""
        nonlocal run
        seconds = None
        with lock:
            if run is first:
                start = perf_counter()
                run = program().run
                seconds = perf_counter() - start
        if seconds is not None:
            context.record("compile", [x.shape for x in arguments], {}, seconds)
        return run(*arguments)

    run = first

    def execute(*arguments: Any) -> Any:
        with np.errstate(all="ignore"):
            found = run(*arguments)
        results: list[Any] = []
        taken = {id(x) for x in arguments}
        for y, dtype in zip(found, dtypes, strict=True):
            y = np.asarray(y, dtype)
            # A view of an argument, or the argument itself, would change with it.
            if not y.flags.owndata or id(y) in taken:
                y = y.copy()
            taken.add(id(y))
            results.append(y)
        return results[0] if single else results

    return execute


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
)


@backend.lower(Op)
def perform(op: Op, *values: Any) -> Any:
    """Every operation has a NumPy reference."""
    return op.perform(*values)
