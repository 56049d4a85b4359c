"""JAX as a backend: arrays, devices, and one ``jax.jit`` for the graph.

64-bit dtypes are right whatever ``jax_enable_x64`` says, and that setting is left alone: programs
that hold one are traced and called within ``jax.enable_x64(True)``, which is local to the thread.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graphc.config import config
from graphc.errors import DynamicShapeError, ModeError
from graphc.ir import Check, Graph, Node, Op, Pick, TensorType, here, where
from graphc.link.backend import Backend, Executable
from graphc.link.host import Host
from graphc.link.jax.bounded import (
    Count,
    Equal,
    Ragged,
    agree,
    checked,
    compute as compute_bounded,
    is_known,
    plain,
    unequal,
)
from graphc.link.program import Program
from graphc.tensor.elementwise import minimum
from graphc.tensor.shape import Length, Shape

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
    return _is_wide(program.graph, program.host.nodes if program.host else ())


def _is_wide(graph: Graph, host: Container[Node]) -> bool:
    outputs = set(graph.outputs)
    return any(
        node.op in WIDENED
        or any(x.dtype in WIDE for x in getattr(node.type, "items", (node.type,)))
        or any(_is_wide(held, ()) for held in node.op.graphs())
        for node in graph.nodes
        if node in outputs or node not in host
    )


def compile(program: Program, options: Mapping[str, Any], donated: tuple[int, ...]) -> Executable:
    """One jitted function; one for each set of values of the inputs that decide shapes."""
    assert program.host is not None
    traced = Traced(program)
    execute: Executable
    if program.host.inputs:
        execute = Specialized(traced, program.host, donated)
    else:
        execute = traced.jitted(traced.function, donated)
    device = device_of(options)
    if device is not None:
        execute = _on_device(execute, device)
    return _in_64_bits(execute) if wide(program) else execute


class Traced:
    """A program as a function that JAX traces.

    Attributes:
        function: Gives the outputs, or the only one.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.dtypes = [y.type.numpy_dtype for y in program.graph.outputs]
        assert program.host is not None
        self.is_bounded = program.host.follows
        self.function = self.bounded if self.is_bounded else self.known

    def known(self, *arguments: Any) -> Any:
        """The outputs where all lengths are known."""
        found = self.program.trace(*arguments)
        results = [jnp.asarray(plain(y), d) for y, d in zip(found, self.dtypes, strict=True)]
        return results[0] if self.program.single else results

    def bounded(self, *arguments: Any) -> tuple[list[Any], list[Equal]]:
        """The outputs, some in buffers, and what must be equal."""
        pending: list[Equal] = []
        with checked(pending):
            found = self.program.trace(*arguments)
        results = [
            y if isinstance(y, Ragged) else jnp.asarray(plain(y), d)
            for y, d in zip(found, self.dtypes, strict=True)
        ]
        return results, pending

    def jitted(self, function: Callable[..., Any], donated: tuple[int, ...]) -> Executable:
        """The function compiled; what it gives in buffers is cut afterwards."""
        execute = jax.jit(function, donate_argnums=donated)
        return self.cut(execute) if self.is_bounded else execute

    def cut(self, execute: Executable) -> Executable:
        """What gives the outputs in their own lengths, given what gives them in buffers."""

        def call(*arguments: Any) -> Any:
            results, pending = execute(*arguments)
            for check in pending:
                check.verify()
            results = [y.cut() if isinstance(y, Ragged) else y for y in results]
            return results[0] if self.program.single else results

        return call


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


FEW = 4
"""How many numbers of steps get an executable of their own before one is made for all."""

SHORT = 32
"""No buffer is made shorter than that for a number of steps that may be another one next time."""


def _known(argument: Any, place: int) -> np.ndarray[Any, Any]:
    """The value of an argument that decides a shape."""
    try:
        return np.asarray(argument)
    except jax.errors.TracerArrayConversionError as error:
        raise DynamicShapeError(
            f"The argument {place} decides a shape or a number of steps, and is not known while "
            "JAX traces the code that calls the function.",
            "Make it static there, as with static_argnums of jax.jit, or pass a Python integer.",
            where(here()),
        ) from error


