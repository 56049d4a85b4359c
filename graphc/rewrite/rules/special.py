"""Rules of softmax, the error function, and products with a logarithm."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from graphc.ir import Node, is_float
from graphc.ir.dtypes import limits
from graphc.rewrite.algebra import factors as algebra
from graphc.rewrite.facts.lengths import fit_to
from graphc.rewrite.rule import Equation, enter_equation, equation, rewrite, scalar_value
from graphc.rewrite.rules.reduce import sum_and_restored_axes
from graphc.tensor.arrays.index import Index, IndexUpdate
from graphc.tensor.arrays.reduce import LogSumExp, MaxWithDefault, Sum
from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.axes import ExpandDims, expand_dims
from graphc.tensor.core.exponential import exp, log, log1p, sigmoid
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.special.special import LogSoftmax, Softmax, erf, erfc, erfcx, xlog1py, xlogy

stable = partial(enter_equation, "stabilize", is_float)

algebra.cancelling(Softmax, erfc)


@rewrite("stabilize", log)
def log_of_softmax(node: Node, op: object) -> Node | None:
    """``log(softmax(x))`` is ``log_softmax(x)``, which is finite where softmax underflows to 0."""
    (weights,) = node.inputs
    if not isinstance(weights.op, Softmax):
        return None
    return Tensor.make(LogSoftmax(weights.op.axes), *weights.inputs)


@rewrite("stabilize", log)
def log_of_part(node: Node, op: object) -> Node | None:
    """``log(softmax(x)[i])`` is ``log(softmax(x))[i]``, so that ``log_of_softmax`` applies."""
    (part,) = node.inputs
    if not isinstance(part.op, Index):
        return None
    x, *rest = part.inputs
    if x.op is not exp and not isinstance(x.op, Softmax):
        return None
    return Tensor.make(part.op, log(x), *rest)


@rewrite("specialize", exp)
def exp_of_log_softmax(node: Node, op: object) -> Node | None:
    """``exp(log_softmax(x))`` is ``softmax(x)``."""
    (x,) = node.inputs
    if not isinstance(x.op, LogSoftmax):
        return None
    return Tensor.make(Softmax(x.op.axes), *x.inputs)


@rewrite("stabilize", ew.subtract)
def less_logsumexp(node: Node, op: object) -> Node | None:
    """``x - logsumexp(x)`` is ``log_softmax(x)``."""
    x, y = node.inputs
    restored: tuple[int, ...] = ()
    if isinstance(y.op, ExpandDims):
        restored = y.op.axes
        (y,) = y.inputs
    if not isinstance(y.op, LogSumExp) or y.inputs[0] is not x:
        return None
    axes = y.op.axes
    is_total = len(axes) == x.type.ndim and not restored
    return Tensor.make(LogSoftmax(axes), x) if is_total or restored == axes else None


def _summand_and_axes(f: algebra.Factor) -> tuple[Node, tuple[int, ...]] | None:
    """Return the summand and axes of a sum whose axes are restored, or are the first ones."""
    total, restored = sum_and_restored_axes(f.node)
    if total is None:
        return None
    axes: tuple[int, ...] = total.op.axes  # type: ignore[attr-defined]
    (x,) = total.inputs
    return (x, axes) if axes == (restored or tuple(range(len(axes)))) else None


@algebra.together(exp, Sum)
def exp_and_sum_of_exps(
    f: algebra.Factor, g: algebra.Factor
) -> tuple[algebra.Replacement, algebra.Replacement] | None:
    """``exp(x) / sum(exp(x))`` is ``softmax(x)``; with weights, the largest x is subtracted."""
    summand_axes = _summand_and_axes(g) if g.below and not f.below else None
    if summand_axes is None:
        return None
    of, axes = summand_axes
    if of is f.node:
        return algebra.Replacement(Tensor.make(Softmax(axes), *f.node.inputs)), algebra.GONE
    weights = _weights(of, f.node)
    if weights is None:
        return None
    (x,) = f.node.inputs
    shifted = x - expand_dims(_peak(weights, x, axes), axes)
    total = Tensor.make(Sum(axes), weights * exp(ew.where(ew.equal(weights, 0), -np.inf, shifted)))
    # An x without weight may exceed the largest: keep its exponential finite.
    most = math.floor(math.log(limits(x.type.dtype).max))
    return algebra.Replacement(exp(ew.minimum(shifted, most))), algebra.Replacement(
        expand_dims(total, axes)
    )


def _weights(y: Node, weighted: Node) -> Node | None:
    """Return the w of ``w * exp(x)``, given ``exp(x)``."""
    if y.op is not ew.multiply or weighted not in y.inputs:
        return None
    a, b = y.inputs
    return a if b is weighted else b


def _peak(weights: Node, x: Node, axes: tuple[int, ...]) -> Tensor:
    """Return the largest x of each slice with a nonzero weight, 0 where there is no finite one."""
    largest = Tensor.make(MaxWithDefault(axes), ew.where(ew.equal(weights, 0), -np.inf, x))
    return ew.where(ew.isfinite(largest), largest, 0)


@rewrite("stabilize", log)
def log_of_weighted_sum_of_exp(node: Node, op: object) -> Node | None:
    """``log(sum(w * exp(x)))`` subtracts the largest weighted x before it overflows."""
    total, restored = sum_and_restored_axes(node.inputs[0])
    if total is None or total.inputs[0].op is not ew.multiply:
        return None
    axes: tuple[int, ...] = total.op.axes  # type: ignore[attr-defined]
    terms = total.inputs[0]
    weighted = next((x for x in terms.inputs if x.op is exp), None)
    if weighted is None or weighted.type.ndim < terms.type.ndim:
        return None
    weights = next(y for y in terms.inputs if y is not weighted)
    (x,) = weighted.inputs
    if isinstance(x.op, ew.Where):  # subtracted already
        return None
    peak = _peak(weights, x, axes)
    shifted = ew.where(ew.equal(weights, 0), -np.inf, x - expand_dims(peak, axes))
    y = log(Tensor.make(Sum(axes), weights * exp(shifted))) + peak
    return fit_to(expand_dims(y, restored) if restored else y, node)


@rewrite("stabilize", Sum)
def sum_of_shares(node: Node, op: Sum) -> Node | None:
    """``sum(a * exp(x) / sum(exp(x)))`` is ``sum(a * exp(x)) / sum(exp(x))``, without overflow."""
    (x,) = node.inputs
    for f in algebra.factors(x) if is_float(x.type.dtype) else ():
        summand_axes = _summand_and_axes(f) if f.below and f.kind is Sum else None
        if summand_axes is None or not _is_of_exps(summand_axes[0]):
            continue
        is_restored = isinstance(f.node.op, ExpandDims)
        along = is_restored and f.node.type.ndim == x.type.ndim and summand_axes[1] == op.axes
        rest = algebra.rebuild(x, {f.path: algebra.GONE}) if along or not f.node.type.ndim else None
        if rest is not None:
            total = f.node.inputs[0] if is_restored else f.node
            return fit_to(Tensor.make(op, rest) / total, node)
    return None


def _is_of_exps(y: Node) -> bool:
    return y.op is exp or (y.op is ew.multiply and any(x.op is exp for x in y.inputs))


@algebra.together(Softmax, IndexUpdate)
@algebra.together(sigmoid, IndexUpdate)
@algebra.together(exp, IndexUpdate)
def factor_and_update_of_zeros(
    f: algebra.Factor, g: algebra.Factor
) -> tuple[algebra.Replacement, algebra.Replacement] | None:
    """``y`` cancels with ``zeros`` to which ``g / y[i]`` is added at i.

    The gradient of ``log(y[i])`` with respect to y has ``1 / y[i]`` at i.
    """
    zeros, value, *where_ = g.node.inputs
    if f.below or g.below or scalar_value(zeros) != 0 or f.node.type.shape != g.node.type.shape:
        return None
    part = Tensor.make(Index(g.node.op.entries), f.node, *where_)
    divisor = next((h for h in algebra.factors(value) if h.below and h.node is part), None)
    if divisor is None:
        return None
    rest = algebra.rebuild(value, {divisor.path: algebra.GONE})
    return (
        None
        if rest is None
        else (algebra.GONE, algebra.Replacement(Tensor.make(g.node.op, zeros, rest, *where_)))
    )


# The error function.

stable("one_minus_erf", lambda x: (1 - erf(x), erfc(x)), ": erf rounds to 1 from x = 6 on")
stable("erf_minus_one", lambda x: (erf(x) - 1, -erfc(x)), ": erf rounds to 1 from x = 6 on")
stable("one_plus_erf", lambda x: (1 + erf(x), erfc(-x)), ": erf rounds to -1 below x = -6")
stable("one_minus_erfc", lambda x: (1 - erfc(x), erf(x)), ": erfc of a small x rounds to 1")
stable("erfc_minus_one", lambda x: (erfc(x) - 1, -erf(x)), ": erfc of a small x rounds to 1")
stable("two_minus_erfc", lambda x: (2 - erfc(x), erfc(-x)), ": erfc rounds to 2 below x = -6")
stable(
    "one_minus_half_of_erfc",
    lambda x: (1 - 0.5 * erfc(x), 0.5 * erfc(-x)),
    ": erfc rounds to 2 below x = -6",
)


@equation("stabilize", dtypes=is_float)
def log_of_erfc(x: Tensor) -> Equation:
    """``log(erfc(x))`` by ``erfcx``: erfc is 0 from x = 27 on, and near 1 for a small x."""
    far = log(erfcx(x)) - ew.square(x)
    return Equation(log(erfc(x)), ew.where(ew.greater(x, 0.5), far, log1p(-erf(x))))


@equation("stabilize", dtypes=is_float)
def log_of_half_of_erfc(x: Tensor) -> Equation:
    """``log(erfc(x) / 2)`` by ``erfcx``: erfc is 0 from x = 27 on, and near 2 below -6."""
    far = log(0.5 * erfcx(x)) - ew.square(x)
    return Equation(log(0.5 * erfc(x)), ew.where(ew.greater(x, 0), far, log1p(-0.5 * erfc(-x))))


@equation("stabilize", dtypes=is_float)
def log_of_erf(x: Tensor) -> Equation:
    """``log(erf(x))`` by ``erfc``: erf rounds to 1 from x = 6 on."""
    return Equation(
        log(erf(x)),
        ew.where(ew.greater(x, 0.5), log1p(-erfc(x)), log(ew.where(x > 0.5, 1, erf(x)))),
    )


def _square(x: Node) -> tuple[float, Node]:
    """Return the c and b of a node ``c * b**2``; c is 0 for other nodes."""
    c = 1.0
    while True:
        if x.op is ew.square:
            k, b = algebra.multiple(x.inputs[0])
            return c * k * k, b
        if x.op is ew.negative:
            c, (x,) = -c, x.inputs
            continue
        k, b = algebra.multiple(x)
        if b is not x:
            c, x = c * k, b
            continue
        if x.op is not ew.multiply:
            return 0.0, x
        (k, b), (m, other) = map(algebra.multiple, x.inputs)
        return c * k * m if b is other else 0.0, b


@algebra.together(exp, erfc)
def exp_and_erfc(
    f: algebra.Factor, g: algebra.Factor
) -> tuple[algebra.Replacement, algebra.Replacement] | None:
    """``exp(x**2) * erfc(x)`` is ``erfcx(x)``, where one overflows and the other is 0."""
    (exponent,), (x,) = f.node.inputs, g.node.inputs
    scale, base = _square(-exponent if f.below != g.below else exponent)
    k, argument = algebra.multiple(x)
    # 1 / 2 and the square of 1 / sqrt(2) differ by a rounding.
    if base is not argument or math.fabs(scale - k * k) > 8 * limits(f.node.type.dtype).eps * k * k:
        return None
    return algebra.GONE, algebra.Replacement(erfcx(x))


# Products with a logarithm: the limit at 0 is 0, where the left side is NaN.


@equation("stabilize", dtypes=is_float, domain=lambda x: ew.not_equal(x, 0))
def product_with_own_log(x: Tensor) -> Equation:
    """``x * log(x)`` is ``xlogy(x, x)``, which is 0 at x = 0, not NaN."""
    return Equation(x * log(x), xlogy(x, x))


@equation(
    "stabilize",
    dtypes=is_float,
    domain=lambda x, y: ew.logical_and(ew.not_equal(x, 0), ew.isfinite(log(x / y))),
)
def product_with_log_of_share(x: Tensor, y: Tensor) -> Equation:
    """``x * log(x / y)`` is ``xlogy(x, x / y)``, which is 0 at x = 0, not NaN."""
    return Equation(x * log(x / y), xlogy(x, x / y))


@equation("stabilize", dtypes=is_float, domain=lambda x: ew.not_equal(x, 1))
def rest_times_own_log(x: Tensor) -> Equation:
    """``(1 - x) * log1p(-x)`` is ``xlog1py(1 - x, -x)``, which is 0 at x = 1, not NaN."""
    return Equation((1 - x) * log1p(-x), xlog1py(1 - x, -x))


@equation("stabilize", dtypes=is_float, domain=lambda x: ew.not_equal(x, -1))
def one_and_x_times_own_log(x: Tensor) -> Equation:
    """``(1 + x) * log1p(x)`` is ``xlog1py(1 + x, x)``, which is 0 at x = -1, not NaN."""
    return Equation((1 + x) * log1p(x), xlog1py(1 + x, x))
