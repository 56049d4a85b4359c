"""The interface of a backend: its name, arrays and compiler, and a lowering for each operation.

A backend is a folder beside this file; its name in capitals is the mode. The first use of the mode
imports every file of the folder ``lower``, which registers its lowerings. The lowerings of packages
that are not imported (``AWAITED``) follow when these are. Other sub-folders hold code that few
programs need, and that these programs import.
"""

from __future__ import annotations

import importlib
import pkgutil
import threading
from collections.abc import Callable, Container, Hashable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np

from graphc import ir
from graphc.config import suggestion
from graphc.errors import (
    GraphcError,
    ModeError,
    OperationError,
    ShardingError,
    UnsupportedOperationError,
)
from graphc.implicit.node import Implicit
from graphc.implicit.policy import Materialization
from graphc.ir.sharding import MeshAxes
from graphc.lazy import call_when_imported
from graphc.link.call_spec import CallSpec
from graphc.link.compile_context import CompileContext
from graphc.link.host import Host, analyse
from graphc.link.transformable import Transformable
from graphc.tensor.arrays.repeat import RepeatIndices
from graphc.tensor.core.elementwise import Elementwise
from graphc.tensor.core.shape import Length, Shape
from graphc.tensor.core.specify import SpecifyShape
from graphc.tensor.core.tensor import import_dlpack

if TYPE_CHECKING:
    from graphc.link.placement import Placement
    from graphc.link.program import Program

F = TypeVar("F", bound=Callable[..., Any])

Executable = Callable[..., Any]
"""A function from the graph's inputs and leaves, as the backend's arrays, to a list of the outputs.

A program with a single output returns the output itself."""


class Dispatch:
    """An executable that calls the most specialized function compiled so far.

    Attributes:
        run: The function for the next call.
        again: The function for a call in which ``run`` raised, given the error and the arguments;
            None if errors of ``run`` are final.
    """

    def __init__(
        self, run: Executable, again: Callable[[Exception, tuple[Any, ...]], Any] | None = None
    ) -> None:
        self.run = run
        self.again = again

    def __call__(self, *arguments: Any) -> Any:
        if self.again is None:
            return self.run(*arguments)
        try:
            return self.run(*arguments)
        except Exception as error:
            run_error = error
        try:
            return self.again(run_error, arguments)
        finally:
            # The error references this frame, and so the arguments.
            del run_error


@dataclass(frozen=True)
class BackendGap:
    """A feature that a backend does not support, for errors at compile time and for the manual.

    Attributes:
        feature: The feature's name.
        reason: The cause, as part of a sentence.
        remedy: The way out, as a sentence.
        where: The devices without support.
        applies: Returns whether a mode's options choose such a device.
        holds: Returns whether a node needs the feature.
    """

    feature: str
    reason: str
    remedy: str
    where: str
    applies: Callable[[Mapping[str, Any]], bool]
    holds: Callable[[ir.Node], bool]


class DeviceChoice(NamedTuple):
    """A choice that depends on the kind of device.

    Attributes:
        cpu: The choice on a CPU.
        gpu: The choice on a GPU.
        reason: Why they differ, as part of a sentence.
        source: Where that was measured, or is documented.
    """

    cpu: Any
    gpu: Any
    reason: str
    source: str

    def on(self, kind: str) -> Any:
        """Return the choice for a kind of device, ``"cpu"`` or ``"gpu"``."""
        return self.gpu if kind == "gpu" else self.cpu


class ArrayHome(Protocol):
    """The devices of arrays with one sharding; errors name the array as ``subject``."""

    @property
    def known(self) -> Set[Any]:
        """The shardings of arrays that are at home already."""

    def put(self, x: Any, subject: object) -> Any:
        """Move an array home."""

    def keep(self, x: Any, subject: object) -> Any:
        """Move home a value that each process passes; raise if the values differ."""

    def put_or_constrain(self, x: Any, subject: object) -> Any:
        """Move an array home; if the library traces the array, constrain its sharding."""


