"""The converters of PyTensor's operations, by the names of their classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from graphc.errors import ArgumentError
from graphc.interop.pytensor import (
    axes,
    create,
    diagonal,
    identity,
    index,
    join,
    linalg,
    loops,
    optimize,
    perform,
    reduce,
    select,
    shape,
    signal,
    sort,
    special,
    subgraph,
)
from graphc.interop.pytensor.elementwise import SCALARS, elemwise
from graphc.interop.pytensor.pymc import PYMC
from graphc.interop.pytensor.random import VARIABLES, generator
from graphc.interop.pytensor.sparse import SPARSE

Converter = Callable[..., Any]
C = TypeVar("C", bound=Converter)

CONVERTERS: dict[str, Converter] = {
    # Functions of elements, and reductions.
    "Elemwise": elemwise,
    **SCALARS,
    "CAReduce": reduce.reduction,
    "FixedOpCAReduce": reduce.reduction,
    "NonZeroDimsCAReduce": reduce.reduction,
    "MaxAndMinCAReduce": reduce.reduction,
    "Max": reduce.reduction,
    "Min": reduce.reduction,
    "All": reduce.reduction,
    "Any": reduce.reduction,
    "Sum": reduce.reduction,
    "Prod": reduce.reduction,
    "ProdWithoutZeros": reduce.reduction,
    "Argmax": reduce.argmax,
    "Softmax": special.softmax,
    "LogSoftmax": special.log_softmax,
    "SoftmaxGrad": special.softmax_gradient,
    "LogSumExp": special.logsumexp,
    "LogAddExp": special.logaddexp,
    "XLogY": special.xlogy,
    "XLog1PY": special.xlog1py,
    # Axes and shapes.
    "DimShuffle": axes.dim_shuffle,
    "Shape": shape.shape,
    "Shape_i": shape.shape_i,
    "SpecifyShape": shape.specify_shape,
    "Reshape": shape.reshape,
    "JoinDims": shape.join_dims,
    "SplitDims": shape.split_dims,
    # Arrays made of lengths and numbers.
    "Alloc": create.alloc,
    "AllocEmpty": create.alloc_empty,
    "ARange": create.arange,
    "Bartlett": create.bartlett,
    "Eye": create.eye,
    "MakeVector": create.make_vector,
    "ExtractDiag": diagonal.extract_diag,
    "AllocDiag": diagonal.alloc_diag,
    "FillDiagonal": diagonal.fill_diagonal,
    "FillDiagonalOffset": diagonal.fill_diagonal_offset,
    # Arrays joined, split and repeated.
    "Join": join.join,
    "Split": join.split,
    "Repeat": join.repeat,
    # Indexing.
    "Subtensor": index.subtensor,
    "AdvancedSubtensor": index.subtensor,
    "AdvancedSubtensor1": index.subtensor,
    "IncSubtensor": index.inc_subtensor,
    "AdvancedIncSubtensor": index.inc_subtensor,
    "AdvancedIncSubtensor1": index.inc_subtensor,
    "MakeSlice": index.make_slice,
    "Nonzero": select.nonzero,
    "UnravelIndex": select.unravel_index,
    "RavelMultiIndex": select.ravel_multi_index,
    "PermuteRowElements": select.permute_row_elements,
    "Choose": select.choose,
    # Arrays sorted, searched and accumulated.
    "SortOp": sort.sort,
    "ArgSortOp": sort.argsort,
    "SearchsortedOp": sort.searchsorted,
    "CumOp": sort.cumulative,
    "Unique": sort.unique,
    # Loops, choices, graphs in operations.
    "Scan": loops.scan,
    "IfElse": subgraph.ifelse,
    "LazyIfElse": subgraph.lazy_ifelse,
    "OpFromGraph": subgraph.op_from_graph,
    "FromFunctionOp": perform.by_perform,
    "JAXOp": subgraph.jax_function,
    "Default": subgraph.default,
    # Identities.
    "ViewOp": identity.identity,
    "DeepCopyOp": identity.identity,
    "OutputGuard": identity.identity,
    "TypeCastingOp": identity.identity,
    "CpuContiguous": identity.identity,
    "TensorFromScalar": identity.identity,
    "ScalarFromTensor": identity.identity,
    "CheckAndRaise": identity.check_and_raise,
    "Assert": identity.check_and_raise,
    "Print": identity.print_value,
    "ZeroGrad": identity.zero_gradient,
    "DisconnectedGrad": identity.no_gradient,
    "UndefinedGrad": identity.undefined_gradient,
    "GradClip": identity.clipped_gradient,
    "GradScale": identity.scaled_gradient,
    "SpecifyAssumptions": identity.assume,
    # Linear algebra.
    "Blockwise": linalg.blockwise,
    "Dot": linalg.dot,
    "Dot22": linalg.dot,
    "Dot22Scalar": linalg.scaled_dot,
    "Gemm": linalg.gemm,
    "Gemv": linalg.gemm,
    "CGemv": linalg.gemm,
    "Ger": linalg.ger,
    "CGer": linalg.ger,
    "BatchedDot": linalg.batched_dot,
    "KroneckerProduct": linalg.kron,
    "BlockDiagonal": linalg.block_diagonal,
    "Cholesky": linalg.cholesky,
    "QR": linalg.qr,
    "LU": linalg.lu,
    "LUFactor": linalg.lu_factor,
    "PivotToPermutations": linalg.pivot_to_permutation,
    "SVD": linalg.svd,
    "Eig": linalg.eig,
    "Eigh": linalg.eigh,
    "EighGrad": linalg.eigh_gradient,
    "Eigvalsh": linalg.eigvalsh,
    "EigvalshGrad": linalg.eigvalsh_gradient,
    "Schur": linalg.schur,
    "QZ": linalg.qz,
    "MatrixInverse": linalg.matrix_inverse,
    "MatrixPinv": linalg.pinv,
    "TensorInv": linalg.tensorinv,
    "TensorSolve": linalg.tensorsolve,
    "Lstsq": linalg.lstsq,
    "Det": linalg.det,
    "SLogDet": linalg.slogdet,
    "Expm": linalg.expm,
    "Solve": linalg.solve,
    "SolveTriangular": linalg.solve_triangular,
    "CholeskySolve": linalg.cholesky_solve,
    "LUFactorTridiagonal": linalg.tridiagonal_lu_factor,
    "SolveLUFactorTridiagonal": linalg.tridiagonal_lu_solve,
    "SolveSylvester": linalg.solve_sylvester,
    "TRSYL": linalg.solve_triangular_sylvester,
    "SolveDiscreteARE": linalg.solve_discrete_are,
    # Signals.
    "RFFTOp": signal.rfft,
    "IRFFTOp": signal.irfft,
    "Fourier": signal.fourier,
    "Convolve1d": signal.convolve1d,
    "Convolve2d": signal.convolve2d,
    # Minima and roots.
    "MinimizeOp": optimize.minimum,
    "MinimizeScalarOp": optimize.scalar_minimum,
    "RootOp": optimize.zero,
    "RootScalarOp": optimize.scalar_zero,
    # Random variables.
    **VARIABLES,
    "DefaultGeneratorMakerOp": generator,
}
"""The converters of PyTensor's operations on dense arrays, by the names of their classes."""

