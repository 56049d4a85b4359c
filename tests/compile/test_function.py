"""Functions: what they return, what stands in for what, and what is refused when they are made."""

from __future__ import annotations

import inspect
import warnings
import weakref
from collections import namedtuple
from typing import Any

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import (
    ArgumentError,
    BoundsError,
    DTypeError,
    MissingInputError,
    RuntimeShapeError,
    UnusedInputError,
)
from tests.modes import dtype_of, lacks

Pair = namedtuple("Pair", "a b")
x, y = gt.vector("x"), gt.vector("y")
VALUE = np.array([1.0, 2.0])


def plain(result: Any) -> Any:
    """Arrays as lists, in the containers they are in."""
    return graphc.ir.rebuild(result, [np.asarray(y).tolist() for y in graphc.ir.flatten(result)])


# Outputs.


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        (x + 1, [2.0, 3.0]),
        ([x + 1], [[2.0, 3.0]]),
        ((x + 1, x), [[2.0, 3.0], [1.0, 2.0]]),
        ([(x + 1, x)], [([2.0, 3.0], [1.0, 2.0])]),
        ([], []),
        ((), []),
        ({"a": x, "b": [x.sum()]}, {"a": [1.0, 2.0], "b": [3.0]}),
        (Pair(x.sum(), (x,)), Pair(3.0, ([1.0, 2.0],))),
        ([x, x, x], [[1.0, 2.0]] * 3),
        ([x + 1, x + 1], [[2.0, 3.0]] * 2),
        (graphc.Out(x + 1, borrow=True), [2.0, 3.0]),
        (7, 7),
        ([x.sum(), 2.5], [3.0, 2.5]),
    ],
)
@pytest.mark.parametrize("returns", ["native", "numpy"])
def test_a_call_returns_the_structure_of_the_outputs(
    outputs: Any, expected: Any, returns: Any, mode: str
) -> None:
    f = graphc.function([x], outputs, mode=mode, returns=returns, on_unused_input="ignore")
    found = plain(f(VALUE))
    assert found == expected
    assert type(found) is type(expected)


def test_no_outputs_give_none(mode: str) -> None:
    assert graphc.function([], mode=mode)() is None


def test_a_container_of_outputs_is_a_new_one_each_time(mode: str) -> None:
    f = graphc.function([x], [x], mode=mode)
    first = f(VALUE)
    first.append(None)
    assert len(f(VALUE)) == 1


def test_an_output_has_the_dtype_that_its_type_says(mode: str) -> None:
    dtypes = ("bool", "int8", "uint32", "int64", "float32", "complex64", "complex128")
    outputs = [x.astype(d) for d in dtypes if not lacks(mode, d)]
    outputs += [x > 1, gt.argmax(x), gt.arange(3), x.shape, x.mean(), gt.constant(1)]
    for node, found in zip(outputs, graphc.function([x], outputs, mode=mode)(VALUE), strict=True):
        assert dtype_of(found) == node.dtype


def test_float64_is_right_whatever_jax_enable_x64_says() -> None:
    assert not jax.config.jax_enable_x64
    f = graphc.function([x], [x / 3, gt.arange(2) + 2**40], mode="JAX")
    third, large = f(VALUE)
    assert dtype_of(third) == "float64"
    np.testing.assert_array_equal(np.asarray(third), VALUE / 3)
    np.testing.assert_array_equal(np.asarray(large), [2**40, 2**40 + 1])
    assert not jax.config.jax_enable_x64
    assert jax.numpy.ones(2).dtype == "float32"


def test_float32_stays_float32(mode: str) -> None:
    v = gt.fvector("v")
    f = graphc.function([v], gt.exp(v) * 2.0 + v.mean(), mode=mode)
    assert dtype_of(f(np.ones(2, "float32"))) == "float32"


# Inputs.


def test_an_input_may_be_any_part_of_a_graph(mode: str) -> None:
    inner = gt.exp(x)
    f = graphc.function([inner], inner * 2, mode=mode)
    np.testing.assert_array_equal(np.asarray(f(VALUE)), VALUE * 2)


@pytest.mark.parametrize(
    "given", [gt.constant(1.0), gt.constant(np.ones(20)), 3, "x", None, graphc.shared(1.0)]
)
def test_an_input_is_a_symbolic_variable(given: Any, mode: str) -> None:
    with pytest.raises(ArgumentError, match="The input"):
        graphc.function([given], x.sum(), mode=mode)


def test_an_input_that_comes_twice_is_refused(mode: str) -> None:
    with pytest.raises(ArgumentError, match="twice"):
        graphc.function([x, x], x, mode=mode)


