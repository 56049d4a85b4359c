"""What once was wrong: masks of rounded numbers, of NaN, of numbers that JAX does not hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.attention as ga
import graphc.tensor as gt
from graphc.errors import ArgumentError
from tests.attention import reference
from tests.modes import uncompiled

L = 128
ARRAYS = [np.random.default_rng(i).standard_normal((1, 1, L, 8)) for i in range(3)]

ON_THE_EDGE: dict[str, Callable[..., Any]] = {
    "thirds": lambda b, h, i, j: i / 3 - j / 3 <= 1,
    "tenths": lambda b, h, i, j: i / 10 - j / 10 <= 1,
    "multiples": lambda b, h, i, j: i * 0.1 - j * 0.1 <= 0.3,
}


def made(function: Callable[..., Any]) -> ga.BlockMask:
    return ga.create_block_mask(function, None, None, L, L, BLOCK_SIZE=32)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("name", ON_THE_EDGE)
def test_a_comparison_that_hangs_on_the_last_digit_gives_some_mask_and_no_nan(name: str) -> None:
    f = ON_THE_EDGE[name]
    mask = made(f)
    narrow = [jnp.asarray(x, "float32") for x in ARRAYS]

    def cost(q: Any, k: Any, v: Any) -> Any:
        out, sums = ga.flex_attention(q, k, v, block_mask=mask, return_lse=True)
        return (out**2).sum() + (sums**2).sum(), out

    grads, out = jax.grad(cost, (0, 1, 2), has_aux=True)(*narrow)
    assert all(np.isfinite(x).all() for x in (out, *grads))
    # Each result is that of a mask between one with the margin taken off and one with it added.
    i, j = np.ogrid[:L, :L]
    step = {"thirds": 3, "tenths": 10, "multiples": 3}[name]
    rows = np.flatnonzero(
        np.abs(out - reference.forward(*ARRAYS, mask=i - j <= step).out).max((0, 1, 3)) > 1e-4
    )
    without = reference.forward(*ARRAYS, mask=i - j < step).out
    np.testing.assert_allclose(np.asarray(out)[:, :, rows], without[:, :, rows], 1e-4, 1e-4)


NOT_NUMBERS = np.array([np.inf, np.nan, 1, 2, 3, -np.inf, 0, 1.0])

UNDEFINED: dict[str, Callable[..., Any]] = {
    "0 / 0": lambda b, h, i, j: (i * 1.0) / (i * 1.0) >= j - 6.0,
    "inf - inf": lambda b, h, i, j: NOT_NUMBERS[i] - NOT_NUMBERS[i] >= j - 6.0,
    "0 * nan": lambda b, h, i, j: NOT_NUMBERS[i] * 0.0 >= j - 6.0,
}


@pytest.mark.parametrize("block", [1, 3, 4])
@pytest.mark.parametrize("name", UNDEFINED)
def test_blocks_are_those_of_the_mask_that_runs(name: str, block: int) -> None:
    arrays = [x[:, :, :8] for x in ARRAYS]
    mask = ga.create_block_mask(UNDEFINED[name], None, None, 8, 8, BLOCK_SIZE=block)
    q, k, v = (gt.tensor(shape=x.shape) for x in arrays)
    f = graphc.function([q, k, v], ga.flex_attention(q, k, v, block_mask=mask), mode="NUMPY")
    wanted = reference.forward(*arrays, mask=mask.to_dense()).out
    np.testing.assert_allclose(f(*arrays), wanted, 1e-12, 1e-12)


NUMBERS = {
    "integers": np.repeat(np.array([5, 5 + 2**32, 7, 2**33 + 7]), L // 4),
    "floats": np.arange(L) / 10,
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_that_jax_makes_narrower_are_refused(name: str) -> None:
    x = NUMBERS[name]
    mask = made(lambda b, h, i, j: abs(x[i] - x[j]) <= 0.3)
    q = jnp.ones((1, 1, L, 8), "float32")
    with pytest.raises(ArgumentError, match="mask_mod captures `x`"):
        ga.flex_attention(q, q, q, block_mask=mask)
    with pytest.raises(ArgumentError, match="mask_mod captures `x`"):
        jax.jit(lambda q, mask: ga.flex_attention(q, q, q, block_mask=mask))(q, mask)
    with jax.enable_x64(True):
        assert ga.flex_attention(q, q, q, block_mask=mask).shape == q.shape


@pytest.mark.parametrize("backend", ["NUMPY", "JAX", "MLX"])
def test_an_infinite_slope_where_the_mask_leaves_out_is_no_nan(backend: str) -> None:
    arrays = [x[:, :, :9] for x in ARRAYS]
    w = np.random.default_rng(3).standard_normal(9)
    mask = ga.create_block_mask(lambda b, h, i, j: i > j, None, None, 9, 9, BLOCK_SIZE=4)
    q, k, v = (gt.tensor(shape=x.shape) for x in arrays)
    out = ga.flex_attention(q, k, v, lambda s, b, h, i, j: s * w[i] / (i - j), mask)
    slopes = graphc.grad((out**2).sum(), [q, k, v])
    f = graphc.function([q, k, v], [out, *slopes], uncompiled(backend), returns="numpy")
    found = f(*arrays)
    i, j = np.ogrid[:9, :9]
    times = w[:, None] / np.where(i > j, i - j, 1)
    wanted = reference.backward(*arrays, 2 * found[0], mask=i > j, times=times)
    for x, y in zip(found[1:], wanted[:3], strict=True):
        np.testing.assert_allclose(x, y, 1e-10, 1e-10)


@pytest.mark.parametrize("mode", ["NUMPY", "JAX", "MLX"])
@pytest.mark.parametrize("masked", [False, True])
def test_a_score_has_the_gradient_that_a_user_defines(mode: str, masked: bool) -> None:
    """The operation of the gradient has programs, in which a user's gradient is lost."""

    @graphc.custom_pullback(lambda g, y, x: 3 * gt.clip(g, -0.01, 0.01))
    def limited(x: Any) -> Any:
        return gt.tanh(x)

    shapes = {"q": (2, 2, 5, 3), "k": (2, 2, 7, 3), "v": (2, 2, 7, 4)}
    q, k, v = (gt.tensor(name, shape=shape) for name, shape in shapes.items())
    bias, captured = gt.vector("bias"), gt.arange(7)
    keep = gt.neq(captured, 2)

    def score(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return limited(s) + limited(bias[j])

    mask = ga.create_block_mask(lambda b, h, i, j: keep[j], None, None, 5, 7) if masked else None
    scores = (q @ gt.swapaxes(k, 2, 3)) / np.sqrt(3.0)
    dense = limited(scores) + limited(bias[captured])
    dense = gt.where(keep, dense, -np.inf) if masked else dense
    gradients = []
    for out in (
        ga.flex_attention(q, k, v, score_mod=score, block_mask=mask),
        gt.softmax(dense, axis=-1) @ v,
    ):
        gradients += graphc.grad((out**2).sum(), [q, k, v, bias])
    values = [np.random.default_rng(i).normal(size=x.type.shape) for i, x in enumerate((q, k, v))]
    f = graphc.function([q, k, v, bias], gradients, mode=mode)
    results = f(*values, np.linspace(-1, 1, 7))
    for result, expected in zip(results[:4], results[4:], strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-7)
