"""Shapes, lengths, and the same elements in another shape."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from graphc import ir
from graphc.context import setting
from graphc.errors import ArgumentError, DTypeError, ShapeError
from graphc.ir.lengths import product, require
from graphc.ir.line import ATOM, Code, Writer
from graphc.site import is_users_call
from graphc.tensor.core.tensor import (
    TABLE,
    WRAPPERS,
    Tensor,
    TensorLike,
    as_tensor,
    constant,
    function,
)

__all__ = [
    "flatten", "get_vector_length", "is_flat", "ravel", "reshape", "shape", "shape_tuple",
    "size",
]  # fmt: skip

# Lengths. Backends know them as Python integers while they compile.


@dataclass(frozen=True, slots=True)
class Shape(ir.Op):
    """All lengths of an array, as an int64 vector."""

    name = "shape"
    reads_shapes_alone = True

    def infer(self, x: ir.TensorType) -> ir.TensorType:
        return ir.TensorType("int64", (x.ndim,))

    def perform(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.array(np.shape(x), np.int64)

    def batch(self, size: Any, batched: Sequence[bool], x: Tensor) -> Tensor:
        """Return the lengths without a batch axis, as all elements have the same."""
        return as_tensor(lengths(x)[1:], dtype="int64")


@dataclass(frozen=True, slots=True)
class Length(ir.Op):
    """One length of an array, as an int64 scalar."""

    axis: int
    name = "length"
    reads_shapes_alone = True

    def as_code(self, inputs: Sequence[ir.Node], write: Writer) -> Code:
        return f"{write(inputs[0], ATOM)}.shape[{self.axis}]", ATOM

    def infer(self, x: ir.TensorType) -> ir.TensorType:
        return ir.TensorType("int64", ())

    def perform(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.array(np.shape(x)[self.axis], np.int64)

    def batch(self, size: Any, batched: Sequence[bool], x: Tensor) -> Tensor:
        """Return the length without a batch axis, as all elements have the same."""
        return as_tensor(length(x, self.axis + 1), dtype="int64")


def length(x: Tensor, axis: int) -> int | Tensor:
    """Return one length: a Python integer where the type has it."""
    static = x.type.shape[axis]
    return Tensor.make(Length(axis % x.ndim), x) if static is None else static


def lengths(x: Tensor) -> list[int | Tensor]:
    """Return all lengths: Python integers where the type has them."""
    return [length(x, axis) for axis in range(x.ndim)]


def read_from(x: Tensor, result: Tensor) -> Tensor:
    """Return a result of x's lengths; where these are static, x is recorded as read by the user."""
    if x.type.is_static and is_users_call(WRAPPERS):
        ir.note_reads([result], [x])
    return result


@function
def shape(x: TensorLike) -> Tensor:
    """Return the lengths of an array, without computing the array.

    Args:
        x: An array of any shape.

    Returns:
        An int64 vector with a length for each axis.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.shape([[1, 2], [3, 4]]).eval(mode="NUMPY").tolist()
        [2, 2]
    """
    x = as_tensor(x)
    if x.type.is_static:
        return read_from(x, constant(np.array(x.type.shape, np.int64), bake=True))
    return Tensor.make(Shape(), x)


@function
def size(x: TensorLike) -> Tensor:
    """Return the number of elements, an int64 scalar.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.size([[1.0, 2.0, 3.0]]).eval(mode="NUMPY").tolist()
        3
    """
    x = as_tensor(x)
    return read_from(x, as_tensor(math.prod(lengths(x)), dtype="int64"))


@function
def shape_tuple(x: TensorLike) -> tuple[Tensor, ...]:
    """Return the lengths of an array, each an int64 scalar, constant where it is static.

    Example:
        >>> import graphc.tensor as gt
        >>> shape_tuple(gt.tensor("x", shape=(3, None)))
        (3: int64[], x.shape[1]: int64[])
    """
    x = as_tensor(x)
    return tuple(read_from(x, as_tensor(n, dtype="int64")) for n in lengths(x))


@function
def get_vector_length(v: TensorLike) -> int:
    """Return the number of elements of a vector, from its type.

    Args:
        v: A vector, or a list of its elements.

    Returns:
        A Python integer.

    Raises:
        ShapeError: v is not a vector, or its length is unknown.

    Example:
        >>> import graphc.tensor as gt
        >>> get_vector_length(gt.matrix("x").shape)
        2
    """
    x = as_tensor(v)
    if x.ndim != 1 or x.type.shape[0] is None:
        raise ShapeError(
            f"get_vector_length: expected a vector of static length, got {x!r}.",
            "Declare its length: gt.specify_shape(x, (3,)).",
        )
    return x.type.shape[0]


