"""Public functions of distributions, made from samplers, which draw an array with a key."""

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
    BESIDE,
    Constant,
    Input,
    Leaf,
    dtype_name,
    is_complex,
    is_float,
    is_integer,
    promote,
)
from graphc.random.generator import DISTRIBUTIONS, KEY, Generator, as_generator, fresh
from graphc.random.keys import Lengths, fold_in
from graphc.tensor.arrays.broadcast import broadcast_lengths
from graphc.tensor.core.elementwise import cast, minimum, where
from graphc.tensor.core.runtime import Runtime
from graphc.tensor.core.shape import entries
from graphc.tensor.core.specify import specify_shape
from graphc.tensor.core.tensor import (
    Tensor,
    TensorLike,  # noqa: F401 (annotations of public functions name it)
    as_tensor,
)

__all__ = [
    "Drawn",
    "Lengths",
    "as_draws",
    "batch_lengths",
    "discrete",
    "distribution",
    "float_dtype",
    "given",
    "integer_dtype",
    "own_float_dtype",
    "registered",
    "rng_of",
    "with_next",
]

Sampler = Callable[..., Tensor]
Public = Callable[..., Any]
Drawn = Tensor | tuple[Generator, Tensor]
"""A draw, or the next generator and the draw."""

LAST = 0xFFFFFFFF
"""The number folded into a key to make the next one; no draw uses it."""

COMMON_DOCS = {
    "size": "The shape of the batch of draws: integers, Python's or symbolic, or an int64 vector\n"
    "of static length. By default the common shape of the parameters.",
    "rng": "The key, uint32[2], as of ``key``, ``split``, ``rng`` or ``shared_rng``. By default a\n"
    "shared variable of fresh entropy, which nothing updates: the draw is the same in each call.",
    "return_next_rng": "Return a pair of the next key and the draw.",
}
"""The documentation of the arguments that all distributions have."""


# Parameters.


def given(title: str, values: Sequence[Any], dtype: str | None = None) -> list[Tensor | None]:
    """Return parameters as symbolic arrays of a dtype; None stays None.

    Raises:
        DTypeError: A parameter is complex.
    """
    result = []
    for x in values:
        if x is not None and not _is_weak(x):
            x = as_tensor(x)
            if is_complex(x.dtype):
                raise DTypeError(f"{title}: the parameter {x!r} is complex.", "Give its real part.")
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
    name = float_dtype(values) if dtype is None else dtype_name(dtype)
    if not is_float(name):
        raise DTypeError(
            f"{title}: draws are real floating numbers, not {name}.", "Cast the draw with astype."
        )
    return name


def integer_dtype(title: str, dtype: Any) -> str:
    """The dtype of integer draws, int64 by default.

    Raises:
        DTypeError: It is no integer dtype.
    """
    name = "int64" if dtype is None else dtype_name(dtype)
    if not is_integer(name):
        raise DTypeError(f"{title}: draws are integers, not {name}.", "Cast the draw with astype.")
    return name


def batch_lengths(title: str, size: Any, params: Sequence[Tensor], cores: Sequence[int]) -> Lengths:
    """The shape of the batch: ``size``, or the parameters broadcast without their core axes.

    Raises:
        DTypeError: An entry of the size is no integer.
        ShapeError: A parameter lacks axes, or does not broadcast to the size.
    """
    for x, core in zip(params, cores, strict=True):
        if x.ndim < core:
            raise ShapeError(
                f"{title}: the parameter {x!r} has {x.ndim} axes; expected at least {core}.",
                "Give it the missing axes, as x[None].",
            )
    heads = [(x, x.type.shape[: x.ndim - core]) for x, core in zip(params, cores, strict=True)]
    if size is None:
        return _common(title, params, cores)
    static, symbolic = entries(title, size)
    for x, head in heads:
        pairs = zip(head[::-1], static[::-1], strict=False)
        if len(head) > len(static) or any(None not in {n, m} and n not in {1, m} for n, m in pairs):
            raise ShapeError(
                f"{title}: the parameter {x!r} does not broadcast to size={static}.",
                "Give the whole shape of the batch, the parameters' own axes included.",
            )
    left = iter(symbolic)
    return [next(left) if n is None else n for n in static]


