"""The likelihood of a hidden Markov chain by recursion, its gradient and its Hessian."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

import graphc
import graphc.tensor as pt

SEEN = np.array([0, 2, 1, 1, 0])
START = np.array([0.2, -0.3])
MOVES = np.array([[0.5, -0.5], [-0.1, 0.4]])
SHOWS = np.array([[0.3, 0.1, -0.4], [-0.2, 0.6, 0.2]])


def program() -> list[Any]:
    seen = pt.lvector("seen")
    start, moves, shows = pt.vector("start"), pt.matrix("moves"), pt.matrix("shows")
    log_start = pt.log_softmax(start)
    log_moves = pt.log_softmax(moves, axis=1)
    log_shows = pt.log_softmax(shows, axis=1)

    def step(y: Any, alpha: Any) -> Any:
        return log_shows[:, y] + pt.logsumexp(alpha[:, None] + log_moves, axis=0)

    alphas = graphc.scan(step, sequences=seen[1:], outputs_info=log_start + log_shows[:, seen[0]])
    likelihood = pt.logsumexp(alphas[-1])
    # The slopes by the logarithms of the start are the probabilities of the first state.
    first = graphc.grad(likelihood, start)
    f = graphc.function(
        [seen, start, moves, shows],
        [likelihood, first, graphc.hessian(likelihood, start), graphc.grad(likelihood, moves)],
    )
    return list(f(SEEN, START, MOVES, SHOWS))


def likelihood(start: Any, moves: Any) -> Any:
    """The sum over all paths of the hidden chain."""

    def shares(x: Any) -> Any:
        return np.exp(x) / np.exp(x).sum(-1, keepdims=True)

    p, a, b = shares(start), shares(moves), shares(SHOWS)
    total = 0
    for path in product(range(2), repeat=len(SEEN)):
        weight = p[path[0]] * b[path[0], SEEN[0]]
        for before, now, y in zip(path, path[1:], SEEN[1:], strict=False):
            weight = weight * a[before, now] * b[now, y]
        total = total + weight
    return np.log(total)


def expected() -> list[Any]:
    def by_start(x: Any) -> Any:
        return np.array([likelihood(x + 1e-20j * d, MOVES).imag / 1e-20 for d in np.eye(2)])

    by_moves = np.zeros((2, 2))
    for place in np.ndindex(2, 2):
        moved = MOVES.astype(complex)
        moved[place] += 1e-20j
        by_moves[place] = likelihood(START, moved).imag / 1e-20
    h = 1e-3
    hessian = [
        (
            8 * (by_start(START + h * d) - by_start(START - h * d))
            - (by_start(START + 2 * h * d) - by_start(START - 2 * h * d))
        )
        / (12 * h)
        for d in np.eye(2)
    ]
    return [likelihood(START, MOVES), by_start(START), np.array(hessian), by_moves]