def entries(op: str, shape: Any, least: int = 0) -> tuple[ir.Shape, list[Tensor]]:
    """Return a shape as static entries, None for symbolic ones, and the list of symbolic entries.

    Raises:
        DTypeError: An entry is not an integer.
        ShapeError: An entry is negative, or a symbolic shape has no static number of entries.
    """
    static: list[int | None] = []
    symbolic: list[Tensor] = []
    for entry in list_entries(op, shape):
        value = _entry(op, entry, least)
        if isinstance(value, Tensor):
            symbolic.append(value)
            static.append(None)
        else:
            static.append(value)
    return tuple(static), symbolic


def mixed_entries(op: str, shape: Any) -> list[Any]:
    """Return a shape's entries: integers, and int64 scalars where they are symbolic.

    Raises:
        DTypeError: If an entry is not an integer.
        ShapeError: If an entry is negative, or a symbolic shape has no static number of entries.
    """
    return complete_shape(*entries(op, shape))


def complete_shape(static: Sequence[int | None], symbolic: Iterable[Any]) -> list[Any]:
    """Return a shape's entries, each None replaced by the next symbolic one."""
    rest = iter(symbolic)
    return [next(rest) if n is None else n for n in static]


def list_entries(op: str, shape: Any) -> list[Any]:
    """Return the entries of a shape: a list, a vector, or a single one."""
    if isinstance(shape, np.ndarray):
        shape = shape.tolist()
    if not isinstance(shape, Tensor) or shape.ndim != 1:
        return list(shape) if isinstance(shape, list | tuple) else [shape]
    if isinstance(shape.op, Shape):
        return lengths(shape.inputs[0])  # type: ignore[arg-type]
    if isinstance(shape.op, ir.Constant):
        ir.note_folding(shape)
        return shape.op.value.tolist()  # type: ignore[no-any-return]
    if shape.type.shape[0] is None:
        raise ShapeError(
            f"{op}: the number of entries of the shape {shape!r} is unknown.",
            "Pass a tuple of integers, or declare its length: gt.tensor(shape=(3,)).",
        )
    return list(shape)


def _entry(op: str, entry: Any, least: int) -> int | Tensor:
    if isinstance(entry, Tensor):
        if not (ir.is_integer(entry.dtype) and entry.ndim == 0):
            raise DTypeError(
                f"{op}: expected integer scalars as lengths, got {entry!r}.",
                "Use x.astype('int64').",
            )
        value = _known_value(entry, 4)
        if value is None:
            return as_tensor(entry, dtype="int64")
        entry = int(value)
    try:
        n = int(entry.__index__())
    except AttributeError:
        n = None
    if n is None or isinstance(entry, bool):
        raise DTypeError(
            f"{op}: expected integer lengths, got {entry!r}.", "Convert it, as in gt.zeros(int(n))."
        )
    if n < least:
        raise ShapeError(f"{op}: the length {n} is negative.")
    return n


def _known_value(x: Any, depth: int) -> Any:
    """Return the value of few operations on integer constants, or None."""
    if isinstance(x.op, ir.Constant):
        ir.note_folding(x)
        return x.op.value
    if not depth or not x.inputs or not ir.is_integer(getattr(x.type, "dtype", "")):
        return None
    values = [_known_value(i, depth - 1) for i in x.inputs]
    return None if any(value is None for value in values) else x.op.perform(*values)


Comparison = Callable[[Any, Any], bool]

_comparisons: ContextVar[tuple[Comparison, Comparison]] = ContextVar(
    "comparisons", default=(operator.eq, operator.ge)
)


def compared_by(equal: Comparison, at_least: Comparison) -> setting[tuple[Comparison, Comparison]]:
    """Compare lengths, which may be symbols, by these functions within the context."""
    return setting(_comparisons, (equal, at_least))


def are_equal(a: Any, b: Any) -> bool:
    """Return whether two lengths are equal, as an operation requires."""
    return bool(_comparisons.get()[0](a, b))


def is_at_least(a: Any, b: Any) -> bool:
    """Return whether the first length is no less than the second, as an operation requires."""
    return bool(_comparisons.get()[1](a, b))


def as_length(n: Any) -> Any:
    """Return a length as an integer; a symbol, which JAX exports programs with, stays."""
    return int(n) if isinstance(n, np.ndarray | np.generic | int) else n


def fill_shape(static: ir.Shape, symbolic: Sequence[ir.TensorType]) -> list[Any]:
    """Return the static entries, and the values of the symbolic ones' types for None."""
    return complete_shape(static, [x.value for x in symbolic])


