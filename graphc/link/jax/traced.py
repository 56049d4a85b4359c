"""A program as functions that JAX traces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from graphc.implicit.policy import dense, materializing, policy_of, strictest
from graphc.link.backend import Executable
from graphc.link.call_spec import CallSpec
from graphc.link.jax.bounded import Guard, LengthCheck, Ragged, checked, guarded, in_own_lengths
from graphc.link.jax.counts import given_lengths, plain
from graphc.link.jax.mesh import Layout, over
from graphc.link.program import Program


class TracedProgram:
    """A program as a function that JAX traces; the program is made when that happens.

    Attributes:
        layout: The mesh that it is traced for, on which its arguments lie.
        function: Gives the outputs, or the only one; where some are in buffers, as ``bounded``.
        is_bounded: Whether some are.
    """

    def __init__(
        self, spec: CallSpec, program: Callable[[], Program], layout: Layout | None = None
    ) -> None:
        self.program = program
        self.layout = layout
        self.policy = policy_of()
        self.single = spec.single
        self.dtypes = [type.numpy_dtype for type in spec.results]
        self.is_bounded = spec.follows
        self.function = self.bounded if self.is_bounded else self.known

    def known(self, *arguments: Any) -> Any:
        """Return the outputs where all lengths are known."""
        found = self._traced(arguments)
        results = [jnp.asarray(plain(y), d) for y, d in zip(found, self.dtypes, strict=True)]
        results = self._placed(results, arguments)
        return results[0] if self.single else results

    def bounded(self, *arguments: Any) -> tuple[list[Any], list[LengthCheck]]:
        """Return the outputs, some in buffers, and the checks of lengths."""
        pending: list[LengthCheck] = []
        with checked(pending):
            found = self._traced(arguments)
        results = [
            y if isinstance(y, Ragged) else jnp.asarray(plain(y), d)
            for y, d in zip(found, self.dtypes, strict=True)
        ]
        return self._placed(results, arguments), pending

    def padded(self, arguments: Sequence[Any], lengths: Any, count: int) -> tuple[Any, Any]:
        """Return the outputs, some in buffers, and the checks and conditions of lengths.

        Args:
            arguments: Some of them in buffers, with formulas of the lengths.
            lengths: A traced vector of these.
            count: How many there are.
        """
        guards: dict[Guard, None] = {}
        parts = [lax.index_in_dim(lengths, i, keepdims=False) for i in range(count)]
        with given_lengths(parts), guarded(guards):
            results, pending = self.bounded(*arguments)
        return results, [*pending, *guards]

    def _traced(self, arguments: Sequence[Any]) -> list[Any]:
        """Return the outputs; implicit ones become whole as the policies allow."""
        given = arguments if self.layout is None else map(self.layout.entered, arguments)
        with materializing(strictest(self.policy, policy_of())), over(self.layout):
            return [dense(y, "the output") for y in self.program().trace(*given)]

    def _placed(self, results: list[Any], arguments: Sequence[Any]) -> list[Any]:
        """The outputs on the mesh, where there is one."""
        layout = self.layout
        if layout is None:
            return results
        declared = [getattr(y.op, "sharding", None) for y in self.program().graph.outputs]
        if not any(isinstance(x, jax.Array) for x in arguments):
            # Nothing else says where the program runs.
            pairs = zip(results, declared, strict=True)
            results = [layout.anyhow(y) if s is None else y for y, s in pairs]
        return [layout.left(y, s) for y, s in zip(results, declared, strict=True)]

    def cut(self, execute: Executable) -> Executable:
        """Turn a function that returns buffers into one that cuts them to length."""

        def call(*arguments: Any) -> Any:
            results, pending = execute(*arguments)
            for check in pending:
                check.verify()
            results = in_own_lengths(results)
            return results[0] if self.single else results

        return call
