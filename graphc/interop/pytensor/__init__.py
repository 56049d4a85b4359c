"""PyTensor's graphs as graphc's, and graphc as a mode of PyTensor."""

from typing import TYPE_CHECKING

from graphc import lazy
from graphc.interop.pytensor.application import Application, Refusal
from graphc.interop.pytensor.convert import from_pytensor
from graphc.interop.pytensor.perform import by_perform
from graphc.interop.pytensor.table import register

if TYPE_CHECKING:
    from graphc.interop.pytensor.export import to_pytensor as to_pytensor
    from graphc.interop.pytensor.linker import mode as mode
else:
    # They import PyTensor, which takes a second or two.
    lazy.provide(
        __name__,
        names={
            "graphc.interop.pytensor.export": "to_pytensor",
            "graphc.interop.pytensor.linker": "mode",
        },
    )
    __getattr__, __dir__ = lazy.attributes(globals())

__all__ = [
    "Application",
    "Refusal",
    "by_perform",
    "from_pytensor",
    "mode",
    "register",
    "to_pytensor",
]
