"""Functions taken apart into the arrays they capture and the rest, and put together again."""

from graphc.capture.lift import lift
from graphc.capture.rebuild import rebuild
from graphc.capture.stripped import Lifted, Stripped

__all__ = ["Lifted", "Stripped", "lift", "rebuild"]
