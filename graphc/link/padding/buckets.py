"""Programs whose arguments are padded to buckets: one executable for all lengths of a bucket.

An argument is copied to a buffer that has the next length of a fixed list (16, 32, 64, ...), and
the valid lengths are passed as numbers. The program is padded (``link/padding``): its lengths are
counts, and padding is masked where an operation would read it. The host knows the lengths, so
nothing is read from the device: the host evaluates the conditions of a program and the lengths of
the results.

If an operation cannot be padded, or the lengths of a call do not fit each other, the exact program
runs, which is compiled for the lengths of the call and raises their errors.
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from graphc.errors import GraphcError, RecompileError, ShapeError
from graphc.ir import TensorType
from graphc.link.backend import Executable
from graphc.link.call_spec import CallSpec, asks_for_buckets
from graphc.link.compile_context import ExecutableCache
from graphc.link.padding.program import PaddedAxes, PaddedResults, pad_program
from graphc.link.program import Program

DEFAULT_GROWTH = 2.0
"""The ratio of the lengths of consecutive buckets, unless an input declares one."""

SMALLEST = 16
"""The length of the first bucket; work on fewer elements costs no less."""

MULTIPLE = 4
"""The lengths of later buckets are multiples of this number."""


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


def bounds_of(
    axes: Sequence[Axis], shapes: Sequence[Any], numbers: Mapping[int, int]
) -> PaddedAxes:
    """Return the bounds of padded lengths, given the shapes of buffers and bounds of numbers."""
    return {
        (i, axis): bucket_of(numbers[i] if axis < 0 else shapes[i][axis], growth)
        for i, axis, growth in axes
    }


class BucketCache(NamedTuple):
    """The axes that are padded at some time, and their executables.

    Attributes:
        axes: The axes, and numbers that decide lengths.
        executables: The executables, by the upper bounds of these numbers, and by the buffers'
            shapes where each set of shapes is compiled.
        calls: Fast calls, by the shapes of the arguments of earlier calls.
    """

    axes: tuple[Axis, ...]
    executables: ExecutableCache[Executable]
    calls: dict[tuple[Any, ...], Executable]


class Bucketed(ABC):
    """A program with padded arguments, and the exact program as a fallback.

    An axis is padded if its input declares buckets, or from its second length on: the constant
    lengths of weights are never padded.

    Args:
        exact: The program compiled for each set of lengths.
        spec: The call specification of the program.
        options: The options of the mode.

    Attributes:
        is_refused: Whether the program cannot be padded, so that all calls are exact.
        is_for_shapes: Whether an executable is for buffers of one shape.
    """

    is_for_shapes: ClassVar[bool]

    def __init__(self, exact: Executable, spec: CallSpec, options: Mapping[str, Any]) -> None:
        asked, self._others = axes_of(spec, options)
        self._exact = exact
        self._spec = spec
        self._first: Mapping[Axis, int] | None = None
        self._padded = BucketCache(tuple(asked), ExecutableCache(), {})
        self._lock = threading.Lock()
        self.is_refused = False

    @abstractmethod
    def may_be_padded(self, arguments: Sequence[Any]) -> bool:
        """Return whether the backend can pad these arguments."""

    @abstractmethod
    def pad(self, x: Any, shape: Sequence[int]) -> Any:
        """Pad an array with zeros at the end."""

    @abstractmethod
    def compile(
        self, axes: Sequence[Axis], shapes: Sequence[Any], numbers: Mapping[int, int]
    ) -> Executable:
        """Return a function of buffers and lengths that returns ``PaddedResults``.

        Args:
            axes: The padded axes.
            shapes: The shapes of the buffers.
            numbers: The upper bounds of arguments that are numbers.
        """

    @abstractmethod
    def trim(
        self,
        current: BucketCache,
        execute: Executable,
        lengths: Sequence[int],
        arguments: Sequence[Any],
        results: PaddedResults,
    ) -> Sequence[Any]:
        """Return results that hold for these lengths, cut to them."""

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
        try:
            results = self._run_in_buckets(arguments)
        except RecompileError:
            raise
        except GraphcError:
            # If the lengths of this call are wrong, the exact program raises the error.
            results = self._exact(*arguments)
            self.is_refused = True
            return results
        if results is None:
            return self._exact(*arguments)
        return results[0] if self._spec.single else results

    def _run_in_buckets(self, arguments: Sequence[Any]) -> Sequence[Any] | None:
        """Return the results for padded arguments; None if the exact program must run."""
        self._pad_changed_axes(arguments)
        current = self._padded
        if not current.axes or not self.may_be_padded(arguments):
            return None
        lengths = [axis.length(arguments) for axis in current.axes]
        return None if min(lengths) < 0 else self.run(current, lengths, arguments)

    def run(
        self, current: BucketCache, lengths: Sequence[int], arguments: Sequence[Any]
    ) -> Sequence[Any] | None:
        """Return the results for padded arguments; None if the lengths do not fit each other."""
        axes = current.axes
        pairs = zip(axes, lengths, strict=True)
        numbers = {x.argument: bucket_of(n, x.growth).high for x, n in pairs if x.axis < 0}
        buffers = pad_arguments(arguments, axes, lengths, self.pad)
        shapes = tuple([tuple(x.shape) for x in buffers]) if self.is_for_shapes else ()
        execute = current.executables.get_or_add(
            (shapes, *numbers.values()), lambda: self.compile(axes, shapes, numbers)
        )
        results = execute(*buffers, np.array(lengths, np.int64))
        if not results.hold_for(lengths):
            return None
        return self.trim(current, execute, lengths, arguments, results)

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
                    self._padded = BucketCache(tuple(sorted(axes)), ExecutableCache(), {})
                    self._first = {x: n for x, n in first.items() if x not in axes}


def pad_arguments(
    arguments: Sequence[Any],
    axes: Sequence[Axis],
    lengths: Sequence[int],
    pad: Callable[[Any, Sequence[int]], Any],
) -> list[Any]:
    """Return arguments in buffers as long as the buckets of their lengths.

    Args:
        arguments: The arguments.
        axes: The axes to pad.
        lengths: The lengths of these axes.
        pad: A function of an array and a shape that pads the array with zeros at the end.
    """
    values = list(arguments)
    shapes: dict[int, list[int]] = {}
    for (position, axis, growth), n in zip(axes, lengths, strict=True):
        high = bucket_of(n, growth).high
        if axis >= 0 and high != n:
            shapes.setdefault(position, list(arguments[position].shape))[axis] = high
    for position, shape in shapes.items():
        values[position] = pad(arguments[position], shape)
    return values


# Plans.


def plan_of_padding(
    program: Program, options: Mapping[str, Any], types: Sequence[TensorType], passed: int
) -> Sequence[str]:
    """Return lines of a plan: which lengths are padded, or why none is.

    Args:
        program: The program.
        options: The options of the mode.
        types: The type of each argument, with lengths as far as they are known.
        passed: The number of arguments that a call passes.
    """
    spec = CallSpec.of(program.graph, program.host, single=False, facts={}, passed=passed)
    if not asks_for_buckets(spec.buckets, options):
        return ()
    deciding = sorted({*spec.static} - {*spec.counts})
    if deciding:
        return [f"lengths: exact, as {program.arguments[deciding[0]]!r} decides a shape"]
    axes = [axis for group in axes_of(spec, options) for axis in group]
    if not axes:
        return []
    try:
        _pad_to_first_bucket(program, axes, types)
    except ShapeError:
        return ["lengths: in buckets; call plan(*args) for lengths that fit each other"]
    except GraphcError as error:
        line = f"   {error.where}" if error.where else ""
        return [f"lengths: exact, as {error.problem.rstrip('.')}{line}"]
    return [f"lengths: {program.arguments[x.argument]!r}, {_describe(x)}" for x in axes]


def _describe(x: Axis) -> str:
    subject = "buffers are as long as" if x.axis < 0 else f"axis {x.axis} is padded:"
    lengths = [SMALLEST]
    while len(lengths) < 4:
        lengths.append(bucket_of(lengths[-1] + 1, x.growth).high)
    return f"{subject} {', '.join(map(str, lengths))}, ..."


def _pad_to_first_bucket(
    program: Program, axes: Sequence[Axis], types: Sequence[TensorType]
) -> None:
    """Pad a program, or raise if it cannot be; unknown lengths are in the first bucket."""
    shapes = [[SMALLEST if n is None else n for n in type.shape] for type in types]
    for position, axis, growth in axes:
        if axis >= 0:
            shapes[position][axis] = bucket_of(shapes[position][axis], growth).high
    bounds = {x.argument: SMALLEST for x in axes if x.axis < 0}
    arguments = [type.with_shape(tuple(shape)) for type, shape in zip(types, shapes, strict=True)]
    pad_program(program, arguments, bounds_of(axes, shapes, bounds), passes_lengths=True)
