"""Code sinking: sums that no step reads, and expensive work for rows, move after the loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from graphc.ir import Node, Pick, dependent, is_numeric, toposort
from graphc.rewrite.loops.contractions import LabelledProduct, product_of, sum_rows
from graphc.rewrite.loops.dependence import AnalysedLoop, Results, is_expensive, number_of_elements
from graphc.rewrite.loops.hoist import MAX_SIZE_RATIO, as_batch, is_small
from graphc.tensor.arrays.reduce import Sum
from graphc.tensor.core.axes import ExpandDims, Squeeze, Transpose
from graphc.tensor.core.elementwise import add, cast, greater, multiply, negative, subtract, where
from graphc.tensor.core.specify import SpecifyShape
from graphc.tensor.core.tensor import Tensor, as_tensor, constant

# Sums.

MAX_TERMS = 32
"""Largest number of terms of a sum that is split, so that rewriting stays linear."""

NARROW = {"float16", "bfloat16"}
"""Dtypes that cannot represent large numbers of steps."""


@dataclass(slots=True)
class Total:
    """A carry that only accumulates terms, and that no step reads.

    Attributes:
        index: The index of the carry.
        staying: Signed terms that the loop still sums.
        after: Signed terms that are summed after the loop.
    """

    index: int
    staying: list[tuple[int, Node]] = field(default_factory=list)
    after: list[tuple[int, Node]] = field(default_factory=list)


def sums_after(loop: Node) -> Results | None:
    """Return the results of a loop whose unread sums are computed from rows, after it."""
    body = AnalysedLoop.at(loop)
    if body.op.stops or body.op.recompute:
        return None
    return _Sums(body).results()


class _Sums:
    """The accumulated sums of a loop.

    Attributes:
        early: Sums that need no loop, by their terms.
        late: Terms that are summed from rows, with the product whose factors are rows.
        extra: Nodes of the step that become rows.
        exported: The index of each row, the extra ones included.
    """

    def __init__(self, body: AnalysedLoop) -> None:
        self.body = body
        self.early: dict[Node, Tensor] = {}
        self.late: dict[Node, LabelledProduct | None] = {}
        self.extra: list[Node] = []
        self.exported = {y: j for j, y in reversed(list(enumerate(body.rows)))}
        self.totals = [t for i in range(body.op.carries) if (t := self._total(i)) is not None]

    def _total(self, i: int) -> Total | None:
        body = self.body
        carry = body.carries[i]
        terms = list(islice(_signed_terms(body.nexts[i]), MAX_TERMS + 1))
        if (1, carry) not in terms or not is_numeric(carry.dtype):
            return None
        terms.remove((1, carry))
        reading = dependent(body.order, [carry])
        others = [y for k, y in enumerate(body.nexts) if k != i]
        ends = [*(x for _, x in terms), *others, *body.rows]
        is_short = 0 < len(terms) < MAX_TERMS
        return Total(i, _group_terms(terms)) if is_short and reading.isdisjoint(ends) else None

    def results(self) -> Results | None:
        for total in self.totals:
            self._sort(total, self._needs_no_loop)
        for total in self.totals:
            self._sort(total, self._is_free)
        done = [total for total in self.totals if total.after]
        return self._after(done) if done else None

    def _sort(self, total: Total, leaves: Callable[[Node], bool]) -> None:
        terms, total.staying = total.staying, []
        for sign, x in terms:
            (total.after if leaves(x) else total.staying).append((sign, x))

    def _needs_no_loop(self, term: Node) -> bool:
        """Return whether a term's sum needs no loop, or only rows that are cheap to store."""
        body = self.body
        if term in self.early or term in self.late:
            return True
        product = product_of(term)
        if not body.depends(term):
            early_sum = self._sum_of_early(term, product)
            if early_sum is not None:
                self.early[term] = early_sum
            return early_sum is not None
        if product is None or not body.is_plain or not product.is_large():
            return False
        if not all(body.varies(x) for x in product.factors) or not self._is_cheap_to_store(product):
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

    def _sum_of_early(self, term: Node, product: LabelledProduct | None) -> Tensor | None:
        body = self.body
        if not body.varies(term):
            return self._sum_of_constant_term(term)
        if product is not None:
            rows = [self._early_factor(x) for x in product.factors]
            if None not in rows:
                total = product.sum_steps(rows)  # type: ignore[arg-type]
                # A contraction over no rows is zero, a product with a constant factor may not be.
                return total if all(map(body.varies, product.factors)) else self._of_any_step(total)
        rows_ = as_batch(body, term) if is_small(body, term) else None
        return None if rows_ is None else sum_rows(body.of_steps_done(rows_))

    def _sum_of_constant_term(self, term: Node) -> Tensor | None:
        (same,) = self.body.outside([term])
        if same.dtype in NARROW:
            return None  # may not represent the number of steps
        return self._of_any_step(multiply(cast(self._steps_done, same.dtype), same))

    @property
    def _steps_done(self) -> Tensor:
        operands = self.body.operands
        return as_tensor(
            self.body.steps if operands.count is None else operands.count, dtype="int64"
        )

    def _of_any_step(self, total: Tensor) -> Tensor:
        """Return a sum, or zero if no step runs, even of infinite terms."""
        return where(greater(self._steps_done, 0), total, constant(0, dtype=total.dtype))

    def _early_factor(self, x: Tensor) -> Tensor | None:
        """Return the rows of a factor, the factor itself if it does not vary, or None."""
        if not self.body.varies(x):
            (same,) = self.body.outside([x])
            return same  # type: ignore[no-any-return]
        rows = as_batch(self.body, x) if is_small(self.body, x) else None
        return None if rows is None else self.body.of_steps_done(rows)

    def _is_cheap_to_store(self, product: LabelledProduct) -> bool:
        """Return whether rows of the factors are small beside existing rows and sequences."""
        existing = [*self.body.xs, *self.body.rows]
        new = [x for x in product.factors if self.body.depends(x) and x not in self.exported]
        if not new:
            return True
        sizes = [number_of_elements(x) for x in (*new, *existing)]
        if None in sizes:
            most = max((x.type.ndim for x in existing), default=-1)
            return all(x.ndim <= most for x in new)
        new_size = sum(n for n in sizes[: len(new)] if n is not None)
        return new_size <= MAX_SIZE_RATIO * sum(n for n in sizes[len(new) :] if n is not None)

    def _is_free(self, term: Node) -> bool:
        """Return whether a term consists of views and sums of existing rows."""
        if not self.body.is_plain or not self.body.depends(term):
            return False
        for _, x in _signed_terms(term):
            while x not in self.exported and isinstance(x.op, FREE):
                (x,) = x.inputs
            if x not in self.exported:
                return False
        self.late[term] = None
        return True

    def _after(self, done: Sequence[Total]) -> Results:
        body = self.body
        removed = {total.index for total in done if not total.staying}
        nexts = {i: y for i, y in enumerate(body.nexts) if i not in removed}
        for total in done:
            if total.staying:
                nexts[total.index] = _add_terms(body.carries[total.index], total.staying)
        row_count = len(body.rows)
        stored = [*body.rows, *self.extra]
        outputs = body.rebuild(nexts, stored) if nexts or stored else []
        finals = dict(zip(nexts, outputs, strict=False))
        rows = outputs[len(nexts) :]
        row_of = {y: rows[j] for y, j in self.exported.items()}
        for total in done:
            initial = finals.get(total.index, body.operands.init[total.index])
            sums = [(sign, self._sum(x, row_of)) for sign, x in total.after]
            finals[total.index] = _add_terms(initial, sums)
        return [*(finals[i] for i in range(body.op.carries)), *rows[:row_count]]

    def _sum(self, term: Node, rows_of: dict[Node, Tensor]) -> Tensor:
        if term in self.early:
            return self.early[term]
        product = self.late[term]
        rows = self.body.sequences | rows_of
        if product is None:
            return sum_rows(self.body.at_once([term], rows)[0])
        return product.sum_steps(self.body.at_once(product.factors, rows))


