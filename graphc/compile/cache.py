"""Programs by structure, in memory and on disk: graphs that are equal but for data share one.

A program is found by the key of its graph, the mode, and all else that decides the result. Where
values of leaves are part of the program, they are part of the key.

An entry on disk holds how the program is called and the rewritten graph, which is unpickled only
when needed: with an executable beside it, a backend may never ask for the graph. Programs with
operations that are not graphc's own are not stored: nothing tells whether their code has changed.
"""

from __future__ import annotations

import gc
import pickle
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property, partial
from hashlib import blake2b
from time import perf_counter
from typing import Any, Literal, TypeVar
from weakref import WeakValueDictionary

from graphc.compile.disk import DiskCache
from graphc.compile.guard import CheckFailure, raising
from graphc.compile.pipeline import LoweredProgram, Signature, lower_program
from graphc.compile.recompile import before_compile, record_executable
from graphc.config import config
from graphc.ir import Graph, Node
from graphc.link import Backend, CallSpec, CompileContext, Executable, Program
from graphc.progress import stage
from graphc.rewrite.rule import users_rules

T = TypeVar("T")

WORTH_SAVING = 0.005
"""Seconds of rewriting that are worth a file; with an executable a program is stored anyway."""


@dataclass(frozen=True)
class BakedLeaves:
    """The entry of programs that depend on leaves' values: the indices of these leaves."""

    indices: tuple[int, ...]


@dataclass(frozen=True)
class StoredProgram:
    """The entry of a program on disk.

    Attributes:
        spec: How the program is called.
        slots: The indices of the leaves that the program takes.
        donated: The inputs whose buffers are reused.
        fresh: For each new value of a shared variable, whether nothing else refers to it.
        failures: The error of each row of the last output.
        graph: The rewritten graph, pickled.
    """

    spec: CallSpec
    slots: tuple[int, ...]
    donated: tuple[int, ...]
    fresh: tuple[bool, ...]
    failures: tuple[CheckFailure, ...]
    graph: bytes


class CompiledProgram:
    """A program that functions of equal structure share, and its executable.

    Attributes:
        spec: How the program is called.
        slots: The indices of the leaves that the program takes.
        fresh: For each new value of a shared variable, whether nothing else refers to it.
        donated: The inputs whose buffers are reused.
        execute: The executable.
    """

    def __init__(
        self, signature: Signature, of: LoweredProgram | StoredProgram, context: CompileContext
    ) -> None:
        backend = signature.mode.backend
        if isinstance(of, LoweredProgram):
            facts = backend.facts(of.program)
            single = signature.single and not of.failures
            count = signature.arguments
            spec = CallSpec.of(of.graph, of.host, single=single, facts=facts, passed=count)
        else:
            spec = of.spec
        self.spec = spec
        self.slots = of.slots
        self.fresh = of.fresh
        self.donated = of.donated

        @cache
        def program() -> Program:
            return of.program if isinstance(of, LoweredProgram) else _unpickle_program(of, backend)

        options = signature.mode.options
        self.execute: Executable = backend.compile(spec, program, options, of.donated, context)
        if of.failures:
            self.execute = raising(self.execute, of.failures, backend, single=signature.single)
        self._trace = partial(backend.traceable, spec, program, options, self.execute)

    @cached_property
    def traceable(self) -> Executable:
        """The executable for traced arguments too: it reads and checks no values."""
        return self._trace()


def _unpickle_program(stored: StoredProgram, backend: Backend) -> Program:
    graph: Graph = pickle.loads(stored.graph)
    return Program(graph, backend, backend.analyse(graph), single=stored.spec.single)


