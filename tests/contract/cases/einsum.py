"""Cases of graphc.tensor.linalg.einsum."""

from __future__ import annotations

import numpy as np

import graphc.tensor as gt
from tests.contract.case import Case

DTYPES = ("bool", "int8", "float64")


def _case(subscripts: str, *shapes: tuple[int, ...], static: bool = False) -> Case:
    return Case(
        lambda *xs: gt.einsum(subscripts, *xs), shapes, DTYPES,
        lambda *xs: np.einsum(subscripts, *xs), static=static,
    )  # fmt: skip


FAMILIES: dict[str, dict[str, Case]] = {
    "einsum": {
        "a transpose": _case("ijk->kij", (2, 3, 4)),
        "a sum": _case("ijk->j", (2, 3, 4)),
        "a trace": _case("ii", (3, 3)),
        "diagonals": _case("iji->ij", (3, 2, 3)),
        "a diagonal of three": _case("iii->i", (3, 3, 3)),
        "an outer product": _case("i,j", (2,), (3,)),
        "elements": _case("ij,ij->ij", (2, 3), (2, 3)),
        "a matrix product": _case("ij,jk", (2, 3), (3, 4)),
        "batches": _case("zij,zjk->zki", (2, 3, 4), (2, 4, 5)),
        "an ellipsis": _case("...ij,...jk->...ik", (4, 1, 2, 3), (5, 3, 2), static=True),
        "an ellipsis in the middle": _case("i...,...i->i...", (2, 3), (3, 2)),
        "lengths of 1": _case("ij,jk->ik", (2, 1), (3, 4), static=True),
        "a sum of one operand's own": _case("ija,jkb->ik", (2, 3, 2), (3, 4, 2)),
        "three operands": _case("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
        "a bilinear form": _case("zi,ij,zj->z", (2, 3), (3, 4), (2, 4)),
        "an axis of all": _case("ai,aj,ak->aijk", (2, 2), (2, 3), (2, 2)),
        "nothing": _case("ij,jk", (2, 0), (0, 3)),
    },
}
