"""Lengths in buckets: one executable for all lengths of a bucket, and the results of exact ones.

Results are compared with those of NUMPY, whose programs are for any length. The fuzzer compares
random programs (``make fuzz``, mode "buckets").
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc import Mode
from graphc.compile.cache import PROGRAMS
from graphc.errors import ArgumentError, GraphcError, ModeError
from graphc.link.padding.buckets import SMALLEST, bucket_of
from graphc.link.padding.counts import passed_length, value_of
from tests.link.bucketed import LENGTHS, RANDOM, TABLE, recurrent, recurrent_values, vectors, x, y

BUCKETS = Mode("JAX", lengths="buckets")
a = gt.matrix("a", bucket=2)
i = gt.lvector("i", bucket=2)


def compare(
    inputs: Sequence[Any], outputs: Sequence[Any], *calls: Sequence[Any], padded: bool = True
) -> graphc.Function:
    """Call in buckets and in NUMPY, and return the function in buckets."""
    f = graphc.function(inputs, list(outputs), mode="JAX", on_unused_input="ignore")
    expected = graphc.function(inputs, list(outputs), mode="NUMPY", on_unused_input="ignore")
    for call in calls:
        for found, right in zip(f(*call), expected(*call), strict=True):
            assert found.shape == right.shape
            assert found.dtype == right.dtype
            np.testing.assert_allclose(found, right, rtol=1e-12, atol=1e-12)
    assert f._compiled.execute.is_refused is not padded
    return f


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("subject", TABLE)
def test_results_are_those_of_the_true_lengths(subject: str) -> None:
    f = compare([x, y], TABLE[subject](), *map(vectors, LENGTHS))
    assert f.stats.compiles + f.stats.loads + f.stats.hits <= 2


def test_lengths_of_many_nested_slices_are_compared_in_linear_time() -> None:
    y = x
    for _ in range(30):
        y = y[1:] - y[:-1]
    compare([x], [y], [np.arange(40.0)], [np.arange(12.0)])


def test_linear_systems_have_an_identity_block_behind() -> None:
    square = gt.matrix("square", bucket=2)
    positive = a @ a.T + 3 * gt.eye(a.shape[0])
    linalg = gt.linalg
    cost = linalg.slogdet(positive)[1] + x @ linalg.solve(positive, x, assume_a="pos")
    cost += (x * linalg.solve(square, x)).sum()
    outputs = [
        *(linalg.cholesky(positive), linalg.inv(positive), linalg.det(square), cost),
        *(gt.diag(x, 1), gt.diagonal(square, offset=-1), gt.trace(square), gt.tril(square)),
        *gt.split(x, [1, x.shape[0] - 1], n_splits=2),
        *graphc.grad(cost, [a, x, square]),
    ]
    calls = [
        (RANDOM.normal(size=(n, 3)), RANDOM.normal(size=n), np.eye(n) * 4 + RANDOM.random((n, n)))
        for n in (5, 17)
    ]
    compare([a, x, square], outputs, *calls)


def test_numbers_that_decide_lengths_share_an_executable() -> None:
    n = gt.lscalar("n")
    states = graphc.scan(lambda c: gt.sin(c) + 1, outputs_info=x, n_steps=n)
    outputs = [x[:n], x[n:].sum(), gt.arange(n), states, graphc.grad(states.sum(), x)]
    calls = [(RANDOM.normal(size=m), k) for m, k in ((5, 3), (5, 7), (9, 2), (20, 17))]
    f = compare([x, n], outputs, *calls)
    assert f.stats.compiles + f.stats.loads <= 2
    for call in ((np.ones(3), -1), (np.ones(3), 0)):
        exact = graphc.function([x, n], [x[:n], gt.arange(3)[n:]], mode="JAX")
        assert [v.shape for v in exact(*call)] == [
            np.ones(3)[: call[1]].shape,
            np.ones(3)[call[1] :].shape,
        ]


def test_indices_may_be_padded_and_index_padded_axes() -> None:
    outputs = [x[i], x[i].sum(), x[i].set(2.0), x[i].inc(y[: i.shape[0]]), a[i, :1], a[i].sum(1)]
    outputs += [a[i, 1:].inc(1.0), a[i, ::-1].set(a[i]), x[1:][i[:2] // 2].sum()]
    outputs += graphc.grad(
        (x[i] ** 2).sum() + (a[i, 1:] ** 2).sum() + (a[i, 0] * y[: i.shape[0]]).sum(), [x, y, a]
    )
    calls = [
        (*vectors(n), RANDOM.normal(size=(n, 3)), RANDOM.integers(-n, n, k))
        for n, k in ((5, 4), (9, 3), (20, 18))
    ]
    compare([x, y, a, i], outputs, *calls)


def test_two_axes_of_an_array_are_padded() -> None:
    outputs = [
        a.sum(0),
        a.T @ a,
        a.mean(1),
        a[1:, ::-1],
        a.ravel(),
        gt.argmax(a),
        a.T.reshape((-1,)),
    ]
    outputs += [
        gt.cumsum(a, 1),
        gt.sort(a, 0),
        a[:, 0],
        a[-1],
        gt.max(a),
        (a - a.mean(0)) / a.std(),
    ]
    outputs += [graphc.grad((gt.exp(a - a.max(1, keepdims=True))).sum(), a)]
    compare([a], outputs, *[(RANDOM.normal(size=s),) for s in ((3, 4), (7, 2), (20, 5), (17, 30))])


def test_a_loop_over_a_padded_sequence_stops_and_so_does_its_gradient() -> None:
    inputs, outputs = recurrent()
    f = compare(inputs, outputs, *map(recurrent_values, (5, 16, 1, 20)))
    assert f.stats.compiles + f.stats.loads <= 2


def test_random_draws_are_the_same_numbers() -> None:
    rng, normal = gt.random.default_rng(7).normal(size=x.shape)
    _, uniform = rng.uniform(size=(x.shape[0], 3))
    compare([x], [normal + x, uniform], (np.zeros(5),), (np.zeros(18),))


# What cannot be padded.


def test_a_program_that_cannot_be_padded_is_exact_and_its_plan_says_why() -> None:
    f = graphc.function([x], gt.fft.rfft(gt.tanh(x)), mode="JAX")
    line = next(text for text in str(f.plan()).splitlines() if "lengths:" in text)
    assert "exact, as rfft" in line
    assert "test_buckets.py" in line
    for n in (4, 5):
        value = np.linspace(0, 1, n)  # no result is zero, of which rounding leaves no digit
        np.testing.assert_allclose(f(value), np.fft.rfft(np.tanh(value)))
    assert f._compiled.execute.is_refused


def test_a_plan_names_what_is_padded() -> None:
    f = graphc.function([x, gt.vector("z")], x.sum(), mode="JAX", on_unused_input="ignore")
    assert f.plan().padding == ["lengths: x: float64[?], axis 0 is padded: 16, 32, 64, 128, ..."]
    k = gt.lvector("k")
    (line,) = graphc.function([x, k], gt.repeat(x, k), mode="JAX").plan().padding
    assert line == "lengths: exact, as k: int64[?] decides a shape"
    assert (
        graphc.function([gt.vector("z")], gt.sin(1.0), mode="JAX", on_unused_input="ignore")
        .plan()
        .padding
        == ()
    )


@pytest.mark.parametrize(
    ("outputs", "call"),
    [
        (lambda: x + y, (np.ones(5), np.ones(6))),
        (lambda: x @ y, (np.ones(5), np.ones(40))),
        (lambda: gt.max(x), (np.ones(0), np.ones(6))),
        (lambda: x[7], (np.ones(5), np.ones(6))),
        (lambda: x.reshape((3, 2)), (np.ones(5), np.ones(6))),
        (lambda: gt.concatenate([x, y]).reshape((2, -1)), (np.ones(5), np.ones(6))),
    ],
)
def test_errors_are_those_of_the_true_lengths(
    outputs: Callable[[], Any], call: Sequence[np.ndarray]
) -> None:
    made = [
        graphc.function([x, y], outputs(), mode=mode, on_unused_input="ignore")
        for mode in ("JAX", Mode("JAX", lengths="exact"))
    ]
    told = []
    for f in made:
        with pytest.raises(GraphcError) as error:
            f(*call)
        told.append((type(error.value), str(error.value)))
    assert told[0] == told[1]
    assert not made[0]._compiled.execute.is_refused


# What is padded, and when.


def test_the_mode_pads_the_lengths_that_change() -> None:
    z, w = gt.matrix("z"), gt.vector("w")
    f = graphc.function([z, w], z @ w, mode=BUCKETS)
    for n in (30, 20, 25, 31, 17):
        data, weights = RANDOM.normal(size=(n, 3)), RANDOM.normal(size=3)
        np.testing.assert_allclose(f(data, weights), data @ weights)
    # The first length, and a bucket.
    assert f.stats.compiles + f.stats.loads == 2
    assert [axis[:2] for axis in f._compiled.execute._padded.axes] == [(0, 0)]


def test_an_exact_mode_overrides_what_inputs_ask_for() -> None:
    f = graphc.function([x], gt.sin(x) * 1.125, mode=Mode("JAX", lengths="exact"))
    assert not hasattr(f._compiled.execute, "is_refused")
    assert graphc.function([x], gt.sin(x) * 1.125, mode="NUMPY")(np.zeros(3)).shape == (3,)
    with pytest.raises(ModeError, match="lengths"):
        Mode("JAX", lengths="padded")


def test_programs_for_buckets_are_told_from_exact_ones() -> None:
    plain = gt.vector("x")
    keys = {
        graphc.function([v], gt.exp(v) * 1.75, mode="NUMPY").record.key
        for v in (plain, x, gt.vector("x", bucket=1.25), x.clone())
    }
    assert len(keys) == 3


def test_texts_and_copies_of_graphs_keep_what_inputs_ask_for() -> None:
    (z,) = graphc.deserialize(*graphc.serialize(a.sum() * 1.5)).inputs
    assert z.op.buckets == (2.0, 2.0) == a.clone().op.buckets


@pytest.mark.parametrize("bucket", [1, 0.5, 128, "two", True, (2, 2)])
def test_a_bucket_is_a_number_above_one_for_each_axis(bucket: Any) -> None:
    with pytest.raises(ArgumentError, match="bucket"):
        gt.vector("x", bucket=bucket)


@pytest.mark.parametrize("growth", [1.01, 1.25, 2.0, 3.0])
def test_buckets_hold_each_length_once(growth: float) -> None:
    before = -1
    for n in range(3000):
        low, high = bucket_of(n, growth)
        assert low <= n <= high
        assert low == before + 1 or low <= n - 1
        if n == high:
            before = high
    assert bucket_of(3, growth).high == SMALLEST


# Dtypes, settings, JAX's own code.


def test_narrow_dtypes_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    z = gt.fvector("z", bucket=2)
    f = graphc.function([z], [gt.exp(z), z.sum(), gt.argsort(z)], mode="JAX")
    found = f(np.ones(5, np.float32))
    assert [v.dtype.name for v in found] == ["float32", "float32", "int64"]
    assert [v.shape for v in found] == [(5,), (), (5,)]


def test_nothing_is_compiled_for_a_length() -> None:
    compiled: list[str] = []
    f = graphc.function([x, a], [x * 3, x[1:], a.T @ a, a + 1], mode="JAX")
    f(np.ones(3), np.ones((3, 2)))
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: compiled.append(event)
    )
    for n in (4, 5, 6):
        f(np.ones(n), np.ones((n, n)))
    assert not [event for event in compiled if "compile" in event]


def test_code_that_jax_traces_gets_the_exact_program() -> None:
    f = graphc.function([x], (x**2).sum() * x, mode="JAX")
    data = jax.numpy.arange(3.0)
    assert jax.jit(f.pure)(data).shape == (3,)
    assert jax.grad(lambda v: f.pure(v).sum())(data).shape == (3,)
    assert f(data).shape == (3,)


def test_a_shared_variable_keeps_the_true_length() -> None:
    state = graphc.shared(np.zeros(0), shape=(None,))
    f = graphc.function([x], state.size, updates=[(state, gt.concatenate([x, x[:1]]))], mode="JAX")
    for n in (3, 5):
        f(np.ones(n))
        assert state.get_value().shape == (n + 1,)


def test_events_have_the_shapes_of_arguments() -> None:
    seen: list[Any] = []
    f = graphc.function([x], gt.cos(x).sum() * 1.375, mode="JAX")
    with graphc.events.subscribe(seen.append), graphc.config.change_flags(cache_dir=None):
        f(np.ones(3))
    assert [event.shapes for event in seen] == [((16,),)]


def test_calls_of_known_shapes_are_as_the_first_one() -> None:
    """Whole buckets and parts of them, by turns, and what is to be refused still is."""
    inputs, outputs = [x, y], [gt.exp(x) + y, (x @ y) * 1.875, gt.cumsum(x)[1:]]
    calls = [vectors(n) for n in (16, 5, 16, 5, 32, 16, 5, 1)] * 2
    f = compare(inputs, outputs, *calls)
    compiles = f.stats.compiles
    for on in (True, False):
        with jax.enable_x64(on):
            for n in (16, 5):
                v, w = vectors(n)
                given = [jax.device_put(v), w] if on else [v, w]
                np.testing.assert_allclose(f(*given)[0], np.exp(v) + w, rtol=1e-12)
    assert f.stats.compiles == compiles
    traced = jax.jit(lambda v: f.pure(v, v)[0])(np.ones(16, "float64"))
    np.testing.assert_allclose(traced, np.exp(1.0) + 1, rtol=1e-6)
    for _ in range(2):
        with pytest.raises(GraphcError, match="differ"):
            f(np.ones(16), np.ones(5))


def test_an_executable_on_disk_knows_its_conditions(tmp_path: Path) -> None:
    def made() -> graphc.Function:
        return graphc.function([x, y], [gt.sin(x) + y, x[1:], (x @ y) * 1.625], mode="JAX")

    with graphc.config.change_flags(cache_dir=tmp_path):
        values = vectors(5)
        first = made()
        expected = first(*values)
        PROGRAMS.clear()
        del first
        f = made()
        for found, right in zip(f(*values), expected, strict=True):
            np.testing.assert_array_equal(found, right)
        assert (f.stats.compiles, f.stats.loads) == (0, 1)
        assert f(*vectors(6))[1].shape == (5,)
        with pytest.raises(GraphcError, match="differ"):
            f(np.ones(3), np.ones(4))


def test_a_formula_has_the_value_of_its_lengths() -> None:
    n, m = passed_length(0), passed_length(1)
    half = ((n + m) // 2) * 3 + 1
    assert pickle.loads(pickle.dumps(half)) is half
    assert value_of(half, [5, 8]) == 19


# Faults of once.


@pytest.mark.parametrize("mode", ["JAX", "MLX"])
def test_arguments_have_the_rank_and_the_static_lengths_of_their_inputs(mode: str) -> None:
    z = gt.tensor("z", shape=(3,))
    states = graphc.scan(
        lambda e, total: (total + gt.exp(e), graphc.until(total > 5)), x, np.float64(0)
    )
    for outputs, options in ((gt.sum(z) * states, {}), (gt.sum(z) * x, {"lengths": "buckets"})):
        f = graphc.function([z, x], outputs, mode=Mode(mode, **options))
        f(np.ones(3), np.ones(6))
        for wrong in (np.ones(4), np.ones((3, 1))):
            with pytest.raises(ArgumentError):
                f(wrong, np.ones(6))


def test_padding_out_of_the_range_of_a_cast_is_masked() -> None:
    """NumPy and XLA cast infinity to different integers."""
    value = np.array([-2.0, -0.5, -1.0])
    outputs = [
        gt.max(gt.cast(1 / x, "int64")),
        gt.sum(gt.cast(gt.cast(1 / (x * x), "uint8"), "int64")),
    ]
    f = graphc.function([x], outputs, mode="JAX")
    assert [int(y) for y in f(value)] == [0, 5]


def test_integers_that_wrap_around_are_no_lengths_of_buffers() -> None:
    for dtype, n, expected in (("int8", 100, 0), ("uint8", 3, 6)):
        k = gt.tensor("k", dtype=dtype, shape=())
        f = graphc.function(
            [x, k], gt.arange((k + k).astype("int64")), mode="JAX", on_unused_input="ignore"
        )
        assert len(f(np.ones(3), np.asarray(n, dtype))) == expected
