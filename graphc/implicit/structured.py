"""Structures: the operations that implicit arrays support without densifying.

The handlers of ``operations.py`` call these methods for graphs, and ``link/jax/implicit/rules.py``
calls the same handlers, or the methods, for JAX's primitives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from graphc.implicit.array import ImplicitArray
from graphc.implicit.namespace import numpy_like
from graphc.implicit.treedef import Treedef, dtype_of, lengths_of
from graphc.tensor.core.elementwise import NO_FACTS, ROWS, Facts


@dataclass(frozen=True, eq=False)
class ElementwiseFunction:
    """A function that is applied element by element, and its properties.

    Attributes:
        call: The function, of arrays of one library. Its results may have another dtype.
        name: NumPy's name of a function of one operand; ``"add"``, ``"multiply"``, or ``"where"``
            for the function of x, y and, unless it is one boolean, a mask that chooses one of both;
            None for any other function.
        zeros: The result is zero wherever the first ``zeros`` operands are zero; 0 if zeros may
            give another number.
        linear: Whether the function multiplies its only operand by a number, or divides by one.
        shift: The number, a 0-d array, that the function adds to its only operand, else None.
        facts: The properties of a function with a name.

    Example:
        >>> import numpy as np
        >>> f = function_named("sqrt")
        >>> f(np.array([4.0, 9.0])).tolist(), f.keeps_zero, f.linear
        ([2.0, 3.0], True, False)
    """

    call: Callable[..., Any]
    name: str | None = None
    zeros: int = 0
    linear: bool = False
    shift: Any = None
    facts: Facts = NO_FACTS

    def __call__(self, *xs: Any) -> Any:
        return self.call(*xs)

    @property
    def keeps_zero(self) -> bool:
        """Whether the result is zero where all operands are."""
        return self.zeros > 0

    def partners(self, others: Sequence[Any]) -> Sequence[Any]:
        """Return the operands after the first that are read also where the first is zero."""
        return others[: self.zeros - 1] if self.zeros else others


def call_named(name: str) -> Callable[..., Any]:
    """Return the function of this name in the library of its operands."""
    return lambda *xs: getattr(numpy_like(*xs), name)(*xs)


@cache
def function_named(name: str) -> ElementwiseFunction:
    """Return the function of one operand with this NumPy name."""
    facts = ROWS[name].facts if name in ROWS else NO_FACTS
    zeros = int(0 in facts.fixed or name in {"isnan", "isinf"})
    return ElementwiseFunction(call_named(name), name, zeros, name == "negative", facts=facts)


def scaling(c: Any, name: str = "multiply") -> ElementwiseFunction:
    """Return the function that multiplies by a 0-d array; with ``"divide"`` it divides."""
    call = call_named(name)
    return ElementwiseFunction(lambda x: call(x, c), zeros=1, linear=True)


ADD = ElementwiseFunction(call_named("add"), "add", 2)
MULTIPLY = ElementwiseFunction(call_named("multiply"), "multiply", 1)


@dataclass(frozen=True, repr=False)
class Structured(ImplicitArray):
    """An implicit array that defines which operations keep its structure.

    Each method below returns an implicit array, a dense one, or NotImplemented; in the last case
    the array is materialised, as far as the policy allows. A structure overrides the methods for
    which it has something better than the default, and computes with ``xp``, the functions of its
    fields' library. Arguments ``x`` and ``others`` are arrays of that library, or implicit arrays
    of these, in dtypes that the library promotes together with this array's. Results have the
    promoted dtype: callers cast operands before.

    Lengths of symbolic fields may be None. Methods with lengths among their arguments
    (``reshape_to``, ``window``, ``broadcast``) are called only if all lengths are known.

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
        ...     def rmatmul(self, x):
        ...         return self.xp.matmul(x, self.u)[..., None] * self.v
        ...     def elementwise(self, f, *others):
        ...         return Outer(f(self.u), self.v) if f.linear else NotImplemented
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

    def rmatmul(self, x: Any) -> Any:
        """Return ``x @ self`` for x ``(*batch, m, k)`` and self ``(*batch, k, n)``."""
        return NotImplemented

    # Linear systems, of square matrices of floating numbers.

    @property
    def is_solvable(self) -> bool:
        """Whether the methods below apply, for example because all blocks are square."""
        return True

    def solve(self, b: Any) -> Any:
        """Return the x with ``self @ x = b``, for a dense b ``(*batch, n, k)``.

        A singular matrix gives infinities or NaN.
        """
        return NotImplemented

    def inverse(self) -> Any:
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

    def matrix_transpose(self) -> Any:
        """Return the array with its last two axes exchanged."""
        return NotImplemented

    def permute(self, axes: tuple[int, ...]) -> Any:
        """Permute axes: axis ``axes[i]`` of this array is axis i of the result."""
        order = tuple(range(self.ndim))
        if axes == order:
            return self
        if self.ndim > 1 and axes == (*order[:-2], order[-1], order[-2]):
            return self.matrix_transpose()
        return NotImplemented

    def reshape_to(self, shape: tuple[int, ...]) -> Any:
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
            return self.reshape_to(shape)
        return NotImplemented

    # Slicing, indexing and joining.

    def window(self, ranges: tuple[range, ...]) -> Any:
        """Slice each axis by a range of indices within bounds, with a positive step."""
        return NotImplemented

    def map_window(self, function: Callable[..., Any], covers: Sequence[bool], *values: Any) -> Any:
        """Read or replace a window whose position is known only when the program runs.

        Args:
            function: ``function(x)`` returns the window of an array with these axes, or
                ``function(x, value)`` the array with another value there; axes that the window
                covers may have other lengths.
            covers: Whether the window covers the whole axis, for each axis.
            values: The value to write, of this array's dtype, an array or an implicit array that
                broadcasts to the window; none to read.
        """
        return NotImplemented

    def take_rows(self, index: Any) -> Any:
        """Take slices along the first axis at an integer array of indices, all within bounds.

        The result has the shape ``(*index.shape, *self.shape[1:])``; indices are not negative.
        Slices along a batch axis keep their structure; rows of a matrix are dense.
        """
        return NotImplemented

    def diagonal(self, offset: int) -> Any:
        """Return the diagonal of the last two axes, ``offset`` columns to the right.

        By default the main diagonal of square matrices, from ``on_diagonal``.
        """
        is_main = not offset and self.shape[-1] == self.shape[-2]
        return self.on_diagonal() if is_main else NotImplemented

    def on_diagonal(self) -> Any:
        """Return the elements at (i, i) of each square matrix."""
        return NotImplemented

    def concatenate(self, others: Sequence[ImplicitArray], axis: int) -> Any:
        """Concatenate this array and others, all implicit, along an axis."""
        return NotImplemented

    # Element by element.

    def cast(self, dtype: Any) -> Any:
        """Cast to a NumPy dtype; by default as any function that maps zero to zero."""
        cast = ElementwiseFunction(lambda x: numpy_like(x).cast(x, dtype), zeros=1)
        return self.elementwise(cast)

    def elementwise(self, f: ElementwiseFunction, *others: Any) -> Any:
        """Return ``f(self, *others)``, computed element by element.

        Args:
            f: The function, and what is known of it.
            others: Arrays of this array's shape, dense or implicit.
        """
        return NotImplemented

    def scale_along(self, vector: Any, axis: int) -> Any:
        """Multiply by a vector along an axis: each slice by one number."""
        return NotImplemented

    @property
    def uniform(self) -> Any:
        """The number, or an array of it, that all elements equal; None if they may differ."""
        return None

    # Reductions over axes.

    def reduce(self, name: str, axes: tuple[int, ...]) -> Any:
        """Return the sum, maximum, minimum, product, any or all over axes, which are removed."""
        return NotImplemented


def _type(x: Any) -> Any:
    return lengths_of(x), dtype_of(x)
