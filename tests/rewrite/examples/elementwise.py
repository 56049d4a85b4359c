"""Examples of the rules in graphc/rewrite/rules/elementwise.py."""

from __future__ import annotations

import graphc.tensor as gt
from graphc.ir import Node
from graphc.tensor.elementwise import Cast
from graphc.tensor.shape import (
    Length,
)
from tests.rewrite.arrays import (
    Example,
    entries,
    flags,
    make,
    n,
    rows,
    scalar,
    small,
    truth,
    w,
    x,
)

EXAMPLES: dict[str, list[Example]] = {
    "operand_of_neutral_elements": [
        (w * gt.ones((3, entries)), gt.broadcast_to(w, (3, entries))),
        (gt.zeros((3, 4)) + scalar, gt.broadcast_to(scalar, (3, 4))),
    ],
    "power_of_small_integer": [
        (x**3, x * gt.square(x)),
        (x**4, gt.square(gt.square(x))),
    ],
    "choice_of_one_thing": [
        (gt.where(truth, w, w), w),
        (gt.where(truth, scalar, scalar), gt.broadcast_to(scalar, make(Length(0), truth))),
    ],
    "choice_by_constant": [
        (gt.where(True, w, x), gt.broadcast_to(w, (rows, entries))),
        (gt.where(False, w, x), x),
    ],
    "choice_by_negation": [
        (gt.where(gt.logical_not(truth), w, scalar), gt.where(truth, scalar, w)),
    ],
    "choice_within_choice": [
        (gt.where(truth, gt.where(truth, w, 1.0), 2.0), gt.where(truth, w, 2.0)),
        (gt.where(truth, 1.0, gt.where(truth, 2.0, w)), gt.where(truth, 1.0, w)),
    ],
    "cast_to_own_dtype": [(make(Cast("float64"), x), x)],
    "cast_of_cast": [
        (small.astype("int32").astype("uint8"), small.astype("uint8")),
        (small.astype("float32").astype("int8"), small),
        (w.astype("complex128").astype("float32"), w.astype("float32")),
        (truth.astype("int8").astype("float64"), truth.astype("float64")),
    ],
}

LEFT_ALONE: dict[str, list[Node]] = {
    "power_of_small_integer": [x**5, x ** gt.constant([3.0, 4.0, 3.0, 4.0]), small**3],
    "choice_of_one_thing": [gt.where(truth, w, 0)],
    "choice_by_constant": [gt.where(flags, w, 0)],
    "cast_of_cast": [
        w.astype("float32").astype("float64"),
        n.astype("float64").astype("int64"),
        small.astype("float32").astype("uint8"),
        gt.zscalar().real.astype("float32").astype("float16"),
    ],
}
