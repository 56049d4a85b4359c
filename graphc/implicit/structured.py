"""Structures: what an implicit array does without being made whole, once for all libraries.

``operations.py`` brings graphc's operations into these terms, ``link/jax/implicit/rules.py`` JAX's
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
    """An implicit array that says which operations keep its structure.

    Each method below gives an implicit array, a whole one, or NotImplemented; then the array is
    materialised, as far as the policy allows. A structure overrides those for which it has
    something better, and writes them through ``xp``, the functions of its fields' library. What
    stands as ``other`` or ``x`` is an array of that library or an implicit array of such, in a
    dtype that goes with this one's by the library's own promotion; what is called ``c`` has no
    axes. Results have the dtype that both promote to: whoever calls casts to what it needs.

    Lengths of symbolic fields may be None. Methods with lengths among their arguments
    (``reshaped``, ``part``, ``broadcast``) are called where those are known.

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
        """The arrays of its fields and of what is nested in them, in order."""
        return Treedef.of(self)[1]

    def each(self, function: Callable[..., Any], *others: Any) -> Any:
        """Apply a function to the arrays of structures with equal tree structure."""
        treedef, leaves = Treedef.of(self)
        return treedef.build(
            [function(*parts) for parts in zip(leaves, *[x.leaves for x in others], strict=True)]
        )

    def fits(self, other: Any) -> bool:
        """Whether another array is the same but for the values in its arrays."""
        if type(other) is not type(self):
            return False
        (treedef, own), (others, given) = Treedef.of(self), Treedef.of(other)
        return treedef == others and [*map(_kind, own)] == [*map(_kind, given)]

    # Products.

    def times(self, x: Any) -> Any:
        """``x @ self`` for x ``(*batch, m, k)`` and self ``(*batch, k, n)``, of equal batches."""
        return NotImplemented

    # Linear systems, of square matrices of floating numbers.

    def solved(self, b: Any) -> Any:
        """The x with ``self @ x = b``, for b ``(*batch, n, k)``, which is no implicit array.

        A singular matrix gives infinities or NaN.
        """
        return NotImplemented

    def inverted(self) -> Any:
        """The inverse of each matrix."""
        return NotImplemented

    def slogdet(self) -> Any:
        """The sign of each determinant, and the logarithm of its magnitude, ``(*batch,)`` both."""
        return NotImplemented

    def det(self) -> Any:
        """The determinant of each matrix, ``(*batch,)``; by default of what ``slogdet`` gives."""
        found = self.slogdet()
        if found is NotImplemented:
            return found
        sign, log = found
        xp = numpy_like(sign, log)
        return xp.multiply(sign, xp.cast(xp.exp(log), dtype_of(sign)))

    # The same elements in other places.

    def swapped(self) -> Any:
        """The last two axes exchanged."""
        return NotImplemented

    def permuted(self, axes: tuple[int, ...]) -> Any:
        """The axes in another order: axis ``axes[i]`` of this one is axis i of the result."""
        order = tuple(range(self.ndim))
        if axes == order:
            return self
        if self.ndim > 1 and axes == (*order[:-2], order[-1], order[-2]):
            return self.swapped()
        return NotImplemented

    def reshaped(self, shape: tuple[int, ...]) -> Any:
        """Reshape in row-major order.

        By default what has at most one axis longer than 1 becomes whole: it is a single row, and
        takes no more room so.
        """
        if shape == self.shape:
            return self
        if sum(n != 1 for n in self.shape) <= 1:
            return self.xp.reshape(self.materialize(), shape)
        return NotImplemented

    def broadcast(self, shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
        """Repeated to a shape, where axis i of this one is axis ``axes[i]``; its lengths fit.

        By default, what only gets new axes of length 1 is reshaped.
        """
        own = dict(zip(axes, self.shape, strict=True))
        if tuple(own.get(axis, 1) for axis in range(len(shape))) == shape:
            return self.reshaped(shape)
        return NotImplemented

    # Parts.

    def part(self, starts: tuple[int, ...], stops: tuple[int, ...], steps: tuple[int, ...]) -> Any:
        """A slice on each axis: 0 <= start <= stop <= length, and steps from 1 on."""
        return NotImplemented

    def rows(self, index: Any) -> Any:
        """The slices along the first axis at the places of an integer array, all within bounds.

        Of shape ``(*index.shape, *self.shape[1:])``; places count from 0. Slices along the axis of
        a batch keep their structure; rows of a matrix are of use whole.
        """
        return NotImplemented

    def diagonal(self, offset: int) -> Any:
        """The diagonal of the last two axes, that many columns to the right, as the last axis.

        By default the main one of square matrices, of a structure with a method ``on_diagonal``.
        """
        found = getattr(type(self), "on_diagonal", None)
        is_main = not offset and self.shape[-1] == self.shape[-2]
        return found(self) if found is not None and is_main else NotImplemented

    def joined(self, others: Sequence[ImplicitArray], axis: int) -> Any:
        """This one and others, all implicit, one after the other along an axis."""
        return NotImplemented

    def window_at(self, whole: Sequence[bool], read: Callable[[Any], Any]) -> Any:
        """A part whose place is known only when the program runs.

        Args:
            whole: For each axis, whether the part has all of it.
            read: Gives the same part of an array like this one, but for the lengths of axes that
                the part has all of.
        """
        return NotImplemented

    def updated(self, value: Any, whole: Sequence[bool], write: Callable[..., Any]) -> Any:
        """With a part of it replaced by a value of this one's dtype, which broadcasts to the part.

        Args:
            value: An array, or an implicit one.
            whole: For each axis, whether the part has all of it.
            write: ``write(x, value)`` replaces the same part of an array like this one, but for the
                lengths of axes that the part has all of.
        """
        return NotImplemented

    # Element by element.

    def cast(self, dtype: Any) -> Any:
        """Cast to a NumPy dtype."""
        return NotImplemented

    def scaled(self, c: Any) -> Any:
        """Times a 0-d array."""
        return NotImplemented

    def divided(self, c: Any) -> Any:
        """Divided by a 0-d array; by default times its reciprocal, which rounds once more."""
        return (
            self.scaled(self.xp.reciprocal(c))
            if is_inexact(dtype_name(self.dtype))
            else NotImplemented
        )

    def shifted(self, c: Any) -> Any:
        """Plus a 0-d array."""
        return NotImplemented

    def weighted(self, vector: Any, axis: int) -> Any:
        """Times a vector along an axis: each of the axis's slices by a number of its own."""
        return NotImplemented

    def added(self, other: Any) -> Any:
        """Plus an array of the same shape."""
        return NotImplemented

    def multiplied(self, other: Any) -> Any:
        """Times an array of the same shape, element by element."""
        return NotImplemented

    def mapped(self, name: str) -> Any:
        """Apply an elementwise function by its NumPy name, such as ``"exp"``.

        By default ``"negative"`` is times -1.
        """
        return (
            self.scaled(-1) if name == "negative" and self.dtype.kind in "ifcV" else NotImplemented
        )

    @property
    def uniform(self) -> Any:
        """A number, or what holds it, that all elements are; None where they may differ."""
        return None

    def transformed(self, function: Callable[[Any], Any], keeps_zero: bool) -> Any:
        """Apply any elementwise function of one array.

        Args:
            function: It, for arrays of this one's library; its result may have another dtype.
            keeps_zero: Whether it maps zero to zero.
        """
        return NotImplemented

    def zipped(self, function: Callable[[Any, Any], Any], other: Any, keeps_zero: bool) -> Any:
        """``function(self, other)``, elementwise, with a structure of the same shape and dtype.

        Args:
            function: It, for arrays of this one's library; its result may have another dtype.
            other: The other structure.
            keeps_zero: Whether it maps two zeros to zero.
        """
        return NotImplemented

    def against(self, function: Callable[[Any, Any], Any], other: Any) -> Any:
        """``function(self, other)``, zero where this one is, whatever the other array holds.

        Args:
            function: It, for arrays of this one's library.
            other: A whole array, or an implicit one, of this one's shape.
        """
        return NotImplemented

    def chosen(self, mask: Any, other: Any, first: bool) -> Any:
        """``where(mask, self, other)``, or with ``first`` false ``where(mask, other, self)``.

        The mask is of this one's shape or has no axes, the other of its shape. By default a mask
        without axes chooses between the arrays of two equal structures.
        """
        if not is_scalar(mask) or not self.fits(other):
            return NotImplemented
        xp = self.xp
        a, b = (self, other) if first else (other, self)
        return a.each(lambda x, y: xp.where(mask, x, y), b)

    # Over axes.

    def reduced(self, name: str, axes: tuple[int, ...]) -> Any:
        """``"sum"``, ``"max"``, ``"min"``, ``"prod"``, ``"any"`` or ``"all"`` over axes, removed.

        In this one's dtype, which the last two have as bool. Extremes are computed of slices that
        hold an element.
        """
        return NotImplemented


def _kind(x: Any) -> Any:
    return lengths_of(x), dtype_of(x)


def is_scalar(x: Any) -> bool:
    """Whether an array, a number of Python's or an implicit array has no axes."""
    return not (x.ndim if hasattr(x, "ndim") else 0)
