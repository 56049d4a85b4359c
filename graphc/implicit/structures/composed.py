"""Sums and products of matrices that are stored as their terms or factors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Any, Self

from graphc.errors import ImplicitArrayError
from graphc.implicit.array import ImplicitArray
from graphc.implicit.namespace import numpy_like
from graphc.implicit.structured import ElementwiseFunction
from graphc.implicit.structures.stacked import (
    Stacked,
    as_slice,
    materialize_unchecked,
    reduce_in_dtype,
)
from graphc.implicit.treedef import dtype_of, lengths_of


@dataclass(frozen=True, repr=False)
class _Composed(Stacked):
    """A matrix that is computed from a tuple of matrices, which may be implicit."""

    parts: tuple[Any, ...]

    @classmethod
    def of(cls, *parts: Any) -> Self:
        """Return the composition of matrices."""
        return cls(tuple(parts))

    def check(self) -> None:
        name = type(self).__name__
        if not isinstance(self.parts, tuple) or not self.parts:
            raise ImplicitArrayError(f"{name} of {self.parts!r}.", "Give a tuple of matrices.")
        shapes = [lengths_of(part) for part in self.parts]
        pairs = pairwise(shapes)
        if any(len(shape) < 2 for shape in shapes) or not all(self._fits(a, b) for a, b in pairs):
            raise ImplicitArrayError(
                f"{name} of matrices of shapes {', '.join(map(str, map(list, shapes)))}.",
                "Give matrices that fit each other, with equal leading axes.",
            )
        dtypes = {str(dtype_of(part)) for part in self.parts}
        if len(dtypes) > 1:
            raise ImplicitArrayError(
                f"{name} of {', '.join(sorted(dtypes))}.", "Cast them to one dtype."
            )

    @staticmethod
    def _fits(a: Any, b: Any) -> bool:
        raise NotImplementedError

    def matrix_specs(self, rows: Any, columns: Any) -> Mapping[str, tuple[Any, ...]]:
        return {"parts": (None, None)}

    def cast(self, dtype: Any) -> Any:
        return self.cast_fields(dtype)


@dataclass(frozen=True, repr=False)
class Sum(_Composed):
    """A sum of matrices that is never formed: a product is the sum of their products.

    Attributes:
        parts: Matrices ``(*batch, m, n)`` of one dtype, which may be implicit.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit import Identity, Sum, Toeplitz
        >>> s = Sum.of(Toeplitz(np.array([2.0, 1.0, 0.0])), Identity(np.array(3.0), 3))
        >>> s @ np.ones(3)
        array([6., 7., 6.])
    """

    @staticmethod
    def _fits(a: Any, b: Any) -> bool:
        return bool(a == b)

    @property
    def matrix(self) -> tuple[int | None, int | None]:
        m, n = lengths_of(self.parts[0])[-2:]
        return m, n

    def _add_results(self, results: Sequence[Any]) -> Any:
        if any(y is NotImplemented for y in results):
            return NotImplemented
        xp = numpy_like(*results)
        return reduce(xp.add, results)

    def materialize(self) -> Any:
        return self._add_results([materialize_unchecked(part) for part in self.parts])

    def rmatmul(self, x: Any) -> Any:
        xp = numpy_like(self, x)
        return self._add_results([xp.matmul(x, part) for part in self.parts])

    def matrix_transpose(self) -> Any:
        xp = self.xp
        return Sum(tuple([xp.swapaxes(part, -1, -2) for part in self.parts]))

    def matrix_window(self, rows: range, columns: range) -> Any:
        xp = self.xp
        index = (..., as_slice(rows), as_slice(columns))
        return Sum(tuple([xp.getitem(part, index) for part in self.parts]))

    def reshape_to(self, shape: tuple[int, ...]) -> Any:
        if shape == self.shape or sum(n != 1 for n in self.shape) > 1:
            return super().reshape_to(shape)
        xp = self.xp
        return self._add_results([xp.reshape(part, shape) for part in self.parts])

    def matrix_rows(self, index: Any) -> Any:
        xp = numpy_like(self, index)
        return self._add_results([xp.getitem(part, index) for part in self.parts])

    def diagonal(self, offset: int) -> Any:
        xp = self.xp
        return self._add_results([xp.diagonal(part, offset, -2, -1) for part in self.parts])

    def elementwise(self, f: ElementwiseFunction, *others: Any) -> Any:
        if f.linear:
            return Sum(tuple([f(part) for part in self.parts]))
        if f.name == "add" and isinstance(others[0], ImplicitArray):
            terms = others[0].parts if isinstance(others[0], Sum) else others
            return Sum((*self.parts, *terms))
        return NotImplemented

    def reduce_matrix(self, name: str, axes: tuple[int, ...]) -> Any:
        if name != "sum":
            return NotImplemented
        xp = self.xp
        return self._add_results([reduce_in_dtype(xp, "sum", part, axes) for part in self.parts])


@dataclass(frozen=True, repr=False)
class Product(_Composed):
    """A product of matrices that is never formed: each factor multiplies in turn.

    Attributes:
        parts: Matrices ``(*batch, m, k)``, ``(*batch, k, l)``, ... of one dtype, which may be
            implicit.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit import Diagonal, Product, Toeplitz
        >>> d = Diagonal(np.array([1.0, 2.0, 3.0]))
        >>> p = Product.of(d, Toeplitz(np.array([2.0, 1.0, 0.0])), d)
        >>> p @ np.ones(3)
        array([ 4., 16., 24.])
    """

    @staticmethod
    def _fits(a: Any, b: Any) -> bool:
        return bool(a[:-2] == b[:-2] and a[-1] == b[-2])

    @property
    def matrix(self) -> tuple[int | None, int | None]:
        return lengths_of(self.parts[0])[-2], lengths_of(self.parts[-1])[-1]

    def materialize(self) -> Any:
        factors = [materialize_unchecked(part) for part in self.parts]
        return reduce(numpy_like(*factors).matmul, factors)

    def rmatmul(self, x: Any) -> Any:
        return reduce(numpy_like(self, x).matmul, self.parts, x)

    def matrix_transpose(self) -> Any:
        xp = self.xp
        return Product(tuple([xp.swapaxes(part, -1, -2) for part in reversed(self.parts)]))

    def matrix_window(self, rows: range, columns: range) -> Any:
        if len(self.parts) == 1:
            return NotImplemented
        xp = self.xp
        head, *middle, last = self.parts
        head = xp.getitem(head, (..., as_slice(rows), slice(None)))
        return Product((head, *middle, xp.getitem(last, (..., slice(None), as_slice(columns)))))

    def reshape_to(self, shape: tuple[int, ...]) -> Any:
        m, n = self.matrix
        if len(self.shape) != 2 or m != 1 or shape != (n,):
            return super().reshape_to(shape)
        # A single row multiplies the others.
        xp = self.xp
        head, *rest = self.parts
        return reduce(xp.matmul, rest, xp.reshape(head, (lengths_of(head)[-1],)))

    def matrix_rows(self, index: Any) -> Any:
        xp = numpy_like(self, index)
        head, *rest = self.parts
        return reduce(xp.matmul, rest, xp.getitem(head, index))

    def elementwise(self, f: ElementwiseFunction, *others: Any) -> Any:
        head, *rest = self.parts
        return Product((f(head), *rest)) if f.linear else NotImplemented

    # Linear systems, if all factors are square.

    @property
    def is_solvable(self) -> bool:
        return len({n for part in self.parts for n in lengths_of(part)[-2:]} | {None}) <= 2

    def solve(self, b: Any) -> Any:
        xp = numpy_like(self, b)
        return reduce(lambda x, part: xp.solve(part, x), self.parts, b)

    def inverse(self) -> Any:
        xp = self.xp
        return Product(tuple([xp.inv(part) for part in reversed(self.parts)]))

    def slogdet(self) -> Any:
        xp = self.xp
        signs, logs = zip(*[xp.slogdet(part) for part in self.parts], strict=True)
        return reduce(xp.multiply, signs), reduce(xp.add, logs)
