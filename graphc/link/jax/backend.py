"""JAX as a backend: arrays, devices, and how programs are compiled.

64-bit dtypes are right whatever ``jax_enable_x64`` says, and that setting is left alone: programs
that hold one are traced and called within ``jax.enable_x64(True)``, which is local to the thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Hashable, Mapping, Sequence
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.export import is_symbolic_dim
from jax.extend.backend import get_backend

from graphc.errors import ArgumentError, DynamicShapeError, GraphcError, ModeError, ShardingError
from graphc.implicit.array import is_implicit
from graphc.implicit.policy import policy_of
from graphc.ir import Buckets, Graph, Leaf, Node, Op, Pick, Sharding, TensorType, TupleType
from graphc.ir.law import deciding_inputs
from graphc.ir.sharding import MeshAxes, with_role
from graphc.link.backend import Backend, Executable, refuse_remote
from graphc.link.call_spec import CallSpec
from graphc.link.compile_context import CompileContext
from graphc.link.jax import symbolic
from graphc.link.jax.bounded import (
    Ragged,
    agree,
    arrays,
    compute as compute_bounded,
    refused,
)
from graphc.link.jax.call_key import KnownArguments, settings
from graphc.link.jax.counts import Count, is_known
from graphc.link.jax.executables import Executables, Inspect, in_64_bits, on_device
from graphc.link.jax.host import called_back
from graphc.link.jax.mesh import Home, Layout, admitted, layout_of
from graphc.link.jax.placed import on_mesh
from graphc.link.jax.pure import in_own_dtype, transformable
from graphc.link.jax.specialized import Specialized
from graphc.link.jax.traced import TracedProgram
from graphc.link.placement import Placement
from graphc.link.program import Program
from graphc.link.slices import with_slice_lengths
from graphc.link.transformable import Transformable
from graphc.rewrite.loops.windows import index_windows
from graphc.site import mark_own
from graphc.tensor.core.elementwise import minimum
from graphc.tensor.core.shape import Length, Shape

# An error raised while JAX traces a program is about the user's line, not about one of JAX's.
mark_own(str(Path(jax.__file__).parent))

WIDE = frozenset({"int64", "uint64", "float64", "complex128"})

WIDENED: set[Op | type[Op]] = set()
"""The operations, or their classes, that may compute in float64 whatever they take and give."""


def array(value: Any, type: TensorType, options: Mapping[str, Any]) -> Any:
    """Convert to a JAX array of a dtype on the mode's device; NumPy arrays are copied.

    Over a mesh every device has it whole.
    """
    if isinstance(value, jax.Array) and value.dtype == type.numpy_dtype:
        return value
    layout = layout_of(options)
    if layout is not None:
        return layout.home(None).put(_copy(value, type.numpy_dtype), "An array")
    # An array that is kept is made at once, also where the user's code is being traced.
    with jax.enable_x64(True), jax.ensure_compile_time_eval():
        return jax.device_put(_copy(value, type.numpy_dtype), device_of(options))


ALIGNED = 64
"""Bytes: memory that begins at a multiple is a processor's array as it is; other is copied."""

LARGE = 2**20
"""Bytes; to align less takes as long as it saves."""


