"""A user's own operation, on every backend."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import OperationError, UnsupportedOperationError
from graphc.ir import TensorType
from graphc.link import load, names

ONES = np.arange(3.0)
COMPILED = [name for name in names() if name != "NUMPY"]
x = gt.vector("x")


@dataclass(frozen=True, slots=True)
class Power(graphc.Op):
    """x to a whole power, in NumPy alone."""

    exponent: int

    def infer(self, x: TensorType) -> TensorType:
        return x

    def perform(self, x: np.ndarray) -> np.ndarray:
        return x**self.exponent

    def pullback(self, g: Any, y: Any, x: Any) -> tuple[Any]:
        return (g * self.exponent * power(x, self.exponent - 1),)


class Mystery(Power):
    """Another one without lowerings."""


class Failing(Power):
    """One that fails."""

    def perform(self, x: np.ndarray) -> np.ndarray:
        raise ZeroDivisionError("no luck")


class Lowered(Power):
    """One that the tests lower."""


def power(x: Any, exponent: int) -> gt.Tensor:
    return gt.Tensor.make(Power(exponent), x)


@pytest.fixture
def lowered() -> Iterator[type[Power]]:
    """An operation with a lowering on every backend, for the time of a test."""
    for name in COMPILED:
        load(name).lower(Lowered)(lambda op, x: x**op.exponent)
    yield Lowered
    for name in COMPILED:
        del load(name).lowerings[Lowered]


def test_an_operation_needs_a_reference_alone_in_numpy() -> None:
    np.testing.assert_array_equal(graphc.function([x], power(x, 3), mode="NUMPY")(ONES), ONES**3)


def test_its_gradient_is_its_pullback() -> None:
    graphc.verify_grad(lambda x: power(x, 3), [np.array([0.5, -1.0])])


def test_equal_operations_on_one_input_are_one_node() -> None:
    assert power(x, 3) is power(x, 3)
    assert power(x, 3) is not power(x, 2)


@pytest.mark.parametrize("name", COMPILED)
def test_all_operations_without_a_lowering_are_named_with_their_lines(name: str) -> None:
    y = power(x, 2)
    z = gt.Tensor.make(Mystery(3), gt.exp(y))
    with pytest.raises(UnsupportedOperationError) as caught:
        graphc.function([x], z.sum(), mode=name)
    text = str(caught.value)
    lines = {line.split()[0]: line for line in text.splitlines() if line.startswith("  ")}
    assert set(lines) == {"Power", "Mystery"}
    assert all("test_operation.py:" in line for line in lines.values())
    for way_out in ("@backend.lower", "fallback='numpy'", "mode='NUMPY'"):
        assert way_out in text


@pytest.mark.parametrize("name", COMPILED)
def test_a_lowering_makes_it_run_compiled(name: str, lowered: type[Power]) -> None:
    y = gt.Tensor.make(lowered(3), x)
    np.testing.assert_allclose(graphc.function([x], y, mode=name)(ONES), ONES**3)


@pytest.mark.parametrize("name", COMPILED)
def test_the_fallback_runs_it_in_numpy(name: str) -> None:
    y = gt.exp(power(x, 3)).sum()
    f = graphc.function([x], [y, graphc.grad(y, x)], mode=graphc.Mode(name, fallback="numpy"))
    expected = graphc.function([x], [y, graphc.grad(y, x)], mode="NUMPY")(ONES / 4)
    for found, wanted in zip(f(ONES / 4), expected, strict=True):
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-12)


@pytest.mark.parametrize("name", COMPILED)
def test_a_fallback_that_fails_leaves_shared_values(name: str) -> None:
    w = graphc.shared(ONES)
    y = gt.Tensor.make(Failing(1), w)
    step = graphc.function([], y, updates=[(w, w + 1)], mode=graphc.Mode(name, fallback="numpy"))
    with pytest.raises(Exception, match="no luck"):
        np.asarray(step())
    assert np.isfinite(w.get_value()).all()


def test_an_operation_that_fails_is_named_with_its_line() -> None:
    f = graphc.function([x], gt.Tensor.make(Failing(1), x), mode="NUMPY")
    with pytest.raises(OperationError, match=r"Failing\(x, .*no luck") as caught:
        f(ONES)
    assert "test_operation.py:" in str(caught.value)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
