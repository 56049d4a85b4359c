"""Attention of JAX arrays: values, derivatives, transformations and dtypes against the formula."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from graphc import runtime
from graphc.attention import create_block_mask
from graphc.link.jax.attention.attend import flex_attention
from tests.attention.by_hand import blocked, dense, normal

Q, K = 21, 27
"""No multiples of a block's length."""


class Functions(NamedTuple):
    score: Callable[..., Any] | None
    mask: Callable[..., Any] | None


class Case(NamedTuple):
    """One use of attention.

    Attributes:
        functions: Makes the score and mask functions of the captured arrays.
        captured: Arrays; there are gradients by all that the score reads.
        heads: Of queries and of keys.
    """

    functions: Callable[..., Functions]
    captured: Mapping[str, Any] = MappingProxyType({})
    heads: tuple[int, int] = (2, 2)


def plain() -> Functions:
    return Functions(None, None)


def causal() -> Functions:
    return Functions(None, lambda b, h, i, j: i >= j)


def document(ids: Any) -> Functions:
    return Functions(None, lambda b, h, i, j: ids[i] == ids[j])


def ragged(lengths: Any) -> Functions:
    return Functions(None, lambda b, h, i, j: (j < lengths[b]) & (i >= j - 5))


def alibi(slopes: Any) -> Functions:
    return Functions(lambda s, b, h, i, j: s + slopes[h] * (j - i), lambda b, h, i, j: i >= j)


def relative(bias: Any) -> Functions:
    return Functions(lambda s, b, h, i, j: s + bias[h, i - j + K - 1], None)


def capped(cap: Any) -> Functions:
    return Functions(lambda s, b, h, i, j: cap * jnp.tanh(s / cap), lambda b, h, i, j: i + 3 >= j)


def left_out(bias: Any) -> Functions:
    """A score function that leaves keys out, and everything for some queries."""
    return Functions(
        lambda s, b, h, i, j: jnp.where((i % 5 == 2) | (j % 3 == 1), -jnp.inf, s * bias[j]), None
    )


def nothing(bias: Any) -> Functions:
    return Functions(lambda s, b, h, i, j: s + bias[i], lambda b, h, i, j: (i + j) < 0)


IDS = np.repeat(np.arange(4), [3, 11, 9, 4])
CASES = {
    "plain": Case(plain),
    "causal": Case(causal),
    "document": Case(document, {"ids": IDS}),
    "ragged": Case(ragged, {"lengths": np.array([5, 22])}),
    "alibi": Case(alibi, {"slopes": np.array([0.5, 0.25])}),
    "relative": Case(relative, {"bias": np.sin(np.arange(4 * 2 * K) * 1.7).reshape(4, -1)}, (4, 2)),
    "capped": Case(capped, {"cap": np.array(1.5)}, (6, 2)),
    "left out": Case(left_out, {"bias": np.cos(np.arange(K) * 0.7)}),
    "nothing": Case(nothing, {"bias": np.arange(K) * 1.0}),
}


@pytest.fixture
def wide() -> Iterator[None]:
    """JAX with 64 bits."""
    with jax.enable_x64(True):
        yield


def inputs(case: Case, dtype: Any = "float64") -> tuple[Any, ...]:
    hq, hk = case.heads
    shapes = [(2, hq, Q, 4), (2, hk, K, 4), (2, hk, K, 3)]
    return tuple(normal(*shape, seed=i, dtype=dtype) for i, shape in enumerate(shapes))


def attended(case: Case, q: Any, k: Any, v: Any, captured: dict[str, Any]) -> tuple[Any, Any]:
    """By graphc; the mask is that of the arrays' known values, its leaves are as they are given."""
    functions = case.functions(**captured)
    mask = None
    if functions.mask is not None:
        known = case.functions(**case.captured).mask
        mask = blocked(known, (2, case.heads[0], Q, K))
    return flex_attention(
        q, k, v, functions.score, mask, enable_gqa=case.heads[0] != case.heads[1], return_lse=True
    )


def by_formula(case: Case, q: Any, k: Any, v: Any, captured: dict[str, Any]) -> tuple[Any, Any]:
    return dense(q, k, v, *case.functions(**{x: jnp.asarray(y) for x, y in captured.items()}))


