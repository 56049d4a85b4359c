"""A season of an epidemic with an incubation time, fitted by steps of Gauss and Newton."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc
import graphc.tensor as pt

DAYS, DELAY = 12, 3
TRUTH = np.array([0.9, 0.35])


def season(rates: Any, n: int = DAYS) -> Any:
    """The infected of each day, in NumPy."""
    spread, heal = rates
    infected, healthy = [0.01] * DELAY, [0.97]
    for _ in range(n):
        new = spread * healthy[-1] * infected[-DELAY]
        infected.append(infected[-1] * (1 - heal) + new)
        healthy.append(healthy[-1] - new)
    return np.array(infected[DELAY:])


def program() -> list[Any]:
    rates, seen = pt.vector("rates"), pt.vector("seen")

    def step(earlier: Any, infected: Any, healthy: Any, spread: Any, heal: Any) -> list[Any]:
        new = spread * healthy * earlier
        return [infected * (1 - heal) + new, healthy - new]

    infected, *_ = graphc.scan(
        step,
        outputs_info=[
            {"initial": pt.full((DELAY,), 0.01), "taps": [-DELAY, -1]},
            pt.constant(0.97),
        ],
        non_sequences=[rates[0], rates[1]],
        n_steps=DAYS,
    )
    slopes = graphc.jacobian(infected, rates)
    m, g = slopes.T @ slopes, slopes.T @ (seen - infected)
    turned = pt.stack([m[1, 1] * g[0] - m[0, 1] * g[1], m[0, 0] * g[1] - m[1, 0] * g[0]])
    better = rates + turned / (m[0, 0] * m[1, 1] - m[0, 1] * m[1, 0])
    f = graphc.function([rates, seen], [infected, better])
    point, found = np.array([0.7, 0.3]), []
    for _ in range(8):
        infected_now, point = f(point, season(TRUTH))
        found.append(np.asarray(infected_now))
    return [found[0], np.asarray(point)]


def expected() -> list[Any]:
    return [season([0.7, 0.3]), TRUTH]
