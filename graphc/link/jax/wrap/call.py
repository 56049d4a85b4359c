"""The operation that applies a JAX function, on every backend that JAX can be called from."""

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
from graphc.link.jax.jaxprs import replace_at
from graphc.link.jax.wrap.function import (
    Batched,
    JaxFunction,
    NoPushforwardError,
    Pullback,
    Pushforward,
    TransposedPullback,
)
from graphc.link.jax.wrap.types import used_arguments


@dataclass(frozen=True, slots=True)
class JaxCall(Op):
    """The results of a JAX function: a tuple of arrays, also where there is one."""

    function: JaxFunction

    @property
    def name(self) -> str:
        return f"wrap_jax: {self.function.name}"

    def infer(self, *types: TensorType) -> TupleType:
        # The function may loop over an axis, so symbolic lengths are never replaced by numbers,
        # and no length of a result is known to equal an argument's.
        shapes = [tuple(n if isinstance(n, int) else None for n in x.shape) for x in types]
        pairs = zip(types, shapes, strict=True)
        return TupleType(self.function.types([x.with_shape(shape) for x, shape in pairs]))

    def looks_at(self, *types: TensorType) -> Sequence[bool]:
        return used_arguments(self.function, types)

    def perform(self, *values: Any) -> tuple[Any, ...]:
        # The user's code, or graphc's, may be traced now: the function is evaluated anyway.
        with jax.enable_x64(self.function.wide), jax.ensure_compile_time_eval():
            return tuple(map(np.asarray, _jit(self.function)(*values)))

    def pullback(self, g: Sequence[Any], y: Node, *inputs: Any) -> list[Node | None]:
        outputs = tuple(i for i, cotangent in enumerate(g) if cotangent is not None)
        wrt = tuple(i for i, x in enumerate(inputs) if is_inexact(x.dtype))
        if not outputs or not wrt:
            return [None] * len(inputs)
        gs = [g[i] for i in outputs]
        try:
            return self._gradients(wrt, outputs, gs, inputs)
        except OperationError:
            return self._gradients_or_errors(wrt, outputs, gs, inputs)

    def _gradients(
        self, wrt: tuple[int, ...], outputs: tuple[int, ...], gs: Sequence[Any], inputs: Any
    ) -> list[Any]:
        node = Node.make(JaxCall(Pullback(self.function, wrt, outputs)), *inputs, *gs)
        return replace_at([None] * len(inputs), wrt, picks(node))

    def _gradients_or_errors(
        self, wrt: tuple[int, ...], outputs: tuple[int, ...], gs: Sequence[Any], inputs: Any
    ) -> list[Any]:
        """Return the gradients that JAX has; the others are errors, raised on use."""
        gradients: dict[int, Any] = {}
        for i in wrt:
            try:
                gradients[i] = self._gradients((i,), outputs, gs, inputs)[i]
            except OperationError as error:
                gradients[i] = GradientError(error.problem, error.remedy, error.where)
                gradients[i].__cause__ = error.__cause__
        return [gradients.get(i) for i in range(len(inputs))]

    def pushforward(self, tangents: Sequence[Any], y: Node, *inputs: Any) -> list[Node | None]:
        wrt = tuple(i for i, t in enumerate(tangents) if t is not None)
        items = y.type.items
        outputs = tuple(i for i, item in enumerate(items) if is_inexact(item.dtype))
        if not outputs:
            return [None] * len(items)
        operands = [*inputs, *[tangents[i] for i in wrt]]
        try:
            node = Node.make(JaxCall(Pushforward(self.function, wrt, outputs)), *operands)
        except OperationError as error:
            if not isinstance(error.__cause__, NoPushforwardError):
                raise
            node = Node.make(JaxCall(TransposedPullback(self.function, wrt, outputs)), *operands)
        return replace_at([None] * len(items), outputs, picks(node))

    def batch(self, size: Any, batched: Sequence[bool], *inputs: Any) -> Node:
        return Node.make(JaxCall(Batched(self.function, batched)), *inputs)

    def token(self) -> str:
        return f"JaxCall({self.function.key()})"

    def key_and_numbers(self) -> tuple[str, tuple[tuple[str, Any], ...]]:
        """Return a key without the numbers in it, and these numbers, to report what changed."""
        kind, numbers = self.function.key_and_numbers()
        return f"{self.name}({kind})", numbers

    def unwritten(self) -> Hashable:
        return self.function.identity


@lru_cache(256)
def _jit(function: JaxFunction) -> Any:
    return jax.jit(function.__call__)


# The function may use float64 inside, whatever the dtypes of its arguments and results.
WIDENED.add(JaxCall)


@backend.lower(JaxCall)
def jax_call(op: JaxCall, *values: Any) -> tuple[Any, ...]:
    """Call the function, which becomes part of the traced program."""
    with jax.enable_x64(op.function.wide):
        return op.function(*values)
