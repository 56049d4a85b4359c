"""The kernel of attention in JAX against whole score matrices in float64 NumPy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from graphc.link.jax.attention.kernel import Spec, backward, forward
from tests.attention import reference

pytestmark = pytest.mark.gpu

Array = np.ndarray


@pytest.fixture(autouse=True)
def in_64_bits() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def tables_of(mask: Array, block: tuple[int, int], batches: int, heads: int) -> tuple[Array, ...]:
    """Tables that batches or heads share: full where all are, empty where none has a key."""
    some = mask.any(0, keepdims=True) if batches == 1 else mask
    every = mask.all(0, keepdims=True) if batches == 1 else mask
    if heads == 1:
        some, every = some.any(1, keepdims=True), every.all(1, keepdims=True)
    kinds, full = reference.kinds(some, block), reference.kinds(every, block) == reference.FULL
    listed = [(kinds != reference.EMPTY) & ~full, full]
    return tuple(x for grid in listed for x in compact(grid))


def compact(grid: Array) -> tuple[Array, Array]:
    order = np.argsort(~grid, -1, kind="stable")
    return grid.sum(-1).astype(np.int32), order.astype(np.int32)


@partial(jax.jit, static_argnums=(0, 1))
def run(spec: Spec, wanted: tuple[bool, ...], operands: Any, g_out: Any, g_lse: Any) -> Any:
    out, lse = forward(spec, *operands)
    return out, lse, *backward(spec, *operands, out, lse, g_out, g_lse, wanted)


def outcome(spec: Spec, operands: Sequence[Any], wanted: Sequence[bool], *g: Any) -> list[Array]:
    """Both results and all gradients, compiled."""
    return [np.asarray(x) for x in run(spec, tuple(wanted), operands, *g)]


def close(found: Sequence[Array], expected: Sequence[Array], tolerance: float = 1e-10) -> None:
    assert len(found) == len(expected)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


def kept(b: Any, h: Any, q: Any, k: Any, mask: Any) -> Any:
    return mask[b, h, q, k]


def compare(
    problem: Sequence[Array],
    mask: Array | None,
    block: tuple[int, int],
    tables: Sequence[Array] = (),
) -> None:
    """Without a score function, masked by an array that the mask function captures."""
    q, k, v, g_out, g_lse = problem
    options = {} if mask is None else {"mask": mask}
    expected = reference.forward(q, k, v, **options)
    # The logarithm of a row without keys is -inf whatever moves: it has no gradient.
    g_lse = np.where(np.isneginf(expected.lse), 0, g_lse)
    slopes = reference.backward(q, k, v, g_out, g_lse, **options)
    spec = Spec(None, None if mask is None else kept, block, q.shape[3] ** -0.5)
    captured = [] if mask is None else [mask]
    found = outcome(spec, (q, k, v, tables, [], captured), (), g_out, g_lse)
    close(found, [expected.out, expected.lse, slopes.q, slopes.k, slopes.v])


@pytest.mark.sample(every=4)
@pytest.mark.parametrize(
    ("shape", "block"),
    [
        ({"B": 1, "heads": (1, 1), "lengths": (8, 8), "dims": (4, 4)}, (4, 4)),
        ({"B": 2, "heads": (4, 2), "lengths": (13, 21), "dims": (5, 3)}, (4, 8)),
        ({"B": 2, "heads": (3, 3), "lengths": (5, 70), "dims": (2, 6)}, (16, 4)),
        ({"B": 1, "heads": (6, 1), "lengths": (33, 2), "dims": (4, 1)}, (8, 128)),
        ({"B": 1, "heads": (2, 2), "lengths": (64, 64), "dims": (8, 8)}, (64, 1)),
        ({"B": 3, "heads": (2, 1), "lengths": (1, 1), "dims": (1, 1)}, (1, 1)),
    ],
)
@pytest.mark.parametrize("masked", [False, True])
def test_every_block_is_met_where_there_are_no_tables(
    shape: dict[str, Any], block: tuple[int, int], masked: bool
) -> None:
    problem = reference.problem(0, **shape)
    whole = (*problem[0].shape[:3], problem[1].shape[2])
    compare(problem, np.random.default_rng(1).random(whole) < 0.7 if masked else None, block)


def band(b: Any, h: Any, q: Any, k: Any) -> Any:
    return (k <= q + 3 * h) & (q - k < 17 - 5 * b)


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("batches", [1, 2])
@pytest.mark.parametrize("own", [1, 4])
@pytest.mark.parametrize("lengths", [(40, 40), (37, 53), (64, 9)])
def test_tables_are_shared_or_each_head_has_its_own(
    batches: int, own: int, lengths: tuple[int, int]
) -> None:
    problem = reference.problem(2, 2, heads=(4, 2), lengths=lengths, dims=(6, 5))
    mask = np.fromfunction(band, (2, 4, *lengths), dtype=int)
    block = (8, 4)
    compare(problem, mask, block, tables_of(mask, block, batches, own))


CASES = [
    (((2, 1), (20, 13), (4, 8)), (1, 1)),
    (((2, 2), (7, 20), (8, 4)), (2, 1)),
    (((1, 1), (11, 18), (1, 4)), (2, 1)),
    (((4, 2), (17, 16), (4, 4)), (1, 4)),
    (((2, 1), (16, 5), (4, 1)), (2, 2)),
]
"""Heads, lengths and the block; how many tables batches and heads have."""


@pytest.mark.exhaustive
@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(CASES),
    st.integers(0, 2**16),
    st.sampled_from([0.0, 0.2, 0.6, 1.0]),
    st.sampled_from([0.0, 0.05]),
)
def test_any_mask_in_any_blocks(case: Any, seed: int, share: float, odd: float) -> None:
    (heads, lengths, block), shared = case
    random = np.random.default_rng(seed)
    corners = random.random((2, heads[0], 5, 5)) < share
    # Whole blocks that are empty and full, and elements that are not as their block.
    mask = np.kron(corners, np.ones((4, 4), bool)).astype(bool)[..., : lengths[0], : lengths[1]]
    mask ^= random.random(mask.shape) < odd
    problem = reference.problem(seed, 2, heads=heads, lengths=lengths, dims=(3, 2))
    compare(problem, mask, block, tables_of(mask, block, *shared))


def changed(s: Any, *given: Any) -> Any:
    """A number for each head, a bias by distances and one by places."""
    _, h, q, k, slope, near, whole = given
    return 2 * jnp.tanh(s / 2) * slope[h] + near[h, q - k + 20] + whole[q, k]


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("own", [1, 4])
def test_captured_arrays_have_gradients(own: int) -> None:
    lengths, block = (19, 21), (8, 4)
    q, k, v, g_out, g_lse = reference.problem(3, 2, heads=(4, 2), lengths=lengths, dims=(4, 3))
    random = np.random.default_rng(4)
    slope, near, whole = (random.normal(size=n) for n in ((4,), (4, 40), lengths))
    at = np.arange(lengths[0])[:, None] - np.arange(lengths[1]) + 20
    mask = np.fromfunction(lambda b, h, i, j: j <= i + h, (1, 4, *lengths), dtype=int)
    options = {
        "mask": mask, "cap": 2.0, "times": slope[:, None, None], "plus": near[:, at] + whole
    }  # fmt: skip
    expected = reference.forward(q, k, v, **options)
    g_lse = np.where(np.isneginf(expected.lse), 0, g_lse)
    slopes = reference.backward(q, k, v, g_out, g_lse, **options)
    by_near = np.zeros_like(near)
    for h in range(4):
        np.add.at(by_near[h], at, slopes.final[:, h].sum(0))
    spec = Spec(changed, lambda b, h, i, j: j <= i + h, block, 0.5)
    tables = tables_of(np.broadcast_to(mask, (2, 4, *lengths)), block, 1, own)
    operands = (q, k, v, tables, [slope, near, whole], [])
    found = outcome(spec, operands, (True, True, True), g_out, g_lse)
    by_slope, by_whole = slopes.times.sum((0, 2, 3)), slopes.final.sum((0, 1))
    by_arrays = [slopes.q, slopes.k, slopes.v, by_slope, by_near, by_whole]
    close(found, [expected.out, expected.lse, *by_arrays])


@pytest.mark.sample(every=4)
@pytest.mark.parametrize(
    "change",
    [
        lambda x: x * x,
        lambda x: x[::2],
        jnp.flip,
        lambda x: jnp.where(x > 0, x, 0),
    ],
    ids=["product", "slice", "reversed", "positive"],
)
def test_a_captured_array_that_is_computed_with_first_has_its_gradient(change: Any) -> None:
    q, k, v, g_out, g_lse = reference.problem(5, 1, heads=(2, 2), lengths=(9, 9), dims=(4, 4))
    x = np.random.default_rng(6).normal(size=40)
    given = np.asarray(change(jnp.asarray(x)))
    at = np.arange(9)[:, None] + np.arange(9)
    slopes = reference.backward(q, k, v, g_out, g_lse, plus=given[at])
    by_given = np.bincount(at.ravel(), slopes.final.sum((0, 1)).ravel(), given.size)
    (expected,) = jax.vjp(change, jnp.asarray(x))[1](jnp.asarray(by_given))
    spec = Spec(lambda s, b, h, i, j, x: s + change(x)[i + j], None, (4, 4), 0.5)
    found = outcome(spec, (q, k, v, (), [x], []), (True,), g_out, g_lse)
    close(found[5:], [np.asarray(expected)])


def test_a_captured_array_is_read_and_computed_with_at_once() -> None:
    q, k, v, g_out, g_lse = reference.problem(7, 1, heads=(2, 2), lengths=(9, 9), dims=(4, 4))
    x = np.random.default_rng(8).normal(size=9)
    slopes = reference.backward(q, k, v, g_out, g_lse, plus=x * x.sum())
    by_plus = slopes.final.sum((0, 1, 2))
    spec = Spec(lambda s, b, h, i, j, x: s + x[j] * x.sum(), None, (4, 4), 0.5)
    found = outcome(spec, (q, k, v, (), [x], []), (True,), g_out, g_lse)
    close(found[5:], [by_plus * x.sum() + (by_plus * x).sum()])


def test_a_score_may_leave_keys_out_itself() -> None:
    q, k, v, g_out, g_lse = reference.problem(9, 1, heads=(2, 2), lengths=(12, 10), dims=(4, 4))
    mask = np.fromfunction(lambda b, h, i, j: j < i - 2, (1, 2, 12, 10), dtype=int)
    expected = reference.forward(q, k, v, mask=mask)
    g_lse = np.where(np.isneginf(expected.lse), 0, g_lse)
    slopes = reference.backward(q, k, v, g_out, g_lse, mask=mask)
    spec = Spec(lambda s, b, h, i, j: jnp.where(j < i - 2, s, -jnp.inf), None, (4, 4), 0.5)
    found = outcome(spec, (q, k, v, (), [], []), (), g_out, g_lse)
    close(found, [expected.out, expected.lse, *slopes[:3]])


def test_a_query_without_keys_gets_zeros_and_gives_none() -> None:
    q, k, v, g_out, g_lse = reference.problem(10, 1, heads=(1, 1), lengths=(8, 8), dims=(4, 4))
    g_lse = np.full_like(g_lse, np.nan)
    spec = Spec(lambda s, b, h, i, j: s, lambda b, h, i, j: False & (i == j), (4, 4), 0.5)
    out, lse, *slopes = outcome(spec, (q, k, v, (), [], []), (), g_out, g_lse)
    assert not out.any()
    assert np.isneginf(lse).all()
    assert not any(x.any() for x in slopes)


def test_a_slope_that_is_infinite_where_a_key_is_left_out_harms_nobody() -> None:
    q, k, v, g_out, g_lse = reference.problem(11, 1, heads=(1, 1), lengths=(6, 6), dims=(4, 4))
    spec = Spec(
        lambda s, b, h, i, j: s + jnp.sqrt((i - j).astype(float) * 0 + abs(s) * (i != j)),
        lambda b, h, i, j: i != j,
        (4, 4),
        0.5,
    )
    found = outcome(spec, (q, k, v, (), [], []), (), g_out, g_lse)
    assert all(np.isfinite(x).all() for x in found)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize(
    ("queries", "keys", "values"),
    [
        ((0, 2, 3, 4), (0, 2, 3, 4), 4),
        ((2, 0, 3, 4), (2, 1, 3, 4), 4),
        ((2, 2, 0, 4), (2, 2, 3, 4), 4),
        ((2, 2, 3, 4), (2, 2, 0, 4), 4),
        ((2, 2, 3, 0), (2, 1, 5, 0), 4),
        ((2, 2, 3, 4), (2, 1, 5, 4), 0),
    ],
)
def test_lengths_may_be_zero(queries: Any, keys: Any, values: int) -> None:
    random = np.random.default_rng(12)
    q, k, v = (random.normal(size=n) for n in (queries, keys, (*keys[:3], values)))
    spec = Spec(lambda s, b, h, i, j, x: s + x[h], lambda b, h, i, j: j <= i, (4, 4), 0.5)
    g_out, g_lse = np.ones((*queries[:3], values)), np.ones(queries[:3])
    operands = (q, k, v, (), [np.ones(2)], [])
    out, lse, *slopes = outcome(spec, operands, (True,), g_out, g_lse)
    assert out.shape == g_out.shape
    assert [x.shape for x in slopes] == [q.shape, k.shape, v.shape, (2,)]
    assert np.isneginf(lse).all() or keys[2]
    assert all(np.isfinite(x).all() for x in (out, *slopes))


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_narrow_dtypes_keep_their_own_and_scores_are_float32(dtype: str) -> None:
    problem = reference.problem(13, 2, heads=(4, 2), lengths=(30, 30), dims=(8, 8))
    q, k, v, g_out = (np.asarray(jnp.asarray(x, dtype), np.float64) for x in problem[:4])
    mask = np.tri(30, dtype=bool)
    expected = reference.forward(q, k, v, mask=mask)
    slopes = reference.backward(q, k, v, g_out, mask=mask)
    spec = Spec(None, lambda b, h, i, j: j <= i, (8, 8), 8**-0.5)
    narrow = [jnp.asarray(x, dtype) for x in (q, k, v, g_out)]
    g_lse = jnp.zeros((2, 4, 30), "float32")

    def narrow_run(q: Any, k: Any, v: Any, g_out: Any) -> Any:
        out, lse = forward(spec, q, k, v, (), [], [])
        return out, lse, *backward(spec, q, k, v, (), [], [], out, lse, g_out, g_lse, ())

    found = jax.jit(narrow_run)(*narrow)
    assert [str(x.dtype) for x in found] == [dtype, "float32", dtype, dtype, dtype]
    tolerance = {"float16": 1e-2, "bfloat16": 6e-2, "float32": 2e-5}[dtype]
    wanted = [expected.out, expected.lse, *slopes[:3]]
    close([np.asarray(x, np.float64) for x in found], wanted, tolerance)


def test_a_value_that_is_infinite_is_met_by_those_who_see_it_alone() -> None:
    q, k, v, _, _ = reference.problem(14, 1, heads=(1, 1), lengths=(9, 9), dims=(4, 4))
    k[:, :, 5] = np.inf
    spec = Spec(None, lambda b, h, i, j: j != 5, (4, 4), 0.5)
    out, _ = forward(spec, q, k, v, (), [], [])
    mask = np.arange(9) != 5
    expected = reference.forward(q, np.where(np.isinf(k), 0, k), v, mask=mask)
    np.testing.assert_allclose(out, expected.out, rtol=1e-12)


def test_batches_of_calls_are_those_of_each() -> None:
    spec = Spec(lambda s, b, h, i, j, x: s * x[h], lambda b, h, i, j, w: i - j < w, (4, 4), 0.5)
    some = [reference.problem(n, 1, heads=(2, 1), lengths=(9, 7), dims=(4, 3)) for n in range(3)]
    q, k, v, g_out, g_lse = (np.stack(x) for x in zip(*some, strict=True))
    x, width = np.random.default_rng(15).normal(size=(3, 2)), np.array([1, 3, 9])

    def one(*given: Any) -> Any:
        *arrays, g_out, g_lse, x, width = given
        out, lse = forward(spec, *arrays, (), [x], [width])
        g = (out, lse, g_out, g_lse, (True,))
        return out, lse, *backward(spec, *arrays, (), [x], [width], *g)

    given = (q, k, v, g_out, g_lse, x, width)
    found = jax.jit(jax.vmap(one))(*given)
    each = [jax.jit(one)(*(a[n] for a in given)) for n in range(3)]
    close(found, [np.stack(y) for y in zip(*each, strict=True)], 1e-12)


def test_each_call_of_a_batch_may_have_its_own_tables() -> None:
    problem = reference.problem(16, 1, heads=(2, 2), lengths=(12, 12), dims=(4, 4))
    masks = np.random.default_rng(17).random((3, 1, 2, 3, 3)) < 0.5
    masks = np.kron(masks, np.ones((4, 4), bool)).astype(bool)
    listed = [tables_of(mask, (4, 4), 1, 2) for mask in masks]
    tables = tuple(np.stack(x) for x in zip(*listed, strict=True))
    spec = Spec(None, None, (4, 4), 0.5)
    found = jax.jit(jax.vmap(lambda t: forward(spec, *problem[:3], t, [], [])[0]))(tables)
    expected = [reference.forward(*problem[:3], mask=mask).out for mask in masks]
    np.testing.assert_allclose(found, np.stack(expected), rtol=1e-12, atol=1e-12)


def temporaries(length: int) -> tuple[int, int]:
    """Bytes that a causal call takes beside arguments and results, and it with its gradient."""
    spec = Spec(None, lambda b, h, i, j: j <= i, (128, 128), 0.125)
    grid = np.tri(length // 128, dtype=bool)[None, None]
    full = np.tri(length // 128, k=-1, dtype=bool)[None, None]
    tables = (*compact(grid & ~full), *compact(full))
    x = jax.ShapeDtypeStruct((1, 4, length, 64), np.float32)

    def both(q: Any, k: Any, v: Any, g_out: Any, tables: Any) -> Any:
        out, lse = forward(spec, q, k, v, tables, [], [])
        given = (out, lse, g_out, jnp.zeros_like(lse), ())
        return out, *backward(spec, q, k, v, tables, [], [], *given)

    def one(q: Any, k: Any, v: Any, tables: Any) -> Any:
        return forward(spec, q, k, v, tables, [], [])

    programs = jax.jit(one).lower(x, x, x, tables), jax.jit(both).lower(x, x, x, x, tables)
    first, second = (y.compile().memory_analysis().temp_size_in_bytes for y in programs)
    return first, second


def test_memory_is_linear_in_the_lengths() -> None:
    dense = 4 * 4096**2 * 4
    short, long = temporaries(2048), temporaries(4096)
    for a, b in zip(short, long, strict=True):
        assert b <= dense / 10
        assert b <= 2.2 * a


def test_the_gradient_by_a_large_bias_takes_no_array_of_its_size_for_each_block() -> None:
    spec = Spec(lambda s, b, h, i, j, bias: s + bias[h, i, j], None, (32, 32), 0.5)
    x = jax.ShapeDtypeStruct((1, 2, 512, 8), np.float32)
    rows, bias = jax.ShapeDtypeStruct(x.shape[:3], "float32"), np.zeros((2, 512, 512), np.float32)

    def slope(arrays: Any, results: Any) -> Any:
        return backward(spec, *arrays, (), [bias], [], *results, (True,))[3]

    program = jax.jit(slope).lower((x, x, x), (x, rows, x, rows)).compile()
    assert program.memory_analysis().temp_size_in_bytes < 1.5 * bias.nbytes


def test_other_tables_and_captured_arrays_are_the_same_program() -> None:
    traced = []

    def seen(b: Any, h: Any, i: Any, j: Any, ids: Any) -> Any:
        traced.append(None)
        return ids[i] == ids[j]

    spec = Spec(None, seen, (4, 4), 0.5)
    q, k, v, *_ = reference.problem(18, 1, heads=(2, 2), lengths=(16, 16), dims=(4, 4))
    call = jax.jit(lambda tables, ids: forward(spec, q, k, v, tables, [], [ids])[0])
    random = np.random.default_rng(19)
    count = 0
    for _ in range(4):
        ids = np.sort(random.integers(0, 4, 16))
        mask = np.broadcast_to(ids[:, None] == ids, (1, 2, 16, 16))
        found = call(tables_of(mask, (4, 4), 1, 1), ids)
        count = count or len(traced)
        expected = reference.forward(q, k, v, mask=mask).out
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    assert len(traced) == count


def test_forward_and_backward_have_one_loop_over_the_blocks_of_a_row() -> None:
    x, rows = np.zeros((1, 2, 96, 8), "float32"), np.zeros((1, 2, 96), "float32")
    spec = Spec(None, lambda b, h, i, j: j <= i, (32, 32), 0.5)
    mask = np.tril(np.ones((96, 96), bool))[None, None]
    tables = tables_of(mask, (32, 32), 1, 1)
    assert tables[0].any()
    assert tables[2].any()
    operands = (x, x, x, tables, [], [])
    programs = [
        jax.jit(lambda *operands: forward(spec, *operands)).lower(*operands),
        jax.jit(lambda *rest: backward(spec, *rest, ())).lower(*operands, x, rows, x, rows),
    ]
    # One loop over rows, one over the blocks of a row: each body takes XLA a fifth of a second.
    assert [p.as_text().count("stablehlo.while") for p in programs] == [2, 2]


def test_forward_and_backward_run_where_jit_is_disabled() -> None:
    rng = np.random.default_rng(4)
    q, k, v, g_out = (rng.normal(size=(1, h, n, 3)) for h, n in ((2, 5), (1, 3), (1, 3), (2, 5)))
    g_lse, slope = rng.normal(size=(1, 2, 5)), np.array(0.3)
    spec = Spec(lambda s, b, h, i, j, slope: s - slope * j, lambda *ix: ix[3] <= ix[2], (4, 2), 0.5)
    tables = tables_of(np.tri(5, 3, dtype=bool)[None, None], (4, 2), 1, 1)
    operands = (q, k, v, tables, [slope], [])
    expected = outcome(spec, operands, [True], g_out, g_lse)
    with jax.disable_jit():
        close(outcome(spec, operands, [True], g_out, g_lse), expected)
