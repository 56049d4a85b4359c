"""MLX as a backend: its arrays and devices, and how a program is compiled."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from time import perf_counter
from typing import Any

import mlx.core as mx
import numpy as np

from graphc.errors import OperationError
from graphc.ir import Graph, Node, Op, Pick, TensorType, TupleType, is_complex, numpy_dtype
from graphc.link.backend import Backend, Dispatch, Executable, perform_as_declared
from graphc.link.call_spec import CallSpec
from graphc.link.compile_context import CompileContext
from graphc.link.host import Host
from graphc.link.mlx import arrays
from graphc.link.mlx.compiler import ends_kernel, prepare_compiler
from graphc.link.mlx.distributed import lost_process
from graphc.link.mlx.gaps import GAPS, NARROWER
from graphc.link.mlx.host import analyse, value_inputs
from graphc.link.mlx.pure import transformable
from graphc.link.mlx.segments import Segments, UntracedError, WholeProgram, steps_between_segments
from graphc.link.mlx.tiers import TIERS, Tier, tier_of
from graphc.link.mlx.watch import Watch
from graphc.link.program import Program
from graphc.link.slices import with_slice_lengths
from graphc.link.source import compiled_code
from graphc.link.transformable import Transformable
from graphc.tensor.arrays.index import Index, IndexUpdate
from graphc.tensor.arrays.select import CheckedIndices
from graphc.tensor.core.all_sum import holds_sums
from graphc.tensor.core.shape import Length, Shape


def describe(options: Mapping[str, Any]) -> str:
    """Return MLX's version and the device."""
    device = arrays.device_of(options)
    description = _descriptions.get(repr(device))
    if description is None:
        info = mx.device_info(device) or {}  # older releases have no info on processors
        name = info.get("device_name", "of unknown make")
        description = f"MLX {version('mlx')}, on {device.type.name} ({name})"
        _descriptions[repr(device)] = description
    return description


_descriptions: dict[str, str] = {}
"""Descriptions by device: a query takes as long as many calls, and each new function needs one."""


def compile(
    spec: CallSpec,
    program: Callable[[], Program],
    options: Mapping[str, Any],
    donated: tuple[int, ...],
    context: CompileContext,
) -> Executable:
    """Return a function that runs the program, in buckets of lengths if the mode asks for them."""
    exact = compile_exact(spec, program, options, donated, context)
    if not spec.is_padded(options):
        return exact
    # Most programs are for exact lengths.
    from graphc.link.mlx.buckets import MLXBuckets  # noqa: PLC0415

    def compile_padded(padded: Graph) -> Executable:
        new = Program(padded, backend, analyse(padded))
        facts = backend.facts(new)
        new_spec = CallSpec.of(padded, new.host, single=False, facts=facts)
        return compile_exact(new_spec, lambda: new, options, (), context, lengths=1)

    return MLXBuckets(exact, program, spec, options, compile_padded)


def compile_exact(
    spec: CallSpec,
    program: Callable[[], Program],
    options: Mapping[str, Any],
    donated: tuple[int, ...],
    context: CompileContext,
    lengths: int = 0,
) -> Executable:
    """Return a function that runs the program's segments and evaluates its outputs once.

    The last ``lengths`` arguments are lengths of the others; no call of a user has them. The
    function holds no arrays but the program's constants: functions of equal structure share it.
    """
    if options.get("compile", True):
        prepare_compiler(arrays.device_of(options))
    whole_program = program()
    tier = tier_of(options, whole_program.graph.key, at_once=holds_sums(whole_program.graph.nodes))
    segments = Segments(whole_program, {**options, "compile": tier})
    watch = Watch(spec, context, lengths, is_large=segments.is_large)
    timed = tier if isinstance(tier, Tier) else None
    # The user's operation may call the function that it is part of.
    lock = threading.RLock()
    whole = None if watch.static else segments.direct
    run = _runner(segments, watch, whole)
    execute = _executable(run, watch, timed, lock, single=spec.single)
    if whole is not None and not holds_sums(whole_program.graph.nodes):
        execute = _direct_executable(whole, execute, lock, len(spec.arguments), single=spec.single)
    device = options.get("device") and arrays.device_of(options)
    return _on_device(execute, device) if device else execute


