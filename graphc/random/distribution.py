"""Public functions of distributions, built from samplers, which draw an array with a key."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, overload

import numpy as np

from graphc import ir
from graphc.config import config
from graphc.errors import ArgumentError, DTypeError, ShapeError
from graphc.ir.dtypes import is_jax_key
from graphc.random.generator import DISTRIBUTIONS, KEY, Generator, as_generator, fresh
from graphc.random.keys import Lengths, fold_in
from graphc.tensor.arrays.broadcast import broadcast_lengths
from graphc.tensor.core.elementwise import cast, greater_equal, minimum, where
from graphc.tensor.core.runtime import Runtime
from graphc.tensor.core.shape import mixed_entries
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
    "integer_dtype",
    "nan_unless",
    "own_float_dtype",
    "refuse_keys",
    "register_distribution",
    "rng_of",
    "to_arrays",
    "with_next",
]

Sampler = Callable[..., Tensor]
Public = Callable[..., Any]
Drawn = Tensor | tuple[Generator, Tensor]
"""A draw, or the next generator and the draw."""

LAST = 0xFFFFFFFF
"""The number folded into a key for the next key; no draw uses it."""

COMMON_DOCS = {
    "size": "The shape of the batch of draws: integers, Python's or symbolic, or an int64 vector\n"
    "of static length. By default the common shape of the parameters.",
    "rng": "The key, uint32[2], as of ``key``, ``split``, ``rng`` or ``shared_rng``. By default a\n"
    "shared variable of fresh entropy, which nothing updates: the draw is the same in each call.",
    "return_next_rng": "Return a pair of the next key and the draw.",
}
"""The documentation of the arguments of all distributions."""


# Parameters.


def to_arrays(title: str, values: Sequence[Any], dtype: str | None = None) -> list[Tensor | None]:
    """Return parameters as symbolic arrays of a dtype; None stays None."""
    result = []
    for x in values:
        if x is not None and not _is_weak(x):
            x = as_tensor(x)
            if ir.is_complex(x.dtype):
                raise DTypeError(f"{title}: the parameter {x!r} is complex.", "Give its real part.")
        result.append(x if x is None else as_tensor(x, dtype=dtype))
    return result


def _is_weak(x: Any) -> bool:
    return isinstance(x, bool | int | float) and not isinstance(x, np.generic | Runtime)


def float_dtype(values: Sequence[Any]) -> str:
    """Return the dtype of the floating arrays among the parameters, or ``config.floatX``."""
    arrays = [as_tensor(x) for x in values if isinstance(x, Tensor | np.ndarray | np.generic)]
    dtypes = [x.dtype for x in arrays if ir.is_float(x.dtype)]
    return ir.promote(*dtypes) if dtypes else config.floatX


def own_float_dtype(title: str, values: Sequence[Any], dtype: Any) -> str:
    name = float_dtype(values) if dtype is None else ir.dtype_name(dtype)
    if not ir.is_float(name):
        raise DTypeError(
            f"{title}: draws are real floating numbers, not {name}.", "Cast the draw with astype."
        )
    return name


def integer_dtype(title: str, dtype: Any) -> str:
    """Return the dtype of integer draws, int64 by default."""
    name = "int64" if dtype is None else ir.dtype_name(dtype)
    if not ir.is_integer(name):
        raise DTypeError(f"{title}: draws are integers, not {name}.", "Cast the draw with astype.")
    return name


def batch_lengths(title: str, size: Any, params: Sequence[Tensor], cores: Sequence[int]) -> Lengths:
    """Return the shape of the batch: ``size``, or the broadcast parameters without core axes.

    Raises:
        DTypeError: If an entry of the size is no integer.
        ShapeError: If a parameter lacks axes, or does not broadcast to the size.
    """
    for x, core in zip(params, cores, strict=True):
        if x.ndim < core:
            raise ShapeError(
                f"{title}: the parameter {x!r} has {x.ndim} axes; expected at least {core}.",
                "Give it the missing axes, as x[None].",
            )
    heads = [(x, x.type.shape[: x.ndim - core]) for x, core in zip(params, cores, strict=True)]
    if size is None:
        return _broadcast_shape(title, params, cores)
    shape = mixed_entries(title, size)
    static = tuple(None if isinstance(n, Tensor) else n for n in shape)
    for x, head in heads:
        pairs = zip(head[::-1], static[::-1], strict=False)
        if len(head) > len(static) or any(None not in {n, m} and n not in {1, m} for n, m in pairs):
            raise ShapeError(
                f"{title}: the parameter {x!r} does not broadcast to size={static}.",
                "Give the whole shape of the batch, the parameters' own axes included.",
            )
    return shape


def _broadcast_shape(title: str, params: Sequence[Tensor], cores: Sequence[int]) -> Lengths:
    # The first number of each core has the batch's axes only.
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


def refuse_keys(title: str, *parameters: Any) -> None:
    """Check that no parameter is a key, which is the first argument in ``jax.random``."""
    for x in parameters:
        if _is_key(x):
            raise ArgumentError(
                f"{title}: a key is no parameter, got {x!r}.",
                f"Write {title}(..., size=(3,), rng=key). Of two numbers in uint32 that are no "
                "key, use x.astype('int64').",
            )


def _is_key(x: Any) -> bool:
    """Return whether a value is NumPy's generator, JAX's typed key, or has the type of a key."""
    if isinstance(x, np.random.Generator | np.random.RandomState):
        return True
    dtype, shape = str(getattr(x, "dtype", "")), getattr(getattr(x, "type", x), "shape", None)
    return is_jax_key(dtype) or (dtype == KEY.dtype and shape == KEY.shape)


def rng_of(title: str, rng: Any) -> Tensor:
    """Return a user's key, checked; a fresh one for None."""
    if rng is None:
        return fresh()
    if isinstance(rng, np.random.Generator | np.random.RandomState | int):
        raise DTypeError(
            f"{title}: rng={rng!r} is no key.",
            "Use rng=gt.random.key(seed), or gt.random.shared_rng(seed=...), whose value is kept.",
        )
    # A leaf, so that another key does not compile another program.
    key = Tensor.make(ir.Leaf(rng)) if isinstance(rng, np.ndarray) else as_tensor(rng)
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
    """Return the draw, or a pair of the next generator and the draw."""

    def next_generator() -> Generator:
        return as_generator(fold_in(key, LAST))

    if not isinstance(draw.op, ir.Input | ir.Leaf | ir.Constant):
        ir.BESIDE[draw] = next_generator
    return (next_generator(), draw) if return_next_rng else draw


