"""Uniform draws: floating numbers and integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.errors import ArgumentError, DTypeError
from graphc.ir import is_integer
from graphc.random import distribution as distributions
from graphc.random.keys import Lengths, bits_of, random_bits, split
from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.tensor import Tensor, TensorLike, as_tensor, constant

__all__ = ["integers", "uniform"]

FRACTION = {"bfloat16": 7, "float16": 10, "float32": 23, "float64": 52}
"""The number of fraction bits of a float: the resolution of numbers between 0 and 1."""

WIDTH = {"bfloat16": 8, "float16": 16, "float32": 32, "float64": 64}
"""The number of random bits drawn for a float."""

LEAST = {"bfloat16": 2.0**-126, "float16": 2.0**-14, "float32": 2.0**-126, "float64": 2.0**-1022}
"""The smallest normal number."""


def uniforms(key: Any, shape: Lengths, dtype: str, low: Any = 0.0, high: Any = 1.0) -> Tensor:
    """Draw uniform numbers, at least ``low`` and below ``high``, as ``jax.random.uniform``.

    Args:
        key: A key, an array of keys, or their words.
        shape: The shape of the numbers for each key.
        dtype: A floating dtype.
        low: A number, or an array of the dtype that broadcasts with the result.
        high: A number, or an array of the dtype that broadcasts with the result.
    """
    fraction, width = FRACTION[dtype], WIDTH[dtype]
    down = constant(width - fraction, dtype=f"uint{width}")
    unit = ew.cast(ew.right_shift(bits_of(key, shape, width), down), dtype) * 2.0**-fraction
    if isinstance(low, float) and isinstance(high, float) and (low, high) == (0.0, 1.0):
        return unit
    # Rounding must not lead below ``low``.
    return ew.maximum(low, unit * (high - low) + low)


@distributions.distribution
def uniform(key: Tensor, shape: Lengths, dtype: str, low: Any = 0.0, high: Any = 1.0) -> Tensor:
    """Draw from the uniform distribution: at least ``low``, below ``high``.

    Args:
        low: The lower end.
        high: The upper end.

    Distribution:
        - density at x: ``1 / (high - low)``, where ``low <= x < high``
        - mean: ``(low + high) / 2``
        - variance: ``(high - low)**2 / 12``
        - draws are differentiable in low and high

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.random.uniform(-1.0, 1.0, size=3, rng=gt.random.key(0))
        >>> x.eval(mode="NUMPY").round(4).tolist()
        [-0.1631, -0.5674, 0.9306]
    """
    x = uniforms(key, shape, dtype, low, high)
    return distributions.nan_unless(ew.less_equal(low, high), x)


def integers_from(key: Tensor, shape: Lengths, dtype: str, first: Tensor, last: Tensor) -> Tensor:
    """Draw integers from ``first`` to ``last`` inclusive, as ``jax.random.randint``.

    The integers are remainders of numbers with twice the bits of the dtype, so that probabilities
    differ by a factor of at most 1 + 2**-32. Where last is below first, all are first.
    """
    width = max(np.iinfo(dtype).bits, 32)
    unsigned = f"uint{width}"
    high, low = (random_bits(part, shape, width) for part in split(key))
    span = ew.cast(last, unsigned) - ew.cast(first, unsigned) + 1
    span = ew.where(ew.greater_equal(last, first), span, 1)
    # The full span overflows to 0: then the bits are the draw.
    is_full, divisor = ew.equal(span, 0), ew.maximum(span, 1)
    half = np.array(2 ** (width // 2), unsigned) % divisor
    offset = ((high % divisor) * (half * half % divisor) + low % divisor) % divisor
    return ew.cast(first, dtype) + ew.cast(ew.where(is_full, low, offset), dtype)


@distributions.register_distribution
def integers(
    low: TensorLike,
    high: TensorLike | None = None,
    size: TensorLike | None = None,
    *,
    rng: TensorLike | None = None,
    dtype: Any = None,
    return_next_rng: bool = False,
) -> distributions.Drawn:
    """Draw uniform integers, at least ``low`` and below ``high``.

    The draws are the same as of ``jax.random.randint`` for the dtype. Where ``high`` is not above
    ``low``, a draw is ``low``.

    Args:
        low: The lower end; without ``high``, the exclusive upper end, and 0 is the lower one.
        high: The exclusive upper end.
        size: The shape of the batch of draws, as for ``bernoulli``.
        rng: The key, as for ``bernoulli``.
        dtype: The integer dtype of the draws; int64 by default.
        return_next_rng: Return a pair of the next key and the draw.

    Distribution:
        - probability of k: ``1 / (high - low)``, where ``low <= k < high``
        - mean: ``(low + high - 1) / 2``
        - variance: ``((high - low)**2 - 1) / 12``
        - draws are integers, which have no derivatives

    Raises:
        ArgumentError: If no integer is between the ends.
        DTypeError: If an end is no integer, or does not fit the dtype.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.random.integers(1, 7, size=8, rng=gt.random.key(0))
        >>> x.eval(mode="NUMPY").tolist()
        [4, 6, 6, 6, 4, 2, 3, 1]
    """
    distributions.refuse_keys("integers", low, high, size)
    kind = distributions.integer_dtype("integers", dtype)
    first, end = (0, low) if high is None else (low, high)
    if isinstance(first, int) and isinstance(end, int) and first >= end:
        raise ArgumentError(
            f"integers: no integer is at least {first} and below {end}.", "Give a high above low."
        )
    first, last = _end(kind, first, 0), _end(kind, end, 1)
    key = distributions.rng_of("integers", rng)
    shape = tuple(distributions.batch_lengths("integers", size, [first, last], [0, 0]))
    return distributions.with_next(
        key, integers_from(key, shape, kind, first, last), return_next_rng
    )


def _end(dtype: str, x: Any, less: int) -> Tensor:
    """Return an end as an integer of the dtype, minus ``less``: 1 for an exclusive end."""
    bounds = np.iinfo(dtype)
    if isinstance(x, int):
        if not bounds.min <= x - less <= bounds.max:
            raise DTypeError(f"integers: {x - less} does not fit {dtype}.", "Use a wider dtype.")
        return as_tensor(np.array(x - less, dtype))
    x = as_tensor(x)
    if not is_integer(x.dtype):
        raise DTypeError(f"integers: the end {x!r} is no integer.", "Use x.astype('int64').")
    if x.dtype == "uint64" or dtype == "uint64":
        return ew.cast(x, dtype) - np.array(less, dtype)
    # In 64 bits, since the exclusive end may be just outside the dtype.
    return ew.cast(ew.clip(ew.cast(x, "int64") - less, bounds.min, bounds.max), dtype)
