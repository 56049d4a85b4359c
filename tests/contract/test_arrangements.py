"""What moves elements about does so for each element of a batch, and for tangents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc
from graphc.ir import TensorType
from graphc.tensor.arrays.vectorize import batched
from tests.contract.case import Case
from tests.contract.operands import arrays, symbols
from tests.contract.operations import FAMILIES
from tests.reference import evaluate

SUBJECTS = (
    "axes", "broadcast", "diagonal", "difference", "edit", "grid", "join", "pack", "pad",
    "rearrange", "repeat", "shape", "specify", "split", "triangle",
)  # fmt: skip
STEP = 1e-6


def cases(family: str) -> list[tuple[str, Case, list[Any], Any, list[Any]]]:
    found = []
    for name, case in FAMILIES[family].items():
        if "float64" in case.dtypes:
            values = arrays(case, "float64")
            xs = symbols(case, values)
            found.append((name, case, xs, case.symbolic(*xs), values))
    return found


def value_of(y: Any, xs: list[Any], values: list[Any]) -> np.ndarray:
    (found,) = evaluate([y], dict(zip(xs, values, strict=True)))
    return found


@pytest.mark.parametrize("family", SUBJECTS)
def test_a_batch_is_the_result_for_each_of_its_elements(family: str) -> None:
    for name, _, xs, y, values in cases(family):
        for k, x in enumerate(xs):
            batch = TensorType("float64", (None, *x.type.shape))()
            given = np.stack([values[k], -0.5 * values[k], 2 * values[k]])
            (made,) = batched([y], {x: batch})
            others = [*xs[:k], batch, *xs[k + 1 :]]
            found = value_of(made, others, [*values[:k], given, *values[k + 1 :]])
            wanted = [value_of(y, xs, [*values[:k], one, *values[k + 1 :]]) for one in given]
            np.testing.assert_allclose(found, wanted, 1e-12, 1e-12, err_msg=f"{name}, {k}")


@pytest.mark.parametrize("family", SUBJECTS)
def test_a_tangent_moves_as_finite_differences_do(family: str) -> None:
    for name, _, xs, y, values in cases(family):
        for k, x in enumerate(xs):
            if not y.dtype.startswith("float"):
                continue
            tangent = x.type("tangent")
            moved = np.random.default_rng(k).standard_normal(values[k].shape)
            pushed = graphc.pushforward(y, x, tangent, disconnected_outputs="ignore")
            found = value_of(pushed, [*xs, tangent], [*values, moved])
            up, down = (
                value_of(y, xs, [*values[:k], values[k] + s * STEP * moved, *values[k + 1 :]])
                for s in (1, -1)
            )
            slope = (up - down) / (2 * STEP)
            np.testing.assert_allclose(found, slope, 1e-6, 1e-6, err_msg=f"{name}, {k}")
