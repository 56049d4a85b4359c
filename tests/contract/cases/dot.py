"""Cases of graphc.tensor.linalg.dot."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.tensor.linalg.dot import DotGeneral
from tests.contract.case import EVERY, NUMERIC, SOME, Case, S, V, X

FEW = ("bool", "int8", "float64", "complex128")


def _general(letters: str, *shapes: tuple[int, ...]) -> Case:
    """A product in einsum's letters: i, j and k are summed over; y and z are batch axes."""
    left, right = letters.split(",")
    batch = sorted({*left} & {*right} & {*"yz"})
    summed = sorted({*left} & {*right} - {*batch})
    free = [x for x in left + right if x not in {*batch, *summed}]

    def places(names: list[str]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return tuple(map(left.index, names)), tuple(map(right.index, names))

    op = DotGeneral(places(summed), places(batch))
    wanted = f"{letters}->{''.join(batch + free)}"

    def by_numpy(a: Any, b: Any) -> Any:
        return np.einsum(wanted, a, b).astype(a.dtype)

    return Case(lambda a, b: gt.Tensor.make(op, a, b), shapes, SOME, by_numpy)


FAMILIES: dict[str, dict[str, Case]] = {
    "dot": {
        "dot": Case(lambda n, a, b: n.dot(a, b), ((2, 3), (3, 4)), EVERY),
        "dot of vectors": Case(lambda n, a, b: n.dot(a, b), (V, V), EVERY),
        "dot of a vector": Case(lambda n, a, b: n.dot(a, b), ((2, 3), (3,))),
        "dot of more axes": Case(lambda n, a, b: n.dot(a, b), (X, (2, 4, 3))),
        "dot by a scalar": Case(lambda n, a, b: n.dot(a, b), (X, S), NUMERIC),
        "matmul of batches": Case(lambda n, a, b: n.matmul(a, b), (X, (2, 4, 3)), EVERY),
        "matmul broadcasting": Case(
            lambda n, a, b: n.matmul(a, b), ((5, 1, 2, 3), (4, 3, 2)), static=True
        ),
        "matmul of a matrix": Case(lambda n, a, b: n.matmul(a, b), ((5, 2), (3, 2, 4))),
        "matmul of a vector": Case(lambda n, a, b: n.matmul(a, b), ((3,), (2, 3, 4))),
        "matmul over nothing": Case(lambda n, a, b: n.matmul(a, b), ((2, 0), (0, 3)), EVERY),
        "matmul of nothing": Case(lambda n, a, b: n.matmul(a, b), ((0, 2), (2, 3)), EVERY),
        "tensordot": Case(
            lambda n, a, b: n.tensordot(a, b, ([0, 2], [2, 0])), (X, (4, 5, 2)), NUMERIC
        ),
        "tensordot over none": Case(lambda n, a, b: n.tensordot(a, b, 0), ((2,), (3,)), NUMERIC),
        "dot of 2000": Case(
            lambda n, a, b: n.dot(a, b), ((2, 2000), (2000, 3)), ("float16", "bfloat16")
        ),
        "one pair, each last": _general("ai,bi", (2, 3), (4, 3)),
        "two pairs, crossed": _general("aijb,jci", (2, 3, 4, 2), (4, 5, 3)),
        "a batch in the middle": _general("azi,ibz", (2, 5, 3), (3, 4, 5)),
        "two batches, exchanged": _general("yazi,izby", (2, 3, 4, 5), (5, 4, 3, 2)),
        "a batch of products": _general("zi,zi", (4, 3), (4, 3)),
        "a batch of outer products": _general("za,bz", (4, 3), (2, 4)),
        "all axes": _general("ijk,kij", (2, 3, 4), (4, 2, 3)),
        "a batch of nothing": _general("zai,zib", (0, 2, 3), (0, 3, 4)),
        "a batch over nothing": _general("zai,zib", (2, 2, 0), (2, 0, 4)),
        "outer": Case(lambda n, a, b: n.outer(a, b), ((2,), (3,)), NUMERIC),
        "inner": Case(lambda n, a, b: n.inner(a, b), (X, (5, 4)), FEW),
        "vdot": Case(lambda n, a, b: n.vdot(a, b), ((2, 3), (6,)), FEW[1:]),
        "vecdot": Case(lambda n, a, b: n.vecdot(a, b), ((2, 3, 4), (3, 4)), FEW, static=True),
        "vecdot along an axis": Case(
            lambda n, a, b: n.vecdot(a, b, axis=0), ((4, 1), (4, 3)), FEW, static=True
        ),
        "matvec": Case(lambda n, a, b: n.matvec(a, b), ((2, 1, 3, 4), (5, 4)), FEW, static=True),
        "vecmat": Case(lambda n, a, b: n.vecmat(a, b), ((5, 3), (2, 1, 3, 4)), FEW, static=True),
        "batched_dot": Case(gt.batched_dot, ((3, 2, 4), (3, 4, 5)), FEW, lambda a, b: a @ b),
        "batched_dot of vectors": Case(
            gt.batched_dot, ((3, 4), (3, 4)), FEW,
            lambda a, b: np.einsum("zi,zi->z", a, b).astype(a.dtype),
        ),
    },
}  # fmt: skip
