"""Examples of the rules in graphc/rewrite/rules/dot.py."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.ir import Node
from graphc.tensor.arrays.reduce import Sum
from graphc.tensor.core.axes import ExpandDims, Squeeze, Transpose
from graphc.tensor.linalg.dot import DotGeneral
from tests.rewrite.arrays import Example, c, columns, half, make, n, rows, scalar, truth, w, x

m, v = gt.matrix("m"), gt.vector("v")
a, b = gt.tensor("a", shape=(2, 3, 4)), gt.tensor("b", shape=(2, 4, 5))
tall, flat = gt.tensor("tall", shape=(6, 2)), gt.tensor("flat", shape=(2, 7))
p, q, r = gt.tensor(shape=(10, 20)), gt.tensor(shape=(20, 10)), gt.tensor(shape=(10, 4))
thin = gt.tensor("thin", shape=(7, 1))
whole = gt.tensor("whole", dtype="int8", shape=(4, 4))

random = np.random.default_rng(1)
VALUES: dict[Node, Any] = {
    m: random.normal(size=(4, 4)),
    v: random.normal(size=3),
    whole: random.integers(-100, 100, size=(4, 4)),
} | {y: random.normal(size=y.type.shape) for y in (a, b, tall, flat, thin)}


def product(letters: str, left: Node, right: Node) -> Node:
    """A product in einsum's letters, the result's in the order they have."""
    one, other = letters.split(",")
    batch = [i for i in one if i in other and i.isupper()]
    summed = [i for i in one if i in other and i.islower()]
    places = [(tuple(map(one.index, k)), tuple(map(other.index, k))) for k in (summed, batch)]
    return make(DotGeneral(*places), left, right)


pairs = make(DotGeneral(((2,), (2,)), ((0,), (0,))), c, c)

EXAMPLES: dict[str, list[Example]] = {
    "dot_of_transpose": [
        (product("ik,k", x.T, v), product("ki,k", x, v)),
        (product("ik,kj", m.T, x.T), product("ki,jk", m, x)),
        (
            product("Bik,Bkj", make(Transpose((0, 2, 1)), b), make(Transpose((0, 2, 1)), a)),
            product("Bki,Bjk", b, a),
        ),
    ],
    "dot_of_single_axes": [
        (
            product("ik,kj", make(ExpandDims((1,)), w), make(ExpandDims((0,)), v)),
            product("i,j", w, v),
        ),
        (
            product("ik,kj", make(ExpandDims((0,)), w), m),
            make(ExpandDims((0,)), product("k,kj", w, m)),
        ),
        (
            product("ik,kj", thin, thin.T),
            product("i,j", make(Squeeze((1,)), thin), make(Squeeze((0,)), thin.T)),
        ),
    ],
    "dot_over_no_axes": [
        (product("i,j", w, v), make(ExpandDims((1,)), w) * make(ExpandDims((0,)), v)),
        (product("A,A", w, w + 1), w * (w + 1)),
    ],
    "dot_in_one_order": [
        (product("k,kj", v, x), product("kj,k", x, v)),
        (product("ij,ji", gt.exp(x * 2), x.T), product("ji,ij", x.T, gt.exp(x * 2))),
    ],
    "dot_of_equal_elements": [
        (product("ik,kj", x, gt.zeros((columns, 3))), gt.zeros((rows, 3))),
        (product("ik,k", x, gt.full((columns,), 2.5)), make(Sum((1,)), x) * 2.5),
        (
            product("ki,kj", gt.ones((rows, 2)), x),
            gt.broadcast_to(make(ExpandDims((0,)), make(Sum((0,)), x)) * 1.0, (2, columns)),
        ),
        (
            product("ik,kj", whole, gt.full((4, 4), 3, "int8")),
            gt.broadcast_to(make(ExpandDims((1,)), make(Sum((1,)), whole)) * 3, (4, 4)),
        ),
    ],
    "dot_of_identity": [
        (product("ik,kj", x, gt.eye(columns)), x),
        (product("ik,kj", gt.eye(6), tall), tall),
        (product("ki,kj", tall, gt.eye(6)), tall.T),
        (product("ik,kj", tall, gt.constant(np.eye(2))), tall),
    ],
    "dot_of_negative": [
        (product("ik,k", -x, w), -product("ik,k", x, w)),
        (product("k,kj", v, -x), -product("k,kj", v, x)),
    ],
    "dot_of_scaled": [
        (product("ik,k", -2.0 * x, w), -2.0 * product("ik,k", x, w)),
        (product("ik,k", x, w / 0.3), product("ik,k", x, w) / 0.3),
        (product("ik,kj", whole, whole * 3), product("ik,kj", whole, whole) * 3),
    ],
    "dot_of_dot": [
        (product("ik,k", m @ x.T, v), product("ik,k", m, product("ik,k", x.T, v))),
        (product("k,kj", v, x @ m), product("k,kj", product("k,kj", v, x), m)),
        (product("ik,kj", tall @ flat, thin), product("ik,kj", tall, flat @ thin)),
        (product("ik,kj", product("i,j", v, w), m), product("i,j", v, product("k,kj", w, m))),
    ],
    "sum_of_dot": [
        (make(Sum((0,)), pairs), make(DotGeneral(((0, 2), (0, 2))), c, c)),
        (make(Sum((0, 2)), pairs), make(Sum((1,)), make(DotGeneral(((0, 2), (0, 2))), c, c))),
    ],
    "sum_of_product": [
        (make(Sum((0,)), w * w[::-1]), product("i,i", w, w[::-1])),
        (make(Sum((1,)), x * w), product("k,ik", w, x)),
        (
            make(Sum((1,)), make(ExpandDims((2,)), gt.exp(x)) * make(ExpandDims((0,)), m)),
            product("ik,kj", gt.exp(x), m),
        ),
        (
            make(Sum((0,)), thin * gt.square(thin)),
            gt.expand_dims(product("i,i", gt.squeeze(thin, 1), gt.squeeze(gt.square(thin), 1)), 0),
        ),
    ],
}

LEFT_ALONE: dict[str, list[Node]] = {
    "dot_of_transpose": [
        x @ w,
        product("ijk,k", make(Transpose((1, 0, 2)), a), w),
    ],
    "dot_of_single_axes": [x @ w],
    "dot_over_no_axes": [x @ w],
    "dot_in_one_order": [x @ w, product("ij,ij", x, x * 2)],
    "dot_of_equal_elements": [
        x @ w,
        product("k,k", half, gt.full((gt.shape(half)[0],), 0.5, "float16")),
        product("ik,k", x, gt.full((columns,), np.inf)),
        product("ik,k", x, gt.full((columns,), 0.1)),
        product("k,k", truth, gt.ones((gt.shape(truth)[0],), "bool")),
    ],
    "dot_of_identity": [
        product("ik,kj", x, gt.eye(n)),
        product("ik,kj", tall, gt.eye(2, k=1)),
        product("ik,kj", tall, gt.eye(2, 3)),
        product("ij,ij", gt.eye(4), m),
    ],
    "dot_of_negative": [x @ w, product("i,j", -w, v), product("ik,kj", tall, -flat)],
    "dot_of_scaled": [
        x @ w,
        product("ik,k", w * x, w),
        product("ik,k", scalar * x, w),
        product("ik,k", 0.3 * x, w),
        product("ik,k", x, w / 3),
        product("i,j", 2.0 * w, v),
        product("ik,kj", tall, 2.0 * flat),
        product("k,k", half * 2, half),
    ],
    "dot_of_dot": [
        product("ik,kj", m @ m, m),
        product("ik,kj", tall, flat @ thin),
        product("ik,kj", product("ik,kj", p, q), r),
    ],
    "sum_of_dot": [make(Sum((1,)), pairs), make(Sum((0,)), x @ x.T)],
    "sum_of_product": [
        make(Sum((1,)), x * x[::-1]),
        make(Sum((0, 1)), gt.exp(x) * x[::-1]),
        make(Sum((0, 1)), x * w),
        make(Sum((0,)), gt.lvector() * n),
        make(Sum((0,)), half * half[::-1]),
    ],
}
