"""What captured functions hold is never stale, and new values in it trace and compile nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
from graphc.errors import ArgumentError
from graphc.link.jax.attention.attend import flex_attention
from tests.attention.by_hand import blocked, compilations, dense, normal

N = 24
SHAPE = (1, 1, N, N)
STEPS = 100


@functools.cache
def operands() -> tuple[Any, Any, Any]:
    q, k, v = (normal(2, 2, N, 4, seed=i, dtype="float32") for i in range(3))
    return q, k, v


def document(ids: Any) -> Callable[..., Any]:
    return lambda b, h, i, j: ids[i] == ids[j]


def alibi(slopes: Any) -> Callable[..., Any]:
    return lambda s, b, h, i, j: s - slopes[h] * abs(i - j)


def within(lengths: Any) -> Callable[..., Any]:
    return lambda b, h, i, j: j < lengths[b]


def close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)


def layouts() -> list[Any]:
    random = np.random.default_rng(5)
    return [np.sort(random.integers(0, 4, N)) for _ in range(STEPS)]


def test_new_documents_and_slopes_each_step_compile_nothing() -> None:
    q, k, v = operands()
    masks = [blocked(document(ids), SHAPE) for ids in layouts()]
    slopes = [np.array([0.1, 0.2], "float32") * i for i in range(STEPS)]
    flex_attention(q, k, v, alibi(slopes[0]), masks[0])
    with compilations() as found:
        for mask, slope in zip(masks, slopes, strict=True):
            out = flex_attention(q, k, v, alibi(slope), mask)
    assert not found
    close(out, dense(q, k, v, alibi(jnp.asarray(slopes[-1])), document(layouts()[-1]))[0])


def test_new_lengths_of_two_sequences_compile_nothing() -> None:
    q, k, v = operands()
    lengths = [np.array([i % N + 1, (7 * i) % N + 1]) for i in range(STEPS)]
    masks = [blocked(within(n), (2, 1, N, N)) for n in lengths]
    flex_attention(q, k, v, None, masks[0])
    with compilations() as found:
        outs = [flex_attention(q, k, v, None, mask) for mask in masks]
    assert not found
    for out, n in zip(outs[::33], lengths[::33], strict=True):
        close(out, dense(q, k, v, None, within(jnp.asarray(n)))[0])


@pytest.mark.exhaustive
def test_gradients_by_new_closures_each_step_compile_nothing() -> None:
    q, k, v = operands()
    masks = [blocked(document(ids), SHAPE) for ids in layouts()]

    def step(mask: Any, slopes: Any, q: Any) -> Any:
        def loss(slopes: Any, q: Any) -> Any:
            return flex_attention(q, k, v, alibi(slopes), mask).sum()

        return jax.grad(loss, (0, 1))(slopes, q)

    slopes = jnp.array([0.3, 0.1])
    step(masks[0], slopes, q)
    with compilations() as found:
        for mask in masks:
            by_slopes, by_q = step(mask, slopes, q)
    assert not found
    keep = document(jnp.asarray(layouts()[-1]))
    wanted = jax.grad(lambda s, q: dense(q, k, v, alibi(s), keep)[0].sum(), (0, 1))(slopes, q)
    close(by_slopes, wanted[0])
    close(by_q, wanted[1])


def test_a_compiled_step_that_is_given_masks_is_traced_once() -> None:
    q, k, v = operands()
    masks = [blocked(document(ids), SHAPE) for ids in layouts()]
    traces = []

    @jax.jit
    def step(slopes: Any, mask: Any) -> Any:
        traces.append(1)
        f = lambda slopes: flex_attention(q, k, v, alibi(slopes), mask).sum()  # noqa: E731
        return slopes - 0.01 * jax.grad(f)(slopes)

    slopes = jnp.array([0.3, 0.1])
    slopes = step(slopes, masks[0])
    with compilations() as found:
        for mask in masks[1:]:
            slopes = step(slopes, mask)
    assert len(traces) == 1
    assert not found
    assert np.isfinite(slopes).all()


def test_marked_widths_compile_nothing_and_others_once_each() -> None:
    q, k, v = operands()

    def window(width: Any) -> Callable[..., Any]:
        return lambda b, h, i, j: (i - j < width) & (i >= j)

    def outs(widths: Any) -> list[Any]:
        return [flex_attention(q, k, v, None, blocked(window(w), SHAPE)) for w in widths]

    marked = [graphc.runtime(w) for w in (2, 5, 11, 17)]
    masks = [blocked(window(w), SHAPE) for w in marked]
    flex_attention(q, k, v, None, masks[0])
    with compilations() as found:
        results = [flex_attention(q, k, v, None, mask) for mask in masks]
    assert not found
    for out, other, w in zip(results, outs((2, 5, 11, 17)), marked, strict=True):
        wanted, _ = dense(q, k, v, None, window(int(w)))
        close(out, wanted)
        close(other, wanted)


# What earlier libraries got wrong: each function is written as a user might, and has new values.


def scored(score: Callable[..., Any], wanted: Callable[..., Any]) -> None:
    q, k, v = operands()
    close(flex_attention(q, k, v, score), dense(q, k, v, wanted)[0])


def test_other_defaults_are_other_programs() -> None:
    for width in (3, 9, 3.0):

        def score(s: Any, b: Any, h: Any, i: Any, j: Any, w: Any = width) -> Any:
            return jnp.where(abs(i - j) < w, s, s / w)

        scored(score, lambda s, b, h, i, j, w=width: jnp.where(abs(i - j) < w, s, s / w))


def test_arrays_among_defaults_are_leaves() -> None:
    q, k, v = operands()
    found = None
    for factor in (1.0, 2.0, 3.0):
        bias = np.arange(N, dtype="float32") * factor

        def score(s: Any, b: Any, h: Any, i: Any, j: Any, bias: Any = bias) -> Any:
            return s + bias[j]

        if found is None:
            flex_attention(q, k, v, score)
        with compilations() as found:
            out = flex_attention(q, k, v, score)
        assert not found
        close(out, dense(q, k, v, lambda s, b, h, i, j, x=bias: s + jnp.asarray(x)[j])[0])


def test_other_globals_are_other_programs_or_new_values() -> None:
    def score(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return s * factor + bias[j]  # noqa: F821 (globals of each copy)

    for f in (1.0, 0.5):
        for x in (jnp.zeros(N), jnp.arange(N) / 7):
            copy = FunctionType(score.__code__, {"factor": f, "bias": x})
            scored(copy, lambda s, b, h, i, j, f=f, x=x: s * f + x[j])


def test_a_helper_that_is_captured_twice_has_new_values_in_both_places() -> None:
    for factor in (1.0, 4.0):
        bias = jnp.arange(N) * factor / 10

        def helper(j: Any, bias: Any = bias) -> Any:
            return bias[j]

        helpers = {"a": helper}

        def score(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
            return s + helper(i) * helpers["a"](j)  # noqa: B023 (called within the loop)

        scored(score, lambda s, b, h, i, j, x=bias: s + x[i] * x[j])


def test_functions_that_call_themselves_have_new_values() -> None:
    def powers(bias: Any) -> Callable[..., Any]:
        def power(j: Any, n: int) -> Any:
            return 1.0 if n == 0 else bias[j] * power(j, n - 1)

        return lambda s, b, h, i, j: s + power(j, 3)

    for factor in (0.3, 0.9):
        bias = jnp.arange(N) * factor / 10
        scored(powers(bias), lambda s, b, h, i, j, x=bias: s + x[j] ** 3)


def test_methods_read_the_arrays_of_their_object_as_they_are() -> None:
    class Learned:
        def __init__(self, bias: Any) -> None:
            self.bias = bias

        def score(self, s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
            return s + self.bias[j]

    q, k, v = operands()
    learned = Learned(jnp.zeros(N))
    flex_attention(q, k, v, learned.score)
    learned.bias = jnp.arange(N) / 3
    with compilations() as found:
        out = flex_attention(q, k, v, learned.score)
    assert not found
    close(out, dense(q, k, v, learned.score)[0])

    def loss(bias: Any) -> Any:
        return flex_attention(q, k, v, Learned(bias).score).sum()

    wanted = jax.grad(lambda x: dense(q, k, v, Learned(x).score)[0].sum())(learned.bias)
    close(jax.grad(loss)(learned.bias), wanted)


def test_partial_functions_and_callable_objects_have_new_values() -> None:
    def biased(bias: Any, s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return s + bias[j]

    class Biased:
        def __init__(self, bias: Any) -> None:
            self.bias = bias

        def __call__(self, s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
            return s + self.bias[j]

    for factor in (0.1, 0.7):
        bias = jnp.arange(N) * factor
        for score in (functools.partial(biased, bias), Biased(bias), jax.jit(Biased(bias))):
            scored(score, functools.partial(biased, bias))


def test_variables_that_the_function_writes_to_are_refused() -> None:
    q, k, v = operands()
    calls = 0

    def counted(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        nonlocal calls
        calls += 1
        return s

    seen: list[Any] = []

    def noted(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        seen.append(s)
        return s

    for score, name in ((counted, "calls"), (noted, "seen")):
        with pytest.raises(ArgumentError, match=f"`{name}`.*not fixed"):
            flex_attention(q, k, v, score)


def test_arrays_that_are_written_to_later_have_new_values() -> None:
    q, k, v = operands()
    slopes = np.array([0.5, 0.25], "float32")
    score = alibi(slopes)
    first = flex_attention(q, k, v, score)
    slopes *= -1
    second = flex_attention(q, k, v, score)
    close(first, dense(q, k, v, alibi(-jnp.asarray(slopes)))[0])
    close(second, dense(q, k, v, alibi(jnp.asarray(slopes)))[0])