class ProgramContext(CompileContext):
    """The context in which one program is compiled: its entries on disk, and its events.

    Args:
        build: The versions that the backend's executables depend on.
        parts: All that decides the program, each with a ``repr`` that is the same in every process;
            None if the program is not stored.
    """

    def __init__(self, build: str, parts: Sequence[Any] | None) -> None:
        self._name = _digest(repr(parts)) if parts else None
        self._build = build
        self._rewriting = 0.0
        self._unsaved: tuple[LoweredProgram, CallSpec] | None = None
        self._has_values = False

    @property
    def is_kept(self) -> bool:
        """Whether the program may be stored on disk."""
        return self._name is not None

    @property
    def _entries(self) -> tuple[DiskCache, str] | None:
        """The cache on disk and the program's name there; None where it is not used."""
        if self._name is None or config.cache_dir is None:
            return None
        return DiskCache(config.cache_dir, config.cache_bytes), self._name

    # The program.

    def find(
        self, signature: Signature, leaves: Sequence[Node]
    ) -> tuple[tuple[int, ...], CompiledProgram | None]:
        """Return the indices of the baked leaves, and the program if it is on disk."""
        entry = self._load()
        baked: tuple[int, ...] = ()
        if isinstance(entry, BakedLeaves):
            baked = entry.indices
            self._add_values_to_name(baked, leaves)
            entry = self._load()
        return baked, CompiledProgram(signature, entry, self) if isinstance(
            entry, StoredProgram
        ) else None

    def create(
        self, signature: Signature, of: LoweredProgram, seconds: float, leaves: Sequence[Node]
    ) -> CompiledProgram:
        """Compile a lowered program; store it if lowering it took ``seconds`` worth a file."""
        self._rewriting = seconds
        created = CompiledProgram(signature, of, self)
        if self._entries is not None:
            if of.baked and not self._has_values:
                self._save(BakedLeaves(of.baked))
                self._add_values_to_name(of.baked, leaves)
            self._unsaved = of, created.spec
            if seconds > WORTH_SAVING:
                self.save_program()
        return created

    def _add_values_to_name(self, baked: Sequence[int], leaves: Sequence[Node]) -> None:
        assert self._name is not None
        self._name = _digest(self._name, *digests_of(baked, leaves))
        self._has_values = True

    def _load(self) -> Any:
        match self._entries:
            case disk, name:
                data = disk.load(name, self._build)
                # The disk has checked who wrote it, and with which graphc.
                return None if data is None else pickle.loads(data)
        return None

    def _save(self, entry: BakedLeaves | StoredProgram) -> None:
        match self._entries:
            case disk, name:
                disk.save(name, pickle.dumps(entry), self._build)

    def save_program(self) -> None:
        """Store the program, unless it is there or nothing is stored."""
        if self._unsaved is not None:
            of, spec = self._unsaved
            self._unsaved = None
            graph = pickle.dumps(of.graph)
            self._save(StoredProgram(spec, of.slots, of.donated, of.fresh, of.failures, graph))

    # Its executables.

    def executable(
        self,
        name: str | None,
        load: Callable[[bytes], T | None],
        compile: Callable[[], tuple[T, Callable[[], bytes | None]]],
    ) -> T:
        """Load or compile the executable of a name; a compiled one is saved with the program."""
        if self._entries is None or name is None:
            return compile()[0]
        disk, program = self._entries
        name = _digest(program, name)
        with disk.lock(name, self._build):
            data = disk.load(name, self._build)
            executable = None if data is None else load(data)
            if executable is None:
                executable, serialized = compile()
                data = serialized()
                if data is not None:
                    self.save_program()
                    disk.save(name, data, self._build)
        return executable

    def has_executable(self, name: str | None) -> bool:
        """Return whether the executable of a name is on disk."""
        if self._entries is None or name is None:
            return False
        disk, program = self._entries
        return disk.load(_digest(program, name), self._build) is not None

    def before_compile(self, shapes: Sequence[tuple[int, ...]], values: Mapping[int, Any]) -> None:
        """Raise if no further executable may be compiled."""
        before_compile(shapes, values)

    def record(
        self,
        kind: Literal["compile", "load"],
        shapes: Sequence[tuple[int, ...]],
        values: Mapping[int, Any],
        seconds: float,
    ) -> None:
        """Record an executable that was compiled or loaded for the call under way."""
        # The graph was rewritten for the first one.
        rewriting, self._rewriting = self._rewriting, 0.0
        record_executable(kind, shapes, values, seconds + rewriting)


def digests_of(indices: Sequence[int], leaves: Sequence[Node]) -> tuple[str, ...]:
    """Return a hash of the array of each of these leaves."""
    arrays: list[Any] = [leaves[i].op.array for i in indices]  # type: ignore[attr-defined]
    return tuple(blake2b(x.tobytes(), digest_size=16).hexdigest() for x in arrays)


def _digest(*parts: str) -> str:
    return blake2b("\n".join(parts).encode(), digest_size=20).hexdigest()


