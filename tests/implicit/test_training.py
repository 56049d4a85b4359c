"""Training adapters: gradients and optimizers of what learns, against programs by hand."""

from dataclasses import dataclass
from typing import Any, ClassVar

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

import graphc
import graphc.tensor as gt
from graphc import implicit
from graphc.implicit import DoRA, LoRA, materializing

RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 64)).astype("float32")
W = RNG.normal(size=(64, 32)).astype("float32")
A = RNG.normal(size=(64, 4)).astype("float32") / 8
B = RNG.normal(size=(4, 32)).astype("float32")
PACKED = implicit.quantize(W, "int4", group_size=32)
ROUNDED = np.asarray(PACKED)


def params() -> dict[str, Any]:
    lora = LoRA(PACKED, jnp.asarray(A), jnp.asarray(B), jnp.float32(0.5))
    return {"layers": [{"w": lora, "b": jnp.zeros(32)}], "steps": jnp.int32(3), "name": "model"}


def output(layer: Any, x: Any) -> Any:
    return jnp.tanh(x @ layer["w"] + layer["b"])


def loss_by_hand(learns: Any, x: Any = X) -> Any:
    w = ROUNDED + 0.5 * learns["a"] @ learns["b"]
    return (jnp.tanh(x @ w + learns["bias"]) ** 2).sum()


BY_HAND = {"a": A, "b": B, "bias": np.zeros(32, "float32")}


def test_parts_of_a_tree_make_it_again() -> None:
    tree = params()
    learns, rest = implicit.trainable(tree), implicit.frozen(tree)
    assert (learns["steps"], learns["name"]) == (None, None)
    assert (rest["steps"], rest["name"]) == (3, "model")
    assert [x.shape for x in jax.tree.leaves(learns)] == [(32,), (64, 4), (4, 32)]
    again = implicit.combine(learns, rest)
    assert jax.tree.structure(again) == jax.tree.structure(tree)
    for x, y in zip(jax.tree.leaves(again), jax.tree.leaves(tree), strict=True):
        assert x is y


@pytest.mark.parametrize("inside", [True, False])
def test_gradients_are_those_of_what_learns(inside: bool) -> None:
    tree = params()
    rest = implicit.frozen(tree)

    def loss(learns: Any, x: Any) -> Any:
        return (output(implicit.combine(learns, rest)["layers"][0], x) ** 2).sum()

    def loss_outside(learns: Any, x: Any) -> Any:
        layer = implicit.combine(learns, rest)["layers"][0]
        return (implicit.implicit(output)(layer, x) ** 2).sum()

    f = jax.jit(jax.value_and_grad(implicit.implicit(loss) if inside else loss_outside))
    with materializing("error"):
        value, slopes = f(implicit.trainable(tree), X)
    wanted, right = jax.jit(jax.value_and_grad(loss_by_hand))(BY_HAND)
    np.testing.assert_allclose(value, wanted, 1e-5)
    layer = slopes["layers"][0]
    for x, name in ((layer["w"].a, "a"), (layer["w"].b, "b"), (layer["b"], "bias")):
        np.testing.assert_allclose(x, right[name], 1e-4, 1e-4)


def test_optimizers_take_what_learns() -> None:
    tree, by_hand = params(), BY_HAND
    learns, rest = implicit.trainable(tree), implicit.frozen(tree)

    def loss(learns: Any) -> Any:
        return (output(implicit.combine(learns, rest)["layers"][0], X) ** 2).sum()

    # LoRA+: b learns faster than a. Adam divides a gradient by its size: eps keeps the rounding of
    # a gradient near zero from becoming a step of the same size as all others.
    faster = jax.tree.map_with_path(
        lambda path, _: "fast" if jax.tree_util.keystr(path).endswith(".b") else "slow", learns
    )
    rates = {"slow": optax.adam(1e-3, eps=0.1), "fast": optax.adam(1e-2, eps=0.1)}
    adam = optax.multi_transform(rates, faster)
    own = {"a": "slow", "b": "fast", "bias": "slow"}
    reference = optax.multi_transform(rates, own)
    state, by_hand_state = adam.init(learns), reference.init(by_hand)
    with materializing("error"):
        for _ in range(3):
            slopes = jax.jit(jax.grad(implicit.implicit(loss)))(learns)
            steps, state = adam.update(slopes, state, learns)
            learns = optax.apply_updates(learns, steps)
            slopes = jax.jit(jax.grad(loss_by_hand))(by_hand)
            steps, by_hand_state = reference.update(slopes, by_hand_state, by_hand)
            by_hand = optax.apply_updates(by_hand, steps)
    for x, name in (("a", "a"), ("b", "b")):
        found = getattr(learns["layers"][0]["w"], x)
        np.testing.assert_allclose(found, by_hand[name], 1e-4, 1e-5)


def test_modules_are_such_trees() -> None:
    def adapted(w: Any) -> Any:
        return LoRA.of(implicit.quantize(w, "int8", group_size=32), 2)

    model = equinox.nn.MLP(64, 3, 32, 2, key=jax.random.key(0))
    model = equinox.tree_at(lambda m: m.layers[0].weight, model, adapted(model.layers[0].weight))
    learns, rest = implicit.trainable(model), implicit.frozen(model)

    def loss(learns: Any, x: Any) -> Any:
        return jax.vmap(implicit.implicit(implicit.combine(learns, rest)))(x).sum()

    slopes = equinox.filter_jit(equinox.filter_grad(loss))(learns, X)
    assert slopes.layers[0].weight.base.packed is None
    assert np.asarray(slopes.layers[0].weight.b).any()

    layer = nnx.Linear(64, 32, rngs=nnx.Rngs(0))
    layer.kernel = nnx.Param(adapted(layer.kernel[...]))
    structure, state = nnx.split(layer)
    learns, rest = implicit.trainable(state), implicit.frozen(state)

    def loss_of_state(learns: Any, x: Any) -> Any:
        layer = nnx.merge(structure, implicit.combine(learns, rest))
        return implicit.implicit(layer)(x).sum()

    slopes = jax.jit(jax.grad(loss_of_state))(learns, X)
    np.testing.assert_allclose(slopes["bias"][...], np.full(32, 5.0))
    assert np.asarray(slopes["kernel"][...].b).any()


