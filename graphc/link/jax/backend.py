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
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend.backend import get_backend

from graphc.errors import ArgumentError, DynamicShapeError, GraphcError, ModeError, ShardingError
from graphc.implicit.array import is_implicit
from graphc.implicit.policy import (
    Materialization,
    as_dense,
    materializations,
    materializing,
    policy_of,
)
from graphc.ir import Graph, Leaf, Node, Op, Pick, Sharding, TensorType, TupleType, dependent
from graphc.ir.law import deciding_inputs
from graphc.ir.sharding import MeshAxes, with_role
from graphc.link.backend import Backend, Executable, perform_as_declared, refuse_remote
from graphc.link.call_spec import CallSpec, asks_for_buckets
from graphc.link.compile_context import CompileContext
from graphc.link.host import SliceLength
from graphc.link.jax import symbolic
from graphc.link.jax.call_key import KnownArguments, settings
from graphc.link.jax.devices import default_platform, device_choice, plan_choices, plan_notes
from graphc.link.jax.executables import Executables, Inspect, in_64_bits, on_device
from graphc.link.jax.host import call_numpy
from graphc.link.jax.mesh import MeshHome, MeshLayout, check_options, layout_of
from graphc.link.jax.mesh_calls import on_mesh
from graphc.link.jax.pure import in_own_dtype, transformable
from graphc.link.jax.specialized import Specialized
from graphc.link.jax.traced import TracedProgram
from graphc.link.placement import Placement
from graphc.link.program import Program
from graphc.link.slices import length_of_slice, with_slice_lengths
from graphc.link.transformable import Transformable
from graphc.rewrite.loops.windows import index_windows
from graphc.site import mark_own
from graphc.tensor.core.shape import Length, Shape

# An error raised while JAX traces a program is about the user's line, not about one of JAX's.
mark_own(str(Path(jax.__file__).parent))

WIDE = frozenset({"int64", "uint64", "float64", "complex128"})

WIDENED: set[Op | type[Op]] = set()
"""Operations, or their classes, that may compute in float64 whatever their operands' dtypes."""


class OptionRule(NamedTuple):
    """The rule of a mode's option that chooses how some operations are computed.

    Attributes:
        rewrite: Returns a graph with other operations, given the option's value.
        notes: Returns a plan's notes on these operations.
    """

    rewrite: Callable[[Graph, Any], Graph]
    notes: Callable[[Graph], Mapping[Node, str]]


OPTION_RULES: dict[str, OptionRule] = {}
"""Rules by the option's name; the file of the operations enters them."""


def array(value: Any, type: TensorType, options: Mapping[str, Any]) -> Any:
    """Convert to a JAX array of a dtype on the mode's device; NumPy arrays are copied.

    Over a mesh, the array is replicated.
    """
    if isinstance(value, jax.Array) and value.dtype == type.numpy_dtype:
        return value
    layout = layout_of(options)
    if layout is not None:
        return layout.home(None).put(_copy(value, type.numpy_dtype), "An array")
    # The array outlives a trace of the user's code, so it must not be a tracer.
    with jax.enable_x64(True), jax.ensure_compile_time_eval():
        return jax.device_put(_copy(value, type.numpy_dtype), device_of(options))


ALIGNED = 64
"""Alignment, in bytes, of memory that JAX uses as a CPU array without a copy."""

LARGE = 2**20
"""Size, in bytes, from which aligned memory saves more time than its allocation takes."""


