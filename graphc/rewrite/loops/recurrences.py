"""Carries that follow from sequences: elements of the step before, and linear recurrences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from graphc.ir import Node, is_numeric, toposort
from graphc.rewrite.loops.dependence import AnalysedLoop, Results
from graphc.rewrite.loops.hoist import as_batch, is_small
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

MAX_COUPLED = 4
"""Largest number of coupled carries: the work grows with its square."""

MIN_COUPLED_STEPS = 16
"""Number of steps from which on a coupled recurrence is faster than a loop of Python calls."""

# Affine forms of next carries.

Value = Tensor | int
"""A node of a step, or the number that all its elements equal."""


@dataclass(frozen=True, slots=True)
class Affine:
    """The sum of ``factors[i] * carries[i]`` and a term, element by element.

    Neither factors nor term depend on these carries.
    """

    factors: tuple[Value, ...]
    term: Value

    @property
    def is_constant(self) -> bool:
        """Whether the sum depends on no carry."""
        return all(isinstance(x, int) and x == 0 for x in self.factors)


def affine(body: AnalysedLoop, i: int, group: Sequence[int]) -> Affine | None:
    """Return a carry's next value as an affine function of some carries, or None."""
    new, carries = body.nexts[i], [body.carries[j] for j in group]
    forms: dict[Node, Affine] = {
        x: Affine(tuple(int(j == i) for j in range(len(group))), 0) for i, x in enumerate(carries)
    }
    no_factors = (0,) * len(group)
    reading: set[Node] = {*carries}
    for node in toposort([new], body.carries):
        if reading.isdisjoint(node.inputs):
            continue
        reading.add(node)
        rule = FORMS.get(node.op, FORMS.get(type(node.op)))
        if len(group) > 1 and rule is _choice:
            rule = None  # an infinite state times 0 would be NaN
        inputs: Sequence[Any] = node.inputs
        operand_forms = [forms.get(x) if x in reading else Affine(no_factors, x) for x in inputs]
        form = None if rule is None or None in operand_forms else rule(*operand_forms)
        if form is not None:
            forms[node] = form
    return forms.get(new) if new in reading else Affine(no_factors, new)


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


def _multiple(k: Value, a: Affine) -> Affine:
    return Affine(tuple(_times(k, x) for x in a.factors), _times(k, a.term))


def _difference(a: Affine, b: Affine) -> Affine:
    return _sum(a, _multiple(-1, b))


def _product(a: Affine, b: Affine) -> Affine | None:
    if a.is_constant:
        return _multiple(a.term, b)
    return _multiple(b.term, a) if b.is_constant else None


def _quotient(a: Affine, b: Affine) -> Affine | None:
    if not b.is_constant:
        return None
    quotients = [
        x if isinstance(x, int) and x == 0 else divide(x, b.term) for x in (*a.factors, a.term)
    ]
    *factors, term = quotients
    return Affine(tuple(factors), term)


def _choice(condition: Affine, a: Affine, b: Affine) -> Affine | None:
    if not condition.is_constant:
        return None
    pairs = tuple(zip((*a.factors, a.term), (*b.factors, b.term), strict=True))
    dtype = next((x.type.dtype for pair in pairs for x in pair if isinstance(x, Node)), None)
    choices: list[Value] = []
    for x, y in pairs:
        if isinstance(x, int) and x == y:
            choices.append(x)
        elif dtype is None:
            return None
        else:
            x, y = (v if isinstance(v, Node) else constant(v, dtype=dtype) for v in (x, y))
            choices.append(where(condition.term, x, y))
    *factors, term = choices
    return Affine(tuple(factors), term)


FORMS: dict[Any, Callable[..., Affine | None]] = {
    add: _sum,
    subtract: _difference,
    negative: lambda x: _multiple(-1, x),
    multiply: _product,
    divide: _quotient,
    Where: _choice,
    SpecifyShape: lambda x, *symbolic: x,
}
"""Functions from the affine forms of an operation's operands to that of its result."""


# Removing the carries.


def known_carries(loop: Node) -> Results | None:
    """Return the results of a loop whose carries are elements of the step before."""
    carries = _KnownCarries.of(loop)
    if carries is None or not carries.op.carries:
        return None
    carries.settle(carries.from_rows)
    return carries.results() if len(carries.finals) == carries.op.carries else None


def linear_carries(loop: Node) -> Results | None:
    """Return the results of a loop without the carries that are linear recurrences."""
    carries = _KnownCarries.of(loop)
    if carries is None:
        return None
    carries.settle(carries.from_rows, carries.linear)
    return carries.results() if carries.finals else None


def coupled_carries(loop: Node) -> Results | None:
    """Return the results of a loop without scalars that are one linear recurrence together."""
    carries = _KnownCarries.of(loop)
    if carries is None or (carries.op.steps or MIN_COUPLED_STEPS) < MIN_COUPLED_STEPS:
        return None
    carries.settle(carries.from_rows, carries.sums)
    if not carries.compute_coupled():
        return None
    while True:
        carries.settle(carries.from_rows, carries.sums)
        if not carries.compute_coupled():
            return carries.results()


