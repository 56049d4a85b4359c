"""Ready mask and score functions: their formulas in each library, their values as leaves."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.attention.call import flex_attention
from graphc.attention.create import create_block_mask
from graphc.attention.mods import lift_mod, map_over_grid, mask_of, score_of
from graphc.attention.ready import (
    alibi,
    causal,
    document,
    prefix_lm,
    relative_bias,
    sliding_window,
    soft_cap,
)
from graphc.errors import ArgumentError, DTypeError, GraphcError, RuntimeShapeError, ShapeError
from graphc.tensor.core.tensor import as_tensor
from tests.attention import reference

Q, K = 9, 9
SHAPE = (2, 3, Q, K)
RANDOM = np.random.default_rng(3)
IDS = np.array([0, 0, 1, 1, 1, 2, 0, 2, 2])
BATCHES = np.stack([IDS, IDS[::-1]])
SHORT = np.array([5, 5, 6, 6, 7, 7])
b, h, q, k = np.indices(SHAPE)

MASKS: dict[str, tuple[Callable[..., Any], np.ndarray]] = {
    "causal": (causal, q >= k),
    "window of 1": (sliding_window(1), q == k),
    "window of 4": (sliding_window(4), (q - k >= 0) & (q - k < 4)),
    "window, NumPy's number": (sliding_window(np.int64(4)), (q - k >= 0) & (q - k < 4)),
    "window, array": (sliding_window(np.array(4)), (q - k >= 0) & (q - k < 4)),
    "window, marked": (sliding_window(graphc.runtime(4)), (q - k >= 0) & (q - k < 4)),
    "both sides": (sliding_window(3, both_sides=True), abs(q - k) < 3),
    "prefix": (prefix_lm(4), (k < 4) | (q >= k)),
    "prefixes": (prefix_lm([0, 7]), (k < 7 * b) | (q >= k)),
    "documents": (document(IDS), IDS[q] == IDS[k]),
    "documents of batches": (document(BATCHES), BATCHES[b, q] == BATCHES[b, k]),
    "documents, JAX": (document(jnp.asarray(IDS)), IDS[q] == IDS[k]),
    "documents of keys": (document(BATCHES, IDS), BATCHES[b, q] == IDS[k]),
}

SLOPES = np.array([0.5, 0.25, 2.0])
TABLE = RANDOM.standard_normal((3, 7))
SCORES = RANDOM.standard_normal(SHAPE)

SCORE: dict[str, tuple[Callable[..., Any], np.ndarray]] = {
    "ALiBi": (alibi(2), SCORES - np.where(h == 0, 2.0**-4, 2.0**-8) * (q - k)),
    "slopes": (alibi(slopes=SLOPES), SCORES - SLOPES[h] * (q - k)),
    "bias": (relative_bias(TABLE), SCORES + TABLE[h, np.clip(q - k, -3, 3) + 3]),
    "bias of all": (relative_bias(TABLE[0]), SCORES + TABLE[0, np.clip(q - k, -3, 3) + 3]),
    "cap": (soft_cap(1.5), 1.5 * np.tanh(SCORES / 1.5)),
    "cap, array": (soft_cap(np.float64(0.7)), 0.7 * np.tanh(SCORES / 0.7)),
    "cap, whole": (soft_cap(2), 2 * np.tanh(SCORES / 2)),
}
# The heads of the indices above are three; `alibi(2)` has slopes for the first two.
TWO = (slice(None), slice(0, 2))


def at(shape: tuple[int, ...]) -> list[np.ndarray]:
    return [np.arange(n, dtype=np.int32) for n in shape]


def in_jax(function: Callable[..., Any], *given: Any) -> Any:
    """A function of scalars for arrays of one shape, traced by JAX."""
    flat = [np.asarray(x).reshape(-1) for x in given]
    return jax.jit(jax.vmap(function))(*flat).reshape(given[0].shape)


# Masks.


@pytest.mark.parametrize(("mask", "wanted"), MASKS.values(), ids=MASKS)
def test_a_mask_is_its_formula_in_numpy(mask: Any, wanted: np.ndarray) -> None:
    np.testing.assert_array_equal(reference.dense_mask(mask, *SHAPE), wanted)


@pytest.mark.parametrize(("mask", "wanted"), MASKS.values(), ids=MASKS)
def test_a_mask_is_its_formula_in_jax(mask: Any, wanted: np.ndarray) -> None:
    indices = np.indices(SHAPE, dtype=np.int32)
    np.testing.assert_array_equal(in_jax(mask, *indices), wanted)


@pytest.mark.parametrize(("mask", "wanted"), MASKS.values(), ids=MASKS)
def test_a_mask_is_its_formula_in_graphs(mask: Any, wanted: np.ndarray, mode: str) -> None:
    mod = mask_of(lift_mod(mask, "mask_mod"))
    kept = map_over_grid(mod.graph, mod.captured, [as_tensor(x) for x in at(SHAPE)])
    f = graphc.function([], kept, mode=mode, returns="numpy")
    np.testing.assert_array_equal(np.broadcast_to(f(), SHAPE), wanted)


@pytest.mark.parametrize(("mask", "wanted"), MASKS.values(), ids=MASKS)
def test_a_block_mask_of_it_is_dense_as_its_formula(mask: Any, wanted: np.ndarray) -> None:
    made = create_block_mask(mask, *SHAPE, BLOCK_SIZE=(4, 2))
    reference.check_tables(made.tables, wanted, (4, 2))
    np.testing.assert_array_equal(made.to_dense(), wanted)


# Scores.


def test_slopes_are_those_of_the_paper() -> None:
    for heads, wanted in (
        (8, [2.0**-i for i in range(1, 9)]),
        (16, [2 ** (-i / 2) for i in range(1, 17)]),
        (12, [2.0**-i for i in range(1, 9)] + [2 ** (-i / 2) for i in (1, 3, 5, 7)]),
        (1, [2.0**-8]),
        (3, [2.0**-4, 2.0**-8, 2.0**-2]),
    ):
        slopes = [-float(alibi(heads)(0.0, 0, i, 1, 0)) for i in range(heads)]
        np.testing.assert_allclose(slopes, wanted, rtol=1e-7)


def parts(name: str) -> Any:
    return TWO if name == "ALiBi" else ...


@pytest.mark.parametrize("name", SCORE)
def test_a_score_is_its_formula_in_numpy(name: str) -> None:
    function, wanted = SCORE[name]
    found = reference.dense_scores(function, SCORES[parts(name)])
    np.testing.assert_allclose(found, wanted[parts(name)], rtol=1e-12)


@pytest.mark.parametrize("name", SCORE)
def test_a_score_is_its_formula_in_jax(name: str) -> None:
    function, wanted = SCORE[name]
    scores = SCORES[parts(name)].astype(np.float32)
    found = in_jax(function, scores, *np.indices(scores.shape, dtype=np.int32))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted[parts(name)], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", SCORE)
def test_a_score_is_its_formula_in_graphs(name: str, dtype: str, mode: str) -> None:
    if (mode, dtype) == ("MLX", "float64"):
        dtype = "float32"
    function, wanted = SCORE[name]
    scores = SCORES[parts(name)].astype(dtype)
    s = gt.tensor("s", dtype=dtype, shape=scores.shape)
    mod = score_of(lift_mod(function, "score_mod"), dtype)
    y = map_over_grid(mod.graph, mod.captured, [as_tensor(x) for x in at(scores.shape)], s)
    f = graphc.function([s], y, mode=mode, returns="numpy")
    assert f(scores).dtype == dtype
    tolerance = 1e-12 if dtype == "float64" else 1e-6
    np.testing.assert_allclose(f(scores), wanted[parts(name)], rtol=tolerance, atol=tolerance)


# Values are leaves.

PAIRS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "windows": (sliding_window(3), sliding_window(300)),
    "prefixes": (prefix_lm(3), prefix_lm(4)),
    "documents": (document(SHORT), document(SHORT + 1)),
    "caps": (soft_cap(3.0), soft_cap(50.0)),
    "slopes": (alibi(slopes=[0.5, 0.25]), alibi(2)),
    "biases": (relative_bias(TABLE), relative_bias(TABLE * 2)),
}


@pytest.mark.parametrize(("one", "other"), PAIRS.values(), ids=PAIRS)
def test_other_values_are_the_same_program(one: Any, other: Any) -> None:
    stripped, leaves = lift_mod(one, "it")
    assert len(leaves) == 1
    assert lift_mod(other, "it").stripped == stripped
    assert pickle.loads(pickle.dumps(lift_mod(one, "it"))).stripped == stripped


def test_other_forms_are_other_programs() -> None:
    forms = [
        *(sliding_window(3), sliding_window(3, both_sides=True), prefix_lm(3)),
        *(document(IDS), document(IDS, IDS + 0), relative_bias(TABLE), relative_bias(TABLE[:, :5])),
    ]
    assert len({lift_mod(f, "it").stripped for f in forms}) == len(forms)


def test_gradients_flow_to_what_scores_capture(mode: str) -> None:
    dtype = "float32" if mode == "MLX" else "float64"
    s = SCORES.astype(dtype)
    slopes, table = gt.vector("slopes", dtype=dtype), gt.matrix("t", dtype=dtype, shape=(3, 7))
    cap = gt.scalar("cap", dtype=dtype)
    weight = RANDOM.standard_normal(SHAPE).astype(dtype)
    costs = []
    for function in (alibi(slopes=slopes), relative_bias(table), soft_cap(cap)):
        mod = score_of(lift_mod(function, "score_mod"), dtype)
        y = map_over_grid(
            mod.graph, mod.captured, [as_tensor(x) for x in at(SHAPE)], gt.constant(s)
        )
        costs.append((y * weight).sum())
    given = [slopes, table, cap]
    gradients = [graphc.grad(cost, x) for cost, x in zip(costs, given, strict=True)]
    f = graphc.function(given, gradients, mode=mode, returns="numpy", on_unused_input="ignore")
    by_slopes, by_table, by_cap = f(*[x.astype(dtype) for x in (SLOPES, TABLE, np.array(1.5))])
    tolerance = {"rtol": 1e-4, "atol": 1e-4} if dtype == "float32" else {"rtol": 1e-10}
    np.testing.assert_allclose(by_slopes, -(weight * (q - k)).sum((0, 2, 3)), **tolerance)
    wanted = np.zeros_like(TABLE)
    np.add.at(wanted, (h, np.clip(q - k, -3, 3) + 3), weight)
    np.testing.assert_allclose(by_table, wanted, **tolerance)
    t = np.tanh(SCORES / 1.5)
    wanted = (weight * (t - SCORES / 1.5 * (1 - t**2))).sum()
    np.testing.assert_allclose(by_cap, wanted, **tolerance)


def test_gradients_flow_to_what_scores_capture_in_jax() -> None:
    def cost(slopes: Any, table: Any, cap: Any) -> Any:
        indices = np.indices(SHAPE, dtype=np.int32)
        scores = in_jax(alibi(slopes=slopes), SCORES.astype(np.float32), *indices)
        given = [scores.reshape(-1), *[x.reshape(-1) for x in indices]]
        biased = jax.vmap(relative_bias(table))(*given)
        return (jax.vmap(soft_cap(cap))(biased, *given[1:]) ** 2).sum()

    values = [np.float32(SLOPES), np.float32(TABLE), np.float32(4.0)]
    found = jax.grad(cost, (0, 1, 2))(*[jnp.asarray(x) for x in values])

    def dense(slopes: Any, table: Any, cap: Any) -> Any:
        scores = SCORES - slopes[h] * (q - k) + table[h, np.clip(q - k, -3, 3) + 3]
        return ((cap * np.tanh(scores / cap)) ** 2).sum()

    for i, y in enumerate(found):

        def of_one(x: Any, i: int = i) -> Any:
            return dense(*[*(SLOPES, TABLE, 4.0)[:i], x, *(SLOPES, TABLE, 4.0)[i + 1 :]])

        wanted = reference.numeric(of_one, (SLOPES, TABLE, np.array(4.0))[i])
        np.testing.assert_allclose(y, wanted, rtol=2e-4, atol=2e-3)


# Symbolic and traced values.


def test_a_window_may_be_symbolic(mode: str) -> None:
    width, ids = gt.scalar("width", dtype="int32"), gt.vector("ids", dtype="int32", shape=(9,))
    tables = [
        create_block_mask(mask, None, None, 9, 9, BLOCK_SIZE=4).tables
        for mask in (sliding_window(width), prefix_lm(width), document(ids))
    ]
    f = graphc.function(
        [width, ids], [list(x) for x in tables], mode=graphc.Mode(mode), returns="numpy"
    )
    for n, numbers in ((2, IDS), (5, IDS[::-1])):
        i, j = np.indices((9, 9))
        wanted = (
            (i >= j) & (i - j < n), (j < n) | (i >= j), numbers[:, None] == numbers
        )  # fmt: skip
        for found, dense in zip(f(n, numbers.astype(np.int32)), wanted, strict=True):
            reference.check_tables(found, dense[None, None], (4, 4))


@pytest.mark.sample(every=3)
def test_a_table_may_have_lengths_that_are_not_known(mode: str) -> None:
    dtype = "float32" if mode == "MLX" else "float64"
    given = [RANDOM.standard_normal((1, 3, Q, 4)).astype(dtype) for _ in range(3)]
    arrays = [gt.tensor(dtype=dtype, shape=x.shape) for x in given]
    mask = create_block_mask(causal, None, None, Q, K, BLOCK_SIZE=4)
    numbers = TABLE.astype(dtype)
    found = []
    shapes, row = ((3, 7), (None, 7), (3, None), (None, None)), numbers[:1]
    for shape, value in (*[(x, numbers) for x in shapes], ((7,), row[0]), ((None,), row[0])):
        table = gt.tensor("table", dtype=dtype, shape=shape)
        for bias, more in ((table, [value]), (graphc.shared(value), [])):
            out = flex_attention(*arrays, relative_bias(bias), mask)
            outputs = [out, graphc.grad((out**2).sum(), bias)]
            inputs = [*arrays, table][: 3 + len(more)]
            f = graphc.function(inputs, outputs, mode=mode, returns="numpy")
            found.append(f(*given, *more))
    for wanted, others in ((found[0], found[1:8]), (found[8], found[9:])):
        for other in others:
            for x, y in zip(other, wanted, strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


def test_columns_are_found_even_when_it_runs(mode: str) -> None:
    table = gt.matrix("table", dtype="float32")
    queries = np.ones((1, 3, Q, 4), np.float32)
    out = flex_attention(gt.constant(queries), queries, queries, relative_bias(table))
    f = graphc.function([table], out, mode=mode)
    with pytest.raises(RuntimeShapeError, match=r"[(]3, 4[)] does not have the shape"):
        f(TABLE[:, :4].astype(np.float32))


def test_a_window_may_be_traced_by_jax() -> None:
    traces = []

    @jax.jit
    def tables(width: Any) -> Any:
        traces.append(width)
        return create_block_mask(sliding_window(width), None, None, 9, 9, BLOCK_SIZE=4).tables

    for n in (2, 5):
        i, j = np.indices((9, 9))
        dense = (i >= j) & (i - j < n)
        reference.check_tables(tables(n), dense[None, None], (4, 4))
    assert len(traces) == 1


# Bad input.

WRONG: dict[str, tuple[Callable[[], Any], type[GraphcError], str]] = {
    "no window": (lambda: sliding_window(0), ArgumentError, "a query would see no key"),
    "half a window": (
        lambda: sliding_window(2.5),
        ArgumentError,
        "sliding_window: expected integers, got float64",
    ),
    "windows": (lambda: sliding_window([1, 2]), ShapeError, r"of the shape \(2,\)"),
    "a truth": (lambda: prefix_lm(True), ArgumentError, "prefix_lm: expected integers, got bool"),
    "prefixes of heads": (lambda: prefix_lm(np.ones((2, 2), int)), ShapeError, "0 to 1 axes"),
    "one document": (lambda: document(3), ShapeError, "1 to 2 axes"),
    "floats": (
        lambda: document(IDS * 1.0),
        ArgumentError,
        "document: expected integers, got float64",
    ),
    "text": (lambda: document("abc"), ArgumentError, "document: "),
    "no heads": (lambda: alibi(0), ArgumentError, r"alibi\(0\)"),
    "half a head": (lambda: alibi(1.5), ArgumentError, r"alibi\(1.5\)"),
    "neither": (alibi, ArgumentError, "expected one of the two"),
    "both": (lambda: alibi(2, slopes=[1.0, 2.0]), ArgumentError, "expected one of the two"),
    "whole slopes": (
        lambda: alibi(slopes=np.arange(3)),
        DTypeError,
        "alibi: expected floats, got int64",
    ),
    "one slope": (lambda: alibi(slopes=0.5), ShapeError, "one of 1 axes"),
    "even columns": (lambda: relative_bias(TABLE[:, :4]), ShapeError, "2 m [+] 1"),
    "no cap": (lambda: soft_cap(0.0), ArgumentError, "positive number"),
    "not a number": (lambda: soft_cap(float("nan")), ArgumentError, "positive number"),
    "caps": (lambda: soft_cap(np.ones(3)), ShapeError, "one of 0 axes"),
    "whole cap": (
        lambda: soft_cap(jnp.asarray(3)),
        DTypeError,
        "soft_cap: expected floats, got int32",
    ),
    "text for a cap": (lambda: soft_cap("x"), ArgumentError, "positive number"),
}


@pytest.mark.parametrize(("make", "error", "message"), WRONG.values(), ids=WRONG)
def test_bad_values_are_refused(make: Any, error: type[GraphcError], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
