"""Lengths, and the same elements in another shape or order of axes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.errors import DTypeError, ShapeError
from graphc.ir import Constant, Op, Shape as StaticShape, TensorType, here, is_integer, where
from graphc.tensor.elementwise import summed
from graphc.tensor.tensor import (
    TABLE,
    Axis,
    Tensor,
    as_tensor,
    axes_of,
    constant,
    function,
    operands,
)

__all__ = [
    "BroadcastTo",
    "Concatenate",
    "ExpandDims",
    "Length",
    "Reshape",
    "Shape",
    "Squeeze",
    "Transpose",
    "length",
    "lengths",
    "target_shape",
]


# Lengths. Backends know them as Python integers while they compile.


@dataclass(frozen=True, slots=True)
class Shape(Op):
    """All lengths of an array, as an int64 vector."""

    @property
    def name(self) -> str:
        return "shape"

    def infer(self, x: TensorType) -> TensorType:
        return TensorType("int64", (x.ndim,))

    def perform(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.array(np.shape(x), np.int64)

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[None]:
        return (None,)

    def batch(self, size: Any, batched: Sequence[bool], x: Tensor) -> Tensor:
        """All elements of a batch have the same lengths, so the result has no batch axis."""
        return as_tensor(lengths(x)[1:], dtype="int64")  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Length(Op):
    """One length of an array, as an int64 scalar."""

    axis: int

    @property
    def name(self) -> str:
        return "length"

    def infer(self, x: TensorType) -> TensorType:
        return TensorType("int64", ())

    def perform(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.array(np.shape(x)[self.axis], np.int64)

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[None]:
        return (None,)

    def batch(self, size: Any, batched: Sequence[bool], x: Tensor) -> Tensor:
        """All elements of a batch have the same length, so the result has no batch axis."""
        return as_tensor(length(x, self.axis + 1), dtype="int64")  # type: ignore[no-any-return]


def length(x: Tensor, axis: int) -> int | Tensor:
    """One length: a Python integer where the type has it."""
    known = x.type.shape[axis]
    return Tensor.make(Length(axis % x.ndim), x) if known is None else known


def lengths(x: Tensor) -> list[int | Tensor]:
    """All lengths: Python integers where the type has them."""
    return [length(x, axis) for axis in range(x.ndim)]


@function
def shape(x: Any) -> Tensor:
    """The lengths of an array, without computing the array.

    Args:
        x: An array of any shape.

    Returns:
        An int64 vector with a length for each axis.
    """
    x = as_tensor(x)
    if x.type.is_static:
        return constant(np.array(x.type.shape, np.int64), bake=True)  # type: ignore[no-any-return]
    return Tensor.make(Shape(), x)


@function
def size(x: Any) -> Tensor:
    """How many elements an array has, an int64 scalar."""
    return as_tensor(math.prod(lengths(as_tensor(x))), dtype="int64")  # type: ignore[no-any-return]


def entries(op: str, shape: Any, least: int = 0) -> tuple[StaticShape, list[Tensor]]:
    """A shape as static entries, None for those that stand in the list of symbolic ones.

    Raises:
        DTypeError: An entry is no integer.
        ShapeError: An entry is negative, or a symbolic shape has no static number of entries.
    """
    if isinstance(shape, Tensor) and shape.ndim == 1:
        if isinstance(shape.op, Shape):
            shape = lengths(shape.inputs[0])  # type: ignore[arg-type]
        elif shape.type.shape[0] is None:
            raise ShapeError(
                f"{op}: how many entries the shape {shape!r} has is unknown.",
                "Give a tuple of integers, or declare its length: gt.tensor(shape=(3,)).",
                where(here()),
            )
        else:
            shape = list(shape)
    elif isinstance(shape, np.ndarray):
        shape = shape.tolist()
    if not isinstance(shape, list | tuple):
        shape = (shape,)
    static: list[int | None] = []
    symbolic: list[Tensor] = []
    for entry in shape:
        known = _entry(op, entry, least)
        if isinstance(known, Tensor):
            symbolic.append(known)
            static.append(None)
        else:
            static.append(known)
    return tuple(static), symbolic


def _entry(op: str, entry: Any, least: int) -> int | Tensor:
    if isinstance(entry, Tensor):
        if not (is_integer(entry.dtype) and entry.ndim == 0):
            raise DTypeError(
                f"{op}: a length is an integer scalar, not {entry!r}.",
                "Use x.astype('int64').",
                where(here()),
            )
        if not isinstance(entry.op, Constant):
            return as_tensor(entry, dtype="int64")  # type: ignore[no-any-return]
        entry = int(entry.op.value)
    try:
        known = int(entry.__index__())
    except AttributeError:
        known = None
    if known is None or isinstance(entry, bool):
        raise DTypeError(f"{op}: a length is an integer, not {entry!r}.", "", where(here()))
    if known < least:
        raise ShapeError(f"{op}: {known} is no length.", "", where(here()))
    return known


def target_shape(static: StaticShape, symbolic: Sequence[Any], least: int = 0) -> tuple[int, ...]:
    """The static entries with the values of the symbolic ones filled in.

    Raises:
        ShapeError: One is below the least that there may be.
    """
    values = iter(symbolic)
    shape = tuple(int(next(values)) if n is None else n for n in static)
    if shape and min(shape) < least:
        raise ShapeError(f"{shape} is no shape: {min(shape)} is no length.", "Lengths start at 0.")
    return shape


# Batches.


def behind(axes: Iterable[int]) -> tuple[int, ...]:
    """The axes' places behind a new leading axis."""
    return tuple(axis + 1 for axis in axes)


