"""Mask and score functions as graphs of scalars."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.attention.mods import lift_mod, map_over_grid, mask_of, score_of
from graphc.errors import ArgumentError, DTypeError, ShapeError, SymbolicValueError

IDS = np.array([3, 1, 3])
INDICES = [np.arange(n, dtype=np.int32) for n in (2, 3, 4, 5)]


def evaluated(mod: Any, score: Any = None) -> np.ndarray:
    vectors = [gt.tensor(dtype="int32", shape=(len(x),)) for x in INDICES]
    given = [] if score is None else [gt.tensor(shape=score.shape)]
    y = map_over_grid(mod.graph, mod.captured, vectors, *given)
    values = [] if score is None else [score]
    f = graphc.function([*vectors, *given], y, mode="NUMPY", on_unused_input="ignore")
    return np.asarray(f(*INDICES, *values))


def test_what_is_equal_is_found_element_by_element() -> None:
    ids = np.array([3, 1, 3, 3, 1])
    mask = mask_of(lift_mod(lambda b, h, q, k: (ids[q] == ids[k]) & (q != k), "mask_mod"))
    q, k = np.ogrid[:4, :5]
    assert evaluated(mask).tolist() == [[((ids[q] == ids[k]) & (q != k)).tolist()]]


def test_axes_that_a_mask_does_not_look_at_have_length_1() -> None:
    shapes = {
        (1, 1, 4, 5): lambda b, h, q, k: q >= k,
        (1, 3, 1, 1): lambda b, h, q, k: h > 0,
        (2, 1, 1, 5): lambda b, h, q, k: k < IDS[b],
        (1, 1, 1, 1): lambda b, h, q, k: True,
    }
    for shape, mask in shapes.items():
        assert evaluated(mask_of(lift_mod(mask, "mask_mod"))).shape == shape


def test_a_score_is_that_of_each_element() -> None:
    slope = gt.constant(np.array([0.5, 2.0, -1.0]))
    mod = score_of(
        lift_mod(lambda s, b, h, q, k: s * slope[h] + (b + 1) * (q - 2 * k), "score_mod"), "float64"
    )
    score = np.random.default_rng(0).normal(size=(2, 3, 4, 5))
    b, h, q, k = np.ogrid[:2, :3, :4, :5]
    wanted = score * np.array([0.5, 2.0, -1.0])[h] + (b + 1) * (q - 2 * k)
    np.testing.assert_allclose(evaluated(mod, score), wanted, 1e-14)


def test_a_score_that_looks_at_nothing_is_the_same_for_all() -> None:
    mod = score_of(lift_mod(lambda s, b, h, q, k: 2.5, "score_mod"), "float64")
    assert evaluated(mod, np.zeros((2, 3, 4, 5))).tolist() == np.full((2, 3, 4, 5), 2.5).tolist()


def test_functions_of_vectors_are_called_for_single_elements() -> None:
    rows = np.random.default_rng(0).normal(size=(5, 3))
    mask = mask_of(lift_mod(lambda b, h, q, k: (rows[q] * rows[k]).sum() > 0, "mask_mod"))
    assert evaluated(mask)[0, 0].tolist() == ((rows @ rows.T)[:4] > 0).tolist()


def test_equal_functions_of_other_arrays_are_one_graph() -> None:
    def mask(limits: Any) -> Any:
        return mask_of(lift_mod(lambda b, h, q, k: k < limits[b], "mask_mod"))

    a, b = mask(np.array([3, 4])), mask(np.array([1, 2]))
    assert a.graph == b.graph
    assert a.graph.key() == b.graph.key()


def test_small_arrays_and_marked_numbers_are_captured() -> None:
    width, ids = graphc.runtime(8), np.arange(3)
    mod = mask_of(lift_mod(lambda b, h, q, k: q - k < width + ids[b], "mask_mod"))
    assert len(mod.captured) == 2


@pytest.mark.parametrize(
    ("mask", "error", "message"),
    [
        (lambda b, h, q, k: q - k, DTypeError, "mask_mod returns int32"),
        (lambda b, h, q, k: 1.0, DTypeError, "mask_mod returns float"),
        (lambda b, h, q, k: None, DTypeError, "mask_mod returns NoneType"),
        (lambda b, h, q, k: q < IDS, ShapeError, r"mask_mod returns the shape \(3,\)"),
        (lambda b, h, q, k: max(q, k) > 0, SymbolicValueError, "truth value"),
        (lambda b, h, q, k: q > k and q > 2, SymbolicValueError, "truth value"),
        (
            lambda b, h, q: q > b,
            ArgumentError,
            r"mask_mod takes \(b, h, q\), and is called with \(b, h, q_idx, kv_idx\)",
        ),
        ("causal", ArgumentError, "mask_mod='causal' is not a function"),
    ],
)
def test_a_mask_that_is_none_is_told(mask: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        mask_of(lift_mod(mask, "mask_mod"))


@pytest.mark.parametrize(
    ("score", "error", "message"),
    [
        (lambda s, b, h, q, k: s > 0, DTypeError, "score_mod returns bool"),
        (lambda s, b, h, q, k: q - k, DTypeError, "score_mod returns int32"),
        (lambda s, b, h, q, k: s + 1j, DTypeError, "score_mod returns complex128"),
        (lambda s, b, h, q, k: None, DTypeError, "score_mod returns NoneType"),
        (lambda s, b, h, q, k: s + IDS, ShapeError, r"score_mod returns the shape \(3,\)"),
        (lambda s, b, h, q, k: s if s > 0 else 0.0, SymbolicValueError, "truth value"),
        (
            lambda b, h, q, k: q,
            ArgumentError,
            r"takes \(b, h, q, k\), and is called with \(score, b, h",
        ),
    ],
)
def test_a_score_that_is_none_is_told(score: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as told:
        score_of(lift_mod(score, "score_mod"), "float64")
    assert "test_mods.py" in str(told.value)
