"""JAX functions as graphs: the same values and gradients as JAX's, on every backend."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import graphc
import graphc.tensor as gt
from graphc.errors import (
    ArgumentError,
    GraphcError,
    OperationError,
    RuntimeShapeError,
    UnsupportedOperationError,
)
from graphc.interop.jax import from_jaxpr
from graphc.ir import toposort
from graphc.link import as_numpy
from graphc.link.jax.from_jaxpr.convert import CONVERTERS
from tests.interop.jax.cases import CASES, Case
from tests.modes import uncompiled

BACKENDS = ("NUMPY", "JAX", "MLX")


def inputs_of(case: Case, grows: bool) -> list[Any]:
    found = []
    for i, array in enumerate(case.args):
        shape = (None, *array.shape[1:]) if grows and (i == 0 or case.args[0].ndim == 1) else None
        found.append(gt.tensor(f"x{i}", shape=shape or array.shape, dtype=str(array.dtype)))
    return found


def leaves(results: Any) -> list[Any]:
    return jax.tree.leaves(results, is_leaf=lambda x: isinstance(x, gt.Tensor))


def of_jax(case: Case) -> list[Any]:
    """Return JAX's results, in 32 bits where no argument is wider."""
    with jax.enable_x64(any(x.dtype.itemsize == 8 for x in case.args)):
        return [np.asarray(y) for y in leaves(jax.jit(case.function)(*map(jnp.asarray, case.args)))]


