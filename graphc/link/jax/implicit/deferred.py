"""Results of functions that are not computed, and whose derivatives are.

The derivative of an implicit result is that of the whole array, and JAX keeps a derivative beside
an array of its own shape only. A deferred result holds the arrays of the function's operands in
that array's place, so nothing of its size exists before the derivative is needed.
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

Known = dict[Any, Any]
"""What was found before of deferred results, so that one that is read twice is derived once."""


class Differentiable(Protocol):
    """A function of arrays, dense or implicit, with several results.

    Two that are equal compute the same.
    """

    def slope(
        self, operands: Sequence[Any], tangents: Sequence[Any], result: ResultType, known: Known
    ) -> Any:
        """Return a result's dense tangent, given those of the operands' arrays; None for zero."""

    def computed(self, operands: Sequence[Any], result: ResultType) -> Any:
        """Return the whole result; None where its derivative is not that of how it is computed."""

    def advanced(
        self, operands: Sequence[Any], moves: Sequence[Any], result: ResultType, known: Known
    ) -> Any:
        """Return an array with the derivative that a result has in its own derivative.

        Args:
            operands: Dense or implicit.
            moves: Whether their arrays have tangents.
            result: Which result.
            known: What was found before.
        """


@dataclass(frozen=True)
class ResultType:
    """A result of a function: which, its shape and its dtype.

    Attributes:
        place: Its index among the results.
        shape: Its shape.
        dtype: Its dtype.
    """

    place: int
    shape: tuple[int, ...]
    dtype: Any


@dataclass(frozen=True)
class Application:
    """A function applied to operands that are made of arrays, each of which is held once.

    Attributes:
        function: It.
        operands: For each operand, its tree and the indices of its arrays.
        result: Which result is meant.
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

    def built(self, arrays: Sequence[Any]) -> list[Any]:
        """Build the operands from their arrays, or such trees of their tangents."""
        found = {
            key: jax.tree.unflatten(key[0], [arrays[i] for i in key[1]]) for key in self.operands
        }
        return [found[key] for key in self.operands]


@dataclass(frozen=True, repr=False)
class DeferredResult(ImplicitArray):
    """A result of a function that has its derivative, and whose value is not used.

    Attributes:
        arrays: Those of the operands.
        application: How the function is applied to them.
    """

    materialize_through: ClassVar[bool] = False

    arrays: tuple[Any, ...]
    application: Application = aux_field()  # noqa: RUF009 (a dataclass's field)

    @classmethod
    def of(cls, function: Differentiable, operands: Sequence[Any], place: int, like: Any) -> Any:
        """Defer a result, which is of the shape and dtype of an array."""
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
        result = ResultType(place, lengths_of(like), dtype_of(like))  # type: ignore[arg-type]
        return cls(tuple(arrays), Application(function, tuple(specs), result, jnp.ndim(arrays[0])))

    @property
    def shape(self) -> tuple[Any, ...]:
        lengths = lengths_of(self.arrays[0])
        return (*lengths[: len(lengths) - self.application.ndim], *self.application.result.shape)

    @property
    def dtype(self) -> Any:
        return self.application.result.dtype

    def materialize(self) -> Any:
        """Return zeros with the derivative."""
        return jax_arrays().joined(jnp.zeros(self.shape, self.dtype), self)

    def slope(self, tangents: Sequence[Any], known: Known) -> Any:
        """Return the dense tangent, given those of the arrays; None for zero."""
        key = self.application, tuple(map(id, self.arrays)), tuple(map(id, tangents))
        if key not in known:
            known[key] = self._slope(tangents, known)
        return known[key]

    def _slope(self, tangents: Sequence[Any], known: Known) -> Any:
        moving = [i for i, t in enumerate(tangents) if not is_zero(t)]
        to = self.application

        def slope(known: Known, arrays: Sequence[Any], slopes: Sequence[Any]) -> Any:
            given = dict(zip(moving, slopes, strict=True))
            moved = [given.get(i, t) for i, t in enumerate(tangents)]
            return to.function.slope(to.built(arrays), to.built(moved), to.result, known)

        return self._by_elements(slope, known, self.arrays, [tangents[i] for i in moving])

    def computed(self) -> Any:
        """Return the whole array; None where its derivative is not that of how it is computed.

        So a tangent is transposed as what it is, and not as its own derivative, without end.
        """
        to = self.application

        def computed(known: Known, arrays: Sequence[Any]) -> Any:
            return to.function.computed(to.built(arrays), to.result)

        return self._by_elements(computed, {}, self.arrays)

    def advanced(self, moves: Sequence[bool], known: Known) -> Any:
        """Return an array with the derivative that this one has in its own derivative.

        A derivative of a function with a rule is that of its rule, and so the derivative of the
        derivative is that of the value which the rule gives.

        Args:
            moves: Which of its arrays have tangents.
            known: What was found before.
        """
        key = self.application, tuple(map(id, self.arrays)), tuple(moves)
        if key not in known:
            known[key] = self._advanced(moves, known)
        return known[key]

    def _advanced(self, moves: Sequence[bool], known: Known) -> Any:
        to = self.application

        def advanced(known: Known, arrays: Sequence[Any]) -> Any:
            return to.function.advanced(to.built(arrays), to.built(moves), to.result, known)

        found = self._by_elements(advanced, known, self.arrays)
        return self if found is None else found

    def _by_elements(self, function: Any, known: Known, *arrays: Any) -> Any:
        """Call a function of the arrays of one application for each of a stack of such."""
        depth = self.ndim - len(self.application.result.shape)
        if not depth:
            return function(known, *arrays)
        of_stack: Any = partial(function, {})
        for _ in range(depth):
            of_stack = jax.vmap(of_stack)
        return of_stack(*arrays)


flat: Callable[[Any], Any] = partial(zero_from_primal, symbolic_zeros=True)
"""The tangent of zero of an array, which is never an array itself."""


def is_zero(t: Any) -> bool:
    """Whether it stands for a tangent of zero."""
    return isinstance(t, SymbolicZero) or t.dtype == jax.dtypes.float0
