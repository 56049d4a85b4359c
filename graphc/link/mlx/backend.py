"""MLX as a backend: its arrays, devices, and how a program is compiled."""

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
from graphc.link.backend import Backend, Dispatch, Executable
from graphc.link.call_spec import CallSpec
from graphc.link.compile_context import CompileContext
from graphc.link.host import Host
from graphc.link.mlx.arrays import (
    DTYPES,
    NotTraceableError,
    Trace,
    array,
    device_array,
    device_of,
    dtype_of,
    end_of_kernel,
    host_array,
    is_traced,
    name_of,
    own,
    to_numpy,
    tracing,
    untransformed,
)
from graphc.link.mlx.compiler import prepare_compiler
from graphc.link.mlx.distributed import lost_process
from graphc.link.mlx.gaps import GAPS, NARROWER
from graphc.link.mlx.host import analyse, needed
from graphc.link.mlx.kernels import ends_kernel
from graphc.link.mlx.pure import transformable
from graphc.link.mlx.segments import Segments, UntracedError, WholeProgram, driven_steps
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
    """MLX's version and the device."""
    device = device_of(options)
    found = _descriptions.get(repr(device))
    if found is None:
        known = mx.device_info(device) or {}  # older ones say nothing of processors
        name = known.get("device_name", "of unknown make")
        found = f"MLX {version('mlx')}, on {device.type.name} ({name})"
        _descriptions[repr(device)] = found
    return found


_descriptions: dict[str, str] = {}
"""By device: a query takes as long as many calls, and every new function makes one."""


def compile(
    spec: CallSpec,
    program: Callable[[], Program],
    options: Mapping[str, Any],
    donated: tuple[int, ...],
    context: CompileContext,
) -> Executable:
    """Return a function that runs the program's segments and evaluates its outputs once.

    It holds no array but the program's constants: functions of equal structure share it.
    """
    if options.get("compile", True):
        prepare_compiler(device_of(options))
    made = program()
    tier = tier_of(options, made.graph.key, at_once=holds_sums(made.graph.nodes))
    segments = Segments(made, {**options, "compile": tier})
    watch = Watch(spec, context, is_large=segments.is_large)
    timed = tier if isinstance(tier, Tier) else None
    # An operation of the user's may call the function that it is part of.
    lock = threading.RLock()
    whole = None if watch.static else segments.direct
    run = _running(segments, watch, whole)
    execute = _execute(run, watch, timed, lock, single=spec.single)
    if whole is not None and not holds_sums(made.graph.nodes):
        execute = _straight(whole, execute, lock, len(spec.arguments), single=spec.single)
    device = options.get("device") and device_of(options)
    return _on_device(execute, device) if device else execute


def _execute(
    run: Callable[..., Any],
    watch: Watch,
    tier: Tier | None,
    lock: threading.RLock,
    *,
    single: bool,
) -> Executable:
    """A call: what runs the program is called, and its results are evaluated."""
    # A call of a small program takes 10 us: each name that is looked up in a module counts.
    acquire, release, request, evaluate = lock.acquire, lock.release, mx.async_eval, mx.eval
    calls = watch.calls

    def execute(*arguments: Any) -> Any:
        start = perf_counter() if tier else 0.0
        call = None
        acquire()
        try:
            # Unlike eval, async_eval also refuses what mx.grad traces.
            request(*arguments)  # type: ignore[no-untyped-call]
            found = run(*arguments)
            evaluate(found)
            if tier and tier.was_unfused:
                tier.after_call(perf_counter() - start)
        except (ValueError, RuntimeError, OperationError) as error:
            raise _explained(error) from error.__cause__
        finally:
            if calls:
                call = watch.close()
            release()
        if call is not None:
            call.record()
        return found[0] if single else found

    return execute


def _explained(error: Exception) -> Exception:
    """The error of a call, or graphc's where it is about transformations or other processes."""
    if isinstance(error, RuntimeError) and not isinstance(error, OperationError):
        return lost_process(error)
    return untransformed(error)


def _straight(
    whole: WholeProgram, execute: Executable, lock: threading.RLock, arguments: int, *, single: bool
) -> Executable:
    """An executable that calls MLX's function with nothing between, once that runs fused."""
    dispatch = Dispatch(execute)

    def choose(fused: Callable[..., Any]) -> None:
        dispatch.run = _written(fused, whole.constants, execute, lock, arguments, single=single)

    whole.when_fused = choose
    return dispatch


