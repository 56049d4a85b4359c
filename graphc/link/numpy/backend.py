"""NumPy as a backend: each operation runs its NumPy reference."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from time import perf_counter
from typing import Any

import numpy as np

from graphc.ir import Graph, Node, Op, TensorType, is_own_class
from graphc.link.backend import Backend, Dispatch, Executable, perform_as_declared
from graphc.link.call_spec import CallSpec
from graphc.link.compile_context import CompileContext
from graphc.link.numpy.written import as_own_array, write_call
from graphc.link.program import WORTH_WRITING, Program
from graphc.tensor.core.elementwise import Elementwise


def array(value: Any, type: TensorType, options: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    """Return a copy as a NumPy array of the type's dtype."""
    return np.array(value, type.numpy_dtype)


class Calls(Dispatch):
    """The calls of a program: step by step, and by its written text after ``WORTH_WRITING`` calls.

    NumPy does not warn of NaN and infinity, as other backends do not.
    """

    def __init__(
        self, spec: CallSpec, program: Callable[[], Program], context: CompileContext
    ) -> None:
        self.program = program
        self.context = context
        self.single = spec.single
        self.dtypes = [type.numpy_dtype for type in spec.results]
        self.runs = 0
        self.lock = threading.Lock()
        super().__init__(self._run_first)

    def _run_first(self, *arguments: Any) -> Any:
        seconds = None
        with self.lock:
            if self.run == self._run_first:
                start = perf_counter()
                self.program()
                seconds = perf_counter() - start
                self.run = self._stepwise
        if seconds is not None:
            self.context.record("compile", [x.shape for x in arguments], {}, seconds)
        return self.run(*arguments)

    def _stepwise(self, *arguments: Any) -> Any:
        self.runs += 1
        if self.runs > WORTH_WRITING:
            self.run = write_call(self.program(), single=self.single)
            return self.run(*arguments)
        with np.errstate(all="ignore"):
            outputs = self.program().run(*arguments)
        used_ids = {*map(id, arguments)}
        results = [
            as_own_array(y, dtype, used_ids) for y, dtype in zip(outputs, self.dtypes, strict=True)
        ]
        return results[0] if self.single else results


def compile(
    spec: CallSpec,
    program: Callable[[], Program],
    options: Mapping[str, Any],
    donated: tuple[int, ...],
    context: CompileContext,
) -> Executable:
    """Return the function that calls a program."""
    return Calls(spec, program, context)


class NumPyBackend(Backend):
    """NumPy, whose elementwise rows are called as the ufuncs themselves."""

    def bind(self, node: Node) -> Callable[..., Any]:
        if isinstance(node.op, Elementwise):
            return node.op.reference
        lowering = self.lowering(node.op)
        if lowering is not perform:
            return super().bind(node)
        cls: Any = type(node.op)
        return node.op.perform if is_own_class(cls) else partial(perform_as_declared, node.op)


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
    """Run the operation's NumPy reference."""
    return op.perform(*values)


@lru_cache(maxsize=3072)
def graph_program(graph: Graph) -> Program:
    """Return the program of an operation's graph."""
    return Program(graph, backend, None)
