"""Draws from categories and elements: categorical draws, permutations and choices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, DTypeError, ShapeError
from graphc.ir import is_integer, promote
from graphc.loop.functional import loop
from graphc.random import distribution as distributions
from graphc.random.inversion import gumbels
from graphc.random.keys import Lengths, random_bits, split
from graphc.random.uniform import integers_from, uniforms
from graphc.tensor.arrays.broadcast import broadcast_to
from graphc.tensor.arrays.create import arange
from graphc.tensor.arrays.cumulative import cumsum
from graphc.tensor.arrays.reduce import all, any, max, min
from graphc.tensor.arrays.select import take_along_axis
from graphc.tensor.arrays.sort import argsort, searchsorted, top_k
from graphc.tensor.core.axes import moveaxis
from graphc.tensor.core.elementwise import cast, equal, greater, greater_equal, logical_and, where
from graphc.tensor.core.exponential import log
from graphc.tensor.core.shape import length, lengths, reshape
from graphc.tensor.core.tensor import Tensor, TensorLike, as_tensor, axes_of

__all__ = ["categorical", "choice", "permutation"]


def _first_of_largest(x: Tensor, n: int | Tensor) -> Tensor:
    """Return the index of the largest element; XLA fuses this code, unlike ``argmax``."""
    is_largest = equal(x, max(x, -1, keepdims=True))
    return min(where(is_largest, arange(n), n), -1)


@distributions.discrete("(p)->()")
def categorical(key: Tensor, shape: Lengths, dtype: str, p: Tensor) -> Tensor:
    """Draw the index of an outcome, as ``jax.random.categorical`` does for ``log(p)``.

    Args:
        p: The probabilities of the outcomes along the last axis, or numbers proportional to them:
            none negative, and at least one positive. Otherwise a draw is -1.

    Distribution:
        - probability of k: ``p[k] / sum(p)``, where ``0 <= k < len(p)``
        - draws are integers, which have no derivatives

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.random.categorical([0.7, 0.2, 0.1], size=8, rng=gt.random.key(0))
        >>> x.eval(mode="NUMPY").tolist()
        [2, 0, 0, 1, 1, 0, 1, 0]
    """
    outcomes = length(p, -1)
    draws = _first_of_largest(gumbels(key, (*shape, outcomes), p.dtype) + log(p), outcomes)
    valid = logical_and(all(greater_equal(p, 0), -1), any(greater(p, 0), -1))
    return distributions.as_draws(draws, broadcast_to(valid, shape), dtype)


ROUNDS = tuple(math.ceil(0xFFFFFFFF ** (i / 3)) for i in range(5))
"""The smallest numbers of elements that need 1, 2, ... rounds of sorting; the first entry is 2.

