"""Implicit arrays in loops: what all steps take, and stacks whose elements they take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.implicit import ImplicitArray, materializations, materializing
from graphc.implicit.quantized import quantize
from graphc.implicit.structures.lora import LoRA
from graphc.implicit.treedef import Treedef
from graphc.ir import TensorType
from tests.implicit.symbolic import (
    Coded,
    coded,
    dense,
    like,
    outer,
    shapes_in,
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


# Constants.


def test_a_constant_of_a_loop_is_handled_in_its_step(mode: str) -> None:
    states = graphc.scan(lambda h: gt.tanh(h @ w), outputs_info=x, n_steps=STEPS)
    with materializing("error"):
        found = values(states, {x: X, w: W}, mode)
    np.testing.assert_allclose(found, walk(X, *[dense(W)] * STEPS))


def test_a_constant_may_be_given_to_a_step(mode: str) -> None:
    final, _ = graphc.loop(lambda h, _: (gt.tanh(h @ w), None), x, n_steps=STEPS)
    states = graphc.scan(
        lambda h, u: gt.tanh(h @ u), outputs_info=x, non_sequences=w, n_steps=STEPS
    )
    with materializing("error"):
        found = values([final, states[-1]], {x: X, w: W}, mode)
    for y in found:
        np.testing.assert_allclose(y, walk(X, *[dense(W)] * STEPS)[-1])


def test_a_constant_that_nothing_handles_is_made_whole(mode: str) -> None:
    value = table(N, N)
    t = like(value, "t")
    states = graphc.scan(lambda h: gt.tanh(h @ t), outputs_info=x, n_steps=STEPS)
    with materializations() as report:
        found = values(states, {x: X, t: value}, mode)
    np.testing.assert_allclose(found, walk(X, *[dense(value)] * STEPS))
    assert {entry.type for entry in report} == {"Table"}


def test_a_constant_of_a_loop_in_a_loop_is_handled(mode: str) -> None:
    def outer_step(h: Any) -> Any:
        return graphc.scan(lambda h: gt.tanh(h @ w), outputs_info=h, n_steps=2)[-1] * 2

    states = graphc.scan(outer_step, outputs_info=x, n_steps=2)
    with materializing("error"):
        found = values(states[-1], {x: X, w: W}, mode)
    first = 2 * walk(X, dense(W), dense(W))[-1]
    np.testing.assert_allclose(found, 2 * walk(first, dense(W), dense(W))[-1])


# Sequences.

WAYS: dict[str, tuple[dict[str, Any], list[int]]] = {
    "forwards": ({}, [0, 1, 2]),
    "backwards": ({"go_backwards": True}, [2, 1, 0]),
    "the first ones": ({"n_steps": 2}, [0, 1]),
    "the last ones backwards": ({"n_steps": 2, "go_backwards": True}, [2, 1]),
    "with checkpoints": ({"checkpoint": 2}, [0, 1, 2]),
    "with checkpoints backwards": ({"checkpoint": 2, "go_backwards": True}, [2, 1, 0]),
    "unrolled": ({"unroll": 2}, [0, 1, 2]),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_stack_is_a_sequence_of_implicit_elements(way: str, mode: str) -> None:
    options, order = WAYS[way]
    states = graphc.scan(lambda u, h: gt.tanh(h @ u), s, x, **options)
    with materializing("error"):
        found = values(states[-1], {x: X, s: S}, mode)
    wanted = walk(X, *[dense(S)[i] for i in order])[-1]
    np.testing.assert_allclose(found, wanted)


@pytest.mark.parametrize("way", WAYS)
def test_the_gradient_of_a_loop_over_a_stack_is_right(way: str, mode: str) -> None:
    options, order = WAYS[way]
    states = graphc.scan(lambda u, h: gt.tanh(h @ u), s, x, **options)
    cost = (states[-1] ** 2).sum()

    def expected(x: Any, scale: Any) -> Any:
        whole = S.codes * scale[:, None, :]
        return (walk(x, *[whole[i] for i in order])[-1] ** 2).sum()

    with materializing("error"):
        by_x, by_scale = values(graphc.grad(cost, [x, s.array.scale]), {x: X, s: S}, mode)
    np.testing.assert_allclose(by_x, slope(expected, 0, X, S.scale), atol=1e-7)
    np.testing.assert_allclose(by_scale, slope(expected, 1, X, S.scale), atol=1e-7)


def test_a_number_of_steps_may_be_symbolic(mode: str) -> None:
    n = gt.lscalar("n")
    states = graphc.scan(lambda u, h: gt.tanh(h @ u), s, x, n_steps=n)
    with materializing("error"):
        found = values(states[-1], {x: X, s: S, n: 2}, mode)
    np.testing.assert_allclose(found, walk(X, dense(S)[0], dense(S)[1])[-1])


def test_a_stack_may_have_any_number_of_elements(mode: str) -> None:
    types = Coded(TensorType("int8", (None, N, N)), TensorType("float64", (None, N)))
    u = gt.implicit(types, name="u")
    states = graphc.scan(lambda a, h: gt.tanh(h @ a), u, x)
    with materializing("error"):
        found = values(states[-1], {x: X, u: S}, mode)
    np.testing.assert_allclose(found, walk(X, *dense(S))[-1])


def test_a_loop_that_stops_reads_a_stack(mode: str) -> None:
    for backwards in (False, True):
        states = graphc.scan(
            lambda u, h: (gt.tanh(h @ u), graphc.until(gt.abs(h).sum() < 1.6)),
            s,
            x,
            go_backwards=backwards,
        )
        with materializing("error"):
            found = values(states, {x: X, s: S}, mode)
        order = dense(S)[::-1] if backwards else dense(S)
        wanted, h = [], X
        for u in order:
            last = np.abs(h).sum() < 1.6
            h = np.tanh(h @ u)
            wanted.append(h)
            if last:
                break
        np.testing.assert_allclose(found, np.stack(wanted))


def test_elements_beside_each_other_are_read_by_taps(mode: str) -> None:
    states = graphc.scan(lambda a, b, h: gt.tanh(h @ a @ b), [{"input": s, "taps": [0, 1]}], x)
    with materializing("error"):
        found = values(states[-1], {x: X, s: S}, mode)
    a, b, c = dense(S)
    np.testing.assert_allclose(found, walk(X, a @ b, b @ c)[-1])


def test_elements_that_nothing_handles_are_made_whole_one_by_one(mode: str) -> None:
    value = outer(STEPS, N, N)
    t = like(value, "t")
    states = graphc.scan(lambda u, h: gt.tanh(h @ u), t, x)
    with materializations() as report:
        found = values(states[-1], {x: X, t: value}, mode)
    np.testing.assert_allclose(found, walk(X, *dense(value))[-1])
    assert {entry.shape for entry in report} == {(N, N)}


def test_the_rows_of_a_matrix_are_no_stack(mode: str) -> None:
    # As many rows as columns, so that the types of fields alone would do.
    value = table(N, N)
    t = like(value, "t")
    rows = graphc.scan(lambda row, total: total + row, t, gt.zeros(N))
    with materializations() as report:
        found = values(rows, {t: value}, mode)
    np.testing.assert_allclose(found, np.cumsum(dense(value), 0))
    assert {entry.shape for entry in report} == {(N, N)}


def test_rows_by_broadcasting_are_no_stack(mode: str) -> None:
    @dataclass(frozen=True, repr=False)
    class ByColumn(ImplicitArray):
        values: Any
        scale: Any

        def materialize(self) -> Any:
            return self.values * self.scale

    value = ByColumn(RANDOM.normal(size=(N, N)), RANDOM.normal(size=N))
    t = like(value, "t")
    found = values(graphc.scan(lambda row, total: total + row, t, gt.zeros(N)), {t: value}, mode)
    np.testing.assert_allclose(found, np.cumsum(dense(value), 0))


def test_stacks_of_adapters_are_sequences(mode: str) -> None:
    layers = lora(STEPS)
    u = like(layers, "u")
    states = graphc.scan(lambda a, h: gt.tanh(h @ a), u, x)
    cost = (states[-1] ** 2).sum()
    with materializing("error"):
        y, by_a, by_b = values(
            [states[-1], *graphc.grad(cost, [u.array.a, u.array.b])], {x: X, u: layers}, mode
        )
    np.testing.assert_allclose(y, walk(X, *dense(layers))[-1])

    def expected(a: Any, b: Any) -> Any:
        return (walk(X, *(layers.base + a @ b))[-1] ** 2).sum()

    np.testing.assert_allclose(by_a, slope(expected, 0, layers.a, layers.b), atol=1e-7)
    np.testing.assert_allclose(by_b, slope(expected, 1, layers.a, layers.b), atol=1e-7)


def test_stacks_of_adapters_of_packed_weights_are_sequences_and_carries(mode: str) -> None:
    random = np.random.default_rng(3)
    packed = quantize(random.normal(size=(STEPS, 32, 32)) / 6, "int4", group_size=32)
    a, b = (0.2 * random.normal(size=(STEPS, *shape)) for shape in ((32, 2), (2, 32)))
    layers = LoRA(packed, a, b)
    treedef, fields = Treedef.of(layers)
    first = treedef.build([field[0] for field in fields])
    u, c, z = like(layers, "u"), like(first, "c"), gt.matrix("z")
    over = graphc.scan(lambda w, h: gt.tanh(h @ w), u, z)[-1]
    carried, *_ = graphc.scan(lambda h, w: (gt.tanh(h @ w), w), None, [z, c], n_steps=2)
    given = random.normal(size=(2, 32))
    with materializing("error"):
        outputs = [over, carried[-1], *graphc.grad(over.sum(), [z, u.array.a])]
        y, h, by_z, by_a = values(outputs, {z: given, u: layers, c: first}, mode)
    np.testing.assert_allclose(y, walk(given, *dense(layers))[-1], rtol=1e-9)
    np.testing.assert_allclose(h, walk(given, dense(first), dense(first))[-1], rtol=1e-9)

    def expected(z: Any, a: Any) -> Any:
        return walk(z, *(dense(packed) + a @ b))[-1].sum()

    np.testing.assert_allclose(by_z, slope(expected, 0, given, a), atol=1e-6)
    np.testing.assert_allclose(by_a, slope(expected, 1, given, a), atol=1e-6)


# Parts of stacks.


def test_parts_of_a_stack_stay_implicit(mode: str) -> None:
    i = gt.lscalar("i")
    parts = [s[1], s[1:], s[::-1], s[i], s[i:], gt.concatenate([s, s[:1]]), s[gt.constant([2, 0])]]
    with materializing("error"):
        found = values(parts, {s: S, i: 2}, mode)
    D = dense(S)  # noqa: N806 (the dense array)
    wanted = [D[1], D[1:], D[::-1], D[2], D[2:], np.concatenate([D, D[:1]]), D[[2, 0]]]
    for y, expected in zip(found, wanted, strict=True):
        assert isinstance(y, Coded)
        np.testing.assert_array_equal(dense(y), expected)


def test_a_stack_of_stacks_has_another_shape(mode: str) -> None:
    value = coded(4, N, N)
    t = like(value, "t")
    with materializing("error"):
        two, one = values(
            [t.reshape((2, 2, N, N)), t.reshape((2, 2, N, N)).reshape((4, N, N))], {t: value}, mode
        )
    np.testing.assert_array_equal(dense(two), dense(value).reshape(2, 2, N, N))
    np.testing.assert_array_equal(dense(one), dense(value))


def test_another_part_of_a_stack_is_made_whole(mode: str) -> None:
    with materializations() as report:
        found = values([s[:, 1], s.reshape((N, STEPS, N))], {s: S}, mode)
    np.testing.assert_array_equal(found[0], dense(S)[:, 1])
    np.testing.assert_array_equal(found[1], dense(S).reshape(N, STEPS, N))
    assert len(report) == 2


def test_a_truncated_gradient_goes_back_the_last_steps_only(mode: str) -> None:
    states = graphc.scan(lambda u, h: gt.tanh(h @ u), s, x, truncate_gradient=1)
    with materializing("error"):
        found = values(graphc.grad((states[-1] ** 2).sum(), s.array.scale), {x: X, s: S}, mode)
    np.testing.assert_array_equal(found[:2], 0.0)

    def expected(scale: Any) -> Any:
        before = walk(X, *dense(S)[:2])[-1]
        return (np.tanh(before @ (S.codes[2] * scale)) ** 2).sum()

    np.testing.assert_allclose(found[2], slope(expected, 0, S.scale[2]), atol=1e-7)


def test_no_array_in_a_loop_or_its_gradient_has_the_shape_of_the_whole() -> None:
    types = Coded(TensorType("int8", (STEPS, 30, 30)), TensorType("float64", (STEPS, 30)))
    u = gt.implicit(types, name="u")
    z = gt.matrix("z", shape=(2, 30))
    states = graphc.scan(lambda a, h: gt.tanh(h @ a), u, z)
    with materializing("error"):
        found = graphc.grad(states.sum(), [z, u.array.scale])
        shapes = shapes_in(found, [z, *u.inputs])
    # The handler casts the codes of one element; nothing computes the codes' stack, not even zeros.
    assert (STEPS, 30, 30) not in shapes
