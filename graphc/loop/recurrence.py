"""Scans: their arguments, and the loops that they become."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from graphc.errors import ArgumentError, DTypeError
from graphc.ir import (
    Graph,
    Input,
    Node,
    Wrapper,
    toposort,
    unwrapped,
    unwrapped_pair,
    wrapped,
)
from graphc.loop.arguments import called, fewest, unrolled, until
from graphc.loop.build import build
from graphc.loop.carries import after, fitted, is_number, settled
from graphc.loop.checkpoint import Checkpoint, looped, segment
from graphc.loop.draws import Draws, advanced, carrying
from graphc.loop.loop import Loop
from graphc.loop.step import LoopStep, of_kind, stand_in
from graphc.loop.taps import State, TappedSequence, state
from graphc.tensor.arrays.index import flip
from graphc.tensor.core.tensor import Tensor, as_tensor

ARGUMENTS = "elements of the sequences, past outputs, non-sequences"
"""A step's arguments, in their order."""


@dataclass(frozen=True)
class _Returned:
    """The values a step returned, sorted."""

    outputs: list[Any]
    updates: dict[Any, Any]
    stop: Tensor | None


@dataclass(frozen=True, kw_only=True)
class _ScanStep(LoopStep):
    """A step of a scan.

    Attributes:
        states: The description of each output; those of a scan without any are maps.
        updates: The shared variables' values after the step.
    """

    states: list[State]
    updates: dict[Any, Tensor]


@dataclass(frozen=True)
class ScanResults:
    """The results of a scan.

    Attributes:
        states: What each output is.
        finals: For each output that has carries, its last value.
        traces: Each output at all steps; None where only the last value is returned.
        updates: The shared variables' last values.
        draws: Those of them that a stream draws from; functions update them by default.
    """

    states: list[State]
    finals: list[Tensor | None]
    traces: list[Tensor | None]
    updates: dict[Any, Tensor]
    draws: Draws = field(default_factory=dict)

    def shown(self) -> list[Any]:
        """The outputs."""
        pairs = zip(self.traces, self.finals, strict=True)
        return [final if trace is None else trace for trace, final in pairs]

    def last(self) -> list[Any]:
        """The outputs of the last step."""
        pairs = zip(self.traces, self.finals, strict=True)
        return [trace[-1] if final is None else final for trace, final in pairs]  # type: ignore[index]


