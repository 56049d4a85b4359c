"""The derivatives of a loop, which are loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from graphc.errors import GradientError
from graphc.grad.forward import push
from graphc.grad.reverse import cotangents, sum_by_node, typed_like
from graphc.ir import Node, TensorType, is_inexact, replace_nodes, toposort
from graphc.loop.build import ENDLESS, OpenedLoop, build
from graphc.loop.residuals import Residuals, indices_of
from graphc.loop.step import LoopStep, stand_in
from graphc.tensor.arrays.create import arange, zeros_like
from graphc.tensor.arrays.join import concatenate
from graphc.tensor.core.axes import expand_dims
from graphc.tensor.core.elementwise import greater_equal, less, minimum, where
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.signal.pad import pad

if TYPE_CHECKING:
    from graphc.loop.loop import Loop


def pull_back_loop(
    op: Loop, g: Sequence[Tensor | None], y: Any, inputs: Sequence[Tensor]
) -> list[Tensor | None]:
    """Return the cotangents of a loop's inputs, from a loop in the other direction."""
    if not any(part is not None for part in g):
        return [None] * len(inputs)
    if op.steps == ENDLESS:
        raise GradientError(
            f"{op.title} ends by its condition alone, and a gradient must store what it did.",
            "Give the most steps there can be: max_steps=... or n_steps=...",
            y.where,
        )
    return _Pullback(op, g, inputs).input_cotangents()


class _Pullback:
    """The pullback of a loop; ``g`` is None for results without a cotangent."""

    def __init__(self, op: Loop, g: Sequence[Tensor | None], inputs: Sequence[Tensor]) -> None:
        self.op = op
        self.body = OpenedLoop.of(op, inputs)
        outputs = op.step.outputs[: op.carries + op.stacked]
        gs = [p if is_inexact(y.type.dtype) else None for y, p in zip(outputs, g, strict=False)]
        self.final = gs[: op.carries]
        self.stacked = {j: p for j, p in enumerate(gs[op.carries :]) if p is not None}
        self._differentiate()

    def _differentiate(self) -> None:
        """Pull the step back from all carries that a cotangent reaches."""
        body = self.body
        wrt = body.inputs
        self.by_row = {j: typed_like(body.rows[j], "cotangent") for j in self.stacked}
        reached = {i for i, part in enumerate(self.final) if part is not None}
        while True:
            self.by_carry = {i: typed_like(body.nexts[i], "cotangent") for i in sorted(reached)}
            seeds = [(body.nexts[i], p) for i, p in self.by_carry.items()]
            seeds += [(body.rows[j], p) for j, p in self.by_row.items()]
            gs = cotangents(sum_by_node(seeds), wrt)
            gs = [
                g if g is not None and is_inexact(x.dtype) else None
                for x, g in zip(wrt, gs, strict=True)
            ]
            extended = reached | {i for i in range(self.op.carries) if gs[i] is not None}
            if extended == reached:
                break
            reached = extended
        c, x = self.op.carries, self.op.carries + self.op.sequences
        self.of_carries = {i: gs[i] for i in self.by_carry}
        self.of_xs = {i: part for i, part in enumerate(gs[c:x]) if part is not None}
        self.of_consts = {i: part for i, part in enumerate(gs[x:]) if part is not None}

    def input_cotangents(self) -> list[Tensor | None]:
        results = self._run_backwards()
        inputs = self.body.operands
        by_init = dict(zip(self.by_carry, results, strict=False))
        results = results[len(self.by_carry) :]
        by_const = dict(zip(self.of_consts, results, strict=False))
        by_x = dict(zip(self.of_xs, results[len(self.of_consts) :], strict=True))
        gs: list[Tensor | None] = [None for x in (inputs.steps, inputs.count) if x is not None]
        gs += [by_init.get(i) for i in range(len(inputs.init))]
        gs += [by_x.get(i) for i in range(len(inputs.xs))]
        return gs + [by_const.get(i) for i in range(len(inputs.consts))]

    def _run_backwards(self) -> list[Tensor]:
        """Return cotangents of carries, sums for constants, and rows for sequences."""
        op, body = self.op, self.body
        zeros = {i: zeros_like(x) for i, x in enumerate(body.carries)}
        wanted: list[Any] = [
            *(zeros[i] if part is None else part for i, part in self.of_carries.items()),
            *self.of_consts.values(),
            *self.of_xs.values(),
        ]
        seeds = [*self.by_carry.values(), *self.by_row.values()]
        residuals = Residuals.of(wanted, seeds, body, self.stacked, recompute=op.recompute)
        traced = self._traced_carries(residuals)
        stored = [body.carries[i] for i in residuals.carries if i not in traced]
        forward = body.again(replace(body, rows=[*body.rows, *residuals.others, *stored]))
        walk = _BackwardLoop(self, forward[-1] if op.stops else body.operands.count)
        gs = walk.mask(replace_nodes(wanted, residuals.swaps))
        sums = [typed_like(body.consts[i], "sum") for i in self.of_consts]
        c, s = len(self.by_carry), len(self.by_carry) + len(sums)
        step = LoopStep(
            carries=[*self.by_carry.values(), *sums],
            xs=(),
            nexts=[
                *gs[:c],
                *(total + part for total, part in zip(sums, gs[c:s], strict=True)),
            ],
            rows=gs[s:],
        )
        read = self._readable_sequences(residuals, traced, forward)
        results = walk.run(self._initial_carries(), read, step)
        carried = [walk.cut(part) for part in results[:c]]
        return [*carried, *results[c:]]

    def _initial_carries(self) -> list[Tensor]:
        """Return the final carries' cotangents, and zeros for the constants' sums."""
        inputs = self.body.operands
        ends = [(inputs.init[i], self.final[i]) for i in self.by_carry]
        finals = [zeros_like(x) if part is None else part for x, part in ends]
        return [*finals, *(zeros_like(inputs.consts[i]) for i in self.of_consts)]

    def _traced_carries(self, residuals: Residuals) -> dict[int, int]:
        """Return the numbers of rows that are carries after a step, by carries read before it."""
        if self.op.reverse and self.op.counted:
            return {}  # the first step's row depends on the count
        numbers = [*self.stacked, *range(self.op.stacked, self.op.stacked + len(residuals.others))]
        rows = indices_of([*(self.body.rows[j] for j in self.stacked), *residuals.others])
        pairs = [(i, rows.get(self.body.nexts[i])) for i in residuals.carries]
        return {i: numbers[k] for i, k in pairs if k is not None}

    def _delay(self, first: Tensor, trace: Tensor) -> Tensor:
        """Return the carries before each step, given the first and those after each step."""
        start = expand_dims(first, 0)[: self.body.steps]  # no row for no steps
        return concatenate([trace[1:], start] if self.op.reverse else [start, trace[:-1]])

    def _readable_sequences(
        self, residuals: Residuals, traced: Mapping[int, int], forward: Sequence[Tensor]
    ) -> dict[Tensor, Tensor]:
        """Return the sequences that the backward loop may read, by its inputs for elements."""
        op, body = self.op, self.body
        traces = forward[op.carries :]
        delayed = {i: self._delay(body.operands.init[i], traces[j]) for i, j in traced.items()}
        stored = [p for i, p in residuals.carries.items() if i not in traced]
        return {
            **dict(zip([*residuals.others.values(), *stored], traces[op.stacked :], strict=False)),
            **{residuals.carries[i]: x for i, x in delayed.items()},
            **{p: traces[j] for j, p in residuals.rows.items()},
            **{p: self.stacked[j] for j, p in self.by_row.items()},
            **dict(zip(body.xs, body.operands.xs, strict=True)),
        }


