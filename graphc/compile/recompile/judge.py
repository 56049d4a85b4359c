"""Judgement of functions that are compiled or built again and again, by cause.

A function is compared with those made at the same call site before. Only a predecessor that was
dropped after few calls counts against it: one that is still referenced is one of several that the
user needs, and one that was called often was worth its compilation. A value that could have been an
input is reported at the second such function; shapes and dtypes have a budget of 8, graphs of the
same operations one of 32. Each call site is reported once. Another mode, and other values of
captured arrays, for which nothing is compiled twice, are causes in ``stats`` alone.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from types import FrameType
from typing import Any, Literal

from graphc.compile.events import Event, EventKind, FunctionContext, publish
from graphc.compile.recompile.call_site import FOLDER, call_site
from graphc.compile.recompile.difference import REPLACEABLE, Cause, Change, changes
from graphc.compile.recompile.history import (
    MAX_CAUSES,
    FunctionRecord,
    History,
    add_cause,
    is_first,
)
from graphc.compile.recompile.report import (
    CallShapes,
    Report,
    of_changes,
    of_dtypes,
    of_mode,
    of_shapes,
    of_structures,
    seconds_as_text,
)
from graphc.config import RECOMPILE, config
from graphc.errors import RecompileError, RecompileWarning
from graphc.ir import Node
from graphc.site import INTERNAL, frames_up, where

BUDGET = 8
"""The most shapes, or dtypes, of the functions of a call site, or of the executables of one."""
STRUCTURES = 32
"""The most graphs of the same operations at a call site, as of a Python loop that grows one."""

_chosen: ContextVar[tuple[str, ...]] = ContextVar("recompile", default=())


class recompile(FunctionContext):  # noqa: N801 (reads as a statement)
    """A context, or decorator, that sets what happens on needless compilations.

    It overrides ``Mode(..., recompile=...)``, which overrides ``config.recompile``. It holds for
    the current thread and asynchronous task.

    Args:
        setting: ``"warn"`` for a ``graphc.RecompileWarning``, once for each line of code;
            ``"raise"`` for a ``RecompileError`` instead of each such compilation; or ``"ignore"``.

    Raises:
        ValueError: The setting is none of these.

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


def _setting(mode: Any) -> str:
    chosen = _chosen.get()
    return chosen[-1] if chosen else mode.recompile or config.recompile


# Functions.


def record_function(function: Any, seconds: float = 0.0) -> None:
    """Give a new function its ``record`` and ``stats``, while the user's code is on the stack."""
    record = function.record = FunctionRecord(function, call_site(), seconds)
    function.stats = record.stats
    history = record.history
    quiet = history.is_reported or record.site.is_internal or _setting(function.mode) == "ignore"
    if not quiet and history.is_suspect():
        record.report = _compare(function, tuple(history.records))


class counted_call:  # noqa: N801 (reads as a statement)
    """A context for a function's first calls: the first is judged before, and published after.

    Raises:
        RecompileError: The function is needless, and the setting is ``"raise"``.
    """

    __slots__ = ("function",)

    def __init__(self, function: Any) -> None:
        self.function = function

    def __enter__(self) -> None:
        record = self.function.record
        if not record.counted:
            _judge(self.function)
        record.counted += 1

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        record = self.function.record
        stats = record.stats
        if kind is None and not (stats.compiles or stats.loads or stats.hits):
            _publish(self.function, "hit", (), record.cause, 0.0)


def _judge(function: Any) -> None:
    """Compare a function that is called for the first time with earlier ones."""
    record: FunctionRecord = function.record
    if not record.site.is_internal:
        report = _report(function, record)
        if report is not None:
            record.cause = str(report[0])
            add_cause(record.history.causes, record.cause)
            _check_functions(function, record, *report)
        record.report = None  # A report refers to an earlier record, which may refer to another.
    record.samples()
    record.summary()
    record.history.add(record)


