"""Covariances of points: a matrix of a kernel, held as the points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.implicit.array import aux_field
from graphc.implicit.namespace import numpy_like
from graphc.implicit.structures.fill import spread
from graphc.implicit.structures.stacked import Stacked, refuse, same_dtype
from graphc.implicit.treedef import dtype_of, lengths_of
from graphc.ir import TensorType, dtype_name, is_float, numpy_dtype

BLOCK = 2**22
"""How many elements of the matrix there are at a time: 32 MiB in float64, a few times over."""

FEW = 8
"""Up to so many features differences are squared one by one, which keeps the digits of small ones;
more are multiplied out."""

ROWS = 256
"""The rows of a block where the number of columns is not known."""


def _root(xp: Any, squares: Any) -> Any:
    """Distances; the slope at 0, where there is none, is 0."""
    apart = xp.greater(squares, 0)
    return xp.where(apart, xp.sqrt(xp.where(apart, squares, 1)), 0)


def _rbf(xp: Any, squares: Any) -> Any:
    return xp.exp(-0.5 * squares)


def _matern12(xp: Any, squares: Any) -> Any:
    return xp.exp(-_root(xp, squares))


def _matern32(xp: Any, squares: Any) -> Any:
    r = 3**0.5 * _root(xp, squares)
    return (1 + r) * xp.exp(-r)


def _matern52(xp: Any, squares: Any) -> Any:
    r = 5**0.5 * _root(xp, squares)
    return (1 + r + 5 / 3 * squares) * xp.exp(-r)


OF_SQUARES: dict[str, Callable[[Any, Any], Any]] = {
    "rbf": _rbf,
    "matern12": _matern12,
    "matern32": _matern32,
    "matern52": _matern52,
}
"""Kernels as functions of squared distances, which are 1 at 0."""


@dataclass(frozen=True, repr=False)
class KernelMatrix(Stacked):
    """The values of a kernel at all pairs of points, as the covariance of a Gaussian process.

    Products compute blocks of rows one after the other and forget them; so do gradients, which
    compute them again. So n points take room in proportion to n, and time in proportion to n².

    Attributes:
        x: Points ``(*batch, m, d)``, floating, one for each row; ``of`` divides them by lengths.
        scale: The variance, which values are multiplied by; ``(*batch,)``.
        y: Points ``(*batch, n, d)``, one for each column; None for x.
        function: ``"rbf"``, the squared exponential ``exp(-r**2 / 2)`` of distances r;
            ``"matern12"``, ``"matern32"`` or ``"matern52"``; or a function of points (..., m, d)
            and (..., n, d) to values (..., m, n), with ``f(a, b)`` the transpose of ``f(b, a)``.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit import KernelMatrix
        >>> x = np.linspace(0.0, 4.0, 5)[:, None]
        >>> k = KernelMatrix.of(x, lengthscale=2.0, variance=3.0)
        >>> k.nbytes, (k @ np.ones(5)).round(4).tolist()
        (48, [8.847, 11.0885, 11.9342, 11.0885, 8.847])

    Source: Rasmussen & Williams, Gaussian Processes for Machine Learning, 2006, chapter 4.
    """

    x: Any
    scale: Any
    y: Any = None
    function: Any = aux_field(default="rbf")  # noqa: RUF009 (a dataclass's field)

    @classmethod
    def of(
        cls,
        x: Any,
        y: Any = None,
        *,
        lengthscale: Any = 1.0,
        variance: Any = 1.0,
        function: Any = "rbf",
    ) -> KernelMatrix:
        """The matrix of points, and of a length for all features or for each.

        Args:
            x: (m, d), floating, of any library.
            y: (n, d), for columns; by default x.
            lengthscale: A number, or (d,): what distances are divided by.
            variance: The value at distance 0.
            function: As the attribute.

        Example:
            >>> import numpy as np
            >>> KernelMatrix.of(np.zeros((3, 2)), np.ones((4, 2)), function="matern32").shape
            (3, 4)
        """
        xp = numpy_like(x, y, lengthscale, variance)
        dtype = dtype_name(dtype_of(x))
        if not is_float(dtype):
            raise refuse(f"KernelMatrix.of: points of {dtype}.", "Give floating ones.")
        length = _number(xp, lengthscale, dtype)
        points = [None if part is None else xp.divide(part, length) for part in (x, y)]
        return cls(points[0], _number(xp, variance, dtype), points[1], function)

    @classmethod
    def spec(  # type: ignore[override]
        cls,
        shape: Any,
        dtype: Any,
        features: int | None = None,
        symmetric: bool = True,
        function: Any = "rbf",
    ) -> KernelMatrix:
        """Return the type of an input of shape ``(*batch, m, n)``, of points of some features."""
        *batch, m, n = shape
        if features is None or (symmetric and m != n):
            raise refuse(
                f"KernelMatrix.spec({tuple(shape)}, features={features}, symmetric={symmetric}).",
                "Give the number of features, and symmetric=False for other points in columns.",
            )
        x, y = [TensorType(dtype, (*batch, k, features)) for k in (m, n)]
        return cls(x, TensorType(dtype, tuple(batch)), None if symmetric else y, function)

    def check(self) -> None:
        x, y = lengths_of(self.x), lengths_of(self._columns)
        fits = len(x) >= 2 and x[:-2] == y[:-2] and x[-1] == y[-1]
        if not fits or lengths_of(self.scale) != x[:-2]:
            raise refuse(
                f"KernelMatrix: points of shapes {list(x)} and {list(y)}, and a scale of "
                f"{list(lengths_of(self.scale))}.",
                "Give points (*batch, n, d) and a scale (*batch,).",
            )
        if not callable(self.function) and self.function not in OF_SQUARES:
            raise refuse(
                f"KernelMatrix: function={self.function!r}.",
                f"Use one of {', '.join(map(repr, OF_SQUARES))}, or a function of points.",
            )
        same_dtype(self, rows=self.x, columns=self.y, scale=self.scale)

    @property
    def _columns(self) -> Any:
        return self.x if self.y is None else self.y

    def own_axes(self) -> Mapping[str, int]:
        return {"x": 2, "scale": 0, "y": 2}

    @property
    def matrix(self) -> tuple[int | None, int | None]:
        """The numbers of points."""
        return lengths_of(self.x)[-2], lengths_of(self._columns)[-2]

    @property
    def dtype(self) -> Any:
        """The points'."""
        return dtype_of(self.x)

    def materialize(self) -> Any:
        xp = self.xp
        return xp.multiply(
            self._values(xp, self.x, self._columns), spread(xp, self.scale, self.ndim)
        )

    def _values(self, xp: Any, a: Any, b: Any) -> Any:
        """The kernel of points (..., m, d) and (..., n, d), without the scale."""
        if callable(self.function):
            return self.function(a, b)
        features = lengths_of(a)[-1]
        if features is not None and features <= FEW:
            squares: Any = 0
            for j in range(features):
                left, right = xp.getitem(a, (..., j)), xp.getitem(b, (..., j))
                apart = xp.expand_dims(left, -1) - xp.expand_dims(right, -2)
                squares = squares + apart * apart
        else:
            left, right = xp.sum(a * a, -1), xp.sum(b * b, -1)
            inner = xp.matmul(a, xp.swapaxes(b, -1, -2))
            total = xp.expand_dims(left, -1) + xp.expand_dims(right, -2) - 2 * inner
            squares = xp.maximum(total, 0)
        return OF_SQUARES[self.function](xp, squares)

    # Products.

    def times(self, x: Any) -> Any:
        xp = numpy_like(self, x)
        columns, points = xp.swapaxes(x, -1, -2), self._columns
        m, n = self.matrix
        if m is not None and n is not None and m * n <= BLOCK:
            y = xp.matmul(self._values(xp, points, self.x), columns)
        else:
            y = self._by_blocks(xp, points, columns)
        return xp.multiply(xp.swapaxes(y, -1, -2), spread(xp, self.scale, self.ndim))

    def _by_blocks(self, xp: Any, points: Any, columns: Any) -> Any:
        """The products of rows of the transpose, (..., n, k), some at a time."""
        m = self.matrix[0]
        n = xp.shape_of(points)[-2]
        rows = ROWS if m is None else max(BLOCK // max(m, 1), 1)
        # The last block goes on with the last point.
        blocks = (n + rows - 1) // rows
        index = xp.reshape(xp.minimum(xp.arange(blocks * rows), n - 1), (blocks, rows))

        def product(index: Any) -> Any:
            return xp.matmul(self._values(xp, xp.take(points, index, axis=-2), self.x), columns)

        found = xp.moveaxis(xp.by_rows(product, index), 0, -3)
        *batch, _, _, k = xp.shape_of(found)
        joined = xp.reshape(found, (*batch, blocks * rows, k))
        return xp.getitem(joined, (..., slice(0, n), slice(None)))

    # The same elements in other places.

    def swapped(self) -> Any:
        return self if self.y is None else KernelMatrix(self.y, self.scale, self.x, self.function)

    def window(self, rows: range, columns: range) -> Any:
        xp = self.xp
        x, y = [
            xp.getitem(part, (..., slice(r.start, r.stop, r.step), slice(None)))
            for part, r in ((self.x, rows), (self._columns, columns))
        ]
        same = self.y is None and rows == columns
        return KernelMatrix(x, self.scale, None if same else y, self.function)

    def matrix_rows(self, index: Any) -> Any:
        xp = numpy_like(self, index)
        points = xp.getitem(self.x, index)
        *lead, d = xp.shape_of(points)
        n = xp.shape_of(self._columns)[-2]
        flat = xp.reshape(points, (-1, d))
        return xp.multiply(
            xp.reshape(self._values(xp, flat, self._columns), (*lead, n)), self.scale
        )

    def diagonal(self, offset: int) -> Any:
        if offset or self.y is not None:
            return NotImplemented
        xp = self.xp
        each = xp.expand_dims(self.x, -2)
        values = xp.squeeze(self._values(xp, each, each), (-2, -1))
        return xp.multiply(values, spread(xp, self.scale, self.ndim - 1))

    # Element by element.

    def scaled(self, c: Any) -> Any:
        xp = numpy_like(self, c)
        return KernelMatrix(self.x, xp.multiply(self.scale, c), self.y, self.function)

    def cast(self, dtype: Any) -> Any:
        if not is_float(dtype_name(dtype)):
            return NotImplemented
        xp = self.xp
        return self.fieldwise(lambda x, own: xp.cast(x, dtype))


def _number(xp: Any, value: Any, dtype: str) -> Any:
    """A number or an array of a dtype, in the library of points."""
    value = np.asarray(value) if isinstance(value, list | tuple) else value
    return xp.cast(xp.multiply(xp.ones((), dtype=numpy_dtype(dtype)), value), dtype)