With that many rounds, two elements almost surely get different bits in one of them.
"""


def _rounds(n: int | Tensor) -> Any:
    least = (2, *ROUNDS[1:])
    if isinstance(n, int):
        return len([m for m in least if n >= m])
    return sum(cast(greater(n, m - 1), "int64") for m in least)


def orders(keys: Tensor, n: int | Tensor) -> Tensor:
    """Draw a permutation of ``n`` elements for each key, as ``jax.random.permutation`` does.

    The elements are sorted by random bits, repeatedly, so that equal bits do not matter.
    """

    def step(state: tuple[Tensor, Tensor], _: None) -> tuple[tuple[Tensor, Tensor], None]:
        keys, order = state
        new_keys = split(keys)
        order_of_bits = argsort(random_bits(new_keys[..., 1, :], (n,)), -1, stable=True)
        return (new_keys[..., 0, :], take_along_axis(order, order_of_bits, -1)), None

    state = keys, broadcast_to(arange(n), (*lengths(keys)[:-1], n))
    rounds = _rounds(n)
    if not isinstance(rounds, int):
        return loop(step, state, n_steps=rounds, name="permutation")[0][1]
    for _ in range(rounds):
        state, _none = step(state, None)
    return state[1]


def _array_and_axis(title: str, x: Any, axis: int) -> tuple[Tensor | None, int | Tensor, int]:
    """Return an array, its length along the axis, and the axis; or no array and an integer n."""
    x = as_tensor(x)
    if x.ndim:
        (at,) = axes_of(title, axis, x.ndim)
        return x, length(x, at), at
    if not is_integer(x.dtype):
        raise DTypeError(
            f"{title}: {x!r} is neither an array with axes nor an integer.",
            "Give the array to choose from, or the integer n to choose from arange(n).",
        )
    (n,) = distributions.batch_lengths(title, (x,), [], [])
    return None, n, 0


def _take(x: Tensor | None, indices: Tensor, axis: int) -> Tensor:
    """Return the elements at indices, whose last axis replaces ``axis``."""
    if x is None:
        return indices
    batch = indices.ndim - 1
    return moveaxis(moveaxis(x, axis, 0)[indices], batch, batch + axis)


@distributions.register_distribution
def permutation(
    x: TensorLike,
    size: TensorLike | None = None,
    rng: TensorLike | None = None,
    return_next_rng: bool = False,
    *,
    axis: int = 0,
) -> distributions.Drawn:
    """Draw a random permutation, as ``jax.random.permutation`` does.

    Args:
        x: An array, whose slices along the axis are permuted; or an integer n, also symbolic, for
            the integers below n.
        size: The shape of a batch of permutations, each from another key.
        rng: The key, as for ``uniform``.
        return_next_rng: Return a pair of the next key and the permutation.
        axis: The axis.

    Returns:
        An array of x's shape and dtype, with the axes of ``size`` in front.

    Raises:
        DTypeError: If x is a scalar and no integer.
        ShapeError: If x lacks the axis.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.permutation(5, rng=gt.random.key(0)).eval(mode="NUMPY").tolist()
        [0, 1, 4, 3, 2]
    """
    distributions.refuse_keys("permutation", x, size)
    array, n, along = _array_and_axis("permutation", x, axis)
    key = distributions.rng_of("permutation", rng)
    batch = () if size is None else tuple(distributions.batch_lengths("permutation", size, [], []))
    indices = orders(split(key, batch) if batch else key, n)
    return distributions.with_next(key, _take(array, indices, along), return_next_rng)


@distributions.register_distribution
def choice(  # noqa: PLR0913 (PyTensor's arguments)
    a: TensorLike,
    size: TensorLike | None = None,
    replace: bool = True,
    p: TensorLike | None = None,
    rng: TensorLike | None = None,
    return_next_rng: bool = False,
    *,
    axis: int = 0,
) -> distributions.Drawn:
    """Choose elements at random, as ``jax.random.choice`` does.

    Args:
        a: An array, whose slices along the axis are chosen from; or an integer n, also symbolic,
            for the integers below n.
        size: The shape of the chosen elements; a single one by default.
        replace: Whether an element can be chosen again.
        p: The probability of each element, or numbers proportional to it, none negative; uniform
            by default. Without replacement, elements of probability 0 are chosen last.
        rng: The key, as for ``uniform``.
        return_next_rng: Return a pair of the next key and the choice.
        axis: The axis.

    Returns:
        An array of a's dtype, with the axes of ``size`` instead of the axis.

    Raises:
        ArgumentError: If more elements are chosen than there are, without replacement.
        DTypeError: If a is a scalar and no integer.
        ShapeError: If a lacks the axis, or p is not a vector of its length.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.random.choice([10, 20, 30], size=5, p=[0.5, 0.5, 0.0], rng=gt.random.key(0))
        >>> x.eval(mode="NUMPY").tolist()
        [20, 20, 10, 10, 10]
    """
    distributions.refuse_keys("choice", a, size)
    array, n, along = _array_and_axis("choice", a, axis)
    key = distributions.rng_of("choice", rng)
    shape = () if size is None else tuple(distributions.batch_lengths("choice", size, [], []))
    weights = None if p is None else _weights(p, n)
    indices = (
        _sample(key, shape, n, weights) if replace else _sample_distinct(key, shape, n, weights)
    )
    if array is not None:
        rest = lengths(array)
        chosen = moveaxis(array, along, 0)[reshape(indices, (-1,))]
        indices = reshape(moveaxis(chosen, 0, along), (*rest[:along], *shape, *rest[along + 1 :]))
    return distributions.with_next(key, indices, return_next_rng)


def _weights(p: Any, n: int | Tensor) -> Tensor:
    p = as_tensor(p, dtype=promote(distributions.float_dtype([p]), "float32"))
    static_length = p.type.shape[0] if p.ndim == 1 else -1
    if p.ndim != 1 or (isinstance(n, int) and static_length not in {n, None}):
        raise ShapeError(
            f"choice: expected one probability for each of {n} elements, got {p!r}.",
            "Give a vector of that length.",
        )
    return p  # type: ignore[no-any-return]


def _sample(key: Tensor, shape: Lengths, n: int | Tensor, p: Tensor | None) -> Tensor:
    if p is None:
        last = as_tensor(n, dtype="int64") - 1
        return integers_from(key, shape, "int64", as_tensor(np.int64(0)), last)
    sums = cumsum(p)
    return searchsorted(sums, sums[-1] * (1 - uniforms(key, shape, p.dtype)))


def _sample_distinct(key: Tensor, shape: Lengths, n: int | Tensor, p: Tensor | None) -> Tensor:
    """Draw indices without replacement.

    Source: for weights, Efraimidis & Spirakis, Information Processing Letters 97, 2006.
    """
    count = math.prod(shape)
    if isinstance(count, int) and isinstance(n, int) and count > n:
        raise ArgumentError(
            f"choice: cannot choose {count} of {n} elements without replacement.",
            f"Choose at most {n}, or leave out replace=False.",
        )
    if p is None:
        return reshape(orders(key, n)[:count], shape)
    _, indices = top_k(gumbels(key, (n,), p.dtype) + log(p), count)
    return reshape(indices, shape)
