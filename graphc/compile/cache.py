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
    """The entry of programs that depend on leaves' values: which leaves these are, by place."""

    places: tuple[int, ...]


@dataclass(frozen=True)
class StoredProgram:
    """The entry of a program on disk.

    Attributes:
        spec: How it is called.
        slots: The leaves that it takes, by place.
        donated: The inputs whose buffers are reused.
        fresh: For each new value of a shared variable, whether nothing else refers to it.
        failures: The errors that the elements of its last output stand for.
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
        spec: How it is called.
        slots: The leaves that it takes, by place.
        fresh: For each new value of a shared variable, whether nothing else refers to it.
        donated: The inputs whose buffers are reused.
        execute: Runs it.
    """

    def __init__(
        self, signature: Signature, of: LoweredProgram | StoredProgram, context: CompileContext
    ) -> None:
        backend = signature.mode.backend
        if isinstance(of, LoweredProgram):
            facts = backend.facts(of.program)
            single = signature.single and not of.failures
            given = signature.arguments
            spec = CallSpec.of(of.graph, of.host, single=single, facts=facts, given=given)
        else:
            spec = of.spec
        self.spec = spec
        self.slots = of.slots
        self.fresh = of.fresh
        self.donated = of.donated

        @cache
        def program() -> Program:
            return of.program if isinstance(of, LoweredProgram) else _unpickled(of, backend)

        options = signature.mode.options
        self.execute: Executable = backend.compile(spec, program, options, of.donated, context)
        if of.failures:
            self.execute = raising(self.execute, of.failures, backend, single=signature.single)
        self._trace = partial(backend.traceable, spec, program, options, self.execute)

    @cached_property
    def traceable(self) -> Executable:
        """Runs it also while the backend's library traces: no value is read or checked."""
        return self._trace()


def _unpickled(stored: StoredProgram, backend: Backend) -> Program:
    graph: Graph = pickle.loads(stored.graph)
    return Program(graph, backend, backend.analyse(graph), single=stored.spec.single)


