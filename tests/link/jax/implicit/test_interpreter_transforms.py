"""``jit``, ``vmap`` and ``grad`` around implicit functions; what their programs keep and cost."""

from __future__ import annotations

import functools
import gc
import threading
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from graphc.implicit import is_implicit, materializations
from graphc.implicit.functions import implicit
from tests.implicit.scaled import HITS, Scaled, array, assert_like, hits, made

X = array(2, 4)
W = made(4, 4)
STACK = made(3, 4, 4)


def loss(w: Any, x: Any) -> Any:
    return jnp.sum(jnp.sin(x @ w) ** 2)


def dense_loss(values: Any, scale: Any, x: Any) -> Any:
    return loss(values.astype(scale.dtype) * scale, x)


# Derivatives.


def test_a_gradient_by_an_implicit_array_is_one() -> None:
    grad = jax.grad(implicit(loss, materialize="error"), allow_int=True)
    for run in (grad, jax.jit(grad)):
        found = run(W, X)
        assert isinstance(found, Scaled)
        assert found.values.dtype == jax.dtypes.float0
        wanted = jax.jit(jax.grad(dense_loss, 1))(W.values, W.scale, X)
        assert_like(found.scale, wanted)


def test_gradients_of_loops_by_scales_and_by_dense_arrays() -> None:
    def program(w: Any, x: Any) -> Any:
        y, _ = lax.scan(lambda c, u: (jnp.tanh(c @ u), None), x, w)
        y = jax.checkpoint(lambda y: jnp.sin(y @ (w[0] * 1.0)))(y)
        return lax.fori_loop(0, 2, lambda _, y: y * 0.5, y).sum()

    def dense(scale: Any, x: Any) -> Any:
        return program(STACK.values.astype(jnp.float32) * scale, x)

    by_scale, by_x = jax.jit(jax.grad(implicit(program), (0, 1), allow_int=True))(STACK, X)
    wanted = jax.jit(jax.grad(dense, (0, 1)))(STACK.scale, X)
    assert_like((by_scale.scale, by_x), wanted, rtol=1e-4)


@pytest.mark.exhaustive
def test_forward_mode_and_second_derivatives() -> None:
    run = implicit(loss, materialize="error")
    dense = functools.partial(loss, W.materialize())
    assert_like(jax.jvp(lambda x: run(W, x), (X,), (X,)), jax.jvp(dense, (X,), (X,)))
    found = jax.jit(jax.hessian(lambda x: run(W, x)))(X)
    assert_like(found, jax.hessian(dense)(X), rtol=1e-4)

    def by_scale(scale: Any) -> Any:
        return run(Scaled(W.values, scale), X)

    wanted = jax.hessian(functools.partial(dense_loss, W.values, x=X))(W.scale)
    assert_like(jax.hessian(by_scale)(W.scale), wanted, rtol=1e-4)


def test_gradients_within_and_around() -> None:
    inner = implicit(jax.grad(loss, 1), materialize="error")
    wanted = jax.jit(jax.grad(loss, 1))(W.materialize(), X)
    for run in (inner, jax.jit(inner)):
        assert_like(run(W, X), wanted)
    outer = jax.grad(lambda x: inner(W, x).sum())
    assert_like(
        outer(X), jax.jit(jax.grad(lambda x: jax.grad(loss, 1)(W.materialize(), x).sum()))(X)
    )
    by_whole = implicit(jax.grad(loss))(W, X)
    assert_like(by_whole, jax.jit(jax.grad(loss))(W.materialize(), X))


# Batches.


def test_batches_of_implicit_arrays() -> None:
    run = implicit(lambda w, x: (jnp.tanh(x @ w), w * 2), materialize="error")
    for batched in (jax.vmap(run, (0, None)), jax.jit(jax.vmap(run, (0, None)))):
        found, doubled = batched(STACK, X)
        assert isinstance(doubled, Scaled)
        dense = STACK.materialize()
        assert_like((found, doubled), (jnp.tanh(X @ dense), dense * 2))


def test_batches_of_everything() -> None:
    xs = array(3, 2, 4)
    dense = STACK.materialize()
    wanted = jnp.einsum("bij,bjk->bik", xs, dense)
    assert_like(jax.jit(jax.vmap(implicit(jnp.dot, materialize="error")))(xs, STACK), wanted)
    inside = implicit(jax.vmap(jnp.dot), materialize="error")
    assert_like(inside(xs, STACK), wanted)
    grads = jax.jit(jax.vmap(jax.grad(implicit(loss), allow_int=True)))(STACK, xs)
    wanted = jax.jit(jax.vmap(jax.grad(dense_loss, 1)))(STACK.values, STACK.scale, xs)
    assert_like(grads.scale, wanted)


