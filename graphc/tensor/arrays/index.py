"""NumPy's indexing, basic and advanced: parts of an array, and arrays with a part changed."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from graphc.errors import ArgumentError, BoundsError, DTypeError, ShapeError
from graphc.ir import Constant, Node, Op, Pick, TensorType, TupleType, is_integer
from graphc.ir.line import ATOM, Code, Writer
from graphc.tensor.arrays.broadcast import BroadcastTo, repeated
from graphc.tensor.arrays.create import arange, zeros_like
from graphc.tensor.core.axes import expand_dims, moveaxis
from graphc.tensor.core.elementwise import (
    broadcast_shapes,
    cast,
    repeated_like,
    split_mask,
    unbroadcast,
    where,
    with_rank,
)
from graphc.tensor.core.shape import Length, Shape, as_length, length
from graphc.tensor.core.tensor import Tensor, TensorLike, as_tensor, axes_of, constant, function

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
        parts = [self.start, self.stop] + ([] if self.step is None else [self.step])
        return ":".join("" if part is None else repr(part) for part in parts)

    @property
    def parts(self) -> tuple[Bound, Bound, Bound]:
        """Start, stop and step."""
        return self.start, self.stop, self.step

    def length(self, n: int | None) -> int | None:
        """The number of elements it selects of n, as far as that is known."""
        if HOLE in self.parts:
            return 0 if n == 0 else None
        if n is None:
            return None
        parts: tuple[Any, Any, Any] = self.parts
        return len(range(n)[slice(*parts)])


Entry = int | Range | Hole | None
"""A part of an index: an integer, a slice, a hole for an integer array, or a new axis."""

EVERYTHING = Range()


def _written(entries: Sequence[Entry], symbolic: Sequence[Node], write: Writer) -> str:
    """An index as code, without the whole axes at its end."""
    shown = list(entries)
    while len(shown) > 1 and shown[-1] == EVERYTHING:
        shown.pop()
    values = iter(symbolic)
    return re.sub(r"\?", lambda _: write(next(values)), ", ".join(map(repr, shown)))


def selection(entries: Sequence[Entry], symbolic: Sequence[Any], integer: Any = None) -> Any:
    """Return the NumPy index, with the values of the holes filled in.

    Args:
        entries: The static parts.
        symbolic: A value for each hole, in order; those of slices are turned into lengths.
        integer: What an integer array is turned into, nothing by default.
    """
    values = iter(symbolic)

    def bound(part: Bound) -> int | None:
        return as_length(next(values)) if isinstance(part, Hole) else part

    def filled() -> Iterator[Any]:
        for entry in entries:
            if isinstance(entry, Hole):
                value = next(values)
                yield value if integer is None else integer(value)
            elif isinstance(entry, Range):
                yield slice(*[bound(part) for part in entry.parts])
            else:
                yield entry

    return tuple(filled())


FEW_COLUMNS, MANY_COLUMNS = 64, 128
"""NumPy adds to fewer columns faster one after the other, and to more row by row."""

MANY_ROWS = 64
"""For so many numbers of rows that pays."""


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
        for row, found in zip(rows.tolist(), values, strict=True):
            y[row] += found


@dataclass(frozen=True, slots=True)
class Index(Op):
    """A part of an array. Inputs are the array and a value for each hole of the entries.

    Attributes:
        entries: One for each axis of the array, and None for each new axis.
    """

    entries: tuple[Entry, ...]
    name = "getitem"

    def as_code(self, inputs: Sequence[Node], write: Writer) -> Code:
        x, *symbolic = inputs
        return f"{write(x, ATOM)}[{_written(self.entries, symbolic, write)}]", ATOM

    def infer(self, x: TensorType, *symbolic: TensorType) -> TensorType:
        shape: list[int | None] = []
        axis = 0
        for entry in self.entries:
            if isinstance(entry, Range):
                shape.append(x.shape[axis] if entry == EVERYTHING else entry.length(x.shape[axis]))
            elif entry is None:
                shape.append(1)
            elif isinstance(entry, int):
                _check_bounds(x, axis, entry)
            axis += entry is not None
        arrays = self.arrays(symbolic)
        if arrays:
            place = self.place()
            shape[place:place] = broadcast_shapes("getitem", arrays)
        return x.with_shape(tuple(shape))

    def arrays(self, symbolic: Sequence[T]) -> list[T]:
        """Those of the holes' values that are index arrays, not parts of slices."""
        bounds = self.host_inputs()
        return [x for i, x in enumerate(symbolic, 1) if i not in bounds]

    def place(self) -> int:
        """The position of the index arrays' axes in the result.

        In place of the axes they index; first, where a slice or a new axis stands between them.
        """
        kinds = [isinstance(entry, int | Hole) for entry in self.entries]
        first = kinds.index(True)
        last = len(kinds) - kinds[::-1].index(True)
        return first if all(kinds[first:last]) else 0

    def host_inputs(self) -> tuple[int, ...]:
        places: list[int] = []
        i = 1
        for entry in self.entries:
            if isinstance(entry, Hole):
                i += 1
            elif isinstance(entry, Range):
                n = entry.parts.count(HOLE)
                places += range(i, i + n)
                i += n
        return tuple(places)

    def perform(self, x: np.ndarray[Any, Any], *symbolic: Any) -> Any:
        return x[selection(self.entries, symbolic)]

    def batch(self, size: Any, batched: Sequence[bool], x: Tensor, *symbolic: Tensor) -> Tensor:
        over = _over_batch(self, size, batched[1:], symbolic, batched[0])
        return moveaxis(Tensor.make(over.op, x, *over.symbolic), [*over.found], [*over.wanted])

    def pullback(self, g: Tensor, y: Tensor, x: Tensor, *symbolic: Tensor) -> Sequence[Any]:
        """Each element read gets its gradient, added up where it is read twice."""
        grown = Tensor.make(IndexUpdate(self.entries, True), zeros_like(x), g, *symbolic)
        mask = split_mask(g)[0] if x.inputs else None
        if mask is not None:
            grown = where(self._chosen(repeated_like(mask, g), x, *symbolic), grown, 0)
        return (grown, *(None for _ in symbolic))

    def _chosen(self, mask: Tensor, x: Tensor, *symbolic: Tensor) -> Tensor:
        """Which of x's elements are read at least once where the mask holds."""
        count = zeros_like(x, "int32")
        update = IndexUpdate(self.entries, True)
        return Tensor.make(update, count, cast(mask, "int32"), *symbolic) > 0

    def pushforward(self, tangents: Sequence[Any], y: Tensor, x: Tensor, *symbolic: Tensor) -> Any:
        return None if tangents[0] is None else Tensor.make(self, tangents[0], *symbolic)


