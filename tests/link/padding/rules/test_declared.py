"""Operations that declare padding, on buffers with garbage as padding, against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any
from zlib import crc32

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import DynamicShapeError, GraphcError, RuntimeShapeError
from graphc.ir import Graph, Node, Op, TensorType, picks, toposort
from graphc.link.legalize import inline
from graphc.loop.evaluate import evaluate
from graphc.random.threefry import Threefry
from graphc.tensor.arrays.coupled import CoupledRecurrence
from graphc.tensor.arrays.cumulative import CumMax, CumMin, CumProd, CumSum, Recurrence
from graphc.tensor.arrays.diagonal import MatrixDiagonal
from graphc.tensor.arrays.reduce import MaxWithDefault, MinWithDefault
from graphc.tensor.arrays.sort import SearchSorted
from graphc.tensor.arrays.split import Split
from graphc.tensor.core.axes import Squeeze
from graphc.tensor.core.elementwise import Where
from graphc.tensor.linalg.banded import SolveBanded
from graphc.tensor.linalg.cholesky import Cholesky, CholeskyGradient, CholeskyInverse
from graphc.tensor.linalg.dot import DotGeneral
from graphc.tensor.linalg.eigen import Eig, Eigh, Eigvals, Eigvalsh
from graphc.tensor.linalg.equations import DiscreteRiccati, Sylvester
from graphc.tensor.linalg.expm import Expm
from graphc.tensor.linalg.lu import LU, PivotsToPermutation
from graphc.tensor.linalg.mirror import Mirror
from graphc.tensor.linalg.qr import QR, ComplexQR, PivotedQR
from graphc.tensor.linalg.schur import QZ, Schur, SortedSchur
from graphc.tensor.linalg.svd import SVD, Svdvals
from graphc.tensor.linalg.triangular import SolveTriangular
from graphc.tensor.linalg.tridiagonal import (
    FactorTridiagonal,
    SolveTridiagonal,
    SolveTridiagonalFactors,
)
from graphc.tensor.signal.convolve import Convolution, FourierConvolution
from tests.contract.operands import arrays
from tests.contract.operations import BARRIERS, FAMILIES, graphc_operations
from tests.contract.tolerance import TOLERANCES, assert_agree
from tests.link.padding.run import run_padded

REAL = ("float32", "float64", "int64", "uint8")
EVERY = (*REAL, "bool", "complex128")
FLOATS = ("float32", "float64", "complex128")


@dataclass(frozen=True)
class Declared:
    """An operation's graph, and its operands.

    Attributes:
        build: A function of the operands.
        shapes: For each operand a letter for each axis; equal letters are equal lengths, a digit is
            a static length.
        dtypes: The dtypes of the operands.
        prepare: A function that changes the operands' values, given the arrays.
        special: Whether NaN and infinities are among the elements of floating operands.
    """

    build: Callable[..., Any]
    shapes: Sequence[str]
    dtypes: Sequence[str] = FLOATS
    prepare: Callable[..., Sequence[Any]] = lambda *xs: xs
    special: bool = False


def op(op: Op) -> Callable[..., list[Node]]:
    """Return a function that applies an operation and returns all results."""

    def build(*xs: Any) -> list[Node]:
        y = Node.make(op, *xs)
        return list(picks(y)) if not isinstance(y.type, TensorType) else [y]

    return build


def definite(x: np.ndarray[Any, Any], *others: Any) -> Sequence[Any]:
    """Make the first operand's matrices positive definite."""
    identity = np.eye(x.shape[-1], dtype=x.dtype)
    return (np.matmul(x, np.conj(np.swapaxes(x, -1, -2))) + identity, *others)


def dominant(x: np.ndarray[Any, Any], *others: Any) -> Sequence[Any]:
    """Make the first operand's matrices diagonally dominant."""
    return (x + 4 * np.eye(x.shape[-1], dtype=x.dtype), *others)


def lower_factor(x: np.ndarray[Any, Any], *others: Any) -> Sequence[Any]:
    """Make the first operand's matrices lower triangular factors."""
    return (np.tril(dominant(x)[0]), *others)


