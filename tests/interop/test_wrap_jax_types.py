"""The types of results, the structures of arguments and results, and the dtypes."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, ShapeError
from graphc.interop import wrap_jax
from graphc.ir import TensorType
from tests.interop.by_hand import assert_equal_trees, by_hand, computed

DTYPES = ("bool", "int8", "int64", "uint32", "float16", "bfloat16", "float32", "float64")


def typed(dtype: str, *shape: int | None) -> Any:
    return gt.tensor(dtype=dtype, shape=shape)


# Dtypes.


@pytest.mark.parametrize("mode", ["JAX", "NUMPY"])
@pytest.mark.parametrize("dtype", [*DTYPES, "complex64", "complex128"])
def test_a_dtype_is_kept(dtype: str, mode: str) -> None:
    x = typed(dtype, None)
    y = wrap_jax(lambda x: jnp.where(x == 1, x, jnp.zeros_like(x)))(x)
    assert y.type == TensorType(dtype, (None,))
    value = np.array([1, 0, 1], x.type.numpy_dtype)
    found = computed(mode, [x], y, value)
    assert found.dtype == value.dtype
    np.testing.assert_array_equal(found, value)


@pytest.mark.parametrize("mode", ["JAX", "NUMPY"])
@pytest.mark.parametrize("setting", [False, True])
def test_dtypes_are_as_jax_is_set_where_no_input_has_64_bits(setting: bool, mode: str) -> None:
    x, k = typed("float32", None), typed("int32", None)
    with jax.enable_x64(setting):
        results = wrap_jax(lambda x, k: (jnp.zeros(2), x + 1.5, k.sum(), jnp.arange(3)))(x, k)
    wide = ["float64", "float32", "int64", "int64"]
    dtypes = wide if setting else ["float32", "float32", "int32", "int32"]
    assert [y.dtype for y in results] == dtypes
    values = np.ones(2, np.float32), np.full(2, 2**30, np.int32)
    with jax.enable_x64(not setting):  # the setting when the node was built counts
        computed_results = computed(mode, [x, k], list(results), *values)
    assert [y.dtype.name for y in computed_results] == dtypes
    assert computed_results[2] == (2**31 if setting else -(2**31))


@pytest.mark.parametrize("setting", [False, True])
def test_dtypes_are_wide_where_an_input_has_64_bits_whatever_jaxs_setting(setting: bool) -> None:
    x, k = typed("float32", None), typed("int64", None)
    with jax.enable_x64(setting):
        results = wrap_jax(lambda x, k: (jnp.zeros(2), x + 1.5, k.sum(), jnp.arange(3)))(x, k)
    assert [y.dtype for y in results] == ["float64", "float32", "int64", "int64"]


@pytest.mark.parametrize("mode", ["JAX", "NUMPY"])
def test_float64_within_a_float32_program_keeps_its_digits(mode: str) -> None:
    x = typed("float32", None)
    with jax.enable_x64(True):
        y = wrap_jax(lambda x: ((x.astype("float64") + 1e-12 - x) * 1e12).astype("float32"))(x)
    found = computed(mode, [x], y, np.ones(2, np.float32))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [1, 1], 1e-3)


def test_the_users_setting_is_left_alone() -> None:
    before = jax.config.jax_enable_x64
    x = gt.vector("x")
    wrap_jax(jnp.sin)(x).eval({x: [1.0]})
    assert jax.config.jax_enable_x64 == before
    assert jnp.zeros(1).dtype == (np.float64 if before else np.float32)


def test_python_numbers_are_given_as_they_are() -> None:
    x = typed("float32", 3)

    def f(x: Any, axis: int, power: float, reverse: bool) -> Any:
        assert (type(axis), type(power), reverse) == (int, float, True)
        y = jnp.cumsum(x**power, axis)
        return y[::-1] if reverse else y

    y = wrap_jax(f)(x, 0, power=2.0, reverse=True)
    assert y.type == TensorType("float32", (3,))
    found = computed("NUMPY", [x], y, np.array([1, 2, 3], np.float32))
    assert found.tolist() == [14, 5, 1]


def test_other_python_numbers_are_another_function() -> None:
    x = gt.scalar("x")
    power = wrap_jax(lambda x, n: x**n)
    y = [power(x, n) for n in (2, 3, 2.0, True)]
    assert computed("JAX", [x], y, 3.0)[:2] == [9, 27]
    assert power(x, 2) is y[0]
    assert len(set(y)) == 4


def test_numpy_arrays_and_scalars_are_arrays() -> None:
    def f(a: Any, b: Any, c: Any) -> Any:
        assert isinstance(a, jax.Array)
        assert isinstance(b, jax.Array)
        assert isinstance(c, jax.Array)
        return a.at[0].set(b) + c

    y = wrap_jax(f)(np.arange(3.0), np.float64(5.0), jnp.ones(3, "float32"))
    assert y.eval().tolist() == [6, 2, 3]


# Lengths.

LENGTHS: dict[str, tuple[Any, tuple[Any, ...], tuple[Any, ...]]] = {
    "kept": (lambda x: x * 2, ((None, 3),), (None, 3)),
    "all known": (lambda x: x[:, None] + x, ((3,),), (3, 3)),
    "of the other operand": (lambda a, b: a @ b, ((None, 3), (3, 4)), (None, 4)),
    "summed": (lambda x: x.sum(1, keepdims=True), ((None, None),), (None, 1)),
    "added up": (lambda x: jnp.concatenate([x, x]), ((None, 2),), (None, 2)),
    "stacked": (lambda a, b: jnp.stack([a, b]), ((None,), (None,)), (2, None)),
    "a part that may be short": (lambda x: x[:3], ((None,),), (None,)),
    "a part that may be empty": (lambda x: x[:1], ((None,),), (None,)),
    "a maximum of one or more": (lambda x: x.max(keepdims=True), ((None,),), (1,)),
    "two that must be equal": (lambda a, b: a @ b, ((4, None), (None,)), (4,)),
    "as a number": (lambda x: jnp.stack([x[i] for i in range(x.shape[0])]), ((None,),), (None,)),
    "a number that another has": (lambda a, b: a + b, ((None,), (7,)), (None,)),
    "branches on it": (lambda x: x if x.shape[0] > 2 else x * 0, ((None, 5),), (None, None)),
    "solved": (lambda a, b: jnp.linalg.solve(a @ a.T, b), ((3, None), (3,)), (3,)),
}


@pytest.mark.parametrize("name", LENGTHS)
def test_lengths_are_known_as_far_as_they_follow(name: str) -> None:
    f, shapes, wanted = LENGTHS[name]
    y = wrap_jax(f)(*[typed("float64", *shape) for shape in shapes])
    assert y.type == TensorType("float64", wanted)


@pytest.mark.parametrize("mode", ["JAX", "NUMPY"])
@pytest.mark.parametrize("name", LENGTHS)
def test_values_do_not_depend_on_which_lengths_are_known(name: str, mode: str) -> None:
    f, shapes, _ = LENGTHS[name]
    rng = np.random.default_rng(0)
    n = 7 if "another" in name else 5
    values = [rng.normal(size=[n if k is None else k for k in shape]) for shape in shapes]
    xs = [typed("float64", *shape) for shape in shapes]
    assert_equal_trees(computed(mode, xs, wrap_jax(f)(*xs), *values), by_hand(f, *values))


@pytest.mark.parametrize("mode", ["JAX", "NUMPY"])
def test_a_length_that_was_found_for_others_is_checked(mode: str) -> None:
    def f(a: Any, b: Any) -> Any:
        return jnp.zeros(2 if a.shape == b.shape else 3) + a.sum()

    a, b = gt.vector("a"), gt.vector("b")
    y = wrap_jax(f)(a, b)
    assert y.type.shape == (3,)
    run = graphc.function([a, b], y, mode, on_unused_input="ignore", returns="numpy")
    assert run([1.0], [1.0, 2.0]).tolist() == [1, 1, 1]
    with pytest.raises(ShapeError, match="does not have the shape"):
        run([1.0], [1.0])


@pytest.mark.parametrize("mode", ["JAX", "NUMPY"])
def test_a_length_is_a_result(mode: str) -> None:
    x = gt.matrix("x")
    n, total = wrap_jax(lambda x: (x.shape[0], x.size * 1.0))(x)
    assert (n.type, total.type) == (TensorType("int64", ()), TensorType("float64", ()))
    assert computed(mode, [x], [n, total], np.ones((3, 4))) == [3, 12]


# Structures.


class Pair(NamedTuple):
    first: Any
    second: Any


@jax.tree_util.register_dataclass
@dataclass
class Line:
    slope: Any
    offset: Any

    def __call__(self, x: Any) -> Any:
        return self.slope * x + self.offset


@functools.partial(jax.tree_util.register_dataclass, data_fields=["w"], meta_fields=["activation"])
@dataclass
class Layer:
    w: Any
    activation: Any


def test_arguments_and_results_may_be_nested() -> None:
    def f(state: Any, pair: Any) -> Any:
        a, (b, c) = state["a"], state["b"]
        return {"sum": [a + b, (c,)], "pair": Pair(pair.second, None), "none": ()}

    x, y = gt.scalar("x"), gt.vector("y")
    found = wrap_jax(f)({"b": [y, np.ones(2)], "a": x}, pair=Pair(1.0, x))
    assert set(found) == {"sum", "pair", "none"}
    assert isinstance(found["pair"], Pair)
    assert (found["pair"].second, found["none"]) == (None, ())
    outputs = jax.tree.leaves(found, is_leaf=lambda x: isinstance(x, gt.Tensor))
    for value, wanted in zip(
        computed("JAX", [x, y], outputs, 2.0, [1.0, 5.0]),
        [2.0, [3.0, 7.0], [1.0, 1.0]],
        strict=True,
    ):
        np.testing.assert_array_equal(value, wanted)


def test_a_pytree_of_the_users_is_taken_and_given() -> None:
    slope, x = gt.scalar("slope"), gt.vector("x")
    line = wrap_jax(lambda line: Line(line.slope * 2, -line.offset))(Line(slope, np.ones(3)))
    assert isinstance(line, Line)
    y = wrap_jax(lambda line, x: line(x))(line, x)
    slope_of = graphc.grad(y.sum(), slope)
    found = computed("JAX", [slope, x], [y, slope_of], 3.0, [0.0, 1.0, 2.0])
    assert [v.tolist() for v in found] == [[-1, 5, 11], 6]


def test_what_a_pytree_has_beside_arrays_is_part_of_the_function() -> None:
    x, w = gt.vector("x"), gt.scalar("w")
    apply = wrap_jax(lambda layer, x: layer.activation(layer.w * x))
    results = [apply(Layer(w, f), x) for f in (jnp.sin, jnp.cos, jnp.sin)]
    assert results[0] is results[2]
    found = computed("JAX", [x, w], results[:2], [1.0, 2.0], 0.5)
    np.testing.assert_allclose(found[0], np.sin([0.5, 1.0]))
    np.testing.assert_allclose(found[1], np.cos([0.5, 1.0]))


def test_a_function_is_an_argument() -> None:
    x = gt.vector("x")
    apply = wrap_jax(lambda f, x: f(x))
    scale = gt.scalar("scale")
    y = apply(lambda x: x * scale, x)
    found = computed("JAX", [x, scale], [y, graphc.grad(y.sum(), scale)], [1.0, 2.0], 3.0)
    assert [v.tolist() for v in found] == [[3, 6], 3]


def test_a_random_key_is_an_argument() -> None:
    key = jax.random.key(3)
    draw = wrap_jax(lambda key: jax.random.normal(key, (4,), "float64"))
    wanted = by_hand(lambda: jax.random.normal(key, (4,), "float64"))
    for mode in ("JAX", "NUMPY"):
        with jax.enable_x64(True):
            drawn = draw(key)
        np.testing.assert_array_equal(computed(mode, [], drawn), wanted)


# Decorating.


def test_it_decorates_with_and_without_parentheses() -> None:
    @wrap_jax
    def one(x: Any) -> Any:
        """Twice it."""
        return 2 * x

    @wrap_jax()
    def two(x: Any) -> Any:
        return 2 * x

    x = gt.scalar("x")
    assert (one.__name__, one.__doc__) == ("one", "Twice it.")
    assert computed("JAX", [x], [one(x), two(x)], 3.0) == [6, 6]


def test_a_method_is_bound() -> None:
    class Model:
        def __init__(self, w: Any) -> None:
            self.w = w

        @wrap_jax
        def predict(self, x: Any) -> Any:
            return x @ self.w

    w = gt.vector("w")
    x = gt.matrix("x")
    y = Model(w).predict(x)
    found = computed("JAX", [x, w], graphc.grad(y.sum(), w), np.ones((2, 3)), np.ones(3))
    assert found.tolist() == [2, 2, 2]


def test_equal_calls_are_one_node() -> None:
    def twice(x: Any) -> Any:
        return 2 * x

    x = gt.vector("x")
    assert wrap_jax(twice)(x) is wrap_jax(twice)(x)


def test_it_is_the_function_itself_where_jax_traces() -> None:
    double = wrap_jax(lambda x: 2 * x)
    assert float(jax.jit(lambda x: double(x) + 1)(3.0)) == 7
    assert float(jax.grad(lambda x: double(x) ** 2)(3.0)) == 24


def test_one_in_another_is_part_of_it() -> None:
    double = wrap_jax(lambda x: 2 * x)
    ones = wrap_jax(lambda: jnp.ones(2))
    x = gt.vector("x")
    y = wrap_jax(lambda x: double(x) + ones() + double(np.ones(2)))(x)
    found = computed("JAX", [x], [y, graphc.grad(y.sum(), x)], [1.0, 2.0])
    assert [v.tolist() for v in found] == [[5, 7], [2, 2]]


def test_arrays_in_the_static_part_of_a_pytree_are_refused() -> None:
    x = gt.vector("x")
    layer = Layer(gt.scalar("w"), np.arange(3.0))
    with pytest.raises(ArgumentError, match="not static fields"):
        wrap_jax(lambda layer, x: layer.w * x)(layer, x)


def test_other_static_parts_of_a_pytree_are_another_function() -> None:
    x = gt.vector("x")
    apply = wrap_jax(lambda layer, x: layer.w * x * layer.activation["scale"])
    found = [apply(Layer(2.0, {"scale": scale}), x) for scale in (1, 1.0, True, 2, 1)]
    assert len(set(found)) == 4
    assert found[0] is found[4]
    assert computed("JAX", [x], found[3], [1.0]).tolist() == [4]


def test_an_argument_in_the_place_of_another_brings_its_lengths() -> None:
    x, known = gt.vector("x"), gt.tensor("known", shape=(3,))
    y = wrap_jax(lambda x: jnp.outer(x, x))(x)
    assert y.type.shape == (None, None)
    replaced = graphc.clone_replace(y, {x: known})
    assert replaced.type.shape == (3, 3)
    assert computed("JAX", [known], replaced, [1.0, 2.0, 3.0])[2].tolist() == [3, 6, 9]
