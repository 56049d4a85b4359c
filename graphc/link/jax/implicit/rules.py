"""Handlers of JAX's primitives on structured arrays, in terms of their methods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graphc.implicit import dot, elementwise, index
from graphc.implicit.known import is_same_number, number_of
from graphc.implicit.layout import (
    StructureLost,
    broadcast,
    expand_dims,
    require,
    reshape,
    squeeze,
    structural,
    transpose,
)
from graphc.implicit.policy import as_dense, densify
from graphc.implicit.registry import register
from graphc.implicit.structured import Structured
from graphc.link.jax.implicit.interpreter import where_now
from graphc.link.jax.implicit.primitives import primitive, rows_of_primitives

BINARY = {"add": "add", "add_any": "add", "sub": "subtract", "mul": "multiply", "div": "divide"}
"""NumPy's names of primitives of two operands."""

REDUCTIONS = {
    "reduce_sum": "sum",
    "reduce_prod": "prod",
    "reduce_max": "max",
    "reduce_min": "min",
    "reduce_and": "all",
    "reduce_or": "any",
}
"""The methods of ``Structured`` that reductions are called by; the last two for bool."""


def _ints(numbers: Iterable[Any]) -> tuple[int, ...]:
    """Convert NumPy integers among parameters to Python's: JAX would trace them."""
    return tuple(map(int, numbers))


# Products.


@register("dot_general")
@structural
def _dot_general(
    a: Any, b: Any, *, dimension_numbers: Any, precision: Any, preferred_element_type: Any, **_: Any
) -> Any:
    contract, batch = [(_ints(left), _ints(right)) for left, right in dimension_numbers]
    dtype = preferred_element_type or jnp.promote_types(a.dtype, b.dtype)
    with at_precision(precision):
        return dot.dot_general(a, b, contract, batch, jnp.dtype(dtype))


def at_precision(wanted: Any) -> AbstractContextManager[Any]:
    """Set the precision of a structure's products to that of the whole product.

    Raises:
        StructureLost: It is none that has a name.
    """
    wanted = wanted[0] if isinstance(wanted, tuple) else wanted
    if wanted is not None and not hasattr(wanted, "name"):
        raise StructureLost
    if wanted is None:
        return nullcontext()
    is_level = isinstance(wanted, jax.lax.Precision)
    name = wanted.name.lower() if is_level else wanted.name
    found: AbstractContextManager[Any] = jax.default_matmul_precision(name)
    return found


# The same elements in other places.


@register("transpose")
@structural
def _transpose(x: Structured, *, permutation: Any) -> Any:
    return transpose(x, _ints(permutation))


@register("reshape")
@structural
def _reshape(x: Structured, *, new_sizes: Any, dimensions: Any, **_: Any) -> Any:
    return NotImplemented if dimensions else reshape(x, _ints(new_sizes))


@register("squeeze")
@structural
def _squeeze(x: Structured, *, dimensions: Any) -> Any:
    return squeeze(x, _ints(dimensions))


@register("broadcast_in_dim")
@structural
def _broadcast(x: Structured, *, shape: Any, broadcast_dimensions: Any, **_: Any) -> Any:
    return broadcast(x, _ints(shape), _ints(broadcast_dimensions))


@register("rev")
def _reverse(x: Structured, *, dimensions: Any) -> Any:
    return index.flip(x, _ints(dimensions))


# Parts.


@register("slice")
def _slice(x: Structured, *, start_indices: Any, limit_indices: Any, strides: Any) -> Any:
    steps = _ints(strides or [1] * x.ndim)
    return index.slice_axes(x, _ints(start_indices), _ints(limit_indices), steps)


@register("dynamic_slice")
@structural
def _dynamic_slice(x: Structured, *starts: Any, slice_sizes: Any, **_: Any) -> Any:
    """Slice dynamically; starts are clipped to bounds, as XLA does."""
    places, sizes = [place(start) for start in starts], _ints(slice_sizes)
    y = _window_at(x, places, sizes)
    if y is not NotImplemented:
        return y
    y = x
    for axis, (start, size) in enumerate(zip(places, sizes, strict=True)):
        if size == x.shape[axis]:
            continue
        if not isinstance(y, Structured):
            y = jax.lax.dynamic_slice_in_dim(y, start, size, axis)
            continue
        start = jnp.clip(start, 0, x.shape[axis] - size)
        y = require(index.take_slices(y, start + jnp.arange(size, dtype=start.dtype), axis))
        y = transpose(y, _moved(y.ndim, axis))
    return y


