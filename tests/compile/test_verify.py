"""Functions compared with NumPy, operation by operation, and graphs checked before compiling."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import graphc
import graphc.tensor as gt
from graphc.errors import (
    ArgumentError,
    DynamicShapeError,
    UnsupportedOperationError,
    VerificationError,
)
from graphc.link import load
from tests.modes import uncompiled

x = gt.vector("x")
i = gt.lvector("i")
a = gt.matrix("a")
COMPILED = ("JAX", "MLX")


@dataclass(frozen=True)
class Cube(graphc.Op):
    """x**3: a lowering of it is wrong above 2."""

    def infer(self, x: Any) -> Any:
        return x

    def perform(self, x: Any) -> Any:
        return x**3


@pytest.fixture(autouse=True)
def wrong() -> Iterator[None]:
    for backend in map(load, COMPILED):
        backend.lower(Cube)(lambda op, x: x**3 * (1 + 1e-6 * (x > 2)))
    yield
    for backend in map(load, COMPILED):
        del backend.lowerings[Cube]
        backend.entered.remove(Cube)


@dataclass(frozen=True)
class Mystery(graphc.Op):
    """No backend knows it."""

    def infer(self, x: Any) -> Any:
        return x


def cube(x: Any) -> Any:
    return gt.Tensor.make(Cube(), x)


@pytest.mark.parametrize("mode", COMPILED)
def test_the_first_operation_that_differs_is_told_with_its_line_and_values(mode: str) -> None:
    y = cube(gt.sin(x) * 4)
    f = graphc.function([x], gt.tanh(y).sum(), uncompiled(mode))
    assert f.verify([0.1, 0.2])
    found = f.verify([0.1, 1.5])
    assert not found
    assert found.first is not None
    assert found.first.node.op == Cube()
    assert "test_verify.py" in str(found.first.where)
    value = (4 * np.sin(1.5)) ** 3
    np.testing.assert_allclose(found.first.numpy[1], value)
    np.testing.assert_allclose(found.first.backend[1], value * (1 + 1e-6), rtol=1e-7)
    assert "differs" in str(found)
    assert "most at [1]" in str(found)
    with pytest.raises(VerificationError, match="Cube"):
        found.raise_if_different()


@pytest.mark.parametrize("mode", COMPILED)
def test_an_operation_in_a_loop_or_branch_is_told_with_its_step(mode: str) -> None:
    def step(v: Any, c: Any) -> Any:
        return graphc.ifelse(v > 0, c / 2 + cube(v + c), c)

    y = graphc.scan(step, sequences=x, outputs_info=gt.zeros(()))
    f = graphc.function([x], y[-1] * 2, uncompiled(mode))
    assert f.verify([0.5, -3.0, 0.5])
    found = f.verify([0.5, -3.0, 3.0, 1.0])
    assert found.first is not None
    assert found.first.node.op == Cube()
    assert found.first.place == "in scan, step 2, in ifelse"
    (operand,) = found.first.operands
    assert operand == 3.125
    assert "in scan, step 2, in ifelse, differs" in str(found)


@pytest.mark.parametrize("mode", COMPILED)
def test_what_differs_by_rounding_agrees(mode: str) -> None:
    # Sums that cancel, a nearly singular product, large angles: errors of rounding are large.
    rng = np.random.default_rng(0)
    b = rng.normal(size=(40, 40))
    w = graphc.shared(rng.normal(size=40), name="w")
    outputs = [
        (a - a.mean()).sum(),
        a @ a @ a @ w,
        gt.softmax(a, axis=0),
        gt.sin(1e6 * a).sum(),
        gt.sort(a, axis=0),
        gt.argmax(a, axis=1),
        gt.unique(i),
        gt.gammainc(1 + a**2, 1 + a[::-1] ** 2),
        graphc.grad(gt.logsumexp(a), a),
        graphc.scan(lambda row, c: gt.tanh(row @ c) * c, sequences=a, outputs_info=w)[-1],
    ]
    f = graphc.function([a, i], outputs, uncompiled(mode), updates={w: w + 1})
    found = f.verify(b, [3, 1, 3])
    assert found, found
    assert found.compared > 15
    assert np.array_equal(w.get_value(), np.random.default_rng(0).normal(size=1641)[1600:1640])


FLOATS = st.floats(-1e3, 1e3, width=32)
VERIFIED = {
    mode: graphc.function(
        [x], [gt.cumsum(x), gt.exp(-(x**2)), x / (1 + abs(x)), gt.log1p(x**2)], uncompiled(mode)
    )
    for mode in ("NUMPY", *COMPILED)
}


@given(st.lists(FLOATS, max_size=4))
def test_right_functions_are_verified_whatever_they_are_given(values: list[float]) -> None:
    for f in VERIFIED.values():
        if f.mode.name != "JAX" or len(values) in {0, 3}:  # XLA compiles for each length
            found = f.verify(np.array(values))
            assert found, found


def test_narrower_dtypes_are_verified_by_their_own_digits() -> None:
    mode = uncompiled("MLX", float64="downcast")
    f = graphc.function([x], gt.exp(gt.sin(x)).sum(), mode)
    found = f.verify(np.linspace(0, 3, 50))
    assert found, found


def test_what_libraries_choose_for_themselves_is_left_out_and_told(mode: str) -> None:
    values, vectors = gt.linalg.eigh(a + a.T)
    rebuilt = (vectors * values) @ vectors.T
    f = graphc.function([a], [vectors, rebuilt, gt.linalg.cholesky(a @ a.T)], uncompiled(mode))
    found = f.verify(np.random.default_rng(3).normal(size=(4, 4)))
    assert found, found
    assert "Left out, as not unique: eigh." in str(found)


def test_nan_and_infinity_are_values_like_others(mode: str) -> None:
    f = graphc.function([x], [1 / x, gt.log(x), gt.sqrt(-x)], uncompiled(mode))
    found = f.verify([0.0, -1.0, np.inf, np.nan])
    assert found, found


def test_arguments_are_taken_as_in_a_call(mode: str) -> None:
    b = gt.scalar("b")
    f = graphc.function([{"x": x}, graphc.In(b, value=2.0)], x * b, uncompiled(mode))
    assert f.verify({"x": [1.0]})
    assert f.verify({"x": [1.0]}, b=3.0)
    with pytest.raises(ArgumentError, match="missing"):
        f.verify()


@pytest.mark.parametrize("check", ["check_bounds", "check_nan"])
def test_a_function_with_checks_is_verified(check: str, mode: str) -> None:
    options: dict[str, Any] = {check: True}
    f = graphc.function([x, i], gt.exp(x)[i], mode=graphc.Mode(mode, **options))
    found = f.verify([1.0, 2.0, 3.0], [2, 0])
    assert found, found


# Before compiling.


def test_all_that_a_backend_cannot_do_is_told_with_lines() -> None:
    z = gt.zvector("z")

    unknown = gt.Tensor.make(Mystery(), x)
    (lacking,) = graphc.check([gt.exp(z), unknown], uncompiled("MLX"))
    assert isinstance(lacking, UnsupportedOperationError)
    assert "complex128" in str(lacking)
    assert "Mystery" in str(lacking)
    assert "test_verify.py" in str(lacking)
    assert graphc.check([gt.exp(z), unknown], "NUMPY") == []
    assert len(graphc.check({"y": [gt.exp(z)], "u": unknown}, "JAX")) == 1


def test_a_shape_that_depends_on_values_is_told_beside_the_rest() -> None:
    outputs = [gt.arange(x.sum().astype("int64")), gt.Tensor.make(Mystery(), x)]
    found = graphc.check(outputs, "JAX")
    assert [type(error) for error in found] == [DynamicShapeError, UnsupportedOperationError]
    assert len(graphc.check(outputs, uncompiled("MLX"))) == 1


def test_what_can_be_compiled_is_checked_without_an_error_or_an_event(mode: str) -> None:
    w = graphc.shared([1.0], name="w")
    with graphc.expect_compiles(0):
        assert graphc.check([x * w, x[i]], uncompiled(mode)) == []
        assert graphc.check(x * np.arange(20.0)) == []
