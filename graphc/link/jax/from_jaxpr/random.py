"""Primitives of random keys: an array of keys is one of their two words, in a uint64 each."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.link.jax.from_jaxpr.equation import Converter, Equation, Refusal
from graphc.tensor import Tensor


def packed(words: Any) -> Tensor:
    """Keys whose words are along the last axis, as one number each."""
    high = gt.cast(words[..., 0], "uint64")
    return gt.bitwise_or(gt.left_shift(high, np.uint64(32)), gt.cast(words[..., 1], "uint64"))


def unpacked(keys: Tensor) -> Tensor:
    """The words of keys, along a new last axis."""
    high = gt.cast(gt.right_shift(keys, np.uint64(32)), "uint32")
    low = gt.cast(gt.bitwise_and(keys, np.uint64(0xFFFFFFFF)), "uint32")
    return gt.stack([high, low], -1)


def _checked(eqn: Equation) -> None:
    """Refuse keys of other generators."""
    types = [getattr(x.aval, "dtype", None) for x in (*eqn.eqn.invars, *eqn.eqn.outvars)]
    if any(str(t).startswith("key<") and str(t) != "key<fry>" for t in types):
        raise Refusal


def _seed(eqn: Equation, x: Tensor) -> Tensor:
    _checked(eqn)
    if x.ndim:
        raise Refusal
    return packed(gt.random.key(x))


def _bits(eqn: Equation, key: Tensor) -> Tensor:
    _checked(eqn)
    return gt.random.random_bits(
        unpacked(key), tuple(map(eqn.lengths, eqn["shape"])), int(eqn["bit_width"])
    )


def _split(eqn: Equation, key: Tensor) -> Tensor:
    _checked(eqn)
    return packed(gt.random.split(unpacked(key), tuple(map(eqn.lengths, eqn["shape"]))))


def _fold_in(eqn: Equation, key: Tensor, data: Tensor) -> Tensor:
    _checked(eqn)
    return packed(gt.random.fold_in(unpacked(key), data))


def _wrap(eqn: Equation, words: Tensor) -> Tensor:
    _checked(eqn)
    return packed(words)


def _unwrap(eqn: Equation, keys: Tensor) -> Tensor:
    _checked(eqn)
    return unpacked(keys)


RANDOM: dict[str, Converter] = {
    "random_seed": _seed,
    "random_bits": _bits,
    "random_split": _split,
    "random_fold_in": _fold_in,
    "random_wrap": _wrap,
    "random_unwrap": _unwrap,
}
"""Converters of primitives of random keys, whose numbers are JAX's."""
