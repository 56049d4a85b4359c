"""Functions with derivatives or batches of their own, on implicit arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from graphc.errors import MaterializeError
from graphc.implicit import (
    Diagonal,
    ImplicitArray,
    LoRA,
    LowRank,
    implicit,
    materializations,
    materializing,
    register,
    unregister,
)
from tests.implicit.compare import assert_same
from tests.implicit.int8 import X, weight
from tests.implicit.programs import HITS, Int8


@jax.custom_jvp
def steep(x: Any, w: Any) -> Any:
    """Its slope is three times that of its value."""
    return jnp.sin(x @ w)


@steep.defjvp
def _(primals: Any, tangents: Any) -> Any:
    (x, w), (tx, tw) = primals, tangents
    y = x @ w
    return jnp.sin(y), 3 * jnp.cos(y) * (tx @ w + x @ tw)


@jax.custom_vjp
def skewed(x: Any, w: Any) -> Any:
    """Its gradients are 2 and 5 times those of its value."""
    return x @ w


def _skewed_forward(x: Any, w: Any) -> Any:
    return skewed(x, w), (x, w)


def _skewed_backward(saved: Any, g: Any) -> Any:
    x, w = saved
    return 2 * jnp.einsum("...j,ij->...i", g, w), 5 * jnp.einsum("ij,ik->jk", x, g)


skewed.defvjp(_skewed_forward, _skewed_backward)

FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "custom_jvp": steep,
    "custom_vjp": skewed,
    "relu": lambda x, w: x @ jax.nn.relu(w),
    "silu": lambda x, w: jax.nn.silu(x @ w) @ jax.nn.silu(w).T,
    "logsumexp": lambda x, w: x * jax.nn.logsumexp(w),
    "softmax": lambda x, w: x @ jax.nn.softmax(w),
    "logaddexp": lambda x, w: jnp.logaddexp(x @ w, w[0]),
    "sinc": lambda x, w: jnp.sinc(w[:3, :4]) * x,
    "in jit": jax.jit(steep),
    "in checkpoint": jax.checkpoint(skewed),
    "in scan": lambda x, w: jax.lax.scan(
        lambda c, r: (c + steep(r[None], w).sum(), skewed(x, w)), 0.0, x
    ),
}


def forms(f: Callable[[Any, Any], Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """A function of x and a factor: of the implicit weight, and of the whole one."""
    w = weight()

    def by_implicit(x: Any, s: Any) -> Any:
        return implicit(f)(x, Int8(w.values, s))

    def by_whole(x: Any, s: Any) -> Any:
        return f(x, w.values.astype(s.dtype) * s)

    return by_implicit, by_whole


def total(f: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        return sum((y**2).sum() for y in jax.tree.leaves(f(*args)))

    return run


def twice(f: Callable[..., Any]) -> Callable[..., Any]:
    """The gradient of the size of the gradient."""
    return jax.grad(total(jax.grad(total(f), (0, 1))), (0, 1))


TRANSFORMATIONS: dict[str, Callable[..., Any]] = {
    "value": lambda f: f,
    "jit": jax.jit,
    "gradient": lambda f: jax.grad(total(f), (0, 1)),
    "compiled gradient": lambda f: jax.jit(jax.grad(total(f), (0, 1))),
    "gradient of what is compiled": lambda f: jax.grad(total(jax.jit(f)), (0, 1)),
    "gradient of a checkpoint": lambda f: jax.grad(total(jax.checkpoint(f)), (0, 1)),
    "gradient of a gradient": twice,
    "batch": lambda f: lambda x, s: jax.vmap(f)(jnp.stack([x, -x]), jnp.stack([s, 2 * s])),
    "gradients of a batch": lambda f: (
        lambda x, s: jax.vmap(jax.grad(total(f), (0, 1)))(jnp.stack([x, -x]), jnp.stack([s, 2 * s]))
    ),
    "gradient of a batch": lambda f: jax.grad(
        total(lambda x, s: jax.vmap(f, (0, None))(jnp.stack([x, -x]), s)), (0, 1)
    ),
    "gradient of a scan": lambda f: jax.grad(
        total(lambda x, s: jax.lax.scan(lambda c, i: (c, f(x * i, s * c)), s, jnp.ones(2))),
        (0, 1),
    ),
}


PAIRS = [(name, how) for name in ("custom_jvp", "custom_vjp", "in scan") for how in TRANSFORMATIONS]
PAIRS += [(name, how) for name in FUNCTIONS for how in ("value", "gradient of a batch")]


@pytest.mark.sample(every=8, rest=2)
@pytest.mark.parametrize(("name", "how"), dict.fromkeys(PAIRS))
def test_the_rule_of_the_user_holds(name: str, how: str) -> None:
    by_implicit, by_whole = map(TRANSFORMATIONS[how], forms(FUNCTIONS[name]))
    s = weight().scale
    assert_same(by_implicit(X, s), by_whole(X, s))


FORWARDS = ["custom_jvp", "relu", "logsumexp", "in jit"]


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("name", FORWARDS)
def test_a_tangent_goes_by_the_rule(name: str) -> None:
    by_implicit, by_whole = forms(FUNCTIONS[name])
    s = weight().scale
    found = jax.jvp(by_implicit, (X, s), (X + 1, s))
    assert_same(found, jax.jvp(by_whole, (X, s), (X + 1, s)))
    assert_same(
        jax.jit(jax.hessian(total(by_implicit), 1))(X, s),
        jax.jit(jax.hessian(total(by_whole), 1))(X, s),
    )


def test_a_gradient_in_reverse_alone_has_no_tangent() -> None:
    with pytest.raises(TypeError, match="custom_vjp"):
        jax.jvp(lambda x: implicit(skewed)(x, weight()), (X,), (X,))


@pytest.mark.parametrize("f", [steep, skewed])
def test_what_is_frozen_is_whole_nowhere(f: Any) -> None:
    w = weight()
    HITS.clear()
    with materializing("error"):
        found = jax.jit(jax.grad(total(implicit(f))))(X, w)
        jax.jit(jax.grad(total(implicit(f)))).lower(X, w)
    assert len(HITS) > 2
    assert_same(found, jax.jit(jax.grad(total(f)))(X, w.materialize()))


def test_what_becomes_whole_for_a_rule_is_told_of() -> None:
    w = weight()

    def loss(s: Any) -> Any:
        return total(implicit(steep))(X, Int8(w.values, s))

    with materializations() as report:
        jax.grad(loss)(w.scale)
    assert {record.what for record in report} == {"the derivative of custom_jvp_call"}
    with materializing("error"), pytest.raises(MaterializeError, match="derivative of custom_jvp"):
        jax.grad(loss)(w.scale)


@pytest.mark.parametrize("f", [steep, skewed])
def test_integer_fields_have_no_gradient_and_others_theirs(f: Any) -> None:
    w = weight()
    g = jax.grad(total(implicit(f)), 1, allow_int=True)(X, w)
    assert isinstance(g, Int8)
    assert g.values.dtype == jax.dtypes.float0
    wanted = jax.grad(lambda s: total(f)(X, w.values.astype(jnp.float32) * s))(w.scale)
    assert_same(g.scale, wanted)


@pytest.mark.parametrize("f", [steep, skewed])
def test_adapters_on_integers_get_their_gradients(f: Any) -> None:
    w = weight()
    a, b = jnp.ones((4, 2)), jnp.linspace(0, 1, 10).reshape(2, 5)
    found = jax.jit(jax.grad(lambda a, b: total(implicit(f))(X, LoRA(w, a, b)), (0, 1)))(a, b)
    wanted = jax.jit(jax.grad(lambda a, b: total(f)(X, w.materialize() + a @ b), (0, 1)))(a, b)
    assert_same(found, wanted)


# Rules that take more than arrays.


@jax.custom_vjp
def many(tree: Any, count: Any) -> Any:
    return {"y": tree["x"] @ tree["w"], "n": count + 1, "x": tree["x"]}


many.defvjp(
    lambda tree, count: (many(tree, count), tree),
    lambda tree, g: (
        {"x": 7 * g["x"], "w": jnp.ones_like(tree["w"])},
        np.zeros((), jax.dtypes.float0),
    ),
)


def test_results_in_containers_some_of_them_integers() -> None:
    w = weight()

    def loss(x: Any, s: Any, w: Any, f: Any) -> Any:
        y = f(many)({"x": x, "w": w(s)}, 3)
        return (y["y"] * y["n"]).sum() + y["x"].sum()

    found = jax.grad(loss, (0, 1))(X, w.scale, lambda s: Int8(w.values, s), implicit)
    whole = w.values.astype(jnp.float32)
    assert_same(found, jax.grad(loss, (0, 1))(X, w.scale, lambda s: whole * s, lambda f: f))


def test_numbers_that_are_no_arguments_of_the_rule() -> None:
    def power(n: int, x: Any, w: Any) -> Any:
        return (x @ w) ** n

    f = jax.custom_vjp(power, nondiff_argnums=(0,))
    f.defvjp(lambda n, x, w: (f(n, x, w), w), lambda n, w, g: (n * g @ w.T, 0 * w))
    found = jax.grad(lambda x: implicit(f)(3, x, weight()).sum())(X)
    assert_same(found, 3 * jnp.ones((3, 5)) @ weight().materialize().T)


def test_a_rule_that_asks_which_tangents_are_zero() -> None:
    seen: list[bool] = []

    @jax.custom_jvp
    def f(x: Any, w: Any) -> Any:
        return x @ w

    @f.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        raise AssertionError

    def rule(primals: Any, tangents: Any) -> Any:
        (x, w), (tx, tw) = primals, tangents
        seen.append(isinstance(tw, jax.custom_derivatives.SymbolicZero))
        return f(x, w), 2 * (tx @ w)

    f.defjvp(rule, symbolic_zeros=True)
    found = jax.grad(lambda x: implicit(f)(x, weight()).sum())(X)
    assert_same(found, 2 * jnp.ones((3, 5)) @ weight().materialize().T)
    assert all(seen)


def test_what_a_function_captures_has_its_gradient() -> None:
    w = weight()

    def loss(c: Any, w: Any) -> Any:
        @jax.custom_jvp
        def f(x: Any, c: Any) -> Any:
            return x * c

        f.defjvps(lambda t, y, x, c: 2 * t * c, lambda t, y, x, c: 3 * t * x)
        return jax.lax.map(lambda x: f(x @ w, c).sum(), X).sum()

    assert_same(
        jax.jit(jax.grad(implicit(loss)))(2.0, w), jax.jit(jax.grad(loss))(2.0, w.materialize())
    )


def test_an_error_in_a_rule_is_its_own() -> None:
    @jax.custom_jvp
    def f(x: Any, w: Any) -> Any:
        return x @ w

    @f.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        raise ZeroDivisionError("in the rule")

    assert implicit(f)(X, weight()).shape == (3, 5)
    with pytest.raises(ZeroDivisionError, match="in the rule"):
        jax.grad(lambda x: implicit(f)(x, weight()).sum())(X)


# Results that stay implicit.


@jax.custom_vjp
def limited(w: Any) -> Any:
    """The same array; its gradient is no more than 1."""
    return w


limited.defvjp(lambda w: (w, None), lambda _, g: (jnp.clip(g, -1, 1),))


def use(x: Any, w: Any) -> Any:
    return jnp.sin(x @ limited(w)) * 3


def test_a_result_stays_implicit_and_the_rule_holds() -> None:
    w = weight()
    with materializing("error"):
        assert isinstance(implicit(limited)(w), Int8)
        assert_same(implicit(use)(X, w), use(X, w.materialize()))
    found = jax.grad(total(implicit(use)))(X, w)
    assert_same(found, jax.grad(total(use))(X, w.materialize()))


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("how", TRANSFORMATIONS)
def test_a_result_that_stays_implicit_is_derived_by_the_rule(how: str) -> None:
    by_implicit, by_whole = map(TRANSFORMATIONS[how], forms(use))
    s = weight().scale
    assert_same(by_implicit(X, s), by_whole(X, s))


def test_a_handler_keeps_a_result_implicit_and_the_rule_holds() -> None:
    def rectified(a: Diagonal, b: jax.Array) -> Any:
        return Diagonal(jnp.maximum(a.values, 0))

    # The array is 0 off its diagonal, and so is what the function gives.
    register("max", precedence=1)(rectified)
    try:
        d = jnp.array([1.0, -2.0, 3.0, 0.5])
        with materializing("error"):
            y = implicit(jax.nn.relu)(Diagonal(d))
            assert isinstance(y, Diagonal)
        f = implicit(lambda x, w: x @ jax.nn.relu(w))
        found = jax.jit(jax.grad(lambda x, d: (f(x, Diagonal(d)) ** 2).sum(), (0, 1)))(X, d)
    finally:
        unregister("max", rectified)
    wanted = jax.jit(jax.grad(lambda x, d: ((x * jax.nn.relu(d)) ** 2).sum(), (0, 1)))(X, d)
    assert_same(found, wanted)


def test_integers_that_stay_implicit_are_themselves() -> None:
    @jax.custom_jvp
    def same(w: Any) -> Any:
        return w

    same.defjvps(lambda t, y, w: t)
    assert isinstance(implicit(same)(Diagonal(jnp.arange(3))), Diagonal)


# What an implicit result holds for its derivative.


@jax.custom_jvp
def steeper(w: Any) -> Any:
    """The same array; its slope is 3, and is not that of its value."""
    return w


steeper.defjvps(lambda t, y, w: 3 * t)


@jax.custom_jvp
def doubled(w: Any) -> Any:
    """Twice the array, with another slope, which depends on it."""
    return 2 * w


@doubled.defjvp
def _(primals: Any, tangents: Any) -> Any:
    (w,), (t,) = primals, tangents
    return 2 * w, 5 * jnp.cos(w) * t


def test_an_implicit_result_holds_nothing_of_its_own_size() -> None:
    n = 50
    w = LowRank(jnp.ones((n, 2)), jnp.ones((2, n)))

    def f(w: Any) -> Any:
        return 2 * doubled(steeper(w)).T

    with materializing("error"):
        compiled = jax.jit(implicit(f))
        assert all(x.size <= 2 * n for x in jax.tree.leaves(compiled(w)))
        assert f"{n}x{n}" not in compiled.lower(w).as_text()
        assert f"{n},{n}" not in str(jax.make_jaxpr(implicit(f))(w))
        assert isinstance(implicit(f)(w), LowRank)


def with_itself(x: Any, w: Any) -> Any:
    v = doubled(w)
    return jnp.sin(x @ (v * v + v))


def in_a_loop(x: Any, w: Any) -> Any:
    v = steeper(w)
    return jax.lax.scan(lambda c, row: (jnp.tanh(c @ v) + row, c), x[0], x)[1]


def by_a_rule_that_is_not_linear(x: Any, w: Any) -> Any:
    v = limited(w)
    return jnp.sin(x @ v) + x @ v.T + x @ (v * x[0, 1])


STRUCTURED: dict[str, Callable[[Any, Any], Any]] = {
    "used twice": lambda x, w: jnp.sin(x @ steeper(w)) + x @ doubled(w),
    "one in the other": lambda x, w: jnp.sin(x @ doubled(steeper(w)).T) @ (2 * steeper(w)),
    "scaled by another": lambda x, w: jnp.sin(x @ (x[0, 0] * doubled(w))),
    "with itself": with_itself,
    "in a compiled function": lambda x, w: jax.jit(lambda v: jnp.sin(x @ v))(doubled(w)),
    "in a loop": in_a_loop,
    "from either branch": lambda x, w: x @ jax.lax.cond(x[0, 0] > 0, steeper, doubled, w),
    "from one branch": lambda x, w: x @ jax.lax.cond(x[0, 0] > 0, steeper, lambda w: w, w),
    "by a rule that is not linear": by_a_rule_that_is_not_linear,
}
FACTORS = np.random.default_rng(5).normal(size=(2, 4)).astype(np.float32)
MAKES: dict[str, Callable[[Any], Any]] = {
    "low rank": lambda s: LowRank(s * FACTORS.T, jnp.asarray(FACTORS[::-1])),
    "diagonal": lambda s: Diagonal(FACTORS[0] * s**2),
}


@pytest.mark.sample(every=12, rest=4)
@pytest.mark.parametrize("how", TRANSFORMATIONS)
@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("name", STRUCTURED)
def test_an_implicit_result_has_the_derivatives_of_a_dense_one(
    name: str, make: str, how: str
) -> None:
    f, transform = STRUCTURED[name], TRANSFORMATIONS[how]
    found = transform(lambda x, s: implicit(f)(x, MAKES[make](s)))(X, jnp.float32(0.7))
    wanted = transform(lambda x, s: f(x, MAKES[make](s).materialize()))(X, jnp.float32(0.7))
    assert_same(found, wanted)


def test_a_choice_in_a_batch_has_a_gradient_of_any_order() -> None:
    def in_batches(f: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        rows = jax.vmap(f, (0, None))
        return total(
            lambda x, s: jax.vmap(rows)(jnp.stack([x, -x, -x, 2 * x]).reshape(2, 2, *x.shape), s)
        )

    def slopes(f: Callable[[Any, Any], Any]) -> Any:
        gradient = jax.grad(in_batches(f), 1)
        second = jax.grad(lambda x, s: gradient(x, s).sum(), (0, 1))
        return jax.jit(lambda x, s: (gradient(x, s), second(x, s)))(X, jnp.float32([0.7, 1.4]))

    f, make = STRUCTURED["from either branch"], MAKES["low rank"]
    found = slopes(lambda x, s: implicit(f)(x, make(s)))
    assert_same(found, slopes(lambda x, s: f(x, make(s).materialize())))


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("name", [name for name in STRUCTURED if "rule" not in name])
def test_an_implicit_result_has_tangents_and_a_hessian(name: str) -> None:
    f, s = STRUCTURED[name], jnp.float32(0.7)

    def by_implicit(x: Any, s: Any) -> Any:
        return total(implicit(f))(x, MAKES["diagonal"](s))

    def by_whole(x: Any, s: Any) -> Any:
        return total(f)(x, MAKES["diagonal"](s).materialize())

    def derivatives(f: Callable[[Any, Any], Any]) -> Any:
        return jax.jit(lambda x, s: (jax.jvp(f, (x, s), (x, s)), jax.hessian(f, (0, 1))(x, s)))(
            X, s
        )

    assert_same(derivatives(by_implicit), derivatives(by_whole))


def test_a_result_of_a_rule_in_reverse_has_zeros_beside_it_that_are_reported() -> None:
    w = weight()
    with materializations() as report:
        jax.jit(implicit(limited)).lower(w)
    assert [record.what for record in report] == ["the derivative of custom_vjp_call"]
    assert report[0].type == "Int8"
    with materializing("error"), pytest.raises(MaterializeError, match="derivative of custom_vjp"):
        jax.jit(implicit(limited)).lower(w)


def test_cotangents_are_added_up_before_a_rule() -> None:
    w = weight()

    def twice(w: Any) -> Any:
        v = limited(w)
        return (X @ v).sum() + (X @ v).sum()

    found = jax.grad(lambda s: implicit(twice)(Int8(w.values, s)))(w.scale)
    assert_same(found, jax.grad(lambda s: twice(w.values * s))(w.scale))


def test_default_handlers_of_a_class_get_what_a_result_holds() -> None:
    seen: list[tuple[type, ...]] = []

    @dataclass(frozen=True)
    class Asked(ImplicitArray):
        values: Any

        def materialize(self) -> Any:
            return self.values

        @classmethod
        def default_handler(cls, target: Any, *operands: Any, **parameters: Any) -> Any:
            seen.append(tuple(map(type, operands)))
            return target.bind(*[x.values for x in operands], **parameters)

    w = Asked(jnp.ones((2, 2)))
    jax.jit(implicit(lambda a, b: a @ steeper(b))).lower(w, w)
    assert seen == [(Asked, Asked)]


def test_a_policy_holds_for_the_backward_pass() -> None:
    w = weight()

    def loss(s: Any) -> Any:
        return total(implicit(skewed, materialize="error"))(X, Int8(w.values, s))

    with pytest.raises(MaterializeError, match="derivative of custom_vjp"):
        jax.grad(loss)(w.scale)


@pytest.mark.exhaustive
@settings(max_examples=6)  # JAX compiles for each
@given(
    st.sampled_from(["float16", "bfloat16", "float32"]),
    st.tuples(*[st.integers(0, 4)] * 3),
    st.sampled_from([steep, skewed]),
)
def test_every_dtype_and_length(dtype: str, lengths: tuple[int, int, int], f: Any) -> None:
    m, k, n = lengths
    rng = np.random.default_rng(m + 5 * k + 25 * n)
    values = jnp.asarray(rng.integers(-3, 3, (k, n)), jnp.int8)
    x, s = jnp.asarray(rng.normal(size=(m, k)), dtype), jnp.asarray(0.5, dtype)

    def loss(make: Callable[[Any], Any], f: Any) -> Any:
        return jax.value_and_grad(lambda x, s: f(x, make(s)).sum(), (0, 1))(x, s)

    found = loss(lambda s: Int8(values, s), implicit(f))
    wanted = loss(lambda s: values.astype(dtype) * s, f)
    tolerance = 1e-5 if dtype == "float32" else 0.05
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        a, b = (np.asarray(y, np.float64) for y in (a, b))
        size = np.max(np.abs(b), initial=1)
        np.testing.assert_allclose(a, b, atol=tolerance * size)


@jax.custom_jvp
def squared(x: Any) -> Any:
    return x * x


@squared.defjvp
def _squared_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return squared(x), 2 * x * t


def test_a_function_of_implicit_results_alone_densifies_nothing_until_a_derivative_is_used() -> (
    None
):
    w = Diagonal(jnp.arange(1.0, 4.0))
    with materializing("error"):
        y, _ = jax.jvp(implicit(squared), (w,), (w,))
    np.testing.assert_allclose(np.asarray(y), np.diag([1.0, 4.0, 9.0]))


def test_a_result_that_is_used_twice_is_differentiated_once() -> None:
    """The program of a gradient grows with the number of steps, not as a power of two."""

    def loss(d: Any, steps: int) -> Any:
        def chain(w: Any) -> Any:
            for _ in range(steps):
                w = squared(w) + w
            return w.sum()

        return implicit(chain)(Diagonal(d))

    d = jnp.asarray([0.5, -0.25, 0.125])
    programs = [jax.make_jaxpr(jax.grad(partial(loss, steps=n)))(d) for n in (2, 4, 6)]
    sizes = [len(str(program).splitlines()) for program in programs]
    assert sizes[2] - sizes[1] < 2 * (sizes[1] - sizes[0])
    expected = jax.grad(lambda d: sum_of_chain(jnp.diag(d), 3))(d)
    np.testing.assert_allclose(jax.grad(loss)(d, 3), expected, 1e-5)


def sum_of_chain(w: Any, steps: int) -> Any:
    for _ in range(steps):
        w = w * w + w
    return w.sum()


def test_effects_of_a_custom_jvp_happen_though_its_result_is_unused(
    capfd: pytest.CaptureFixture[str],
) -> None:
    @jax.custom_jvp
    def loud(x: Any) -> Any:
        jax.debug.print("sum {}", x.sum())
        return 2 * x

    @loud.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        return loud(*primals), 2 * tangents[0]

    @implicit
    def loss(w: Any, x: Any) -> Any:
        loud(w)
        return (w @ x).sum()

    w, x = Diagonal(jnp.ones(3)), jnp.ones(3)
    for transform in (
        jax.jit,
        lambda f: jax.jit(jax.grad(f)),
        lambda f: jax.jit(jax.value_and_grad(f)),
    ):
        transform(loss)(w, x)
        jax.effects_barrier()
        assert capfd.readouterr().out == "sum 3.0\n"


def test_a_batched_function_knows_the_name_of_its_axis() -> None:
    @jax.custom_jvp
    def total(x: Any, w: Any) -> Any:
        return jax.lax.psum(x, "i") + (w @ x)

    @total.defjvp
    def _total_jvp(primals: Any, tangents: Any) -> Any:
        return jax.jvp(lambda x, w: jax.lax.psum(x, "i") + w @ x, primals, tangents)

    xs = jnp.arange(6.0).reshape(2, 3)
    w = Diagonal(jnp.asarray([1.0, 2.0, 3.0]))
    y = jax.jit(jax.vmap(lambda x: implicit(total)(x, w), axis_name="i"))(xs)
    np.testing.assert_allclose(y, xs.sum(0) + xs * np.array([1.0, 2.0, 3.0]), 1e-6)
