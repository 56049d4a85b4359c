"""Implicit arrays over a mesh, against dense matrices in NumPy."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

from graphc import implicit
from graphc.errors import ImplicitArrayError
from graphc.implicit import fields_of
from tests.link.jax.devices.on_mesh import assert_near, collectives, mesh, put

N = 256
rng = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    return jnp.array(rng.normal(size=shape).astype("float32"))


X, W = np.asarray(normal(16, N)), normal(N, N)
QUANTIZED = [(kind, axis) for kind in ("int8", "int4", "int2", "nf4", "1bit") for axis in (-1, -2)]
STRUCTURES = {
    "low rank": implicit.LowRank(normal(N, 4), normal(4, N)),
    "kronecker": implicit.Kronecker(normal(16, 16), normal(16, 16)),
    "blocks": implicit.BlockDiagonal(normal(16, 16, 16)),
    "lora": implicit.LoRA(W, normal(N, 4), normal(4, N), jnp.float32(0.5)),
    "toeplitz": implicit.Toeplitz(normal(N), normal(N)),
    "diagonal": implicit.Diagonal(normal(N)),
    "one hot": implicit.OneHot.of(jnp.array(rng.integers(0, N, size=N)), N),
}
PLACES = {
    "columns": (P("data", None), P(None, "model"), P("data", "model"), {}),
    "rows": (P("data", "model"), P("model", None), P("data", None), {"all-reduce": 1}),
    "features of x": (P("data", "model"), P(None, None), P("data", None), {"all-reduce": 1}),
}
"""Of a product: how x, the matrix and the result are sharded, and what is communicated."""


def quantized(kind: str, axis: int) -> Any:
    return implicit.quantize(W, kind, axis=axis, group_size=32)


def named(kind: AxisType, spec: P) -> Any:
    return NamedSharding(mesh(kind), spec)


def matmul(x: Any, w: Any, **how: Any) -> Any:
    return implicit.implicit(jnp.matmul, materialize="error")(x, w, **how)


# Within jax.shard_map.


@pytest.mark.parametrize(
    ("kind", "axis"),
    [pytest.param(*x, marks=() if x[0] == "int4" else pytest.mark.exhaustive) for x in QUANTIZED],
)
def test_products_with_codes_vary_as_their_operands(kind: str, axis: int) -> None:
    """Steps of a scan, a sum over devices, and gradients, those of scales summed over devices."""

    def loss(x: Any, w: Any) -> Any:
        y, _ = jax.lax.scan(lambda y, _: (jnp.tanh(matmul(y, w)), None), x, None, length=2)
        return (y**2).sum()

    def local(x: Any, w: Any) -> Any:
        return jax.lax.psum(loss(x, w), "data")

    w = quantized(kind, axis)
    gradients = {f: jax.jit(jax.grad(f, argnums=(0, 1), allow_int=True)) for f in (loss, local)}
    sharded = jax.shard_map(
        gradients[local], mesh=mesh(), in_specs=(P("data"), P()), out_specs=(P("data"), P())
    )
    by_x, by_w = jax.jit(sharded)(X / 30, w)
    wanted_x, wanted_w = gradients[loss](X / 30, w)
    dense = jax.grad(lambda x: (jnp.tanh(jnp.tanh(x @ np.asarray(w)) @ np.asarray(w)) ** 2).sum())
    assert_near(by_x, dense(X / 30), 1e-3)
    assert_near(by_x, wanted_x)
    assert_near(by_w.scales, wanted_w.scales)


def of_all_structures(*fast: str) -> Any:
    cases = [pytest.param("int4", marks=() if "int4" in fast else pytest.mark.exhaustive)]
    cases += [
        pytest.param(name, marks=() if name in fast else pytest.mark.exhaustive)
        for name in STRUCTURES
    ]
    return pytest.mark.parametrize("name", cases)


def structure(name: str) -> Any:
    return quantized("int4", -2) if name == "int4" else STRUCTURES[name]


@of_all_structures("lora", "blocks")
def test_functions_of_shards_get_implicit_shards(name: str) -> None:
    w = structure(name)
    wanted = X @ np.asarray(w)

    def run(f: Any, specs: Any, result: P) -> Any:
        f = jax.shard_map(f, mesh=mesh(), in_specs=specs, out_specs=result)
        return jax.jit(implicit.implicit(f, materialize="error"))(X, w)

    columns = run(jnp.matmul, (P("data"), P(None, "model")), P("data", "model"))
    assert_near(columns, wanted)
    summed = run(
        lambda x, w: jax.lax.psum(x @ w, "model"), (P("data", "model"), P("model")), P("data")
    )
    assert_near(summed, wanted)


@of_all_structures("lora")
def test_constraints_and_moves_keep_arrays_implicit(name: str) -> None:
    w = structure(name)
    for spec in (P("data"), P(None, "model"), P("data", "model"), P(("data", "model"))):
        sharding = named(AxisType.Auto, spec)
        assert_near(np.asarray(implicit.device_put(w, sharding)), np.asarray(w), 0)

        def f(x: Any, w: Any, sharding: Any = sharding) -> Any:
            return x @ jax.lax.with_sharding_constraint(w, sharding)

        run = jax.jit(implicit.implicit(f, materialize="error"))
        assert_near(run(X, w), X @ np.asarray(w))


def test_fields_are_sharded_as_the_whole() -> None:
    w = implicit.LoRA(quantized("int4", -2), normal(N, 4), normal(4, N), jnp.float32(0.5))
    tree = implicit.device_put({"w": w, "b": X}, named(AxisType.Auto, P("data", "model")))
    moved = tree["w"]
    assert moved.base.packed.sharding.spec == P("model", "data")  # the codes of the transpose
    assert moved.base.scales.sharding.spec == P("model", "data")
    assert (moved.a.sharding.spec, moved.b.sharding.spec) == (P("data", None), P(None, "model"))
    assert moved.scale.sharding.is_fully_replicated
    assert tree["b"].sharding.spec == P("data", "model")
    # Axes that do not divide the groups of codes shard nothing.
    odd = implicit.device_put(quantized("int4", -1)[:, :96], named(AxisType.Auto, P(None, "data")))
    assert all(x.sharding.is_fully_replicated for x in fields_of(odd).values())


def test_specs_of_fields_for_functions_that_are_not_implicit() -> None:
    w = structure("lora")
    specs = implicit.partition_specs(w, P(None, "model"), mesh())
    f = jax.shard_map(
        matmul, mesh=mesh(), in_specs=(P("data"), specs), out_specs=P("data", "model")
    )
    assert_near(jax.jit(f)(X, w), X @ np.asarray(w))
    with pytest.raises(ImplicitArrayError, match="not the fields of its shard"):
        implicit.partition_specs(structure("diagonal"), P("data"), mesh())


# Over explicit axes.


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("kind", "axis"),
    [pytest.param(*x, marks=() if x == ("nf4", -1) else pytest.mark.exhaustive) for x in QUANTIZED],
)
def test_codes_are_multiplied_where_they_are(kind: str, axis: int, place: str) -> None:
    of_x, of_w, result, communicated = PLACES[place]
    w = quantized(kind, axis)
    with jax.set_mesh(mesh(AxisType.Explicit)):
        x, shards = put(X, *of_x), implicit.device_put(w, named(AxisType.Explicit, of_w))

        def f(x: Any, w: Any) -> Any:
            return matmul(x, w, out_sharding=result)

        y = jax.jit(f)(x, shards)
        assert jax.typeof(y).sharding.spec == result
        assert collectives(f, x, shards) == communicated
        by_x = jax.jit(jax.grad(lambda x, w: (f(x, w) ** 2).sum()))(x, shards)
        assert jax.typeof(by_x).sharding.spec == of_x
    wanted = X @ np.asarray(w)
    assert_near(y, wanted)
    assert_near(by_x, 2 * wanted @ np.asarray(w).T)


@of_all_structures("lora", "kronecker")
@pytest.mark.parametrize("place", ["columns", "rows"])
def test_structures_over_explicit_axes(name: str, place: str) -> None:
    of_x, of_w, result, _ = PLACES[place]
    w = structure(name)
    with jax.set_mesh(mesh(AxisType.Explicit)):
        x, shards = put(X, *of_x), implicit.device_put(w, named(AxisType.Explicit, of_w))

        @jax.jit
        def f(x: Any, w: Any) -> Any:
            y = matmul(x, w, out_sharding=result)
            return y, implicit.implicit(lambda w: (2 * w).T)(w)

        y, double = f(x, shards)
        assert jax.typeof(y).sharding.spec == result
        assert implicit.is_implicit(double)
        assert_near((y, np.asarray(double)), (X @ np.asarray(w), 2 * np.asarray(w).T))
