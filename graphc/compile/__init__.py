"""The public interface of compilation: functions, shared variables, modes."""

from typing import TYPE_CHECKING

from graphc import lazy
from graphc.compile.arguments import In, Out
from graphc.compile.function import Function, function
from graphc.compile.mode import Mode, get_default_mode, get_mode
from graphc.compile.shared import Shared, shared
from graphc.compile.specification import check, clone_replace

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())  # PyTensor's, see graphc/__init__.py

__all__ = [
    "Function",
    "In",
    "Mode",
    "Out",
    "Shared",
    "check",
    "clone_replace",
    "function",
    "get_default_mode",
    "get_mode",
    "shared",
]
