"""NumPy's indexing, basic and advanced: parts of an array, and arrays with a part changed."""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from graphc import ir
from graphc.errors import ArgumentError, BoundsError, DTypeError, ShapeError
from graphc.ir.law import law
from graphc.ir.lengths import AnyLength, SymbolicLength, agree, require
from graphc.ir.line import ATOM, Code, Writer
from graphc.tensor.arrays.broadcast import batch_of
from graphc.tensor.arrays.create import Arange, StaticArange, arange, full, zeros_like
from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.axes import expand_dims, moveaxis
from graphc.tensor.core.shape import Length, Shape, as_length, length, reshape
from graphc.tensor.core.specify import SpecifyShape, specify
from graphc.tensor.core.tensor import Tensor, TensorLike, as_tensor, axes_of, constant, function

__all__ = ["flip", "getitem", "inc_subtensor", "set_subtensor"]

T = TypeVar("T")


class Hole(enum.Enum):
    """A placeholder for an input."""

    HOLE = "?"

    def __repr__(self) -> str:
        return "?"


HOLE = Hole.HOLE
Bound = int | None | Hole


@dataclass(frozen=True, slots=True)
class Range:
    """A slice whose parts are integers, None or holes."""

    start: Bound = None
    stop: Bound = None
    step: Bound = None

    def __repr__(self) -> str:
        bounds = [self.start, self.stop] + ([] if self.step is None else [self.step])
        return ":".join("" if part is None else repr(part) for part in bounds)

    @property
    def parts(self) -> tuple[Bound, Bound, Bound]:
        """Start, stop and step."""
        return self.start, self.stop, self.step

    def length(
        self, n: AnyLength | None, bounds: Sequence[AnyLength | None] = ()
    ) -> AnyLength | None:
        """Return the number of elements that the slice selects of n, None if unknown.

        Args:
            n: The length of the axis.
            bounds: The values of the holes, where they are known.
        """
        if self in WHOLE_AXES:
            return n
        if n is None or None in bounds or (HOLE in self.parts and not bounds):
            return 0 if n == 0 else None
        values = iter(bounds)
        resolved: list[Any] = [next(values) if part == HOLE else part for part in self.parts]
        if bounds or isinstance(n, SymbolicLength):
            return SymbolicLength.of("slice", n, *resolved)
        return len(range(n)[slice(*resolved)])


Entry = int | Range | Hole | None
"""A part of an index: an integer, a slice, a hole for an integer array, or a new axis."""

EVERYTHING = Range()
BACKWARDS = Range(None, None, -1)
WHOLE_AXES = {EVERYTHING, BACKWARDS, Range(0), Range(None, None, 1), Range(0, None, 1)}


def _format_entries(entries: Sequence[Entry], symbolic: Sequence[ir.Node], write: Writer) -> str:
    """Return an index as code, without full slices at its end."""
    shown = list(entries)
    while len(shown) > 1 and shown[-1] == EVERYTHING:
        shown.pop()
    values = iter(symbolic)
    return re.sub(r"\?", lambda _: write(next(values)), ", ".join(map(repr, shown)))


def selection(entries: Sequence[Entry], symbolic: Sequence[Any], integer: Any = None) -> Any:
    """Return the NumPy index, with the values of the holes filled in.

    Args:
        entries: The static parts.
        symbolic: A value for each hole, in order; bounds of slices become lengths.
        integer: Function applied to integer arrays, none by default.
    """
    values = iter(symbolic)

    def bound(part: Bound) -> int | None:
        return as_length(next(values)) if isinstance(part, Hole) else part

    def fill_holes() -> Iterator[Any]:
        for entry in entries:
            if isinstance(entry, Hole):
                value = next(values)
                yield value if integer is None else integer(value)
            elif isinstance(entry, Range):
                yield slice(*[bound(part) for part in entry.parts])
            else:
                yield entry

    return tuple(fill_holes())


FEW_COLUMNS, MANY_COLUMNS = 64, 128
"""NumPy adds to fewer columns faster one after the other, and to more row by row."""

MANY_ROWS = 64
"""The number of rows from which this pays."""


