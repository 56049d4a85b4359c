"""Block tables of mask functions written for JAX: those of the dense mask, without making it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from jax import lax
from jax.numpy import clip

import graphc
import graphc.tensor as gt
from graphc.attention import create_block_mask
from graphc.errors import ArgumentError, DTypeError, ShapeError, SymbolicValueError
from tests.attention import functions, reference
from tests.work import python_calls

Mask = Callable[..., Any]
Form = tuple[int, int, int, int, tuple[int, int]]


def in_jax(function: Mask) -> Mask:
    """A function that only JAX's scalars can be given."""

    def mask(b: Any, h: Any, q: Any, k: Any) -> Any:
        assert isinstance(q, jax.Array)
        return function(b, h, q, k)

    return mask


def tables_of(function: Mask, form: Form) -> tuple[Any, ...]:
    return create_block_mask(in_jax(function), *form[:4], BLOCK_SIZE=form[4]).tables


def assert_exact(found: tuple[Any, ...], dense: np.ndarray, form: Form) -> None:
    """The tables of a mask, of its very shape, down to the order of blocks that do not count."""
    dense = np.broadcast_to(dense, form[:4])
    reference.check_tables(found, dense, form[4])
    for table, wanted in zip(found, reference.tables(dense, form[4]), strict=True):
        assert table.dtype == np.int32
        np.testing.assert_array_equal(table, wanted)


FORMS = st.tuples(
    *(st.integers(1, 2), st.integers(1, 3), st.integers(1, 40), st.integers(1, 40)),
    st.tuples(st.integers(1, 17), st.integers(1, 17)),
)


@settings(max_examples=25)
@given(functions.masks(), FORMS)
def test_tables_of_random_functions_are_those_of_the_dense_mask(text: str, form: Form) -> None:
    found = tables_of(functions.of_jax(text), form)
    assert all(type(table) is np.ndarray for table in found)
    assert_exact(found, functions.dense(text, form[:4]), form)


@pytest.mark.exhaustive
@settings(max_examples=300)
@given(functions.masks(leaves=10), FORMS)
def test_tables_of_large_random_functions_are_those_of_the_dense_mask(
    text: str, form: Form
) -> None:
    assert_exact(tables_of(functions.of_jax(text), form), functions.dense(text, form[:4]), form)


@pytest.mark.exhaustive
@settings(max_examples=60)
@given(functions.masks(), FORMS)
def test_tables_in_a_trace_are_those_of_the_dense_mask(text: str, form: Form) -> None:
    traced = jax.jit(lambda arrays: tables_of(functions.of_jax(text, arrays), form))
    assert_exact(traced(functions.ARRAYS), functions.dense(text, form[:4]), form)


L = 300
FORM: Form = (2, 3, L, L + 33, (64, 32))
IDS = np.sort(np.random.default_rng(5).integers(0, 9, (2, L + 33))).astype(np.int32)
JIDS = jnp.asarray(IDS)
LENGTHS = np.array([40, 250])
JLENGTHS = jnp.asarray(LENGTHS)
WIDTH = graphc.runtime(50)

