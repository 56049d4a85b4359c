"""MLX's arrays, dtypes and devices, and conversions between MLX's arrays and NumPy's."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np

from graphc.config import config
from graphc.errors import ArgumentError, ModeError
from graphc.ir import TensorType, dtype_name, numpy_dtype

if TYPE_CHECKING:
    from graphc.link.mlx.lengths import TracedLengths

DTYPES: dict[str, Any] = {
    name: getattr(mx, "bool_" if name == "bool" else name)
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "bfloat16", "float32", "float64", "complex64"),
    )
}
"""MLX's dtypes by name; MLX has no complex128."""

NAMES = {dtype: name for name, dtype in DTYPES.items()}


def dtype_of(name: str) -> Any:
    return DTYPES[name]


def name_of(x: Any) -> str:
    return NAMES[x.dtype]


def array(value: Any, type: TensorType, options: Mapping[str, Any]) -> mx.array:
    """Return an evaluated MLX array of a type; a copy unless ``value`` is an MLX array."""
    dtype = dtype_of(type.dtype)
    if isinstance(value, mx.array):
        if value.dtype == dtype:
            return value
        value = to_numpy(value)
    return from_numpy(np.asarray(value, type.numpy_dtype))


def from_numpy(value: np.ndarray[Any, Any]) -> mx.array:
    """Return an MLX array with the dtype and values of a NumPy array of any strides."""
    value = np.ascontiguousarray(value).reshape(value.shape)
    # NumPy calls an axis of length 1 contiguous whatever its stride; MLX takes no negative one.
    if min(value.strides, default=0) < 0:
        value = value.copy()
    # Without a dtype, MLX takes float64 for float32.
    return mx.array(value, dtype_of(dtype_name(value.dtype)))


def to_numpy(value: Any) -> np.ndarray[Any, Any]:
    """Return a new NumPy array with an MLX array's values."""
    if not isinstance(value, mx.array):
        return np.asarray(value)
    try:
        if value.dtype == mx.bfloat16:
            return np.array(value.view(mx.uint16)).view(numpy_dtype("bfloat16"))
        return np.array(value)
    except ValueError as error:
        raise explain_evaluation(error) from error


EVALUATED = re.compile(r"\[(async_)?eval\].*transformation")


def explain_evaluation(error: Exception) -> Exception:
    """Return graphc's error if MLX refuses to evaluate a traced array, else ``error``."""
    if not EVALUATED.search(str(error)):
        return error
    return ArgumentError(
        "Values are needed of what mx.compile, mx.grad, mx.vmap or the like trace.",
        "Call graphc's functions outside of them; derive by graphc.grad, batch by "
        "graphc.vectorize, and compile all of it by graphc.function.",
    )


def device_of(options: Mapping[str, Any]) -> Any:
    """Return the device that a mode names, ``"cpu"`` or ``"gpu"``, or MLX's default device.

    Raises:
        ModeError: If MLX has no such device.
    """
    name = options.get("device")
    if name is None:
        return mx.default_device()
    kinds = {"cpu": mx.cpu, "gpu": mx.gpu}
    device = kinds.get(name, name) if isinstance(name, str) else name
    if isinstance(device, mx.DeviceType):
        device = mx.Device(device, 0)
    if not isinstance(device, mx.Device) or not mx.is_available(device):
        names = [n for n, kind in kinds.items() if mx.is_available(mx.Device(kind, 0))]
        raise ModeError(f"device={name!r}: MLX has no such device.", f"It has {names}.")
    return device


