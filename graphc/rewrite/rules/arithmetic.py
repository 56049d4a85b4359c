"""Rules of arithmetic functions: forms that do not overflow on the way."""

from __future__ import annotations

from graphc.ir import is_float
from graphc.rewrite.rule import Equation, equation
from graphc.tensor.core.arithmetic import hypot
from graphc.tensor.core.elementwise import isnan, logical_not, logical_or, sqrt, square
from graphc.tensor.core.tensor import Tensor


def neither_is_nan(a: Tensor, b: Tensor) -> Tensor:
    """Where both are numbers: beside an infinity, hypot does not ask for the other one."""
    return logical_not(logical_or(isnan(a), isnan(b)))


@equation("stabilize", dtypes=is_float, domain=neither_is_nan)
def sqrt_of_sum_of_squares(a: Tensor, b: Tensor) -> Equation:
    """The squares overflow from 1e154 on, and are 0 below 1e-162."""
    return Equation(sqrt(square(a) + square(b)), hypot(a, b))