def _executable(
    run: Callable[..., Any], watch: Watch, tier: Tier | None, lock: threading.RLock, *, single: bool
) -> Executable:
    """Return an executable that runs the program, and evaluates its results."""
    # A call of a small program takes 10 us: each name that is looked up in a module counts.
    acquire, release, request, evaluate = lock.acquire, lock.release, mx.async_eval, mx.eval
    calls = watch.calls

    def execute(*arguments: Any) -> Any:
        start = perf_counter() if tier else 0.0
        call = None
        acquire()
        try:
            # Unlike eval, async_eval also refuses arrays that mx.grad traces.
            request(*arguments)  # type: ignore[no-untyped-call]
            results = run(*arguments)
            evaluate(results)
            if tier and tier.was_unfused:
                tier.after_call(perf_counter() - start)
        except (ValueError, RuntimeError, OperationError) as error:
            raise _call_error(error) from error.__cause__
        finally:
            if calls:
                call = watch.close()
            release()
        if call is not None:
            call.record()
        return results[0] if single else results

    return execute


def _call_error(error: Exception) -> Exception:
    """Return graphc's error for a transformation or a lost process, else ``error``."""
    if isinstance(error, RuntimeError) and not isinstance(error, OperationError):
        return lost_process(error)
    return arrays.explain_evaluation(error)


def _direct_executable(
    whole: WholeProgram, execute: Executable, lock: threading.RLock, arguments: int, *, single: bool
) -> Executable:
    """Return an executable that calls MLX's function directly, once the function is fused."""
    dispatch = Dispatch(execute)

    def choose(fused: Callable[..., Any]) -> None:
        dispatch.run = _generate_call(
            fused, whole.constants, execute, lock, arguments, single=single
        )

    whole.when_fused = choose
    return dispatch


def _generate_call(
    fused: Callable[..., Any],
    constants: Sequence[Any],
    execute: Executable,
    lock: threading.RLock,
    arguments: int,
    *,
    single: bool,
) -> Executable:
    """Return generated code that calls MLX's function with a fixed number of arrays.

    MLX takes twice as long to be called with ``*arrays``. After an UntracedError, ``execute`` runs.
    """
    names = [f"a{i}" for i in range(arguments)]
    parameters = ", ".join(names)
    foreign = " or ".join([f"{a}.__class__ is not kind" for a in names]) or "False"
    operands = ", ".join([*names, *(f"c{i}" for i in range(len(constants)))])
    text = f"""
def call({parameters}):
    if {foreign}:
        return call(*map(device_array, ({parameters}{"," * bool(names)})))
    acquire()
    try:
        results = fused({operands})
        evaluate(results)
        return results{"[0]" * single}
    except UntracedError:
        pass
    except (ValueError, RuntimeError, OperationError) as error:
        raise explained(error) from error.__cause__
    finally:
        release()
    return execute({parameters})
"""
    namespace: dict[str, Any] = {
        "OperationError": OperationError,
        "UntracedError": UntracedError,
        "acquire": lock.acquire,
        "device_array": arrays.device_array,
        "evaluate": mx.eval,
        "execute": execute,
        "explained": _call_error,
        "fused": fused,
        "kind": mx.array,
        "release": lock.release,
        **{f"c{i}": constant for i, constant in enumerate(constants)},
    }
    exec(compiled_code(text, "call"), namespace)
    call: Executable = namespace["call"]
    return call


