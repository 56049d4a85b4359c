"""Matrices of codes of a few bits: the common base of all kinds."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

from graphc.errors import ImplicitArrayError
from graphc.implicit.array import ImplicitArray, fields_of, is_implicit, with_fields
from graphc.implicit.namespace import numpy_like
from graphc.implicit.quantized.coding import Coding
from graphc.implicit.quantized.encode import encode
from graphc.implicit.quantized.matmul import product as packed_product
from graphc.implicit.structured import ElementwiseFunction, Structured
from graphc.implicit.structures.stacked import (
    Stacked,
    joint_dtype,
    materialize_unchecked,
    product,
)
from graphc.implicit.treedef import Treedef, dtype_of, field_names_of, lengths_of, shapes_fit
from graphc.ir import TensorType, dtype_name, is_complex, is_inexact

BLOCK = 2**20
"""The elements of a packed matrix that a product with another packed matrix decodes at a time."""
MAX_BLOCKS = 16
"""The most blocks of such a product; the program grows with each."""


@dataclass(frozen=True, repr=False)
class Quantized(Stacked):
    """A matrix, or a stack of matrices, of codes that are packed along one of the last two axes.

    Products, and gradients except those with respect to scales and biases, decode one block at a
    time, which fits into the cache: the dense matrix is never built. Indexing, slicing and joining
    operate on the packed words; a slice along the packed axis must consist of complete groups.

    An operation that changes all elements alike changes the scales: the scales are rounded, not the
    elements.
    """

    keeps_shardings: ClassVar[bool] = True
    frozen_fields: ClassVar[tuple[str, ...] | None] = None  # all of them

    if TYPE_CHECKING:
        # Fields of each subclass, which has its own fields between them.
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
        """The encoding."""
        return self.coding_of(
            **{name: getattr(self, name) for name in field_names_of(type(self)).static}
        )

    @classmethod
    @abstractmethod
    def coding_of(cls, group_size: int = 64, **options: Any) -> Coding:
        """Return the encoding that the static fields define."""

    @property
    def offsets(self) -> Any:
        """The bias of each group, an array like the scales; or None."""
        return None

    @classmethod
    def spec(cls, shape: Any, dtype: Any, *, transposed: bool = False, **options: Any) -> Self:
        """Return an instance whose arrays are types.

        Args:
            shape: The lengths of the array, at least two.
            dtype: The dtype of the array; floating.
            transposed: Whether the codes are packed along the last axis but one.
            options: Further static fields, such as ``group_size`` and ``bits``.

        Raises:
            ImplicitArrayError: If no encoding has these options.
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
        numbers = cls.parts_spec(coding, dtype_name(dtype), (*batch, rows, groups), **options)
        build: Callable[..., Self] = cls
        return build(packed, *numbers, transposed=transposed, padding=padding, **options)

    @classmethod
    def parts_spec(
        cls, coding: Coding, dtype: str, groups: tuple[int | None, ...], **options: Any
    ) -> list[TensorType | None]:
        """Return the types of the fields after ``packed``, for scales of the shape ``groups``."""
        return [TensorType(dtype, groups)] * (1 + coding.has_biases)

    def check(self) -> None:
        fields = [(name, x) for name, x in fields_of(self).items() if x is not None]
        types = tuple([(name, lengths_of(x), str(dtype_of(x))) for name, x in fields])
        static = [(name, getattr(self, name)) for name in field_names_of(type(self)).static]
        _check(type(self), tuple(static), str(self.dtype), types)

    def matrix_specs(self, rows: Any, columns: Any) -> Mapping[str, tuple[Any, ...]]:
        rows, columns = (columns, rows) if self.transposed else (rows, columns)
        # Padding is at the end of the array, not of each shard.
        own = (rows, None if self.padding else columns)
        return dict.fromkeys(fields_of(self), own)

    @property
    def matrix(self) -> tuple[int | None, int | None]:
        rows, words = lengths_of(self.packed)[-2:]
        columns = None if words is None else self.coding.columns_of(words) - self.padding
        return (columns, rows) if self.transposed else (rows, columns)

    @property
    def dtype(self) -> Any:
        """The NumPy dtype."""
        return dtype_of(self.scales)

    def materialize(self) -> Any:
        xp = self.xp
        y = self._remove_padding(xp, self.coding.dense(xp, self.packed, *self.numbers))
        return xp.swapaxes(y, -1, -2) if self.transposed else y

    @property
    def once_quantized(self) -> Quantized:
        """The same elements, with scales and biases of the array's dtype."""
        return self

    def group_fields(self) -> dict[str, Any]:
        """Return the fields whose last axis runs over groups, by name."""
        return {name: x for name, x in fields_of(self).items() if x is not None}

    def length_of_groups(self, name: str, groups: int) -> int:
        """Return the length of a number of groups along the last axis of a field."""
        return groups * (self.coding.words_per_group if name == "packed" else 1)

    @property
    def block(self) -> int:
        """The number of neighbours that slices and reshapes do not separate."""
        return self.coding.group_size

    @property
    def numbers(self) -> tuple[Any, ...]:
        """The scales, and the biases if there are any, of the array's dtype."""
        return (self.scales,) if self.offsets is None else (self.scales, self.offsets)

    def _remove_padding(self, xp: Any, x: Any) -> Any:
        """Remove the padding of the last group from an array whose last axis is packed."""
        return xp.getitem(x, (..., slice(0, -self.padding))) if self.padding else x

    def _pad(self, xp: Any, x: Any) -> Any:
        """Fill the last group of an array, whose last axis is packed, with zeros."""
        if not self.padding:
            return x
        zeros = xp.zeros((*xp.shape_of(x)[:-1], self.padding), dtype_of(x))
        return xp.concatenate([x, zeros], -1)

    # Products.

    def rmatmul(self, x: Any) -> Any:
        if isinstance(x, Quantized):
            return self._multiply_packed(x)
        if is_implicit(x):
            return NotImplemented
        xp = numpy_like(self, x)
        dtype = joint_dtype(xp, x, self)
        if dtype.kind == "c":
            return NotImplemented
        wide = self.cast(dtype)
        return wide.product_of(x if dtype_of(x) == dtype else xp.cast(x, dtype_name(dtype)))

    def _multiply_packed(self, x: Quantized) -> Any:
        """Multiply by another packed matrix, of which some rows are decoded at a time."""
        *batch, n, k = x.shape
        count = product(*batch, k)
        if n is None or k is None or count is None:
            return NotImplemented
        unit = x.coding.group_size if x.transposed else 1
        step = max(BLOCK // max(count, 1), -(-n // MAX_BLOCKS), 1)
        step = -(-step // unit) * unit
        products = []
        for start in range(0, n, step):
            rows = x.matrix_window(range(start, min(start + step, n)), range(k))
            if rows is NotImplemented:
                return rows
            products.append(self.rmatmul(rows.materialize()))
        if not products:
            return NotImplemented
        return numpy_like(self, x).concatenate(products, -2) if len(products) > 1 else products[0]

    def product_of(self, x: Any, numbers: tuple[Any, ...] | None = None) -> Any:
        """Return the product of a dense array of this one's dtype, optionally with other scales."""
        if self.transposed:
            x = self._pad(numpy_like(self, x), x)
        numbers = self.numbers if numbers is None else numbers
        y = packed_product(self.coding, self.transposed, x, self.packed, *numbers)
        return y if self.transposed else self._remove_padding(numpy_like(y), y)

    def reduce_matrix(self, name: str, axes: tuple[int, ...]) -> Any:
        if name != "sum":
            return NotImplemented
        # The sum over rows is a product with ones, block by block.
        over_rows = -2 in axes
        matrices = self if over_rows else self.matrix_transpose()
        xp = self.xp
        *batch, n, _ = xp.shape_of(matrices)
        y = matrices.rmatmul(xp.ones((*batch, 1, n), dtype=dtype_name(self.dtype)))[..., 0, :]
        return xp.sum(y, -1) if len(axes) == 2 else y

    # The same elements at other positions.

    def matrix_transpose(self) -> Any:
        own: Any = self
        return replace(own, transposed=not self.transposed)

    def reshape_to(self, shape: tuple[int, ...]) -> Any:
        y = super().reshape_to(shape)
        if y is not NotImplemented or self.transposed or self.padding or len(shape) < 2:
            return y
        last = shape[-1]
        if last % self.block or (not last and self.matrix[1]):
            return NotImplemented
        # In memory, complete groups follow each other across rows.
        xp, groups = self.xp, last // self.coding.group_size
        fields = {
            name: xp.reshape(field, (*shape[:-1], self.length_of_groups(name, groups)))
            for name, field in self.group_fields().items()
        }
        return with_fields(self, fields)

    def matrix_window(self, rows: range, columns: range) -> Any:
        if self.transposed:
            part = self.matrix_transpose().matrix_window(columns, rows)
            return part if part is NotImplemented else part.matrix_transpose()
        size, n, block = self.coding.group_size, self.matrix[1], self.block
        start, stop = columns.start, max(columns.start, columns.stop)
        padding = self.padding if stop == n else 0
        stop += padding
        if columns != range(n or 0) and (columns.step != 1 or start % block or stop % block):
            once = self.once_quantized
            return NotImplemented if once is self else once.matrix_window(rows, columns)
        xp = self.xp
        row_slice = slice(rows.start, rows.stop, rows.step)

        def slice_field(name: str, field: Any) -> Any:
            first, last = (self.length_of_groups(name, i // size) for i in (start, stop))
            return xp.getitem(field, (..., row_slice, slice(first, last)))

        fields = {name: slice_field(name, field) for name, field in self.group_fields().items()}
        y: Any = with_fields(self, fields)
        return y if padding == self.padding else replace(y, padding=padding)

    def matrix_rows(self, index: Any) -> Any:
        xp, coding = numpy_like(self, index), self.coding
        if not self.transposed:
            fields = {name: xp.take(x, index, 0) for name, x in self.group_fields().items()}
            return with_fields(self, fields).materialize()
        # One code of each row of words.
        column = xp.cast(index, "int32")
        code = coding.codes_at(xp, self.packed, column)
        group = column // coding.group_size
        scales, *biases = [xp.take(x, group, 1) for x in self.numbers]
        y = coding.values(xp, code, dtype_name(self.dtype)) * scales
        for bias in biases:
            y = y + bias
        return xp.moveaxis(y, 0, -1)

    def join_matrices(self, others: Sequence[ImplicitArray], axis: int) -> Any:
        (treedef, leaves), xp = Treedef.of(self), self.xp
        field_axis = -3 - axis if self.transposed else axis
        is_same = all(Treedef.of(x)[0] == treedef and x.dtype == self.dtype for x in others)
        is_complete = field_axis != -1 or not self.padding
        if is_same and is_complete and len(leaves) == len(self.group_fields()):
            return self.each(lambda *fields: xp.concatenate(fields, field_axis), *others)
        once, matrices = self.once_quantized, [x for x in others if isinstance(x, type(self))]
        if once is self or len(matrices) < len(others):
            return NotImplemented
        return once.join_matrices([x.once_quantized for x in matrices], axis)

    def map_window(self, function: Callable[..., Any], covers: Sequence[bool], *values: Any) -> Any:
        if self.transposed or not covers[-1] or (values and self.once_quantized is not self):
            return NotImplemented  # new values would need new factors, which other groups share
        codes = [x if is_implicit(x) else self.encode(x) for x in values]
        if any(Treedef.of(x)[0] != Treedef.of(self)[0] for x in codes):
            return NotImplemented
        new = [x.group_fields() for x in codes]
        fields = self.group_fields().items()
        return with_fields(self, {k: function(x, *[y[k] for y in new]) for k, x in fields})

    def encode(self, x: Any) -> Any:
        """Encode a dense array, whose last axis is packed, in the same kind and dtype."""
        xp, dtype, n = numpy_like(self, x), self.dtype, self.matrix[1]
        x = x if dtype_of(x) == dtype else xp.cast(x, dtype_name(dtype))
        lengths = xp.shape_of(x)
        if not lengths or lengths[-1] != n:
            x = xp.broadcast_to(x, (*lengths[:-1], n))
        words_and_scales = encode(xp, self.coding, self._pad(xp, x), padding=self.padding)
        return with_fields(self, dict(zip(fields_of(self), words_and_scales, strict=True)))

    # Element by element.

    def cast(self, dtype: Any) -> Any:
        kind = dtype_name(dtype)
        if not is_inexact(kind) or is_complex(kind):
            return NotImplemented
        xp = self.xp
        return self._map_numbers(lambda part: xp.cast(part, kind)) if dtype != self.dtype else self

    def elementwise(self, f: ElementwiseFunction, *others: Any) -> Any:
        if f.linear:
            return self._map_numbers(f)
        return NotImplemented if f.shift is None else self.add_number(f.shift)

    def add_number(self, c: Any) -> Any:
        """Return the sum with a 0-d array; NotImplemented if the codes have no place for it."""
        once = self.once_quantized
        return NotImplemented if once is self else once.add_number(c)

    def scale_along(self, vector: Any, axis: int) -> Any:
        packed_axis = self.ndim - 1 - self.transposed
        if axis == packed_axis:
            return NotImplemented
        xp = numpy_like(self, vector)
        behind = 1 if axis >= self.ndim - 2 else self.ndim - 1 - axis
        spread = xp.reshape(vector, (*xp.shape_of(vector), *[1] * behind))
        return self._map_numbers(lambda part: xp.multiply(part, spread))

    def _map_numbers(self, function: Any) -> Any:
        numbers = {name: x for name, x in fields_of(self).items() if name != "packed"}
        return with_fields(self, {name: function(x) for name, x in numbers.items()})


@dataclass(frozen=True, repr=False)
class PackedVector(Structured):
    """A vector stored as the only row of a quantized matrix, or a stack of such vectors.

    Attributes:
        matrix: The matrices, ``(*batch, 1, n)``.
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
        """The dtype of the matrix."""
        return dtype_of(self.matrix)

    def materialize(self) -> Any:
        return self.xp.getitem(materialize_unchecked(self.matrix), (..., 0, slice(None)))

    def cast(self, dtype: Any) -> Any:
        return PackedVector(self.xp.cast(self.matrix, dtype))

    def elementwise(self, f: ElementwiseFunction, *others: Any) -> Any:
        return PackedVector(f(self.matrix)) if f.linear else NotImplemented


@lru_cache(1024)
def _check(
    cls: type[Quantized],
    static: tuple[tuple[str, Any], ...],
    dtype: str,
    fields: tuple[tuple[str, tuple[int | None, ...], str], ...],
) -> None:
    """Raise an error if fields with these names, shapes and dtypes do not fit each other."""
    name, options = cls.__name__, dict(static)
    coding, shapes = cls.coding_of(**options), {field: shape for field, shape, _ in fields}
    groups = shapes.get("scales", (None, None))
    if len(groups) < 2:
        raise ImplicitArrayError(
            f"{name}: scales of shape {groups}.", "Words and scales have two axes or more."
        )
    if not is_inexact(dtype) or is_complex(dtype):
        raise ImplicitArrayError(f"{name} of dtype {dtype}.", "Give floating numbers.")
    *lead, count = groups
    words = TensorType("uint32", (*lead, None if count is None else count * coding.words_per_group))
    types = [words, *cls.parts_spec(coding, dtype, groups, **options)]
    names = field_names_of(cls).parts
    expected = {field: type for field, type in zip(names, types, strict=True) if type is not None}
    if expected.keys() != shapes.keys():
        raise ImplicitArrayError(
            f"{name} with the fields {', '.join(shapes)}.",
            f"Give arrays for {', '.join(expected)}, and for no other field.",
        )
    for field, shape, kind in fields:
        if kind != expected[field].dtype:
            raise ImplicitArrayError(
                f"{name}: {field} of dtype {kind} in an array of {dtype}.",
                f"Give {expected[field].dtype}; graphc.implicit.quantize makes the fields.",
            )
        if not shapes_fit(shape, expected[field].shape):
            raise ImplicitArrayError(
                f"{name}: {field} of shape {shape} with scales of shape {groups}.",
                f"Give {field} of shape {expected[field].shape}: "
                f"{coding.words_per_group} words of {coding.bits}-bit codes share a scale.",
            )
