"""A differential equation by Runge-Kutta steps, written out, and its sensitivities."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc
import graphc.tensor as pt

RATES = np.array([1.1, 0.4, 0.1, 0.4])
STEPS, SIZE = 20, 0.05


def program() -> list[Any]:
    rates = pt.vector("rates")
    prey, hunters = pt.scalars("prey", "hunters")

    def slope(state: Any) -> Any:
        a, b = state
        return rates[0] * a - rates[1] * a * b, rates[2] * a * b - rates[3] * b

    state = (prey, hunters)
    path = []
    for _ in range(STEPS):
        k1 = slope(state)
        k2 = slope(tuple(s + SIZE / 2 * k for s, k in zip(state, k1, strict=True)))
        state = tuple(s + SIZE * k for s, k in zip(state, k2, strict=True))
        path.append(pt.stack(state))
    slopes = graphc.grad(state[0], [rates, prey])
    f = graphc.function([rates, prey, hunters], [pt.stack(path), *slopes])
    return f(RATES, 10.0, 5.0)


def expected() -> list[Any]:
    def last(rates: Any, prey: float) -> Any:
        def slope(state: Any) -> Any:
            a, b = state
            return np.array([rates[0] * a - rates[1] * a * b, rates[2] * a * b - rates[3] * b])

        state, path = np.array([prey, 5.0]), []
        for _ in range(STEPS):
            state = state + SIZE * slope(state + SIZE / 2 * slope(state))
            path.append(state)
        return np.array(path)

    h = 1e-5
    moved = np.eye(4) * h
    by_rates = [(last(RATES + d, 10.0) - last(RATES - d, 10.0))[-1, 0] / (2 * h) for d in moved]
    by_prey = (last(RATES, 10.0 + h) - last(RATES, 10.0 - h))[-1, 0] / (2 * h)
    return [last(RATES, 10.0), np.array(by_rates), by_prey]