def test_an_input_left_out_is_refused(mode: str) -> None:
    with pytest.raises(MissingInputError, match=r"y: float64\[\?\].*not among the inputs"):
        graphc.function([x], x + y, mode=mode)


def test_an_input_that_only_an_update_needs_is_needed(mode: str) -> None:
    total = graphc.shared(0.0)
    f = graphc.function([x], updates=[(total, total + x.sum())], mode=mode)
    f(VALUE)
    assert total.get_value() == 3.0
    with pytest.raises(MissingInputError, match="x"):
        graphc.function([], updates=[(total, total + x.sum())], mode=mode)


def test_an_unused_input_is_an_error(mode: str) -> None:
    with pytest.raises(UnusedInputError, match=r"No output depends on the input y"):
        graphc.function([x, y], x, mode=mode)


def test_an_unused_input_can_be_warned_of_on_the_callers_line(mode: str) -> None:
    with pytest.warns(UserWarning, match="No output depends on the input y") as caught:
        graphc.function([x, y], x, mode=mode, on_unused_input="warn")
    assert caught[0].filename == __file__


def test_an_unused_input_can_be_ignored(mode: str) -> None:
    with warnings.catch_warnings(action="error"):
        f = graphc.function([x, y], x, mode=mode, on_unused_input="ignore")
    assert plain(f(VALUE, VALUE)) == [1.0, 2.0]


@pytest.mark.parametrize("option", ["on_unused_input", "returns"])
def test_an_unknown_choice_is_refused(option: str, mode: str) -> None:
    with pytest.raises(ArgumentError, match=f"{option}='nonsense'"):
        graphc.function([x], x, mode=mode, **{option: "nonsense"})


# Givens.


@pytest.mark.parametrize("form", [list, dict])
def test_givens_replace_parts_of_the_graph(form: Any, mode: str) -> None:
    f = graphc.function([y], (x + 1).sum(), givens=form([(x, y * 10)]), mode=mode)
    assert float(f(VALUE)) == 32.0


def test_givens_replace_all_at_once(mode: str) -> None:
    f = graphc.function([x, y], x - y, givens={x: y, y: x}, mode=mode)
    assert plain(f(VALUE, VALUE * 3)) == [2.0, 4.0]


def test_givens_replace_what_is_computed_too(mode: str) -> None:
    f = graphc.function([x], gt.exp(x) + x, givens={gt.exp(x): x * 0}, mode=mode)
    assert plain(f(VALUE)) == [1.0, 2.0]


def test_givens_reach_updates(mode: str) -> None:
    total = graphc.shared(np.zeros(2))
    f = graphc.function([y], updates={total: total + x}, givens={x: y * 2}, mode=mode)
    f(VALUE)
    np.testing.assert_array_equal(total.get_value(), [2.0, 4.0])


def test_givens_may_replace_a_shared_variable(mode: str) -> None:
    w = graphc.shared(np.ones(2))
    f = graphc.function([x], w * 2, givens={w: x}, mode=mode)
    assert plain(f(VALUE)) == [2.0, 4.0]


def test_givens_may_be_arrays(mode: str) -> None:
    f = graphc.function([], (x * 2).sum(), givens={x: VALUE}, mode=mode)
    assert float(f()) == 6.0


@pytest.mark.parametrize(
    "new",
    [gt.fvector("new"), gt.matrix("new"), 3.0],
    ids=["dtype", "rank", "number"],
)
def test_givens_keep_the_type(new: Any, mode: str) -> None:
    with pytest.raises(DTypeError, match="can't replace x"):
        graphc.function([], x, givens=[(x, new)], mode=mode)


def test_givens_keep_known_lengths(mode: str) -> None:
    three, four = gt.vector("three", shape=(3,)), gt.vector("four", shape=(4,))
    with pytest.raises(DTypeError, match=r"four.*can't replace three"):
        graphc.function([four], three.sum(), givens={three: four}, mode=mode)


@pytest.mark.parametrize("pairs", [5, [x], [(x,)], x, [(x, y, y)]])
def test_givens_and_updates_are_pairs(pairs: Any, mode: str) -> None:
    for what in ("givens", "updates"):
        with pytest.raises(ArgumentError, match=f"{what}=.*pairs"):
            graphc.function([x], x, mode=mode, **{what: pairs})


# Telling.


def test_a_function_says_its_name_or_its_inputs(mode: str) -> None:
    assert repr(graphc.function([x], x, mode=mode, name="step")) == "function step"
    assert repr(graphc.function([x], x, mode=mode)) == "function(x: float64[?])"


