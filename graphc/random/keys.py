"""Keys: what random numbers are a function of."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.errors import DTypeError
from graphc.ir import Leaf, here, is_integer, where
from graphc.random.bits import LOW, key_of, split_words, words_of
from graphc.random.threefry import threefry
from graphc.tensor.elementwise import bitwise_and, cast, right_shift
from graphc.tensor.join import stack
from graphc.tensor.runtime import Runtime
from graphc.tensor.shape import listed
from graphc.tensor.tensor import Tensor, as_tensor, constant

__all__ = ["fold_in", "key", "split"]


def key(seed: Any) -> Tensor:
    """The key of a seed; equal seeds give equal keys, in any process and on any backend.

    It is ``jax.random.key_data(jax.random.key(seed))``, computed in 64 bits whatever JAX is set to.

    Args:
        seed: An integer, taken modulo 2**64, or a symbolic one or an array of them. Of a number,
            the key is passed to a program when it runs: another seed makes no other program.

    Returns:
        A key, uint32, of two elements; a further axis in front for each of the seed's.

    Raises:
        DTypeError: The seed is no integer.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.key(7).eval(mode="NUMPY").tolist()
        [0, 7]
    """
    number = seed.number if isinstance(seed, Runtime) else seed
    if isinstance(number, int | np.integer) and not isinstance(number, bool):
        whole = int(number)
        words = np.array([whole >> 32 & LOW, whole & LOW], np.uint32)
        return Tensor.make(Leaf(words, "key"))
    x = as_tensor(number)
    if not is_integer(x.dtype):
        raise DTypeError(f"key: a seed is an integer, not {x!r}.", "", where(here()))
    return stack(_words_of_seed(x), -1)


def _words_of_seed(x: Tensor) -> tuple[Tensor, Tensor]:
    low = cast(bitwise_and(cast(x, "int64"), np.int64(LOW)), "uint32")
    if x.dtype not in {"int64", "uint64"}:
        return cast(x * 0, "uint32"), low
    high = bitwise_and(right_shift(x, 32), LOW)
    return cast(high, "uint32"), low


def split(key: Any, num: Any = 2) -> Tensor:
    """New keys of a key, which is not to be used again.

    Args:
        key: A key, or an array of keys.
        num: How many, an integer, Python's or symbolic, or a tuple of them: a shape.

    Returns:
        ``num`` keys for each, uint32, the last axis of length 2; those of ``jax.random.split``.

    Raises:
        DTypeError: The key is not of uint32.
        ShapeError: The key has no last axis of length 2.

    Example:
        >>> import graphc.tensor as gt
        >>> first, second = gt.random.split(gt.random.key(0))
        >>> first.eval(mode="NUMPY").tolist()
        [1797259609, 2579123966]
    """
    return key_of(split_words(words_of(key), tuple(listed("split", num))))


def fold_in(key: Any, data: Any) -> Tensor:
    """A new key of a key and an integer, such as the number of a step.

    Args:
        key: A key, or an array of keys.
        data: An integer, Python's or symbolic, taken modulo 2**32; or an array of them that
            broadcasts with the keys.

    Returns:
        A key for each, that of ``jax.random.fold_in``.

    Raises:
        DTypeError: The key is not of uint32, or ``data`` no integers.
        ShapeError: The key has no last axis of length 2.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.fold_in(gt.random.key(0), 3).eval(mode="NUMPY").tolist()
        [2467461003, 3840466878]
    """
    words = words_of(key)
    number = data.number if isinstance(data, Runtime) else data
    if isinstance(number, int):
        number = np.uint32(number & LOW)
        x = constant(number)
    else:
        x = as_tensor(number)
    if not is_integer(x.dtype):
        raise DTypeError(f"fold_in: data is an integer, not {x!r}.", "", where(here()))
    low = cast(bitwise_and(cast(x, "int64"), np.int64(LOW)), "uint32")
    return key_of(threefry(*words, constant(np.uint32(0)), low))
