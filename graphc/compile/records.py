"""What is kept of a program on disk, and how one is made of that without rewriting anything.

A record is found by the structure of what was asked, the mode and the backend's build. It holds the
program's outline and the rewritten graph, which is read only when it is needed: a backend that
kept its executables beside it may never ask. Programs of operations that are not graphc's own are
not kept, as nothing tells whether their code has changed.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache, cached_property, partial
from hashlib import blake2b
from typing import Any, Literal

from graphc.compile.disk import Disk
from graphc.compile.guard import Told, raising
from graphc.compile.pipeline import Asked, Built
from graphc.compile.recompile import made, wanted
from graphc.config import config
from graphc.ir import Graph, Node
from graphc.link import Backend, Executable, Ledger, Outline, Program

__all__ = ["Baked", "Compiled", "Records", "values_of"]

WORTH = 0.005
"""Seconds of rewriting that are worth a file; what has an executable on disk is kept anyway."""


@dataclass(frozen=True)
class Baked:
    """In a program's place: which leaves' values it is found by."""

    places: tuple[int, ...]


@dataclass(frozen=True)
class Record:
    """A program as it is kept.

    Attributes:
        outline: What it takes and gives.
        slots: Which leaves it takes, by place.
        donated: The inputs whose buffers are reused.
        fresh: Whether each new value of a shared variable is nobody else's.
        told: What is raised where an element of its last output is True.
        graph: The graph, pickled.
    """

    outline: Outline
    slots: tuple[int, ...]
    donated: tuple[int, ...]
    fresh: tuple[bool, ...]
    told: tuple[Told, ...]
    graph: bytes


class Compiled:
    """A program that functions of equal structure share, and what runs it.

    Attributes:
        outline: What it takes and gives.
        slots: Which leaves it takes, by place.
        fresh: Whether each new value of a shared variable is nobody else's.
        donated: The inputs whose buffers are reused.
        execute: What runs it.
    """

    def __init__(self, asked: Asked, of: Built | Record, ledger: Ledger) -> None:
        backend = asked.mode.backend
        if isinstance(of, Built):
            facts = backend.facts(of.program)
            single = asked.single and not of.told
            outline = Outline.of(of.graph, of.host, single=single, facts=facts)
        else:
            outline = of.outline
        self.outline = outline
        self.slots = of.slots
        self.fresh = of.fresh
        self.donated = of.donated

        @cache
        def program() -> Program:
            return of.program if isinstance(of, Built) else _read(of, backend)

        options = asked.mode.options
        self.execute: Executable = backend.compile(outline, program, options, of.donated, ledger)
        if of.told:
            self.execute = raising(self.execute, of.told, backend, single=asked.single)
        self._trace = partial(backend.traceable, outline, program, options, self.execute)

    @cached_property
    def traceable(self) -> Executable:
        """What runs it also while the backend's library traces; nothing evaluates or checks."""
        return self._trace()


def _read(record: Record, backend: Backend) -> Program:
    graph: Graph = pickle.loads(record.graph)
    return Program(graph, backend, backend.analyse(graph), single=record.outline.single)


class Records(Ledger):
    """The ledger of a program: its record on disk, and its executables beside that.

    Args:
        build: What the backend's executables depend on beside the program.
        parts: All that decides what it is, each with a ``repr`` that is the same in every process;
            None where it is not kept.
    """

    def __init__(self, build: str, parts: Sequence[Any] | None) -> None:
        self.seconds = 0.0
        self._name = _digest(repr(parts)) if parts else None
        self._build = build
        self._unsaved: tuple[Built, Outline] | None = None
        self._follows = False

    @property
    def _disk(self) -> Disk | None:
        if self._name is None or config.cache_dir is None:
            return None
        return Disk(config.cache_dir, config.cache_bytes)

    # The record.

    def loaded(
        self, asked: Asked, leaves: Sequence[Node]
    ) -> tuple[tuple[int, ...], Compiled | None]:
        """The leaves whose values are part of the program, and it; None where it is not kept."""
        found = self._found()
        baked: tuple[int, ...] = ()
        if isinstance(found, Baked):
            baked = found.places
            self._follow(baked, leaves)
            found = self._found()
        return baked, Compiled(asked, found, self) if isinstance(found, Record) else None

    def new(self, asked: Asked, of: Built, seconds: float, leaves: Sequence[Node]) -> Compiled:
        """The program, just made; it is kept where that is worth a file."""
        self.seconds = seconds
        new = Compiled(asked, of, self)
        if self._disk is not None:
            if of.baked and not self._follows:
                self._put(Baked(of.baked))
                self._follow(of.baked, leaves)
            self._unsaved = of, new.outline
            if seconds > WORTH:
                self._save_record()
        return new

    def _follow(self, baked: Sequence[int], leaves: Sequence[Node]) -> None:
        """Go by the values of these leaves from now on."""
        self._follows = True
        assert self._name is not None
        self._name = _digest(self._name, *values_of(baked, leaves))

    def _found(self) -> Any:
        data = self._disk.load(self._name, self._build) if self._disk and self._name else None
        # The disk has checked where it comes from, and that it is of this very graphc.
        return None if data is None else pickle.loads(data)

    def _put(self, what: Baked | Record) -> None:
        if self._disk is not None and self._name is not None:
            self._disk.save(self._name, pickle.dumps(what), self._build)

    def _save_record(self) -> None:
        if self._unsaved is not None:
            of, outline = self._unsaved
            self._unsaved = None
            graph = pickle.dumps(of.graph)
            self._put(Record(outline, of.slots, of.donated, of.fresh, of.told, graph))

    # The executables.

    @property
    def keeps(self) -> bool:
        """Whether it keeps anything."""
        return self._disk is not None

    def load(self, name: str) -> bytes | None:
        """What was saved under that name, by whichever process; None where nothing was."""
        if self._disk is None or self._name is None:
            return None
        return self._disk.load(_digest(self._name, name), self._build)

    def save(self, name: str, data: bytes) -> None:
        """Keep this for other processes, and the record that leads to it."""
        if self._disk is not None and self._name is not None:
            self._save_record()
            self._disk.save(_digest(self._name, name), data, self._build)

    def locked(self, name: str) -> AbstractContextManager[None]:
        """Within, nobody else makes what goes by that name."""
        if self._disk is None or self._name is None:
            return nullcontext()
        return self._disk.locked(_digest(self._name, name), self._build)

    # Telling.

    def wanted(self, signature: Sequence[tuple[int, ...]], values: Mapping[int, Any]) -> None:
        """Raise where no further executable is to be made; called before one is."""
        wanted(signature, values)

    def made(
        self,
        kind: Literal["compile", "load"],
        signature: Sequence[tuple[int, ...]],
        values: Mapping[int, Any],
        seconds: float,
    ) -> None:
        """Tell of an executable that was compiled or loaded for the call under way."""
        # The first one is what the graph was rewritten for.
        rewriting, self.seconds = self.seconds, 0.0
        made(kind, signature, values, seconds + rewriting)


def values_of(places: Sequence[int], leaves: Sequence[Node]) -> tuple[str, ...]:
    """Hashes of the arrays of leaves at these places."""
    arrays: list[Any] = [leaves[i].op.array for i in places]  # type: ignore[attr-defined]
    return tuple(blake2b(x.tobytes(), digest_size=16).hexdigest() for x in arrays)


def _digest(*parts: str) -> str:
    return blake2b("\n".join(parts).encode(), digest_size=20).hexdigest()