@dataclass
class Recurrence:
    """A scan's arguments, and how a loop is made of them."""

    title: str
    fn: Callable[..., Any]
    sequences: list[TappedSequence]
    states: list[State]
    non_sequences: list[Any]
    backwards: bool = False
    strict: bool = False
    first: list[Any] = field(init=False)

    def __post_init__(self) -> None:
        self.first = [x for s in self.states for x in s.first()]
        self.non_sequences = [_passed(x) for x in self.non_sequences]

    def run(
        self,
        n_steps: int | Tensor | None = None,
        truncate: int = -1,
        checkpoint: Checkpoint = None,
        unroll: int | None = None,
    ) -> ScanResults:
        """The outputs of a number of steps, by default as many as the sequences have elements."""
        n = fewest([x.steps for x in self.sequences]) if n_steps is None else n_steps
        if n is None:
            raise ArgumentError(
                f"{self.title}: neither a sequence nor n_steps says how many steps there are.",
                "Give n_steps, also as the most there can be where a step returns until(...).",
            )
        xs = [y for x in self.sequences for y in x.windows(n, self.backwards, n_steps is not None)]
        init, step, draws = settled(self.first, lambda init: self._traced(init, xs))
        step = replace(step, updates={**draws, **step.updates})
        if self.strict:
            self._refuse_shared(step)
        init, step = carrying(init, step, step.updates, self.non_sequences)
        # Steps that stop count from the start.
        turned = self.backwards and bool(xs)
        if turned and step.stop is not None:
            xs, turned = [flip(x, 0) for x in xs], False
        like = Loop(
            Graph([], []),
            reverse=turned,
            truncate=_truncated(self.title, truncate),
            unroll=unrolled(self.title, unroll),
            label=self.title,
        )
        found = self._looped(like, n, checkpoint, init, xs, step)
        results = self._found(step, found, turned)
        advanced(draws, results.updates)
        return replace(results, draws=draws)

    def _traced(self, init: Sequence[Tensor], xs: Sequence[Tensor]) -> _ScanStep:
        """The step for first values of these types."""
        names = [name for x in self.sequences for name in x.names()]
        elements = [stand_in(x, name, 1) for x, name in zip(xs, names, strict=True)]
        names = [name for s in self.states for name in s.names()]
        carries = [stand_in(x, name) for x, name in zip(init, names, strict=True)]
        own = self._shares(carries)
        past = [
            wrapped(s.wrapper, x)
            for s, part in zip(self.states, own, strict=True)
            for x in s.read(part)
        ]
        sources = [x for x in self.sequences for _ in x.names()]
        elements_given = [s.wrapped(x) for s, x in zip(sources, elements, strict=True)]
        given = [*elements_given, *past, *self.non_sequences]
        returned = self._returned(called(self.title, self.fn, given, ARGUMENTS))
        states = [
            s if s.wrapper is not None or not isinstance(y, Wrapper) else replace(s, wrapper=y)
            for s, y in zip(self._states(len(returned.outputs)), returned.outputs, strict=True)
        ]
        own = own or [[] for _ in states]
        outputs = [
            self._output(i, unwrapped_pair(s.wrapper, y)[1], s.one(part))
            for i, (y, s, part) in enumerate(zip(returned.outputs, states, own, strict=True))
        ]
        nexts = [
            x for s, y, part in zip(states, outputs, own, strict=True) for x in s.moved(y, part)
        ]
        return _ScanStep(
            carries=carries,
            xs=elements,
            nexts=nexts,
            rows=[y for s, y in zip(states, outputs, strict=True) if s.traced],
            stop=returned.stop,
            states=states,
            updates=returned.updates,
        )

    def _shares(self, carries: Sequence[Tensor]) -> list[list[Tensor]]:
        """The carries of each output."""
        left = iter(carries)
        return [[next(left) for _ in s.names()] for s in self.states]

    def _states(self, outputs: int) -> list[State]:
        """The description of each output of a step."""
        states = self.states or [state(self.title, i, None) for i in range(outputs)]
        if len(states) == outputs:
            return states
        raise ArgumentError(
            f"{self.title}: a step returns {_counted(outputs, 'output', 'outputs')}, and "
            f"outputs_info has {_counted(len(states), 'entry', 'entries')}.",
            "Give an entry for each output: None for one that a step does not read.",
        )

    def _returned(self, given: Any) -> _Returned:
        """A step's return value: outputs, updates of shared variables, and whether to stop."""
        parts = list(given) if isinstance(given, list | tuple) else [given]
        stop, updates = None, {}
        if parts and isinstance(parts[-1], until):
            stop = parts.pop().condition
        if parts and _is_updates(parts[-1]):
            updates = dict(parts.pop())
        if len(parts) == 1 and isinstance(parts[0], list | tuple):
            parts = list(parts[0])
        if [x for x in parts if isinstance(x, until | Mapping)]:
            raise ArgumentError(
                f"{self.title}: a step returns {given!r}.",
                "The order is outputs, updates, until(...), of which any may be left out.",
            )
        if not parts and not updates:
            raise ArgumentError(
                f"{self.title}: a step returns {given!r}, and so nothing that a loop computes.",
                "Return an array, or updates of shared variables.",
            )
        return _Returned(parts, self._updates(updates), stop)

    def _updates(self, given: dict[Any, Any]) -> dict[Any, Any]:
        found = {}
        for variable, new in given.items():
            if not _is_shared(variable):
                raise ArgumentError(
                    f"{self.title}: a step updates {variable!r}, which is not a shared variable.",
                    "Return it as an output, with its first value in outputs_info.",
                )
            variable, new = unwrapped_pair(variable, new)
            found[variable] = fitted(after(new, variable), variable)
        return found

    def _output(self, place: int, y: Any, like: Tensor | None) -> Tensor:
        try:
            found = after(y, like)
            return found if like is None else fitted(found, like)
        except DTypeError as error:
            raise ArgumentError(
                f"{self.title}: the output {place} of a step is {y!r}, not an array of numbers.",
                "Return symbolic arrays, one for each output.",
            ) from error

    def _refuse_shared(self, step: _ScanStep) -> None:
        ends = [*step.outputs, *step.updates.values()]
        known = {*map(unwrapped, self.non_sequences), *(x.x for x in self.sequences), *step.updates}
        unnamed = [x for x in toposort(ends, known) if _is_shared(x)]
        if unnamed:
            names = ", ".join(repr(x) for x in unnamed)
            raise ArgumentError(
                f"{self.title}: a step uses {names}, and strict=True.",
                "Name what it uses in non_sequences.",
            )

    def _looped(
        self,
        like: Loop,
        n: int | Tensor,
        checkpoint: Checkpoint,
        init: list[Tensor],
        xs: list[Tensor],
        step: _ScanStep,
    ) -> list[Tensor]:
        k = segment(self.title, checkpoint, n)
        if checkpoint is None or (k is None and step.stop is None):
            return build(like, n, None, init, xs, step)
        if step.stop is not None or like.truncate is not None:
            other = "truncate_gradient" if step.stop is None else "until"
            raise ArgumentError(
                f"{self.title}: both checkpoint= and {other}.",
                "Leave checkpoint= out."
                if step.stop is None
                else "Do a number of steps that is known before, or leave checkpoint= out.",
            )
        return looped(like, k, n, init, xs, step)

    def _found(self, step: _ScanStep, found: list[Tensor], turned: bool) -> ScanResults:
        finals: list[Tensor | None] = []
        place = 0
        for s in step.states:
            count = len(s.names())
            value = found[place] if count else None
            value = value[-1] if value is not None and count < s.depth else value
            finals.append(value if value is None else wrapped(s.wrapper, of_kind(s.initial, value)))
            place += count
        updates = dict(zip(step.updates, found[place:], strict=False))
        rows = iter(found[len(step.carries) :])
        along = [x.given for x in self.sequences if isinstance(x.given, Wrapper)]
        traces: list[Tensor | None] = []
        for s in step.states:
            row = next(rows) if s.traced else None
            if row is not None and step.stop is not None:
                row = row[: found[-1]]
            row = flip(row, 0) if row is not None and turned else row
            traces.append(row if row is None or s.wrapper is None else s.wrapper.rows(row, along))
        return ScanResults(step.states, finals, traces, updates)


def _is_shared(x: Any) -> bool:
    x = unwrapped(x)
    return isinstance(x, Node) and isinstance(x.op, Input) and x.op.is_shared


def _is_updates(given: Any) -> bool:
    """Whether it is a dict, or a list of pairs of a shared variable and its value."""
    pairs = isinstance(given, list | tuple) and bool(given)
    return isinstance(given, Mapping) or (
        pairs and all(isinstance(x, tuple) and len(x) == 2 and _is_shared(x[0]) for x in given)
    )


def _passed(x: Any) -> Any:
    """A non-sequence as a step gets it: Python's numbers as they are, so that they take a dtype."""
    return x if is_number(x) or isinstance(x, Wrapper) else as_tensor(x)


def _counted(n: int, one: str, several: str) -> str:
    return f"{n} {one if n == 1 else several}"


def _truncated(title: str, given: Any) -> int | None:
    if isinstance(given, bool) or not isinstance(given, int) or given < -1:
        raise ArgumentError(
            f"{title}: truncate_gradient={given!r}.",
            "Give the number of steps to go back through, or -1 for all.",
        )
    return None if given == -1 else given
