"""Graphs as text, and compiled functions as files."""

from graphc.export.loaded import Loaded, load
from graphc.export.read import deserialize
from graphc.export.write import GraphText, serialize
from graphc.lazy import listing

__all__ = ["GraphText", "Loaded", "deserialize", "load", "serialize"]

__dir__ = listing(globals())  # without the files of the folder
