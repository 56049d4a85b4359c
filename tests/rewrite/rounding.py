"""How far rounding may move the values of a graph, and whether values differ by more than that.

A graph is evaluated several times, each time with its roundings drawn by chance: every operation
that rounds gets operands and gives a result that are off by a few units in the last place, zeros
have either sign, what lies below the smallest normal number may be lost, and what is undefined
(a cast of NaN to an integer, a shift by more bits than there are) is anything. How far a value
moves shows how well it is conditioned; what only rounding decides is not compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.ir import Leaf, Node, Pick, TupleType, is_inexact, numpy_dtype, toposort
from graphc.tensor.arrays.broadcast import BroadcastTo
from graphc.tensor.arrays.cumulative import CumExtreme
from graphc.tensor.arrays.diagonal import FromDiagonal, MatrixDiagonal
from graphc.tensor.arrays.index import Index, IndexUpdate
from graphc.tensor.arrays.join import Concatenate
from graphc.tensor.arrays.reduce import All, Any_, ArgExtreme, AxisComposite, Extreme
from graphc.tensor.arrays.repeat import RepeatIndices
from graphc.tensor.arrays.sort import ArgSort, Sort
from graphc.tensor.arrays.split import Split
from graphc.tensor.core.axes import ExpandDims, Squeeze, Transpose
from graphc.tensor.core.elementwise import Cast, Elementwise, Where
from graphc.tensor.core.shape import Length, Reshape, Shape
from graphc.tensor.core.specify import SpecifyShape

__all__ = ["Bounds", "Exactly", "evaluated"]

ROUNDINGS = 4
"""How far each operand and result may be off, in units in the last place."""

PLAIN, LOST = 5, 3
"""How often roundings are drawn; and further times, when NaN may be lost too."""

ROOM = 16
"""Few draws find less than the largest error there may be; never this many times less."""

EXACT_ROWS = {
    "negative", "abs", "sign", "floor", "ceil", "trunc", "round", "maximum", "minimum", "clip",
    "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "isnan", "isinf",
    "isfinite", "logical_not", "logical_and", "logical_or", "logical_xor", "real", "imag", "conj",
    "complex", "fmax", "fmin",
}  # fmt: skip
"""Elementwise functions that round nothing: all others do."""

EXACT = (
    All, Any_, ArgExtreme, ArgSort, BroadcastTo, Concatenate, CumExtreme, ExpandDims, Extreme,
    FromDiagonal, Index, Length, MatrixDiagonal, Pick, RepeatIndices, Reshape, Shape, Sort,
    SpecifyShape, Split, Squeeze, Transpose, Where,
)  # fmt: skip
"""Operations that move values, or choose among them."""

Values = dict[Node, Any]


def is_exact(op: Any) -> bool:
    if isinstance(op, Elementwise):
        return op.row in EXACT_ROWS
    return isinstance(op, EXACT) or (isinstance(op, IndexUpdate) and not op.accumulate)


class Exactly:
    """Evaluation as NumPy does it."""

    def given(self, x: Any) -> Any:
        """An input's value."""
        return x

    def value(self, node: Node, given: Sequence[Any]) -> Any:
        if isinstance(node.op, AxisComposite):
            made = node.op.expand(*node.inputs)
            known = dict(zip(node.inputs, given, strict=True))
            return evaluated([made], known, self)[made]
        y = node.op.perform(*given)
        return y if isinstance(node.type, TupleType) else self.typed(node, y)

    def typed(self, node: Node, y: Any) -> Any:
        return np.asarray(y, node.type.numpy_dtype)


