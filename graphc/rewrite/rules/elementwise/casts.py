"""Rules of conversions between dtypes."""

from __future__ import annotations

import numpy as np

from graphc.ir import Node, is_complex, is_inexact, is_integer, real_dtype
from graphc.rewrite.facts.lengths import fitted
from graphc.rewrite.rule import number_of, rewrite
from graphc.tensor.core.elementwise import Cast, Where, cast, where


@rewrite("canonicalize", Cast)
def cast_to_own_dtype(node: Node, op: Cast) -> Node | None:
    """An array that has the dtype already is left as it is."""
    (x,) = node.inputs
    return x if x.type.dtype == op.dtype else None


@rewrite("canonicalize", Cast, beside=[Cast])
def cast_of_cast(node: Node, op: Cast) -> Node | None:
    """A dtype on the way that holds every value exactly leaves no trace."""
    (between,) = node.inputs
    if not isinstance(between.op, Cast):
        return None
    (x,) = between.inputs
    first, middle, last = x.type.dtype, between.type.dtype, op.dtype
    # A negative float has no value as an unsigned integer; a negative integer wraps around.
    wraps = is_integer(last) and is_inexact(middle) and not is_inexact(first)
    if not holds(middle, first) or (wraps and not holds(last, first)):
        return None
    return cast(x, last)


def holds(wide: str, narrow: str) -> bool:
    """Whether every value of the narrow dtype is exactly one of the wide dtype."""
    if narrow in {wide, "bool"}:
        return True
    if wide == "bool" or (is_complex(narrow) and not is_complex(wide)):
        return False
    if is_integer(wide):
        return is_integer(narrow) and np.can_cast(narrow, wide, "safe")
    digits, range_ = _float_size(real_dtype(wide))
    if is_integer(narrow):
        bounds = np.iinfo(narrow)
        return max(-int(bounds.min), int(bounds.max)).bit_length() <= digits
    less_digits, less_range = _float_size(real_dtype(narrow))
    return less_digits <= digits and less_range <= range_


def _float_size(dtype: str) -> tuple[int, int]:
    sizes = {"bfloat16": (8, 8), "float16": (11, 5), "float32": (24, 8), "float64": (53, 11)}
    return sizes[dtype]


@rewrite("canonicalize", Cast, beside=[Where])
def cast_of_choice_of_numbers(node: Node, op: Cast) -> Node | None:
    """Numbers are converted before one is chosen."""
    (x,) = node.inputs
    if not isinstance(x.op, Where):
        return None
    condition, a, b = x.inputs
    if number_of(a) is None or number_of(b) is None:
        return None
    return fitted(where(condition, cast(a, op.dtype), cast(b, op.dtype)), node)
