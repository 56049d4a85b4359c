"""Backends, which run graphs: a folder with ``backend.py`` each; its name in capitals is the mode.

``padding/`` is no backend: it makes graphs of padded arrays, where lengths are unknown.
"""

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
