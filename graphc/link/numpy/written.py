"""A program written as one function for NumPy, from a call's arguments to its results."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import Any

import numpy as np

from graphc.ir import Constant, Graph
from graphc.link.program import EqualLengths, Program, Step, locate_error
from graphc.link.source import Source, compiled_code
from graphc.tensor.core.elementwise import Elementwise


def as_own_array(y: Any, dtype: np.dtype[Any], used_ids: set[int]) -> np.ndarray[Any, Any]:
    """Return a result as an array that shares no memory with arguments or other results.

    Args:
        y: The result.
        dtype: The dtype of its type.
        used_ids: The ids of the arguments and of earlier results; the result's id is added.
    """
    if y.__class__ is not np.ndarray or y.dtype is not dtype:
        y = np.asarray(y, dtype)
    # A view of an argument, or the argument itself, would change with it.
    if id(y) in used_ids or not y.flags.owndata:
        y = y.copy()
    used_ids.add(id(y))
    return y  # type: ignore[no-any-return]


class WrittenCall(Source):
    """The text of a call: the program's, with results that share no memory."""

    def __init__(self, program: Program, *, single: bool) -> None:
        self.single = single
        self.buffers = _Buffers(program)
        super().__init__(program)

    def call(self, step: Step) -> str:
        """Return the line of a step, whose result may reuse an operand's memory."""
        line = super().call(step)
        reused = self.buffers.free(step)
        return line if reused is None else f"{line[:-1]}, {self.names[reused]})"

    def results(self) -> list[str]:
        """Return the lines that return the outputs."""
        program = self.program
        ufuncs = {step.position for step in program.steps if _is_ufunc(step)}
        # A ufunc's result has its own memory, unless it is a NumPy scalar.
        is_fresh = len({*program.outputs}) == len(program.outputs) and ufuncs >= {*program.outputs}
        self.namespace |= {"own": as_own_array, "array": np.ndarray}
        lines = []
        if not is_fresh:
            ids = "".join(f"id(a{i}), " for i in range(len(program.arguments)))
            lines.append(f"taken = {{{ids}}}" if ids else "taken = set()")
        names = []
        for k, (position, node) in enumerate(
            zip(program.outputs, program.graph.outputs, strict=True)
        ):
            y, name = self.names[position], f"y{k}"
            self.namespace[f"t{k}"] = node.type.numpy_dtype
            if is_fresh:
                wrong = f"{y}.__class__ is not array or {y}.dtype is not t{k}"
                lines.append(f"if {wrong}: {y} = own({y}, t{k}, set())")
                name = y
            else:
                lines.append(f"{name} = own({y}, t{k}, taken)")
            names.append(name)
        values = ", ".join(names)
        self.steps += [None] * (len(lines) + 1)
        return [*lines, f"return {values}" if self.single else f"return [{values}]"]


class _Buffers:
    """The memory of dead values, which ufuncs reuse for their results.

    No array is a view of a value's memory if a ufunc computes the value and only ufuncs take it.

    Attributes:
        last_uses: The values that are dead after a step, by the step's position.
        sure: The dtypes of values that surely equal their types' dtypes, by position.
        own: The positions of values whose memory no other array shares.
        lengths: The lengths known to be equal so far.
    """

    def __init__(self, program: Program) -> None:
        self.last_uses = program.last_uses
        nodes = [
            *program.arguments,
            *(x for x in program.graph.nodes if isinstance(x.op, Constant)),
        ]
        self.sure = {program.positions[x]: x.type.numpy_dtype for x in nodes}
        self.lengths = EqualLengths()
        others = [step.operands for step in program.steps if not _is_ufunc(step)]
        shown = {*program.outputs}.union(*others)
        self.own = {s.position for s in program.steps if _is_ufunc(s) and s.position not in shown}

    def free(self, step: Step) -> int | None:
        """Return the position of a dead operand whose memory fits the next step's result."""
        node = step.node
        self.lengths.open(node)
        if not _is_ufunc(step) or not self.sure.keys() >= {*step.operands}:
            return None
        dtype = node.type.numpy_dtype
        dtypes = [self.sure[i] for i in step.operands]
        if step.compute.resolve_dtypes((*dtypes, None))[-1] != dtype:  # type: ignore[attr-defined]
            return None
        self.sure[step.position] = dtype
        if not node.type.ndim:
            return None  # NumPy scalars have no memory to reuse
        dead = {*self.last_uses.get(step.position, ())} & self.own
        for i, x in zip(step.operands, node.inputs, strict=True):
            is_alike = self.sure[i] == dtype and x.type.ndim == node.type.ndim
            if i in dead and is_alike and self.lengths.have_one_shape(x, node):
                return i
        return None


def _is_ufunc(step: Step) -> bool:
    return (
        isinstance(step.node.op, Elementwise)
        and isinstance(step.compute, np.ufunc)
        and step.compute.nout == 1
        and step.compute.nin == len(step.operands)
    )


def write_call(program: Program, *, single: bool) -> Callable[..., Any]:
    """Return the function of a call, which does not warn of NaN and infinity."""
    source = WrittenCall(program, single=single)
    arguments = "".join(f"a{i}, " for i in range(len(program.arguments)))

    def with_location(error: Exception) -> Exception:
        failing = source.failing_step(error.__traceback__)
        return locate_error(error, *failing) if failing else error

    if _runs_users_code(program.graph) or program.backend.is_altered:
        return _without_warnings(source, with_location)
    contexts: list[Context] = []
    text = f"""
def call({arguments}):
    try:
        context = pop()
    except IndexError:
        context = new_context()
    try:
        return context.run(program, {arguments})
    except Exception as error:
        raise locate(error) from error
    finally:
        append(context)
"""
    namespace = {
        "pop": contexts.pop,
        "append": contexts.append,
        "new_context": _context_without_warnings,
        "program": source.function,
        "locate": with_location,
    }
    exec(compiled_code(text, "call"), namespace)
    return namespace["call"]  # type: ignore[return-value]


def _without_warnings(
    source: Source, with_location: Callable[[Exception], Exception]
) -> Callable[..., Any]:
    # As a decorator errstate takes half of the time that it takes as a context manager.
    run = np.errstate(all="ignore")(source.function)

    def call(*arguments: Any) -> Any:
        try:
            return run(*arguments)
        except Exception as error:
            raise with_location(error) from error

    return call


def _context_without_warnings() -> Context:
    """Return a context in which NumPy warns of nothing.

    Entering the context takes a tenth of the time of ``errstate``. But other context variables have
    no values in it, and only one call at a time can run in it.
    """
    context = Context()
    context.run(np.seterr, all="ignore")
    return context


def _runs_users_code(graph: Graph) -> bool:
    """Return whether operations, also in graphs of operations, call users' code."""
    return any(
        node.op.unwritten() is not None or any(map(_runs_users_code, node.op.graphs()))
        for node in graph.nodes
    )
