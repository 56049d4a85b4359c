"""What does not fit is refused with what was asked, what is wrong, the way out, and the line."""
# ruff: noqa: E501 (a row is a line)

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.attention as ga
import graphc.tensor as gt
from graphc.errors import (
    ArgumentError,
    BoundsError,
    DTypeError,
    GraphcError,
    RuntimeShapeError,
    ShapeError,
    SymbolicValueError,
)
from tests.attention.worlds import GRAPHS
from tests.modes import uncompiled


def operand(*shape: int | None, dtype: str = "float64") -> Any:
    return gt.tensor(dtype=dtype, shape=shape)


Q, K, V = operand(2, 4, 12, 8), operand(2, 4, 12, 8), operand(2, 4, 12, 6)
SHORT = np.zeros(5, np.int32)
DOCUMENTS = np.zeros(12, np.int32)


IDS, BIAS = gt.tensor("IDS", dtype="int32", shape=(12,)), gt.vector("BIAS")
X = jnp.ones((2, 4, 12, 8), jnp.float32)


def causal(b: Any, h: Any, q: Any, k: Any) -> Any:
    return q >= k


def mask_of(
    mask: Any, batch: Any = None, heads: Any = None, q: Any = 12, k: Any = 12, **rest: Any
) -> Any:
    return ga.create_block_mask(mask, batch, heads, q, k, **{"BLOCK_SIZE": 4, **rest})


def by_score(score: Any) -> Callable[[], Any]:
    return lambda: ga.flex_attention(Q, K, V, score_mod=score)


def by_mask(mask: Any) -> Callable[[], Any]:
    return lambda: mask_of(mask)


def branching(b: Any, h: Any, q: Any, k: Any) -> Any:
    if q >= k:
        return k < 5
    return q < 3


def counting(b: Any, h: Any, q: Any, k: Any) -> Any:
    return DOCUMENTS[int(q)] == 0


Row = tuple[Callable[[], Any], type[GraphcError], type[Exception], tuple[str, ...]]

