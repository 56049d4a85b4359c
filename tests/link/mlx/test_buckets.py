"""Lengths in buckets on MLX: the results are NumPy's, and all lengths of a bucket share a program.

The programs are those of JAX's tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc import Mode, scan, until
from graphc.errors import GraphcError, RuntimeShapeError
from tests.link.bucketed import (
    LENGTHS,
    TABLE,
    recurrent,
    recurrent_values,
    vectors,
    x,
    y,
)


def compare(inputs: Sequence[Any], outputs: Sequence[Any], calls: Any) -> graphc.Function:
    """Call in buckets and in NUMPY, and return the function in buckets."""
    f = graphc.function(inputs, list(outputs), mode="MLX", on_unused_input="ignore")
    expected = graphc.function(inputs, list(outputs), mode="NUMPY", on_unused_input="ignore")
    for call in calls:
        for found, right in zip(f(*call), expected(*call), strict=True):
            assert found.shape == right.shape
            assert found.dtype == right.dtype
            np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6)
    assert not f._compiled.execute.is_refused
    return f


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("subject", TABLE)
def test_results_are_those_of_the_true_lengths(subject: str) -> None:
    f = compare([x, y], TABLE[subject](), map(vectors, LENGTHS))
    assert f.stats.compiles <= (4 if subject == "branches" else 2)


def test_a_loop_over_a_padded_sequence_stops_and_so_does_its_gradient() -> None:
    compare(*recurrent(), map(recurrent_values, (5, 16, 1, 20)))


def test_the_mode_pads_the_lengths_that_change() -> None:
    z, w = gt.fmatrix("z"), gt.fvector("w")
    f = graphc.function([z, w], z @ w, mode=Mode("MLX", lengths="buckets"))
    for n in (30, 20, 25, 31, 17):
        data, weights = np.random.default_rng(n).normal(size=(n, 3)), np.float32([1, 2, 4])
        data = data.astype("float32")
        np.testing.assert_allclose(f(data, weights), data @ weights, rtol=1e-5)
    # The first length, and a bucket.
    assert f.stats.compiles == 2
    line = "lengths: z: float32[?, ?], axis 0 is padded: 16, 32, 64, 128, ..."
    assert line in f.plan().padding


def test_lengths_that_do_not_fit_raise_the_error_of_the_exact_program() -> None:
    f = graphc.function([x, y], x + y, mode="MLX")
    for n, m in ((5, 6), (5, 40)):
        with pytest.raises(GraphcError, match="differ"):
            f(np.ones(n), np.ones(m))
    assert f(np.ones(3), np.ones(3)).tolist() == [2, 2, 2]
    assert not f._compiled.execute.is_refused


# Faults of once.

v, u = (gt.tensor(name, dtype="float32", shape=(None,), bucket=2) for name in "vu")


def ramp(n: int) -> np.ndarray:
    return np.arange(n, dtype=np.float32)


def test_lengths_that_do_not_fit_raise_and_read_no_memory_outside_of_a_buffer() -> None:
    f = graphc.function([v, u], gt.convolve(v, u, mode="same"), mode="MLX")
    for n in (5, 20):
        np.testing.assert_allclose(f(ramp(n), ramp(n)), np.convolve(ramp(n), ramp(n), "same"))
    with pytest.raises(RuntimeShapeError):
        f(ramp(0), ramp(0))


def test_a_loop_that_stops_runs_in_a_second_bucket() -> None:
    states = scan(lambda e, s: (s / 2 + e, until(s > 2)), v, np.float32(0))
    f = graphc.function([v], states, mode="MLX")
    expected = graphc.function([v], states, mode="NUMPY")
    for n in (5, 1, 20):
        np.testing.assert_allclose(f(ramp(n)), expected(ramp(n)))


def test_a_slice_at_any_start_of_an_input_with_buckets_is_compiled_once() -> None:
    start = gt.lscalar("start")
    f = graphc.function([v, start], v[start : start + 3], mode="MLX")
    for i in range(6):
        assert f(ramp(12), i).tolist() == [i, i + 1, i + 2]
    assert f.stats.compiles == 1