def _report(function: Any, record: FunctionRecord) -> tuple[Report, FunctionRecord] | None:
    """Return the difference from the most similar wasted function, or else any earlier one."""
    others = tuple(record.history.records)
    if record.history.is_reported and any(x.identity == record.identity for x in others):
        return None
    if record.report is not None and record.report[1].is_wasted():
        return record.report
    wasted = tuple(x for x in others if x.is_wasted())
    return _compare(function, wasted or others)


Difference = Report | list[Change]


def _compare(
    function: Any, others: Sequence[FunctionRecord]
) -> tuple[Report, FunctionRecord] | None:
    """Return the difference of a function from the most similar other; None if one is equal."""
    record: FunctionRecord = function.record
    differences: list[tuple[Difference, FunctionRecord]] = []
    for other in reversed(others):
        difference = _difference(function, record, other)
        if not difference:
            return None
        differences.append((difference, other))
        if _distance(difference) <= CLOSE:
            break
    if not differences:
        return None
    nearest, other = min(differences, key=lambda pair: _distance(pair[0]))
    if not isinstance(nearest, Report):
        quiet = record.history.is_reported or _setting(function.mode) == "ignore"
        names = record.history.names
        nearest = of_changes(nearest, function.requested.inputs, names, quiet=quiet)
    return nearest, other


def _difference(function: Any, record: FunctionRecord, other: FunctionRecord) -> Difference:
    if other.key != record.key:
        old, new = other.summary(), record.summary()
        if old is None or new is None:
            return UNKNOWN
        changed = changes(old, function.requested, new)
        # Handlers turn static fields of implicit arrays into parameters of operations.
        of_arrays = of_structures(other.structures, record.structures)
        is_theirs = of_arrays is not None and changed and changed[0].cause == of_arrays.cause
        return of_arrays if of_arrays is not None and is_theirs else changed
    if other.form[0] != record.form[0]:
        return of_mode(other.form[0], record.form[0])
    if other.form != record.form:
        return OTHER_FORM
    leaves = record.changed_leaves(other, function.leaves)
    return [Change("captured value", x.type, x.type, x) for x in leaves]


ONCE = "build the function once and keep it."
UNKNOWN = Report("structure", ("nothing is known of the one before any more",), ONCE, ())
OTHER_FORM = Report("structure", ("the same graph with other arguments or updates",), ONCE, ())

BY_SIMILARITY: tuple[Cause, ...] = (
    *("captured value", "Python scalar", "static parameter"),
    *("mode", "dtype", "shape", "structure"),
)
CLOSE = (2, 1)
"""The distance of a function that differs in one value, which could have been an input."""


def _distance(difference: Difference) -> tuple[int, int]:
    if isinstance(difference, Report):
        return BY_SIMILARITY.index(difference.cause), 1
    return BY_SIMILARITY.index(difference[0].cause), len(difference)


DIFFERING: dict[Cause, str] = {
    "shape": "other shapes",
    "dtype": "other dtypes",
    "structure": "other graphs",
}


def _check_functions(
    function: Any, record: FunctionRecord, report: Report, other: FunctionRecord
) -> None:
    """Warn the user if the functions of a call site exceed the budget of their cause."""
    history = record.history
    if not other.is_wasted() or other.identity == record.identity or report.cause == "mode":
        return
    if report.cause not in REPLACEABLE:
        history.add_variant(report.cause, other)
        variants = history.add_variant(report.cause, record)
        if len(variants) <= (STRUCTURES if report.cause == "structure" else BUDGET):
            return
        report = _of_all(report, variants, function.requested.inputs)
    times, lost = _cost(history, DIFFERING.get(report.cause, "the same input types"))
    _warn(function, report, times, lost)


def _cost(history: History, reason: str) -> tuple[str, float]:
    """Return the number of compilations, or of builds with a cached program; and the seconds."""
    if history.compiles:
        return f"is compiled {history.compiles + 1} times for {reason}", history.compiling
    times = f"is built {history.builds + 1} times for {reason}, and was found compiled"
    return times, history.building + history.compiling


def _of_all(report: Report, variants: Sequence[Sequence[Any]], inputs: Sequence[Node]) -> Report:
    """Report the changes among all functions that used up a budget."""
    if report.cause == "dtype":
        return of_dtypes([[x.dtype for x in types] for types in variants], inputs)
    if report.cause == "shape":
        shapes = [tuple(x.shape for x in types) for types in variants]
        return of_shapes([(each, ()) for each in shapes], inputs, declared=True)
    return report


