"""Implicit arrays that loops carry and give, and that branches choose from."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings, strategies as st

import graphc
import graphc.tensor as gt
from graphc.implicit import materializations, materializing
from graphc.implicit.structures.lora import LoRA
from tests.implicit.symbolic import (
    Coded,
    Outer,
    Table,
    coded,
    dense,
    like,
    outer,
    slope,
    table,
    values,
    walk,
)

N, STEPS = 4, 3
RANDOM = np.random.default_rng(5)
X = RANDOM.normal(size=(2, N))
W, V, S = coded(N, N), coded(N, N, seed=2), coded(STEPS, N, N, seed=3)
W, V, S = (Coded(u.codes, 0.1 * u.scale) for u in (W, V, S))
x = gt.matrix("x")
w, v, s = like(W, "w"), like(V, "v"), like(S, "s")


def lora(*batch: int, seed: int = 0) -> LoRA:
    random = np.random.default_rng(seed)
    shapes = [(*batch, N, N), (*batch, N, 2), (*batch, 2, N)]
    return LoRA(*[0.4 * random.normal(size=shape) for shape in shapes])


# Carries and rows.


def test_a_carry_stays_implicit_where_a_step_keeps_its_form(mode: str) -> None:
    states, weights = graphc.scan(
        lambda h, u: (gt.tanh(h @ u), u * 0.5), outputs_info=[x, w], n_steps=STEPS
    )
    with materializing("error"):
        h, rows, last = values([states[-1], weights, weights[-1]], {x: X, w: W}, mode)
    assert isinstance(rows, Coded)
    assert isinstance(last, Coded)
    wanted = [dense(W) * 0.5**i for i in range(STEPS + 1)]
    np.testing.assert_allclose(h, walk(X, *wanted[:-1])[-1])
    np.testing.assert_allclose(dense(rows), np.stack(wanted[1:]))
    np.testing.assert_allclose(dense(last), wanted[-1])


def test_the_gradient_by_a_carrys_fields_is_right(mode: str) -> None:
    states, *_ = graphc.scan(
        lambda h, u: (gt.tanh(h @ u), u * 0.5), outputs_info=[x, w], n_steps=STEPS
    )
    with materializing("error"):
        found = values(graphc.grad((states**2).sum(), w.array.scale), {x: X, w: W}, mode)

    def expected(scale: Any) -> Any:
        return (walk(X, *[W.codes * scale * 0.5**i for i in range(STEPS)]) ** 2).sum()

    np.testing.assert_allclose(found, slope(expected, 0, W.scale), atol=1e-7)


def test_carries_change_places_and_stay_implicit(mode: str) -> None:
    (first, second), _ = graphc.loop(lambda c, _: ((c[1], c[0] * 2.0), None), (w, v), n_steps=3)
    with materializing("error"):
        found = values([first, second], {w: W, v: V}, mode)
    assert all(isinstance(y, Coded) for y in found)
    np.testing.assert_allclose(dense(found[0]), 2 * dense(V))
    np.testing.assert_allclose(dense(found[1]), 4 * dense(W))


def test_carries_that_get_each_others_other_form_are_whole(mode: str) -> None:
    z = gt.matrix("z", shape=(N, N))
    value = RANDOM.normal(size=(N, N))
    (first, second), _ = graphc.loop(lambda c, _: ((c[1], c[0]), None), (w, z), n_steps=3)
    with materializations() as report:
        found = values([first, second], {w: W, z: value}, mode)
    np.testing.assert_allclose(found[0], value)
    np.testing.assert_allclose(found[1], dense(W))
    assert report


def test_a_carry_whose_form_a_step_loses_is_whole(mode: str) -> None:
    states = graphc.scan(gt.sin, outputs_info=w, n_steps=STEPS)
    with materializations() as report:
        found = values(states[-1], {w: W}, mode)
    np.testing.assert_allclose(found, np.sin(np.sin(np.sin(dense(W)))))
    assert report


def test_a_carry_whose_fields_grow_is_whole(mode: str) -> None:
    def step(u: Any) -> Any:
        a, b = u.sum(1, keepdims=True), u.sum(0, keepdims=True)
        return gt.as_tensor(LoRA(u * 0.5, a, b))

    adapter = LoRA(dense(W), np.ones((N, 2)), np.ones((2, N)))
    u = like(adapter, "u")
    found = values(graphc.scan(step, outputs_info=u, n_steps=2)[-1], {u: adapter}, mode)
    whole = dense(adapter)
    for _ in range(2):
        whole = 0.5 * whole + whole.sum(1, keepdims=True) * whole.sum(0, keepdims=True)
    np.testing.assert_allclose(found, whole)


def test_a_dense_carry_that_a_step_makes_implicit_is_whole(mode: str) -> None:
    z = gt.matrix("z", shape=(N, N))
    value = RANDOM.normal(size=(N, N))

    def step(u: Any) -> Any:
        return gt.as_tensor(Table(u.sum(1), u.sum(0)))

    with materializations() as report:
        found = values(graphc.scan(step, outputs_info=z, n_steps=2), {z: value}, mode)
    first = np.outer(value.sum(1), value.sum(0))
    np.testing.assert_allclose(found[0], first)
    np.testing.assert_allclose(found[1], np.outer(first.sum(1), first.sum(0)))
    assert {entry.type for entry in report} == {"Table"}


def test_rows_that_are_implicit_are_a_stack(mode: str) -> None:
    rows = graphc.map(lambda a: gt.as_tensor(Outer(a, 2 * a)), x)
    with materializing("error"):
        found = values(rows, {x: X}, mode)
    assert isinstance(found, Outer)
    np.testing.assert_allclose(dense(found), np.stack([np.outer(a, 2 * a) for a in X]))


def test_rows_of_a_loop_that_stops_are_whole_and_zero_where_no_step_is(mode: str) -> None:
    def step(c: Any, a: Any) -> Any:
        return c + 1, gt.as_tensor(Outer(a + 1, a + 2))

    _, rows = graphc.loop(step, 0.0, gt.concatenate([x, x]), until=lambda c: c >= 3)
    found = values(rows, {x: X}, mode)
    wanted = [np.outer(a + 1, a + 2) for a in np.concatenate([X, X])[:3]]
    np.testing.assert_allclose(dense(found) if isinstance(found, Outer) else found, wanted)


def test_rows_of_a_class_without_stacks_are_whole(mode: str) -> None:
    rows = graphc.map(lambda a: gt.as_tensor(Table(a, 2 * a)), x)
    with materializations() as report:
        found = values(rows, {x: X}, mode)
    np.testing.assert_allclose(found, np.stack([np.outer(a, 2 * a) for a in X]))
    assert {entry.type for entry in report} == {"Table"}


def test_a_loop_of_no_steps_gives_what_it_began_with(mode: str) -> None:
    n = gt.lscalar("n")
    (h, u), _ = graphc.loop(
        lambda c, _: ((gt.tanh(c[0] @ c[1]), c[1] * 0.5), None), (x, w), n_steps=n
    )
    with materializing("error"):
        found = values([h, u], {x: X, w: W, n: 0}, mode)
    np.testing.assert_allclose(found[0], X)
    np.testing.assert_allclose(dense(found[1]), dense(W))


def test_a_while_loop_carries_implicit_arrays(mode: str) -> None:
    h, u = graphc.while_loop(
        lambda c: gt.abs(c[0]).sum() > 0.1,
        lambda c: (c[0] @ c[1], c[1] * 0.5),
        (x, w),
        max_steps=20,
    )
    with materializing("error"):
        found = values([h, u], {x: X, w: W}, mode)
    state, weight = X, dense(W)
    while np.abs(state).sum() > 0.1:
        state, weight = state @ weight, weight * 0.5
    np.testing.assert_allclose(found[0], state)
    np.testing.assert_allclose(dense(found[1]), weight)


# Branches.


def test_a_choice_between_arrays_of_one_form_is_one(mode: str) -> None:
    c = gt.lscalar("c")
    chosen = graphc.ifelse(c, w, v)
    with materializing("error"):
        for condition, value in ((1, W), (0, V)):
            y, u = values([x @ chosen, chosen], {x: X, w: W, v: V, c: condition}, mode)
            np.testing.assert_allclose(y, X @ dense(value))
            np.testing.assert_allclose(dense(u), dense(value))
            assert isinstance(u, Coded)


def test_a_choice_of_several_is_one_of_each_field(mode: str) -> None:
    i = gt.lscalar("i")
    chosen = graphc.switch_case(i, [lambda: w, lambda: w * 2.0, lambda: v])
    with materializing("error"):
        for index, whole in enumerate([dense(W), 2 * dense(W), dense(V)]):
            found = values(x @ chosen, {x: X, w: W, v: V, i: index}, mode)
            np.testing.assert_allclose(found, X @ whole)


def test_branches_take_implicit_arrays(mode: str) -> None:
    c = gt.lscalar("c")
    y = graphc.cond(c, lambda a, u: gt.tanh(a @ u), lambda a, u: a @ u @ v, x, w)
    with materializing("error"):
        both = [values(y, {x: X, w: W, v: V, c: i}, mode) for i in (0, 1)]
    np.testing.assert_allclose(both[0], X @ dense(W) @ dense(V))
    np.testing.assert_allclose(both[1], np.tanh(X @ dense(W)))


def test_the_gradient_of_a_choice_is_the_chosen_ones(mode: str) -> None:
    c = gt.lscalar("c")
    cost = ((x @ graphc.ifelse(c, w, v)) ** 2).sum()
    wrt = [w.array.scale, v.array.scale]
    with materializing("error"):
        by_w, by_v = values(graphc.grad(cost, wrt), {x: X, w: W, v: V, c: 1}, mode)
    np.testing.assert_allclose(by_w, (2 * (X @ dense(W)) * (X @ W.codes)).sum(0))
    np.testing.assert_array_equal(by_v, 0.0)


def test_a_choice_between_forms_is_whole(mode: str) -> None:
    c, t = gt.lscalar("c"), like(table(N, N), "t")
    given: dict[Any, Any] = {w: W, t: table(N, N)}
    with materializations() as report:
        for condition, value in ((1, W), (0, given[t])):
            found = values(gt.exp(graphc.ifelse(c, w, t)), {**given, c: condition}, mode)
            np.testing.assert_allclose(found, np.exp(dense(value)))
    assert {entry.type for entry in report} == {"Coded", "Table"}


def test_a_choice_in_a_step_keeps_the_carry_implicit(mode: str) -> None:
    def step(h: Any, u: Any) -> Any:
        return gt.tanh(h @ graphc.ifelse(h.sum() > 0, u, v)), u * 0.5

    states, weights = graphc.scan(step, outputs_info=[x, w], n_steps=STEPS)
    with materializing("error"):
        found, rows = values([states, weights], {x: X, w: W, v: V}, mode)
    h, u, wanted = X, dense(W), []
    for _ in range(STEPS):
        h, u = np.tanh(h @ (u if h.sum() > 0 else dense(V))), u * 0.5
        wanted.append(h)
    np.testing.assert_allclose(found, np.stack(wanted))
    assert isinstance(rows, Coded)


@settings(max_examples=25)
@given(st.data())
def test_a_loop_gives_what_the_dense_one_gives(data: st.DataObject) -> None:
    n, steps = data.draw(st.integers(0, 3), "n"), data.draw(st.integers(0, 4), "steps")
    make = data.draw(st.sampled_from([coded, outer]), "make")
    backwards = data.draw(st.booleans(), "backwards")
    checkpoint = data.draw(st.sampled_from([None, 1, 2, "sqrt"]), "checkpoint")
    stack, constant, carry = (
        make(*shape, seed=i) for i, shape in enumerate([(steps, n, n), (n, n), (n, n)])
    )
    a, b, c = (like(u, name) for u, name in ((stack, "a"), (constant, "b"), (carry, "c")))
    states, *_ = graphc.scan(
        lambda a, h, c: (gt.tanh(h @ a + h @ b + h @ c), c * 0.5),
        a,
        [gt.ones((2, n)), c],
        go_backwards=backwards,
        checkpoint=checkpoint,
    )
    found = values(states, {a: stack, b: constant, c: carry})
    h, last, wanted = np.ones((2, n)), dense(carry), []
    for u in dense(stack)[:: -1 if backwards else 1]:
        h, last = np.tanh(h @ u + h @ dense(constant) + h @ last), last * 0.5
        wanted.append(h)
    np.testing.assert_allclose(found, np.reshape(wanted, (steps, 2, n)), atol=1e-9)