FREE = (Sum, Transpose, ExpandDims, Squeeze)
"""Operations that are free for all steps at once."""


def _signed_terms(y: Node) -> Iterable[tuple[int, Node]]:
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


def _group_terms(terms: Iterable[tuple[int, Node]]) -> list[tuple[int, Node]]:
    """Return large products one by one, and all other terms as one.

    Other terms may nearly cancel in each step; their separate sums would lose the digits.
    """
    large: list[tuple[int, Node]] = []
    others: list[tuple[int, Node]] = []
    for sign, x in terms:
        product = product_of(x)
        (others if product is None or not product.is_large() else large).append((sign, x))
    if others:
        others.sort(key=lambda part: -part[0])
        (sign, first), *rest = others
        large.append((sign, _add_terms(first, ((sign * other, x) for other, x in rest))))
    return large


def _add_terms(initial: Node, terms: Iterable[tuple[int, Node]]) -> Tensor:
    total: Tensor = initial  # type: ignore[assignment]
    for sign, x in terms:
        total = add(total, x) if sign > 0 else subtract(total, x)
    return total


# Rows.


def work_after(loop: Node) -> Results | None:
    """Return the results of a loop that defers expensive work for rows until after it."""
    body = AnalysedLoop.at(loop)
    if not body.is_plain or body.op.recompute:
        return None
    core = set(toposort(body.nexts))
    late = {node for node in body.order if node in body.on_carries and node not in core}
    expensive: set[Node] = set()
    for node in body.order:
        # Picking one of several results is free where the others are needed.
        is_costly = is_expensive(node) and not isinstance(node.op, Pick)
        if node in late and (is_costly or not expensive.isdisjoint(node.inputs)):
            expensive.add(node)
    moved: dict[int, set[Node]] = {}
    for j, y in enumerate(body.rows):
        if y in expensive:
            needed = _stored_for(body, y, expensive)
            if _is_no_larger(body, y, needed) and _can_leave(body, y, needed):
                moved[j] = needed
    if not moved:
        return None
    remaining = [j for j in range(len(body.rows)) if j not in moved]
    stored = [body.rows[j] for j in remaining]
    stored += dict.fromkeys(x for needed in moved.values() for x in needed if x not in stored)
    nexts = dict(enumerate(body.nexts))
    outputs = body.rebuild(nexts, stored)
    rows = dict(zip(stored, outputs[len(nexts) :], strict=True))
    moved_rows = body.at_once([body.rows[j] for j in moved], body.sequences | rows)
    row_at = {
        **{j: rows[body.rows[j]] for j in remaining},
        **dict(zip(moved, moved_rows, strict=True)),
    }
    return [*outputs[: len(nexts)], *(row_at[j] for j in range(len(body.rows)))]


def _stored_for(body: AnalysedLoop, y: Node, expensive: set[Node]) -> set[Node]:
    """Return the inputs of a row's expensive work that depend on carries."""
    inside = {node for node in toposort([y]) if node in expensive}
    read = {x for node in inside for x in node.inputs} - inside
    return {x for x in read if x in body.on_carries}


def _is_no_larger(body: AnalysedLoop, y: Node, needed: set[Node]) -> bool:
    """Return whether the arrays stored instead of a row are not much larger than the row."""
    new = [x for x in needed if x not in body.rows]
    sizes = [number_of_elements(x) for x in (y, *new)]
    if None in sizes:
        return len(new) <= 1 and all(x.type.ndim <= y.type.ndim for x in new)
    return sum(n for n in sizes[1:] if n is not None) <= MAX_SIZE_RATIO * sizes[0]  # type: ignore[operator]


def _can_leave(body: AnalysedLoop, y: Node, needed: set[Node]) -> bool:
    """Return whether a row can be computed for all steps at once from such rows."""
    stands = {x: x.type.with_shape((body.op.steps, *x.type.shape))() for x in needed}
    return as_batch(body, y, stands) is not None