def _copy(value: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Copy to fresh memory, which JAX need not copy again where it is large."""
    value = np.asarray(value)
    size = value.size * dtype.itemsize
    if size < LARGE:
        return np.array(value, dtype)
    memory = np.empty(size + ALIGNED, np.uint8)
    start = -memory.ctypes.data % ALIGNED
    made = memory[start : start + size].view(dtype).reshape(value.shape)
    np.copyto(made, value, casting="unsafe")
    return made


def to_numpy(value: Any) -> np.ndarray[Any, Any]:
    """Convert to a NumPy array, which may share memory and is then read-only."""
    try:
        return np.asarray(value)
    except RuntimeError:
        refuse_remote(value)
        raise


def device_of(options: Mapping[str, Any]) -> Any:
    """Return the device that a mode names: a ``jax.Device``, ``"cpu"``, ``"gpu:1"``; else None.

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
    layout = layout_of(options)
    if layout is not None:
        first = layout.mesh.devices.flat[0]
        return f"JAX {jax.__version__}, on {layout.axes} of {first.platform} ({first.device_kind})"
    device = device_of(options) or jax.devices()[0]
    return f"JAX {jax.__version__}, on {device.platform}:{device.id} ({device.device_kind})"


def wide(program: Program) -> bool:
    """Whether the program computes in a 64-bit dtype outside of what is computed on the host."""
    return _is_wide(program.graph, program.host.nodes if program.host else ())


def _is_wide(graph: Graph, host: Container[Node]) -> bool:
    outputs = set(graph.outputs)
    return any(
        node.op in WIDENED
        or type(node.op) in WIDENED
        or any(x.dtype in WIDE for x in getattr(node.type, "items", (node.type,)))
        or any(_is_wide(held, ()) for held in node.op.graphs())
        for node in graph.nodes
        if node in outputs or node not in host
    )


def _is_foreign(graph: Graph) -> bool:
    """Whether JAX traces code other than graphc's lowerings, or calls back."""
    return any(
        type(node.op) in WIDENED
        or (node.op.by_numpy and backend.lowering(node.op) is None)
        or any(_is_foreign(held) for held in node.op.graphs())
        for node in graph.nodes
    )


def compile(
    spec: CallSpec,
    program: Callable[[], Program],
    options: Mapping[str, Any],
    donated: tuple[int, ...],
    context: CompileContext,
) -> Executable:
    """Return a function that runs the program and compiles executables on demand."""
    layout = layout_of(options)
    traced = TracedProgram(spec, program, layout)
    wide = spec.facts["wide"]
    device = device_of(options)
    execute: Executable
    inspect = None if layout is None else _inspect(spec, program)
    places = layout.places(spec.shardings) if layout else ()
    if spec.static:
        execute = Specialized(traced, spec, donated, context, inspect, places)
    else:
        pure, foreign = spec.single, spec.facts["foreign"]
        known = KnownArguments()
        made = Executables(traced.function, donated, context, known, pure=pure, foreign=foreign)
        made.inspect, made.places, made.over_mesh = inspect, places, layout is not None
        if device is None and not traced.is_bounded:
            execute = made.caller(wide=wide)
            if layout is not None:
                return _on_mesh(execute, layout, spec, program)
            return _in_buckets(execute, traced, spec, options, context)
        execute = traced.cut(made.caller()) if traced.is_bounded else made.caller()
    if device is not None:
        execute = on_device(execute, device)
    execute = in_64_bits(execute) if wide else execute
    if layout is not None:
        return _on_mesh(execute, layout, spec, program)
    return _in_buckets(execute, traced, spec, options, context)


def _in_buckets(
    exact: Executable,
    traced: TracedProgram,
    spec: CallSpec,
    options: Mapping[str, Any],
    context: CompileContext,
) -> Executable:
    """The executable for one length after the other, or for buckets of lengths where asked for."""
    if {*spec.static} - {*spec.counts} or not asks_for_buckets(spec.buckets, options):
        return exact
    # Most programs are for exact lengths.
    from graphc.link.jax.buckets import Bucketed, axes_of  # noqa: PLC0415

    axes = axes_of(spec, options)
    return Bucketed(exact, traced, spec, axes, context, device_of(options)) if any(axes) else exact


def asks_for_buckets(buckets: Sequence[Buckets | None], options: Mapping[str, Any]) -> bool:
    """Return whether the mode asks for buckets of lengths, or an input does and the mode may."""
    wanted = options.get("lengths")
    return wanted == "buckets" or (wanted is None and any(buckets))


def _inspect(spec: CallSpec, program: Callable[[], Program]) -> Inspect | None:
    """What warns of declared shardings that an executable does not keep; None where it need not."""
    declared = [x for x in spec.shardings[: spec.given] if x is not None]
    if not any(entry is not None for sharding in declared for entry in sharding):
        return None
    # Most programs are for one device.
    from graphc.link.jax.collectives import warn_of_gathered  # noqa: PLC0415

    return partial(warn_of_gathered, program, spec)


def _on_mesh(
    execute: Executable, layout: Layout, spec: CallSpec, program: Callable[[], Program]
) -> Executable:
    def name(place: int) -> str:
        x = program().arguments[place]
        what = "captured array" if isinstance(x.op, Leaf) else "argument"
        return with_role(f"{what} {x!r}", x.op)

    return on_mesh(execute, layout, spec, backend.kinds[-1], name)


@cache
def _build(wanted: Any) -> str:
    device = device_of({"device": wanted}) or jax.devices()[0]
    compiler = get_backend(device.platform).platform_version
    flags = [os.environ.get(name, "") for name in ("XLA_FLAGS", "LIBTPU_INIT_ARGS")]
    return (
        f"{describe({'device': wanted})}, jaxlib {version('jaxlib')}, {compiler}, "
        f"{jax.device_count(device.platform)} devices, {flags}"
    )


class JAXBackend(Backend):
    """The JAX backend: lowerings to JAX functions, and callbacks to NumPy for the rest."""

    def facts(self, program: Program) -> Mapping[str, Any]:
        """Return whether a program computes in 64 bits, and whether it runs the user's code."""
        return {"wide": wide(program), "foreign": _is_foreign(program.graph)}

    def conversion_error(self, error: Exception, results: Any) -> Exception:
        """Return the error where JAX traces a call, or devices of other processes have results."""
        if isinstance(error, jax.errors.TracerArrayConversionError):
            return ArgumentError(
                "A function that returns NumPy arrays was called while JAX traces, when results "
                "have no values.",
                "In code that JAX traces, compiles or transforms, call f.pure, or compile the "
                "function with graphc.function(..., returns='native').",
            )
        try:
            for result in jax.tree.leaves(results):
                refuse_remote(result)
        except ShardingError as refused:
            return refused
        return error

    def narrows(self, dtype: np.dtype[Any]) -> bool:
        """Return whether JAX's own functions compute with fewer bits than a dtype has."""
        return not settings.jax_enable_x64 and jax.dtypes.canonicalize_dtype(dtype) != dtype

    def prepare(self, graph: Graph, options: Mapping[str, Any]) -> Graph:
        """Return the graph with slices that move and keep their length by indices."""
        graph = index_windows(graph)
        buckets = [getattr(x.op, "buckets", None) for x in (*graph.inputs, *graph.leaves)]
        # Where lengths are padded, that of a slice is padded too.
        return graph if asks_for_buckets(buckets, options) else with_slice_lengths(graph)

    def build(self, options: Mapping[str, Any]) -> str:
        """Return the versions of JAX and XLA, the devices, and XLA's flags."""
        layout = layout_of(options)
        return _build(layout.mesh.devices.flat[0] if layout else options.get("device"))

    def normalize_options(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """The options, a mesh among them checked."""
        return admitted(options)

    def portable_options(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """The options with meshes and devices as another process can have them."""
        # Few modes are pickled.
        from graphc.link.jax.portable import portable  # noqa: PLC0415

        return {name: portable(value) for name, value in options.items()}

    def restore_options(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """The options with meshes and devices of this process."""
        from graphc.link.jax.portable import restored  # noqa: PLC0415

        return {name: restored(value) for name, value in options.items()}

    def mesh_axes(self, options: Mapping[str, Any]) -> MeshAxes | None:
        """The axes of the mode's mesh."""
        layout = layout_of(options)
        return None if layout is None else layout.axes

    def unwritten(self, options: Mapping[str, Any]) -> Hashable:
        """The mesh, whose text does not name its devices."""
        return options.get("mesh")

    def home(self, sharding: Sharding | None, options: Mapping[str, Any]) -> Home | None:
        """Where arrays of a declared sharding are to be on the mode's mesh."""
        layout = layout_of(options)
        return None if layout is None else layout.home(sharding)

    def placement(
        self,
        program: Program,
        options: Mapping[str, Any],
        arguments: Sequence[Any],
        given: int,
        donated: Sequence[int],
    ) -> Placement | None:
        """How a program lies on the mode's mesh; None without one."""
        layout = layout_of(options)
        if layout is None:
            return None
        from graphc.link.jax.collectives import placement  # noqa: PLC0415 (few programs need it)

        spec = CallSpec.of(program.graph, program.host, single=False, facts={}, given=given)
        return placement(program, spec, layout, arguments, donated, wide=wide(program))

    def padding(
        self,
        program: Program,
        options: Mapping[str, Any],
        arguments: Sequence[TensorType],
        given: int,
    ) -> Sequence[str]:
        """Which lengths of arguments are padded to buckets, or why none is."""
        facts = self.facts(program)
        spec = CallSpec.of(program.graph, program.host, single=False, facts=facts, given=given)
        if not asks_for_buckets(spec.buckets, options):
            return ()
        # Most programs are for exact lengths.
        from graphc.link.jax.buckets import padding  # noqa: PLC0415

        return padding(program, spec, options, arguments)

    def copy(self, value: Any, type: TensorType, options: Mapping[str, Any]) -> Any:
        """A copy of an array; one on a mesh stays there."""
        if len(value.sharding.device_set) == 1:
            return super().copy(value, type, options)
        with jax.enable_x64(True), jax.ensure_compile_time_eval():
            return value.copy()

    def free_array(self, value: Any, type: TensorType, options: Mapping[str, Any]) -> Any:
        """A JAX array, of 32 bits without ``jax_enable_x64``."""
        return in_own_dtype(self.array(value, type, options))

    def transformable(self, function: Transformable) -> Executable:
        """A function that ``jax.grad``, ``jax.jvp``, ``jax.vmap`` and ``jax.jit`` take."""
        return transformable(function)

    def callback(self, node: Node) -> Callable[..., Any]:
        """The operation's NumPy reference, called from within the compiled program."""
        op = node.op

        def call(*values: Any) -> Any:
            if any(isinstance(x, Ragged) for x in values):
                raise refused(node)
            if symbolic.is_assuming():
                raise DynamicShapeError(
                    f"{node!r} runs in NumPy, and a program is without it.", "", node.where
                )
            values = tuple(arrays(node, values))
            result = op.infer(*[TensorType(x.dtype, x.shape) for x in values])
            types = result.items if isinstance(result, TupleType) else (result,)
            if not all(isinstance(t, TensorType) and t.is_static for t in types):
                raise DynamicShapeError(
                    f"{node!r} runs in NumPy, and its result has no known shape.",
                    "Use mode='NUMPY', or give the operation a lowering.",
                    node.where,
                )

            def perform(*xs: Any) -> Any:
                found = op.perform(*xs)
                return found if isinstance(result, TupleType) else (found,)

            made = called_back(perform, types, values)
            return made if isinstance(result, TupleType) else made[0]

        return call

    def around(
        self, node: Node, compute: Callable[..., Any], *, on_host: bool
    ) -> Callable[..., Any]:
        """Let a lowering handle implicit operands, and lengths that are only bounded."""
        deciding: Sequence[int] = () if node.op.graphs() else deciding_inputs(node)
        if on_host and not isinstance(node.op, Length | Shape | Pick):
            deciding = range(len(node.inputs))

        # Here a number computed from data gets a bound.
        limits = node.op is minimum and node.type is TensorType("int64")

        reads_shape = isinstance(node.op, Length | Shape)

        def bounded(*values: Any) -> Any:
            if any(map(is_implicit, values)) and not reads_shape:
                if any(isinstance(x, Ragged) for x in values):
                    raise refused(node)
                # A program without implicit arrays does not load what runs them.
                from graphc.link.jax.implicit import lowered  # noqa: PLC0415

                return lowered.at_primitives(compute, values, policy_of(), node.site)
            if (
                limits
                or any(isinstance(x, Count | Ragged) for x in values)
                or not all(is_known(values[i]) or is_symbolic_dim(values[i]) for i in deciding)
            ):
                return compute_bounded(node, self.lowering(node.op), values)
            return compute(*values)

        if not symbolic.meets_symbols(node):
            return bounded
        if on_host:
            return symbolic.on_host(node, bounded, partial(self._lowered, node))
        return symbolic.of_symbols(bounded, deciding_inputs(node))

    def _lowered(self, node: Node, *values: Any) -> Any:
        return self.bind(node)(*values)

    def equal_lengths(self, n: Any, m: Any, error: Callable[[int, int], GraphcError]) -> None:
        """Raise an error, given the lengths, if two lengths differ: now, or after the run."""
        if symbolic.has_symbols((n, m)) and symbolic.equal(n, m):
            return
        if isinstance(n, Count) or isinstance(m, Count):
            agree(n, m, error)
        else:
            super().equal_lengths(n, m, error)


backend = JAXBackend(
    "JAX",
    array=array,
    numpy=to_numpy,
    compile=compile,
    # To put an array on a device compiles nothing.
    kinds=(np.ndarray, jax.Array, type(jax.device_put(np.zeros(0, np.float32)))),
    eager=False,
    keeps_executables=True,
    describe=describe,
    options={
        "device": (),
        "fallback": ("numpy",),
        "lengths": ("buckets", "exact"),
        "logical_axes": (),
        "mesh": (),
    },
)
