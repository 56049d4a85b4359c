"""``eval``: a value at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.compile.evaluate import MAX_FUNCTIONS, _functions
from graphc.errors import ArgumentError, MissingInputError

x, y = gt.vector("x"), gt.vector("y")
VALUE = np.array([1.0, 2.0])


def test_values_are_given_by_variable_or_by_name(mode: str) -> None:
    for values in ({x: VALUE, y: VALUE}, {"x": VALUE, "y": VALUE}, {"x": VALUE, y: VALUE}):
        np.testing.assert_array_equal((x + y).eval(values, mode=mode), VALUE * 2)


def test_the_result_is_numpys(mode: str) -> None:
    assert isinstance((x + 1).eval({x: VALUE}, mode=mode), np.ndarray)


def test_a_constant_needs_no_values(mode: str) -> None:
    assert gt.constant(3.0).eval(mode=mode) == 3.0


def test_a_shared_variable_has_its_present_value(mode: str) -> None:
    w = graphc.shared(VALUE)
    double = w * 2
    np.testing.assert_array_equal(double.eval(mode=mode), VALUE * 2)
    w.set_value(VALUE * 5)
    np.testing.assert_array_equal(double.eval(mode=mode), VALUE * 10)


def test_an_inner_node_can_be_given(mode: str) -> None:
    assert float(gt.exp(x).sum().eval({gt.exp(x): VALUE}, mode=mode)) == 3.0


def test_the_default_mode_is_the_settings() -> None:
    with graphc.config.change_flags(mode="NUMPY"):
        assert float(x.sum().eval({x: VALUE})) == 3.0
    with pytest.raises(graphc.errors.ModeError), graphc.config.change_flags(mode="nonsense"):
        x.sum().eval({x: VALUE})


def test_what_the_expression_does_not_need_is_ignored(mode: str) -> None:
    np.testing.assert_array_equal((x * 2).eval({x: VALUE, y: VALUE}, mode=mode), VALUE * 2)


def test_a_missing_value_is_an_error(mode: str) -> None:
    with pytest.raises(MissingInputError, match=r"y: float64\[\?\]"):
        (x + y).eval({x: VALUE}, mode=mode)


@pytest.mark.parametrize("key", ["z", 3, None])
def test_a_key_that_is_no_input_is_an_error(key: object, mode: str) -> None:
    with pytest.raises(ArgumentError, match="no input"):
        x.eval({x: VALUE, key: 1.0}, mode=mode)


def test_a_name_of_two_inputs_is_an_error(mode: str) -> None:
    with pytest.raises(ArgumentError, match="2 inputs are called 'x'"):
        (x + gt.vector("x")).eval({"x": VALUE}, mode=mode)


def test_the_same_expression_is_compiled_once() -> None:
    z = gt.exp(x) * 17
    z.eval({x: VALUE}, mode="NUMPY")
    before = list(_functions.values())
    z.eval({"x": VALUE}, mode="NUMPY")
    assert list(_functions.values()) == before


def test_the_functions_kept_are_bounded_and_the_oldest_go() -> None:
    often = gt.exp(x) * 19
    for i in range(2 * MAX_FUNCTIONS):
        (x * i).eval({x: VALUE}, mode="NUMPY")
        often.eval({x: VALUE}, mode="NUMPY")
    assert len(_functions) == MAX_FUNCTIONS
    assert often in {key[0] for key in _functions}


def test_many_threads_can_evaluate_at_once() -> None:
    expressions = [x * i for i in range(100)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda z: z.eval({x: VALUE}, mode="NUMPY"), expressions * 3))
    for i, value in enumerate(found):
        np.testing.assert_array_equal(value, VALUE * (i % 100))


def test_eval_reads_a_large_array_anew() -> None:
    values = np.zeros(20)
    total = gt.constant(values).sum()
    assert float(total.eval(mode="NUMPY")) == 0
    values[:] = 1
    assert float(total.eval(mode="NUMPY")) == 20
