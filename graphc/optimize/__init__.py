"""Minima and roots of graphs, found by SciPy, with gradients by the implicit function theorem."""

from graphc.lazy import listing
from graphc.optimize.functions import minimize, minimize_scalar, root, root_scalar

__all__ = ["minimize", "minimize_scalar", "root", "root_scalar"]

__dir__ = listing(globals())  # without the files of the folder