# Executables, attributed to the function that is being called.


def before_compile(shapes: Sequence[tuple[int, ...]], values: Mapping[int, Any]) -> None:
    """Raise if the next executable exceeds the budget; as in ``CompileContext``."""
    function = _called_function()
    if function is not None and _setting(function.mode) == "raise":
        _check_shapes(function, _call_shapes(shapes, values))


def record_executable(
    kind: Literal["compile", "load"],
    shapes: Sequence[tuple[int, ...]],
    values: Mapping[int, Any],
    seconds: float,
) -> None:
    """Record an executable that was compiled or loaded for the call; as in ``CompileContext``."""
    function = _called_function()
    if function is None:
        return
    record: FunctionRecord = function.record
    history, this = record.history, _call_shapes(shapes, values)
    cause = record.cause
    if record.calls and this not in record.calls:
        report = of_shapes([[*record.calls][-1], this], function.requested.inputs)
        cause = str(report) if report.lines else "shape: one executable for all values from now on"
        add_cause(history.causes, cause)
    history.compiles += kind == "compile"
    history.compiling += seconds
    _publish(function, kind, this[0], cause, seconds)
    _check_shapes(function, this)
    if len(record.calls) <= MAX_CAUSES:
        record.calls[this] = None


def _call_shapes(shapes: Sequence[tuple[int, ...]], values: Mapping[int, Any]) -> CallShapes:
    return tuple(map(tuple, shapes)), tuple(values.items())


def _check_shapes(function: Any, this: CallShapes) -> None:
    """Warn the user if a program has been compiled for too many lengths."""
    record: FunctionRecord = function.record
    before = dict(record.calls)
    for other in tuple(record.history.records):
        if other is not record and other.identity == record.identity and other.is_wasted():
            before |= other.calls
    if record.site.is_internal or this in before or len(before) < BUDGET:
        return
    report = of_shapes([*before, this], function.requested.inputs, mode=function.mode)
    if report.lines:
        times = f"is compiled {len(before) + 1} times for other shapes"
        _warn(function, report, times, record.history.compiling)


def _called_function() -> Any:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_name == "__call__" and code.co_filename.startswith((FOLDER, INTERNAL)):
            function = frame.f_locals.get("self")
            if hasattr(function, "record"):
                return function
        frame = frame.f_back
    return None


# Events and warnings.


def _publish(
    function: Any,
    kind: EventKind,
    shapes: Sequence[tuple[Any, ...]],
    cause: str | None,
    seconds: float,
) -> None:
    record: FunctionRecord = function.record
    event = Event(
        kind,
        function.name or repr(function),
        record.key,
        where(record.site.site),
        cause,
        seconds * 1e3,
        tuple(shapes),
        function.mode.name,
        record.site.is_internal,
    )
    record.stats.count(event)
    publish(event)


def _warn(function: Any, report: Report, times: str, lost: float) -> None:
    """Warn, once for each call site; or raise, or do nothing, as the setting says.

    ``times`` tells how often the function was built or compiled, ``lost`` is the seconds spent.
    """
    record: FunctionRecord = function.record
    chosen = _setting(function.mode)
    if chosen == "ignore" or (record.history.is_reported and chosen == "warn"):
        return
    line = where(record.site.site)
    is_name = (function.name or "").isidentifier()
    title = f"{function.name or 'function'}{f' ({line})' if line else ''}"
    text = (
        f"{title} {times}; {seconds_as_text(lost)} lost so far.\n"
        f"  changed: {report.changed}\n"
        f'  fix: {report.fix}   silence: recompile="ignore"   '
        f"all causes: {function.name if is_name else 'f'}.stats"
    )
    if chosen == "raise":
        raise RecompileError(text, "", where="")
    record.history.is_reported = True
    if is_first(record.site, (report.cause, report.about)):
        warnings.warn(RecompileWarning(text, report.cause), stacklevel=frames_up())
