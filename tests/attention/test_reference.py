"""The dense reference that attention is compared with is itself right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.attention import reference

RANDOM = np.random.default_rng(3)
CHANGES: dict[str, dict[str, Any]] = {
    "plain": {},
    "mask": {"mask": RANDOM.random((2, 4, 5, 6)) < 0.5},
    "scale": {"scale": 0.3},
    "affine": {"times": RANDOM.standard_normal((4, 1, 6)), "plus": RANDOM.random((5, 6))},
    "capped": {"cap": 0.7, "plus": RANDOM.random((2, 4, 5, 6)), "mask": np.tri(5, 6, 1) > 0},
    "dead rows": {"mask": (np.arange(5) % 2 == 0)[:, None]},
    "scores of -inf": {"plus": np.where(np.tri(5, 6, -1), 0.0, -np.inf)},
}


def problem() -> tuple[np.ndarray, ...]:
    return reference.problem(1, heads=(4, 2), lengths=(5, 6), dims=(3, 2))


@pytest.mark.parametrize("name", CHANGES)
def test_outputs_are_weighted_means_one_row_at_a_time(name: str) -> None:
    q, k, v, *_ = problem()
    options = CHANGES[name]
    y = reference.forward(q, k, v, **options)
    keep = np.broadcast_to(options.get("mask", True), y.weights.shape)
    times, plus = (
        np.broadcast_to(options.get(key, default), y.weights.shape)
        for key, default in (("times", 1.0), ("plus", 0.0))
    )
    for b, h, i in np.ndindex(y.lse.shape):
        total, out = 0.0, np.zeros(2)
        for j in range(6):
            score = q[b, h, i] @ k[b, h // 2, j] * options.get("scale", 3**-0.5)
            if "cap" in options:
                score = options["cap"] * np.tanh(score / options["cap"])
            weight = np.exp(score * times[b, h, i, j] + plus[b, h, i, j]) * keep[b, h, i, j]
            total += weight
            out += weight * v[b, h // 2, j]
        lse = np.log(total) if total else -np.inf
        np.testing.assert_allclose(y.lse[b, h, i], lse, rtol=1e-12)
        np.testing.assert_allclose(y.out[b, h, i], out / total if total else 0.0, rtol=1e-11)


@pytest.mark.parametrize("name", CHANGES)
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    q, k, v, g_out, g_lse = problem()
    options = CHANGES[name]

    def cost(q: Any, k: Any, v: Any, **changed: Any) -> float:
        y = reference.forward(q, k, v, **{**options, **changed})
        alive = np.isfinite(y.lse)
        return float((g_out * y.out).sum() + (g_lse[alive] * y.lse[alive]).sum())

    g = reference.backward(q, k, v, g_out, g_lse, **options)
    near = {"rtol": 1e-7, "atol": 1e-9}
    np.testing.assert_allclose(g.q, reference.numeric(lambda x: cost(x, k, v), q), **near)
    np.testing.assert_allclose(g.k, reference.numeric(lambda x: cost(q, x, v), k), **near)
    np.testing.assert_allclose(g.v, reference.numeric(lambda x: cost(q, k, x), v), **near)
    if name == "affine":
        plus = reference.numeric(lambda x: cost(q, k, v, plus=x), options["plus"])
        np.testing.assert_allclose(g.final.sum((0, 1)), plus, **near)
        times = reference.numeric(lambda x: cost(q, k, v, times=x), options["times"])
        np.testing.assert_allclose(g.times.sum((0, 2))[:, None], times, **near)


def test_rows_that_keep_nothing_are_zero_and_never_nan() -> None:
    q, k, v, g_out, g_lse = problem()
    y = reference.forward(q, k, v, mask=False)
    assert (y.out == 0).all()
    assert np.isneginf(y.lse).all()
    for g in reference.backward(q, k, v, g_out, g_lse, mask=False):
        np.testing.assert_array_equal(g, 0.0)


def test_tables_say_of_each_block_what_its_mask_keeps() -> None:
    mask = reference.dense_mask(lambda b, h, q, k: q >= k, 1, 1, 7, 7)
    counts, indices, full_counts, full_indices = reference.tables(mask, (2, 2))
    assert counts[0, 0].tolist() == [1, 1, 1, 1]
    assert full_counts[0, 0].tolist() == [0, 1, 2, 3]
    assert indices[0, 0].tolist() == [[0, 1, 2, 3], [1, 0, 2, 3], [2, 0, 1, 3], [3, 0, 1, 2]]
    assert full_indices[0, 0, 3].tolist() == [0, 1, 2, 3]
    reference.check_tables((counts, indices, full_counts, full_indices), mask, (2, 2))


def test_a_block_of_fewer_keys_is_never_full_and_one_of_fewer_queries_may_be() -> None:
    everything = np.ones((1, 1, 3, 5), bool)
    assert reference.kinds(everything, (2, 2))[0, 0].tolist() == [[2, 2, 1], [2, 2, 1]]