# fmt: off
ATTENTION: dict[str, Row] = {
    "no four axes": (lambda: ga.flex_attention(operand(4, 12, 8), K, V), ShapeError, ValueError, ("query has 3 axes", "(batch, heads, length, dim)", "x[None]")),
    "a vector of keys": (lambda: ga.flex_attention(Q, operand(8), V), ShapeError, ValueError, ("key has 1 axis",)),
    "integers": (lambda: ga.flex_attention(Q.astype("int32"), K, V), DTypeError, TypeError, ("query is int32[2, 4, 12, 8]", "floating", "astype")),
    "complex numbers": (lambda: ga.flex_attention(Q, K, V.astype("complex128")), DTypeError, TypeError, ("value is complex128", "floating")),
    "dtypes that differ": (lambda: ga.flex_attention(Q.astype("float32"), K, V), DTypeError, TypeError, ("float32[2, 4, 12, 8], float64[2, 4, 12, 8]", "dtypes differ", "astype")),
    "batches that differ": (lambda: ga.flex_attention(operand(3, 4, 12, 8), K, V), ShapeError, ValueError, ("numbers of sequences (axis 0) differ: 3 and 2",)),
    "elements that differ": (lambda: ga.flex_attention(operand(2, 4, 12, 7), K, V), ShapeError, ValueError, ("last axes of query and key differ: 7 and 8",)),
    "values of another length": (lambda: ga.flex_attention(Q, K, operand(2, 4, 11, 6)), ShapeError, ValueError, ("lengths of key and value (axis 2) differ: 12 and 11",)),
    "values of other heads": (lambda: ga.flex_attention(Q, K, operand(2, 2, 12, 6), enable_gqa=True), ShapeError, ValueError, ("heads of key and value (axis 1) differ: 4 and 2",)),
    "more heads, not asked for": (lambda: ga.flex_attention(Q, operand(2, 2, 12, 8), operand(2, 2, 12, 6)), ArgumentError, TypeError, ("4 heads of queries and 2 of keys", "enable_gqa=True")),
    "heads that do not divide": (lambda: ga.flex_attention(Q, operand(2, 3, 12, 8), operand(2, 3, 12, 6), enable_gqa=True), ShapeError, ValueError, ("4 heads of queries are no multiple of 3",)),
    "more heads of keys": (lambda: ga.flex_attention(operand(2, 2, 12, 8), K, V, enable_gqa=True), ShapeError, ValueError, ("2 heads of queries are no multiple of 4",)),
    "a scale that is no number": (lambda: ga.flex_attention(Q, K, V, scale="half"), ArgumentError, TypeError, ("scale is 'half'", "finite number")),
    "a scale that is infinite": (lambda: ga.flex_attention(Q, K, V, scale=float("inf")), ArgumentError, TypeError, ("scale is inf", "finite number")),
    "a scale that is an array": (lambda: ga.flex_attention(Q, K, V, scale=gt.scalar("tau")), ArgumentError, TypeError, ("scale is tau", "score_mod")),
    "a mask for fewer queries": (lambda: ga.flex_attention(Q, K, V, block_mask=mask_of(causal, q=8)), ShapeError, ValueError, ("there are 12 queries, and the mask is for 8",)),
    "a mask for more queries": (lambda: ga.flex_attention(Q, K, V, block_mask=mask_of(causal, q=16)), ShapeError, ValueError, ("there are 12 queries, and the mask is for 16", "mask.for_lengths(q_len, kv_len)")),
    "a mask for other keys in as many blocks": (lambda: ga.flex_attention(Q, K, V, block_mask=mask_of(causal, k=10)), ShapeError, ValueError, ("there are 12 keys, and the mask is for 10",)),
    "a mask of more sequences": (lambda: ga.flex_attention(Q, K, V, block_mask=mask_of(causal, batch=3)), ShapeError, ValueError, ("there are 2 sequences, and the mask is for 3", "None")),
    "a mask of fewer heads": (lambda: ga.flex_attention(Q, K, V, block_mask=mask_of(causal, heads=2)), ShapeError, ValueError, ("there are 4 heads, and the mask is for 2",)),
    "a function for a mask": (lambda: ga.flex_attention(Q, K, V, block_mask=causal), ArgumentError, TypeError, ("block_mask is a function, not a BlockMask", "create_block_mask")),
    "a dense mask": (lambda: ga.flex_attention(Q, K, V, block_mask=np.ones((12, 12), bool)), ArgumentError, TypeError, ("block_mask is a ndarray, not a BlockMask", "create_block_mask")),
    "a mask for all sequences that tells them apart": (lambda: ga.flex_attention(Q, K, V, block_mask=mask_of(lambda b, h, q, k: k > b)), ShapeError, ValueError, ("2 sequences", "looks at b", "create_block_mask(mask_mod, B, H")),
    "a mask for all heads that tells them apart": (lambda: ga.flex_attention(Q, K, V, block_mask=mask_of(lambda b, h, q, k: k > h, batch=2)), ShapeError, ValueError, ("4 heads", "looks at h")),
    "a symbolic mask of JAX arrays": (lambda: ga.flex_attention(X, X, X, block_mask=mask_of(lambda b, h, q, k: IDS[q] == IDS[k])), ArgumentError, TypeError, ("block mask is symbolic", "JAX")),
    "a symbolic bias of JAX arrays": (lambda: ga.flex_attention(X, X, X, lambda s, b, h, q, k: s + BIAS[k]), ArgumentError, TypeError, ("score_mod captures `BIAS`, which is symbolic", "Give symbolic queries")),
    "an array that JAX traces": (lambda: jax.jit(lambda x: ga.flex_attention(Q, K, V, lambda s, b, h, q, k: s + x[k]).type)(jnp.ones(12)), ArgumentError, TypeError, ("score_mod captures x", "JAX arrays throughout")),
    "a mask for a score function": (lambda: ga.flex_attention(Q, K, V, mask_of(causal)), ArgumentError, TypeError, ("score_mod", "not a function")),
}

SCORES: dict[str, Row] = {
    "gives a bool": (by_score(lambda s, b, h, q, k: q >= k), DTypeError, TypeError, ("score_mod returns bool", "the new score", "mask_mod")),
    "gives nothing": (by_score(lambda s, b, h, q, k: None), DTypeError, TypeError, ("score_mod returns NoneType", "the new score")),
    "gives text": (by_score(lambda s, b, h, q, k: "large"), DTypeError, TypeError, ("score_mod returns str",)),
    "gives a vector": (by_score(lambda s, b, h, q, k: s + np.ones(12)), ShapeError, ValueError, ("score_mod returns the shape (12,)", "index captured arrays")),
    "branches on an index": (by_score(lambda s, b, h, q, k: s if q >= k else s - 1), SymbolicValueError, TypeError, ("gt.where",)),
    "branches on the score": (by_score(lambda s, b, h, q, k: s if s > 0 else 0.1 * s), SymbolicValueError, TypeError, ("gt.where",)),
    "takes fewer arguments": (by_score(lambda s, q, k: s), ArgumentError, TypeError, ("score_mod", "(score, b, h, q_idx, kv_idx)")),
    "takes more arguments": (by_score(lambda s, b, h, q, k, more: s), ArgumentError, TypeError, ("score_mod", "(score, b, h, q_idx, kv_idx)")),
    "is not a function": (by_score(3.0), ArgumentError, TypeError, ("score_mod=3.0 is not a function",)),
}

