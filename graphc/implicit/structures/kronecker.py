"""Kronecker products, held as their factors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graphc.implicit.array import ImplicitArray
from graphc.implicit.namespace import numpy_like
from graphc.implicit.structures.stacked import (
    Stacked,
    are_square,
    facts_of,
    kept,
    product,
    refuse,
    same_dtype,
    whole,
)
from graphc.implicit.treedef import dtype_of, lengths_of
from graphc.ir import TensorType, dtype_name, is_inexact


@dataclass(frozen=True, repr=False)
class Kronecker(Stacked):
    """The Kronecker product ``left ⊗ right``: each element of one factor times all of the other.

    Element ``[i r + k, j s + l]`` is ``left[i, j] right[k, l]``. A product with a matrix multiplies
    by one factor, then by the other: a square one of n rows whose factors have √n stores 2 n
    numbers, and takes 2 n √n multiplications a row instead of n². What a factor does not
    know how to do as an implicit array makes that factor whole, not the product. A cast to fewer
    bits rounds the factors, which are to be within the range of that dtype.

    Args:
        left: (..., p, q), of any dtype; an array or an implicit one.
        right: (..., r, s), of left's dtype; itself a Kronecker product for more than two.

    Raises:
        ImplicitArrayError: They have fewer than two axes, or other batch axes, or dtypes.

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
        """Return the factors' types, given the shape of the left factor's matrices.

        Raises:
            ImplicitArrayError: It is not given, or does not divide the shape.

        Example:
            >>> Kronecker.spec((6, 4), "float32", left=(2, 2))
            Kronecker(float32[2, 2], float32[3, 2])
        """
        *batch, m, n = shape
        if left is None or m % left[0] or n % left[1]:
            raise refuse(
                f"Kronecker of shape {tuple(shape)} with left={left}.",
                "Give left=(p, q): what p and q divide the last two lengths by is the right one's.",
            )
        p, q = left
        kind = dtype_name(dtype)
        return cls(
            TensorType(kind, (*batch, p, q)), TensorType(kind, (*batch, m // p, n // q)), **options
        )

    def check(self) -> None:
        a, b = lengths_of(self.left), lengths_of(self.right)
        if len(a) < 2 or len(b) < 2 or a[:-2] != b[:-2]:
            raise refuse(
                f"Kronecker: factors of shapes {a} and {b}.",
                "Both are matrices with equal leading axes.",
            )
        same_dtype(self, left=self.left, right=self.right)

    def own_axes(self) -> Mapping[str, int]:
        return {"left": 2, "right": 2}

    def matrix_specs(self, rows: Any, columns: Any) -> Mapping[str, tuple[Any, ...]]:
        return {"left": (rows, columns)}

    @property
    def matrix(self) -> tuple[int | None, int | None]:
        (p, q), (r, s) = lengths_of(self.left)[-2:], lengths_of(self.right)[-2:]
        return product(p, r), product(q, s)

    @property
    def dtype(self) -> Any:
        """NumPy's dtype."""
        return dtype_of(self.left)

    def materialize(self) -> Any:
        left, right = whole(self.left), whole(self.right)
        return _outer(numpy_like(left, right), left, right)

    # Products.

    def times(self, x: Any) -> Any:
        if isinstance(x, Kronecker):
            return self._times_kronecker(x)
        xp = numpy_like(self, x)
        *batch, k, _ = xp.shape_of(x)
        p, r = xp.shape_of(self.left)[-2], xp.shape_of(self.right)[-2]
        y = xp.reshape(x, (*batch, k, p, r))
        if self._right_first():
            y = _swapped(xp, _by_last(xp, y, self.right))
            y = _swapped(xp, _by_last(xp, y, self.left))
        else:
            y = _swapped(xp, _by_last(xp, _swapped(xp, y), self.left))
            y = _by_last(xp, y, self.right)
        *batch, k, q, s = xp.shape_of(y)
        return xp.reshape(y, (*batch, k, q * s))

    def _right_first(self) -> bool:
        """Whether that takes fewer multiplications: p s (r + q) against r q (p + s)."""
        (p, q), (r, s) = lengths_of(self.left)[-2:], lengths_of(self.right)[-2:]
        if p is None or q is None or r is None or s is None:
            return True
        return p * s * (r + q) <= r * q * (p + s)

    def _times_kronecker(self, x: Kronecker) -> Any:
        """(A ⊗ B)(C ⊗ D) = AC ⊗ BD."""
        for a, b in ((x.left, self.left), (x.right, self.right)):
            if lengths_of(a)[-1] != lengths_of(b)[-2] or lengths_of(b)[-2] is None:
                return NotImplemented
        xp = numpy_like(self, x)
        return Kronecker(xp.matmul(x.left, self.left), xp.matmul(x.right, self.right))

    # Linear systems, where both factors are square.

    @property
    def square_factors(self) -> bool:
        """Whether each factor is known to have as many columns as rows."""
        return are_square(self.left, self.right)

    @property
    def orders(self) -> tuple[Any, Any]:
        """The rows of each factor, where these are square and known."""
        return lengths_of(self.left)[-1], lengths_of(self.right)[-1]

    def solved(self, b: Any) -> Any:
        if not self.square_factors:
            return NotImplemented
        xp = numpy_like(self, b)
        p, r = self.orders
        *batch, _, k = xp.shape_of(b)
        x = xp.solve(self.left, xp.reshape(b, (*batch, p, r * k)))
        x = xp.swapaxes(xp.reshape(x, (*batch, p, r, k)), -3, -2)
        x = xp.solve(self.right, xp.reshape(x, (*batch, r, p * k)))
        x = xp.swapaxes(xp.reshape(x, (*batch, r, p, k)), -3, -2)
        return xp.reshape(x, (*batch, p * r, k))

    def inverted(self) -> Any:
        """(A ⊗ B)⁻¹ = A⁻¹ ⊗ B⁻¹."""
        if not self.square_factors:
            return NotImplemented
        xp = self.xp
        return self.fieldwise(lambda part, own: xp.inv(part))

    def slogdet(self) -> Any:
        """The determinant is |A|ʳ |B|ᵖ for A of p rows and B of r."""
        if not self.square_factors or self.dtype.kind == "c":
            return NotImplemented
        xp = self.xp
        p, r = self.orders
        (one, a), (two, b) = xp.slogdet(self.left), xp.slogdet(self.right)
        signs = [s if n % 2 else s * s for s, n in ((one, r), (two, p))]
        return signs[0] * signs[1], a * r + b * p

    # The same elements in other places.

    def swapped(self) -> Any:
        xp = self.xp
        return self.fieldwise(lambda part, own: _swapped(xp, part))

    def window(self, rows: range, columns: range) -> Any:
        r, s = lengths_of(self.right)[-2:]
        p, q = _of_blocks(rows, r), _of_blocks(columns, s)
        xp = self.xp
        if p is not None and q is not None:
            part = xp.getitem(self.left, (..., p, q))
            return Kronecker(part, self.right)
        if r is None or s is None:
            return NotImplemented
        i, j = [xp.arange(x.start, x.stop, x.step) for x in (rows, columns)]
        a = _picked(xp, self.left, i // max(r, 1), j // max(s, 1))
        return a * _picked(xp, self.right, i % max(r, 1), j % max(s, 1))

    def matrix_rows(self, index: Any) -> Any:
        xp = numpy_like(self, index)
        r = xp.shape_of(self.right)[-2]
        if isinstance(r, int):
            r = max(r, 1)  # there is no row to ask for
        a, b = xp.getitem(self.left, index // r), xp.getitem(self.right, index % r)
        *lead, q = xp.shape_of(a)
        s = xp.shape_of(b)[-1]
        whole = a[..., :, None] * b[..., None, :]
        return xp.reshape(whole, (*lead, q * s))

    # Element by element.

    def cast(self, dtype: Any) -> Any:
        if not _goes_through(self.dtype, dtype):
            return NotImplemented
        xp = self.xp
        return self.fieldwise(lambda part, own: xp.cast(part, dtype))

    def scaled(self, c: Any) -> Any:
        xp = numpy_like(self, c)
        return self._of(xp.multiply(self.left, c), self.right)

    def divided(self, c: Any) -> Any:
        if not is_inexact(str(self.dtype)):
            return NotImplemented
        xp = numpy_like(self, c)
        return self._of(xp.divide(self.left, c), self.right)

    def _of(self, left: Any, right: Any) -> Any:
        """The product of factors in the dtype of the first."""
        dtype = dtype_of(left)
        return Kronecker(left, right if dtype_of(right) == dtype else self.xp.cast(right, dtype))

    def multiplied(self, other: Any) -> Any:
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

    def mapped(self, name: str) -> Any:
        xp = self.xp
        if name == "negative":
            return Kronecker(xp.negative(self.left), self.right)
        if not facts_of(name).multiplicative or self.dtype.kind in "iub":
            return NotImplemented
        return self.fieldwise(lambda part, own: getattr(xp, name)(part))

    # Over axes.

    def matrix_reduced(self, name: str, axes: tuple[int, ...]) -> Any:
        xp = self.xp
        if name == "sum" or (self.dtype.kind == "b" and name in {"any", "all"}):
            a, b = [kept(xp, name, x, axes) for x in (self.left, self.right)]
            return _outer_of(xp, a, b, axes)
        if name not in {"max", "min"} or self.dtype.kind != "f":
            return NotImplemented
        return self._extreme(name, axes)

    def _extreme(self, name: str, axes: tuple[int, ...]) -> Any:
        """An extreme product is one of the factors' extremes; of finite elements."""
        xp = self.xp
        ends = [[kept(xp, end, x, axes) for end in ("max", "min")] for x in (self.left, self.right)]
        products = [_outer_of(xp, a, b, axes) for a in ends[0] for b in ends[1]]
        join = xp.maximum if name == "max" else xp.minimum
        y = products[0]
        for other in products[1:]:
            y = join(y, other)
        return y


def _outer(xp: Any, left: Any, right: Any) -> Any:
    *batch, p, q = xp.shape_of(left)
    r, s = xp.shape_of(right)[-2:]
    y = left[..., :, None, :, None] * right[..., None, :, None, :]
    return xp.reshape(y, (*batch, p * r, q * s))


def _outer_of(xp: Any, a: Any, b: Any, axes: tuple[int, ...]) -> Any:
    """The Kronecker product of vectors, or of numbers."""
    if len(axes) == 2:
        return a * b
    *batch, n = xp.shape_of(a)
    return xp.reshape(a[..., :, None] * b[..., None, :], (*batch, n * xp.shape_of(b)[-1]))


def _swapped(xp: Any, x: Any) -> Any:
    return xp.swapaxes(x, -1, -2)


def _by_last(xp: Any, x: Any, factor: Any) -> Any:
    """x (..., k, a, b) times a factor (..., b, c), along the last axis."""
    *batch, k, a, b = xp.shape_of(x)
    y = xp.matmul(xp.reshape(x, (*batch, k * a, b)), factor)
    return xp.reshape(y, (*batch, k, a, xp.shape_of(y)[-1]))


def _of_blocks(places: range, n: int | None) -> slice | None:
    """The slice of blocks of n that places are exactly, in order."""
    if not n or places.step != 1 or places.start % n or places.stop % n:
        return None
    return slice(places.start // n, places.stop // n)


def _picked(xp: Any, x: Any, rows: Any, columns: Any) -> Any:
    return xp.getitem(xp.getitem(x, (..., rows, slice(None))), (..., columns))


def _goes_through(own: Any, dtype: Any) -> bool:
    """Whether a product in one dtype, cast, is the product of the cast factors, but for rounding.

    float16 makes infinities and zeros of factors whose product it holds. Products of integers that
    wrapped around would not in more bits.
    """
    if own.kind in "iu":
        return bool(dtype.kind in "iu" and dtype.itemsize <= own.itemsize)
    if not is_inexact(str(own)) or not is_inexact(str(dtype)):
        return False
    return str(dtype) != "float16" and not (own.kind == "c" and dtype.kind != "c")
