"""Rules of ``where``, a choice by a condition, and of casts."""

from __future__ import annotations

from functools import partial

import numpy as np

from graphc.ir import Constant, Node, is_complex, is_inexact, is_integer, is_numeric, real_dtype
from graphc.ir.dtypes import is_bool
from graphc.rewrite.facts.lengths import fit_to
from graphc.rewrite.rule import UNIFORM, enter_equation, number_of, rewrite, scalar_value
from graphc.tensor.core.elementwise import (
    Cast,
    Elementwise,
    Where,
    add,
    cast,
    divide,
    logical_and,
    logical_not,
    logical_or,
    multiply,
    subtract,
    where,
)

# Casts.


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


# Choices.

bools = partial(enter_equation, "canonicalize", is_bool, scope="bools")


@rewrite("canonicalize", Where)
def choice_of_one_thing(node: Node, op: Where) -> Node | None:
    """``where(c, a, a)`` is ``a``."""
    _, a, b = node.inputs
    return fit_to(a, node) if a is b else None


@rewrite("canonicalize", Where, beside=UNIFORM)
def choice_by_constant(node: Node, op: Where) -> Node | None:
    """``where(True, a, b)`` is ``a``, and ``where(False, a, b)`` is ``b``."""
    condition, a, b = node.inputs
    value = scalar_value(condition)
    return None if value is None else fit_to(a if value else b, node)


@rewrite("canonicalize", Where, beside=[logical_not])
def choice_by_negation(node: Node, op: Where) -> Node | None:
    """``where(~c, a, b)`` is ``where(c, b, a)``."""
    condition, a, b = node.inputs
    if condition.op is not logical_not:
        return None
    return where(condition.inputs[0], b, a)


@rewrite("canonicalize", Where, beside=[Where])
def choice_within_choice(node: Node, op: Where) -> Node | None:
    """``where(c, where(c, a, b), d)`` is ``where(c, a, d)``, and so for the last operand."""
    condition, a, b = node.inputs
    if isinstance(a.op, Where) and a.inputs[0] is condition:
        a = a.inputs[1]
    if isinstance(b.op, Where) and b.inputs[0] is condition:
        b = b.inputs[2]
    result = node.with_inputs([condition, a, b])
    return result if result.type is node.type else None


@rewrite("canonicalize", Where, beside=[Where])
def choices_with_one_alternative(node: Node, op: Where) -> Node | None:
    """``where(c, where(d, a, b), b)`` is ``where(c & d, a, b)``, and so for the other orders."""
    condition, a, b = node.inputs
    if isinstance(a.op, Where):
        other, inner, alternative = a.inputs
        if alternative is b:
            return _of_type(node, where(logical_and(condition, other), inner, b))
        if inner is b:
            return _of_type(node, where(logical_and(condition, logical_not(other)), alternative, b))
    if isinstance(b.op, Where):
        other, inner, alternative = b.inputs
        if inner is a:
            return _of_type(node, where(logical_or(condition, other), a, alternative))
        if alternative is a:
            return _of_type(node, where(logical_or(condition, logical_not(other)), a, inner))
    return None


def _of_type(node: Node, result: Node) -> Node | None:
    return result if result.type is node.type else None


# Choices of bools.

bools("choice_of_truth_or_false", lambda x, a: (where(x, a, False), logical_and(x, a)))
bools("choice_of_true_or_truth", lambda x, a: (where(x, True, a), logical_or(x, a)))
bools("choice_of_false_or_truth", lambda x, a: (where(x, False, a), logical_and(logical_not(x), a)))
bools("choice_of_truth_or_true", lambda x, a: (where(x, a, True), logical_or(logical_not(x), a)))


@rewrite("specialize", Where, beside=[Constant])
def choice_of_one_or_zero(node: Node, op: Where) -> Node | None:
    """``where(c, 1, 0)`` is ``cast(c)``, and ``where(c, 0, 1)`` is ``cast(~c)``."""
    condition, a, b = node.inputs
    if not is_numeric(node.type.dtype):
        return None
    match number_of(a), number_of(b):
        case (1, 0):
            return fit_to(cast(condition, node.type.dtype), node)
        case (0, 1):
            return fit_to(cast(logical_not(condition), node.type.dtype), node)
    return None


# Arithmetic with choices of 0, as in derivatives of choices.


@rewrite("canonicalize", multiply, divide, beside=[Where])
def factor_into_choice(node: Node, op: Elementwise) -> Node | None:
    """``where(c, a, 0) * x`` is ``where(c, a * x, 0)``, and so for quotients.

    The 0 stays 0 where the factor is infinite or NaN.
    """
    pairs = [node.inputs] if op is divide else [node.inputs, node.inputs[::-1]]
    for chosen, factor in pairs:
        if not isinstance(chosen.op, Where) or isinstance(factor.op, Constant):
            continue
        condition, a, b = chosen.inputs
        if not is_inexact(node.type.dtype) or chosen.type is not node.type:
            continue
        if number_of(b) == 0:
            return _of_type(node, where(condition, op(a, factor), b))
        if number_of(a) == 0:
            return _of_type(node, where(condition, a, op(b, factor)))
    return None


@rewrite("canonicalize", add, subtract, beside=[Where])
def sum_of_choices(node: Node, op: Elementwise) -> Node | None:
    """``where(c, a, 0) + where(c, 0, d)`` is ``where(c, a, d)``, and so for differences."""
    first, second = node.inputs
    if not isinstance(first.op, Where) or not isinstance(second.op, Where):
        return None
    condition, a, b = first.inputs
    other, c, d = second.inputs
    if condition is not other or first.type is not second.type:
        return None
    if 0 not in (number_of(a), number_of(c)) or 0 not in (number_of(b), number_of(d)):
        return None
    return _of_type(node, where(condition, op(a, c), op(b, d)))
