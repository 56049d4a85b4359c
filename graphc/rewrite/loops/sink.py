"""Code sinking out of loops: sums that no step reads, and expensive work for rows alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from graphc.ir import Node, Pick, dependent, is_numeric, toposort
from graphc.rewrite.loops.contractions import Product, added_up, product_of
from graphc.rewrite.loops.dependence import AnalysedLoop, Results, is_expensive, number_of_elements
from graphc.rewrite.loops.hoist import MUCH, is_small, tried
from graphc.tensor.arrays.reduce import Sum
from graphc.tensor.core.axes import ExpandDims, Squeeze, Transpose
from graphc.tensor.core.elementwise import add, cast, greater, multiply, negative, subtract, where
from graphc.tensor.core.specify import SpecifyShape
from graphc.tensor.core.tensor import Tensor, as_tensor, constant

# Sums.

MOST_TERMS = 32
"""Sums of more terms are not taken apart, so that rewriting stays linear."""

NARROW = {"float16", "bfloat16"}
"""Dtypes that hold no large numbers of steps."""


@dataclass(slots=True)
class Total:
    """A carry that sums are added to, and that no step reads.

    Attributes:
        place: Its number.
        staying: Signed terms that the loop goes on to add up.
        after: Signed terms that are added up after it.
    """

    place: int
    staying: list[tuple[int, Node]] = field(default_factory=list)
    after: list[tuple[int, Node]] = field(default_factory=list)


def sums_after(loop: Node) -> Results | None:
    """Return the results of a loop without sums that no step reads: they are summed from rows."""
    body = AnalysedLoop.at(loop)
    if body.op.stops or body.op.recompute:
        return None
    return _Sums(body).results()


class _Sums:
    """The sums of a loop.

    Attributes:
        early: Sums that are known without the loop, by their terms.
        late: Terms that are added up from rows, products of their factors'.
        extra: Parts of a step that become rows.
        exported: The places of all that are rows then.
    """

    def __init__(self, body: AnalysedLoop) -> None:
        self.body = body
        self.early: dict[Node, Tensor] = {}
        self.late: dict[Node, Product | None] = {}
        self.extra: list[Node] = []
        self.exported = {y: j for j, y in reversed(list(enumerate(body.rows)))}
        self.totals = [t for i in range(body.op.carries) if (t := self._total(i)) is not None]

    def _total(self, i: int) -> Total | None:
        body = self.body
        own = body.carries[i]
        terms = list(islice(_terms(body.nexts[i]), MOST_TERMS + 1))
        if (1, own) not in terms or not is_numeric(own.dtype):
            return None
        terms.remove((1, own))
        reading = dependent(body.order, [own])
        others = [y for k, y in enumerate(body.nexts) if k != i]
        ends = [*(x for _, x in terms), *others, *body.rows]
        few = 0 < len(terms) < MOST_TERMS
        return Total(i, _grouped(terms)) if few and reading.isdisjoint(ends) else None

    def results(self) -> Results | None:
        for total in self.totals:
            self._sort(total, self._is_found)
        for total in self.totals:
            self._sort(total, self._is_free)
        done = [total for total in self.totals if total.after]
        return self._after(done) if done else None

    def _sort(self, total: Total, leaves: Callable[[Node], bool]) -> None:
        kept, total.staying = total.staying, []
        for sign, x in kept:
            (total.after if leaves(x) else total.staying).append((sign, x))

    def _is_found(self, term: Node) -> bool:
        """Whether a term's sum is known before the loop, or from what it may well store."""
        body = self.body
        if term in self.early or term in self.late:
            return True
        product = product_of(term)
        if not body.depends(term):
            made = self._sum_of_early(term, product)
            if made is not None:
                self.early[term] = made
            return made is not None
        if product is None or not body.is_plain or not product.is_large():
            return False
        if not all(body.varies(x) for x in product.factors) or not self._is_stored(product):
            return False
        for x in product.factors:
            if body.depends(x):
                self._export(x)
        self.late[term] = product
        return True

    def _export(self, x: Node) -> None:
        if x not in self.exported:
            self.exported[x] = len(self.body.rows) + len(self.extra)
            self.extra.append(x)

    def _sum_of_early(self, term: Node, product: Product | None) -> Tensor | None:
        body = self.body
        if not body.varies(term):
            return self._sum_of_same(term)
        if product is not None:
            rows = [self._early_factor(x) for x in product.factors]
            if None not in rows:
                total = product.summed(rows)  # type: ignore[arg-type]
                # A contraction over no rows is zero; a factor that has none may be infinite.
                return total if all(map(body.varies, product.factors)) else self._of_any_step(total)
        rows_ = tried(body, term) if is_small(body, term) else None
        return None if rows_ is None else added_up(body.of_steps_done(rows_))

    def _sum_of_same(self, term: Node) -> Tensor | None:
        """The sum of a term that is the same in all steps."""
        (same,) = self.body.outside([term])
        if same.dtype in NARROW:
            return None  # which may not hold the number of steps
        return self._of_any_step(multiply(cast(self._steps_done, same.dtype), same))

    @property
    def _steps_done(self) -> Tensor:
        given = self.body.given
        return as_tensor(self.body.steps if given.count is None else given.count, dtype="int64")

    def _of_any_step(self, total: Tensor) -> Tensor:
        """A sum that is zero where no step is done, even of what is infinite."""
        return where(greater(self._steps_done, 0), total, constant(0, dtype=total.dtype))

    def _early_factor(self, x: Tensor) -> Tensor | None:
        """Its rows, or the array itself where it does not vary."""
        if not self.body.varies(x):
            (same,) = self.body.outside([x])
            return same  # type: ignore[no-any-return]
        rows = tried(self.body, x) if is_small(self.body, x) else None
        return None if rows is None else self.body.of_steps_done(rows)

    def _is_stored(self, product: Product) -> bool:
        """Whether rows of its factors are not much larger than what is stored anyway."""
        there = [*self.body.xs, *self.body.rows]
        new = [x for x in product.factors if self.body.depends(x) and x not in self.exported]
        if not new:
            return True
        sizes = [number_of_elements(x) for x in (*new, *there)]
        if None in sizes:
            most = max((x.type.ndim for x in there), default=-1)
            return all(x.ndim <= most for x in new)
        own = sum(n for n in sizes[: len(new)] if n is not None)
        return own <= MUCH * sum(n for n in sizes[len(new) :] if n is not None)

    def _is_free(self, term: Node) -> bool:
        """Whether it is made of views and sums of what is a row anyway."""
        if not self.body.is_plain or not self.body.depends(term):
            return False
        for _, x in _terms(term):
            while x not in self.exported and isinstance(x.op, FREE):
                (x,) = x.inputs
            if x not in self.exported:
                return False
        self.late[term] = None
        return True

    def _after(self, done: Sequence[Total]) -> Results:
        body = self.body
        gone = {total.place for total in done if not total.staying}
        nexts = {i: y for i, y in enumerate(body.nexts) if i not in gone}
        for total in done:
            if total.staying:
                nexts[total.place] = _added(body.carries[total.place], total.staying)
        own = len(body.rows)
        stored = [*body.rows, *self.extra]
        made = body.rebuilt(nexts, stored) if nexts or stored else []
        finals = dict(zip(nexts, made, strict=False))
        rows = made[len(nexts) :]
        known = {y: rows[j] for y, j in self.exported.items()}
        for total in done:
            begun = finals.get(total.place, body.given.init[total.place])
            sums = [(sign, self._sum(x, known)) for sign, x in total.after]
            finals[total.place] = _added(begun, sums)
        return [*(finals[i] for i in range(body.op.carries)), *rows[:own]]

    def _sum(self, term: Node, known: dict[Node, Tensor]) -> Tensor:
        if term in self.early:
            return self.early[term]
        product = self.late[term]
        rows = self.body.known | known
        if product is None:
            return added_up(self.body.at_once([term], rows)[0])
        return product.summed(self.body.at_once(product.factors, rows))