class ProgramCache:
    """A bounded cache of programs, by least recent use; it also finds programs in use."""

    def __init__(self) -> None:
        self._recent: OrderedDict[Hashable, Any] = OrderedDict()
        self._in_use: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()
        self._turns: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()
        # A finalizer may run at any time, and compile something.
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._recent)

    def get(self, key: Hashable) -> Any:
        """Return the program of a key, or None."""
        with self._lock:
            program = self._recent.get(key) or self._in_use.get(key)
            if program is not None:
                self._keep(key, program)
        return program

    def put(self, key: Hashable, program: Any) -> None:
        """Store a program."""
        with self._lock:
            self._in_use[key] = program
            self._keep(key, program)

    def clear(self) -> None:
        """Remove all programs from the cache; functions keep theirs."""
        with self._lock:
            self._recent.clear()
            self._in_use.clear()

    def _keep(self, key: Hashable, program: Any) -> None:
        self._recent[key] = program
        self._recent.move_to_end(key)
        while len(self._recent) > config.programs:
            self._recent.popitem(last=False)

    @contextmanager
    def turn(self, key: Hashable) -> Iterator[None]:
        """Let no other thread compile the program of that key."""
        with self._lock:
            turn = self._turns.setdefault(key, threading.RLock())
        with turn:
            yield


PROGRAMS = ProgramCache()


def get_program(
    signature: Signature, leaves: Sequence[Node]
) -> tuple[CompiledProgram, LoweredProgram | None]:
    """Return the program of a signature, and its lowering if this call lowered it.

    Args:
        signature: The graph, and how it is called.
        leaves: The graph's leaves, in canonical order.

    Raises:
        UnsupportedOperationError: The backend lacks operations; names all of them.
        DynamicShapeError: A shape depends on values that a compiled backend does not have.
    """
    key_parts = _key_parts(signature)
    unwritten = _unwritten(signature.graph)
    backend = signature.mode.backend
    build = backend.build(signature.mode.options)
    devices = backend.unwritten(signature.mode.options)
    key = key_parts, unwritten, (build, devices, len(backend.entered), len(users_rules()))
    cached = _find(key, leaves)
    if cached is not None:
        return cached, None
    with PROGRAMS.turn(key):
        cached = _find(key, leaves)
        if cached is not None:
            return cached, None
        context = ProgramContext(build, key_parts if _is_portable(unwritten, backend) else None)
        program, lowered, baked = load_or_lower(context, signature, leaves)
        if baked:
            PROGRAMS.put(key, BakedLeaves(baked))
        PROGRAMS.put((key, digests_of(baked, leaves)) if baked else key, program)
    return program, lowered


def load_or_lower(
    context: ProgramContext, signature: Signature, leaves: Sequence[Node]
) -> tuple[CompiledProgram, LoweredProgram | None, tuple[int, ...]]:
    """Return the program, its lowering if it was not on disk, and the indices of baked leaves."""
    baked, program = context.find(signature, leaves)
    if program is not None:
        return program, None, baked
    start = perf_counter()
    with stage("rewriting"), _no_garbage_collection():
        lowered = lower_program(signature)
    created = context.create(signature, lowered, perf_counter() - start, leaves)
    return created, lowered, lowered.baked


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Pause the search for garbage in cycles: a graph has many objects and no cycles."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def context_arguments(signature: Signature) -> tuple[str, tuple[Hashable, ...] | None]:
    """Return the arguments of ``ProgramContext`` for a signature."""
    backend = signature.mode.backend
    is_portable = _is_portable(_unwritten(signature.graph), backend)
    return backend.build(signature.mode.options), _key_parts(signature) if is_portable else None


def _is_portable(unwritten: Sequence[Hashable], backend: Backend) -> bool:
    """Return whether the name of a program states all that the program depends on."""
    return not (unwritten or backend.is_altered or users_rules())


def _find(key: Hashable, leaves: Sequence[Node]) -> CompiledProgram | None:
    program = PROGRAMS.get(key)
    if isinstance(program, BakedLeaves):
        program = PROGRAMS.get((key, digests_of(program.indices, leaves)))
    return program  # type: ignore[no-any-return]


def _key_parts(signature: Signature) -> tuple[Hashable, ...]:
    """Return all that decides the program, except leaves' values and dependencies without text."""
    mode = signature.mode
    return (
        signature.graph.key(),
        signature.arguments,
        signature.updated,
        signature.single,
        mode.name,
        tuple(sorted(mode.excluded)),
        tuple(sorted(mode.included)),
        tuple(sorted((name, repr(value)) for name, value in mode.options.items())),
        config.floatX,
    )


def _unwritten(graph: Graph) -> tuple[Hashable, ...]:
    """Return the dependencies of operations that their keys lack, in canonical order."""
    dependencies: list[Hashable] = []
    for node in graph.canonical():
        unwritten = node.op.unwritten()
        if unwritten is not None:
            dependencies.append(unwritten)
        for inner in node.op.graphs():
            dependencies += _unwritten(inner)
    return tuple(dependencies)
