"""MLX's arrays, dtypes and devices, and NumPy's from and into them."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import mlx.core as mx
import numpy as np

from graphc.config import config
from graphc.errors import ArgumentError, ModeError
from graphc.ir import TensorType, dtype_name, numpy_dtype

DTYPES: dict[str, Any] = {
    name: getattr(mx, "bool_" if name == "bool" else name)
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "bfloat16", "float32", "float64", "complex64"),
    )
}
"""MLX's dtypes by their names; it has no complex128."""

NAMES = {dtype: name for name, dtype in DTYPES.items()}


def dtype_of(name: str) -> Any:
    """MLX's dtype of that name."""
    return DTYPES[name]


def name_of(x: Any) -> str:
    """The name of an array's dtype."""
    return NAMES[x.dtype]


def array(value: Any, type: TensorType, options: Mapping[str, Any]) -> mx.array:
    """An MLX array of that dtype, evaluated; a copy unless it is MLX's own."""
    dtype = dtype_of(type.dtype)
    if isinstance(value, mx.array):
        if value.dtype == dtype:
            return value
        value = to_numpy(value)
    return from_numpy(np.asarray(value, type.numpy_dtype))


def from_numpy(value: np.ndarray[Any, Any]) -> mx.array:
    """A copy of a NumPy array, in its dtype, whatever its strides."""
    value = np.ascontiguousarray(value).reshape(value.shape)
    # NumPy calls an axis of length 1 contiguous whatever its stride; MLX takes no negative one.
    if min(value.strides, default=0) < 0:
        value = value.copy()
    # Without a dtype, MLX takes float64 for float32.
    return mx.array(value, dtype_of(dtype_name(value.dtype)))


def to_numpy(value: Any) -> np.ndarray[Any, Any]:
    """A NumPy array of an MLX array's values, of its own."""
    if not isinstance(value, mx.array):
        return np.asarray(value)
    try:
        if value.dtype == mx.bfloat16:
            return np.array(value.view(mx.uint16)).view(numpy_dtype("bfloat16"))
        return np.array(value)
    except ValueError as error:
        raise untransformed(error) from error


EVALUATED = re.compile(r"\[(async_)?eval\].*transformation")


def untransformed(error: Exception) -> Exception:
    """The error, or what to do where it is that MLX transforms what evaluates an array."""
    if not EVALUATED.search(str(error)):
        return error
    return ArgumentError(
        "Values are needed of what mx.compile, mx.grad, mx.vmap or the like trace.",
        "Call graphc's functions outside of them; derive by graphc.grad, batch by "
        "graphc.vectorize, and compile all of it by graphc.function.",
    )


def device_of(options: Mapping[str, Any]) -> Any:
    """The device that a mode names, ``"cpu"`` or ``"gpu"``; MLX's default device otherwise.

    Raises:
        ModeError: There is no such device.
    """
    wanted = options.get("device")
    if wanted is None:
        return mx.default_device()
    known = {"cpu": mx.cpu, "gpu": mx.gpu}
    found = known.get(wanted, wanted) if isinstance(wanted, str) else wanted
    if isinstance(found, mx.DeviceType):
        found = mx.Device(found, 0)
    if not isinstance(found, mx.Device) or not mx.is_available(found):
        there = [name for name, kind in known.items() if mx.is_available(mx.Device(kind, 0))]
        raise ModeError(f"device={wanted!r}: MLX has no such device.", f"It has {there}.")
    return found


