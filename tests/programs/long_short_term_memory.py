"""A network with a memory, whose state is a dictionary, and its gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

import graphc
import graphc.tensor as pt

RNG = np.random.default_rng(8)
INPUTS = RNG.normal(size=(5, 2, 3))
WEIGHTS = [RNG.normal(0, 0.5, (3, 8)), RNG.normal(0, 0.5, (2, 8)), RNG.normal(0, 0.1, 8)]


def program() -> list[Any]:
    x = pt.tensor3("x")
    w, u, b = pt.matrix("w"), pt.matrix("u"), pt.vector("b")

    def step(state: Any, x_t: Any) -> Any:
        z = x_t @ w + state["hidden"] @ u + b
        take, keep, give = (pt.sigmoid(z[:, i : i + 2]) for i in (0, 2, 4))
        cell = keep * state["cell"] + take * pt.tanh(z[:, 6:])
        hidden = give * pt.tanh(cell)
        return {"hidden": hidden, "cell": cell}, hidden

    zeros = pt.zeros((x.shape[1], 2))
    last, rows = graphc.loop(step, {"cell": zeros, "hidden": zeros}, x, name="memory")
    cost = (rows**2).mean() + last["cell"].sum()
    outputs = [rows, last, cost, graphc.grad(cost, [w, u, b])]
    rows, last, cost, slopes = graphc.function([x, w, u, b], outputs)(INPUTS, *WEIGHTS)
    return [rows, last["cell"], last["hidden"], cost, *slopes]


def run(w: Any, u: Any, b: Any) -> tuple[Any, Any, float]:
    """The rows, the last cell, and the cost."""
    cell = hidden = np.zeros((2, 2))
    rows = []
    for x_t in INPUTS:
        z = x_t @ w + hidden @ u + b
        take, keep, give = (expit(z[:, i : i + 2]) for i in (0, 2, 4))
        cell = keep * cell + take * np.tanh(z[:, 6:])
        hidden = give * np.tanh(cell)
        rows.append(hidden)
    found = np.array(rows)
    return found, cell, float((found**2).mean() + cell.sum())


def expected() -> list[Any]:
    rows, cell, cost = run(*WEIGHTS)
    slopes = []
    for i, value in enumerate(WEIGHTS):
        slope = np.zeros_like(value)
        for place in np.ndindex(value.shape):
            moved = []
            for h in (1e-4, -1e-4, 2e-4, -2e-4):
                weights = [x.copy() for x in WEIGHTS]
                weights[i][place] += h
                moved.append(run(*weights)[2])
            slope[place] = (8 * (moved[0] - moved[1]) - (moved[2] - moved[3])) / 12e-4
        slopes.append(slope)
    return [rows, cell, rows[-1], cost, *slopes]
