"""Programs whose arguments are padded to buckets: one executable for all lengths of a bucket.

An argument is copied to a buffer that has the next length of a fixed list (16, 32, 64, ...), and
the valid lengths are passed as numbers. While JAX traces (``bounded.py``), lengths are counts, and
the rule of each operation masks the padding that it would read. The host knows the lengths, so
nothing is read from the device: the host evaluates the conditions of a program and the lengths of
the results.

If an operation has no rule, or the lengths of a call do not fit each other, the exact program runs,
which is compiled for the lengths of the call and raises their errors.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import numpy as np

from graphc.errors import GraphcError, RecompileError, ShapeError
from graphc.ir import TensorType
from graphc.link.backend import Executable
from graphc.link.call_spec import CallSpec
from graphc.link.compile_context import CompileContext
from graphc.link.jax.bounded import Guard, Ragged, trim_results
from graphc.link.jax.call_key import KnownArguments, settings
from graphc.link.jax.counts import Count, length_formula
from graphc.link.jax.executables import AbsentError, Executables, in_64_bits, on_device
from graphc.link.jax.mesh import layout_of
from graphc.link.jax.traced import TracedProgram
from graphc.link.program import Program

DEFAULT_GROWTH = 2.0
"""The ratio of the lengths of consecutive buckets, unless an input declares one."""

SMALLEST = 16
"""The length of the first bucket; work on fewer elements costs no less."""

MULTIPLE = 4
"""The lengths of later buckets are multiples of this number."""


MAX_CALLS = 256
"""The most shapes of earlier calls that are cached; each takes about a kilobyte."""


class Bucket(NamedTuple):
    """The lengths that share a buffer.

    Attributes:
        low: The smallest length.
        high: The largest length, which is the length of the buffer.
    """

    low: int
    high: int


@lru_cache(maxsize=4096)
def bucket_of(n: int, growth: float) -> Bucket:
    """Return the bucket of a length.

    Args:
        n: The length.
        growth: The ratio of the lengths of consecutive buckets, more than 1.

    Example:
        >>> bucket_of(3, 2.0), bucket_of(100, 2.0), bucket_of(100, 1.25)
        (Bucket(low=0, high=16), Bucket(low=65, high=128), Bucket(low=97, high=120))
    """
    low, high = 0, SMALLEST
    while high < n:
        low = high + 1
        high = max(math.ceil(high * growth / MULTIPLE), high // MULTIPLE + 1) * MULTIPLE
    return Bucket(low, high)


class Axis(NamedTuple):
    """An axis of an argument that may be padded, or a number that decides lengths.

    Attributes:
        argument: The position of the argument.
        axis: The axis; -1 for an argument that is a number.
        growth: The ratio of the lengths of consecutive buckets.
    """

    argument: int
    axis: int
    growth: float

    def length(self, arguments: Sequence[Any]) -> int:
        """Return the length of the axis, or the number."""
        x = arguments[self.argument]
        return int(x) if self.axis < 0 else x.shape[self.axis]


def axes_of(spec: CallSpec, options: Mapping[str, Any]) -> tuple[list[Axis], list[Axis]]:
    """Return the axes that are always padded, and the axes padded if their lengths change.

    Axes whose inputs declare buckets are always padded. Other axes of unknown length are padded
    if the mode asks for buckets.
    """
    everywhere = options.get("lengths") == "buckets"
    asked, others = [], []
    for position, type in enumerate(spec.arguments[: spec.passed]):
        declared = spec.buckets[position] or (None,) * type.ndim
        for axis, (n, growth) in enumerate(zip(type.shape, declared, strict=True)):
            if n is None and growth is not None:
                asked.append(Axis(position, axis, growth))
            elif n is None and everywhere:
                others.append(Axis(position, axis, DEFAULT_GROWTH))
    if everywhere or asked:
        asked += [Axis(position, -1, DEFAULT_GROWTH) for position in spec.counts]
    return asked, others


def padded_program(
    traced: TracedProgram, axes: Sequence[Axis], bounds: Mapping[int, int]
) -> Callable[..., Any]:
    """Return a function that JAX traces, of padded arguments and the valid lengths of the axes.

    The function returns the outputs, some in buffers, and the conditions on lengths.

    Args:
        traced: The program.
        axes: The padded axes.
        bounds: Upper bounds of arguments that are numbers, by position.
    """

    def program(*operands: Any) -> Any:
        *arguments, lengths = operands
        values = list(arguments)
        for i, (position, axis, growth) in enumerate(axes):
            x = values[position]
            if axis < 0:
                bucket = bucket_of(bounds[position], growth)
                values[position] = Count(None, *bucket, length_formula(i))
                continue
            buffer, counts = (x.buffer, x.counts) if isinstance(x, Ragged) else (x, [None] * x.ndim)
            count = Count(None, *bucket_of(buffer.shape[axis], growth), length_formula(i))
            own = [count if k == axis else n for k, n in enumerate(counts)]
            values[position] = Ragged(buffer, tuple(own), np.zeros((), buffer.dtype))
        return traced.trace_padded(values, lengths, len(axes))

    return program


class PaddedAxes(NamedTuple):
    """The padded axes at some time, and their executables.

    Attributes:
        axes: The axes, and numbers that decide lengths.
        executables: The executables, by the upper bounds of these numbers.
        calls: Fast calls, by the shapes of the arguments of earlier calls.
    """

    axes: tuple[Axis, ...]
    executables: dict[tuple[int, ...], Executable]
    calls: dict[tuple[Any, ...], Executable]


class Bucketed:
    """A program with padded arguments, and the exact program as a fallback.

    An axis is padded if its input declares buckets, or from its second length on: the constant
    lengths of weights are never padded.

    Args:
        exact: The program compiled for each set of lengths.
        traced: The program.
        spec: The call specification of the program.
        axes: The axes whose inputs declare buckets, and other axes that may be padded.
        context: Stores and records executables.
        device: The device of the mode, or None.
    """

    def __init__(
        self,
        exact: Executable,
        traced: TracedProgram,
        spec: CallSpec,
        axes: tuple[Sequence[Axis], Sequence[Axis]],
        context: CompileContext,
        device: Any,
    ) -> None:
        asked, self._others = axes
        self._exact = exact
        self._traced = traced
        self._spec = spec
        self._context = context
        self._device = device
        # Lengths are int64, whatever the program computes.
        self._run = in_64_bits(self._run_padded)
        self._first: Mapping[Axis, int] | None = None
        self._padded = PaddedAxes(tuple(asked), {}, {})
        self._lock = threading.Lock()
        self.is_refused = False

    def __call__(self, *arguments: Any) -> Any:
        if self.is_refused:
            return self._exact(*arguments)
        calls = self._padded.calls
        shapes = tuple([x.shape for x in arguments])
        fast_call = calls.get(shapes)
        if fast_call is not None:
            try:
                return fast_call(*arguments)
            except Exception:
                # The call differs from the earlier one; the general path handles it.
                calls.pop(shapes, None)
        self._pad_changed_axes(arguments)
        current = self._padded
        axes = current.axes
        if not axes or not _may_be_padded(arguments):
            return self._exact(*arguments)
        lengths = [axis.length(arguments) for axis in axes]
        if min(lengths) < 0:
            return self._exact(*arguments)
        try:
            results = self._run(current, lengths, arguments)
        except RecompileError:
            raise
        except GraphcError:
            # If the lengths of this call are wrong, the exact program raises the error.
            results = self._exact(*arguments)
            self.is_refused = True
            return results
        return self._exact(*arguments) if results is None else results

    def _run_padded(
        self, current: PaddedAxes, lengths: Sequence[int], arguments: Sequence[Any]
    ) -> Any:
        """Return the results; None if the lengths do not fit each other."""
        bounds = self._bounds(current.axes, lengths) if self._spec.counts else {}
        key = tuple(bounds.values())
        execute = current.executables.get(key) or self._compile(key, current, bounds)
        buffers = _pad_arguments(arguments, current.axes, lengths)
        results, checks = execute(*buffers, np.array(lengths, np.int64))
        for check in checks:
            if isinstance(check, Guard) and not check.holds(lengths):
                return None
        pending = [check for check in checks if not isinstance(check, Guard)]
        for check in pending:
            check.verify()
        if self._device is None and not self._spec.counts and not pending:
            if len(current.calls) >= MAX_CALLS:
                current.calls.clear()
            shapes = tuple([x.shape for x in arguments])
            single = self._spec.single
            current.calls[shapes] = _fast_call(
                execute, current.axes, lengths, results, single=single
            )
        results = trim_results(results, lengths)
        return results[0] if self._spec.single else results

    def _bounds(self, axes: Sequence[Axis], lengths: Sequence[int]) -> dict[int, int]:
        """Return the upper bounds of arguments that are numbers, by position."""
        pairs = zip(axes, lengths, strict=True)
        return {x.argument: bucket_of(n, x.growth).high for x, n in pairs if x.axis < 0}

    def _pad_changed_axes(self, arguments: Sequence[Any]) -> None:
        """Pad, from now on, the axes whose lengths differ from the first call's."""
        first = self._first
        if first is None:
            self._first = {x: x.length(arguments) for x in self._others}
        elif first:
            changed = [x for x, n in first.items() if x.length(arguments) != n]
            if changed:
                with self._lock:
                    axes = set(self._padded.axes) | set(changed)
                    self._padded = PaddedAxes(tuple(sorted(axes)), {}, {})
                    self._first = {x: n for x, n in first.items() if x not in axes}

    def _compile(
        self, key: tuple[int, ...], current: PaddedAxes, bounds: Mapping[int, int]
    ) -> Executable:
        with self._lock:
            execute = current.executables.get(key)
            if execute is None:
                execute = Executables(
                    padded_program(self._traced, current.axes, bounds),
                    (),
                    self._context,
                    KnownArguments(bounds=bounds, padded=current.axes),
                    pure=self._spec.single,
                    foreign=self._spec.facts["foreign"],
                ).caller()
                execute = execute if self._device is None else on_device(execute, self._device)
                current.executables[key] = execute
        return execute


