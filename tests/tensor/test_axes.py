"""New axes stand where they are wanted."""

from __future__ import annotations

import numpy as np
import pytest

import graphc.tensor as gt
from tests.tensor.agreement import check_agrees

M = np.arange(6.0).reshape(2, 3)


def test_new_axes_stand_in_front_behind_or_between() -> None:
    check_agrees(lambda x: gt.shape_padleft(x, 2), lambda x: x[None, None], M)
    check_agrees(gt.shape_padright, lambda x: x[:, :, None], M)
    check_agrees(lambda x: gt.shape_padaxis(x, 1), lambda x: x[:, None], M)
    check_agrees(lambda x: gt.shape_padaxis(x, -1), lambda x: x[:, :, None], M)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("left", [True, False])
def test_an_array_gets_the_axes_it_lacks(n: int, left: bool) -> None:
    for value in (np.array(2.0), np.arange(3), M, M[None, None]):
        missing = (None,) * max(n - value.ndim, 0)
        index = (*missing, ...) if left else (..., *missing)
        named = getattr(gt, f"atleast_{n}d")
        check_agrees(lambda x: gt.atleast_Nd(x, n=n, left=left), lambda x, i=index: x[i], value)
        check_agrees(lambda x, f=named: f(x, left=left), lambda x, i=index: x[i], value)


def test_several_arrays_come_in_a_list() -> None:
    made = gt.atleast_2d(1.5, gt.vector())
    assert [x.type.shape for x in made] == [(1, 1), (1, None)]
