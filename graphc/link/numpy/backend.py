"""NumPy as a backend: operations perform themselves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any

import numpy as np

from graphc.ir import Node, Op, TensorType
from graphc.link.backend import Backend, Dispatch, Executable
from graphc.link.call_spec import CallSpec
from graphc.link.compile_context import CompileContext
from graphc.link.numpy.written import own, written
from graphc.link.program import WORTH_WRITING, Program
from graphc.tensor.core.elementwise import Elementwise


def array(value: Any, type: TensorType, options: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    """A NumPy array of that dtype: a copy, which nobody else changes."""
    return np.array(value, type.numpy_dtype)


class Calls(Dispatch):
    """The calls of a program: by its steps, and by its text once that is worth to be made.

    What is not a number comes out without a warning, as elsewhere.
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
        super().__init__(self._first)

    def _first(self, *arguments: Any) -> Any:
        """The results, once there is the program."""
        seconds = None
        with self.lock:
            if self.run == self._first:
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
            self.run = written(self.program(), single=self.single)
            return self.run(*arguments)
        with np.errstate(all="ignore"):
            found = self.program().run(*arguments)
        taken = {*map(id, arguments)}
        results = [own(y, dtype, taken) for y, dtype in zip(found, self.dtypes, strict=True)]
        return results[0] if self.single else results


def compile(
    spec: CallSpec,
    program: Callable[[], Program],
    options: Mapping[str, Any],
    donated: tuple[int, ...],
    context: CompileContext,
) -> Executable:
    """What calls a program."""
    return Calls(spec, program, context)


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
