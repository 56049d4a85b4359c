"""Every operation on every backend: values against NumPy, gradients against differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import GraphcError
from graphc.implicit.node import Implicit
from graphc.ir import Op, TensorType, is_inexact, toposort
from graphc.link import load, names
from graphc.rewrite.rule import PASSES
from graphc.tensor.arrays.index import Nonzero
from graphc.tensor.arrays.reduce import Composite, MaxWithDefault
from graphc.tensor.arrays.sets import Unique
from graphc.tensor.core.assertion import CheckAndRaise
from graphc.tensor.core.elementwise import ROWS, Elementwise
from graphc.tensor.core.shape import Length, Shape
from tests.contract.case import Case
from tests.contract.differences import SMOOTH, slopes
from tests.contract.operands import arrays, by_numpy, symbols, there
from tests.contract.operations import BARRIERS, FAMILIES, graphc_operations
from tests.contract.tolerance import assert_agree
from tests.modes import lacks, uncompiled

pytestmark = pytest.mark.gpu

BACKENDS = names()
LACKING: dict[tuple[str, str], str] = {}
"""A backend and an operation that it lacks: the reason."""


@pytest.mark.sample(rest=2, excluding=tuple(PASSES))
@pytest.mark.parametrize(
    ("excluding", "part"),
    [
        pytest.param((), 1, marks=pytest.mark.exhaustive, id="rewritten"),
        pytest.param((), 8, id="rewritten, a few dtypes"),
        # As written, a few dtypes do: the lowerings are the same.
        pytest.param(tuple(PASSES), 4, marks=pytest.mark.exhaustive, id="as written"),
    ],
)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_an_operation_gives_what_numpy_gives(
    family: str, backend: str, excluding: Any, part: int
) -> None:
    inputs, outputs, values, cases = [], [], [], []
    for name, case in FAMILIES[family].items():
        for dtype in there(backend, case.dtypes)[::part]:
            given = arrays(case, dtype)
            xs = symbols(case, given)
            y = case.symbolic(*xs)
            if lacks(backend, y.dtype):
                continue
            inputs += xs
            outputs.append(y)
            values += given
            cases.append((f"{name}, {dtype}", case, given))
    # MLX replays rewritten programs, and is called for those as written.
    mode = uncompiled(backend, excluding=excluding) if excluding else graphc.Mode(backend)
    f = graphc.function(inputs, outputs, mode, on_unused_input="ignore", returns="numpy")
    for found, y, (what, case, given) in zip(f(*values), outputs, cases, strict=True):
        wanted = by_numpy(case, y, given)
        assert y.type.admits(TensorType(y.dtype, wanted.shape)), (what, y)
        assert_agree(found, wanted, what, scale=1.0 if is_inexact(y.dtype) else 0.0)


DIFFERENTIABLE = {
    f"{family}: {name}": case
    for family, cases in FAMILIES.items()
    for name, case in cases.items()
    if family != "cast" and not case.special and case.differentiated
}
ALONE = "norm: of vectors, -inf"
"""As tests have XLA compile, it computes |z| once for its minimum and once more to find that, in
other digits; as users have it, in the same ones."""

DERIVED = [[name for name in DIFFERENTIABLE if name != ALONE][i::12] for i in range(12)] + [[ALONE]]
"""A few functions for all cases, each of many gradients."""

GRADIENTS = [
    pytest.param(
        part,
        backend,
        id=f"{part}-{backend}",
        marks=[pytest.mark.optimized] * (backend == "JAX" and ALONE in DERIVED[part]),
    )
    for part in range(len(DERIVED))
    for backend in BACKENDS
]


@pytest.mark.sample(every=2, backend="NUMPY")
@pytest.mark.sample(every=12, backend="JAX")
@pytest.mark.sample(every=6, backend="MLX")
@pytest.mark.parametrize(("part", "backend"), GRADIENTS)
def test_a_gradient_is_what_finite_differences_give(part: int, backend: str) -> None:
    inputs, outputs, values, wanted, labels = [], [], [], [], []
    for name in DERIVED[part]:
        case = DIFFERENTIABLE[name]
        for dtype in sorted({"float64", "complex128"}.intersection(case.dtypes)):
            if lacks(backend, dtype):
                continue
            given = arrays(case, dtype)
            xs = symbols(case, given)
            y = case.symbolic(*xs)
            if not is_inexact(y.dtype) or lacks(backend, y.dtype):
                continue
            weights = np.resize([0.5, 1.25, -0.75, 1.0, 2.0], case.expected(*given).shape)
            weights = weights * (1 - 0.5j if np.iscomplexobj(given[0]) else 1)
            weights = weights if y.dtype.startswith("complex") else weights.real

            def cost(*xs: Any, case: Case = case, weights: Any = weights) -> Any:
                return np.sum((np.conj(weights) * case.expected(*xs)).real)

            inputs += xs
            values += given
            outputs += graphc.grad(
                gt.sum(gt.real(gt.conj(gt.constant(weights)) * y)),
                xs,
                disconnected_inputs="ignore",
            )
            with np.errstate(all="ignore"):
                wanted += slopes(cost, given)
            labels += [f"{name}, {dtype}, by operand {i}" for i in range(len(xs))]
    mode = uncompiled(backend)
    f = graphc.function(inputs, outputs, mode, on_unused_input="ignore", returns="numpy")
    for found, slope, label, x in zip(f(*values), wanted, labels, values, strict=True):
        assert (found.dtype, found.shape) == (x.dtype, x.shape), label
        slope = np.where(np.isnan(slope), 0, slope) if "-inf" in label else slope
        np.testing.assert_allclose(found, slope, SMOOTH, SMOOTH, err_msg=label)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", BARRIERS)
def test_a_barrier_is_the_identity_with_another_gradient(name: str, backend: str) -> None:
    barrier, changed = BARRIERS[name]
    x = gt.vector("x")
    y = barrier(x)
    slope = graphc.grad(gt.sum(y * gt.exp(y)), x, disconnected_inputs="ignore")
    mode = uncompiled(backend)
    f = graphc.function([x], [y, slope], mode, on_unused_input="ignore", returns="numpy")
    value = np.array([-2.0, -0.5, 0.0, 0.25, 1.0])
    found, by_x = f(value)
    assert_agree(found, value)
    assert_agree(by_x, changed((1 + value) * np.exp(value)), scale=1.0)


def tried() -> set[type[Op]]:
    outputs = [build(gt.vector()) for build, _ in BARRIERS.values()]
    for cases in FAMILIES.values():
        for case in cases.values():
            values = arrays(case, case.dtypes[0])
            outputs.append(case.symbolic(*symbols(case, values)))
    # The rows have a suite of their own, generated from their table.
    return {type(node.op) for node in toposort(outputs)} | {Elementwise}


def test_every_operation_has_a_case() -> None:
    assert graphc_operations() <= tried()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backend_has_every_operation(backend: str) -> None:
    lowerings = load(backend).lowerings
    # Lengths are known while a backend compiles; so is what nonzero is of; composites are inlined,
    # and implicit arrays made whole. Conditions become one more output.
    elsewhere = (Length, Shape, Nonzero, Unique, Composite, Elementwise, Implicit, CheckAndRaise)
    wanted = {op for op in graphc_operations() if not issubclass(op, elsewhere) and not op.by_numpy}
    missing = {op.__name__ for op in wanted if lowerings.keys().isdisjoint(op.__mro__)}
    if lowerings.keys().isdisjoint(Elementwise.__mro__):
        missing |= {n for n, row in ROWS.items() if row not in lowerings and row.expand is None}
    assert missing == {op for name, op in LACKING if name == backend}


EMPTY_EXTREMES: dict[str, Callable[[Any], Any]] = {
    "max": lambda x: gt.max(x, 0),
    "min": gt.min,
    "argmax": lambda x: gt.argmax(x, 0),
    "argmin": gt.argmin,
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", EMPTY_EXTREMES)
def test_an_empty_slice_has_no_extreme_value(name: str, backend: str) -> None:
    x = gt.matrix("x")
    f = graphc.function([x], EMPTY_EXTREMES[name](x), uncompiled(backend))
    with pytest.raises(GraphcError, match="a slice is empty"):
        f(np.zeros((0, 3)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_empty_slice_has_the_peak_minus_infinity(backend: str) -> None:
    x = gt.matrix("x")
    sums = [gt.logsumexp(x, 0), gt.log(gt.exp(x).sum(0))]
    outputs = [
        gt.Tensor.make(MaxWithDefault((0,)), x),
        *sums,
        gt.softmax(x, 0),
        gt.log_softmax(x, 0),
    ]
    f = graphc.function([x], outputs, uncompiled(backend), returns="numpy")
    found = f(np.zeros((0, 3)))
    for y in found[:3]:
        np.testing.assert_array_equal(y, [-np.inf] * 3)
    assert [y.shape for y in found[3:]] == [(0, 3), (0, 3)]
