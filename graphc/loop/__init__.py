"""One loop: the operation with its derivative, and what users write in its terms."""

from graphc.loop.loop import ENDLESS, Loop

__all__ = ["ENDLESS", "Loop"]