def _add_at(y: np.ndarray[Any, Any], index: tuple[Any, ...], value: Any) -> None:
    """Add a value to the selected elements, as often as each is selected, in order."""
    rows, *rest = index
    by_rows = isinstance(rows, np.ndarray) and rows.ndim == 1 and rows.dtype.kind in "iu"
    by_rows &= all(isinstance(entry, slice) and entry == slice(None) for entry in rest)
    if not by_rows or y.ndim != 2 or y.dtype.kind == "b" or len(rows) < MANY_ROWS:
        # NumPy misreads a value of fewer axes than the index (in 2.4 and 2.5).
        np.add.at(y, index, np.broadcast_to(value, y[index].shape))
        return
    columns = y.shape[1]
    values = np.broadcast_to(value, (len(rows), columns))
    if columns <= FEW_COLUMNS:
        for column in range(columns):
            np.add.at(y[:, column], rows, values[:, column])
    elif columns < MANY_COLUMNS:
        np.add.at(y, rows, values)
    else:
        for row, summand in zip(rows.tolist(), values, strict=True):
            y[row] += summand


@dataclass(frozen=True, slots=True)
class Index(ir.Op):
    """A part of an array. Inputs are the array and a value for each hole of the entries.

    Attributes:
        entries: One for each axis of the array, and None for each new axis.
    """

    entries: tuple[Entry, ...]
    name = "getitem"
    is_linear = True

    def as_code(self, inputs: Sequence[ir.Node], write: Writer) -> Code:
        x, *symbolic = inputs
        return f"{write(x, ATOM)}[{_format_entries(self.entries, symbolic, write)}]", ATOM

    def infer(self, x: ir.TensorType, *symbolic: ir.TensorType) -> ir.TensorType:
        shape: list[Any] = []
        values = iter(symbolic)
        axis = 0
        for entry in self.entries:
            if isinstance(entry, Range):
                bounds = [next(values).value for _ in range(entry.parts.count(HOLE))]
                shape.append(entry.length(x.shape[axis], bounds))
            elif isinstance(entry, Hole):
                next(values)
            elif entry is None:
                shape.append(1)
            elif isinstance(entry, int):
                _check_bounds(x, axis, entry)
            axis += entry is not None
        arrays = self.arrays(symbolic)
        if arrays:
            position = self.array_axis()
            shape[position:position] = ew.broadcast_shapes("getitem", arrays)
        return x.with_shape(tuple(shape))

    def bounds(self) -> list[int]:
        """Return the positions of the inputs that are bounds of slices."""
        positions: list[int] = []
        i = 1
        for entry in self.entries:
            holes = entry.parts.count(HOLE) if isinstance(entry, Range) else 0
            positions += range(i, i + holes)
            i += holes or isinstance(entry, Hole)
        return positions

    def arrays(self, symbolic: Sequence[T]) -> list[T]:
        """Return the holes' values that are index arrays, not bounds of slices."""
        bounds = self.bounds()
        return [x for i, x in enumerate(symbolic, 1) if i not in bounds]

    def array_axis(self) -> int:
        """Return the position of the index arrays' axes in the result.

        They replace the axes they index, or come first if a slice or a new axis separates these.
        """
        kinds = [isinstance(entry, int | Hole) for entry in self.entries]
        first = kinds.index(True)
        last = len(kinds) - kinds[::-1].index(True)
        return first if all(kinds[first:last]) else 0

    def perform(self, x: np.ndarray[Any, Any], *symbolic: Any) -> Any:
        return x[selection(self.entries, symbolic)]

    def batch(self, size: Any, batched: Sequence[bool], x: Tensor, *symbolic: Tensor) -> Tensor:
        over = _over_batch(self, size, batched[1:], symbolic, batched[0])
        return moveaxis(
            Tensor.make(over.op, x, *over.symbolic), [*over.source], [*over.destination]
        )

    def pullback(self, g: Tensor, y: Tensor, x: Tensor, *symbolic: Tensor) -> Sequence[Any]:
        """Add each element's gradient up over all positions that read it."""
        grown = Tensor.make(IndexUpdate(self.entries, True), zeros_like(x), g, *symbolic)
        mask = ew.split_mask(g)[0] if x.inputs else None
        if mask is not None:
            grown = ew.where(self._chosen(ew.repeated_like(mask, g), x, *symbolic), grown, 0)
        return (grown, *(None for _ in symbolic))

    def _chosen(self, mask: Tensor, x: Tensor, *symbolic: Tensor) -> Tensor:
        """Return which of x's elements are read at least once where the mask holds."""
        count = zeros_like(x, "int32")
        update = IndexUpdate(self.entries, True)
        return Tensor.make(update, count, ew.cast(mask, "int32"), *symbolic) > 0


