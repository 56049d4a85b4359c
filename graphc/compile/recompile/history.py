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
from graphc.compile.recompile.difference import Cause, GraphSummary, SourceName
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
        variants: By cause, and for structure by the operations: the dtypes, shapes or graphs of
            functions that differ by it, with the types of their inputs.
        is_reported: Whether the user was warned.
        builds: The number of functions that were called.
        building: The seconds that building them took.
        compiles: The number of executables that were compiled for them.
        compiling: The seconds that compiling and loading took.
        causes: The latest causes, each once.
        names: The user's names of the values that changed, by their sites.
    """

    site: CallSite
    records: deque[FunctionRecord] = field(default_factory=lambda: deque(maxlen=MAX_FUNCTIONS))
    variants: dict[Any, dict[Any, tuple[Any, ...]]] = field(default_factory=dict)
    is_reported: bool = False
    builds: int = 0
    building: float = 0.0
    compiles: int = 0
    compiling: float = 0.0
    causes: list[str] = field(default_factory=list)
    names: dict[Any, SourceName] = field(default_factory=dict)

    def is_suspect(self) -> bool:
        """Return whether the next function may be needless: there were some, at most one in use."""
        return bool(self.records) and sum(x.is_referenced() for x in self.records) <= 1

    def add_variant(self, cause: Cause, record: FunctionRecord) -> list[tuple[Any, ...]]:
        """Add a function that differs by a cause; return the types of all that do, once for each.

        A loop over functions and dtypes has as many variants of a dtype as there are dtypes, and a
        loop over functions of different operations has one of structure for each.
        """
        group, variant = record.variant(cause)
        with _lock:
            variants = self.variants.setdefault(group, {})
            variants[variant] = record.types
            if len(self.variants) > MAX_CAUSES:
                del self.variants[next(iter(self.variants))]
            return [*variants.values()]

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
    """Return the history of a call site; empty for a new or dropped site."""
    with _lock:
        history = _histories.setdefault(site.key, History(site))
        _histories.move_to_end(site.key)
        if len(_histories) > MAX_SITES:
            _histories.popitem(last=False)
    return history


def is_first(site: CallSite, report: Any) -> bool:
    """Return whether a report is the first of its kind for the innermost line of a call site."""
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
    """Add a cause to the latest ones, unless it is among them."""
    with _lock:
        if text in causes:
            return
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


def _no_summary() -> None:
    return None


class FunctionRecord:
    """The record of a compiled function.

    Attributes:
        site: The call site that made it.
        history: The history of that site.
        stats: The function's compilations and their cost.
        building: The seconds that building the function took.
        key: The key of its graph.
        types: The types of its arguments and shared variables.
        form: The mode as text, and how a call maps to the graph.
        structures: Names and tree definitions of its implicit arrays.
        calls: The shapes of the first executables.
        counted: The number of calls, of which only the first WORTHWHILE_CALLS are counted.
        report: The difference from the most similar earlier function, and the record of that one;
            until the first call.
        cause: The report as one line, from the first call on.
    """

    def __init__(self, function: Any, site: CallSite, building: float) -> None:
        self._function = ref(function)
        self._is_owned = True
        self._summary: Callable[[], GraphSummary | None] = _no_summary
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
        self.counted = 0
        self.report: tuple[Report, FunctionRecord] | None = None
        self.cause: str | None = None

    @property
    def identity(self) -> Any:
        """A key that is equal for functions that can share an executable."""
        return self.key, self.form

    def variant(self, cause: Cause) -> tuple[Any, Any]:
        """Return the group in which functions that differ by a cause are counted, and a key."""
        match cause:
            case "dtype":
                return cause, tuple(x.dtype for x in self.types)
            case "shape":
                return cause, tuple(x.shape for x in self.types)
        summary = self.summary()
        return (cause, summary and summary.kinds), self.identity

    def disown(self) -> None:
        """Count the function as unreferenced, as the functions that ``eval`` caches are."""
        self._is_owned = False

    def is_referenced(self) -> bool:
        """Return whether the user can still call the function."""
        return self._is_owned and self._function() is not None

    def is_wasted(self) -> bool:
        """Return whether the function is unreachable and was called only a few times."""
        return 0 < self.counted < WORTHWHILE_CALLS and not self.is_referenced()

    def samples(self) -> tuple[Any, ...]:
        """Return a hash of each captured array; computed while the function exists."""
        if self._samples is None:
            function = self._function()
            assert function is not None
            self._samples = tuple(_sample(x.op.array) for x in function.leaves)
        return self._samples

    def summary(self) -> GraphSummary | None:
        """Return the summary of its graph; None if the summary was dropped."""
        summary = self._summary()
        if summary is None and self._summary is _no_summary:
            same = (x._summary() for x in self.history.records if x.key == self.key)
            function = self._function()
            summary = next(filter(None, same), None)
            summary = summary or (function and GraphSummary(function.requested))
        if summary is not None:
            _summaries.keep(summary)
            self._summary = ref(summary)
        return summary

    def changed_leaves(self, other: FunctionRecord, leaves: Sequence[Node]) -> list[Node]:
        """Return the captured arrays that differ from the values of a function with an equal graph.

        The earliest come first: the order of leaves follows from hashes.
        """
        pairs = zip(leaves, self.samples(), other.samples(), strict=True)
        changed = [node for node, new, old in pairs if new != old]
        return sorted(changed, key=lambda node: node.serial)


def _sample(array: Any) -> Any:
    """Return a hash of some elements; None for small arrays, since runtime numbers may change."""
    if array.size < TINY:
        return None
    flat = np.asarray(array).reshape(-1)
    return hash(flat[:: -(-flat.size // SAMPLE)].tobytes())