FREE = (Sum, Transpose, ExpandDims, Squeeze)
"""Operations that cost nothing when done for all steps at once."""


def _terms(y: Node) -> Iterable[tuple[int, Node]]:
    """Yield the terms of a sum, with their signs."""
    stack = [(1, y)]
    while stack:
        sign, node = stack.pop()
        if node.op is add or node.op is subtract:
            a, b = node.inputs
            stack += [(sign if node.op is add else -sign, b), (sign, a)]
        elif isinstance(node.op, SpecifyShape):
            stack.append((sign, node.inputs[0]))
        elif node.op is negative:
            stack.append((-sign, node.inputs[0]))
        else:
            yield sign, node


def _grouped(terms: Iterable[tuple[int, Node]]) -> list[tuple[int, Node]]:
    """Large products one by one, and all else as one term.

    Apart, parts that all but cancel in each step would add up to sums whose digits cancel.
    """
    found: list[tuple[int, Node]] = []
    others: list[tuple[int, Node]] = []
    for sign, x in terms:
        product = product_of(x)
        (others if product is None or not product.is_large() else found).append((sign, x))
    if others:
        others.sort(key=lambda part: -part[0])
        (sign, first), *rest = others
        found.append((sign, _added(first, ((sign * other, x) for other, x in rest))))
    return found


