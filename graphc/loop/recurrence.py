"""The arguments of scans, and the loops built from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from graphc import ir
from graphc.errors import ArgumentError, DTypeError
from graphc.loop.arguments import call_user, smallest_count, unrolling, until
from graphc.loop.build import build
from graphc.loop.carries import after, is_number, settle_dtypes, share_lengths
from graphc.loop.checkpoint import Checkpoint, build_in_segments, segment_length
from graphc.loop.draws import Draws, advance_keys, carry_variables
from graphc.loop.loop import Loop
from graphc.loop.step import LoopStep, of_kind, stand_in
from graphc.loop.taps import State, TappedSequence, state
from graphc.tensor.arrays.index import flip
from graphc.tensor.core.tensor import Tensor, as_tensor

ARGUMENTS = "elements of the sequences, past outputs, non-sequences"
"""A step's arguments, in their order."""


@dataclass(frozen=True)
class _Returned:
    outputs: list[Any]
    updates: dict[Any, Any]
    stop: Tensor | None


@dataclass(frozen=True, kw_only=True)
class _ScanStep(LoopStep):
    """A step of a scan, with its outputs' descriptions and the updates of shared variables."""

    states: list[State]
    updates: dict[Any, Tensor]


@dataclass(frozen=True)
class ScanResults:
    """The results of a scan.

    Attributes:
        states: The description of each output.
        finals: The last value of each output, or None for an output without carries.
        traces: Each output at all steps; None where only the last value is returned.
        updates: The shared variables' last values.
        draws: The shared keys of streams among them; functions update these by default.
    """

    states: list[State]
    finals: list[Tensor | None]
    traces: list[Tensor | None]
    updates: dict[Any, Tensor]
    draws: Draws = field(default_factory=dict)

    def outputs(self) -> list[Any]:
        """Return each output at all steps, or its last value where only that is returned."""
        pairs = zip(self.traces, self.finals, strict=True)
        return [final if trace is None else trace for trace, final in pairs]

    def last_outputs(self) -> list[Any]:
        """Return the outputs of the last step."""
        pairs = zip(self.traces, self.finals, strict=True)
        return [trace[-1] if final is None else final for trace, final in pairs]  # type: ignore[index]


