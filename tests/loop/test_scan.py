"""Scan, as scripts written for PyTensor use it: against plain Python loops over NumPy arrays."""
# ruff: noqa: C408, PLR0913, PLR0917 (as such scripts are written)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir import toposort
from graphc.loop.loop import Loop
from tests.modes import uncompiled

RANDOM = np.random.default_rng(3)

x, y, v = gt.vector("x"), gt.vector("y"), gt.vector("v")
a, b = gt.scalar("a"), gt.scalar("b")
n = gt.lscalar("n")


def values(outputs: Any, given: dict[Any, Any], mode: str = "NUMPY") -> Any:
    """What symbolic outputs are, given values of inputs."""
    f = graphc.function(list(given), outputs, mode=mode, returns="numpy")
    return f(*given.values())


def slope(f: Callable[..., Any], *at: Any) -> np.ndarray:
    """The gradient of a function of arrays by the first of them, by differences."""
    z, *rest = at
    found = np.zeros_like(z)
    for place in np.ndindex(z.shape):
        e = np.zeros_like(z)
        e[place] = 1e-6
        found[place] = (f(z + e, *rest) - f(z - e, *rest)) / 2e-6
    return found


# Programs from PyTensor's own pages, with their arguments.


def test_elementwise_powers_by_repeated_products(mode: str) -> None:
    k, base = gt.iscalar("k"), gt.vector("A")
    result = graphc.scan(
        fn=lambda prior_result, A: prior_result * A,  # noqa: N803 (PyTensor's example)
        outputs_info=gt.ones_like(base),
        non_sequences=base,
        n_steps=k,
    )
    power = graphc.function(inputs=[base, k], outputs=result[-1], mode=mode)
    np.testing.assert_allclose(power(np.arange(10.0), 2), np.arange(10.0) ** 2)
    np.testing.assert_allclose(power(np.arange(10.0), 4), np.arange(10.0) ** 4)


def test_a_polynomial_is_cut_to_its_coefficients(mode: str) -> None:
    coefficients, free = gt.vector("coefficients"), gt.scalar("x")
    components = graphc.scan(
        fn=lambda coefficient, power, free: coefficient * (free**power),
        outputs_info=None,
        sequences=[coefficients, gt.arange(10000)],
        non_sequences=free,
    )
    found = values(components.sum(), {coefficients: np.array([1.0, 0, 2]), free: 3.0}, mode)
    assert found == 1 + 2 * 9


