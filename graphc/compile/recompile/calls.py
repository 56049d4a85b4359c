"""What is told of calls and executables: attributed to the function that is being called."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any, Literal

from graphc.compile.events import Event, Kind, publish
from graphc.compile.recompile.history import CAUSES, Sighting, note
from graphc.compile.recompile.judge import BUDGET, judge, setting, speak
from graphc.compile.recompile.place import FOLDER, level_of
from graphc.compile.recompile.wording import Signature, told_of_lengths
from graphc.ir import INTERNAL, where

__all__ = ["called", "made", "wanted"]


class called:  # noqa: N801 (reads as a statement)
    """Around each of a function's first calls: the first is judged before it, and told after it.

    Raises:
        RecompileError: The function should not have been made, and the setting is ``"raise"``.
    """

    __slots__ = ("function",)

    def __init__(self, function: Any) -> None:
        self.function = function

    def __enter__(self) -> None:
        stats = self.function.sighting.stats
        if not stats.calls:
            judge(self.function)
        stats.calls += 1

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        stats = self.function.sighting.stats
        if kind is None and not (stats.compiles or stats.loads or stats.hits):
            _tell(self.function, "hit", (), self.function.sighting.cause, 0.0)


def wanted(signature: Sequence[tuple[int, ...]], values: Mapping[int, Any]) -> None:
    """An executable is about to be made, in the call under way.

    Args:
        signature: The shape of each argument.
        values: The values of arguments that decide shapes, by position.

    Raises:
        RecompileError: It is one too many, and the setting is ``"raise"``.
    """
    function, frame = _caller()
    if function is not None and setting(function.mode) == "raise":
        _weigh(function, _signature(signature, values), frame)


def made(
    kind: Literal["compile", "load"],
    signature: Sequence[tuple[int, ...]],
    values: Mapping[int, Any],
    seconds: float,
) -> None:
    """An executable was made or loaded for the call under way.

    Args:
        kind: Which of the two.
        signature: The shape of each argument.
        values: The values of arguments that decide shapes, by position.
        seconds: How long it took.
    """
    function, frame = _caller()
    if function is None:
        return
    seen: Sighting = function.sighting
    this = _signature(signature, values)
    cause = seen.cause
    if seen.signatures and this not in seen.signatures:
        what = told_of_lengths([[*seen.signatures][-1], this], function.asked.inputs)
        cause = str(what) if what.lines else "shape: one executable for all values from now on"
        note(seen.history.causes, cause)
    seen.history.compiles += kind == "compile"
    seen.history.compiling += seconds
    _tell(function, kind, tuple(map(tuple, signature)), cause, seconds)
    _weigh(function, this, frame)
    if len(seen.signatures) <= CAUSES:
        seen.signatures[this] = None


def _signature(signature: Sequence[tuple[int, ...]], values: Mapping[int, Any]) -> Signature:
    return tuple(map(tuple, signature)), tuple(values.items())


def _weigh(function: Any, this: Signature, frame: FrameType | None) -> None:
    """Tell the user where one program has been compiled for too many lengths."""
    seen: Sighting = function.sighting
    before = dict(seen.signatures)
    for each in tuple(seen.history.seen):
        if each is not seen and each.identity == seen.identity and each.is_dropped():
            before |= each.signatures
    if seen.place.is_internal or this in before or len(before) < BUDGET:
        return
    what = told_of_lengths([*before, this], function.asked.inputs)
    if what.lines:
        times = f"is compiled {len(before) + 1} times for other shapes"
        speak(function, what, times, seen.history.compiling, level_of(frame))


def _tell(
    function: Any,
    kind: Kind,
    shapes: tuple[tuple[int, ...], ...],
    cause: str | None,
    seconds: float,
) -> None:
    seen: Sighting = function.sighting
    event = Event(
        kind,
        function.name or repr(function),
        seen.key,
        where(seen.place.site),
        cause,
        seconds * 1e3,
        shapes,
        function.mode.name,
        seen.place.is_internal,
    )
    seen.stats.count(event)
    publish(event)


def _caller() -> tuple[Any, FrameType | None]:
    """The function that is being called, and the frame of its call."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_name == "__call__" and code.co_filename.startswith((FOLDER, INTERNAL)):
            found = frame.f_locals.get("self")
            if hasattr(found, "sighting"):
                return found, frame
        frame = frame.f_back
    return None, None
