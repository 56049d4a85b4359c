"""Graphs printed: as a tree, as a line, and what a function will run."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

import graphc
import graphc.tensor as pt


def program() -> list[Any]:
    x, y = pt.dvectors("x", "y")
    z = pt.exp(x * y) + x.sum()
    written = io.StringIO()
    graphc.dprint(z, file=written)
    as_text = graphc.dprint(z, file="str")
    line = graphc.pprint(z)
    found = [name in written.getvalue() for name in ("x", "y", "float64")]
    found += [as_text.strip() == written.getvalue().strip(), "exp(" in line]
    return [np.array(found), graphc.function([x, y], z)([0.0, 1.0], [2.0, 0.5])]


def expected() -> list[Any]:
    return [np.full(5, True), np.array([2.0, np.exp(0.5) + 1])]
