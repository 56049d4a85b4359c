"""Trials that succeed or fail."""

from __future__ import annotations

from graphc.random.bits import Lengths
from graphc.random.distribution import as_draws, discrete
from graphc.random.uniform import uniforms
from graphc.tensor.elementwise import cast, greater_equal, less, less_equal, logical_and
from graphc.tensor.tensor import Tensor

__all__: list[str] = []


@discrete
def bernoulli(key: Tensor, shape: Lengths, dtype: str, p: Tensor) -> Tensor:
    """1 with probability ``p`` and 0 otherwise: the draws of ``jax.random.bernoulli``.

    Args:
        p: Between 0 and 1; elsewhere a draw is -1.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.random.bernoulli(0.5, size=8, rng=gt.random.key(0))
        >>> x.eval(mode="NUMPY").tolist()
        [1, 1, 0, 0, 0, 1, 0, 0]
    """
    draw = less(uniforms(key, shape, p.dtype), p)
    valid = logical_and(greater_equal(p, 0), less_equal(p, 1))
    return as_draws(cast(draw, "int64"), valid, dtype)
