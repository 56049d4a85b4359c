"""Rules of conversions between dtypes."""

from __future__ import annotations

import numpy as np

from graphc.ir import Node, is_complex, is_inexact, is_integer, real_dtype
from graphc.rewrite.facts.lengths import fit_to
from graphc.rewrite.rule import number_of, rewrite
from graphc.tensor.core.elementwise import Cast, Where, cast, where


@rewrite("canonicalize", Cast)
def cast_to_own_dtype(node: Node, op: Cast) -> Node | None:
    """``cast(x, x.dtype)`` is ``x``."""
    (x,) = node.inputs
    return x if x.type.dtype == op.dtype else None


@rewrite("canonicalize", Cast, beside=[Cast])
def cast_of_cast(node: Node, op: Cast) -> Node | None:
    """``cast(cast(x, wide), t)`` is ``cast(x, t)`` if ``wide`` represents ``x`` exactly."""
    (inner,) = node.inputs
    if not isinstance(inner.op, Cast):
        return None
    (x,) = inner.inputs
    first, middle, last = x.type.dtype, inner.type.dtype, op.dtype
    # Casting a negative float to an unsigned integer is undefined; a negative integer wraps around.
    wraps = is_integer(last) and is_inexact(middle) and not is_inexact(first)
    if not holds(middle, first) or (wraps and not holds(last, first)):
        return None
    return cast(x, last)


def holds(wide: str, narrow: str) -> bool:
    """Return whether the wide dtype represents every value of the narrow dtype exactly."""
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
    """``cast(where(c, 1, 2), dtype)`` is ``where(c, cast(1, dtype), cast(2, dtype))``."""
    (x,) = node.inputs
    if not isinstance(x.op, Where):
        return None
    condition, a, b = x.inputs
    if number_of(a) is None or number_of(b) is None:
        return None
    return fit_to(where(condition, cast(a, op.dtype), cast(b, op.dtype)), node)