def test_a_batch_of_loops() -> None:
    def program(w: Any, x: Any) -> Any:
        return lax.while_loop(
            lambda c: c[1] < 3, lambda c: (jnp.tanh(c[0] @ c[2]), c[1] + 1, c[2]), (x, 0, w)
        )[0]

    found = jax.vmap(implicit(program, materialize="error"), (0, None))(STACK, X)
    assert_like(found, jax.vmap(program, (0, None))(STACK.materialize(), X))


def test_implicit_functions_in_loops_and_in_one_another() -> None:
    step = implicit(lambda c, w: jnp.tanh(c @ w), materialize="error")
    found = lax.scan(lambda c, w: (step(c, w), None), X, STACK)[0]
    wanted = lax.scan(lambda c, w: (jnp.tanh(c @ w), None), X, STACK.materialize())[0]
    assert_like(found, wanted)
    outer = implicit(lambda c, w: lax.scan(lambda c, u: (step(c, u), None), c, w)[0])
    assert_like(outer(X, STACK), wanted)


# What programs keep.


def lowered(function: Any, *args: Any, **options: Any) -> str:
    function.__name__ = "program"
    return str(jax.jit(function, **options).lower(*args).as_text())


def by_hand(x: Any, w: Any) -> Any:
    return lax.dot_general(x, w.values.astype(x.dtype), (((1,), (0,)), ((), ()))) * (
        w.scale.reshape(1, 4)
    )


def straight(dot: Any, x: Any, w: Any) -> Any:
    return jnp.tanh(dot(x, w)) * 2 + 1


def looped(dot: Any, x: Any, w: Any) -> Any:
    def body(c: Any, _: Any) -> Any:
        return jnp.where(c > 0, dot(c, w), c * 0.5), c.sum()

    y, sums = lax.scan(body, x, length=3, unroll=2, reverse=True)
    return jax.jit(lambda y: dot(y, w) + sums[0])(y)


def branched(dot: Any, x: Any, w: Any) -> Any:
    y = lax.cond(x.sum() > 0, lambda: dot(x, w), lambda: x - 1)
    return lax.while_loop(lambda c: c.sum() < 9.0, lambda c: dot(c, w) + 3, y)


def remembered(dot: Any, x: Any, w: Any) -> Any:
    policy = jax.checkpoint_policies.dots_saveable
    return jax.grad(lambda x: jax.checkpoint(lambda x: jnp.sin(dot(x, w)), policy=policy)(x).sum())(
        x
    )


@pytest.mark.parametrize("program", [straight, looped, branched])
def test_nothing_is_left_when_the_program_runs(program: Any) -> None:
    found = lowered(implicit(lambda x, w: program(jnp.dot, x, w)), X, W)
    assert found == lowered(lambda x, w: program(by_hand, x, w), X, W)


def test_a_compiled_function_keeps_its_name_and_its_donations() -> None:
    def special(x: Any, w: Any) -> Any:
        return x @ w

    compiled = jax.jit(special, donate_argnums=0, keep_unused=True)
    (eqn,) = jax.make_jaxpr(implicit(compiled))(X, W).eqns
    (dense,) = jax.make_jaxpr(compiled)(X, W.materialize()).eqns
    assert eqn.params["name"] == "special"
    assert eqn.params["donated_invars"] == (True, False, False)
    for name in ("keep_unused", "inline", "compiler_options_kvs"):
        assert eqn.params[name] == dense.params[name]
    x = X + 0
    implicit(compiled)(x, W)
    assert x.is_deleted()


def test_a_compiled_function_keeps_its_shardings() -> None:
    mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    spread = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("i"))
    compiled = jax.jit(jnp.dot, in_shardings=(spread, None), out_shardings=spread)
    (eqn,) = jax.make_jaxpr(implicit(compiled))(X, W).eqns
    (dense,) = jax.make_jaxpr(compiled)(X, W.materialize()).eqns
    assert eqn.params["in_shardings"][0] == dense.params["in_shardings"][0]
    assert eqn.params["out_shardings"] == dense.params["out_shardings"]
    assert_like(jax.jit(implicit(compiled))(X, W), X @ W.materialize())


