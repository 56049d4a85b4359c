"""What is known while a graph is built is found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc.tensor as gt
from graphc.errors import SymbolicValueError

N, X = gt.lscalar("n"), gt.tensor("x", shape=(3, None))

KNOWN: dict[str, tuple[Any, Any]] = {
    "a number": (gt.as_tensor(2.5), 2.5),
    "equal elements": (gt.as_tensor([3, 3]), 3),
    "one repeated": (gt.zeros((N, 2)), 0.0),
    "one reshaped": (gt.ones((2, 3)).reshape(6).T, 1.0),
    "a cast": (gt.cast(2.75, "int8"), np.int8(2)),
    "a static length": (X.shape[0], 3),
    "a sum": (gt.ones((N,), "int8") + X.shape[0] * 2, 7),
    "an element": (gt.full((N, 2), 4.0)[0, 1], 4.0),
}


@pytest.mark.parametrize("what", KNOWN)
def test_a_number_that_all_elements_are_is_found(what: str) -> None:
    x, wanted = KNOWN[what]
    found = gt.get_underlying_scalar_constant_value(x)
    assert (found.dtype, found.shape) == (x.type.numpy_dtype, ())
    assert found == wanted
    if x.ndim:
        with pytest.raises(SymbolicValueError, match="is not a scalar"):
            gt.get_scalar_constant_value(x)
    else:
        assert gt.get_scalar_constant_value(x) == wanted


@pytest.mark.parametrize("x", [N, gt.as_tensor([1, 2]), X.shape[1], gt.as_tensor([]), N + 1])
def test_what_is_no_known_number_is_refused_or_given_back(x: Any) -> None:
    with pytest.raises(SymbolicValueError, match=r"not known(.|\n)*test_constants.py"):
        gt.get_underlying_scalar_constant_value(x)
    assert gt.get_underlying_scalar_constant_value(x, raise_not_constant=False) is x
    assert gt.get_scalar_constant_value(x, raise_not_constant=False) is x


def test_so_many_computations_are_followed() -> None:
    x = gt.exp(gt.as_tensor(0.0)) + 1
    assert gt.get_underlying_scalar_constant_value(x, max_recur=2) == 2
    for options in ({"max_recur": 1}, {"elemwise": False}, {"only_process_constants": True}):
        with pytest.raises(SymbolicValueError):
            gt.get_underlying_scalar_constant_value(x, **options)
