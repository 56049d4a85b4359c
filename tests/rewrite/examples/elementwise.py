"""Examples of the rules in graphc/rewrite/rules/elementwise/."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.ir import Node
from graphc.tensor.core.elementwise import Cast
from graphc.tensor.core.shape import Length
from tests.rewrite.arrays import (
    Example,
    columns,
    entries,
    flags,
    half,
    make,
    n,
    rows,
    scalar,
    small,
    truth,
    w,
    x,
)

v, positive = gt.vector("v"), gt.vector("positive")
single = gt.fvector("single")
i, j = gt.lvector("i"), gt.lvector("j")
byte = gt.tensor("byte", dtype="uint8", shape=(None,))
other = gt.tensor("other", dtype="bool", shape=(None,))
z = gt.zvector("z")

random = np.random.default_rng(1)
VALUES: dict[Node, Any] = {
    v: random.normal(size=4),
    positive: random.uniform(0.5, 2, 4),
    single: np.array([0.5, -3.0, 1e-4, 7.0], np.float32),
    i: np.array([3, -4, 2**62, 9]),
    j: np.array([-7, 2, 2**62, 5]),
    byte: np.array([0, 7, 200, 255], np.uint8),
    other: np.array([True, True, False, False]),
    z: random.normal(size=4) + 1j * random.normal(size=4),
}

e, s = gt.exp(w), gt.sigmoid(v)
first, second = gt.where(truth, w, 0.0), gt.where(truth, 0.0, v)


ONE_TWO = [make(Cast("float64"), gt.constant(y, dtype="int64")) for y in (1, 2)]


def like(value: Any, y: Node) -> Node:
    return gt.broadcast_to(value, (make(Length(0), y),))


EXAMPLES: dict[str, list[Example]] = {
    # Sums.
    "operand_of_neutral_elements": [
        (w * gt.ones((3, entries)), gt.broadcast_to(w, (3, entries))),
        (gt.zeros((3, 4)) + scalar, gt.broadcast_to(scalar, (3, 4))),
    ],
    "negative_constant_in_sum": [
        (w + -3.0, w - 3.0),
        (w - -3.0, w + 3.0),
        (small + -127, small - 127),
        (z + (-2), z - 2),
    ],
    "negative_of_sum_with_constant": [(-(w + 2), -2.0 - w)],
    "integers_taken_together": [
        (i + 1 + 2, i + 3),
        (3 - (5 - i), i - 2),
        (i + j - i, j),
        (2 * i + 3 * j - i, i + 3 * j),
        (2 * (i + j) - (i + j), i + j),
        ((i - j) - (i + 1), -1 - j),
        ((5 - i) - 5, -i),
        ((3 - i) - (j + 3), -(i + j)),
        (i * 3 - i, i * 2),
        (i - i * 3, -(i * 2)),
        (i - (i - 7), like(7, i)),
        (small + 100 + 100, small - 56),
        (small + 64 + 64, small + gt.constant(-128, dtype="int8")),
        (byte + 255 + 2, byte + 1),
        (byte * 200 + byte * 100, byte * 44),
        (n + 1 - 1, n),
    ],
    "constants_of_sum": [
        (w + 1 + 2, w + 3),
        (w + 1 - 4, w - 3),
        (w + 0.5 - 0.5, w),
        (3 - (5 - w), w - 2.0),
        (3 - (w + 5), -2.0 - w),
        (3 - (w + 3), -w),
        (w + 0.1 + 0.2, w + (0.1 + 0.2)),
        ((w + 1) + v - 3, (w + v) - 2.0),
        ((v - (1 - w)) + 1, w + v),
        (2 - (v - (1 - w)), 3.0 - (w + v)),
        (single + 1 + 1000, single + 1001),
        (z + 1 + 2, z + 3),
    ],
    "multiples_taken_together": [
        (w * 2 + w * 3, w * 5),
        (w - w * 3, -(w * 2)),
        (-w - w * 3, -(w * 4)),
        (w * 3 + v - w, w * 2 + v),
        (v - w * 3 + w, v - w * 2),
        (w + (v - w * 3), v - w * 2),
        (z * 2 + z, z * 3),
    ],
    # Products.
    "constants_of_product": [
        (w * 2 * 3, w * 6),
        (w / 2 / 4, w * 0.125),
        (w / 3 / 5, w / 15),
        (w * 2 / 6, w / 3),
        (w * 0.1 * 3, w * 0.30000000000000004),
        (2 / (w * 4), 0.5 / w),
        (6 / (w / 2), 12 / w),
        ((6 / w) / 2, 3 / w),
        (6 / (2 / w), w * 3),
        (w * 3 / 3, w),
        (w / -0.5 * 0.5, -w),
        (-(w * 2), w * -2.0),
        (-(w / 3), w / -3.0),
        (-(2 / w), -2.0 / w),
        (small * 100 * 3, small * 44),
        (-(byte * 3), byte * 253),
        (z * 2 / 4, z * 0.5),
    ],
    "constant_of_reciprocal": [(2 * (1 / w), 2 / w), ((1 / w) / 4, 0.25 / w), (-(1 / w), -1.0 / w)],
    "quotient_by_power_of_two": [
        (w / 8, w * 0.125),
        (w / -0.5, w * -2.0),
        (single / 2, single * 0.5),
    ],
    "floor_of_floor_quotient": [(i // 2 // 3, i // 6)],
    "remainder_of_small_integer": [(i % 5 % 7, i % 5), (entries % 2**61, entries)],
    "common_factor": [
        (i * j + i * n, i * (j + n)),
        (i * j - n * i, i * (j - n)),
        (w * s - w * gt.tanh(v), w * (s - gt.tanh(v))),
    ],
    # Powers.
    "powers_of_one_base": [
        (w**3 * w, w**4),
        (w**3 * w**-5, w**-2.0),
        (gt.square(w) * w**3, w**5),
        (gt.square(w) / w, w),
        (w / gt.square(w), 1 / w),
        (w**5 / gt.square(w), w**3),
        (w / w**3, w**-2.0),
        ((1 / w) * gt.square(w), w),
        (positive / gt.sqrt(positive), gt.sqrt(positive)),
        (gt.sqrt(positive) / positive, 1 / gt.sqrt(positive)),
        (gt.sqrt(e) * e**1.5, gt.square(e)),
        (z / gt.square(z), 1 / z),
    ],
    "power_of_a_power": [
        ((w**3) ** 2, w**6),
        (gt.square(w**3), w**6),
        (gt.square(w) ** 3, w**6),
        (gt.sqrt(w**4), gt.square(w)),
        (gt.square(gt.sqrt(e)), e),
        (gt.sqrt(gt.square(e)), e),
        ((e**3) ** 0.5, e**1.5),
        ((1 / w) ** 3, w**-3.0),
        (gt.square(gt.sqrt(z)), z),
    ],
    "power_of_small_integer": [
        (x**3, x * gt.square(x)),
        (x**4, gt.square(gt.square(x))),
        (w**5, w * gt.square(gt.square(w))),
        (w**6, gt.square(w * gt.square(w))),
        (w**7, w * gt.square(w * gt.square(w))),
        (w**8, gt.square(gt.square(gt.square(w)))),
        (w**-2, gt.square(1 / w)),
        (w**-3, (1 / w) * gt.square(1 / w)),
        (positive**1.5, positive * gt.sqrt(positive)),
        (positive**2.5, gt.square(positive) * gt.sqrt(positive)),
        (positive**-1.5, (1 / positive) * gt.sqrt(1 / positive)),
        (small**3, small * gt.square(small)),
    ],
    # Magnitudes, extremes, rounding.
    "abs_of_nonnegative": [
        (gt.abs(e), e),
        (gt.abs(gt.square(w) + e), gt.square(w) + e),
        (gt.abs(gt.sum(gt.abs(w) * s)), gt.sum(gt.abs(w) * s)),
        (gt.abs(gt.where(truth, e, 2.0)), gt.where(truth, e, 2.0)),
        (gt.abs(gt.maximum(w, 0)), gt.maximum(w, 0)),
        (gt.abs(entries + 1), entries + 1),
        (gt.abs(gt.abs(z)), gt.abs(z)),
        (gt.abs(i % 5), i % 5),
    ],
    "sign_of_positive_integer": [(gt.sign(entries + 1), gt.constant(1, dtype="int64"))],
    "extreme_known_by_bounds": [
        (gt.maximum(e, 0), e),
        (gt.maximum(0, e), e),
        (gt.maximum(w, -np.inf), w),
        (gt.minimum(w, np.inf), w),
        (gt.minimum(-e, 0), -e),
        (gt.maximum(entries, 0), entries),
        (gt.minimum(i % 3, 5), i % 3),
        (gt.maximum(i % 3, 5), like(5, i)),
    ],
    "extreme_of_extreme": [
        (gt.maximum(gt.maximum(w, 1), 2), gt.maximum(w, 2.0)),
        (gt.minimum(1, gt.minimum(2, w)), gt.minimum(w, 1.0)),
        (gt.maximum(w, gt.maximum(v, w)), gt.maximum(v, w)),
    ],
    "clip_of_clip": [
        (gt.clip(gt.clip(w, 0, 5), 1, 9), gt.clip(w, 1.0, 5.0)),
        (gt.clip(gt.clip(w, v, positive), v, positive), gt.clip(w, v, positive)),
    ],
    "clip_known_by_bounds": [
        (gt.clip(gt.sigmoid(w), -1, 3), gt.sigmoid(w)),
        (gt.clip(e, 0, 3), gt.minimum(e, 3)),
        (gt.clip(w, -np.inf, 3), gt.minimum(w, 3)),
        (gt.clip(w, 1, np.inf), gt.maximum(w, 1)),
        (gt.clip(i % 5, 0, 9), i % 5),
    ],
    "rounding_of_whole_number": [
        (gt.floor(gt.ceil(w)), gt.ceil(w)),
        (gt.round(i.astype("float64")), i.astype("float64")),
        (gt.trunc(gt.sign(w)), gt.sign(w)),
    ],
    "parts_of_real_number": [
        (gt.real(w.astype("complex128")), w),
        (gt.conj(w.astype("complex128")), w.astype("complex128")),
        (gt.imag(w.astype("complex128")), gt.zeros_like(w)),
    ],
    # Comparisons, truth, bits.
    "comparison_decided_by_bounds": [
        (gt.ge(entries, 0), gt.constant(True)),
        (gt.lt(entries, 0), gt.constant(False)),
        (gt.eq(entries, -1), gt.constant(False)),
        (gt.neq(i % 5, 7), like(True, i)),
        (gt.ge(byte, 0), like(True, byte)),
        (gt.le(i % 5, 4), like(True, i)),
    ],
    "comparison_of_choice_of_numbers": [
        (gt.eq(truth.astype("int64"), 0), gt.logical_not(truth)),
        (gt.gt(truth.astype("float64"), 0.5), truth),
        (gt.lt(0.5, truth.astype("float64")), truth),
        (gt.eq(truth.astype("int64"), 3), like(False, truth)),
        (gt.lt(gt.where(truth, 2.0, -1.0), 0), gt.logical_not(truth)),
    ],
    "finiteness_of_whole_number": [
        (gt.isnan(i), like(False, i)),
        (gt.isinf(truth), like(False, truth)),
        (gt.isfinite(i), like(True, i)),
    ],
    "bits_with_all_bits": [
        (i & -1, i),
        (i ^ -1, ~i),
        (byte | 255, like(gt.constant(255, dtype="uint8"), byte)),
    ],
    "shift_of_shift": [(i << 2 << 3, i << 5), (small >> 1 >> 6, small >> 7)],
    # Choices.
    "choice_of_one_thing": [
        (gt.where(truth, w, w), w),
        (gt.where(truth, scalar, scalar), gt.broadcast_to(scalar, make(Length(0), truth))),
    ],
    "choice_by_constant": [
        (gt.where(True, w, x), gt.broadcast_to(w, (rows, columns))),
        (gt.where(False, w, x), x),
    ],
    "choice_by_negation": [
        (gt.where(gt.logical_not(truth), w, scalar), gt.where(truth, scalar, w)),
    ],
    "choice_within_choice": [
        (gt.where(truth, gt.where(truth, w, 1.0), 2.0), gt.where(truth, w, 2.0)),
        (gt.where(truth, 1.0, gt.where(truth, 2.0, w)), gt.where(truth, 1.0, w)),
    ],
    "choices_with_one_alternative": [
        (gt.where(truth, gt.where(other, w, v), v), gt.where(gt.logical_and(truth, other), w, v)),
        (
            gt.where(truth, gt.where(other, v, w), v),
            gt.where(gt.logical_and(truth, gt.logical_not(other)), w, v),
        ),
        (gt.where(truth, w, gt.where(other, w, v)), gt.where(gt.logical_or(truth, other), w, v)),
        (
            gt.where(truth, w, gt.where(other, v, w)),
            gt.where(gt.logical_or(truth, gt.logical_not(other)), w, v),
        ),
    ],
    "choice_of_one_or_zero": [
        (gt.where(truth, 1.0, 0.0), truth.astype("float64")),
        (gt.where(truth, 0, 1), gt.logical_not(truth).astype("int64")),
    ],
    "factor_into_choice": [
        (first * v, gt.where(truth, w * v, 0.0)),
        (v * second, gt.where(truth, 0.0, v * v)),
        (first / v, gt.where(truth, w / v, 0.0)),
    ],
    "sum_of_choices": [
        (first + second, gt.where(truth, w + 0.0, 0.0 + v)),
        (first - gt.where(truth, 0.0, v), gt.where(truth, w - 0.0, 0.0 - v)),
    ],
    # Casts.
    "cast_to_own_dtype": [(make(Cast("float64"), x), x)],
    "cast_of_cast": [
        (small.astype("int32").astype("uint8"), small.astype("uint8")),
        (small.astype("float32").astype("int8"), small),
        (truth.astype("int8").astype("float64"), truth.astype("float64")),
    ],
    "cast_of_choice_of_numbers": [
        (gt.where(truth, 1, 2).astype("float64"), gt.where(truth, *ONE_TWO)),
    ],
}

LEFT_ALONE: dict[str, list[Node]] = {
    "operand_of_neutral_elements": [w + gt.zeros((n,)), w * gt.ones((3, n))],
    "negative_constant_in_sum": [w + 3, -3.0 - w, small + gt.constant(-128, dtype="int8"), w + v],
    "negative_of_sum_with_constant": [-(w + v), -(i + 2)],
    "integers_taken_together": [i + j, i + 1, i * 2 + j * 3, (i + 1) + j, w + 1 + 2, i * j + i],
    "constants_of_sum": [
        1 - single + 1e-10,  # in single precision, 1 + 1e-10 is 1
        1 - w + 1e-10,
        (w + 1e300) + v - 1e300,  # w + v might overflow
        (1 - w) + (1 - v),  # both may be next to 0
        w + v + 1,
        ((w - 1e6) + v) + 1,  # w - 1e6 may be next to 0
        w + np.inf - np.inf,
    ],
    "multiples_taken_together": [
        w + v,
        w + v + w,  # 2 * w might overflow
        w * 2 + v + w * 3,
        w * 1e308 + w * 1e308,
        w - w,
        i + i,
    ],
    "constants_of_product": [
        w * 1e200 * 1e200,
        w * 1e-200 / 1e200,
        w * 1e-310 * 2,
        half / 60000 / 60000,
        2 * (1 / w),  # 1 / (1 + exp(w)) is a sigmoid
        -(1 / w),
        w * 2 * v,
        (w * 2) * v * 3,  # w * v might overflow, or be 0
        w / v * 2,
    ],
    "quotient_by_power_of_two": [w / 3, w / 1e308, w / np.inf, w / v],
    "floor_of_floor_quotient": [i // 2 // -3, w // 2 // 3, small // 100 // 100, i // j // 2],
    "remainder_of_small_integer": [i % 5 % 3, i % 5, gt.exp(w) % 3],
    "common_factor": [w * v + w * positive, i * 2 + 2 * j, w * v + scalar],
    "powers_of_one_base": [
        w * gt.square(w),
        positive * gt.sqrt(positive),
        gt.sqrt(positive) * positive**1.5,
        w * v,
        w**0.1 * w**0.2,
        w**i * w,
        i**2 * i,
    ],
    "power_of_a_power": [
        gt.sqrt(gt.square(w)),
        gt.square(gt.sqrt(w)),
        (w**3) ** 0.5,
        gt.square(gt.square(w)),
        gt.square(1 / w),
        (w**0.1) ** 3,
        (z**2) ** 0.5,
        (i**2) ** 3,
    ],
    "power_of_small_integer": [
        x**9,
        x**2.25,
        x**-0.75,
        x ** gt.constant([3.0, 4.0, 3.0, 4.0]),
        i**12,
        z**3,
    ],
    "abs_of_nonnegative": [
        gt.abs(w),
        gt.abs(small),
        gt.abs(gt.abs(small)),  # that of -128 is -128
        gt.abs(entries - 1),
        gt.abs(gt.square(i)),
        gt.abs(entries * entries * entries),
        gt.abs(e - 1),
    ],
    "sign_of_positive_integer": [gt.sign(entries), gt.sign(e + 1), gt.sign(i)],
    "extreme_known_by_bounds": [
        gt.maximum(e, 1),
        gt.maximum(-1.0, -e),
        gt.maximum(w, np.inf),  # a NaN of w would be lost
        gt.minimum(gt.sigmoid(w), gt.maximum(v, 3)),
        gt.maximum(w, np.nan),
    ],
    "extreme_of_extreme": [gt.maximum(gt.minimum(w, 1), 2), gt.maximum(gt.maximum(w, v), positive)],
    "clip_of_clip": [gt.clip(gt.clip(w, 0, 1), 2, 3), gt.clip(gt.clip(w, 0, 1), 0, scalar)],
    "clip_known_by_bounds": [gt.clip(w, 0, 1), gt.clip(e, 0, np.nan), gt.clip(e, 1, 0)],
    "rounding_of_whole_number": [gt.floor(w), gt.floor(single.astype("float64"))],
    "parts_of_real_number": [gt.real(z), gt.real(gt.zvector().astype("complex64"))],
    "comparison_decided_by_bounds": [
        gt.ge(e, 0),  # NaN is not
        gt.gt(entries, 0),
        gt.lt(i, j),
        gt.eq(entries, columns),
        gt.ge(small, 0),
    ],
    "comparison_of_choice_of_numbers": [
        gt.eq(truth.astype("int64"), n),
        gt.lt(first, 0),
        gt.lt(w, 0),
    ],
    "finiteness_of_whole_number": [gt.isnan(w), gt.isfinite(z)],
    "bits_with_all_bits": [i & 255, byte & 127, small ^ 127, i & j],
    "shift_of_shift": [i << 2 >> 2, i << 40 << 40, i << 2 << n, small << 1 << -1],
    "choice_of_one_thing": [gt.where(truth, w, 0)],
    "choice_by_constant": [gt.where(flags, w, 0)],
    "choices_with_one_alternative": [gt.where(truth, gt.where(other, w, v), positive)],
    "choice_of_one_or_zero": [gt.where(truth, 1.0, 2.0), gt.where(truth, True, False)],
    "factor_into_choice": [
        gt.where(truth, w, 1.0) * v,
        v / first,
        gt.where(truth, scalar, 0.0) * x,  # the choice is of fewer elements
        first * 2,
    ],
    "sum_of_choices": [first + gt.where(other, 0.0, v), gt.where(truth, w, v) + second],
    "cast_of_cast": [
        w.astype("float32").astype("float64"),
        n.astype("float64").astype("int64"),
        small.astype("float32").astype("uint8"),
        gt.zscalar().real.astype("float32").astype("float16"),
    ],
    "cast_of_choice_of_numbers": [gt.where(truth, i, 2).astype("float64")],
}
