"""Functions with default values, names, several kinds of inputs and outputs."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc
import graphc.tensor as pt


def program() -> list[Any]:
    x, y, w = pt.dscalars("x", "y", "w")
    f = graphc.function([x, y, graphc.In(w, name="weight")], (x + y) * w, name="weighted")
    results = [f(33.0, 1.0, 2.0), f(33.0, 2.0, weight=1.0), f(weight=3.0, y=0.0, x=1.0)]
    several = graphc.function([x, y], [x + y, x * y, x])(3.0, 4.0)
    single = graphc.function([x], [x * 2])(5.0)
    borrowed = graphc.function([x], graphc.Out(pt.exp(x), borrow=True))(0.0)
    evaluated = (x**2 + y).eval({x: 3.0, y: 1.0})
    nothing = graphc.function([], pt.arange(4) * 1.5)()
    unused = graphc.function([x, y], x, on_unused_input="ignore")(2.5, 1.0)
    narrow = pt.fscalar("narrow")
    downcast = graphc.function([narrow], narrow * 2, allow_input_downcast=True)(0.1)
    alone = graphc.function(inputs=[], outputs=None)()
    return [
        *results, *several, *single, borrowed, evaluated, nothing, unused, downcast,
        np.array(alone is None or len(alone) == 0),
    ]  # fmt: skip


def expected() -> list[Any]:
    return [
        68.0, 35.0, 3.0, 7.0, 12.0, 3.0, 10.0, 1.0, 10.0, np.array([0, 1.5, 3, 4.5]), 2.5,
        np.float32(0.1) * np.float32(2), np.array(True),
    ]  # fmt: skip
