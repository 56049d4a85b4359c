"""How much work a call does, counted: seconds depend on what else the machine does."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any


def python_calls(f: Callable[[], Any]) -> int:
    """The number of Python functions that a call enters.

    No garbage is collected meanwhile: it may be another test's, with callbacks of its own.
    """
    entered = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal entered
        entered += event == "call"

    before = sys.getprofile()
    collecting = gc.isenabled()
    gc.disable()
    sys.setprofile(count)
    try:
        f()
    finally:
        sys.setprofile(before)
        if collecting:
            gc.enable()
    return entered