def _common(title: str, params: Sequence[Tensor], cores: Sequence[int]) -> Lengths:
    # The first number of each element has the batch's axes only.
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
        ) from None
    return broadcast_lengths(heads)


# Keys.


def rng_of(title: str, rng: Any) -> Tensor:
    """Return a user's key, checked; a fresh one for None.

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
        )
    # A leaf, so that another key does not compile another program.
    key = Tensor.make(Leaf(rng)) if isinstance(rng, np.ndarray) else as_tensor(rng)
    if key.dtype != "uint32":
        raise DTypeError(
            f"{title}: a key is uint32[2], not {key!r}.",
            "Make one with gt.random.key(seed), or jax.random.key_data(key) of JAX's typed keys.",
        )
    if key.ndim != 1 or key.type.shape[0] not in {2, None}:
        raise ShapeError(
            f"{title}: a key is uint32[2], not {key!r}.",
            "For a batch of keys use graphc.vectorize, with the signature '(2)->()'.",
        )
    return specify_shape(key, KEY.shape)


def with_next(key: Tensor, draw: Tensor, return_next_rng: bool) -> Drawn:
    """The draw, or a pair of the next generator and the draw."""

    def following() -> Generator:
        return as_generator(fold_in(key, LAST))

    if not isinstance(draw.op, Input | Leaf | Constant):
        BESIDE[draw] = following
    return (following(), draw) if return_next_rng else draw


# Draws.


def as_draws(x: Tensor, valid: Any, dtype: str) -> Tensor:
    """Integers of a dtype; -1 where they are invalid, the dtype's largest where they overflow."""
    top = min(np.iinfo(dtype).max, np.iinfo("int64").max)
    most = np.array(top, x.dtype)
    if int(most) > top:
        most = np.nextafter(most, most.dtype.type(0))
    return cast(cast(where(valid, minimum(x, most), -1), "int64"), dtype)


# Public functions.


def registered(f: Callable[..., Any]) -> Callable[..., Any]:
    """Register a public function of a distribution as a method of generators and streams."""
    DISTRIBUTIONS[f.__name__] = f
    return f


@overload
def distribution(sampler: Sampler) -> Public: ...


@overload
def distribution(sampler: str) -> Callable[[Sampler], Public]: ...


def distribution(sampler: Sampler | str) -> Any:
    """Make a sampler the public function of a continuous distribution.

    Args:
        sampler: A function of a key, the shape of the batch, the dtype, and the parameters as
            arrays of that dtype which broadcast to the shape; it returns draws of that shape and
            dtype. Or a signature, such as ``"(n),(n,n)->(n)"``, where parameters or draws are not
            scalars; then a decorator is returned.

    Returns:
        A function of the parameters and ``size``, ``rng``, ``dtype`` and ``return_next_rng``; or
        a decorator.
    """
    dtypes = "The dtype of the draws; by default that of the parameters, or ``config.floatX``."

    def dtypes_of(title: str, values: Sequence[Any], dtype: Any) -> tuple[str, str]:
        name = own_float_dtype(title, values, dtype)
        return name, name

    return _decorated(sampler, dtypes_of, dtypes)


@overload
def discrete(sampler: Sampler) -> Public: ...


@overload
def discrete(sampler: str) -> Callable[[Sampler], Public]: ...


def discrete(sampler: Sampler | str) -> Any:
    """Make a sampler the public function of a discrete distribution, as ``distribution`` does.

    The sampler gets parameters in a floating dtype, float32 or float64.
    """
    dtypes = "The integer dtype of the draws; int64 by default."

    def dtypes_of(title: str, values: Sequence[Any], dtype: Any) -> tuple[str, str]:
        return promote(float_dtype(values), "float32"), integer_dtype(title, dtype)

    return _decorated(sampler, dtypes_of, dtypes)


