"""Results of functions that are not computed, and whose derivatives are.

The derivative of an implicit result is the derivative of the dense array, and JAX keeps a
derivative only beside an array of its shape. A deferred result holds the arrays of the function's
operands instead, so nothing of the dense size exists before the derivative is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, Protocol

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero, zero_from_primal

from graphc.implicit.array import ImplicitArray, aux_field
from graphc.implicit.jax_arrays import jax_arrays
from graphc.implicit.treedef import dtype_of, lengths_of
from graphc.link.jax.implicit.avals import replace_at

Cache = dict[Any, Any]
"""Derivatives of deferred results: a result that is read twice is differentiated once."""


class Differentiable(Protocol):
    """A function of arrays, dense or implicit, with several results.

    Equal functions compute the same.
    """

    def tangent(
        self, operands: Sequence[Any], tangents: Sequence[Any], result: ResultType, cache: Cache
    ) -> Any:
        """Return a result's dense tangent, given the operands' tangents; None for zero."""

    def compute(self, operands: Sequence[Any], result: ResultType) -> Any:
        """Return the dense result; None if its derivative is not the derivative of its value."""

    def rule_primal(
        self, operands: Sequence[Any], has_tangents: Sequence[Any], result: ResultType, cache: Cache
    ) -> Any:
        """Return a result as the derivative rule computes it; None if the rule changes nothing.

        Args:
            operands: The operands, dense or implicit.
            has_tangents: For each operand, which of its arrays have tangents.
            result: The result's type.
            cache: Derivatives of deferred results.
        """


@dataclass(frozen=True)
class ResultType:
    """A result of a function.

    Attributes:
        index: The index among the function's results.
        shape: The result's shape.
        dtype: The result's dtype.
    """

    index: int
    shape: tuple[int, ...]
    dtype: Any


@dataclass(frozen=True)
class FunctionApplication:
    """A function applied to operands that are trees of arrays; each array is held once.

    Attributes:
        function: The function.
        operands: For each operand, its tree and the indices of its arrays.
        result: The result of the function that is deferred.
        ndim: The rank of the first array, which is higher in a stack of applications.
    """

    function: Differentiable
    operands: tuple[tuple[Any, tuple[int, ...]], ...]
    result: ResultType
    ndim: int

    @cached_property
    def _hash(self) -> int:
        return hash((self.function, self.operands, self.result, self.ndim))

    def __hash__(self) -> int:
        return self._hash

    def unflatten(self, arrays: Sequence[Any]) -> list[Any]:
        """Return the operands' trees, with these arrays or tangents as leaves."""
        # Equal operands stay one object, by whose identity derivatives are cached.
        trees = {
            key: jax.tree.unflatten(key[0], [arrays[i] for i in key[1]]) for key in self.operands
        }
        return [trees[key] for key in self.operands]


@dataclass(frozen=True, repr=False)
class DeferredResult(ImplicitArray):
    """A result of a function that has the function's derivative, and whose value is not used.

    Attributes:
        arrays: The arrays of the operands.
        application: The application of the function to the operands.
    """

    materialize_through: ClassVar[bool] = False

    arrays: tuple[Any, ...]
    application: FunctionApplication = aux_field()  # noqa: RUF009 (a dataclass's field)

    @classmethod
    def of(cls, function: Differentiable, operands: Sequence[Any], index: int, like: Any) -> Any:
        """Defer the result with an index, which has the shape and dtype of ``like``."""
        arrays: list[Any] = []
        seen: dict[int, int] = {}
        specs = []
        for x in operands:
            leaves, tree = jax.tree.flatten(x)
            indices = []
            for leaf in leaves:
                if id(leaf) not in seen:
                    seen[id(leaf)] = len(arrays)
                    arrays.append(leaf)
                indices.append(seen[id(leaf)])
            specs.append((tree, tuple(indices)))
        result = ResultType(index, lengths_of(like), dtype_of(like))  # type: ignore[arg-type]
        application = FunctionApplication(function, tuple(specs), result, jnp.ndim(arrays[0]))
        return cls(tuple(arrays), application)

    @property
    def shape(self) -> tuple[Any, ...]:
        lengths = lengths_of(self.arrays[0])
        return (*lengths[: len(lengths) - self.application.ndim], *self.application.result.shape)

    @property
    def dtype(self) -> Any:
        return self.application.result.dtype

    def materialize(self) -> Any:
        """Return zeros with the derivative of the result."""
        return jax_arrays().with_derivative_of(jnp.zeros(self.shape, self.dtype), self)

    def tangent(self, tangents: Sequence[Any], cache: Cache) -> Any:
        """Return the dense tangent, given the arrays' tangents; None for zero."""
        key = self.application, tuple(map(id, self.arrays)), tuple(map(id, tangents))
        if key not in cache:
            cache[key] = self._tangent(tangents, cache)
        return cache[key]

    def _tangent(self, tangents: Sequence[Any], cache: Cache) -> Any:
        wrt = [i for i, t in enumerate(tangents) if not is_zero(t)]
        to = self.application

        def tangent(cache: Cache, arrays: Sequence[Any], nonzero: Sequence[Any]) -> Any:
            ts = to.unflatten(replace_at(tangents, wrt, nonzero))
            return to.function.tangent(to.unflatten(arrays), ts, to.result, cache)

        return self._map_stack(tangent, cache, self.arrays, [tangents[i] for i in wrt])

    def compute(self) -> Any:
        """Return the dense array; None if its derivative is not the derivative of its value.

        A tangent is transposed by its value: transposed by its derivative, it would need the
        transpose of another tangent, without end.
        """
        to = self.application

        def compute(_: Cache, arrays: Sequence[Any]) -> Any:
            return to.function.compute(to.unflatten(arrays), to.result)

        return self._map_stack(compute, {}, self.arrays)

    def rule_primal(self, has_tangents: Sequence[bool], cache: Cache) -> Any:
        """Return the array as the derivative rule of the function computes it.

        The second derivative of a function with a custom rule is the derivative of the rule, in
        which the primal result is the value that the rule returns.

        Args:
            has_tangents: For each of the arrays, whether it has a tangent.
            cache: Derivatives of deferred results.
        """
        key = self.application, tuple(map(id, self.arrays)), tuple(has_tangents)
        if key not in cache:
            cache[key] = self._rule_primal(has_tangents, cache)
        return cache[key]

    def _rule_primal(self, has_tangents: Sequence[bool], cache: Cache) -> Any:
        to = self.application

        def rule_primal(cache: Cache, arrays: Sequence[Any]) -> Any:
            flags = to.unflatten(has_tangents)
            return to.function.rule_primal(to.unflatten(arrays), flags, to.result, cache)

        y = self._map_stack(rule_primal, cache, self.arrays)
        return self if y is None else y

    def _map_stack(self, function: Any, cache: Cache, *arrays: Any) -> Any:
        """Call a function of one application's arrays, or map it over a stack of applications."""
        depth = self.ndim - len(self.application.result.shape)
        if not depth:
            return function(cache, *arrays)
        mapped: Any = partial(function, {})
        for _ in range(depth):
            mapped = jax.vmap(mapped)
        return mapped(*arrays)


zero_tangent: Callable[[Any], Any] = partial(zero_from_primal, symbolic_zeros=True)
"""The symbolic zero tangent of an array."""


def is_zero(t: Any) -> bool:
    """Return whether a tangent is a symbolic zero."""
    return isinstance(t, SymbolicZero) or t.dtype == jax.dtypes.float0