class Roughly(Exactly):
    """Evaluation with roundings drawn by chance."""

    def __init__(self, seed: int, *, losing: bool) -> None:
        self.random = np.random.default_rng(seed)
        self.seed = seed
        self.losing = losing

    def given(self, x: Any) -> Any:
        """What is below the smallest normal number is lost in some of the runs."""
        x = np.asarray(x)
        if x.dtype.kind not in "fc" or self.seed % 2:
            return x
        return np.where(np.abs(x) < np.finfo(x.dtype).tiny, np.zeros_like(x), x)

    def value(self, node: Node, given: Sequence[Any]) -> Any:
        op = node.op
        if isinstance(op, Cast):
            return self.result(node, self.cast(op, given[0]), given)
        exact = is_exact(op)
        if not exact:
            exponent = [getattr(op, "row", "") == "power" and i == 1 for i in range(len(given))]
            given = [x if e else self.moved(x) for x, e in zip(given, exponent, strict=True)]
        y = super().value(node, given)
        if not exact and not isinstance(y, tuple):
            y = self.moved(y)
            if getattr(op, "row", "") in {"left_shift", "right_shift"}:
                wrong = (given[1] < 0) | (given[1] >= 8 * y.dtype.itemsize)
                y = np.where(wrong, self.anything(y).astype(y.dtype), y)
        return self.result(node, y, given)

    def result(self, node: Node, y: Any, given: Sequence[Any] = ()) -> Any:
        """What may come of a NaN or infinity that a rule may lose: other numbers, other truths."""
        if not self.losing or isinstance(y, tuple) or isinstance(node.op, Length | Shape):
            return y
        op = node.op
        if is_inexact(node.type.dtype):
            wild = ~np.isfinite(y)
            # A zero may have lost its sign, so that an infinity has the other one.
            other = {LOST - 1: self.random.normal(size=y.shape), LOST - 2: -y}.get(self.seed, y)
        else:
            wild = np.full(y.shape, False)
            for x in [np.asarray(x) for x in given]:
                if x.dtype.kind in "fc" and not np.isfinite(x).all():
                    same = isinstance(op, Elementwise | Cast | Where)
                    wild = wild | ~np.isfinite(x) if same else wild | True
            # Another place is one that there is: it may be an index.
            moved = self.random.permutation(y.flatten()).reshape(y.shape)
            other = self.anything(y) if y.dtype == bool else moved
            ends = {0: np.zeros_like(y), 1: np.full_like(y, y.max(initial=0))}
            other = ends.get(self.seed, other)
        return np.where(wild, other, y).astype(y.dtype) if wild.any() else y

    def moved(self, x: Any) -> Any:
        """The values a few units in the last place away; zeros of either sign."""
        x = np.asarray(x)
        if x.dtype.kind == "c":
            parts = np.empty_like(x)
            parts.real, parts.imag = self.moved(x.real), self.moved(x.imag)
            # A part is as exact as the whole.
            off = np.abs(x) * np.finfo(x.dtype).eps * ROUNDINGS
            return (parts + off * self.chance(x.shape)).astype(x.dtype)
        if x.dtype.kind != "f":
            return x
        kind = np.finfo(x.dtype)
        y = x * (1 + ROUNDINGS * kind.eps * self.chance(x.shape)).astype(x.dtype)
        small = np.abs(x) < kind.tiny
        if small.any():
            # Below the smallest normal number some backends have nothing but zero.
            lost = np.where(x == 0, 0, kind.tiny * self.chance(x.shape))
            signed = np.copysign(lost, self.chance(x.shape)).astype(x.dtype)
            y = np.where(small, signed, y)
        return y

    def chance(self, shape: tuple[int, ...]) -> Any:
        return self.random.uniform(-1, 1, shape)

    def anything(self, y: Any) -> Any:
        """Integers that may come of what is undefined: nothing but 0 once, nothing but 1 once."""
        return self.random.integers(*[(0, 1), (1, 2), (0, 127)][min(self.seed, 2)], y.shape)

    def cast(self, op: Cast, x: Any) -> Any:
        wanted = numpy_dtype(op.dtype)
        y = np.asarray(op.perform(x))
        if wanted.kind in "iu" and x.dtype.kind in "fc":
            bounds, x = np.iinfo(wanted), x.real
            outside = ~((x > float(bounds.min) - 1) & (x < float(bounds.max)))
            return np.where(outside, self.anything(y).astype(wanted), y)
        if x.dtype.kind in "fc":
            rounded = not np.can_cast(x.dtype, wanted)
        else:
            rounded = wanted.kind in "fc" and bool((y.real.astype(x.dtype) != x).any())
        return self.moved(y) if rounded else y


def evaluated(outputs: Sequence[Node], values: Mapping[Node, Any], how: Exactly) -> Values:
    """The values of all nodes that the outputs need, given those of inputs."""
    known = {x: how.given(v) for x, v in values.items()}
    with np.errstate(all="ignore"):
        for node in toposort(outputs, known):
            if isinstance(node.op, Leaf):
                known[node] = how.given(node.op.array)
            else:
                known[node] = how.value(node, [known[x] for x in node.inputs])
    return known


class Widely(Exactly):
    """Evaluation with eleven more bits of mantissa and four more of exponent, where NumPy can."""

    def value(self, node: Node, given: Sequence[Any]) -> Any:
        op = node.op
        if isinstance(op, Cast) and is_inexact(op.dtype) and given[0].dtype.kind in "fc":
            real = numpy_dtype(op.dtype).kind == "f"
            return given[0].real if real else given[0].astype(np.clongdouble)
        try:
            return super().value(node, given)
        except TypeError:
            # SciPy has most of its functions in double precision only.
            pairs = zip(given, node.inputs, strict=True)
            return super().value(node, [np.asarray(x, n.type.numpy_dtype) for x, n in pairs])

    def given(self, x: Any) -> Any:
        return widened(x)

    def typed(self, node: Node, y: Any) -> Any:
        return widened(y)


def widened(x: Any) -> Any:
    x = np.asarray(x)
    return x.astype({"f": np.longdouble, "c": np.clongdouble}.get(x.dtype.kind, x.dtype))


