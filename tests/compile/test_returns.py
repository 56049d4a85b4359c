"""Results of calls: whose arrays they are, and that the caller may write to them."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import mlx.core as mx
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc import config
from graphc.compile.function import _warn_of_narrowing
from graphc.errors import ArgumentError, ModeError, NarrowingWarning
from tests.modes import lacks

x, m = gt.vector("x"), gt.matrix("m")
VALUE = np.array([1.0, 2.0, 4.0])
MATRIX = np.arange(6.0).reshape(2, 3)
NATIVE = {"NUMPY": np.ndarray, "JAX": jax.Array, "MLX": mx.array}


def is_the_callers(y: Any) -> bool:
    """Whether an array of NumPy can be written to."""
    return type(y) is np.ndarray and y.flags.writeable


@pytest.fixture(autouse=True)
def first_warning() -> Iterator[None]:
    """Let the warning of narrowing come again, which comes once in a process."""
    _warn_of_narrowing.cache_clear()
    yield
    _warn_of_narrowing.cache_clear()


OF_VECTORS: dict[str, Callable[[Any], Any]] = {
    "x": lambda x: x,
    "x[1:]": lambda x: x[1:],
    "x[::-1]": lambda x: x[::-1],
    "x[None]": lambda x: x[None],
    "reshape": lambda x: x.reshape((3, 1)),
    "broadcast": lambda x: gt.broadcast_to(x, (2, 3)),
    "x[0]": lambda x: x[0],
    "sum": lambda x: x.sum(),
    "bool": lambda x: x > 1.5,
    "int64": lambda x: x.astype("int64"),
    "computed": lambda x: x * 2 + 1,
}


@pytest.mark.parametrize("expression", OF_VECTORS)
def test_a_result_is_writable_and_shares_no_memory_with_the_argument(
    expression: str, mode: str
) -> None:
    symbolic = OF_VECTORS[expression]
    f = graphc.function([x], symbolic(x), mode=mode)
    for _ in range(12):  # NumPy's and MLX's programs are made anew after some calls
        given = VALUE.copy()
        y = f(given)
        expected = f(VALUE)
        assert is_the_callers(y)
        given[...] = -1.0
        np.testing.assert_array_equal(y, expected)
        y[...] = 0
        np.testing.assert_array_equal(given, [-1.0, -1.0, -1.0])
        np.testing.assert_array_equal(f(VALUE), expected)


@pytest.mark.parametrize("value", [m.T, m, m[:, 1:], m.reshape((3, 2))])
def test_a_view_of_a_matrix_is_an_array_of_the_callers(value: Any, mode: str) -> None:
    f = graphc.function([m], value, mode=mode)
    for _ in range(12):
        given = MATRIX.copy()
        y = f(given)
        assert is_the_callers(y)
        assert not np.shares_memory(y, given)


@pytest.mark.parametrize("size", [4, 12, 100_000])
def test_a_constant_does_not_change_with_the_result(size: int, mode: str) -> None:
    weights = np.linspace(1.0, 2.0, size)
    f = graphc.function([], gt.constant(weights), mode=mode)
    for _ in range(12):
        y = f()
        assert is_the_callers(y)
        np.testing.assert_array_equal(y, np.linspace(1.0, 2.0, size))
        y[...] = 0.0


def test_a_shared_value_does_not_change_with_the_results(mode: str) -> None:
    state = graphc.shared(VALUE, "state")
    doubled = x * 2
    f = graphc.function([x], [state, doubled, state[1:]], updates=[(state, doubled)], mode=mode)
    expected = VALUE
    for step in range(12):
        argument = VALUE + step
        before, new, part = f(argument)
        assert all(map(is_the_callers, (before, new, part)))
        np.testing.assert_array_equal(before, expected)
        np.testing.assert_array_equal(part, expected[1:])
        expected = 2 * argument
        for y in (before, new, part):
            y[...] = -1.0
        np.testing.assert_array_equal(state.get_value(), expected)


def test_each_of_equal_outputs_is_its_own_array(mode: str) -> None:
    y = x + 1
    f = graphc.function([x], [y, y, x, x, y[None]], mode=mode)
    for _ in range(12):
        results = f(VALUE)
        for i, result in enumerate(results):
            assert is_the_callers(result)
            for other in results[:i]:
                assert not np.shares_memory(result, other)


def test_results_in_containers_are_arrays_of_numpy(mode: str) -> None:
    f = graphc.function([x], {"a": [x], "b": (x + 1, x.sum())}, mode=mode)
    result = f(VALUE)
    assert all(map(is_the_callers, (result["a"][0], *result["b"])))


def test_a_scalar_is_an_array_without_axes(mode: str) -> None:
    y = graphc.function([x], x.sum(), mode=mode)(VALUE)
    assert is_the_callers(y)
    assert y.shape == ()
    assert y.dtype == "float64"


def test_computing_with_a_result_keeps_64_bits(mode: str) -> None:
    y = graphc.function([x], x.sum(), mode=mode)([1e40, 1.0])
    assert (y + 1).dtype == "float64"
    assert float(y * 10) == 1e41
    n = gt.lvector("n")
    total = graphc.function([n], n * 1, mode=mode)([3_000_000_000, 2_000_000_000])
    assert int(total.sum()) == 5_000_000_000
    assert int(total[0]) * 1 == 3_000_000_000


@pytest.mark.parametrize("dtype", ["float16", "float32", "bfloat16", "int8", "bool", "complex64"])
def test_a_result_has_the_dtype_of_the_output(dtype: str, mode: str) -> None:
    if lacks(mode, dtype):
        pytest.skip(f"{mode} lacks {dtype}")
    v = gt.tensor("v", dtype=dtype, shape=(None,))
    y = graphc.function([v], v[::-1], mode=mode)(np.array([0, 1, 1]).astype(v.type.numpy_dtype))
    assert is_the_callers(y)
    assert y.dtype == v.type.numpy_dtype
    np.testing.assert_array_equal(y.astype("complex64"), [1, 1, 0])


def test_a_state_that_is_replaced_in_place_leaves_earlier_results(mode: str) -> None:
    state = graphc.shared(np.zeros(1000), "state")
    f = graphc.function([], state, updates=[(state, state + 1)], mode=mode)
    results = [f() for _ in range(12)]
    for i, y in enumerate(results):
        np.testing.assert_array_equal(y, np.full(1000, float(i)))


def test_returns_native_gives_the_backends_arrays(mode: str) -> None:
    a = gt.fvector("a")
    f = graphc.function([a], [a * 2, {"sum": a.sum()}], mode=mode, returns="native")
    doubled, others = f(VALUE.astype("float32"))
    assert isinstance(doubled, NATIVE[mode])
    assert isinstance(others["sum"], NATIVE[mode])


def test_the_argument_precedes_the_mode_and_the_mode_config(mode: str) -> None:
    a = gt.fvector("a")
    given = VALUE.astype("float32")

    def result(returns: Any, by_mode: Any) -> type:
        chosen = graphc.Mode(mode, returns=by_mode)
        return type(graphc.function([a], a * 2, mode=chosen, returns=returns)(given))

    for by_config in ("numpy", "native"):
        with config.change_flags(returns=by_config):
            for by_mode in (None, "numpy", "native"):
                for returns in (None, "numpy", "native"):
                    kind = returns or by_mode or by_config
                    expected = np.ndarray if kind == "numpy" else NATIVE[mode]
                    assert issubclass(result(returns, by_mode), expected)


def test_a_mode_keeps_what_its_functions_return(mode: str) -> None:
    native = graphc.Mode(mode, returns="native")
    assert native.returns == "native"
    assert "returns='native'" in repr(native)
    assert pickle.loads(pickle.dumps(native)) == native
    assert native.excluding("stabilize").returns == "native"


def test_functions_that_return_other_arrays_share_a_program(mode: str) -> None:
    v = gt.fvector("v")
    native = graphc.function([v], gt.sin(v * 1.25), mode=graphc.Mode(mode, returns="native"))
    native(VALUE.astype("float32"))
    numpy = graphc.function([v], gt.sin(v * 1.25), mode=mode)
    numpy(VALUE.astype("float32"))
    assert numpy.stats.compiles == 0
    assert numpy.stats.hits == 1


def test_a_pickled_function_returns_the_same_arrays(mode: str) -> None:
    a = gt.fvector("a")
    f = graphc.function([a], a * 2, mode=mode, returns="native")
    with config.change_flags(returns="numpy"):
        assert isinstance(pickle.loads(pickle.dumps(f))(VALUE.astype("float32")), NATIVE[mode])


def test_an_unknown_kind_of_arrays_is_refused(mode: str) -> None:
    with pytest.raises(ArgumentError, match="returns='torch'"):
        graphc.function([x], x, mode=mode, returns="torch")  # type: ignore[call-overload]
    with pytest.raises(ModeError, match="returns='torch'"):
        graphc.Mode(mode, returns="torch")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="returns"):
        config.returns = "torch"  # type: ignore[assignment]


def test_an_evaluated_array_is_numpys_whatever_config_says(mode: str) -> None:
    with config.change_flags(returns="native"):
        assert is_the_callers((x * 2).eval({x: VALUE}, mode=mode))


# Narrowing of native results.


def narrowings(f: Any, *args: Any) -> list[warnings.WarningMessage]:
    """The warnings of two calls of a function."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        f(*args)
        f(*args)
    return [w for w in caught if issubclass(w.category, NarrowingWarning)]


