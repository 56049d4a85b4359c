"""Public functions of distributions, made of samplers: functions that draw an array with a key."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, overload

import numpy as np

from graphc.config import config
from graphc.errors import ArgumentError, DTypeError, ShapeError
from graphc.ir import (
    Leaf,
    dtype_name,
    here,
    is_complex,
    is_float,
    is_integer,
    promote,
    where as where_is,
)
from graphc.random.bits import Lengths
from graphc.random.generator import DISTRIBUTIONS, KEY, as_generator, fresh
from graphc.random.keys import fold_in
from graphc.tensor.broadcast import broadcast_lengths
from graphc.tensor.elementwise import cast, minimum, where
from graphc.tensor.runtime import Runtime
from graphc.tensor.shape import entries
from graphc.tensor.specify import specify_shape
from graphc.tensor.tensor import Tensor, as_tensor

__all__ = [
    "Lengths",
    "as_draws",
    "batch_lengths",
    "discrete",
    "distribution",
    "entered",
    "float_dtype",
    "given",
    "integer_dtype",
    "own_float_dtype",
    "rng_of",
    "with_next",
]

Sampler = Callable[..., Tensor]
Public = Callable[..., Any]

LAST = 0xFFFFFFFF
"""What a key is folded with to give the next one: the last number that is no draw's own."""

MORE = {
    "size": "The shape of the batch of draws: integers, Python's or symbolic, or an int64 vector\n"
    "of static length. By default the common shape of the parameters.",
    "rng": "The key, uint32[2], as of ``key``, ``split``, ``rng`` or ``shared_rng``. By default a\n"
    "shared variable of fresh entropy, which nothing updates: the draw is the same in each call.",
    "return_next_rng": "Give a pair: the next key, and the draw.",
}
"""What the arguments that all distributions have mean."""


# Parameters.


def given(title: str, values: Sequence[Any], dtype: str | None = None) -> list[Tensor | None]:
    """Parameters as arrays of a dtype; None stays None.

    Raises:
        DTypeError: One is complex.
    """
    result = []
    for x in values:
        if x is not None and not _is_weak(x):
            x = as_tensor(x)
            if is_complex(x.dtype):
                raise DTypeError(f"{title}: the parameter {x!r} is complex.", "", where_is(here()))
        result.append(x if x is None else as_tensor(x, dtype=dtype))
    return result


def _is_weak(x: Any) -> bool:
    return isinstance(x, bool | int | float) and not isinstance(x, np.generic | Runtime)


def float_dtype(values: Sequence[Any]) -> str:
    """The dtype of the parameters that are floating arrays; ``config.floatX`` if none is."""
    arrays = [as_tensor(x) for x in values if isinstance(x, Tensor | np.ndarray | np.generic)]
    found = [x.dtype for x in arrays if is_float(x.dtype)]
    return promote(*found) if found else config.floatX


def own_float_dtype(title: str, values: Sequence[Any], dtype: Any) -> str:
    name = float_dtype(values) if dtype is None or dtype == "floatX" else dtype_name(dtype)
    if not is_float(name):
        raise DTypeError(
            f"{title}: draws are real floating numbers, not {name}.",
            "Cast the draw with astype.",
            where_is(here()),
        )
    return name


def integer_dtype(title: str, dtype: Any) -> str:
    """The dtype of draws that are integers, int64 by default.

    Raises:
        DTypeError: It is none of integers.
    """
    name = "int64" if dtype is None else dtype_name(dtype)
    if not is_integer(name):
        raise DTypeError(
            f"{title}: draws are integers, not {name}.",
            "Cast the draw with astype.",
            where_is(here()),
        )
    return name