@dataclass
class ScanArguments:
    """A scan's arguments, from which a loop is built."""

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
        # A step gives Python numbers their dtype.
        self.non_sequences = [
            x if is_number(x) or isinstance(x, ir.Wrapper) else as_tensor(x)
            for x in self.non_sequences
        ]

    def run(
        self,
        n_steps: int | Tensor | None = None,
        truncate: int = -1,
        checkpoint: Checkpoint = None,
        unroll: int | None = None,
    ) -> ScanResults:
        """Build the loop; by default, the shortest sequence determines the number of steps."""
        n = smallest_count([x.steps for x in self.sequences]) if n_steps is None else n_steps
        if n is None:
            raise ArgumentError(
                f"{self.title}: neither a sequence nor n_steps says how many steps there are.",
                "Give n_steps, also as the most there can be where a step returns until(...).",
            )
        xs = [y for x in self.sequences for y in x.windows(n, self.backwards, n_steps is not None)]
        init, step, draws = settle_dtypes(self.first, lambda init: self._trace_step(init, xs))
        step = replace(step, updates={**draws, **step.updates})
        if self.strict:
            self._check_strict(step)
        init, step = carry_variables(init, step, step.updates, self.non_sequences)
        # The steps before a stop are the first ones, so sequences are reversed instead.
        reverse = self.backwards and bool(xs)
        if reverse and step.stop is not None:
            xs, reverse = [flip(x, 0) for x in xs], False
        like = Loop(
            ir.Graph([], []),
            reverse=reverse,
            truncate=_truncation(self.title, truncate),
            unroll=unrolling(self.title, unroll),
            label=self.title,
        )
        arrays = self._build_loop(like, n, checkpoint, init, xs, step)
        results = self._collect_results(step, arrays, reverse)
        advance_keys(draws, results.updates)
        return replace(results, draws=draws)

    def _trace_step(self, init: Sequence[Tensor], xs: Sequence[Tensor]) -> _ScanStep:
        names = [name for x in self.sequences for name in x.names()]
        elements = [stand_in(x, name, 1) for x, name in zip(xs, names, strict=True)]
        names = [name for s in self.states for name in s.names()]
        carries = [stand_in(x, name) for x, name in zip(init, names, strict=True)]
        shares = self._split_carries(carries)
        past = [
            ir.wrap_like(s.wrapper, x)
            for s, part in zip(self.states, shares, strict=True)
            for x in s.read(part)
        ]
        sources = [x for x in self.sequences for _ in x.names()]
        read = [s.wrap(x) for s, x in zip(sources, elements, strict=True)]
        arguments = [*read, *past, *self.non_sequences]
        returned = self._sort_return_value(call_user(self.title, self.fn, arguments, ARGUMENTS))
        states = [
            s if s.wrapper is not None or not isinstance(y, ir.Wrapper) else replace(s, wrapper=y)
            for s, y in zip(
                self._output_states(len(returned.outputs)), returned.outputs, strict=True
            )
        ]
        shares = shares or [[] for _ in states]
        outputs = [
            self._as_output(i, ir.unwrap_pair(s.wrapper, y)[1], s.latest(part))
            for i, (y, s, part) in enumerate(zip(returned.outputs, states, shares, strict=True))
        ]
        nexts = [
            x
            for s, y, part in zip(states, outputs, shares, strict=True)
            for x in s.next_carries(y, part)
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

    def _split_carries(self, carries: Sequence[Tensor]) -> list[list[Tensor]]:
        remaining = iter(carries)
        return [[next(remaining) for _ in s.names()] for s in self.states]

    def _output_states(self, outputs: int) -> list[State]:
        states = self.states or [state(self.title, i, None) for i in range(outputs)]
        if len(states) == outputs:
            return states
        raise ArgumentError(
            f"{self.title}: a step returns {_count_phrase(outputs, 'output', 'outputs')}, and "
            f"outputs_info has {_count_phrase(len(states), 'entry', 'entries')}.",
            "Give an entry for each output: None for one that a step does not read.",
        )

    def _sort_return_value(self, value: Any) -> _Returned:
        items = list(value) if isinstance(value, list | tuple) else [value]
        stop, updates = None, {}
        if items and isinstance(items[-1], until):
            stop = items.pop().condition
        if items and _is_updates(items[-1]):
            updates = dict(items.pop())
        if len(items) == 1 and isinstance(items[0], list | tuple):
            items = list(items[0])
        if [x for x in items if isinstance(x, until | Mapping)]:
            raise ArgumentError(
                f"{self.title}: a step returns {value!r}.",
                "The order is outputs, updates, until(...), of which any may be left out.",
            )
        if not items and not updates:
            raise ArgumentError(
                f"{self.title}: a step returns {value!r}, and so nothing that a loop computes.",
                "Return an array, or updates of shared variables.",
            )
        return _Returned(items, self._convert_updates(updates), stop)

    def _convert_updates(self, updates: dict[Any, Any]) -> dict[Any, Any]:
        result = {}
        for variable, new in updates.items():
            if not _is_shared(variable):
                raise ArgumentError(
                    f"{self.title}: a step updates {variable!r}, which is not a shared variable.",
                    "Return it as an output, with its first value in outputs_info.",
                )
            variable, new = ir.unwrap_pair(variable, new)
            result[variable] = share_lengths(after(new, variable), variable)
        return result

    def _as_output(self, i: int, y: Any, like: Tensor | None) -> Tensor:
        try:
            array = after(y, like)
            return array if like is None else share_lengths(array, like)
        except DTypeError as error:
            raise ArgumentError(
                f"{self.title}: the output {i} of a step is {y!r}, not an array of numbers.",
                "Return symbolic arrays, one for each output.",
            ) from error

    def _check_strict(self, step: _ScanStep) -> None:
        outputs = [*step.outputs, *step.updates.values()]
        named = {*map(ir.unwrap, self.non_sequences), *(x.x for x in self.sequences), *step.updates}
        unnamed = [x for x in ir.toposort(outputs, named) if _is_shared(x)]
        if unnamed:
            names = ", ".join(repr(x) for x in unnamed)
            raise ArgumentError(
                f"{self.title}: a step uses {names}, and strict=True.",
                "Name what it uses in non_sequences.",
            )

    def _build_loop(
        self,
        like: Loop,
        n: int | Tensor,
        checkpoint: Checkpoint,
        init: list[Tensor],
        xs: list[Tensor],
        step: _ScanStep,
    ) -> list[Tensor]:
        k = segment_length(self.title, checkpoint, n)
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
        return build_in_segments(like, k, n, init, xs, step)

    def _collect_results(self, step: _ScanStep, arrays: list[Tensor], reverse: bool) -> ScanResults:
        finals: list[Tensor | None] = []
        first = 0
        for s in step.states:
            count = len(s.names())
            value = arrays[first] if count else None
            value = value[-1] if value is not None and count < s.depth else value
            finals.append(
                value if value is None else ir.wrap_like(s.wrapper, of_kind(s.initial, value))
            )
            first += count
        updates = dict(zip(step.updates, arrays[first:], strict=False))
        rows = iter(arrays[len(step.carries) :])
        wrappers = [x.user_value for x in self.sequences if isinstance(x.user_value, ir.Wrapper)]
        traces: list[Tensor | None] = []
        for s in step.states:
            row = next(rows) if s.traced else None
            if row is not None and step.stop is not None:
                row = row[: arrays[-1]]
            row = flip(row, 0) if row is not None and reverse else row
            traces.append(
                row if row is None or s.wrapper is None else s.wrapper.rows(row, wrappers)
            )
        return ScanResults(step.states, finals, traces, updates)


def _is_shared(x: Any) -> bool:
    x = ir.unwrap(x)
    return isinstance(x, ir.Node) and isinstance(x.op, ir.Input) and x.op.is_shared


def _is_updates(value: Any) -> bool:
    """Return whether a value is a dict, or a list of pairs of a shared variable and its value."""
    pairs = isinstance(value, list | tuple) and bool(value)
    return isinstance(value, Mapping) or (
        pairs and all(isinstance(x, tuple) and len(x) == 2 and _is_shared(x[0]) for x in value)
    )


def _count_phrase(n: int, singular: str, plural: str) -> str:
    return f"{n} {singular if n == 1 else plural}"


def _truncation(title: str, value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or value < -1:
        raise ArgumentError(
            f"{title}: truncate_gradient={value!r}.",
            "Give the number of steps to go back through, or -1 for all.",
        )
    return None if value == -1 else value