class Specialized:
    """A jitted function for each set of values of the arguments that decide shapes.

    The least recently used one goes when there are more than ``config.specializations``. Numbers of
    steps that keep changing share one, whose buffers are long enough for all.
    """

    def __init__(self, traced: Traced, host: Host, donated: tuple[int, ...]) -> None:
        self.traced = traced
        self.static = host.inputs
        self.counts = frozenset(host.counts)
        self.donated = donated
        self.known: OrderedDict[Any, Executable] = OrderedDict()
        self.made = 0
        self.bounds: set[int] = set()
        self.lock = threading.Lock()

    def __call__(self, *arguments: Any) -> Any:
        values = {i: _known(arguments[i], i) for i in self.static}
        execute = self._found({}, values)
        if execute is None:
            bounds = self._bounds(values, arguments) if self.made >= FEW else {}
            if bounds:
                execute = self._found(bounds, values) or self._made(bounds, values)
                try:
                    return execute(*arguments)
                except DynamicShapeError:
                    # They decide more than that.
                    self.counts = frozenset()
            execute = self._made({}, values)
        return execute(*arguments)

    def _key(self, bounds: Mapping[int, int], values: Mapping[int, Any]) -> Any:
        static = (x for i, x in values.items() if i not in bounds)
        return (*bounds.items(), *((x.dtype.char, x.shape, x.tobytes()) for x in static))

    def _found(self, bounds: Mapping[int, int], values: Mapping[int, Any]) -> Executable | None:
        key = self._key(bounds, values)
        with self.lock:
            execute = self.known.get(key)
            if execute is not None:
                self.known.move_to_end(key)
        return execute

    def _made(self, bounds: Mapping[int, int], values: Mapping[int, Any]) -> Executable:
        """The function for these values, or for all of those up to their bounds."""
        fixed = {i: x for i, x in values.items() if i not in bounds}
        taken = [i for i in self.donated if i not in fixed]
        function = self.traced.bounded if bounds else self.traced.function

        def specialized(*rest: Any) -> Any:
            left = iter(rest)
            arguments = []
            for i in range(len(rest) + len(fixed)):
                x = fixed[i] if i in fixed else next(left)
                arguments.append(Count(x, 1, bounds[i]) if i in bounds else x)
            return function(*arguments)

        donated = tuple(i - sum(j < i for j in fixed) for i in taken)
        jitted = jax.jit(specialized, donate_argnums=donated)
        execute = self.traced.cut(jitted) if bounds or self.traced.is_bounded else jitted

        def call(*arguments: Any) -> Any:
            return execute(*[x for i, x in enumerate(arguments) if i not in fixed])

        call = _in_64_bits(call) if bounds else call
        with self.lock:
            self.made += 1
            self.known[self._key(bounds, values)] = call
            if len(self.known) > config.specializations:
                self.known.popitem(last=False)
        return call

    def _bounds(self, values: Mapping[int, Any], arguments: Sequence[Any]) -> dict[int, int]:
        """For each number of steps how long buffers are: as a sequence, or a power of two."""
        lengths = {x.shape[0] for x in arguments if x.ndim}
        found = {}
        for i in sorted(self.counts):
            n = int(values[i])
            if n > 0:
                enough = max(1 << (n - 1).bit_length(), SHORT)
                fitting = [k for k in lengths | self.bounds if n <= k <= 4 * enough]
                found[i] = min(fitting, default=enough)
        self.bounds.update(found.values())
        return found


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

    def around(
        self, node: Node, compute: Callable[..., Any], *, on_host: bool
    ) -> Callable[..., Any]:
        """What computes a node also where lengths are not known, but bounded."""
        deciding: Iterable[int] = () if node.op.graphs() else node.op.host_inputs()
        if on_host and not isinstance(node.op, Length | Shape | Pick):
            deciding = range(len(node.inputs))

        # Here a number computed from data gets a bound.
        limits = node.op is minimum and node.type is TensorType("int64")

        def bounded(*values: Any) -> Any:
            if (
                limits
                or any(isinstance(x, Count | Ragged) for x in values)
                or not all(is_known(values[i]) for i in deciding)
            ):
                return compute_bounded(node, self.lowering(node.op), values)
            return compute(*values)

        return bounded

    def equal_lengths(self, node: Node, check: Check, operands: Sequence[Any]) -> None:
        """Raise where they differ, now or when the program has run."""
        a, m, b, n = check
        left, right = operands[a].shape[m], operands[b].shape[n]
        if isinstance(left, Count) or isinstance(right, Count):
            agree(left, right, unequal(node))
        else:
            super().equal_lengths(node, check, operands)


backend = JAXBackend(
    "JAX",
    array=array,
    numpy=to_numpy,
    compile=compile,
    kinds=(np.ndarray, jax.Array, type(jnp.zeros(0))),
    eager=False,
    describe=describe,
    options={"device": (), "fallback": ("numpy",)},
)