def cost(results: tuple[Any, Any]) -> Any:
    """A number of all results, but for the infinite logarithms."""
    out, lse = results
    seen = jnp.where(jnp.isfinite(lse), lse, 0)
    return jnp.sum(jnp.sin(out) * normal(*out.shape, seed=7)) + jnp.sum(jnp.cos(seen) * seen)


def floats(case: Case) -> dict[str, Any]:
    return {name: jnp.asarray(x) for name, x in case.captured.items() if x.dtype.kind == "f"}


@pytest.mark.sample(every=4)
@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize(
    ("name", "compiled"),
    [*[(name, True) for name in CASES], ("alibi", False), ("plain", False), ("relative", False)],
)
def test_results_and_gradients_are_those_of_the_formula(name: str, compiled: bool) -> None:
    case = CASES[name]

    def both(way: Any, compiled: bool = True) -> Any:
        def run(q: Any, k: Any, v: Any, learned: Any) -> Any:
            return way(case, q, k, v, {**case.captured, **learned})

        def loss(*given: Any) -> Any:
            return cost(run(*given))

        f = lambda *given: (run(*given), jax.grad(loss, (0, 1, 2, 3))(*given))  # noqa: E731
        return (jax.jit(f) if compiled else f)(*inputs(case), floats(case))

    found, wanted = both(attended, compiled), both(by_formula)
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)


def of_gradients(name: str, way: Any, derivative: Any) -> Any:
    """A derivative of a number that is made of all gradients."""
    case = CASES[name]

    def loss(*given: Any) -> Any:
        return cost(way(case, *given[:3], {**case.captured, **given[3]}))

    def norm(*given: Any) -> Any:
        found = jax.tree.leaves(jax.grad(loss, (0, 1, 2, 3))(*given))
        return sum(jnp.sum(jnp.sin(x) * normal(*x.shape, seed=9)) for x in found)

    return jax.jit(lambda *given: derivative(norm, given))(*inputs(case), floats(case))


def backwards(f: Any, given: Any) -> Any:
    return jax.grad(f, (0, 1, 2, 3))(*given)


def forwards(f: Any, given: Any) -> Any:
    return jax.jvp(f, given, jax.tree.map(jnp.cos, given))


@pytest.mark.sample(every=2)
@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize(
    ("name", "derivative"),
    [
        pytest.param("capped", backwards, marks=pytest.mark.exhaustive),
        pytest.param("document", backwards, marks=pytest.mark.exhaustive),
        ("left out", backwards),
        pytest.param("nothing", backwards, marks=pytest.mark.exhaustive),
        ("relative", backwards),
        ("left out", forwards),
        ("relative", forwards),
    ],
)
def test_derivatives_of_gradients_are_those_of_the_formula(name: str, derivative: Any) -> None:
    found, wanted = (of_gradients(name, way, derivative) for way in (attended, by_formula))
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.exhaustive
@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("mode", [jax.jacfwd, jax.jacrev])
def test_third_derivatives_are_those_of_the_formula(mode: Any) -> None:
    case = CASES["alibi"]
    q, k, v = inputs(case)

    def third(way: Any) -> Any:
        f = lambda slopes: cost(way(case, q, k, v, {"slopes": slopes}))  # noqa: E731
        return jax.jit(mode(mode(jax.grad(f))))(case.captured["slopes"])

    np.testing.assert_allclose(third(attended), third(by_formula), rtol=1e-9, atol=1e-9)


def test_forward_mode_is_refused() -> None:
    x = normal(1, 1, 4, 2, dtype="float32")
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(lambda x: flex_attention(x, x, x), (x,), (x,))