@pytest.mark.sample("name", every=2)
@pytest.mark.parametrize("grows", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", sorted(CASES))
def test_the_values_are_those_of_jax(name: str, backend: str, grows: bool) -> None:
    case = CASES[name]
    if grows and not case.grows:
        return
    xs = inputs_of(case, grows)
    ys = leaves(from_jaxpr(case.function, *xs))
    # MLX has no complex128: transforms are of 32 bits there.
    if backend == "MLX" and any("complex128" in repr(node.type) for node in toposort(ys)):
        with pytest.raises(UnsupportedOperationError, match="complex128"):
            graphc.function(xs, ys, mode=uncompiled(backend))
        return
    f = graphc.function(xs, ys, mode=uncompiled(backend), on_unused_input="ignore")
    for found, wanted in zip(f(*case.args), of_jax(case), strict=True):
        exact = 2e-4 if backend == "MLX" or wanted.dtype == "float32" else 1e-10
        np.testing.assert_allclose(as_numpy(found), wanted, exact, exact)
        assert backend == "MLX" or as_numpy(found).dtype == wanted.dtype


@pytest.mark.sample("name", every=3)
@pytest.mark.parametrize("backend", ["NUMPY", "JAX"])
@pytest.mark.parametrize("name", sorted(set(CASES) - {"integers", "bits", "draws", "until"}))
def test_the_gradients_are_those_of_jax(name: str, backend: str) -> None:
    case = CASES[name]
    xs = inputs_of(case, grows=False)
    places = [i for i, x in enumerate(xs) if x.dtype == "float64"]
    ys = [y for y in leaves(from_jaxpr(case.function, *xs)) if y.dtype == "float64"]
    total = sum(gt.sum(gt.cos(y)) for y in ys)
    slopes = graphc.grad(total, [xs[i] for i in places])

    def loss(*moved: Any) -> Any:
        full = [*map(jnp.asarray, case.args)]
        for i, x in zip(places, moved, strict=True):
            full[i] = x
        found = [y for y in leaves(case.function(*full)) if y.dtype == "float64"]
        return sum(jnp.sum(jnp.cos(y)) for y in found)

    with jax.enable_x64(True):
        floats = [jnp.asarray(case.args[i]) for i in places]
        wanted = jax.jit(jax.grad(loss, argnums=tuple(range(len(places)))))(*floats)
    f = graphc.function(xs, slopes, mode=backend, on_unused_input="ignore")
    for found, slope in zip(f(*case.args), wanted, strict=True):
        np.testing.assert_allclose(as_numpy(found), slope, 1e-8, 1e-8)


def test_every_converter_has_a_case() -> None:
    seen: set[str] = set()

    def walk(program: Any) -> None:
        for eqn in program.eqns:
            seen.add(eqn.primitive.name)
            for part in jax.tree.leaves(dict(eqn.params), is_leaf=lambda x: hasattr(x, "eqns")):
                inner = getattr(part, "jaxpr", part)
                if hasattr(inner, "eqns"):
                    walk(inner)

    with jax.enable_x64(True):
        for case in CASES.values():
            walk(jax.make_jaxpr(case.function)(*case.args).jaxpr)
    # These are of other versions of JAX, or no function of JAX's API traces to them as they are.
    rare = {
        *("add_any", "copy", "copy_p", "pjit", "remat", "remat2", "checkpoint", "closed_call"),
        *("core_call", "mesh_cast", "pvary", "sharding_constraint", "device_put", "scatter-sub"),
        *("optimization_barrier", "name", "random_clone", "dim_as_value"),
    }
    older = {"call_hi_primitive", "one_minus_square", "polynomial", "log2"}
    newer = {"lt_to", "le_to"}
    left = set(CONVERTERS) - seen - rare
    assert left <= older or left <= newer


# Models: written for JAX, run, differentiated and trained elsewhere.


class Recurrent(eqx.Module):
    """An LSTM over a sequence."""

    cell: eqx.nn.LSTMCell
    out: eqx.nn.Linear

    def __init__(self, key: Any) -> None:
        first, second = jax.random.split(key)
        self.cell = eqx.nn.LSTMCell(3, 4, key=first)
        self.out = eqx.nn.Linear(4, 2, key=second)

    def __call__(self, xs: Any) -> Any:
        zeros = jnp.zeros(4, xs.dtype)
        (h, _), _ = lax.scan(lambda carry, x: (self.cell(x, carry), None), (zeros, zeros), xs)
        return self.out(h)


class Transformer(eqx.Module):
    """A block of causal attention and a perceptron."""

    attention: eqx.nn.MultiheadAttention
    norm: eqx.nn.LayerNorm
    mlp: eqx.nn.MLP

    def __init__(self, key: Any) -> None:
        first, second = jax.random.split(key)
        self.attention = eqx.nn.MultiheadAttention(2, 4, key=first)
        self.norm = eqx.nn.LayerNorm(4)
        self.mlp = eqx.nn.MLP(4, 4, 8, 1, activation=jax.nn.gelu, key=second)

    def __call__(self, x: Any) -> Any:
        y = jax.vmap(self.norm)(x)
        x = x + self.attention(y, y, y, mask=jnp.tril(jnp.ones((x.shape[0],) * 2, bool)))
        return x + jax.vmap(self.mlp)(x)


def convolutional(key: Any) -> eqx.nn.Sequential:
    first, second = jax.random.split(key)
    return eqx.nn.Sequential(
        [
            eqx.nn.Conv2d(1, 2, 3, key=first),
            eqx.nn.Lambda(jax.nn.relu),
            eqx.nn.MaxPool2d(2, 2),
            eqx.nn.Lambda(jnp.ravel),
            eqx.nn.Linear(8, 3, key=second),
        ]
    )


MODELS = {
    "recurrent": (Recurrent, (5, 3)),
    "transformer": (Transformer, (5, 4)),
    "convolutional": (convolutional, (1, 6, 6)),
}


@pytest.mark.sample("name")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_model_of_equinox_has_its_values_and_gradients(name: str, backend: str) -> None:
    make, shape = MODELS[name]
    weights, rest = eqx.partition(make(jax.random.key(0)), eqx.is_inexact_array)
    arrays, tree = jax.tree.flatten(weights)
    value = np.random.default_rng(0).normal(size=shape).astype("float32")

    def apply(weights: Any, x: Any) -> Any:
        return eqx.combine(weights, rest)(x)

    ws = [gt.tensor(f"w{i}", shape=w.shape, dtype="float32") for i, w in enumerate(arrays)]
    x = gt.tensor("x", shape=shape, dtype="float32")
    y = from_jaxpr(apply, jax.tree.unflatten(tree, ws), x)
    slopes = graphc.grad(gt.sum(y**2), ws)
    f = graphc.function([x, *ws], [y, *slopes], mode=uncompiled(backend))
    found = [as_numpy(part) for part in f(value, *map(np.asarray, arrays))]

    def loss(weights: Any) -> Any:
        y = apply(weights, value)
        return jnp.sum(y**2), y

    wanted, output = jax.jit(jax.grad(loss, has_aux=True))(weights)
    np.testing.assert_allclose(found[0], output, 1e-4, 1e-5)
    for part, slope in zip(found[1:], jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(part, slope, 1e-3, 1e-5)


# What stays JAX's, what is captured, and what is refused.


def test_nothing_of_jax_is_left_in_the_graph() -> None:
    x = gt.tensor("x", shape=(5, 4), dtype="float32")
    model = Transformer(jax.random.key(0))
    names = {node.op.name for node in toposort([from_jaxpr(model, x)])}
    assert not [name for name in names if "wrap_jax" in name]


def test_what_graphc_lacks_stays_jax_s() -> None:
    x = gt.vector("x")
    y = from_jaxpr(lambda x: lax.reduce_precision(x, 5, 10) * 2, x)
    value = np.array([1.23456789])
    f = graphc.function([x], y, mode="NUMPY")
    np.testing.assert_array_equal(f(value), 2 * value.astype("float16").astype(float))
    with pytest.raises(UnsupportedOperationError, match="reduce_precision"):
        graphc.function([x], y, mode="MLX")(value)


def test_captured_arrays_are_passed_and_no_part_of_the_program() -> None:
    x = gt.tensor("x", shape=(20,))

    def key(weights: Any) -> str:
        return graphc.Graph([x], [from_jaxpr(lambda x: jnp.sum(x * weights), x)]).key()

    first, second = jnp.arange(20.0), jnp.arange(20.0) + 1
    assert key(first) == key(second)


def test_arrays_among_the_arguments_are_constants() -> None:
    x = gt.tensor("x", shape=(2,))
    y = from_jaxpr(lambda p, x, n: p["w"] * x + n, {"w": np.array([2.0, 3.0])}, x, 1)
    assert y.eval({x: [1.0, 1.0]}, mode="NUMPY").tolist() == [3.0, 4.0]


def test_a_program_is_taken_too() -> None:
    program = jax.make_jaxpr(lambda x, y: (x + y, x * y))(1.0, 2.0)
    x, y = gt.fscalars("x", "y")
    total, product = from_jaxpr(program, x, y)
    assert float(gt.stack([total, product]).eval({x: 3, y: 4}, mode="NUMPY")[1]) == 12
    with pytest.raises(ArgumentError, match="takes 2 arrays, not 1"):
        from_jaxpr(program, x)


def test_lengths_that_are_assumed_equal_are_checked() -> None:
    x, y = gt.vectors("x", "y")
    f = graphc.function([x, y], from_jaxpr(lambda x, y: x + y, x, y), mode="NUMPY")
    assert f([1.0, 2.0], [3.0, 4.0]).tolist() == [4.0, 6.0]
    with pytest.raises(GraphcError, match=r"length|shape"):
        f([1.0, 2.0], [3.0])


def test_a_length_that_is_assumed_to_be_positive_is_checked() -> None:
    x = gt.vector("x")
    y = from_jaxpr(lambda x: x.sum() + (1.0 if x.shape[0] >= 1 else 5.0), x)
    f = graphc.function([x], y, mode="NUMPY")
    assert f([2.0]) == 3
    with pytest.raises(GraphcError, match="axes with elements"):
        f(np.zeros(0))
    total = graphc.function([x], from_jaxpr(jnp.sum, x), mode="NUMPY")
    assert total(np.zeros(0)) == 0


def test_a_function_that_needs_a_length_says_so() -> None:
    x = gt.vector("x")
    with pytest.raises(OperationError, match="static lengths"):
        from_jaxpr(lambda x: jnp.stack([x[i] for i in range(x.shape[0])]), x)
    with pytest.raises(OperationError, match="cannot trace"):
        from_jaxpr(lambda x: x if x[0] > 0 else -x, gt.tensor("x", shape=(2,)))
    with pytest.raises(ArgumentError, match="no symbolic array"):
        from_jaxpr(jnp.sin, 1.0)
    with pytest.raises(ArgumentError, match="not a function"):
        from_jaxpr(3, x)


def carries_zeros(x: Any) -> Any:
    """A function for float32, as JAX's users write it: the carry has the default dtype."""
    total, sums = jax.lax.scan(lambda c, row: (jnp.tanh(c + row), c.sum()), jnp.zeros(7), x)
    return (total**2).sum() + (sums * jnp.arange(sums.shape[0])).sum()


@jax.custom_vjp
def doubled(x: Any) -> Any:
    return 2 * x


def _doubled_back(_: None, g: Any) -> tuple[Any]:
    return (jax.lax.fori_loop(0, 2, lambda i, c: c + g, jnp.zeros(())),)


doubled.defvjp(lambda x: (doubled(x), None), _doubled_back)


@pytest.mark.parametrize("convert", [from_jaxpr, lambda f, x: graphc.wrap_jax(f)(x)])
def test_a_function_of_32_bits_is_traced_as_jax_is_set(convert: Any) -> None:
    values = np.random.default_rng(0).normal(size=(4, 7)).astype("float32")
    x = gt.tensor("x", shape=(4, 7), dtype="float32")
    y = convert(lambda x: doubled(carries_zeros(x)), x)
    value, slope = jax.value_and_grad(carries_zeros)(values)
    for mode in ("NUMPY", "JAX"):
        f = graphc.function([x], [y, graphc.grad(y, x)], mode=uncompiled(mode), returns="numpy")
        with jax.enable_x64(mode == "NUMPY"):  # the setting when the graph was built counts
            found = f(values)
        assert [part.dtype for part in found] == ["float32", "float32"]
        np.testing.assert_allclose(found[0], 2 * value, 1e-5)
        np.testing.assert_allclose(found[1], 2 * slope, 1e-4, 1e-5)
    with jax.enable_x64(True):
        assert convert(carries_zeros, x).dtype == "float64"
    assert convert(lambda x: jnp.zeros(7) + x, gt.tensor("x", shape=(4, 7))).dtype == "float64"


@pytest.mark.parametrize("convert", [from_jaxpr, lambda f, x: graphc.wrap_jax(f)(x)])
def test_an_error_keeps_the_message_of_jax_and_gives_advice_that_works(convert: Any) -> None:
    def total(x: Any, *dtype: Any) -> Any:
        return jax.lax.scan(lambda c, row: ((c + row).astype("float32"), None), zeros(*dtype), x)[0]

    def zeros(dtype: Any = None) -> Any:
        return jnp.zeros(7, dtype)

    x = gt.tensor("x", shape=(4, 7))
    with pytest.raises(OperationError, match=r"jnp\.zeros\(3, x\.dtype\)") as refused:
        convert(total, x)
    with jax.enable_x64(True), pytest.raises(TypeError) as by_jax:
        jax.make_jaxpr(total)(jnp.ones((4, 7)))
    lines = [line.strip() for line in str(by_jax.value).splitlines() if line.strip()]
    assert len(lines) > 2
    assert all(line.rstrip(".") in str(refused.value) for line in lines)
    assert convert(lambda x: total(x, "float32"), x).dtype == "float32"
    assert convert(total, x.astype("float32")).dtype == "float32"


def test_what_a_graph_would_lose_is_refused() -> None:
    def printing(x: Any) -> Any:
        jax.debug.print("{}", x)
        return x

    with pytest.raises(UnsupportedOperationError, match=r"graphc\.Print"):
        from_jaxpr(printing, gt.vector("x"))


def test_a_closure_over_a_key_draws_the_numbers_of_jax() -> None:
    x, key = gt.tensor("x", shape=(3,)), jax.random.key(7)
    y = from_jaxpr(lambda x: x + jax.random.normal(key, (3,), "float32"), x)
    found = y.eval({x: np.zeros(3)}, mode="NUMPY")
    np.testing.assert_allclose(found, jax.random.normal(key, (3,), "float32"), 1e-6)


@pytest.mark.parametrize("impl", ["rbg", "unsafe_rbg"])
def test_keys_of_other_generators_than_threefry_are_refused_and_wrap_jax_takes_them(
    impl: str,
) -> None:
    def draw(seed: Any) -> Any:
        return jax.random.uniform(jax.random.split(jax.random.key(seed, impl=impl))[1], (3,))

    seed = gt.scalar("seed", dtype="int32")
    with pytest.raises(UnsupportedOperationError, match="a generator other than Threefry"):
        from_jaxpr(draw, seed)
    f = graphc.function([seed], graphc.wrap_jax(draw)(seed), "JAX")
    np.testing.assert_array_equal(f(np.int32(7)), draw(7))


@pytest.mark.parametrize("mode", graphc.link.names())
def test_functions_of_arrays_of_equal_unknown_lengths_take_empty_ones(mode: str) -> None:
    x, y = gt.vectors("x", "y")
    for function in (lambda x, y: x + y, lambda x, y: x @ y, lambda x, y: (x * y).sum()):
        f = graphc.function([x, y], from_jaxpr(function, x, y), mode)
        for n in (0, 1, 3):
            a, b = np.arange(n) + 1.0, np.arange(n) - 0.5
            np.testing.assert_allclose(f(a, b), function(a, b))
        with pytest.raises(RuntimeShapeError):
            f(np.ones(3), np.ones(1))
