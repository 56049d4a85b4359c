"""One loop: the operation with its derivative, and what users write in its terms."""

from graphc.loop.arguments import until
from graphc.loop.build import ENDLESS
from graphc.loop.choices import cond, ifelse, switch_case
from graphc.loop.custom import custom_pullback
from graphc.loop.fold import foldl, foldr, map, reduce
from graphc.loop.from_graph import OpFromGraph
from graphc.loop.functional import loop, while_loop
from graphc.loop.loop import Loop
from graphc.loop.scan import scan

__all__ = [
    "ENDLESS",
    "Loop",
    "OpFromGraph",
    "cond",
    "custom_pullback",
    "foldl",
    "foldr",
    "ifelse",
    "loop",
    "map",
    "reduce",
    "scan",
    "switch_case",
    "until",
    "while_loop",
]
