"""Classes whose rows depend on each other have no stacks; those of batches have."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import graphc
import graphc.tensor as gt
from graphc.implicit import ImplicitArray, aux_field, implicit, materializations, materializing
from tests.modes import uncompiled

WAYS = {
    "centred": lambda x: x - x.mean(0),
    "reversed": lambda x: x[::-1],
    "running": lambda x: x.cumsum(0),
    "doubled": lambda x: x + x,
}


@dataclass(frozen=True)
class Made(ImplicitArray):
    values: Any
    way: str = aux_field(default="doubled")

    def materialize(self) -> Any:
        return WAYS[self.way](self.values)


VALUES = np.arange(12.0).reshape(3, 4) ** 2


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("way", WAYS)
def test_elements_are_those_of_the_whole_in_jax(way: str) -> None:
    x = Made(jnp.asarray(VALUES), way)
    whole = WAYS[way](VALUES)
    for f in (
        lambda w: w[0],
        lambda w: w[1:],
        lambda w: jnp.stack([w, w])[1],
        lambda w: lax.scan(lambda c, row: (c + row, row), jnp.zeros(4), w)[1],
        jax.vmap(lambda row: row * 2),
    ):
        for g in (implicit(f), jax.jit(implicit(f))):
            np.testing.assert_allclose(np.asarray(g(x)), f(jnp.asarray(whole)), rtol=1e-6)


@pytest.mark.parametrize("mode", ["NUMPY", "JAX", "MLX"])
@pytest.mark.parametrize("way", WAYS)
def test_elements_are_those_of_the_whole_in_graphs(way: str, mode: str) -> None:
    x = gt.implicit(Made(VALUES, way), name="x")
    rows = graphc.map(lambda row: row * 2, x)
    f = graphc.function([x], [x[0].sum(), rows], uncompiled(mode), returns="numpy")
    whole = WAYS[way](VALUES)
    first, doubled = f(Made(VALUES, way))
    np.testing.assert_allclose(np.asarray(first), whole[0].sum())
    np.testing.assert_allclose(np.asarray(doubled), 2 * whole)


def test_a_stack_stays_one_and_what_is_none_is_told_of() -> None:
    with materializing("error"):
        part = implicit(lambda w: w[1])(Made(jnp.asarray(VALUES)))
    assert isinstance(part, Made)
    with materializations() as report:
        implicit(lambda w: w[1])(Made(jnp.asarray(VALUES), "centred"))
    assert report[0].type == "Made"
