"""Every operation of a program is compared with NumPy by ``f.verify``, without a false alarm."""

from __future__ import annotations

from typing import Any

import pytest

import graphc
from tests.contract.operands import arrays, symbols, there
from tests.contract.operations import FAMILIES
from tests.modes import lacks, uncompiled

SINGULAR = {"determinant"}
"""Factors of singular matrices differ: MLX's have NaN, which the determinant does not depend on."""


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("family", sorted(FAMILIES.keys() - SINGULAR))
def test_what_a_backend_does_right_is_verified(family: str) -> None:
    # JAX would compile for minutes: it is compared where it differs, in tests of its own.
    inputs: list[Any] = []
    outputs: list[Any] = []
    values: list[Any] = []
    for case in FAMILIES[family].values():
        for dtype in there("MLX", case.dtypes)[-1:]:
            given = arrays(case, dtype)
            xs = symbols(case, given)
            y = case.symbolic(*xs)
            if not lacks("MLX", y.dtype):
                inputs += xs
                outputs.append(y)
                values += given
    f = graphc.function(inputs, outputs, uncompiled("MLX"), on_unused_input="ignore")
    found = f.verify(*values)
    assert found, found
