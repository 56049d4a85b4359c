"""The time of a program's parts: the measurements of a backend, and a stopwatch for them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from graphc.ir import Constant, Node, Pick

if TYPE_CHECKING:
    from graphc.link.program import Program

Clock = Callable[[], float]


@dataclass(slots=True)
class ProgramPart:
    """A part of a program, with its total time in all measured calls.

    Attributes:
        nodes: The operations that the part computes; none if the backend added the part.
        inside: The enclosing operations with graphs, such as loops, the outermost first.
        label: The name of a part without operations.
        seconds: The time, without the time of parts inside.
        calls: The number of executions.
        bytes: The sizes of the operands and results.
    """

    nodes: tuple[Node, ...]
    inside: tuple[Node, ...] = ()
    label: str = ""
    seconds: float = 0.0
    calls: int = 0
    bytes: int = 0


PartKey = tuple[tuple[Node, ...], tuple[Node, ...], str]


class ProgramParts:
    """The distinct parts of a program."""

    def __init__(self) -> None:
        self._parts: dict[PartKey, ProgramPart] = {}

    def add(
        self, nodes: Sequence[Node], inside: Sequence[Node] = (), label: str = ""
    ) -> ProgramPart:
        """Return the part of these nodes; create it if there is none."""
        key = tuple(nodes), tuple(inside), label
        return self._parts.setdefault(key, ProgramPart(*key))

    def all(self) -> list[ProgramPart]:
        """Return the parts, in the order in which they were added."""
        return [*self._parts.values()]


@dataclass(frozen=True)
class Measurement:
    """A backend's measurement of a program.

    Attributes:
        method: The method, in words.
        seconds: The time of all measured calls.
        alone: The time of the same number of calls without measurements inside.
        parts: The parts, whose times add up to ``seconds`` at most.
        phases: The seconds of each phase of compilation.
        results: The outputs of the last call.
    """

    method: str
    seconds: float
    alone: float
    parts: Sequence[ProgramPart]
    phases: Mapping[str, float]
    results: Sequence[Any]


class Profiler(Protocol):
    """The function ``measure`` in ``profile.py`` of a backend's folder."""

    def __call__(
        self,
        program: Program,
        options: Mapping[str, Any],
        arguments: Sequence[Any],
        repeat: int,
        *,
        fused: bool,
    ) -> Measurement:
        """Measure the calls of a program.

        Args:
            program: The program.
            options: The options of the mode.
            arguments: The arguments, NumPy arrays.
            repeat: The number of calls.
            fused: Whether to measure fused operations together, as they are compiled.
        """


def profiler(name: str) -> Profiler:
    """Return the profiler of a backend; the first call imports it."""
    module = importlib.import_module(f"graphc.link.{name.lower()}.profile")
    return module.measure  # type: ignore[no-any-return]


def time_calls(call: Callable[[], Any], repeat: int, clock: Clock = perf_counter) -> float:
    """Return the seconds that some calls take together."""
    start = clock()
    for _ in range(repeat):
        call()
    return clock() - start


def size_of(values: Any) -> int:
    """Return the bytes of an array, or of the arrays in a tuple or list."""
    if isinstance(values, tuple | list):
        return sum(map(size_of, values))
    return getattr(values, "nbytes", 0)


@dataclass
class Stopwatch:
    """A clock for parts that call each other.

    Attributes:
        finish: Waits for a result and returns it, on backends that run asynchronously.
        clock: Returns the time in seconds.
        parts: The timed parts.
    """

    finish: Callable[[Any], Any] = field(default=lambda result: result)
    clock: Clock = perf_counter
    parts: ProgramParts = field(default_factory=ProgramParts)
    _inside: list[Node] = field(default_factory=list)
    _inner: list[float] = field(default_factory=lambda: [0.0])

    def run(self, nodes: tuple[Node, ...], compute: Callable[..., Any], *values: Any) -> Any:
        """Return the result of a function that computes these nodes, and time it."""
        part = self.parts.add(nodes, self._inside)
        depth = len(self._inside)
        self._inside += nodes[:1]
        self._inner.append(0.0)
        start = self.clock()
        try:
            result = self.finish(compute(*values))
        finally:
            seconds = self.clock() - start
            del self._inside[depth:]
            part.seconds += seconds - self._inner.pop()
            self._inner[-1] += seconds
        part.calls += 1
        part.bytes += size_of(values) + size_of(result)
        return result

    def observe(self, node: Node, compute: Callable[..., Any]) -> Callable[..., Any]:
        """Return a timed function of a node; constants and picks are not timed."""
        if isinstance(node.op, Pick | Constant):
            return compute
        return partial(self.run, (node,), compute)

    def reset(self) -> None:
        """Forget the times so far."""
        self.parts = ProgramParts()
