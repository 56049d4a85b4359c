"""Programs whose arguments are padded to buckets: one executable for all lengths of a bucket.

An argument is copied to a buffer that has the next length of a fixed list (16, 32, 64, ...), and
the true lengths are passed as numbers. What the padding does is decided while JAX traces
(``bounded.py``): lengths are counts, and the rule of each operation masks what it would read.
Nothing is read from the device for it, as the host knows the lengths: it evaluates the conditions
on which a program rests, and how long the results are.

Where an operation has no rule, or the lengths of a call do not fit each other, the exact program
runs, which is compiled for the lengths of the call and has its errors.
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
from graphc.link.jax.bounded import Guard, Ragged, in_own_lengths
from graphc.link.jax.call_key import KnownArguments, settings
from graphc.link.jax.counts import Count, length_formula
from graphc.link.jax.executables import AbsentError, Executables, in_64_bits, on_device
from graphc.link.jax.mesh import layout_of
from graphc.link.jax.traced import TracedProgram
from graphc.link.program import Program

POWERS = 2.0
"""By how much each bucket is longer than the one before, where an input does not say."""

SMALLEST = 16
"""The length of the first bucket; work on fewer elements costs no less."""

WHOLE = 4
"""Later buckets are a multiple of that."""


MOST_CALLS = 256
"""The most shapes of earlier calls that are kept; one takes about a kilobyte."""


class Bucket(NamedTuple):
    """The lengths that share a buffer.

    Attributes:
        low: The least.
        high: The most, which is the buffer's length.
    """

    low: int
    high: int


@lru_cache(maxsize=4096)
def bucket_of(n: int, growth: float) -> Bucket:
    """The bucket of a length.

    Args:
        n: The length.
        growth: By how much each bucket is longer than the one before, more than 1.

    Example:
        >>> bucket_of(3, 2.0), bucket_of(100, 2.0), bucket_of(100, 1.25)
        (Bucket(low=0, high=16), Bucket(low=65, high=128), Bucket(low=97, high=120))
    """
    low, high = 0, SMALLEST
    while high < n:
        low = high + 1
        high = max(math.ceil(high * growth / WHOLE), high // WHOLE + 1) * WHOLE
    return Bucket(low, high)


class Axis(NamedTuple):
    """An axis of an argument that may be padded, or a number that decides lengths.

    Attributes:
        place: The argument.
        axis: The axis; -1 for the number that the argument is.
        growth: By how much each bucket is longer than the one before.
    """

    place: int
    axis: int
    growth: float

    def length(self, arguments: Sequence[Any]) -> int:
        """The length, or the number."""
        x = arguments[self.place]
        return int(x) if self.axis < 0 else x.shape[self.axis]


def axes_of(spec: CallSpec, options: Mapping[str, Any]) -> tuple[list[Axis], list[Axis]]:
    """The axes whose inputs ask for buckets; and all other unknown ones, where the mode does."""
    everywhere = options.get("lengths") == "buckets"
    asked, others = [], []
    for place, type in enumerate(spec.arguments[: spec.given]):
        declared = spec.buckets[place] or (None,) * type.ndim
        for axis, (n, growth) in enumerate(zip(type.shape, declared, strict=True)):
            if n is None and growth is not None:
                asked.append(Axis(place, axis, growth))
            elif n is None and everywhere:
                others.append(Axis(place, axis, POWERS))
    if everywhere or asked:
        asked += [Axis(place, -1, POWERS) for place in spec.counts]
    return asked, others


def padded(
    traced: TracedProgram, axes: Sequence[Axis], bounds: Mapping[int, int]
) -> Callable[..., Any]:
    """A function that JAX traces: of padded arguments and, last, the true lengths of the axes.

    It gives the outputs, some in buffers, and what must hold of lengths.

    Args:
        traced: The program.
        axes: What is padded.
        bounds: For arguments that are numbers the most that they can be.
    """

    def program(*given: Any) -> Any:
        *arguments, lengths = given
        found = list(arguments)
        for i, (place, axis, growth) in enumerate(axes):
            x = found[place]
            if axis < 0:
                bucket = bucket_of(bounds[place], growth)
                found[place] = Count(None, *bucket, length_formula(i))
                continue
            buffer, counts = (x.buffer, x.counts) if isinstance(x, Ragged) else (x, [None] * x.ndim)
            count = Count(None, *bucket_of(buffer.shape[axis], growth), length_formula(i))
            here = [count if k == axis else n for k, n in enumerate(counts)]
            found[place] = Ragged(buffer, tuple(here), np.zeros((), buffer.dtype))
        return traced.padded(found, lengths, len(axes))

    return program


class Padded(NamedTuple):
    """What is padded at a time.

    Attributes:
        axes: The axes, and numbers that decide lengths.
        executables: What runs the program, by the most that these numbers can be.
        calls: For shapes of arguments of earlier calls, the same calls without what was found then.
    """

    axes: tuple[Axis, ...]
    executables: dict[tuple[int, ...], Executable]
    calls: dict[tuple[Any, ...], Executable]


class Bucketed:
    """A program with arguments that are padded, beside the exact one.

    An axis is padded if its input asks for it, or from the second length on that it has: the
    lengths of weights, which stay, are never padded.

    Args:
        exact: The program compiled for each set of lengths.
        traced: The program.
        spec: The program from outside.
        axes: The axes whose inputs ask for buckets, and others that may be padded.
        context: Where executables are stored and recorded.
        device: That of the mode, if it names one.
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
        self._run = in_64_bits(self._in_buckets)
        self._first: Mapping[Axis, int] | None = None
        self._padded = Padded(tuple(asked), {}, {})
        self._lock = threading.Lock()
        self.is_refused = False

    def __call__(self, *arguments: Any) -> Any:
        if self.is_refused:
            return self._exact(*arguments)
        calls = self._padded.calls
        shapes = tuple([x.shape for x in arguments])
        known = calls.get(shapes)
        if known is not None:
            try:
                return known(*arguments)
            except Exception:
                # Something is not as in the call before; what it is, is found below.
                calls.pop(shapes, None)
        self._notice(arguments)
        now = self._padded
        axes = now.axes
        if not axes or not _may_be_padded(arguments):
            return self._exact(*arguments)
        lengths = [axis.length(arguments) for axis in axes]
        if min(lengths) < 0:
            return self._exact(*arguments)
        try:
            results = self._run(now, lengths, arguments)
        except RecompileError:
            raise
        except GraphcError:
            # The lengths of this call may be wrong, which the exact program says.
            results = self._exact(*arguments)
            self.is_refused = True
            return results
        return self._exact(*arguments) if results is None else results

    def _in_buckets(self, now: Padded, lengths: Sequence[int], arguments: Sequence[Any]) -> Any:
        """The results; None where the lengths do not fit each other."""
        bounds = self._bounds(now.axes, lengths) if self._spec.counts else {}
        key = tuple(bounds.values())
        execute = now.executables.get(key) or self._make(key, now, bounds)
        given = _all_padded(arguments, now.axes, lengths)
        results, checks = execute(*given, np.array(lengths, np.int64))
        for check in checks:
            if isinstance(check, Guard) and not check.holds(lengths):
                return None
        pending = [check for check in checks if not isinstance(check, Guard)]
        for check in pending:
            check.verify()
        if self._device is None and not self._spec.counts and not pending:
            if len(now.calls) >= MOST_CALLS:
                now.calls.clear()
            shapes = tuple([x.shape for x in arguments])
            single = self._spec.single
            now.calls[shapes] = _known_call(execute, now.axes, lengths, results, single=single)
        results = in_own_lengths(results, lengths)
        return results[0] if self._spec.single else results

    def _bounds(self, axes: Sequence[Axis], lengths: Sequence[int]) -> dict[int, int]:
        """The most that the numbers among the lengths can be, by their arguments' places."""
        pairs = zip(axes, lengths, strict=True)
        return {x.place: bucket_of(n, x.growth).high for x, n in pairs if x.axis < 0}

    def _notice(self, arguments: Sequence[Any]) -> None:
        """Pad the axes that have another length than at first from now on."""
        first = self._first
        if first is None:
            self._first = {x: x.length(arguments) for x in self._others}
        elif first:
            new = [x for x, n in first.items() if x.length(arguments) != n]
            if new:
                with self._lock:
                    kept = set(self._padded.axes) | set(new)
                    self._padded = Padded(tuple(sorted(kept)), {}, {})
                    self._first = {x: n for x, n in first.items() if x not in kept}

    def _make(self, key: tuple[int, ...], now: Padded, bounds: Mapping[int, int]) -> Executable:
        with self._lock:
            found = now.executables.get(key)
            if found is None:
                found = Executables(
                    padded(self._traced, now.axes, bounds),
                    (),
                    self._context,
                    KnownArguments(bounds=bounds, padded=now.axes),
                    pure=self._spec.single,
                    foreign=self._spec.facts["foreign"],
                ).caller()
                found = found if self._device is None else on_device(found, self._device)
                now.executables[key] = found
        return found


