"""What is remembered of functions, by the place in the user's code that made them.

Neither the functions nor their graphs or arrays are kept alive by it, and the number of places, of
functions at a place and of causes is bounded.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any
from weakref import ref

import numpy as np

from graphc.compile.events import Stats
from graphc.compile.recompile.cause import Cause
from graphc.compile.recompile.naming import Name
from graphc.compile.recompile.picture import Picture
from graphc.compile.recompile.place import Place
from graphc.compile.recompile.wording import Signature, Told
from graphc.ir import TINY, Node

__all__ = ["WORTH", "History", "Sighting", "history", "is_first", "note"]

WORTH = 4
"""From so many calls on, a function was worth its compilation."""
PLACES = 512
"""How many places are remembered, the least recently used going first."""
KEPT = 16
"""How many functions of a place are remembered: more than differ in lengths before that is told."""
SAMPLE = 1024
"""How many elements of an array are looked at to see whether it is another one."""
CAUSES = 32
"""How many causes are remembered."""
MARKS = 100_000
"""How many nodes are kept in pictures, the least recently used going first: some 30 MB."""


class History:
    """What was seen at a place.

    Attributes:
        codes: The place's code objects, which its key refers to.
        seen: The latest functions that were called.
        variants: For each cause, the functions that it made, with the types of their inputs.
        is_told: Whether the user was told.
        builds: How many functions were called at all.
        building: How long it took to make them.
        compiles: How many executables were made for them.
        compiling: How long that took.
        causes: The latest causes.
        names: What the values that changed are called, by where they are.
    """

    __slots__ = (
        "building",
        "builds",
        "causes",
        "codes",
        "compiles",
        "compiling",
        "is_told",
        "names",
        "seen",
        "variants",
    )

    def __init__(self, at: Place) -> None:
        self.codes = at.codes
        self.seen: deque[Sighting] = deque(maxlen=KEPT)
        self.variants: dict[Cause, dict[Any, tuple[Any, ...]]] = {}
        self.is_told = False
        self.builds = 0
        self.building = 0.0
        self.compiles = 0
        self.compiling = 0.0
        self.causes: list[str] = []
        self.names: dict[Any, Name] = {}

    def is_suspect(self) -> bool:
        """Whether the next function may be one too many: there are some, and one in use at most."""
        return bool(self.seen) and sum(each.is_kept() for each in self.seen) <= 1

    def add(self, sighting: Sighting) -> None:
        """Remember a function that is called for the first time, and forget those of no use."""
        with _lock:
            useful = [each for each in self.seen if each.is_kept() or each.is_dropped()]
            self.seen = deque([*useful, sighting], KEPT)
            self.builds += 1
            self.building += sighting.building


_histories: OrderedDict[Any, History] = OrderedDict()
_lock = threading.Lock()


def history(at: Place) -> History:
    """What was seen at a place; nothing so far, or that was long ago."""
    with _lock:
        found = _histories.get(at.key)
        if found is None:
            found = _histories[at.key] = History(at)
            if len(_histories) > PLACES:
                _histories.popitem(last=False)
        else:
            _histories.move_to_end(at.key)
    return found


_told: OrderedDict[Any, CodeType | None] = OrderedDict()


def is_first(at: Place, what: Any) -> bool:
    """Whether this was not told of the place's innermost line yet, wherever it was called from."""
    code, offset = at.site or (None, 0)
    key = (at.test, id(code), offset, what)
    with _lock:
        if key in _told:
            return False
        _told[key] = code  # An id is as good as its object.
        if len(_told) > PLACES:
            _told.popitem(last=False)
    return True


def note(causes: list[str], text: str) -> None:
    """Add a cause to the latest ones."""
    with _lock:
        causes.append(text)
        del causes[:-CAUSES]


class _Pictures:
    """The pictures used last, of so many nodes in all."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, Picture] = OrderedDict()
        self._marks = 0

    def keep(self, picture: Picture) -> None:
        """Hold on to it, and let go of those that were not used for the longest time."""
        with _lock:
            if id(picture) not in self._kept:
                self._kept[id(picture)] = picture
                self._marks += len(picture.marks)
            self._kept.move_to_end(id(picture))
            while self._marks > MARKS and len(self._kept) > 1:
                self._marks -= len(self._kept.popitem(last=False)[1].marks)


_pictures = _Pictures()


def _nothing() -> None:
    return None


class Sighting:
    """What is remembered of a function.

    Attributes:
        place: Where it was made.
        history: What else was seen there.
        stats: What it cost.
        building: How long it took to make.
        key: Its graph's.
        types: Of its arguments and shared variables.
        form: What it is beside its graph: its mode in words, its arguments and updates.
        signatures: What executables were made for, the first ones.
        told: In what it differs from the nearest one before it, and which that is; until it is
            judged.
        cause: That in a line, since then.
    """

    __slots__ = (
        "_function",
        "_is_kept",
        "_picture",
        "_samples",
        "building",
        "cause",
        "form",
        "history",
        "key",
        "place",
        "signatures",
        "stats",
        "told",
        "types",
    )

    def __init__(self, function: Any, at: Place, building: float) -> None:
        self._function = ref(function)
        self._is_kept = True
        self._picture: Callable[[], Picture | None] = _nothing
        self._samples: tuple[Any, ...] | None = None
        self.place = at
        self.history = history(at)
        self.stats = Stats(causes=self.history.causes)
        self.building = building
        self.key: str = function.asked.key()
        self.types = tuple(x.type for x in function.asked.inputs)
        self.form: tuple[str, Any] = (function.mode.written, function.pattern)
        self.signatures: dict[Signature, None] = {}
        self.told: tuple[Told, Sighting] | None = None
        self.cause: str | None = None

    @property
    def identity(self) -> Any:
        """What functions share that one executable serves."""
        return self.key, self.form

    def disown(self) -> None:
        """From now on nobody is taken to hold it, as nobody holds what ``eval`` makes."""
        self._is_kept = False

    def is_kept(self) -> bool:
        """Whether somebody can still call it."""
        return self._is_kept and self._function() is not None

    def is_dropped(self) -> bool:
        """Whether nobody can call it again, and it was called only a few times."""
        return 0 < self.stats.calls < WORTH and not self.is_kept()

    def samples(self) -> tuple[Any, ...]:
        """Of each captured array something to tell it by; taken while the function is there."""
        if self._samples is None:
            function = self._function()
            assert function is not None
            self._samples = tuple(_sample(x.op.array) for x in function.leaves)
        return self._samples

    def picture(self) -> Picture | None:
        """What its graph looks like, taken while the function is there; None if long forgotten."""
        known = self._picture()
        if known is None and self._picture is _nothing:
            same = (each._picture() for each in self.history.seen if each.key == self.key)
            function = self._function()
            known = next(filter(None, same), None) or (function and Picture(function.asked))
        if known is not None:
            _pictures.keep(known)
            self._picture = ref(known)
        return known

    def others_of_it(self, other: Sighting, leaves: Sequence[Node]) -> list[Node]:
        """The captured arrays that hold other values than those of a function like it."""
        pairs = zip(leaves, self.samples(), other.samples(), strict=True)
        return [node for node, new, old in pairs if new != old]


def _sample(array: Any) -> Any:
    """A hash of some elements; of a few, which is a number marked runtime, none: it may change."""
    if array.size < TINY:
        return None
    flat = np.asarray(array).reshape(-1)
    return hash(flat[:: -(-flat.size // SAMPLE)].tobytes())