def put_bounded(cache: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    """Add an entry to a cache, and remove the oldest one if the cache is full."""
    cache[key] = value
    if len(cache) > config.specializations:
        cache.popitem(last=False)


class NotTraceableError(BaseException):
    """Signal that a value is needed, or that a program grows too long, while MLX traces.

    This is no error of the user's: the caller catches it and runs the program in another way.
    """


MAX_OPERATIONS = 4096
"""Operations in one traced program: MLX walks programs recursively, and some tens of thousands of
operations in a row overflow the stack."""


@dataclass
class Trace:
    """The program that MLX is tracing.

    Attributes:
        constants: Arrays that stand for constants, by key. A literal constant would be written into
            the kernels, and MLX would compile another kernel for each value.
        remaining: Number of operations that the program may still get.
        fuses: Whether MLX fuses several operations into one kernel.
        is_users: Whether the user's code makes MLX trace, and may batch and save the program.
        lengths: Dynamic lengths, if the program is saved for any lengths.
    """

    constants: Mapping[Any, Any] | TracedLengths
    remaining: int = MAX_OPERATIONS
    fuses: bool = True
    is_users: bool = False
    lengths: TracedLengths | None = None

    def spend(self, operations: int) -> None:
        """Count operations; raise NotTraceableError if the program grows too long."""
        self.remaining -= operations
        if self.remaining < 0:
            raise NotTraceableError


class _TraceState(threading.local):
    trace: Trace | None = None


_state = _TraceState()


def current() -> Trace | None:
    """Return the program that MLX traces in this thread; None if operations run one by one."""
    return _state.trace


@contextmanager
def tracing(trace: Trace | None) -> Iterator[None]:
    """Make ``trace`` the program that MLX traces in this thread."""
    before, _state.trace = _state.trace, trace
    try:
        yield
    finally:
        _state.trace = before


def contiguous(x: Any) -> Any:
    """Return the array with contiguous elements: a copy if they are not."""
    trace = _state.trace
    if trace is None or not x.ndim or (trace.fuses and not trace.is_users):
        return mx.contiguous(x)
    # MLX cannot save a program that has the operation itself.
    return mx.concatenate([x, x[:0]])


def end_of_kernel(x: Any) -> Any:
    """Return the array; MLX fuses nothing that follows with the operations before."""
    trace = _state.trace
    return contiguous(x) if trace is None or trace.fuses else x


def is_traced(arrays: Iterable[Any]) -> bool:
    """Return whether MLX traces any array, to compile, differentiate, batch or save."""
    try:
        mx.async_eval([x for x in arrays if isinstance(x, mx.array)])  # type: ignore[no-untyped-call]
    except ValueError:
        return True
    return False


def _dynamic_lengths() -> TracedLengths | None:
    trace = _state.trace
    return None if trace is None else trace.lengths


def saves_dynamic_lengths() -> bool:
    """Return whether MLX traces a program that is saved for any lengths."""
    return _dynamic_lengths() is not None


def are_dynamic(*lengths: int) -> bool:
    """Return whether any length may differ when the traced program runs."""
    dynamic = _dynamic_lengths()
    return dynamic is not None and dynamic.occur_in(lengths)


def reshape_array(x: Any, shape: Sequence[int]) -> Any:
    """Return ``x`` in another shape."""
    if x.shape == tuple(shape):
        return x
    lengths = _dynamic_lengths()
    return lengths.reshape(x, shape) if lengths else mx.reshape(x, shape)


def broadcast_array(x: Any, shape: Sequence[int]) -> Any:
    """Return ``x`` broadcast to a shape."""
    if x.shape == tuple(shape):
        return x
    lengths = _dynamic_lengths()
    return lengths.broadcast(x, shape) if lengths else mx.broadcast_to(x, shape)


def separate_results(values: Iterable[Any], arguments: Iterable[Any]) -> list[Any]:
    """Return results as MLX arrays of which none is an argument or another result.

    A write into one of two equal objects would change both.
    """
    seen = {id(x) for x in arguments}
    results = []
    for y in values:
        y = device_array(y)
        y = mx.stop_gradient(y) if id(y) in seen else y
        seen.add(id(y))
        results.append(y)
    return results


def key_of(value: np.ndarray[Any, Any]) -> Any:
    """Return a hashable key that is equal for equal constants."""
    return value.dtype.name, value.shape, value.tobytes()


def device_array(value: Any) -> Any:
    """Return a value as an MLX array; while MLX traces, the array that stands for it."""
    if isinstance(value, mx.array | tuple):
        return value
    value = np.asarray(value)
    trace = _state.trace
    if trace is None:
        return from_numpy(value)
    stand_in = trace.constants.get(key_of(value))
    if stand_in is None and value.dtype.kind in "iu" and not value.ndim and abs(value) < 2**31:
        # A length: as a constant, each other one would have its own kernels.
        return mx.full((), int(value), dtype_of(dtype_name(value.dtype)))
    return from_numpy(value) if stand_in is None else stand_in


def host_positions(values: Iterable[Any], first: int = 0) -> tuple[int, ...]:
    """Return the positions of values on the host, counted from ``first``."""
    return tuple([i for i, x in enumerate(values, first) if not isinstance(x, mx.array)])


def host_array(value: Any) -> Any:
    """Return a value that decides a shape or a step, as a NumPy array if it is MLX's.

    Raises:
        NotTraceableError: If MLX traces, so that the value cannot be read.
    """
    if not isinstance(value, mx.array):
        return value
    if _state.trace is not None:
        raise NotTraceableError
    return to_numpy(value)
