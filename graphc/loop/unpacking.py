"""Assignments that take a scan's outputs for a pair of outputs and updates."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Any

from graphc.errors import ArgumentError
from graphc.site import frames_up, is_named_updates, unpacked_to

REMEDY = (
    "Write out = graphc.scan(...), or out, updates = graphc.scan(..., return_updates=True); so for "
    "map, reduce, foldl and foldr."
)


WHOLE = r"(^|_)(outs?|outputs?|res|results?|rets?|returns?|vals|values)[_\d]*$"
"""How names end that all outputs together may have."""


def refuse_updates(title: str, outputs: Sequence[Any]) -> None:
    """Raise or warn where the user's line unpacks updates from outputs alone.

    Two outputs may go to any two other names. ``outputs, _`` is warned of: what is discarded is the
    second output here.

    Raises:
        ArgumentError: The second target is called ``updates``; or the first is itself unpacked, or
            the second discarded, where there are no two outputs for that.
    """
    targets = unpacked_to()
    if targets is None or len(targets) != 2:
        return
    first, second = targets
    discards = isinstance(second, str) and not second.strip("_")
    written = ", ".join(x if isinstance(x, str) else "[...]" for x in targets)
    if is_named_updates(second) or isinstance(first, list) or (discards and len(outputs) < 2):
        raise ArgumentError(
            f"{title}: {written} = ...: it returns its outputs alone, and no updates with them.",
            REMEDY,
        )
    if discards and len(outputs) == 2 and re.search(WHOLE, first.lower()):
        warnings.warn(
            f"{title}: {written} = ...: it returns its outputs alone, and {second} is the second "
            f"of them. If that is meant, write {first}, *_ = ...; for all outputs write "
            f"{first} = ... alone.",
            stacklevel=frames_up(),
        )
