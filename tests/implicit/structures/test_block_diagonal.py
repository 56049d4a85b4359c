"""Block-diagonal matrices, against SciPy's."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.linalg import block_diag

import graphc.tensor as gt
from graphc.errors import ImplicitArrayError
from graphc.implicit import materialize_nested, materializing
from graphc.implicit.elementwise import where
from graphc.implicit.structures.block_diagonal import BlockDiagonal
from graphc.implicit.structures.diagonal import Diagonal
from graphc.implicit.structures.fill import Fill
from graphc.implicit.structures.low_rank import LowRank
from tests.implicit.protocol import ALIKE, answers, confirm, numbers, slope_agrees
from tests.implicit.reference import Case, check, named, runs

STRUCTURED = named(
    ALIKE,
    """
    w.T @ w; w[::-1]; w * row; w * column; w / row; w * same; same * w; w + w; w - 2 * w; w * w;
    w ** 2; w ** 3; w * xs; abs; sign; floor; tanh; cast; cast, product; cast half; max; max of
    rows; min; norm
""",
)
UNEQUAL = STRUCTURED - named("w * row; w * column; w / row")


def make(rng: np.random.Generator) -> Any:
    blocks = rng.normal(size=(3, 2, 2))
    return BlockDiagonal(blocks), block_diag(*blocks)


def make_unequal(rng: np.random.Generator) -> Any:
    blocks = rng.normal(size=(2, 3)), rng.normal(size=(1, 1)), rng.normal(size=(3, 2))
    return BlockDiagonal(blocks), block_diag(*blocks)


@pytest.mark.sample(every=12, rest=6)
@pytest.mark.parametrize(("case", "way"), runs(ndim=2))
def test_operations(case: Case, way: str) -> None:
    check(make, case, way, STRUCTURED)


@pytest.mark.sample(every=12, rest=6)
@pytest.mark.parametrize(("case", "way"), runs(ndim=2, ways=("NUMPY", "jit")))
def test_operations_of_unequal_blocks(case: Case, way: str) -> None:
    check(make_unequal, case, way, UNEQUAL)


@pytest.mark.parametrize("make_one", [make, make_unequal])
def test_the_slope_is_that_of_differences(make_one: Any) -> None:
    slope_agrees(make_one(np.random.default_rng(0))[0])


DTYPES = ("float64", "float32", "int8", "int32", "bool", "complex128")
BATCHES = st.sampled_from([(), (), (2,), (2, 3), (1,), (0,)])
SHAPES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=3)


def spread(batch: Any, blocks: Any) -> Any:
    """The whole matrices of a list of blocks (*batch, p, q)."""
    m, n = (sum(x.shape[axis] for x in blocks) for axis in (-2, -1))
    whole, i, j = np.zeros((*batch, m, n), blocks[0].dtype), 0, 0
    for x in blocks:
        p, q = x.shape[-2:]
        whole[..., i : i + p, j : j + q] = x
        i, j = i + p, j + q
    return whole


def unequal(rng: Any, dtype: str, batch: Any, shapes: Any) -> tuple[BlockDiagonal, Any]:
    blocks = tuple([numbers(rng, dtype, *batch, *shape) for shape in shapes])
    return BlockDiagonal(blocks), spread(batch, blocks)


def equal(rng: Any, dtype: str, batch: Any, shapes: Any) -> tuple[BlockDiagonal, Any]:
    blocks = numbers(rng, dtype, *batch, len(shapes), *shapes[0])
    whole = spread(batch, [blocks[..., i, :, :] for i in range(len(shapes))])
    return BlockDiagonal(blocks), whole


def is_required(question: str) -> bool:
    names = ("times", "swapped", "window", "rows", "scaled", "divided", "mapped neg", "sum", "cast")
    more = ("permuted", "broadcast", "reshaped batch", "multiplied", "chosen", "mapped abs")
    return question.startswith((*names, *more)) and "times itself" not in question


def asked(kind: Any, level: str, dtype: str, batch: Any, shapes: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    w, whole = kind(rng, dtype, batch, shapes)
    assert (w.shape, w.dtype) == (whole.shape, whole.dtype)
    np.testing.assert_array_equal(np.asarray(w), whole)
    confirm(answers(level, w, whole, *kind(rng, dtype, batch, shapes), seed), is_required)


@pytest.mark.parametrize("kind", [equal, unequal])
@pytest.mark.parametrize("level", ["numpy", "graphc"])
@settings(max_examples=10, deadline=None)
@given(st.sampled_from(DTYPES), BATCHES, SHAPES, st.integers(0, 9))
def test_each_answer_is_right(
    kind: Any, level: str, dtype: str, batch: Any, shapes: Any, seed: int
) -> None:
    asked(kind, level, dtype, batch, shapes, seed)


@pytest.mark.exhaustive
@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize("kind", [equal, unequal])
def test_each_answer_is_right_in_jax(kind: Any, batch: Any) -> None:
    with jax.enable_x64(True):
        asked(kind, "jax", "float64", batch, [(2, 3), (1, 2)], 0)


def test_any_slice_of_unequal_blocks_is_made_of_blocks() -> None:
    w, whole = make_unequal(np.random.default_rng(0))
    with materializing("error"):
        y = w[1:5:2, 1:]
    assert isinstance(y, BlockDiagonal)
    np.testing.assert_array_equal(np.asarray(y), whole[1:5:2, 1:])


def test_products_of_fitting_blocks_are_blocks() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(3, 2, 4)), rng.normal(size=(3, 4, 1))
    with materializing("error"):
        y = BlockDiagonal(a) @ BlockDiagonal(b)
    assert isinstance(y, BlockDiagonal)
    np.testing.assert_allclose(np.asarray(y), block_diag(*a) @ block_diag(*b), rtol=1e-12)


def test_zeros_that_are_not_stored_stay_zero() -> None:
    w = BlockDiagonal(np.ones((2, 1, 1)))
    infinite = np.full((2, 2), np.inf)
    np.testing.assert_array_equal(np.asarray(w * infinite), np.diag([np.inf, np.inf]))


def test_extremes_count_the_zeros_outside() -> None:
    w = BlockDiagonal(-np.ones((2, 1, 2)))
    assert w.reduce("max", (0,)).tolist() == [0, 0, 0, 0]
    assert BlockDiagonal(-np.ones((1, 1, 2))).reduce("max", (0,)).tolist() == [-1, -1]


BAD = [
    ((), "no blocks|blocks of shapes"),
    (np.ones((2, 2)), r"shapes \[\(2, 2\)\]"),
    ((np.ones((2, 2)), np.ones((2, 2), "int8")), "one dtype"),
    ((np.ones((3, 2, 2)), np.ones((2, 2, 2))), "equal leading axes"),
]


@pytest.mark.parametrize(("blocks", "said"), BAD)
def test_blocks_that_do_not_fit(blocks: Any, said: str) -> None:
    with pytest.raises(ImplicitArrayError, match=said):
        BlockDiagonal(blocks)


def test_a_count_that_does_not_divide() -> None:
    with pytest.raises(ImplicitArrayError, match="count=4"):
        BlockDiagonal.spec((6, 4), "float32", count=4)


def nested() -> list[BlockDiagonal]:
    """Blocks that are implicit: in a tuple, as one array, and stacks of both."""
    rng = np.random.default_rng(0)

    def normal(*lengths: int) -> Any:
        return rng.normal(size=lengths)

    return [
        BlockDiagonal((LowRank(normal(2, 1), normal(1, 2)), normal(3, 3))),
        BlockDiagonal((Diagonal(normal(2)), Fill(np.array(2.0), (3, 3)))),
        BlockDiagonal(Diagonal(normal(3, 2))),
        BlockDiagonal((Diagonal(normal(2, 2)), normal(2, 3, 3))),
        BlockDiagonal(Fill(np.array(2.0), (2, 3, 2, 2))),
    ]


@pytest.mark.parametrize("w", nested(), ids=repr)
def test_blocks_that_are_implicit_are_combined_as_what_they_stand_for(w: BlockDiagonal) -> None:
    v = np.asarray(w)
    mask = np.arange(v.shape[-1]) % 2 == 0
    pairs = [
        (w + w, v + v),
        (w * w, v * v),
        (where(np.broadcast_to(mask, v.shape), w, w * 3), np.where(mask, v, v * 3)),
        (where(np.broadcast_to(mask, v.shape), w * 3, w), np.where(mask, v * 3, v)),
    ]
    if w.ndim > 2:
        pairs.append((w.concatenate([w * 2], 0), np.concatenate([v, v * 2])))
    for found, wanted in pairs:
        np.testing.assert_allclose(materialize_nested(found, full=True), wanted, 1e-12)


@pytest.mark.parametrize("axis", [0, 1, (0, 1)])
@pytest.mark.parametrize("name", ["max", "min"])
def test_the_extremes_of_unequal_blocks_of_bools_are_bools(name: str, axis: Any) -> None:
    blocks = BlockDiagonal((np.ones((1, 3), bool), np.ones((3, 1), bool)))
    y = gt.as_tensor(getattr(gt, name)(gt.as_tensor(blocks), axis=axis)).eval(mode="NUMPY")
    expected = getattr(np, name)(np.asarray(blocks), axis=axis)
    assert y.dtype == bool
    np.testing.assert_array_equal(y, expected)


def test_unequal_blocks_are_multiplied_by_the_elements_at_their_positions() -> None:
    blocks = [np.full((m, n), m + 0.5 * n) for m, n in ((1, 3), (4, 2), (2, 2))]
    w, x = BlockDiagonal(tuple(blocks)), np.arange(49.0).reshape(7, 7)
    y = gt.as_tensor(gt.as_tensor(w) * x).eval(mode="NUMPY")
    np.testing.assert_allclose(y, np.asarray(w) * x)