def bounded(found: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    """Keep a value under that key; the one that was kept first goes where there are too many."""
    found[key] = value
    if len(found) > config.specializations:
        found.popitem(last=False)


class NotTraceableError(BaseException):
    """Something needs a value, or a program grows too long, while MLX traces.

    It is no error: what catches it runs the same in another way.
    """


LIMIT = 4096
"""Of operations in one traced program: MLX walks programs recursively, and some tens of thousands
of operations in a row overflow the stack."""


class Constants(Protocol):
    """The arrays that stand for constants while MLX traces."""

    def get(self, key: Any) -> Any:
        """The array by the constant's key; None where none does."""


class AnyLengths(Protocol):
    """What stands for lengths that may be others when a program is run."""

    def reshaped(self, x: Any, shape: Sequence[int]) -> Any:
        """The elements in another shape."""

    def repeated(self, x: Any, shape: Sequence[int]) -> Any:
        """The array repeated to a shape."""

    def are_in(self, shape: Sequence[int]) -> bool:
        """Whether a shape has one of them, or what follows from one."""


@dataclass
class Trace:
    """The program that MLX is tracing.

    Attributes:
        constants: The arrays that stand for constants, by key. A constant that is
            part of a program would be part of its kernels too: each other value would have MLX
            compile another one.
        left: How many operations it may still have.
        fuses: Whether MLX makes kernels of several operations.
        is_users: Whether the user's code has MLX trace it, and may batch and save it.
        lengths: Where it is saved for any lengths, what stands for them.
    """

    constants: Constants
    left: int = LIMIT
    fuses: bool = True
    is_users: bool = False
    lengths: AnyLengths | None = None

    def spend(self, operations: int) -> None:
        """Raise where the program would grow too long."""
        self.left -= operations
        if self.left < 0:
            raise NotTraceableError


class _Current(threading.local):
    trace: Trace | None = None


_current = _Current()


def current() -> Trace | None:
    """The program that MLX traces in this thread; None where operations run one by one."""
    return _current.trace


@contextmanager
def tracing(trace: Trace | None) -> Iterator[None]:
    """MLX traces this program."""
    before, _current.trace = _current.trace, trace
    try:
        yield
    finally:
        _current.trace = before


def contiguous(x: Any) -> Any:
    """The array with its elements in a row: a copy where they are not."""
    trace = _current.trace
    if trace is None or not x.ndim or (trace.fuses and not trace.is_users):
        return mx.contiguous(x)
    # MLX cannot save a program that has the operation itself.
    return mx.concatenate([x, x[:0]])


def end_of_kernel(x: Any) -> Any:
    """The array; MLX fuses what it is made of with nothing that follows."""
    trace = _current.trace
    return contiguous(x) if trace is None or trace.fuses else x


def is_traced(arrays: Iterable[Any]) -> bool:
    """Whether MLX traces any of these, to compile, differentiate, batch or save a function."""
    try:
        mx.async_eval([x for x in arrays if isinstance(x, mx.array)])  # type: ignore[no-untyped-call]
    except ValueError:
        return True
    return False


def _any_lengths() -> AnyLengths | None:
    trace = _current.trace
    return None if trace is None else trace.lengths


def saves_any_length() -> bool:
    """Whether MLX traces a program that is saved for any lengths."""
    return _any_lengths() is not None


def are_open(*lengths: int) -> bool:
    """Whether any of these may be another when the program that MLX traces is run."""
    found = _any_lengths()
    return found is not None and found.are_in(lengths)


def reshaped(x: Any, shape: Sequence[int]) -> Any:
    """The elements in another shape."""
    if x.shape == tuple(shape):
        return x
    lengths = _any_lengths()
    return lengths.reshaped(x, shape) if lengths else mx.reshape(x, shape)


def repeated_to(x: Any, shape: Sequence[int]) -> Any:
    """The array repeated to a shape."""
    if x.shape == tuple(shape):
        return x
    lengths = _any_lengths()
    return lengths.repeated(x, shape) if lengths else mx.broadcast_to(x, shape)


def own(found: Iterable[Any], arguments: Iterable[Any]) -> list[Any]:
    """Results as arrays of their own: writing into one would change its namesake."""
    taken = {id(x) for x in arguments}
    results = []
    for y in found:
        y = device_array(y)
        y = mx.stop_gradient(y) if id(y) in taken else y
        taken.add(id(y))
        results.append(y)
    return results


def key_of(value: np.ndarray[Any, Any]) -> Any:
    """A key by which constants are distinguished."""
    return value.dtype.name, value.shape, value.tobytes()


def device_array(value: Any) -> Any:
    """A value as an MLX array in what is being traced or run."""
    if isinstance(value, mx.array | tuple):
        return value
    value = np.asarray(value)
    trace = _current.trace
    if trace is None:
        return from_numpy(value)
    found = trace.constants.get(key_of(value))
    if found is None and value.dtype.kind in "iu" and not value.ndim and abs(value) < 2**31:
        # A length: as a constant, each other one would have its own kernels.
        return mx.full((), int(value), dtype_of(dtype_name(value.dtype)))
    return from_numpy(value) if found is None else found


def host_places(values: Iterable[Any], first: int = 0) -> tuple[int, ...]:
    """The places of those that are on the host, counted from the first one's."""
    return tuple([i for i, x in enumerate(values, first) if not isinstance(x, mx.array)])


def host_array(value: Any) -> Any:
    """A value that decides something as NumPy's, read from the device where it has to be."""
    if not isinstance(value, mx.array):
        return value
    if _current.trace is not None:
        raise NotTraceableError
    return to_numpy(value)
