"""A case of a loop: a graph, and a plain Python loop over NumPy arrays that it must equal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from graphc.ir import TensorType, is_inexact
from tests.contract.differences import difference, slopes
from tests.contract.values import plain

__all__ = ["CASES", "LoopCase", "case"]

Array = np.ndarray[Any, Any]
Pair = Callable[[], tuple[Callable[..., Any], Callable[..., Any]]]


@dataclass(frozen=True)
class LoopCase:
    """A graph with loops, and what it must give.

    Attributes:
        name: What it is about.
        given: Values of its inputs.
        build: Takes symbolic arrays; one array or several.
        plain: Takes NumPy arrays, and loops over them.
        order: How many derivatives are compared with differences.
        felt: What reverse mode sees where that is not all of the loop: takes the values of the
            inputs as they are, and as they move, and gives the outputs.
        static: The lengths are part of the types.
        refused: What the error says of a backend, by its name, that cannot do it.
    """

    name: str
    given: tuple[Array, ...]
    build: Callable[..., Any]
    plain: Callable[..., Any]
    order: int = 2
    felt: Callable[..., Any] | None = None
    static: bool = False
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def wrt(self) -> list[int]:
        """The places of the inputs that derivatives are taken by."""
        return [i for i, x in enumerate(self.given) if is_inexact(x.dtype.name)]

    def symbols(self) -> list[Any]:
        """An input for each value."""
        shapes = [x.shape if self.static else (None,) * x.ndim for x in self.given]
        return [
            TensorType(x.dtype.name, shape)(f"x{i}")
            for i, (x, shape) in enumerate(zip(self.given, shapes, strict=True))
        ]

    @cached_property
    def values(self) -> list[Array]:
        """What the plain loop gives."""
        return several(self.plain(*self.given))

    @cached_property
    def weights(self) -> list[Array]:
        """For each output, how much of each element is in the cost; zero for integers."""
        found = []
        for i, y in enumerate(self.values):
            w = np.random.default_rng(100 + i).uniform(0.5, 1.5, y.shape)
            w = w * np.resize([1, -1, 1], y.shape)
            found.append(w - 0.5j * w[::-1] if y.ndim and y.dtype.kind == "c" else w)
        return found

    @cached_property
    def directions(self) -> list[Array]:
        """How each input moves, of those that derivatives are taken by."""
        found = []
        for i in self.wrt:
            x = self.given[i]
            rng = np.random.default_rng(200 + i)
            d = rng.uniform(-1, 1, x.shape)
            d = d + 1j * rng.uniform(-1, 1, x.shape) if x.dtype.kind == "c" else d
            found.append(np.asarray(d, x.dtype))
        return found

    def moved(self, xs: tuple[Array, ...]) -> list[Array]:
        """The inputs, with these for those that derivatives are taken by."""
        found = list(self.given)
        for i, x in zip(self.wrt, xs, strict=True):
            found[i] = x
        return found

    def cost(self, *xs: Array) -> Any:
        """The weighted sum of the outputs as reverse mode sees them."""
        moved = self.moved(xs)
        ys = self.plain(*moved) if self.felt is None else self.felt(self.given, moved)
        pairs = zip(self.weights, several(ys), strict=True)
        return sum(np.sum((np.conj(w) * y).real) for w, y in pairs if y.dtype.kind in "fc")

    @cached_property
    def slopes(self) -> list[Array]:
        """The gradient of the cost, by differences."""
        return slopes(self.cost, [self.given[i] for i in self.wrt])

    @cached_property
    def second(self) -> list[Array]:
        """The slopes of the slope of the cost along the directions."""

        def along(*xs: Array) -> Any:
            return self._along(self.cost, xs)

        return slopes(along, [self.given[i] for i in self.wrt])

    @cached_property
    def tangents(self) -> list[Array]:
        """How the outputs move along the directions."""

        def flat(*xs: Array) -> Array:
            ys = several(self.plain(*self.moved(xs)))
            return np.concatenate([np.ravel(y) for y in ys if y.dtype.kind in "fc"])

        inexact = [y for y in self.values if y.dtype.kind in "fc"]
        if not inexact:
            return []
        whole = self._along(flat, tuple(self.given[i] for i in self.wrt))
        cuts = np.cumsum([y.size for y in inexact])[:-1]
        pairs = zip(np.split(whole, cuts), inexact, strict=True)
        return [part.reshape(y.shape) for part, y in pairs]

    def _along(self, f: Callable[..., Any], xs: tuple[Array, ...]) -> Any:
        def at(t: float) -> Any:
            return f(*(x + t * d for x, d in zip(xs, self.directions, strict=True)))

        return difference(at, 0.0, 1.0)


def several(ys: Any) -> list[Array]:
    """Arrays, whether one or several are given."""
    return [np.asarray(y) for y in (ys if isinstance(ys, list | tuple) else [ys])]


CASES: dict[str, LoopCase] = {}
"""Every case by its name."""


def case(*given: Any, **options: Any) -> Callable[[Pair], Pair]:
    """Enter a case: the function gives its graph and its plain loop, and its name says what it is.

    Args:
        given: Values of its inputs; a tuple of lengths for some numbers.
        options: Other fields of ``LoopCase``.
    """
    values = tuple(
        np.asarray(0.6 * plain("float64", x, 10 + i) if isinstance(x, tuple) else x)
        for i, x in enumerate(given)
    )

    def enter(pair: Pair) -> Pair:
        name = pair.__name__.replace("_", " ")
        assert name not in CASES, name
        build, loop = pair()
        CASES[name] = LoopCase(name, values, build, loop, **options)
        return pair

    return enter