def _fast_call(
    execute: Executable,
    axes: Sequence[Axis],
    lengths: Sequence[int],
    results: Sequence[Any],
    *,
    single: bool,
) -> Executable:
    """Return a function for calls whose arguments have the shapes of an earlier call.

    Args:
        execute: The executable for the buckets.
        axes: The padded axes.
        lengths: The lengths of these axes.
        results: The results of the earlier call, some in buffers.
        single: Whether the program has one result.
    """
    enable, array = jax.enable_x64, np.ndarray
    pairs = zip(axes, lengths, strict=True)
    is_padded = any(x.axis >= 0 and bucket_of(n, x.growth).high != n for x, n in pairs)
    # Lengths with formulas depend on the arguments' lengths alone.
    has_formulas = [
        not isinstance(y, Ragged) or all(n is None or n.formula is not None for n in y.counts)
        for y in results
    ]
    fills_buffers = all(has_formulas) and not any(
        isinstance(y, Ragged) and y.trim(lengths) is not y.buffer for y in results
    )
    lengths_array: Any = None
    kind: Any = None

    def run(padded: Sequence[Any]) -> list[Any]:
        buffers, _ = execute(*padded, lengths_array)
        if not fills_buffers:
            # Slices are transferred to the device again, with 64 bits too.
            return trim_results(buffers, lengths)
        return [y.buffer if y.__class__ is Ragged else y for y in buffers]

    def call(*arguments: Any) -> Any:
        nonlocal lengths_array, kind
        if lengths_array is None:
            kind = type(x := _on_device(lengths))
            lengths_array = x
        for x in arguments:
            if x.__class__ is not kind and x.__class__ is not array:
                raise AbsentError
        padded = _pad_arguments(arguments, axes, lengths) if is_padded else arguments
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


