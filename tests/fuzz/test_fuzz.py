"""A sample of random programs on every backend, and the fuzzer's own tests.

``make fuzz N=10000 SEED=7`` runs more of them. A failure prints the program, made small, as a
script; its seed makes the whole program again.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.rewrite.rule import RULES, Equation, equation
from tests.fuzz.case import MODES, Fault, cases, variants
from tests.fuzz.check import faults
from tests.fuzz.choices import CHOICES
from tests.fuzz.generate import program, started
from tests.fuzz.open import is_open
from tests.fuzz.oracle import expected
from tests.fuzz.program import Body, Call, Program, Variable
from tests.fuzz.row import Row
from tests.fuzz.script import report
from tests.fuzz.shrink import candidates, shrunk
from tests.fuzz.table import TABLE

ROOT = Path(__file__).parents[2]
CHUNK = 32
CHUNKS = 6
IN_MAKE_TEST = 1


@pytest.mark.whole
@pytest.mark.parametrize(
    "chunk",
    [
        *range(IN_MAKE_TEST),
        *[pytest.param(i, marks=pytest.mark.exhaustive) for i in range(IN_MAKE_TEST, CHUNKS)],
    ],
)
def test_random_programs_give_what_numpy_gives(chunk: int) -> None:
    programs = [program(seed) for seed in range(CHUNK * chunk, CHUNK * (chunk + 1))]
    groups = [cases(one) for one in programs if not is_open(one)]
    found = [fault for mode in MODES.values() for fault in faults(groups, mode)]
    assert not found, "\n\n".join(report(shrunk(fault)) for fault in found[:2])


def made(*calls: Call, outputs: tuple[str, ...], **values: Any) -> Program:
    """A program of variables of unknown lengths."""
    variables = tuple(
        Variable(name, np.asarray(x), (None,) * np.ndim(x)) for name, x in values.items()
    )
    return Program(0, variables, calls, outputs)


def found_in(one: Program, mode: str, **options: Any) -> list[Fault]:
    return faults([cases(one, **options)], MODES[mode])


def test_a_seed_stands_for_one_program() -> None:
    assert report(Fault(program(5), MODES["JAX"], "", "")) == report(
        Fault(program(5), MODES["JAX"], "", "")
    )
    assert program(5).calls != program(6).calls


def first_with(row: str) -> Program:
    """The first program, of those of the seeds from 0 on, that has a call of a row."""
    programs = (program(seed) for seed in range(2000))
    return next(
        one
        for one in programs
        if len(one.calls) > 4 and any(call.row.name == row for call in one.calls)
    )


def test_a_wrong_operation_is_found_and_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    right: Callable[..., Any] = gt.cumsum
    monkeypatch.setattr(gt, "cumsum", lambda x, axis: gt.minimum(right(x, axis), 4))
    one = made(
        Call("v1", TABLE["add"], ("x1", "x2")),
        Call("v2", TABLE["cumsum"], ("v1",), {"axis": "0"}),
        Call("v3", TABLE["index"], ("v2",), {"index": "::-1"}),
        Call("v4", TABLE["multiply"], ("v3", "x2")),
        outputs=("v4", "v1"),
        x1=np.arange(4.0),
        x2=np.ones(4),
    )
    (fault, *_) = found_in(one, "NUMPY")
    small = shrunk(fault).program
    assert [call.row.name for call in small.calls] == ["cumsum"]
    assert [v.array.tolist() for v in small.variables] == [[1.0, 2.0, 3.0]]


def test_a_program_is_made_small_by_names_alone() -> None:
    one = made(
        Call("v1", TABLE["logical_and"], ("x1", "True")), outputs=("v1",), x1=np.array([True])
    )
    assert {other.outputs for other in candidates(one)} == {("v1",), ("x1",)}


def test_a_wrong_rule_is_found_and_made_small() -> None:
    def sine_of_cosine(x: Any) -> Equation:
        return Equation(gt.sin(gt.cos(x)), gt.cos(x))

    equation("canonicalize")(sine_of_cosine)
    try:
        one = made(
            Call("v1", TABLE["cos"], ("x1",)),
            Call("v2", TABLE["sin"], ("v1",)),
            Call("v3", TABLE["sum"], ("v2",), {"axis": "0", "keepdims": "False"}),
            Call("v4", TABLE["concatenate"], (), {"parts": "v2, v1", "axis": "0"}),
            outputs=("v4", "v3"),
            x1=np.array([1.0, -2.0, 3.0]),
        )
        assert found_in(one, "written") == []
        (fault, *_) = found_in(one, "NUMPY")
        small = shrunk(fault).program
    finally:
        del RULES["sine_of_cosine"]
    assert [call.row.name for call in small.calls] == ["cos", "sin"]
    assert [v.array.tolist() for v in small.variables] == [[0.0]]


def test_a_wrong_gradient_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    one = made(Call("v1", TABLE["exp"], ("x1",)), outputs=("v1",), x1=np.array([0.5, 1.5]))
    assert found_in(one, "NUMPY") == []
    right: Callable[..., Any] = gt.exp
    monkeypatch.setattr(gt, "exp", lambda x: right(graphc.disconnected_grad(x)))
    assert {fault.kind for fault in found_in(one, "NUMPY")} == {"slope"}


def test_a_missing_error_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    one = made(
        Call("v1", TABLE["matmul"], ("x1", "x2")),
        outputs=("v1",),
        x1=np.ones((2, 3)),
        x2=np.ones((2, 4)),
    )
    assert found_in(one, "NUMPY", varied=False) == []
    monkeypatch.setattr(gt, "matmul", lambda a, b: gt.zeros((2, 4)) + gt.sum(a) + gt.sum(b))
    (fault,) = found_in(one, "NUMPY", varied=False)
    assert fault.kind == "no error"
    assert "matmul" in fault.what


def test_what_is_not_computed_need_not_raise() -> None:
    one = made(
        Call("v1", TABLE["add"], ("x1", "x2")),
        Call("v2", TABLE["subtract"], ("v1", "x2")),
        outputs=("v2",),
        x1=np.ones(2),
        x2=np.ones(3),
    )
    assert isinstance(expected(one, one.values()).error, ValueError)  # type: ignore[union-attr]
    assert found_in(one, "NUMPY", varied=False) == []


def test_what_no_result_needs_may_be_refused_beside_a_state() -> None:
    one = made(
        Call("v1", TABLE["where"], ("x1", "x2", "x2")),
        outputs=("v1", "x1"),
        x1=np.array([True, False, False, True, False]),
        x2=np.ones(3),
    )
    (state, other) = one.variables
    one = replace(one, variables=(replace(state, update="x1"), other))
    assert isinstance(expected(one, one.values()).error, ValueError)  # type: ignore[union-attr]
    assert found_in(one, "NUMPY", varied=False) == []


def test_a_length_that_is_needed_alone_may_be_of_values_that_are_refused() -> None:
    one = made(
        Call("v1", TABLE["reshape"], ("x1",), {"shape": "(6,)"}),
        Call("v2", TABLE["map"], (), {"sequences": "v1"}, (Body(("a1",), (), ("x1",)),)),
        outputs=("v2",),
        x1=np.ones(1),
    )
    assert isinstance(expected(one, one.values()).error, ValueError)  # type: ignore[union-attr]
    assert found_in(one, "NUMPY", varied=False) == []


def test_initial_values_that_no_step_reads_may_be_too_few() -> None:
    most = Call("a3", TABLE["max"], ("x1",), {"axis": "0", "keepdims": "False"})
    options = {
        "sequences": "[]",
        "outputs": "[dict(initial=x1, taps=[-2, -1])]",
        "n_steps": "2",
        "backwards": "False",
    }
    body = Body(("a1", "a2"), (most,), ("a3",))
    loop = Call("v1", TABLE["scan_taps"], (), options, (body,))
    one = made(loop, outputs=("v1",), x1=np.ones(1))
    assert isinstance(expected(one, one.values()).error, ValueError)  # type: ignore[union-attr]
    assert found_in(one, "NUMPY", varied=False) == []


def test_a_small_kink_is_no_slope() -> None:
    one = made(
        Call("v1", TABLE["maximum"], ("x1", "1.0")),
        Call("v2", TABLE["multiply"], ("v1", "1e-4")),
        Call("v3", TABLE["add"], ("v2", "x1")),
        outputs=("v3",),
        x1=np.array([1.0, 2.0]),
    )
    slopes = [
        cases(replace(one, variables=(replace(one.variables[0], array=x),)), varied=False)[0].slope
        for x in (np.array([1.0, 2.0]), np.array([1.5, 2.0]))
    ]
    assert [slope is not None and slope.value is not None for slope in slopes] == [False, True]


def test_a_kink_of_the_slope_is_no_second_derivative() -> None:
    calls = (Call("v1", TABLE["minimum"], ("x1", "0.0")), Call("v2", TABLE["cosh"], ("v1",)))
    one = replace(made(*calls, outputs=("v2",), x1=np.array([0.0, -1.0])), seed=6)
    assert cases(one, varied=False)[0].slope.value is None  # type: ignore[union-attr]
    beside = replace(one, variables=(replace(one.variables[0], array=np.array([0.5, -1.0])),))
    assert cases(beside, varied=False)[0].slope.value is not None  # type: ignore[union-attr]


def test_batches_of_matrices_may_be_refused_that_broadcast_an_unknown_length_of_1() -> None:
    one = made(
        Call("v1", TABLE["matmul"], ("x1", "x2")),
        outputs=("v1",),
        x1=np.ones((1, 1, 2)),
        x2=np.ones((2, 2, 1)),
    )
    assert expected(one, one.values()).refusable  # type: ignore[union-attr]
    same = replace(one, calls=(replace(one.calls[0], operands=("x2", "x1")),))
    (x1, x2) = same.variables
    same = replace(same, variables=(replace(x1, static=(1, None, None)), x2))
    assert not expected(same, same.values()).refusable  # type: ignore[union-attr]


def test_a_whole_power_of_a_negative_number_has_no_slope_by_the_exponent() -> None:
    one = made(
        Call("v1", TABLE["power"], ("x1", "x2")),
        outputs=("v1",),
        x1=np.array([-2.0]),
        x2=np.array([3.0]),
    )
    assert cases(one, varied=False)[0].slope.value is None  # type: ignore[union-attr]
    by_base = replace(one, calls=(replace(one.calls[0], operands=("x1", "3")),)).pruned()
    assert cases(by_base, varied=False)[0].slope.value is not None  # type: ignore[union-attr]


def test_how_many_numbers_are_distinct_may_hang_on_rounding() -> None:
    one = made(
        Call("v1", TABLE["sin"], ("x1",)),
        Call("v2", TABLE["cos"], ("x2",)),
        Call("v3", TABLE["concatenate"], (), {"parts": "v1, v2", "axis": "0"}),
        Call("v4", TABLE["unique"], ("v3",)),
        outputs=("v4",),
        x1=np.array([0.5]),
        x2=np.array([np.pi / 2 - 0.5]),
    )
    (case,) = cases(one, varied=False)
    other = replace(case.expected, outputs=[np.append(case.expected.outputs[0], 1.0)])
    assert faults([[replace(case, expected=other, slope=None)]], MODES["NUMPY"]) == []


UNDEFINED: dict[str, tuple[Call, dict[str, Any]]] = {
    "the logarithm of a determinant of 0": (
        Call("v1", TABLE["slogdet"], ("x1",)),
        {"x1": np.ones((2, 2))},
    ),
    "a length of 1 that einsum repeats": (
        Call("v1", TABLE["einsum"], ("x1", "x1"), {"pattern": "'ij,jk->ik'"}),
        {"x1": np.ones((1, 2))},
    ),
}


@pytest.mark.parametrize("name", UNDEFINED)
def test_what_is_left_undefined_is_not_compared(name: str) -> None:
    call, values = UNDEFINED[name]
    one = made(call, outputs=("v1",), **values)
    assert expected(one, one.values()) is None


def test_a_report_is_a_script_that_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "script.py"
    file.write_text(report(Fault(first_with("scan"), MODES["NUMPY"], "value", "nothing")))
    runpy.run_path(str(file))
    printed = capsys.readouterr().out
    assert printed.startswith("NumPy:")
    assert "graphc:" in printed


def test_other_lengths_are_tried_wherever_they_are_unknown() -> None:
    one = made(outputs=("x1",), x1=np.ones((2, 3)), x2=np.ones(2))
    shapes = [[v.array.shape for v in other.variables] for other in variants(one)]
    assert len(shapes) == 2
    assert all(shape != [(2, 3), (2,)] for shape in shapes)


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
def test_a_choice_is_documented(choice: Any) -> None:
    page = " ".join((ROOT / "docs" / choice.page).read_text(encoding="utf-8").split())
    assert choice.says in page, f"nothing says why {choice.effect}"


@pytest.mark.whole
@pytest.mark.parametrize("row", TABLE.values(), ids=TABLE)
def test_every_row_is_used(row: Row) -> None:
    for seed in range(300):
        to = started(seed)
        to.grow(3)
        choice = row.choose(to)
        if choice is not None and to.add(row, choice):
            return
    pytest.fail("its chooser finds nothing that NumPy takes")


def test_a_wrong_batch_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    one = made(Call("v1", TABLE["exp"], ("x1",)), outputs=("v1",), x1=np.arange(4.0))
    assert found_in(one, "batches") == []
    right = graphc.vectorize_graph
    monkeypatch.setattr(graphc, "vectorize_graph", lambda *graph: [y[::-1] for y in right(*graph)])
    (fault,) = found_in(one, "batches")
    assert fault.kind == "value"
    file = tmp_path / "script.py"
    file.write_text(report(fault))
    runpy.run_path(str(file))
