"""Matrices whose rows or columns are scaled or permuted."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from graphc.errors import ImplicitArrayError
from graphc.implicit.array import aux_field, fields_of, with_fields
from graphc.implicit.namespace import numpy_like
from graphc.implicit.structured import ElementwiseFunction
from graphc.implicit.structures.stacked import (
    Stacked,
    check_same_dtype,
    materialize_unchecked,
)
from graphc.implicit.treedef import dtype_of, lengths_of
from graphc.ir import dtype_name, is_inexact, is_integer


class OfChannels(Stacked):
    """A matrix ``of`` with an operation on its rows, or, if ``columns`` holds, its columns."""

    if TYPE_CHECKING:
        # Fields of each subclass, which has its own fields between them.
        @property
        def of(self) -> Any: ...
        @property
        def columns(self) -> bool: ...

    @property
    def matrix(self) -> tuple[int | None, int | None]:
        rows, columns = lengths_of(self.of)[-2:]
        return rows, columns

    @abstractmethod
    def _map_channels(self, x: Any, axis: int, transposed: bool = False) -> Any:
        """Multiply an array by the matrix of the operation along axis -1 or -2."""

    def materialize(self) -> Any:
        return self._map_channels(materialize_unchecked(self.of), -1 if self.columns else -2)

    def rmatmul(self, x: Any) -> Any:
        xp = numpy_like(self, x)
        if self.columns:
            return self._map_channels(xp.matmul(x, self.of), -1)
        return xp.matmul(self._map_channels(x, -1, transposed=True), self.of)

    def _has_channels(self, numbers: Any) -> bool:
        """Return whether an array has a number for each row, or column."""
        of = lengths_of(self.of)
        channels = of[:-2] + (of[-1:] if self.columns else of[-2:-1])
        return len(of) >= 2 and channels == lengths_of(numbers)

    def cast(self, dtype: Any) -> Any:
        if not is_inexact(dtype_name(dtype)):
            return NotImplemented
        fields = {k: x for k, x in fields_of(self).items() if is_inexact(str(dtype_of(x)))}
        return with_fields(self, {k: self.xp.cast(x, dtype_name(dtype)) for k, x in fields.items()})

    def matrix_transpose(self) -> Any:
        own: Any = with_fields(self, {"of": self.xp.swapaxes(self.of, -1, -2)})
        return replace(own, columns=not self.columns)


@dataclass(frozen=True, repr=False)
class ChannelScaled(OfChannels):
    """A matrix whose rows, or columns, are multiplied by numbers: ``factors[:, None] * of``.

    ``x @ w`` equals ``(x * factors) @ of``. So rows can be scaled before they are quantized, as in
    activation-aware quantization.

    Attributes:
        of: The other matrix, ``(*batch, m, n)``, an array or an implicit one.
        factors: ``(*batch, m)``; for columns ``(*batch, n)``.
        columns: Whether columns are multiplied.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit.quantized import quantize
        >>> w = ChannelScaled(quantize(np.ones((2, 64)), "int8"), np.array([1.0, 3.0]))
        >>> w.shape, (np.ones(2) @ w)[:2]
        ((2, 64), array([4., 4.]))
    """

    of: Any
    factors: Any
    columns: bool = aux_field(default=False)

    def check(self) -> None:
        if not self._has_channels(self.factors):
            of, factors = list(lengths_of(self.of)), list(lengths_of(self.factors))
            raise ImplicitArrayError(
                f"ChannelScaled: a matrix of shape {of}, factors of {factors}.",
                f"Give a factor for each {'column' if self.columns else 'row'}.",
            )
        check_same_dtype(self, of=self.of, factors=self.factors)

    def matrix_specs(self, rows: Any, columns: Any) -> Mapping[str, tuple[Any, ...]]:
        return {"factors": (columns if self.columns else rows,), "of": (rows, columns)}

    def _map_channels(self, x: Any, axis: int, transposed: bool = False) -> Any:
        return x * numpy_like(self, x).expand_dims(self.factors, -3 - axis)

    def matrix_rows(self, index: Any) -> Any:
        xp = numpy_like(self, index)
        rows = materialize_unchecked(xp.take(self.of, index, 0))
        if self.columns:
            return rows * self.factors
        return rows * xp.expand_dims(xp.take(self.factors, index, 0), -1)

    def elementwise(self, f: ElementwiseFunction, *others: Any) -> Any:
        if not f.linear:
            return NotImplemented
        return with_fields(self, {"factors": f(self.factors)})


@dataclass(frozen=True, repr=False)
class ChannelPermuted(OfChannels):
    """A matrix whose row ``order[i]`` is row i of another matrix; or columns likewise.

    ``x @ w`` equals ``x[:, order] @ of``. So the rows of a group need not be neighbours: GPTQ
    quantizes the most important rows first.

    Attributes:
        of: The other matrix, ``(*batch, m, n)``, an array or an implicit one.
        order: The position of each of its rows, ``(*batch, m)``: a permutation of the integers from
            0 on; for columns ``(*batch, n)``.
        columns: Whether columns are permuted.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit.quantized import quantize
        >>> rows = np.arange(3.0)[:, None] * np.ones(32)
        >>> w = ChannelPermuted(quantize(rows, "int8", group_size=32), np.array([2, 0, 1]))
        >>> np.asarray(w)[:, 0], (np.array([10.0, 20.0, 30.0]) @ w)[0]
        (array([1., 2., 0.]), np.float64(50.0))
    """

    of: Any
    order: Any
    columns: bool = aux_field(default=False)

    def check(self) -> None:
        dtype = dtype_of(self.order)
        if not self._has_channels(self.order) or not is_integer(dtype_name(dtype)):
            of, order = list(lengths_of(self.of)), list(lengths_of(self.order))
            raise ImplicitArrayError(
                f"ChannelPermuted: a matrix of shape {of}, an order of {dtype}{order}.",
                f"Give an integer for each {'column' if self.columns else 'row'}.",
            )

    def matrix_specs(self, rows: Any, columns: Any) -> Mapping[str, tuple[Any, ...]]:
        # The permuted axis is replicated: a shard of it would need rows of other shards.
        return {"of": (rows, None) if self.columns else (None, columns), "order": (None,)}

    def _map_channels(self, x: Any, axis: int, transposed: bool = False) -> Any:
        xp, order = numpy_like(self, x), self.order if transposed else self.indices
        if len(lengths_of(self.order)) == 1:
            return xp.take(x, order, axis)
        shape = xp.shape_of(x)
        return xp.take_along_axis(x, xp.broadcast_to(xp.expand_dims(order, -3 - axis), shape), axis)

    @property
    def indices(self) -> Any:
        """The row, or column, of the other matrix for each row, or column, of this one."""
        return self.xp.argsort(self.order, -1)

    def matrix_rows(self, index: Any) -> Any:
        xp = numpy_like(self, index)
        if self.columns:
            return xp.take(materialize_unchecked(xp.take(self.of, index, 0)), self.indices, -1)
        return materialize_unchecked(xp.take(self.of, xp.take(self.indices, index, 0), 0))

    def elementwise(self, f: ElementwiseFunction, *others: Any) -> Any:
        if not f.linear:
            return NotImplemented
        return with_fields(self, {"of": f(self.of)})