@dataclass(frozen=True, slots=True)
class _OverBatch:
    """An index applied to a whole batch.

    Attributes:
        op: The index, of a batch of arrays or for a batch of index arrays.
        symbolic: A value for each of its holes.
        found: Axes of its result that stand elsewhere than behind the batch axis and in order.
        wanted: Where they belong.
    """

    op: Index
    symbolic: Sequence[Tensor]
    found: Sequence[int] = ()
    wanted: Sequence[int] = ()


def _over_batch(
    op: Index, size: Any, batched: Sequence[bool], symbolic: Sequence[Tensor], of_batch: bool
) -> _OverBatch:
    arrays, flags = op.arrays(symbolic), op.arrays(batched)
    n = max((x.ndim - leading for x, leading in zip(arrays, flags, strict=True)), default=0)
    if not any(flags):
        whole = Index((EVERYTHING, *op.entries))
        if not arrays or whole.place():
            return _OverBatch(whole, symbolic)
        return _OverBatch(whole, symbolic, [n], [0])
    symbolic = [
        with_rank(x, n) if leading else x for x, leading in zip(symbolic, batched, strict=True)
    ]
    place = op.place()
    if not of_batch:
        return _OverBatch(op, symbolic, [place], [0])
    # Each array of the batch has its own indices: the batch axis is indexed by 0, 1, 2, ...
    rows = with_rank(arange(size), n)
    found, wanted = range(1, n + 1), range(place + 1, place + 1 + n)
    return _OverBatch(Index((HOLE, *op.entries)), [rows, *symbolic], found, wanted)


def _check_bounds(x: TensorType, axis: int, i: int) -> None:
    n = x.shape[axis]
    if n is not None and not -n <= i < n:
        raise BoundsError(f"Index {i} is outside axis {axis} of {x!r}, of length {n}.")


