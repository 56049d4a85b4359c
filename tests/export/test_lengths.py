"""Programs of all operations for any lengths: they agree with NumPy, or are refused by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphc
from graphc.errors import DynamicShapeError, ExportError
from graphc.export import runtime
from graphc.ir import is_inexact
from tests.contract.operands import arrays, by_numpy, symbols
from tests.contract.operations import FAMILIES
from tests.contract.tolerance import assert_agree

DTYPES = ("float64", "float32", "int64", "bool")

CASES = [
    (family, name)
    for family, cases in FAMILIES.items()
    for name, case in cases.items()
    if not case.static and all(case.shapes) and not any(0 in shape for shape in case.shapes)
][::8]


@pytest.mark.exhaustive
def test_programs_of_any_length_give_what_numpy_gives(tmp_path: Path) -> None:
    file = tmp_path / "model.graphc"
    refused = []
    for family, name in CASES:
        case = FAMILIES[family][name]
        given = arrays(case, next(d for d in (*DTYPES, *case.dtypes) if d in case.dtypes))
        xs = symbols(case, given)
        y = case.symbolic(*xs)
        try:
            graphc.function(xs, y, on_unused_input="ignore").export(file, programs=("JAX",))
        except (ExportError, DynamicShapeError) as error:
            refused.append(f"{family}, {name}: {error.problem}")
            continue
        model = runtime.load(file)
        held = [model.arrays[x] for x in model.manifest["program"]["arrays"]]
        (found,) = model.program(*given, *held)
        scale = 1.0 if is_inexact(y.dtype) else 0.0
        assert_agree(np.asarray(found), by_numpy(case, y, given), f"{family}, {name}", scale=scale)
    assert len(refused) < len(CASES) / 4, refused