def _known_call(
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
    # What its counts decide has the same length whenever the arguments have.
    fixed = [
        not isinstance(y, Ragged) or all(n is None or n.formula is not None for n in y.counts)
        for y in results
    ]
    is_whole = all(fixed) and not any(
        isinstance(y, Ragged) and y.cut(lengths) is not y.buffer for y in results
    )
    given_lengths: Any = None
    kind: Any = None

    def run(given: Sequence[Any]) -> list[Any]:
        buffers, _ = execute(*given, given_lengths)
        if not is_whole:
            # Slices are put on the device again, with 64 bits too.
            return in_own_lengths(buffers, lengths)
        return [y.buffer if y.__class__ is Ragged else y for y in buffers]

    def call(*arguments: Any) -> Any:
        nonlocal given_lengths, kind
        if given_lengths is None:
            kind = type(made := _on_device(lengths))
            given_lengths = made
        for x in arguments:
            if x.__class__ is not kind and x.__class__ is not array:
                raise AbsentError
        given = _all_padded(arguments, axes, lengths) if is_padded else arguments
        if settings.jax_enable_x64:
            results = run(given)
        else:
            with enable(True):
                results = run(given)
        return results[0] if single else results

    return call


def _on_device(lengths: Sequence[int]) -> Any:
    """Lengths as an array that is not copied to the device at each call."""
    with jax.enable_x64(True), jax.ensure_compile_time_eval():
        return jax.device_put(np.array(lengths, np.int64))


def _may_be_padded(arguments: Sequence[Any]) -> bool:
    """Whether nothing is being traced, and no array is divided over devices."""
    if settings.jax_debug_nans or settings.jax_debug_infs:
        # Elements that mean nothing may be either.
        return False
    for x in arguments:
        if not isinstance(x, np.ndarray) and (
            isinstance(x, jax.core.Tracer) or len(x.sharding.device_set) > 1
        ):
            return False
    return True


def _all_padded(
    arguments: Sequence[Any], axes: Sequence[Axis], lengths: Sequence[int]
) -> list[Any]:
    """The arguments, those with padded axes in buffers of NumPy's."""
    found = list(arguments)
    shapes: dict[int, list[int]] = {}
    for (place, axis, growth), n in zip(axes, lengths, strict=True):
        high = bucket_of(n, growth).high
        if axis >= 0 and high != n:
            shapes.setdefault(place, list(arguments[place].shape))[axis] = high
    for place, shape in shapes.items():
        found[place] = _in_buffer(arguments[place], shape)
    return found


def _in_buffer(x: Any, shape: Sequence[int]) -> Any:
    """The array in front of zeros; on the host, as JAX would compile a padding for each length."""
    buffer = np.zeros(shape, x.dtype)
    buffer[tuple([slice(n) for n in x.shape])] = x
    if isinstance(x, jax.Array) and x.committed:
        return jax.device_put(buffer, x.sharding)
    return buffer


# Plans.


def padding(
    program: Program, spec: CallSpec, options: Mapping[str, Any], types: Sequence[TensorType]
) -> list[str]:
    """Which lengths are padded, or why none is, as lines of a plan.

    Args:
        program: The program.
        spec: The program from outside.
        options: Of the mode, which asks for buckets.
        types: The type of each argument, with lengths as far as they are known.
    """
    if layout_of(options) is not None:
        return ["lengths: exact, as the mode has a mesh of devices"]
    fixed = sorted({*spec.static} - {*spec.counts})
    if fixed:
        return [f"lengths: exact, as {program.arguments[fixed[0]]!r} decides a shape"]
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
    return [f"lengths: {program.arguments[x.place]!r}, {_about(x)}" for x in axes]


def _about(x: Axis) -> str:
    what = "buffers are as long as" if x.axis < 0 else f"axis {x.axis} is padded:"
    return f"{what} {', '.join(map(str, _first_buckets(x.growth)))}, ..."


def _first_buckets(growth: float) -> list[int]:
    found = [SMALLEST]
    while len(found) < 4:
        found.append(bucket_of(found[-1] + 1, growth).high)
    return found


def _trace(traced: TracedProgram, axes: Sequence[Axis], types: Sequence[TensorType]) -> None:
    """Trace a program for padded arguments; unknown lengths are in the first bucket.

    Raises:
        GraphcError: It cannot be padded.
    """
    shapes = [[SMALLEST if n is None else n for n in type.shape] for type in types]
    for place, axis, growth in axes:
        if axis >= 0:
            shapes[place][axis] = bucket_of(shapes[place][axis], growth).high
    bounds = {x.place: SMALLEST for x in axes if x.axis < 0}
    with jax.enable_x64(True):
        given = [
            jax.ShapeDtypeStruct(shape, type.numpy_dtype)  # type: ignore[no-untyped-call]
            for shape, type in zip(shapes, types, strict=True)
        ]
        lengths = jax.ShapeDtypeStruct((len(axes),), np.int64)  # type: ignore[no-untyped-call]
        jax.eval_shape(padded(traced, axes, bounds), *given, lengths)
