"""The derivative of a function's implicit result, which is computed when it is needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp

from graphc.implicit.array import ImplicitArray, aux_field, is_implicit
from graphc.implicit.straight_through import StraightThrough
from graphc.implicit.treedef import dtype_of, lengths_of
from graphc.link.jax.implicit.avals import OperandTree

if TYPE_CHECKING:
    from graphc.link.jax.implicit.function_pair import FunctionPair

Cache = dict[Any, Any]
"""Zeros with the derivatives of deferred results: one that is used twice is differentiated once."""


@dataclass(frozen=True, repr=False)
class DeferredResult(ImplicitArray):
    """A result of a function that has the function's derivative, and whose value is not used.

    Attributes:
        arrays: The arrays of the function's operands, each once.
        function: The function.
        index: The index of the result among the function's results.
        lengths: The result's shape, without the axes of a stack of results.
        kind: The result's dtype.
        rank: The rank of the first array, without the axes of a stack.
        operands: The structure of the operands.
    """

    materialize_through: ClassVar[bool] = False

    arrays: tuple[Any, ...]
    function: FunctionPair = aux_field()  # noqa: RUF009 (a dataclass's field)
    index: int = aux_field()
    lengths: tuple[Any, ...] = aux_field()
    kind: Any = aux_field()  # noqa: RUF009
    rank: int = aux_field()
    operands: OperandTree = aux_field()  # noqa: RUF009

    @property
    def _stack(self) -> tuple[Any, ...]:
        """The lengths of a stack of results."""
        lengths = lengths_of(self.arrays[0])
        return tuple(lengths[: len(lengths) - self.rank])

    @property
    def shape(self) -> tuple[Any, ...]:
        return (*self._stack, *self.lengths)

    @property
    def dtype(self) -> Any:
        return self.kind

    def materialize(self) -> Any:
        """Return zeros with the derivative of the result."""
        return self.zeros({})

    def zeros(self, cache: Cache) -> Any:
        """Return zeros with the derivative of the result, given those computed so far."""
        key = (self.index, *map(id, (self.function, self.operands, *self.arrays)))

        def zeros(*arrays: Any) -> Any:
            inner = {} if self._stack else cache
            operands = self.operands.build(arrays)
            towards = [dense_toward(lambda x: x, x, inner) for x in operands]
            operands = [*map(with_toward, operands, towards)]
            return self.function.zeros(operands, self.index, self.lengths, self.kind)

        if key not in cache:
            mapped: Callable[..., Any] = reduce(lambda f, _: jax.vmap(f), self._stack, zeros)
            cache[key] = mapped(*self.arrays)
        return cache[key]


def toward_of(x: Any) -> Any:
    """Return the array that an operand has its derivative from."""
    while isinstance(x, StraightThrough):
        x = x.toward
    return x


def with_toward(x: Any, toward: Any) -> Any:
    """Return an operand whose derivative comes from ``toward``, or from its own fields."""
    if isinstance(x, StraightThrough):
        return StraightThrough(x.array, toward)
    return x if is_implicit(x) and not isinstance(x, DeferredResult) else toward


def dense_toward(densify: Callable[[Any], Any], x: Any, cache: Cache) -> Any:
    """Return a dense array with the derivative of an operand; its value is not used.

    Args:
        densify: A function that densifies an implicit array, and returns another array unchanged.
        x: The operand.
        cache: The zeros of deferred results so far.
    """
    toward = toward_of(x)
    return toward.zeros(cache) if isinstance(toward, DeferredResult) else densify(toward)


def defer(function: FunctionPair, operands: Sequence[Any], index: int, like: Any) -> DeferredResult:
    """Defer the result with an index, which has the shape and dtype of ``like``."""
    arrays, tree = OperandTree.of(operands)
    lengths, rank = tuple(lengths_of(like)), jnp.ndim(arrays[0])
    return DeferredResult(tuple(arrays), function, index, lengths, dtype_of(like), rank, tree)