@dataclass(frozen=True, slots=True)
class _BatchedIndex:
    """An index applied to a batch.

    Attributes:
        op: The index, of a batch of arrays or for a batch of index arrays.
        symbolic: A value for each of its holes.
        source: Axes of the result that have to move, as for ``moveaxis``.
        destination: Their positions in the batched result.
    """

    op: Index
    symbolic: Sequence[Tensor]
    source: Sequence[int] = ()
    destination: Sequence[int] = ()


def _over_batch(
    op: Index, size: Any, batched: Sequence[bool], symbolic: Sequence[Tensor], of_batch: bool
) -> _BatchedIndex:
    arrays, flags = op.arrays(symbolic), op.arrays(batched)
    n = max((x.ndim - leading for x, leading in zip(arrays, flags, strict=True)), default=0)
    if not any(flags):
        unbatched = Index((EVERYTHING, *op.entries))
        if not arrays or unbatched.array_axis():
            return _BatchedIndex(unbatched, symbolic)
        return _BatchedIndex(unbatched, symbolic, [n], [0])
    symbolic = [
        ew.with_rank(x, n) if leading else x for x, leading in zip(symbolic, batched, strict=True)
    ]
    position = op.array_axis()
    if not of_batch:
        return _BatchedIndex(op, symbolic, [position], [0])
    # Each array of the batch has its own indices: the batch axis is indexed by 0, 1, 2, ...
    rows = ew.with_rank(arange(size), n)
    source, destination = range(1, n + 1), range(position + 1, position + 1 + n)
    return _BatchedIndex(Index((HOLE, *op.entries)), [rows, *symbolic], source, destination)


def _check_bounds(x: ir.TensorType, axis: int, i: int) -> None:
    n = x.shape[axis]
    if isinstance(n, int) and not -n <= i < n:
        raise BoundsError(f"Index {i} is outside axis {axis} of {x!r}, of length {n}.")