@dataclass(frozen=True, slots=True)
class IndexUpdate(Op):
    """An array with a part replaced by a value, or with a value added to it.

    Inputs are the array, the value, which broadcasts to the part, and a value for each hole.
    """

    entries: tuple[Entry, ...]
    accumulate: bool

    @property
    def name(self) -> str:
        return "inc" if self.accumulate else "set"

    def as_code(self, inputs: Sequence[Node], write: Writer) -> Code:
        x, value, *symbolic = inputs
        part = f"{write(x, ATOM)}[{_written(self.entries, symbolic, write)}]"
        return f"{part}.{self.name}({write(value)})", ATOM

    def infer(self, x: TensorType, value: TensorType, *symbolic: TensorType) -> TensorType:
        part = Index(self.entries).infer(x, *symbolic)
        if value.dtype != x.dtype:
            raise DTypeError(f"{self.name}({x!r}, {value!r}): expected one dtype.")
        fits = value.ndim <= part.ndim and broadcast_fits(value, part)
        if not fits:
            raise ShapeError(
                f"{self.name}: a value of type {value!r} does not fit a part of type {part!r}.",
                "Make its lengths equal to the part's, or 1.",
            )
        return x

    def host_inputs(self) -> tuple[int, ...]:
        return tuple(i + 1 for i in Index(self.entries).host_inputs())

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
        part = Tensor.make(Index(self.entries), g, *symbolic)
        by_x = g
        if not self.accumulate:
            nothing = constant(0, dtype=g.dtype)
            by_x = Tensor.make(IndexUpdate(self.entries, False), g, nothing, *symbolic)
        return (by_x, unbroadcast(part, value), *(None for _ in symbolic))

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
        x = x if batched[0] else repeated(x, size)
        over = _over_batch(Index(self.entries), size, batched[2:], symbolic, True)
        if batched[1] or over.found:
            value = value if batched[1] else expand_dims(value, 0)
            part = over.op.infer(x.type, *[i.type for i in over.symbolic])
            value = moveaxis(with_rank(value, part.ndim - 1), [*over.wanted], [*over.found])
        return Tensor.make(IndexUpdate(over.op.entries, self.accumulate), x, value, *over.symbolic)


def broadcast_fits(value: TensorType, part: TensorType) -> bool:
    """Return whether a value broadcasts to a part, as far as static lengths tell."""
    pairs = zip(value.shape[::-1], part.shape[::-1], strict=False)
    return not [1 for n, m in pairs if n is not None and m is not None and n not in {1, m}]


@dataclass(frozen=True, slots=True)
class Nonzero(Op):
    """The positions of the nonzero elements: an int64 vector for each axis.

    How many there are depends on the values.
    """

    name = "nonzero"

    def infer(self, x: TensorType) -> TupleType:
        return TupleType((TensorType("int64", (None,)),) * x.ndim)

    def host_inputs(self) -> tuple[int, ...]:
        return (0,)

    def perform(self, x: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], ...]:
        return tuple(places.astype(np.int64) for places in np.nonzero(x))

    def pullback(self, g: Any, y: Any, x: Tensor) -> tuple[None]:
        return (None,)


def nonzero_places(x: Any) -> tuple[Tensor, ...]:
    """Return the positions of the nonzero elements in row-major order, a vector for each axis."""
    x = as_tensor(x)
    if not x.ndim:
        raise ShapeError("nonzero: expected at least one axis, got a scalar.")
    places = Node.make(Nonzero(), x)
    return tuple(Tensor.make(Pick(i), places) for i in range(x.ndim))


