"""Primitives of random keys: each key is its two 32-bit words in one uint64."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.errors import UnsupportedOperationError
from graphc.ir.dtypes import is_jax_key
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


def _of_threefry(convert: Converter) -> Converter:
    """Return the converter, which refuses keys of other generators: they have more words."""

    def convert_checked(eqn: JaxprEquation, *operands: Tensor) -> Any:
        types = [getattr(x.aval, "dtype", None) for x in (*eqn.eqn.invars, *eqn.eqn.outvars)]
        if any(is_jax_key(t) and str(t) != "key<fry>" for t in types):
            name = eqn.eqn.primitive.name
            raise UnsupportedOperationError(
                f"from_jaxpr: {name} has keys of a generator other than Threefry.",
                "Use jax.random.key(seed, impl='threefry2x32'); or wrap_jax keeps the function.",
            )
        return convert(eqn, *operands)

    return convert_checked


def _shape(eqn: JaxprEquation) -> tuple[Any, ...]:
    return tuple(map(eqn.lengths, eqn["shape"]))


def _seed(_: JaxprEquation, x: Tensor) -> Tensor:
    if x.ndim:
        raise UnsupportedEquationError
    return pack_keys(gt.random.key(x))


def _bits(eqn: JaxprEquation, key: Tensor) -> Tensor:
    return gt.random.random_bits(unpack_keys(key), _shape(eqn), int(eqn["bit_width"]))


CONVERTERS: dict[str, Converter] = {
    "random_seed": _seed,
    "random_bits": _bits,
    "random_split": lambda eqn, key: pack_keys(gt.random.split(unpack_keys(key), _shape(eqn))),
    "random_fold_in": lambda _, key, data: pack_keys(gt.random.fold_in(unpack_keys(key), data)),
    "random_wrap": lambda _, words: pack_keys(words),
    "random_unwrap": lambda _, keys: unpack_keys(keys),
}
RANDOM = {name: _of_threefry(convert) for name, convert in CONVERTERS.items()}
"""Converters of primitives of random keys, whose numbers are JAX's."""