def test_triangular_numbers_are_running_sums(mode: str) -> None:
    up_to = gt.iscalar("up_to")
    seq = gt.arange(up_to)
    result = graphc.scan(
        fn=lambda arange_val, sum_to_date: sum_to_date + arange_val,
        outputs_info=gt.as_tensor(np.asarray(0, seq.dtype)),
        sequences=seq,
    )
    f = graphc.function([up_to], result, mode=mode)
    np.testing.assert_array_equal(f(15), [k * (k + 1) // 2 for k in range(15)])


def test_values_are_put_at_locations(mode: str) -> None:
    location, value, model = gt.imatrix("location"), gt.vector("value"), gt.matrix("model")

    def set_value_at_position(a_location, a_value, output_model):
        zeros = gt.zeros_like(output_model)
        part = zeros[a_location[0], a_location[1]]
        return gt.set_subtensor(part, a_value)

    result = graphc.scan(
        fn=set_value_at_position,
        outputs_info=None,
        sequences=[location, value],
        non_sequences=model,
    )
    places = np.array([[1, 1], [2, 3]], np.int32)
    given = {location: places, value: np.array([42.0, 50.0]), model: np.zeros((5, 5))}
    found = values(result, given, mode)
    assert found.shape == (2, 5, 5)
    assert (found[0, 1, 1], found[1, 2, 3], found.sum()) == (42.0, 50.0, 92.0)


def test_a_shared_variable_is_updated_in_every_step(mode: str) -> None:
    shared = graphc.shared(1, name="a")
    outputs, updates = graphc.scan(lambda: {shared: shared + 1}, n_steps=10, return_updates=True)
    assert outputs is None
    b, c = shared + 1, updates[shared] + 1
    f = graphc.function([], [b, c], updates=updates, mode=mode)
    assert [int(part) for part in f()] == [2, 12]
    assert shared.get_value() == 11


def test_an_echo_state_network_has_outputs_with_taps_of_their_own(mode: str) -> None:
    u, x0, y0 = gt.matrix("u"), gt.matrix("x0"), gt.vector("y0")
    W, W_in_1, W_in_2, W_feedback, W_out = gt.matrices(  # noqa: N806 (PyTensor's example)
        "W", "W_in_1", "W_in_2", "W_feedback", "W_out"
    )

    def one_step(u_tm4, u_t, x_tm3, x_tm1, y_tm1, W, W_in_1, W_in_2, W_feedback, W_out):  # noqa: N803
        x_t = gt.tanh(
            gt.dot(x_tm1, W)
            + gt.dot(u_t, W_in_1)
            + gt.dot(u_tm4, W_in_2)
            + gt.dot(y_tm1, W_feedback)
        )
        y_t = gt.dot(x_tm3, W_out)
        return [x_t, y_t]

    x_vals, y_vals = graphc.scan(
        fn=one_step,
        sequences=dict(input=u, taps=[-4, -0]),
        outputs_info=[dict(initial=x0, taps=[-3, -1]), y0],
        non_sequences=[W, W_in_1, W_in_2, W_feedback, W_out],
        strict=True,
    )

    def plain(u, x0, y0, w, in_1, in_2, feedback, out):
        xs, ys = [*x0], [y0]
        for t in range(4, len(u)):
            new = np.tanh(xs[-1] @ w + u[t] @ in_1 + u[t - 4] @ in_2 + ys[-1] @ feedback)
            ys.append(xs[-3] @ out)
            xs.append(new)
        return np.array(xs[3:]), np.array(ys[1:])

    def cost(*given):
        xs, ys = plain(*given)
        return (xs**2).sum() + np.sin(ys).sum()

    shapes = [(9, 2), (3, 4), (3,), (4, 4), (2, 4), (2, 4), (3, 4), (4, 3)]
    given = [0.5 * RANDOM.standard_normal(shape) for shape in shapes]
    inputs = [u, x0, y0, W, W_in_1, W_in_2, W_feedback, W_out]
    loss = (x_vals**2).sum() + gt.sin(y_vals).sum()
    outputs = [x_vals, y_vals, *graphc.grad(loss, inputs)]
    found = values(outputs, dict(zip(inputs, given, strict=True)), mode)
    for got, expected in zip(found, plain(*given), strict=False):
        np.testing.assert_allclose(got, expected, rtol=1e-12)
    for i in range(len(inputs)):
        # The argument in question in front.
        def moved(z, i=i):
            return cost(*given[:i], z, *given[i + 1 :])

        np.testing.assert_allclose(found[2 + i], slope(moved, given[i]), rtol=1e-6, atol=1e-8)


def test_powers_of_two_until_a_maximum(mode: str) -> None:
    def power_of_2(previous_power, max_value):
        return previous_power * 2, graphc.until(previous_power * 2 > max_value)

    max_value = gt.scalar()
    found = graphc.scan(
        power_of_2, outputs_info=gt.constant(1.0), non_sequences=max_value, n_steps=1024
    )
    f = graphc.function([max_value], found, mode=mode)
    assert np.asarray(f(45)).tolist() == [2.0, 4.0, 8.0, 16.0, 32.0, 64.0]
    assert np.asarray(f(0)).tolist() == [2.0]


def test_a_chain_of_samples_has_a_key_and_shared_weights(mode: str) -> None:
    # A key, as a state and as a state of which the last value alone is wanted.
    key = gt.tensor("key", dtype="uint32", shape=(2,))
    weights = graphc.shared(np.array([0.5, -0.25]), name="weights")

    def drawn(key):
        key = key * np.uint32(1664525) + np.uint32(1013904223)
        return key, (key >> np.uint32(8)).astype("float64") / 2**24

    def step(sample, key):
        key, u = drawn(key)
        return [gt.where(u < gt.sigmoid(weights * sample), 1.0, 0.0), key]

    first = np.array([0.0, 1.0])
    samples, keys = graphc.scan(step, outputs_info=[first, key], n_steps=6)
    _, last = graphc.scan(step, outputs_info=[first, dict(initial=key, traced=False)], n_steps=6)
    start = np.array([3, 8], np.uint32)
    sample, state, expected = first, start, []
    for _ in range(6):
        with np.errstate(over="ignore"):
            state = state * np.uint32(1664525) + np.uint32(1013904223)
        u = (state >> 8) / 2**24
        sample = np.where(u < 1 / (1 + np.exp(-weights.get_value() * sample)), 1.0, 0.0)
        expected.append(sample)
    found = values([samples, keys[-1], last], {key: start}, mode)
    np.testing.assert_array_equal(found[0], expected)
    np.testing.assert_array_equal(found[1], state)
    np.testing.assert_array_equal(found[2], state)


def test_map_reduce_foldl_and_foldr(mode: str) -> None:
    outputs = [
        graphc.map(lambda x_t, a: x_t**2 + a, x, a),
        graphc.map(lambda x_t: x_t, x, go_backwards=True),
        graphc.reduce(lambda x_t, total: total + x_t, x, gt.constant(0.0)),
        graphc.reduce(lambda x_t, w: x_t - w, x, 0.0, go_backwards=True),
        graphc.foldl(lambda x_t, w: x_t - w, x, 0.0),
        graphc.foldr(lambda x_t, w: x_t - w, x, 0.0),
        *graphc.reduce(lambda x_t, w: [w / x_t, 3 * x_t], x, [1.0, None]),
    ]
    found = values(outputs, {x: np.array([2.0, 5.0, 10.0]), a: 1.0}, mode)
    expected = [[5.0, 26.0, 101.0], [10.0, 5.0, 2.0], 17.0, 7.0, 7.0, 7.0, 0.01, 30.0]
    for got, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, wanted)


def test_a_fold_from_the_left_is_another_than_one_from_the_right() -> None:
    ends = [fold(lambda x_t, w: x_t / w, x, 1.0) for fold in (graphc.foldl, graphc.foldr)]
    found = values(ends, {x: np.array([2.0, 5.0, 10.0, 4.0])})
    np.testing.assert_allclose(found, [4 / (10 / (5 / 2)), 2 / (5 / (10 / 4))])


def test_reduce_without_elements_gives_the_first_value() -> None:
    total = graphc.reduce(lambda x_t, total: total + x_t, x, 7.0)
    assert values([total, graphc.grad(total, x)], {x: np.zeros(0)})[0] == 7.0


# What a step is given, and in which order.


def test_the_order_of_arguments_is_sequences_then_past_outputs_then_the_rest() -> None:
    seen: list[str] = []

    def step(*given):
        seen[:] = [part.name for part in given]
        return [gt.add(*given), given[4]]

    m = gt.vector("m")
    graphc.scan(
        step,
        [dict(input=x, taps=[1, -1]), y],
        [dict(initial=v, taps=[-3, -1]), dict(initial=m, taps=[-1, -2])],
        [a, b],
    )
    taps = ["x[t+1]", "x[t-1]", "y[t]", "v[t-3]", "v[t-1]", "m[t-1]", "m[t-2]"]
    assert seen == [*taps, "a", "b"]


def test_numbers_among_the_non_sequences_stay_numbers() -> None:
    single = gt.fvector("single")
    found = graphc.scan(lambda x_t, h, k: h * k + x_t, single, 0.0, 0.5)
    assert found.dtype == "float32"


def test_a_step_uses_what_is_around_it() -> None:
    w = graphc.shared(2.0, name="w")
    found = graphc.scan(lambda x_t, h: w * h + a * x_t, x, 0.0)
    got = values([found[-1], *graphc.grad(found[-1], [a, w])], {x: np.array([1.0, 10]), a: 3.0})
    np.testing.assert_allclose(got, [36.0, 12.0, 3.0])


def test_the_whole_of_a_sequence_can_be_used_beside_its_elements() -> None:
    found = graphc.scan(lambda x_t: x_t * x.sum(), x)
    got = values([found, graphc.grad(found.sum(), x)], {x: np.array([1.0, 2.0, 4.0])})
    np.testing.assert_allclose(got[0], [7.0, 14.0, 28.0])
    np.testing.assert_allclose(got[1], [14.0, 14.0, 14.0])


def test_a_gradient_within_a_step_is_by_the_variable_outside() -> None:
    cube = x**3
    rows = graphc.scan(
        lambda i, cube, x: graphc.grad(cube[i], x), gt.arange(x.shape[0]), None, [cube, x]
    )
    found = values(rows, {x: np.array([1.0, 2.0])})
    np.testing.assert_allclose(found, [[3.0, 0.0], [0.0, 12.0]])


def test_the_steps_of_an_inner_scan_may_depend_on_the_outer_one() -> None:
    def step(k):
        return graphc.scan(lambda p: p * 2, outputs_info=gt.constant(1.0), n_steps=k)[-1]

    counts = gt.lvector("counts")
    assert values(graphc.map(step, counts), {counts: np.array([1, 3, 2])}).tolist() == [2, 8, 4]


# What a step returns.


@pytest.mark.parametrize(
    "returned",
    [
        lambda h, w: [h + 1, h * w],
        lambda h, w: (h + 1, h * w),
        lambda h, w: ([h + 1, h * w], {}),
        lambda h, w: ((h + 1, h * w), graphc.until(h > 1e9)),
        lambda h, w: (h + 1, h * w, graphc.until(h > 1e9)),
        lambda h, w: ([h + 1, h * w], {}, graphc.until(h > 1e9)),
    ],
)
def test_outputs_come_in_any_container(returned: Any) -> None:
    ends = graphc.scan(lambda h: returned(h, a), outputs_info=[0.0, None], n_steps=3)
    assert isinstance(ends, list)
    found = values(ends, {a: 2.0})
    assert [part.tolist() for part in found] == [[1, 2, 3], [0, 2, 4]]


def test_updates_come_with_outputs_and_a_condition() -> None:
    count = graphc.shared(0, name="count")
    total = graphc.shared(0.0, name="total")

    def step(h):
        updates = [(count, count + 1), (total, total + h)]
        return [h * 2], updates, graphc.until(h >= 4)

    outputs, updates = graphc.scan(step, outputs_info=1.0, n_steps=10, return_updates=True)
    f = graphc.function([], outputs, updates=updates, mode="NUMPY")
    assert f().tolist() == [2.0, 4.0, 8.0]
    assert (int(count.get_value()), float(total.get_value())) == (3, 7.0)


def test_what_non_sequences_are_made_of_is_not_updated() -> None:
    s = graphc.shared(1.0, name="s")
    outside = 10 * s
    outputs, _ = graphc.scan(
        lambda kept: (kept + s, {s: s * 2}), non_sequences=outside, n_steps=3, return_updates=True
    )
    assert outputs.eval(mode="NUMPY").tolist() == [11.0, 12.0, 14.0]


def test_a_list_is_returned_where_it_is_asked_for() -> None:
    (only,) = graphc.scan(lambda x_t: x_t, x, return_list=True)
    assert graphc.scan(lambda x_t: x_t, x) is only
    outputs, updates = graphc.scan(lambda x_t: x_t, x, return_updates=True)
    assert outputs is only
    assert updates == {}


def test_a_number_that_a_step_returns_takes_the_states_dtype() -> None:
    single = gt.fvector("single")
    first, second = graphc.scan(lambda x_t, h: [0.5, 1], single, [gt.fscalar("h"), None])
    assert (first.dtype, second.dtype) == ("float32", "int64")


# Numbers as first values.

_ints, _bytes, _flags = gt.ivector(), gt.tensor(dtype="uint8", shape=(None,)), gt.fvector()
_words = gt.tensor(dtype="uint32", shape=(None,))
_half, _brain = gt.tensor(dtype="float16", shape=(None,)), gt.tensor(dtype="bfloat16", ndim=1)


@pytest.mark.parametrize(
    ("sequence", "first", "step", "dtype"),
    [
        (gt.fvector(), 0.0, lambda x_t, h: h * 0.5 + x_t, "float32"),
        (gt.fvector(), 0, lambda x_t, h: h * 0.5 + x_t, "float32"),
        (gt.dvector(), 0, lambda x_t, h: h + x_t, "float64"),
        (gt.fvector(), 0, lambda x_t, h: h + 1, "int64"),
        (gt.fvector(), 0.0, lambda x_t, h: h + 1, "float64"),
        (gt.fvector(), 0, lambda x_t, h: h + (x_t > 0), "int64"),
        (gt.fvector(), False, lambda x_t, h: h | (x_t > 0), "bool"),
        (_ints, 0, lambda x_t, h: h + x_t, "int32"),
        (_ints, 0, lambda x_t, h: h + x_t + 1000, "int32"),
        (_ints, 0.0, lambda x_t, h: h + x_t, "float64"),
        (_bytes, 0, lambda x_t, h: h + x_t + 1, "uint8"),
        (_bytes, 0, lambda x_t, h: h + x_t.astype("int64"), "int64"),
        (_bytes, 0, lambda x_t, h: h + 1000 * (x_t > 9), "int64"),
        (_words, 2166136261, lambda x_t, h: (h ^ x_t) * 16777619, "uint32"),
        (gt.fvector(), 0.0, lambda x_t, h: h * 1e10 + x_t, "float32"),
        (_half, 0.0, lambda x_t, h: h + x_t, "float16"),
        (_brain, 0.0, lambda x_t, h: h * 0.5 + x_t, "bfloat16"),
        (gt.cvector(), 0, lambda x_t, h: h * x_t, "complex64"),
        (gt.fvector(), 1j, lambda x_t, h: h * x_t, "complex64"),
        (gt.fvector(), 0, lambda x_t, h: gt.where(h < 1000, h + 1, 0), "int64"),
    ],
)
def test_a_number_as_a_first_value_takes_the_dtype_of_a_step(
    sequence: Any, first: Any, step: Any, dtype: str
) -> None:
    assert graphc.scan(step, sequence, first).dtype == dtype


def test_numbers_settle_together() -> None:
    first, second = graphc.scan(
        lambda x_t, h, count: [h + count, count + x_t], gt.fvector(), [0, 0.0]
    )
    assert (first.dtype, second.dtype) == ("float32", "float32")


def test_a_step_of_one_dtype_is_traced_once() -> None:
    times: list[int] = []

    def step(x_t, h):
        times.append(1)
        return h * 0.5 + x_t

    graphc.scan(step, x, 0.0)
    assert len(times) == 1
    graphc.scan(step, x, 0)
    assert len(times) == 3


# How many steps there are.


@pytest.mark.parametrize("steps", [0, 1, 2, 5])
def test_a_number_of_steps_can_be_anything_that_is_an_integer(steps: int, mode: str) -> None:
    shared = graphc.shared(np.int32(steps), name="steps")
    like = gt.vector("like")
    for given in (steps, np.int64(steps), np.array(steps), n, shared, like.shape[0], n + 0):
        states = graphc.scan(lambda h: h * a, outputs_info=1.0, n_steps=given)
        f = graphc.function([a, n, like], states, mode=mode, on_unused_input="ignore")
        expected = 2.0 ** np.arange(1, steps + 1)
        np.testing.assert_allclose(f(2.0, steps, np.zeros(steps)), expected)


def test_sequences_of_unequal_lengths_stop_at_the_shortest(mode: str) -> None:
    both = graphc.scan(lambda p, q: 10 * p + q, [x, y])
    for lengths in ((3, 5), (5, 3), (4, 4), (0, 2)):
        left, right = np.arange(lengths[0]) + 1.0, np.arange(lengths[1]) + 0.5
        expected = [10 * p + q for p, q in zip(left, right, strict=False)]
        np.testing.assert_allclose(values(both, {x: left, y: right}, mode), expected)


def test_static_lengths_are_known_of_the_outputs() -> None:
    p, q = gt.tensor(shape=(5, 2)), gt.vector(shape=(3,))
    assert graphc.scan(lambda p_t, _: p_t, [p, q]).type.shape == (3, 2)
    assert graphc.scan(lambda x_t: x_t, x, n_steps=4).type.shape == (4,)
    assert graphc.scan(lambda x_t: x_t, x, n_steps=4, go_backwards=True).type.shape == (4,)
    assert graphc.scan(lambda u, w: u, dict(input=p, taps=[-1, 2])).type.shape == (2, 2)
    assert graphc.scan(lambda h: h @ gt.matrix(), outputs_info=q, n_steps=6).type.shape == (6, 3)
    state = dict(initial=gt.matrix(shape=(9, 2)), taps=[-9])
    assert graphc.scan(lambda h: gt.vector(), outputs_info=state, n_steps=6).type.shape == (6, 2)


def test_steps_as_many_as_a_sequence_is_long_cut_nothing() -> None:
    assert graphc.scan(lambda x_t: x_t, x, n_steps=x.shape[0]) is graphc.scan(lambda x_t: x_t, x)


@pytest.mark.parametrize("steps", [None, 0, 2, 4])
@pytest.mark.parametrize("taps", [[0], [-2, 0], [1, 3], [-1], [2], [1, -2]])
@pytest.mark.parametrize("known", [False, True])
def test_a_walk_backwards_takes_the_last_elements(
    taps: list[int], steps: int | None, known: bool
) -> None:
    u = np.arange(8.0) ** 2
    s = gt.vector("s", shape=(8 if known else None,))
    found = graphc.scan(
        lambda *given: given[-1] * 0.5 + sum(10**k * z for k, z in enumerate(given[:-1])),
        dict(input=s, taps=taps),
        1.0,
        n_steps=steps,
        go_backwards=True,
    )
    low, high = min(0, *taps), max(0, *taps)
    cut = [u[tap - low : len(u) - (high - tap)][::-1][:steps] for tap in taps]

    def plain(*rows):
        h, states = 1.0, []
        for z in zip(*rows, strict=True):
            h = h * 0.5 + sum(10**k * part for k, part in enumerate(z))
            states.append(h)
        return np.array(states)

    np.testing.assert_allclose(values(found, {s: u}), plain(*cut))


def test_a_walk_backwards_is_a_loop_in_reverse_over_the_sequence_itself() -> None:
    trace = graphc.scan(lambda x_t, h: h + x_t, x, 0.0, go_backwards=True)
    (loop,) = [node for node in toposort([trace]) if isinstance(node.op, Loop)]
    assert loop.op.reverse
    assert x in loop.inputs


def test_a_walk_backwards_stops_where_it_is_told(mode: str) -> None:
    found = graphc.scan(lambda x_t, h: (h + x_t, graphc.until(x_t < 0)), x, 0.0, go_backwards=True)
    assert values(found, {x: np.array([1.0, -1, 5, 2])}, mode).tolist() == [2.0, 7.0, 6.0]


@pytest.mark.parametrize("depth", [8, 9, 12])
def test_states_of_long_ago(depth: int, mode: str) -> None:
    first = gt.vector("first")
    found = graphc.scan(
        lambda x_t, old, last: gt.sin(old) + last * x_t,
        x,
        dict(initial=first, taps=[-depth, -1]),
    )
    h, u = RANDOM.standard_normal(depth + 1), RANDOM.standard_normal(2 * depth)

    def plain(h, u):
        states = [*h[:depth]]
        for u_t in u:
            states.append(np.sin(states[-depth]) + states[-1] * u_t)
        return np.array(states[depth:])

    outputs = [found, *graphc.grad((found**2).sum(), [first, x])]
    got = values(outputs, {first: h, x: u}, mode)
    np.testing.assert_allclose(got[0], plain(h, u), rtol=1e-12)
    by_first = slope(lambda h: (plain(h, u) ** 2).sum(), h)
    by_x = slope(lambda u: (plain(h, u) ** 2).sum(), u)
    np.testing.assert_allclose(got[1], by_first, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(got[2], by_x, rtol=1e-6, atol=1e-6)


def test_the_last_of_several_past_values_is_that_of_the_last_step() -> None:
    for taps in ([-2, -1], [-10, -1]):
        state = dict(initial=v, taps=taps, traced=False)
        last = graphc.scan(lambda old, new: old + new, outputs_info=state, n_steps=4)
        trace = graphc.scan(
            lambda old, new: old + new, outputs_info=dict(initial=v, taps=taps), n_steps=4
        )
        got = values([last, trace[-1]], {v: np.arange(1.0, 11.0)})
        assert got[0] == got[1]


def test_gradients_go_back_through_as_many_steps_as_are_asked_for() -> None:
    last = graphc.scan(lambda x_t, h: a * h + x_t, x, 0.0, truncate_gradient=2)[-1]
    got = values(graphc.grad(last, x), {x: np.ones(5), a: 0.5})
    assert got.tolist() == [0.0, 0.0, 0.0, 0.5, 1.0]


def test_names_are_in_what_is_printed() -> None:
    f = graphc.function(
        [x, a],
        graphc.scan(lambda x_t, h: gt.tanh(a * h + x_t), x, 0.0, name="decay"),
        mode="NUMPY",
    )
    assert "decay" in str(f.plan())


def test_until_takes_a_number_that_is_zero_before_the_last_step(mode: str) -> None:
    x = gt.vector("x")
    rows = graphc.scan(lambda r: (2 * r, graphc.until(gt.floor(r / 3))), sequences=x)
    f = graphc.function([x], rows, mode=uncompiled(mode), returns="numpy")
    np.testing.assert_array_equal(f([1.0, 2.0, 3.5, 0.5]), [2.0, 4.0, 7.0])


# Loops that do no step.

table = gt.matrix("table")


def test_until_indexes_an_empty_sequence(mode: str) -> None:
    powers = graphc.scan(
        lambda i: (x[i] ** 2, graphc.until(x[i] > 5)), sequences=gt.arange(x.shape[0])
    )
    y, by_x = values([powers, graphc.grad(powers.sum(), x)], {x: np.zeros(0)}, mode)
    assert y.shape == by_x.shape == (0,)


@pytest.mark.parametrize(
    ("step", "first", "shape"),
    [
        (lambda i, h: gt.tanh(x[i] + h), 0.5, ()),
        (lambda i, h: gt.tanh((x * i + h).max()), 0.5, ()),
        (lambda i, h: h + table[i].cumsum(), np.ones(3), (3,)),
        (lambda i, h: h[i - 1] + h, np.zeros(0), (0,)),
    ],
    ids=["element", "maximum", "row", "carry"],
)
def test_a_step_that_fails_on_empty_arrays_is_not_computed_for_no_steps(
    mode: str, step: Any, first: Any, shape: tuple[int, ...]
) -> None:
    states = graphc.scan(step, sequences=gt.arange(x.shape[0]), outputs_info=gt.as_tensor(first))
    slopes = graphc.grad(states.sum(), [x, table], disconnected_inputs="ignore")
    given = {x: np.zeros(0), table: np.zeros((0, 3))}
    f = graphc.function([*given], [states, *slopes], mode, on_unused_input="ignore")
    rows, by_x, by_table = f(*given.values())
    assert (rows.shape, by_x.shape, by_table.shape) == ((0, *shape), (0,), (0, 3))