MASKS: dict[str, Row] = {
    "gives an integer": (by_mask(lambda b, h, q, k: q - k), DTypeError, TypeError, ("mask_mod returns int32", "bool", "q_idx >= kv_idx")),
    "gives a float": (by_mask(lambda b, h, q, k: gt.where(q >= k, 0.0, -gt.inf)), DTypeError, TypeError, ("mask_mod returns float64", "bool", "score_mod")),
    "gives a number": (by_mask(lambda b, h, q, k: 1), DTypeError, TypeError, ("mask_mod returns int", "bool")),
    "gives nothing": (by_mask(lambda b, h, q, k: None), DTypeError, TypeError, ("mask_mod returns NoneType", "bool")),
    "gives a vector": (by_mask(lambda b, h, q, k: q >= np.arange(12)), ShapeError, ValueError, ("mask_mod returns the shape (12,)", "index captured arrays")),
    "branches": (by_mask(branching), SymbolicValueError, TypeError, ("gt.where",)),
    "says and": (by_mask(lambda b, h, q, k: q >= k and k > 2), SymbolicValueError, TypeError, ("gt.where",)),  # noqa: PLR1716
    "asks for a number": (by_mask(counting), SymbolicValueError, TypeError, ("q_idx",)),
    "takes fewer arguments": (by_mask(lambda q, k: q >= k), ArgumentError, TypeError, ("mask_mod", "(b, h, q_idx, kv_idx)")),
    "takes a score": (by_mask(lambda s, b, h, q, k: q >= k), ArgumentError, TypeError, ("mask_mod", "(b, h, q_idx, kv_idx)")),
    "is not a function": (by_mask(np.ones((12, 12), bool)), ArgumentError, TypeError, ("mask_mod", "not a function")),
    "reads beyond the end": (by_mask(lambda b, h, q, k: SHORT[q] == SHORT[k]), BoundsError, IndexError, ("SHORT", "5")),
    "a negative length": (lambda: mask_of(causal, k=-3), ArgumentError, TypeError, ("KV_LEN=-3", "integer")),
    "half a query": (lambda: mask_of(causal, q=8.5), ArgumentError, TypeError, ("Q_LEN=8.5", "integer")),
    "a symbolic length": (lambda: mask_of(causal, q=Q.shape[2] + gt.iscalar("n")), ArgumentError, TypeError, ("Q_LEN is symbolic", "q_idx < length")),
    "no block": (lambda: mask_of(causal, BLOCK_SIZE=0), ArgumentError, TypeError, ("BLOCK_SIZE=0", "positive integer")),
    "three lengths of a block": (lambda: mask_of(causal, BLOCK_SIZE=(4, 4, 4)), ArgumentError, TypeError, ("BLOCK_SIZE=(4, 4, 4)", "(128, 64)")),
    "a negative batch": (lambda: mask_of(causal, batch=-1), ArgumentError, TypeError, ("B=-1", "None")),
    "no function among several": (lambda: ga.and_masks(causal, True), ArgumentError, TypeError, ("and_masks", "True is not a function")),
    "a longer mask of a mask": (lambda: mask_of(causal).for_lengths(16, 12), ShapeError, ValueError, ("(16, 12)", "longer")),
}
# fmt: on


def check(row: Row) -> None:
    build, error, base, parts = row
    with pytest.raises(error) as found:
        build()
    assert isinstance(found.value, base)
    text = str(found.value)
    for part in parts:
        assert part in text, text
    assert found.value.remedy, text
    assert re.search(r"test_flex_errors\.py:\d+", text), text


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_refuses(name: str) -> None:
    check(ATTENTION[name])


@pytest.mark.parametrize("name", SCORES)
def test_a_score_function_is_refused_that(name: str) -> None:
    check(SCORES[name])


