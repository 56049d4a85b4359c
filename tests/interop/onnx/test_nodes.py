"""The tests of single nodes that the package onnx brings along for backends."""

from __future__ import annotations

import re
import warnings
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

from graphc.errors import DTypeError, FormatError, ShapeError, UnsupportedOperationError
from graphc.interop.onnx import load
from graphc.link import as_numpy


@cache
def cases() -> dict[str, Any]:
    """The cases by name; making them takes seconds, so that it is done in a test."""
    before = np.random.get_state()
    np.random.seed(0)
    try:
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            return {case.name: case for case in collect_testcases(None)}
    finally:
        np.random.set_state(before)


pytestmark = pytest.mark.exhaustive

NARROW = {"int2": "int8", "int4": "int8", "uint2": "uint8", "uint4": "uint8"}
"""Integers of few bits, and those that stand for them."""

REFUSED = {
    "dtypes that symbolic arrays lack": r"(?i)float8|float4|e4m3|e5m2|float4|_to_u?int[24](_|$)"
    r"|test_quantizelinear_u?int[24]",
    "strings": r"string|strnorm|regex|tfidf|label_encoder",
    "sequences and optional values as inputs": r"identity_(sequence|opt)|loop13_seq|loop16_seq"
    r"|sequence_(map|insert)|get_element_(optional|sequence)|has_element_(tensor|optional)_input"
    r"|has_element_empty_optional",
    "random numbers, and training": r"bernoulli|training|adagrad|adam|momentum",
    "files of images": r"image_decoder",
    "opsets 1 to 6": r"test_not_[234]d",
    "Scan of opset 8": r"scan_sum",
    "branches of other ranks": r"affine_grid_3d_align_corners",
    "no operation or converter": r"bitcast_(2d_|scalar_)?(float|int.._to_float|bool)|col2im"
    r"|deform_conv|gridsample|melweight|nonmaxsup|roialign|tree_ensemble_(single|set)",
}
"""The cases that are refused: why, and a pattern of their names."""


def reason(name: str) -> str | None:
    return next((why for why, pattern in REFUSED.items() if re.search(pattern, name)), None)


def array(x: Any) -> Any:
    """A value of a test as a NumPy array, or a list of them."""
    if isinstance(x, list):
        return [array(part) for part in x]
    x = numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else np.asarray(x)
    return x.astype(NARROW[x.dtype.name]) if x.dtype.name in NARROW else x


def decides(name: str, x: Any) -> bool:
    """Whether an input may decide a shape or an axis."""
    few = isinstance(x, np.ndarray) and x.size <= 64
    return few and (x.dtype.kind in "iub" or name in {"scales", "roi"})


def results(case: Any, given: list[Any], mode: str) -> list[Any]:
    """What a model computes; where that needs the values of integers, they are given first."""
    values = dict(zip([x.name for x in case.model.graph.input], given, strict=False))
    try:
        model = load(case.model, mode=mode)
        return [*model(*values.values()).values()]
    except (FormatError, ShapeError, TypeError, UnsupportedOperationError):
        known = {name: x for name, x in values.items() if decides(name, x)}
        if not known:
            raise
        model = load(case.model, mode=mode, givens=known)
        return [*model(*[values[name] for name in model.inputs]).values()]


def compare(found: Any, wanted: Any, case: Any) -> None:
    if isinstance(wanted, list):
        for y, z in zip(found, wanted, strict=True):
            compare(y, z, case)
        return
    found = as_numpy(found)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    few = wanted.dtype.name in {"bfloat16", "float16"}
    kind = "float64" if few else wanted.dtype
    # Of float32, transforms and sums in another order differ by a few units of 1e-6.
    rtol, atol = (2e-2, 2e-3) if few else (max(case.rtol, 1e-3), max(case.atol, 5e-6))
    np.testing.assert_allclose(found.astype(kind), wanted.astype(kind), rtol=rtol, atol=atol)


def check(case: Any, mode: str) -> None:
    for given, wanted in case.data_sets:
        found = results(case, [*map(array, given)], mode)
        for y, z in zip(found, map(array, wanted), strict=True):
            compare(y, z, case)


def failures(names: list[str], mode: str) -> dict[str, str]:
    """The cases that fail, with the errors."""
    found = {}
    for name in names:
        try:
            with warnings.catch_warnings(action="ignore"):
                check(cases()[name], mode)
        except Exception as error:
            found[name] = repr(error)
    return found


def test_a_node_computes_what_the_standard_says() -> None:
    supported = [name for name in cases() if reason(name) is None]
    assert failures(supported, "NUMPY") == {}
    assert 0.83 < len(supported) / len(cases()) < 0.86  # docs/interop.md says it


def test_what_is_not_supported_is_refused() -> None:
    errors = (DTypeError, FormatError, ShapeError, UnsupportedOperationError)
    computed = []
    for name, case in cases().items():
        if reason(name) is not None:
            given = [array(x) for x in case.data_sets[0][0] if x is not None]
            with suppress(*errors):
                results(case, given, "NUMPY")
                computed.append(name)
    assert computed == []


def one_of_each_operator() -> list[str]:
    found: dict[str, str] = {}
    for name, case in cases().items():
        operators = {node.op_type for node in case.model.graph.node}
        if reason(name) is None and len(operators) == 1:
            found.setdefault(operators.pop(), name)
    # How many elements the results of these have follows from values, floats in two of them.
    dynamic = {"NonZero", "OneHot", "Range", "Unique"}
    return [name for operator, name in found.items() if operator not in dynamic]


@pytest.mark.parametrize("mode", ["JAX", "MLX"])
def test_a_node_computes_the_same_on_other_backends(mode: str) -> None:
    assert failures(one_of_each_operator(), mode) == {}
