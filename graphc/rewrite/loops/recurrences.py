"""Carries that follow from sequences: elements of the step before, and linear recurrences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from graphc.ir import Node, is_numeric, toposort
from graphc.rewrite.loops.dependence import AnalysedLoop, Results
from graphc.rewrite.loops.hoist import is_small, tried
from graphc.tensor.arrays.broadcast import broadcast_to
from graphc.tensor.arrays.create import ones_like
from graphc.tensor.arrays.cumulative import CumProd, CumSum, Recurrence
from graphc.tensor.arrays.join import concatenate
from graphc.tensor.core.axes import expand_dims
from graphc.tensor.core.elementwise import Where, add, divide, multiply, negative, subtract, where
from graphc.tensor.core.shape import lengths
from graphc.tensor.core.specify import SpecifyShape
from graphc.tensor.core.tensor import Tensor, constant

# What a step makes of a carry.

Value = Tensor | int
"""A part of a step, or the number that all its elements are."""


@dataclass(frozen=True, slots=True)
class Affine:
    """``factor * carry + term``, element by element; neither depends on the carry."""

    factor: Value
    term: Value


def affine(body: AnalysedLoop, i: int) -> Affine | None:
    """Return a carry's next value as a product and a sum, element by element, if it is one."""
    carry, new = body.carries[i], body.nexts[i]
    found: dict[Node, Affine] = {carry: Affine(1, 0)}
    reading: set[Node] = {carry}
    for node in toposort([new], body.carries):
        if reading.isdisjoint(node.inputs):
            continue
        reading.add(node)
        rule = FORMS.get(node.op, FORMS.get(type(node.op)))
        inputs: Sequence[Any] = node.inputs
        known = [found.get(x) if x in reading else Affine(0, x) for x in inputs]
        made = None if rule is None or None in known else rule(*known)
        if made is not None:
            found[node] = made
    return found.get(new)


def _plus(a: Value, b: Value) -> Value:
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if 0 in {a, b}:
        return b if a == 0 else a
    return add(a, b)


def _times(a: Value, b: Value) -> Value:
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if 0 in {a, b}:
        return 0
    if 1 in {a, b}:
        return b if a == 1 else a
    return multiply(a, b)


def _sum(a: Affine, b: Affine) -> Affine:
    return Affine(_plus(a.factor, b.factor), _plus(a.term, b.term))


def _negative(a: Affine) -> Affine:
    return Affine(_times(-1, a.factor), _times(-1, a.term))


def _difference(a: Affine, b: Affine) -> Affine:
    return _sum(a, _negative(b))


def _product(a: Affine, b: Affine) -> Affine | None:
    if a.factor != 0 and b.factor != 0:
        return None
    k, form = (a.term, b) if a.factor == 0 else (b.term, a)
    return Affine(_times(k, form.factor), _times(k, form.term))


def _quotient(a: Affine, b: Affine) -> Affine | None:
    if b.factor != 0:
        return None
    parts = [x if x == 0 else divide(x, b.term) for x in (a.factor, a.term)]
    return Affine(*parts)


def _choice(condition: Affine, a: Affine, b: Affine) -> Affine | None:
    if condition.factor != 0:
        return None
    pairs = ((a.factor, b.factor), (a.term, b.term))
    dtype = next((x.type.dtype for pair in pairs for x in pair if isinstance(x, Node)), None)
    parts: list[Value] = []
    for x, y in pairs:
        if isinstance(x, int) and x == y:
            parts.append(x)
        elif dtype is None:
            return None
        else:
            x, y = (v if isinstance(v, Node) else constant(v, dtype=dtype) for v in (x, y))
            parts.append(where(condition.term, x, y))
    return Affine(*parts)


FORMS: dict[Any, Callable[..., Affine | None]] = {
    add: _sum,
    subtract: _difference,
    negative: _negative,
    multiply: _product,
    divide: _quotient,
    Where: _choice,
    SpecifyShape: lambda x, *symbolic: x,
}
"""The affine forms of operations' results, in terms of those of their operands."""


# Loops without these carries.


