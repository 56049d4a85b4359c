"""Programs as functions that JAX traces, and their results cut to their lengths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graphc.errors import DynamicShapeError
from graphc.implicit.policy import as_dense, materializing, policy_of, strictest
from graphc.link.backend import Executable
from graphc.link.call_spec import CallSpec
from graphc.link.host import analyse
from graphc.link.jax.mesh import MeshLayout, trace_over
from graphc.link.padding.counts import is_known
from graphc.link.padding.program import PaddedAxes, PaddedResults, pad_program
from graphc.link.program import Program


class TracedProgram:
    """A program as a function that JAX traces; the program is created when JAX traces it.

    Attributes:
        layout: The mesh of the arguments, for which the program is traced; None without a mesh.
        function: A function that returns the outputs, or the only output; if the number of steps of
            a loop decides a length, the method ``trace_buffers``.
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
        self.function = self.trace_buffers if self.is_padded else self.exact

    def exact(self, *arguments: Any) -> Any:
        """Return the outputs if all lengths are static."""
        outputs = self._trace(self.program(), arguments)
        results = [jnp.asarray(y, d) for y, d in zip(outputs, self.dtypes, strict=True)]
        results = self._reshard(results, arguments)
        return results[0] if self.single else results

    def trace_buffers(
        self, *arguments: Any, axes: PaddedAxes = MappingProxyType({}), lengths: Any = None
    ) -> PaddedResults:
        """Return the outputs for padded arguments, with their lengths.

        Args:
            arguments: The arguments; those that are NumPy arrays are part of the program.
            axes: The bounds of padded axes, and of arguments that are numbers.
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


# Results cut to their lengths.

jax.tree_util.register_pytree_node(
    PaddedResults,
    lambda x: ((x.buffers, x.numbers), (x.lengths, x.comparisons)),
    lambda rest, arrays: PaddedResults(*arrays, *rest),
)


def verify(padded: PaddedResults, lengths: Sequence[int] = ()) -> None:
    """Raise the error of a comparison that fails; numbers that JAX traces are not compared."""
    if not any(isinstance(n, jax.core.Tracer) for n in padded.numbers):
        padded.verify(lengths)


def trim(padded: PaddedResults, lengths: Sequence[int] = ()) -> list[Any]:
    """Return results cut to their lengths, by NumPy: JAX would compile a slice for each length.

    Args:
        padded: The results.
        lengths: The passed lengths.

    Raises:
        DynamicShapeError: If a length is unknown, because JAX traces the user's code.
    """
    try:
        shapes = padded.shapes(lengths)
    except jax.errors.ConcretizationTypeError as error:
        raise DynamicShapeError(
            "A result has a length that is not known while JAX traces.",
            "Call the function outside of jax.jit, jax.vmap and jax.grad.",
        ) from error
    trimmed = list(padded.buffers)
    cut = []
    for i, (buffer, shape) in enumerate(zip(padded.buffers, shapes, strict=True)):
        if shape == buffer.shape:
            continue
        if isinstance(buffer, jax.core.Tracer):
            trimmed[i] = lax.slice(buffer, [0] * buffer.ndim, shape)
        else:
            trimmed[i] = np.asarray(buffer)[tuple([slice(n) for n in shape])]
            cut.append(i)
    if cut:
        first = padded.buffers[cut[0]]
        shardings = [padded.buffers[i].sharding for i in cut] if first.committed else None
        # One call of device_put, because a call costs more than the transfer of an array.
        arrays = jax.device_put([trimmed[i] for i in cut], shardings)
        for i, y in zip(cut, arrays, strict=True):
            trimmed[i] = y
    return trimmed
