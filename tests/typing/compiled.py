"""Compiled functions: what a call returns, NumPy arrays unless `returns=` says otherwise."""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np

import graphc
import graphc.tensor as gt
from graphc.compile.plan import Plan


def program() -> None:
    x = gt.vector("x", shape=(2,))
    one = graphc.function([x], x, mode="NUMPY")
    assert_type(one, graphc.Function[np.ndarray[Any, Any]])
    untyped: graphc.Function = one
    assert_type(untyped([1.0, 2.0]), Any)
    several = graphc.function([x], [x, x + 1], mode=graphc.Mode("NUMPY"))
    assert_type(several([1.0, 2.0]), list[np.ndarray[Any, Any]])
    pair = graphc.function([graphc.In(x, value=np.ones(2))], (x, x + 1), mode="NUMPY")
    assert_type(pair(), list[np.ndarray[Any, Any]])
    named = graphc.function([x], {"x": x, "rest": [x + 1]}, mode="NUMPY")
    assert_type(named([1.0, 2.0]), dict[str, Any])
    native = graphc.function([x], [x, x + 1], mode="NUMPY", returns="native")
    assert_type(native([1.0, 2.0]), list[Any])
    count = graphc.shared(0)
    assert_type(count.get_value(), np.ndarray[Any, Any])
    tick = graphc.function([], updates={count: count + 1}, mode="NUMPY")
    assert_type(tick, graphc.Function[None])
    tick()
    assert_type(one.plan(), Plan)
    assert_type(graphc.check(x), list[graphc.errors.GraphcError])
    with graphc.config.change_flags(floatX="float32"):
        assert_type(graphc.config.floatX, str)