# Draws.


def as_draws(x: Tensor, valid: Any, dtype: str) -> Tensor:
    """Return draws as integers of a dtype: -1 where invalid, the dtype's largest on overflow."""
    limit = min(np.iinfo(dtype).max, np.iinfo("int64").max)
    largest = np.array(limit, x.dtype)
    if int(largest) > limit:
        largest = np.nextafter(largest, largest.dtype.type(0))
    return cast(cast(where(valid, minimum(x, largest), -1), "int64"), dtype)


def nan_unless(valid: Tensor, x: Tensor) -> Tensor:
    """Return draws where a comparison of their parameters holds, and NaN elsewhere."""
    values = [y.op.value for y in valid.inputs if isinstance(y.op, ir.Constant)]
    if len(values) == len(valid.inputs) and valid.op.perform(*values).all():
        return x
    return where(valid, x, np.nan)


def _within_scales(x: Tensor, parameters: Mapping[str, Tensor | None]) -> Tensor:
    """Return floating draws where their scale is not negative, and NaN elsewhere."""
    scales = [parameters.get(name) for name in ("scale", "sigma")]
    for scale in scales:
        x = x if scale is None else nan_unless(greater_equal(scale, 0), x)
    return x


# Public functions.


def register_distribution(f: Callable[..., Any]) -> Callable[..., Any]:
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

    return _decorate(sampler, dtypes_of, dtypes)


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
        return ir.promote(float_dtype(values), "float32"), integer_dtype(title, dtype)

    return _decorate(sampler, dtypes_of, dtypes)