@dataclass(frozen=True, slots=True)
class IndexUpdate(ir.Op):
    """An array with a part replaced by a value, or with a value added to it.

    Inputs are the array, the value, which broadcasts to the part, and a value for each hole.
    """

    entries: tuple[Entry, ...]
    accumulate: bool

    @property
    def name(self) -> str:
        return "inc" if self.accumulate else "set"

    def as_code(self, inputs: Sequence[ir.Node], write: Writer) -> Code:
        x, value, *symbolic = inputs
        part = f"{write(x, ATOM)}[{_format_entries(self.entries, symbolic, write)}]"
        return f"{part}.{self.name}({write(value)})", ATOM

    def infer(
        self, x: ir.TensorType, value: ir.TensorType, *symbolic: ir.TensorType
    ) -> ir.TensorType:
        part = Index(self.entries).infer(x, *symbolic)
        if value.dtype != x.dtype:
            raise DTypeError(f"{self.name}({x!r}, {value!r}): expected one dtype.")
        fits = value.ndim <= part.ndim and broadcast_fits(value, part)
        if not fits:
            raise ShapeError(
                f"{self.name}: a value of type {value!r} does not fit a part of type {part!r}.",
                "Make its lengths equal to the part's, or 1.",
            )
        require(*part.shape)
        return x

    def perform(self, x: np.ndarray[Any, Any], value: Any, *symbolic: Any) -> np.ndarray[Any, Any]:
        y = np.array(x)
        index = selection(self.entries, symbolic)
        if self.accumulate and any(isinstance(entry, Hole) for entry in self.entries):
            _add_at(y, index, value)
        elif self.accumulate:
            y[index] += value
        else:
            y[index] = value
        return y

    def pullback(
        self, g: Tensor, y: Tensor, x: Tensor, value: Tensor, *symbolic: Tensor
    ) -> Sequence[Any]:
        """Return gradients; of several values set at one element, only the last has one."""
        part = Tensor.make(Index(self.entries), g, *symbolic)
        by_x = g
        if not self.accumulate:
            nothing = constant(0, dtype=g.dtype)
            by_x = Tensor.make(IndexUpdate(self.entries, False), g, nothing, *symbolic)
            if _may_repeat(Index(self.entries).arrays(symbolic)):
                part = ew.where(self._remaining(x, part, symbolic), part, 0)
        return (by_x, ew.unbroadcast(part, value), *(None for _ in symbolic))

    def _remaining(self, x: Tensor, part: Tensor, symbolic: Sequence[Tensor]) -> Tensor:
        """Return which values of a part remain, by setting and reading the number of each value."""
        index = Index(self.entries)
        arrays, position = index.arrays(symbolic), index.array_axis()
        ndim = max(i.ndim for i in arrays)
        shape = [length(part, position + axis) for axis in range(ndim)]
        numbers = reshape(arange(math.prod(shape[1:], start=shape[0])), shape)
        axes = [entry for entry in self.entries if entry is not None]
        indexed = [length(x, axis) for axis, entry in enumerate(axes) if entry is HOLE]
        entries = (HOLE,) * len(arrays)
        writers = full(indexed, -1, "int64")
        writers = Tensor.make(IndexUpdate(entries, False), writers, numbers, *arrays)
        remaining = ew.equal(Tensor.make(Index(entries), writers, *arrays), numbers)
        return expand_dims(remaining, tuple(range(ndim, part.ndim - position)))

    def pushforward(
        self, tangents: Sequence[Any], y: Tensor, x: Tensor, value: Tensor, *symbolic: Tensor
    ) -> Any:
        dx, dvalue = tangents[:2]
        if dx is None and dvalue is None:
            return None
        dx = zeros_like(x) if dx is None else dx
        dvalue = zeros_like(value) if dvalue is None else dvalue
        return Tensor.make(self, dx, dvalue, *symbolic)

    def batch(
        self, size: Any, batched: Sequence[bool], x: Tensor, value: Tensor, *symbolic: Tensor
    ) -> Tensor:
        x = x if batched[0] else batch_of(x, size)
        over = _over_batch(Index(self.entries), size, batched[2:], symbolic, True)
        if batched[1] or over.source:
            value = value if batched[1] else expand_dims(value, 0)
            part = over.op.infer(x.type, *[i.type for i in over.symbolic])
            value = moveaxis(
                ew.with_rank(value, part.ndim - 1), [*over.destination], [*over.source]
            )
        return Tensor.make(IndexUpdate(over.op.entries, self.accumulate), x, value, *over.symbolic)


def _may_repeat(arrays: Sequence[Tensor]) -> bool:
    if all(n == 1 for i in arrays for n in i.type.shape):
        return False
    (several, *_) = arrays[0].inputs or (None,)
    if several is not None and isinstance(several.op, Nonzero):
        return tuple(arrays) != nonzero_indices(several.inputs[0])
    ndim = max(i.ndim for i in arrays)
    return not any(i.ndim == ndim and _has_distinct_elements(i) for i in arrays)


def _has_distinct_elements(i: Tensor) -> bool:
    """Return whether the index vector selects no element twice, as far as its operation says.

    A negative and a nonnegative index may select the same element.
    """
    n = i.type.shape[0]
    match i.op:
        case Arange():
            start, _, step = (x.op.value if isinstance(x.op, ir.Constant) else -1 for x in i.inputs)
            return bool(start >= 0 and step > 0)
        case StaticArange(start, _, step):
            return start >= 0 and step > 0
        case ir.Constant(value=values) if i.ndim == 1:
            return len({*values.tolist()}) == n and len({*(values < 0).tolist()}) == 1
    return False


def broadcast_fits(value: ir.TensorType, part: ir.TensorType) -> bool:
    """Return whether a value broadcasts to a part, as far as static lengths tell."""
    pairs = zip(value.shape[::-1], part.shape[::-1], strict=False)
    return all(n == 1 or agree(n, m) for n, m in pairs)


