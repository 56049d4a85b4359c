"""What cannot be wrapped is told by the function's name and the user's line."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import (
    ArgumentError,
    GradientError,
    GraphcError,
    OperationError,
    SymbolicValueError,
    UnsupportedOperationError,
)
from graphc.interop import wrap_jax

HERE = "test_wrap_jax_errors.py:"


def line() -> int:
    """The caller's line."""
    return sys._getframe(1).f_lineno


def branches(x: Any) -> Any:
    return x if x > 0 else -x


ASKING = {
    "a branch": branches,
    "a loop": lambda x: [x for _ in range(int(x))],
    "numpy": lambda x: np.sin(x) * 2,
    "a length": lambda x: jnp.zeros(int(x)),
    "a range": lambda x: jnp.arange(x) * 2,
    "an index": lambda x: [1, 2, 3][x.astype(int)],
    "a mask": lambda x: jnp.stack([x, x])[jnp.stack([x, x]) > 0],
}


@pytest.mark.parametrize("name", ASKING)
def test_a_function_that_asks_for_values_is_told(name: str) -> None:
    x = gt.scalar("x")
    f = wrap_jax(ASKING[name])
    with pytest.raises(SymbolicValueError, match=r"jnp\.where") as told:
        f(x)
    called = getattr(ASKING[name], "__name__", "")
    assert f"wrap_jax: {called}(float64[]) asks for the value of an array" in str(told.value)


def test_an_error_has_the_line_of_the_call() -> None:
    x = gt.scalar("x")
    at = line() + 2
    with pytest.raises(SymbolicValueError) as told:
        wrap_jax(branches)(x)
    assert told.value.where == f"{HERE}{at}"


RESULTS = {
    "text": (lambda x: {"a": (x, "no array")}, r"'no array', of the class str, at \['a'\]\[1\]"),
    "an object": (lambda x: [x, object()], r"of the class object, at \[1\]"),
    "a function": (lambda x: lambda: x, "of the class function"),
    "a random key": (lambda x: jax.random.key(0), "a random key"),
    "symbolic": (lambda x: gt.scalar("y"), "of the class Tensor"),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_that_is_no_array_is_told(name: str) -> None:
    f, message = RESULTS[name]
    with pytest.raises(ArgumentError, match=message) as told:
        wrap_jax(f)(gt.scalar("x"))
    assert told.value.where is not None
    assert told.value.where.startswith(HERE)


def test_shapes_that_do_not_fit_are_told_with_jaxs_words() -> None:
    a, b = gt.tensor(shape=(3,)), gt.tensor(shape=(4,))
    at = line() + 2
    with pytest.raises(OperationError, match="contracting dimensions") as told:
        wrap_jax(jnp.dot)(a, b)
    assert "wrap_jax: dot(float64[3], float64[4]) failed while JAX traced it" in str(told.value)
    assert told.value.where == f"{HERE}{at}"


def test_lengths_that_no_attempt_guesses_can_be_given() -> None:
    def both(a: Any, b: Any) -> Any:
        return a @ jnp.ones(31) + b @ jnp.ones(37)

    a, b = gt.vector("a"), gt.vector("b")
    with pytest.raises(OperationError, match="specify_shape"):
        wrap_jax(both)(a, b)
    y = wrap_jax(both)(gt.specify_shape(a, (31,)), gt.specify_shape(b, (37,)))
    assert y.eval({a: np.ones(31), b: np.ones(37)}, mode="NUMPY") == 68


def test_a_gradient_that_jax_does_not_have_is_told() -> None:
    x = gt.scalar("x")
    at = line() + 1
    y = wrap_jax(lambda x: jax.lax.while_loop(lambda c: c < 10, lambda c: c * 2, x))(x)
    with pytest.raises(GradientError, match="Reverse-mode differentiation") as told:
        graphc.grad(y, x)
    assert told.value.where == f"{HERE}{at}"


@pytest.mark.parametrize("mode", ["JAX", "NUMPY"])
def test_lengths_that_do_not_fit_at_run_time_are_told(mode: str) -> None:
    a, b = gt.vector("a"), gt.vector("b")
    at = line() + 1
    y = wrap_jax(lambda a, b: jnp.stack([a, b]))(a, b)
    f = graphc.function([a, b], y, mode)
    with pytest.raises(GraphcError, match="same shape") as told:
        f([1.0], [1.0, 2.0])
    assert told.value.where == f"{HERE}{at}"


def test_mlx_has_no_jax_functions_and_says_so() -> None:
    x = gt.vector("x")
    at = line() + 1
    y = wrap_jax(branchless)(x)
    with pytest.raises(UnsupportedOperationError) as told:
        graphc.function([x], y, "MLX")
    text = str(told.value)
    assert f"wrap_jax: branchless   {HERE}{at}" in text
    assert "fallback='numpy'" in text


def branchless(x: Any) -> Any:
    return jnp.where(x > 0, x, -x)


@pytest.mark.parametrize("value", [3.0, "text", None, gt.scalar("x")])
def test_what_is_no_function_is_refused(value: Any) -> None:
    if value is None:
        assert wrap_jax(None) is wrap_jax
        return
    with pytest.raises(ArgumentError, match="not a function"):
        wrap_jax(value)


def test_importing_it_loads_no_jax() -> None:
    script = (
        "import sys\n"
        "from graphc.interop import wrap_jax\n"
        "f = wrap_jax(lambda x: x)\n"
        "sys.exit('jax' in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
