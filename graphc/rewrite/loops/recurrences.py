"""Carries that follow from sequences: elements of the step before, and linear recurrences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from graphc.ir import Node, is_numeric, toposort
from graphc.rewrite.loops.dependence import AnalysedLoop, Results
from graphc.rewrite.loops.hoist import is_small, tried
from graphc.tensor.arrays.broadcast import broadcast_to
from graphc.tensor.arrays.coupled import CoupledRecurrence
from graphc.tensor.arrays.create import ones_like
from graphc.tensor.arrays.cumulative import CumProd, CumSum, Recurrence
from graphc.tensor.arrays.join import concatenate, stack
from graphc.tensor.core.axes import expand_dims
from graphc.tensor.core.elementwise import Where, add, divide, multiply, negative, subtract, where
from graphc.tensor.core.shape import lengths
from graphc.tensor.core.specify import SpecifyShape
from graphc.tensor.core.tensor import Tensor, constant

MOST_COUPLED = 4
"""Carries of a coupled recurrence: products of their matrices are four times the work for twice."""

FEW_COUPLED = 16
"""Steps from which on a coupled recurrence takes less time than a loop of calls from Python."""

# What a step makes of a carry.

Value = Tensor | int
"""A part of a step, or the number that all its elements are."""


@dataclass(frozen=True, slots=True)
class Affine:
    """The sum of ``factors[i] * carries[i]`` and a term, element by element.

    Neither factors nor the term depend on these carries.
    """

    factors: tuple[Value, ...]
    term: Value

    @property
    def is_constant(self) -> bool:
        """Whether it does not depend on a carry."""
        return all(isinstance(x, int) and x == 0 for x in self.factors)


def affine(body: AnalysedLoop, i: int, group: Sequence[int]) -> Affine | None:
    """Return a carry's next value as a sum of products with some carries, if it is one."""
    new, carries = body.nexts[i], [body.carries[j] for j in group]
    found: dict[Node, Affine] = {
        x: Affine(tuple(int(j == i) for j in range(len(group))), 0) for i, x in enumerate(carries)
    }
    none = (0,) * len(group)
    reading: set[Node] = {*carries}
    for node in toposort([new], body.carries):
        if reading.isdisjoint(node.inputs):
            continue
        reading.add(node)
        rule = FORMS.get(node.op, FORMS.get(type(node.op)))
        if len(group) > 1 and rule is _choice:
            rule = None  # a choice as a product with 0 would keep an infinite state
        inputs: Sequence[Any] = node.inputs
        known = [found.get(x) if x in reading else Affine(none, x) for x in inputs]
        made = None if rule is None or None in known else rule(*known)
        if made is not None:
            found[node] = made
    return found.get(new) if new in reading else Affine(none, new)


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
    return Affine(tuple(map(_plus, a.factors, b.factors)), _plus(a.term, b.term))


def _scaled(k: Value, a: Affine) -> Affine:
    return Affine(tuple(_times(k, x) for x in a.factors), _times(k, a.term))


def _difference(a: Affine, b: Affine) -> Affine:
    return _sum(a, _scaled(-1, b))


def _product(a: Affine, b: Affine) -> Affine | None:
    if a.is_constant:
        return _scaled(a.term, b)
    return _scaled(b.term, a) if b.is_constant else None


def _quotient(a: Affine, b: Affine) -> Affine | None:
    if not b.is_constant:
        return None
    parts = [
        x if isinstance(x, int) and x == 0 else divide(x, b.term) for x in (*a.factors, a.term)
    ]
    *factors, term = parts
    return Affine(tuple(factors), term)


def _choice(condition: Affine, a: Affine, b: Affine) -> Affine | None:
    if not condition.is_constant:
        return None
    pairs = tuple(zip((*a.factors, a.term), (*b.factors, b.term), strict=True))
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
    *factors, term = parts
    return Affine(tuple(factors), term)