def _may_be_padded(arguments: Sequence[Any]) -> bool:
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


def _pad_arguments(
    arguments: Sequence[Any], axes: Sequence[Axis], lengths: Sequence[int]
) -> list[Any]:
    values = list(arguments)
    shapes: dict[int, list[int]] = {}
    for (position, axis, growth), n in zip(axes, lengths, strict=True):
        high = bucket_of(n, growth).high
        if axis >= 0 and high != n:
            shapes.setdefault(position, list(arguments[position].shape))[axis] = high
    for position, shape in shapes.items():
        values[position] = _pad(arguments[position], shape)
    return values


def _pad(x: Any, shape: Sequence[int]) -> Any:
    """Pad an array with zeros at the end, on the host: JAX would compile once for each length."""
    buffer = np.zeros(shape, x.dtype)
    buffer[tuple([slice(n) for n in x.shape])] = x
    if isinstance(x, jax.Array) and x.committed:
        return jax.device_put(buffer, x.sharding)
    return buffer


# Plans.


def padding(
    program: Program, spec: CallSpec, options: Mapping[str, Any], types: Sequence[TensorType]
) -> list[str]:
    """Return lines of a plan: which lengths are padded, or why none is.

    Args:
        program: The program.
        spec: The call specification of the program.
        options: The options of a mode with buckets.
        types: The type of each argument, with lengths as far as they are known.
    """
    if layout_of(options) is not None:
        return ["lengths: exact, as the mode has a mesh of devices"]
    deciding = sorted({*spec.static} - {*spec.counts})
    if deciding:
        return [f"lengths: exact, as {program.arguments[deciding[0]]!r} decides a shape"]
    axes = [axis for group in axes_of(spec, options) for axis in group]
    if not axes:
        return []
    try:
        _trace(TracedProgram(spec, lambda: program), axes, types)
    except ShapeError:
        return ["lengths: in buckets; call plan(*args) for lengths that fit each other"]
    except GraphcError as error:
        line = f"   {error.where}" if error.where else ""
        return [f"lengths: exact, as {error.problem.rstrip('.')}{line}"]
    return [f"lengths: {program.arguments[x.argument]!r}, {_describe(x)}" for x in axes]


