"""Kronecker products, stored as their factors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from graphc.errors import ImplicitArrayError
from graphc.implicit.array import ImplicitArray
from graphc.implicit.namespace import numpy_like
from graphc.implicit.structured import ElementwiseFunction
from graphc.implicit.structures import stacked
from graphc.implicit.structures.factors import keeps_products
from graphc.implicit.treedef import dtype_of, lengths_of
from graphc.ir import TensorType, dtype_name


@dataclass(frozen=True, repr=False)
class Kronecker(stacked.Stacked):
    """The Kronecker product ``left ⊗ right``: the blocks ``left[i, j] * right``.

    Element ``[i r + k, j s + l]`` is ``left[i, j] right[k, l]``. A product with a matrix multiplies
    by one factor, then by the other: a square matrix of n rows whose factors have √n rows stores 2
    n numbers, and takes 2 n √n multiplications a row instead of n². An operation that an implicit
    factor does not support makes that factor dense, not the product. A cast to fewer bits rounds
    the factors, which must be within the range of that dtype.

    Args:
        left: (..., p, q), of any dtype; an array or an implicit array.
        right: (..., r, s), of the dtype of ``left``; for more than two factors, a Kronecker
            product.

    Raises:
        ImplicitArrayError: If the factors have fewer than two axes, or differ in batch axes or
            dtype.

    Example:
        >>> import numpy as np
        >>> a, b = np.array([[1.0, 2.0], [0.0, 1.0]]), np.ones((3, 2))
        >>> w = Kronecker(a, b)
        >>> w.shape
        (6, 4)
        >>> bool(np.all(w @ np.arange(4.0)[:, None] == np.kron(a, b) @ np.arange(4.0)[:, None]))
        True

    Source: Van Loan, J. Comput. Appl. Math. 123 (2000).
    """

    left: Any
    right: Any

    @classmethod
    def spec(cls, shape: Any, dtype: Any, left: Any = None, **options: Any) -> Any:
        """Return the type of a product whose left factor is of shape ``(*batch, *left)``.

        Raises:
            ImplicitArrayError: If ``left`` is missing, or does not divide the shape.

        Example:
            >>> Kronecker.spec((6, 4), "float32", left=(2, 2))
            Kronecker(float32[2, 2], float32[3, 2])
        """
        *batch, m, n = shape
        if left is None or m % left[0] or n % left[1]:
            raise ImplicitArrayError(
                f"Kronecker of shape {tuple(shape)} with left={left}.",
                "Give left=(p, q): what p and q divide the last two lengths by is the right one's.",
            )
        p, q = left
        name = dtype_name(dtype)
        return cls(
            TensorType(name, (*batch, p, q)), TensorType(name, (*batch, m // p, n // q)), **options
        )

    def check(self) -> None:
        a, b = lengths_of(self.left), lengths_of(self.right)
        if len(a) < 2 or len(b) < 2 or a[:-2] != b[:-2]:
            raise ImplicitArrayError(
                f"Kronecker: factors of shapes {a} and {b}.",
                "Both are matrices with equal leading axes.",
            )
        stacked.check_same_dtype(self, left=self.left, right=self.right)

    def matrix_specs(self, rows: Any, columns: Any) -> Mapping[str, tuple[Any, ...]]:
        return {"left": (rows, columns), "right": (None, None)}

    @property
    def matrix(self) -> tuple[int | None, int | None]:
        (p, q), (r, s) = lengths_of(self.left)[-2:], lengths_of(self.right)[-2:]
        return stacked.product(p, r), stacked.product(q, s)

    def materialize(self) -> Any:
        left, right = map(stacked.materialize_unchecked, (self.left, self.right))
        return _kron(numpy_like(left, right), left, right)

    # Products.

    def rmatmul(self, x: Any) -> Any:
        if isinstance(x, Kronecker):
            return self._multiply_kronecker(x)
        xp = numpy_like(self, x)
        *batch, k, _ = xp.shape_of(x)
        p, r = xp.shape_of(self.left)[-2], xp.shape_of(self.right)[-2]
        y = xp.reshape(x, (*batch, k, p, r))
        if self._right_first():
            y = _transpose(xp, _multiply_last(xp, y, self.right))
            y = _transpose(xp, _multiply_last(xp, y, self.left))
        else:
            y = _transpose(xp, _multiply_last(xp, _transpose(xp, y), self.left))
            y = _multiply_last(xp, y, self.right)
        *batch, k, q, s = xp.shape_of(y)
        return xp.reshape(y, (*batch, k, q * s))

    def _right_first(self) -> bool:
        """Return whether multiplying by ``right`` first is cheaper: p s (r + q) <= r q (p + s)."""
        (p, q), (r, s) = lengths_of(self.left)[-2:], lengths_of(self.right)[-2:]
        if p is None or q is None or r is None or s is None:
            return True
        return p * s * (r + q) <= r * q * (p + s)

    def _multiply_kronecker(self, x: Kronecker) -> Any:
        """Return the product ``(A ⊗ B)(C ⊗ D) = AC ⊗ BD``."""
        for a, b in ((x.left, self.left), (x.right, self.right)):
            if lengths_of(a)[-1] != lengths_of(b)[-2] or lengths_of(b)[-2] is None:
                return NotImplemented
        xp = numpy_like(self, x)
        return Kronecker(xp.matmul(x.left, self.left), xp.matmul(x.right, self.right))

    # Linear systems, where both factors are square.

    @property
    def is_solvable(self) -> bool:
        return stacked.are_square(self.left, self.right)

    @property
    def orders(self) -> tuple[Any, Any]:
        """The numbers of rows of the factors, if these are square."""
        return lengths_of(self.left)[-1], lengths_of(self.right)[-1]

    def solve(self, b: Any) -> Any:
        xp = numpy_like(self, b)
        p, r = self.orders
        *batch, _, k = xp.shape_of(b)
        x = xp.solve(self.left, xp.reshape(b, (*batch, p, r * k)))
        x = xp.swapaxes(xp.reshape(x, (*batch, p, r, k)), -3, -2)
        x = xp.solve(self.right, xp.reshape(x, (*batch, r, p * k)))
        x = xp.swapaxes(xp.reshape(x, (*batch, r, p, k)), -3, -2)
        return xp.reshape(x, (*batch, p * r, k))

    def inverse(self) -> Any:
        """Return the inverse ``(A ⊗ B)⁻¹ = A⁻¹ ⊗ B⁻¹``."""
        xp = self.xp
        return self.fieldwise(lambda part, own: xp.inv(part))

    def slogdet(self) -> Any:
        """Return sign and log of ``det(A ⊗ B) = det(A)ʳ det(B)ᵖ`` for A of p rows and B of r."""
        if self.dtype.kind == "c":
            return NotImplemented
        xp = self.xp
        p, r = self.orders
        (a_sign, a), (b_sign, b) = xp.slogdet(self.left), xp.slogdet(self.right)
        signs = [sign if n % 2 else sign * sign for sign, n in ((a_sign, r), (b_sign, p))]
        return signs[0] * signs[1], a * r + b * p

    # The same elements in another order.

    def matrix_transpose(self) -> Any:
        xp = self.xp
        return self.fieldwise(lambda part, own: _transpose(xp, part))

    def matrix_window(self, rows: range, columns: range) -> Any:
        r, s = lengths_of(self.right)[-2:]
        p, q = stacked.block_slice(rows, r), stacked.block_slice(columns, s)
        xp = self.xp
        if p is not None and q is not None:
            return Kronecker(xp.getitem(self.left, (..., p, q)), self.right)
        if r is None or s is None:
            return NotImplemented
        i, j = [xp.arange(x.start, x.stop, x.step) for x in (rows, columns)]
        a = _take_elements(xp, self.left, i // max(r, 1), j // max(s, 1))
        return a * _take_elements(xp, self.right, i % max(r, 1), j % max(s, 1))

    def matrix_rows(self, index: Any) -> Any:
        xp = numpy_like(self, index)
        r = xp.shape_of(self.right)[-2]
        if isinstance(r, int):
            r = max(r, 1)  # of a factor without rows, the index is empty
        a, b = xp.getitem(self.left, index // r), xp.getitem(self.right, index % r)
        *lead, q = xp.shape_of(a)
        s = xp.shape_of(b)[-1]
        y = a[..., :, None] * b[..., None, :]
        return xp.reshape(y, (*lead, q * s))

    # Element by element.

    def cast(self, dtype: Any) -> Any:
        # float16 may overflow or underflow in a factor although the product is in range.
        is_cast = keeps_products(self.dtype, dtype) and str(dtype) != "float16"
        return self.cast_fields(dtype) if is_cast else NotImplemented

    def elementwise(self, f: ElementwiseFunction, *others: Any) -> Any:
        if f.linear:
            left, right = f(self.left), self.right
            same = dtype_of(right) == dtype_of(left)
            return Kronecker(left, right if same else self.xp.cast(right, dtype_of(left)))
        if f.name == "multiply":
            return self._multiply_elements(others[0])
        if others or not f.facts.multiplicative or self.dtype.kind in "iub":
            return NotImplemented
        return self.fieldwise(lambda part, own: f(part))

    def _multiply_elements(self, other: Any) -> Any:
        xp = numpy_like(self, other)
        if isinstance(other, Kronecker):
            pairs = ((self.left, other.left), (self.right, other.right))
            if any(lengths_of(a) != lengths_of(b) for a, b in pairs):
                return NotImplemented
            return Kronecker(*[xp.multiply(a, b) for a, b in pairs])
        if any(isinstance(x, ImplicitArray) for x in (other, self.left, self.right)):
            return NotImplemented
        *batch, p, q = xp.shape_of(self.left)
        r, s = xp.shape_of(self.right)[-2:]
        y = xp.reshape(other, (*batch, p, r, q, s))
        y = y * self.left[..., :, None, :, None] * self.right[..., None, :, None, :]
        return xp.reshape(y, (*batch, p * r, q * s))

    # Over axes.

    def reduce_matrix(self, name: str, axes: tuple[int, ...]) -> Any:
        xp = self.xp
        if name == "sum" or (self.dtype.kind == "b" and name in {"any", "all"}):
            a, b = [stacked.reduce_in_dtype(xp, name, x, axes) for x in (self.left, self.right)]
            return _kron_of_reduced(xp, a, b, axes)
        if name not in {"max", "min"} or self.dtype.kind != "f":
            return NotImplemented
        return self._extreme(name, axes)

    def _extreme(self, name: str, axes: tuple[int, ...]) -> Any:
        """Return the extreme of the products of the extremes of both factors."""
        xp = self.xp
        extremes = [
            [stacked.reduce_in_dtype(xp, end, x, axes) for end in ("max", "min")]
            for x in (self.left, self.right)
        ]
        products = [_kron_of_reduced(xp, a, b, axes) for a in extremes[0] for b in extremes[1]]
        pairwise = xp.maximum if name == "max" else xp.minimum
        return reduce(pairwise, products)


def _kron(xp: Any, left: Any, right: Any) -> Any:
    *batch, p, q = xp.shape_of(left)
    r, s = xp.shape_of(right)[-2:]
    y = left[..., :, None, :, None] * right[..., None, :, None, :]
    return xp.reshape(y, (*batch, p * r, q * s))


def _kron_of_reduced(xp: Any, a: Any, b: Any, axes: tuple[int, ...]) -> Any:
    """Return the Kronecker product of two results of a reduction: vectors, or numbers."""
    if len(axes) == 2:
        return a * b
    *batch, n = xp.shape_of(a)
    return xp.reshape(a[..., :, None] * b[..., None, :], (*batch, n * xp.shape_of(b)[-1]))


def _transpose(xp: Any, x: Any) -> Any:
    return xp.swapaxes(x, -1, -2)


def _multiply_last(xp: Any, x: Any, factor: Any) -> Any:
    """Multiply x (..., k, a, b) by a factor (..., b, c) along the last axis."""
    *batch, k, a, b = xp.shape_of(x)
    y = xp.matmul(xp.reshape(x, (*batch, k * a, b)), factor)
    return xp.reshape(y, (*batch, k, a, xp.shape_of(y)[-1]))


def _take_elements(xp: Any, x: Any, rows: Any, columns: Any) -> Any:
    return xp.getitem(xp.getitem(x, (..., rows, slice(None))), (..., columns))
