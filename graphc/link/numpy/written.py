"""A program written out as one function for NumPy, from a call's arguments to its results."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import Any

import numpy as np

from graphc.ir import Constant, Graph
from graphc.link.program import Lengths, Program, Step, located
from graphc.link.source import Source, compiled_code
from graphc.tensor.core.elementwise import Elementwise


def own(y: Any, dtype: np.dtype[Any], taken: set[int]) -> np.ndarray[Any, Any]:
    """A result as an array of its own, whose id is added to those that are taken."""
    if y.__class__ is not np.ndarray or y.dtype is not dtype:
        y = np.asarray(y, dtype)
    # A view of an argument, or the argument itself, would change with it.
    if id(y) in taken or not y.flags.owndata:
        y = y.copy()
    taken.add(id(y))
    return y  # type: ignore[no-any-return]


class WrittenCall(Source):
    """The text of a call: the program's, and results that are arrays of their own.

    Args:
        program: What it computes.
        single: Whether its only result is returned itself, and not in a list.
    """

    def __init__(self, program: Program, *, single: bool) -> None:
        self.single = single
        self.buffers = _Buffers(program)
        super().__init__(program)

    def call(self, step: Step) -> str:
        """The line of a step, whose result may take the memory of an operand."""
        line = super().call(step)
        free = self.buffers.free(step)
        return line if free is None else f"{line[:-1]}, {self.names[free]})"

    def results(self) -> list[str]:
        """The lines that return the outputs."""
        program = self.program
        ufuncs = {step.place for step in program.steps if _is_ufunc(step)}
        # What a function of NumPy's own computes has memory of its own, unless it is a number.
        is_fresh = len({*program.outputs}) == len(program.outputs) and ufuncs >= {*program.outputs}
        self.namespace |= {"own": own, "array": np.ndarray}
        lines = []
        if not is_fresh:
            given = "".join(f"id(a{i}), " for i in range(len(program.arguments)))
            lines.append(f"taken = {{{given}}}" if given else "taken = set()")
        names = []
        for k, (place, node) in enumerate(zip(program.outputs, program.graph.outputs, strict=True)):
            y, name = self.names[place], f"y{k}"
            self.namespace[f"t{k}"] = node.type.numpy_dtype
            if is_fresh:
                wrong = f"{y}.__class__ is not array or {y}.dtype is not t{k}"
                lines.append(f"if {wrong}: {y} = own({y}, t{k}, set())")
                name = y
            else:
                lines.append(f"{name} = own({y}, t{k}, taken)")
            names.append(name)
        found = ", ".join(names)
        self.steps += [None] * (len(lines) + 1)
        return [*lines, f"return {found}" if self.single else f"return [{found}]"]


class _Buffers:
    """The memory of values that are not needed any more, for results of NumPy's own functions.

    A value has memory of its own, of which nothing else is a view, if such a function computes it
    and if only such functions take it.

    Attributes:
        sure: The dtypes of values that are known to be as their types say, by place.
        own: The places of values with memory of their own.
        lengths: What is known of lengths so far.
    """

    def __init__(self, program: Program) -> None:
        self.last_uses = program.last_uses
        nodes = [
            *program.arguments,
            *(x for x in program.graph.nodes if isinstance(x.op, Constant)),
        ]
        self.sure = {program.places[x]: x.type.numpy_dtype for x in nodes}
        self.lengths = Lengths()
        others = [step.operands for step in program.steps if not _is_ufunc(step)]
        shown = {*program.outputs}.union(*others)
        self.own = {s.place for s in program.steps if _is_ufunc(s) and s.place not in shown}

    def free(self, step: Step) -> int | None:
        """The place of an operand whose memory the result of the next step may take."""
        node = step.node
        self.lengths.open(node)
        if not _is_ufunc(step) or not self.sure.keys() >= {*step.operands}:
            return None
        dtype = node.type.numpy_dtype
        dtypes = [self.sure[i] for i in step.operands]
        if step.compute.resolve_dtypes((*dtypes, None))[-1] != dtype:  # type: ignore[attr-defined]
            return None
        self.sure[step.place] = dtype
        if not node.type.ndim:
            return None  # NumPy gives numbers, which have no memory that could be taken
        dead = {*self.last_uses.get(step.place, ())} & self.own
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


def written(program: Program, *, single: bool) -> Callable[..., Any]:
    """The function of a call: numbers that are none come out of it without a warning.

    Args:
        program: What it computes.
        single: Whether its only result is returned itself, and not in a list.
    """
    source = WrittenCall(program, single=single)
    arguments = "".join(f"a{i}, " for i in range(len(program.arguments)))

    def failed(error: Exception) -> Exception:
        found = source.failed(error.__traceback__)
        return located(error, *found) if found else error

    if _runs_users_code(program.graph) or program.backend.is_altered:
        return _quiet(source, failed)
    contexts: list[Context] = []
    text = f"""
def call({arguments}):
    try:
        context = pop()
    except IndexError:
        context = made()
    try:
        return context.run(program, {arguments})
    except Exception as error:
        raise failed(error) from error
    finally:
        append(context)
"""
    namespace = {
        "pop": contexts.pop,
        "append": contexts.append,
        "made": _quiet_context,
        "program": source.function,
        "failed": failed,
    }
    exec(compiled_code(text, "call"), namespace)
    return namespace["call"]  # type: ignore[return-value]


def _quiet(source: Source, failed: Callable[[Exception], Exception]) -> Callable[..., Any]:
    # As a decorator it takes half of the time that it takes as a context.
    run = np.errstate(all="ignore")(source.function)

    def call(*arguments: Any) -> Any:
        try:
            return run(*arguments)
        except Exception as error:
            raise failed(error) from error

    return call


def _quiet_context() -> Context:
    """A context in which NumPy warns of nothing.

    To enter it takes a tenth of the time in which ``errstate`` sets the state and resets it. But
    other context variables have no values in it, and one call at a time can be in it.
    """
    made = Context()
    made.run(np.seterr, all="ignore")
    return made


def _runs_users_code(graph: Graph) -> bool:
    """Whether operations, or those in them, depend on more than graphc."""
    return any(
        node.op.unwritten() is not None or any(map(_runs_users_code, node.op.graphs()))
        for node in graph.nodes
    )
