"""More programs: loops, branches, rules of the user's, derivatives, networks."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from graphc.implicit import LoRA, implicit
from tests.implicit.programs import (
    ENTRYWISE,
    Int8,
    dense,
    entered,
    hit,
    simple,
    stacked,
)

simple(
    "hit",
    "",
    scan_const=lambda x, w: lax.scan(lambda c, row: (jnp.tanh(c @ w + row), c), x[0], x),
    scan_backwards=lambda x, w: lax.scan(lambda c, row: (c @ w, row), x[0], x, reverse=True),
    scan_unrolled=lambda x, w: lax.scan(lambda c, row: (c @ w, row), x[0], x, unroll=2),
    scan_of_scan=lambda x, w: lax.scan(
        lambda c, _: (lax.scan(lambda d, r: (d @ w / 9 + r, None), c, x)[0], c), x[0], None, 3
    ),
    scan_carry=lambda x, w: lax.scan(lambda c, row: ((c[0] @ c[1], c[1]), row), (x, w), x)[0][0],
    scan_with_random=lambda x, w: lax.scan(
        lambda key, row: (jax.random.fold_in(key, 1), row @ w + jax.random.uniform(key)),
        jax.random.key(0),
        x,
    )[1],
    while_const=lambda x, w: lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, jnp.tanh(c[1] @ w)), (0, x)
    ),
    while_in_the_condition=lambda x, w: lax.while_loop(
        lambda c: (c @ w).sum() < 100, lambda c: jnp.abs(c) * 2 + 1, jnp.abs(x)
    ),
    while_carry=lambda x, w: lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, jnp.tanh(c[1] @ c[2]), c[2]), (0, x, w)
    )[1],
    fori=lambda x, w: lax.fori_loop(0, 3, lambda i, c: jnp.tanh(c @ w) + i, x),
    fori_to_a_traced_end=lambda x, w: jax.jit(
        lambda n: lax.fori_loop(0, n, lambda i, c: jnp.tanh(c @ w) + i, x)
    )(3),
    mapped=lambda x, w: lax.map(lambda row: row @ w, x),
    mapped_in_batches=lambda x, w: lax.map(lambda row: row @ w, x, batch_size=2),
    associative_scan=lambda x, w: lax.associative_scan(lambda a, b: a + b @ w, x),
    cond=lambda x, w: lax.cond(x[0, 0] > 0, lambda x, w: x @ w, lambda x, w: x - 1, x, w),
    cond_captured=lambda x, w: lax.cond(x[0, 0] > 0, lambda: x @ w, lambda: -(x @ w)),
    switch=lambda x, w: lax.switch(2, [lambda x, w: x, jnp.matmul, lambda x, w: x @ w @ w], x, w),
    cond_gives_it=lambda x, w: x @ lax.cond(x[0, 0] > 0, lambda w: w, lambda w: w, w),
    scan_of_cond=lambda x, w: lax.scan(
        lambda c, r: (lax.cond(r[0] > 0, lambda c: c @ w, lambda c: c + 1, c), None), x, x
    )[0],
    selected_by_index=lambda x, w: lax.switch(
        x[0, 0].astype(int) % 2, [lambda: x @ w, lambda: (w @ x.T).T]
    ),
)
simple(
    "dense",
    "a branch gives another array, so that both are whole",
    cond_of_mixed_structure=lambda x, w: x @ lax.cond(x[0, 0] > 0, lambda: w, lambda: jnp.eye(6)),
)
simple(
    "dense",
    "the loop's body gives it whole",
    scan_carry_becomes_whole=lambda x, w: lax.scan(lambda c, row: (c * 0.5, row @ c), w, x),
    while_carry_becomes_whole=lambda x, w: lax.fori_loop(0, 3, lambda i, c: c * 0.5 + i, w),
)


@stacked
def scan_over_a_stack(w: Any, x: Any) -> Any:
    return implicit(lambda x, w: lax.scan(lambda c, v: (jnp.tanh(c @ v), c.sum()), x, w))(x, w)


@stacked
def map_over_a_stack(w: Any, x: Any) -> Any:
    return implicit(lambda x, w: lax.map(lambda v: x @ v, w))(x, w)


@stacked
def gradient_of_scan_over_a_stack(w: Any, x: Any) -> Any:
    def loss(x: Any, w: Any) -> Any:
        return lax.scan(lambda c, v: (jnp.tanh(c @ v), None), x, w)[0].sum()

    return implicit(jax.grad(loss))(x, w), jax.grad(implicit(loss))(x, w)


@stacked
def scan_around_implicit(w: Any, x: Any) -> Any:
    return lax.scan(lambda c, v: (implicit(jnp.matmul)(c, v), None), x, w)[0]


# Functions with derivatives of their own.


@jax.custom_jvp
def sines(x: Any, w: Any) -> Any:
    return jnp.sin(x @ w)


@sines.defjvp
def _(primals: Any, tangents: Any) -> Any:
    (x, w), (tx, tw) = primals, tangents
    y = x @ w
    # Three times the slope, to be told from the derivative itself.
    return jnp.sin(y), 3 * jnp.cos(y) * (tx @ w + x @ tw)


@jax.custom_vjp
def reversed_gradient(x: Any, w: Any) -> Any:
    return x @ w


reversed_gradient.defvjp(
    lambda x, w: (x @ w, (x, w)),
    lambda saved, g: (-jnp.einsum("ik,jk->ij", g, saved[1]), -saved[0].T @ g),
)

simple("hit", "", custom_jvp=sines, custom_vjp=reversed_gradient)


@hit
def gradient_through_custom_jvp(w: Any, x: Any) -> Any:
    return jax.grad(lambda x, w: implicit(sines)(x, w).sum())(x, w)


@hit
def implicit_gradient_of_custom_jvp(w: Any, x: Any) -> Any:
    return implicit(jax.grad(lambda x, w: sines(x, w).sum()))(x, w)


@hit
def gradient_through_custom_vjp(w: Any, x: Any) -> Any:
    return jax.grad(lambda x, w: (implicit(reversed_gradient)(x, w) ** 2).sum())(x, w)


@hit
def implicit_gradient_of_custom_vjp(w: Any, x: Any) -> Any:
    return implicit(jax.grad(lambda x, w: (reversed_gradient(x, w) ** 2).sum()))(x, w)


@hit
def tangent_through_custom_jvp(w: Any, x: Any) -> Any:
    return jax.jvp(lambda x: implicit(sines)(x, w), (x,), (x + 1,))


@hit
def gradient_through_relu(w: Any, x: Any) -> Any:
    f = implicit(lambda x, w: jax.nn.relu(x @ w).sum())
    return jax.jit(jax.value_and_grad(f))(x, w)


@dense("the rule has the weight's whole tangent")
def scale_gradient_through_custom_jvp(w: Any, x: Any) -> Any:
    return by_scale(w, lambda w: implicit(sines)(x, w).sum())


def by_scale(w: Any, f: Any) -> Any:
    """The gradient by the int8 array's factor; of the dense array, by a factor of it all."""
    if isinstance(w, Int8):
        return jax.grad(lambda s: f(Int8(w.values, s)))(w.scale)
    return jax.grad(lambda s: f(w * (s / 0.01)))(jnp.float32(0.01))