class _Parser:
    """An index as written, parsed into static entries and symbolic inputs."""

    def __init__(self, x: Tensor, index: Any) -> None:
        self.x = x
        self.entries: list[Entry] = []
        self.symbolic: list[Tensor] = []
        parts = list(index) if isinstance(index, tuple) else [index]
        parts = [self.converted(part) for part in parts]
        taken = sum_axes(parts)
        if taken > x.ndim:
            raise BoundsError(f"{x!r} has {x.ndim} axes, the index {taken}.")
        if not [part for part in parts if part is Ellipsis]:
            parts.append(Ellipsis)
        if taken == x.ndim:
            self.check_dots(parts)
        self.axis = 0
        self.left = x.ndim - taken
        for part in parts:
            self.enter(part)

    def converted(self, part: Any) -> Any:
        if part is None or part is Ellipsis or isinstance(part, slice):
            return part
        if isinstance(part, bool | np.bool_):
            raise self.refused(part, "Use an integer or a mask array instead of a bool.")
        if isinstance(part, int | np.integer):
            return int(part)
        if isinstance(part, str | float | np.floating):
            raise self.refused(part, "Use integers, slices, None, ... or integer or bool arrays.")
        part = as_tensor(part)
        if part.type.shape == (0,) and isinstance(part.op, Constant):
            part = cast(part, "int64")
        if part.dtype != "bool" and not is_integer(part.dtype):
            raise self.refused(part, "Use integers, slices, None, ... or integer or bool arrays.")
        if isinstance(part.op, Constant) and not part.ndim and part.dtype != "bool":
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

    def refused(self, part: Any, remedy: str) -> DTypeError:
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
        bound = bound if isinstance(bound, int | Tensor) else self.converted(bound)
        if isinstance(bound, Tensor):
            bound = self.converted(bound)
        if isinstance(bound, Tensor):
            if bound.ndim or bound.dtype == "bool":
                raise self.refused(bound, "A slice's parts are integer scalars.")
            self.symbolic.append(bound)
            return HOLE
        return int(bound)

    def fitted(self, mask: Tensor) -> Tensor:
        """The mask, with its lengths checked at run time where the types leave them open."""
        wanted = [length(self.x, self.axis + i) for i in range(mask.ndim)]
        if mask.type.shape == tuple(wanted):
            return mask
        static = tuple(None if isinstance(n, Tensor) else n for n in wanted)
        symbolic = [n for n in wanted if isinstance(n, Tensor)]
        return Tensor.make(BroadcastTo(static, ()), mask, *symbolic)

    def mask(self, mask: Tensor) -> None:
        if not mask.ndim:
            raise self.refused(mask, "Use gt.where instead of a bool scalar.")
        for i, n in enumerate(mask.type.shape):
            m = self.x.type.shape[self.axis + i]
            if n is not None and m is not None and n != m:
                raise ShapeError(
                    f"The mask {mask!r} does not fit {self.x!r}: axis {self.axis + i}."
                )
        self.entries += [HOLE] * mask.ndim
        self.symbolic += nonzero_places(self.fitted(mask))
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


def _changed(part: Any, value: Any, accumulate: bool) -> Tensor:
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
        return where(mask, x + value if accumulate else value, x)
    return Tensor.make(IndexUpdate(part.op.entries, accumulate), x, value, *symbolic)


def _safely_cast(name: str, value: Tensor, x: Any) -> Tensor:
    if not (_fits(value, x.dtype) or np.can_cast(value.dtype, x.dtype, "same_kind")):
        raise DTypeError(
            f"{name}: a value of {value.dtype} cannot be stored in {x!r}.",
            f"Cast it: value.astype({x.dtype!r}), or cast the array to {value.dtype}.",
        )
    return cast(value, x.dtype)


def _fits(value: Tensor, dtype: str) -> bool:
    """Whether it is a constant whose integers fit an integer dtype."""
    if not isinstance(value.op, Constant) or not (is_integer(value.dtype) and is_integer(dtype)):
        return False
    bounds, held = np.iinfo(dtype), value.op.value
    return bool(np.all((held >= bounds.min) & (held <= bounds.max)))


def _mask_of(part: Tensor) -> Tensor | None:
    """The mask m of ``x[m]``, shaped to broadcast against x."""
    op = part.op
    assert isinstance(op, Index)
    x, *symbolic = part.inputs
    if not symbolic or not isinstance(symbolic[0].op, Pick):
        return None
    mask: Tensor = symbolic[0].inputs[0].inputs[0]  # type: ignore[assignment]
    whole = (HOLE,) * mask.ndim + (EVERYTHING,) * (x.type.ndim - mask.ndim)
    if op.entries != whole or tuple(symbolic) != nonzero_places(mask):
        return None
    missing = tuple(range(mask.ndim, x.type.ndim))
    return expand_dims(mask, missing) if missing else mask


@function
def set_subtensor(part: TensorLike, value: TensorLike) -> Tensor:
    """Return x with the part ``x[index]`` replaced.

    If an index is repeated, which of its values remains is undefined.

    Args:
        part: The result of indexing an array.
        value: A value that broadcasts to the part; cast to x's dtype within its kind.

    Returns:
        An array of x's shape and dtype.

    Raises:
        ArgumentError: ``part`` is no part of an array.
        ShapeError: The value does not broadcast to the part.
        DTypeError: The value's kind of dtype does not go into x's.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> set_subtensor(x[::2], 0).eval({x: [1.0, 2, 3]}, mode="NUMPY").tolist()
        [0.0, 2.0, 0.0]
    """
    return _changed(part, value, accumulate=False)


@function
def inc_subtensor(part: TensorLike, value: TensorLike) -> Tensor:
    """Return x with a value added to the part ``x[index]``; repeated indices add up.

    Arguments, result and errors as for ``set_subtensor``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.inc_subtensor(gt.zeros(3)[[0, 0, 2]], 1.0).eval(mode="NUMPY").tolist()
        [2.0, 0.0, 1.0]
    """
    return _changed(part, value, accumulate=True)


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
