"""Handlers of JAX's primitives on structured arrays, which call the arrays' methods."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graphc.implicit import dot, elementwise, index, layout, operations
from graphc.implicit.known import is_same_number, number_of
from graphc.implicit.policy import as_dense, densify
from graphc.implicit.registry import register
from graphc.implicit.structured import Structured
from graphc.implicit.structures.fill import Fill
from graphc.link.jax.implicit.interpreter import where_now
from graphc.link.jax.jaxprs import default_fill_value
from graphc.link.jax.primitives import primitive, rows_of_primitives
from graphc.tensor.core.elementwise import ROWS

REDUCTIONS = {
    "reduce_sum": "sum",
    "reduce_prod": "prod",
    "reduce_max": "max",
    "reduce_min": "min",
    "reduce_and": "all",
    "reduce_or": "any",
}
"""The methods of ``Structured`` for reductions; the last two for bool."""


def _ints(numbers: Iterable[Any]) -> tuple[int, ...]:
    """Convert NumPy integers among parameters to Python's, as JAX would trace NumPy's."""
    return tuple(map(int, numbers))


# Products.


@register("dot_general")
def _dot_general(
    a: Any, b: Any, *, dimension_numbers: Any, precision: Any, preferred_element_type: Any, **_: Any
) -> Any:
    contract, batch = [(_ints(of_a), _ints(of_b)) for of_a, of_b in dimension_numbers]
    dtype = preferred_element_type or jnp.promote_types(a.dtype, b.dtype)
    with at_precision(precision):
        return dot.dot_general(a, b, contract, batch, jnp.dtype(dtype))


def at_precision(precision: Any) -> AbstractContextManager[Any]:
    """Set the precision of the products that a structured product consists of.

    Raises:
        StructureLost: If the precision has no name.
    """
    precision = precision[0] if isinstance(precision, tuple) else precision
    if precision is not None and not hasattr(precision, "name"):
        raise layout.StructureLost
    if precision is None:
        return nullcontext()
    is_level = isinstance(precision, jax.lax.Precision)
    name = precision.name.lower() if is_level else precision.name
    context: AbstractContextManager[Any] = jax.default_matmul_precision(name)
    return context


# Rearranged elements.


@register("reshape")
def _reshape(x: Structured, *, new_sizes: Any, dimensions: Any, **_: Any) -> Any:
    return NotImplemented if dimensions else layout.reshape(x, _ints(new_sizes))


@register("broadcast_in_dim")
def _broadcast(x: Structured, *, shape: Any, broadcast_dimensions: Any, **_: Any) -> Any:
    return layout.broadcast(x, _ints(shape), _ints(broadcast_dimensions))


@register("rev")
def _reverse(x: Structured, *, dimensions: Any) -> Any:
    return index.flip(x, _ints(dimensions))


# Slices and indices.


@register("slice")
def _slice(x: Structured, *, start_indices: Any, limit_indices: Any, strides: Any) -> Any:
    steps = _ints(strides or [1] * x.ndim)
    return index.slice_axes(x, _ints(start_indices), _ints(limit_indices), steps)


@register("dynamic_slice")
def _dynamic_slice(x: Structured, *starts: Any, slice_sizes: Any, **_: Any) -> Any:
    """Slice dynamically; starts are clipped to bounds, as in XLA."""
    indices, sizes = [dense_index(start) for start in starts], _ints(slice_sizes)
    y = _slice_fields(x, indices, sizes)
    if y is not NotImplemented:
        return y
    y = x
    for axis, (start, size) in enumerate(zip(indices, sizes, strict=True)):
        if size == x.shape[axis]:
            continue
        if not isinstance(y, Structured):
            y = jax.lax.dynamic_slice_in_dim(y, start, size, axis)
            continue
        start = jnp.clip(start, 0, x.shape[axis] - size)
        y = index.take_slices(y, start + jnp.arange(size, dtype=start.dtype), axis)
        y = layout.transpose(y, (*range(1, axis + 1), 0, *range(axis + 1, y.ndim)))
    return y


def _slice_fields(x: Any, starts: Sequence[Any], sizes: Sequence[int]) -> Any:
    """Slice each field of an array dynamically; NotImplemented if the structure forbids it."""
    is_full = [m == n for m, n in zip(sizes, x.shape, strict=True)]

    def read(x: Any) -> Any:
        lengths = zip(sizes, is_full, x.shape, strict=True)
        return jax.lax.dynamic_slice(x, starts, [n if full else m for m, full, n in lengths])

    if is_full[-2:] != [True, False]:
        return x.map_window(read, is_full)
    y = _slice_fields(_swap_last_axes(x), _swap_last(starts), _swap_last(sizes))
    return NotImplemented if y is NotImplemented else _swap_last_axes(y)


def _swap_last(entries: Sequence[Any]) -> list[Any]:
    return [*entries[:-2], entries[-1], entries[-2]]


def _swap_last_axes(x: Any) -> Any:
    """Swap the last two axes; the codes of an array may be packed along either of them."""
    return layout.transpose(x, tuple(_swap_last(range(x.ndim))))


def dense_index(index: Any) -> Any:
    """Densify an index, as the policy allows: indices select elements by their values."""
    return as_dense(index, "an index", where_now())


@register("dynamic_update_slice")
def _dynamic_update_slice(x: Any, update: Any, *starts: Any) -> Any:
    indices = [dense_index(start) for start in starts]
    is_full = [m == n for m, n in zip(update.shape, x.shape, strict=True)]
    if isinstance(x, Structured) and is_full[-2:] == [True, False]:
        swapped = _swap_last_axes(x), _swap_last_axes(update)
        y = _dynamic_update_slice(*swapped, *_swap_last(indices))
        return NotImplemented if y is NotImplemented else _swap_last_axes(y)

    def write(x: Any, update: Any) -> Any:
        return jax.lax.dynamic_update_slice(x, update, indices)

    return index.update(x, update, is_full, write)


@register("scatter")
def _scatter(
    x: Any, indices: Any, updates: Any, *, dimension_numbers: Any, mode: Any, **parameters: Any
) -> Any:
    if is_same_number(x, updates):
        return x
    numbers = dimension_numbers
    removed = {*_ints(numbers.inserted_window_dims), *_ints(numbers.operand_batching_dims)}
    window_axes = [axis for axis in range(x.ndim) if axis not in removed]
    windows = dict(zip(window_axes, _ints(numbers.update_window_dims), strict=True))
    is_full = [
        axis in windows and updates.shape[windows[axis]] == n for axis, n in enumerate(x.shape)
    ]
    if windows.get(x.ndim - 1) != updates.ndim - 1:
        return NotImplemented
    settings = {name: parameters[name] for name in ("indices_are_sorted", "unique_indices")}
    positions = dense_index(indices)

    def write(x: Any, updates: Any) -> Any:
        return jax.lax.scatter(x, positions, updates, numbers, mode=mode, **settings)

    return index.update(x, updates, is_full, write)


@register("scatter_add")
def _scatter_add(x: Any, indices: Any, updates: Any, **_: Any) -> Any:
    """Return the operand unchanged if zeros are added."""
    return x if number_of(updates) == 0 else NotImplemented


@register("gather")
def _gather(x: Structured, indices: Any, **parameters: Any) -> Any:
    return gather_rows(x, indices, index.take_slices, parameters)


def gather_rows(
    x: Any, indices: Any, rows_of: Callable[[Any, Any, int], Any], parameters: Mapping[str, Any]
) -> Any:
    """Gather slices along one axis, as ``take`` and indexing by one array do.

    Args:
        x: An implicit array.
        indices: The primitive's indices.
        rows_of: A function of an array, indices within bounds and an axis, which returns the slices
            with the axes of the indices first; or NotImplemented.
        parameters: The primitive's parameters.
    """
    numbers = parameters["dimension_numbers"]
    collapsed = _ints(numbers.collapsed_slice_dims)
    is_one = len(collapsed) == 1 and collapsed == _ints(numbers.start_index_map)
    if not is_one or numbers.operand_batching_dims:
        return NotImplemented
    (axis,) = collapsed
    n = x.shape[axis]
    sizes = [n if i == axis else m for i, m in enumerate(parameters["slice_sizes"])]
    if not n or sizes != [*x.shape]:
        return NotImplemented
    rows = dense_index(indices)[..., 0]
    y = layout.require(rows_of(x, jnp.clip(rows, 0, n - 1), axis))
    if parameters["mode"] == jax.lax.GatherScatterMode.FILL_OR_DROP:
        y = _fill_outside(y, (rows >= 0) & (rows < n), parameters["fill_value"])
    # The primitive gives the positions of the slices' axes; the index's axes fill the others.
    slice_axis, index_axis = iter(range(rows.ndim, y.ndim)), iter(range(rows.ndim))
    offsets = numbers.offset_dims
    order = [next(slice_axis if i in offsets else index_axis) for i in range(y.ndim)]
    return layout.transpose(y, tuple(order))


def _fill_outside(y: Any, inside: Any, value: Any) -> Any:
    """Return densified slices, in which slices out of bounds are filled with a value."""
    inside = jnp.expand_dims(inside, tuple(range(inside.ndim, y.ndim)))
    value = jnp.asarray(default_fill_value(y.dtype) if value is None else value, y.dtype)
    return jnp.where(inside, densify(y), value)


def _stack(*xs: Any, axis: int) -> Any:
    return index.concatenate([layout.expand_dims(x, (int(axis),)) for x in xs], int(axis))


# Elementwise operations.


@register("select_n")
def _select(mask: Any, *cases: Any) -> Any:
    if len(cases) != 2 or mask.dtype != bool:
        return NotImplemented
    if_false, if_true = cases
    return elementwise.where(mask, if_true, if_false)


@register("clamp")
def _clamp(low: Any, x: Any, high: Any, **_: Any) -> Any:
    return elementwise.clip(x, low, high)


@register("integer_pow")
def _integer_power(x: Structured, *, y: int, **_: Any) -> Any:
    return elementwise.integer_power(x, int(y))


@register("rsqrt")
def _rsqrt(x: Structured, **_: Any) -> Any:
    root = layout.require(elementwise.unary("sqrt", x))
    return elementwise.unary("reciprocal", root) if isinstance(root, Structured) else 1 / root


def _not_equal(a: Any, b: Any, **_: Any) -> Any:
    # JAX writes isnan(x) as x != x.
    return elementwise.unary("isnan", a) if a is b else elementwise.binary("not_equal", a, b)


@register("round")
def _round(x: Structured, *, rounding_method: Any) -> Any:
    to_even = rounding_method == jax.lax.RoundingMethod.TO_NEAREST_EVEN
    return elementwise.unary("round", x) if to_even else NotImplemented


# Arrays of one number, if the results are such arrays too.

FILLING = jax.lax.GatherScatterMode.FILL_OR_DROP


def _with_shape(x: Fill, shape: Any) -> Any:
    """Return an array of the same number; NotImplemented for a stack of numbers."""
    return NotImplemented if x.depth else x.with_value(x.value, tuple(map(int, shape)))


# After the handler of structured arrays, which fills slices out of bounds.
@register("gather", precedence=-1)
def _gather_number(x: Fill, indices: Any, *, mode: Any, **parameters: Any) -> Any:
    if mode == FILLING:
        return NotImplemented
    types: Any = [jax.core.ShapedArray(operand.shape, operand.dtype) for operand in (x, indices)]

    def gather(*operands: Any) -> Any:
        return jax.lax.gather_p.bind(*operands, mode=mode, **parameters)

    return _with_shape(x, jax.eval_shape(gather, *types).shape)


@register("pad")
def _pad_number(x: Fill, value: Any, *, padding_config: Any) -> Any:
    if not is_same_number(x, value):
        return NotImplemented
    lengths = [
        low + high + n + max(n - 1, 0) * interior
        for n, (low, high, interior) in zip(x.shape, padding_config, strict=True)
    ]
    return _with_shape(x, lengths)


@register("sort")
def _sort_number(x: Fill, **_: Any) -> Any:
    return [x]


def _keep(x: Fill, **_: Any) -> Any:
    return x


def _keep_zeros(x: Fill, **_: Any) -> Any:
    return x if number_of(x) == 0 else NotImplemented


# Operations that graphs have too: one handler serves both.

RENAMED: dict[str, tuple[Callable[..., Any], dict[str, str]]] = {
    "concatenate": (operations.concatenate, {"dimension": "axis"}),
    "convert_element_type": (operations.cast, {"new_dtype": "dtype"}),
    "split": (operations.split, {"axis": "axis", "sizes": "sizes"}),
    "squeeze": (operations.squeeze, {"dimensions": "axes"}),
    "transpose": (operations.transpose, {"permutation": "axes"}),
}
"""By primitive, the handler of the operation, and its parameters by their names in JAX."""

ROW_NAMES = {"add_any": "add", "div": "divide", "pow": "power", "rem": "fmod"}
"""Primitives that are elementwise functions for some dtypes only, or under another name."""


def _rename(handler: Callable[..., Any], names: Mapping[str, str]) -> Callable[..., Any]:
    @functools.wraps(handler)
    def apply(*xs: Any, **parameters: Any) -> Any:
        return handler(*xs, **{own: _plain(parameters[name]) for name, own in names.items()})

    return apply


def _plain(parameter: Any) -> Any:
    """Convert NumPy integers, which JAX would trace, to Python's."""
    if isinstance(parameter, tuple | list):
        return _ints(parameter)
    return int(parameter) if isinstance(parameter, int | np.integer) else parameter