@dataclass(frozen=True)
class Backend:
    """A library that runs graphs.

    Attributes:
        name: The name in ``mode=``.
        array: Converts a value to the backend's array of a type; copies all but the backend's own.
        numpy: Converts one of the backend's arrays to a NumPy array.
        compile: Returns the executable of a program, given the call specification, a function that
            returns the program, the options of the mode, the positions of arguments whose buffers
            may be reused, and a context.
        kinds: The classes of arrays that need no conversion.
        eager: Whether values are known while the program runs, so that shapes may depend on them.
        describe: Returns the device and versions in one line, given the options.
        options: The names of the mode's options, and the allowed values; if empty, ``compile``
            checks the value.
        gains: The names of optional rules that make this backend faster.
        gaps: The unsupported features.
        keeps_executables: Whether executables are stored on disk, and not only rewritten graphs.
        numpy_result: Converts a program's result to a writable NumPy array that shares no memory.
        lowerings: The lowering of each operation class and elementwise row.
        entered: The operations for which users registered lowerings.
    """

    name: str
    array: Callable[[Any, ir.TensorType, Mapping[str, Any]], Any]
    numpy: Callable[[Any], Any]
    compile: Callable[
        [CallSpec, Callable[[], Program], Mapping[str, Any], tuple[int, ...], CompileContext],
        Executable,
    ]
    kinds: tuple[type, ...]
    eager: bool
    describe: Callable[[Mapping[str, Any]], str]
    options: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    gains: frozenset[str] = frozenset()
    gaps: tuple[BackendGap, ...] = ()
    keeps_executables: bool = False
    numpy_result: Callable[[Any], np.ndarray[Any, Any]] = np.array
    # Several results are a tuple on every backend, and a backend that traces knows lengths.
    lowerings: dict[Any, Callable[..., Any]] = field(
        default_factory=lambda: {
            op: op.perform for op in (ir.Pick, Length, RepeatIndices, SpecifyShape)
        }
    )
    entered: list[Any] = field(default_factory=list)

    def lower(self, *ops: type[ir.Op] | Elementwise) -> Callable[[F], F]:
        """Register the decorated function as the lowering of these operations.

        The function takes the operation and the inputs' values. A subclass of an operation inherits
        the lowering.
        """

        def enter(f: F) -> F:
            for op in ops:
                self.lowerings[op] = f
            # Some of the backend's own modules register lowerings after the backend was loaded.
            is_own = str(getattr(f, "__module__", "")).startswith("graphc.")
            if self.name in _loaded and not is_own:
                self.entered.extend(ops)
            return f

        return enter

    @property
    def is_altered(self) -> bool:
        """Whether users registered lowerings of graphc's own operations."""
        return any(
            ir.is_own_class(op) if isinstance(op, type) else op.unwritten() is None
            for op in self.entered
        )

    def lowering(self, op: ir.Op) -> Callable[..., Any] | None:
        """Return the function that computes an operation from the operation and the inputs."""
        if isinstance(op, Elementwise) and op in self.lowerings:
            return self.lowerings[op]
        for cls in type(op).__mro__:
            if cls in self.lowerings:
                return self.lowerings[cls]
        return None

    def calls_back(self, node: ir.Node) -> bool:
        """Return whether a node is computed by its NumPy reference."""
        return self.lowering(node.op) is None

    @property
    def keeps_implicit(self) -> bool:
        """Whether implicit arrays stay implicit; other backends densify them."""
        return Implicit in self.lowerings

    def dtype(self, x: Any) -> np.dtype[Any]:
        """Return the NumPy dtype of one of the backend's arrays."""
        return x.dtype  # type: ignore[no-any-return]

    def conversion_error(self, error: Exception, results: Any) -> Exception:
        """Return the error to raise if results cannot become NumPy arrays."""
        return error

    def narrows(self, dtype: np.dtype[Any]) -> bool:
        """Return whether the library's own functions compute with fewer bits than a dtype has."""
        return False

    def own_dtype(self, type: ir.TensorType) -> Any:
        """Return the ``dtype`` attribute of the backend's arrays of a type."""
        return type.numpy_dtype

    def has(self, node: ir.Node) -> bool:
        """Return whether a named function has a lowering; others are expanded."""
        return type(node.op) in self.lowerings

    def bind(self, node: ir.Node) -> Callable[..., Any]:
        """Return the function that computes a node from the values of its inputs."""
        lowering = self.lowering(node.op)
        assert lowering is not None, node
        return partial(lowering, node.op)

    def prepare(self, graph: ir.Graph, options: Mapping[str, Any]) -> ir.Graph:
        """Return the graph rewritten for the backend."""
        return graph

    def analyse(self, graph: ir.Graph) -> Host | None:
        """Return the part of a program that is computed on the host; None if all values are known.

        Raises:
            DynamicShapeError: If a shape depends on values that are unknown while the backend
                compiles.
        """
        return None if self.eager else analyse(graph)

    def facts(self, program: Program) -> Mapping[str, Any]:
        """Return plain values about a program, to be stored in its call specification."""
        return {}

    def build(self, options: Mapping[str, Any]) -> str:
        """Return the versions and the device to which the executables belong."""
        return self.describe(options)

    def around(
        self, node: ir.Node, compute: Callable[..., Any], *, on_host: bool
    ) -> Callable[..., Any]:
        """Return the function that computes a node, given its function for known lengths."""
        return compute

    def equal_lengths(self, n: Any, m: Any, error: Callable[[int, int], GraphcError]) -> None:
        """Raise the error for two lengths if they differ, while a program is traced."""
        if n != m:
            raise error(n, m)

    def traceable(
        self,
        spec: CallSpec,
        program: Callable[[], Program],
        options: Mapping[str, Any],
        execute: Executable,
    ) -> Executable:
        """Return a function from arguments to a list of outputs, which the library can trace.

        The executable ``execute`` reuses no buffers.
        """
        return execute

    def free_array(self, value: Any, type: ir.TensorType, options: Mapping[str, Any]) -> Any:
        """Convert a value to the library's default array, which may lack 64-bit dtypes."""
        return self.array(value, type, options)

    def transformable(self, function: Transformable) -> Executable:
        """Return a function that the library's own transformations accept."""
        return function.run

    def callback(self, node: ir.Node) -> Callable[..., Any]:
        """Return the function that computes a node by its NumPy reference."""
        raise UnsupportedOperationError(
            f"mode={self.name!r} can't call NumPy for {node!r}.", "Use mode='NUMPY'.", node.where
        )

    def gains_on(self, options: Mapping[str, Any]) -> frozenset[str]:
        """Return the names of optional rules that make the options' device faster."""
        return self.gains

    def notes(self, program: Program, options: Mapping[str, Any]) -> Mapping[ir.Node, str]:
        """Return a plan's notes on how nodes are run, nodes of nested graphs included."""
        return {}

    def summary(self, program: Program, options: Mapping[str, Any]) -> Mapping[str, str]:
        """Return a plan's notes on a program, by subject."""
        return {}

    def dense_arrays(self, program: Program, arguments: Sequence[Any]) -> Sequence[Materialization]:
        """Return a report of each implicit array of a program that is dense at run time.

        Args:
            program: The program.
            arguments: The type of each argument, or its value.
        """
        return ()

    # Meshes of devices.

    def normalize_options(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the options of a mode in canonical form.

        Raises:
            ModeError: If options contradict each other.
        """
        return options

    def portable_options(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the options without devices of this process, for other processes."""
        return options

    def restore_options(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the options for ``portable_options``, with the devices of this process.

        Raises:
            ModeError: If this process lacks devices.
        """
        return options

    def mesh_axes(self, options: Mapping[str, Any]) -> MeshAxes | None:
        """Return the axes of the options' mesh; None without a mesh."""
        return None

    def unwritten(self, options: Mapping[str, Any]) -> Hashable:
        """Return a key of the devices, on which programs depend beside the options' text."""
        return None

    def home(self, sharding: ir.Sharding | None, options: Mapping[str, Any]) -> ArrayHome | None:
        """Return the home of arrays with a declared sharding; None if any device will do."""
        return None

    def placement(
        self,
        program: Program,
        options: Mapping[str, Any],
        arguments: Sequence[Any],
        passed: int,
        donated: Sequence[int],
    ) -> Placement | None:
        """Return the shardings and collectives of a compiled program; None without a mesh.

        Args:
            program: The program.
            options: The options of the mode.
            arguments: The type of each argument, or its value if the value decides a shape.
            passed: The number of arguments that a call passes.
            donated: The positions of arguments whose buffers may be reused.
        """
        return None

    def copy(self, value: Any, type: ir.TensorType, options: Mapping[str, Any]) -> Any:
        """Return a copy of one of the backend's arrays on the same devices."""
        return self.array(self.numpy(value), type, options)

    def stand_ins(self, options: Mapping[str, Any]) -> Mapping[str, str]:
        """Return the dtypes that the options replace, each with its replacement."""
        return {}

    def missing(self, graph: ir.Graph, elsewhere: Container[ir.Node] = ()) -> list[ir.Node]:
        """Return the nodes without a lowering, also in the graphs of operations.

        Nodes ``elsewhere`` are computed on the host.
        """
        arguments = {*graph.inputs, *graph.leaves}
        is_missing: dict[Any, bool] = {}

        def lacks_lowering(op: ir.Op) -> bool:
            # Looked up once for each row and each class.
            kind = op if isinstance(op, Elementwise) else type(op)
            if kind not in is_missing:
                is_exempt = isinstance(op, ir.Constant | ir.Input) or op.by_numpy
                is_missing[kind] = not is_exempt and self.lowering(op) is None
            return is_missing[kind]

        nodes = _computed_nodes(graph, elsewhere)
        return [x for x in nodes if lacks_lowering(x.op) and x not in arguments]

    def check(
        self, graph: ir.Graph, elsewhere: Container[ir.Node], options: Mapping[str, Any]
    ) -> None:
        """Raise if operations cannot run on the backend; the error names all of them.

        Raises:
            UnsupportedOperationError: If a lowering is missing, or the options choose a device with
                a gap.
        """
        sections: list[tuple[str, str, list[str]]] = []
        # The fallback runs operations without lowerings; it cannot fill the gaps.
        if options.get("fallback") != "numpy" and (missing := self.missing(graph, elsewhere)):
            remedy = (
                f"Write one with @backend.lower(...), run them by NumPy with Mode({self.name!r}, "
                "fallback='numpy'), or use mode='NUMPY'."
            )
            lines = [f"{node.op.name}   {node.where or ''}" for node in missing]
            sections.append((f"mode={self.name!r} has no lowering for:", remedy, lines))
        computed = [*_computed_nodes(graph, elsewhere)] if self.gaps else []
        for gap in self.gaps:
            nodes = [node for node in computed if gap.holds(node)] if gap.applies(options) else []
            if nodes:
                title = (
                    f"mode={self.name!r} does not support {gap.feature}: {gap.reason}. "
                    "It is used by:"
                )
                lines = [f"{node!r}   {node.where or ''}" for node in nodes]
                sections.append((title, gap.remedy, lines))
        if sections:
            problem = [
                "\n  ".join([title, *sorted({line.rstrip() for line in lines})])
                for title, _, lines in sections
            ]
            remedies = dict.fromkeys(remedy for _, remedy, _ in sections)
            raise UnsupportedOperationError("\n".join(problem), "\n".join(remedies), where="")


def _computed_nodes(graph: ir.Graph, elsewhere: Container[ir.Node]) -> Iterator[ir.Node]:
    """Yield the backend's nodes, also in the graphs of operations; of constants, only results."""
    inputs, outputs = set(graph.inputs), set(graph.outputs)
    for node in graph.nodes:
        if node not in outputs if isinstance(node.op, ir.Constant) else node in elsewhere:
            continue
        yield node
        if node in inputs or type(node.op).graphs is ir.Op.graphs or node.op.by_numpy:
            continue
        for inner in node.op.graphs():
            # Every tracing backend knows lengths.
            lengths = (x for x in inner.nodes if isinstance(x.op, Length | Shape))
            yield from _computed_nodes(inner, {*inner.inputs, *lengths})


def as_numpy(value: Any) -> np.ndarray[Any, Any]:
    """Return numbers or an array of any library as a NumPy array, which may share memory.

    Raises:
        TypeError, ValueError: If the value is no array.
        ShardingError: If other processes have parts of the array.
    """
    try:
        array = np.asarray(import_dlpack(value))
    except RuntimeError:
        refuse_remote(value)
        raise
    except (TypeError, ValueError):
        # NumPy lacks dtypes of other libraries, such as MLX's bfloat16.
        library = type(value).__module__.partition(".")[0].upper()
        if library not in names():
            raise
        return load(library).numpy(value)  # type: ignore[no-any-return]
    if array is not value and not array.flags.owndata:
        # The array may be a view of another library's memory.
        array.flags.writeable = False
    return array


def refuse_remote(value: Any) -> None:
    """Raise if no device of this process holds a part of an array.

    Raises:
        ShardingError: If a part is in another process only.
    """
    if not getattr(value, "is_fully_addressable", True) and not value.is_fully_replicated:
        raise ShardingError(
            f"An array of shape {value.shape} is sharded over the devices of several processes, "
            "and cannot be a NumPy array here.",
            "Use its shards, y.addressable_shards (of a shared variable y = w.get_value("
            "borrow=True); of a result y of graphc.function(..., returns='native')), give the "
            "output sharding=(), so that every process has the full array, or call "
            "jax.experimental.multihost_utils.process_allgather(y, tiled=True).",
        )


AWAITED = {
    "flex": "graphc.attention",
    "quantized": "graphc.implicit.quantized",
    "threefry": "graphc.random",
}
"""By file of lowerings, the package of their operations; the file is imported after it."""

_loaded: dict[str, Backend] = {}
_lock = threading.RLock()  # a backend may load another one


def names() -> list[str]:
    """Return the names of all backends."""
    here = Path(__file__).parent
    packages = [m.name for m in pkgutil.iter_modules([str(here)]) if m.ispkg]
    return sorted(name.upper() for name in packages if name != "padding")


@contextmanager
def _preserved_random_state() -> Iterator[None]:
    """Restore the state of NumPy's global generator: importing JAX draws from it."""
    state = np.random.get_state(legacy=False)
    try:
        yield
    finally:
        np.random.set_state(state)


def _import_file(path: str, awaited: ModuleType) -> None:
    importlib.import_module(path)


def load(name: str) -> Backend:
    """Return the backend of a name, with the lowerings of all operations that are imported.

    Raises:
        ModeError: If there is no such backend, or its library is not installed.
    """
    if name in _loaded:
        return _loaded[name]
    if name not in names():
        remedy = f"There are {', '.join(names())}; without mode= it is that of graphc.config.mode."
        raise ModeError(f"mode={name!r} names no backend.{suggestion('mode', name)}", remedy)
    package = f"graphc.link.{name.lower()}"
    with _lock, _preserved_random_state():
        try:
            backend: Backend = importlib.import_module(f"{package}.backend").backend
            folder = importlib.import_module(f"{package}.lower")
            for module in pkgutil.walk_packages(folder.__path__, f"{folder.__name__}."):
                awaited = AWAITED.get(module.name.rpartition(".")[2], folder.__name__)
                call_when_imported(awaited, partial(_import_file, module.name))
        except ImportError as error:
            if error.name is not None and error.name.startswith("graphc"):
                raise
            raise ModeError(
                f"mode={name!r} needs the package {error.name}, which is not installed: {error}.",
                f"Install it: pip install 'graphc[{name.lower()}]'.",
            ) from error
        _loaded[name] = backend
    return backend


def perform_as_declared(op: ir.Op, *values: Any) -> Any:
    """Run an operation's NumPy reference; a user's gives results of the types that it declares.

    Raises:
        OperationError: If a result has other lengths than those that the type rule declares.
    """
    results = op.perform(*values)
    cls: Any = type(op)
    if ir.is_own_class(cls):
        return results
    declared: Any = op.infer(*[ir.TensorType(x.dtype, x.shape) for x in values])
    is_single = not isinstance(declared, ir.TupleType)
    types, ys = ((declared,), (results,)) if is_single else (declared.items, results)
    arrays = []
    for y, expected in zip(ys, types, strict=True):
        array = np.asanyarray(y, expected.numpy_dtype)
        if not expected.admits(ir.TensorType(expected.dtype, array.shape)):
            raise OperationError(
                f"{op.name} gave an array of shape {array.shape}, where infer says {expected!r}.",
                "Return an array of that shape from perform, or declare the other one in infer.",
            )
        arrays.append(array)
    return arrays[0] if is_single else tuple(arrays)
