"""Matrices of codes of a few bits: what all kinds of them do alike."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

from graphc.implicit.array import ImplicitArray, fields_of, is_implicit, with_fields
from graphc.implicit.namespace import numpy_like
from graphc.implicit.quantized.coding import Coding
from graphc.implicit.quantized.encode import encode
from graphc.implicit.quantized.matmul import product as packed_product
from graphc.implicit.structured import Structured
from graphc.implicit.structures.stacked import (
    Stacked,
    joint_dtype,
    materialize_unchecked,
    product,
    refuse,
)
from graphc.implicit.treedef import Treedef, dtype_of, field_names_of, lengths_of
from graphc.ir import TensorType, dtype_name, is_complex, is_inexact

BLOCK = 2**20
"""So many elements of a packed matrix are decoded at a time where another one multiplies it."""
MOST_BLOCKS = 16
"""The most blocks of such a product, each of which is a part of the program."""


@dataclass(frozen=True, repr=False)
class Quantized(Stacked):
    """A matrix, or a stack of them, of codes that lie packed along one of the last two axes.

    Products decode a block at a time, which stays in the cache: the whole matrix is never made. So
    do gradients of products, but for those by scales and biases. Rows, parts and joins are of the
    packed words themselves; a cut along the packed axis is so at whole groups.

    What changes each element alike changes the scales: they are rounded then, not the elements.
    """

    keeps_shardings: ClassVar[bool] = True
    frozen_fields: ClassVar[tuple[str, ...] | None] = None  # all of them

    if TYPE_CHECKING:
        # Fields of each kind, which has its own between them.
        @property
        def packed(self) -> Any: ...
        @property
        def scales(self) -> Any: ...
        @property
        def transposed(self) -> bool: ...
        @property
        def padding(self) -> int: ...

    @property
    def coding(self) -> Coding:
        """The meaning of the codes."""
        return self.coding_of(
            **{name: getattr(self, name) for name in field_names_of(type(self)).static}
        )

    @classmethod
    @abstractmethod
    def coding_of(cls, group_size: int = 64, **options: Any) -> Coding:
        """Return the meaning of the codes, given the static fields."""

    @property
    def offsets(self) -> Any:
        """The bias of each group, an array like the scales; or None."""
        return None

    @classmethod
    def spec(cls, shape: Any, dtype: Any, *, transposed: bool = False, **options: Any) -> Self:
        """Return an instance whose arrays are types.

        Args:
            shape: The lengths of the array that it stands for, two at least.
            dtype: The scales', and so the array's; floating.
            transposed: Whether the codes lie along the last axis but one.
            options: Further static fields, such as ``group_size`` and ``bits``.

        Raises:
            ImplicitArrayError: The options have no such codes.
        """
        coding = cls.coding_of(**options)
        *batch, n, m = shape
        rows, columns = (m, n) if transposed else (n, m)
        groups, padding = None, 0
        if columns is not None:
            groups = -(-columns // coding.group_size)
            padding = groups * coding.group_size - columns
        words = None if groups is None else groups * coding.words_per_group
        packed = TensorType("uint32", (*batch, rows, words))
        parts = cls.parts_spec(coding, dtype_name(dtype), (*batch, rows, groups))
        made: Callable[..., Self] = cls
        return made(packed, *parts, transposed=transposed, padding=padding, **options)

    @classmethod
    def parts_spec(cls, coding: Coding, dtype: str, groups: tuple[int | None, ...]) -> list[Any]:
        """The types of the fields behind the words; groups have this shape."""
        return [TensorType(dtype, groups)] * (1 + coding.has_biases)

    def check(self) -> None:
        parts = [(name, lengths_of(x), dtype_of(x)) for name, x in fields_of(self).items()]
        _check(type(self).__name__, self.coding, tuple(parts))

    def own_axes(self) -> Mapping[str, int]:
        return dict.fromkeys(fields_of(self), 2)

    def matrix_specs(self, rows: Any, columns: Any) -> Mapping[str, tuple[Any, ...]]:
        rows, columns = (columns, rows) if self.transposed else (rows, columns)
        # Shards of what is padded would be padded otherwise.
        own = (rows, None if self.padding else columns)
        return dict.fromkeys(fields_of(self), own)

    @property
    def matrix(self) -> tuple[int | None, int | None]:
        rows, words = lengths_of(self.packed)[-2:]
        columns = None if words is None else self.coding.columns_of(words) - self.padding
        return (columns, rows) if self.transposed else (rows, columns)

    @property
    def dtype(self) -> Any:
        """NumPy's dtype."""
        return dtype_of(self.scales)

    def materialize(self) -> Any:
        xp = self.xp
        y = self._cut(xp, self.coding.dense(xp, self.packed, *self.numbers))
        return xp.swapaxes(y, -1, -2) if self.transposed else y

    def grouped(self) -> dict[str, Any]:
        """The fields along whose last axis groups lie, by name."""
        return fields_of(self)

    def along(self, name: str, groups: int) -> int:
        """The length, along the last axis of a field, of what so many groups have."""
        return groups * (self.coding.words_per_group if name == "packed" else 1)

    @property
    def block(self) -> int:
        """So many neighbours stay together where it is cut."""
        return self.coding.group_size

    @property
    def numbers(self) -> tuple[Any, ...]:
        """The scales, and biases where there are any, of the array's dtype."""
        return (self.scales,) if self.offsets is None else (self.scales, self.offsets)

    def _cut(self, xp: Any, x: Any) -> Any:
        """Return an array, whose last axis is packed, without the padding of the last group."""
        return xp.getitem(x, (..., slice(0, -self.padding))) if self.padding else x

    def _with_padding(self, xp: Any, x: Any) -> Any:
        """Return an array, whose last axis is packed, with zeros that fill the last group."""
        if not self.padding:
            return x
        zeros = xp.zeros((*xp.shape_of(x)[:-1], self.padding), dtype_of(x))
        return xp.concatenate([x, zeros], -1)

    # Products.

    def times(self, x: Any) -> Any:
        if isinstance(x, Quantized):
            return self._times_packed(x)
        if is_implicit(x):
            return NotImplemented
        xp = numpy_like(self, x)
        dtype = joint_dtype(xp, x, self)
        if dtype.kind == "c":
            return NotImplemented
        wide = self.cast(dtype)
        return wide.product_of(x if dtype_of(x) == dtype else xp.cast(x, dtype_name(dtype)))

    def _times_packed(self, x: Quantized) -> Any:
        """The product of another packed matrix, of which some rows are decoded at a time."""
        *batch, n, k = x.shape
        count = product(*batch, k)
        if n is None or k is None or count is None:
            return NotImplemented
        unit = x.coding.group_size if x.transposed else 1
        step = max(BLOCK // max(count, 1), -(-n // MOST_BLOCKS), 1)
        step = -(-step // unit) * unit
        parts = []
        for start in range(0, n, step):
            some = x.window(range(start, min(start + step, n)), range(k))
            if some is NotImplemented:
                return some
            parts.append(self.times(some.materialize()))
        if not parts:
            return NotImplemented
        return numpy_like(self, x).concatenate(parts, -2) if len(parts) > 1 else parts[0]

    def product_of(self, x: Any, numbers: tuple[Any, ...] | None = None) -> Any:
        """The product of an array of this one's dtype, by scales that are given."""
        if self.transposed:
            x = self._with_padding(numpy_like(self, x), x)
        numbers = self.numbers if numbers is None else numbers
        y = packed_product(self.coding, self.transposed, x, self.packed, *numbers)
        return y if self.transposed else self._cut(numpy_like(y), y)

    def reduce_matrix(self, name: str, axes: tuple[int, ...]) -> Any:
        if name != "sum":
            return NotImplemented
        # A product with ones, block by block; over both axes, of what is left of one.
        over_rows = -2 in axes
        matrices = self if over_rows else self.swapped()
        xp = self.xp
        *batch, n, _ = xp.shape_of(matrices)
        y = matrices.times(xp.ones((*batch, 1, n), dtype=dtype_name(self.dtype)))[..., 0, :]
        return xp.sum(y, -1) if len(axes) == 2 else y

    # The same elements in other places.

    def swapped(self) -> Any:
        own: Any = self
        return replace(own, transposed=not self.transposed)

    def reshaped(self, shape: tuple[int, ...]) -> Any:
        found = super().reshaped(shape)
        if found is not NotImplemented or self.transposed or self.padding or len(shape) < 2:
            return found
        last = shape[-1]
        if last % self.block or (not last and self.matrix[1]):
            return NotImplemented
        # Whole groups stand one behind the other, whatever the rows.
        xp, groups = self.xp, last // self.coding.group_size
        parts = {
            name: xp.reshape(part, (*shape[:-1], self.along(name, groups)))
            for name, part in self.grouped().items()
        }
        return with_fields(self, parts)

    def window(self, rows: range, columns: range) -> Any:
        if self.transposed:
            found = self.swapped().window(columns, rows)
            return found if found is NotImplemented else found.swapped()
        size, n, block = self.coding.group_size, self.matrix[1], self.block
        start, stop = columns.start, max(columns.start, columns.stop)
        padding = self.padding if stop == n else 0
        stop += padding
        if columns != range(n or 0) and (columns.step != 1 or start % block or stop % block):
            return NotImplemented
        xp = self.xp
        some = slice(rows.start, rows.stop, rows.step)

        def cut(name: str, part: Any) -> Any:
            first, last = (self.along(name, place // size) for place in (start, stop))
            return xp.getitem(part, (..., some, slice(first, last)))

        parts = {name: cut(name, part) for name, part in self.grouped().items()}
        own: Any = with_fields(self, parts)
        return own if padding == self.padding else replace(own, padding=padding)

    def matrix_rows(self, index: Any) -> Any:
        xp, coding = numpy_like(self, index), self.coding
        if not self.transposed:
            parts = {name: xp.take(part, index, 0) for name, part in self.grouped().items()}
            return with_fields(self, parts).materialize()
        # One code of each row of words.
        place = xp.cast(index, "int32")
        code = coding.codes_at(xp, self.packed, place)
        group = place // coding.group_size
        scales, *biases = [xp.take(part, group, 1) for part in self.numbers]
        y = coding.values(xp, code, dtype_name(self.dtype)) * scales
        for bias in biases:
            y = y + bias
        return xp.moveaxis(y, 0, -1)

    def join_matrices(self, others: Sequence[ImplicitArray], axis: int) -> Any:
        treedef = Treedef.of(self)[0]
        if any(Treedef.of(x)[0] != treedef or x.dtype != self.dtype for x in others):
            return NotImplemented
        along = -3 - axis if self.transposed else axis
        if along == -1 and self.padding:
            return NotImplemented
        xp = self.xp
        return self.each(lambda *parts: xp.concatenate(parts, along), *others)

    def window_at(self, whole: Sequence[bool], read: Callable[[Any], Any]) -> Any:
        if self.transposed or not whole[-1]:
            return NotImplemented
        return with_fields(self, {name: read(part) for name, part in self.grouped().items()})

    def updated(self, value: Any, whole: Sequence[bool], write: Callable[..., Any]) -> Any:
        if self.transposed or not whole[-1]:
            return NotImplemented
        if not is_implicit(value):
            value = self.encode(value)
        elif Treedef.of(value)[0] != Treedef.of(self)[0]:
            return NotImplemented
        new = value.grouped()
        parts = {name: write(part, new[name]) for name, part in self.grouped().items()}
        return with_fields(self, parts)

    def encode(self, x: Any) -> Any:
        """Return an array, whose last axis is packed, as codes of the same kind and dtype."""
        xp, dtype, n = numpy_like(self, x), self.dtype, self.matrix[1]
        x = x if dtype_of(x) == dtype else xp.cast(x, dtype_name(dtype))
        lengths = xp.shape_of(x)
        if not lengths or lengths[-1] != n:
            x = xp.broadcast_to(x, (*lengths[:-1], n))
        words_and_scales = encode(xp, self.coding, self._with_padding(xp, x), padding=self.padding)
        return with_fields(self, dict(zip(fields_of(self), words_and_scales, strict=True)))

    # Element by element.

    def cast(self, dtype: Any) -> Any:
        kind = dtype_name(dtype)
        if not is_inexact(kind) or is_complex(kind):
            return NotImplemented
        xp = self.xp
        return self._changed(lambda part: xp.cast(part, kind)) if dtype != self.dtype else self

    def scaled(self, c: Any) -> Any:
        xp = numpy_like(self, c)
        return self._changed(lambda part: xp.multiply(part, c))

    def divided(self, c: Any) -> Any:
        xp = numpy_like(self, c)
        return self._changed(lambda part: xp.divide(part, c))

    def weighted(self, vector: Any, axis: int) -> Any:
        packed_axis = self.ndim - 1 - self.transposed
        if axis == packed_axis:
            return NotImplemented
        xp = numpy_like(self, vector)
        behind = 1 if axis >= self.ndim - 2 else self.ndim - 1 - axis
        spread = xp.reshape(vector, (*xp.shape_of(vector), *[1] * behind))
        return self._changed(lambda part: xp.multiply(part, spread))

    def _changed(self, function: Any) -> Any:
        """Return the same codes with other scales and biases."""
        parts = {name: part for name, part in fields_of(self).items() if name != "packed"}
        return with_fields(self, {name: function(part) for name, part in parts.items()})


@dataclass(frozen=True, repr=False)
class PackedVector(Structured):
    """A vector that is packed as the only row of a quantized matrix, or a stack of such rows.

    Attributes:
        matrix: ``(*batch, 1, n)``.
    """

    matrix: Any

    materialize_through: ClassVar[bool] = False

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The lengths of the matrix without the row's axis."""
        *batch, _, n = lengths_of(self.matrix)
        return (*batch, n)

    @property
    def dtype(self) -> Any:
        """The matrix's."""
        return dtype_of(self.matrix)

    def materialize(self) -> Any:
        return self.xp.getitem(materialize_unchecked(self.matrix), (..., 0, slice(None)))

    def cast(self, dtype: Any) -> Any:
        return PackedVector(self.xp.cast(self.matrix, dtype))

    def scaled(self, c: Any) -> Any:
        return PackedVector(numpy_like(self, c).multiply(self.matrix, c))


def fit(coding: Coding, packed: Sequence[int | None], groups: Sequence[int | None]) -> bool:
    """Whether words of a shape and what their groups have go together, as far as is known."""
    if len(packed) < 2 or len(packed) != len(groups):
        return False
    rows = zip(packed[:-1], groups[:-1], strict=True)
    words, count = packed[-1], groups[-1]
    return all(None in pair or pair[0] == pair[1] for pair in rows) and (
        words is None or count is None or words == count * coding.words_per_group
    )


@lru_cache(1024)
def _check(name: str, coding: Coding, parts: tuple[tuple[str, Any, Any], ...]) -> None:
    """Raise where fields of such names, shapes and dtypes do not go together."""
    (_, packed, words), (_, _, dtype), *_ = parts
    if str(words) != "uint32":
        raise refuse(
            f"{name}: packed codes of dtype {words}.",
            "Packed codes are uint32 words; graphc.implicit.quantize makes them.",
        )
    for field, shape, kind in parts[1:]:
        if not fit(coding, packed, shape):
            raise refuse(
                f"{name}: packed codes of shape {packed} with {field} of shape {shape}.",
                f"{coding.words_per_group} words of {coding.bits}-bit codes share one of the "
                f"{field}, along the last of two axes or more.",
            )
        if not is_inexact(dtype_name(kind)) or is_complex(dtype_name(kind)) or kind != dtype:
            raise refuse(
                f"{name}: {field} of dtype {kind}, scales of {dtype}.",
                "Scales and biases have the array's floating dtype.",
            )