def target_shape(static: ir.Shape, symbolic: Sequence[Any], least: int = 0) -> tuple[int, ...]:
    """Return the static entries, and the values of the symbolic ones for None."""
    shape = tuple(map(as_length, complete_shape(static, symbolic)))
    if not all(is_at_least(n, least) for n in shape):
        raise ShapeError(
            f"{shape} is not a shape: the length {min(shape)} is negative.",
            "Pass lengths of 0 or more.",
        )
    return shape


# Batches.


def shifted_axes(axes: Iterable[int]) -> tuple[int, ...]:
    """Return the axes' numbers behind a new leading axis."""
    return tuple(axis + 1 for axis in axes)


class SameArray(ir.Op):
    """An operation that returns its first input; the others hold for all elements of a batch."""

    __slots__ = ()

    def infer(self, *types: Any) -> Any:
        return types[0]

    def perform(self, *values: Any) -> Any:
        return values[0]

    def pullback(self, g: Any, y: Any, *inputs: Any) -> Sequence[Any]:
        return (g, *[None] * (len(inputs) - 1))

    def pushforward(self, tangents: Sequence[Any], y: Any, *inputs: Any) -> Any:
        return tangents[0]

    def batch(self, size: Any, batched: Sequence[bool], *inputs: Any) -> Any:
        return Tensor.make(self, *inputs)


class AxisOp(ir.Op):
    """An operation along ``axis`` or ``axes``, which follow the leading axis of a batch."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return type(self).__name__.lower()

    def batch(self, size: Any, batched: Sequence[bool], x: Tensor, *symbolic: Tensor) -> Any:
        op: Any = self
        name = "axis" if hasattr(op, "axis") else "axes"
        axes = getattr(op, name)
        after = axes + 1 if name == "axis" else shifted_axes(axes)
        return x.make(replace(op, **{name: after}), x, *symbolic)


def with_batch_length(size: int | Tensor, symbolic: Sequence[Tensor]) -> tuple[Any, ...]:
    """Return the shape's entry for the batch axis, and the inputs of all symbolic entries."""
    if isinstance(size, int):
        return size, symbolic
    return None, [size, *symbolic]


# The same elements in another shape.


