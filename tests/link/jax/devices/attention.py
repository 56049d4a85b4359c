"""Attention over a mesh, against attention with a dense mask on one device."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec as P

from graphc.attention import (
    and_masks,
    causal,
    create_block_mask,
    document,
    flex_attention,
    relative_bias,
)
from graphc.errors import ArgumentError, ShapeError
from tests.link.jax.devices.on_mesh import assert_near, collectives, mesh, put

B, H, L, E = 4, 4, 64, 8
rng = np.random.default_rng(0)
Q, K, V = rng.normal(size=(3, B, H, L, E)).astype("float32")
BIAS = rng.normal(size=(H, 9)).astype("float32")
IDS = np.sort(rng.integers(0, 3, size=(B, L)).astype("int32"), -1)
CAUSAL = create_block_mask(causal, None, None, L, L, BLOCK_SIZE=16)
SEQUENCE = P(None, None, "data")


def dense(q: Any, k: Any, v: Any, bias: Any = None, ids: Any = None) -> Any:
    """Written by hand: all scores, and a mask of all pairs."""
    shared = q.shape[1] // k.shape[1]
    k, v = jnp.repeat(k, shared, 1), jnp.repeat(v, shared, 1)
    scores = jnp.einsum("bhqe,bhke->bhqk", q, k, precision="highest") / np.sqrt(E)
    i, j = jnp.arange(q.shape[2])[:, None], jnp.arange(k.shape[2])[None]
    if bias is not None:
        scores = scores + bias[:, jnp.clip(i - j, -4, 4) + 4]
    keep = i >= j
    if ids is not None:
        keep = keep & (ids[:, None, :, None] == ids[:, None, None, :])
    weights = jax.nn.softmax(jnp.where(keep, scores, -jnp.inf), -1)
    return jnp.einsum("bhqk,bhke->bhqe", weights, v, precision="highest")


def with_gradients(f: Any) -> Any:
    """The results of a function, and gradients of the sum of their squares."""

    def run(*given: Any) -> Any:
        def loss(*given: Any) -> Any:
            y = f(*given)
            return (y**2).sum(), y

        return jax.grad(loss, argnums=tuple(range(len(given))), has_aux=True)(*given)

    return run


def biased(q: Any, k: Any, v: Any, bias: Any, **how: Any) -> Any:
    return flex_attention(q, k, v, relative_bias(bias), CAUSAL, **how)


def sharded(f: Any, specs: Any, result: Any, **how: Any) -> Any:
    return jax.shard_map(f, mesh=mesh(), in_specs=specs, out_specs=result, **how)


def test_heads_and_batches_are_attended_to_where_they_are() -> None:
    """No device asks another for anything, but for the gradient of what all of them read."""
    with jax.set_mesh(mesh(AxisType.Explicit)):
        given = [put(x, "data", "model") for x in (Q, K, V)]
        f = with_gradients(lambda q, k, v: flex_attention(q, k, v, None, CAUSAL))
        assert not collectives(f, *given)
        assert_near(jax.jit(f)(*given), jax.jit(with_gradients(dense))(Q, K, V))


def test_keys_go_round_a_ring() -> None:
    f = sharded(
        lambda *given: biased(*given, sequence_axis="data", ring=True),
        (SEQUENCE, SEQUENCE, SEQUENCE, P()),
        SEQUENCE,
    )
    given = (Q, K, V, BIAS)
    counts = collectives(with_gradients(f), *given)
    assert counts.keys() == {"collective-permute", "all-reduce"}
    assert counts["all-reduce"] == 1  # of the bias's gradient
    assert_near(jax.jit(with_gradients(f))(*given), jax.jit(with_gradients(dense))(*given))


def test_masks_are_made_of_shards() -> None:
    def loss(q: Any, k: Any, v: Any, bias: Any, ids: Any) -> Any:
        mask = create_block_mask(and_masks(causal, document(ids)), 1, None, L, L, BLOCK_SIZE=16)
        y = flex_attention(q, k, v, relative_bias(bias), mask)
        return jax.lax.psum((y**2).sum(), "data")

    rows = P("data")
    specs = (rows, rows, rows, P(), rows)
    f = sharded(jax.grad(loss, argnums=(0, 3)), specs, (rows, P()))

    def wanted(q: Any, bias: Any) -> Any:
        return (dense(q, K, V, bias, IDS) ** 2).sum()

    assert_near(jax.jit(f)(Q, K, V, BIAS, IDS), jax.jit(jax.grad(wanted, (0, 1)))(Q, BIAS))


@pytest.mark.exhaustive
@pytest.mark.parametrize("ring", [False, True])
@pytest.mark.parametrize(
    "spec",
    [P("data", "model"), P("model", None, "data"), P(None, "model", "data"), P(None, None, "data")],
)
def test_explicit_shardings_of_every_axis(spec: P, ring: bool) -> None:
    """Heads of queries share those of keys, and the mask differs from batch to batch."""
    mask = create_block_mask(and_masks(causal, document(IDS)), B, None, L, L, BLOCK_SIZE=16)
    few = (Q, K[:, :2], V[:, :2])

    def f(q: Any, k: Any, v: Any) -> Any:
        return flex_attention(q, k, v, None, mask, enable_gqa=True, ring=ring)

    wanted = jax.jit(with_gradients(lambda *given: dense(*given, ids=IDS)))(*few)
    with jax.set_mesh(mesh(AxisType.Explicit)):
        given = [put(x, *spec) for x in few]
        by, y = jax.jit(with_gradients(f))(*given)
        assert_near((by, y), wanted)
        assert jax.typeof(y).sharding.spec == jax.typeof(given[0]).sharding.spec
        gathers = collectives(f, *given).get("all-gather", 0)
        assert bool(gathers) == (spec[2:] != () and not ring)


@pytest.mark.exhaustive
def test_queries_are_sharded_and_keys_are_whole() -> None:
    f = sharded(
        lambda *given: biased(*given, sequence_axis="data"), (SEQUENCE, P(), P(), P()), SEQUENCE
    )
    given = (Q, K, V, BIAS)
    assert not collectives(f, *given)
    assert_near(jax.jit(with_gradients(f))(*given), jax.jit(with_gradients(dense))(*given))


@pytest.mark.exhaustive
def test_second_derivatives_of_a_ring() -> None:
    specs = (SEQUENCE, SEQUENCE, SEQUENCE, P())
    f = sharded(lambda *given: biased(*given, sequence_axis="data", ring=True), specs, SEQUENCE)

    def product(f: Any) -> Any:
        def gradient(*given: Any) -> Any:
            return jax.grad(lambda *given: (f(*given) ** 2).sum(), argnums=(0, 1, 3))(*given)

        return jax.jit(lambda *given: jax.jvp(gradient, given, given[1:3] + given[:1] + given[3:]))

    given = (Q, K, V, BIAS)
    assert_near(product(f)(*given)[1], product(dense)(*given)[1])


@pytest.mark.exhaustive
@pytest.mark.parametrize("check_vma", [True, False])
def test_lengths_that_no_block_divides_go_round_without_a_mask(check_vma: bool) -> None:
    def f(q: Any, k: Any, v: Any) -> Any:
        return flex_attention(q, k, v, return_lse=True, sequence_axis="data", ring=True)

    def wanted(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bhqe,bhke->bhqk", q, k, precision="highest") / np.sqrt(E)
        out = jnp.einsum("bhqk,bhke->bhqe", jax.nn.softmax(scores, -1), v, precision="highest")
        return out, jax.nn.logsumexp(scores, -1)

    def gradients(f: Any) -> Any:
        def loss(*given: Any) -> Any:
            out, lse = f(*given)
            return out.sum() + jnp.sin(lse).sum()

        return jax.jit(jax.grad(loss, argnums=(0, 1, 2)))

    given = [x[:, :, :12] for x in (Q, K, V)]
    how = {"check_vma": check_vma}
    ring = sharded(f, (SEQUENCE,) * 3, (SEQUENCE, SEQUENCE), **how)
    assert_near(jax.jit(ring)(*given), jax.jit(wanted)(*given))
    assert_near(gradients(ring)(*given), gradients(wanted)(*given))


def test_errors_say_what_is_missing() -> None:
    with pytest.raises(ArgumentError, match="no such axis here"):
        flex_attention(jnp.array(Q), K, V, sequence_axis="data")

    def attend(*given: Any, **how: Any) -> Any:
        f = sharded(lambda *given: flex_attention(*given, **how), (SEQUENCE,) * 3, SEQUENCE)
        return jax.eval_shape(f, *given)

    with pytest.raises(ArgumentError, match="along which axis"):
        attend(Q, K, V, ring=True)
    mask = create_block_mask(causal, None, None, L, L, BLOCK_SIZE=32)
    with pytest.raises(ShapeError, match="BLOCK_SIZE that divides 16"):
        attend(Q, K, V, block_mask=mask, sequence_axis="data", ring=True)
