"""Every operation and every row over a batch at once: what a loop over the batch gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import UnsupportedOperationError
from graphc.ir import TensorType, toposort
from graphc.tensor.core.elementwise import ROWS
from tests.contract.case import Case
from tests.contract.operations import BARRIERS, FAMILIES
from tests.contract.rows import ALL, DOMAINS
from tests.contract.values import plain
from tests.reference import evaluate

BATCH = 3


def batch_of(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Arrays of one shape that differ; integers keep their values, so that they stay indices."""
    if value.dtype.kind in "fc":
        return np.stack([value * (1 + k / 8) for k in range(BATCH)])
    return np.stack([np.roll(value, k) for k in range(BATCH)])


def chosen(n: int) -> list[tuple[bool, ...]]:
    """Which operands are batched: all, and each alone."""
    alone = [tuple(i == k for i in range(n)) for k in range(n)]
    return alone if n == 1 else [(True,) * n, *alone]


def check(
    build: Callable[..., Any], values: Sequence[np.ndarray[Any, Any]], static: bool, what: str
) -> int:
    """The graph over a batch gives what it gives element by element; how many batches there were.

    Where an operand decides a shape, its elements would give arrays of several shapes.
    """
    shapes = [v.shape if static else (None,) * v.ndim for v in values]
    xs = [TensorType(v.dtype, shape)() for v, shape in zip(values, shapes, strict=True)]
    y = gt.as_tensor(build(*xs))
    done = 0
    for flags in chosen(len(xs)):
        sides = list(zip(xs, values, flags, strict=True))
        stacks = {x: batch_of(v) if flag else v for x, v, flag in sides}
        size = BATCH if static else None
        batches = {x: TensorType(x.dtype, (size, *x.type.shape))() for x, _, flag in sides if flag}
        try:
            over = graphc.vectorize_graph(y, batches)
        except UnsupportedOperationError as error:
            if "its shape would differ" in str(error):
                continue
            raise
        (found,) = evaluate([over], {batches.get(x, x): stacks[x] for x in xs})
        looped = [
            evaluate([y], {x: stacks[x][k] if flag else v for x, v, flag in sides})[0]
            for k in range(BATCH)
        ]
        reached = batches.keys() & {*toposort([y])}
        wanted = np.stack(looped) if reached else looped[0]
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), (what, flags)
        tolerance = {2: 1e-2, 4: 1e-5}.get(wanted.dtype.itemsize, 1e-12)
        np.testing.assert_allclose(
            found.astype(complex), wanted.astype(complex), tolerance, tolerance, err_msg=what
        )
        done += 1
    return done


def values_of(case: Case, dtype: str) -> list[np.ndarray[Any, Any]]:
    if case.values:
        return [case.values(dtype)]
    return [plain(dtype, shape, i) for i, shape in enumerate(case.shapes)]


@pytest.mark.parametrize("family", FAMILIES)
def test_an_operation_over_a_batch_is_the_loop_over_the_batch(family: str) -> None:
    for name, case in FAMILIES[family].items():
        dtype = "float64" if "float64" in case.dtypes else case.dtypes[0]
        values = values_of(case, dtype)
        what = f"{family}: {name}, {dtype}"
        with np.errstate(all="ignore"):
            check(case.symbolic, values, True, what)
            check(case.symbolic, values, case.static, what)


def row_values(row: Any) -> list[np.ndarray[Any, Any]]:
    """Operands of several ranks that broadcast."""
    shapes = [(2, 3), (3,), (2, 1), ()][: row.arity]
    if row.domain("float64") is None:
        return [plain("int64", shape, i) for i, shape in enumerate(shapes)]
    bounds = DOMAINS.get(row.name, (ALL,) * row.arity)
    # A batch stretches its elements by a quarter at most.
    return [
        np.random.default_rng(i).uniform(*bounds[i], shape) * 0.75 for i, shape in enumerate(shapes)
    ]


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.name)
def test_a_row_over_a_batch_is_the_loop_over_the_batch(row: Any) -> None:
    values = row_values(row)
    with np.errstate(all="ignore"):
        assert check(row, values, True, row.name)
        assert check(row, [values[0]] * row.arity, False, row.name)


@pytest.mark.parametrize("name", BARRIERS)
def test_a_barrier_over_a_batch_stays_one(name: str) -> None:
    barrier, changed = BARRIERS[name]
    x, xs = gt.vector(), gt.matrix()
    over = graphc.vectorize_graph(barrier(x) ** 2, {x: xs})
    slope = graphc.grad(over.sum(), xs, disconnected_inputs="ignore")
    value = np.arange(6.0).reshape(2, 3)
    found = evaluate([over, slope], {xs: value})
    np.testing.assert_allclose(found[0], value**2)
    np.testing.assert_allclose(found[1], changed(2 * value))