def _describe(x: Axis) -> str:
    subject = "buffers are as long as" if x.axis < 0 else f"axis {x.axis} is padded:"
    return f"{subject} {', '.join(map(str, _first_buckets(x.growth)))}, ..."


def _first_buckets(growth: float) -> list[int]:
    lengths = [SMALLEST]
    while len(lengths) < 4:
        lengths.append(bucket_of(lengths[-1] + 1, growth).high)
    return lengths


def _trace(traced: TracedProgram, axes: Sequence[Axis], types: Sequence[TensorType]) -> None:
    """Trace a program for padded arguments; unknown lengths are in the first bucket.

    Raises:
        GraphcError: If an operation has no rule for padded operands.
    """
    shapes = [[SMALLEST if n is None else n for n in type.shape] for type in types]
    for position, axis, growth in axes:
        if axis >= 0:
            shapes[position][axis] = bucket_of(shapes[position][axis], growth).high
    bounds = {x.argument: SMALLEST for x in axes if x.axis < 0}
    with jax.enable_x64(True):
        operands = [
            jax.ShapeDtypeStruct(shape, type.numpy_dtype)  # type: ignore[no-untyped-call]
            for shape, type in zip(shapes, types, strict=True)
        ]
        lengths = jax.ShapeDtypeStruct((len(axes),), np.int64)  # type: ignore[no-untyped-call]
        jax.eval_shape(padded_program(traced, axes, bounds), *operands, lengths)
