"""A sampler by given noise: its steps hold a loop, and that the gradient of an energy."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc
import graphc.tensor as pt

RNG = np.random.default_rng(21)
START = np.array([0.5, -1.0])
SPEEDS = RNG.normal(size=(6, 2))
LUCK = RNG.uniform(size=6) ** 0.05
SIZE = 0.45
MATRIX = np.array([[1.0, 0.3], [0.3, 2.0]])


def energy(q: Any) -> Any:
    """Of a place: for symbolic and for plain arrays."""
    return 0.5 * (q @ MATRIX @ q) + 0.1 * (q**4).sum()


def program() -> list[Any]:
    q, size = pt.vector("q", shape=(2,)), pt.scalar("size")
    speeds, luck = pt.matrix("speeds"), pt.vector("luck")

    def leap(q: Any, p: Any) -> Any:
        p = p - 0.5 * size * graphc.grad(energy(q), q)
        q = q + size * p
        return q, p - 0.5 * size * graphc.grad(energy(q), q)

    def propose(p: Any, u: Any, q: Any) -> Any:
        places, ends = graphc.scan(leap, outputs_info=[q, p], n_steps=4)
        before, after = energy(q) + 0.5 * p @ p, energy(places[-1]) + 0.5 * ends[-1] @ ends[-1]
        taken = pt.log(u) < before - after
        return pt.where(taken, places[-1], q), taken

    places, taken = graphc.scan(propose, [speeds, luck], outputs_info=[q, None])
    slopes = graphc.grad(places[-1].sum(), [q, size])
    f = graphc.function([q, size, speeds, luck], [places, taken, *slopes])
    return list(f(START, SIZE, SPEEDS, LUCK))


def run(q: Any, size: float) -> tuple[Any, Any]:
    """The places, and which were taken."""

    def slope(q: Any) -> Any:
        return MATRIX @ q + 0.4 * q**3

    places, taken = [], []
    for speed, u in zip(SPEEDS, LUCK, strict=True):
        new, p = q, speed
        for _ in range(4):
            p = p - 0.5 * size * slope(new)
            new = new + size * p
            p = p - 0.5 * size * slope(new)
        taken.append(np.log(u) < energy(q) + 0.5 * speed @ speed - energy(new) - 0.5 * p @ p)
        q = new if taken[-1] else q
        places.append(q)
    return np.array(places), np.array(taken)


def expected() -> list[Any]:
    places, taken = run(START, SIZE)
    assert 0 < taken.sum() < len(taken)

    def last(q: Any, size: float) -> float:
        return float(run(q, size)[0][-1].sum())

    h = 1e-6
    by_start = [
        (last(START + h * d, SIZE) - last(START - h * d, SIZE)) / (2 * h) for d in np.eye(2)
    ]
    by_size = (last(START, SIZE + h) - last(START, SIZE - h)) / (2 * h)
    return [places, taken, np.array(by_start), by_size]