def _row_handlers() -> Iterator[tuple[str, Callable[..., Any]]]:
    rows = {**rows_of_primitives(), **{name: ROWS[row] for name, row in ROW_NAMES.items()}}
    for name, row in rows.items():
        if row in operations.HANDLED_ROWS and (row.arity > 1 or hasattr(jnp, row.name)):
            yield name, operations.row_handler(row)


def _reduction_handler(name: str) -> Callable[..., Any]:
    def reduce(x: Structured, *, axes: Any, **_: Any) -> Any:
        is_bitwise = name in {"any", "all"} and x.dtype != bool
        return NotImplemented if is_bitwise else elementwise.reduce(x, name, _ints(axes))

    return reduce


HANDLERS: dict[str, Callable[..., Any]] = {
    **dict(_row_handlers()),
    **{name: _reduction_handler(function) for name, function in REDUCTIONS.items()},
    **{name: _rename(handler, names) for name, (handler, names) in RENAMED.items()},
    **dict.fromkeys(("cummax", "cummin"), _keep),
    **dict.fromkeys(("cumprod", "cumsum", "reduce_precision"), _keep_zeros),
    "ne": _not_equal,
    "stack": _stack,
}
for _name, _handler in HANDLERS.items():
    if primitive(_name) is not None:  # each release of JAX lacks some
        register(_name)(_handler)