def _copy(value: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Copy to fresh memory, which JAX need not copy again where it is large."""
    value = np.asarray(value)
    size = value.size * dtype.itemsize
    if size < LARGE:
        return np.array(value, dtype)
    memory = np.empty(size + ALIGNED, np.uint8)
    start = -memory.ctypes.data % ALIGNED
    aligned = memory[start : start + size].view(dtype).reshape(value.shape)
    np.copyto(aligned, value, casting="unsafe")
    return aligned


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
        ModeError: If JAX has no such device.
    """
    wanted = options.get("device")
    if not isinstance(wanted, str):
        return wanted
    platform, _, number = wanted.partition(":")
    try:
        return jax.devices(platform)[int(number or 0)]
    except (RuntimeError, IndexError, ValueError) as error:
        present = ", ".join(f"{d.platform}:{d.id}" for d in jax.devices())
        raise ModeError(
            f"device={wanted!r}: JAX has no such device.", f"It has {present}."
        ) from error


def platform_of(options: Mapping[str, Any]) -> str:
    """Return the platform of a mode's devices; the default one if the mode names none."""
    layout, wanted = layout_of(options), options.get("device")
    if isinstance(wanted, str):  # which need not be here
        return wanted.partition(":")[0]
    device = layout.mesh.devices.flat[0] if layout else wanted
    return str(device.platform) if device else default_platform()


def describe(options: Mapping[str, Any]) -> str:
    """Return JAX's version and the device."""
    layout = layout_of(options)
    if layout is not None:
        first = layout.mesh.devices.flat[0]
        return f"JAX {jax.__version__}, on {layout.axes} of {first.platform} ({first.device_kind})"
    device = device_of(options) or jax.devices()[0]
    return f"JAX {jax.__version__}, on {device.platform}:{device.id} ({device.device_kind})"


def wide(program: Program) -> bool:
    """Return whether the program computes in a 64-bit dtype outside of its part on the host."""
    host, graph = program.host, program.graph
    if host is None:
        return _is_wide(graph, ())
    # The program computes with the bounds of slices: the host knows the lengths alone.
    bounds = [graph.inputs[i] for i in host.sliced]
    passed = dependent([x for x in graph.nodes if not isinstance(x.op, SliceLength)], bounds)
    return _is_wide(graph, host.nodes - passed)


def _is_wide(graph: Graph, host: Container[Node]) -> bool:
    outputs = set(graph.outputs)
    return any(
        node.op in WIDENED
        or type(node.op) in WIDENED
        or any(x.dtype in WIDE for x in getattr(node.type, "items", (node.type,)))
        or any(_is_wide(nested, ()) for nested in node.op.graphs())
        for node in graph.nodes
        if node in outputs or node not in host
    )


def _is_foreign(graph: Graph) -> bool:
    """Return whether JAX traces code other than graphc's lowerings, or calls back to the host."""
    return any(
        type(node.op) in WIDENED
        or (node.op.by_numpy and backend.lowering(node.op) is None)
        or any(_is_foreign(nested) for nested in node.op.graphs())
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
    shardings = layout.argument_shardings(spec.shardings) if layout else ()
    is_plain = not spec.static and device is None and not traced.is_padded
    if spec.static:
        execute = Specialized(traced, spec, donated, context, inspect, shardings).call
    else:
        pure, foreign = spec.single, spec.facts["foreign"]
        known_arguments = KnownArguments()
        executables = Executables(
            traced.function, donated, context, known_arguments, pure=pure, foreign=foreign
        )
        executables.inspect, executables.shardings = inspect, shardings
        executables.over_mesh = layout is not None
        execute = executables.caller(wide=wide and is_plain)
        execute = traced.trim(execute) if traced.is_padded else execute
    if device is not None:
        execute = on_device(execute, device)
    execute = in_64_bits(execute) if wide and not is_plain else execute
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
    if not spec.is_padded(options):
        return exact
    # Most programs are for exact lengths.
    from graphc.link.jax.buckets import JAXBuckets  # noqa: PLC0415

    return JAXBuckets(exact, traced, spec, options, context, device_of(options))


def _inspect(spec: CallSpec, program: Callable[[], Program]) -> Inspect | None:
    """Return a function that warns of declared shardings which an executable does not keep.

    None if no sharding of an argument is declared.
    """
    declared = [x for x in spec.shardings[: spec.passed] if x is not None]
    if not any(entry is not None for sharding in declared for entry in sharding):
        return None
    # Most programs are for one device.
    from graphc.link.jax.collectives import warn_of_gathers  # noqa: PLC0415

    return partial(warn_of_gathers, program, spec)


def _on_mesh(
    execute: Executable, layout: MeshLayout, spec: CallSpec, program: Callable[[], Program]
) -> Executable:
    def name(position: int) -> str:
        x = program().arguments[position]
        role = "captured array" if isinstance(x.op, Leaf) else "argument"
        return with_role(f"{role} {x!r}", x.op)

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

    def gains_on(self, options: Mapping[str, Any]) -> frozenset[str]:
        rules: frozenset[str] = device_choice("rewrites", platform_of(options))
        return self.gains | rules

    def notes(self, program: Program, options: Mapping[str, Any]) -> Mapping[Node, str]:
        notes = plan_notes(program.graph, platform_of(options), self.calls_back)
        for rule in OPTION_RULES.values():
            notes |= rule.notes(program.graph)
        return notes

    def summary(self, program: Program, options: Mapping[str, Any]) -> Mapping[str, str]:
        return plan_choices(program.graph, platform_of(options))

    def dense_arrays(self, program: Program, arguments: Sequence[Any]) -> Sequence[Materialization]:
        static = program.host.inputs if program.host else ()

        def trace(*arrays: Any) -> Any:
            passed = iter(arrays)
            values = [x if i in static else next(passed) for i, x in enumerate(arguments)]
            return [as_dense(y, "the output") for y in program.trace(*values)]

        specs = [
            jax.ShapeDtypeStruct(x.shape, node.type.numpy_dtype)  # type: ignore[no-untyped-call]
            for i, (x, node) in enumerate(zip(arguments, program.arguments, strict=True))
            if i not in static
        ]
        with jax.enable_x64(True), materializing("allow"), materializations() as report:
            jax.eval_shape(trace, *specs)
        return [*dict.fromkeys(report)]

    def conversion_error(self, error: Exception, results: Any) -> Exception:
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
        except ShardingError as sharding_error:
            return sharding_error
        return error

    def narrows(self, dtype: np.dtype[Any]) -> bool:
        return not settings.jax_enable_x64 and jax.dtypes.canonicalize_dtype(dtype) != dtype

    def prepare(self, graph: Graph, options: Mapping[str, Any]) -> Graph:
        """Return the graph whose loops read and write slices of constant length by indices."""
        graph = index_windows(graph)
        for name in OPTION_RULES.keys() & options.keys():
            graph = OPTION_RULES[name].rewrite(graph, options[name])
        buckets = [getattr(x.op, "buckets", None) for x in (*graph.inputs, *graph.leaves)]
        # If lengths are padded, the length of a slice is padded too.
        return graph if asks_for_buckets(buckets, options) else with_slice_lengths(graph)

    def build(self, options: Mapping[str, Any]) -> str:
        layout = layout_of(options)
        return _build(layout.mesh.devices.flat[0] if layout else options.get("device"))

    def normalize_options(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        return check_options(options)

    def portable_options(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        # Few modes are pickled.
        from graphc.link.jax.portable import portable  # noqa: PLC0415

        return {name: portable(value) for name, value in options.items()}

    def restore_options(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        from graphc.link.jax.portable import restore  # noqa: PLC0415

        return {name: restore(value) for name, value in options.items()}

    def mesh_axes(self, options: Mapping[str, Any]) -> MeshAxes | None:
        layout = layout_of(options)
        return None if layout is None else layout.axes

    def unwritten(self, options: Mapping[str, Any]) -> Hashable:
        """Return the mesh, because its text does not name its devices."""
        return options.get("mesh")

    def home(self, sharding: Sharding | None, options: Mapping[str, Any]) -> MeshHome | None:
        layout = layout_of(options)
        return None if layout is None else layout.home(sharding)

    def placement(
        self,
        program: Program,
        options: Mapping[str, Any],
        arguments: Sequence[Any],
        passed: int,
        donated: Sequence[int],
    ) -> Placement | None:
        layout = layout_of(options)
        if layout is None:
            return None
        from graphc.link.jax.collectives import placement  # noqa: PLC0415 (few programs need it)

        spec = CallSpec.of(program.graph, program.host, single=False, facts={}, passed=passed)
        return placement(program, spec, layout, arguments, donated, wide=wide(program))

    def copy(self, value: Any, type: TensorType, options: Mapping[str, Any]) -> Any:
        """Return a copy of an array; the copy of an array on a mesh stays on the mesh."""
        if len(value.sharding.device_set) == 1:
            return super().copy(value, type, options)
        with jax.enable_x64(True), jax.ensure_compile_time_eval():
            return value.copy()

    def free_array(self, value: Any, type: TensorType, options: Mapping[str, Any]) -> Any:
        return in_own_dtype(self.array(value, type, options))

    def transformable(self, function: Transformable) -> Executable:
        return transformable(function)

    def callback(self, node: Node) -> Callable[..., Any]:
        """Return a function that calls an operation's NumPy reference from the compiled program."""
        op = node.op

        def call(*values: Any) -> Any:
            if symbolic.is_assuming():
                raise DynamicShapeError(
                    f"{node!r} runs in NumPy, and a program is without it.", "", node.where
                )
            result = op.infer(*[TensorType(x.dtype, x.shape) for x in values])
            types = result.items if isinstance(result, TupleType) else (result,)
            if not all(isinstance(t, TensorType) and t.is_static for t in types):
                raise DynamicShapeError(
                    f"{node!r} runs in NumPy, and its result has no known shape.",
                    "Use mode='NUMPY', or give the operation a lowering.",
                    node.where,
                )

            def perform(*xs: Any) -> Any:
                ys = perform_as_declared(op, *xs)
                return ys if isinstance(result, TupleType) else (ys,)

            results = call_numpy(perform, types, values)
            return results if isinstance(result, TupleType) else results[0]

        return call

    def around(
        self, node: Node, compute: Callable[..., Any], *, on_host: bool
    ) -> Callable[..., Any]:
        """Wrap a lowering so that it handles implicit operands and symbolic lengths."""
        op = node.op
        if isinstance(op, SliceLength):
            return lambda *bounds: length_of_slice(op)
        reads_shape = isinstance(op, Length | Shape)
        is_number = on_host and not isinstance(op, Length | Shape | Pick)

        def compute_general(*values: Any) -> Any:
            if any(map(is_implicit, values)) and not reads_shape:
                # A program without implicit arrays does not load what runs them.
                from graphc.link.jax.implicit import captured  # noqa: PLC0415

                return captured.at_primitives(compute, values, policy_of(), node.site)
            if is_number and not all(map(symbolic.is_on_host, values)):
                # A bound of a slice, of which the host knows the length alone.
                return self._call_lowering(node, *values)
            return compute(*values)

        if not symbolic.meets_symbols(node):
            return compute_general
        if on_host:
            return symbolic.on_host(node, compute_general, partial(self._call_lowering, node))
        return symbolic.of_symbols(compute_general, deciding_inputs(node))

    def _call_lowering(self, node: Node, *values: Any) -> Any:
        return self.bind(node)(*values)

    def equal_lengths(self, n: Any, m: Any, error: Callable[[int, int], GraphcError]) -> None:
        """Raise an error, given the lengths, if two lengths differ: now, or after the run."""
        if symbolic.has_symbols((n, m)) and symbolic.equal(n, m):
            return
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
        "attention": ("xla", "pallas", "interpret"),
        "device": (),
        "fallback": ("numpy",),
        "lengths": ("buckets", "exact"),
        "logical_axes": (),
        "mesh": (),
    },
)