def known_carries(loop: Node) -> Results | None:
    """Return the results of a loop whose carries are elements of the step before."""
    found = _KnownCarries.of(loop)
    if found is None or not found.op.carries:
        return None
    found.settle(found.shifted)
    return found.results() if len(found.finals) == found.op.carries else None


def linear_carries(loop: Node) -> Results | None:
    """Return the results of a loop without carries that are linear recurrences."""
    found = _KnownCarries.of(loop)
    if found is None:
        return None
    found.settle(found.shifted, found.linear)
    return found.results() if found.finals else None


class _KnownCarries:
    """The carries that are known without the loop, in the order of their dependence.

    Attributes:
        before: What a carry is before each step, by what stands for it.
        finals: What it is at last, by its number.
    """

    def __init__(self, body: AnalysedLoop) -> None:
        self.body = body
        self.op = body.op
        self.before: dict[Node, Tensor] = {}
        self.finals: dict[int, Node] = {}

    @classmethod
    def of(cls, loop: Node) -> _KnownCarries | None:
        body = AnalysedLoop.at(loop)
        return cls(body) if body.is_plain and not body.op.recompute else None

    def settle(self, *ways: Callable[[int], Tensor | None]) -> None:
        """Find the carries, each by the first way that leads to it."""
        reads = [set(toposort([y])) & set(self.body.carries) for y in self.body.nexts]
        waiting = list(range(self.op.carries))
        while True:
            ready = [i for i in waiting if reads[i] <= {*self.before, self.body.carries[i]}]
            known = {i: self._states(i, ways) for i in ready if i not in self.finals}
            found = {i: states for i, states in known.items() if states is not None}
            if not found:
                return
            for i, states in found.items():
                first, last = slice(None, -1), slice(1, None)
                self.before[self.body.carries[i]] = states[last if self.op.reverse else first]
                self.finals[i] = states[0 if self.op.reverse else -1]
            waiting = [i for i in waiting if i not in found]

    def _states(self, i: int, ways: Sequence[Callable[[int], Tensor | None]]) -> Tensor | None:
        return next((y for way in ways if (y := way(i)) is not None), None)

    def shifted(self, i: int) -> Tensor | None:
        """Return all values of a carry that does not depend on the one before."""
        new = self.body.nexts[i]
        if self.body.carries[i] in toposort([new]) or not is_small(self.body, new):
            return None
        rows = tried(self.body, new, self.before)
        return None if rows is None else self._begun(self.body.given.init[i], rows)

    def linear(self, i: int) -> Tensor | None:
        """Return all values of a carry that is an affine function of the one before."""
        form = affine(self.body, i)
        init = self.body.given.init[i]
        if form is None or not is_numeric(init.dtype) or not self._is_laid_out(init):
            return None
        parts = [self._rows(x, init) for x in (form.factor, form.term)]
        if None in parts:
            return None
        factors, terms = parts
        if form.factor == 1:
            return Tensor.make(CumSum(0, self.op.reverse), self._begun(init, terms))
        if form.term == 0:
            return Tensor.make(CumProd(0, self.op.reverse), self._begun(init, factors))
        a = self._begun(ones_like(init), factors)
        return Tensor.make(Recurrence(0, self.op.reverse), a, self._begun(init, terms))

    def _is_laid_out(self, init: Tensor) -> bool:
        """Whether other arrays are as large as all values of a carry."""
        xs = self.body.given.xs
        return not init.ndim or self.op.stacked > 0 or any(x.ndim > init.ndim for x in xs)

    def _rows(self, x: Value, init: Tensor) -> Any:
        """All values of a factor or term, in the carry's shape."""
        x = constant(x, dtype=init.dtype) if isinstance(x, int) else x
        rows = tried(self.body, x, self.before)
        if rows is None:
            return None
        new = init.ndim - x.type.ndim
        wide = expand_dims(rows, tuple(range(1, 1 + new))) if new else rows
        return broadcast_to(wide, (self.body.steps, *lengths(init)))

    def _begun(self, first: Tensor, rows: Tensor) -> Tensor:
        """Rows and what comes before the first step."""
        parts = [expand_dims(first, 0), rows]
        return concatenate(parts[::-1] if self.op.reverse else parts)

    def results(self) -> Results:
        return self.body.results(self.finals, {}, known=self.before)
