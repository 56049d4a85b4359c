"""Backends, which run graphs: one folder per backend; its name in capitals is the mode."""

from graphc.link.backend import Backend, Executable, as_numpy, load, names
from graphc.link.call_spec import CallSpec
from graphc.link.compile_context import CompileContext
from graphc.link.host import Host, analyse
from graphc.link.program import Program

__all__ = [
    "Backend",
    "CallSpec",
    "CompileContext",
    "Executable",
    "Host",
    "Program",
    "analyse",
    "as_numpy",
    "load",
    "names",
]
