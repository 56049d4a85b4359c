"""The settings of a sampler, the points where its chains begin, and its library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from graphc.compile.mode import Mode
from graphc.errors import ArgumentError
from graphc.interop.pymc.model import ValueLayout

JITTER = 1.0
"""Chains begin at the initial point, moved by up to this in each direction, as PyMC's do."""


TRIES = 20
"""How often a chain's first point is drawn until its log-density and gradient are finite."""


@dataclass(frozen=True)
class Settings:
    """The arguments of a sampler.

    Attributes:
        model: The model, PyMC's.
        layout: The layout of its value variables in a flat vector.
        middle: The initial point, flat. PyTensor computes it, which is not for threads.
        mode: The mode of graphc's functions.
        draws: Number of draws of each chain that are returned.
        tune: Number of draws before these, in which the sampler adapts.
        chains: Number of chains.
        seed: Seed of the generators.
        target_accept: The acceptance rate that the step size is adapted to.
        options: The sampler's own options.
    """

    model: Any
    layout: ValueLayout
    middle: np.ndarray[Any, Any]
    mode: Mode
    draws: int
    tune: int
    chains: int
    seed: int
    target_accept: float
    options: dict[str, Any] = field(default_factory=dict)


Draws = tuple[np.ndarray[Any, Any], Mapping[str, np.ndarray[Any, Any]]]
"""Flat vectors, (chains, draws, size), and the sampler's statistics, (chains, draws)."""


def starts(
    settings: Settings, density: Callable[[np.ndarray[Any, Any]], Any]
) -> np.ndarray[Any, Any]:
    """Return the first points of chains: the initial point with jitter.

    Args:
        settings: The arguments of the sampler.
        density: Takes points, (chains, size), and returns log-densities and gradients.

    Raises:
        ArgumentError: If no point is found where these are finite.
    """
    rng = np.random.default_rng(settings.seed)
    middle = settings.middle
    points = np.tile(middle, (settings.chains, 1))
    wrong = np.ones(settings.chains, bool)
    for _ in range(TRIES):
        jitter = rng.uniform(-JITTER, JITTER, points.shape).astype(points.dtype)
        points = np.where(wrong[:, None], middle + jitter, points)
        value, gradient = (np.asarray(y) for y in density(points))
        wrong = ~(np.isfinite(value) & np.isfinite(gradient).all(-1))
        if not wrong.any():
            return points
    raise ArgumentError(
        f"sample: the log-density or its gradient is not finite near the initial point, in {TRIES} "
        "tries.",
        "model.point_logps() shows which variable; initval= of a variable says where to begin.",
    )


def library(name: str, sampler: str) -> Any:
    """Import the module of a sampler.

    Raises:
        ModuleNotFoundError: If the module is not installed.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.split(".", maxsplit=1)[0]:
            raise
        raise ModuleNotFoundError(
            f"sample: sampler={sampler!r} needs {error.name}.\n"
            f"Install it: pip install {error.name}.",
            name=error.name,
        ) from error
