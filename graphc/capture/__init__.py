"""Functions split into the arrays that they capture and the rest, and rebuilt from these."""

from graphc.capture.lift import lift
from graphc.capture.rebuild import rebuild
from graphc.capture.stripped import Lifted, Stripped

__all__ = ["Lifted", "Stripped", "lift", "rebuild"]
