"""Compiled functions as functions of JAX and MLX, which transform them by graphc's own rules."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, DTypeError, DynamicShapeError
from graphc.link import as_numpy
from tests.modes import uncompiled

x = gt.vector("x")
cost = (gt.sin(x) ** 2 * x).sum()
V = np.array([0.3, 1.2, 2.0])
VS = np.stack([V, 2 * V])


def of_jax(x: Any) -> Any:
    return (jnp.sin(x) ** 2 * x).sum()


def agree(found: Any, wanted: Any, rtol: float = 1e-10) -> None:
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True)
    for a, b in pairs:
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=rtol)


# JAX.

TRANSFORMED: dict[str, Callable[[Any], Any]] = {
    "call": lambda f: f(jnp.asarray(V)),
    "jit": lambda f: jax.jit(f)(jnp.asarray(V)),
    "value and grad": lambda f: jax.jit(jax.value_and_grad(f))(jnp.asarray(V)),
    "jvp": lambda f: jax.jvp(f, (jnp.asarray(V),), (jnp.asarray(V),)),
    "linearize": lambda f: jax.linearize(f, jnp.asarray(V))[1](jnp.asarray(V)),
    "hessian": lambda f: jax.hessian(f)(jnp.asarray(V)),
    "hessian in reverse": lambda f: jax.jacrev(jax.jacrev(f))(jnp.asarray(V)),
    "hessian forwards": lambda f: jax.jacfwd(jax.jacfwd(f))(jnp.asarray(V)),
    "transposed twice": lambda f: jax.jacrev(jax.jacfwd(f))(jnp.asarray(V)),
    "third": lambda f: jax.jit(jax.jacfwd(jax.hessian(f)))(jnp.asarray(V)),
    "vmap of grad": lambda f: jax.jit(jax.vmap(jax.grad(f)))(jnp.asarray(VS)),
    "grad of vmap": lambda f: jax.grad(lambda xs: jax.vmap(f)(xs).sum())(jnp.asarray(VS)),
    "vmap of columns": lambda f: jax.vmap(f, in_axes=1, out_axes=0)(jnp.asarray(VS).T),
    "checkpoint": lambda f: jax.grad(jax.checkpoint(f))(jnp.asarray(V)),
    "in a scan": lambda f: jax.grad(
        lambda x: jax.lax.scan(lambda c, _: (c / 2 + f(c) / 9, None), x, None, length=3)[0].sum()
    )(jnp.asarray(V)),
}


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("name", TRANSFORMED)
def test_jax_transforms_it_as_its_own(name: str) -> None:
    with jax.enable_x64(True):
        agree(TRANSFORMED[name](PURE), TRANSFORMED[name](of_jax))


@pytest.mark.parametrize("name", ["value and grad", "jvp", "vmap of grad", "in a scan"])
def test_without_64_bits_jax_passes_and_gets_32(name: str) -> None:
    agree(TRANSFORMED[name](PURE), TRANSFORMED[name](of_jax), 2e-5)


PURE = graphc.function([x], cost).pure


def test_a_loop_that_stops_by_itself_has_a_gradient_in_jax() -> None:
    # JAX has no reverse mode of its while loops; the derivative here is graphc's.
    s = gt.scalar("s")
    grown, *_ = graphc.scan(
        lambda v: ((v * s, v), graphc.until(v * s > 100.0)), outputs_info=[s, None], n_steps=50
    )
    pure = graphc.function([s], grown[-1]).pure
    with jax.enable_x64(True):
        value, slope = jax.jit(jax.value_and_grad(pure))(3.0)
    np.testing.assert_allclose([value, slope], [3.0**5, 5 * 3.0**4])


def test_what_jax_calls_back_is_differentiated_and_batched() -> None:
    @dataclass(frozen=True)
    class Cube(graphc.Op):
        by_numpy = True

        def infer(self, x: Any) -> Any:
            return x

        def perform(self, x: Any) -> Any:
            return x**3

        def pullback(self, g: Any, y: Any, x: Any) -> Any:
            return (3 * g * x**2,)

        def batch(self, size: Any, batched: Any, x: Any) -> Any:
            return gt.Tensor.make(self, x)

    y = gt.Tensor.make(Cube(), x).sum()
    pure = graphc.function([x], y).pure
    with jax.enable_x64(True):
        slopes = jax.vmap(jax.grad(pure))(jnp.asarray(VS))
    np.testing.assert_allclose(slopes, 3 * VS**2)


def test_complex_derivatives_are_as_jax_has_them() -> None:
    z = gt.zvector("z")
    pure = graphc.function([z], gt.exp(z) * z).pure
    point = jnp.asarray([1 + 2j, 0.3 - 0.4j])

    def own(z: Any) -> Any:
        return jnp.exp(z) * z

    with jax.enable_x64(True):
        point = jnp.asarray([1 + 2j, 0.3 - 0.4j])
        agree(jax.jvp(pure, (point,), (1j * point,)), jax.jvp(own, (point,), (1j * point,)))
        agree(jax.vjp(pure, point)[1](point), jax.vjp(own, point)[1](point))
        real, of_own = (jax.grad(lambda z, f=f: f(z).sum().real) for f in (pure, own))
        agree(jax.jvp(real, (point,), (point,)), jax.jvp(of_own, (point,), (point,)))


@pytest.mark.parametrize("inline", [True, False])
@pytest.mark.parametrize("nested", [False, True], ids=["plain", "in a loop"])
def test_pure_keeps_derivatives_of_custom_pullback(nested: bool, inline: bool) -> None:
    sine = graphc.custom_pullback(lambda g, y, x: 5 * g * x, inline=inline)(gt.sin)
    outputs = graphc.map(sine, x) if nested else sine(x)
    f = graphc.function([x], outputs, mode="JAX").pure
    np.testing.assert_allclose(f(V), np.sin(V))
    wanted = 5 * V
    jacobian = jax.jacrev(f)(jnp.asarray(V))
    np.testing.assert_allclose(jacobian, np.diag(wanted))
    gradients = {
        "grad": jax.grad(lambda x: f(x).sum())(jnp.asarray(V)),
        "jit": jax.jit(jax.grad(lambda x: f(x).sum()))(jnp.asarray(V)),
        "jvp": jax.jvp(f, (jnp.asarray(V),), (jnp.ones(3),))[1],
        "vmap of grad": jax.vmap(jax.grad(lambda x: f(x).sum()))(jnp.asarray(V)[None])[0],
        "grad of vmap": jax.grad(lambda x: jax.vmap(f)(x).sum())(jnp.asarray(V)[None])[0],
        "checkpoint": jax.grad(jax.checkpoint(lambda x: f(x).sum()))(jnp.asarray(V)),
    }
    for name, found in gradients.items():
        np.testing.assert_allclose(found, wanted, err_msg=name)


def test_pure_keeps_derivatives_of_custom_pullback_on_mlx() -> None:
    v = gt.vector("v", dtype="float32")
    sine = graphc.custom_pullback(lambda g, y, x: 5 * g * x)(gt.sin)
    f = graphc.function([v], sine(v), mode="MLX").pure
    found = mx.grad(lambda x: f(x).sum())(mx.array(V.astype("float32")))
    np.testing.assert_allclose(np.asarray(found), 5 * V, rtol=1e-6)


def test_integers_have_no_derivative_in_jax() -> None:
    i = gt.lvector("i")
    pure = graphc.function([x, i], [(x[i] * i).sum(), i.max()]).pure
    with jax.enable_x64(True):
        places = jnp.asarray([0, 2])
        (_, top), pull = jax.vjp(lambda v: pure(v, places), jnp.asarray(V))
        (slope,) = pull([jnp.ones(()), np.zeros((), jax.dtypes.float0)])
        _, moved = jax.jvp(lambda v: pure(v, places), (jnp.asarray(V),), (jnp.ones(3),))
    assert int(top) == 2
    np.testing.assert_allclose(slope, [0.0, 0.0, 2.0])
    assert float(moved[0]) == 2.0
    assert moved[1].dtype == jax.dtypes.float0


def test_a_python_number_may_decide_a_shape_where_jax_traces() -> None:
    n = gt.lscalar("n")
    pure = graphc.function([n, x], (gt.arange(n) * x[0]).sum()).pure
    with jax.enable_x64(True):
        for count in (3, 4):
            slope = jax.jit(jax.grad(pure, argnums=1), static_argnums=0)(count, jnp.ones(1))
            assert slope.tolist() == [count * (count - 1) / 2]
        with pytest.raises(DynamicShapeError, match="static_argnums"):
            jax.jit(pure)(3, jnp.ones(1))


def test_captured_arrays_are_operands_of_what_jax_compiles() -> None:
    data = np.arange(1000.0)
    pure = graphc.function([x], (gt.as_tensor(data) * x[0]).sum()).pure
    with jax.enable_x64(True):
        text = str(jax.make_jaxpr(pure)(jnp.ones(1)))
        assert jax.jit(pure)(jnp.ones(1)) == data.sum()
    assert "f64[1000]" in text


@settings(max_examples=8)
@given(st.integers(0, 2), st.integers(0, 2), st.sampled_from(["float32", "float64"]))
def test_batches_of_any_size_are_what_calls_one_by_one_give(n: int, m: int, dtype: str) -> None:
    rows = np.random.default_rng(n + 10 * m).normal(size=(n, m)).astype(dtype)
    pure = SOFTPLUS[dtype]
    with jax.enable_x64(True):
        values, slopes = jax.vmap(jax.value_and_grad(pure))(jnp.asarray(rows))
        alone = [jax.value_and_grad(pure)(jnp.asarray(row)) for row in rows]
    assert (values.shape, slopes.shape) == ((n,), (n, m))
    for i, (value, slope) in enumerate(alone):
        np.testing.assert_allclose(values[i], value, rtol=1e-5)
        np.testing.assert_allclose(slopes[i], slope, rtol=1e-5)


def _softplus(dtype: str) -> Any:
    v = gt.vector("v", dtype=dtype)
    return graphc.function([v], gt.log1p(gt.exp(v)).sum()).pure


SOFTPLUS = {dtype: _softplus(dtype) for dtype in ("float32", "float64")}


# MLX.

BY_MLX: dict[str, Callable[[Any], Any]] = {
    "call": lambda f: f(mx.array(V)),
    "grad": lambda f: mx.grad(f)(mx.array(V)),
    "value and grad": lambda f: list(mx.value_and_grad(f)(mx.array(V))),
    "jvp": lambda f: mx.jvp(f, [mx.array(V)], [mx.array(V)]),
    "grad of grad": lambda f: mx.grad(lambda x: (mx.grad(f)(x) * x).sum())(mx.array(V)),
    "vmap": lambda f: mx.vmap(f)(mx.array(VS)),
    "vmap of columns": lambda f: mx.vmap(f, in_axes=1)(mx.array(VS).T),
    "vmap of grad": lambda f: mx.vmap(mx.grad(f))(mx.array(VS)),
    "grad of vmap": lambda f: mx.grad(lambda xs: mx.vmap(f)(xs).sum())(mx.array(VS)),
    "compile": lambda f: mx.compile(lambda x: [mx.grad(f)(x)])(mx.array(V)),
}


def of_mlx(x: Any) -> Any:
    return (mx.square(mx.sin(x)) * x).sum()


def test_mlx_transforms_it_as_its_own() -> None:
    v = gt.vector("v", dtype="float32")
    pure = graphc.function([v], (gt.sin(v) ** 2 * v).sum(), uncompiled("MLX")).pure
    for transform in BY_MLX.values():
        pairs = zip(_flat(transform(pure)), _flat(transform(of_mlx)), strict=True)
        for a, b in pairs:
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            np.testing.assert_allclose(as_numpy(a), as_numpy(b), rtol=2e-5)


def _flat(found: Any) -> list[Any]:
    parts = found if isinstance(found, list | tuple) else [found]
    return [
        y for part in parts for y in (_flat(part) if isinstance(part, list | tuple) else [part])
    ]


def test_mlx_differentiates_a_loop_and_what_has_integers() -> None:
    v, i = gt.vector("v", dtype="float32"), gt.ivector("i")
    last = graphc.scan(
        lambda a, c: c * gt.sin(a), sequences=v[i], outputs_info=gt.ones((), "float32")
    )
    pure = graphc.function([v, i], [last[-1], i.sum()], uncompiled("MLX")).pure
    places = mx.array([0, 2], mx.int32)
    slope = mx.grad(lambda a: pure(a, places)[0])(mx.array(V))
    wanted = [np.cos(V[0]) * np.sin(V[2]), 0.0, np.sin(V[0]) * np.cos(V[2])]
    np.testing.assert_allclose(as_numpy(slope), wanted, rtol=1e-5)


def test_mlx_has_tangents_beside_integers() -> None:
    v, i = gt.vector("v", dtype="float32"), gt.ivector("i")
    pure = graphc.function([v, i], [(v[i] ** 2).sum(), i + 1], uncompiled("MLX")).pure
    places = mx.array([0, 2], mx.int32)
    (found, _), (moved, _) = mx.jvp(lambda a: pure(a, places), [mx.array(V)], [mx.ones(3)])
    np.testing.assert_allclose(as_numpy(found), V[0] ** 2 + V[2] ** 2, rtol=1e-6)
    np.testing.assert_allclose(as_numpy(moved), 2 * V[0] + 2 * V[2], rtol=1e-6)


def test_mlx_may_differentiate_but_not_compile_what_needs_values() -> None:
    v = gt.vector("v", dtype="float32")
    pure = graphc.function([v], (gt.unique(v) ** 2).sum(), uncompiled("MLX")).pure
    given = mx.array([2.0, 3.0, 2.0])
    assert pure(given).item() == 13.0
    assert mx.grad(pure)(given).tolist() == [4.0, 6.0, 0.0]
    with pytest.raises(ArgumentError, match="Values are needed"):
        mx.compile(pure)(given)


def test_mlx_transforms_loops_and_saves_them(tmp_path: Path) -> None:
    m, w = gt.matrix("m", dtype="float64"), np.linspace(-1, 1, 9).reshape(3, 3)
    h = graphc.scan(lambda a, h: gt.tanh(h @ w + a), m, gt.zeros(3, dtype="float64"))
    y = (h[-1] ** 2).sum()
    pure = graphc.function([m], y, uncompiled("MLX")).pure
    f = graphc.function([m], [y, graphc.grad(y, m)], mode="NUMPY")
    for n in (3, 40):  # written out, and in chunks where it is not traced
        given = np.sin(np.arange(3.0 * n)).reshape(n, 3)
        value, slope = f(given)
        x = mx.array(given, mx.float64)
        both = mx.stack([x, x])
        path = str(tmp_path / f"{n}.mlxfn")
        mx.export_function(path, pure.plain, x)
        for found in (
            pure(x),
            mx.compile(lambda x: [pure(x)])(x)[0],
            mx.vmap(pure)(both)[1],
            mx.import_function(path)(x)[0],
        ):
            np.testing.assert_allclose(as_numpy(found), value, rtol=1e-10)
        for found in (mx.grad(pure)(x), mx.vmap(mx.grad(pure))(both)[1], mx.grad(pure.plain)(x)):
            np.testing.assert_allclose(as_numpy(found), slope, rtol=1e-9, atol=1e-12)
    with pytest.raises(ArgumentError, match=r"mx.compile, mx.grad(.|\n)*graphc.grad"):
        mx.grad(pure)(mx.zeros((9000, 3), mx.float64))


# What it takes and gives, on every backend.


def test_shared_values_are_passed_and_given(mode: str) -> None:
    w, c = graphc.shared([1.0, 2.0], name="w"), graphc.shared(5.0)
    f = graphc.function([x], {"y": (w * x).sum()}, uncompiled(mode), updates={w: w + x + c})
    state = f.pure.state()
    found, new = f.pure(state, [3.0, 4.0])
    assert float(found["y"]) == 11.0
    assert sorted(new) == sorted(state) == sorted(f.pure.names)
    assert "w" in f.pure.names
    assert as_numpy(new["w"]).tolist() == [9.0, 11.0]
    assert w.get_value().tolist() == [1.0, 2.0]
    again, _ = f.pure(new, [3.0, 4.0])
    assert float(again["y"]) == 71.0


def test_jax_carries_the_state_through_a_scan_and_differentiates_by_it() -> None:
    w = graphc.shared([1.0, 2.0], name="w")
    pure = graphc.function([x], (w * x).sum(), updates={w: w * x}).pure

    def last(state: Any) -> Any:
        _, ys = jax.lax.scan(lambda s, v: pure(s, v)[::-1], state, 2.0 * jnp.ones((3, 2)))
        return ys[-1]

    for wide in (True, False):
        with jax.enable_x64(wide):
            slope = jax.grad(last)(pure.state())
        assert slope["w"].tolist() == [8.0, 8.0]


def test_containers_defaults_and_names_are_as_in_a_call(mode: str) -> None:
    a, b = gt.vector("a"), gt.scalar("b")
    inputs = [{"a": a, "n": [b]}, graphc.In(x, value=[1.0])]
    f = graphc.function(inputs, [{"s": a * b}, (x, a.sum())], uncompiled(mode))
    for values in (({"a": [1.0, 2.0], "n": [3.0]},), ({"n": [3.0], "a": [1.0, 2.0]}, [1.0])):
        found = f.pure(*values)
        assert isinstance(found[1], tuple)
        assert as_numpy(found[0]["s"]).tolist() == [3.0, 6.0]
    assert as_numpy(f.pure({"a": [1.0], "n": [3.0]}, x=[7.0])[1][0]).tolist() == [7.0]


def test_another_state_or_dtype_is_refused(mode: str) -> None:
    w = graphc.shared(1.0, name="w")
    v = gt.fvector("v")
    pure = graphc.function([v], v.sum() * w, uncompiled(mode)).pure
    for state in ((), ({"other": 1.0},), ([1.0],)):
        with pytest.raises(ArgumentError, match="takes the values of w first"):
            pure(*state, [1.0])
    with pytest.raises(DTypeError, match="float32"):
        pure({"w": 1.0}, np.ones(2))
    with pytest.raises(ArgumentError, match="missing"):
        pure({"w": 1.0})


def test_it_is_made_once_and_survives_a_pickle() -> None:
    f = graphc.function([x], cost)
    assert f.pure is f.pure
    assert repr(f.pure) == "function(x: float64[?]).pure"
    copied = pickle.loads(pickle.dumps(f))
    assert float(copied.pure(V)) == pytest.approx(float(f.pure(V)))


def test_checks_are_no_part_of_it() -> None:
    y = gt.log(graphc.Assert("positive")(x, x > 0)).sum()
    f = graphc.function([x], y, graphc.Mode("JAX", check_nan=True))
    with jax.enable_x64(True):
        assert np.isnan(f.pure(jnp.asarray([-1.0])))
        assert jax.jit(jax.grad(f.pure))(jnp.asarray([2.0])).tolist() == [0.5]


def test_prints_in_pure_are_no_effects_for_jax(capsys: pytest.CaptureFixture[str]) -> None:
    """The gradient prints once, and a call whose result nothing uses prints nothing."""
    pure = graphc.function([x], (graphc.Print("seen")(2 * x) ** 2).sum(), "JAX").pure
    with jax.enable_x64(True):
        g = jax.jit(jax.grad(pure))(V)
        jax.effects_barrier()
        assert capsys.readouterr().out.count("seen") == 1
        jax.block_until_ready(jax.jit(lambda v: (pure(v), v)[1])(V))
        jax.effects_barrier()
    assert capsys.readouterr().out == ""
    np.testing.assert_allclose(g, 8 * V)