@dataclass(frozen=True, slots=True)
class Nonzero(ir.Op):
    """The positions of the nonzero elements: an int64 vector for each axis.

    Their number depends on the values.
    """

    name = "nonzero"

    def infer(self, x: ir.TensorType) -> ir.TupleType:
        count = None if x.value is None else SymbolicLength.of("count", x.value)
        return ir.TupleType((ir.TensorType("int64", (count,)),) * x.ndim)

    def perform(self, x: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], ...]:
        return tuple(indices.astype(np.int64) for indices in np.nonzero(x))


def nonzero_indices(x: Any) -> tuple[Tensor, ...]:
    """Return the positions of the nonzero elements in row-major order, a vector for each axis."""
    x = as_tensor(x)
    if not x.ndim:
        raise ShapeError("nonzero: expected at least one axis, got a scalar.")
    indices = ir.Node.make(Nonzero(), x)
    return tuple(Tensor.make(ir.Pick(i), indices) for i in range(x.ndim))


INDICES = "Use integers, slices, None, ... or integer or bool arrays."


class _Parser:
    """An index as written, parsed into static entries and symbolic inputs."""

    def __init__(self, x: Tensor, index: Any) -> None:
        self.x = x
        self.entries: list[Entry] = []
        self.symbolic: list[Tensor] = []
        items = list(index) if isinstance(index, tuple) else [index]
        items = [self.convert(part) for part in items]
        taken = sum_axes(items)
        if taken > x.ndim:
            raise BoundsError(f"{x!r} has {x.ndim} axes, the index {taken}.")
        if not [part for part in items if part is Ellipsis]:
            items.append(Ellipsis)
        if taken == x.ndim:
            self.check_dots(items)
        self.axis = 0
        self.left = x.ndim - taken
        for part in items:
            self.enter(part)

    def convert(self, part: Any) -> Any:
        if part is None or part is Ellipsis or isinstance(part, slice):
            return part
        if isinstance(part, bool | np.bool_):
            raise self.refusal(part, "Use an integer or a mask array instead of a bool.")
        if isinstance(part, int | np.integer):
            return int(part)
        if isinstance(part, str | float | np.floating):
            raise self.refusal(part, INDICES)
        part = as_tensor(part)
        if part.type.shape == (0,) and isinstance(part.op, ir.Constant):
            part = ew.cast(part, "int64")
        if part.dtype != "bool" and not ir.is_integer(part.dtype):
            raise self.refusal(
                part, f"{INDICES} Half of a length is x.shape[0] // 2; x.astype('int64') converts."
            )
        if isinstance(part.op, ir.Constant) and not part.ndim and part.dtype != "bool":
            return int(part.op.value)
        return part

    def check_dots(self, parts: list[Any]) -> None:
        """Refuse an ellipsis that stands for no axes between index arrays.

        In NumPy they would put the arrays' axes before all others.
        """
        dots = next((i for i, part in enumerate(parts) if part is Ellipsis), 0)
        sides = parts[:dots], parts[dots + 1 :]
        split = all([part for part in side if isinstance(part, int | Tensor)] for side in sides)
        arrays = [part for part in parts if isinstance(part, Tensor) and part.ndim]
        if split and arrays and not isinstance(parts[0], int | Tensor):
            raise ArgumentError(
                f"The ellipsis in an index of {self.x!r} stands for no axes, between index arrays.",
                "Leave it out; gt.moveaxis puts the arrays' axes first, as NumPy would.",
            )

    def refusal(self, part: Any, remedy: str) -> DTypeError:
        return DTypeError(f"{part!r} is not an index of {self.x!r}.", remedy)

    def enter(self, part: Any) -> None:
        if part is Ellipsis:
            self.entries += [EVERYTHING] * self.left
            self.axis += self.left
            self.left = 0
        elif part is None:
            self.entries.append(None)
        elif isinstance(part, slice):
            bounds = (self.bound(b) for b in (part.start, part.stop, part.step))
            self.entries.append(Range(*bounds))
            self.axis += 1
        elif isinstance(part, int):
            self.entries.append(part)
            self.axis += 1
        elif part.dtype == "bool":
            self.mask(part)
        else:
            self.entries.append(HOLE)
            self.symbolic.append(part)
            self.axis += 1

    def bound(self, bound: Any) -> Bound:
        if bound is None:
            return None
        bound = bound if isinstance(bound, int | Tensor) else self.convert(bound)
        if isinstance(bound, Tensor):
            bound = self.convert(bound)
        if isinstance(bound, Tensor):
            if bound.ndim or bound.dtype == "bool":
                raise self.refusal(bound, "A slice's parts are integer scalars.")
            self.symbolic.append(bound)
            return HOLE
        return int(bound)

    def fit_mask(self, mask: Tensor) -> Tensor:
        """Return the mask, its lengths checked at run time where the types leave them open."""
        wanted = [length(self.x, self.axis + i) for i in range(mask.ndim)]
        if mask.type.shape == tuple(wanted):
            return mask
        static = tuple(None if isinstance(n, Tensor) else n for n in wanted)
        symbolic = [n for n in wanted if isinstance(n, Tensor)]
        return Tensor.make(SpecifyShape(static, "x[mask]"), mask, *symbolic)

    def mask(self, mask: Tensor) -> None:
        if not mask.ndim:
            raise self.refusal(mask, "Use gt.where instead of a bool scalar.")
        for i, n in enumerate(mask.type.shape):
            m = self.x.type.shape[self.axis + i]
            if n is not None and m is not None and n != m:
                raise ShapeError(
                    f"The mask {mask!r} does not fit {self.x!r}: axis {i} of the mask has {n} "
                    f"elements, axis {self.axis + i} of the array has {m}.",
                    "Use a mask of the array's lengths; integers select by position.",
                )
        self.entries += [HOLE] * mask.ndim
        self.symbolic += nonzero_indices(self.fit_mask(mask))
        self.axis += mask.ndim


