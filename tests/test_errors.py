"""An error names the user's line that led to it, and keeps that when it is copied."""

from __future__ import annotations

import copy
import inspect
import pickle
import traceback
from collections.abc import Callable
from typing import Any

import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import CheckError, GraphcError, RuntimeShapeError, ShapeError


def raised(call: Callable[[], Any]) -> GraphcError:
    with pytest.raises(GraphcError) as caught:
        call()
    return caught.value


def line(ahead: int = 0) -> str:
    """The caller's line, or one ahead of it."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return f"test_errors.py:{frame.f_back.f_lineno + ahead}"


def test_an_error_has_the_line_that_built_what_is_wrong() -> None:
    x, there = gt.vector("x", shape=(3,)), line(1)
    error = raised(lambda: x + gt.vector("y", shape=(4,)))
    assert error.where == there
    assert str(error).endswith(f"   {there}")


def test_an_error_about_a_call_has_the_line_of_the_call() -> None:
    x = gt.vector("x")
    f, there = graphc.function([x], x + 1, mode="NUMPY"), line(1)
    assert raised(lambda: f(1.0, 2.0)).where == there


@pytest.mark.parametrize("mode", ["NUMPY", "JAX", "MLX"])
def test_an_operation_that_fails_in_a_call_has_the_line_that_made_it(mode: str) -> None:
    x, y = gt.vector("x"), gt.vector("y")
    z, there = x + y, line()
    f = graphc.function([x, y], z, mode=mode)
    error = raised(lambda: f([1.0, 2.0], [1.0, 2.0, 3.0]))
    assert (type(error), error.where) == (RuntimeShapeError, there)


@pytest.mark.parametrize("mode", ["NUMPY", "JAX", "MLX"])
def test_a_traceback_has_the_callers_frames_and_one_module_of_graphc(mode: str) -> None:
    x, y = gt.vectors("x", "y")
    f = graphc.function([x, y], x + y, mode=mode)
    for _ in range(5):  # the first calls are counted
        error = raised(lambda: f([1.0, 2.0], [1.0, 2.0, 3.0]))
        files = {frame.filename for frame in traceback.extract_tb(error.__traceback__)}
        assert files == {__file__, inspect.getfile(graphc.Function)}
        assert not getattr(error, "__notes__", [])
    with graphc.config.change_flags(traceback="full"):
        error = raised(lambda: f([1.0, 2.0], [1.0, 2.0, 3.0]))
    assert len(traceback.extract_tb(error.__traceback__)) > 6


@pytest.mark.parametrize("mode", ["NUMPY", "JAX", "MLX"])
def test_an_error_in_a_step_of_a_call_has_no_cause_that_it_restates(mode: str) -> None:
    x, w = gt.vectors("x", "w")
    y = graphc.scan(lambda x_t, h: h + w * x_t, sequences=x, outputs_info=gt.zeros(x.shape[0]))
    f = graphc.function([x, w], y, mode=mode)
    error = raised(lambda: f([1.0, 2.0], [1.0]))
    assert isinstance(error, RuntimeShapeError)
    assert error.__cause__ is None


@pytest.mark.parametrize(
    "build",
    [
        lambda step, x: graphc.scan(step, sequences=x, outputs_info=0.0),
        lambda step, x: graphc.map(lambda x_t: step(x_t, x_t), x),
        lambda step, x: graphc.loop(lambda c, x_t: (step(x_t, c), None), 0.0, x),
        lambda step, x: graphc.while_loop(lambda c: c < 1.0, lambda c: step(c, c), x[0]),
        lambda step, x: graphc.cond(x[0] > 0, step, lambda a, b: a, x[0], x[1]),
    ],
    ids=["scan", "map", "loop", "while_loop", "cond"],
)
def test_an_error_in_a_step_leaves_graphcs_frames_within_a_loop_out(
    build: Callable[..., Any],
) -> None:
    def unfit(x_t: Any, carry: Any) -> Any:
        return carry + gt.zeros((3, 4)) @ gt.zeros((3, 5))

    def divides(x_t: Any, carry: Any) -> Any:
        return carry + 1 // 0

    for step, kind in ((unfit, ShapeError), (divides, ZeroDivisionError)):
        with pytest.raises(kind) as caught:
            build(step, gt.vector("x"))
        frames = traceback.extract_tb(caught.value.__traceback__)
        assert frames[-1].name == step.__name__
        assert len([frame for frame in frames if frame.filename != __file__]) <= 4
        with graphc.config.change_flags(traceback="full"), pytest.raises(kind) as caught:
            build(step, gt.vector("x"))
        assert len(traceback.extract_tb(caught.value.__traceback__)) > len(frames)


def test_a_traceback_keeps_the_frames_of_the_users_functions() -> None:
    def square(x: Any) -> Any:
        raise ShapeError("not square")

    f = graphc.function([x := gt.vector("x")], graphc.wrap_py(x.type, x.type)(square)(x), "NUMPY")
    with pytest.raises(GraphcError) as caught:
        f([1.0])
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    causes = traceback.extract_tb(getattr(caught.value.__cause__, "__traceback__", None))
    assert "square" in [*names, *[frame.name for frame in causes]]


def test_a_reference_that_fails_in_a_call_has_the_line_that_made_it() -> None:
    x, n = gt.vector("x"), gt.vector("n", dtype="int64")
    y, there = gt.repeat(x, n), line()
    f = graphc.function([x, n], y, mode="NUMPY")
    assert raised(lambda: f([1.0, 2.0], [1, 2, 3])).where == there


def test_an_error_in_a_users_function_within_a_call_has_its_line() -> None:
    x = gt.vector("x")
    lines = []

    def function(x: Any) -> Any:
        lines.append(line(1))
        raise ShapeError("wrong")

    y = graphc.wrap_py([x.type], [x.type])(function)(x)
    assert raised(lambda: graphc.function([x], y, mode="NUMPY")([1.0])).where == lines[0]


def test_a_line_that_is_given_stays() -> None:
    assert str(ShapeError("problem", "remedy", "model.py:3")) == "problem\nremedy   model.py:3"


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))]
)
@pytest.mark.parametrize("where", ["model.py:3", ""])
def test_a_copy_keeps_the_line(again: Callable[[Any], Any], where: str) -> None:
    error = CheckError("problem", "remedy", where)
    made = again(error)
    assert (type(made), made.problem, made.remedy, made.where) == (
        CheckError,
        "problem",
        "remedy",
        where,
    )
    assert str(made) == str(error)


def test_an_error_is_of_the_built_in_kinds_that_numpy_and_pytensor_raise() -> None:
    x = gt.vector("x", shape=(3,))
    for kind in (ValueError, TypeError):
        with pytest.raises(kind, match="lengths differ"):
            x + gt.vector("y", shape=(4,))
        with pytest.raises(kind, match="unknown order"):
            gt.ravel(x, order="K")
    for kind in (ValueError, TypeError, IndexError):
        with pytest.raises(kind, match="no axis 1"):
            x.sum(1)
