"""Attention and all its gradients equal the dense formulas in float64, wherever it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.attention as ga
import graphc.tensor as gt
from graphc.link import as_numpy
from tests.attention import reference
from tests.attention.examples import Example, Functions
from tests.attention.worlds import GRAPHS, TABLES, WORLDS, Given, answers, in_worlds, static
from tests.contract.tolerance import TOLERANCES
from tests.modes import dtype_of, uncompiled

pytestmark = pytest.mark.gpu

QUERIES, KEYS = 21, 18

RANDOM = np.random.default_rng(5)
BIAS = RANDOM.standard_normal((4, QUERIES, KEYS))
SLOPES = np.array([0.5, -0.2, 0.05, 1.5])
ROWS = np.array([2.0, -1.0, 0.5])
GROUPS = RANDOM.integers(0, 3, QUERIES).astype(np.int32)
PLACES = np.arange(KEYS) - np.arange(QUERIES)[:, None]
"""How far each key is behind its query."""


@dataclass(frozen=True)
class Case:
    """A use of attention, and what the dense formulas say of it.

    Attributes:
        example: The use.
        options: Those of ``reference.forward``.
        gradients: Of the captured arrays by name, from the derivatives by scores and their factors.
    """

    example: Example
    options: dict[str, Any] = field(default_factory=dict)
    gradients: dict[str, Callable[[reference.Gradients], Any]] = field(default_factory=dict)


def case(functions: Callable[..., Functions], captured: Any = None, **rest: Any) -> Case:
    options, gradients = rest.pop("options", {}), rest.pop("gradients", {})
    sizes = {"heads": (4, 2), "lengths": (QUERIES, KEYS), "block": (8, 4), **rest}
    return Case(Example(functions, captured or {}, **sizes), options, gradients)


def _by_row(library: Any, rows: Any, groups: Any) -> Functions:
    """One array is captured by both functions, and twice by one."""

    def score(s: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        return s * rows[groups[q]] + rows[groups[q]] ** 2

    return Functions(lambda b, h, q, k: (groups[q] != 1) | (k < 7), score)


def _of_row(g: reference.Gradients) -> np.ndarray:
    sums = np.bincount(GROUPS, g.times.sum((0, 1, 3)), 3)
    return sums + 2 * ROWS * np.bincount(GROUPS, g.final.sum((0, 1, 3)), 3)


CASES: dict[str, Case] = {
    "plain": case(lambda library: Functions()),
    "scale": case(lambda library: Functions(), scale=0.2, options={"scale": 0.2}),
    "a negative scale": case(lambda library: Functions(), scale=-1.3, options={"scale": -1.3}),
    "mask": case(
        lambda library: Functions(lambda b, h, q, k: q + k < 20),
        options={"mask": np.arange(QUERIES)[:, None] + np.arange(KEYS) < 20},
    ),
    "bias of everything": case(
        lambda library, bias: Functions(score=lambda s, b, h, q, k: s + bias[h, q, k]),
        {"bias": BIAS},
        options={"plus": BIAS},
        gradients={"bias": lambda g: g.final.sum(0)},
    ),
    "bias of each query": case(
        lambda library, bias: Functions(
            lambda b, h, q, k: k <= q, lambda s, b, h, q, k: s + bias[q] * k
        ),
        {"bias": BIAS[0, :, 0]},
        options={"mask": PLACES <= 0, "plus": BIAS[0, :, :1] * np.arange(KEYS)},
        gradients={"bias": lambda g: (g.final * np.arange(KEYS)).sum((0, 1, 3))},
    ),
    "slopes": case(
        lambda library, slopes: Functions(score=lambda s, b, h, q, k: s + slopes[h] * (k - q)),
        {"slopes": SLOPES},
        options={"plus": SLOPES[:, None, None] * PLACES},
        gradients={"slopes": lambda g: (g.final * PLACES).sum((0, 2, 3))},
    ),
    "a scalar factor": case(
        lambda library, factor: Functions(score=lambda s, b, h, q, k: s * factor),
        {"factor": np.array(0.7)},
        options={"times": 0.7},
        gradients={"factor": lambda g: g.times.sum()},
    ),
    "factors and squares": case(
        _by_row,
        {"rows": ROWS, "groups": GROUPS},
        options={
            "mask": (GROUPS != 1)[:, None] | (np.arange(KEYS) < 7),
            "times": ROWS[GROUPS][:, None],
            "plus": ROWS[GROUPS][:, None] ** 2,
        },
        gradients={"rows": _of_row},
    ),
    "capped": case(
        lambda library: Functions(
            lambda b, h, q, k: (k - q) % 3 != 0, lambda s, b, h, q, k: 0.8 * library.tanh(s / 0.8)
        ),
        options={"cap": 0.8, "mask": PLACES % 3 != 0},
    ),
    "masks of sequences": case(
        lambda library, lengths: Functions(lambda b, h, q, k: k < lengths[b]),
        {"lengths": np.array([5, 18], np.int32)},
        mask_batch=2,
        options={"mask": np.arange(KEYS) < np.array([5, 18])[:, None, None, None]},
    ),
    "masks of heads": case(
        lambda library, widths: Functions(lambda b, h, q, k: abs(q - k) < widths[h]),
        {"widths": np.array([1, 2, 6, 30], np.int32)},
        mask_heads=4,
        options={"mask": abs(PLACES) < np.array([1, 2, 6, 30])[:, None, None]},
    ),
    "masks of both": case(
        lambda library, keep: Functions(lambda b, h, q, k: keep[b, h, k]),
        {"keep": BIAS[:2, :4] > 0},
        mask_batch=2,
        mask_heads=4,
        options={"mask": (BIAS[:2, :4] > 0)[:, :, None]},
    ),
    "rows of nothing": case(
        lambda library: Functions(lambda b, h, q, k: (q % 3 == 0) & (k > q)),
        options={"mask": (np.arange(QUERIES) % 3 == 0)[:, None] & (PLACES > 0)},
    ),
    "nothing at all": case(
        lambda library: Functions(lambda b, h, q, k: (q < 0) | (k > 99)),
        options={"mask": False},
    ),
    "everything": case(lambda library: Functions(ga.noop_mask)),
    "rows of scores that are minus infinity": case(
        lambda library, bias: Functions(
            score=lambda s, b, h, q, k: library.where(q < 9, s + bias[k], -float("inf"))
        ),
        {"bias": BIAS[0, 0]},
        options={"plus": np.where(np.arange(QUERIES) < 9, 0.0, -np.inf)[:, None] + BIAS[0, 0]},
        gradients={"bias": lambda g: g.final.sum((0, 1, 2))},
    ),
    "a head of its own for each": case(
        lambda library: Functions(lambda b, h, q, k: k >= h * 3),
        heads=(3, 3),
        mask_heads=3,
        options={"mask": np.arange(KEYS) >= 3 * np.arange(3)[:, None, None]},
    ),
    "one head of keys": case(
        lambda library: Functions(lambda b, h, q, k: q >= k),
        heads=(4, 1),
        options={"mask": PLACES <= 0},
    ),
    "one block": case(
        lambda library: Functions(lambda b, h, q, k: q >= k),
        block=64,
        options={"mask": PLACES <= 0},
    ),
    "blocks of one": case(
        lambda library: Functions(lambda b, h, q, k: q >= k),
        block=1,
        lengths=(6, 5),
        options={"mask": np.tri(6, 5, dtype=bool)},
    ),
    "one query": case(
        lambda library, length: Functions(lambda b, h, q, k: k < length[b]),
        {"length": np.array([4, 11], np.int32)},
        mask_batch=2,
        lengths=(1, KEYS),
        options={"mask": np.arange(KEYS) < np.array([4, 11])[:, None, None, None]},
    ),
    "one key": case(
        lambda library: Functions(lambda b, h, q, k: q > 2),
        lengths=(5, 1),
        options={"mask": (np.arange(5) > 2)[:, None]},
    ),
}


def given_of(example: Example, seed: int = 2) -> Given:
    sizes = (example.heads, example.lengths, (4, 3))
    return Given(*reference.problem(seed, example.batch, *sizes))


def expected_of(case: Case, given: Given) -> dict[str, np.ndarray]:
    y = reference.forward(*given[:3], **case.options)
    g = reference.backward(*given, **case.options)
    found = {"out": y.out, "lse": y.lse, "q": g.q, "k": g.k, "v": g.v}
    return found | {name: np.asarray(f(g)) for name, f in case.gradients.items()}


def check(found: dict[str, Any], expected: dict[str, Any], dtype: str = "float64") -> None:
    for name, value in expected.items():
        limit = TOLERANCES[dtype]
        scale = np.max(np.abs(value), where=np.isfinite(value), initial=0.0)
        assert found[name].shape == value.shape, name
        np.testing.assert_allclose(
            found[name].astype(np.float64), value, rtol=limit, atol=limit * scale, err_msg=name
        )


def check_blocks(found: dict[str, Any], case: Case) -> None:
    """Each block is full, partial or empty as the mask says."""
    example = case.example
    sizes = (example.batch, example.heads[0], *example.lengths)
    keep = np.broadcast_to(case.options.get("mask", True), sizes)
    keep = keep[: example.mask_batch or 1, : example.mask_heads or 1]
    block = example.block if isinstance(example.block, tuple) else (example.block,) * 2
    reference.check_tables([found[name] for name in TABLES], keep, block)


@pytest.mark.sample(every=6, rest=2)
@pytest.mark.parametrize(("name", "world"), in_worlds(CASES))
def test_results_gradients_and_blocks_are_those_of_dense_formulas(name: str, world: str) -> None:
    case = CASES[name]
    given = given_of(case.example)
    found = answers(world, case.example, given)
    check(found, expected_of(case, given))
    if TABLES[0] in found:
        check_blocks(found, case)


@pytest.mark.sample(every=6)
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", ["masks of sequences", "factors and squares", "masks of heads"])
def test_a_mask_of_known_numbers_is_as_one_of_inputs(name: str, world: str) -> None:
    case = CASES[name]
    given = given_of(case.example)
    check(answers(world, case.example, given, known=True), expected_of(case, given))


@pytest.mark.sample(every=3, rest=2)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", ["bias of each query", "rows of nothing"])
def test_narrow_numbers_are_computed_in_float32(name: str, world: str, dtype: str) -> None:
    case = CASES[name]
    captured = {name: x.astype("float32") for name, x in case.example.captured.items()}
    example = replace(case.example, captured=captured)
    given = given_of(example).astype(jnp.dtype(dtype))
    found = answers(world, example, given)
    dtypes = {name: dtype_of(x) for name, x in found.items() if name not in TABLES}
    wanted = {name: "float32" if name in (*captured, "lse") else dtype for name in dtypes}
    assert dtypes == wanted
    exact = Given(*(np.asarray(x, np.float64) for x in given))
    check(found, expected_of(case, exact), dtype)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("world", WORLDS)
def test_rows_that_keep_nothing_are_zero_and_have_no_gradient(world: str) -> None:
    given = given_of(CASES["nothing at all"].example)
    found = answers(world, CASES["nothing at all"].example, given)
    for name in ("out", "q", "k", "v"):
        np.testing.assert_array_equal(found[name], 0.0, err_msg=name)
    assert np.isneginf(found["lse"]).all()


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("world", WORLDS)
def test_scores_of_any_size_do_not_overflow(world: str) -> None:
    example = replace(CASES["mask"].example, scale=3e4)
    given = given_of(example)
    case = replace(CASES["mask"], example=example, options={**CASES["mask"].options, "scale": 3e4})
    check(answers(world, example, given), expected_of(case, given))


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("world", WORLDS)
def test_a_later_block_of_larger_scores_takes_over(world: str) -> None:
    """Sums so far are scaled down by exp(-700) and less, and nothing becomes infinite."""
    rise = np.linspace(0.0, 1400.0, KEYS)
    one = case(
        lambda library, rise: Functions(
            lambda b, h, q, k: k <= q, lambda s, b, h, q, k: s + rise[k]
        ),
        {"rise": rise},
        options={"mask": PLACES <= 0, "plus": rise},
        gradients={"rise": lambda g: g.final.sum((0, 1, 2))},
    )
    given = given_of(one.example)
    check(answers(world, one.example, given), expected_of(one, given))


def compiled(inputs: list[Any], outputs: Any, mode: str) -> Callable[..., Any]:
    return graphc.function(inputs, outputs, mode=uncompiled(mode), on_unused_input="ignore")


@pytest.mark.parametrize("mode", GRAPHS)
def test_without_a_mask_lengths_may_be_known_at_run_time_only(mode: str) -> None:
    q, k, v = (gt.tensor(dtype="float64", shape=(None,) * 4) for _ in range(3))
    slope = gt.scalar("slope")
    out, lse = ga.flex_attention(
        q, k, v, score_mod=lambda s, b, h, i, j: s + slope * (j - i), return_lse=True
    )
    wrt = [q, k, v, slope]
    run = compiled(wrt, [out, lse, *graphc.grad(out.sum(), wrt)], mode)
    for queries, keys in ((5, 7), (130, 3), (1, 1)):
        case = reference.problem(7, lengths=(queries, keys))
        plus = 0.1 * (np.arange(keys) - np.arange(queries)[:, None])
        y = reference.forward(*case[:3], plus=plus)
        g = reference.backward(*case[:3], np.ones_like(y.out), plus=plus)
        found = map(as_numpy, run(*case[:3], 0.1))
        slopes = (g.final * plus / 0.1).sum()
        for a, b in zip(found, (y.out, y.lse, g.q, g.k, g.v, slopes), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("mode", GRAPHS)
def test_the_mask_says_lengths_that_the_types_do_not(mode: str) -> None:
    q, k, v = (gt.tensor(dtype="float64", shape=(2, 2, None, 4)) for _ in range(3))
    mask = ga.create_block_mask(lambda b, h, i, j: i >= j, None, None, 7, 9, BLOCK_SIZE=4)
    out = ga.flex_attention(q, k, v, block_mask=mask)
    assert out.type.shape == (2, 2, 7, 4)
    case = reference.problem(dims=(4, 4))
    expected = reference.forward(*case[:3], mask=np.tri(7, 9, dtype=bool)).out
    found = as_numpy(compiled([q, k, v], out, mode)(*case[:3]))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("mode", GRAPHS)
def test_captured_expressions_pass_gradients_on(mode: str) -> None:
    """What is captured may be computed, also from the queries; all get their share."""
    q, k, v, g_out, _ = reference.problem(4)
    rates = np.array([-1.0, 0.5])
    operands = [*map(static, (q, k, v)), static(rates)]
    slopes = gt.exp(operands[3])
    means = operands[0].mean(3)
    out = ga.flex_attention(
        *operands[:3], score_mod=lambda s, b, h, i, j: s + slopes[h] * j + means[b, h, i] * j
    )
    run = compiled(operands, graphc.grad((g_out * out).sum(), operands), mode)
    by_q, by_k, by_v, by_rates = map(as_numpy, run(q, k, v, rates))
    keys = np.arange(9.0)
    plus = (np.exp(rates)[:, None, None] + q.mean(3)[..., None]) * keys
    g = reference.backward(q, k, v, g_out, plus=plus)
    near = {"rtol": 1e-11, "atol": 1e-12}
    by_means = (g.final * keys).sum(3)
    np.testing.assert_allclose(by_q, g.q + by_means[..., None] / 4, **near)
    np.testing.assert_allclose(by_k, g.k, **near)
    np.testing.assert_allclose(by_v, g.v, **near)
    by_slopes = (g.final * keys).sum((0, 2, 3))
    np.testing.assert_allclose(by_rates, by_slopes * np.exp(rates), **near)


@pytest.mark.parametrize("mode", GRAPHS)
@pytest.mark.parametrize("wanted", ["q", "k", "v", "bias", "lse by q", "lse by bias"])
def test_each_gradient_can_be_had_alone(mode: str, wanted: str) -> None:
    q, k, v, g_out, g_lse = reference.problem(6)
    bias = RANDOM.standard_normal(9)
    operands = dict(zip(("q", "k", "v", "bias"), map(static, (q, k, v, bias)), strict=True))
    shift = operands["bias"]
    out, lse = ga.flex_attention(
        *list(operands.values())[:3],
        score_mod=lambda s, b, h, i, j: s + shift[j],
        return_lse=True,
    )
    of_lse = wanted.startswith("lse")
    name = wanted.removeprefix("lse by ")
    cost = (g_lse * lse).sum() if of_lse else (g_out * out).sum()
    run = compiled([*operands.values()], graphc.grad(cost, operands[name]), mode)
    g = reference.backward(q, k, v, g_out * (not of_lse), g_lse * of_lse, plus=bias)
    expected = {"q": g.q, "k": g.k, "v": g.v, "bias": g.final.sum((0, 1, 2))}[name]
    np.testing.assert_allclose(as_numpy(run(q, k, v, bias)), expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("lengths", [(0, 5), (5, 0), (0, 0)])
@pytest.mark.parametrize("mask", [None, ga.noop_mask])
def test_lengths_may_be_zero(world: str, lengths: tuple[int, int], mask: Any) -> None:
    example = Example(lambda library: Functions(mask), heads=(2, 1), lengths=lengths)
    given = given_of(example)
    check(answers(world, example, given), expected_of(Case(example), given))


@pytest.mark.parametrize("mode", ["NUMPY", "JAX", "MLX"])
def test_unknown_lengths_may_be_zero(mode: str) -> None:
    """A query without keys has a result of zeros, and moves nothing."""
    q, k = (gt.tensor(shape=(1, 1, None, 4), dtype="float32") for _ in range(2))
    out = ga.flex_attention(q, k, k)
    f = graphc.function([q, k], [out, *graphc.grad(out.sum(), [q, k])], mode, returns="numpy")
    queries, no_keys = np.ones((1, 1, 3, 4), "float32"), np.ones((1, 1, 0, 4), "float32")
    for found, expected in zip(f(queries, no_keys), (queries, queries, no_keys), strict=True):
        np.testing.assert_array_equal(found, 0 * expected, strict=True)


class Seen(Exception):  # noqa: N818 (it carries what was seen)
    """What a function was called with."""


def show(*scalars: Any) -> Any:
    raise Seen([(x.dtype, x.ndim) for x in scalars])


def test_the_functions_are_those_of_scalars() -> None:
    """Each is called with scalars: int32 indices and a score of the dtype that is computed in."""
    q, k, v = (gt.tensor(dtype="bfloat16", shape=(1, 1, 6, 4)) for _ in range(3))
    index = ("int32", 0)
    with pytest.raises(Seen, check=lambda error: error.args == ([index] * 4,)):
        ga.create_block_mask(show, None, None, 6, 6)
    with pytest.raises(Seen, check=lambda error: error.args == ([("float32", 0), *[index] * 4],)):
        ga.flex_attention(q, k, v, score_mod=show)


def test_attention_of_jax_arrays_has_gradients_by_what_is_captured_under_jit() -> None:
    q, k, v, g_out, _ = (jnp.asarray(x, jnp.float32) for x in reference.problem(8))

    @jax.jit
    @jax.grad
    def by_bias(bias: Any) -> Any:
        out = ga.flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + bias[i, j])
        return (out * g_out).sum()

    bias = jnp.asarray(RANDOM.standard_normal((7, 9)), jnp.float32)
    exact = [np.asarray(x, np.float64) for x in (q, k, v, g_out)]
    expected = reference.backward(*exact, plus=np.asarray(bias, np.float64)).final.sum((0, 1))
    np.testing.assert_allclose(by_bias(bias), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("is_static", [True, False])
def test_keys_of_one_sequence_serve_queries_of_several(is_static: bool, mode: str) -> None:
    rng = np.random.default_rng(1)
    q, k, v = (rng.normal(size=s) for s in ((3, 2, 5, 4), (1, 2, 6, 4), (1, 2, 6, 7)))
    shapes: list[Any] = [(None,) * 4, (1, None, None, None), (1, None, None, None)]
    if is_static:
        shapes = [x.shape for x in (q, k, v)]
    xs = [gt.tensor(name, shape=shape) for name, shape in zip("qkv", shapes, strict=True)]
    full = [xs[0], *[gt.broadcast_to(x, (xs[0].shape[0], *x.shape[1:])) for x in xs[1:]]]
    outputs = []
    for operands in (xs, full):
        y = ga.flex_attention(*operands, lambda s, b, h, i, j: s + b * j)
        outputs += [y, *graphc.grad((y**2).sum(), xs)]
    got = graphc.function(xs, outputs, mode=uncompiled(mode), returns="numpy")(q, k, v)
    for a, b in zip(got[:4], got[4:], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    if mode == "JAX":
        y = ga.flex_attention(*map(jnp.asarray, (q, k, v)), lambda s, b, h, i, j: s + b * j)
        np.testing.assert_allclose(y, got[0], rtol=1e-4)


@pytest.mark.parametrize("mode", GRAPHS)
def test_functions_written_for_jax_are_graphs_on_every_backend(mode: str) -> None:
    n, dtype = 24, "float32" if mode == "MLX" else "float64"
    x = RANDOM.standard_normal((1, 2, n, 4)).astype(dtype)
    ids, bias = jnp.repeat(jnp.arange(4), 6), RANDOM.standard_normal((2, n)).astype(dtype)
    rows = gt.tensor("rows", shape=(None, n), dtype=dtype)

    def keep(b: Any, h: Any, q: Any, k: Any) -> Any:
        near = jax.lax.cond(h == 0, lambda: q - k, lambda: k - q) < 5
        return jnp.logical_and(jnp.take(ids, q) == ids[k], near)

    def score(s: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        return jnp.tanh(s) + jnp.take(rows, h, axis=0)[k]

    mask = ga.create_block_mask(keep, 1, 2, n, n, BLOCK_SIZE=6)
    q = gt.tensor("q", shape=x.shape, dtype=dtype)
    y = ga.flex_attention(q, q, q, score, mask)
    slopes = graphc.grad((y * y).sum(), [q, rows])
    found = graphc.function([q, rows], [y, *slopes], mode=uncompiled(mode))(x, bias)

    def by_hand(x: Any, bias: Any) -> Any:
        i, j = jnp.arange(n)[:, None], jnp.arange(n)
        near = jnp.stack([i - j < 5, j - i < 5])
        scores = jnp.tanh(jnp.einsum("bhqe,bhke->bhqk", x, x) / 2) + bias[:, None]
        weights = jax.nn.softmax(jnp.where(near & (ids[i] == ids[j]), scores, -jnp.inf), -1)
        return jnp.einsum("bhqk,bhke->bhqe", weights, x)

    with jax.enable_x64(True):
        exact = jnp.asarray(x, "float64"), jnp.asarray(bias, "float64")
        wanted = by_hand(*exact), *jax.grad(lambda *at: (by_hand(*at) ** 2).sum(), (0, 1))(*exact)
    for a, b in zip(found, wanted, strict=True):
        limit = 10 * TOLERANCES[dtype]
        np.testing.assert_allclose(as_numpy(a), b, limit, limit)


BARRIERS: dict[str, Any] = {
    "none": graphc.disconnected_grad,
    "zero": graphc.zero_grad,
    "clipped": lambda s: graphc.grad_clip(s, -0.1, 0.2),
    "scaled": lambda s: graphc.grad_scale(s, 0.3),
}


@pytest.mark.parametrize("name", BARRIERS)
def test_barriers_to_gradients_hold_in_scores_on_every_backend(name: str) -> None:
    arrays = [np.random.default_rng(i).standard_normal((1, 2, 12, 8)) for i in range(3)]
    q, k, v = (gt.tensor(each, shape=(1, 2, 12, 8)) for each in "qkv")
    y = ga.flex_attention(q, k, v, lambda s, b, h, i, j: s * BARRIERS[name](s))
    slope = graphc.grad((y**2).sum(), q)
    expected = graphc.function([q, k, v], slope, "NUMPY")(*arrays)
    for mode in ("JAX", "MLX"):
        found = graphc.function([q, k, v], slope, mode)(*arrays)
        np.testing.assert_allclose(found, expected, 1e-9, 1e-11)