def _runner(segments: Segments, watch: Watch, whole: WholeProgram | None) -> Callable[..., Any]:
    """Return the function that runs a program, given its arguments."""
    if whole is None:
        static = frozenset(watch.static)

        def run(*arguments: Any) -> Any:
            watch.open(arguments)
            pairs = enumerate(arguments)
            values = [
                arrays.to_numpy(x) if i in static else arrays.device_array(x) for i, x in pairs
            ]
            return arrays.separate_results(segments.run(*values), arguments)

        return run
    sums = holds_sums(segments.program.graph.nodes)
    if not sums:
        whole.watch = watch

    def run_whole(*arguments: Any) -> Any:
        if sums:
            watch.open(arguments)  # processes agree on the sums of open calls only
        return whole.trace_and_run(*map(arrays.device_array, arguments))

    return run_whole


def _on_device(execute: Executable, device: Any) -> Executable:
    def call(*arguments: Any) -> Any:
        with mx.stream(device):
            return execute(*arguments)

    return call


HOST_CHECKED = (Index, IndexUpdate, CheckedIndices)
"""Operations whose lowerings check integers on the host."""


def _identity(value: Any) -> Any:
    return value


WIDE: set[type[Op]] = set()
"""Named functions whose lowerings compute in float64, too."""


class MLXBackend(Backend):
    """MLX: operations are functions of MLX arrays; NumPy computes what decides a shape."""

    def dtype(self, x: Any) -> np.dtype[Any]:
        return numpy_dtype(arrays.name_of(x)) if isinstance(x, mx.array) else x.dtype

    def own_dtype(self, type: TensorType) -> Any:
        return arrays.dtype_of(type.dtype)

    def portable_options(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the options with the device's name: MLX's devices cannot be pickled."""
        device = options.get("device")
        is_named = device is None or isinstance(device, str)
        return options if is_named else {**options, "device": arrays.device_of(options).type.name}

    def stand_ins(self, options: Mapping[str, Any]) -> Mapping[str, str]:
        """Return narrower dtypes if the options choose them: GPUs have no 64-bit floats."""
        return NARROWER if options.get("float64") == "downcast" else {}

    def around(
        self, node: Node, compute: Callable[..., Any], *, on_host: bool
    ) -> Callable[..., Any]:
        """Return the function that computes a node, given MLX arrays and NumPy arrays on the host.

        A node on the host is computed by its lowering if an operand is on the device after all.
        """
        if node.op.graphs() or isinstance(node.op, Length | Shape | Pick):
            return compute
        if on_host:
            return self._either(node, compute)
        host_inputs = frozenset(value_inputs(node))
        convert = _identity if isinstance(node.op, HOST_CHECKED) else arrays.device_array
        if ends_kernel(node):
            return lambda *values: arrays.end_of_kernel(compute(*map(arrays.device_array, values)))
        if not host_inputs:
            return lambda *values: compute(*map(convert, values))

        def compute_with_host_inputs(*values: Any) -> Any:
            return compute(
                *[
                    arrays.host_array(x) if i in host_inputs else convert(x)
                    for i, x in enumerate(values)
                ]
            )

        return compute_with_host_inputs

    def _either(self, node: Node, by_numpy: Callable[..., Any]) -> Callable[..., Any]:
        if self.calls_back(node):
            return lambda *values: by_numpy(*map(arrays.host_array, values))
        on_device = self.around(node, self.bind(node), on_host=False)

        def compute(*values: Any) -> Any:
            is_any_on_device = any(isinstance(x, mx.array) for x in values)
            return on_device(*values) if is_any_on_device else by_numpy(*values)

        return compute

    def calls_back(self, node: Node) -> bool:
        """Return whether NumPy computes a node, as factorisations of complex matrices."""
        return super().calls_back(node) or (
            node.op.by_numpy and any(is_complex(x.type.dtype) for x in node.inputs)
        )

    def callback(self, node: Node) -> Callable[..., Any]:
        """Return the operation's NumPy reference, to be called between segments."""

        def as_result(y: Any, type: Any) -> Any:
            if type.dtype not in arrays.DTYPES:
                return None  # MLX lacks the dtype, and refused each use of this result
            # MLX takes no arrays of negative strides.
            return arrays.device_array(np.asarray(y, type.numpy_dtype, order="C"))

        def call(*values: Any) -> Any:
            with np.errstate(all="ignore"):
                operands = [arrays.to_numpy(arrays.host_array(x)) for x in values]
                results = perform_as_declared(node.op, *operands)
            if isinstance(node.type, TupleType):
                types = node.type.items
                return tuple(as_result(y, t) for y, t in zip(results, types, strict=True))
            return as_result(results, node.type)

        return call

    def traceable(
        self,
        spec: CallSpec,
        program: Callable[[], Program],
        options: Mapping[str, Any],
        execute: Executable,
    ) -> Executable:
        """Return a function that runs the program's segments and evaluates nothing."""
        # The caller evaluates the results, fused if the caller fuses.
        fused = options.get("compile", True) is not False
        segments = Segments(program(), {**options, "compile": fused})
        static = frozenset(spec.static)

        def run(*arguments: Any) -> Sequence[Any]:
            pairs = enumerate(arguments)
            values = [
                arrays.to_numpy(x) if i in static else arrays.device_array(x) for i, x in pairs
            ]
            if arrays.is_traced(values):
                with (
                    suppress(arrays.NotTraceableError),
                    arrays.tracing(arrays.Trace({}, is_users=True)),
                ):
                    return [arrays.device_array(y) for y in segments.program.trace(*values)]
            try:
                return segments.run(*values)
            except (ValueError, OperationError) as error:
                raise arrays.explain_evaluation(error) from error.__cause__

        device = options.get("device") and arrays.device_of(options)
        return _on_device(run, device) if device else run

    def transformable(self, function: Transformable) -> Executable:
        return transformable(function)

    def notes(self, program: Program, options: Mapping[str, Any]) -> Mapping[Node, str]:
        """Return notes on the steps that run between compiled segments."""
        return {
            step.node: "run from Python, between compiled parts"
            for step in steps_between_segments(program)
            if not isinstance(step.node.op, Pick)
        }

    def summary(self, program: Program, options: Mapping[str, Any]) -> Mapping[str, str]:
        tier = TIERS.get(program.graph.key())
        return {} if tier is None else {"kernels": str(tier)}

    def has(self, node: Node) -> bool:
        """Return whether a named function is one operation on MLX.

        MLX computes exponentials and means in float32: in float64, only functions in ``WIDE`` are
        operations.
        """
        is_float64 = getattr(node.type, "dtype", None) == "float64"
        return Backend.has(self, node) and (not is_float64 or type(node.op) in WIDE)

    def prepare(self, graph: Graph, options: Mapping[str, Any]) -> Graph:
        """Return the graph with slices of fixed lengths at variable starts as gathers."""
        return with_slice_lengths(graph)

    def analyse(self, graph: Graph) -> Host:
        """Return the host part; MLX refuses no shape, as values can be read between segments."""
        return analyse(graph)


backend = MLXBackend(
    "MLX",
    array=arrays.array,
    numpy=arrays.to_numpy,
    numpy_result=lambda y: arrays.to_numpy(y) if isinstance(y, mx.array) else np.array(y),
    compile=compile,
    kinds=(np.ndarray, mx.array),
    eager=False,
    describe=describe,
    options={
        "compile": ("auto", True, False),
        "device": (),
        "fallback": ("numpy",),
        "float64": ("downcast",),
        "lengths": ("buckets", "exact"),
    },
    gains=frozenset({"coupled_recurrence", "linear_recurrence", "work_before_loop"}),
    gaps=GAPS,
)


def held_program(graph: Graph, known: tuple[int, ...]) -> Program:
    """Return an operation's graph as a program, given its inputs on the host.

    The program is not cached: users may enter lowerings at any time.
    """
    return Program(graph, backend, analyse(graph, known))
