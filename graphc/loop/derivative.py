"""The derivatives of a loop, which are loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from graphc.errors import GradientError
from graphc.grad.forward import push
from graphc.grad.reverse import cotangents, summed, typed_like
from graphc.ir import Node, TensorType, is_inexact, replaced, toposort
from graphc.loop.build import ENDLESS, OpenedLoop, build
from graphc.loop.residuals import Residuals
from graphc.loop.step import LoopStep, stand_in
from graphc.tensor.arrays.create import arange, zeros_like
from graphc.tensor.core.elementwise import greater_equal, less, minimum, where
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.signal.pad import pad

if TYPE_CHECKING:
    from graphc.loop.loop import Loop


def pulled_back(
    op: Loop, g: Sequence[Tensor | None], y: Any, inputs: Sequence[Tensor]
) -> list[Tensor | None]:
    """The cotangents of a loop's inputs, by a loop that walks the other way."""
    if not any(part is not None for part in g):
        return [None] * len(inputs)
    if op.steps == ENDLESS:
        raise GradientError(
            f"{op.title} ends by its condition alone, and a gradient must store what it did.",
            "Give the most steps there can be: max_steps=... or n_steps=...",
            y.where,
        )
    return _Pullback(op, g, inputs).parts()


class _Pullback:
    """The reverse of a loop.

    Args:
        op: The loop.
        g: Cotangents of its results, None where there is none.
        inputs: What it takes.
    """

    def __init__(self, op: Loop, g: Sequence[Tensor | None], inputs: Sequence[Tensor]) -> None:
        self.op = op
        self.body = OpenedLoop.of(op, inputs)
        outputs = op.step.outputs[: op.carries + op.stacked]
        known = [p if is_inexact(y.type.dtype) else None for y, p in zip(outputs, g, strict=False)]
        self.final = known[: op.carries]
        self.stacked = {j: p for j, p in enumerate(known[op.carries :]) if p is not None}
        self._differentiate()

    def _differentiate(self) -> None:
        """The cotangents of what a step takes, for those carries that get any."""
        body = self.body
        wrt = body.inputs
        self.by_row = {j: typed_like(body.rows[j], "cotangent") for j in self.stacked}
        reached = {i for i, part in enumerate(self.final) if part is not None}
        while True:
            self.by_carry = {i: typed_like(body.nexts[i], "cotangent") for i in sorted(reached)}
            given = [(body.nexts[i], p) for i, p in self.by_carry.items()]
            given += [(body.rows[j], p) for j, p in self.by_row.items()]
            found = cotangents(summed(given), wrt)
            found = [
                part if part is not None and is_inexact(x.dtype) else None
                for x, part in zip(wrt, found, strict=True)
            ]
            more = reached | {i for i in range(self.op.carries) if found[i] is not None}
            if more == reached:
                break
            reached = more
        c, x = self.op.carries, self.op.carries + self.op.sequences
        self.of_carries = {i: found[i] for i in self.by_carry}
        self.of_xs = {i: part for i, part in enumerate(found[c:x]) if part is not None}
        self.of_consts = {i: part for i, part in enumerate(found[x:]) if part is not None}

    def parts(self) -> list[Tensor | None]:
        """The cotangent of each input."""
        results = self._run()
        given = self.body.given
        by_init = dict(zip(self.by_carry, results, strict=False))
        results = results[len(self.by_carry) :]
        by_const = dict(zip(self.of_consts, results, strict=False))
        by_x = dict(zip(self.of_xs, results[len(self.of_consts) :], strict=True))
        found: list[Tensor | None] = [None for x in (given.steps, given.count) if x is not None]
        found += [by_init.get(i) for i in range(len(given.init))]
        found += [by_x.get(i) for i in range(len(given.xs))]
        return found + [by_const.get(i) for i in range(len(given.consts))]

    def _run(self) -> list[Tensor]:
        """The gradient loop's cotangents of carries, sums for constants, and rows for sequences."""
        op, body = self.op, self.body
        zeros = {i: zeros_like(x) for i, x in enumerate(body.carries)}
        wanted: list[Any] = [
            *(zeros[i] if part is None else part for i, part in self.of_carries.items()),
            *self.of_consts.values(),
            *self.of_xs.values(),
        ]
        given = [*self.by_carry.values(), *self.by_row.values()]
        residuals = Residuals.of(wanted, given, body, recompute=op.recompute)
        stored = [*(body.carries[i] for i in residuals.carries), *residuals.kept]
        made = body.again(replace(body, rows=[*body.rows, *stored]))
        walk = _BackwardLoop(self, made[-1] if op.stops else body.given.count)
        parts = walk.masked(replaced(wanted, residuals.swaps))
        sums = [typed_like(body.consts[i], "sum") for i in self.of_consts]
        c, s = len(self.by_carry), len(self.by_carry) + len(sums)
        step = LoopStep(
            carries=[*self.by_carry.values(), *sums, *residuals.nexts.values()],
            xs=(),
            nexts=[
                *parts[:c],
                *(total + part for total, part in zip(sums, parts[c:s], strict=True)),
                # The carry before this step is the one after the step before it.
                *(residuals.carries[i] for i in residuals.nexts),
            ],
            rows=parts[s:],
        )
        init = [*self._first(), *(made[i] for i in residuals.nexts)]
        found = walk.run(init, self._read(residuals, made), step)
        carried = [walk.cut_off(part) for part in found[:c]]
        return [*carried, *found[c:s], *found[s + len(residuals.nexts) :]]

    def _first(self) -> list[Tensor]:
        """The cotangents that the way back begins with, and sums of nothing."""
        given = self.body.given
        ends = [(given.init[i], self.final[i]) for i in self.by_carry]
        finals = [zeros_like(x) if part is None else part for x, part in ends]
        return [*finals, *(zeros_like(given.consts[i]) for i in self.of_consts)]

    def _read(self, residuals: Residuals, made: Sequence[Tensor]) -> dict[Tensor, Tensor]:
        """The sequences that the loop back may read, by what stands for their elements."""
        op, body = self.op, self.body
        stored = [*residuals.carries.values(), *residuals.kept.values()]
        traces = made[op.carries + op.stacked :][: len(stored)]
        return {
            **dict(zip(stored, traces, strict=True)),
            **{p: made[op.carries + j] for j, p in residuals.rows.items()},
            **{p: self.stacked[j] for j, p in self.by_row.items()},
            **dict(zip(body.xs, body.given.xs, strict=True)),
        }