@pytest.mark.parametrize("name", MASKS)
def test_a_mask_is_refused_that_has_or_whose_function(name: str) -> None:
    check(MASKS[name])


@pytest.mark.parametrize("mode", GRAPHS)
@pytest.mark.parametrize("lengths", [(8, 12), (12, 8), (13, 12), (12, 16)])
def test_lengths_that_are_known_when_it_runs_must_fit_the_mask(
    mode: str, lengths: tuple[int, int]
) -> None:
    q, k, v = (operand(2, 4, None, 8) for _ in range(3))
    out = ga.flex_attention(q, k, v, block_mask=mask_of(causal))
    run = graphc.function([q, k, v], out, mode=uncompiled(mode))
    queries, keys = (np.ones((2, 4, n, 8)) for n in lengths)
    with pytest.raises(RuntimeShapeError, match="12"):
        run(queries, keys, keys)


@pytest.mark.parametrize("mode", GRAPHS)
def test_batches_and_heads_that_are_known_when_it_runs_must_fit_the_mask(mode: str) -> None:
    q, k, v = (operand(None, None, 12, 8) for _ in range(3))
    mask = mask_of(lambda b, h, q, k: q >= k + b + h, 2, 4)
    run = graphc.function(
        [q, k, v], ga.flex_attention(q, k, v, block_mask=mask), mode=uncompiled(mode)
    )
    for shape in ((3, 4, 12, 8), (2, 3, 12, 8)):
        x = np.ones(shape)
        with pytest.raises(RuntimeShapeError):
            run(x, x, x)


@pytest.mark.parametrize("mode", GRAPHS)
def test_heads_that_are_known_when_it_runs_must_divide(mode: str) -> None:
    q, k, v = (operand(2, None, 12, 8) for _ in range(3))
    out = ga.flex_attention(q, k, v, enable_gqa=True)
    run = graphc.function([q, k, v], out, mode=uncompiled(mode))
    keys = np.ones((2, 2, 12, 8))
    assert run(np.ones((2, 4, 12, 8)), keys, keys).shape == (2, 4, 12, 8)
    with pytest.raises(RuntimeShapeError):
        run(np.ones((2, 3, 12, 8)), keys, keys)
    plain = graphc.function([q, k, v], ga.flex_attention(q, k, v), mode=uncompiled(mode))
    with pytest.raises(RuntimeShapeError):
        plain(np.ones((2, 4, 12, 8)), keys, keys)


OTHERS: dict[str, tuple[Callable[[], Any], str]] = {
    "other lengths": (
        lambda: mask_of(within(DOCUMENTS), q=8),
        "seq_lengths is (12, 12), not (8, 12)",
    ),
    "other blocks": (
        lambda: mask_of(within(DOCUMENTS), BLOCK_SIZE=6),
        "block_size is (4, 4), not (6, 6)",
    ),
    "another function": (lambda: mask_of(causal), "BlockMask.stripped"),
    "no mask": (lambda: np.ones((12, 12), bool), "expected a BlockMask, got a ndarray"),
}


def within(documents: Any) -> Any:
    return lambda b, h, q, k: documents[q] == documents[k]


@pytest.mark.parametrize("name", OTHERS)
def test_a_program_for_masks_of_one_structure_refuses(name: str) -> None:
    mask = mask_of(within(DOCUMENTS)).variables("mask")
    out = ga.flex_attention(Q, K, V, block_mask=mask)
    run = graphc.function([Q, K, V, mask], out, mode="NUMPY")
    x = np.ones((2, 4, 12, 8))
    build, text = OTHERS[name]
    with pytest.raises(ArgumentError, match=re.escape(text)):
        run(x, x, x[..., :6], build())


@pytest.mark.parametrize("name", ["other shape", "other dtype"])
def test_a_program_refuses_other_captured_arrays(name: str) -> None:
    """A mask of the same structure whose documents are another kind of array."""
    mask = mask_of(within(DOCUMENTS)).variables("mask")
    out = ga.flex_attention(Q, K, V, block_mask=mask)
    run = graphc.function([Q, K, V, mask], out, mode="NUMPY")
    x = np.ones((2, 4, 12, 8))
    documents = np.zeros(20, np.int32) if name == "other shape" else np.zeros(12, np.float64)
    with pytest.raises(GraphcError, match="documents"):
        run(x, x, x[..., :6], mask_of(within(documents)))
