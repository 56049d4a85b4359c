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
from graphc.implicit.quantized.matmul import product
from graphc.implicit.structures.stacked import Stacked, joint_dtype, refuse
from graphc.implicit.treedef import Treedef, dtype_of, field_names_of, lengths_of
from graphc.ir import TensorType, dtype_name, is_complex, is_inexact


@dataclass(frozen=True, repr=False)
class Quantized(Stacked):
    """A matrix, or a stack of them, of codes that lie packed along one of the last two axes.

    Products decode a block at a time, which stays in the cache: the whole matrix is never made. So
    do gradients of products, but for those by scales and biases. Rows, parts and joins are of the
    packed words themselves; a cut along the packed axis is so at whole groups.

    What changes each element alike changes the scales: they are rounded then, not the elements.
    """

    keeps_shardings: ClassVar[bool] = True

    if TYPE_CHECKING:
        # Fields of each kind, which has its own between them.
        @property
        def packed(self) -> Any: ...
        @property
        def scales(self) -> Any: ...
        @property
        def transposed(self) -> bool: ...

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
            ImplicitArrayError: The packed axis is not of whole groups.
        """
        coding = cls.coding_of(**options)
        *batch, n, m = shape
        rows, columns = (m, n) if transposed else (n, m)
        if columns is not None and columns % coding.group_size:
            raise refuse(
                f"{cls.__name__} of shape {tuple(shape)}: the packed axis has length {columns}.",
                f"Let it be a multiple of the group size, {coding.group_size}.",
            )
        words, groups = (
            None if columns is None else columns // size
            for size in (coding.per_word, coding.group_size)
        )
        scales = TensorType(dtype_name(dtype), (*batch, rows, groups))
        parts = [scales] * (1 + coding.has_biases)
        packed = TensorType("uint32", (*batch, rows, words))
        made: Callable[..., Self] = cls
        return made(packed, *parts, transposed=transposed, **options)

    def check(self) -> None:
        parts = [(name, lengths_of(x), dtype_of(x)) for name, x in fields_of(self).items()]
        _check(type(self).__name__, self.coding, tuple(parts))

    def own_axes(self) -> Mapping[str, int]:
        return dict.fromkeys(fields_of(self), 2)

    def matrix_specs(self, rows: Any, columns: Any) -> Mapping[str, tuple[Any, ...]]:
        own = (columns, rows) if self.transposed else (rows, columns)
        return dict.fromkeys(fields_of(self), own)

    @property
    def matrix(self) -> tuple[int | None, int | None]:
        rows, words = lengths_of(self.packed)[-2:]
        columns = None if words is None else words * self.coding.per_word
        return (columns, rows) if self.transposed else (rows, columns)

    @property
    def dtype(self) -> Any:
        """NumPy's dtype."""
        return dtype_of(self.scales)

    def materialize(self) -> Any:
        xp = self.xp
        y = self.coding.dense(xp, self.packed, self.scales, self.offsets)
        return xp.swapaxes(y, -1, -2) if self.transposed else y

    # Products.

    def times(self, x: Any) -> Any:
        if is_implicit(x):
            return NotImplemented
        xp = numpy_like(self, x)
        dtype = joint_dtype(xp, x, self.scales)
        if dtype.kind == "c":
            return NotImplemented
        wide = self.cast(dtype)
        x = x if dtype_of(x) == dtype else xp.cast(x, dtype_name(dtype))
        return product(self.coding, self.transposed, x, wide.packed, wide.scales, wide.offsets)

    def matrix_reduced(self, name: str, axes: tuple[int, ...]) -> Any:
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
        if found is not NotImplemented or self.transposed or len(shape) < 2:
            return found
        last, coding = shape[-1], self.coding
        if last % coding.group_size or (not last and self.matrix[1]):
            return NotImplemented
        # Whole groups stand one behind the other, whatever the rows.
        xp = self.xp
        parts = {
            name: xp.reshape(
                part,
                (
                    *shape[:-1],
                    last // (coding.per_word if name == "packed" else coding.group_size),
                ),
            )
            for name, part in fields_of(self).items()
        }
        return with_fields(self, parts)

    def window(self, rows: range, columns: range) -> Any:
        if self.transposed:
            found = self.swapped().window(columns, rows)
            return found if found is NotImplemented else found.swapped()
        coding, n = self.coding, self.matrix[1]
        size = coding.group_size
        start, stop = columns.start, max(columns.start, columns.stop)
        if columns != range(n or 0) and (columns.step != 1 or start % size or stop % size):
            return NotImplemented
        xp = self.xp
        some = slice(rows.start, rows.stop, rows.step)

        def cut(part: Any, per: int) -> Any:
            return xp.getitem(part, (..., some, slice(start // per, stop // per)))

        parts = {
            name: cut(part, coding.per_word if name == "packed" else size)
            for name, part in fields_of(self).items()
        }
        return with_fields(self, parts)

    def matrix_rows(self, index: Any) -> Any:
        xp, coding = numpy_like(self, index), self.coding
        if not self.transposed:
            parts = {name: xp.take(part, index, 0) for name, part in fields_of(self).items()}
            return with_fields(self, parts).materialize()
        # One code of each row of words.
        place = xp.cast(index, "int32")
        words = xp.take(self.packed, place // coding.per_word, 1)
        shift = xp.cast((place % coding.per_word) * coding.bits, "uint32")
        codes = coding.lowest(xp, xp.right_shift(words, shift))
        group = place // coding.group_size
        y = coding.values(xp, codes, dtype_name(self.dtype)) * xp.take(self.scales, group, 1)
        if self.offsets is not None:
            y = y + xp.take(self.offsets, group, 1)
        return xp.moveaxis(y, 0, -1)

    def matrix_joined(self, others: Sequence[ImplicitArray], axis: int) -> Any:
        treedef = Treedef.of(self)[0]
        if any(Treedef.of(x)[0] != treedef or x.dtype != self.dtype for x in others):
            return NotImplemented
        along = -3 - axis if self.transposed else axis
        xp = self.xp
        return self.each(lambda *parts: xp.concatenate(parts, along), *others)

    def window_at(self, whole: Sequence[bool], read: Callable[[Any], Any]) -> Any:
        if self.transposed or not whole[-1]:
            return NotImplemented
        return with_fields(self, {name: read(part) for name, part in fields_of(self).items()})

    def updated(self, value: Any, whole: Sequence[bool], write: Callable[..., Any]) -> Any:
        if self.transposed or not whole[-1]:
            return NotImplemented
        if not is_implicit(value):
            value = self.encoded(value)
        elif Treedef.of(value)[0] != Treedef.of(self)[0]:
            return NotImplemented
        new = fields_of(value)
        parts = {name: write(part, new[name]) for name, part in fields_of(self).items()}
        return with_fields(self, parts)

    def encoded(self, x: Any) -> Any:
        """An array, whose last axis is packed, as codes of the same kind and dtype."""
        xp, dtype, n = numpy_like(self, x), self.dtype, self.matrix[1]
        x = x if dtype_of(x) == dtype else xp.cast(x, dtype_name(dtype))
        lengths = xp.shape_of(x)
        if not lengths or lengths[-1] != n:
            x = xp.broadcast_to(x, (*lengths[:-1], n))
        return with_fields(
            self, dict(zip(fields_of(self), encode(xp, self.coding, x), strict=True))
        )

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


def _fit(coding: Coding, packed: Sequence[int | None], groups: Sequence[int | None]) -> bool:
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
        if not _fit(coding, packed, shape):
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
