"""Values and derivatives of a loop, compared with a plain Python loop's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import GraphcError, UnsupportedOperationError
from graphc.ir import is_inexact
from tests.contract.loop_case import LoopCase
from tests.contract.tolerance import assert_agree
from tests.modes import lacks

FIRST, SECOND = 1e-8, 1e-6
"""How far slopes may be from differences, and slopes of slopes from differences of differences."""

NARROWER = {"float64": "float32", "complex128": "complex64"}
"""What a backend that lacks a case's dtypes computes it in, and its results are in."""


NARROW = 1e-4
"""How far slopes may be then."""


def derived(
    case: LoopCase, order: int, outputs: list[Any], xs: list[Any]
) -> tuple[list[Any], list[Any]]:
    """The case's derivatives and what differences give, with how far apart they may be."""
    wrt = [xs[i] for i in case.wrt]
    pairs = zip(case.weights, outputs, strict=True)
    parts = [(gt.conj(gt.constant(w)) * y) for w, y in pairs if is_inexact(y.dtype)]
    cost = sum((gt.real(part).sum() for part in parts), gt.constant(0.0))
    slopes = graphc.grad(cost, wrt, disconnected_inputs="ignore")
    found, wanted = list(slopes), [(f"slope {i}", y, FIRST) for i, y in enumerate(case.slopes)]
    if case.felt is not None:
        return found, wanted
    ways = [gt.constant(d) for d in case.directions]
    inexact = [y for y in outputs if is_inexact(y.dtype)]
    found += graphc.pushforward(inexact, wrt, ways, disconnected_outputs="ignore")
    wanted += [(f"tangent {i}", y, FIRST) for i, y in enumerate(case.tangents)]
    if order == 1:
        return found, wanted
    found += graphc.pushforward(slopes, wrt, ways, disconnected_outputs="ignore")
    wanted += [(f"slope {i} moved", y, SECOND) for i, y in enumerate(case.second)]
    along = [gt.real(gt.conj(d) * g).sum() for d, g in zip(ways, slopes, strict=True)]
    found += graphc.grad(sum(along, gt.constant(0.0)), wrt, disconnected_inputs="ignore")
    wanted += [(f"slope {i} of the slope", y, SECOND) for i, y in enumerate(case.second)]
    return found, wanted


def several_tensors(ys: Any) -> list[Any]:
    """Arrays, whether one or several are given."""
    return list(ys) if isinstance(ys, list | tuple) else [ys]


def check(case: LoopCase, backend: str, excluding: Any) -> None:
    """The graph's values are the plain loop's, and its derivatives are differences of these."""
    if backend in case.refused:
        with pytest.raises(GraphcError, match=case.refused[backend]):
            compare(case, backend, excluding)
    elif any(lacks(backend, x.dtype.name) for x in case.given):
        with pytest.raises(
            UnsupportedOperationError, match=rf"mode='{backend}' does not support complex128"
        ):
            compare(case, backend, excluding)
        compare(case, backend, excluding, float64="downcast")
    else:
        compare(case, backend, excluding)


def compare(case: LoopCase, backend: str, excluding: Any, **narrow: Any) -> None:
    """Raise where the graph gives something else than the plain loop and its differences.

    Args:
        case: The graph, and the loop.
        backend: What runs it.
        excluding: Rules that are not applied.
        narrow: The option of a mode that computes in narrower dtypes, or nothing.
    """
    xs = case.symbols()
    outputs = several_tensors(case.build(*xs))
    # Rewritten or not, a backend is given the same operations: first derivatives show these.
    order = min(case.order, 1) if excluding and backend != "NUMPY" else case.order
    derivatives, wanted = derived(case, order, outputs, xs) if order else ([], [])
    f = graphc.function(
        xs,
        [*outputs, *derivatives],
        graphc.Mode(backend, excluding=excluding, **narrow),
        on_unused_input="ignore",
        returns="numpy",
    )
    found = f(*case.given)
    for i, (y, value, t) in enumerate(zip(found, case.values, outputs, strict=False)):
        value = value.astype(NARROWER[value.dtype.name]) if narrow else value
        assert_agree(y, value, f"output {i}", scale=1.0 if is_inexact(t.dtype) else 0.0)
    for y, (what, value, near) in zip(found[len(outputs) :], wanted, strict=True):
        assert y.shape == value.shape, what
        near = NARROW if narrow else near
        np.testing.assert_allclose(y, value, near, near, err_msg=what)
