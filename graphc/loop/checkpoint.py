"""A loop as a loop of loops, whose gradient stores the carries between those and no others."""

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


def segment(title: str, given: Any, steps: Count) -> Count | None:
    """The number of steps between stored carries; None for all steps or no checkpoints.

    Raises:
        ArgumentError: It is not a positive integer and not ``"sqrt"``.
    """
    if given is None:
        return None
    if given != "sqrt" and (isinstance(given, bool) or not isinstance(given, int) or given < 1):
        raise ArgumentError(
            f"{title}: checkpoint={given!r}.",
            "Give the number of steps between stored states, or 'sqrt'.",
        )
    k = _root(steps) if given == "sqrt" else given
    return None if isinstance(steps, int) and isinstance(k, int) and k >= steps else k


def _root(steps: Count) -> Count:
    """About the square root of the number of steps; one that divides it where one is near."""
    if isinstance(steps, Tensor):
        return cast(maximum(ceil(sqrt(cast(steps, "float64"))), 1), "int64")
    root = max(isqrt(steps), 1)
    near = [k for k in range(root - root // 3, root + root // 3 + 1) if k and steps % k == 0]
    return min(near, key=lambda k: abs(k - root)) if near else isqrt(max(steps - 1, 0)) + 1


def looped(
    like: Loop,
    k: Count | None,
    steps: Count,
    init: Sequence[Tensor],
    xs: Sequence[Tensor],
    step: LoopStep,
) -> list[Tensor]:
    """The final carries and stacked rows of a loop, in segments of k steps where k is given.

    As many whole segments as there are make a loop of loops; the steps left are another loop.
    """
    if k is None:
        return build(like, steps, None, init, xs, step)
    whole = steps // k
    left = steps - whole * k
    if like.reverse:
        xs_whole, xs_left = [x[left:] for x in xs], [x[:left] for x in xs]
    else:
        xs_whole, xs_left = [x[: whole * k] for x in xs], [x[whole * k :] for x in xs]
    found = _of_segments(like, whole, k, init, xs_whole, step)
    if isinstance(left, int) and not left:
        return found
    c = len(init)
    last = build(like, left, None, found[:c], xs_left, step)
    pairs = list(zip(found[c:], last[c:], strict=True))
    joined = [concatenate(pair[::-1] if like.reverse else pair) for pair in pairs]
    return [*last[:c], *joined]


def _of_segments(
    like: Loop,
    whole: Count,
    k: Count,
    init: Sequence[Tensor],
    xs: Sequence[Tensor],
    step: LoopStep,
) -> list[Tensor]:
    """The results of a loop over segments, each of them a loop over its steps."""
    c = len(init)
    parts = [x.reshape((whole, k, *lengths(x)[1:])) for x in xs]
    carries = [stand_in(x, p.name) for x, p in zip(init, step.carries, strict=True)]
    elements = [stand_in(x, axes=1) for x in parts]
    inner = build(like, k, None, carries, elements, step)
    outer = replace(like, recompute=True, unroll=1)
    segment_step = LoopStep(carries, elements, inner[:c], inner[c:])
    found = build(outer, whole, None, init, parts, segment_step)
    rows = [y.reshape((whole * k, *lengths(y)[2:])) for y in found[c:]]
    return [*found[:c], *rows]
