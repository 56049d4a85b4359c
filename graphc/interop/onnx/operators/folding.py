"""Operators on arrays whose elements are known, integers computed from lengths among them.

Exporters compute shapes by nodes: ``Concat(Gather(Shape(x), 0), [-1])``. Here these become numbers
and symbolic scalars while the model is loaded, so that a reshape has lengths.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce
from math import prod
from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.interop.onnx.operation import FOLDS, Operation, register
from graphc.interop.onnx.operators.elementwise import divided
from graphc.interop.onnx.values import FEW, Known, Refusal, Value, axis_of
from graphc.ir import DTYPES, is_float, is_integer
from graphc.tensor import Tensor
from graphc.tensor.core.shape import Length, length


def fold(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function as what operators do with known elements."""

    def entered(function: Callable[..., Any]) -> Callable[..., Any]:
        FOLDS.update(dict.fromkeys(names, function))
        return function

    return entered


# Elements: Python's functions where some are symbolic, else NumPy's.


def _elementwise(numeric: Callable[..., Any], symbolic: Callable[..., Any]) -> Callable[..., Any]:
    def apply(_: Operation, *operands: Known) -> Known | None:
        if any(x.is_symbolic and is_float(x.dtype) for x in operands):
            return None
        if not any(x.is_symbolic for x in operands):
            with np.errstate(all="ignore"):
                return Known.of(np.asarray(numeric(*(x.array for x in operands))))
        if not _are_few(*operands):
            return None
        found = np.frompyfunc(symbolic, len(operands), 1)(*(_objects(x) for x in operands))
        kind = numeric(*(np.ones((), x.dtype) for x in operands)).dtype.name
        return Known.of(_array(found), kind)

    return apply


def _are_few(*operands: Known) -> bool:
    return int(np.prod(np.broadcast_shapes(*(x.array.shape for x in operands)))) <= FEW


def _objects(x: Known) -> np.ndarray[Any, Any]:
    """The elements as Python's numbers."""
    if x.is_symbolic:
        return x.array
    found = np.empty(x.array.shape, object)
    found[...] = x.array.tolist() if x.array.ndim else x.array.item()
    return found


def _array(x: Any) -> np.ndarray[Any, Any]:
    """An array of objects; of a single one, of no axes."""
    if isinstance(x, np.ndarray):
        return x
    found = np.empty((), object)
    found[()] = x
    return found


def _truncated(a: Any, b: Any) -> Any:
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return divided(gt.as_tensor(a), gt.as_tensor(b))
    return int(np.trunc(np.divide(a, b))) if b else 0


def _divided(a: Any, b: Any) -> Any:
    if not np.issubdtype(a.dtype, np.integer):
        return a / b
    safe = np.where(b == 0, 1, b)
    quotient = a // safe
    return (quotient + ((quotient * safe != a) & (quotient < 0))).astype(a.dtype)


def _equal(a: Any, b: Any) -> Any:
    """Whether two numbers are equal; no length is negative."""
    for x, y in ((a, b), (b, a)):
        if isinstance(x, Tensor) and isinstance(x.op, Length) and not isinstance(y, Tensor):
            return False if y < 0 else gt.equal(x, y)
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return a is b or gt.equal(a, b)
    return a == b


def _where(condition: Any, a: Any, b: Any) -> Any:
    return gt.where(condition, a, b) if isinstance(condition, Tensor) else (a if condition else b)


def _largest(*x: Any) -> Any:
    return gt.maximum(*x) if any(isinstance(n, Tensor) for n in x) else max(x)


def _least(*x: Any) -> Any:
    return gt.minimum(*x) if any(isinstance(n, Tensor) for n in x) else min(x)


def _not(x: Any) -> Any:
    return gt.logical_not(x) if isinstance(x, Tensor) else not x


def _no_zero(x: Known) -> bool:
    return all(isinstance(n, Tensor) or bool(n) for n in x.array.flat)


