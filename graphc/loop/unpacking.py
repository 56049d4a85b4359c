"""Whether the user's line takes a pair of outputs and updates from a scan, as PyTensor gives it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from graphc.ir import Node
from graphc.site import frames_up, index_taken, is_named_updates, unpacked_to

REMEDY = "return_updates=True gives a pair of outputs and updates, return_updates=False outputs."


def takes_updates(title: str, outputs: Sequence[Any]) -> bool:
    """Whether the user's line unpacks outputs and updates; a warning says so, or asks in doubt.

    It does where the second of two targets is called ``updates``, where the first is itself
    unpacked, where the second is discarded, or another name, and there are neither two outputs nor
    two steps for that. Two outputs may go to any two other names. In doubt are ``states, _`` of two
    outputs, ``a, b`` of two steps, and ``scan(...)[0]``, which take of outputs alone the first
    output or step.
    """
    targets = unpacked_to()
    if targets is None or len(targets) != 2:
        if index_taken() == 0 and outputs:
            part = "output" if len(outputs) > 1 else "step"
            _warn(f"{title}(...)[0] is the first {part}, as outputs are returned alone.")
        return False
    first, second = targets
    discards = isinstance(second, str) and not second.strip("_")
    # A wrapper is not iterated over, so only an array can be unpacked into steps.
    steps = len(outputs) == 1 and _is_of_two(outputs[0])
    written = ", ".join(x if isinstance(x, str) else "[...]" for x in targets)
    if (
        is_named_updates(second)
        or isinstance(first, list)
        or (discards and len(outputs) < 2)
        or not (steps or len(outputs) == 2)
    ):
        _warn(
            f"{title}: {written} = ... is given outputs and updates, as it unpacks both.",
            DeprecationWarning,
        )
        return True
    if steps:
        _warn(f"{title}: {written} = ...: they are the two steps, as outputs are returned alone.")
    if discards:
        _warn(f"{title}: {written} = ...: {second} is the second output, as there are no updates.")
    return False


def _is_of_two(x: Any) -> bool:
    return isinstance(x, Node) and x.type.shape[:1] == (2,)


def _warn(problem: str, category: type[Warning] = UserWarning) -> None:
    warnings.warn(f"{problem} {REMEDY}", category, stacklevel=frames_up())
