"""Loops and branches: what a step or a branch returns says what they give."""

from __future__ import annotations

from typing import Any, assert_type

import graphc
import graphc.tensor as gt
from graphc.tensor import Tensor


def smooth(x_t: Tensor, before: Tensor) -> Tensor:
    return 0.5 * x_t + 0.5 * before


def lagged(before: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
    return last + before, last * before


def limited(x: Tensor) -> tuple[Tensor, graphc.until]:
    return 2 * x, graphc.until(x > 10)


def carried(carry: dict[str, Tensor], x_t: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    total = carry["total"] + x_t
    return {"total": total}, gt.tanh(total)


def program() -> None:
    x = gt.vector("x")
    assert_type(graphc.scan(smooth, x, outputs_info=0.0), Tensor)
    fibonacci = {"initial": gt.constant([0.0, 1.0]), "taps": [-2, -1]}
    several = graphc.scan(lagged, outputs_info=[fibonacci, None], n_steps=5)
    assert_type(several, list[Tensor])
    assert_type(graphc.scan(limited, outputs_info=1.0, n_steps=9), Any)
    assert_type(graphc.scan(smooth, x, 0.0, return_list=True), list[Tensor])
    _, updates = graphc.scan(smooth, x, 0.0, return_updates=True)
    assert_type(updates, dict[Tensor, Tensor])
    assert_type(graphc.map(smooth, [x, x]), Tensor)
    assert_type(graphc.reduce(smooth, x, 0.0), Tensor)
    assert_type(graphc.foldl(smooth, x, 0.0), Tensor)
    assert_type(graphc.foldr(smooth, x, 0.0), Tensor)
    assert_type(graphc.foldr(smooth, x, 0.0), Tensor)
    last, rows = graphc.loop(carried, {"total": gt.constant(0.0)}, x)
    assert_type(last, dict[str, Tensor])
    assert_type(rows, Tensor)
    assert_type(graphc.while_loop(lambda c: c < 9, lambda c: gt.exp(c) + 1, 1.0), Tensor)
    assert_type(graphc.cond(x[0] > 0, smooth, smooth, x, x), Tensor)
    assert_type(graphc.cond(x[0] > 0, lagged, lagged, x, x), tuple[Tensor, Tensor])
    assert_type(graphc.ifelse(x[0] > 0, x, 2 * x), Tensor)
    assert_type(graphc.ifelse(x[0] > 0, [x, x], [x, 2 * x]), list[Tensor])
    assert_type(graphc.switch_case(0, [smooth, smooth], x, x), Tensor)
