"""What a user calls: functions, shared variables, modes."""

import graphc.compile.evaluate  # noqa: F401 (makes it a method)
from graphc.compile.arguments import In, Out
from graphc.compile.check import check
from graphc.compile.function import Function, function
from graphc.compile.mode import Mode, get_mode
from graphc.compile.recipe import clone_replace
from graphc.compile.shared import Shared, shared

__all__ = [
    "Function",
    "In",
    "Mode",
    "Out",
    "Shared",
    "check",
    "clone_replace",
    "function",
    "get_mode",
    "shared",
]