class _BackwardLoop:
    def __init__(self, back: _Pullback, count: Tensor | None) -> None:
        self.op = back.op
        self.body = back.body
        self.count = count
        self.steps = back.body.steps
        self.most = self.op.truncate
        self.active: Tensor | None = None
        self.index: Tensor | None = None
        if self.most is not None and count is not None:
            # The number of steps done is dynamic: the loop visits all, and masks all but the last.
            self.index = TensorType("int64")("step")
            self.active = (
                less(self.index, self.most)
                if self.op.reverse
                else greater_equal(self.index, count - self.most)
            )

    @property
    def is_short(self) -> bool:
        """Whether the loop visits the last steps only, and their number is known beforehand."""
        if self.most is None or self.count is not None:
            return False
        return not (isinstance(self.steps, int) and self.steps <= self.most)

    def mask(self, parts: Sequence[Any]) -> list[Any]:
        """Set the cotangents to zero in steps before the last ``most``."""
        if self.active is None:
            return list(parts)
        return [where(self.active, part, 0) for part in parts]

    def cut(self, part: Tensor) -> Tensor:
        """Set an initial carry's cotangent to zero if truncation separates it from the end."""
        if not self.is_short:
            return part
        if isinstance(self.steps, int):
            return zeros_like(part)
        assert self.most is not None
        return where(less(self.most, self.steps), 0, part)

    def run(
        self, init: Sequence[Tensor], read: dict[Tensor, Tensor], step: LoopStep
    ) -> list[Tensor]:
        """Return the results, with a row for every step; ``read`` has the sequences by element."""
        op = self.op
        if self.index is not None:
            read = {**read, self.index: arange(self.steps, dtype="int64")}
        step = step.replace_nodes(self.body.constants)
        used = set(toposort(step.outputs))
        xs = {p: x for p, x in read.items() if p in used}
        steps: Any = self.steps
        skipped: Any = 0
        if self.is_short:
            assert self.most is not None
            steps = minimum(self.most, steps) if isinstance(steps, Tensor) else self.most
            skipped = self.steps - steps
            last_steps = slice(None, steps) if op.reverse else slice(skipped, None)
            xs = {p: x[last_steps] for p, x in xs.items()}
        like = replace(op, reverse=not op.reverse, stops=False)
        results = build(like, steps, self.count, init, [*xs.values()], replace(step, xs=[*xs]))
        if not self.is_short:
            return results
        split = len(init)
        side = (0, skipped) if op.reverse else (skipped, 0)
        return [
            *results[:split],
            *(pad(x, [side, *[(0, 0)] * (x.ndim - 1)]) for x in results[split:]),
        ]


