"""Needless compilations: detected, judged by their cause, and reported."""

from graphc.compile.recompile.call_site import mark_internal
from graphc.compile.recompile.history import WORTHWHILE_CALLS, FunctionRecord
from graphc.compile.recompile.judge import (
    before_compile,
    counted_call,
    recompile,
    record_executable,
    record_function,
)

__all__ = [
    "WORTHWHILE_CALLS",
    "FunctionRecord",
    "before_compile",
    "counted_call",
    "mark_internal",
    "recompile",
    "record_executable",
    "record_function",
]