def _added(begun: Node, terms: Iterable[tuple[int, Node]]) -> Tensor:
    total: Tensor = begun  # type: ignore[assignment]
    for sign, x in terms:
        total = add(total, x) if sign > 0 else subtract(total, x)
    return total


# Rows.


def work_after(loop: Node) -> Results | None:
    """Return the results of a loop that leaves expensive work for rows alone until after it."""
    body = AnalysedLoop.at(loop)
    if not body.is_plain or body.op.recompute:
        return None
    core = set(toposort(body.nexts))
    late = {node for node in body.order if node in body.on_carries and node not in core}
    expensive: set[Node] = set()
    for node in body.order:
        # One of several results costs nothing where the others are needed anyway.
        own = is_expensive(node) and not isinstance(node.op, Pick)
        if node in late and (own or not expensive.isdisjoint(node.inputs)):
            expensive.add(node)
    moved: dict[int, set[Node]] = {}
    for j, y in enumerate(body.rows):
        if y in expensive:
            needed = _stored_for(body, y, expensive)
            if _is_no_larger(body, y, needed) and _can_leave(body, y, needed):
                moved[j] = needed
    if not moved:
        return None
    left = [j for j in range(len(body.rows)) if j not in moved]
    stored = [body.rows[j] for j in left]
    stored += dict.fromkeys(x for needed in moved.values() for x in needed if x not in stored)
    nexts = dict(enumerate(body.nexts))
    made = body.rebuilt(nexts, stored)
    rows = dict(zip(stored, made[len(nexts) :], strict=True))
    later = body.at_once([body.rows[j] for j in moved], body.known | rows)
    found = {**{j: rows[body.rows[j]] for j in left}, **dict(zip(moved, later, strict=True))}
    return [*made[: len(nexts)], *(found[j] for j in range(len(body.rows)))]


def _stored_for(body: AnalysedLoop, y: Node, expensive: set[Node]) -> set[Node]:
    """Return the inputs of a row's expensive work that depend on carries."""
    inside = {node for node in toposort([y]) if node in expensive}
    read = {x for node in inside for x in node.inputs} - inside
    return {x for x in read if x in body.on_carries}


def _is_no_larger(body: AnalysedLoop, y: Node, needed: set[Node]) -> bool:
    """Whether what is stored instead of a row is not much larger than it."""
    new = [x for x in needed if x not in body.rows]
    sizes = [number_of_elements(x) for x in (y, *new)]
    if None in sizes:
        return len(new) <= 1 and all(x.type.ndim <= y.type.ndim for x in new)
    return sum(n for n in sizes[1:] if n is not None) <= MUCH * sizes[0]  # type: ignore[operator]


def _can_leave(body: AnalysedLoop, y: Node, needed: set[Node]) -> bool:
    """Whether a row can be made for all steps at once, tried on arrays that stand for them."""
    stands = {x: x.type.with_shape((body.op.steps, *x.type.shape))() for x in needed}
    return tried(body, y, stands) is not None
