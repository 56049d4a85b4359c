"""NUTS of NumPyro and BlackJAX: all chains are one program on JAX."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from graphc.interop.pymc.in_jax import JaxLogDensity, jax_logp
from graphc.interop.pymc.settings import Draws, Settings, library, starts


def _density_and_starts(settings: Settings) -> tuple[JaxLogDensity, Any]:
    density = jax_logp(settings.model)
    evaluate = jax.jit(jax.vmap(jax.value_and_grad(density)))
    return density, jax.numpy.asarray(starts(settings, evaluate))


def by_numpyro(settings: Settings) -> Draws:
    """Draw by ``numpyro.infer.MCMC``, with vectorised chains."""
    infer = library("numpyro.infer", "numpyro")
    names = {
        "num_steps": "n_steps",
        "potential_energy": "lp",
        "energy": "energy",
        "accept_prob": "acceptance_rate",
        "diverging": "diverging",
    }
    with jax.enable_x64(True):
        density, points = _density_and_starts(settings)
        kernel = infer.NUTS(
            potential_fn=lambda x: -density(x),
            target_accept_prob=settings.target_accept,
            **settings.options,
        )
        chains = infer.MCMC(
            kernel,
            num_warmup=settings.tune,
            num_samples=settings.draws,
            num_chains=settings.chains,
            chain_method="vectorized",
            progress_bar=False,
        )
        first = points if settings.chains > 1 else points[0]
        chains.run(jax.random.key(settings.seed), init_params=first, extra_fields=tuple(names))
        draws = np.asarray(chains.get_samples(group_by_chain=True))
        fields = chains.get_extra_fields(group_by_chain=True)
    stats = {own: np.asarray(fields[name]) for name, own in names.items()}
    return draws, {**stats, "lp": -stats["lp"]}


def by_blackjax(settings: Settings) -> Draws:
    """Draw by ``blackjax.nuts``, after a ``blackjax.window_adaptation`` for each chain."""
    blackjax = library("blackjax", "blackjax")
    with jax.enable_x64(True):
        density, points = _density_and_starts(settings)

        def chain(key: Any, position: Any) -> Any:
            tuning, drawing = jax.random.split(key)
            adaptation = blackjax.window_adaptation(
                blackjax.nuts,
                density,
                target_acceptance_rate=settings.target_accept,
                **settings.options,
            )
            (state, parameters), _ = adaptation.run(tuning, position, num_steps=settings.tune)
            kernel = blackjax.nuts(density, **parameters)

            def step(state: Any, key: Any) -> Any:
                state, info = kernel.step(key, state)
                return state, (state.position, _statistics(state, info))

            return jax.lax.scan(step, state, jax.random.split(drawing, settings.draws))[1]

        keys = jax.random.split(jax.random.key(settings.seed), settings.chains)
        draws, stats = jax.device_get(jax.jit(jax.vmap(chain))(keys, points))
    return draws, stats


def _statistics(state: Any, info: Any) -> dict[str, Any]:
    return {
        "n_steps": info.num_integration_steps,
        "lp": state.logdensity,
        "energy": info.energy,
        "acceptance_rate": info.acceptance_rate,
        "diverging": info.is_divergent,
        "tree_depth": info.num_trajectory_expansions,
    }


DRAWERS = {"numpyro": by_numpyro, "blackjax": by_blackjax}
