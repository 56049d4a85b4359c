"""Loops: ``Scan`` and its kinds of states, as graphc's loop.

PyTensor's loop writes into buffers that begin with the first values; graphc's loop carries states
and stacks rows. A state whose last K values a step reads is a window of K carries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import graphc.tensor as gt
from graphc.interop.pytensor.application import Application, Refusal, length
from graphc.interop.pytensor.elementwise import in_dtype
from graphc.ir import Graph
from graphc.loop.build import build
from graphc.loop.loop import Loop
from graphc.loop.step import LoopStep, stand_in
from graphc.loop.taps import State, rows_of
from graphc.tensor.core.tensor import Tensor

Count = int | Tensor


@dataclass
class Carried:
    """A state or an output of a scan: its carries, what a step reads, and its result.

    Attributes:
        init: The carries before the first step.
        parameters: The symbols of the carries in the step.
        nexts: The carries after the step.
        row: The row that the step stacks, or None.
    """

    init: list[Tensor] = field(default_factory=list)
    parameters: list[Tensor] = field(default_factory=list)
    nexts: list[Tensor] = field(default_factory=list)
    row: Tensor | None = None

    def __post_init__(self) -> None:
        self.parameters = [stand_in(x) for x in self.init]

    def read(self) -> list[Tensor]:
        """Return the arguments of the step."""
        return self.parameters

    def take(self, new: list[Tensor]) -> None:
        """Set the next carries and the row from the outputs of the step."""
        self.nexts = new

    def result(self, finals: list[Tensor], row: Tensor | None, n: Count, done: Any) -> Tensor:
        """Return the result of the scan for this state."""
        (final,) = finals
        return final


@dataclass
class Buffered(Carried):
    """A buffer of ``sit_sot``, ``mit_sot`` or ``nit_sot``; no step reads the last kind.

    Attributes:
        state: The taps, and how they are carried.
        first: The rows that the buffer begins with.
        length: The number of rows of the buffer; None if it has all.
    """

    state: State = field(kw_only=True)
    first: Tensor | None = None
    length: Count | None = None

    @property
    def is_short(self) -> bool:
        """Whether the buffer holds nothing but carries at the end."""
        return isinstance(self.length, int) and self.length <= len(self.init)

    def read(self) -> list[Tensor]:
        return self.state.read(self.parameters)

    def take(self, new: list[Tensor]) -> None:
        (y,) = new
        self.nexts = self.state.next_carries(y, self.parameters)
        self.row = None if self.is_short else y

    def result(self, finals: list[Tensor], row: Tensor | None, n: Count, done: Any) -> Tensor:
        """Return the first rows and the rows of the steps, or the last ``length`` of them."""
        if row is None:
            assert isinstance(self.length, int)
            return gt.stack(finals[: self.length][::-1], axis=0)
        rows = row if done is None else row[:done]
        all_rows = rows if self.first is None else gt.concatenate([self.first, rows], axis=0)
        if self.length is None:
            return all_rows
        last = all_rows[gt.maximum(all_rows.shape[0] - self.length, 0) :]
        # A buffer that is longer than the loop ends with zeros.
        blank = gt.maximum(self.length - (n + self.state.depth), 0)
        rest = [last.shape[i] for i in range(1, last.ndim)]
        return gt.concatenate([last, gt.zeros([blank, *rest], dtype=last.dtype)], axis=0)


@dataclass
class BufferWindow(Carried):
    """A buffer of ``mit_mot``: a step reads and replaces rows of it at fixed distances.

    A step sees the rows from the first to the last of these distances. The next step sees the rows
    one further on: the first row leaves the window, and the row after the last one enters.

    Attributes:
        buffer: The rows before the loop.
        reads: The distances of the rows that a step reads.
        writes: The distances of the rows that a step replaces, in the order of its outputs.
        entering: The symbol of the row that enters.
    """

    buffer: Tensor = field(kw_only=True)
    reads: Sequence[int] = field(kw_only=True)
    writes: Sequence[int] = field(kw_only=True)
    entering: Tensor = field(init=False)

    def __post_init__(self) -> None:
        if min(self.writes, default=0) < min(self.reads):
            raise Refusal("a state (mit_mot) that is written before the first row that is read")
        self.init = [self.buffer[i] for i in range(self.depth)]
        self.entering = stand_in(self.buffer, axes=1)
        super().__post_init__()

    @property
    def depth(self) -> int:
        """The number of carries: the rows of a window except the entering one."""
        return max(*self.reads, *self.writes) - min(self.reads)

    def sequence(self, n: Count) -> Tensor:
        """Return the rows that enter."""
        return rows_of("scan: a state of several outputs", self.buffer[self.depth :][:n], n)

    def read(self) -> list[Tensor]:
        rows = [*self.parameters, self.entering]
        return [rows[i - min(self.reads)] for i in self.reads]

    def take(self, new: list[Tensor]) -> None:
        rows = [*self.parameters, self.entering]
        for i, y in zip(self.writes, new, strict=True):
            rows[i - min(self.reads)] = in_dtype(y, self.buffer.dtype)
        self.row, *self.nexts = rows

    def result(self, finals: list[Tensor], row: Tensor | None, n: Count, done: Any) -> Tensor:
        """Return the buffer after the loop."""
        assert row is not None
        ends = [gt.expand_dims(x, 0) for x in finals]
        return gt.concatenate([row, *ends, self.buffer[self.depth + n :]], axis=0)


def scan(at: Application, n_steps: Tensor, *operands: Any) -> list[Any]:
    """Return the buffers that ``Scan`` fills, and the last values of other states."""
    op, info, n = at.op, at.op.info, length(n_steps)
    title = op.name or "scan"
    outer = zip(at.inputs[1:], operands, strict=True)
    sequences = [x[:n] for _, x in islice(outer, info.n_seqs)]
    windows = [
        BufferWindow(buffer=x, reads=reads, writes=writes)
        for (_, x), reads, writes in zip(
            islice(outer, info.n_mit_mot),
            info.mit_mot_in_slices,
            info.mit_mot_out_slices,
            strict=True,
        )
    ]
    taps = [*info.mit_sot_in_slices, *info.sit_sot_in_slices]
    buffers = [
        _buffer(at, title, variable, x, taps)
        for (variable, x), taps in zip(islice(outer, len(taps)), taps, strict=True)
    ]
    untraced = [Carried([x]) for _, x in islice(outer, _untraced_count(info))]
    maps = [
        Buffered(
            state=State(title, "row"), length=None if v is at.inputs[0] else _buffer_length(x, n)
        )
        for v, x in islice(outer, info.n_nit_sot)
    ]
    states = [*windows, *buffers, *untraced]
    elements = [stand_in(x, axes=1) for x in sequences]
    reads = [y for x in states for y in x.read()]
    outputs = iter(at.inner(op.fgraph, [*elements, *reads, *[x for _, x in outer]]))
    for window in windows:
        window.take(list(islice(outputs, len(window.writes))))
    # A state that is not traced comes last among the outputs.
    for x in [*buffers, *maps, *untraced]:
        x.take(list(islice(outputs, 1)))
    stop = next(outputs, None)
    return _build_loop(at, n, sequences, elements, [*windows, *buffers, *maps, *untraced], stop)


def _build_loop(
    at: Application,
    n: Count,
    sequences: list[Tensor],
    elements: list[Tensor],
    states: list[Carried],
    stop: Any,
) -> list[Tensor]:
    title, truncate = at.op.name or "scan", getattr(at.op, "truncate_gradient", -1)
    windows = [x for x in states if isinstance(x, BufferWindow)]
    if windows and stop is not None:
        raise Refusal("a loop that stops and has states of several outputs (mit_mot)")
    step = LoopStep(
        carries=[x for s in states for x in s.parameters],
        xs=[*elements, *[w.entering for w in windows]],
        nexts=[
            x if s.init[i].dtype == x.dtype else in_dtype(x, s.init[i].dtype)
            for s in states
            for i, x in enumerate(s.nexts)
        ],
        rows=[s.row for s in states if s.row is not None],
        stop=stop,
    )
    like = Loop(Graph([], []), truncate=None if truncate == -1 else truncate, label=title)
    xs = [*[rows_of(title, x, n) for x in sequences], *[w.sequence(n) for w in windows]]
    results = iter(build(like, n, None, [x for s in states for x in s.init], xs, step))
    finals = [list(islice(results, len(s.init))) for s in states]
    rows = [None if s.row is None else next(results) for s in states]
    done = next(results, None)
    triples = zip(states, finals, rows, strict=True)
    return [s.result(final, row, n, done) for s, final, row in triples]


def _untraced_count(info: Any) -> int:
    if hasattr(info, "n_untraced_sit_sot"):
        return info.n_untraced_sit_sot  # type: ignore[no-any-return]
    return info.n_shared_outs  # type: ignore[no-any-return]


def _buffer_length(x: Tensor, n: Count) -> Count | None:
    """Return the length of a buffer without first values, or None for all steps."""
    size = length(x)
    return None if size is n or (isinstance(size, int) and size == n) else size


def _buffer(at: Application, title: str, variable: Any, x: Tensor, taps: Sequence[int]) -> Buffered:
    depth = -min(taps)
    first, has_all = _first_rows(at, variable, x, depth)
    n, static = length(at.values[at.inputs[0]]), x.type.shape[0]
    if isinstance(n, int) and static == n + depth:
        has_all = True
    state = State(title, variable.name or "state", first, tuple(taps), rows=True)
    size = None if has_all else x.shape[0] if static is None else static
    return Buffered(state.first(), state=state, first=first, length=size)


def _first_rows(at: Application, variable: Any, x: Tensor, depth: int) -> tuple[Tensor, bool]:
    """Return a buffer's first rows, and whether it has rows for all steps.

    ``scan`` makes buffers as ``empty(n_steps + depth)[:depth].set(first)``.
    """
    node = variable.owner
    if node is not None and type(node.op).__name__ == "IncSubtensor" and node.op.set_instead_of_inc:
        empty, first = node.inputs[0].owner, at.values[node.inputs[1]]
        if empty is not None and type(empty.op).__name__ == "AllocEmpty" and first.ndim == x.ndim:
            size = empty.inputs[0].owner
            is_sum = size is not None and str(getattr(size.op, "scalar_op", "")) == "add"
            if is_sum and len(size.inputs) == 2 and at.inputs[0] in size.inputs:
                return rows_of("scan", first[:depth], depth), True
    return x[:depth], False
