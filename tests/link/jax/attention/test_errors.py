"""What attention of JAX arrays refuses: what it says, what to do, and where."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc.tensor as gt
from graphc.attention import create_block_mask
from graphc.errors import ArgumentError, DTypeError, GraphcError, ShapeError, SymbolicValueError
from graphc.link.jax.attention.attend import flex_attention
from tests.attention.by_hand import blocked

X = jnp.ones((2, 4, 12, 3))


def causal(b: Any, h: Any, i: Any, j: Any) -> Any:
    return i >= j


def of(*shape: int, dtype: str = "float32") -> Any:
    return jnp.zeros(shape, dtype)


ARRAYS: list[tuple[tuple[Any, ...], dict[str, Any], type[GraphcError], str]] = [
    ((of(4, 12, 3), X, X), {}, ShapeError, "query has 3 axes"),
    ((X, of(12), X), {}, ShapeError, "key has 1 axis, not"),
    ((X, X, of(2, 4, 13, 3)), {}, ShapeError, "lengths of key and value .* differ: 12 and 13"),
    ((X, of(2, 4, 12, 5), X), {}, ShapeError, "last axes of query and key differ: 3 and 5"),
    ((X, of(3, 4, 12, 3), X), {}, ShapeError, "numbers of sequences .* differ: 2 and 3"),
    ((X, X, of(2, 2, 12, 3)), {}, ShapeError, "heads of key and value .* differ: 4 and 2"),
    ((X, *[of(2, 2, 12, 3)] * 2), {}, ArgumentError, "4 heads of queries and 2 of keys"),
    ((X, *[of(2, 3, 12, 3)] * 2), {"enable_gqa": True}, ShapeError, "4 .* no multiple of 3"),
    ((X, *[of(2, 8, 12, 3)] * 2), {"enable_gqa": True}, ShapeError, "4 .* no multiple of 8"),
    ((X, *[of(2, 0, 12, 3)] * 2), {"enable_gqa": True}, ShapeError, "4 .* no multiple of 0"),
    ((of(2, 4, 12, 3, dtype="int32"), X, X), {}, DTypeError, "query is int32"),
    ((X, X, of(2, 4, 12, 3, dtype="bool")), {}, DTypeError, "value is bool"),
    ((X, X.astype("float16"), X), {}, DTypeError, "their dtypes differ"),
    ((X, gt.tensor4("k"), X), {}, ArgumentError, "key is symbolic"),
    ((X, X, [[1.0]]), {}, ArgumentError, "value is a list"),
    ((X, X, X), {"scale": float("nan")}, ArgumentError, "scale is nan"),
    ((X, X, X), {"scale": True}, ArgumentError, "scale is True"),
    ((X, X, X), {"score_mod": 3}, ArgumentError, "score_mod=3 is not a function"),
    ((X, X, X), {"block_mask": causal}, ArgumentError, "block_mask is a function"),
]


@pytest.mark.parametrize(("arrays", "options", "kind", "said"), ARRAYS, ids=range(len(ARRAYS)))
def test_arrays_that_do_not_fit_are_refused(
    arrays: tuple[Any, ...], options: dict[str, Any], kind: type[GraphcError], said: str
) -> None:
    with pytest.raises(kind, match=said) as caught:
        flex_attention(*arrays, **options)
    assert caught.value.remedy
    assert caught.value.where is not None
    assert caught.value.where.startswith("test_errors.py:")


MASKS = [
    ((1, 1, 10, 12), "there are 12 queries, and the mask is for 10"),
    ((1, 1, 12, 20), "there are 12 keys, and the mask is for 20"),
    ((3, 1, 12, 12), "there are 2 sequences, and the mask is for 3"),
    ((1, 2, 12, 12), "there are 4 heads, and the mask is for 2"),
]


@pytest.mark.parametrize(("shape", "said"), MASKS)
def test_masks_that_do_not_fit_are_refused(shape: tuple[int, int, int, int], said: str) -> None:
    with pytest.raises(ShapeError, match=said) as caught:
        flex_attention(X, X, X, None, blocked(causal, shape))
    assert caught.value.remedy


SPREAD = [
    (lambda b, h, i, j: (i >= j) & (b == 0), "2 sequences, .*looks at b"),
    (lambda b, h, i, j: (i >= j) & (h == 0), "4 heads, .*looks at h"),
]


@pytest.mark.parametrize(("mask", "said"), SPREAD, ids=["b", "h"])
def test_masks_for_one_whose_function_tells_them_apart_are_refused(mask: Any, said: str) -> None:
    with pytest.raises(ShapeError, match=said):
        flex_attention(X, X, X, None, blocked(mask, (1, 1, 12, 12)))
    one = X[:1, :1]
    assert flex_attention(one, one, one, None, blocked(mask, (1, 1, 12, 12))).shape == one.shape
    assert flex_attention(X, X, X, None, blocked(mask, (2, 4, 12, 12))).shape == X.shape


def branches(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
    return s if i > j else -s


def lists(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
    return s * [0.5, 1.0][h]


def in_numpy(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
    return np.tanh(s)


def both(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
    return jnp.where(i > j and h > 0, s, 0)


def of_indices(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
    return i - j


def of_bools(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
    return i > j


def of_rows(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
    return s * jnp.arange(3.0)


def of_nothing(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
    return None


def of_four(s: Any, b: Any, h: Any, i: Any) -> Any:
    return s


def symbolic(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
    return gt.scalar("s")


SCORES: list[tuple[Callable[..., Any], type[GraphcError], str, int]] = [
    (branches, SymbolicValueError, "score_mod needs the value of an array", 1),
    (lists, SymbolicValueError, "score_mod needs the value of an array", 1),
    (in_numpy, SymbolicValueError, "score_mod needs the value of an array", 1),
    (both, SymbolicValueError, "score_mod needs the value of an array", 1),
    (of_indices, DTypeError, "score_mod returns int32", 0),
    (of_bools, DTypeError, "score_mod returns bool", 0),
    (of_rows, ShapeError, r"score_mod returns the shape \(3,\)", 0),
    (of_nothing, DTypeError, "score_mod returns NoneType", 0),
    (of_four, ArgumentError, "score_mod takes .*too many positional", 0),
    (symbolic, ArgumentError, "score_mod returns the symbolic", 0),
]


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize(
    ("score", "kind", "said", "line"), SCORES, ids=[case[0].__name__ for case in SCORES]
)
def test_score_functions_that_cannot_be_are_refused_by_their_line(
    score: Callable[..., Any], kind: type[GraphcError], said: str, line: int, compiled: bool
) -> None:
    run = jax.jit(flex_attention, static_argnums=3) if compiled else flex_attention
    with pytest.raises(kind, match=said) as caught:
        run(X, X, X, score)
    assert caught.value.remedy
    assert caught.value.where == f"test_errors.py:{score.__code__.co_firstlineno + line}"


def test_gradients_of_functions_that_cannot_be_are_refused_likewise() -> None:
    with pytest.raises(SymbolicValueError, match=re.escape("jnp.where")):
        jax.grad(lambda x: flex_attention(x, x, x, branches).sum())(X)


@pytest.mark.parametrize("given", ["float32", "int32"])
def test_mask_functions_that_give_no_bool_are_refused(given: str) -> None:
    flags = jnp.ones(12, given)
    mask = blocked(lambda b, h, i, j: (i >= j) & flags.astype(bool)[j], (1, 1, 12, 12))
    other = blocked(lambda b, h, i, j: flags[j], (1, 1, 12, 12))
    assert flex_attention(X, X, X, None, mask).shape == X.shape
    with pytest.raises(DTypeError, match=f"mask_mod returns {given}"):
        flex_attention(X, X, X, None, other)


def test_captured_symbolic_arrays_are_refused_by_name() -> None:
    slopes = gt.vector("slopes")
    with pytest.raises(ArgumentError, match="score_mod captures `slopes`, which is symbolic"):
        flex_attention(X, X, X, lambda s, b, h, i, j: s * slopes[h])


def test_symbolic_masks_are_refused() -> None:
    mask = blocked(causal, (1, 1, 12, 12))
    with pytest.raises(ArgumentError, match="the block mask is symbolic"):
        flex_attention(X, X, X, None, mask.variables())


def test_masks_that_hold_no_arrays_are_refused() -> None:
    mask = blocked(causal, (1, 1, 12, 12))
    for other in (jax.tree.map(lambda _: None, mask), jax.tree.map(lambda _: object(), mask)):
        with pytest.raises(ArgumentError, match=r"block_mask holds .* instead of an array"):
            flex_attention(X, X, X, None, other)


def test_captured_numbers_that_jax_would_cut_are_refused() -> None:
    ids = np.array([2**40, 2**41] * 6)
    with pytest.raises(
        ArgumentError, match=r"captures `ids` of int64, whose numbers JAX.s int32 does not hold"
    ):
        flex_attention(X, X, X, lambda s, b, h, i, j: jnp.where(ids[i] == ids[j], s, 0))
    with jax.enable_x64(True):
        x = X.astype("float32")
        found = flex_attention(x, x, x, lambda s, b, h, i, j: jnp.where(ids[i] == ids[j], s, 0))
    assert found.shape == X.shape


def test_captured_arrays_of_objects_are_refused() -> None:
    names = np.array(["a", object()], dtype=object)
    with pytest.raises(ArgumentError, match="`names`"):
        flex_attention(X, X, X, lambda s, b, h, i, j: s * (names[0] == "a"))


@pytest.mark.parametrize(
    ("dtype", "wider"),
    [("int4", "int8"), ("uint4", "uint8"), ("float8_e4m3fn", "bfloat16")],
)
def test_captured_arrays_of_a_dtype_that_graphs_lack_name_a_wider_one(
    dtype: str, wider: str
) -> None:
    narrow = jnp.arange(12).astype(dtype)
    held = narrow.astype(wider)
    assert (held.astype("float32") == narrow.astype("float32")).all()

    def score(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return s + narrow[j].astype(s.dtype)

    def mask(b: Any, h: Any, i: Any, j: Any) -> Any:
        return narrow[j].astype("float32") > 0

    for call in (
        lambda: flex_attention(X, X, X, score),
        lambda: create_block_mask(mask, None, None, 12, 12, 4),
    ):
        with pytest.raises(DTypeError, match=f"`narrow` of {dtype}") as caught:
            call()
        assert caught.value.remedy == (
            f"Capture narrow.astype({wider!r}), which holds the same numbers."
        )


def test_a_captured_array_of_extended_precision_is_not_said_to_fit_a_narrow_dtype() -> None:
    if np.dtype(np.longdouble).itemsize == 8:
        pytest.skip("long double is float64 here")
    exact = np.arange(12, dtype=np.longdouble)
    with pytest.raises(DTypeError) as caught:
        create_block_mask(lambda b, h, i, j: exact[j] > 3, None, None, 12, 12, 4)
    assert caught.value.remedy == "Capture exact.astype('float64'), which rounds the numbers."