# Derivatives.


def loss(x: Any, w: Any) -> Any:
    return jnp.tanh(x @ w).sum()


@hit
def gradient_around(w: Any, x: Any) -> Any:
    return jax.grad(implicit(loss))(x, w)


@hit
def gradient_within(w: Any, x: Any) -> Any:
    return implicit(jax.value_and_grad(loss))(x, w)


@hit
def scale_gradient(w: Any, x: Any) -> Any:
    return by_scale(w, lambda w: implicit(loss)(x, w))


@hit
def compiled_scale_gradient(w: Any, x: Any) -> Any:
    return by_scale(w, lambda w: jax.jit(implicit(loss))(x, w))


@hit
def checkpointed_gradient(w: Any, x: Any) -> Any:
    f = jax.checkpoint(loss)
    return jax.grad(implicit(f))(x, w), implicit(jax.grad(f))(x, w)


@hit
def checkpointed_gradient_by_policy(w: Any, x: Any) -> Any:
    f = jax.checkpoint(loss, policy=jax.checkpoint_policies.dots_saveable)
    return jax.grad(implicit(f))(x, w), implicit(jax.grad(f))(x, w)


@hit
def checkpoint_around(w: Any, x: Any) -> Any:
    return jax.grad(jax.checkpoint(implicit(loss)))(x, w)


@hit
def jacobian_forwards(w: Any, x: Any) -> Any:
    return jax.jacfwd(implicit(lambda x, w: jnp.sin(x @ w)))(x[0], w)


@hit
def jacobian_backwards(w: Any, x: Any) -> Any:
    return implicit(jax.jacrev(lambda x, w: jnp.sin(x @ w)))(x[0], w)


@hit
def hessian(w: Any, x: Any) -> Any:
    f = lambda x, w: loss(x[None], w)  # noqa: E731
    return jax.hessian(implicit(f))(x[0], w), implicit(jax.hessian(f))(x[0], w)


@hit
def tangent(w: Any, x: Any) -> Any:
    return implicit(lambda x, w: jax.jvp(lambda x: loss(x, w), (x,), (x,)))(x, w)


@hit
def linearized(w: Any, x: Any) -> Any:
    y, push = jax.linearize(lambda x: implicit(jnp.matmul)(jnp.sin(x), w), x)
    return y, push(x)


@hit
def pullback(w: Any, x: Any) -> Any:
    y, pull = jax.vjp(lambda x: implicit(jnp.matmul)(jnp.sin(x), w), x)
    return y, pull(y)


