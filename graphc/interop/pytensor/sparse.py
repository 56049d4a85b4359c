"""PyTensor's operations on sparse matrices, by implicit arrays of their stored values.

A sparse variable becomes an implicit ``CSR`` or ``CSC``, or an array computed from one; products
use its structure. Results that PyTensor declares dense are made dense.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import graphc.tensor as gt
from graphc.implicit.node import ImplicitTensor
from graphc.implicit.structures.formats import CSC, CSR
from graphc.interop.pytensor.application import Application, Refusal, constant_integer, length
from graphc.interop.pytensor.arrays import index_of
from graphc.interop.pytensor.elementwise import identity, without_casts
from graphc.tensor.core.tensor import Tensor, as_tensor

KINDS: dict[str, type[CSR] | type[CSC]] = {"csr": CSR, "csc": CSC}
"""The classes for PyTensor's formats."""


def implicit_of(value: Any) -> CSR | CSC:
    """Return the implicit array of a SciPy matrix; block formats become rows."""
    return KINDS.get(value.format, CSR).from_scipy(value)


def dense(x: Tensor) -> Tensor:
    """Return a matrix with all elements stored."""
    return x.dense() if isinstance(x, ImplicitTensor) else x + gt.zeros(x.shape, dtype=x.dtype)


def dense_where_declared(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Densify the result of a converter where PyTensor declares it dense."""

    def convert(at: Application, *xs: Any) -> Tensor:
        y = function(at, *xs)
        return y if at.types[0] is None or y.ndim < 2 else dense(y)

    return convert


def of_arrays(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return the converter that applies a function of arrays."""
    return dense_where_declared(lambda at, *xs: function(*xs))


def stored_array(at: Application, x: Tensor) -> Any:
    """Return the implicit array of a matrix whose stored values are known.

    Raises:
        Refusal: If the matrix is computed by more than a transposition.
    """
    if isinstance(x, ImplicitTensor) and isinstance(x.array, CSR | CSC):
        return x.array
    raise Refusal("of a matrix that is computed; of constants and of CSM's results it can be had")


def from_parts(at: Application, data: Tensor, *rest: Tensor) -> Tensor:
    """Return the matrix of stored values and their indices, with constant lengths."""
    indices, indptr, shape = rest
    m, n = (constant_integer(shape[i], f"the length {i} of a sparse matrix") for i in range(2))
    return as_tensor(KINDS[at.op.format](data, indices, indptr, (m, n)))


def parts(at: Application, x: Tensor) -> list[Tensor]:
    """Return the stored values, their indices, and the shape."""
    array = stored_array(at, x)
    return [array.data, array.indices, array.indptr, gt.as_tensor(array.lengths)]


def gradient_of_parts(at: Application, *given: Tensor) -> Tensor:
    """Return the stored values of a gradient whose indices are the same as the matrix's."""
    _, indices, indptr, _, g, its_indices, its_indptr, _ = given
    if indices is not its_indices or indptr is not its_indptr:
        raise Refusal("of a gradient with other places than the matrix; graphc.grad has it")
    return g


def transpose(at: Application, x: Tensor) -> Tensor:
    if isinstance(x, ImplicitTensor):
        return as_tensor(x.array.T)
    return x.T


def gradient_of_product(rows_first: bool) -> Callable[..., Tensor]:
    """Return the converter of the gradient of stored values in a product with a dense matrix."""

    def convert(at: Application, indices: Tensor, indptr: Tensor, y: Tensor, g: Tensor) -> Tensor:
        count = gt.arange(indices.shape[0], dtype=indptr.dtype)
        major = gt.searchsorted(indptr, count, side="right") - 1
        i, j = (major, indices) if rows_first else (indices, major)
        return gt.sum(dense(g)[i] * dense(y)[j], axis=-1)

    return convert


def window(at: Application, x: Tensor, *ends: Any) -> Tensor:
    """Return rows and columns by two slices."""
    return x[index_of(slice(*ends[:3])), index_of(slice(*ends[3:]))]


SPARSE: dict[str, Callable[..., Any]] = {
    # To and from dense arrays and stored values.
    "DenseFromSparse": dense_where_declared(identity),
    "SparseFromDense": identity,
    "CSM": from_parts,
    "CSMProperties": parts,
    "CSMGrad": gradient_of_parts,
    "EnsureSortedIndices": identity,
    "Remove0": identity,
    "Cast": lambda at, x: gt.cast(x, at.op.out_type),
    # Products.
    "Dot": of_arrays(operator.matmul),
    "TrueDot": of_arrays(operator.matmul),
    "StructuredDot": of_arrays(operator.matmul),
    "StructuredDotGradCSR": gradient_of_product(rows_first=True),
    "StructuredDotGradCSC": gradient_of_product(rows_first=False),
    "SamplingDot": lambda at, x, y, pattern: pattern * (x @ y.T),
    "Usmm": of_arrays(lambda alpha, x, y, z: alpha * (x @ y) + z),
    # Sums and products of elements; newer versions of PyTensor have longer names.
    "SpSum": dense_where_declared(lambda at, x: gt.sum(x, axis=at.op.axis)),
    "AddSS": of_arrays(gt.add),
    "AddSparseSparse": of_arrays(gt.add),
    "AddSSData": of_arrays(gt.add),
    "AddSparseSparseData": of_arrays(gt.add),
    "AddSD": of_arrays(gt.add),
    "AddSparseDense": of_arrays(gt.add),
    "SparseSparseMultiply": of_arrays(gt.multiply),
    "MultiplySparseSparse": of_arrays(gt.multiply),
    "SparseDenseMultiply": of_arrays(gt.multiply),
    "MultiplySparseDense": of_arrays(gt.multiply),
    "SparseDenseVectorMultiply": of_arrays(gt.multiply),
    "MultiplySparseDenseVector": of_arrays(gt.multiply),
    "ColScaleCSC": without_casts(operator.mul),
    "RowScaleCSC": lambda at, x, scale: x * scale[:, None],
    # Rearranged and selected elements.
    "Transpose": transpose,
    "HStack": lambda at, *xs: gt.concatenate(xs, axis=1),
    "VStack": lambda at, *xs: gt.concatenate(xs, axis=0),
    "GetItemScalar": lambda at, x, i, j: x[length(i), length(j)],
    "GetItem2Lists": of_arrays(lambda x, i, j: x[i, j]),
    "GetItemList": lambda at, x, i: x[i],
    "GetItem2d": window,
    "Diag": without_casts(gt.diagonal),
}
"""The converters of PyTensor's operations on sparse matrices, by the names of their classes."""