def _written(
    fused: Callable[..., Any],
    constants: Sequence[Any],
    execute: Executable,
    lock: threading.RLock,
    arguments: int,
    *,
    single: bool,
) -> Executable:
    """A call of MLX's function: for a number of arrays, as MLX takes twice as long to be given any.

    Args:
        fused: Takes the arrays and the constants, and may refuse them.
        constants: What it takes after the arrays.
        execute: Runs the program where it refuses.
        lock: Held while it runs.
        arguments: The number of arrays.
        single: Whether the only result is returned itself.
    """
    names = [f"a{i}" for i in range(arguments)]
    given = ", ".join(names)
    foreign = " or ".join([f"{a}.__class__ is not kind" for a in names]) or "False"
    passed = ", ".join([*names, *(f"c{i}" for i in range(len(constants)))])
    text = f"""
def call({given}):
    if {foreign}:
        return call(*map(device_array, ({given}{"," * bool(names)})))
    acquire()
    try:
        found = fused({passed})
        evaluate(found)
        return found{"[0]" * single}
    except UntracedError:
        pass
    except (ValueError, RuntimeError, OperationError) as error:
        raise explained(error) from error.__cause__
    finally:
        release()
    return execute({given})
"""
    namespace: dict[str, Any] = {
        "OperationError": OperationError,
        "UntracedError": UntracedError,
        "acquire": lock.acquire,
        "device_array": device_array,
        "evaluate": mx.eval,
        "execute": execute,
        "explained": _explained,
        "fused": fused,
        "kind": mx.array,
        "release": lock.release,
        **{f"c{i}": constant for i, constant in enumerate(constants)},
    }
    exec(compiled_code(text, "call"), namespace)
    made: Executable = namespace["call"]
    return made


def _running(segments: Segments, watch: Watch, whole: WholeProgram | None) -> Callable[..., Any]:
    """What runs a program, given its arguments."""
    if whole is None:
        known = frozenset(watch.static)

        def run(*arguments: Any) -> Any:
            watch.open(arguments)
            pairs = enumerate(arguments)
            values = [to_numpy(x) if i in known else device_array(x) for i, x in pairs]
            return own(segments.run(*values), arguments)

        return run
    sums = holds_sums(segments.program.graph.nodes)
    if not sums:
        whole.watch = watch

    def run_whole(*arguments: Any) -> Any:
        if sums:
            watch.open(arguments)  # it agrees with other processes
        return whole.traceable(*map(device_array, arguments))

    return run_whole


def _on_device(execute: Executable, device: Any) -> Executable:
    def call(*arguments: Any) -> Any:
        with mx.stream(device):
            return execute(*arguments)

    return call


CHECKED = (Index, IndexUpdate, CheckedIndices)
"""Operations whose lowerings check integers that are known on the host, and so see them there."""


def _as_it_is(value: Any) -> Any:
    return value


WIDE: set[type[Op]] = set()
"""The named functions that their lowerings compute in float64, too."""


