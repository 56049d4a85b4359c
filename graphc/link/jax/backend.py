"""JAX as a backend: arrays, devices, and one ``jax.jit`` for the graph.

64-bit dtypes are right whatever ``jax_enable_x64`` says, and that setting is left alone: programs
that hold one are traced and called within ``jax.enable_x64(True)``, which is local to the thread.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graphc.config import config
from graphc.errors import DynamicShapeError, ModeError
from graphc.ir import Node, Op, TensorType
from graphc.link.backend import Backend, Executable
from graphc.link.program import Program

__all__ = ["WIDENED", "backend", "wide"]

WIDE = frozenset({"int64", "uint64", "float64", "complex128"})

WIDENED: set[Op] = set()
"""The operations that are computed in float64 whatever the dtype of their operands."""


def array(value: Any, type: TensorType, options: Mapping[str, Any]) -> Any:
    """A JAX array of that dtype on the mode's device; a NumPy array is copied."""
    if isinstance(value, jax.Array) and value.dtype == type.numpy_dtype:
        return value
    # An array that is kept is made at once, also where the user's code is being traced.
    with jax.enable_x64(True), jax.ensure_compile_time_eval():
        return jax.device_put(np.array(value, type.numpy_dtype), device_of(options))


def to_numpy(value: Any) -> np.ndarray[Any, Any]:
    """A NumPy array, which may share the JAX array's memory, read-only."""
    return np.asarray(value)


def device_of(options: Mapping[str, Any]) -> Any:
    """The device that a mode names: a ``jax.Device``, ``"cpu"`` or ``"gpu:1"``; None for JAX's own.

    Raises:
        ModeError: There is no such device.
    """
    wanted = options.get("device")
    if not isinstance(wanted, str):
        return wanted
    platform, _, number = wanted.partition(":")
    try:
        return jax.devices(platform)[int(number or 0)]
    except (RuntimeError, IndexError, ValueError) as error:
        found = ", ".join(f"{d.platform}:{d.id}" for d in jax.devices())
        raise ModeError(
            f"device={wanted!r}: JAX has no such device.", f"It has {found}."
        ) from error


def describe(options: Mapping[str, Any]) -> str:
    """JAX's version and the device."""
    device = device_of(options) or jax.devices()[0]
    return f"JAX {jax.__version__}, on {device.platform}:{device.id} ({device.device_kind})"


def wide(program: Program) -> bool:
    """Whether the program computes in a 64-bit dtype outside of what is computed on the host."""
    host = program.host.nodes if program.host else frozenset()
    outputs = set(program.graph.outputs)
    return any(
        node.op in WIDENED or (isinstance(node.type, TensorType) and node.type.dtype in WIDE)
        for node in program.graph.nodes
        if node in outputs or node not in host
    )


def compile(program: Program, options: Mapping[str, Any], donated: tuple[int, ...]) -> Executable:
    """One jitted function; one for each set of values of the inputs that decide shapes."""
    assert program.host is not None
    static = program.host.inputs
    dtypes = [y.type.numpy_dtype for y in program.graph.outputs]

    def traced(*arguments: Any) -> Any:
        found = program.trace(*arguments)
        results = [jnp.asarray(y, d) for y, d in zip(found, dtypes, strict=True)]
        return results[0] if program.single else results

    execute: Executable = (
        Specialized(traced, static, donated) if static else jax.jit(traced, donate_argnums=donated)
    )
    device = device_of(options)
    if device is not None:
        execute = _on_device(execute, device)
    return _in_64_bits(execute) if wide(program) else execute


def _in_64_bits(execute: Executable) -> Executable:
    enable = jax.enable_x64
    settings: Any = jax.config

    def call(*arguments: Any) -> Any:
        if settings.jax_enable_x64:
            return execute(*arguments)
        with enable(True):
            return execute(*arguments)

    return call


def _on_device(execute: Executable, device: Any) -> Executable:
    def call(*arguments: Any) -> Any:
        with jax.default_device(device):
            return execute(*jax.device_put(arguments, device))

    return call


class Specialized:
    """A jitted function for each set of values of the arguments that decide shapes.

    The least recently used one goes when there are more than ``config.specializations``.
    """

    def __init__(
        self, traced: Callable[..., Any], static: tuple[int, ...], donated: tuple[int, ...]
    ) -> None:
        self.traced = traced
        self.static = static
        self.donated = tuple(i - sum(j < i for j in static) for i in donated)
        self.known: OrderedDict[Any, Callable[..., Any]] = OrderedDict()
        self.lock = threading.Lock()

    def __call__(self, *arguments: Any) -> Any:
        values = [np.asarray(arguments[i]) for i in self.static]
        key = tuple((value.dtype.char, value.shape, value.tobytes()) for value in values)
        with self.lock:
            jitted = self.known.get(key)
            if jitted is None:
                jitted = self.known[key] = self._for(values)
                if len(self.known) > config.specializations:
                    self.known.popitem(last=False)
            else:
                self.known.move_to_end(key)
        chosen = set(self.static)
        return jitted(*[a for i, a in enumerate(arguments) if i not in chosen])

    def _for(self, values: list[np.ndarray[Any, Any]]) -> Callable[..., Any]:
        def specialized(*rest: Any) -> Any:
            arguments = list(rest)
            for i, value in zip(self.static, values, strict=True):
                arguments.insert(i, value)
            return self.traced(*arguments)

        return jax.jit(specialized, donate_argnums=self.donated)


class JAXBackend(Backend):
    """Operations are JAX functions; what JAX lacks can be called back in NumPy."""

    def callback(self, node: Node) -> Callable[..., Any]:
        """The operation's NumPy reference, called from within the compiled program."""
        op = node.op

        def call(*values: Any) -> Any:
            types = [TensorType(x.dtype, x.shape) for x in values]
            result = op.infer(*types)
            if not isinstance(result, TensorType) or not result.is_static:
                raise DynamicShapeError(
                    f"{node!r} runs in NumPy, and the shape of its result is not known before.",
                    "Use mode='NUMPY', or give the operation a lowering.",
                    node.where,
                )
            shape = jax.ShapeDtypeStruct(result.shape, result.numpy_dtype)  # type: ignore[no-untyped-call]

            def perform(*xs: Any) -> Any:
                with np.errstate(all="ignore"):
                    return np.asarray(op.perform(*map(np.asarray, xs)), result.numpy_dtype)

            return jax.pure_callback(perform, shape, *values)

        return call


backend = JAXBackend(
    "JAX",
    array=array,
    numpy=to_numpy,
    compile=compile,
    kinds=(np.ndarray, jax.Array, type(jnp.zeros(0))),
    eager=False,
    describe=describe,
    options=frozenset({"device", "fallback"}),
)