def test_messages_have_the_functions_name(mode: str) -> None:
    step = graphc.function([x], x, mode=mode, name="step")
    with pytest.raises(ArgumentError, match="function step: expected 1 argument, got 2"):
        step(VALUE, VALUE)


def test_a_compiled_function_keeps_its_class(mode: str) -> None:
    state = graphc.shared(np.zeros(2))
    plain_function = graphc.function([x], x + 1, mode=mode)
    stateful = graphc.function([x], state, updates=[(state, state + x)], mode=mode)
    in_container = graphc.function([{"x": x}], x * 2, mode=mode)
    for _ in range(20):
        plain_function(VALUE)
        stateful(VALUE)
        in_container({"x": VALUE})
    for f in (plain_function, stateful, in_container):
        assert type(f) is graphc.Function
    np.testing.assert_array_equal(state.get_value(), 20 * VALUE)


def test_a_dropped_function_is_freed_at_once(mode: str) -> None:
    f = graphc.function([x], x + 1, mode=mode)
    for _ in range(20):
        f(VALUE)
    reference = weakref.ref(f)
    del f
    assert reference() is None


def test_a_function_is_documented(mode: str) -> None:
    f = graphc.function([x], x, mode=mode)
    assert isinstance(f, graphc.Function)
    assert "by position or by name" in inspect.getdoc(f)


def test_the_graph_takes_the_inputs_then_the_shared_variables(mode: str) -> None:
    w = graphc.shared(1.0, "w")
    f = graphc.function([x], x * w, updates=[(w, w + 1)], mode=mode)
    assert f.graph.inputs == (x, w)
    assert len(f.graph.outputs) == 2


# Replacing without compiling.


def test_clone_replace_keeps_the_structure() -> None:
    made = graphc.clone_replace({"a": gt.exp(x), "b": [x + y]}, {x: y})
    assert made["a"] is gt.exp(y)
    assert made["b"][0] is y + y


def test_clone_replace_without_replacements_gives_the_same_graph() -> None:
    assert graphc.clone_replace(gt.exp(x)) is gt.exp(x)


def test_an_input_that_is_computed_is_nothing_but_an_input(mode: str) -> None:
    a = gt.scalar("a")
    e = gt.exp(a)
    f = graphc.function([a, e], gt.exp(gt.negative(-a)) * e, mode=mode)
    assert float(f(0.0, 5.0)) == 5.0


def test_an_empty_array_has_no_length_for_minus_one(mode: str) -> None:
    m = gt.matrix("m")
    f = graphc.function([m], m.reshape((m.shape[0], -1)), mode=mode)
    with pytest.raises(RuntimeShapeError, match="-1 is ambiguous beside a length of 0"):
        f(np.zeros((0, 3)))
    flat = graphc.function([m], gt.expand_dims(m, 0).flatten(2), mode=mode)
    assert flat(np.zeros((0, 3))).shape == (1, 0)


@pytest.mark.parametrize("wrong", [[True, False], [True, False, True, False]])
def test_a_mask_of_another_length_is_refused(mode: str, wrong: list[bool]) -> None:
    v = gt.vector("v")
    with pytest.raises(RuntimeShapeError):
        graphc.function([v], v[np.array(wrong)], mode=mode)([1.0, 2.0, 3.0])


@pytest.mark.parametrize("place", [3, -4])
def test_a_constant_place_outside_an_array_is_refused(mode: str, place: int) -> None:
    v = gt.vector("v")
    for y in (v[[0, place]], v[[0, place]].inc(1.0)):
        with pytest.raises(BoundsError, match="out of bounds"):
            graphc.function([v], y, mode=mode)([1.0, 2.0, 3.0])


def test_what_a_wrong_place_is_taken_of_warns_of_nothing(mode: str) -> None:
    v = gt.vector("v")
    f = graphc.function([v], (v.sum() / v.sum() * v)[-1], mode=mode)  # 0 / 0 on the way
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with pytest.raises(BoundsError):
            f(np.zeros(0))
    assert told == []


def test_another_input_of_the_same_name_is_named() -> None:
    n = gt.lscalar("n")
    with pytest.raises(MissingInputError, match="The input called 'n' is another variable"):
        graphc.function([gt.lscalar("n")], gt.eye(n))


def test_an_attribute_of_pytensors_functions_says_what_to_use_instead() -> None:
    f = graphc.function([x := gt.scalar("x")], x, mode="NUMPY")
    with pytest.raises(AttributeError, match=r"no attribute 'maker'\. f\.plan\(\) lists"):
        f.maker  # noqa: B018 (reading it is what is tested)
    assert not hasattr(f, "nothing")
