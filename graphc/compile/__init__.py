"""The public interface of compilation: functions, shared variables, modes."""

from graphc.compile.arguments import In, Out
from graphc.compile.function import Function, function
from graphc.compile.mode import Mode, get_mode
from graphc.compile.shared import Shared, shared
from graphc.compile.specification import check, clone_replace

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