NAMED: dict[str, tuple[Mask, Mask]] = {
    "causal": (lambda b, h, q, k: q >= k, lambda b, h, q, k: q >= k),
    "window": (
        lambda b, h, q, k: (q >= k) & (q - k < WIDTH),
        lambda b, h, q, k: (q >= k) & (q - k < 50),
    ),
    "documents": (
        lambda b, h, q, k: JIDS[b, q] == JIDS[b, k],
        lambda b, h, q, k: IDS[b, q] == IDS[b, k],
    ),
    "causal documents of NumPy": (
        lambda b, h, q, k: jnp.logical_and(jnp.take(IDS[0], q) == jnp.take(IDS[0], k), q >= k),
        lambda b, h, q, k: (IDS[0, q] == IDS[0, k]) & (q >= k),
    ),
    "prefix": (
        lambda b, h, q, k: (q >= k) | (k < JLENGTHS[b]),
        lambda b, h, q, k: (q >= k) | (k < LENGTHS[b]),
    ),
    "by the head": (
        lambda b, h, q, k: jnp.where(h == 0, q >= k, jnp.abs(q - k) * (h + 1) < 64),
        lambda b, h, q, k: np.where(h == 0, q >= k, np.abs(q - k) * (h + 1) < 64),
    ),
    "dilated": (
        lambda b, h, q, k: (q - k) % 4 == 0,
        lambda b, h, q, k: (q - k) % 4 == 0,
    ),
    "products": (lambda b, h, q, k: q * k % 64 == 0, lambda b, h, q, k: q * k % 64 == 0),
    "nothing": (lambda b, h, q, k: False, lambda b, h, q, k: q < 0),
    "everything": (lambda b, h, q, k: True, lambda b, h, q, k: q >= 0),
}


def dense_of(name: str, form: Form = FORM) -> np.ndarray:
    indices = np.ogrid[tuple(slice(n) for n in form[:4])]
    return NAMED[name][1](*[x.astype(np.int32) for x in indices])  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", NAMED)
def test_tables_are_those_of_the_dense_mask(name: str) -> None:
    assert_exact(tables_of(NAMED[name][0], FORM), dense_of(name), FORM)


def test_blocks_larger_than_what_is_evaluated_at_a_time() -> None:
    form = (1, 1, 700, 2100, (650, 1000))
    assert_exact(tables_of(NAMED["products"][0], form), dense_of("products", form), form)