class _KnownCarries:
    """Carries that need no loop, found in the order of their dependence.

    Attributes:
        before: The values of a carry before each step, by its input of the step.
        finals: The final value of a carry, by its index.
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

    def settle(self, *methods: Callable[[int], Tensor | None]) -> None:
        """Compute carries, each by the first method that applies, until none does."""
        waiting = [i for i in range(self.op.carries) if i not in self.finals]
        while True:
            ready = [i for i in waiting if self._unknown_to(i) <= {i}]
            states_of = {i: self._states(i, methods) for i in ready}
            computed = {i: states for i, states in states_of.items() if states is not None}
            if not computed:
                return
            for i, states in computed.items():
                self._record(i, states)
            waiting = [i for i in waiting if i not in computed]

    def compute_coupled(self) -> bool:
        """Compute the smallest group of coupled carries; return whether there is one."""
        waiting = [i for i in range(self.op.carries) if i not in self.finals]
        groups = {tuple(sorted(self._coupled_with(i))) for i in waiting}
        for group in sorted(groups, key=lambda group: (len(group), group)):
            states = self._solve_coupled(group) if 1 < len(group) <= MAX_COUPLED else None
            if states is not None:
                for row, i in enumerate(group):
                    self._record(i, states[row])
                return True
        return False

    def _record(self, i: int, states: Tensor) -> None:
        first, last = slice(None, -1), slice(1, None)
        self.before[self.body.carries[i]] = states[last if self.op.reverse else first]
        self.finals[i] = states[0 if self.op.reverse else -1]

    def _unknown_to(self, i: int) -> set[int]:
        """Return the carries that the next value of one reads, and that are not computed."""
        carries = self.body.carries
        below = set(toposort([self.body.nexts[i]]))
        return {j for j, x in enumerate(carries) if x in below and x not in self.before}

    def _coupled_with(self, i: int) -> set[int]:
        """Return a carry, and all others not computed that it depends on, also indirectly."""
        group, reached = {i}, self._unknown_to(i)
        while reached - group:
            group |= reached
            reached = {k for j in group for k in self._unknown_to(j)}
        return group

    def _states(self, i: int, methods: Sequence[Callable[[int], Tensor | None]]) -> Tensor | None:
        return next((y for method in methods if (y := method(i)) is not None), None)

    def from_rows(self, i: int) -> Tensor | None:
        """Return all values of a carry that does not depend on its previous value."""
        new = self.body.nexts[i]
        if self.body.carries[i] in toposort([new]) or not is_small(self.body, new):
            return None
        rows = as_batch(self.body, new, self.before)
        return None if rows is None else self._with_initial(self.body.operands.init[i], rows)

    def linear(self, i: int) -> Tensor | None:
        """Return all values of a carry that is an affine function of its previous value."""
        form = affine(self.body, i, [i])
        init = self.body.operands.init[i]
        if form is None or form.is_constant:
            return None
        if not is_numeric(init.dtype) or not self._has_large_arrays(init):
            return None
        (factor,) = form.factors
        rows = [self._rows(x, init) for x in (factor, form.term)]
        if None in rows:
            return None
        factors, terms = rows
        if factor == 1:
            return Tensor.make(CumSum(0, self.op.reverse), self._with_initial(init, terms))
        if form.term == 0:
            return Tensor.make(CumProd(0, self.op.reverse), self._with_initial(init, factors))
        a = self._with_initial(ones_like(init), factors)
        return Tensor.make(Recurrence(0, self.op.reverse), a, self._with_initial(init, terms))

    def sums(self, i: int) -> Tensor | None:
        """Return all values of a carry that accumulates terms."""
        form = affine(self.body, i, [i])
        return self.linear(i) if form is not None and form.factors == (1,) else None

    def _solve_coupled(self, group: Sequence[int]) -> Tensor | None:
        """Return all values (k, n) of scalars that are affine functions of the previous ones."""
        inits = [self.body.operands.init[i] for i in group]
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
        a = stack([stack([self._with_initial(one, x) for x in row]) for row in factors])
        pairs = zip(inits, terms, strict=True)
        b = stack([self._with_initial(init, x) for init, x in pairs])
        return Tensor.make(CoupledRecurrence(self.op.reverse), a, b)

    def _has_large_arrays(self, init: Tensor) -> bool:
        """Return whether other arrays are as large as all values of a carry."""
        xs = self.body.operands.xs
        return not init.ndim or self.op.stacked > 0 or any(x.ndim > init.ndim for x in xs)

    def _rows(self, x: Value, init: Tensor) -> Any:
        """Return all values of a factor or term, in the carry's shape, or None."""
        x = constant(x, dtype=init.dtype) if isinstance(x, int) else x
        rows = as_batch(self.body, x, self.before)
        if rows is None:
            return None
        new = init.ndim - x.type.ndim
        aligned = expand_dims(rows, tuple(range(1, 1 + new))) if new else rows
        return broadcast_to(aligned, (self.body.steps, *lengths(init)))

    def _with_initial(self, first: Tensor, rows: Tensor) -> Tensor:
        pair = [expand_dims(first, 0), rows]
        return concatenate(pair[::-1] if self.op.reverse else pair)

    def results(self) -> Results:
        return self.body.results(self.finals, {}, sequences=self.before)
