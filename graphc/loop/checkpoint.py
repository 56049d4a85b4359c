"""A loop as nested loops, whose gradient stores the carries between segments alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isqrt
from typing import Any, Literal

from graphc.errors import ArgumentError
from graphc.loop.arguments import Count
from graphc.loop.build import build
from graphc.loop.loop import Loop
from graphc.loop.step import LoopStep, stand_in
from graphc.tensor.arrays.join import concatenate
from graphc.tensor.core.elementwise import cast, ceil, maximum, sqrt
from graphc.tensor.core.shape import lengths
from graphc.tensor.core.tensor import Tensor

Checkpoint = int | Literal["sqrt"] | None
"""The number of steps that a gradient recomputes from a stored carry; None recomputes none."""


def segment_length(title: str, value: Any, steps: Count) -> Count | None:
    """Return the number of steps between stored carries; None for all steps or no checkpoints."""
    if value is None:
        return None
    if value != "sqrt" and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise ArgumentError(
            f"{title}: checkpoint={value!r}.",
            "Give the number of steps between stored states, or 'sqrt'.",
        )
    k = _near_root(steps) if value == "sqrt" else value
    return None if isinstance(steps, int) and isinstance(k, int) and k >= steps else k


def _near_root(steps: Count) -> Count:
    """Return about the square root of the number of steps, preferably a divisor of it."""
    if isinstance(steps, Tensor):
        return cast(maximum(ceil(sqrt(cast(steps, "float64"))), 1), "int64")
    root = max(isqrt(steps), 1)
    near = [k for k in range(root - root // 3, root + root // 3 + 1) if k and steps % k == 0]
    return min(near, key=lambda k: abs(k - root)) if near else isqrt(max(steps - 1, 0)) + 1


def build_in_segments(
    like: Loop,
    k: Count | None,
    steps: Count,
    init: Sequence[Tensor],
    xs: Sequence[Tensor],
    step: LoopStep,
) -> list[Tensor]:
    """Return the final carries and stacked rows of a loop, in segments of k steps if k is given.

    The full segments are a loop of loops; the remaining steps are another loop.
    """
    if k is None:
        return build(like, steps, None, init, xs, step)
    segments = steps // k
    rest = steps - segments * k
    if like.reverse:
        xs_segments, xs_rest = [x[rest:] for x in xs], [x[:rest] for x in xs]
    else:
        xs_segments, xs_rest = [x[: segments * k] for x in xs], [x[segments * k :] for x in xs]
    results = _build_nested_loops(like, segments, k, init, xs_segments, step)
    if isinstance(rest, int) and not rest:
        return results
    c = len(init)
    last = build(like, rest, None, results[:c], xs_rest, step)
    pairs = list(zip(results[c:], last[c:], strict=True))
    joined = [concatenate(pair[::-1] if like.reverse else pair) for pair in pairs]
    return [*last[:c], *joined]


def _build_nested_loops(
    like: Loop,
    segments: Count,
    k: Count,
    init: Sequence[Tensor],
    xs: Sequence[Tensor],
    step: LoopStep,
) -> list[Tensor]:
    c = len(init)
    segmented = [x.reshape((segments, k, *lengths(x)[1:])) for x in xs]
    carries = [stand_in(x, p.name) for x, p in zip(init, step.carries, strict=True)]
    elements = [stand_in(x, axes=1) for x in segmented]
    inner = build(like, k, None, carries, elements, step)
    outer = replace(like, recompute=True, unroll=1)
    segment_step = LoopStep(carries, elements, inner[:c], inner[c:])
    results = build(outer, segments, None, init, segmented, segment_step)
    rows = [y.reshape((segments * k, *lengths(y)[2:])) for y in results[c:]]
    return [*results[:c], *rows]