@pytest.mark.parametrize("lengths", [(0, 40), (40, 0), (0, 0)])
def test_lengths_may_be_zero(lengths: tuple[int, int]) -> None:
    form = (1, 2, *lengths, (16, 16))
    counts = [-(-n // 16) for n in lengths]
    found = tables_of(NAMED["documents"][0], form)
    assert [x.shape for x in found] == 2 * [(1, 2, counts[0]), (1, 2, *counts)]


def test_wide_dtypes() -> None:
    with jax.enable_x64(True):
        ids = jnp.asarray(IDS.astype(np.int64) + 2**40)
        limits = jnp.asarray(LENGTHS.astype(np.float64))
        found = tables_of(lambda b, h, q, k: (ids[b, q] == ids[b, k]) & (k < limits[b]), FORM)
    dense = dense_of("documents") & (np.arange(L + 33) < LENGTHS[:, None, None, None])
    assert_exact(found, dense, FORM)


KEY = jax.random.key(3)
RANK = jnp.arange(64) * 37 % 64
NONE = jnp.zeros(0, jnp.int32)
GAPS = jnp.where(RANK % 9 == 0, jnp.nan, RANK)
PLAIN: dict[str, Mask] = {
    "random": lambda b, h, q, k: jax.random.bernoulli(jax.random.fold_in(KEY, q * 64 + k)),
    "random queries": lambda b, h, q, k: jax.random.bernoulli(jax.random.fold_in(KEY, q)),
    "bfloat16": lambda b, h, q, k: RANK.astype("bfloat16")[q] > RANK[k],
    "complex": lambda b, h, q, k: (RANK + 2j * RANK)[q].imag >= RANK[k],
    "uint8": lambda b, h, q, k: RANK.astype("uint8")[q] - RANK.astype("uint8")[k] < 5,
    "not a number": lambda b, h, q, k: ~(GAPS[q] > GAPS[k]),
    "no elements": lambda b, h, q, k: (NONE.sum() == 0) & (q > k),
    "sorted": lambda b, h, q, k: jnp.sort(jnp.stack([q, k, h]))[1] > 20,
    "largest": lambda b, h, q, k: jnp.argmax(jnp.stack([q, k])) == 0,
    "product": lambda b, h, q, k: jnp.dot(jnp.stack([q, k]), jnp.array([1, -1])) >= 0,
    "one of many": lambda b, h, q, k: jnp.any(q - k == RANK),
    "while": lambda b, h, q, k: lax.while_loop(lambda x: x > 10, lambda x: x - 7, q) > 5,
    "written to": lambda b, h, q, k: jnp.zeros(60).at[q].set(1)[k] == 1,
    "rows": lambda b, h, q, k: jnp.arange(120).reshape(60, 2)[q].sum() > 100,
    "several": lambda b, h, q, k: RANK[jnp.stack([q, k])].sum() > 50,
    "vmap": lambda b, h, q, k: jax.vmap(lambda i: RANK[i])(jnp.stack([q, k])).max() > 30,
}
"""Masks of what intervals are not made for, or of more than scalars."""


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("name", PLAIN)
def test_whatever_jax_computes_is_a_mask(name: str) -> None:
    form = (1, 2, 50, 60, (16, 8))
    dense = PLAIN[name]
    for axes in ((None, None, None, 0), (None, None, 0, None), (None, 0, None, None)):
        dense = jax.vmap(dense, axes)
    dense = jax.jit(jax.vmap(dense, (0, None, None, None)))
    indices = [np.arange(n, dtype=np.int32) for n in form[:4]]
    assert_exact(tables_of(PLAIN[name], form), np.asarray(dense(*indices)), form)


class Near:
    """A mask function that is an object, of functions of JAX that it holds."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.distance = jnp.abs

    def __call__(self, b: Any, h: Any, q: Any, k: Any) -> Any:
        return self.distance(q - k) < self.width


def near(distance: Callable[..., Any]) -> Callable[..., Any]:
    return lambda b, h, q, k: distance(q - k) < 9


def nearer(width: int, b: Any, h: Any, q: Any, k: Any) -> Any:
    return clip(q - k, -width, width) == q - k


FOR_JAX: dict[str, Callable[..., Any]] = {
    "a function imported by its name": lambda b, h, q, k: clip(q - k, -9, 9) == q - k,
    "a function of a closure": near(jnp.abs),
    "a compiled function of a closure": near(jax.jit(lambda x: x * jnp.sign(x))),
    "an object": Near(9),
    "a partial function": partial(nearer, 9),
    "a choice among functions": lambda b, h, q, k: lax.switch(h, [lambda: q < 0, lambda: q >= k]),
    "a method of arrays": lambda b, h, q, k: (q - k).astype("float32") > 0.5,
}
"""Masks that only JAX's arrays can be given, however they come by JAX's functions."""


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("name", FOR_JAX)
def test_a_function_for_jax_is_known_by_what_it_takes(name: str) -> None:
    form = (1, 2, 40, 50, (8, 8))
    mask = FOR_JAX[name]
    found = create_block_mask(mask, *form[:4], BLOCK_SIZE=form[4])
    dense = mask
    for axes in ((None, None, None, 0), (None, None, 0, None), (None, 0, None, None)):
        dense = jax.vmap(dense, axes)
    indices = [np.arange(n, dtype=np.int32) for n in form[:4]]
    every = np.asarray(jax.vmap(dense, (0, None, None, None))(*indices))
    assert_exact(found.tables, every, form)
    np.testing.assert_array_equal(found.to_dense(), every)


# What a second mask of the same structure costs.


def window(width: Any) -> Mask:
    return lambda b, h, q, k: (q >= k) & (q - k < width) & (q * k % 3 != 1)


def test_equal_structure_is_traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def masks(i: int) -> list[Mask]:
        ids = jnp.asarray(IDS[0] + i)
        return [window(graphc.runtime(i + 7)), lambda b, h, q, k: (ids[q] == ids[k]) & (q > 3)]

    for mask in masks(0):
        tables_of(mask, FORM)
    monkeypatch.setattr(jax, "make_jaxpr", None)
    monkeypatch.setattr(jax, "jit", None)
    for i in range(1, 4):
        for mask in masks(i):
            tables_of(mask, FORM)


def test_corners_decide_without_a_compiled_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "jit", None)
    form = (1, 1, 256, 256, (128, 128))
    partial, *_ = tables_of(lambda b, h, q, k: q + 1 > k, form)
    assert partial.tolist() == [[[1, 1]]]


def test_a_new_length_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    mask = NAMED["products"][0]
    tables_of(mask, FORM)
    monkeypatch.setattr(jax, "jit", None)
    form = (1, 1, 123, 77, FORM[4])
    assert_exact(tables_of(mask, form), dense_of("products", form), form)


N = 4096
STEPS = np.arange(N) // 512
PREFIX = jnp.asarray([300])


def of_speed() -> dict[str, Mask]:
    ids = jnp.asarray(STEPS)
    masks: dict[str, Mask] = {
        "causal": lambda b, h, q, k: q >= k,
        "window": lambda b, h, q, k: (q >= k) & (q - k < 256),
        "documents": lambda b, h, q, k: ids[q] == ids[k],
        "prefix": lambda b, h, q, k: (q >= k) | (k < PREFIX[b]),
    }
    causal, near, together, first = masks.values()
    return {
        **masks,
        "documents and causal": lambda *at: causal(*at) & together(*at),
        "prefix and documents, or window": lambda *at: first(*at) & together(*at) | near(*at),
    }


@pytest.mark.parametrize("name", of_speed())
def test_longer_masks_are_made_by_as_many_calls(name: str) -> None:
    mask = of_speed()[name]

    def calls(n: int) -> int:
        tables_of(mask, (1, 1, n, n, (128, 128)))
        return python_calls(lambda: tables_of(mask, (1, 1, n, n, (128, 128))))

    assert calls(N) < 1.2 * calls(N // 4) < 10_000


LONG = """
import resource, sys
import jax.numpy as jnp, numpy as np
from graphc.attention import create_block_mask

unit = 1 if sys.platform == "darwin" else 1024

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

n = 32768
ids = jnp.asarray(np.arange(n) // 1000)
masks = [
    lambda b, h, q, k: q >= k,
    lambda b, h, q, k: (q >= k) & (q - k < 256),
    lambda b, h, q, k: ids[q] == ids[k],
    lambda b, h, q, k: (q * 1103515245 + k * 12345) % 65537 != 9,
]

def tables(mask, n):
    function = lambda b, h, q, k: jnp.asarray(mask(b, h, q, k))
    return create_block_mask(function, 1, 1, n, n, BLOCK_SIZE=128).tables

tables(lambda b, h, q, k: ids[q] * k % 3 == 1, 256)
before = peak()
found = [[int(x.sum()) for x in tables(mask, n)[::2]] for mask in masks]
print(found[:2], peak() - before)
"""


@pytest.mark.exhaustive
def test_memory_is_that_of_the_blocks() -> None:
    result = subprocess.run(
        [sys.executable, "-c", LONG], capture_output=True, text=True, check=True
    )
    counts, _, memory = result.stdout.strip().rpartition(" ")
    assert counts == "[[256, 32640], [510, 255]]"
    assert int(memory) < 2**26  # the mask of all elements has 2**30


# Captured arrays that JAX traces.


def test_tables_in_a_trace() -> None:
    @jax.jit
    def make(ids: Any, width: Any) -> Any:
        return tables_of(lambda b, h, q, k: (ids[b, q] == ids[b, k]) & (q - k < width), FORM)

    for ids, width in ((IDS, 50), (IDS[:, ::-1], 7), (np.zeros_like(IDS), 0)):
        b, _, q, k = np.ogrid[:2, :3, :L, : L + 33]
        assert_exact(make(ids, width), (ids[b, q] == ids[b, k]) & (q - k < width), FORM)


def test_new_ids_are_no_new_trace() -> None:
    traces = []

    @jax.jit
    def make(ids: Any) -> Any:
        traces.append(ids)
        return tables_of(lambda b, h, q, k: ids[q] == ids[k], (1, 1, L, L, (64, 64)))

    for seed in range(5):
        ids = np.sort(np.random.default_rng(seed).integers(0, 6, L)).astype(np.int32)
        form = (1, 1, L, L, (64, 64))
        assert_exact(make(ids), ids[:, None] == ids, form)
    assert len(traces) == 1


def test_what_is_concrete_stays_so_in_a_trace() -> None:
    @jax.jit
    def double(x: Any) -> Any:
        found = tables_of(NAMED["documents"][0], FORM)
        assert all(type(table) is np.ndarray for table in found)
        tables_of(NAMED["products"][0], FORM)
        return 2 * x

    assert double(2.0) == 4


def test_tables_of_a_batch() -> None:
    form = (1, 1, L, L, (64, 64))

    def make(ids: Any) -> Any:
        return tables_of(lambda b, h, q, k: (ids[q] == ids[k]) & (q * k % 5 != 1), form)

    found = jax.jit(jax.vmap(make))(IDS)
    for i, ids in enumerate(IDS[:, :L]):
        numbers = np.arange(L)
        dense = (ids[:, None] == ids) & (numbers[:, None] * numbers % 5 != 1)
        assert_exact(tuple(np.asarray(table[i]) for table in found), dense, form)


def test_gradients_pass_by_what_a_mask_captures() -> None:
    def loss(limit: Any) -> Any:
        found = tables_of(lambda b, h, q, k: (q - k) * 0.5 < limit, (1, 1, 64, 64, (16, 16)))
        return jnp.sum(found[0]) * limit**2

    value, slope = jax.jit(jax.value_and_grad(loss))(3.0)
    assert float(slope) == pytest.approx(2 * float(value) / 3)


# Errors.


def test_a_mask_that_gives_no_bool() -> None:
    with pytest.raises(DTypeError, match=r"int32.*bool[\s\S]*Compare"):
        tables_of(lambda b, h, q, k: q - k, FORM)


def test_a_mask_that_gives_no_scalar() -> None:
    with pytest.raises(ShapeError, match=r"\(2,\)"):
        tables_of(lambda b, h, q, k: JIDS[:, q] == 1, FORM)


def branching(b: Any, h: Any, q: Any, k: Any) -> Any:
    if q > 3:
        return q >= k
    return k < 7


def test_a_mask_that_branches_is_told_the_line() -> None:
    line = branching.__code__.co_firstlineno + 1
    with pytest.raises(SymbolicValueError, match=f"where[\\s\\S]*test_create.py:{line}"):
        tables_of(branching, FORM)


def test_a_mask_that_takes_other_arguments() -> None:
    with pytest.raises(ArgumentError, match="b, h, q_idx, kv_idx"):
        create_block_mask(lambda q, k: jnp.asarray(q >= k), *FORM[:4])


def test_a_mask_that_writes_to_what_it_captures() -> None:
    count = 0

    def counting(b: Any, h: Any, q: Any, k: Any) -> Any:
        nonlocal count
        count += 1
        return q >= k

    with pytest.raises(ArgumentError, match="count"):
        tables_of(counting, FORM)


def test_a_mask_that_captures_a_symbolic_array_has_symbolic_tables() -> None:
    ids = gt.vector("ids", dtype="int32", shape=(L,))
    mask = create_block_mask(
        lambda b, h, q, k: jnp.logical_and(ids[q] == JIDS[0, k], q >= k), None, None, L, L, 64
    )
    found = graphc.function([ids], list(mask.tables), mode="NUMPY")(IDS[1, :L])
    dense = (IDS[1, :L, None] == IDS[0, :L]) & np.tri(L, dtype=bool)
    assert_exact(tuple(found), dense, (1, 1, L, L, (64, 64)))
