"""Programs padded to buckets in JAX: padded arguments, executables and fast calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from graphc.link.backend import Executable
from graphc.link.call_spec import CallSpec
from graphc.link.compile_context import CompileContext
from graphc.link.jax.call_key import KnownArguments, settings
from graphc.link.jax.executables import AbsentError, Executables, in_64_bits, on_device
from graphc.link.jax.traced import TracedProgram, trim, verify
from graphc.link.padding.buckets import (
    Axis,
    BucketCache,
    Bucketed,
    bounds_of,
    bucket_of,
    pad_arguments,
)
from graphc.link.padding.program import PaddedResults

MAX_CALLS = 256
"""The most shapes of earlier calls that are cached; each takes about a kilobyte."""


class JAXBuckets(Bucketed):
    """A program with padded arguments, compiled by JAX.

    Args:
        exact, spec, options: See ``Bucketed``.
        traced: The program.
        context: Stores and records executables.
        device: The device of the mode, or None.
    """

    is_for_shapes = False

    def __init__(
        self,
        exact: Executable,
        traced: TracedProgram,
        spec: CallSpec,
        options: Mapping[str, Any],
        context: CompileContext,
        device: Any,
    ) -> None:
        super().__init__(exact, spec, options)
        self._traced = traced
        self._context = context
        self._device = device

    def run(
        self, current: BucketCache, lengths: Sequence[int], arguments: Sequence[Any]
    ) -> Sequence[Any] | None:
        """Return the results for padded arguments; None if the lengths do not fit each other."""
        # Lengths are int64, whatever the program computes.
        return in_64_bits(super().run)(current, lengths, arguments)  # type: ignore[no-any-return]

    def may_be_padded(self, arguments: Sequence[Any]) -> bool:
        """Return whether no argument is a tracer or an array on several devices."""
        if settings.jax_debug_nans or settings.jax_debug_infs:
            # The padding may become NaN or infinite.
            return False
        for x in arguments:
            if not isinstance(x, np.ndarray) and (
                isinstance(x, jax.core.Tracer) or len(x.sharding.device_set) > 1
            ):
                return False
        return True

    def pad(self, x: Any, shape: Sequence[int]) -> Any:
        """Pad an array with zeros at the end, by NumPy: JAX would compile once for each length."""
        buffer = np.zeros(shape, x.dtype)
        buffer[tuple([slice(n) for n in x.shape])] = x
        if isinstance(x, jax.Array) and x.committed:
            return jax.device_put(buffer, x.sharding)
        return buffer

    def compile(
        self, axes: Sequence[Axis], shapes: Sequence[Any], numbers: Mapping[int, int]
    ) -> Executable:
        """Return a function of buffers and of lengths, which JAX traces for each set of shapes."""

        def program(*operands: Any) -> PaddedResults:
            *arguments, lengths = operands
            bounds = bounds_of(axes, [x.shape for x in arguments], numbers)
            return self._traced.trace_buffers(*arguments, axes=bounds, lengths=lengths)

        execute = Executables(
            program,
            (),
            self._context,
            KnownArguments(bounds=numbers, padded=tuple(axes)),
            pure=self._spec.single,
            foreign=self._spec.facts["foreign"],
        ).caller()
        return execute if self._device is None else on_device(execute, self._device)

    def trim(
        self,
        current: BucketCache,
        execute: Executable,
        lengths: Sequence[int],
        arguments: Sequence[Any],
        results: PaddedResults,
    ) -> list[Any]:
        """Return results that hold for these lengths, cut to them."""
        verify(results, lengths)
        is_checked = any(comparison.error for comparison in results.comparisons)
        if self._device is None and not self._spec.counts and not is_checked:
            if len(current.calls) >= MAX_CALLS:
                current.calls.clear()
            shapes = tuple([x.shape for x in arguments])
            current.calls[shapes] = self._fast_call(current.axes, execute, lengths, results)
        return trim(results, lengths)

    def _fast_call(
        self,
        axes: Sequence[Axis],
        execute: Executable,
        lengths: Sequence[int],
        results: PaddedResults,
    ) -> Executable:
        """Return a function for calls whose arguments have the shapes of an earlier call."""
        enable, array, pad, single = jax.enable_x64, np.ndarray, self.pad, self._spec.single
        pairs = zip(axes, lengths, strict=True)
        is_padded = any(x.axis >= 0 and bucket_of(n, x.growth).high != n for x, n in pairs)
        fills_buffers = not results.numbers and results.shapes(lengths) == [
            y.shape for y in results.buffers
        ]
        lengths_array: Any = None
        kind: Any = None

        def run(padded: Sequence[Any]) -> list[Any]:
            results = execute(*padded, lengths_array)
            # Slices are transferred to the device again, with 64 bits too.
            return results.buffers if fills_buffers else trim(results, lengths)

        def call(*arguments: Any) -> Any:
            nonlocal lengths_array, kind
            if lengths_array is None:
                kind = type(x := _on_device(lengths))
                lengths_array = x
            for x in arguments:
                if x.__class__ is not kind and x.__class__ is not array:
                    raise AbsentError
            padded = pad_arguments(arguments, axes, lengths, pad) if is_padded else arguments
            if settings.jax_enable_x64:
                results = run(padded)
            else:
                with enable(True):
                    results = run(padded)
            return results[0] if single else results

        return call


def _on_device(lengths: Sequence[int]) -> Any:
    with jax.enable_x64(True), jax.ensure_compile_time_eval():
        return jax.device_put(np.array(lengths, np.int64))
