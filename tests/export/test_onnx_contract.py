"""Every operation, row and loop of the contract as an ONNX model: what NumPy gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import graphc
from graphc.export.onnx.gaps import GAPS, gap_of
from graphc.export.onnx.lowering import load, missing
from graphc.export.onnx.model import in_pairs, model_of, prepare
from graphc.ir import is_complex, is_inexact, numpy_dtype
from graphc.tensor.core.assertion import Assert
from graphc.tensor.core.elementwise import ROWS, Elementwise
from tests.contract.case import Case
from tests.contract.loop_check import several_tensors
from tests.contract.loops import CASES
from tests.contract.operands import arrays, by_numpy, symbols
from tests.contract.operations import FAMILIES, graphc_operations
from tests.contract.row_batch import Batch, dtypes_of
from tests.contract.rows import SUMMED, expected, taken
from tests.contract.tolerance import assert_agree
from tests.contract.values import awkward, tuples

BFLOAT16 = onnx.TensorProto.BFLOAT16

LESS_EXACT = {("sinc", "float64"), ("hyp2f1_by_a", "float64"), ("hyp2f1_by_b", "float64")}
"""Rows of which some digits are lost: onnxruntime's sine of a multiple of pi is 0, and what the
derivatives of hyp2f1 add up is 3e-12 off where terms cancel."""

OF_NO_STEPS = "no step over an empty sequence"
"""A loop whose rows have lengths that only a step would tell: they are 0 where none is done."""


def session(f: Any) -> onnxruntime.InferenceSession:
    """A function's model, of which bfloat16 comes out as float32: NumPy's arrays have none."""
    model = model_of(f._spec, f.requested)
    onnx.checker.check_model(model, full_check=True)
    for y in model.graph.output:
        if y.type.tensor_type.elem_type == BFLOAT16:
            wide = f"{y.name} in float32"
            node = onnx.helper.make_node("Cast", [y.name], [wide], to=onnx.TensorProto.FLOAT)
            model.graph.node.append(node)
            y.name, y.type.tensor_type.elem_type = wide, onnx.TensorProto.FLOAT
    onnxruntime.set_default_logger_severity(4)
    return onnxruntime.InferenceSession(model.SerializeToString())


def given(x: np.ndarray[Any, Any]) -> onnxruntime.OrtValue:
    """An argument; of a complex array its parts, along one more axis."""
    x = np.array(in_pairs(x), order="C")
    if x.dtype.name == "bfloat16":
        bits = x.view(np.uint16)
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, BFLOAT16)
    return onnxruntime.OrtValue.ortvalue_from_numpy(x)


def called(f: Any, values: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
    """What a function's model gives."""
    model = session(f)
    feed = {x.name: given(v) for x, v in zip(model.get_inputs(), values, strict=True)}
    results = model.run_with_ort_values([y.name for y in model.get_outputs()], feed)
    return [result(y.numpy(), t.dtype) for y, t in zip(results, outputs, strict=True)]


