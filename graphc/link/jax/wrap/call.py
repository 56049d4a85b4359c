"""The operation that is a JAX function, on every backend that JAX can be called from."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import numpy as np

from graphc.errors import GradientError, OperationError
from graphc.ir import Node, Op, TensorType, TupleType, is_inexact, picks
from graphc.link.jax.backend import WIDENED, backend
from graphc.link.jax.wrap.function import (
    Batched,
    Function,
    Pullback,
    Pushforward,
    TransposedPullback,
)
from graphc.link.jax.wrap.programs import NoPushforwardError
from graphc.link.jax.wrap.types import used


@dataclass(frozen=True, slots=True)
class JaxCall(Op):
    """The results of a JAX function: a tuple of arrays, also where there is one."""

    function: Function

    @property
    def name(self) -> str:
        return f"wrap_jax: {self.function.name}"

    def infer(self, *types: TensorType) -> TupleType:
        # The function is never traced for numbers in place of unknown lengths: it may loop over
        # them. So no length of a result is known to be an argument's.
        known = [tuple(n if isinstance(n, int) else None for n in x.shape) for x in types]
        pairs = zip(types, known, strict=True)
        return TupleType(self.function.types([x.with_shape(shape) for x, shape in pairs]))

    def looks_at(self, *types: TensorType) -> Sequence[bool]:
        return used(self.function, types)

    def perform(self, *values: Any) -> tuple[Any, ...]:
        # Also where the user's code, or graphc's, is being traced.
        with jax.enable_x64(self.function.wide), jax.ensure_compile_time_eval():
            return tuple(map(np.asarray, _jitted(self.function)(*values)))

    def pullback(self, g: Sequence[Any], y: Node, *inputs: Any) -> list[Node | None]:
        given = tuple(i for i, part in enumerate(g) if part is not None)
        wanted = tuple(i for i, x in enumerate(inputs) if is_inexact(x.dtype))
        if not given or not wanted:
            return [None] * len(inputs)
        gs = [g[i] for i in given]
        try:
            return self._pulled_back(wanted, given, gs, inputs)
        except OperationError:
            return self._possible(wanted, given, gs, inputs)

    def _pulled_back(
        self, wanted: tuple[int, ...], given: tuple[int, ...], gs: Sequence[Any], inputs: Any
    ) -> list[Any]:
        made = Node.make(JaxCall(Pullback(self.function, wanted, given)), *inputs, *gs)
        return _placed(picks(made), wanted, len(inputs))

    def _possible(
        self, wanted: tuple[int, ...], given: tuple[int, ...], gs: Sequence[Any], inputs: Any
    ) -> list[Any]:
        """Return the gradients that JAX has; the others are errors, raised on use."""
        found: dict[int, Any] = {}
        for i in wanted:
            try:
                found[i] = self._pulled_back((i,), given, gs, inputs)[i]
            except OperationError as error:
                found[i] = GradientError(error.problem, error.remedy, error.where)
                found[i].__cause__ = error.__cause__
        return [found.get(i) for i in range(len(inputs))]

    def pushforward(self, tangents: Sequence[Any], y: Node, *inputs: Any) -> list[Node | None]:
        moved = tuple(i for i, t in enumerate(tangents) if t is not None)
        items = y.type.items
        wanted = tuple(i for i, item in enumerate(items) if is_inexact(item.dtype))
        if not wanted:
            return [None] * len(items)
        given = [*inputs, *[tangents[i] for i in moved]]
        try:
            made = Node.make(JaxCall(Pushforward(self.function, moved, wanted)), *given)
        except OperationError as error:
            if not isinstance(error.__cause__, NoPushforwardError):
                raise
            made = Node.make(JaxCall(TransposedPullback(self.function, moved, wanted)), *given)
        return _placed(picks(made), wanted, len(items))

    def batch(self, size: Any, batched: Sequence[bool], *inputs: Any) -> Node:
        return Node.make(JaxCall(Batched(self.function, batched)), *inputs)

    def token(self) -> str:
        return f"JaxCall({self.function.key()})"

    def described(self) -> tuple[str, tuple[tuple[str, Any], ...]]:
        """Return a key without the numbers in it, and these numbers, to report what changed."""
        kind, numbers = self.function.described()
        return f"{self.name}({kind})", numbers

    def unwritten(self) -> Hashable:
        return self.function.apart


def _placed(parts: Sequence[Any], places: Sequence[int], number: int) -> list[Any]:
    """Return a list with these values at these places, and None elsewhere."""
    found = dict(zip(places, parts, strict=True))
    return [found.get(i) for i in range(number)]


@lru_cache(256)
def _jitted(function: Function) -> Any:
    return jax.jit(function.__call__)


# Within the function there may be float64, whatever it takes and gives.
WIDENED.add(JaxCall)


@backend.lower(JaxCall)
def jax_call(op: JaxCall, *values: Any) -> tuple[Any, ...]:
    """Call the function, traced with the rest."""
    with jax.enable_x64(op.function.wide):
        return op.function(*values)