_mod = _elementwise(np.mod, operator.mod)
FOLDS.update(
    {
        "Add": _elementwise(np.add, operator.add),
        "And": _elementwise(np.logical_and, gt.logical_and),
        "Div": _elementwise(_divided, _truncated),
        "Equal": _elementwise(np.equal, _equal),
        "Greater": _elementwise(np.greater, operator.gt),
        "GreaterOrEqual": _elementwise(np.greater_equal, operator.ge),
        "Less": _elementwise(np.less, operator.lt),
        "LessOrEqual": _elementwise(np.less_equal, operator.le),
        "Mod": lambda op, a, b: (
            _mod(op, a, b) if not op["fmod"] and is_integer(a.dtype) and _no_zero(b) else None
        ),
        "Mul": _elementwise(np.multiply, operator.mul),
        "Neg": _elementwise(np.negative, operator.neg),
        "Not": _elementwise(np.logical_not, _not),
        "Sub": _elementwise(np.subtract, operator.sub),
        "Where": _elementwise(np.where, _where),
    }
)


@fold("Max")
def _max(op: Operation, *operands: Known) -> Any:
    return reduce(lambda a, b: a and LARGEST(op, a, b), operands[1:], operands[0])


@fold("Min")
def _min(op: Operation, *operands: Known) -> Any:
    return reduce(lambda a, b: a and LEAST(op, a, b), operands[1:], operands[0])


LARGEST = _elementwise(np.maximum, _largest)
LEAST = _elementwise(np.minimum, _least)


@fold("Identity")
def _identity(_: Operation, x: Known) -> Known:
    return x


@fold("Floor", "Ceil", "Sqrt")
def _rounded(op: Operation, x: Known) -> Known | None:
    functions: dict[str, Callable[..., Any]] = {
        "Floor": np.floor,
        "Ceil": np.ceil,
        "Sqrt": np.sqrt,
    }
    return None if x.is_symbolic else Known.of(functions[op.node.op_type](x.array), x.dtype)


@fold("Cast")
def _cast(op: Operation, x: Known) -> Known | None:
    dtype = op.dtype("to", x.dtype)
    if x.is_symbolic:
        return Known(x.array, dtype) if is_integer(x.dtype) and is_integer(dtype) else None
    if x.dtype not in DTYPES:
        return None
    with np.errstate(all="ignore"):
        return Known.of(x.array, dtype)


# Elements moved.


def _moving(move: Callable[..., Any]) -> Callable[..., Any]:
    """A fold by a function of NumPy's arrays, of any elements."""

    def apply(op: Operation, x: Known, *more: Any) -> Known | None:
        found = move(op, x.array, *more)
        return None if found is None else Known.of(_array(found), x.dtype)

    return apply


@fold("Squeeze")
@_moving
def _squeeze(op: Operation, x: Any, *_: Any) -> Any:
    return np.squeeze(x, op.axes(1, x.ndim))


@fold("Unsqueeze")
@_moving
def _unsqueeze(op: Operation, x: Any, *_: Any) -> Any:
    count = len(op["axes"] if op["axes"] is not None else op.numbers(1, "the axes"))
    return np.expand_dims(x, op.axes(1, x.ndim + count) or ())


@fold("Transpose")
@_moving
def _transpose(op: Operation, x: Any) -> Any:
    return np.transpose(x, op["perm"])


@fold("Flatten")
@_moving
def _flatten(op: Operation, x: Any) -> Any:
    axis = op["axis"] % x.ndim if x.ndim and op["axis"] != x.ndim else x.ndim
    return np.reshape(x, (int(np.prod(x.shape[:axis])), -1) if x.size else (0, 0))


@fold("Gather")
@_moving
def _gather(op: Operation, x: Any, indices: Known) -> Any:
    return None if indices.is_symbolic else np.take(x, indices.array, op.axis(x.ndim))


@fold("Slice")
@_moving
def _slice(op: Operation, x: Any, *more: Any) -> Any:
    if any(value is not None and value.is_symbolic for value in more):
        return None
    return x[slices_of(op, x.ndim)]


@fold("Reshape")
@_moving
def _reshape(op: Operation, x: Any, shape: Known) -> Any:
    if shape.is_symbolic:
        return None
    copied = [x.shape[i] if not n and not op["allowzero"] else n for i, n in _counted(shape)]
    return np.reshape(x, copied)


def _counted(x: Known) -> list[tuple[int, int]]:
    return list(enumerate(map(int, x.array.reshape(-1))))


@fold("Expand")
@_moving
def _expand(_: Operation, x: Any, shape: Known) -> Any:
    if shape.is_symbolic:
        return None
    full = np.broadcast_shapes(x.shape, tuple(n for _, n in _counted(shape)))
    return (
        np.broadcast_to(x, full) if np.prod([int(n) for n in full], dtype=object) <= FEW else None
    )


