"""Programs as functions that JAX traces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from graphc.implicit.policy import as_dense, materializing, policy_of, strictest
from graphc.link.backend import Executable
from graphc.link.call_spec import CallSpec
from graphc.link.jax.bounded import (
    Guard,
    LengthCheck,
    Ragged,
    collect_checks,
    collect_guards,
    trim_results,
)
from graphc.link.jax.counts import given_lengths, plain
from graphc.link.jax.mesh import MeshLayout, trace_over
from graphc.link.program import Program


class TracedProgram:
    """A program as a function that JAX traces; the program is created when JAX traces it.

    Attributes:
        layout: The mesh of the arguments, for which the program is traced; None without a mesh.
        function: A function that returns the outputs, or the only output; if some outputs are in
            buffers, the method ``bounded``.
        is_bounded: Whether some outputs are in buffers.
    """

    def __init__(
        self, spec: CallSpec, program: Callable[[], Program], layout: MeshLayout | None = None
    ) -> None:
        self.program = program
        self.layout = layout
        self.policy = policy_of()
        self.single = spec.single
        self.dtypes = [type.numpy_dtype for type in spec.results]
        self.is_bounded = spec.follows
        self.function = self.trace_bounded if self.is_bounded else self.exact

    def exact(self, *arguments: Any) -> Any:
        """Return the outputs if all lengths are static."""
        outputs = self._trace(arguments)
        results = [jnp.asarray(plain(y), d) for y, d in zip(outputs, self.dtypes, strict=True)]
        results = self._reshard(results, arguments)
        return results[0] if self.single else results

    def trace_bounded(self, *arguments: Any) -> tuple[list[Any], list[LengthCheck]]:
        """Return the outputs, some in buffers, and the checks of lengths."""
        pending: list[LengthCheck] = []
        with collect_checks(pending):
            outputs = self._trace(arguments)
        results = [
            y if isinstance(y, Ragged) else jnp.asarray(plain(y), d)
            for y, d in zip(outputs, self.dtypes, strict=True)
        ]
        return self._reshard(results, arguments), pending

    def trace_padded(self, arguments: Sequence[Any], lengths: Any, count: int) -> tuple[Any, Any]:
        """Return the outputs, some in buffers, and the checks and conditions of lengths.

        Args:
            arguments: The arguments, some in buffers, with formulas of the lengths.
            lengths: A traced vector of the lengths.
            count: The number of lengths.
        """
        guards: dict[Guard, None] = {}
        scalars = [lax.index_in_dim(lengths, i, keepdims=False) for i in range(count)]
        with given_lengths(scalars), collect_guards(guards):
            results, pending = self.trace_bounded(*arguments)
        return results, [*pending, *guards]

    def _trace(self, arguments: Sequence[Any]) -> list[Any]:
        """Return the outputs; implicit outputs are densified as the policies allow."""
        inputs = arguments if self.layout is None else map(self.layout.drop_explicit, arguments)
        with materializing(strictest(self.policy, policy_of())), trace_over(self.layout):
            return [as_dense(y, "the output") for y in self.program().trace(*inputs)]

    def _reshard(self, results: list[Any], arguments: Sequence[Any]) -> list[Any]:
        layout = self.layout
        if layout is None:
            return results
        declared = [getattr(y.op, "sharding", None) for y in self.program().graph.outputs]
        if not any(isinstance(x, jax.Array) for x in arguments):
            # Without array arguments, only the results tell JAX the devices.
            pairs = zip(results, declared, strict=True)
            results = [layout.constrain_to_mesh(y) if s is None else y for y, s in pairs]
        return [layout.reshard_result(y, s) for y, s in zip(results, declared, strict=True)]

    def trim_results(self, execute: Executable) -> Executable:
        """Wrap a function that returns buffers so that it trims them to their valid lengths."""

        def call(*arguments: Any) -> Any:
            results, pending = execute(*arguments)
            for check in pending:
                check.verify()
            results = trim_results(results)
            return results[0] if self.single else results

        return call
