"""Programs as functions that JAX traces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from graphc.implicit.policy import as_dense, materializing, policy_of, strictest
from graphc.link.backend import Executable
from graphc.link.call_spec import CallSpec
from graphc.link.host import analyse
from graphc.link.jax.mesh import MeshLayout, trace_over
from graphc.link.jax.trim import trim, verify
from graphc.link.padding.arguments import PaddedAxis, pad_program
from graphc.link.padding.counts import is_known
from graphc.link.padding.results import PaddedResults
from graphc.link.program import Program


class TracedProgram:
    """A program as a function that JAX traces; the program is created when JAX traces it.

    Attributes:
        layout: The mesh of the arguments, for which the program is traced; None without a mesh.
        function: A function that returns the outputs, or the only output; if the number of steps of
            a loop decides a length, the method ``trace_padded``.
        is_padded: Whether the function returns ``PaddedResults``.
    """

    def __init__(
        self, spec: CallSpec, program: Callable[[], Program], layout: MeshLayout | None = None
    ) -> None:
        self.program = program
        self.layout = layout
        self.policy = policy_of()
        self.single = spec.single
        self.dtypes = [type.numpy_dtype for type in spec.results]
        self.is_padded = spec.follows
        self.function = self.trace_padded if self.is_padded else self.exact

    def exact(self, *arguments: Any) -> Any:
        """Return the outputs if all lengths are static."""
        outputs = self._trace(self.program(), arguments)
        results = [jnp.asarray(y, d) for y, d in zip(outputs, self.dtypes, strict=True)]
        results = self._reshard(results, arguments)
        return results[0] if self.single else results

    def trace_padded(
        self, *arguments: Any, axes: Sequence[PaddedAxis] = (), lengths: Any = None
    ) -> PaddedResults:
        """Return the outputs for padded arguments, with their lengths.

        Args:
            arguments: The arguments; those that are NumPy arrays are part of the program.
            axes: The padded axes, and the arguments that are numbers with bounds.
            lengths: A vector of their lengths and numbers; None if axes are numbers alone, which
                are read from the arguments.
        """
        passes_lengths = lengths is not None
        padded = pad_program(self.program(), arguments, axes, passes_lengths=passes_lengths)
        run = Program(padded.graph, self.program().backend, analyse(padded.graph))
        operands = [x for x in arguments if not is_known(x)]
        ys = self._trace(run, [*operands, lengths] if passes_lengths else operands)
        buffers = [jnp.asarray(y, d) for y, d in zip(ys, self.dtypes, strict=False)]
        ys[: len(buffers)] = self._reshard(buffers, arguments)
        return PaddedResults.of(ys, padded)

    def _trace(self, program: Program, arguments: Sequence[Any]) -> list[Any]:
        """Return a program's outputs; implicit outputs are densified as the policies allow."""
        inputs = arguments if self.layout is None else map(self.layout.drop_explicit, arguments)
        with materializing(strictest(self.policy, policy_of())), trace_over(self.layout):
            return [as_dense(y, "the output") for y in program.trace(*inputs)]

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

    def trim(self, execute: Executable) -> Executable:
        """Wrap a function that returns ``PaddedResults`` so that it cuts them to their lengths."""

        def call(*arguments: Any) -> Any:
            padded = execute(*arguments)
            verify(padded)
            results = trim(padded)
            return results[0] if self.single else results

        return call