def sum_axes(parts: Sequence[Any]) -> int:
    """Return how many axes of an array the parts of an index consume."""
    taken = 0
    for part in parts:
        if part is None or part is Ellipsis:
            continue
        taken += part.ndim if isinstance(part, Tensor) and part.dtype == "bool" else 1
    return taken


@function
def getitem(x: TensorLike, index: Any) -> Tensor:
    """Return ``x[index]``, as in NumPy.

    Args:
        x: At least as many axes as the index takes.
        index: Integers, slices, None, ``...``, integer arrays and masks, Python's or symbolic.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.getitem(gt.as_tensor([1.0, 2.0, 3.0]), slice(1, None)).eval(mode="NUMPY").tolist()
        [2.0, 3.0]
    """
    x = as_tensor(x)
    if isinstance(x.op, Shape) and isinstance(index, int):
        measured: Tensor = x.inputs[0]  # type: ignore[assignment]
        _check_bounds(x.type, 0, index)
        return as_tensor(length(measured, index), dtype="int64")
    parsed = _Parser(x, index)
    _check_step(x, parsed.entries)
    return Tensor.make(Index(tuple(parsed.entries)), x, *parsed.symbolic)


def _check_step(x: Tensor, entries: Sequence[Entry]) -> None:
    if [entry for entry in entries if isinstance(entry, Range) and entry.step == 0]:
        raise ShapeError(f"A slice of {x!r} has step 0.")


def _update(part: Any, value: Any, accumulate: bool) -> Tensor:
    name = "inc" if accumulate else "set"
    if isinstance(part, Tensor) and isinstance(part.op, Length):
        # The part of a shape that ``getitem`` wrote as one length.
        part = Tensor.make(Index((part.op.axis,)), Tensor.make(Shape(), part.inputs[0]))
    if not isinstance(part, Tensor) or not isinstance(part.op, Index):
        raise ArgumentError(
            f".{name}(...): {part!r} is not a part of an array.",
            f"Write x[index].{name}(value).",
        )
    x: Any = part.inputs[0]
    symbolic = part.inputs[1:]
    value = as_tensor(value)
    if value.dtype != x.dtype:
        value = _safely_cast(name, value, x)
    mask = _mask_of(part)
    if mask is not None and not value.ndim:
        return ew.where(mask, x + value if accumulate else value, x)
    value = _specify_value(name, value, part)
    return Tensor.make(IndexUpdate(part.op.entries, accumulate), x, value, *symbolic)


