"""Integers that are equally likely between two ends."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.errors import ArgumentError, DTypeError
from graphc.ir import here, is_integer, where as where_is
from graphc.random.bits import Lengths, random_bits
from graphc.random.distribution import (
    batch_lengths,
    entered,
    integer_dtype,
    rng_of,
    with_next,
)
from graphc.random.keys import split
from graphc.tensor.elementwise import cast, clip, equal, greater_equal, maximum, where
from graphc.tensor.tensor import Tensor, as_tensor

__all__ = ["integers_from"]


def integers_from(key: Tensor, shape: Lengths, dtype: str, first: Tensor, last: Tensor) -> Tensor:
    """Integers from one to another, both of the dtype: those of ``jax.random.randint``.

    Numbers are remainders of twice the bits that the dtype has, so that one is more likely than
    another by the 32nd or 64th power of 2 at most. Where the last is below the first, all are the
    first.
    """
    width = max(np.iinfo(dtype).bits, 32)
    unsigned = f"uint{width}"
    high, low = (random_bits(part, shape, width) for part in split(key))
    span = cast(last, unsigned) - cast(first, unsigned) + 1
    span = where(greater_equal(last, first), span, 1)
    # A span of all numbers is 0, and leaves the bits as they are.
    whole, some = equal(span, 0), maximum(span, 1)
    half = np.array(2 ** (width // 2), unsigned) % some
    offset = ((high % some) * (half * half % some) + low % some) % some
    return cast(first, dtype) + cast(where(whole, low, offset), dtype)


@entered
def integers(
    low: Any,
    high: Any = None,
    size: Any = None,
    *,
    rng: Any = None,
    dtype: Any = None,
    return_next_rng: bool = False,
) -> Any:
    """Integers from ``low`` on and below ``high``, all equally likely.

    They are the draws of ``jax.random.randint`` for the dtype. Where ``high`` is not above ``low``
    a draw is ``low``.

    Args:
        low: The least; with ``high`` left out, the end, counted from 0.
        high: The end, which is no draw itself.
        size: The shape of the batch of draws, as for ``bernoulli``.
        rng: The key, as there.
        dtype: An integer dtype, that of the draws; int64 by default.
        return_next_rng: Give a pair: the next key, and the draw.

    Raises:
        ArgumentError: Python's integers between which there is none.
        DTypeError: An end that is no integer, or that the dtype does not hold.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.random.integers(1, 7, size=8, rng=gt.random.key(0))
        >>> x.eval(mode="NUMPY").tolist()
        [4, 6, 6, 6, 4, 2, 3, 1]
    """
    kind = integer_dtype("integers", dtype)
    first, end = (0, low) if high is None else (low, high)
    if isinstance(first, int) and isinstance(end, int) and first >= end:
        raise ArgumentError(
            f"integers: there is none from {first} on and below {end}.", "", where_is(here())
        )
    first, last = _end(kind, first, 0), _end(kind, end, 1)
    key = rng_of("integers", rng)
    shape = tuple(batch_lengths("integers", size, [first, last], [0, 0]))
    return with_next(key, integers_from(key, shape, kind, first, last), return_next_rng)


def _end(dtype: str, x: Any, less: int) -> Tensor:
    """An end, less 1 where it is no draw itself, as an integer of the dtype."""
    bounds = np.iinfo(dtype)
    if isinstance(x, int):
        if not bounds.min <= x - less <= bounds.max:
            raise DTypeError(
                f"integers: {dtype} does not hold {x - less}.",
                "Ask for a wider dtype.",
                where_is(here()),
            )
        return as_tensor(np.array(x - less, dtype))  # type: ignore[no-any-return]
    x = as_tensor(x)
    if not is_integer(x.dtype):
        raise DTypeError(
            f"integers: the end {x!r} is no integer.",
            "Use x.astype('int64').",
            where_is(here()),
        )
    if x.dtype == "uint64" or dtype == "uint64":
        return cast(x, dtype) - np.array(less, dtype)
    # In 64 bits, as the end of a dtype's numbers is none of them.
    return cast(clip(cast(x, "int64") - less, bounds.min, bounds.max), dtype)
