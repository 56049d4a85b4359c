"""Functions compiled again for no good reason: noticed, judged by the cause, and told of."""

from graphc.compile.recompile.calls import called, made, wanted
from graphc.compile.recompile.history import WORTH, Sighting
from graphc.compile.recompile.judge import recompile, sight
from graphc.compile.recompile.place import mark_internal

__all__ = ["WORTH", "Sighting", "called", "made", "mark_internal", "recompile", "sight", "wanted"]