class _BackwardLoop:
    """The loop back, through all steps or the last ones."""

    def __init__(self, back: _Pullback, count: Tensor | None) -> None:
        self.op = back.op
        self.body = back.body
        self.count = count
        self.steps = back.body.steps
        self.most = self.op.truncate
        self.active: Tensor | None = None
        self.index: Tensor | None = None
        if self.most is not None and count is not None:
            # How many steps were done is not known here: all are walked, and only the last count.
            self.index = TensorType("int64")("step")
            self.active = (
                less(self.index, self.most)
                if self.op.reverse
                else greater_equal(self.index, count - self.most)
            )

    @property
    def is_short(self) -> bool:
        """Whether it goes back through the last steps only, known before."""
        if self.most is None or self.count is not None:
            return False
        return not (isinstance(self.steps, int) and self.steps <= self.most)

    def masked(self, parts: Sequence[Any]) -> list[Any]:
        """Cotangents that are zero in steps that do not count."""
        if self.active is None:
            return list(parts)
        return [where(self.active, part, 0) for part in parts]

    def cut_off(self, part: Tensor) -> Tensor:
        """The cotangent of an initial carry: zero where the way does not lead back to it."""
        if not self.is_short:
            return part
        if isinstance(self.steps, int):
            return zeros_like(part)
        assert self.most is not None
        return where(less(self.most, self.steps), 0, part)

    def run(
        self, init: Sequence[Tensor], read: dict[Tensor, Tensor], step: LoopStep
    ) -> list[Tensor]:
        """The results of the loop back; its rows are as many as there are steps.

        Args:
            init: Its carries before its first step.
            read: The sequences that it may read, by what stands for their elements.
            step: Its step, but for the elements that it reads.
        """
        op = self.op
        if self.index is not None:
            read = {**read, self.index: arange(self.steps, dtype="int64")}
        step = step.replaced(self.body.constants)
        needed = set(toposort(step.outputs))
        xs = {p: x for p, x in read.items() if p in needed}
        steps: Any = self.steps
        front: Any = 0
        if self.is_short:
            assert self.most is not None
            steps = minimum(self.most, steps) if isinstance(steps, Tensor) else self.most
            front = self.steps - steps
            kept = slice(None, steps) if op.reverse else slice(front, None)
            xs = {p: x[kept] for p, x in xs.items()}
        like = replace(op, reverse=not op.reverse, stops=False)
        found = build(like, steps, self.count, init, [*xs.values()], replace(step, xs=[*xs]))
        if not self.is_short:
            return found
        split = len(init)
        side = (0, front) if op.reverse else (front, 0)
        return [*found[:split], *(_padded(row, side) for row in found[split:])]


