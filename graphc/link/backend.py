"""The contract of a backend: a name, its arrays, how it compiles, a lowering for each operation.

A backend is a folder beside this file; its name in capitals is the mode. Every file of its folder
``lower`` is imported when the mode is first used, and enters its lowerings then. Other sub-folders
hold what few programs need, and are imported by those.
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
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from graphc.errors import GraphcError, ModeError, ShardingError, UnsupportedOperationError
from graphc.implicit.node import Implicit
from graphc.ir import (
    Constant,
    Graph,
    Input,
    Node,
    Op,
    Pick,
    Sharding,
    TensorType,
    is_own_class,
)
from graphc.ir.sharding import MeshAxes
from graphc.link.call_spec import CallSpec
from graphc.link.compile_context import CompileContext
from graphc.link.host import Host, analyse
from graphc.link.transformable import Transformable
from graphc.tensor.core.elementwise import Elementwise
from graphc.tensor.core.shape import Length, Shape

if TYPE_CHECKING:
    from graphc.link.placement import Placement
    from graphc.link.program import Program

F = TypeVar("F", bound=Callable[..., Any])

Executable = Callable[..., Any]
"""Takes the graph's inputs and leaves as the backend's arrays, and gives the outputs in a list; of
a program with a single output, that output."""


class Dispatch:
    """An executable whose calls go to another function as more is compiled.

    Attributes:
        run: Takes the arguments of the next call.
        again: Returns the results of a call that ``run`` failed, given the error and the arguments;
            None where ``run`` does everything.
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
            failed = error
        try:
            return self.again(failed, arguments)
        finally:
            # The error holds this frame, and so the arguments.
            del failed


@dataclass(frozen=True)
class Gap:
    """Something a backend does not support, reported when a program is compiled and in the manual.

    Attributes:
        what: Its name.
        reason: Why it is unsupported.
        remedy: What to do instead.
        where: The devices without support.
        applies: Whether these options choose such a device.
        holds: Whether a node needs it.
    """

    what: str
    reason: str
    remedy: str
    where: str
    applies: Callable[[Mapping[str, Any]], bool]
    holds: Callable[[Node], bool]


class Home(Protocol):
    """Where arrays of one sharding are to be."""

    @property
    def known(self) -> Set[Any]:
        """Shardings of arrays that are there."""

    def put(self, x: Any, subject: object) -> Any:
        """Bring an array there; the subject names it in messages."""

    def keep(self, x: Any, subject: object) -> Any:
        """Bring a value there that each of several processes has to give: the same one."""

    def told(self, x: Any, subject: object) -> Any:
        """Bring an array there; where the library traces it, declare that it is there."""


