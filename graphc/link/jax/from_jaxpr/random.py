"""Primitives of random keys: each key is its two 32-bit words in one uint64."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.link.jax.from_jaxpr.equation import Converter, JaxprEquation, UnsupportedEquationError
from graphc.tensor import Tensor


def pack_keys(words: Any) -> Tensor:
    """Return each key, whose two words are along the last axis, as one uint64."""
    high = gt.cast(words[..., 0], "uint64")
    return gt.bitwise_or(gt.left_shift(high, np.uint64(32)), gt.cast(words[..., 1], "uint64"))


def unpack_keys(keys: Tensor) -> Tensor:
    """Return the two words of each key along a new last axis."""
    high = gt.cast(gt.right_shift(keys, np.uint64(32)), "uint32")
    low = gt.cast(gt.bitwise_and(keys, np.uint64(0xFFFFFFFF)), "uint32")
    return gt.stack([high, low], -1)


def _check_generator(eqn: JaxprEquation) -> None:
    """Raise UnsupportedEquationError for keys of generators other than Threefry."""
    types = [getattr(x.aval, "dtype", None) for x in (*eqn.eqn.invars, *eqn.eqn.outvars)]
    if any(str(t).startswith("key<") and str(t) != "key<fry>" for t in types):
        raise UnsupportedEquationError


def _seed(eqn: JaxprEquation, x: Tensor) -> Tensor:
    _check_generator(eqn)
    if x.ndim:
        raise UnsupportedEquationError
    return pack_keys(gt.random.key(x))


def _bits(eqn: JaxprEquation, key: Tensor) -> Tensor:
    _check_generator(eqn)
    return gt.random.random_bits(
        unpack_keys(key), tuple(map(eqn.lengths, eqn["shape"])), int(eqn["bit_width"])
    )


def _split(eqn: JaxprEquation, key: Tensor) -> Tensor:
    _check_generator(eqn)
    return pack_keys(gt.random.split(unpack_keys(key), tuple(map(eqn.lengths, eqn["shape"]))))


def _fold_in(eqn: JaxprEquation, key: Tensor, data: Tensor) -> Tensor:
    _check_generator(eqn)
    return pack_keys(gt.random.fold_in(unpack_keys(key), data))


def _wrap(eqn: JaxprEquation, words: Tensor) -> Tensor:
    _check_generator(eqn)
    return pack_keys(words)


def _unwrap(eqn: JaxprEquation, keys: Tensor) -> Tensor:
    _check_generator(eqn)
    return unpack_keys(keys)


RANDOM: dict[str, Converter] = {
    "random_seed": _seed,
    "random_bits": _bits,
    "random_split": _split,
    "random_fold_in": _fold_in,
    "random_wrap": _wrap,
    "random_unwrap": _unwrap,
}
"""Converters of primitives of random keys, whose numbers are JAX's."""