def infinite_last(a: Any, b: Any) -> Sequence[Any]:
    """Set the last factors of a recurrence to infinity."""
    a = a.copy()
    a[..., -1:] = np.inf
    return a, b


def of_one_length(build: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of a vector: ``build`` of matrices whose sides have its one length."""

    def of_vector(v: Any, batch: Any) -> Any:
        difference = gt.expand_dims(v, 1) - 2 * v
        return build(gt.expand_dims(batch, (1, 2)) / (1 + difference * gt.conj(difference)))

    return of_vector


def permutation(a: Any) -> Any:
    _, exchanges, _ = picks(Node.make(LU(), a))
    return [Node.make(PivotsToPermutation(), exchanges)]


def conditions(x: Any, condition: Any) -> Any:
    return graphc.Assert("must hold")(x, condition)


def positive(*xs: Any) -> Sequence[Any]:
    return [xs[0], np.ones_like(xs[1])]


def banded(bands: Any, b: Any) -> Sequence[Any]:
    bands = bands.copy()
    bands[..., 1, :] += 5
    return bands, b


def tridiagonal(low: Any, d: Any, up: Any, *others: Any) -> Sequence[Any]:
    return low, d + 5, up, *others


def solved_by_factors(low: Any, d: Any, up: Any, b: Any) -> Any:
    factors = picks(Node.make(FactorTridiagonal(), low, d, up))
    return [Node.make(SolveTridiagonalFactors(True), *factors, b)]


def in_order(x: Any, v: Any) -> Sequence[Any]:
    return np.sort(x, -1), v


CASES: dict[str, Declared] = {
    "add": Declared(lambda x, y: x + y, ("nm", "m"), EVERY),
    "cast": Declared(lambda x: gt.cast(x, "complex128"), ("nm",), REAL),
    "where": Declared(op(Where()), ("nm", "nm", "nm"), ("bool",)),
    **{name: Declared(build, ("nm",), ("float64",)) for name, (build, _) in BARRIERS.items()},
    "shard": Declared(lambda x: gt.shard(x, ("data", None)), ("nm",), REAL),
    "expand_dims": Declared(lambda x: gt.expand_dims(x, 1), ("nm",), EVERY),
    "squeeze": Declared(op(Squeeze((1,))), ("nkm",), REAL),
    "transpose": Declared(lambda x: gt.transpose(x, (2, 0, 1)), ("nmk",), EVERY),
    "sum": Declared(lambda x: [gt.sum(x), gt.sum(x, (0, 2))], ("nmk",), EVERY, special=True),
    "sum of sums": Declared(lambda x: gt.sum(gt.sum(x, 1), 0), ("nmk",), EVERY),
    "prod": Declared(lambda x: [gt.prod(x, 1), gt.prod(gt.prod(x, 1), 0)], ("nmk",), EVERY),
    "max": Declared(lambda x: [gt.max(x), gt.max(x, 1)], ("nm",), (*REAL, "bool"), special=True),
    "min": Declared(lambda x: gt.min(gt.min(x, 1), 0), ("nmk",), (*REAL, "bool"), special=True),
    "max with default": Declared(op(MaxWithDefault((0, 2))), ("nmk",), (*REAL, "bool")),
    "min with default": Declared(op(MinWithDefault((1,))), ("nmk",), (*REAL, "bool")),
    "all": Declared(lambda x: gt.all(x, 1), ("nm",), ("bool",)),
    "any": Declared(lambda x: gt.any(x, 0), ("nm",), ("bool",)),
    "argmax": Declared(lambda x: gt.argmax(x, 1), ("nm",), (*REAL, "bool"), special=True),
    "argmin": Declared(lambda x: gt.argmin(x, 0), ("nm",), (*REAL, "bool"), special=True),
    **{
        f"{cls.__name__}, {reverse}": Declared(
            op(cls(1, reverse)), ("nmk",), REAL, special=True
        )
        for cls in (CumSum, CumProd, CumMax, CumMin)
        for reverse in (False, True)
    },
    **{
        f"recurrence, {reverse}": Declared(
            op(Recurrence(1, reverse)), ("nm", "nm"), (*FLOATS, "int64")
        )
        for reverse in (False, True)
    },
    "recurrence, last factor": Declared(
        op(Recurrence(1, True)), ("nm", "nm"), ("float64",), infinite_last
    ),
    **{
        f"coupled recurrence, {reverse}": Declared(
            op(CoupledRecurrence(reverse)), ("kknm", "knm"), ("float32", "float64")
        )
        for reverse in (False, True)
    },
    "coupled recurrence, last factor": Declared(
        op(CoupledRecurrence(True)), ("kkm", "km"), ("float64",), infinite_last
    ),
    "sort": Declared(lambda x: gt.sort(x, 0), ("nm",), EVERY, special=True),
    "argsort": Declared(lambda x: gt.argsort(x, 1), ("nm",), EVERY, special=True),
    **{
        f"searchsorted, {right}": Declared(
            op(SearchSorted(right)), ("n", "mk"), (*EVERY, "float32"), in_order, special=True
        )
        for right in (False, True)
    },
    "searchsorted of a batch": Declared(
        op(SearchSorted(True, 1)), ("kn", "km"), REAL, in_order, special=True
    ),
    **{
        f"diagonal, {offset}": Declared(op(MatrixDiagonal(offset)), ("knm",), EVERY)
        for offset in (-2, 0, 1)
    },
    "split": Declared(op(Split(1, (1, 2))), ("n3m",), EVERY),
    "matmul": Declared(op(DotGeneral(((1,), (0,)))), ("nm", "mk"), EVERY),
    "dot of a batch": Declared(
        op(DotGeneral(((2, 3), (1, 2)), ((0,), (0,)))), ("bnmk", "bmkl"), EVERY
    ),
    "threefry": Declared(op(Threefry()), ("", "", "nm", "nm"), ("uint32",)),
    "cholesky": Declared(op(Cholesky()), ("bnn",), FLOATS, definite),
    "cholesky_gradient": Declared(op(CholeskyGradient()), ("bnn", "bnn"), FLOATS, lower_factor),
    "cholesky_inverse": Declared(op(CholeskyInverse()), ("bnn",), FLOATS, dominant),
    "expm": Declared(op(Expm()), ("bnn",)),
    "lu": Declared(of_one_length(op(LU())), ("n", "b"), ("float64",)),
    "lu of a batch": Declared(op(LU()), ("b34",), ("float64",)),
    "permutation": Declared(of_one_length(permutation), ("n", "1"), ("float64",)),
    **{
        f"mirror, {lower}, {conjugated}": Declared(op(Mirror(lower, conjugated)), ("bnn",), EVERY)
        for lower in (False, True)
        for conjugated in (False, True)
    },
    **{
        f"triangular, {lower}, {transposed}, {unit}": Declared(
            op(SolveTriangular(lower, transposed, unit)), ("bnn", "bnm"), FLOATS, dominant
        )
        for lower in (False, True)
        for transposed in (False, True)
        for unit in (False, True)
    },
    "svdvals": Declared(op(Svdvals()), ("bnm",)),
    "svd": Declared(op(SVD(False)), ("b34",)),
    "eigh": Declared(op(Eigh()), ("b33",)),
    "eigvalsh": Declared(op(Eigvalsh()), ("b33",)),
    "eig": Declared(op(Eig()), ("b33",)),
    "eigvals": Declared(op(Eigvals()), ("b33",)),
    "qr": Declared(op(QR(False)), ("b43",), ("float64",)),
    "complex qr": Declared(op(ComplexQR(True)), ("b43",), ("complex128",)),
    "pivoted qr": Declared(op(PivotedQR(False)), ("b34",)),
    "schur": Declared(op(Schur()), ("b33",)),
    "sorted schur": Declared(op(SortedSchur("lhp")), ("b33",)),
    "qz": Declared(op(QZ(None)), ("b33", "b33")),
    "sylvester": Declared(op(Sylvester()), ("b33", "b22", "b32")),
    "riccati": Declared(
        op(DiscreteRiccati()), ("b33", "b32", "b33", "b22"), ("float64",),
        lambda a, b, q, r: (a, b, *definite(q), *definite(r)),
    ),
    "fft": Declared(op(gt.fft.Fourier((1,), False, "ortho")), ("n4m",), ("complex128",)),
    "rfft": Declared(op(gt.fft.RealFourier(1, "backward")), ("n5m",), ("float64",)),
    "irfft": Declared(op(gt.fft.HermitianFourier(1, 5, "backward")), ("n3m",), ("complex128",)),
    "convolve": Declared(op(Convolution(1, 1, 1, 1, True)), ("grxn", "gsxk"), REAL),
    "fftconvolve": Declared(op(FourierConvolution(0, 1, 1, 1, True)), ("rxn", "sxk"), FLOATS[:2]),
    "assert": Declared(conditions, ("nm", "k"), ("int64", "bool"), positive),
    "solve_banded": Declared(op(SolveBanded(1, 1, False)), ("b34", "b4m"), FLOATS, banded),
    "solve_tridiagonal": Declared(
        op(SolveTridiagonal()), ("b4", "b4", "b4", "b4m"), FLOATS, tridiagonal
    ),
    "factor_tridiagonal": Declared(
        op(FactorTridiagonal()), ("b3", "b4", "b3"), FLOATS, tridiagonal
    ),
    "solve_tridiagonal_factors": Declared(
        solved_by_factors, ("b3", "b4", "b3", "b4m"), FLOATS, tridiagonal
    ),
}  # fmt: skip

LENGTHS = (0, 1, 2, 3, 5)
DRAWS = 12


def values_of(
    case: Declared, dtype: str, rng: np.random.Generator
) -> tuple[list[Any], list[list[tuple[int, int]]]]:
    """Return operands of random lengths, and the axes that may be padded."""
    letters = sorted(set("".join(case.shapes)))
    lengths = {x: int(x) if x.isdigit() else int(rng.choice(LENGTHS)) for x in letters}
    xs = [random_array([lengths[x] for x in shape], dtype, rng) for shape in case.shapes]
    if case.special and np.dtype(dtype).kind in "fc":
        for x in xs:
            x[rng.random(x.shape) < 0.1] = np.nan
            x[rng.random(x.shape) < 0.1] = -np.inf
    axes = [(i, k) for i, s in enumerate(case.shapes) for k, x in enumerate(s) if x.isalpha()]
    with np.errstate(all="ignore"):
        return [np.asarray(x, y.dtype) for x, y in zip(case.prepare(*xs), xs, strict=True)], axes


def random_array(shape: Sequence[int], dtype: str, rng: np.random.Generator) -> Any:
    kind = np.dtype(dtype).kind
    if kind in "biu":
        return np.asarray(rng.integers(0 if kind != "i" else -4, 5, shape)).astype(dtype)
    x = rng.standard_normal(shape)
    return np.asarray(x + 1j * rng.standard_normal(shape) if kind == "c" else x).astype(dtype)


def symbols(values: Sequence[Any], padded: Sequence[tuple[int, int]]) -> list[Any]:
    """Return inputs with unknown lengths along the padded axes."""
    return [
        TensorType(
            x.dtype.name, tuple([None if (i, k) in padded else n for k, n in enumerate(x.shape)])
        )()
        for i, x in enumerate(values)
    ]


def refuses(outputs: Sequence[Any], padded: Sequence[Any], inputs: Sequence[Any]) -> bool:
    """Return whether an operation on inputs declares that an axis cannot be padded."""
    positions = {x: i for i, x in enumerate(inputs)}
    return any(
        (positions[x], axis) in padded and node.op.padding_for(i, axis, x.type) is None
        for node in toposort(outputs)
        for i, x in enumerate(node.inputs)
        if x in positions
        for axis in range(x.type.ndim)
    )


def as_list(y: Any) -> list[Any]:
    return [*y] if isinstance(y, list | tuple) else [y]


@pytest.mark.parametrize("name", CASES)
def test_an_operation_on_padded_arrays_gives_what_it_gives_on_the_arrays(name: str) -> None:
    case = CASES[name]
    rng = np.random.default_rng(crc32(name.encode()))
    compared = 0
    for dtype in case.dtypes:
        for draw in range(DRAWS):
            values, axes = values_of(case, dtype, rng)
            padded = axes if draw < 3 else [axis for axis in axes if rng.random() < 0.5]
            inputs = symbols(values, padded)
            compared += _compare(case, inputs, values, padded)
    assert compared >= DRAWS // 2


def _compare(case: Declared, inputs: Any, values: Any, padded: Any) -> bool:
    """Compare with NumPy; return whether there was a result."""
    what = [x.type for x in inputs], [x.shape for x in values], padded
    try:
        outputs = as_list(case.build(*inputs))
        with np.errstate(all="ignore"):
            expected = evaluate(Graph(inputs, outputs), *values)
    except (GraphcError, ValueError):
        # The lengths do not fit, as those of an extreme of no elements; so not if padded.
        outputs = None
    if outputs is None or refuses(outputs, padded, inputs):
        with pytest.raises((GraphcError, ValueError)):
            run_padded(inputs, as_list(case.build(*inputs)), values)
        return False
    for found, wanted in zip(run_padded(inputs, outputs, values), expected, strict=True):
        wanted = np.asarray(wanted)
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype), what
        limit = 100 * TOLERANCES.get(wanted.real.dtype.name, 0)
        np.testing.assert_allclose(found, wanted, limit, limit, err_msg=str(what))
    return True


def declaring() -> Iterator[type[Op]]:
    """Return the operations that declare padding."""
    for cls in graphc_operations():
        if cls.padding_for is not Op.padding_for or cls.core_ndim is not None:
            yield cls


def test_every_operation_that_declares_padding_has_a_case() -> None:
    rng = np.random.default_rng(0)
    outputs: list[Any] = []
    for case in CASES.values():
        values, axes = values_of(case, case.dtypes[0], rng)
        inputs = symbols(values, axes)
        outputs += as_list(case.build(*inputs))
    assert set(declaring()) <= {type(node.op) for node in toposort(outputs)}


class Definitions:
    """A backend without named functions: all are expanded to their definitions."""

    def lowering(self, op: Op) -> Any:
        return op.perform

    def has(self, node: Node) -> bool:
        return False


MOSTLY_EXACT = {
    *("all_sum", "eig", "implicit", "loop", "optimize", "print", "qr", "quantized", "schur"),
    *("sparse", "svd"),
}
"""The families of which less than a third of the cases can be padded."""


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_contract_case_is_computed_on_padded_arrays_or_refused(family: str) -> None:
    compared = []
    for name, case in FAMILIES[family].items():
        for dtype in case.dtypes[:: len(case.dtypes) // 2 or 1]:
            values = [np.asarray(x) for x in arrays(case, dtype)]
            axes = [(i, k) for i, x in enumerate(values) for k in range(x.ndim)]
            for padded in (axes, *combinations(axes, 1)):
                what = f"{name}, {dtype}, {padded}"
                compared.append(_compare_case(what, case, values, padded))
    assert family in MOSTLY_EXACT or 3 * sum(compared) >= len(compared)


def _compare_case(what: str, case: Any, values: Sequence[Any], padded: Any) -> bool:
    """Compare a case on padded arrays with NumPy; return False if it cannot be padded."""
    inputs = symbols(values, padded)
    try:
        graph = inline(Graph(inputs, [case.symbolic(*inputs)]), Definitions())
        with np.errstate(all="ignore"):
            (expected,) = evaluate(graph, *values)
    except (GraphcError, ValueError):
        # NumPy does not take these lengths as unknown ones, as a 1 that is broadcast.
        return False
    try:
        (found,) = run_padded(graph.inputs, graph.outputs, values)
    except (DynamicShapeError, RuntimeShapeError, ValueError):
        # It cannot be padded, or not for these lengths: a call runs the exact program.
        return False
    expected = np.asarray(expected)
    finite = np.abs(expected[np.isfinite(expected)]) if expected.dtype.kind in "fc" else [0]
    assert_agree(found, expected, what, scale=max(finite, default=0))
    return True
