"""An operation by the recipe of CONTRIBUTING, with no line for lengths, padding or meshes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import mlx.core as mx
import numpy as np
import pytest
from jax import export

import graphc
import graphc.tensor as gt
from graphc import Mode
from graphc.link import load
from tests.link.row_norms import RowNorms, norms

BACKENDS = ("NUMPY", "JAX", "MLX")


@pytest.fixture(autouse=True)
def lowerings() -> Iterator[None]:
    """The two lowerings, of a line each."""
    backends = load("JAX"), load("MLX")
    backends[0].lower(RowNorms)(lambda op, x: jnp.sqrt((x * x).sum(1)))
    backends[1].lower(RowNorms)(lambda op, x: mx.sqrt((x * x).sum(1)))
    yield
    for backend in backends:
        del backend.lowerings[RowNorms]
        backend.entered.remove(RowNorms)


@pytest.mark.parametrize("mode", BACKENDS)
def test_it_runs_after_a_loop_that_stops(mode: str) -> None:
    x, limit = gt.vector("x"), gt.scalar("limit")

    def step(c: Any) -> Any:
        c = c * 2
        return c, graphc.until(c.sum() > limit)

    rows = graphc.scan(step, outputs_info=x, n_steps=9)
    y = RowNorms()(rows)
    f = graphc.function([x, limit], [y, graphc.grad(y.sum(), x)], mode=mode, returns="numpy")
    start = np.array([1.0, 2.0])
    for done in (1, 4, 9):
        states = start * 2.0 ** np.arange(1, done + 1)[:, None]
        result, gradient = f(start, states[-1].sum() - 1)
        np.testing.assert_allclose(result, norms(states), rtol=1e-6)
        expected = (states / norms(states)[:, None] * 2.0 ** np.arange(1, done + 1)[:, None]).sum(0)
        np.testing.assert_allclose(gradient, expected, rtol=1e-6)


@dataclass(frozen=True, slots=True)
class PaddedRowNorms(RowNorms):
    """The norm of each row, which says what padding it needs."""

    def padding_for(self, i: int, axis: int, type: Any) -> Any:
        return 0 if axis == 1 else "any"


@pytest.mark.parametrize("mode", ["JAX", "MLX"])
@pytest.mark.parametrize("op", [RowNorms(), PaddedRowNorms()])
def test_it_runs_in_buckets(mode: str, op: Any) -> None:
    """Without a declaration its lowering runs in programs for exact lengths."""
    x = gt.matrix("x", bucket=2)
    y = op(x * 2)
    f = graphc.function([x], [y, graphc.grad(y.sum(), x)], mode=mode, returns="numpy")
    for shape in ((3, 2), (5, 4), (20, 17)):
        value = np.random.default_rng(0).normal(size=shape)
        result, gradient = f(value)
        np.testing.assert_allclose(result, norms(2 * value), rtol=1e-6)
        np.testing.assert_allclose(gradient, 2 * value / norms(value)[:, None], rtol=1e-6)
    is_declared = isinstance(op, PaddedRowNorms)
    assert f._compiled.execute.is_refused is not is_declared
    assert f.stats.compiles <= (2 if is_declared else 4)


def test_it_runs_in_a_program_of_jax_export_for_any_length() -> None:
    x = gt.tensor("x", shape=(None, 3))
    f = graphc.function([x], RowNorms()(x), mode="JAX")
    with jax.enable_x64(True):
        lengths = export.symbolic_shape("n, 3")
        spec = jax.ShapeDtypeStruct(lengths, "float64")  # type: ignore[no-untyped-call]
        exported = export.export(jax.jit(f.pure))(spec)
        for n in (2, 7):
            value = np.random.default_rng(n).normal(size=(n, 3))
            np.testing.assert_allclose(exported.call(value), norms(value), rtol=1e-12)


def test_it_runs_over_a_mesh() -> None:
    x = gt.matrix("x", sharding=("data", None))
    f = graphc.function([x], RowNorms()(x), mode=Mode("JAX", mesh=graphc.mesh(data=1)))
    value = np.random.default_rng(1).normal(size=(4, 3))
    np.testing.assert_allclose(np.asarray(f(value)), norms(value), rtol=1e-6)
