"""The programs of this process, by structure: graphs that are equal but for data share one.

A program is found by the key of the graph asked for, the mode, and what else decides what is made
of these. Where the values of leaves are part of it, so are they part of what it is found by.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any
from weakref import WeakValueDictionary

from graphc.compile.pipeline import Asked, Built, built
from graphc.compile.records import Baked, Compiled, Records, values_of
from graphc.config import config
from graphc.ir import Graph, Node
from graphc.rewrite.rule import RULES

__all__ = ["PROGRAMS", "compiled"]

GRAPHC_RULES = len(RULES)
"""How many rules there are unless users enter some."""


class Programs:
    """A bounded number of programs, the least recently used going first; those in use stay too."""

    def __init__(self) -> None:
        self._recent: OrderedDict[Hashable, Any] = OrderedDict()
        self._in_use: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()
        self._making: dict[Hashable, _Turn] = {}
        # A finalizer may run at any time, and compile something.
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._recent)

    def get(self, key: Hashable) -> Any:
        """What is kept by that key, or None."""
        with self._lock:
            found = self._recent.get(key) or self._in_use.get(key)
            if found is not None:
                self._keep(key, found)
        return found

    def put(self, key: Hashable, made: Any) -> None:
        """Keep something."""
        with self._lock:
            self._in_use[key] = made
            self._keep(key, made)

    def clear(self) -> None:
        """Forget all; functions keep theirs."""
        with self._lock:
            self._recent.clear()
            self._in_use.clear()

    def _keep(self, key: Hashable, made: Any) -> None:
        self._recent[key] = made
        self._recent.move_to_end(key)
        while len(self._recent) > config.programs:
            self._recent.popitem(last=False)

    @contextmanager
    def making(self, key: Hashable) -> Iterator[None]:
        """Within, no other thread makes what goes by that key."""
        with self._lock:
            turn = self._making.setdefault(key, _Turn())
            turn.waiting += 1
        try:
            with turn.lock:
                yield
        finally:
            with self._lock:
                turn.waiting -= 1
                if not turn.waiting:
                    self._making.pop(key, None)


class _Turn:
    """A lock that several threads wait for."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.waiting = 0


PROGRAMS = Programs()


def compiled(asked: Asked, leaves: Sequence[Node]) -> tuple[Compiled, Built | None]:
    """The program for what is asked, and how it was made where it was made for this.

    Args:
        asked: What is wanted.
        leaves: The graph's, in canonical order.

    Raises:
        UnsupportedOperationError: The backend lacks operations; names all of them.
        DynamicShapeError: A shape depends on values that a compiled backend does not have.
    """
    parts = _parts(asked)
    unwritten = _unwritten(asked.graph)
    backend = asked.mode.backend
    build = backend.build(asked.mode.options)
    key = parts, unwritten, (build, len(backend.entered), len(RULES))
    found = _find(key, leaves)
    if found is not None:
        return found, None
    with PROGRAMS.making(key):
        found = _find(key, leaves)
        if found is not None:
            return found, None
        is_portable = not (unwritten or backend.is_altered or len(RULES) > GRAPHC_RULES)
        records = Records(build, parts if is_portable else None)
        baked, new = records.loaded(asked, leaves)
        made = None
        if new is None:
            start = perf_counter()
            made = built(asked)
            baked = made.baked
            new = records.new(asked, made, perf_counter() - start, leaves)
        if baked:
            PROGRAMS.put(key, Baked(baked))
        PROGRAMS.put((key, values_of(baked, leaves)) if baked else key, new)
    return new, made


def _find(key: Hashable, leaves: Sequence[Node]) -> Compiled | None:
    found = PROGRAMS.get(key)
    if isinstance(found, Baked):
        found = PROGRAMS.get((key, values_of(found.places, leaves)))
    return found  # type: ignore[no-any-return]


def _parts(asked: Asked) -> tuple[Hashable, ...]:
    """What decides what is made of it, but for leaves' values and what has no text."""
    mode = asked.mode
    return (
        asked.graph.key(),
        asked.arguments,
        asked.updated,
        asked.single,
        mode.name,
        tuple(sorted(mode.excluded)),
        tuple(sorted(mode.included)),
        tuple(sorted((name, repr(value)) for name, value in mode.options.items())),
        config.floatX,
    )


def _unwritten(graph: Graph) -> tuple[Hashable, ...]:
    """What operations depend on that no key tells, in the order that equal graphs share."""
    found: list[Hashable] = []
    for node in graph.canonical():
        what = node.op.unwritten()
        if what is not None:
            found.append(what)
        for held in node.op.graphs():
            found += _unwritten(held)
    return tuple(found)
