"""Derivatives of programs: graphc's, and those by finite differences of NumPy's values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import graphc
import graphc.tensor as gt
from tests.fuzz.oracle import NO_RESULT, Expected, Rounding, evaluated
from tests.fuzz.program import Program, every

__all__ = ["Slope", "slope_in", "slopes"]

NARROW = frozenset({"float16", "bfloat16", "float32", "complex64"})

STEP = 1e-4
"""The larger step; the error of the difference is estimated by that of half of it."""

RELATIVE, ABSOLUTE = 1e-6, 1e-8
"""How far a slope may be off, beside the error of the difference."""


@dataclass(frozen=True)
class Slope:
    """The derivative of a sum of weighted outputs, in one direction of the variables.

    Attributes:
        weights: Of the elements of the outputs, by name.
        order: 1, or 2 for the second derivative.
        direction: Of the elements of the variables, by name.
        value: The derivative; None where NumPy's values do not tell.
        within: How far graphc's may be from it.
    """

    weights: dict[str, np.ndarray]
    direction: dict[str, np.ndarray]
    order: int = 1
    value: float | None = None
    within: float = 0.0

    def arguments(self) -> list[np.ndarray]:
        return [*self.weights.values(), *self.direction.values()]


MANY_PARTS = 24
"""In how many parts of a direction it is looked at before a slope counts as wrong."""


def slopes(programs: list[Program], found: list[Expected], parts: int = 1) -> list[Slope | None]:
    """The derivative at each of the cases of a program, of the outputs that the first one has.

    Args:
        programs: The cases.
        found: What NumPy makes of them.
        parts: In how many parts of the direction it is looked whether the derivative is linear.
    """
    program, first = programs[0], found[0]
    if first.error is not None or program.states():
        return [None] * len(programs)
    outputs = [
        i for i, y in enumerate(first.outputs) if y.dtype == "float64" and np.isfinite(y).all()
    ]
    moving = [v.name for v in program.variables if v.dtype == "float64"]
    # In narrower dtypes, what is rounded is more than a step changes.
    if not outputs or not moving or first.dtypes & NARROW:
        return [None] * len(programs)
    cases = [(one, what) for one, what in zip(programs, found, strict=True) if what.error is None]
    if not all(_has_one_shape(*case) for case in cases):
        return [None] * len(programs)
    return [
        _slope(one, what, outputs, moving, parts) if what.error is None else None
        for one, what in zip(programs, found, strict=True)
    ]


ROUNDINGS = range(4)


def _has_one_shape(program: Program, what: Expected) -> bool:
    """Return whether shapes stay as they are where values are rounded otherwise."""
    if not any(call.shape_by_value() for call in every(program.calls)):
        return True
    for seed in ROUNDINGS:
        try:
            _, values = evaluated(program, program.values(), Rounding(seed))
        except NO_RESULT:
            return False
        pairs = zip(program.outputs, what.outputs, strict=True)
        if any(values[name].shape != y.shape for name, y in pairs):
            return False
    return True


def _slope(
    program: Program, what: Expected, outputs: list[int], moving: list[str], parts: int
) -> Slope:
    numbers = np.random.default_rng(program.seed)
    names = {program.outputs[i]: what.outputs[i] for i in outputs}
    values = program.values()
    weights = {name: numbers.uniform(0.5, 1.5, y.shape) for name, y in names.items()}
    direction = {name: numbers.uniform(-1, 1, values[name].shape) for name in moving}

    def cost(step: float, share: float, part: Part) -> np.ndarray:
        """What is differentiated, by outputs, at a step, of which a part is scaled."""
        moved = values | {
            k: values[k] + step * np.where(part[k], share, 1) * d for k, d in direction.items()
        }
        try:
            _, found = evaluated(program, moved, Rounding())
        except NO_RESULT:
            return np.full(len(weights), np.nan)
        if any(found[k].shape != w.shape for k, w in weights.items()):
            return np.full(len(weights), np.nan)
        with np.errstate(all="ignore"):
            return np.array([np.sum(w * found[k]) for k, w in weights.items()])

    none = {k: np.zeros(d.shape, bool) for k, d in direction.items()}
    tried = [{k: numbers.random(d.shape) < 0.5 for k, d in direction.items()} for _ in range(parts)]
    with np.errstate(all="ignore"):
        line = _Line(cost, none)
        if not (what.finite and what.smooth and all(map(line.is_linear, tried))):
            return Slope(weights, direction, _order(program.seed))
        slope, order = line.slope, _order(program.seed)
        scale = abs(np.sum(line.at)) + abs(np.sum(slope.value))
        if order == 1:
            within = RELATIVE * scale + 10 * abs(np.sum(slope.off)) + ABSOLUTE
            return Slope(weights, direction, 1, float(np.sum(slope.value)), float(within))
        is_known = all(map(line.is_quadratic, tried))
        second = float(np.sum(line.second(1.0, none).value))
        within = 1e-3 * (scale + abs(second))
    return Slope(weights, direction, 2, second if is_known else None, float(within))


Part = Mapping[str, np.ndarray]
"""Which elements of the direction are scaled."""


class _Line:
    """The outputs along the direction, or one of which a part is scaled.

    Each is looked at by itself: what is large beside another does not hide that one's kinks.

    Args:
        cost: The outputs' weighted sums, of a step, a scale and a part.
        none: The empty part.
    """

    def __init__(self, cost: Callable[[float, float, Part], np.ndarray], none: Part) -> None:
        self.cost = cost
        self.at = cost(0.0, 1.0, none)
        self.none = none
        self.slope = self.first(1.0, none)
        self.scale = abs(self.at) + abs(self.slope.value)

    def first(self, share: float, part: Part) -> Difference:
        return _differences(lambda h: self.cost(h, share, part), self.at)

    def second(self, share: float, part: Part) -> Difference:
        return _second_difference(lambda h: self.cost(h, share, part), self.at)

    def is_linear(self, part: Part) -> bool:
        """Where it is not linear in the direction, as of ties in a sort, there is no derivative."""
        turned, halves = self.first(-1.0, part), self.first(0.0, part)
        gap = abs(self.slope.value + turned.value - 2 * halves.value)
        errors = np.maximum.reduce([gap, *(abs(x.off) for x in (self.slope, turned, halves))])
        return bool(np.all(errors <= 1e-5 * self.scale))

    def is_quadratic(self, part: Part) -> bool:
        """Whether the second derivative obeys the law of the parallelogram."""
        rest = {k: ~flags for k, flags in part.items()}
        whole, turned = self.second(1.0, self.none), self.second(-1.0, part)
        one, other = self.second(0.0, part), self.second(0.0, rest)
        gap = abs(whole.value + turned.value - 2 * (one.value + other.value))
        error = np.maximum(gap, abs(whole.off))
        return bool(np.all(error <= 2e-4 * (self.scale + abs(whole.value))))


def _order(seed: int) -> int:
    """Of every fourth program the second derivative is compared."""
    return 2 if seed % 8 in {6, 7} else 1


@dataclass(frozen=True)
class Difference:
    """Derivatives by differences, and how far off they may be."""

    value: np.ndarray
    off: np.ndarray


def _differences(cost: Callable[[float], np.ndarray], at: np.ndarray) -> Difference:
    left, right = (
        [(cost(sign * h) - at) / (sign * h) for h in (STEP, STEP / 2)] for sign in (-1, 1)
    )
    wide, narrow = ((a + b) / 2 for a, b in zip(left, right, strict=True))
    # A kink, a jump or noise: the sides, extrapolated to no step, disagree. Each of the slopes
    # between them may be graphc's, and half of the gap is less than what a slope may be off.
    gap = abs((2 * left[1] - left[0]) - (2 * right[1] - right[0]))
    scale = abs(at) + abs(wide)
    kink = (gap > RELATIVE * scale + ABSOLUTE) | (abs(left[1] - right[1]) > 1e-3 * scale)
    value = (4 * narrow - wide) / 3
    return Difference(value, np.where(kink | ~np.isfinite(value), np.inf, wide - narrow))


def _second_difference(cost: Callable[[float], np.ndarray], at: np.ndarray) -> Difference:
    near, middle, far = ((cost(-h), cost(h)) for h in (15 * STEP, 30 * STEP, 60 * STEP))
    narrow, wide = ((sum(x) - 2 * at) / h**2 for x, h in ((near, 15 * STEP), (middle, 30 * STEP)))
    # The first derivative may have a kink; the sides, extrapolated to no step, disagree then.
    sides = [
        2 * (b - 2 * a + at) / (15 * STEP) ** 2 - (c - 2 * b + at) / (30 * STEP) ** 2
        for a, b, c in zip(near, middle, far, strict=True)
    ]
    value = (4 * narrow - wide) / 3
    kink = abs(sides[0] - sides[1]) > 1e-3 * (abs(at) + abs(value))
    return Difference(value, np.where(kink | ~np.isfinite(value), np.inf, wide - narrow))


def slope_in(names: Mapping[str, Any], slope: Slope, seed: int) -> tuple[list[Any], Any]:
    """graphc's derivative, and the inputs of it: the weights and the direction.

    It is a gradient for even seeds, and for odd ones of forward mode; then, for every other one,
    with a direction of which graphc knows no lengths.
    """
    weights = {k: _like(names[k], f"w_{k}") for k in slope.weights}
    direction = {k: _like(names[k], f"d_{k}", known=seed % 4 != 3) for k in slope.direction}
    cost = sum((gt.sum(names[k] * w) for k, w in weights.items()), start=gt.constant(0.0))
    at = [names[k] for k in direction]
    along = _forwards if seed % 2 else _backwards
    for _ in range(slope.order):
        cost = along(cost, at, [*direction.values()])
    return [*weights.values(), *direction.values()], cost


def _forwards(cost: Any, at: list[Any], direction: list[Any]) -> Any:
    return graphc.pushforward(cost, at, direction, disconnected_outputs="ignore")


def _backwards(cost: Any, at: list[Any], direction: list[Any]) -> Any:
    by = graphc.grad(cost, at, disconnected_inputs="ignore")
    parts = (gt.sum(g * d) for g, d in zip(by, direction, strict=True))
    return sum(parts, start=gt.constant(0.0))


def _like(x: Any, name: str, known: bool = True) -> Any:
    shape = x.type.shape if known else (None,) * x.ndim
    return gt.tensor(name, dtype="float64", shape=shape)