def result(y: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """A result in its dtype."""
    if not is_complex(dtype):
        return y.astype(numpy_dtype(dtype)) if dtype == "bfloat16" else y
    found = np.empty(y.shape[:-1], dtype)
    found.real, found.imag = y[..., 0], y[..., 1]
    return found


class Cases:
    """Cases that are one model together."""

    def __init__(self) -> None:
        self.inputs: list[Any] = []
        self.values: list[Any] = []
        self.outputs: list[Any] = []
        self.cases: list[tuple[str, Case]] = []

    def add(self, name: str, case: Case, dtype: str) -> None:
        values = arrays(case, dtype)
        xs = symbols(case, values)
        self.inputs += xs
        self.values += values
        self.outputs.append(case.symbolic(*xs))
        self.cases.append((f"{name}, {dtype}", case))

    def check(self) -> None:
        f = graphc.function(self.inputs, self.outputs, "NUMPY", on_unused_input="ignore")
        found = called(f, self.values, self.outputs)
        values = iter(self.values)
        for y, made, (what, case) in zip(found, self.outputs, self.cases, strict=True):
            own = [next(values) for _ in arrays(case, what.rpartition(" ")[2])]
            wanted = by_numpy(case, made, own)
            assert_agree(y, wanted, what, scale=1.0 if is_inexact(made.dtype) else 0.0)


def unexported(case: Case) -> list[Any]:
    """The nodes that keep a case from being exported, of which a gap says why."""
    values = arrays(case, case.dtypes[0])
    xs = symbols(case, values)
    f = graphc.function(xs, case.symbolic(*xs), "NUMPY", on_unused_input="ignore")
    found = missing(prepare(f.requested))
    assert all(gap_of(x.op) in GAPS for x in found), found
    return found


@pytest.mark.sample(every=3, part=4)
@pytest.mark.parametrize("part", [pytest.param(1, marks=pytest.mark.exhaustive), 4])
@pytest.mark.parametrize("family", FAMILIES)
def test_an_operation_gives_what_numpy_gives(family: str, part: int) -> None:
    cases = Cases()
    for name, case in FAMILIES[family].items():
        if not unexported(case):
            for dtype in case.dtypes[::part]:
                cases.add(name, case, dtype)
    if cases.outputs:
        cases.check()


@pytest.mark.exhaustive
def test_almost_all_cases_are_exported() -> None:
    found = [unexported(case) for cases in FAMILIES.values() for case in cases.values()]
    without_python = [nodes for nodes in found if not any(x.op.by_numpy for x in nodes)]
    assert sum(not nodes for nodes in found) > 0.88 * len(found)
    assert sum(not nodes for nodes in without_python) > 0.98 * len(without_python)


def test_what_has_no_lowering_is_a_gap() -> None:
    lowerings = load()
    missing = {
        op
        # No check is in a model.
        for op in graphc_operations() - {Elementwise, Assert}
        if lowerings.lowerings.keys().isdisjoint(op.__mro__) and not hasattr(op, "expand")
    }
    gaps = tuple(op for gap in GAPS for op in gap.ops)
    assert {op for op in missing if not issubclass(op, gaps)} == set()
    assert [op for op in gaps if not lowerings.lowerings.keys().isdisjoint(op.__mro__)] == []
    rows = [name for name, row in ROWS.items() if row.expand is None]
    assert [name for name in rows if lowerings.lowering(ROWS[name]) is None] == []


@pytest.mark.whole
@pytest.mark.parametrize("part", [pytest.param(1, marks=pytest.mark.exhaustive), 6])
@pytest.mark.parametrize("group", range(8))
def test_a_row_gives_what_numpy_gives(group: int, part: int) -> None:
    for name in [*ROWS][group::8]:
        batch = Batch(ROWS[name])
        for dtype in dtypes_of(ROWS[name], "NUMPY")[len(name) % part :: part]:
            if (name, dtype) not in LESS_EXACT:
                arity = ROWS[name].arity
                values = taken(name, tuples([awkward(dtype)] * arity))
                batch.add("awkward values", dtype, [(None,)] * arity, values)
        if not batch.outputs:
            continue
        f = graphc.function(batch.inputs, batch.outputs, "NUMPY")
        for y, (what, values) in zip(
            called(f, batch.values, batch.outputs), batch.cases, strict=True
        ):
            scale = SUMMED.get(name, 0.0)
            assert_agree(y, expected(name, *values), f"{name} of {what}", values, scale)


@pytest.mark.sample(every=6)
@pytest.mark.parametrize("name", [name for name in CASES if name != OF_NO_STEPS])
def test_a_loop_gives_what_a_plain_loop_gives(name: str) -> None:
    case = CASES[name]
    xs = case.symbols()
    outputs = several_tensors(case.build(*xs))
    f = graphc.function(xs, outputs, "NUMPY", on_unused_input="ignore")
    for y, value, made in zip(called(f, case.given, outputs), case.values, outputs, strict=True):
        assert_agree(y, value, name, scale=1.0 if is_inexact(made.dtype) else 0.0)
