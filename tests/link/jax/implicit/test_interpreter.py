"""Functions of JAX's with implicit arguments: what is dispatched, what is kept, what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from jax import lax

import graphc.tensor as gt
from graphc.errors import ArgumentError, ImplicitArrayError, MaterializeError
from graphc.implicit import (
    Diagonal,
    ImplicitArray,
    is_implicit,
    materializations,
    materialize_nested,
    materializing,
)
from graphc.implicit.functions import implicit, materialize_handler, use_implicit
from graphc.implicit.namespace import numpy_like
from graphc.link.jax.primitives import primitive, primitive_names
from tests.implicit.scaled import Scaled, array, assert_like, handled, hits, made

X = array(2, 4)
W = made(4, 4)


# Arguments and results.


def test_arguments_are_nested_in_any_way() -> None:
    def program(tree: Any, *more: Any, scale: Any = 1.0, **named: Any) -> Any:
        x, (w, nothing) = tree["x"], tree["pair"]
        return {"y": x @ w * scale, "z": [more[0] @ named["w"], nothing, "text"], "f": len}

    args = ({"x": X, "pair": (W, None)}, X)
    found = implicit(program, materialize="error")(*args, scale=2.0, w=W)
    assert found["z"][1:] == [None, "text"]
    assert found["f"] is len
    assert_like(found["y"], X @ W.materialize() * 2.0)
    assert_like(found["z"][0], X @ W.materialize())


def test_what_is_no_array_is_given_as_it_is() -> None:
    seen: list[Any] = []

    def program(w: Any, *rest: Any) -> Any:
        seen.append(rest)
        return w @ X.T

    run = implicit(program)
    for value in (1, True, 1.0, 0.0, -0.0, "a", None, {1, 2}, object()):
        run(W, value)
        assert seen[-1][0] is value or repr(seen[-1][0]) == repr(value)


def test_a_static_argument_decides_what_is_computed() -> None:
    run = implicit(lambda w, axis, keep: jnp.sum(w, axis=axis, keepdims=keep))
    for axis in (0, 1, None, (0, 1)):
        for keep in (True, False):
            assert_like(run(W, axis, keep), jnp.sum(W.materialize(), axis=axis, keepdims=keep))


def test_a_result_may_be_implicit() -> None:
    found = implicit(lambda w: {"a": w, "b": 2 * w})(W)
    assert is_implicit(found["a"])
    assert is_implicit(found["b"])
    assert_like(found["b"], 2 * W.materialize())


def test_an_implicit_array_made_within_is_a_result() -> None:
    found = implicit(lambda w, v, s: (Scaled(v, s), w @ X.T))(W, W.values, W.scale)
    assert isinstance(found[0], Scaled)
    assert_like(found[0], W.materialize())


def test_numpy_arrays_are_taken_and_jax_arrays_given() -> None:
    w = Scaled(np.asarray(W.values), np.asarray(W.scale))
    found, same = implicit(lambda x, w: (x @ w, x), materialize="error")(np.asarray(X), w)
    assert isinstance(found, jax.Array)
    assert isinstance(same, jax.Array)
    assert_like(found, X @ W.materialize())


def test_symbolic_arrays_are_refused() -> None:
    with pytest.raises(ImplicitArrayError, match=r"symbolic.*\n.*wrap_jax.*test_interpreter"):
        implicit(lambda x, w: x @ w)(gt.matrix("x"), W)


def test_random_keys_are_operands_like_others() -> None:
    def program(key: Any, w: Any) -> Any:
        first, second = jax.random.split(key)
        noise = jax.random.normal(first, (2, 4)) @ w
        keys = lax.scan(lambda k, _: (jax.random.fold_in(k, 1), k), second, length=2)
        return noise, keys

    key = jax.random.key(3)
    found, keys = implicit(program, materialize="error")(key, W)
    wanted, wanted_keys = program(key, W.materialize())
    assert_like(found, wanted)
    assert_like(
        jax.tree.map(jax.random.key_data, keys), jax.tree.map(jax.random.key_data, wanted_keys)
    )


def test_the_function_keeps_its_name_and_its_text() -> None:
    def program(w: Any) -> Any:
        """What it does."""
        return w @ X.T

    for wrap in (implicit, use_implicit, implicit(materialize="allow"), use_implicit()):
        found = wrap(program)
        assert (found.__name__, found.__doc__) == ("program", "What it does.")
        assert_like(found(W), program(W.materialize()))


def test_it_decorates_methods() -> None:
    class Layer:
        def __init__(self, bias: Any) -> None:
            self.bias = bias

        @implicit
        def forward(self, x: Any, w: Any) -> Any:
            return x @ w + self.bias

        @implicit(materialize="error")
        def strict(self, x: Any, w: Any) -> Any:
            return x @ w + self.bias

    layer = Layer(array(4))
    assert_like(layer.forward(X, W), X @ W.materialize() + layer.bias)
    layer.bias = layer.bias + 1
    assert_like(layer.forward(X, W), X @ W.materialize() + layer.bias)
    assert_like(layer.strict(X, w=W), X @ W.materialize() + layer.bias)


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"implicit\(3\): expected a function"):
        implicit(3)
    with pytest.raises(ImplicitArrayError, match="never"):
        implicit(len, materialize="never")


FLOATS = [jnp.float16, jnp.bfloat16, jnp.float32]


@pytest.mark.exhaustive
@settings(deadline=None, max_examples=10)
@given(
    rows=st.sampled_from([0, 2]),
    inner=st.sampled_from([0, 3]),
    columns=st.sampled_from([1, 3]),
    dtype=st.sampled_from(FLOATS),
    other=st.sampled_from(FLOATS),
    factor=st.sampled_from([2, 0.5, True]),
)
def test_types_are_those_of_the_dense_program(
    rows: int, inner: int, columns: int, dtype: Any, other: Any, factor: Any
) -> None:
    x = array(rows, inner).astype(other)
    w = made(inner, columns)
    w = Scaled(w.values, w.scale.astype(dtype))

    def program(x: Any, w: Any) -> Any:
        y = x @ w
        return y, factor * w, y.sum(), jnp.where(True, 1.0, 2), jnp.tanh(w) * factor, w.T

    found, wanted = implicit(program)(x, w), program(x, w.materialize())
    assert_like(found, wanted, rtol=2e-2)


# What is dispatched.


def test_einsum_dot_and_tensordot_reach_the_one_handler() -> None:
    for program in (
        jnp.dot,
        lambda x, w: jnp.einsum("ij,jk->ik", x, w),
        lambda x, w: jnp.einsum("ij,kj->ik", x, w),
        lambda x, w: jnp.tensordot(x, w, 1),
        jnp.inner,
        lax.dot,
        lambda x, w: jnp.matmul(x, w, preferred_element_type=jnp.float32),
    ):
        with hits() as taken:
            found = implicit(program, materialize="error")(X, W)
            assert taken == ["dot_general"]
        assert_like(found, program(X, W.materialize()))


def test_operators_of_implicit_arrays_are_dispatched() -> None:
    with hits() as taken, materializing("error"):
        found = [X @ W, W @ X.T, 2 * W, W * jnp.float32(3)]
    assert taken == ["dot_general", "dot_general", "mul", "mul"]
    w = W.materialize()
    assert_like(found, [X @ w, w @ X.T, 2 * w, w * 3])


def test_what_changes_nothing_keeps_the_form() -> None:
    def program(w: Any) -> Any:
        w = lax.reshape(lax.convert_element_type(w, jnp.float32), (4, 4))
        w = lax.transpose(lax.slice(w, (0, 0), (4, 4)), (0, 1))
        return lax.squeeze(lax.broadcast_in_dim(w, (4, 4), (0, 1)), ())

    assert isinstance(implicit(program, materialize="error")(W), Scaled)
    assert implicit(lambda w: lax.transpose(w, (1, 0)))(W).shape == (4, 4)


def test_dead_equations_are_not_run() -> None:
    def program(x: Any, w: Any) -> Any:
        unused = jnp.sin(w) + 1
        _, rows = lax.scan(lambda c, _: (c, (c @ w, jnp.cos(w))), x, length=2)
        jax.jit(lambda w: (w * 2, jnp.exp(w)))(w)
        first, _ = jax.jit(lambda x, w: (x @ w, jnp.exp(w)))(x, w)
        kept = lax.cond(x.sum() > 0, lambda w: (x @ w, w), lambda w: (x, w + 1), w)[0]
        return jax.jvp(lambda x: x @ w, (x,), (x,))[1], rows[0], first, kept, unused * 0 is None

    found = implicit(program, materialize="error")(X, W)
    assert_like(found[:-1], program(X, W.materialize())[:-1])


def test_effects_happen_once() -> None:
    seen: list[Any] = []

    def program(x: Any, w: Any) -> Any:
        jax.debug.callback(lambda x: seen.append(float(x)), x.sum())
        lax.scan(lambda c, _: (c, jax.debug.callback(lambda c: seen.append(1), c)), x, length=2)
        return x @ w

    run = implicit(program, materialize="error")
    for call in (run, run, jax.jit(run)):
        seen.clear()
        jax.block_until_ready(call(X, W))
        jax.effects_barrier()
        assert sorted(seen) == sorted([float(X.sum()), 1, 1])


def test_several_results_come_from_handlers_and_some_are_unused() -> None:
    def split(x: Scaled, *, sizes: Any, axis: int, **_: Any) -> Any:
        if axis != 0:
            return NotImplemented
        return [Scaled(part, x.scale) for part in lax.split(x.values, sizes)]

    def program(w: Any) -> Any:
        return jnp.split(w, 2)[1], jnp.split(w, 2, axis=1)

    with handled("split", split), materializations() as told:
        found = implicit(program)(W)
    assert isinstance(found[0], Scaled)
    assert [x.what for x in told] == ["split"]
    assert_like(found, program(W.materialize()))


def test_a_class_handles_by_default_what_nothing_else_does() -> None:
    asked: list[str] = []

    @dataclass(frozen=True, repr=False)
    class Negative(ImplicitArray):
        of: jax.Array

        def materialize(self) -> Any:
            return -self.of

        @classmethod
        def default_handler(cls, target: Any, *operands: Any, **parameters: Any) -> Any:
            asked.append(target.name)
            if target.name not in {"sum", "neg"}:
                return NotImplemented
            (x,) = operands
            return x.of

    run = implicit(jax.jit(lambda x: (-x, jnp.exp(x))))
    with materializations() as told:
        found = run(Negative(X))
    assert_like(found, (X, jnp.exp(-X)))
    assert asked == ["neg", "exp"]
    assert [x.what for x in told] == ["exp"]


def test_a_handler_of_calls_goes_before_what_is_in_them() -> None:
    def call(x: jax.Array, w: Scaled, *, name: str, **_: Any) -> Any:
        return [x + 100] if name == "special" else NotImplemented

    @jax.jit
    def special(x: Any, w: Any) -> Any:
        return x @ w

    with handled("jit", call):
        found = implicit(lambda x, w: (special(x, w), jax.jit(jnp.dot)(x, w)))(X, W)
    assert_like(found, (X + 100, X @ W.materialize()))


@dataclass(frozen=True, repr=False)
class Times(ImplicitArray):
    """An array, perhaps implicit, times a number."""

    of: Any
    factor: Any

    def materialize(self) -> Any:
        return self.of * self.factor


def test_a_handler_reaches_those_of_implicit_fields() -> None:
    def direct(x: jax.Array, w: Times, **parameters: Any) -> Any:
        return lax.dot_general(x, w.of, **parameters) * w.factor

    def wrapped(x: jax.Array, w: Times, **parameters: Any) -> Any:
        return implicit(lax.dot_general)(x, w.of, **parameters) * w.factor

    def bound(x: jax.Array, w: Times, **parameters: Any) -> Any:
        return lax.dot_general_p.bind(x, w.of, **parameters) * w.factor

    run = implicit(jnp.dot, materialize="error")
    nested = Times(Times(W, jnp.float32(3)), jnp.float32(2))
    for handler in (direct, wrapped, bound):
        with handled("dot_general", handler), hits() as found:
            assert_like(run(X, nested), X @ W.materialize() * 6)
            assert "dot_general" in found
            slope = jax.grad(lambda f, run=run: run(X, Times(W, f)).sum())(jnp.float32(2))
            assert_like(slope, (X @ W.materialize()).sum())


def test_a_result_of_implicit_fields_keeps_its_structure() -> None:
    def negated(x: Times, **parameters: Any) -> Any:
        return Times(lax.neg(x.of), x.factor)

    with handled("neg", negated):
        x = Times(Diagonal(jnp.ones(4)), jnp.float32(2))
        found = implicit(jnp.negative, materialize="error")(x)
    assert isinstance(found, Times)
    assert isinstance(found.of, Diagonal)
    assert_like(materialize_nested(found, full=True), -2 * jnp.eye(4))


def test_an_error_of_a_handler_of_implicit_fields_is_its_own() -> None:
    def wrong(x: Times, **parameters: Any) -> Any:
        return lax.sin(x.of, "more", "and", "more")

    def sine(x: Times, **parameters: Any) -> Any:
        return lax.sin(x.of, **parameters)

    run = implicit(jnp.sin, materialize="error")
    with handled("sin", wrong), pytest.raises(TypeError, match="positional") as error:
        run(Times(W, jnp.float32(2)))
    assert any("wrong handles sin" in note for note in error.value.__notes__)
    with handled("sin", sine), pytest.raises(MaterializeError, match=r"^Scaled.* for sin"):
        run(Times(W, jnp.float32(2)))


def test_handlers_may_make_their_operands_whole() -> None:
    def sine(x: Scaled, **parameters: Any) -> Any:
        return materialize_handler(lax.sin_p, x, **parameters)

    run = implicit(jnp.sin)
    with handled("sin", sine), materializations() as told:
        assert_like(run(W), jnp.sin(W.materialize()))
    (found,) = told
    assert found.what == "sin"
    assert str(found.where).startswith("test_interpreter.py:")
    with handled("sin", sine), pytest.raises(MaterializeError), materializing("error"):
        run(W)
    y = materialize_handler(gt.exp, gt.vector("v"))
    assert y is gt.exp(y.inputs[0])


# Names of primitives.


def test_primitives_are_found_by_name() -> None:
    assert primitive("dot_general") is lax.dot_general_p
    assert primitive("mul") is lax.mul_p
    assert primitive("nothing of that name") is None
    known = {"jit", "pjit", "scan", "while", "cond", "custom_jvp_call", "remat"}
    assert known <= set(primitive_names())
    for function in (jax.jit(jnp.sin), jax.checkpoint(jnp.sin), jax.nn.relu, jnp.sin):
        (eqn,) = jax.make_jaxpr(function)(1.0).eqns
        assert primitive(eqn.primitive.name) is eqn.primitive


# The level of JAX.


def test_functions_by_the_library_of_the_fields() -> None:
    xp = numpy_like(W)
    w = W.materialize()
    assert xp.name == "JAX"
    assert xp is numpy_like(np.ones(2), X)
    assert xp.shape_of(W) == (4, 4)
    with hits() as taken:
        assert_like(xp.dot_general(X, W, ((1,), (0,))), X @ w)
        assert_like(xp.matmul(X, W), X @ w)
        assert_like(xp.einsum("ij,jk->ik", X, W), X @ w)
        assert taken == ["dot_general"] * 3
    assert isinstance(xp.cast(W, "float32"), Scaled)
    assert_like(xp.cast(W, "float16"), w.astype(jnp.float16))
    assert_like(xp.cast(X, "int32"), X.astype(jnp.int32))
    assert_like(xp.concatenate([W, w]), jnp.concatenate([w, w]))
    assert_like(xp.where(w > 0, W, 0), jnp.where(w > 0, w, 0))
    assert_like(xp.getitem(W, (slice(1, 3), None)), w[1:3, None])
    assert_like(xp.getitem(W, (jnp.array([1, 1]),)), w[jnp.array([1, 1])])
    assert_like(xp.implicit(jnp.dot)(X, W), X @ w)
    ids = jnp.array([0, 2, 2, -1, 7])
    values = array(5, 2)
    wanted = jnp.stack([values[0], values[0] * 0, values[1] + values[2]])
    assert_like(xp.segment_sum(values, ids, 3), wanted)