FORMS: dict[Any, Callable[..., Affine | None]] = {
    add: _sum,
    subtract: _difference,
    negative: lambda x: _scaled(-1, x),
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


def coupled_carries(loop: Node) -> Results | None:
    """Return the results of a loop without scalars that are one linear recurrence together."""
    found = _KnownCarries.of(loop)
    if found is None or (found.op.steps or FEW_COUPLED) < FEW_COUPLED:
        return None
    found.settle(found.shifted, found.summed)
    if not found.settle_coupled():
        return None
    while True:
        found.settle(found.shifted, found.summed)
        if not found.settle_coupled():
            return found.results()


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
        waiting = [i for i in range(self.op.carries) if i not in self.finals]
        while True:
            ready = [i for i in waiting if self._unknown_to(i) <= {i}]
            known = {i: self._states(i, ways) for i in ready}
            found = {i: states for i, states in known.items() if states is not None}
            if not found:
                return
            for i, states in found.items():
                self._settled(i, states)
            waiting = [i for i in waiting if i not in found]

    def settle_coupled(self) -> bool:
        """Find the smallest group of carries that are known together; whether there is one."""
        waiting = [i for i in range(self.op.carries) if i not in self.finals]
        groups = {tuple(sorted(self._coupled_with(i))) for i in waiting}
        for group in sorted(groups, key=lambda group: (len(group), group)):
            states = self._coupled(group) if 1 < len(group) <= MOST_COUPLED else None
            if states is not None:
                for place, i in enumerate(group):
                    self._settled(i, states[place])
                return True
        return False

    def _settled(self, i: int, states: Tensor) -> None:
        """Keep all values of a carry."""
        first, last = slice(None, -1), slice(1, None)
        self.before[self.body.carries[i]] = states[last if self.op.reverse else first]
        self.finals[i] = states[0 if self.op.reverse else -1]

    def _unknown_to(self, i: int) -> set[int]:
        """The carries that the next value of one reads, and that are not known."""
        carries = self.body.carries
        below = set(toposort([self.body.nexts[i]]))
        return {j for j, x in enumerate(carries) if x in below and x not in self.before}

    def _coupled_with(self, i: int) -> set[int]:
        """A carry, and all unknown ones that it depends on, through others too."""
        group, found = {i}, self._unknown_to(i)
        while found - group:
            group |= found
            found = {k for j in group for k in self._unknown_to(j)}
        return group

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
        form = affine(self.body, i, [i])
        init = self.body.given.init[i]
        if form is None or form.is_constant:
            return None
        if not is_numeric(init.dtype) or not self._is_laid_out(init):
            return None
        (factor,) = form.factors
        parts = [self._rows(x, init) for x in (factor, form.term)]
        if None in parts:
            return None
        factors, terms = parts
        if factor == 1:
            return Tensor.make(CumSum(0, self.op.reverse), self._begun(init, terms))
        if form.term == 0:
            return Tensor.make(CumProd(0, self.op.reverse), self._begun(init, factors))
        a = self._begun(ones_like(init), factors)
        return Tensor.make(Recurrence(0, self.op.reverse), a, self._begun(init, terms))

    def summed(self, i: int) -> Tensor | None:
        """Return all values of a carry that terms are added to."""
        form = affine(self.body, i, [i])
        return self.linear(i) if form is not None and form.factors == (1,) else None

    def _coupled(self, group: Sequence[int]) -> Tensor | None:
        """Return all values of scalars that are affine functions of those before, (k, n)."""
        inits = [self.body.given.init[i] for i in group]
        if any(x.ndim or not is_numeric(x.dtype) or x.dtype != inits[0].dtype for x in inits):
            return None
        forms = [form for i in group if (form := affine(self.body, i, group)) is not None]
        if len(forms) < len(group):
            return None
        one = ones_like(inits[0])
        factors = [[self._rows(x, one) for x in form.factors] for form in forms]
        terms = [self._rows(form.term, one) for form in forms]
        if None in (*terms, *(x for row in factors for x in row)):
            return None
        a = stack([stack([self._begun(one, x) for x in row]) for row in factors])
        pairs = zip(inits, terms, strict=True)
        b = stack([self._begun(init, x) for init, x in pairs])
        return Tensor.make(CoupledRecurrence(self.op.reverse), a, b)

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