class ProgramContext(CompileContext):
    """The context in which one program is compiled: its entries on disk, and its events.

    Args:
        build: The versions that the backend's executables depend on.
        parts: All that decides what the program is, each with a ``repr`` that is the same in every
            process; None where nothing of it is stored.
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
        """The leaves whose values are part of the program, and the program if it is on disk."""
        found = self._load()
        baked: tuple[int, ...] = ()
        if isinstance(found, BakedLeaves):
            baked = found.places
            self._add_values(baked, leaves)
            found = self._load()
        return baked, CompiledProgram(signature, found, self) if isinstance(
            found, StoredProgram
        ) else None

    def create(
        self, signature: Signature, of: LoweredProgram, seconds: float, leaves: Sequence[Node]
    ) -> CompiledProgram:
        """A program that was lowered in so many seconds; stored where that is worth a file."""
        self._rewriting = seconds
        created = CompiledProgram(signature, of, self)
        if self._entries is not None:
            if of.baked and not self._has_values:
                self._save(BakedLeaves(of.baked))
                self._add_values(of.baked, leaves)
            self._unsaved = of, created.spec
            if seconds > WORTH_SAVING:
                self.save_program()
        return created

    def _add_values(self, baked: Sequence[int], leaves: Sequence[Node]) -> None:
        """Make the values of these leaves part of the name."""
        assert self._name is not None
        self._name = _digest(self._name, *values_of(baked, leaves))
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
        """The executable under a name, loaded or compiled; with it the program is stored."""
        if self._entries is None or name is None:
            return compile()[0]
        disk, program = self._entries
        name = _digest(program, name)
        with disk.locked(name, self._build):
            data = disk.load(name, self._build)
            found = None if data is None else load(data)
            if found is None:
                found, serialized = compile()
                data = serialized()
                if data is not None:
                    self.save_program()
                    disk.save(name, data, self._build)
        return found

    def has_executable(self, name: str | None) -> bool:
        """Whether the executable under a name is on disk."""
        if self._entries is None or name is None:
            return False
        disk, program = self._entries
        return disk.load(_digest(program, name), self._build) is not None

    def before_compile(self, shapes: Sequence[tuple[int, ...]], values: Mapping[int, Any]) -> None:
        """Raise where no further executable may be made; called before one is."""
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


def values_of(places: Sequence[int], leaves: Sequence[Node]) -> tuple[str, ...]:
    """Hashes of the arrays of leaves at these places."""
    arrays: list[Any] = [leaves[i].op.array for i in places]  # type: ignore[attr-defined]
    return tuple(blake2b(x.tobytes(), digest_size=16).hexdigest() for x in arrays)


def _digest(*parts: str) -> str:
    return blake2b("\n".join(parts).encode(), digest_size=20).hexdigest()


class ProgramCache:
    """A bounded number of programs, the least recently used going first; those in use stay too."""

    def __init__(self) -> None:
        self._recent: OrderedDict[Hashable, Any] = OrderedDict()
        self._in_use: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()
        self._turns: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()
        # A finalizer may run at any time, and compile something.
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._recent)

    def get(self, key: Hashable) -> Any:
        """The program of a key, or None."""
        with self._lock:
            found = self._recent.get(key) or self._in_use.get(key)
            if found is not None:
                self._keep(key, found)
        return found

    def put(self, key: Hashable, program: Any) -> None:
        """Keep a program."""
        with self._lock:
            self._in_use[key] = program
            self._keep(key, program)

    def clear(self) -> None:
        """Forget all programs; functions keep theirs."""
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
        """Within, no other thread makes the program of that key."""
        with self._lock:
            turn = self._turns.setdefault(key, threading.RLock())
        with turn:
            yield


PROGRAMS = ProgramCache()


def compiled(
    signature: Signature, leaves: Sequence[Node]
) -> tuple[CompiledProgram, LoweredProgram | None]:
    """The program of a signature, and its lowering where it was made for this call.

    Args:
        signature: The graph, and how it is called.
        leaves: The graph's, in canonical order.

    Raises:
        UnsupportedOperationError: The backend lacks operations; names all of them.
        DynamicShapeError: A shape depends on values that a compiled backend does not have.
    """
    parts = _parts(signature)
    unwritten = _unwritten(signature.graph)
    backend = signature.mode.backend
    build = backend.build(signature.mode.options)
    devices = backend.unwritten(signature.mode.options)
    key = parts, unwritten, (build, devices, len(backend.entered), len(users_rules()))
    found = _find(key, leaves)
    if found is not None:
        return found, None
    with PROGRAMS.turn(key):
        found = _find(key, leaves)
        if found is not None:
            return found, None
        context = ProgramContext(build, parts if _is_portable(unwritten, backend) else None)
        program, lowered, baked = program_in(context, signature, leaves)
        if baked:
            PROGRAMS.put(key, BakedLeaves(baked))
        PROGRAMS.put((key, values_of(baked, leaves)) if baked else key, program)
    return program, lowered


def program_in(
    context: ProgramContext, signature: Signature, leaves: Sequence[Node]
) -> tuple[CompiledProgram, LoweredProgram | None, tuple[int, ...]]:
    """A signature's program from disk, or made; its lowering, where made; and the baked leaves."""
    baked, program = context.find(signature, leaves)
    if program is not None:
        return program, None, baked
    start = perf_counter()
    with stage("rewriting"), _uncollected():
        lowered = lower_program(signature)
    made = context.create(signature, lowered, perf_counter() - start, leaves)
    return made, lowered, lowered.baked


@contextmanager
def _uncollected() -> Iterator[None]:
    """Within, Python does not look for garbage in cycles: a graph has none, and many objects."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def kept_by(signature: Signature) -> tuple[str, tuple[Hashable, ...] | None]:
    """The arguments of the context that a signature's program is kept by."""
    backend = signature.mode.backend
    is_portable = _is_portable(_unwritten(signature.graph), backend)
    return backend.build(signature.mode.options), _parts(signature) if is_portable else None


def _is_portable(unwritten: Sequence[Hashable], backend: Backend) -> bool:
    """Whether a program can be found again: its name says all that it depends on."""
    return not (unwritten or backend.is_altered or users_rules())


def _find(key: Hashable, leaves: Sequence[Node]) -> CompiledProgram | None:
    found = PROGRAMS.get(key)
    if isinstance(found, BakedLeaves):
        found = PROGRAMS.get((key, values_of(found.places, leaves)))
    return found  # type: ignore[no-any-return]


def _parts(signature: Signature) -> tuple[Hashable, ...]:
    """All that decides the program, but for leaves' values and what has no text."""
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
    """The dependencies of operations that are not in their keys, in an order equal graphs share."""
    found: list[Hashable] = []
    for node in graph.canonical():
        unwritten = node.op.unwritten()
        if unwritten is not None:
            found.append(unwritten)
        for held in node.op.graphs():
            found += _unwritten(held)
    return tuple(found)