@dataclass(frozen=True)
class Backend:
    """Where graphs run.

    Attributes:
        name: What ``mode=`` calls it.
        array: An array of any kind as this backend's, of that type; a copy unless it is its own.
        numpy: One of the backend's arrays as a NumPy array.
        compile: Makes what runs a program; takes its spec, what gives the program itself, the
            options of the mode, the arguments whose buffers may be reused, and a context.
        kinds: The classes of arrays that it takes as they are.
        eager: Values are known while the program runs, so that shapes may depend on them.
        describe: The device and versions in a line, given the options.
        options: The options that a mode may have, and what each may be: anything where that is
            empty, which ``compile`` then checks.
        gains: Names of rules that are optional, and pay here.
        gaps: What it cannot do.
        keeps_executables: Its executables are kept on disk, and not rewritten graphs alone.
    """

    name: str
    array: Callable[[Any, TensorType, Mapping[str, Any]], Any]
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
    gaps: tuple[Gap, ...] = ()
    keeps_executables: bool = False
    numpy_result: Callable[[Any], np.ndarray[Any, Any]] = np.array
    """Converts a program's result to a NumPy array that is writable and shares no memory."""
    # Several results are a tuple on every backend.
    lowerings: dict[Any, Callable[..., Any]] = field(default_factory=lambda: {Pick: Pick.perform})
    entered: list[Any] = field(default_factory=list)
    """The operations that got a lowering after all of the backend's own: by users."""

    def lower(self, *ops: type[Op] | Elementwise) -> Callable[[F], F]:
        """Enter the decorated function as the lowering of these operations.

        It takes the operation and the inputs' values. A subclass without a lowering of its own
        has its parent's.
        """

        def enter(f: F) -> F:
            for op in ops:
                self.lowerings[op] = f
            # Some of the backend's own modules are imported when they are first used.
            is_own = str(getattr(f, "__module__", "")).startswith("graphc.")
            if self.name in _loaded and not is_own:
                self.entered.extend(ops)
            return f

        return enter

    @property
    def is_altered(self) -> bool:
        """Whether users entered lowerings of graphc's own operations."""
        return any(
            is_own_class(op) if isinstance(op, type) else op.unwritten() is None
            for op in self.entered
        )

    def lowering(self, op: Op) -> Callable[..., Any] | None:
        """The function that computes an operation here, given it and the inputs' values."""
        if isinstance(op, Elementwise) and op in self.lowerings:
            return self.lowerings[op]
        for cls in type(op).__mro__:
            if cls in self.lowerings:
                return self.lowerings[cls]
        return None

    def calls_back(self, node: Node) -> bool:
        """Whether a node is computed by its NumPy reference."""
        return self.lowering(node.op) is None

    @property
    def keeps_implicit(self) -> bool:
        """Whether it takes implicit arrays as such; others take them whole."""
        return Implicit in self.lowerings

    def dtype(self, x: Any) -> np.dtype[Any]:
        """NumPy's dtype of an array that it takes."""
        return x.dtype  # type: ignore[no-any-return]

    def conversion_error(self, error: Exception, results: Any) -> Exception:
        """Return the error to raise where results cannot become NumPy arrays."""
        return error

    def narrows(self, dtype: np.dtype[Any]) -> bool:
        """Return whether the library's own functions compute with fewer bits than a dtype has."""
        return False

    def own_dtype(self, type: TensorType) -> Any:
        """The value of ``dtype`` for its own arrays of that type."""
        return type.numpy_dtype

    def has(self, node: Node) -> bool:
        """Whether a named function is one operation here; what it is made of is taken otherwise."""
        return type(node.op) in self.lowerings

    def bind(self, node: Node) -> Callable[..., Any]:
        """The function that computes a node, given the values of its inputs."""
        found = self.lowering(node.op)
        assert found is not None, node
        return partial(found, node.op)

    def prepared(self, graph: Graph, options: Mapping[str, Any]) -> Graph:
        """Return the graph as the backend compiles it, of operations that it has."""
        return graph

    def analyse(self, graph: Graph) -> Host | None:
        """The part of a program that is computed on the host; None where all values are known.

        Raises:
            DynamicShapeError: A shape depends on values that are not there while it compiles.
        """
        return None if self.eager else analyse(graph)

    def facts(self, program: Program) -> Mapping[str, Any]:
        """Plain values about a program that its call specification holds for this backend."""
        return {}

    def build(self, options: Mapping[str, Any]) -> str:
        """The build its executables belong to: versions and the device."""
        return self.describe(options)

    def around(
        self, node: Node, compute: Callable[..., Any], *, on_host: bool
    ) -> Callable[..., Any]:
        """The function that computes a node, given the one for known lengths."""
        return compute

    def equal_lengths(self, n: Any, m: Any, error: Callable[[int, int], GraphcError]) -> None:
        """Raise an error, given the lengths, if two lengths differ while a program is traced."""
        if n != m:
            raise error(n, m)

    def traceable(
        self,
        spec: CallSpec,
        program: Callable[[], Program],
        options: Mapping[str, Any],
        execute: Executable,
    ) -> Executable:
        """A function that returns a program's outputs in a list, also while the library traces.

        Args:
            spec: The program from outside.
            program: Gives the program.
            options: Of the mode.
            execute: What runs it, and reuses no buffer.
        """
        return execute

    def free_array(self, value: Any, type: TensorType, options: Mapping[str, Any]) -> Any:
        """An array as the library's own code has it, which may lack 64 bits."""
        return self.array(value, type, options)

    def transformable(self, function: Transformable) -> Executable:
        """A function that the library's own transformations take; here there are none."""
        return function.run

    def callback(self, node: Node) -> Callable[..., Any]:
        """The function that computes a node without a lowering by its NumPy reference."""
        raise UnsupportedOperationError(
            f"mode={self.name!r} can't call NumPy for {node!r}.", "Use mode='NUMPY'.", node.where
        )

    def notes(self, program: Program) -> Mapping[Node, str]:
        """Notes for a plan on how nodes are run."""
        return {}

    def told(self, program: Program) -> Mapping[str, str]:
        """What a plan tells of a program as a whole, by what it is about."""
        return {}

    # Meshes of devices.

    def admitted(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """The options of a mode in one form.

        Raises:
            ModeError: Options that do not fit each other.
        """
        return options

    def portable(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """The options of a mode as another process can have them: without devices of this one."""
        return options

    def restored(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """The options that ``portable`` gave, with the devices of this process.

        Raises:
            ModeError: It lacks devices.
        """
        return options

    def mesh_axes(self, options: Mapping[str, Any]) -> MeshAxes | None:
        """The axes of the mesh that the options name; None where there is none."""
        return None

    def unwritten(self, options: Mapping[str, Any]) -> Hashable:
        """What programs in this process depend on, beside the text of the options: devices."""
        return None

    def home(self, sharding: Sharding | None, options: Mapping[str, Any]) -> Home | None:
        """Where arrays of a declared sharding are to be; None where any place will do."""
        return None

    def placement(
        self,
        program: Program,
        options: Mapping[str, Any],
        arguments: Sequence[Any],
        given: int,
        donated: Sequence[int],
    ) -> Placement | None:
        """How a compiled program lies on the mesh that the options name; None without one.

        Args:
            program: The program.
            options: Of the mode.
            arguments: The type of each argument, or its value where that decides a shape.
            given: How many of the arguments are a call's own.
            donated: The arguments whose buffers may be reused.
        """
        return None

    def padding(
        self,
        program: Program,
        options: Mapping[str, Any],
        arguments: Sequence[TensorType],
        given: int,
    ) -> Sequence[str]:
        """Which lengths of arguments are padded, or why none is, as lines of a plan.

        Args:
            program: The program.
            options: Of the mode.
            arguments: The type of each argument, with lengths as far as they are known.
            given: How many of the arguments are a call's own.
        """
        return ()

    def copied(self, value: Any, type: TensorType, options: Mapping[str, Any]) -> Any:
        """A copy of one of the backend's arrays, in the same place."""
        return self.array(self.numpy(value), type, options)

    def stand_ins(self, options: Mapping[str, Any]) -> Mapping[str, str]:
        """The dtypes that are computed in others, and those, where the options say so."""
        return {}

    def missing(self, graph: Graph, elsewhere: Container[Node] = ()) -> list[Node]:
        """The nodes of operations that have no lowering here, but for those computed elsewhere.

        So too in the graphs that operations hold.
        """
        passed = {*graph.inputs, *graph.leaves}
        known: dict[Any, bool] = {}

        def lacks(op: Op) -> bool:
            # Looked up once for each row and each class.
            kind = op if isinstance(op, Elementwise) else type(op)
            found = known.get(kind)
            if found is None:
                passes = isinstance(op, Constant | Input) or op.by_numpy
                found = known[kind] = not passes and self.lowering(op) is None
            return found

        return [node for node in _needed(graph, elsewhere) if lacks(node.op) and node not in passed]

    def check(self, graph: Graph, elsewhere: Container[Node], options: Mapping[str, Any]) -> None:
        """Raise where operations cannot run here: all of them, with the user's lines.

        Raises:
            UnsupportedOperationError: Names them.
        """
        found: list[tuple[str, str, list[str]]] = []
        # The fallback runs what has no lowering; an array of no dtype has nowhere to be.
        if options.get("fallback") != "numpy" and (missing := self.missing(graph, elsewhere)):
            remedy = (
                f"Write one with @backend.lower(...), run them by NumPy with Mode({self.name!r}, "
                "fallback='numpy'), or use mode='NUMPY'."
            )
            lines = [f"{node.op.name}   {node.where or ''}" for node in missing]
            found.append((f"mode={self.name!r} has no lowering for:", remedy, lines))
        needed = [*_needed(graph, elsewhere)] if self.gaps else []
        for gap in self.gaps:
            nodes = [node for node in needed if gap.holds(node)] if gap.applies(options) else []
            if nodes:
                title = (
                    f"mode={self.name!r} does not support {gap.what}: {gap.reason}. It is used by:"
                )
                lines = [f"{node!r}   {node.where or ''}" for node in nodes]
                found.append((title, gap.remedy, lines))
        if found:
            problem = [
                "\n  ".join([title, *sorted({line.rstrip() for line in lines})])
                for title, _, lines in found
            ]
            remedies = dict.fromkeys(remedy for _, remedy, _ in found)
            raise UnsupportedOperationError("\n".join(problem), "\n".join(remedies), where="")


def _needed(graph: Graph, elsewhere: Container[Node]) -> Iterator[Node]:
    """The nodes that are computed or taken here, also in graphs that operations hold.

    Of constants those that are results.
    """
    passed, ends = set(graph.inputs), set(graph.outputs)
    for node in graph.nodes:
        if node not in ends if isinstance(node.op, Constant) else node in elsewhere:
            continue
        yield node
        if node in passed or type(node.op).graphs is Op.graphs or node.op.by_numpy:
            continue
        for held in node.op.graphs():
            # A length is known wherever a backend traces; parameters are what is given them.
            skipped = {*held.inputs, *(x for x in held.nodes if isinstance(x.op, Length | Shape))}
            yield from _needed(held, skipped)


def as_numpy(value: Any) -> np.ndarray[Any, Any]:
    """An array of any library, or numbers, as a NumPy array, which may share its memory.

    Raises:
        TypeError, ValueError: It is none.
        ShardingError: Other processes have parts of it.
    """
    try:
        found = np.asarray(value)
    except RuntimeError:
        refuse_remote(value)
        raise
    except (TypeError, ValueError):
        # NumPy does not know all dtypes of other libraries: it takes no bfloat16 of MLX's.
        library = type(value).__module__.partition(".")[0].upper()
        if library not in names():
            raise
        return load(library).numpy(value)  # type: ignore[no-any-return]
    if found is not value and not found.flags.owndata:
        # Others may hold what it is a view of.
        found.flags.writeable = False
    return found


def refuse_remote(value: Any) -> None:
    """Raise where an array has parts that no device of this process holds.

    Raises:
        ShardingError: It has.
    """
    if not getattr(value, "is_fully_addressable", True) and not value.is_fully_replicated:
        raise ShardingError(
            f"An array of shape {value.shape} is divided over the devices of several processes, "
            "and cannot be a NumPy array here.",
            "Use its parts, y.addressable_shards (of a shared variable y = w.get_value("
            "borrow=True); of a result y of graphc.function(..., returns='native')), give the "
            "output sharding=(), so that every process has it whole, or call "
            "jax.experimental.multihost_utils.process_allgather(y, tiled=True).",
        )


_loaded: dict[str, Backend] = {}
_lock = threading.Lock()


def names() -> list[str]:
    """The backends there are."""
    here = Path(__file__).parent
    return sorted(m.name.upper() for m in pkgutil.iter_modules([str(here)]) if m.ispkg)


@contextmanager
def _numpys_random_state() -> Iterator[None]:
    """Keep the state of NumPy's global generator: JAX draws from it while it is imported."""
    state = np.random.get_state(legacy=False)
    try:
        yield
    finally:
        np.random.set_state(state)


def load(name: str) -> Backend:
    """The backend of that name, with every lowering of its folder.

    Raises:
        ModeError: No such backend, or its library is not installed.
    """
    known = _loaded.get(name)
    if known is not None:
        return known
    if name not in names():
        remedy = f"There are {', '.join(names())}; without mode= it is that of graphc.config.mode."
        raise ModeError(f"mode={name!r} names no backend.", remedy)
    package = f"graphc.link.{name.lower()}"
    with _lock, _numpys_random_state():
        try:
            found: Backend = importlib.import_module(f"{package}.backend").backend
            folder = importlib.import_module(f"{package}.lower")
            for module in pkgutil.walk_packages(folder.__path__, f"{folder.__name__}."):
                importlib.import_module(module.name)
        except ImportError as error:
            if error.name is not None and error.name.startswith("graphc"):
                raise
            raise ModeError(
                f"mode={name!r} needs the package {error.name}, which is not installed: {error}.",
                f"Install it: pip install 'graphc[{name.lower()}]'.",
            ) from error
        _loaded[name] = found
    return found
