"""Many applications of an elementwise row, compiled as one function, and compared with NumPy."""

from __future__ import annotations

from typing import Any

import graphc
from graphc.ir import DTYPES, TensorType
from graphc.tensor.core.elementwise import ROWS, Elementwise
from tests.contract.rows import (
    FIXED,
    SUMMED,
    expected,
)
from tests.contract.tolerance import assert_agree
from tests.contract.values import LAYOUTS
from tests.modes import lacks, uncompiled

FEW = ("int16", "bfloat16", "float32")


class Batch:
    """Many applications of a row, compiled as one function, which is most of the time it takes."""

    def __init__(self, row: Elementwise) -> None:
        self.row = row
        self.inputs: list[Any] = []
        self.values: list[Any] = []
        self.outputs: list[Any] = []
        self.cases: list[tuple[str, list[Any]]] = []

    def add(self, what: str, dtype: str, shapes: list[Any], values: list[Any]) -> None:
        xs = [TensorType(dtype, shape)() for shape in shapes]
        self.inputs += xs
        self.values += values
        self.outputs.append(self.row(*xs))
        self.cases.append((f"{what}, {dtype}", values))

    def check(self, backend: str) -> None:
        mode = uncompiled(backend)
        f = graphc.function(self.inputs, self.outputs, mode=mode, returns="numpy")
        found = f(*self.values)
        for y, given, (what, values) in zip(found, self.outputs, self.cases, strict=True):
            wanted = expected(self.row.name, *values)
            admitted = TensorType(given.dtype, wanted.shape)
            assert given.type.admits(admitted), (what, given)
            scale = SUMMED.get(self.row.name, 0.0)
            assert_agree(y, wanted, f"{self.row.name} of {what}", values, scale)


SHORT = {"erf", "erfc", "erfinv", "ndtri", "gamma", "gammaln", "digamma"}
"""Rows that libraries have, or that compile to some fifty steps."""


LARGE = {
    name
    for name, row in ROWS.items()
    if row.expand is not None and row.domain("float64") == ("float64", "float64")
} - SHORT | {"gammaincinv", "gammainccinv", "betaincinv", "hyp2f1", *FIXED}
"""Rows that compile to some hundred steps. They compute in float64 whatever the dtype, so that a
part of the dtypes and layouts tells all."""


def dtypes_of(row: Elementwise, backend: str) -> list[str]:
    # One beside float64, another for each row.
    some = ("float64", FEW[len(row.name) % 3]) if row.name in LARGE else DTYPES
    return [dtype for dtype in some if takes(row, dtype, backend)]


def takes(row: Elementwise, dtype: str, backend: str) -> bool:
    """Whether the row is for that dtype, and the backend has what it computes in and gives."""
    rule = row.domain(dtype)
    return rule is not None and not any(lacks(backend, name) for name in (dtype, *rule))


def layouts_of(row: Elementwise) -> list[tuple[str, Any]]:
    step = 6 if row.name in LARGE else 1
    return [*LAYOUTS.items()][len(row.name) % step :: step]
