"""Attention in batches, loops and derivatives of any order, and with parts replaced or shared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.attention as ga
import graphc.tensor as gt
from graphc.link import as_numpy
from tests.attention import reference
from tests.attention.worlds import GRAPHS, static
from tests.modes import uncompiled

QUERIES, KEYS, BLOCK = 6, 7, (3, 4)

Q, K, V, G, GL = reference.problem(11, 1, (2, 1), (QUERIES, KEYS), (3, 2))
BIAS = np.cos(np.arange(2.0 * KEYS)).reshape(2, KEYS)
DOCUMENTS = np.array([0, 0, 0, 1, 1, 2, 2], np.int32)
FIRST = np.arange(QUERIES)[:, None] > 0
"""The first query sees nothing."""


def keep_of(documents: np.ndarray) -> np.ndarray:
    return (documents[:QUERIES, None] != documents) & FIRST


def mask_of(documents: Any, batch: int | None = None) -> ga.BlockMask:
    def mask(b: Any, h: Any, q: Any, k: Any) -> Any:
        return (documents[q] != documents[k]) & (q > 0)

    return ga.create_block_mask(mask, batch, None, QUERIES, KEYS, BLOCK_SIZE=BLOCK)


def attention(q: Any, k: Any, v: Any, bias: Any, documents: Any = DOCUMENTS) -> Any:
    """Results and logarithms; scores are curved, so that second derivatives are not zero."""
    return ga.flex_attention(
        q,
        k,
        v,
        score_mod=lambda s, b, h, i, j: s + s * bias[h, j],
        block_mask=mask_of(documents),
        enable_gqa=True,
        return_lse=True,
    )


def options_of(bias: Any, documents: Any = DOCUMENTS) -> dict[str, Any]:
    return {"mask": keep_of(documents), "times": 1 + np.asarray(bias)[:, None]}


def exact(q: Any, k: Any, v: Any, bias: Any, documents: Any = DOCUMENTS) -> reference.Result:
    return reference.forward(q, k, v, **options_of(bias, documents))


def slopes(*values: Any, documents: Any = DOCUMENTS) -> list[np.ndarray]:
    """The gradients by queries, keys, values and bias, given these and perhaps both cotangents."""
    q, k, v, bias, g, g_lse = values if len(values) == 6 else (*values, G, GL)
    found = reference.backward(q, k, v, g, g_lse, **options_of(bias, documents))
    return [found.q, found.k, found.v, found.times.sum((0, 2))]


def operands() -> list[Any]:
    return [static(x) for x in (Q, K, V, BIAS)]


def cost_of(out: Any, lse: Any, g: Any = G, g_lse: Any = GL) -> Any:
    return (out * g).sum() + gt.where(gt.isfinite(lse), lse * g_lse, 0.0).sum()


def compiled(inputs: list[Any], outputs: Any, mode: str, **options: Any) -> Callable[..., Any]:
    options = {"on_unused_input": "ignore", **options}
    return graphc.function(inputs, outputs, mode=uncompiled(mode), **options)


def near(found: Any, expected: Any, rtol: float = 1e-10) -> None:
    found, expected = as_numpy(found), np.asarray(expected)
    assert found.shape == expected.shape
    scale = np.max(np.abs(expected), where=np.isfinite(expected), initial=0.0)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * scale)


NUMERIC = 1e-7
"""Relative: what differences of fourth order are right to, at steps of 2**-13."""


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("mode", GRAPHS)
def test_a_batch_of_attentions_is_each_of_them(mode: str) -> None:
    """Queries and biases along one axis, keys along another, values the same for all."""
    random = np.random.default_rng(1)
    qs = random.standard_normal((3, 1, *Q.shape))
    ks = random.standard_normal((2, *K.shape))
    biases = random.standard_normal((3, 1, *BIAS.shape))
    q, k, v, bias = operands()
    out, lse = attention(q, k, v, bias)
    inputs = [static(qs), static(ks), v, static(biases)]
    swaps = {q: inputs[0], k: inputs[1], bias: inputs[3]}
    by_q, by_bias = graphc.grad(cost_of(out, lse), [q, bias])
    ys = graphc.vectorize_graph([out, lse, by_q, by_bias], swaps)
    found = compiled(inputs, ys, mode)(qs, ks, V, biases)
    for i, j in np.ndindex(3, 2):
        y = exact(qs[i, 0], ks[j], V, biases[i, 0])
        g = slopes(qs[i, 0], ks[j], V, biases[i, 0])
        for a, b in zip(found, (y.out, y.lse, g[0], g[3]), strict=True):
            near(as_numpy(a)[i, j], b)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("mode", GRAPHS)
def test_a_batch_of_masks_is_each_of_them(mode: str) -> None:
    """What the mask captures has an axis in front, and so have the tables made of it."""
    every = np.sort(np.random.default_rng(2).integers(0, 4, (5, KEYS)), 1).astype(np.int32)
    q, k, v, bias = operands()
    documents = static(DOCUMENTS)
    out, lse = attention(q, k, v, bias, documents)
    gradients = graphc.grad(cost_of(out, lse), [q, k, v, bias])
    batch = static(every)
    ys = graphc.vectorize_graph([out, lse, *gradients], {documents: batch})
    found = compiled([q, k, v, bias, batch], ys, mode)(Q, K, V, BIAS, every)
    for i, documents in enumerate(every):
        y = exact(Q, K, V, BIAS, documents)
        expected = (y.out, y.lse, *slopes(Q, K, V, BIAS, documents=documents))
        for a, b in zip(found, expected, strict=True):
            near(as_numpy(a)[i], b)


@pytest.mark.parametrize("mode", GRAPHS)
def test_single_sequences_and_heads_are_vectorised_by_a_signature(mode: str) -> None:
    """Attention of one sequence and one head, for batches and heads in front."""
    q, k, v, *_ = reference.problem(4, 3, (2, 2), (QUERIES, KEYS), (3, 2))

    @graphc.vectorize(signature="(q,e),(k,e),(k,v)->(q,v)")
    def one(q: Any, k: Any, v: Any) -> Any:
        block_mask = mask_of(DOCUMENTS)
        return ga.flex_attention(q[None, None], k[None, None], v[None, None], None, block_mask)[
            0, 0
        ]

    inputs = [static(x) for x in (q, k, v)]
    found = compiled(inputs, one(*inputs), mode)(q, k, v)
    near(found, reference.forward(q, k, v, mask=keep_of(DOCUMENTS)).out)


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("mode", GRAPHS)
@pytest.mark.parametrize("place", range(4))
def test_jacobians_have_the_gradient_of_each_element(mode: str, place: int) -> None:
    inputs = operands()
    out, lse = attention(*inputs)
    wrt = inputs[place]
    ys = [graphc.jacobian(out[:, :, 1:3], wrt), graphc.jacobian(lse[:, :, 1:3], wrt)]
    of_out, of_lse = map(as_numpy, compiled(inputs, ys, mode)(Q, K, V, BIAS))
    for at in np.ndindex(*of_out.shape[:4]):
        g = np.zeros_like(G)
        g[:, :, 1:3][at] = 1
        near(of_out[at], slopes(Q, K, V, BIAS, g, 0.0)[place])
    for at in np.ndindex(*of_lse.shape[:3]):
        g = np.zeros_like(GL)
        g[:, :, 1:3][at] = 1
        near(of_lse[at], slopes(Q, K, V, BIAS, 0 * G, g)[place])


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("mode", GRAPHS)
def test_derivatives_of_gradients_are_those_of_differences(mode: str) -> None:
    """The gradient of weighted gradients, by each of the four and the weights of the results."""
    inputs = [*operands(), static(G), static(GL)]
    values = (Q, K, V, BIAS, G, GL)
    random = np.random.default_rng(7)
    weights = [random.standard_normal(x.shape) for x in values[:4]]
    first = graphc.grad(cost_of(*attention(*inputs[:4]), *inputs[4:]), inputs[:4])
    total = sum((w * g).sum() for w, g in zip(weights, first, strict=True))
    found = compiled(inputs, graphc.grad(total, inputs), mode)(*values)

    def sum_of(place: int, x: np.ndarray) -> float:
        changed = [*values[:place], x, *values[place + 1 :]]
        first = slopes(*changed)
        return float(sum((w * g).sum() for w, g in zip(weights, first, strict=True)))

    for place, x in enumerate(values):
        expected = reference.numeric(lambda x: sum_of(place, x), x)  # noqa: B023
        near(found[place], expected, NUMERIC)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("mode", GRAPHS)
def test_hessians_by_a_captured_bias_are_those_of_differences(mode: str) -> None:
    inputs = operands()
    flat = gt.tensor(dtype="float64", shape=(BIAS.size,))
    out, lse = attention(*inputs[:3], flat.reshape(BIAS.shape))
    found = compiled([*inputs[:3], flat], graphc.hessian(cost_of(out, lse), flat), mode)
    expected = np.stack(
        [
            reference.numeric(lambda x: slopes(Q, K, V, x)[3].ravel()[i], BIAS).ravel()  # noqa: B023
            for i in range(BIAS.size)
        ]
    )
    near(found(Q, K, V, BIAS.ravel()), expected, NUMERIC)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("mode", GRAPHS)
def test_results_move_as_what_they_are_made_of(mode: str) -> None:
    """Forward mode: the derivative along tangents of all four, and of the gradients too."""
    inputs = operands()
    random = np.random.default_rng(9)
    tangents = [random.standard_normal(x.shape) for x in (Q, K, V, BIAS)]
    out, lse = attention(*inputs)
    by_q = graphc.grad(cost_of(out, lse), inputs[0])
    moved = graphc.pushforward([out, lse, by_q], inputs, [gt.as_tensor(t) for t in tangents])
    found = [as_numpy(x) for x in compiled(inputs, moved, mode)(Q, K, V, BIAS)]

    def along(t: float) -> tuple[np.ndarray, ...]:
        values = [x + t * d for x, d in zip((Q, K, V, BIAS), tangents, strict=True)]
        y = exact(*values)
        return y.out, np.where(np.isfinite(y.lse), y.lse, 0.0), slopes(*values)[0]

    h = 2.0**-12
    near1, near2 = (
        [(up - down) / (2 * n * h) for up, down in zip(along(n * h), along(-n * h), strict=True)]
        for n in (1, 2)
    )
    expected = [(4 * a - b) / 3 for a, b in zip(near1, near2, strict=True)]
    alive = np.isfinite(exact(Q, K, V, BIAS).lse)
    near(found[0], expected[0], NUMERIC)
    near(found[1][alive], expected[1][alive], NUMERIC)
    near(found[2], expected[2], NUMERIC)
    assert not np.isnan(found[1]).any()


def test_verify_grad_agrees() -> None:
    def out_of(q: Any, k: Any, v: Any, bias: Any) -> Any:
        return attention(q, k, v, bias)[0]

    graphc.verify_grad(out_of, [Q, K, V, BIAS], rng=np.random.default_rng(1), mode="NUMPY")


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("mode", GRAPHS)
def test_layers_in_a_scan_are_layers_one_after_the_other(mode: str) -> None:
    """Each step has a mask and a bias of its own, and the mask is made within the step."""
    random = np.random.default_rng(13)
    x = random.standard_normal((1, 2, KEYS, 3))
    biases = random.standard_normal((3, KEYS))
    every = np.sort(random.integers(0, 3, (3, KEYS)), 1).astype(np.int32)

    def layer(documents: Any, bias: Any, x: Any) -> Any:
        mask = ga.create_block_mask(
            lambda b, h, q, k: documents[q] == documents[k], None, None, KEYS, KEYS, BLOCK_SIZE=4
        )
        score = lambda s, b, h, q, k: s + bias[k]  # noqa: E731
        return x + ga.flex_attention(x, x, x, score_mod=score, block_mask=mask)

    inputs = [static(x), static(every), static(biases)]
    last = graphc.scan(layer, sequences=inputs[1:], outputs_info=inputs[0])[-1]
    cost = (last**2).sum()
    found = compiled(inputs, [last, *graphc.grad(cost, [inputs[0], inputs[2]])], mode)
    xs, masks = [x], [documents[:, None] == documents for documents in every]
    for mask, bias in zip(masks, biases, strict=True):
        y = reference.forward(xs[-1], xs[-1], xs[-1], mask=mask, plus=bias)
        xs.append(xs[-1] + y.out)
    g, by_bias = 2 * xs[-1], [None] * 3
    for i in reversed(range(3)):
        part = reference.backward(*[xs[i]] * 3, g, mask=masks[i], plus=biases[i])
        g = g + part.q + part.k + part.v
        by_bias[i] = part.final.sum((0, 1, 2))
    last, by_x, by_biases = found(x, every, biases)
    near(last, xs[-1])
    near(by_x, g)
    near(by_biases, np.stack(by_bias))


@pytest.mark.parametrize("mode", GRAPHS)
def test_a_branch_may_have_attention(mode: str) -> None:
    inputs = operands()
    flag = gt.scalar("flag", dtype="bool")
    out = graphc.ifelse(flag, attention(*inputs)[0], gt.zeros((1, 2, QUERIES, 2)))
    run = compiled([flag, *inputs], [out, graphc.grad((out * G).sum(), inputs[3])], mode)
    for chosen in (True, False):
        y, g = run(chosen, Q, K, V, BIAS)
        near(y, chosen * exact(Q, K, V, BIAS).out)
        near(g, chosen * slopes(Q, K, V, BIAS, G, 0.0)[3])


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("mode", GRAPHS)
def test_givens_replace_what_is_captured(mode: str) -> None:
    """A bias that a score function captures, and documents that a mask function does."""
    inputs, documents = operands(), static(DOCUMENTS)
    out, lse = attention(*inputs, documents)
    half, shifted = static(BIAS), static(DOCUMENTS)
    givens = {inputs[3]: half / 2, documents: gt.minimum(shifted, 1)}
    by_half = graphc.grad(cost_of(out, lse), inputs[3])
    ends = [*inputs[:3], half, shifted]
    run = compiled(ends, [out, by_half], mode, givens=givens)
    found = run(Q, K, V, BIAS, DOCUMENTS)
    changed = np.minimum(DOCUMENTS, 1)
    near(found[0], exact(Q, K, V, BIAS / 2, changed).out)
    near(found[1], slopes(Q, K, V, BIAS / 2, documents=changed)[3])


@pytest.mark.parametrize("mode", GRAPHS)
def test_clones_have_other_captured_arrays(mode: str) -> None:
    inputs, documents = operands(), static(DOCUMENTS)
    out, _ = attention(*inputs, documents)
    bias, other = static(BIAS), static(DOCUMENTS)
    clone = graphc.clone_replace(out, {inputs[3]: gt.exp(bias), documents: other})
    found = compiled([*inputs[:3], bias, other], clone, mode)(Q, K, V, BIAS, DOCUMENTS * 0)
    near(found, exact(Q, K, V, np.exp(BIAS), DOCUMENTS * 0).out)


@pytest.mark.parametrize("mode", GRAPHS)
def test_functions_capture_shared_variables(mode: str) -> None:
    """Their values are those at the time of the call, and updates change them."""
    inputs = [static(x) for x in (Q, K, V)]
    bias = graphc.shared(BIAS, "bias", shape=BIAS.shape)
    documents = graphc.shared(DOCUMENTS, "documents", shape=DOCUMENTS.shape)
    out, lse = attention(*inputs, bias, documents)
    by_bias = graphc.grad(cost_of(out, lse), bias)
    updates = [(bias, bias - 0.1 * by_bias), (documents, (documents + 1) % 3)]
    step = compiled(inputs, out, mode, updates=updates)
    now, ids = BIAS, DOCUMENTS
    for _ in range(3):
        near(step(Q, K, V), exact(Q, K, V, now, ids).out)
        now = now - 0.1 * slopes(Q, K, V, now, documents=ids)[3]
        ids = (ids + 1) % 3
        near(bias.get_value(), now)
        np.testing.assert_array_equal(documents.get_value(), ids)
    documents.set_value(DOCUMENTS[::-1].copy())
    near(step(Q, K, V), exact(Q, K, V, now, DOCUMENTS[::-1]).out)
    assert step.stats.compiles == 1


@pytest.mark.parametrize("mode", GRAPHS)
def test_numbers_that_change_are_given_as_runtime_numbers(mode: str) -> None:
    """A window's width and a slope that are Python's numbers, and no part of the program."""
    at, further = np.arange(QUERIES)[:, None], np.arange(KEYS)
    events: list[str] = []
    with graphc.events.subscribe(lambda event: events.append(event.kind)):
        for width, slope in ((2, 0.3), (4, 0.1), (5, -1.7)):
            wide, steep = graphc.runtime(width), graphc.runtime(slope)
            mask = ga.create_block_mask(
                lambda b, h, q, k: abs(q - k) < wide,  # noqa: B023
                *(None, None, QUERIES, KEYS),
                BLOCK_SIZE=BLOCK,
            )
            inputs = [static(x) for x in (Q, K, V)]
            out = ga.flex_attention(
                *inputs,
                score_mod=lambda s, b, h, q, k: s + steep * k,  # noqa: B023
                block_mask=mask,
                enable_gqa=True,
            )
            found = compiled(inputs, out, mode)(Q, K, V)
            keep, plus = abs(at - further) < width, slope * further
            near(found, reference.forward(Q, K, V, mask=keep, plus=plus).out)
    assert events.count("compile") == 1


@pytest.mark.parametrize("mode", GRAPHS)
def test_parts_of_a_mask_are_masks_of_attention(mode: str) -> None:
    """A row of blocks is attended to on its own, as in decoding; a shorter mask is right."""
    whole = mask_of(DOCUMENTS)
    inputs = [static(x) for x in (Q[:, :, 3:], K, V)]
    out = ga.flex_attention(*inputs, block_mask=whole[:, :, 1:], enable_gqa=True)
    found = compiled(inputs, out, mode)(Q[:, :, 3:], K, V)
    near(found, reference.forward(Q, K, V, mask=keep_of(DOCUMENTS)).out[:, :, 3:])
    cut = [Q[:, :, :5], K[:, :, :6], V[:, :, :6]]
    inputs = [static(x) for x in cut]
    out = ga.flex_attention(*inputs, block_mask=whole.for_lengths(5, 6), enable_gqa=True)
    expected = reference.forward(*cut, mask=keep_of(DOCUMENTS)[:5, :6]).out
    near(compiled(inputs, out, mode)(*cut), expected)


def test_float64_is_computed_in_float32_where_that_is_asked_for() -> None:
    inputs, documents = operands(), static(DOCUMENTS)
    out, lse = attention(*inputs, documents)
    gradients = graphc.grad(cost_of(out, lse), inputs)
    mode = uncompiled("MLX", float64="downcast")
    run = graphc.function([*inputs, documents], [out, *gradients], mode=mode)
    found = [as_numpy(x) for x in run(Q, K, V, BIAS, DOCUMENTS)]
    assert {x.dtype.name for x in found} == {"float32"}
    for a, b in zip(found, (exact(Q, K, V, BIAS).out, *slopes(Q, K, V, BIAS)), strict=True):
        near(a, b, 1e-5)


@pytest.mark.parametrize("values", [(BIAS, DOCUMENTS), (BIAS + 1, DOCUMENTS[::-1].copy())])
def test_keys_of_programs_depend_on_no_captured_value(values: tuple[Any, Any]) -> None:
    inputs = [static(x) for x in (Q, K, V)]
    keys = {
        graphc.Graph(inputs, [attention(*inputs, *arrays)[0]]).key()
        for arrays in ((BIAS, DOCUMENTS), values)
    }
    assert len(keys) == 1
