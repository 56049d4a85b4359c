"""Covariance matrices, stored as a kernel and points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.errors import ImplicitArrayError
from graphc.implicit.array import aux_field
from graphc.implicit.namespace import numpy_like
from graphc.implicit.structured import ElementwiseFunction
from graphc.implicit.structures.fill import append_axes
from graphc.implicit.structures.stacked import Stacked, as_slice, check_same_dtype
from graphc.implicit.treedef import dtype_of, lengths_of
from graphc.ir import TensorType, dtype_name, is_float, numpy_dtype

BLOCK = 2**22
"""The number of elements that are computed at a time: 32 MiB in float64 for each temporary."""

MAX_EXACT_FEATURES = 8
"""For more features, squared distances are expanded to |a|² + |b|² - 2 a·b, which is faster, but
loses the digits of small distances."""

ROWS = 256
"""The rows of a block if the number of columns is unknown."""


def _distances(xp: Any, squares: Any) -> Any:
    """Return square roots whose derivative at 0 is 0."""
    is_positive = xp.greater(squares, 0)
    return xp.where(is_positive, xp.sqrt(xp.where(is_positive, squares, 1)), 0)


def _matern32(xp: Any, squares: Any) -> Any:
    r = 3**0.5 * _distances(xp, squares)
    return (1 + r) * xp.exp(-r)


def _matern52(xp: Any, squares: Any) -> Any:
    r = 5**0.5 * _distances(xp, squares)
    return (1 + r + 5 / 3 * squares) * xp.exp(-r)


KERNELS: dict[str, Callable[[Any, Any], Any]] = {
    "rbf": lambda xp, squares: xp.exp(-0.5 * squares),
    "matern12": lambda xp, squares: xp.exp(-_distances(xp, squares)),
    "matern32": _matern32,
    "matern52": _matern52,
}
"""Kernels as functions of squared distances, with value 1 at 0."""


@dataclass(frozen=True, repr=False)
class KernelMatrix(Stacked):
    """The values of a kernel at all pairs of points, such as the covariance of a Gaussian process.

    Products and gradients compute blocks of rows, one after the other, and store none of them. So n
    points need memory in proportion to n, and time in proportion to n².

    Attributes:
        x: Points ``(*batch, m, d)``, floating, one for each row; ``of`` divides them by
            lengthscales.
        scale: The variance, a factor of all values; ``(*batch,)``.
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
        """Return the kernel matrix of points, with a lengthscale for all features or for each.

        Args:
            x: Points of rows, (m, d), floating, of any library.
            y: Points of columns, (n, d); by default x.
            lengthscale: The divisor of distances: a number, or (d,).
            variance: The value at distance 0.
            function: The kernel, as in the attribute ``function``.

        Raises:
            ImplicitArrayError: If the points are not floating.

        Example:
            >>> import numpy as np
            >>> KernelMatrix.of(np.zeros((3, 2)), np.ones((4, 2)), function="matern32").shape
            (3, 4)
        """
        xp = numpy_like(x, y, lengthscale, variance)
        dtype = dtype_name(dtype_of(x))
        if not is_float(dtype):
            raise ImplicitArrayError(f"KernelMatrix.of: points of {dtype}.", "Give floating ones.")
        length = _as_dtype(xp, lengthscale, dtype)
        points = [None if p is None else xp.divide(p, length) for p in (x, y)]
        return cls(points[0], _as_dtype(xp, variance, dtype), points[1], function)

    @classmethod
    def spec(  # type: ignore[override]
        cls,
        shape: Any,
        dtype: Any,
        features: int | None = None,
        symmetric: bool = True,
        function: Any = "rbf",
    ) -> KernelMatrix:
        """Return the type of an input of shape ``(*batch, m, n)``, of points with ``features``.

        Raises:
            ImplicitArrayError: If ``features`` is missing, or if a symmetric matrix is not square.
        """
        *batch, m, n = shape
        if features is None or (symmetric and m != n):
            raise ImplicitArrayError(
                f"KernelMatrix.spec({tuple(shape)}, features={features}, symmetric={symmetric}).",
                "Give the number of features, and symmetric=False for other points in columns.",
            )
        x, y = [TensorType(dtype, (*batch, k, features)) for k in (m, n)]
        return cls(x, TensorType(dtype, tuple(batch)), None if symmetric else y, function)

    def check(self) -> None:
        x, y = lengths_of(self.x), lengths_of(self._columns)
        fits = len(x) >= 2 and x[:-2] == y[:-2] and x[-1] == y[-1]
        if not fits or lengths_of(self.scale) != x[:-2]:
            raise ImplicitArrayError(
                f"KernelMatrix: points of shapes {list(x)} and {list(y)}, and a scale of "
                f"{list(lengths_of(self.scale))}.",
                "Give points (*batch, n, d) and a scale (*batch,).",
            )
        if not callable(self.function) and self.function not in KERNELS:
            raise ImplicitArrayError(
                f"KernelMatrix: function={self.function!r}.",
                f"Use one of {', '.join(map(repr, KERNELS))}, or a function of points.",
            )
        check_same_dtype(self, rows=self.x, columns=self.y, scale=self.scale)

    @property
    def _columns(self) -> Any:
        return self.x if self.y is None else self.y

    def matrix_specs(self, rows: Any, columns: Any) -> Mapping[str, tuple[Any, ...]]:
        return {"x": (None, None), "scale": (), "y": (None, None)}

    @property
    def matrix(self) -> tuple[int | None, int | None]:
        return lengths_of(self.x)[-2], lengths_of(self._columns)[-2]

    def materialize(self) -> Any:
        xp = self.xp
        return xp.multiply(
            self._values(xp, self.x, self._columns), append_axes(xp, self.scale, self.ndim)
        )

    def _values(self, xp: Any, a: Any, b: Any) -> Any:
        """Return the kernel of points (..., m, d) and (..., n, d), without the scale."""
        if callable(self.function):
            return self.function(a, b)
        features = lengths_of(a)[-1]
        if features is not None and features <= MAX_EXACT_FEATURES:
            squares: Any = 0
            for j in range(features):
                p, q = xp.getitem(a, (..., j)), xp.getitem(b, (..., j))
                difference = xp.expand_dims(p, -1) - xp.expand_dims(q, -2)
                squares = squares + difference * difference
        else:
            p, q = xp.sum(a * a, -1), xp.sum(b * b, -1)
            inner = xp.matmul(a, xp.swapaxes(b, -1, -2))
            total = xp.expand_dims(p, -1) + xp.expand_dims(q, -2) - 2 * inner
            squares = xp.maximum(total, 0)
        return KERNELS[self.function](xp, squares)

    # Products.

    def rmatmul(self, x: Any) -> Any:
        xp = numpy_like(self, x)
        columns, points = xp.swapaxes(x, -1, -2), self._columns
        m, n = self.matrix
        if m is not None and n is not None and m * n <= BLOCK:
            y = xp.matmul(self._values(xp, points, self.x), columns)
        else:
            y = self._by_blocks(xp, points, columns)
        return xp.multiply(xp.swapaxes(y, -1, -2), append_axes(xp, self.scale, self.ndim))

    def _by_blocks(self, xp: Any, points: Any, columns: Any) -> Any:
        """Return products (..., n, k) of the transpose, computed by blocks of rows."""
        m = self.matrix[0]
        n = xp.shape_of(points)[-2]
        rows = ROWS if m is None else max(BLOCK // max(m, 1), 1)
        # The last block is padded with the last point.
        blocks = (n + rows - 1) // rows
        index = xp.reshape(xp.minimum(xp.arange(blocks * rows), n - 1), (blocks, rows))

        def product(index: Any) -> Any:
            return xp.matmul(self._values(xp, xp.take(points, index, axis=-2), self.x), columns)

        products = xp.moveaxis(xp.by_rows(product, index), 0, -3)
        *batch, _, _, k = xp.shape_of(products)
        joined = xp.reshape(products, (*batch, blocks * rows, k))
        return xp.getitem(joined, (..., slice(0, n), slice(None)))

    # The same elements in another order.

    def matrix_transpose(self) -> Any:
        return self if self.y is None else KernelMatrix(self.y, self.scale, self.x, self.function)

    def matrix_window(self, rows: range, columns: range) -> Any:
        xp = self.xp
        x, y = [
            xp.getitem(points, (..., as_slice(r), slice(None)))
            for points, r in ((self.x, rows), (self._columns, columns))
        ]
        is_symmetric = self.y is None and rows == columns
        return KernelMatrix(x, self.scale, None if is_symmetric else y, self.function)

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
        return xp.multiply(values, append_axes(xp, self.scale, self.ndim - 1))

    # Element by element.

    def elementwise(self, f: ElementwiseFunction, *others: Any) -> Any:
        if not f.linear:
            return NotImplemented
        return KernelMatrix(self.x, f(self.scale), self.y, self.function)

    def cast(self, dtype: Any) -> Any:
        return self.cast_fields(dtype) if is_float(dtype_name(dtype)) else NotImplemented


def _as_dtype(xp: Any, value: Any, dtype: str) -> Any:
    """Return a number or an array in a dtype, in the library of the points."""
    value = np.asarray(value) if isinstance(value, list | tuple) else value
    return xp.cast(xp.multiply(xp.ones((), dtype=numpy_dtype(dtype)), value), dtype)