def _specify_value(name: str, value: Tensor, part: Tensor) -> Tensor:
    """Return the value, its lengths specified where the axes of the part are slices.

    The update compares the others.
    """
    (lengths,) = law(part.op, tuple([x.type for x in part.inputs])).results
    new = part.ndim - value.ndim
    if new < 0:
        return value  # the update refuses it
    wanted = [
        length(part, new + axis) if n is None and not _is_axis_length(lengths[new + axis]) else None
        for axis, n in enumerate(value.type.shape)
    ]
    return specify(value, wanted, name)


def _is_axis_length(n: AnyLength | None) -> bool:
    return isinstance(n, SymbolicLength) and n.position is not None


def _safely_cast(name: str, value: Tensor, x: Any) -> Tensor:
    if not (
        _is_constant_in_range(value, x.dtype) or np.can_cast(value.dtype, x.dtype, "same_kind")
    ):
        raise DTypeError(
            f"{name}: a value of {value.dtype} cannot be stored in {x!r}.",
            f"Cast it: value.astype({x.dtype!r}), or cast the array to {value.dtype}.",
        )
    return ew.cast(value, x.dtype)


def _is_constant_in_range(value: Tensor, dtype: str) -> bool:
    if not isinstance(value.op, ir.Constant) or not (
        ir.is_integer(value.dtype) and ir.is_integer(dtype)
    ):
        return False
    bounds, values = np.iinfo(dtype), value.op.value
    return bool(np.all((values >= bounds.min) & (values <= bounds.max)))


def _mask_of(part: Tensor) -> Tensor | None:
    """Return the mask m of ``x[m]``, shaped to broadcast against x."""
    op = part.op
    assert isinstance(op, Index)
    x, *symbolic = part.inputs
    if not symbolic or not isinstance(symbolic[0].op, ir.Pick):
        return None
    mask: Tensor = symbolic[0].inputs[0].inputs[0]  # type: ignore[assignment]
    full_index = (HOLE,) * mask.ndim + (EVERYTHING,) * (x.type.ndim - mask.ndim)
    if op.entries != full_index or tuple(symbolic) != nonzero_indices(mask):
        return None
    missing = tuple(range(mask.ndim, x.type.ndim))
    return expand_dims(mask, missing) if missing else mask


@function
def set_subtensor(part: TensorLike, value: TensorLike) -> Tensor:
    """Return x with the part ``x[index]`` replaced.

    If an index is repeated, one of its values remains, the last one on a CPU; the others have no
    gradient.

    Args:
        part: The result of indexing an array.
        value: A value that broadcasts to the part; cast to x's dtype within its kind.

    Returns:
        An array of x's shape and dtype.

    Raises:
        ArgumentError: ``part`` is no part of an array.
        ShapeError: The value does not broadcast to the part.
        DTypeError: The value's kind of dtype cannot be cast to x's.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> set_subtensor(x[::2], 0).eval({x: [1.0, 2, 3]}, mode="NUMPY").tolist()
        [0.0, 2.0, 0.0]
    """
    return _update(part, value, accumulate=False)


@function
def inc_subtensor(part: TensorLike, value: TensorLike) -> Tensor:
    """Return x with a value added to the part ``x[index]``; repeated indices add up.

    Arguments, result and errors as for ``set_subtensor``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.inc_subtensor(gt.zeros(3)[[0, 0, 2]], 1.0).eval(mode="NUMPY").tolist()
        [2.0, 0.0, 1.0]
    """
    return _update(part, value, accumulate=True)


@function
def flip(x: TensorLike, axis: Any = None) -> Tensor:
    """Return the elements in reverse order along axes, all by default.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.flip([1, 2, 3]).eval(mode="NUMPY").tolist()
        [3, 2, 1]
    """
    x = as_tensor(x)
    axes = axes_of("flip", axis, x.ndim)
    index = tuple(slice(None, None, -1 if i in axes else None) for i in range(x.ndim))
    return x[index] if axes else x