def test_loops_and_checkpoints_keep_their_parameters() -> None:
    def program(x: Any, w: Any) -> Any:
        policy = jax.checkpoint_policies.dots_saveable
        y, _ = lax.scan(lambda c, _: (c @ w, None), x, length=5, reverse=True, unroll=5)
        return jax.checkpoint(jnp.dot, policy=policy, prevent_cse=False)(y, w)

    found = jax.make_jaxpr(implicit(program))(X, W).eqns
    wanted = jax.make_jaxpr(program)(X, W.materialize()).eqns
    changed = {"jaxpr", "num_consts", "linear", "ft_in"}  # by the number of operands
    for a, b in zip(found, wanted, strict=True):
        assert a.primitive is b.primitive
        assert {k: v for k, v in a.params.items() if k not in changed} == {
            k: v for k, v in b.params.items() if k not in changed
        }


# What it costs.


@functools.lru_cache
def note(_: object) -> None:
    """Its misses are counted, and lift sees a function without effects."""


def test_a_function_is_traced_once_for_equal_types() -> None:
    def program(x: Any, w: Any, factor: Any) -> Any:
        note(object())
        return x @ w * factor

    def traces() -> int:
        return note.cache_info().misses

    run = implicit(program)
    note.cache_clear()
    for seed in range(3):
        x = array(2, 4, seed=seed)
        assert_like(run(x, W, 2), x @ W.materialize() * 2)
    assert traces() == 1
    run(array(3, 4), W, 2)
    run(X, Scaled(W.values, W.scale, "named"), 2)  # to the function, an array as the other
    assert traces() == 2
    run(X, W, 2.0)
    assert traces() == 3


@pytest.mark.parametrize("depth", [1, 3, 5])
def test_nested_loops_are_not_traced_again_and_again(depth: int) -> None:
    def nested(x: Any, w: Any, left: int = depth) -> Any:
        if not left:
            return jnp.tanh(x @ w)
        return lax.scan(lambda c, _: (nested(c, w, left - 1), None), x, length=2)[0]

    with hits() as taken:
        jax.make_jaxpr(implicit(nested, materialize="error"))(X, W)
        assert len(taken) == 1


def test_nested_loops_whose_carries_change_are_traced_few_times() -> None:
    def nested(x: Any, w: Any, left: int) -> Any:
        if not left:
            return x @ w, w + 1

        def body(c: Any, _: Any) -> Any:
            return nested(*c, left - 1), None

        return lax.scan(body, (x, w), length=2)[0]

    counts = []
    for depth in (1, 2, 3, 4):
        with hits() as taken, materializations():
            jax.make_jaxpr(implicit(lambda x, w, d=depth: nested(x, w, d)))(X, W)
            counts.append(len(taken))
    assert counts == [1, 1, 1, 1]  # tried once with w implicit; whole, there is no handler to reach


def test_bodies_are_kept_between_calls_and_not_beyond_new_handlers() -> None:
    run = implicit(lambda x, w: lax.scan(lambda c, _: (c @ w, None), x, length=3)[0])
    with hits() as taken:
        first = run(X, W)
        second = run(X, W)
        assert len(taken) == 1
    with hits() as taken:  # which registers a handler
        third = run(X, W)
        assert len(taken) == 1
    assert_like((first, second), (third, third))


@pytest.mark.exhaustive
def test_functions_and_what_they_capture_are_let_go() -> None:
    big = array(20, 20)

    def program(x: Any, w: Any) -> Any:
        return jax.jit(lambda x: x @ w)(x) + big[0, 0]

    run = implicit(program)
    run(X, W)
    kept = weakref.ref(program)
    del run, program
    gc.collect()
    assert kept() is None


def test_threads_do_not_meet() -> None:
    found: dict[int, Any] = {}

    def work(i: int) -> None:
        run = implicit(lambda x, w: lax.scan(lambda c, _: (c @ w * i, None), x, length=2)[0])
        found[i] = jax.jit(run)(X, W)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(4):
        assert_like(found[i], X @ W.materialize() @ W.materialize() * i * i)
    assert HITS


def test_64_bit_programs_are_others() -> None:
    run = implicit(lambda x, w: (x @ w, jnp.arange(3.0)))
    assert run(X, W)[1].dtype == jnp.float32
    with jax.enable_x64(True):
        x, w = array(2, 4, dtype=np.float64), made(4, 4, dtype=np.float64)
        found = run(x, w)
        assert_like(found, (x @ w.materialize(), jnp.arange(3.0)), rtol=1e-12)
        assert found[1].dtype == jnp.float64
    assert run(X, W)[1].dtype == jnp.float32
    assert not is_implicit(run(X, W)[0])
