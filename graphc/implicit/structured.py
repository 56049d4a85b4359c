"""Structures: the operations that implicit arrays support without densifying.

``operations.py`` expresses graphc's operations in these methods, ``link/jax/implicit/rules.py`` JAX
primitives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from graphc.implicit.array import ImplicitArray
from graphc.implicit.namespace import numpy_like
from graphc.implicit.treedef import Treedef, dtype_of, lengths_of
from graphc.ir import dtype_name, is_inexact


@dataclass(frozen=True, repr=False)
class Structured(ImplicitArray):
    """An implicit array that defines which operations keep its structure.

    Each method below returns an implicit array, a dense one, or NotImplemented; in the last case
    the array is materialised, as far as the policy allows. A structure overrides the methods for
    which it has something better than the default, and computes with ``xp``, the functions of its
    fields' library. An argument ``other`` or ``x`` is an array of that library, or an implicit
    array of these, in a dtype that the library promotes together with this array's; an argument
    ``c`` has no axes. Results have the promoted dtype: callers cast operands before.

    Lengths of symbolic fields may be None. Methods with lengths among their arguments
    (``reshaped``, ``part``, ``broadcast``) are called only if all lengths are known.

    Example:
        >>> from dataclasses import dataclass
        >>> import numpy as np
        >>> from graphc.implicit import materializing
        >>> @dataclass(frozen=True, repr=False)
        ... class Outer(Structured):
        ...     u: object
        ...     v: object
        ...     def materialize(self):
        ...         return self.u[:, None] * self.v
        ...     def times(self, x):
        ...         return self.xp.matmul(x, self.u)[..., None] * self.v
        ...     def scaled(self, c):
        ...         return Outer(self.u * c, self.v)
        >>> w = Outer(np.arange(3.0), np.ones(2))
        >>> with materializing("error"):
        ...     (np.ones((1, 3)) @ (w * 10)).tolist()
        [[30.0, 30.0]]
    """

    @property
    def xp(self) -> Any:
        """The functions of the fields' library."""
        return numpy_like(*self.leaves)

    @property
    def leaves(self) -> list[Any]:
        """The arrays of the fields and of everything nested in them, in order."""
        return Treedef.of(self)[1]

    def each(self, function: Callable[..., Any], *others: Any) -> Any:
        """Apply a function to the arrays of structures with equal tree structure."""
        treedef, leaves = Treedef.of(self)
        return treedef.build(
            [function(*xs) for xs in zip(leaves, *[x.leaves for x in others], strict=True)]
        )

    def fits(self, other: Any) -> bool:
        """Return whether another array differs at most in the values of its arrays."""
        if type(other) is not type(self):
            return False
        (treedef, leaves), (other_treedef, other_leaves) = Treedef.of(self), Treedef.of(other)
        return treedef == other_treedef and [*map(_type, leaves)] == [*map(_type, other_leaves)]

    # Products.

    def times(self, x: Any) -> Any:
        """Return ``x @ self`` for x ``(*batch, m, k)`` and self ``(*batch, k, n)``."""
        return NotImplemented

    # Linear systems, of square matrices of floating numbers.

    def solved(self, b: Any) -> Any:
        """Return the x with ``self @ x = b``, for a dense b ``(*batch, n, k)``.

        A singular matrix gives infinities or NaN.
        """
        return NotImplemented

    def inverted(self) -> Any:
        """Return the inverse of each matrix."""
        return NotImplemented

    def slogdet(self) -> Any:
        """Return the sign and the logarithm of the magnitude of each determinant, ``(*batch,)``."""
        return NotImplemented

    def det(self) -> Any:
        """Return the determinant of each matrix, ``(*batch,)``; by default from ``slogdet``."""
        pair = self.slogdet()
        if pair is NotImplemented:
            return pair
        sign, log = pair
        xp = numpy_like(sign, log)
        return xp.multiply(sign, xp.cast(xp.exp(log), dtype_of(sign)))

    # The same elements at other positions.

    def swapped(self) -> Any:
        """Return the array with its last two axes exchanged."""
        return NotImplemented

    def permuted(self, axes: tuple[int, ...]) -> Any:
        """Permute axes: axis ``axes[i]`` of this array is axis i of the result."""
        order = tuple(range(self.ndim))
        if axes == order:
            return self
        if self.ndim > 1 and axes == (*order[:-2], order[-1], order[-2]):
            return self.swapped()
        return NotImplemented

    def reshaped(self, shape: tuple[int, ...]) -> Any:
        """Reshape in row-major order.

        By default an array with at most one axis longer than 1 becomes dense: a single row takes no
        more memory.
        """
        if shape == self.shape:
            return self
        if sum(n != 1 for n in self.shape) <= 1:
            return self.xp.reshape(self.materialize(), shape)
        return NotImplemented

    def broadcast(self, shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
        """Broadcast to a shape in which axis i of this array is axis ``axes[i]``.

        By default, an array that only gets new axes of length 1 is reshaped.
        """
        own = dict(zip(axes, self.shape, strict=True))
        if tuple(own.get(axis, 1) for axis in range(len(shape))) == shape:
            return self.reshaped(shape)
        return NotImplemented

    # Slicing, indexing and joining.

    def part(self, starts: tuple[int, ...], stops: tuple[int, ...], steps: tuple[int, ...]) -> Any:
        """Slice each axis, with 0 <= start <= stop <= length and steps from 1 on."""
        return NotImplemented

    def rows(self, index: Any) -> Any:
        """Take slices along the first axis at an integer array of indices, all within bounds.

        The result has the shape ``(*index.shape, *self.shape[1:])``; indices are not negative.
        Slices along a batch axis keep their structure; rows of a matrix are dense.
        """
        return NotImplemented

    def diagonal(self, offset: int) -> Any:
        """Return the diagonal of the last two axes, ``offset`` columns to the right.

        By default the main diagonal of square matrices, of a structure with a method
        ``on_diagonal``.
        """
        main = getattr(type(self), "on_diagonal", None)
        is_main = not offset and self.shape[-1] == self.shape[-2]
        return main(self) if main is not None and is_main else NotImplemented

    def joined(self, others: Sequence[ImplicitArray], axis: int) -> Any:
        """Concatenate this array and others, all implicit, along an axis."""
        return NotImplemented

    def window_at(self, whole: Sequence[bool], read: Callable[[Any], Any]) -> Any:
        """Return a part whose position is known only when the program runs.

        Args:
            whole: Whether the part covers the whole axis, for each axis.
            read: Returns the same part of an array with these axes; axes that the part covers may
                have other lengths.
        """
        return NotImplemented

    def updated(self, value: Any, whole: Sequence[bool], write: Callable[..., Any]) -> Any:
        """Replace a part by a value of this array's dtype, which broadcasts to the part.

        Args:
            value: An array, or an implicit array.
            whole: Whether the part covers the whole axis, for each axis.
            write: ``write(x, value)`` replaces the same part of an array with these axes; axes that
                the part covers may have other lengths.
        """
        return NotImplemented

    # Element by element.

    def cast(self, dtype: Any) -> Any:
        """Cast to a NumPy dtype."""
        return NotImplemented

    def scaled(self, c: Any) -> Any:
        """Multiply by a 0-d array."""
        return NotImplemented

    def divided(self, c: Any) -> Any:
        """Divide by a 0-d array; by default multiply by its reciprocal, which rounds once more."""
        return (
            self.scaled(self.xp.reciprocal(c))
            if is_inexact(dtype_name(self.dtype))
            else NotImplemented
        )

    def shifted(self, c: Any) -> Any:
        """Add a 0-d array."""
        return NotImplemented

    def weighted(self, vector: Any, axis: int) -> Any:
        """Multiply by a vector along an axis: each slice by one number."""
        return NotImplemented

    def added(self, other: Any) -> Any:
        """Add an array of the same shape."""
        return NotImplemented

    def multiplied(self, other: Any) -> Any:
        """Multiply elementwise by an array of the same shape."""
        return NotImplemented

    def mapped(self, name: str) -> Any:
        """Apply an elementwise function by its NumPy name, such as ``"exp"``.

        By default ``"negative"`` multiplies by -1.
        """
        return (
            self.scaled(-1) if name == "negative" and self.dtype.kind in "ifcV" else NotImplemented
        )

    @property
    def uniform(self) -> Any:
        """The number, or an array of it, that all elements equal; None if they may differ."""
        return None

    def transformed(self, function: Callable[[Any], Any], keeps_zero: bool) -> Any:
        """Apply any elementwise function of one array.

        Args:
            function: A function of arrays of this array's library; its result may have another
                dtype.
            keeps_zero: Whether the function maps zero to zero.
        """
        return NotImplemented

    def zipped(self, function: Callable[[Any, Any], Any], other: Any, keeps_zero: bool) -> Any:
        """Return ``function(self, other)`` of a structure of the same shape and dtype.

        Args:
            function: A function of arrays of this array's library; its result may have another
                dtype.
            other: The other structure.
            keeps_zero: Whether the function maps two zeros to zero.
        """
        return NotImplemented

    def against(self, function: Callable[[Any, Any], Any], other: Any) -> Any:
        """Return ``function(self, other)``, which is zero wherever this array is zero.

        Args:
            function: A function of arrays of this array's library.
            other: A dense or implicit array of this array's shape.
        """
        return NotImplemented

    def chosen(self, mask: Any, other: Any, first: bool) -> Any:
        """Return ``where(mask, self, other)``; unless ``first``, the last two exchanged.

        The mask has this array's shape or no axes, and ``other`` has this array's shape. By default
        a mask without axes selects between the arrays of two equal structures.
        """
        if not is_scalar(mask) or not self.fits(other):
            return NotImplemented
        xp = self.xp
        a, b = (self, other) if first else (other, self)
        return a.each(lambda x, y: xp.where(mask, x, y), b)

    # Reductions over axes.

    def reduced(self, name: str, axes: tuple[int, ...]) -> Any:
        """Return the sum, maximum, minimum, product, any or all over axes, which are removed."""
        return NotImplemented


def _type(x: Any) -> Any:
    return lengths_of(x), dtype_of(x)


def is_scalar(x: Any) -> bool:
    """Return whether an array, a Python number or an implicit array has no axes."""
    return not (x.ndim if hasattr(x, "ndim") else 0)