def test_paths_choose_what_learns() -> None:
    tree = {"first": {"w": params()["layers"][0]["w"]}, "last": jnp.ones((2, 2))}
    learns = implicit.trainable(tree, where="first/*")
    rest = implicit.frozen(tree, where="first/*")
    assert learns["last"] is None
    assert rest["last"] is tree["last"]
    assert learns["first"]["w"].a is tree["first"]["w"].a
    assert rest["first"]["w"].a is None
    learns = implicit.trainable(tree, where="last")
    assert jax.tree.leaves(learns) == [tree["last"]]


@dataclass(frozen=True)
class Gated(implicit.ImplicitArray):
    """One that is shifted by what does not learn."""

    value: Any
    shift: Any

    frozen_fields: ClassVar[tuple[str, ...] | None] = ("shift",)

    def materialize(self) -> Any:
        return self.value + self.shift


def test_classes_say_which_of_their_fields_learn() -> None:
    learns = implicit.trainable(Gated(jnp.ones(2), jnp.zeros(2)))
    assert learns.shift is None
    assert learns.value is not None


@pytest.mark.parametrize("mode", ["NUMPY", "JAX", "MLX"])
def test_in_graphs_it_gives_the_symbolic_arrays_that_learn(mode: str) -> None:
    w = graphc.shared(LoRA(PACKED, A, B, np.float32(0.5)), name="w")
    bias = graphc.shared(np.zeros(32, "float32"), name="bias")
    x = gt.matrix("x", dtype="float32", shape=(5, 64))
    learns = jax.tree.leaves(implicit.trainable([w, bias]))
    assert learns == [w.array.a, w.array.b, bias]
    loss = (gt.tanh(x @ w + bias) ** 2).sum()
    with materializing("error"):
        slopes = graphc.function([x], graphc.grad(loss, learns), mode=mode, returns="numpy")(X)
    right = jax.grad(loss_by_hand)(BY_HAND)
    for slope, name in zip(slopes, ("a", "b", "bias"), strict=True):
        np.testing.assert_allclose(slope, right[name], 1e-3, 1e-3)


def dora_by_hand(base: Any, a: Any, b: Any, magnitude: Any, scale: float, axis: int) -> Any:
    v = base + scale * a @ b
    return v * jnp.expand_dims(magnitude / jnp.linalg.norm(v, axis=-3 - axis), -3 - axis)


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("axis", [-1, -2])
@pytest.mark.parametrize("base", [W, PACKED], ids=["dense", "int4"])
def test_columns_of_dora_have_the_lengths_that_it_learned(base: Any, axis: int) -> None:
    dense = np.asarray(base)
    whole = DoRA.of(base, 4, alpha=2, axis=axis)
    np.testing.assert_allclose(whole.materialize(), dense, 1e-4, 1e-5)
    magnitude = np.abs(RNG.normal(size=whole.magnitude.shape)).astype("float32")
    lora = LoRA(base, jnp.asarray(A), jnp.asarray(B), jnp.float32(0.5))
    w = DoRA(lora, jnp.asarray(magnitude), jnp.asarray(whole.squares), axis)
    learns, rest = implicit.trainable(w), implicit.frozen(w)

    def loss(learns: Any) -> Any:
        w = implicit.combine(learns, rest)
        return (jnp.tanh(X @ w) ** 2).sum() + ((w @ X[0, :32]) ** 2).sum()

    def by_hand(a: Any, b: Any, magnitude: Any) -> Any:
        w = dora_by_hand(dense, a, b, magnitude, 0.5, axis)
        return (jnp.tanh(X @ w) ** 2).sum() + ((w @ X[0, :32]) ** 2).sum()

    with materializing("error"):
        value, slopes = jax.jit(jax.value_and_grad(implicit.implicit(loss)))(learns)
    right, wanted = jax.jit(jax.value_and_grad(by_hand, (0, 1, 2)))(A, B, magnitude)
    np.testing.assert_allclose(value, right, 1e-4)
    for x, y in zip((slopes.lora.a, slopes.lora.b, slopes.magnitude), wanted, strict=True):
        np.testing.assert_allclose(x, y, 1e-3, 1e-2)
    np.testing.assert_allclose(w[3], dora_by_hand(dense, A, B, magnitude, 0.5, axis)[3], 1e-3, 1e-4)


def test_scales_and_merging() -> None:
    assert LoRA.of(W, 16, alpha=8).scale == 0.5
    assert LoRA.of(W, 16, alpha=8, rank_stabilized=True).scale == 2
    assert LoRA.of(W, 16, rank_stabilized=True).scale == 1
    lora = LoRA(W, A, B, np.float32(0.5))
    merged = implicit.merge({"w": lora, "other": X})
    np.testing.assert_allclose(merged["w"], W + 0.5 * A @ B, 1e-5, 1e-6)
    assert merged["other"] is X
    np.testing.assert_allclose(lora.unmerged(merged["w"]).base, W, 1e-4, 1e-5)