@dataclass(frozen=True, slots=True)
class Reshape(ir.Op):
    """The elements in row-major order in another shape; None stands for an input, -1 for the rest.

    Inputs are the array and the symbolic lengths.
    """

    shape: ir.Shape

    rearranges = True
    name = "reshape"

    def infer(self, x: ir.TensorType, *symbolic: ir.TensorType) -> ir.TensorType:
        fixed = math.prod(n for n in self.shape if n is not None and n != -1)
        elements = math.prod(n for n in x.shape if isinstance(n, int)) if x.is_static else None
        rest: int | None = None
        if elements is not None and None not in self.shape:
            if -1 in self.shape:
                rest = elements // fixed if fixed else 0
            if fixed * (rest if rest is not None else 1) != elements:
                raise ShapeError(
                    f"reshape({x!r}, {self.shape}): {elements} elements do not fit.",
                    "Use lengths whose product is the number of elements, or one -1.",
                )
        if fixed == 1 and -1 in self.shape and None not in self.shape:
            rest = product(*x.shape)
        values = fill_shape(self.shape, symbolic)
        require(*values)
        # A computed entry may be -1, so it is not the length itself.
        lengths = [n if isinstance(n, int) else None for n in values]
        return x.with_shape(tuple(rest if n == -1 else n for n in lengths))

    def target(self, x_shape: tuple[int, ...], symbolic: Sequence[Any]) -> tuple[int, ...]:
        """Return the requested shape for an array of a shape, with the length for -1 computed."""
        target = target_shape(self.shape, symbolic, least=-1)
        elements = math.prod(x_shape)
        fixed = math.prod(n for n in target if n != -1)
        if not fixed and -1 in target:
            raise ShapeError(
                f"reshape: -1 is ambiguous beside a length of 0 in {target}.",
                "Pass that length.",
            )
        full = tuple((elements // fixed if fixed else 0) if n == -1 else n for n in target)
        if any(not is_at_least(n, 0) for n in full) or not are_equal(math.prod(full), elements):
            raise ShapeError(
                f"reshape: an array of shape {x_shape} has {elements} elements, which do not fit "
                f"{target}.",
                "Use lengths whose product is the number of elements, or one -1.",
            )
        return full

    def perform(self, x: np.ndarray[Any, Any], *symbolic: Any) -> np.ndarray[Any, Any]:
        return np.reshape(x, self.target(np.shape(x), symbolic))

    def pullback(self, g: Tensor, y: Tensor, x: Tensor, *symbolic: Tensor) -> Sequence[Any]:
        return (reshape(g, lengths(x)), *(None for _ in symbolic))

    def batch(self, size: Any, batched: Sequence[bool], x: Tensor, *symbolic: Tensor) -> Tensor:
        element = self.infer(x.type.with_shape(x.type.shape[1:]), *[n.type for n in symbolic])
        shape = tuple(
            m if n == -1 and m is not None else n
            for n, m in zip(self.shape, element.shape, strict=True)
        )
        if -1 in shape:
            symbolic = _with_rest(size, shape, x, symbolic)
            shape = tuple(None if n == -1 else n for n in shape)
        first, wanted = with_batch_length(size, symbolic)
        return Tensor.make(Reshape((first, *shape)), x, *wanted)


def _with_rest(
    size: int | Tensor, shape: ir.Shape, x: Tensor, symbolic: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """Return the symbolic lengths of each array of a batch x, and the length that -1 stands for.

    In an empty batch, -1 would stand for any length.
    """
    values = iter(symbolic)
    others = math.prod(next(values) if n is None else n for n in shape if n != -1)
    where, equal, maximum = TABLE["where"], TABLE["equal"], TABLE["maximum"]
    ambiguous = equal(others, 0) & (as_tensor(size) > 0)
    rest = where(ambiguous, -1, math.prod(lengths(x)[1:]) // maximum(others, 1))
    before = sum(n is None for n in shape[: shape.index(-1)])
    return (*symbolic[:before], as_tensor(rest, dtype="int64"), *symbolic[before:])


@function
def reshape(x: TensorLike, shape: Any, *, ndim: int | None = None) -> Tensor:
    """Return the same elements, in row-major order, in another shape.

    Args:
        x: Any shape and dtype.
        shape: Python or symbolic integers, or an int64 vector of static length; one may be -1,
            which stands for the remaining length.
        ndim: The number of axes of the result, if a symbolic ``shape`` does not state it.

    Returns:
        An array of that shape.

    Raises:
        ShapeError: The numbers of elements differ, or -1 occurs twice.

    Example:
        >>> import graphc.tensor as gt
        >>> reshape(gt.tensor("x", shape=(2, 6)), (3, -1)).type
        float64[3, 4]
    """
    x = as_tensor(x)
    if ndim is not None and isinstance(shape, Tensor) and shape.type.shape == (None,):
        shape = [shape[i] for i in range(ndim)]
    static, symbolic = entries("reshape", shape, least=-1)
    if static.count(-1) > 1:
        raise ShapeError(f"reshape: -1 is repeated in {static}.")
    if ndim is not None and len(static) != ndim:
        raise ShapeError(f"reshape: expected {ndim} lengths, got {static}.")
    if x.type.is_static and static == x.type.shape:
        return x
    return Tensor.make(Reshape(static), x, *symbolic)


@function
def ravel(x: TensorLike, order: Literal["C", "F"] = "C") -> Tensor:
    """Return all elements as a vector.

    Args:
        x: Any shape and dtype.
        order: ``"C"`` takes them row by row, ``"F"`` column by column.

    Raises:
        ArgumentError: The order is neither of these.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.ravel([[1, 2], [3, 4]]).eval(mode="NUMPY").tolist()
        [1, 2, 3, 4]
    """
    if order not in {"C", "F"}:
        raise ArgumentError(f"ravel: unknown order={order!r}.", "Use 'C' or 'F'.")
    return reshape(x if order == "C" else as_tensor(x).T, (-1,))


@function
def flatten(x: TensorLike, ndim: int = 1) -> Tensor:
    """Return the array with its last axes merged, so that ``ndim`` axes are left.

    Raises:
        ShapeError: x has fewer than ``ndim`` axes, or ``ndim`` is below 1.

    Example:
        >>> import graphc.tensor as gt
        >>> flatten(gt.tensor("x", shape=(2, 3, 4)), ndim=2).type
        float64[2, 12]
    """
    x = as_tensor(x)
    if not 1 <= ndim <= max(x.ndim, 1):
        raise ShapeError(f"flatten: cannot flatten {x!r} to {ndim} axes.")
    if ndim == x.ndim:
        return x
    rest = lengths(x)[ndim - 1 :]
    return reshape(x, (*lengths(x)[: ndim - 1], math.prod(rest)))


@function
def is_flat(x: TensorLike, ndim: int = 1) -> bool:
    """Return whether an array has that many axes.

    Example:
        >>> import graphc.tensor as gt
        >>> is_flat(gt.vector()), is_flat(gt.matrix())
        (True, False)
    """
    return bool(as_tensor(x).ndim == ndim)