@hit
def transposed_function(w: Any, x: Any) -> Any:
    return jax.linear_transpose(lambda x: implicit(jnp.matmul)(x, w), x)(x)


@hit
def gradient_of_scan(w: Any, x: Any) -> Any:
    def total(x: Any, w: Any) -> Any:
        return lax.scan(lambda c, row: (jnp.tanh(c @ w + row), None), x[0], x)[0].sum()

    return implicit(jax.grad(total))(x, w), jax.grad(implicit(total))(x, w)


@hit
def gradient_of_gradient(w: Any, x: Any) -> Any:
    return jax.grad(lambda x: (jax.grad(implicit(loss))(x, w) ** 2).sum())(x)


@hit
def gradients_of_rows(w: Any, x: Any) -> Any:
    return jax.vmap(jax.grad(implicit(lambda x, w: jnp.sin(x @ w).sum())), (0, None))(x, w)


@hit
def adapters_on_it(w: Any, x: Any) -> Any:
    a, b = jnp.linspace(-1, 1, 12).reshape(6, 2), jnp.linspace(0, 1, 12).reshape(2, 6)

    def f(a: Any, b: Any) -> Any:
        if isinstance(w, Int8):
            return implicit(loss)(x, LoRA(w, a, b))
        return loss(x, w + a @ b)

    return f(a, b), jax.grad(f, (0, 1))(a, b), jax.jit(jax.grad(f, (0, 1)))(a, b)


@hit
def adapters_in_a_scan(w: Any, x: Any) -> Any:
    a, b = jnp.linspace(-1, 1, 12).reshape(6, 2), jnp.linspace(0, 1, 12).reshape(2, 6)

    def total(x: Any, w: Any) -> Any:
        return lax.scan(lambda c, row: (jnp.tanh(c @ w + row), None), x[0], x)[0].sum()

    def f(a: Any, b: Any) -> Any:
        if isinstance(w, Int8):
            return implicit(total)(x, LoRA(w, a, b))
        return total(x, w + a @ b)

    return jax.grad(f, (0, 1))(a, b)


# Networks.

simple(
    "hit",
    "",
    perceptron=lambda x, w: jax.nn.gelu(jax.nn.gelu(x @ w + 1) @ w - 1) @ w,
    attention=lambda x, w: jax.nn.softmax((x @ w) @ (x @ w).T / 6**0.5) @ (x @ w) @ w,
    heads=lambda x, w: jnp.einsum(
        "hqk,khd->qhd",
        jax.nn.softmax(
            jnp.einsum("qhd,khd->hqk", (x @ w).reshape(5, 2, 3), (x @ w).reshape(5, 2, 3))
        ),
        (x @ w).reshape(5, 2, 3),
    ),
    attention_by_jax=lambda x, w: jax.nn.dot_product_attention(
        *[(x @ w).reshape(1, 5, 2, 3)] * 3, is_causal=True
    ),
    recurrent=lambda x, w: lax.scan(lambda h, row: (jnp.tanh(row @ w + h @ w), h), x[0], x),
    residual=lambda x, w: x + jax.nn.silu(x @ w) * (x @ w) @ w,
    cross_entropy=lambda x, w: -jax.nn.log_softmax(x @ w)[jnp.arange(5), jnp.arange(5)].mean(),
)
simple("dense", ENTRYWISE, tied_and_scaled=lambda x, w: jnp.einsum("ij,kj->ik", x @ w, w / 2))


@hit
def long_short_term_memory(w: Any, x: Any) -> Any:
    def step(state: Any, row: Any, w: Any) -> Any:
        h, c = state
        i, f, g, o = (row @ w + h @ w + n for n in range(4))
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    def run(x: Any, w: Any) -> Any:
        return lax.scan(partial(step, w=w), (x[0], x[0]), x)[1]

    return implicit(run)(x, w)


@hit
def one_step_of_training(w: Any, x: Any) -> Any:
    def total(b: Any, x: Any, w: Any) -> Any:
        return ((jax.nn.relu(x @ w + b) @ w) ** 2).mean()

    @jax.jit
    def step(b: Any, x: Any, w: Any) -> Any:
        value, g = jax.value_and_grad(implicit(total))(b, x, w)
        return value, b - 0.1 * g

    return lax.fori_loop(0, 3, lambda i, b: step(b, x, w)[1], jnp.ones(6))


# What can't be.

OUTSIDE = "implicit|Int8|not a valid JAX type|JAX array type"


@entered("error", OUTSIDE)
def outside_an_implicit_function(w: Any, x: Any) -> Any:
    return jnp.dot(x, w)


@entered("error", "Tracer|traced|concrete")
def asked_in_python(w: Any, x: Any) -> Any:
    return implicit(lambda x, w: x @ w if w.sum() > 0 else x)(x, w)


@entered("error", "Tracer|traced|concrete")
def made_a_number_in_python(w: Any, x: Any) -> Any:
    return implicit(lambda x, w: x * float(w[0, 0]))(x, w)
