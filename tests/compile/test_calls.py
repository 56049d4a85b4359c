"""Calls that go straight to the library: what it does not take is still converted or refused."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import mlx.core as mx
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.compile.cache import PROGRAMS
from graphc.compile.recompile import WORTHWHILE_CALLS
from graphc.errors import ArgumentError, DTypeError

OFTEN = WORTHWHILE_CALLS + 2
"""Calls after which a function has settled."""


@pytest.fixture(params=["compiled", "loaded"])
def kept(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[str]:
    """Whether executables are compiled by this process, or have been by another."""
    with graphc.config.change_flags(cache_dir=tmp_path):
        yield request.param
    PROGRAMS.clear()


def settled(function: Any, *arguments: Any) -> Any:
    """A function that was called often."""
    for _ in range(OFTEN):
        function(*arguments)
    return function


def of_kind(kept: str, make: Any, *arguments: Any) -> Any:
    """A function that was called often, of an executable that was compiled or loaded."""
    PROGRAMS.clear()
    made = settled(make(), *arguments)
    if kept == "loaded":
        PROGRAMS.clear()
        made = settled(make(), *arguments)
        assert made.stats.loads == 1
    return made


def wide(dtype: str) -> Any:
    """An array of JAX's whose dtype needs 64 bits."""
    with jax.enable_x64(True):
        return jnp.full(3, 2, dtype)


def test_an_array_of_jax_of_another_dtype_is_refused(kept: str) -> None:
    x = gt.vector("x", dtype="float32")
    ones = jnp.ones(3, "float32")
    f = of_kind(kept, lambda: graphc.function([x], x * 2, mode="JAX"), ones)
    for wrong in (wide("float64"), wide("int64"), jnp.ones(3, "int32"), np.ones(3)):
        for _ in range(2):
            with pytest.raises(DTypeError, match="expected float32"):
                f(wrong)
    assert f(ones).tolist() == [2, 2, 2]


def test_an_array_of_jax_of_a_narrower_dtype_is_converted(kept: str) -> None:
    x = gt.vector("x", dtype="float64")
    f = of_kind(kept, lambda: graphc.function([x], x * 2, mode="JAX"), wide("float64"))
    for given in (jnp.full(3, 2, "int32"), jnp.full(3, 2, "float32"), wide("float64")):
        for _ in range(2):
            found = f(given)
            assert found.dtype == "float64"
            assert found.tolist() == [4, 4, 4]
    assert f.stats.compiles + f.stats.loads == 1


def test_float64_stays_right_where_x64_is_turned_on_and_off(kept: str) -> None:
    x = gt.vector("x")
    third = np.full(3, 1 / 3)
    f = of_kind(kept, lambda: graphc.function([x], x * 2, mode="JAX"), third)
    for on in (True, True, False, False, True, False):
        with jax.enable_x64(on):
            for given in (third, f(third)):
                found = f(given)
                assert found.dtype == "float64"
                np.testing.assert_array_equal(found, np.asarray(given) * 2)
    assert f.stats.compiles + f.stats.loads == 1


def test_a_refused_argument_leaves_shared_variables_and_their_locks(mode: str) -> None:
    x = gt.vector("x", dtype="float32")
    state = graphc.shared(np.zeros(3, "float32"))
    f = graphc.function([x], state.sum(), updates=[(state, state + x)], mode=mode)
    own = graphc.function([x], x * 1, mode=mode)(np.ones(3, "float32"))
    settled(f, own)
    wrong = {"JAX": wide("float64"), "MLX": mx.ones(3, mx.int64), "NUMPY": np.ones(3)}[mode]
    with pytest.raises(DTypeError):
        f(wrong)
    assert state.get_value().tolist() == [OFTEN] * 3
    other = threading.Thread(target=f, args=(own,), daemon=True)
    other.start()
    other.join(60)
    assert state.get_value().tolist() == [OFTEN + 1] * 3


def test_a_wrong_shape_is_refused_after_many_calls(mode: str) -> None:
    x, y = gt.vectors("x", "y")
    f = settled(graphc.function([x, y], x + y, mode=mode), np.ones(3), np.ones(3))
    with pytest.raises(ArgumentError, match="'x'"):
        f(np.ones((3, 1)), np.ones(3))
    with pytest.raises(graphc.errors.RuntimeShapeError):
        f(np.ones(3), np.ones(4))
    assert np.asarray(f(np.ones(4), np.ones(4))).tolist() == [2] * 4


def test_captured_arrays_are_passed_in_order_after_many_calls(mode: str) -> None:
    x = gt.vector("x")
    a, b = np.arange(12.0), np.linspace(1, 2, 12)
    f = settled(graphc.function([x], gt.constant(a) / gt.constant(b) - x, mode=mode), a)
    np.testing.assert_allclose(np.asarray(f(b)), a / b - b)


def test_transformations_of_mlx_are_refused_after_many_calls() -> None:
    x = gt.vector("x", dtype="float32")
    f = graphc.function([x], gt.sum(x * 2), mode=graphc.Mode("MLX", compile=True))
    ones = mx.ones(3)
    settled(f, ones)
    for transformed in (mx.grad(f), mx.compile(f)):
        with pytest.raises(ArgumentError, match=r"graphc\.grad"):
            transformed(ones)
    assert f(ones).item() == 6
    assert f(np.ones(4, "float32")).item() == 8
    assert f.stats.compiles == 2
