"""Rules of softmax and its logarithm."""

from __future__ import annotations

from graphc.ir import Node, is_float
from graphc.rewrite.lengths import fitted
from graphc.rewrite.rule import Equation, equation, rewrite
from graphc.rewrite.rules.reduce import summed
from graphc.tensor.elementwise import add, divide, multiply, subtract
from graphc.tensor.exponential import exp, log
from graphc.tensor.shape import ExpandDims, expand_dims
from graphc.tensor.special import LogSoftmax, Softmax, erf, erfc
from graphc.tensor.tensor import Tensor


@rewrite("stabilize", log)
def log_of_softmax(node: Node, op: object) -> Node | None:
    """Where softmax is 0, its logarithm goes on."""
    (weights,) = node.inputs
    if not isinstance(weights.op, Softmax):
        return None
    return Tensor.make(LogSoftmax(weights.op.axes), *weights.inputs)


@rewrite("stabilize", divide)
def exp_over_sum_of_exp(node: Node, op: object) -> Node | None:
    """``inf / inf`` is NaN from x = 710 on; softmax takes the largest out first."""
    g, weights, axes = _share_of_sum(node) or (None, node, ())
    if g is not weights or weights.op is not exp:
        return None
    return Tensor.make(Softmax(axes), *weights.inputs)


@rewrite("stabilize", multiply)
def exp_times_share_of_sum(node: Node, op: object) -> Node | None:
    """The slope of log(sum(exp(x))), where exp overflows."""
    for terms, share in (node.inputs, node.inputs[::-1]):
        g, weights, axes = _share_of_sum(share) or (None, node, ())
        if g is not None and weights is terms and weights.op is exp:
            return fitted(multiply(g, Tensor.make(Softmax(axes), *weights.inputs)), node)
    return None


def _share_of_sum(y: Node) -> tuple[Node, Node, tuple[int, ...]] | None:
    """The parts of ``g / sum(terms, axes)`` with the axes put back: g, terms and axes."""
    restored: tuple[int, ...] = ()
    if isinstance(y.op, ExpandDims):
        restored = y.op.axes
        (y,) = y.inputs
    if y.op is not divide or y.inputs[0].type.ndim not in {0, y.type.ndim}:
        return None
    g, below = y.inputs
    total, again = summed(below)
    if total is None or (restored and again):
        return None
    (terms,) = total.inputs
    axes: tuple[int, ...] = total.op.axes  # type: ignore[attr-defined]
    placed = restored or again
    if placed != axes and (placed or len(axes) != terms.type.ndim):
        return None
    return expand_dims(g, restored) if restored and g.type.ndim else g, terms, axes


@rewrite("specialize", exp)
def exp_of_log_softmax(node: Node, op: object) -> Node | None:
    """The exponential of log_softmax is softmax."""
    (x,) = node.inputs
    if not isinstance(x.op, LogSoftmax):
        return None
    return Tensor.make(Softmax(x.op.axes), *x.inputs)


@rewrite("stabilize", multiply)
def softmax_times_share(node: Node, op: object) -> Node | None:
    """The slope of a log(softmax(x)) by x, where softmax is 0 in rounding and 0 / 0 NaN.

    ``p * (a / p)`` is ``a``, and ``p * (a / p + s)`` is ``a + p * s``. A NaN of x is lost.
    """
    for p, factor in (node.inputs, node.inputs[::-1]):
        if not isinstance(p.op, Softmax):
            continue
        whole = _above(factor, p)
        if whole is not None:
            return fitted(whole, node)
        if factor.op is add or factor.op is subtract:
            left, right = factor.inputs
            a, b = _above(left, p), _above(right, p)
            if a is not None:
                return fitted(factor.op(a, multiply(p, right)), node)
            if b is not None:
                return fitted(factor.op(multiply(p, left), b), node)
    return None


def _above(y: Node, p: Node) -> Node | None:
    """The a of ``a / p``."""
    return y.inputs[0] if y.op is divide and y.inputs[1] is p else None


# The error function.


@equation("stabilize", dtypes=is_float)
def one_minus_erf(x: Tensor) -> Equation:
    """``erf`` is next to 1 from x = 6 on; erfc keeps the tail."""
    return Equation(1 - erf(x), erfc(x))


@equation("stabilize", dtypes=is_float)
def one_minus_erfc(x: Tensor) -> Equation:
    """``erfc`` is next to 1 for a small x; erf keeps its digits."""
    return Equation(1 - erfc(x), erf(x))
