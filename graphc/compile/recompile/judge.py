"""Functions that are compiled, or built, again and again: why, and what to do about it.

Functions are compared with those that were made at the same *place* in the user's code before. What
counts against it is a predecessor that was dropped after few calls: one that is kept is one of
several that are wanted, and one that was called often was worth its compilation. What could have
been an input is told at the second such function; shapes, dtypes and modes have a budget of 8,
structure has one of 32. Each place is told of once.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, Literal

from graphc.compile.events import Within
from graphc.compile.recompile.cause import CAPTURED, Cause, Change, changes
from graphc.compile.recompile.history import History, Sighting, is_first, note
from graphc.compile.recompile.place import level_of, place
from graphc.compile.recompile.wording import (
    Told,
    seconds_as_text,
    told,
    told_of_dtypes,
    told_of_lengths,
    told_of_mode,
)
from graphc.config import RECOMPILE, config
from graphc.errors import RecompileError, RecompileWarning
from graphc.ir import Node, where

__all__ = ["BUDGET", "judge", "recompile", "setting", "sight", "speak"]

BUDGET = 8
"""How many functions, or executables of one, may differ in shapes, dtypes or modes."""
STRUCTURES = 32
"""How many functions of a place may differ in structure."""

_chosen: ContextVar[tuple[str, ...]] = ContextVar("recompile", default=())


class recompile(Within):  # noqa: N801 (reads as a statement)
    """What is done, within, about functions that are compiled again for no good reason.

    It comes before ``Mode(..., recompile=...)``, and that before ``config.recompile``. It holds for
    the thread, and the asynchronous task, that it is used in. It is a decorator too.

    Args:
        setting: ``"warn"``: a ``graphc.RecompileWarning``, once for each place in the code;
            ``"raise"``: a ``RecompileError`` in the place of each such compilation; ``"ignore"``.

    Raises:
        ValueError: It is none of these.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> with graphc.recompile("raise"):
        ...     for rate in (0.1, 0.2):
        ...         y = graphc.function([x], x * rate, name="scaled", mode="NUMPY")([1.0])
        Traceback (most recent call last):
        ...
        graphc.errors.RecompileError: scaled (...) is compiled 2 times ...
          changed: `rate` (global of ...)  0.1 -> 0.2   [Python scalar, baked in]
        ...
    """

    def __init__(self, setting: Literal["warn", "raise", "ignore"]) -> None:
        if setting not in RECOMPILE:
            raise ValueError(f"recompile({setting!r}): it is {' or '.join(map(repr, RECOMPILE))}.")
        self.setting = setting

    def __enter__(self) -> recompile:
        _chosen.set((*_chosen.get(), self.setting))
        return self

    def __exit__(self, *error: object) -> None:
        _chosen.set(_chosen.get()[:-1])


def setting(mode: Any) -> str:
    """What is done about needless compilations of functions of that mode."""
    chosen = _chosen.get()
    return chosen[-1] if chosen else mode.recompile or config.recompile


def sight(function: Any, seconds: float = 0.0) -> None:
    """Take note of a new function; to be called when it is made, while the user's code is there.

    Args:
        function: It gets a ``sighting`` and ``stats``.
        seconds: How long it took to make.
    """
    seen = function.sighting = Sighting(function, place(), seconds)
    function.stats = seen.stats
    past = seen.history
    quiet = past.is_told or seen.place.is_internal or setting(function.mode) == "ignore"
    if not quiet and past.is_suspect():
        seen.told = _compared(function, tuple(past.seen))


def judge(function: Any) -> None:
    """Compare a function that is called for the first time with those before it.

    Raises:
        RecompileError: It should not have been made, and the setting is ``"raise"``.
    """
    seen: Sighting = function.sighting
    if not seen.place.is_internal:
        found = _found(function, seen)
        if found is not None:
            seen.cause = str(found[0])
            note(seen.history.causes, seen.cause)
            _weigh(function, seen, *found)
        seen.told = None  # It leads to the one before, and that to the one before it.
    seen.samples()
    seen.picture()
    seen.history.add(seen)


def _found(function: Any, seen: Sighting) -> tuple[Told, Sighting] | None:
    """In what it differs from the nearest one that was dropped, or else from any before it."""
    others = tuple(seen.history.seen)
    if seen.history.is_told and any(each.identity == seen.identity for each in others):
        return None
    if seen.told is not None and seen.told[1].is_dropped():
        return seen.told
    dropped = tuple(each for each in others if each.is_dropped())
    return _compared(function, dropped or others)


Difference = Told | list[Change]


def _compared(function: Any, others: Sequence[Sighting]) -> tuple[Told, Sighting] | None:
    """In what a function differs from the nearest of others; None if it is like one of them."""
    seen: Sighting = function.sighting
    found: list[tuple[Difference, Sighting]] = []
    for other in reversed(others):
        difference = _difference(function, seen, other)
        if not difference:
            return None
        found.append((difference, other))
        if _distance(difference) <= CLOSE:
            break
    if not found:
        return None
    nearest, other = min(found, key=lambda pair: _distance(pair[0]))
    if not isinstance(nearest, Told):
        quiet = seen.history.is_told or setting(function.mode) == "ignore"
        nearest = told(nearest, function.asked.inputs, seen.history.names, quiet=quiet)
    return nearest, other


def _difference(function: Any, seen: Sighting, other: Sighting) -> Difference:
    if other.key != seen.key:
        old, new = other.picture(), seen.picture()
        known = old is not None and new is not None
        return changes(old, function.asked, new) if known else UNKNOWN  # type: ignore[arg-type]
    if other.form[0] != seen.form[0]:
        return told_of_mode(other.form[0], seen.form[0])
    if other.form != seen.form:
        return OTHERWISE
    leaves = seen.others_of_it(other, function.leaves)
    return [Change("captured value", x.type, x.type, x) for x in leaves]


ONCE = "build the function once and keep it."
UNKNOWN = Told("structure", ("nothing is known of the one before any more",), ONCE, ())
OTHERWISE = Told("structure", ("the same graph with other arguments or updates",), ONCE, ())

NEAREST: tuple[Cause, ...] = (
    *("captured value", "Python scalar", "static parameter"),
    *("mode", "dtype", "shape", "structure"),
)


CLOSE = (2, 1)
"""How far one is that differs in no more than what an input would do away with."""


def _distance(found: Difference) -> tuple[int, int]:
    if isinstance(found, Told):
        return NEAREST.index(found.cause), 1
    return NEAREST.index(found[0].cause), len(found)


KINDS: dict[Cause, str] = {
    "shape": "other shapes",
    "dtype": "other dtypes",
    "structure": "other graphs",
    "mode": "other modes",
}


def _weigh(function: Any, seen: Sighting, what: Told, other: Sighting) -> None:
    """Tell the user, if that is due."""
    past = seen.history
    if not other.is_dropped():
        return
    if what.cause not in CAPTURED:
        variants = past.variants.setdefault(what.cause, {})
        variants |= {each.identity: each.types for each in (other, seen)}
        if len(variants) <= (STRUCTURES if what.cause == "structure" else BUDGET):
            return
        what = _in_all(what, [*variants.values()], function.asked.inputs)
    if other.identity == seen.identity:
        times = f"is built {past.builds + 1} times for other data, and compiled once"
        lost = past.building
    else:
        why = KINDS.get(what.cause, "the same input types")
        times, lost = _cost(past, why)
    speak(function, what, times, lost, level_of(None))


def _cost(past: History, why: str) -> tuple[str, float]:
    """How often functions were compiled, or built where a cache had them; and the seconds."""
    if past.compiles:
        return f"is compiled {past.compiles + 1} times for {why}", past.compiling
    times = f"is built {past.builds + 1} times for {why}, and was found compiled"
    return times, past.building + past.compiling


def _in_all(what: Told, seen: Sequence[Sequence[Any]], inputs: Sequence[Node]) -> Told:
    """What changed among all of the functions that used up a budget."""
    if what.cause == "dtype":
        return told_of_dtypes([[x.dtype for x in types] for types in seen], inputs)
    if what.cause == "shape":
        shapes = [tuple(x.shape for x in types) for types in seen]
        return told_of_lengths([(each, ()) for each in shapes], inputs, declared=True)
    return what


def speak(function: Any, what: Told, times: str, lost: float, level: int) -> None:
    """Warn, once a place; or raise, or hold back.

    Args:
        function: Which one it is about.
        what: What changed.
        times: How often what was done.
        lost: The seconds that took.
        level: The ``stacklevel`` of the user's line, of the caller.

    Raises:
        RecompileError: The setting is ``"raise"``.
    """
    seen: Sighting = function.sighting
    chosen = setting(function.mode)
    if chosen == "ignore" or (seen.history.is_told and chosen == "warn"):
        return
    line = where(seen.place.site)
    named = (function.name or "").isidentifier()
    title = f"{function.name or 'function'}{f' ({line})' if line else ''}"
    text = (
        f"{title} {times}; {seconds_as_text(lost)} lost so far.\n"
        f"  changed: {what.changed}\n"
        f'  fix: {what.fix}   silence: recompile="ignore"   '
        f"all causes: {function.name if named else 'f'}.stats"
    )
    if chosen == "raise":
        raise RecompileError(text)
    seen.history.is_told = True
    if is_first(seen.place, (what.cause, what.about)):
        warnings.warn(RecompileWarning(text, what.cause), stacklevel=level + 1)
