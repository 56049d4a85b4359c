"""Where graphs run: a folder a backend, its name a mode."""

from graphc.link.backend import Backend, Executable, as_numpy, load, names
from graphc.link.host import Host, analyse
from graphc.link.ledger import Ledger
from graphc.link.outline import Outline
from graphc.link.program import Program

__all__ = [
    "Backend",
    "Executable",
    "Host",
    "Ledger",
    "Outline",
    "Program",
    "analyse",
    "as_numpy",
    "load",
    "names",
]