@pytest.mark.exhaustive
@pytest.mark.usefixtures("wide")
def test_mapping_over_arrays_is_a_loop_over_them() -> None:
    case = CASES["alibi"]
    q, k, v = inputs(case)
    queries = jnp.stack([q, 2 * q, q + 1])
    slopes = jnp.array([[0.5, 0.1], [0.0, 1.0], [2.0, -0.3]])

    def f(q: Any, slopes: Any) -> Any:
        return attended(case, q, k, v, {"slopes": slopes})

    def gradient(q: Any, slopes: Any) -> Any:
        return jax.grad(lambda *given: cost(f(*given)), (0, 1))(q, slopes)

    for function in map(jax.jit, (f, gradient)):
        found = jax.vmap(function)(queries, slopes)
        wanted = jax.tree.map(
            lambda *rows: jnp.stack(rows),
            *(function(*row) for row in zip(queries, slopes, strict=True)),
        )
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.usefixtures("wide")
def test_mapping_over_masks_is_a_loop_over_them() -> None:
    q, k, v = inputs(CASES["document"])
    layouts = np.stack([IDS, IDS[::-1], np.arange(K) // 7])
    masks = [blocked(document(ids).mask, (1, 1, Q, K)) for ids in layouts]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *masks)

    def loss(q: Any, mask: Any) -> Any:
        return cost(flex_attention(q, k, v, block_mask=mask, return_lse=True))

    found = jax.jit(jax.vmap(jax.value_and_grad(loss), (None, 0)))(q, stacked)
    for i, ids in enumerate(layouts):
        keep = document(jnp.asarray(ids))
        wanted = jax.jit(jax.value_and_grad(lambda q, keep=keep: cost(dense(q, k, v, *keep))))(q)
        np.testing.assert_allclose(found[0][i], wanted[0], rtol=1e-12)
        np.testing.assert_allclose(found[1][i], wanted[1], rtol=1e-11, atol=1e-12)


@pytest.mark.usefixtures("wide")
def test_masks_of_each_batch_and_head_are_their_own() -> None:
    q, k, v = inputs(Case(plain, heads=(4, 2)))
    widths = np.array([[3, 9, 1, 40], [5, 2, 30, 7]])
    of_both = lambda b, h, i, j: abs(i - j) < jnp.asarray(widths)[b, h]  # noqa: E731
    of_heads = lambda b, h, i, j: abs(i - j) < jnp.asarray(widths)[0, h]  # noqa: E731
    for mask, shape in ((of_both, (2, 4, Q, K)), (of_heads, (1, 4, Q, K))):
        block_mask = blocked(mask, shape)
        found = flex_attention(q, k, v, None, block_mask, enable_gqa=True)
        np.testing.assert_allclose(found, dense(q, k, v, None, mask)[0], rtol=1e-12, atol=1e-13)


@pytest.mark.usefixtures("wide")
def test_scans_over_layers_and_checkpoints_keep_gradients() -> None:
    x = normal(2, 2, K, 4)
    weights = normal(3, 4, 4, seed=3) * 0.5
    mask = blocked(document(IDS).mask, (1, 1, K, K))
    keep = document(jnp.asarray(IDS)).mask

    def loss(weights: Any, attention: Any, mask: Any) -> Any:
        def layer(x: Any, w: Any) -> tuple[Any, None]:
            return x + attention(x @ w, x, x, mask), None

        return cost((jax.lax.scan(jax.checkpoint(layer), x, weights)[0], jnp.zeros(())))

    def by_graphc(q: Any, k: Any, v: Any, mask: Any) -> Any:
        return flex_attention(q, k, v, block_mask=mask)

    found = jax.jit(jax.grad(lambda w, mask: loss(w, by_graphc, mask)))(weights, mask)
    wanted = jax.jit(
        jax.grad(lambda w: loss(w, lambda q, k, v, _: dense(q, k, v, None, keep)[0], None))
    )(weights)
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.sample(every=6)
@pytest.mark.parametrize("setting", [False, True], ids=["x32", "x64"])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float16", 4e-3), ("bfloat16", 3e-2), ("float32", 3e-6)]
)
def test_scores_of_narrow_dtypes_are_float32(dtype: str, tolerance: float, setting: bool) -> None:
    case = CASES["alibi"]
    with jax.enable_x64(setting):
        q, k, v = inputs(case, dtype)
        slopes = jnp.asarray(case.captured["slopes"], "float32")

        def results(q: Any, k: Any, v: Any, slopes: Any) -> Any:
            def score(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
                assert s.dtype == "float32"
                assert all(x.dtype == "int32" for x in (b, h, i, j))
                return s + slopes[h] * (j - i)

            mask = blocked(causal().mask, (1, 1, Q, K))
            return flex_attention(q, k, v, score, mask, return_lse=True)

        out, lse = jax.jit(results)(q, k, v, slopes)
        slope = jax.grad(lambda *given: _weighed(*results(*given)), (0, 1, 2, 3))
        found = jax.jit(slope)(q, k, v, slopes)
    assert out.dtype == dtype
    assert lse.dtype == "float32"
    assert [x.dtype for x in found] == [dtype] * 3 + [np.float32]
    with jax.enable_x64(True):
        exact = [jnp.asarray(x, "float64") for x in (q, k, v, slopes)]

        def formula(q: Any, k: Any, v: Any, slopes: Any) -> Any:
            return dense(q, k, v, *alibi(slopes))

        slope = jax.grad(lambda *given: _weighed(*formula(*given)), (0, 1, 2, 3))
        wanted = jax.jit(slope)(*exact)
        pairs = zip((out, lse, *found), (*formula(*exact), *wanted), strict=True)
    for a, b in pairs:
        error = np.abs(np.asarray(a, "float64") - np.asarray(b)).max()
        assert error <= tolerance * np.abs(np.asarray(b)).max()


def _weighed(out: Any, lse: Any) -> Any:
    weights = np.cos(np.arange(out.size)).reshape(out.shape).astype("float32")
    return jnp.sum(out.astype(lse.dtype) * weights) + jnp.sum(lse)


def test_captured_arrays_may_be_of_numpy_and_marked_numbers() -> None:
    x = normal(1, 2, 9, 4, dtype="float32")
    slopes, width = np.array([0.5, 0.25]), runtime(3)
    tau = runtime(np.float32(0.5))

    def score(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return s * tau - slopes[h] * abs(i - j)

    def mask(b: Any, h: Any, i: Any, j: Any) -> Any:
        return i - j < width

    found = flex_attention(x, x, x, score, blocked(mask, (1, 1, 9, 9), (4, 4)))
    broad = lambda s, b, h, i, j: s * 0.5 - jnp.asarray(slopes)[h] * abs(i - j)  # noqa: E731
    wanted, _ = dense(x, x, x, broad, lambda b, h, i, j: i - j < 3)
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-6)


def test_captured_random_keys_are_leaves() -> None:
    x = normal(1, 1, 16, 4, dtype="float32")
    key = jax.random.key(3)

    def dropped(key: Any) -> Any:
        def score(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
            here = jax.random.fold_in(jax.random.fold_in(key, i), j)
            return jnp.where(jax.random.bernoulli(here, 0.3), -jnp.inf, s)

        return score

    found = flex_attention(x, x, x, dropped(key))

    def is_dropped(i: Any, j: Any) -> Any:
        return jax.random.bernoulli(jax.random.fold_in(jax.random.fold_in(key, i), j), 0.3)

    i = jnp.arange(16)
    drawn = np.asarray(jax.jit(jax.vmap(jax.vmap(is_dropped, (None, 0)), (0, None)))(i, i))
    wanted, _ = dense(x, x, x, lambda s, *_: jnp.where(drawn, -jnp.inf, s))
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-6)
    gradient = jax.jit(jax.grad(lambda x: flex_attention(x, x, x, dropped(key)).sum()))(x)
    assert np.isfinite(gradient).all()


def test_64_bit_numbers_within_functions_keep_their_digits() -> None:
    """Slices and random keys, whose graphs compute int64 and uint64 from captured arrays."""
    x, bias = normal(1, 1, 16, 4, dtype="float32"), normal(17, 19, dtype="float32")
    key = jax.random.key(7)

    def score(bias: Any) -> Callable[..., Any]:
        def scored(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
            window = lax.dynamic_slice(bias, (i, j), (2, 3)).sum()
            return s + window + jax.random.uniform(jax.random.fold_in(key, j), (), jnp.float32)

        return scored

    noise = [float(jax.random.uniform(jax.random.fold_in(key, j), ())) for j in range(16)]

    def windows(bias: Any) -> Any:
        return sum(bias[a : a + 16, b : b + 16] for a in range(2) for b in range(3))

    def loss(bias: Any) -> Any:
        y, _ = dense(x, x, x, lambda s, *_: s + windows(bias) + jnp.array(noise))
        return (y**2).sum()

    with jax.enable_x64(False):
        own = jax.value_and_grad(lambda bias: (flex_attention(x, x, x, score(bias)) ** 2).sum())
        found, gradient = jax.jit(own)(bias)
        value, slope = jax.jit(jax.value_and_grad(loss))(bias)
        np.testing.assert_allclose(found, value, rtol=1e-5)
        np.testing.assert_allclose(gradient, slope, rtol=1e-4, atol=1e-5)
        mask = create_block_mask(
            lambda b, h, i, j: lax.dynamic_slice(bias, (i, j), (1, 2)).sum() > 0,
            None,
            None,
            16,
            16,
            8,
        )
        y = flex_attention(x, x, x, block_mask=mask)
        keep = bias[:16, :16] + bias[:16, 1:17] > 0
        wanted, _ = dense(x, x, x, None, lambda b, h, i, j: keep)
        np.testing.assert_allclose(y, wanted, rtol=2e-6, atol=1e-6)


def test_captured_numbers_of_a_function_that_is_differentiated_have_gradients() -> None:
    x = normal(1, 1, 9, 4, dtype="float32")

    def loss(tau: Any, attention: Any) -> Any:
        return (attention(x, x, x, lambda s, b, h, i, j: s * tau) * x).sum()

    found = jax.jit(jax.grad(lambda tau: loss(tau, flex_attention)))(0.5)
    wanted = jax.jit(jax.grad(lambda tau: loss(tau, lambda *given: dense(*given)[0])))(0.5)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_queries_that_see_nothing_give_zeros_and_no_gradient() -> None:
    x = normal(1, 1, 12, 4, dtype="float32")
    mask = blocked(lambda b, h, i, j: (i >= j) & (i > 4), (1, 1, 12, 12), (4, 4))

    def loss(q: Any, k: Any, v: Any) -> Any:
        out, lse = flex_attention(q, k, v, None, mask, return_lse=True)
        return out.sum() + jnp.where(jnp.isfinite(lse), lse, 0).sum() + lse[0, 0, 7]

    out, lse = flex_attention(x, x, x, None, mask, return_lse=True)
    np.testing.assert_array_equal(out[0, 0, :5], 0)
    np.testing.assert_array_equal(lse[0, 0, :5], -np.inf)
    found = jax.jit(jax.grad(loss, (0, 1, 2)))(x, x, x)
    np.testing.assert_array_equal(found[0][0, 0, :5], 0)
    assert all(np.isfinite(g).all() for g in found)
    # Even if such a row's logarithm is differentiated.
    everything = jax.grad(lambda q: flex_attention(q, x, x, None, mask, return_lse=True)[1].sum())
    assert np.isfinite(everything(x)).all()


def test_what_is_not_a_number_stays_in_its_row() -> None:
    x = normal(1, 1, 12, 4, dtype="float32")
    mask = blocked(lambda b, h, i, j: i >= j, (1, 1, 12, 12), (4, 4))
    q = x.at[0, 0, 5, 1].set(jnp.nan)
    for of_mask in (mask, None):
        out, lse = flex_attention(q, x, x, None, of_mask, return_lse=True)
        assert np.isnan(lse[0, 0]).tolist() == [i == 5 for i in range(12)]
        assert np.isnan(out[0, 0]).all(-1).tolist() == [i == 5 for i in range(12)]
        by_q = jax.jit(jax.grad(lambda q, mask=of_mask: flex_attention(q, x, x, None, mask).sum()))(
            q
        )
        assert np.isnan(by_q[0, 0]).any(-1).tolist() == [i == 5 for i in range(12)]


@pytest.mark.parametrize("lengths", [(0, 1, 4, 4), (1, 0, 4, 4), (1, 1, 0, 4), (1, 1, 4, 0)])
def test_no_elements_are_no_trouble(lengths: tuple[int, int, int, int]) -> None:
    b, h, queries, keys = lengths
    q, k = jnp.ones((b, h, queries, 3)), jnp.ones((b, h, keys, 3))
    out, lse = flex_attention(q, k, k, return_lse=True)
    np.testing.assert_array_equal(out, np.zeros((b, h, queries, 3)))
    np.testing.assert_array_equal(lse, np.full((b, h, queries), -np.inf))
    gradient = jax.jit(jax.grad(lambda k: flex_attention(q, k, k).sum()))(k)
    np.testing.assert_array_equal(gradient, np.zeros(k.shape))


@pytest.mark.sample(every=3)
@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("dims", [(0, 3), (4, 0), (1, 1)])
def test_last_axes_may_be_of_any_length(dims: tuple[int, int]) -> None:
    q, k = normal(1, 2, 5, dims[0]), normal(1, 2, 7, dims[0], seed=1)
    v = normal(1, 2, 7, dims[1], seed=2)
    found = flex_attention(q, k, v, scale=0.5, return_lse=True)
    for a, b in zip(found, dense(q, k, v, scale=0.5), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    own = jax.grad(lambda q: cost(flex_attention(q, k, v, return_lse=True, scale=0.5)))
    by_formula = jax.grad(lambda q: cost(dense(q, k, v, scale=0.5)))
    gradient, wanted = jax.jit(own)(q), jax.jit(by_formula)(q)
    np.testing.assert_allclose(gradient, wanted, rtol=1e-10, atol=1e-12)


def test_what_a_gradient_keeps_is_linear_in_the_length() -> None:
    n = 256
    x = normal(1, 2, n, 4, dtype="float32")
    slopes = jnp.array([0.5, 0.25])
    mask = blocked(causal().mask, (1, 1, n, n), (64, 64))

    def f(q: Any, k: Any, v: Any, slopes: Any) -> Any:
        return flex_attention(q, k, v, alibi(slopes).score, mask)

    _, pull = jax.vjp(f, x, x, x, slopes)
    kept = jax.tree.leaves(pull)
    assert kept
    assert max(leaf.size for leaf in kept) == x.size


@pytest.mark.usefixtures("wide")
def test_gradients_by_arrays_of_the_mask_alone_are_zero() -> None:
    x = normal(1, 1, 9, 2)

    def loss(limit: Any, x: Any) -> Any:
        mask = blocked(lambda b, h, i, j: i - j < limits[i], (1, 1, 9, 9), (4, 4))
        *tables, _ = jax.tree.leaves(mask)
        mask = jax.tree.unflatten(jax.tree.structure(mask), [*tables, limit])
        return flex_attention(x, x, x, None, mask).sum()

    limits = np.linspace(1.0, 4.0, 9)
    found = jax.jit(jax.grad(loss))(jnp.asarray(limits), x)
    np.testing.assert_array_equal(found, np.zeros(9))


@jax.custom_jvp
def _tripled(x: Any) -> Any:
    return jnp.sin(x)


@_tripled.defjvp
def _tripled_jvp(primals: Any, tangents: Any) -> Any:
    return _tripled(*primals), 3 * tangents[0]


@jax.custom_vjp
def _sevenfold(x: Any) -> Any:
    return jnp.sin(x)


_sevenfold.defvjp(lambda x: (_sevenfold(x), x), lambda x, g: (7 * g * x,))

DERIVATIVES: dict[str, Callable[..., Any]] = {
    "barriers": lambda s, t, i, j: s * lax.stop_gradient(t[i]) + lax.stop_gradient(s) * t[j],
    "a jvp": lambda s, t, i, j: _tripled(s) + t[i],
    "a vjp": lambda s, t, i, j: _sevenfold(s) * t[j],
    "integers": lambda s, t, i, j: s * t[j] + (i - j) // 5,
    "relu": lambda s, t, i, j: jax.nn.relu(s) * t[i],
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_the_derivative_of_a_score_is_the_one_that_its_functions_define(name: str) -> None:
    score, n, width = DERIVATIVES[name], 12, 8
    rng = np.random.default_rng(0)
    q, k, v = (jnp.asarray(rng.standard_normal((1, 2, n, width)), "float32") for _ in range(3))
    t = jnp.asarray(rng.standard_normal(n), "float32")

    def ours(q: Any, k: Any, v: Any, t: Any) -> Any:
        return (flex_attention(q, k, v, lambda s, b, h, i, j: score(s, t, i, j)) ** 2).sum()

    def whole(q: Any, k: Any, v: Any, t: Any) -> Any:
        scores = jnp.einsum("bhqe,bhke->bhqk", q, k) / np.sqrt(width)
        of_row = jax.vmap(lambda s, i, j: score(s, t, i, j), (0, None, 0))
        of_head = jax.vmap(of_row, (0, 0, None))
        of_all = jax.vmap(jax.vmap(lambda s: of_head(s, jnp.arange(n), jnp.arange(n))))
        return ((jax.nn.softmax(of_all(scores), -1) @ v) ** 2).sum()

    found = jax.jit(jax.value_and_grad(ours, (0, 1, 2, 3)))(q, k, v, t)
    expected = jax.jit(jax.value_and_grad(whole, (0, 1, 2, 3)))(q, k, v, t)
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(x, y, 1e-4, 1e-4)
