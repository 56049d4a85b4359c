"""Mistakes that type checkers show: without an error, an ignored line is an error itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import graphc
import graphc.tensor as gt

if TYPE_CHECKING:
    x = gt.vector("x")
    x.item()  # type: ignore[attr-defined]
    x.sum(axis="rows")  # type: ignore[arg-type]
    x + None  # type: ignore[arg-type]
    (x == 0).sum()  # type: ignore[attr-defined]
    gt.exp(x, x)  # type: ignore[call-arg]
    gt.exp(None)  # type: ignore[arg-type]
    gt.sine(x)  # type: ignore[attr-defined]
    gt.random.normal(0, 1, scales=2)  # type: ignore[call-overload]
    gt.random.RandomStream(3).normal(0, 1, rng=x)  # type: ignore[call-arg]
    graphc.grad(x.sum(), "x")  # type: ignore[arg-type]
    graphc.function([x], x, modes="JAX")  # type: ignore[call-overload]
    graphc.functions([x], x)  # type: ignore[attr-defined]
    gt.linalg.solve(x, x, assume="pos")  # type: ignore[call-arg]
