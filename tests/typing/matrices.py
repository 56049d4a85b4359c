"""Linear algebra: factors, solutions, and results that depend on an argument."""

from __future__ import annotations

from typing import assert_type

import graphc.tensor as gt
from graphc.tensor import Tensor


def program() -> None:
    a, b = gt.matrix("a"), gt.vector("b")
    assert_type(gt.linalg.solve(a, b, assume_a="pos"), Tensor)
    assert_type(gt.linalg.cholesky(a), Tensor)
    assert_type(gt.linalg.det(a), Tensor)
    sign, logarithm = gt.linalg.slogdet(a)
    assert_type(sign, Tensor)
    assert_type(logarithm, Tensor)
    u, s, vh = gt.linalg.svd(a)
    assert_type(u @ gt.diag(s) @ vh, Tensor)
    assert_type(gt.linalg.svd(a, compute_uv=False), Tensor)
    assert_type(gt.linalg.eigh(a), list[Tensor])
    assert_type(gt.linalg.eigvalsh(a), Tensor)
    assert_type(gt.linalg.qr(a), list[Tensor])
    assert_type(gt.linalg.qr(a, "r"), Tensor)
    assert_type(gt.linalg.lu_factor(a), list[Tensor])
    assert_type(gt.linalg.polar(a), tuple[Tensor, Tensor])
    assert_type(gt.linalg.lstsq(a, b), list[Tensor])
    assert_type(gt.linalg.norm(a, ord="fro"), Tensor)
    assert_type(gt.linalg.pinv(a), Tensor)
