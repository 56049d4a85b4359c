"""The time of a program's parts: what a backend measures, and the stopwatch for it."""

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
class Part:
    """A part of a program, and what it took in all measured calls together.

    Attributes:
        nodes: The operations it computes; none where the backend adds it.
        inside: The operations with graphs that it is in, such as loops, from the outside.
        label: What it is called where it computes no operation.
        seconds: The time, without that of parts inside of it.
        calls: The number of times that it ran.
        bytes: The sizes of its operands and results.
    """

    nodes: tuple[Node, ...]
    inside: tuple[Node, ...] = ()
    label: str = ""
    seconds: float = 0.0
    calls: int = 0
    bytes: int = 0


Key = tuple[tuple[Node, ...], tuple[Node, ...], str]


class Parts:
    """The parts of a program, each once."""

    def __init__(self) -> None:
        self._found: dict[Key, Part] = {}

    def add(self, nodes: Sequence[Node], inside: Sequence[Node] = (), label: str = "") -> Part:
        """Return the part of these nodes, a new one where there is none yet."""
        key = tuple(nodes), tuple(inside), label
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = Part(*key)
        return found

    def all(self) -> list[Part]:
        """Return the parts, in the order in which they were added."""
        return [*self._found.values()]


@dataclass(frozen=True)
class Measurement:
    """What a backend measured.

    Attributes:
        method: How, in words.
        seconds: The time of all measured calls.
        alone: The time of as many calls without any measurement within.
        parts: The parts; their times add up to no more than ``seconds``.
        phases: The seconds that each phase of the backend's compiling took.
        results: The outputs of the last call.
    """

    method: str
    seconds: float
    alone: float
    parts: Sequence[Part]
    phases: Mapping[str, float]
    results: Sequence[Any]


class Profiler(Protocol):
    """The function ``measured`` in ``profile.py`` of a backend's folder."""

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
            program: Takes the arguments.
            options: Of the mode.
            arguments: NumPy arrays.
            repeat: The number of calls.
            fused: Whether operations are measured together as they are compiled, and not each.
        """


def profiler(name: str) -> Profiler:
    """The profiler of a backend, which is imported when it is needed."""
    module = importlib.import_module(f"graphc.link.{name.lower()}.profile")
    found: Profiler = module.measured
    return found


def repeated(call: Callable[[], Any], repeat: int, clock: Clock = perf_counter) -> float:
    """The seconds that some calls take together."""
    start = clock()
    for _ in range(repeat):
        call()
    return clock() - start


def size_of(values: Any) -> int:
    """The bytes of an array, or of those in a tuple or list."""
    if isinstance(values, tuple | list):
        return sum(map(size_of, values))
    return getattr(values, "nbytes", 0)


@dataclass
class Stopwatch:
    """The time of parts that run within each other.

    Attributes:
        finish: Waits until a result is there, on backends that run behind the caller's back.
        clock: Gives the time in seconds.
        parts: What was timed.
    """

    finish: Callable[[Any], Any] = field(default=lambda found: found)
    clock: Clock = perf_counter
    parts: Parts = field(default_factory=Parts)
    _inside: list[Node] = field(default_factory=list)
    _inner: list[float] = field(default_factory=lambda: [0.0])

    def run(self, nodes: tuple[Node, ...], compute: Callable[..., Any], *values: Any) -> Any:
        """Return the result of a function that computes these nodes; it is timed."""
        part = self.parts.add(nodes, self._inside)
        depth = len(self._inside)
        self._inside += nodes[:1]
        self._inner.append(0.0)
        start = self.clock()
        try:
            found = self.finish(compute(*values))
        finally:
            taken = self.clock() - start
            del self._inside[depth:]
            part.seconds += taken - self._inner.pop()
            self._inner[-1] += taken
        part.calls += 1
        part.bytes += size_of(values) + size_of(found)
        return found

    def observe(self, node: Node, compute: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that computes a node and is timed, if there is anything to time."""
        if isinstance(node.op, Pick | Constant):
            return compute
        return partial(self.run, (node,), compute)

    def reset(self) -> None:
        """Forget what was timed so far."""
        self.parts = Parts()
