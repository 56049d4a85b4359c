"""Random products, quotients and sums of exponentials and shares in them, of any shapes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.ir import Node
from graphc.tensor.special.special import Softmax

__all__ = ["Product", "random_product"]

LENGTHS = (2, 3, 2)
"""What all broadcast to, but where an axis is expanded."""


@dataclass(frozen=True)
class Product:
    """A graph, and values for its inputs."""

    y: Node
    values: dict[Node, Any]


def random_product(seed: int) -> Product:
    """The same one for the same seed."""
    return _Maker(np.random.default_rng(seed)).product()


class _Maker:
    def __init__(self, random: np.random.Generator) -> None:
        self.random = random
        self.values: dict[Node, Any] = {}
        self.numbers = [self.number() for _ in range(random.integers(1, 4))]
        self.parts = [self.chosen(PARTS)(self, self.chosen(self.numbers)) for _ in range(3)]

    def product(self) -> Product:
        """Two factors that make something together, with anything between."""
        f, y = self.chosen(MATCHES)(self, self.chosen(self.numbers))
        if self.random.random() < 0.3:
            f, y = 1 / f, 1 / y
        self.parts.append(f)
        for _ in range(self.random.integers(0, 4)):
            y = self.step(y)
        y = y * f
        for _ in range(self.random.integers(0, 2)):
            y = self.step(y)
        return Product(gt.as_tensor(y), self.values)

    def step(self, y: Any) -> Any:
        self.parts.append(y)
        return self.chosen(STEPS)(self, y, self.chosen(self.parts))

    def chosen(self, from_: Any) -> Any:
        return from_[self.random.integers(len(from_))]

    def number(self) -> Any:
        """An input whose lengths are 1 or those of all; these may be unknown."""
        ndim = self.random.integers(0, 4)
        lengths = [self.chosen((1, n, n)) for n in LENGTHS[3 - ndim :]]
        shape = tuple(None if n > 1 and self.random.random() < 0.2 else n for n in lengths)
        x = gt.tensor(f"x{len(self.values)}", shape=shape)
        self.values[x] = np.asarray(self.random.normal(size=lengths))
        return x

    def axes(self, ndim: int) -> tuple[int, ...]:
        return tuple(i for i in range(ndim) if self.random.random() < 0.5)

    def part(self) -> Any:
        return self.chosen(self.parts)

    def some(self) -> Any:
        return self.chosen((1.0, 1.0, 2.0, 3.0))


def summed(maker: _Maker, x: Any) -> Any:
    y = gt.exp(x)
    if maker.random.random() < 0.3:
        y = y * gt.square(maker.chosen(maker.numbers))
    keepdims = maker.random.random() < 0.7
    return gt.sum(y, maker.axes(y.type.ndim) if keepdims else None, keepdims=keepdims)


def with_other(maker: _Maker, x: Any) -> Any:
    return gt.exp(x) + maker.some() * gt.exp(maker.chosen([*maker.numbers, -x]))


def softmax(maker: _Maker, x: Any) -> Any:
    axes = maker.axes(x.type.ndim)
    return gt.Tensor.make(Softmax(axes), x) if axes else gt.sigmoid(x)


Match = tuple[Any, Any]


def in_sum(maker: _Maker, x: Any) -> Match:
    """An exponential, and what it is divided by: a sum of it and others."""
    x = gt.as_tensor(maker.some() * x)
    terms = [gt.exp(x) for _ in range(maker.random.integers(1, 3))]
    others = maker.random.integers(0, 3)
    terms += [gt.exp(maker.chosen([*maker.numbers, -x])) for _ in range(others)]
    if len(terms) == 1 or maker.random.random() < 0.3:
        terms.append(gt.constant(maker.some()))
    maker.random.shuffle(terms)
    y = maker.some() * terms[0]
    for other in terms[1:]:
        y = y + maker.some() * other
    return gt.exp(x), 1 / y


def in_sum_of_slice(maker: _Maker, x: Any) -> Match:
    weighted = gt.exp(x)
    if maker.random.random() < 0.5:
        weighted = weighted * gt.square(maker.chosen(maker.numbers))
    if maker.random.random() < 0.5:
        y = gt.sum(weighted, maker.axes(weighted.type.ndim), keepdims=True)
    else:
        y = gt.sum(weighted)
    return gt.exp(x), 1 / y


def in_difference(maker: _Maker, x: Any) -> Match:
    other = gt.exp(maker.chosen(maker.numbers))
    y = gt.exp(x) - other
    return maker.chosen([gt.exp(x), other]), 1 / maker.chosen([y, -y])


MATCHES: list[Callable[[_Maker, Any], Match]] = [
    in_sum,
    in_sum,
    in_sum,
    in_sum_of_slice,
    in_sum_of_slice,
    in_difference,
    lambda maker, x: (gt.exp(x), gt.exp(-x)),
    lambda maker, x: (gt.exp(-2 * x), gt.exp(maker.chosen([2.0, 3.0]) * x)),
    lambda maker, x: (gt.exp(x), gt.sigmoid(-x)),
    lambda maker, x: (gt.exp(x), 1 / gt.sigmoid(x)),
    lambda maker, x: (gt.sigmoid(x), 1 / gt.sigmoid(-x)),
    lambda maker, x: (gt.exp(x), 1 / gt.expm1(x)),
    lambda maker, x: (gt.exp(x), gt.expm1(-x)),
    lambda maker, x: (gt.expm1(x), gt.sigmoid(-x)),
    lambda maker, x: (gt.sinh(x), 1 / gt.cosh(x)),
    lambda maker, x: (gt.sinh(x), 1 / (gt.exp(x) + gt.exp(-x))),
    lambda maker, x: (gt.exp(gt.square(x)), gt.erfc(x)),
    lambda maker, x: (gt.exp(gt.square(2 * x)), gt.erfc(-2 * x)),
    lambda maker, x: (softmax(maker, x), 1 / softmax(maker, x)),
    lambda maker, x: (gt.exp(x), 1 / gt.exp(x)),
    lambda maker, x: (gt.expm1(x), 1 / (gt.exp(x) + 1)),
]


PARTS: list[Callable[[_Maker, Any], Any]] = [
    lambda maker, x: gt.exp(x),
    lambda maker, x: gt.exp(x),
    lambda maker, x: gt.exp(-x),
    lambda maker, x: maker.some() + maker.some() * gt.exp(x),
    lambda maker, x: gt.exp(x) / (1 + gt.exp(x)),
    lambda maker, x: 1 / (1 + gt.exp(-x)),
    lambda maker, x: gt.sigmoid(x),
    lambda maker, x: gt.sigmoid(-x),
    lambda maker, x: gt.expm1(x),
    lambda maker, x: gt.exp(x) - gt.exp(maker.chosen(maker.numbers)),
    lambda maker, x: gt.sinh(x),
    lambda maker, x: gt.cosh(x),
    lambda maker, x: gt.exp(gt.square(x)) * gt.erfc(x),
    lambda maker, x: x,
    lambda maker, x: gt.square(x) + maker.some(),
    with_other,
    with_other,
    summed,
    summed,
    softmax,
]


def expanded(maker: _Maker, a: Any, b: Any) -> Any:
    """Another length than the one of all would not go with it, so it is at the front."""
    if a.type.ndim > 1:
        return gt.sum(a, maker.axes(a.type.ndim), keepdims=True)
    return gt.expand_dims(a, tuple(range(maker.random.integers(0, 2))))


def broadcast(maker: _Maker, a: Any, b: Any) -> Any:
    lengths = gt.broadcast_arrays(a, b)
    return lengths[0]


def total(maker: _Maker, a: Any, b: Any) -> Any:
    """Summed, and multiplied or divided again."""
    axes = maker.axes(a.type.ndim)
    return b / gt.sum(a, axes, keepdims=True) if axes else gt.sum(a) * b


def part_of_axes(maker: _Maker, a: Any, b: Any) -> Any:
    """A factor that was computed without an axis and gets it back."""
    if not a.type.ndim:
        return a * b
    axis = int(maker.random.integers(a.type.ndim))
    return gt.expand_dims(gt.sum(a, axis) / maker.some(), axis) * b


STEPS: list[Callable[[_Maker, Any, Any], Any]] = [
    lambda maker, a, b: a * b,
    lambda maker, a, b: a * b,
    lambda maker, a, b: a * b,
    lambda maker, a, b: a / b,
    lambda maker, a, b: a / b,
    lambda maker, a, b: a / b,
    lambda maker, a, b: b / a,
    lambda maker, a, b: b / a,
    lambda maker, a, b: -a,
    lambda maker, a, b: gt.square(a),
    lambda maker, a, b: a + b,
    lambda maker, a, b: a - b,
    lambda maker, a, b: a * b + a / maker.part(),
    lambda maker, a, b: a * b - a * maker.part(),
    lambda maker, a, b: a / b - a / (b * maker.part()),
    lambda maker, a, b: -a / gt.square(b) - maker.part() * a / b,
    lambda maker, a, b: a * maker.part() - b * maker.part(),
    lambda maker, a, b: b * (a / maker.part() - a * maker.part()),
    lambda maker, a, b: maker.some() * a,
    expanded,
    broadcast,
    total,
    part_of_axes,
]
