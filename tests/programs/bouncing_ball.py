"""A ball that falls, and bounces where it meets the floor: a choice in each step."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc
import graphc.tensor as pt

HEIGHT, BOUNCE, DT = 1.0, 0.8, 0.01


def program() -> list[Any]:
    height, bounce = pt.scalars("height", "bounce")

    def step(y: Any, v: Any) -> Any:
        v = v - 9.81 * DT
        y = y + v * DT
        return graphc.cond(
            (y < 0) & (v < 0), lambda y, v: [-bounce * y, -bounce * v], lambda y, v: [y, v], y, v
        )

    y, v = graphc.scan(step, outputs_info=[height, 0.0], n_steps=150)
    crossed = graphc.scan(
        lambda now, count: count + (now < 0.05), sequences=y, outputs_info=0, name="low"
    )
    outputs = [y, v[-1], crossed[-1], *graphc.grad(y[-1], [height, bounce])]
    return list(graphc.function([height, bounce], outputs)(HEIGHT, BOUNCE))


def run(y: Any, bounce: Any) -> tuple[list[Any], Any]:
    """The heights and the last speed."""
    v, heights = 0.0, []
    for _ in range(150):
        v = v - 9.81 * DT
        y = y + v * DT
        if y.real < 0 and v.real < 0:
            y, v = -bounce * y, -bounce * v
        heights.append(y)
    return heights, v


def expected() -> list[Any]:
    heights, v = run(HEIGHT, BOUNCE)
    by_height = run(HEIGHT + 1e-20j, BOUNCE)[0][-1].imag / 1e-20
    by_bounce = run(HEIGHT, BOUNCE + 1e-20j)[0][-1].imag / 1e-20
    low = sum(y < 0.05 for y in heights)
    return [np.array(heights), v, low, by_height, by_bounce]
