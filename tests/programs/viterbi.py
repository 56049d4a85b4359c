"""The likeliest path through a chain of states: scores forwards, then back by the indices kept."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np

import graphc
import graphc.tensor as pt

RNG = np.random.default_rng(12)
EMISSIONS = RNG.normal(size=(7, 3))
MOVES = RNG.normal(size=(3, 3))


def program() -> list[Any]:
    e, moves = pt.matrix("e"), pt.matrix("moves")

    def forwards(e_t: Any, best: Any) -> Any:
        scores = best[:, None] + moves
        return scores.max(axis=0) + e_t, scores.argmax(axis=0)

    best, came_from = graphc.scan(forwards, sequences=e[1:], outputs_info=[e[0], None])
    last = best[-1].argmax()
    path = graphc.scan(
        lambda from_t, state: from_t[state], came_from, outputs_info=last, go_backwards=True
    )
    path = pt.concatenate([path[::-1], last[None]])
    score = best[-1].max()
    f = graphc.function([e, moves], [path, score, *graphc.grad(score, [e, moves])])
    return list(f(EMISSIONS, MOVES))


def expected() -> list[Any]:
    def score(path: Any) -> float:
        emitted = sum(EMISSIONS[t, state] for t, state in enumerate(path))
        return float(emitted + sum(MOVES[a, b] for a, b in pairwise(path)))

    path = max(product(range(3), repeat=7), key=score)
    by_emissions, by_moves = np.zeros((7, 3)), np.zeros((3, 3))
    by_emissions[np.arange(7), path] = 1
    np.add.at(by_moves, (path[:-1], path[1:]), 1)
    return [np.array(path), score(path), by_emissions, by_moves]
