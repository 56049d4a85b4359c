"""Records of functions, by the call site that made them.

They keep no functions, graphs or arrays alive, and their number is bounded: of call sites, of
functions at a site and of causes.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any
from weakref import ref

import numpy as np

from graphc.compile.events import Stats
from graphc.compile.recompile.call_site import CallSite
from graphc.compile.recompile.difference import Cause, GraphSummary
from graphc.compile.recompile.naming import SourceName
from graphc.compile.recompile.report import CallShapes, Report
from graphc.ir import TINY, Node

WORTHWHILE_CALLS = 4
"""The number of calls after which a function was worth its compilation."""
MAX_SITES = 512
"""The most call sites with a history, the least recently used going first."""
MAX_FUNCTIONS = 16
"""The most functions of a call site with a record; more than may differ in lengths unreported."""
SAMPLE = 1024
"""The number of elements by which arrays are compared."""
MAX_CAUSES = 32
"""The most causes that are listed."""
MAX_NODES = 100_000
"""The most nodes in summaries, some 30 MB, the least recently used summary going first."""


@dataclass(eq=False, slots=True)
class History:
    """The history of a call site.

    Attributes:
        site: The call site, whose code objects its key refers to.
        records: The latest functions that were called.
        variants: By cause, the functions that differ by it, with the types of their inputs.
        is_reported: Whether the user was warned.
        builds: The number of functions that were called.
        building: The seconds it took to build them.
        compiles: The number of executables that were compiled for them.
        compiling: The seconds it took to compile and load them.
        causes: The latest causes.
        names: The user's names of the values that changed, by their sites.
    """

    site: CallSite
    records: deque[FunctionRecord] = field(default_factory=lambda: deque(maxlen=MAX_FUNCTIONS))
    variants: dict[Cause, dict[Any, tuple[Any, ...]]] = field(default_factory=dict)
    is_reported: bool = False
    builds: int = 0
    building: float = 0.0
    compiles: int = 0
    compiling: float = 0.0
    causes: list[str] = field(default_factory=list)
    names: dict[Any, SourceName] = field(default_factory=dict)

    def is_suspect(self) -> bool:
        """Whether the next function may be needless: there were some, and at most one is in use."""
        return bool(self.records) and sum(x.is_referenced() for x in self.records) <= 1

    def add(self, record: FunctionRecord) -> None:
        """Add a function that is called for the first time, and drop records of no use."""
        with _lock:
            useful = [x for x in self.records if x.is_referenced() or x.is_wasted()]
            self.records = deque([*useful, record], MAX_FUNCTIONS)
            self.builds += 1
            self.building += record.building


_lock = threading.Lock()
_histories: OrderedDict[Any, History] = OrderedDict()
_reported: OrderedDict[Any, CodeType | None] = OrderedDict()


def history_of(site: CallSite) -> History:
    """The history of a call site; empty for a new one, or one that was dropped."""
    with _lock:
        found = _histories.setdefault(site.key, History(site))
        _histories.move_to_end(site.key)
        if len(_histories) > MAX_SITES:
            _histories.popitem(last=False)
    return found


def is_first(site: CallSite, report: Any) -> bool:
    """Whether a report is the first of its kind for the innermost line of a call site."""
    code, offset = site.site or (None, 0)
    key = (site.test, id(code), offset, report)
    with _lock:
        if key in _reported:
            return False
        _reported[key] = code  # An id is valid as long as its object.
        if len(_reported) > MAX_SITES:
            _reported.popitem(last=False)
    return True


def add_cause(causes: list[str], text: str) -> None:
    """Add a cause to the latest ones."""
    with _lock:
        causes.append(text)
        del causes[:-MAX_CAUSES]


class _SummaryCache:
    """The summaries used last, of at most ``MAX_NODES`` nodes in all."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, GraphSummary] = OrderedDict()
        self._nodes = 0

    def keep(self, summary: GraphSummary) -> None:
        """Keep a summary alive, and drop the least recently used ones."""
        with _lock:
            if id(summary) not in self._kept:
                self._kept[id(summary)] = summary
                self._nodes += len(summary.nodes)
            self._kept.move_to_end(id(summary))
            while self._nodes > MAX_NODES and len(self._kept) > 1:
                self._nodes -= len(self._kept.popitem(last=False)[1].nodes)


_summaries = _SummaryCache()


def _unmade() -> None:
    return None


class FunctionRecord:
    """The record of a compiled function.

    Attributes:
        site: The call site that made it.
        history: The history of that site.
        stats: Its compilations and their cost.
        building: The seconds it took to build it.
        key: The key of its graph.
        types: The types of its arguments and shared variables.
        form: All but its graph: its mode in words, its arguments and updates.
        structures: Its implicit arrays: their names, and what they are.
        calls: The shapes that the first executables were made for.
        report: How it differs from the most similar function before it, and that one's record;
            until its first call.
        cause: The report as one line, from the first call on.
    """

    def __init__(self, function: Any, site: CallSite, building: float) -> None:
        self._function = ref(function)
        self._is_owned = True
        self._summary: Callable[[], GraphSummary | None] = _unmade
        self._samples: tuple[Any, ...] | None = None
        self.site = site
        self.history = history_of(site)
        self.stats = Stats(causes=self.history.causes)
        self.building = building
        self.key: str = function.requested.key()
        self.types = tuple(x.type for x in function.requested.inputs)
        self.form: tuple[str, Any] = (function.mode.written, function.pattern)
        self.structures = function.structures
        self.calls: dict[CallShapes, None] = {}
        self.report: tuple[Report, FunctionRecord] | None = None
        self.cause: str | None = None

    @property
    def identity(self) -> Any:
        """Equal for functions that can share an executable."""
        return self.key, self.form

    def disown(self) -> None:
        """Count it as unreferenced from now on, as the functions that ``eval`` caches are."""
        self._is_owned = False

    def is_referenced(self) -> bool:
        """Whether the user can still call it."""
        return self._is_owned and self._function() is not None

    def is_wasted(self) -> bool:
        """Whether it cannot be called again, and was called only a few times."""
        return 0 < self.stats.calls < WORTHWHILE_CALLS and not self.is_referenced()

    def samples(self) -> tuple[Any, ...]:
        """A hash of each captured array; computed while the function exists."""
        if self._samples is None:
            function = self._function()
            assert function is not None
            self._samples = tuple(_sample(x.op.array) for x in function.leaves)
        return self._samples

    def summary(self) -> GraphSummary | None:
        """The summary of its graph, made while the function exists; None where it was dropped."""
        known = self._summary()
        if known is None and self._summary is _unmade:
            same = (x._summary() for x in self.history.records if x.key == self.key)
            function = self._function()
            known = next(filter(None, same), None)
            known = known or (function and GraphSummary(function.requested))
        if known is not None:
            _summaries.keep(known)
            self._summary = ref(known)
        return known

    def changed_leaves(self, other: FunctionRecord, leaves: Sequence[Node]) -> list[Node]:
        """The captured arrays whose values differ from those of a function with an equal graph.

        The earliest come first: the order of leaves follows from hashes.
        """
        pairs = zip(leaves, self.samples(), other.samples(), strict=True)
        found = [node for node, new, old in pairs if new != old]
        return sorted(found, key=lambda node: node.serial)


def _sample(array: Any) -> Any:
    """A hash of some elements; None for small arrays: numbers marked runtime may change."""
    if array.size < TINY:
        return None
    flat = np.asarray(array).reshape(-1)
    return hash(flat[:: -(-flat.size // SAMPLE)].tobytes())
