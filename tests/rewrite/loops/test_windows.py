"""Slices whose place differs from step to step, on a backend that compiles for known shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import BoundsError, DynamicShapeError
from graphc.tensor import Tensor

x, cube, k = gt.vector("x"), gt.tensor("cube", shape=(2, 9, 8)), gt.lscalar("k")
VALUES = {
    x: np.random.default_rng(0).normal(size=10),
    cube: np.random.default_rng(1).normal(size=(2, 9, 8)),
    k: 2,
}


def each(step: Callable[..., Any], first: int = 0) -> Any:
    return graphc.scan(step, sequences=[gt.arange(first, 4)])


def carried(step: Callable[..., Any], start: Tensor) -> Any:
    return graphc.scan(step, sequences=[gt.arange(1, 4)], outputs_info=[start])


def chunks_until() -> Any:
    def step(i: Tensor, total: Tensor) -> Any:
        total += (x[3 * i : 3 * (i + 1)] ** 2).sum()
        return total, graphc.until(total > 1)

    return graphc.scan(step, sequences=[gt.arange(3)], outputs_info=[0.0])


READ: dict[str, Callable[[], Any]] = {
    "from t": lambda: each(lambda t: x[t : t + 3] ** 2),
    "up to t": lambda: each(lambda t: x[t - 2 : t] ** 2, 2),
    "around t": lambda: each(lambda t: (x[t - 1 : t + 2] ** 2).sum(), 1),
    "chunks": lambda: each(lambda t: x[2 * t : (t + 1) * 2] ** 2),
    "chunks of k": lambda: each(lambda t: x[t * k : (t + 1) * k] ** 2),
    "of narrow numbers": lambda: each(lambda t: x[t.astype("int32") : t.astype("int32") + 2] ** 2),
    "of two axes": lambda: each(lambda t: cube[1, t : t + 2, t : t + 3] ** 2),
    "apart from an integer": lambda: each(lambda t: cube[1, :, t : t + 3] ** 2),
    "beside new axes": lambda: each(lambda t: cube[0, None, 1:, t : t + 3, None] ** 2),
    "until": chunks_until,
    "in a branch": lambda: each(
        lambda t: graphc.ifelse(t > 1, x[t : t + 2], x[t + 1 : t + 3] ** 2)
    ),
    "in an inner loop": lambda: each(
        lambda t: graphc.scan(lambda s: x[s : s + 2] ** 2, sequences=[t + gt.arange(3)])
    ),
}

WRITTEN: dict[str, Callable[[], Any]] = {
    "set": lambda: carried(lambda t, c: c[t : t + 2].set(c[t - 1 : t + 1] * c[:2]), x)[-1],
    "increased": lambda: carried(lambda t, c: c[t : t + 3].inc(c[t] ** 2), x)[-1],
    "two axes": lambda: carried(lambda t, c: c[1, t : t + 2, t - 1 : t + 2].inc(c[0, t, :3]), cube)[
        -1
    ],
    "two axes set": lambda: carried(
        lambda t, c: c[:, t : t + 2, t : t + 1].set(t * c[:, :2, :1]), cube
    )[-1],
}


OF_CUBE = {"of two axes", "apart from an integer", "beside new axes", "two axes", "two axes set"}


@pytest.mark.parametrize("what", [*READ, *WRITTEN])
def test_slices_that_move_are_numpys_with_their_gradients(what: str) -> None:
    y = (READ | WRITTEN)[what]()
    source = cube if what in OF_CUBE else x
    outputs = [y, graphc.grad((y * gt.arange(1, y.shape[-1] + 1)).sum(), source)]
    found, wanted = (
        graphc.function([x, cube, k], outputs, mode, on_unused_input="ignore", returns="numpy")(
            *VALUES.values()
        )
        for mode in ("JAX", "NUMPY")
    )
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_what_lies_outside_is_the_nearest_or_an_error() -> None:
    places = gt.lvector("places")
    y = graphc.scan(lambda t: x[t : t + 3].sum(), sequences=[places])
    values = np.array([5.0, 6.0, 7.0, 8.0, 9.0])
    found = graphc.function([x, places], y, "JAX", returns="numpy")(values, [0, 3])
    assert found.tolist() == [5.0 + 6.0 + 7.0, 8.0 + 9.0 + 9.0]
    with pytest.raises(BoundsError, match="index 5 is out of bounds for axis 0 with size 5"):
        graphc.function([x, places], y, graphc.Mode("JAX", check_bounds=True))(values, [0, 3])


STOPS: dict[str, Callable[[Tensor], Any]] = {
    "twice as far": lambda t: 2 * t + 1,
    "at one place": lambda t: 5,
    "at the square": lambda t: t * t,
}


@pytest.mark.parametrize("name", STOPS)
def test_a_length_that_differs_from_step_to_step_is_refused(name: str) -> None:
    y = graphc.scan(lambda t: x[t : STOPS[name](t)].sum(), sequences=[gt.arange(4)])
    with pytest.raises(DynamicShapeError, match="may differ from step to step"):
        graphc.function([x], y, "JAX")