def _decorate(sampler: Sampler | str, dtypes_of: Any, dtypes: str) -> Any:
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
    kinds = ["TensorLike | None" if p.default is None else "TensorLike" for p in parameters]
    annotated = [p.replace(annotation=kind) for p, kind in zip(parameters, kinds, strict=True)]
    signature = inspect.Signature([*annotated, *COMMON_PARAMETERS], return_annotation="Drawn")
    ranks = dict(zip([p.name for p in parameters], cores or [0] * len(parameters), strict=True))

    @wraps(sampler)
    def draw(*args: Any, **kwargs: Any) -> Any:
        # By position, the key of jax.random's functions may stand where `rng` does.
        refuse_keys(title, *args)
        bound = _bind_arguments(title, signature, args, kwargs)
        size, rng, dtype, return_next_rng = (bound.pop(p.name) for p in COMMON_PARAMETERS)
        refuse_keys(title, *bound.values(), size)
        param_dtype, result = dtypes_of(title, list(bound.values()), dtype)
        params = to_arrays(title, list(bound.values()), param_dtype)
        arrays = [(x, ranks[name]) for x, name in zip(params, bound, strict=True) if x is not None]
        shape = batch_lengths(title, size, [x for x, _ in arrays], [n for _, n in arrays])
        key = rng_of(title, rng)
        x = sampler(key, tuple(shape), result, *params)
        x = _within_scales(x, dict(zip(bound, params, strict=True)))
        return with_next(key, x, return_next_rng)

    draw.__signature__ = signature  # type: ignore[attr-defined]
    draw.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
    draw.__annotations__["return"] = signature.return_annotation
    argument_docs = {**COMMON_DOCS, "dtype": dtypes}
    draw.__doc__ = with_returns(add_args(sampler.__doc__ or "", argument_docs), vectors=own_axes)
    del draw.__wrapped__
    return register_distribution(draw)


def _bind_arguments(
    title: str, signature: inspect.Signature, args: Sequence[Any], kwargs: dict[str, Any]
) -> dict[str, Any]:
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise ArgumentError(f"{title}: {error}.", f"Its arguments are {signature}.") from None
    bound.apply_defaults()
    return bound.arguments


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
"""The last parameters of all distributions."""


def add_args(text: str, arguments: dict[str, str]) -> str:
    """Return a docstring with more arguments at the end of its ``Args``."""
    text = inspect.cleandoc(text)
    order = [name for name in ("size", "rng", "dtype", "return_next_rng") if name in arguments]
    lines = [f"    {name}: " + arguments[name].replace("\n", "\n        ") for name in order]
    first, head, rest = text.partition("\nArgs:\n")
    if not head:
        summary, gap, rest = text.partition("\n\n")
        return "\n".join([summary, "", "Args:", *lines, *([""] if gap else []), rest]).rstrip()
    args, gap, rest = rest.partition("\n\n")
    return "\n".join([first + head + args, *lines]) + gap + rest


def with_returns(text: str, *, vectors: bool) -> str:
    """Return a docstring with what all distributions return, after its ``Args``."""
    shape = "the shape of the batch, and then the axis of each" if vectors else "the shape ``size``"
    returns = f"    Draws of {shape}; with ``return_next_rng``, the next key and the draws."
    head, gap, rest = text.partition("\n\nArgs:\n")
    args, end, tail = rest.partition("\n\n")
    return f"{head}{gap}{args}\n\nReturns:\n{returns}{end}{tail}"