def test_native_results_of_64_bits_warn_once_in_a_process() -> None:
    first = graphc.function([x], x * 2, mode="JAX", returns="native")
    second = graphc.function([x], x * 3, mode="JAX", returns="native")
    (warning,) = narrowings(first, VALUE)
    assert warning.filename == __file__
    assert "returns='numpy'" in str(warning.message)
    assert not narrowings(second, VALUE)


@pytest.mark.parametrize("returns", ["numpy", "native"])
def test_no_other_results_warn(returns: Any, mode: str) -> None:
    a = gt.fvector("a")
    assert not narrowings(
        graphc.function([a], a * 2, mode=mode, returns=returns), VALUE.astype("float32")
    )
    if returns == "numpy" or mode != "JAX":
        f = graphc.function([x], x * 2, mode=mode, returns=returns)
        assert not narrowings(f, VALUE)


def test_native_results_do_not_warn_where_jax_enable_x64_is_on() -> None:
    f = graphc.function([x], x * 5, mode="JAX", returns="native")
    with jax.enable_x64(True):
        assert not narrowings(f, VALUE)


def test_a_function_of_numpy_arrays_names_pure_where_jax_traces() -> None:
    v = gt.fvector("v")
    f = graphc.function([v], (v**2).sum(), mode="JAX")
    with pytest.raises(ArgumentError, match=r"f\.pure"):
        jax.grad(f)(VALUE.astype("float32"))
    slope = jax.grad(f.pure)(VALUE.astype("float32"))
    np.testing.assert_allclose(slope, 2 * VALUE)
