"""Compiled functions in what other libraries do with functions of JAX's."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpyro.infer import MCMC, NUTS

import graphc
import graphc.tensor as gt

RNG = np.random.default_rng(1)
ROWS = RNG.normal(size=(60, 3))
TARGET = ROWS @ [1.0, -2.0, 0.5] + 0.3 * RNG.normal(size=60)

weights, scale = gt.vector("weights", shape=(3,)), gt.scalar("scale")
rows, target = gt.matrix("rows"), gt.vector("target")
rest = target - rows @ weights


def test_optax_finds_what_least_squares_finds() -> None:
    loss = graphc.function([{"w": weights}, rows, target], (rest**2).mean()).pure
    with jax.enable_x64(True):
        tool = optax.lbfgs()
        step = optax.value_and_grad_from_state(lambda p: loss(p, ROWS, TARGET))

        def moved(carry: Any, _: None) -> tuple[Any, Any]:
            place, state = carry
            value, slope = step(place, state=state)
            change, state = tool.update(
                slope,
                state,
                place,
                value=value,
                grad=slope,
                value_fn=lambda p: loss(p, ROWS, TARGET),
            )
            return (optax.apply_updates(place, change), state), value

        start = {"w": jnp.zeros(3)}
        (found, _), _ = jax.lax.scan(moved, (start, tool.init(start)), None, length=15)
    wanted, *_ = np.linalg.lstsq(ROWS, TARGET, rcond=None)
    np.testing.assert_allclose(found["w"], wanted, rtol=1e-6)


@pytest.mark.exhaustive
def test_numpyro_samples_the_posterior_that_is_known_exactly() -> None:
    energy = (rest**2).sum() / (2 * 0.3**2) + (weights**2).sum() / 2
    potential = graphc.function([weights, rows, target], energy).pure
    precision = ROWS.T @ ROWS / 0.3**2 + np.eye(3)
    mean = np.linalg.solve(precision, ROWS.T @ TARGET / 0.3**2)
    with jax.enable_x64(True):
        kernel = NUTS(potential_fn=lambda w: potential(w, ROWS, TARGET))
        chain = MCMC(kernel, num_warmup=300, num_samples=2000, progress_bar=False)
        chain.run(jax.random.key(0), init_params=jnp.zeros(3))
        draws = np.asarray(chain.get_samples())
    spread = np.sqrt(np.diag(np.linalg.inv(precision)))
    # Fewer than a third of the draws are worth less than draws that are independent.
    np.testing.assert_allclose(draws.mean(0), mean, atol=4 * spread.max() / np.sqrt(len(draws) / 3))
    np.testing.assert_allclose(draws.std(0), spread, rtol=0.1)
