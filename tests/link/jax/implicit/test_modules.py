"""Layers of Equinox, Flax and Haiku whose weights are implicit arrays, as their users call them."""

from collections.abc import Callable, Iterator
from typing import Any

import equinox
import haiku
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx

from graphc import implicit
from graphc.errors import MaterializeError, MaterializeWarning
from graphc.implicit import LoRA, materializing

X = np.random.default_rng(0).normal(size=(4, 8)).astype("float32")


@pytest.fixture(autouse=True)
def forbid() -> Iterator[None]:
    with materializing("error"):
        yield


def adapted(w: Any) -> LoRA:
    rng = np.random.default_rng(1)
    a, b = (rng.normal(size=s).astype("float32") for s in ((w.shape[0], 2), (2, w.shape[1])))
    return LoRA(jnp.asarray(w), jnp.asarray(a), jnp.asarray(b), jnp.float32(0.5))


def whole(w: LoRA) -> jax.Array:
    return w.base + w.scale * w.a @ w.b


def equinox_layers() -> tuple[Callable[..., Any], ...]:
    model = equinox.nn.MLP(8, 3, 16, 2, key=jax.random.key(0))

    def with_weights(change: Callable[..., Any]) -> Any:
        def weights(m: Any) -> list[Any]:
            return [layer.weight for layer in m.layers]

        return equinox.tree_at(weights, model, [change(w) for w in weights(model)])

    structured, dense = with_weights(adapted), with_weights(lambda w: whole(adapted(w)))
    return jax.vmap(implicit.implicit(structured)), jax.vmap(dense)


def of_values(apply: Callable[..., Any], values: Any) -> tuple[Callable[..., Any], ...]:
    """A function of values and an array, of implicit matrices among those and of dense ones."""
    structured = jax.tree.map(lambda x: adapted(x) if x.ndim == 2 else x, values)
    dense = jax.tree.map(lambda x: whole(adapted(x)) if x.ndim == 2 else x, values)
    return lambda x: implicit.implicit(apply)(structured, x), lambda x: apply(dense, x)


def linen_layers() -> tuple[Callable[..., Any], ...]:
    module = linen.Sequential([linen.Dense(16), linen.relu, linen.Dense(3)])
    return of_values(module.apply, module.init(jax.random.key(0), X))


def haiku_layers() -> tuple[Callable[..., Any], ...]:
    def perceptron(x: jax.Array) -> jax.Array:
        layers = haiku.nets.MLP([16, 3])
        return layers(x)

    module = haiku.without_apply_rng(haiku.transform(perceptron))
    return of_values(module.apply, module.init(jax.random.key(0), X))


class Counting(nnx.Module):
    """Two layers and what changes with each call: statistics and a count."""

    def __init__(self, change: Callable[..., Any]) -> None:
        rngs = nnx.Rngs(0)
        self.first, self.last = nnx.Linear(8, 16, rngs=rngs), nnx.Linear(16, 3, rngs=rngs)
        self.norm = nnx.BatchNorm(16, rngs=rngs)
        self.calls = nnx.Variable(jnp.zeros((), "int32"))
        for layer in (self.first, self.last):
            layer.kernel = nnx.Param(change(adapted(layer.kernel[...])))

    def __call__(self, x: Any) -> Any:
        self.calls[...] += 1
        return self.last(nnx.relu(self.norm(self.first(x))))


def nnx_layers() -> tuple[Callable[..., Any], ...]:
    return implicit.implicit(Counting(lambda w: w)), Counting(whole)


@pytest.mark.parametrize("layers", [equinox_layers, linen_layers, haiku_layers, nnx_layers])
def test_layers_of_libraries_take_implicit_weights(layers: Callable[..., Any]) -> None:
    structured, dense = layers()
    np.testing.assert_allclose(structured(X), dense(X), 1e-4, 1e-5)


CALLS = {
    "the module": lambda m: implicit.implicit(m)(X),
    "an argument": lambda m: implicit.implicit(lambda m, x: m(x))(m, X),
    "jit": lambda m: nnx.jit(implicit.implicit(lambda m, x: m(x)))(m, X),
}


@pytest.mark.parametrize("way", CALLS)
def test_what_a_module_changes_in_a_call_stays_changed(way: str) -> None:
    structured, dense = Counting(lambda w: w), Counting(whole)
    for _ in range(2):
        y, wanted = CALLS[way](structured), dense(X)
    np.testing.assert_allclose(y, wanted, 1e-4, 1e-5)
    assert structured.calls[...] == 2
    np.testing.assert_allclose(structured.norm.mean[...], dense.norm.mean[...], 1e-4, 1e-5)
    assert isinstance(structured.first.kernel[...], LoRA)


def test_gradients_of_modules_have_the_structure_of_their_weights() -> None:
    structured, dense = Counting(lambda w: w), Counting(whole)
    slopes = nnx.grad(implicit.implicit(lambda m, x: (m(x) ** 2).sum()))(structured, X)
    wanted = nnx.grad(lambda m, x: (m(x) ** 2).sum())(dense, X)
    by_a = 0.5 * wanted.last.kernel[...] @ structured.last.kernel[...].b.T
    np.testing.assert_allclose(slopes.last.kernel[...].a, by_a, 1e-3, 1e-4)


def test_a_module_given_twice_is_one() -> None:
    m = Counting(lambda w: w)
    implicit.implicit(lambda both, x: both["a"](x) + both["b"](x))({"a": m, "b": m}, X)
    assert m.calls[...] == 2


def test_conversions_by_libraries_are_up_to_the_policy() -> None:
    w = adapted(jnp.ones((8, 3)))
    for convert in (np.asarray, jnp.asarray, lambda w: np.dot(X, w), nnx_called(w)):
        with pytest.raises(MaterializeError):
            convert(w)
        with materializing("warn"), pytest.warns(MaterializeWarning, match="a conversion by"):
            convert(w)
    np.testing.assert_allclose(w.materialize(), whole(w), 1e-5)


def nnx_called(w: LoRA) -> Callable[[Any], Any]:
    layer = nnx.Linear(8, 3, rngs=nnx.Rngs(0))
    layer.kernel = nnx.Param(w)
    return lambda w: layer(X)
