"""Every operation but the elementwise rows, and the barriers: what they must give.

The cases stand in ``cases/``, in files of the names that the operations' files have.
"""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numpy as np

import graphc
from graphc.ir import Input, Op
from tests.contract.case import Case, Function

__all__ = ["BARRIERS", "FAMILIES", "graphc_operations"]

FAMILIES: dict[str, dict[str, Case]] = {}
"""Families of cases: each is compiled as one function for each backend."""

for _file in sorted(Path(__file__).with_name("cases").glob("*.py")):
    FAMILIES |= import_module(f"tests.contract.cases.{_file.stem}").FAMILIES

BARRIERS: dict[str, tuple[Function, Function]] = {
    "disconnected_grad": (graphc.disconnected_grad, lambda g: 0 * g),
    "zero_grad": (graphc.zero_grad, lambda g: 0 * g),
    "grad_clip": (lambda x: graphc.grad_clip(x, -0.5, 1), lambda g: np.clip(g, -0.5, 1)),
    "grad_scale": (lambda x: graphc.grad_scale(x, -3), lambda g: -3 * g),
}
"""The identity with another gradient: what it makes of a gradient."""

PACKAGES = ("tensor", "grad", "loop", "random", "implicit", "attention")
"""Where operations are."""


def concrete(cls: type[Op]) -> Iterator[type[Op]]:
    """The classes below that operations are made of; a test's or a backend's own hides none."""
    below = [
        sub
        for sub in cls.__subclasses__()
        if sub.__module__.startswith("graphc.") and not sub.__module__.startswith("graphc.link.")
    ]
    if not below:
        yield cls
    for sub in below:
        yield from concrete(sub)


def graphc_operations() -> set[type[Op]]:
    """The classes of graphc's own operations."""
    packages = [f"graphc.{package}" for package in PACKAGES]
    for package in packages:
        module = import_module(package)
        for found in pkgutil.walk_packages(module.__path__, module.__name__ + "."):
            import_module(found.name)
    return {
        cls
        for cls in concrete(Op)
        if cls.__module__.startswith(tuple(f"{package}." for package in packages))
        and not issubclass(cls, Input)
        # A class with slots is made twice; the first is nobody's.
        and getattr(sys.modules[cls.__module__], cls.__name__) is cls
    }
