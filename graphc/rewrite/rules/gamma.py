"""Rules of the gamma function."""

from __future__ import annotations

import numpy as np

from graphc.ir import is_float
from graphc.rewrite.algebra.factors import cancelling
from graphc.rewrite.rule import Equation, enter_equation, equation
from graphc.tensor.core.elementwise import abs, equal, floor, greater, logical_or, remainder, where
from graphc.tensor.core.exponential import log
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.special.gamma import gamma, gammaln

cancelling(gamma)


@equation("stabilize", dtypes=is_float)
def log_of_gamma(x: Tensor) -> Equation:
    """``log(gamma(x))`` is ``gammaln(x)``, or NaN: gamma overflows from x = 172 on."""
    positive = logical_or(greater(x, 0), equal(remainder(floor(x), 2), 0))
    return Equation(log(gamma(x)), where(positive, gammaln(x), np.nan))


enter_equation(
    "stabilize",
    is_float,
    "log_of_abs_of_gamma",
    lambda x: (log(abs(gamma(x))), gammaln(x)),
    ": gamma overflows from x = 172 on",
)