@dataclass(frozen=True)
class Spread:
    """An output's value and how far rounding moves it.

    Attributes:
        value: What NumPy gives.
        certain: Where no rounding and no lost NaN changes more than digits.
        is_number: Where it is not NaN in any of the evaluations.
        moved: How far it moves at most, where it is certain.
    """

    value: Any
    certain: Any
    is_number: Any
    moved: Any


class Bounds:
    """What values are right for a graph: NumPy's own, and how far from them is still right.

    Args:
        outputs: The graph as written.
        values: Of its inputs.
        losing: Whether NaN may be lost, as by ``0 * x``.
    """

    def __init__(
        self, outputs: Sequence[Node], values: Mapping[Node, Any], *, losing: bool = True
    ) -> None:
        self.outputs, self.values = outputs, values
        self.losing = losing
        exact = evaluated(outputs, values, Exactly())
        plain = [evaluated(outputs, values, Roughly(i, losing=False)) for i in range(PLAIN)]
        often = LOST if losing else 0
        lost = [evaluated(outputs, values, Roughly(i, losing=True)) for i in range(often)]
        self.spreads = [
            _spread(exact[y], [run[y] for run in plain], [run[y] for run in lost]) for y in outputs
        ]

    def wide(self, i: int) -> Any:
        """An output in longer numbers."""
        return evaluated([self.outputs[i]], self.values, Widely())[self.outputs[i]]

    def is_extreme(self, i: int) -> bool:
        """Whether products of three of the numbers on the way overflow, or vanish."""
        known = evaluated([self.outputs[i]], self.values, Exactly())
        for node in toposort([self.outputs[i]]):
            x = known[node]
            if not isinstance(x, tuple) and x.dtype.kind in "fc":
                sizes = np.abs(x[np.isfinite(x) & (x != 0)])
                kind = np.finfo(x.dtype)
                if sizes.size and (
                    sizes.max() > kind.max ** (1 / 3) or sizes.min() < float(kind.tiny) ** (1 / 3)
                ):
                    return True
        return False

    def wrong(self, i: int, found: Any) -> str | None:
        """What is wrong with a value of an output, or None."""
        spread = self.spreads[i]
        y = spread.value
        if (found.dtype, found.shape) != (y.dtype, y.shape):
            return f"{found.dtype}{found.shape} instead of {y.dtype}{y.shape}"
        with np.errstate(all="ignore"):
            bad = self._bad(i, spread, found)
        places = np.argwhere(bad)
        if not len(places):
            return None
        first = tuple(places[0])
        return f"{found[first]} instead of {y[first]} at {tuple(map(int, first))}"

    def _bad(self, i: int, spread: Spread, found: Any) -> Any:
        y = spread.value
        if y.dtype.kind not in "fc":
            return spread.certain & (found != y)
        kind = np.finfo(y.dtype)
        moved = ROOM * (spread.moved + kind.tiny)
        near = np.abs(found - y) <= moved + ROOM * ROUNDINGS * kind.eps * np.abs(y)
        new_nan = spread.is_number & np.isnan(found)
        bad = spread.certain & ~(near | (found == y) | (np.isnan(found) & np.isnan(y)))
        if (bad | new_nan).any() and y.dtype.kind == "f":
            # Perhaps the value is better than NumPy's own, or a NaN was lost: longer numbers tell.
            true = self.wide(i)
            # What overflowed or vanished on the way may hide that there is no value.
            new_nan &= ~np.isnan(true)
            room = np.where(np.isfinite(y), ROUNDINGS * kind.eps, np.sqrt(kind.eps))
            better = np.abs(found - true) <= moved + ROOM * room * np.abs(true)
            better |= found == true.astype(y.dtype)
            better |= np.isnan(true) & np.isnan(y) & self.losing
            bad &= ~better
        elif y.dtype.kind == "c":
            # Which part of an infinite product is NaN is left to the library.
            bad &= np.isfinite(y)
        return bad | new_nan


def _spread(y: Any, plain: Sequence[Any], lost: Sequence[Any]) -> Spread:
    certain = np.full(y.shape, True)
    is_number = np.full(y.shape, True)
    moved = np.zeros(y.shape)
    with np.errstate(all="ignore"):
        if y.dtype.kind not in "fc":
            for other in (*plain, *lost):
                certain &= other == y
            return Spread(y, certain, certain & False, moved)
        for other in (*plain, *lost):
            certain &= (np.isfinite(other) & np.isfinite(y)) | (other == y) | np.isnan(y)
            off = np.abs(other.astype(np.clongdouble) - y).astype(float)
            moved = np.fmax(moved, np.where(np.isfinite(off), off, 0))
        for other in (y, *plain, *lost):
            is_number &= ~np.isnan(other)
    return Spread(y, certain, is_number, moved)
