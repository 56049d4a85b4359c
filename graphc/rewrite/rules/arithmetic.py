"""Rules of arithmetic functions: forms that neither overflow nor cancel."""

from __future__ import annotations

from collections.abc import Iterator

from graphc.ir import Node, is_float
from graphc.rewrite.algebra.factors import multiple
from graphc.rewrite.facts.lengths import fit_to
from graphc.rewrite.rule import Equation, equation, rewrite
from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.arithmetic import hypot
from graphc.tensor.core.axes import ExpandDims, Squeeze, Transpose
from graphc.tensor.core.tensor import Tensor


def neither_is_nan(a: Tensor, b: Tensor) -> Tensor:
    """Return where neither is NaN: ``hypot(inf, nan)`` is inf."""
    return ew.logical_not(ew.logical_or(ew.isnan(a), ew.isnan(b)))


@equation("stabilize", dtypes=is_float, domain=neither_is_nan)
def sqrt_of_sum_of_squares(a: Tensor, b: Tensor) -> Equation:
    """``sqrt(a**2 + b**2)`` is ``hypot(a, b)``: squares overflow from 1e154 on."""
    return Equation(ew.sqrt(ew.square(a) + ew.square(b)), hypot(a, b))


@rewrite("stabilize", ew.add, ew.subtract, beside=(ew.add, ew.subtract), dtypes=is_float)
def square_of_difference(node: Node, op: object) -> Node | None:
    """``x**2 + y**2 - 2 * x * y`` is ``(x - y)**2``, which keeps its digits where x is near y.

    The expanded form may even be negative there. A compiler that computes it twice, as in its
    maximum with 0 and the gradient of that, can round the copies to either side of 0.
    """
    squares: list[Node] = []
    products: list[tuple[float, Node]] = []
    for sign, y in _signed_terms(node, 1, levels=2):
        c, x = multiple(y)
        root = _root(x) if sign * c == 1 else None
        if root is None:
            products.append((sign * c, x))
        else:
            squares.append(root)
    if len(squares) != 2 or len(products) != 1 or products[0][1].op is not ew.multiply:
        return None
    (x, y), ((c, product),) = squares, products
    (d, p), (e, q) = map(multiple, product.inputs)
    if {p, q} != {x, y} or abs(c * d * e) != 2:
        return None
    return fit_to(ew.square(ew.subtract(x, y) if c * d * e < 0 else ew.add(x, y)), node)


def _signed_terms(node: Node, sign: int, levels: int) -> Iterator[tuple[int, Node]]:
    if not levels or node.op not in {ew.add, ew.subtract}:
        yield sign, node
        return
    x, y = node.inputs
    yield from _signed_terms(x, sign, levels - 1)
    yield from _signed_terms(y, -sign if node.op is ew.subtract else sign, levels - 1)


def _root(x: Node) -> Node | None:
    """Return the x of a node ``x**2``, also behind moved axes, or None."""
    if x.op is ew.square:
        return x.inputs[0]
    if not isinstance(x.op, ExpandDims | Squeeze | Transpose):
        return None
    root = _root(*x.inputs)
    if root is None:
        return None
    if isinstance(x.op, ExpandDims) and isinstance(root.op, Squeeze) and x.op.axes == root.op.axes:
        return root.inputs[0]
    return Tensor.make(x.op, root)