INHERITED = ("OpFromGraph", "CheckAndRaise", "CustomDistRV", "SimulatorRV")
"""Classes whose converters also convert their subclasses."""

OTHER_TYPES = ("pytensor.sparse", "pytensor.typed_list", "pytensor.xtensor")
"""Modules of operations on other types, with classes of the same names."""

registered: WeakKeyDictionary[type, Converter] = WeakKeyDictionary()
"""The converters that users registered, for classes."""


def register(op: type) -> Callable[[C], C]:
    """Register a converter for a class of PyTensor operations, in preference to graphc's.

    Subclasses do not inherit the converter, as they may compute something else.

    Args:
        op: The class, of any package.

    Returns:
        A decorator of the converter: a function of an ``Application``, which has the operation
        with its parameters, and of a graphc tensor for each input. The converter returns the
        result, or a list of several; they are cast to the dtypes and static lengths that PyTensor
        declares.

    Raises:
        ArgumentError: If ``op`` is no class.

    Example:
        >>> import graphc.tensor as gt
        >>> from graphc.interop.pytensor import register
        >>> class Doubled:  # a pytensor.graph.op.Op
        ...     pass
        >>> @register(Doubled)
        ... def doubled(at, x):
        ...     return 2 * x
    """
    if not isinstance(op, type):
        raise ArgumentError(
            f"register: {op!r} is no class.", "Give the class of the operation: register(MyOp)."
        )

    def decorate(converter: C) -> C:
        registered[op] = converter
        return converter

    return decorate


def converter_of(op: type) -> Converter | None:
    """Return the converter of operations of a class, or None."""
    if op in registered:
        return registered[op]
    # One class of PyMC may be a graph in one version and Python code in another.
    names = [cls.__name__ for cls in op.__mro__]
    is_graph = op.__module__.startswith("pymc.") and "OpFromGraph" in names
    candidates = (
        _builtin_converter(cls)
        for cls in op.__mro__
        if (cls is op and not is_graph) or cls.__name__ in INHERITED
    )
    return next(filter(None, candidates), None)


def _builtin_converter(op: type) -> Converter | None:
    if is_dense(op):
        return CONVERTERS.get(op.__name__)
    if op.__module__.startswith("pytensor.sparse"):
        return SPARSE.get(op.__name__)
    return PYMC.get(op.__name__) if op.__module__.startswith("pymc.") else None


def is_dense(op: type) -> bool:
    """Return whether a class is one of PyTensor's operations on dense arrays."""
    module = op.__module__
    return module.startswith("pytensor.") and not module.startswith(OTHER_TYPES)
