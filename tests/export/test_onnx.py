"""ONNX models of compiled functions, run by onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, ExportError


def session(f: graphc.Function[object], path: Path, **options: object) -> object:
    """The function's model, loaded."""
    f.export(path, **options)
    return onnxruntime.InferenceSession(path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.onnx"


def test_a_batch_has_any_length(path: Path) -> None:
    x, w = gt.matrix("x"), graphc.shared(np.linspace(-1, 1, 12).reshape(3, 4), name="w")
    f = graphc.function([x], {"y": gt.tanh(x @ w + 1), "sums": [x.sum(0)]})
    model = session(f, path, dynamic={"x": ("n", None)})
    assert [(x.name, x.shape[0]) for x in model.get_inputs()] == [("x", "n")]
    assert [y.name for y in model.get_outputs()] == ["y", "sums.0"]
    for n in (0, 1, 5):
        value = np.linspace(0, 1, 3 * n).reshape(n, 3)
        y, total = model.run(None, {"x": value})
        wanted = f(value)
        np.testing.assert_allclose(y, wanted["y"], 1e-12)
        np.testing.assert_allclose(total, wanted["sums"][0], 1e-12)


def test_options_of_programs_are_refused(path: Path) -> None:
    f = graphc.function([], gt.constant(1.0))
    with pytest.raises(ArgumentError, match="an ONNX model has no programs, platforms or deriv"):
        f.export(path, derivatives=1)


def test_what_onnx_lacks_is_named_with_its_line(path: Path) -> None:
    x = gt.matrix("x")
    f = graphc.function([x], gt.linalg.eigvals(x))
    with pytest.raises(ExportError, match=r"ONNX has nothing for:\n  eigvals .*test_onnx.py"):
        f.export(path)