def _window_at(x: Any, places: Sequence[Any], sizes: Sequence[int]) -> Any:
    """Slice each field of an array dynamically, where its structure allows that."""
    whole = [m == n for m, n in zip(sizes, x.shape, strict=True)]

    def read(x: Any) -> Any:
        given = zip(sizes, whole, x.shape, strict=True)
        return jax.lax.dynamic_slice(x, places, [n if flag else m for m, flag, n in given])

    if whole[-2:] != [True, False]:
        return x.window_at(whole, read)
    turned = _window_at(_turned(x), _last_two(places), _last_two(sizes))
    return NotImplemented if turned is NotImplemented else _turned(turned)


def _last_two(entries: Sequence[Any]) -> list[Any]:
    """The last two entries exchanged."""
    return [*entries[:-2], entries[-1], entries[-2]]


def _turned(x: Any) -> Any:
    """The last two axes exchanged, along either of which the codes of an array may be packed."""
    return transpose(x, tuple(_last_two(range(x.ndim))))


def _moved(ndim: int, axis: int) -> tuple[int, ...]:
    """Move the first axis to a place."""
    return (*range(1, axis + 1), 0, *range(axis + 1, ndim))


def place(index: Any) -> Any:
    """Make an index whole, as the policy allows: which elements it takes must be known."""
    return as_dense(index, "an index", where_now())


@register("dynamic_update_slice")
@structural
def _dynamic_update_slice(x: Any, update: Any, *starts: Any) -> Any:
    places = [place(start) for start in starts]
    whole = [m == n for m, n in zip(update.shape, x.shape, strict=True)]
    if isinstance(x, Structured) and whole[-2:] == [True, False]:
        y = _dynamic_update_slice(_turned(x), _turned(update), *_last_two(places))
        return NotImplemented if y is NotImplemented else _turned(y)

    def write(x: Any, update: Any) -> Any:
        return jax.lax.dynamic_update_slice(x, update, places)

    return index.update(x, update, whole, write)


@register("scatter")
def _scatter(
    x: Any, indices: Any, updates: Any, *, dimension_numbers: Any, mode: Any, **parameters: Any
) -> Any:
    if is_same_number(x, updates):
        return x
    numbers = dimension_numbers
    gone = {*_ints(numbers.inserted_window_dims), *_ints(numbers.operand_batching_dims)}
    kept = [axis for axis in range(x.ndim) if axis not in gone]
    windows = dict(zip(kept, _ints(numbers.update_window_dims), strict=True))
    whole = [
        axis in windows and updates.shape[windows[axis]] == n for axis, n in enumerate(x.shape)
    ]
    if windows.get(x.ndim - 1) != updates.ndim - 1:
        return NotImplemented
    settings = {name: parameters[name] for name in ("indices_are_sorted", "unique_indices")}
    places = place(indices)

    def write(x: Any, updates: Any) -> Any:
        return jax.lax.scatter(x, places, updates, numbers, mode=mode, **settings)

    return index.update(x, updates, whole, write)


@register("scatter_add")
def _scatter_add(x: Any, indices: Any, updates: Any, **_: Any) -> Any:
    """Nothing changes where zeros are added."""
    return x if number_of(updates) == 0 else NotImplemented


@register("gather")
def _gather(x: Structured, indices: Any, **parameters: Any) -> Any:
    return gathered(x, indices, index.take_slices, parameters)


@structural
def gathered(
    x: Any, indices: Any, rows_of: Callable[[Any, Any, int], Any], parameters: Mapping[str, Any]
) -> Any:
    """Gather whole slices along one axis, as ``take`` and indexing by one array do.

    Args:
        x: An implicit array.
        indices: As the primitive has them.
        rows_of: Gives the slices of an array at places within bounds along an axis, or
            NotImplemented; the axes of the places stand first.
        parameters: The primitive's.
    """
    numbers = parameters["dimension_numbers"]
    collapsed = _ints(numbers.collapsed_slice_dims)
    is_one = len(collapsed) == 1 and collapsed == _ints(numbers.start_index_map)
    if not is_one or numbers.operand_batching_dims:
        return NotImplemented
    (axis,) = collapsed
    n = x.shape[axis]
    if not n or any(size != n for size, n in _others(parameters["slice_sizes"], x.shape, axis)):
        return NotImplemented
    places = place(indices)[..., 0]
    y = require(rows_of(x, jnp.clip(places, 0, n - 1), axis))
    if parameters["mode"] == jax.lax.GatherScatterMode.FILL_OR_DROP:
        y = _filled(y, (places >= 0) & (places < n), parameters["fill_value"])
    # The axes of the slices stand where the primitive says, those of the index between them.
    behind, front = iter(range(places.ndim, y.ndim)), iter(range(places.ndim))
    offsets = numbers.offset_dims
    return transpose(y, tuple(next(behind if i in offsets else front) for i in range(y.ndim)))


def _others(sizes: Sequence[int], shape: Sequence[int], axis: int) -> Iterator[tuple[int, int]]:
    return ((m, n) for i, (m, n) in enumerate(zip(sizes, shape, strict=True)) if i != axis)


