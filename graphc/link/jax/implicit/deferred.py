"""Dense tangents and cotangents of implicit arrays, and results that have derivatives alone.

The derivative of an implicit array is the derivative of the dense array: a tangent of the fields is
pushed forward to the dense array, and a cotangent of the dense array is pulled back to the fields.
The fields of an implicit result lack the derivative of the function that computed it. JAX keeps a
derivative only beside an array of its shape, so a ``DeferredResult`` holds the function's operands
instead, and nothing of the dense size exists before the derivative is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp

from graphc.implicit.array import ImplicitArray, aux_field, is_implicit
from graphc.implicit.jax_arrays import jax_arrays
from graphc.implicit.straight_through import StraightThrough
from graphc.implicit.treedef import dtype_of, lengths_of
from graphc.link.jax.implicit.applied import is_differentiable, is_zero
from graphc.link.jax.implicit.avals import replace_at

if TYPE_CHECKING:
    from graphc.link.jax.implicit.function_pair import FunctionPair

Densify = Callable[[Any], Any]
"""A function that densifies an implicit array, and returns another array unchanged."""

Cache = dict[Any, Any]
"""Results and tangents of deferred results: one that is used twice is differentiated once."""


def push_forward(densify: Densify, x: Any, t: Any, cache: Cache) -> tuple[Any, Any]:
    """Return an operand and its dense tangent, given the tangents of its arrays.

    Args:
        densify: The function that densifies an array.
        x: The operand.
        t: The tangents of the operand's arrays, in its tree.
        cache: The results and tangents of deferred results so far.

    Returns:
        The operand, in which a deferred result is replaced by the result as its function's rule
        computes it, which has the derivatives of higher order; and the tangent, None for zero.
    """
    if isinstance(x, StraightThrough):
        toward, tangent = push_forward(densify, x.toward, t.toward, cache)
        return StraightThrough(x.array, toward), tangent
    if isinstance(x, DeferredResult):
        return x.push_forward(t.arrays, cache)
    ts = jax.tree.leaves(t)
    wrt = [i for i, leaf in enumerate(ts) if not is_zero(leaf)]
    if not wrt or not is_differentiable(x):
        return x, None
    if not is_implicit(x):
        return x, t
    dense, fields = _function_of_fields(densify, x, wrt)
    return x, jax.jvp(dense, fields, [ts[i] for i in wrt])[1]


def pull_back(densify: Densify, x: Any, g: Any, wanted: Sequence[bool]) -> list[Any]:
    """Return the cotangents of arrays in which an operand is linear, and None for its others.

    Args:
        densify: The function that densifies an array.
        x: The operand.
        g: The cotangent of the dense array.
        wanted: For each of the operand's arrays, whether the operand is linear in it.
    """
    if isinstance(x, StraightThrough):
        count = len(jax.tree.leaves(x.array))
        return [*[None] * count, *pull_back(densify, x.toward, g, wanted[count:])]
    if isinstance(x, DeferredResult):
        return x.pull_back(g, wanted)
    wrt = [i for i, flag in enumerate(wanted) if flag]
    if not wrt or not is_implicit(x):
        return [g if flag else None for flag in wanted]
    dense, fields = _function_of_fields(densify, x, wrt)
    _, pullback = jax.vjp(dense, *fields)
    return replace_at([None] * len(wanted), wrt, pullback(g))


def _function_of_fields(
    densify: Densify, x: Any, wrt: Sequence[int]
) -> tuple[Callable[..., Any], list[Any]]:
    """Return the dense array as a function of some of its fields, and these fields."""
    leaves, tree = jax.tree.flatten(x)

    def dense(*fields: Any) -> Any:
        return densify(jax.tree.unflatten(tree, replace_at(leaves, wrt, fields)))

    return dense, [leaves[i] for i in wrt]


@dataclass(frozen=True)
class DeferredType:
    """A function, and the type of one of its results.

    Attributes:
        function: The function.
        index: The index of the result among the function's results.
        lengths: The result's shape.
        dtype: The result's dtype.
        ndim: The rank of the operands' first array, which is higher in a stack of results.
        tree: The tree of the operands.
        indices: For each leaf of the tree, the index of its array.
    """

    function: FunctionPair
    index: int
    lengths: tuple[Any, ...]
    dtype: Any
    ndim: int
    tree: Any
    indices: tuple[int, ...]


@dataclass(frozen=True, repr=False)
class DeferredResult(ImplicitArray):
    """A result of a function that has the function's derivative, and whose value is not used.

    Attributes:
        arrays: The arrays of the function's operands, each once.
        of: The function, and the result's type.
    """

    materialize_through: ClassVar[bool] = False

    arrays: tuple[Any, ...]
    of: DeferredType = aux_field()  # noqa: RUF009 (a dataclass's field)

    @property
    def _stack(self) -> tuple[Any, ...]:
        """The lengths of a stack of results."""
        lengths = lengths_of(self.arrays[0])
        return tuple(lengths[: len(lengths) - self.of.ndim])

    @property
    def shape(self) -> tuple[Any, ...]:
        return (*self._stack, *self.of.lengths)

    @property
    def dtype(self) -> Any:
        return self.of.dtype

    def materialize(self) -> Any:
        """Return zeros with the derivative of the result."""
        return jax_arrays().with_derivative_of(jnp.zeros(self.shape, self.dtype), self)

    def push_forward(self, tangents: Sequence[Any], cache: Cache) -> tuple[Any, Any]:
        """Return the result as the function's rule computes it, and the result's tangent."""
        key = tuple(map(id, [self.of, *self.arrays, *tangents]))
        if key not in cache:
            wrt = [i for i, t in enumerate(tangents) if not is_zero(t)]

            def push(arrays: Sequence[Any], directions: Sequence[Any]) -> Any:
                ts = self._operands(replace_at(tangents, wrt, directions))
                index, inner = self.of.index, {} if self._stack else cache
                pushed = self.of.function.jvp(self._operands(arrays), ts, [index], inner)
                return pushed and (pushed[0][index], pushed[1][index])

            pushed = self._map_stack(push)(self.arrays, [tangents[i] for i in wrt])
            # The entry holds the objects of its key, so that no other object gets their ids.
            cache[key] = pushed or (self, None), self, tuple(tangents)
        result: tuple[Any, Any] = cache[key][0]
        return result

    def _operands(self, arrays: Sequence[Any]) -> Any:
        return jax.tree.unflatten(self.of.tree, [arrays[i] for i in self.of.indices])

    def pull_back(self, g: Any, wanted: Sequence[bool]) -> list[Any]:
        """Return the cotangents of the arrays in which the result is linear."""
        flags = [wanted[i] for i in self.of.indices]

        def pull(arrays: Sequence[Any], g: Any) -> list[Any]:
            grads = self.of.function.transpose(self._operands(arrays), flags, {self.of.index: g})
            sums: list[Any] = [None] * len(arrays)
            for i, grad in zip(self.of.indices, grads, strict=True):
                sums[i] = grad if sums[i] is None else sums[i] if grad is None else sums[i] + grad
            return sums

        cotangents: list[Any] = self._map_stack(pull)(self.arrays, g)
        return cotangents

    def _map_stack(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Map a function of one result's arrays over a stack of results."""
        return reduce(lambda mapped, _: jax.vmap(mapped), self._stack, function)


def defer(function: FunctionPair, operands: Sequence[Any], index: int, like: Any) -> DeferredResult:
    """Defer the result with an index, which has the shape and dtype of ``like``."""
    leaves, tree = jax.tree.flatten(tuple(operands))
    arrays = {id(x): x for x in leaves}
    index_of = {key: i for i, key in enumerate(arrays)}
    indices = tuple([index_of[id(x)] for x in leaves])
    lengths = tuple(lengths_of(like))
    kind = DeferredType(
        function, index, lengths, dtype_of(like), jnp.ndim(leaves[0]), tree, indices
    )
    return DeferredResult(tuple(arrays.values()), kind)