def batch_lengths(title: str, size: Any, params: Sequence[Tensor], cores: Sequence[int]) -> Lengths:
    """The shape of the batch: ``size``, or the common one of the parameters before their last axes.

    Raises:
        DTypeError: The size holds something that is no integer.
        ShapeError: A parameter lacks axes, or does not broadcast to the size.
    """
    for x, core in zip(params, cores, strict=True):
        if x.ndim < core:
            raise ShapeError(
                f"{title}: the parameter {x!r} has {x.ndim} axes; at least {core} are wanted.",
                "",
                where_is(here()),
            )
    heads = [(x, x.type.shape[: x.ndim - core]) for x, core in zip(params, cores, strict=True)]
    if size is None:
        return _common(title, params, cores)
    static, symbolic = entries(title, size)
    for x, head in heads:
        pairs = zip(head[::-1], static[::-1], strict=False)
        if len(head) > len(static) or any(None not in {n, m} and n not in {1, m} for n, m in pairs):
            raise ShapeError(
                f"{title}: the parameter {x!r} does not go to size={static}.",
                "The size is the whole shape of the batch, the parameters' own axes among it.",
                where_is(here()),
            )
    left = iter(symbolic)
    return [next(left) if n is None else n for n in static]


def _common(title: str, params: Sequence[Tensor], cores: Sequence[int]) -> Lengths:
    # Axes of elements are dropped by looking at an element's first number alone.
    heads = [
        x if not core else x[(..., *[0] * core)] for x, core in zip(params, cores, strict=True)
    ]
    if not heads:
        return []
    try:
        np.broadcast_shapes(*[[1 if n is None else n for n in x.type.shape] for x in heads])
    except ValueError:
        raise ShapeError(
            f"{title}: the parameters {', '.join(map(repr, params))} do not broadcast.",
            "Make their lengths equal, or one of them 1.",
            where_is(here()),
        ) from None
    return broadcast_lengths(heads)


# Keys.


def rng_of(title: str, rng: Any) -> Tensor:
    """A key that a user gave; a new one for None.

    Raises:
        DTypeError: It is no key.
        ShapeError: It is a batch of keys.
    """
    if rng is None:
        return fresh()
    if isinstance(rng, np.random.Generator | np.random.RandomState | int):
        raise DTypeError(
            f"{title}: rng={rng!r} is no key.",
            "Use rng=gt.random.key(seed), or gt.random.shared_rng(seed=...), whose value is kept.",
            where_is(here()),
        )
    # As a leaf whatever its length: another key is no other program.
    key = Tensor.make(Leaf(rng)) if isinstance(rng, np.ndarray) else as_tensor(rng)
    if key.dtype != "uint32":
        raise DTypeError(
            f"{title}: a key is uint32[2], not {key!r}.",
            "Make one with gt.random.key(seed); of JAX's typed keys take jax.random.key_data(key).",
            where_is(here()),
        )
    if key.ndim != 1 or key.type.shape[0] not in {2, None}:
        raise ShapeError(
            f"{title}: a key is uint32[2], not {key!r}.",
            "For a batch of keys use graphc.vectorize, with the signature '(2)->()'.",
            where_is(here()),
        )
    return specify_shape(key, KEY.shape)


def with_next(key: Tensor, draw: Tensor, return_next_rng: bool) -> Any:
    """The draw, or a pair of the next generator and the draw."""
    return (as_generator(fold_in(key, LAST)), draw) if return_next_rng else draw


# Draws.


def as_draws(x: Tensor, valid: Any, dtype: str) -> Tensor:
    """Integers of a dtype, -1 where they are not valid; its largest where it cannot hold them."""
    top = min(np.iinfo(dtype).max, np.iinfo("int64").max)
    most = np.array(top, x.dtype)
    if int(most) > top:
        most = np.nextafter(most, most.dtype.type(0))
    return cast(cast(where(valid, minimum(x, most), -1), "int64"), dtype)


# Public functions.


def entered(f: Callable[..., Any]) -> Callable[..., Any]:
    """Enter a public function of a distribution: generators and streams have it as a method."""
    DISTRIBUTIONS[f.__name__] = f
    return f


@overload
def distribution(sampler: Sampler) -> Public: ...


@overload
def distribution(sampler: str) -> Callable[[Sampler], Public]: ...


def distribution(sampler: Sampler | str) -> Any:
    """A sampler as the public function of a distribution of floating numbers.

    Args:
        sampler: Takes a key, the shape of the batch, the dtype, and the parameters as arrays of
            that dtype which broadcast to the shape; gives draws of that shape and dtype. Or the
            axes of an element of each parameter and of a draw, as in ``"(n),(n,n)->(n)"``, where
            they are not scalars.

    Returns:
        A function of the parameters and ``size``, ``rng``, ``dtype`` and ``return_next_rng``; or
        a decorator.
    """
    dtypes = "That of the draws; the parameters' by default, and ``config.floatX`` of numbers."

    def settled(title: str, values: Sequence[Any], dtype: Any) -> tuple[str, str]:
        name = own_float_dtype(title, values, dtype)
        return name, name

    return _decorated(sampler, settled, dtypes)