@fold("Concat")
def _concat(op: Operation, *parts: Known) -> Known | None:
    if sum(x.array.size for x in parts) > FEW:
        return None
    axis = op.axis(parts[0].array.ndim)
    return Known.of(np.concatenate([_objects(x) for x in parts], axis), parts[0].dtype)


@fold("ReduceProd")
def _prod(op: Operation, x: Known, *_: Any) -> Known | None:
    if not is_integer(x.dtype) or op.axes(1, x.array.ndim) not in {None, (0,)}:
        return None
    if x.array.ndim != 1:
        return None
    found = _array(prod([*_objects(x)]))
    return Known.of(found.reshape((1,) if op["keepdims"] else ()), x.dtype)


# Where shapes come from, and arrays made of them.


@register("Shape")
def _shape(op: Operation, x: Tensor) -> Known:
    """The lengths: numbers where they are known."""
    found = [length(x, axis) for axis in range(x.ndim)]
    end = op["end"]
    return Known.of_list(found[slice(op["start"], x.ndim if end is None else end)])


@register("Size")
def _size(_: Operation, x: Tensor) -> Known:
    return Known.of(_array(prod(length(x, i) for i in range(x.ndim))), "int64")


@register("Constant")
def _constant(op: Operation) -> Known:
    for name, dtype in CONSTANTS.items():
        value = op[name]
        if value is not None:
            return Known.of(np.array(value, dtype), dtype)
    if op["value_string"] is not None or op["value_strings"] is not None:
        text = op["value_string"] if op["value_strings"] is None else op["value_strings"]
        return Known(np.array(text, object), "str")
    if op["sparse_value"] is not None:
        raise Refusal("a sparse value: store it dense")
    return op.scope.conversion.source.known(op["value"])


CONSTANTS = {
    "value_float": "float32",
    "value_int": "int64",
    "value_floats": "float32",
    "value_ints": "int64",
}
"""Attributes that a constant may have, and the dtypes they mean."""


@register("ConstantOfShape")
def _constant_of_shape(op: Operation, _: Tensor) -> Value:
    value = Known.of(np.zeros((), "float32"))
    if op["value"] is not None:
        value = op.scope.conversion.source.known(op["value"])
    entries = op.entries(0)
    fill = value.array.reshape(-1)[0]
    if all(isinstance(n, int) and n >= 0 for n in entries) and prod(entries) <= FEW:
        return Known.of(np.full(entries, fill), value.dtype)
    return gt.full(tuple(entries), gt.constant(fill, dtype=value.dtype))


@register("Range")
def _range(_: Operation, start: Tensor, limit: Tensor, delta: Tensor) -> Value:
    start, limit, delta = (gt.reshape(x, ()) if x.ndim else x for x in (start, limit, delta))
    if is_integer(start.dtype):
        return gt.arange(start, limit, delta, dtype=start.dtype)
    count = gt.maximum(gt.ceil((limit - start) / delta), 0).astype("int64")
    return start + gt.arange(count).astype(start.dtype) * delta


@fold("Range")
def _few(_: Operation, start: Known, limit: Known, delta: Known) -> Known | None:
    if any(x.is_symbolic or not is_integer(x.dtype) for x in (start, limit, delta)):
        return None
    found = range(*(int(x.array.reshape(-1)[0]) for x in (start, limit, delta)))
    return Known.of(np.array(found, start.dtype)) if len(found) <= FEW else None


def slices_of(op: Operation, ndim: int) -> tuple[slice, ...]:
    """What an operator ``Slice`` takes of each axis."""
    if op.version < 10:
        starts, ends, axes, steps = op["starts"], op["ends"], op["axes"], None
    else:
        starts, ends = op.entries(1), op.entries(2)
        axes = op.numbers(3, "the axes") if op.has(3) else None
        steps = op.numbers(4, "the steps") if op.has(4) else None
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    cuts = [slice(None)] * ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        cuts[axis_of(int(axis), ndim)] = slice(_bound(start), _bound(end), int(step))
    return tuple(cuts)


FAR = 2**31 - 1
"""From here on a bound means the end."""


def _bound(n: Any) -> Any:
    if isinstance(n, Tensor):
        return n
    return None if abs(n) >= FAR else int(n)
