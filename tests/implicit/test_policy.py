"""What is done where an implicit array must become whole."""

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from graphc import config
from graphc.errors import ImplicitArrayError, MaterializeError, MaterializeWarning
from graphc.implicit import (
    ImplicitArray,
    materializations,
    materialize_nested,
    materialized,
    materializing,
)
from graphc.implicit.policy import policy_of


@dataclass(frozen=True)
class Twice(ImplicitArray):
    half: Any

    def materialize(self) -> Any:
        return self.half + self.half


@dataclass(frozen=True)
class Kept(Twice, materialize="error"):
    pass


@dataclass(frozen=True)
class Loose(Kept, materialize="allow"):
    pass


@dataclass(frozen=True)
class Layer(ImplicitArray):
    inner: Any

    @property
    def shape(self) -> Any:
        return self.inner.shape

    @property
    def dtype(self) -> Any:
        return self.inner.dtype

    def materialize(self) -> Any:
        return self.inner


X = Twice(np.arange(6.0).reshape(2, 3))


def test_it_is_allowed_by_default() -> None:
    np.testing.assert_array_equal(materialized(X, "exp"), 2 * X.half)


def test_the_class_goes_before_the_context_and_that_before_the_configuration() -> None:
    assert policy_of(Twice) == "allow"
    with config.change_flags(materialize="warn"):
        assert policy_of(Twice) == "warn"
        with materializing("error"):
            assert (policy_of(Twice), policy_of(Kept), policy_of(Loose)) == (
                "error",
                "error",
                "allow",
            )
        with materializing("allow"):
            assert (policy_of(Twice), policy_of(Kept)) == ("allow", "error")
    assert policy_of() == "allow"


def test_an_error_names_the_array_the_operation_and_the_line() -> None:
    with materializing("error"), pytest.raises(MaterializeError) as error:
        materialized(X, "exp", "model.py:3")
    text = str(error.value)
    assert all(part in text for part in ("Twice, float64[2, 3]", "exp", "model.py:3"))


def test_a_place_is_warned_of_once() -> None:
    with materializing("warn"):
        with pytest.warns(MaterializeWarning, match="became dense for sin"):
            materialized(X, "sin", "model.py:1")
        materialized(X, "sin", "model.py:1")
        with pytest.warns(MaterializeWarning):
            materialized(X, "sin", "model.py:2")


def test_a_report_lists_each() -> None:
    with materializations() as outer:
        materialized(X, "exp", "model.py:3")
        with materializations() as inner:
            materialized(X, "sin")
    (first, second) = outer
    assert (first.what, first.type, first.shape, first.dtype, first.bytes, first.where) == (
        "exp",
        "Twice",
        (2, 3),
        "float64",
        48,
        "model.py:3",
    )
    assert inner == [second]
    assert "test_policy.py" in str(second)


def test_a_report_and_a_policy_are_the_threads_own() -> None:
    found: list[Any] = []

    def other() -> None:
        found.append(policy_of())
        materialized(X, "exp")

    with materializing("error"), materializations() as report:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert found == ["allow"]
    assert report == []


def test_layers_are_taken_off_one_by_one_or_all() -> None:
    x = Layer(Layer(X))
    assert materialize_nested(x) is x.inner
    np.testing.assert_array_equal(materialize_nested(x, full=True), 2 * X.half)
    np.testing.assert_array_equal(materialized(x, "exp"), 2 * X.half)


def test_a_failure_raises_with_the_type_and_nothing_stands_in() -> None:
    @dataclass(frozen=True)
    class Broken(Layer):
        def materialize(self) -> Any:
            raise OSError("the disk is gone")

    with pytest.raises(MaterializeError, match=r"Broken.*the disk is gone") as error:
        materialized(Broken(np.ones(2)), "exp")
    assert isinstance(error.value.__cause__, OSError)


@pytest.mark.parametrize("wrong", [np.ones(3), np.ones(2, np.float32), None, "text", 1.0])
def test_what_is_made_has_the_shape_and_dtype(wrong: Any) -> None:
    @dataclass(frozen=True)
    class Wrong(Layer):
        def materialize(self) -> Any:
            return wrong

    with pytest.raises(MaterializeError, match=r"Wrong.*gave"):
        materialized(Wrong(np.ones(2)), "exp")


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(ImplicitArrayError, match="'sometimes'"), materializing("sometimes"):
        pass
    with pytest.raises(ValueError, match="materialize"):
        config.materialize = "sometimes"