def with_batch_length(size: int | Tensor, symbolic: Sequence[Tensor]) -> tuple[Any, ...]:
    """The entry for the batch axis of a shape, and the inputs for all its symbolic entries."""
    if isinstance(size, int):
        return size, symbolic
    return None, [size, *symbolic]


def repeated(x: Tensor, size: int | Tensor) -> Tensor:
    """A batch of that length, each element x."""
    return broadcast_to(x, (size, *lengths(x)))


# The same elements in another shape.


@dataclass(frozen=True, slots=True)
class Reshape(Op):
    """The elements in row-major order in another shape; None stands for an input, -1 for the rest.

    Inputs are the array and the symbolic lengths.
    """

    shape: StaticShape

    rearranges = True

    @property
    def name(self) -> str:
        return "reshape"

    def infer(self, x: TensorType, *symbolic: TensorType) -> TensorType:
        known = math.prod(n for n in self.shape if n is not None and n != -1)
        elements = None if None in x.shape else math.prod(n for n in x.shape if n is not None)
        rest: int | None = None
        if elements is not None and None not in self.shape:
            if -1 in self.shape:
                rest = elements // known if known else 0
            if known * (rest if rest is not None else 1) != elements:
                raise ShapeError(
                    f"reshape({x!r}, {self.shape}): {elements} elements do not fit.",
                    "Use lengths whose product is the number of elements, or one -1.",
                    where(here()),
                )
        return x.with_shape(tuple(rest if n == -1 else n for n in self.shape))

    def host_inputs(self) -> tuple[int, ...]:
        return tuple(range(1, 1 + self.shape.count(None)))

    def target(self, x_shape: tuple[int, ...], symbolic: Sequence[Any]) -> tuple[int, ...]:
        """The shape wanted of an array of that shape, every length filled in."""
        target = target_shape(self.shape, symbolic, least=-1)
        elements = math.prod(x_shape)
        known = math.prod(n for n in target if n != -1)
        if not known and -1 in target:
            raise ShapeError(
                f"reshape: beside a length of 0, any length stands for -1 in {target}.",
                "Give that length.",
            )
        full = tuple((elements // known if known else 0) if n == -1 else n for n in target)
        if math.prod(full) != elements or min(full, default=0) < 0:
            raise ShapeError(
                f"reshape: an array of shape {x_shape} has {elements} elements, and {target} "
                "wants another number.",
                "Use lengths whose product is the number of elements, or one -1.",
            )
        return full

    def perform(self, x: np.ndarray[Any, Any], *symbolic: Any) -> np.ndarray[Any, Any]:
        return np.reshape(x, self.target(np.shape(x), symbolic))

    def pullback(self, g: Tensor, y: Tensor, x: Tensor, *symbolic: Tensor) -> Sequence[Any]:
        return (reshape(g, lengths(x)), *(None for _ in symbolic))

    def pushforward(self, tangents: Sequence[Any], y: Tensor, x: Tensor, *symbolic: Tensor) -> Any:
        return None if tangents[0] is None else Tensor.make(self, tangents[0], *symbolic)

    def batch(self, size: Any, batched: Sequence[bool], x: Tensor, *symbolic: Tensor) -> Tensor:
        element = self.infer(x.type.with_shape(x.type.shape[1:]), *[n.type for n in symbolic])
        shape = tuple(
            m if n == -1 and m is not None else n
            for n, m in zip(self.shape, element.shape, strict=True)
        )
        first, lengths = with_batch_length(size, symbolic)
        return Tensor.make(Reshape((first, *shape)), x, *lengths)


@function
def reshape(x: Any, shape: Any, *, ndim: int | None = None) -> Tensor:
    """The same elements, in row-major order, in another shape.

    Args:
        x: Any shape and dtype.
        shape: Integers, Python's or symbolic, or an int64 vector of static length; one may be -1,
            which stands for what is left.
        ndim: How many axes the result has, where a symbolic ``shape`` does not say.

    Returns:
        An array of that shape.

    Raises:
        ShapeError: The numbers of elements differ, or -1 comes twice.

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
        raise ShapeError(f"reshape: -1 comes twice in {static}.", "", where(here()))
    if ndim is not None and len(static) != ndim:
        raise ShapeError(f"reshape: {static} has not {ndim} lengths.", "", where(here()))
    if x.type.is_static and static == x.type.shape:
        return x  # type: ignore[no-any-return]
    return Tensor.make(Reshape(static), x, *symbolic)


@function
def ravel(x: Any) -> Tensor:
    """All elements, in row-major order, as a vector."""
    return reshape(x, (-1,))


@function
def flatten(x: Any, ndim: int = 1) -> Tensor:
    """The last axes merged into one, so that ``ndim`` axes are left.

    Example:
        >>> import graphc.tensor as gt
        >>> flatten(gt.tensor("x", shape=(2, 3, 4)), ndim=2).type
        float64[2, 12]
    """
    x = as_tensor(x)
    if not 1 <= ndim <= max(x.ndim, 1):
        raise ShapeError(f"flatten: {x!r} has no form of {ndim} axes.", "", where(here()))
    if ndim == x.ndim:
        return x  # type: ignore[no-any-return]
    rest = lengths(x)[ndim - 1 :]
    return reshape(x, (*lengths(x)[: ndim - 1], math.prod(rest)))


@dataclass(frozen=True, slots=True)
class Transpose(Op):
    """The axes in another order: axis ``axes[i]`` of the array is axis i of the result."""

    axes: tuple[int, ...]

    rearranges = True

    @property
    def name(self) -> str:
        return "transpose"

    def infer(self, x: TensorType) -> TensorType:
        return x.with_shape(tuple(x.shape[axis] for axis in self.axes))

    def perform(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.transpose(x, self.axes)

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        return (transpose(g, [self.axes.index(i) for i in range(len(self.axes))]),)

    def pushforward(self, tangents: Sequence[Any], y: Tensor, x: Tensor) -> Any:
        return None if tangents[0] is None else Tensor.make(self, tangents[0])

    def batch(self, size: Any, batched: Sequence[bool], x: Tensor) -> Tensor:
        return Tensor.make(Transpose((0, *behind(self.axes))), x)


@function
def transpose(x: Any, axes: Sequence[int] | None = None) -> Tensor:
    """The axes in another order, reversed by default.

    Args:
        x: Any shape and dtype.
        axes: Every axis of x once; negative ones count from the end.

    Returns:
        The array whose axis i is x's axis ``axes[i]``.

    Raises:
        ShapeError: ``axes`` is no reordering of x's axes.
    """
    x = as_tensor(x)
    if axes is None:
        order = tuple(range(x.ndim))[::-1]
    else:
        order = tuple(axes_of("transpose", a, x.ndim)[0] for a in axes)
        if len(order) != x.ndim or len(set(order)) != x.ndim:
            raise ShapeError(
                f"transpose({x.type!r}, {tuple(axes)}): every axis is wanted once.",
                "",
                where(here()),
            )
    return x if order == tuple(range(x.ndim)) else Tensor.make(Transpose(order), x)


@function
def matrix_transpose(x: Any) -> Tensor:
    """The last two axes exchanged."""
    return swapaxes(x, -1, -2)


@function
def swapaxes(x: Any, axis1: int, axis2: int) -> Tensor:
    """Two axes exchanged; negative axes count from the end.

    Example:
        >>> import graphc.tensor as gt
        >>> swapaxes(gt.tensor("x", shape=(2, 3, 4)), 0, -1).type
        float64[4, 3, 2]
    """
    x = as_tensor(x)
    (a,), (b,) = axes_of("swapaxes", axis1, x.ndim), axes_of("swapaxes", axis2, x.ndim)
    order = list(range(x.ndim))
    order[a], order[b] = b, a
    return transpose(x, order)


@function
def moveaxis(x: Any, source: Any, destination: Any) -> Tensor:
    """Axes moved to new places, the others kept in order.

    Args:
        x: Any shape and dtype.
        source: One axis or several.
        destination: As many places.

    Raises:
        ShapeError: An axis is not there, comes twice, or the two differ in number.
    """
    x = as_tensor(x)
    sources = [axes_of("moveaxis", a, x.ndim)[0] for a in _listed(source)]
    places = [axes_of("moveaxis", a, x.ndim)[0] for a in _listed(destination)]
    if {len(sources)} != {len(places), len(set(sources)), len(set(places))}:
        raise ShapeError(f"moveaxis: {source} can't go to {destination}.", "", where(here()))
    order = [axis for axis in range(x.ndim) if axis not in sources]
    for place, axis in sorted(zip(places, sources, strict=True)):
        order.insert(place, axis)
    return transpose(x, order)


def _listed(axes: Any) -> list[int]:
    return list(axes) if isinstance(axes, list | tuple) else [axes]


@dataclass(frozen=True, slots=True)
class ExpandDims(Op):
    """New axes of length 1, at these places of the result."""

    axes: tuple[int, ...]

    rearranges = True

    @property
    def name(self) -> str:
        return "expand_dims"

    def infer(self, x: TensorType) -> TensorType:
        rest = iter(x.shape)
        ndim = x.ndim + len(self.axes)
        return x.with_shape(tuple(1 if i in self.axes else next(rest) for i in range(ndim)))

    def perform(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.expand_dims(x, self.axes)

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        return (squeeze(g, self.axes),)

    def pushforward(self, tangents: Sequence[Any], y: Tensor, x: Tensor) -> Any:
        return None if tangents[0] is None else Tensor.make(self, tangents[0])

    def batch(self, size: Any, batched: Sequence[bool], x: Tensor) -> Tensor:
        return Tensor.make(ExpandDims(behind(self.axes)), x)


@function
def expand_dims(x: Any, axis: Axis) -> Tensor:
    """New axes of length 1.

    Args:
        x: Any shape and dtype.
        axis: Where they stand in the result; negative ones count from its end.

    Raises:
        ShapeError: The result has no such axis, or one comes twice.

    Example:
        >>> import graphc.tensor as gt
        >>> expand_dims(gt.vector("x"), (0, 2)).type
        float64[1, ?, 1]
    """
    x = as_tensor(x)
    ndim = x.ndim + (len(axis) if isinstance(axis, list | tuple) else 1)
    axes = axes_of("expand_dims", axis, ndim) if axis is not None else ()
    return Tensor.make(ExpandDims(axes), x) if axes else x


@dataclass(frozen=True, slots=True)
class Squeeze(Op):
    """Without these axes, each of length 1."""

    axes: tuple[int, ...]

    rearranges = True

    @property
    def name(self) -> str:
        return "squeeze"

    def infer(self, x: TensorType) -> TensorType:
        for axis in self.axes:
            if x.shape[axis] not in {1, None}:
                raise ShapeError(
                    f"squeeze({x!r}, {self.axes}): axis {axis} has not length 1.",
                    "Index it, x[0], or reduce over it.",
                    where(here()),
                )
        return x.with_shape(tuple(n for i, n in enumerate(x.shape) if i not in self.axes))

    def perform(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.squeeze(x, self.axes)

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        return (expand_dims(g, self.axes),)

    def pushforward(self, tangents: Sequence[Any], y: Tensor, x: Tensor) -> Any:
        return None if tangents[0] is None else Tensor.make(self, tangents[0])

    def batch(self, size: Any, batched: Sequence[bool], x: Tensor) -> Tensor:
        return Tensor.make(Squeeze(behind(self.axes)), x)


@function
def squeeze(x: Any, axis: Axis = None) -> Tensor:
    """Without axes of length 1.

    Args:
        x: Any shape and dtype.
        axis: The axes to drop; by default all whose static length is 1.

    Raises:
        ShapeError: An axis has another length, or is not there.
    """
    x = as_tensor(x)
    if axis is None:
        axes = tuple(i for i, n in enumerate(x.type.shape) if n == 1)
    else:
        axes = axes_of("squeeze", axis, x.ndim)
    return Tensor.make(Squeeze(axes), x) if axes else x


@function
def dimshuffle(x: Any, pattern: Sequence[int | str]) -> Tensor:
    """Axes by number in a new order, ``"x"`` for a new one of length 1.

    Args:
        x: Any shape and dtype.
        pattern: As ``(1, "x", 0)``; an axis that is left out must have length 1.

    Raises:
        ShapeError: An axis comes twice, is not there, or is dropped without having length 1.

    Example:
        >>> import graphc.tensor as gt
        >>> dimshuffle(gt.tensor("x", shape=(2, 3)), (1, "x", 0)).type
        float64[3, 1, 2]
    """
    x = as_tensor(x)
    kept = [axes_of("dimshuffle", a, x.ndim)[0] for a in pattern if a != "x"]  # type: ignore[arg-type]
    if len(set(kept)) != len(kept):
        raise ShapeError(f"dimshuffle: an axis comes twice in {pattern}.", "", where(here()))
    dropped = tuple(i for i in range(x.ndim) if i not in kept)
    left = [i for i in range(x.ndim) if i in kept]
    y = squeeze(x, dropped) if dropped else x
    y = transpose(y, [left.index(a) for a in kept])
    new = tuple(i for i, a in enumerate(pattern) if a == "x")
    return expand_dims(y, new) if new else y


# Broadcasting.


@dataclass(frozen=True, slots=True)
class BroadcastTo(Op):
    """Repeated to a larger shape; None stands for an input.

    Attributes:
        shape: The lengths wanted.
        repeated: The array's own axes, each of static length 1, that are repeated; on the others
            its length must be the one wanted. Axes it lacks are new ones in front.
    """

    shape: StaticShape
    repeated: tuple[int, ...]

    @property
    def name(self) -> str:
        return "broadcast_to"

    def infer(self, x: TensorType, *symbolic: TensorType) -> TensorType:
        new = len(self.shape) - x.ndim
        result = list(self.shape)
        for axis, n in enumerate(x.shape):
            wanted = self.shape[new + axis]
            if axis in self.repeated or n is None:
                continue
            if wanted is None:
                result[new + axis] = n
            elif wanted != n:
                raise ShapeError(
                    f"broadcast_to({x!r}, {self.shape}): lengths differ on axis {axis - x.ndim}.",
                    "Only an axis of static length 1 is repeated.",
                    where(here()),
                )
        return x.with_shape(tuple(result))

    def host_inputs(self) -> tuple[int, ...]:
        return tuple(range(1, 1 + self.shape.count(None)))

    def target(self, x_shape: tuple[int, ...], symbolic: Sequence[Any]) -> tuple[int, ...]:
        """The shape wanted, after the lengths that must fit were seen to."""
        target = target_shape(self.shape, symbolic)
        new = len(target) - len(x_shape)
        for axis, n in enumerate(x_shape):
            if axis not in self.repeated and n != target[new + axis]:
                raise ShapeError(
                    f"broadcast_to: an array of shape {x_shape} does not go to {target}: axis "
                    f"{axis - len(x_shape)} is not repeated, as its length is not statically 1.",
                    "Declare the length, as in gt.tensor(shape=(1, None)), or squeeze it.",
                )
        return target

    def perform(self, x: np.ndarray[Any, Any], *symbolic: Any) -> np.ndarray[Any, Any]:
        return np.broadcast_to(x, self.target(np.shape(x), symbolic))

    def pullback(self, g: Tensor, y: Tensor, x: Tensor, *symbolic: Tensor) -> Sequence[Any]:
        new = y.ndim - x.ndim
        axes = (*range(new), *(new + axis for axis in self.repeated))
        if axes:
            g = summed(g, axes, x)
        if self.repeated:
            g = expand_dims(g, self.repeated)
        return (g, *(None for _ in symbolic))

    def pushforward(self, tangents: Sequence[Any], y: Tensor, x: Tensor, *symbolic: Tensor) -> Any:
        return None if tangents[0] is None else Tensor.make(self, tangents[0], *symbolic)

    def batch(self, size: Any, batched: Sequence[bool], x: Tensor, *symbolic: Tensor) -> Tensor:
        """The new axes stand between the batch axis and x's own, and are repeated like those."""
        new = len(self.shape) + 1 - x.ndim
        x = expand_dims(x, tuple(range(1, new + 1)))
        again = tuple(i + 1 for i, n in enumerate(self.shape) if i < new and n != 1)
        again += tuple(new + 1 + axis for axis in self.repeated)
        first, lengths = with_batch_length(size, symbolic)
        return Tensor.make(BroadcastTo((first, *self.shape), again), x, *lengths)


@function
def broadcast_to(x: Any, shape: Any) -> Tensor:
    """Repeated along new axes in front and along axes of static length 1.

    Args:
        x: Any shape and dtype.
        shape: Integers, Python's or symbolic, or an int64 vector of static length.

    Returns:
        An array of that shape.

    Raises:
        ShapeError: x has more axes, or a length that is neither 1 nor the one wanted.

    Example:
        >>> import graphc.tensor as gt
        >>> broadcast_to(gt.tensor("x", shape=(3, 1)), (2, 3, 4)).type
        float64[2, 3, 4]
    """
    x = as_tensor(x)
    static, symbolic = entries("broadcast_to", shape)
    new = len(static) - x.ndim
    if new < 0:
        raise ShapeError(
            f"broadcast_to({x.type!r}, {static}): the result has too few axes.", "", where(here())
        )
    if static == x.type.shape and None not in static:
        return x  # type: ignore[no-any-return]
    repeated = tuple(
        axis for axis, n in enumerate(x.type.shape) if n == 1 and static[new + axis] != 1
    )
    made = Tensor.make(BroadcastTo(static, repeated), x, *symbolic)
    # Lengths that are x's own are known to fit.
    own = [*symbolic] == [n for n in lengths(x) if isinstance(n, Tensor)]
    return x if own and not new and not repeated and made.type is x.type else made


@function
def broadcast_arrays(*xs: Any) -> list[Tensor]:
    """The arrays, each repeated to their common shape."""
    tensors = [as_tensor(x) for x in xs]
    common = broadcast_lengths(tensors) if tensors else []
    return [broadcast_to(x, common) for x in tensors]


def broadcast_lengths(xs: Sequence[Tensor], without: int = 0) -> list[int | Tensor]:
    """The lengths of the common shape of all axes but the last few."""
    ndim = max(x.ndim for x in xs)
    result: list[int | Tensor] = []
    for axis in range(-ndim, -without):
        having = [x for x in xs if x.ndim >= -axis and x.type.shape[axis] != 1]
        known = [x for x in having if x.type.shape[axis] is not None]
        source = known or having
        result.append(length(source[0], axis) if source else 1)
    return result


# Joining.


@dataclass(frozen=True, slots=True)
class Concatenate(Op):
    """Arrays of one dtype one after the other along an axis."""

    axis: int

    rearranges = True

    @property
    def name(self) -> str:
        return "concatenate"

    def infer(self, *types: TensorType) -> TensorType:
        first = types[0]
        shape: list[int | None] = []
        for axis in range(first.ndim):
            seen = [t.shape[axis] for t in types]
            if axis == self.axis:
                shape.append(None if None in seen else sum(n for n in seen if n is not None))
                continue
            known = {n for n in seen if n is not None}
            if len(known) > 1:
                raise ShapeError(
                    f"concatenate({', '.join(map(repr, types))}, axis={self.axis}): lengths "
                    f"differ on axis {axis}.",
                    "Make them equal on every other axis.",
                    where(here()),
                )
            shape.append(known.pop() if known else None)
        return first.with_shape(tuple(shape))

    def checks(self, *types: TensorType) -> Sequence[tuple[int, int, int, int]]:
        return [
            (0, axis, j, axis)
            for axis in range(types[0].ndim)
            if axis != self.axis and any(t.shape[axis] is None for t in types)
            for j in range(1, len(types))
        ]

    def perform(self, *xs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.concatenate(xs, self.axis)

    def pullback(self, g: Tensor, y: Tensor, *xs: Tensor) -> Sequence[Tensor]:
        parts: list[Tensor] = []
        start: Any = 0
        for x in xs:
            stop = start + length(x, self.axis)
            parts.append(g[(*(slice(None),) * self.axis, slice(start, stop))])
            start = stop
        return parts

    def pushforward(self, tangents: Sequence[Any], y: Tensor, *xs: Tensor) -> Any:
        full = [
            TABLE["zeros_like"](x) if t is None else t for t, x in zip(tangents, xs, strict=True)
        ]
        return Tensor.make(self, *full)

    def batch(self, size: Any, batched: Sequence[bool], *xs: Tensor) -> Tensor:
        full = [x if leading else repeated(x, size) for x, leading in zip(xs, batched, strict=True)]
        return Tensor.make(Concatenate(self.axis + 1), *full)


@function
def concatenate(tensors: Sequence[Any], axis: int = 0) -> Tensor:
    """Arrays one after the other along an axis.

    Args:
        tensors: At least one array; equal shapes but for that axis.
        axis: The axis to join along.

    Returns:
        An array of the common dtype.

    Raises:
        ShapeError: No array, 0-d arrays, or shapes that do not fit.
    """
    xs = list(tensors)
    if not xs:
        raise ShapeError("concatenate: at least one array is wanted.", "", where(here()))
    xs, _ = operands("concatenate", xs)
    if len({x.ndim for x in xs}) != 1 or not xs[0].ndim:
        raise ShapeError(
            f"concatenate({', '.join(repr(x.type) for x in xs)}): arrays of one rank, at least "
            "1, are wanted.",
            "Use gt.stack for 0-d arrays, gt.expand_dims for a missing axis.",
            where(here()),
        )
    (at,) = axes_of("concatenate", axis, xs[0].ndim)
    return xs[0] if len(xs) == 1 else Tensor.make(Concatenate(at), *xs)


@function
def stack(tensors: Sequence[Any], axis: int = 0) -> Tensor:
    """Arrays of one shape along a new axis.

    Args:
        tensors: At least one array; equal shapes.
        axis: Where the new axis stands in the result.

    Raises:
        ShapeError: No array, or shapes that do not fit.
    """
    parts = [as_tensor(x) if not isinstance(x, int | float | complex) else x for x in tensors]
    if not parts:
        raise ShapeError("stack: at least one array is wanted.", "", where(here()))
    xs, _ = operands("stack", parts)
    if len({x.ndim for x in xs}) != 1:
        raise ShapeError(
            f"stack({', '.join(repr(x.type) for x in xs)}): arrays of one rank are wanted.",
            "",
            where(here()),
        )
    return concatenate([expand_dims(x, axis) for x in xs], axis)


@function
def atleast_1d(x: Any) -> Tensor:
    """The array with at least one axis."""
    x = as_tensor(x)
    return x if x.ndim else expand_dims(x, 0)
