"""Examples of the rules in graphc/rewrite/rules/exponential.py."""

from __future__ import annotations

import math
from functools import reduce
from operator import mul

import graphc.tensor as gt
from graphc.ir import Node
from graphc.tensor.special.special import Softmax, erfcx
from tests.rewrite.arrays import Example, columns, make, rows, scalar, w, x

e = gt.exp(x)
share = gt.sigmoid(x)
shares = make(Softmax((1,)), x)
total = gt.sum(e, 1, keepdims=True)

EXAMPLES: dict[str, list[Example]] = {
    "power_of_exp": [
        (e**0.25, gt.exp(0.25 * x)),
        (gt.exp(w) ** -3.0, gt.exp(-3.0 * w)),
    ],
    "log_of_power": [
        (gt.log(3.0**x), x * gt.log(gt.constant(3.0))),
        (gt.log(x**4.0), 4.0 * gt.log(abs(x))),
        (gt.log2(x**-3.0), -3.0 * gt.log2(x)),
        (gt.log10(x**0.75), 0.75 * gt.log10(x)),
    ],
    "log_of_product_with_exp": [
        (gt.log(3.0 * e), gt.log(gt.constant(3.0)) + gt.log(e)),
        (gt.log(w * (e / scalar)), gt.log(w * (1 / scalar)) + gt.log(e)),
        (gt.log(w / share), gt.log(w) - gt.log(share)),
        (gt.log(gt.sum(e) / 12), gt.log(gt.constant(1.0) / 12) + gt.log(gt.sum(e))),
    ],
    "log_of_exponential_terms": [
        (gt.log(e + 5), gt.logaddexp(x, math.log(5))),
        (gt.log1p(3 * e), gt.logaddexp(x + math.log(3), 0.0)),
        (gt.log(gt.exp(w) + gt.exp(scalar) + e), gt.logaddexp(gt.logaddexp(x, w), scalar)),
    ],
    "factors_together": [
        (e * (w / (1 + e)), share * w),
        (e * gt.sigmoid(-x), share),
        (gt.exp(-x) * share, gt.sigmoid(-x)),
        (w * (share / e), w * gt.sigmoid(-x)),
        (e * (w / share), (1 + e) * w),
        (share / gt.sigmoid(-x), e),
        (e / gt.expm1(x), 1 / -gt.expm1(-x)),
        (gt.expm1(x) * (gt.sigmoid(-x) * w), gt.tanh(x / 2) * w),
        (e * (scalar / (e + gt.exp(w))), gt.sigmoid(x - w) * scalar),
        (e * (scalar / (2 * e + 6)), gt.sigmoid(x + math.log(2 / 6)) / 2.0 * scalar),
        (
            e / (e + gt.exp(w) + e),
            1 / (gt.exp(x - x) * 1.0 + (1 + gt.exp(w - x) * 1.0)),
        ),
        (e / (e + gt.exp(w) + 2), 1 / (gt.exp(w - x) * 1.0 + (1 + gt.exp(-x) * 2))),
        (e * (scalar / (e - gt.exp(w))), scalar / -gt.expm1(w - x)),
        (gt.exp(w) / (e - gt.exp(w)), 1 / gt.expm1(x - w)),
        (w * (gt.sinh(x) / gt.cosh(x)), w * gt.tanh(x)),
        (gt.sinh(x) / (e + gt.exp(-x)), gt.tanh(x) / 2.0),
        (e * (scalar * gt.exp(-x)), gt.broadcast_to(scalar, (rows, columns))),
        (e / total, shares),
        (e / gt.sum(e), make(Softmax((0, 1)), x)),
        (e * gt.expand_dims(x[:, 0] / gt.sum(e, 1), 1), shares * gt.expand_dims(x[:, 0], 1)),
        (gt.exp(-gt.square(x)) * (scalar / gt.erfc(x)), scalar / erfcx(x)),
        (gt.exp(gt.square(x)) * gt.erfc(x), erfcx(x)),
        # Sums: a common factor comes out, what is wanted within goes in.
        (e * (w * gt.sigmoid(-x) - scalar * gt.sigmoid(-x)), (w - scalar) * share),
        (share * (w / share - scalar), w - scalar * share),
        (shares * (x / shares - 2), x - shares * 2.0),
        # A divisor is common as often as it is in all of the terms.
        (e * (w / gt.square(e) - scalar / e), w / e - scalar),
    ],
    "product_of_exps": [
        (e / gt.exp(2 * x), gt.exp(x - 2 * x)),
        (3 * e * gt.exp(2 * x), 3 * gt.exp(x + 2 * x)),
        (w * e / gt.exp(2 * x), w * gt.exp((x - 2 * x) / 2) * gt.exp((x - 2 * x) / 2)),
    ],
    "difference_of_opposite_sigmoids": [
        (share - gt.sigmoid(-x), gt.tanh(x / 2)),
        (gt.sigmoid(x - w) - gt.sigmoid(w - x), gt.tanh((x - w) / 2)),
        (gt.sigmoid(-2 * x) - gt.sigmoid(2 * x), gt.tanh(-2 * x / 2)),
    ],
}

LEFT_ALONE: dict[str, list[Node]] = {
    "power_of_exp": [e**w, e**0.0],
    "log_of_power": [gt.log(x**w), gt.log((-3.0) ** x), gt.log(x**0.0)],
    "log_of_product_with_exp": [gt.log(w * x), gt.log(w / gt.sum(x))],
    "log_of_exponential_terms": [gt.log(e - 5), gt.log(e + w), gt.log(x + 5)],
    "factors_together": [
        e * (w / (1 + gt.exp(w))),
        e * gt.sigmoid(x),
        e * (w - share),
        x * (w / x),
    ],
    "product_of_exps": [e * gt.exp(w), e * e, x * e, reduce(mul, [w] * 11) * e / gt.exp(2 * x)],
    "difference_of_opposite_sigmoids": [share - gt.sigmoid(w), share - gt.sigmoid(x + 1)],
}
