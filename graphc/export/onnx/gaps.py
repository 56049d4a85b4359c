"""The operations that have no lowering, and why; in messages and in the manual."""

from __future__ import annotations

from dataclasses import dataclass

from graphc.ir import Op
from graphc.optimize.problem import Problem
from graphc.tensor.core.print import Print
from graphc.tensor.linalg.banded import SolveBanded
from graphc.tensor.linalg.eigen import GeneralEigen
from graphc.tensor.linalg.equations import DiscreteRiccati, Sylvester
from graphc.tensor.linalg.expm import Expm
from graphc.tensor.linalg.qr import PivotedQR, Reflectors
from graphc.tensor.linalg.schur import QZ, MatrixSqrt, SchurForm
from graphc.tensor.linalg.sparse.operations import SparseOperation
from graphc.tensor.linalg.tridiagonal import FactorTridiagonal, SolveTridiagonalFactors


@dataclass(frozen=True)
class Gap:
    """Why operations are not exported.

    Attributes:
        ops: Classes of operations.
        reason: What ONNX lacks for them.
        remedy: What to do instead.
    """

    ops: tuple[type[Op], ...]
    reason: str
    remedy: str


GAPS = (
    Gap(
        (SolveBanded, FactorTridiagonal, SolveTridiagonalFactors),
        "LAPACK's routines, which NumPy calls",
        "Use gt.linalg.solve of whole matrices, or of tridiagonal ones in one step.",
    ),
    Gap(
        (PivotedQR, Reflectors),
        "LAPACK's routines, which NumPy calls",
        "Use gt.linalg.qr without pivoting, or gt.linalg.svd.",
    ),
    Gap(
        (GeneralEigen, SchurForm, QZ, MatrixSqrt),
        "they take LAPACK's iterations for general matrices",
        "Use gt.linalg.eigh, if the matrices are symmetric, or gt.linalg.svd.",
    ),
    Gap(
        (DiscreteRiccati, Sylvester, Expm, Problem),
        "SciPy computes them",
        "Compute them before, and pass the results as inputs.",
    ),
    Gap(
        (SparseOperation,),
        "factors of sparse matrices, which NumPy computes",
        "Use gt.linalg.solve and slogdet of dense matrices, if these are small enough.",
    ),
    Gap((Print,), "a model prints nothing", "Leave it out, or make it an output."),
)

OF_OTHERS = Gap(
    (),
    "a Python function, or a class of yours",
    "Write it by functions of graphc.tensor, or export what stands before and behind it.",
)


def gap_of(op: Op) -> Gap:
    """Return why an operation is not exported."""
    return next((gap for gap in GAPS if isinstance(op, gap.ops)), OF_OTHERS)