class MLXBackend(Backend):
    """Operations are MLX functions of MLX arrays; what decides a shape is NumPy's."""

    def dtype(self, x: Any) -> np.dtype[Any]:
        """NumPy's dtype of an array that it takes."""
        return numpy_dtype(name_of(x)) if isinstance(x, mx.array) else x.dtype

    def own_dtype(self, type: TensorType) -> Any:
        """MLX's dtype of that type."""
        return dtype_of(type.dtype)

    def portable_options(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """The options with a device by its name: MLX's own cannot be pickled."""
        given = options.get("device")
        is_named = given is None or isinstance(given, str)
        return options if is_named else {**options, "device": device_of(options).type.name}

    def stand_ins(self, options: Mapping[str, Any]) -> Mapping[str, str]:
        """Narrower dtypes, where the options choose them: GPUs have no 64-bit floats."""
        return NARROWER if options.get("float64") == "downcast" else {}

    def around(
        self, node: Node, compute: Callable[..., Any], *, on_host: bool
    ) -> Callable[..., Any]:
        """The function that computes a node, given MLX arrays, and NumPy arrays on the host.

        What NumPy computes is computed by the lowering where an operand is on the device after all.
        """
        if node.op.graphs() or isinstance(node.op, Length | Shape | Pick):
            return compute
        if on_host:
            return self._either(node, compute)
        deciding = frozenset(needed(node))
        taken = _as_it_is if isinstance(node.op, CHECKED) else device_array
        if ends_kernel(node):
            return lambda *values: end_of_kernel(compute(*map(device_array, values)))
        if not deciding:
            return lambda *values: compute(*map(taken, values))

        def converted(*values: Any) -> Any:
            return compute(
                *[host_array(x) if i in deciding else taken(x) for i, x in enumerate(values)]
            )

        return converted

    def _either(self, node: Node, by_numpy: Callable[..., Any]) -> Callable[..., Any]:
        if self.calls_back(node):
            return lambda *values: by_numpy(*map(host_array, values))
        on_device = self.around(node, self.bind(node), on_host=False)

        def compute(*values: Any) -> Any:
            is_there = any(isinstance(x, mx.array) for x in values)
            return on_device(*values) if is_there else by_numpy(*values)

        return compute

    def calls_back(self, node: Node) -> bool:
        """Whether MLX lacks it, as it lacks factorisations of complex matrices."""
        return super().calls_back(node) or (
            node.op.by_numpy and any(is_complex(x.type.dtype) for x in node.inputs)
        )

    def callback(self, node: Node) -> Callable[..., Any]:
        """The operation's NumPy reference, between compiled segments."""

        def as_told(y: Any, type: Any) -> Any:
            if type.dtype not in DTYPES:
                return None  # a use of this result was refused: it is a gap
            # MLX takes no arrays that run backwards.
            return device_array(np.asarray(y, type.numpy_dtype, order="C"))

        def call(*values: Any) -> Any:
            with np.errstate(all="ignore"):
                found = node.op.perform(*[to_numpy(host_array(x)) for x in values])
            if isinstance(node.type, TupleType):
                types = node.type.items
                return tuple(as_told(y, t) for y, t in zip(found, types, strict=True))
            return as_told(found, node.type)

        return call

    def traceable(
        self,
        spec: CallSpec,
        program: Callable[[], Program],
        options: Mapping[str, Any],
        execute: Executable,
    ) -> Executable:
        """The program's segments, of which nothing is evaluated."""
        # What is not traced is evaluated by the caller, fused where the caller has it fused.
        fused = options.get("compile", True) is not False
        segments = Segments(program(), {**options, "compile": fused})
        known = frozenset(spec.static)

        def run(*arguments: Any) -> Sequence[Any]:
            pairs = enumerate(arguments)
            given = [to_numpy(x) if i in known else device_array(x) for i, x in pairs]
            if is_traced(given):
                with suppress(NotTraceableError), tracing(Trace({}, is_users=True)):
                    return [device_array(y) for y in segments.program.trace(*given)]
            try:
                return segments.run(*given)
            except (ValueError, OperationError) as error:
                raise untransformed(error) from error.__cause__

        device = options.get("device") and device_of(options)
        return _on_device(run, device) if device else run

    def transformable(self, function: Transformable) -> Executable:
        """A function that ``mx.grad``, ``mx.vmap`` and ``mx.compile`` take."""
        return transformable(function)

    def notes(self, program: Program) -> Mapping[Node, str]:
        """Notes on the steps that are run between compiled segments."""
        return {
            step.node: "run from Python, between compiled parts"
            for step in driven_steps(program)
            if not isinstance(step.node.op, Pick)
        }

    def summary(self, program: Program) -> Mapping[str, str]:
        """The number of fused kernels, where a thread compiles them."""
        tier = TIERS.get(program.graph.key())
        return {} if tier is None else {"kernels": str(tier)}

    def has(self, node: Node) -> bool:
        """Not in float64, unless it is in ``WIDE``: MLX has exponentials and means in float32."""
        wide = getattr(node.type, "dtype", None) == "float64"
        return Backend.has(self, node) and (not wide or type(node.op) in WIDE)

    def prepare(self, graph: Graph, options: Mapping[str, Any]) -> Graph:
        """Return the graph with slices that move and keep their length by indices."""
        return with_slice_lengths(graph)

    def analyse(self, graph: Graph) -> Host:
        """The host part; no shape is refused, as values can be read between segments."""
        return analyse(graph)


backend = MLXBackend(
    "MLX",
    array=array,
    numpy=to_numpy,
    numpy_result=lambda y: to_numpy(y) if isinstance(y, mx.array) else np.array(y),
    compile=compile,
    kinds=(np.ndarray, mx.array),
    eager=False,
    describe=describe,
    options={
        "compile": ("auto", True, False),
        "device": (),
        "fallback": ("numpy",),
        "float64": ("downcast",),
    },
    gains=frozenset({"coupled_recurrence", "linear_recurrence", "work_before_loop"}),
    gaps=GAPS,
)


def held_program(graph: Graph, known: tuple[int, ...]) -> Program:
    """A graph that an operation holds, given which of its inputs are on the host.

    It is made anew each time: lowerings may have been entered since.
    """
    return Program(graph, backend, analyse(graph, known))
