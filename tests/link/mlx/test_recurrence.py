"""Linear recurrences on MLX, block by block: every way gives what stepping gives."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.link.mlx.lower import cumulative
from graphc.tensor.arrays.coupled import CoupledRecurrence
from graphc.tensor.arrays.cumulative import Recurrence
from tests.contract.tolerance import assert_agree
from tests.modes import uncompiled

SHAPES = [
    ((50, 3), 0),
    ((3, 700), 1),
    ((700, 5), 0),
    ((40, 100), 0),
    ((9, 70, 2), 1),
    ((0, 90), 0),
    ((90, 0), 0),
]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "bool", "complex64"])
def test_blocks_follow_each_other(
    dtype: str, reverse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if arrays of some hundred elements were long, and steps of some tens wide.
    monkeypatch.setattr(cumulative, "LONG", 400)
    monkeypatch.setattr(cumulative, "WIDE", 64)
    a, b, values, outputs = [], [], [], []
    rng = np.random.default_rng(0)
    for shape, axis in SHAPES:
        pair = [gt.tensor(dtype=dtype, shape=(None,) * len(shape)) for _ in range(2)]
        outputs.append(gt.Tensor.make(Recurrence(axis, reverse), *pair))
        a.append(pair[0])
        b.append(pair[1])
        values += [rng.uniform(-1, 1, (2, *shape))]
    given = [(3 * v).astype(dtype) if dtype in {"int64", "bool"} else v for v in values]
    factors, terms = ([v[i].astype(dtype) for v in given] for i in range(2))
    wanted = graphc.function([*a, *b], outputs, "NUMPY")(*factors, *terms)
    f = graphc.function([*a, *b], outputs, uncompiled("MLX"), returns="numpy")
    for y, w, (shape, _) in zip(f(*factors, *terms), wanted, SHAPES, strict=True):
        assert_agree(y, w, f"{dtype}, {shape}", scale=4.0)


@pytest.mark.parametrize("reverse", [False, True])
def test_an_infinite_factor_of_the_first_step_is_not_used(reverse: bool) -> None:
    first = -1 if reverse else 0
    a = np.full((cumulative.CHUNK + 3, cumulative.WIDE + 1), 0.5)
    a[first] = np.inf
    x = gt.matrix("x")
    y = gt.Tensor.make(Recurrence(0, reverse), x, gt.ones_like(x))
    found = graphc.function([x], y, uncompiled("MLX"), returns="numpy")(a)
    halves = 2 - 0.5 ** np.arange(len(a))
    np.testing.assert_allclose(found[:, 3], halves[::-1] if reverse else halves)


def states(h0: Any, **options: Any) -> Any:
    return graphc.scan(lambda h: h * 0.5 + 1, outputs_info=h0, **options)


def test_states_that_nothing_else_is_as_large_as_are_not_laid_out() -> None:
    # Of a loop of which only the end is wanted, all values would be n times as much memory.
    h0, n = gt.vector("h0"), gt.lscalar("n")
    for y, laid_out in [(states(h0, n_steps=n)[-1], False), (states(h0, n_steps=n), True)]:
        graph = graphc.function([h0, n], y, "MLX").graph
        assert any(isinstance(x.op, Recurrence) for x in graph.nodes) == laid_out


@pytest.mark.parametrize("reverse", [False, True])
def test_states_of_zero_stay_so_however_large_products_of_factors_are(reverse: bool) -> None:
    x, h0 = gt.vector("x"), gt.scalar("h0")
    states = graphc.scan(lambda x_t, h: gt.tanh(h * x_t), x, h0, go_backwards=reverse)
    linear = graphc.scan(lambda x_t, h: h * x_t, x, h0, go_backwards=reverse)
    outputs = [linear, *graphc.grad(states[:10].sum(), [x, h0])]
    given = np.full(1500, 5.0), 0.0
    found, wanted = (
        graphc.function([x, h0], outputs, mode, returns="numpy")(*given)
        for mode in (uncompiled("MLX"), "NUMPY")
    )
    for by_mlx, by_numpy in zip(found, wanted, strict=True):
        np.testing.assert_allclose(by_mlx, by_numpy, 1e-12)
        assert np.isfinite(by_mlx).all()
    made = graphc.function([x, h0], linear, uncompiled("MLX"))(np.array([1.0, np.inf] * 9), 0.0)
    assert np.isnan(np.asarray(made)[1:]).all()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(2, 0), (2, 1), (3, 50), (2, 4, 67)])
def test_coupled_steps_joined_pairwise(shape: tuple[int, ...], reverse: bool) -> None:
    # What GPUs run; on processors NumPy does.
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-0.5, 0.5, (shape[0], *shape)), rng.standard_normal(shape)
    op = CoupledRecurrence(reverse)
    found = cumulative.coupled_recurrence(op, *(mx.array(x.astype("float32")) for x in (a, b)))
    np.testing.assert_allclose(np.array(found), op.perform(a, b), rtol=1e-4, atol=1e-5)