@overload
def discrete(sampler: Sampler) -> Public: ...


@overload
def discrete(sampler: str) -> Callable[[Sampler], Public]: ...


def discrete(sampler: Sampler | str) -> Any:
    """A sampler as the public function of a distribution of integers, otherwise the same.

    Parameters come in the floating dtype that they are computed in, float32 or float64.
    """
    dtypes = "An integer dtype, that of the draws; int64 by default."

    def settled(title: str, values: Sequence[Any], dtype: Any) -> tuple[str, str]:
        return promote(float_dtype(values), "float32"), integer_dtype(title, dtype)

    return _decorated(sampler, settled, dtypes)


def _decorated(sampler: Sampler | str, settled: Any, dtypes: str) -> Any:
    if not isinstance(sampler, str):
        return _public(sampler, None, settled, dtypes)
    inputs = re.findall(r"\((.*?)\)", sampler.partition("->")[0])
    cores = [len(axes.split(",")) if axes else 0 for axes in inputs]
    return lambda f: _public(f, cores, settled, dtypes)


def _public(
    sampler: Sampler, cores: Sequence[int] | None, settled: Any, dtypes: str
) -> Callable[..., Any]:
    title = sampler.__name__
    parameters = [*inspect.signature(sampler).parameters.values()][3:]
    untyped = [p.replace(annotation=p.empty) for p in parameters]
    own = inspect.Signature([*untyped, *SHARED])
    ranks = dict(zip([p.name for p in parameters], cores or [0] * len(parameters), strict=True))

    @wraps(sampler)
    def draw(*args: Any, **kwargs: Any) -> Any:
        bound = _bound(title, own, args, kwargs)
        size, rng, dtype, return_next_rng = (bound.pop(p.name) for p in SHARED)
        kind, result = settled(title, list(bound.values()), dtype)
        params = given(title, list(bound.values()), kind)
        arrays = [(x, ranks[name]) for x, name in zip(params, bound, strict=True) if x is not None]
        shape = batch_lengths(title, size, [x for x, _ in arrays], [n for _, n in arrays])
        key = rng_of(title, rng)
        return with_next(key, sampler(key, tuple(shape), result, *params), return_next_rng)

    draw.__signature__ = own  # type: ignore[attr-defined]
    draw.__doc__ = documented(sampler.__doc__ or "", {**MORE, "dtype": dtypes})
    del draw.__wrapped__
    return entered(draw)


def _bound(
    title: str, own: inspect.Signature, args: Sequence[Any], kwargs: dict[str, Any]
) -> dict[str, Any]:
    try:
        bound = own.bind(*args, **kwargs)
    except TypeError as error:
        raise ArgumentError(
            f"{title}: {error}.",
            f"Its arguments: {own}.",
            where_is(here()),
        ) from None
    bound.apply_defaults()
    return bound.arguments


SHARED = (
    inspect.Parameter("size", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None),
    inspect.Parameter("rng", inspect.Parameter.KEYWORD_ONLY, default=None),
    inspect.Parameter("dtype", inspect.Parameter.KEYWORD_ONLY, default=None),
    inspect.Parameter("return_next_rng", inspect.Parameter.KEYWORD_ONLY, default=False),
)
"""What all distributions take after their parameters."""


def documented(text: str, more: dict[str, str]) -> str:
    """A docstring with more arguments at the end of its ``Args``."""
    text = inspect.cleandoc(text)
    order = [name for name in ("size", "rng", "dtype", "return_next_rng") if name in more]
    lines = [f"    {name}: " + more[name].replace("\n", "\n        ") for name in order]
    first, head, rest = text.partition("\nArgs:\n")
    if not head:
        summary, gap, rest = text.partition("\n\n")
        return "\n".join([summary, "", "Args:", *lines, *([""] if gap else []), rest]).rstrip()
    told, gap, rest = rest.partition("\n\n")
    return "\n".join([first + head + told, *lines]) + gap + rest