def _padded(x: Tensor, side: tuple[Any, Any]) -> Tensor:
    return pad(x, [side, *[(0, 0)] * (x.ndim - 1)])


def pushed_forward(
    op: Loop, tangents: Sequence[Tensor | None], inputs: Sequence[Tensor]
) -> list[Tensor | None]:
    """The tangents of a loop's results, by a loop that carries those of the carries too."""
    return _Pushforward(op, tangents, inputs).parts()


class _Pushforward:
    """A loop that carries tangents.

    Args:
        op: The loop.
        tangents: Of what it takes, None where there is none.
        inputs: What it takes.
    """

    def __init__(
        self, op: Loop, tangents: Sequence[Tensor | None], inputs: Sequence[Tensor]
    ) -> None:
        self.op = op
        self.body = OpenedLoop.of(op, inputs)
        self.moved = op.parts(tangents)
        self._differentiate()

    def _differentiate(self) -> None:
        """The tangents of what a step gives, for those carries that move."""
        op, body, moved = self.op, self.body, self.moved
        self.of_xs = _moving(body.xs, moved.xs)
        self.of_consts = _moving(body.consts, moved.consts)
        known: dict[Node, Tensor] = {body.xs[i]: t for i, t in self.of_xs.items()}
        known |= {body.consts[i]: t for i, t in self.of_consts.items()}
        moving = {i for i, t in enumerate(moved.init) if t is not None}
        while True:
            carries = {i: stand_in(body.carries[i], "tangent") for i in sorted(moving)}
            given = known | {body.carries[i]: t for i, t in carries.items()}
            found = push([*body.nexts, *body.rows], given)
            more = moving | {i for i in range(op.carries) if found[i] is not None}
            if more == moving:
                break
            moving = more
        self.of_carries = carries
        self.nexts = {
            i: zeros_like(body.carries[i]) if found[i] is None else found[i] for i in carries
        }
        self.rows = {j: t for j, t in enumerate(found[op.carries :]) if t is not None}

    def parts(self) -> list[Tensor | None]:
        """The tangent of each result."""
        op, body, moved, given = self.op, self.body, self.moved, self.body.given
        step = LoopStep(
            carries=[*body.carries, *self.of_carries.values()],
            xs=[*body.xs, *self.of_xs.values()],
            nexts=[*body.nexts, *self.nexts.values()],
            rows=[*self.rows.values()],
            stop=body.stop,
        )
        consts: dict[Node, Any] = {t: moved.consts[i] for i, t in self.of_consts.items()}
        starts = [(moved.init[i], given.init[i]) for i in self.of_carries]
        results = body.again(
            step.replaced(consts),
            [*given.init, *(zeros_like(x) if t is None else t for t, x in starts)],
            [*given.xs, *(moved.xs[i] for i in self.of_xs)],  # type: ignore[list-item]
        )
        c = len(step.nexts)
        finals = dict(zip(self.of_carries, results[op.carries :], strict=False))
        stacked = dict(zip(self.rows, results[c:], strict=False))
        found = [finals.get(i) for i in range(op.carries)]
        return [*found, *(stacked.get(j) for j in range(op.stacked)), *[None] * op.stops]


def _moving(parameters: Sequence[Tensor], tangents: Sequence[Any]) -> dict[int, Tensor]:
    """An input for each tangent that there is, by the number of what moves."""
    pairs = enumerate(zip(parameters, tangents, strict=True))
    return {i: stand_in(x, "tangent") for i, (x, t) in pairs if t is not None}