def _filled(y: Any, inside: Any, value: Any) -> Any:
    """Gather slices, and fill those out of bounds; the result is whole."""
    inside = jnp.expand_dims(inside, tuple(range(inside.ndim, y.ndim)))
    value = jnp.asarray(_fill_value(y.dtype) if value is None else value, y.dtype)
    return jnp.where(inside, densify(y), value)


def _fill_value(dtype: Any) -> Any:
    """Return JAX's default fill value."""
    if jnp.issubdtype(dtype, jnp.inexact):
        return jnp.nan
    if dtype.kind == "b":
        return True
    bounds = np.iinfo(dtype)
    return bounds.max if dtype.kind == "u" else bounds.min


@register("concatenate")
def _concatenate(*xs: Any, dimension: int) -> Any:
    return index.concatenate(xs, int(dimension))


def _stack(*xs: Any, axis: int) -> Any:
    return index.concatenate([expand_dims(x, (int(axis),)) for x in xs], int(axis))


def _split(x: Structured, *, sizes: Any, axis: int) -> Any:
    return index.split(x, _ints(sizes), int(axis))


# Element by element.


@register("convert_element_type")
def _cast(x: Structured, *, new_dtype: Any, **_: Any) -> Any:
    dtype = jnp.dtype(new_dtype)
    return x if x.dtype == dtype else x.cast(dtype)


@register("select_n")
def _select(which: Any, *cases: Any) -> Any:
    if len(cases) != 2 or which.dtype != bool:
        return NotImplemented
    otherwise, chosen = cases
    return elementwise.where(which, chosen, otherwise)


@register("clamp")
def _clamp(low: Any, x: Any, high: Any, **_: Any) -> Any:
    return elementwise.clip(x, low, high)


@register("integer_pow")
def _power(x: Structured, *, y: int, **_: Any) -> Any:
    return elementwise.integer_power(x, int(y))


@register("rsqrt")
@structural
def _reciprocal_of_root(x: Structured, **_: Any) -> Any:
    root = require(x.mapped("sqrt"))
    return root.mapped("reciprocal") if isinstance(root, Structured) else 1 / root


@register("ne")
def _not_equal(a: Any, b: Any, **_: Any) -> Any:
    """Compare; ``x != x`` is how JAX writes ``isnan``."""
    return elementwise.unary("isnan", a) if a is b else elementwise.binary("not_equal", a, b)


@register("pow")
def _general_power(a: Any, b: Any, **_: Any) -> Any:
    value = number_of(b)
    if isinstance(a, Structured) and value is not None and value == np.round(value.real):
        found = elementwise.integer_power(a, int(value.real))
        if found is not NotImplemented:
            return found
    return elementwise.binary("power", a, b)


@register("round")
def _round(x: Structured, *, rounding_method: Any) -> Any:
    to_even = rounding_method == jax.lax.RoundingMethod.TO_NEAREST_EVEN
    return x.mapped("round") if to_even else NotImplemented


def _enter(name: str, handler: Callable[..., Any]) -> None:
    """Register a handler where JAX has that primitive."""
    if primitive(name) is not None:
        register(name)(handler)


def _enter_unary(name: str, function: str) -> None:
    def apply(x: Structured, **_: Any) -> Any:
        return elementwise.unary(function, x)

    _enter(name, apply)


def _enter_binary(name: str, function: str) -> None:
    def apply(a: Any, b: Any, **_: Any) -> Any:
        return elementwise.arithmetic(function, a, b)

    _enter(name, apply)


def _enter_paired(name: str, function: str) -> None:
    def apply(a: Any, b: Any, **_: Any) -> Any:
        return elementwise.binary(function, a, b)

    _enter(name, apply)


def _enter_reduction(name: str, function: str) -> None:
    def apply(x: Structured, *, axes: Any, **_: Any) -> Any:
        empty = 0 in [x.shape[axis] for axis in axes]
        if (empty and function in {"max", "min"}) or (
            x.dtype != bool and function in {"any", "all"}
        ):
            return NotImplemented
        return elementwise.reduce(x, function, _ints(axes))

    _enter(name, apply)


_enter("stack", structural(_stack))
_enter("split", _split)
for _name, _row in rows_of_primitives().items():
    if _row.arity == 1 and hasattr(jnp, _row.name):
        _enter_unary(_name, _row.name)
for _name, _function in BINARY.items():
    _enter_binary(_name, _function)
for _name, _row in rows_of_primitives().items():
    if _row.row in elementwise.BINARY and _name not in {"ne", "pow"}:
        _enter_paired(_name, _row.row)
_enter_paired("rem", "fmod")
for _name, _function in REDUCTIONS.items():
    _enter_reduction(_name, _function)
