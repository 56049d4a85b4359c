"""Every operation but the elementwise rows, and the barriers: what they must give.

The cases stand in ``cases/``, in files of the names that the operations' files have.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np

import graphc
from tests.contract.case import Case, Function

__all__ = ["BARRIERS", "FAMILIES"]

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