def push_forward_loop(
    op: Loop, tangents: Sequence[Tensor | None], inputs: Sequence[Tensor]
) -> list[Tensor | None]:
    """Return the tangents of a loop's results, from a loop that carries tangents too."""
    return _Pushforward(op, tangents, inputs).result_tangents()


class _Pushforward:
    """The pushforward of a loop; ``tangents`` are None for inputs without one."""

    def __init__(
        self, op: Loop, tangents: Sequence[Tensor | None], inputs: Sequence[Tensor]
    ) -> None:
        self.op = op
        self.body = OpenedLoop.of(op, inputs)
        self.moved = op.parts(tangents)
        self._differentiate()

    def _differentiate(self) -> None:
        """Push the step forward along all carries that a tangent reaches."""
        op, body, moved = self.op, self.body, self.moved
        self.of_xs = _tangent_inputs(body.xs, moved.xs)
        self.of_consts = _tangent_inputs(body.consts, moved.consts)
        fixed: dict[Node, Tensor] = {body.xs[i]: t for i, t in self.of_xs.items()}
        fixed |= {body.consts[i]: t for i, t in self.of_consts.items()}
        moving = {i for i, t in enumerate(moved.init) if t is not None}
        while True:
            carries = {i: stand_in(body.carries[i], "tangent") for i in sorted(moving)}
            by_input = fixed | {body.carries[i]: t for i, t in carries.items()}
            ts = push([*body.nexts, *body.rows], by_input)
            extended = moving | {i for i in range(op.carries) if ts[i] is not None}
            if extended == moving:
                break
            moving = extended
        self.of_carries = carries
        self.nexts = {i: zeros_like(body.carries[i]) if ts[i] is None else ts[i] for i in carries}
        self.rows = {j: t for j, t in enumerate(ts[op.carries :]) if t is not None}

    def result_tangents(self) -> list[Tensor | None]:
        op, body, moved, inputs = self.op, self.body, self.moved, self.body.operands
        step = LoopStep(
            carries=[*body.carries, *self.of_carries.values()],
            xs=[*body.xs, *self.of_xs.values()],
            nexts=[*body.nexts, *self.nexts.values()],
            rows=[*self.rows.values()],
            stop=body.stop,
        )
        consts: dict[Node, Any] = {t: moved.consts[i] for i, t in self.of_consts.items()}
        starts = [(moved.init[i], inputs.init[i]) for i in self.of_carries]
        results = body.again(
            step.replace_nodes(consts),
            [*inputs.init, *(zeros_like(x) if t is None else t for t, x in starts)],
            [*inputs.xs, *(moved.xs[i] for i in self.of_xs)],  # type: ignore[list-item]
        )
        c = len(step.nexts)
        finals = dict(zip(self.of_carries, results[op.carries :], strict=False))
        stacked = dict(zip(self.rows, results[c:], strict=False))
        carried = [finals.get(i) for i in range(op.carries)]
        return [*carried, *(stacked.get(j) for j in range(op.stacked)), *[None] * op.stops]


def _tangent_inputs(parameters: Sequence[Tensor], tangents: Sequence[Any]) -> dict[int, Tensor]:
    """Return a new input for each tangent, by the number of its parameter."""
    pairs = enumerate(zip(parameters, tangents, strict=True))
    return {i: stand_in(x, "tangent") for i, (x, t) in pairs if t is not None}
