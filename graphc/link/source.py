"""The text of a program: one straight-line function, for backends that run Python in each call."""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from types import CodeType, TracebackType
from typing import TYPE_CHECKING, Any

from graphc.ir import Node
from graphc.link.checks import admit, unequal_arguments, unequal_operands
from graphc.site import INTERNAL

if TYPE_CHECKING:
    from graphc.link.program import Program, Step

_numbers = itertools.count()


@lru_cache(1024)
def compiled_code(source: str, what: str) -> CodeType:
    """Compile generated source text; functions of equal signature share the code."""
    return compile(source, f"{INTERNAL}{what}>", "exec")


class Source:
    """A program's text and function, which drops values after their last use.

    Attributes:
        program: The program.
        namespace: The globals of the function.
        names: The variable of each value, by position.
        steps: The step that each line of the text computes, or None.
        text: The source code.
        file: The name of the text in tracebacks.
        function: The function from the inputs and leaves to the outputs.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.namespace: dict[str, Any] = {f"c{i}": value for i, value in program.constants}
        self.names = {i: f"c{i}" for i, _ in program.constants}
        self.names |= {i: f"a{i}" for i in range(len(program.arguments))}
        self.names |= {step.position: f"v{step.position}" for step in program.steps}
        self.steps: list[Step | None] = []
        self.text = self._write()
        self.file = f"{INTERNAL}program {next(_numbers)}>"
        exec(compile(self.text, self.file, "exec"), self.namespace)
        self.function: Callable[..., Any] = self.namespace["program"]

    def _write(self) -> str:
        program = self.program
        arguments = ", ".join(f"a{i}" for i in range(len(program.arguments)))
        body = [self._admission(i, x) for i, x in enumerate(program.graph.inputs)]
        body += self._named_checks()
        self.steps = [None, *[None] * len(body)]
        last = program.last_uses
        for step in program.steps:
            lines = [*self._checks(step), self.call(step)]
            if done := last.get(step.position):
                lines.append(f"del {', '.join(f'v{i}' for i in done)}")
            body += lines
            self.steps += [step] * len(lines)
        lines = [f"    {line}" for line in (*body, *self.results())]
        return "\n".join([f"def program({arguments}):", *lines, ""])

    def results(self) -> list[str]:
        """Return the lines that return the outputs."""
        return [f"return ({''.join(f'{self.names[i]}, ' for i in self.program.outputs)})"]

    def _admission(self, i: int, node: Node) -> str:
        wrong = [f"a{i}.ndim != {node.type.ndim}"]
        wrong += [f"a{i}.shape[{k}] != {n}" for k, n in enumerate(node.type.shape) if n is not None]
        self.namespace[f"r{i}"] = lambda value: admit(i, node, value)
        return f"if {' or '.join(wrong)}: r{i}(a{i})"

    def _named_checks(self) -> Iterator[str]:
        inputs = self.program.graph.inputs
        for k, check in enumerate(self.program.named_checks):
            a, m, b, n = check
            lengths = f"a{a}.shape[{m}]", f"a{b}.shape[{n}]"
            self.namespace[f"e{k}"] = partial(unequal_arguments, inputs, check)
            yield f"if {' != '.join(lengths)}: raise e{k}({', '.join(lengths)})"

    def _checks(self, step: Step) -> list[str]:
        lines = []
        names = [self.names[i] for i in step.operands]
        for k, check in enumerate(step.checks):
            a, m, b, n = check
            lengths = f"{names[a]}.shape[{m}]", f"{names[b]}.shape[{n}]"
            error = f"e{step.position}_{k}"
            self.namespace[error] = partial(unequal_operands, step.node)
            operands = f"({', '.join(names)},), {check}, {', '.join(lengths)}"
            lines.append(f"if {' != '.join(lengths)}: raise {error}({operands})")
        return lines

    def call(self, step: Step) -> str:
        """Return the line that computes a step."""
        self.namespace[f"f{step.position}"] = step.compute
        operands = ", ".join([self.names[i] for i in step.operands])
        return f"v{step.position} = f{step.position}({operands})"

    def failing_step(self, traceback: TracebackType | None) -> tuple[Node, list[Any]] | None:
        """Return the node in which an error was raised, and its operands' values."""
        while traceback is not None and traceback.tb_frame.f_code.co_filename != self.file:
            traceback = traceback.tb_next
        step = self.steps[traceback.tb_lineno - 1] if traceback is not None else None
        if traceback is None or step is None:
            return None
        local = traceback.tb_frame.f_locals
        names = [self.names[i] for i in step.operands]
        return step.node, [local.get(x, self.namespace.get(x)) for x in names]

    def show(self) -> None:
        """Register the text, so that debuggers and tracebacks show it."""
        lines = self.text.splitlines(keepends=True)
        linecache.cache[self.file] = (len(self.text), None, lines, self.file)