def _decorated(sampler: Sampler | str, dtypes_of: Any, dtypes: str) -> Any:
    if not isinstance(sampler, str):
        return _public(sampler, None, dtypes_of, dtypes)
    inputs = re.findall(r"\((.*?)\)", sampler.partition("->")[0])
    cores = [len(axes.split(",")) if axes else 0 for axes in inputs]
    own_axes = not sampler.endswith("->()")
    return lambda f: _public(f, cores, dtypes_of, dtypes, own_axes)


def _public(
    sampler: Sampler,
    cores: Sequence[int] | None,
    dtypes_of: Any,
    dtypes: str,
    own_axes: bool = False,
) -> Callable[..., Any]:
    title = sampler.__name__
    parameters = [*inspect.signature(sampler).parameters.values()][3:]
    typed = [p.replace(annotation=_taken(p)) for p in parameters]
    own = inspect.Signature([*typed, *COMMON_PARAMETERS], return_annotation="Drawn")
    ranks = dict(zip([p.name for p in parameters], cores or [0] * len(parameters), strict=True))

    @wraps(sampler)
    def draw(*args: Any, **kwargs: Any) -> Any:
        bound = _bound(title, own, args, kwargs)
        size, rng, dtype, return_next_rng = (bound.pop(p.name) for p in COMMON_PARAMETERS)
        kind, result = dtypes_of(title, list(bound.values()), dtype)
        params = given(title, list(bound.values()), kind)
        arrays = [(x, ranks[name]) for x, name in zip(params, bound, strict=True) if x is not None]
        shape = batch_lengths(title, size, [x for x, _ in arrays], [n for _, n in arrays])
        key = rng_of(title, rng)
        return with_next(key, sampler(key, tuple(shape), result, *params), return_next_rng)

    draw.__signature__ = own  # type: ignore[attr-defined]
    draw.__annotations__ = {p.name: p.annotation for p in own.parameters.values()}
    draw.__annotations__["return"] = own.return_annotation
    more = {**COMMON_DOCS, "dtype": dtypes}
    draw.__doc__ = with_returns(documented(sampler.__doc__ or "", more), vectors=own_axes)
    del draw.__wrapped__
    return registered(draw)


def _bound(
    title: str, own: inspect.Signature, args: Sequence[Any], kwargs: dict[str, Any]
) -> dict[str, Any]:
    try:
        bound = own.bind(*args, **kwargs)
    except TypeError as error:
        raise ArgumentError(f"{title}: {error}.", f"Its arguments are {own}.") from None
    bound.apply_defaults()
    return bound.arguments


def _taken(parameter: inspect.Parameter) -> str:
    """What a public function takes for a parameter of its sampler, which gets an array."""
    return "TensorLike | None" if parameter.default is None else "TensorLike"


def _by_name(name: str, default: Any, annotation: str) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


COMMON_PARAMETERS = (
    inspect.Parameter(
        "size",
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=None,
        annotation="TensorLike | None",
    ),
    _by_name("rng", None, "TensorLike | None"),
    _by_name("dtype", None, "Any"),
    _by_name("return_next_rng", False, "bool"),
)
"""The parameters that all distributions have after their own."""


def documented(text: str, more: dict[str, str]) -> str:
    """Return a docstring with more arguments at the end of its ``Args``."""
    text = inspect.cleandoc(text)
    order = [name for name in ("size", "rng", "dtype", "return_next_rng") if name in more]
    lines = [f"    {name}: " + more[name].replace("\n", "\n        ") for name in order]
    first, head, rest = text.partition("\nArgs:\n")
    if not head:
        summary, gap, rest = text.partition("\n\n")
        return "\n".join([summary, "", "Args:", *lines, *([""] if gap else []), rest]).rstrip()
    listed, gap, rest = rest.partition("\n\n")
    return "\n".join([first + head + listed, *lines]) + gap + rest


def with_returns(text: str, *, vectors: bool) -> str:
    """Return a docstring with what all distributions return, after its ``Args``."""
    shape = "the shape of the batch, and then the axis of each" if vectors else "the shape ``size``"
    returns = f"    Draws of {shape}; with ``return_next_rng``, the next key and the draws."
    head, gap, rest = text.partition("\n\nArgs:\n")
    listed, end, more = rest.partition("\n\n")
    return f"{head}{gap}{listed}\n\nReturns:\n{returns}{end}{more}"
