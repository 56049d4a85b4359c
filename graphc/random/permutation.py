"""Things in another order, and things chosen among others."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, DTypeError, ShapeError
from graphc.ir import here, is_integer, promote, where
from graphc.loop.functional import loop
from graphc.random.bits import Lengths, random_bits
from graphc.random.distribution import batch_lengths, entered, float_dtype, rng_of, with_next
from graphc.random.gumbel import gumbels
from graphc.random.integers import integers_from
from graphc.random.keys import split
from graphc.random.uniform import uniforms
from graphc.tensor.axes import moveaxis
from graphc.tensor.broadcast import broadcast_to
from graphc.tensor.create import arange
from graphc.tensor.cumulative import cumsum
from graphc.tensor.elementwise import cast, greater
from graphc.tensor.exponential import log
from graphc.tensor.select import take_along_axis
from graphc.tensor.shape import length, lengths, reshape
from graphc.tensor.sort import argsort, searchsorted, top_k
from graphc.tensor.tensor import Tensor, as_tensor, axes_of

__all__: list[str] = []

ROUNDS = tuple(math.ceil(0xFFFFFFFF ** (i / 3)) for i in range(5))
"""The least numbers of things that take 1, 2, ... rounds, but for the first: one thing takes none.

So many that two things have other bits in one of the rounds, but for one time in many.
"""


def _rounds(n: int | Tensor) -> Any:
    least = (2, *ROUNDS[1:])
    if isinstance(n, int):
        return len([m for m in least if n >= m])
    return sum(cast(greater(n, m - 1), "int64") for m in least)


def orders(keys: Tensor, n: int | Tensor) -> Tensor:
    """For each key an order of so many things, those of ``jax.random.permutation``.

    They are sorted by random bits, as often as it takes for equal bits not to matter.
    """

    def step(state: tuple[Tensor, Tensor], _: None) -> tuple[tuple[Tensor, Tensor], None]:
        keys, order = state
        parts = split(keys)
        sorting = argsort(random_bits(parts[..., 1, :], (n,)), -1, stable=True)
        return (parts[..., 0, :], take_along_axis(order, sorting, -1)), None

    state = keys, broadcast_to(arange(n), (*lengths(keys)[:-1], n))
    rounds = _rounds(n)
    if not isinstance(rounds, int):
        return loop(step, state, n_steps=rounds, name="permutation")[0][1]  # type: ignore[no-any-return]
    for _ in range(rounds):
        state, _none = step(state, None)
    return state[1]


def _things(title: str, x: Any, axis: int) -> tuple[Tensor | None, int | Tensor, int]:
    """An array, the length of the axis, and the axis; of an integer no array, and itself."""
    x = as_tensor(x)
    if x.ndim:
        (at,) = axes_of(title, axis, x.ndim)
        return x, length(x, at), at
    if not is_integer(x.dtype):
        raise DTypeError(
            f"{title}: {x!r} is neither an array with axes nor an integer, a number of things.",
            "",
            where(here()),
        )
    (n,) = batch_lengths(title, (x,), [], [])
    return None, n, 0


def _taken(x: Tensor | None, places: Tensor, axis: int) -> Tensor:
    """Things at places, whose last axis stands where theirs does and the others in front."""
    if x is None:
        return places
    batch = places.ndim - 1
    return moveaxis(moveaxis(x, axis, 0)[places], batch, batch + axis)


@entered
def permutation(
    x: Any,
    size: Any = None,
    rng: Any = None,
    return_next_rng: bool = False,
    *,
    axis: int = 0,
) -> Any:
    """Things in another order, all orders equally likely: those of ``jax.random.permutation``.

    Args:
        x: An array, whose slices along the axis change places; or an integer, also symbolic, for
            the numbers from 0 on and below it.
        size: The shape of a batch of permutations, each with its own part of the key.
        rng: The key, as for ``uniform``.
        return_next_rng: Give a pair: the next key, and the permutation.
        axis: The axis.

    Returns:
        An array of x's shape and dtype, that of the batch in front.

    Raises:
        DTypeError: A scalar that is no integer.
        ShapeError: x has no such axis.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.permutation(5, rng=gt.random.key(0)).eval(mode="NUMPY").tolist()
        [0, 1, 4, 3, 2]
    """
    things, n, at = _things("permutation", x, axis)
    key = rng_of("permutation", rng)
    batch = () if size is None else tuple(batch_lengths("permutation", size, [], []))
    places = orders(split(key, batch) if batch else key, n)
    return with_next(key, _taken(things, places, at), return_next_rng)


@entered
def choice(  # noqa: PLR0913 (PyTensor's arguments)
    a: Any,
    size: Any = None,
    replace: bool = True,
    p: Any = None,
    rng: Any = None,
    return_next_rng: bool = False,
    *,
    axis: int = 0,
) -> Any:
    """Things chosen among others: the draws of ``jax.random.choice``.

    Args:
        a: An array, of whose slices along the axis some are chosen; or an integer, also symbolic,
            for the numbers from 0 on and below it.
        size: How many are chosen: the shape that they stand in. One without it.
        replace: Whether one may be chosen again.
        p: The probability of each, or numbers in proportion to it, none below 0; all are equally
            likely by default. What has probability 0 is chosen last where none is chosen again.
        rng: The key, as for ``uniform``.
        return_next_rng: Give a pair: the next key, and the choice.
        axis: The axis.

    Returns:
        An array of a's dtype, the axis replaced by those of ``size``.

    Raises:
        ArgumentError: More are to be chosen than there are, and none twice.
        DTypeError: A scalar that is no integer.
        ShapeError: a has no such axis; p is no vector, or of another length.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.random.choice([10, 20, 30], size=5, p=[0.5, 0.5, 0.0], rng=gt.random.key(0))
        >>> x.eval(mode="NUMPY").tolist()
        [20, 20, 10, 10, 10]
    """
    things, n, at = _things("choice", a, axis)
    key = rng_of("choice", rng)
    shape = () if size is None else tuple(batch_lengths("choice", size, [], []))
    weights = None if p is None else _weights(p, n)
    places = _chosen(key, shape, n, weights) if replace else _apart(key, shape, n, weights)
    if things is not None:
        rest = lengths(things)
        chosen = moveaxis(things, at, 0)[reshape(places, (-1,))]
        places = reshape(moveaxis(chosen, 0, at), (*rest[:at], *shape, *rest[at + 1 :]))
    return with_next(key, places, return_next_rng)


def _weights(p: Any, n: int | Tensor) -> Tensor:
    p = as_tensor(p, dtype=promote(float_dtype([p]), "float32"))
    known = p.type.shape[0] if p.ndim == 1 else -1
    if p.ndim != 1 or (isinstance(n, int) and known not in {n, None}):
        raise ShapeError(
            f"choice: the probabilities {p!r} are not one for each of {n} things.",
            "Give a vector of as many.",
            where(here()),
        )
    return p  # type: ignore[no-any-return]


def _chosen(key: Tensor, shape: Lengths, n: int | Tensor, p: Tensor | None) -> Tensor:
    """Places that may come again."""
    if p is None:
        last = as_tensor(n, dtype="int64") - 1
        return integers_from(key, shape, "int64", as_tensor(np.int64(0)), last)
    sums = cumsum(p)
    return searchsorted(sums, sums[-1] * (1 - uniforms(key, shape, p.dtype)))


def _apart(key: Tensor, shape: Lengths, n: int | Tensor, p: Tensor | None) -> Tensor:
    """Places of which none comes again.

    Source: of those by weight, Efraimidis & Spirakis, Information Processing Letters 97, 2006.
    """
    count = math.prod(shape)
    if isinstance(count, int) and isinstance(n, int) and count > n:
        raise ArgumentError(
            f"choice: {count} of {n} things, and none twice.",
            "Leave out replace=False.",
            where(here()),
        )
    if p is None:
        return reshape(orders(key, n)[:count], shape)
    _, places = top_k(gumbels(key, (n,), p.dtype) + log(p), count)
    return reshape(places, shape)
