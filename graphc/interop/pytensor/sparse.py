"""Sparse matrices: PyTensor's operations on them, by arrays that keep the values stored there.

A sparse variable is a graphc array as any other, an implicit ``CSR`` or ``CSC`` or what is computed
from it; what it is multiplied with finds its structure. Results that PyTensor declares dense are
made so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import graphc.tensor as gt
from graphc.implicit.node import ImplicitTensor
from graphc.implicit.structures.compressed import CSC, CSR
from graphc.interop.pytensor.application import Application, Refusal, length, required
from graphc.interop.pytensor.index import index_of
from graphc.tensor.core.tensor import Tensor, as_tensor

KINDS: dict[str, type[CSR] | type[CSC]] = {"csr": CSR, "csc": CSC}
"""The classes for PyTensor's formats."""


def implicit_of(value: Any) -> CSR | CSC:
    """An implicit array of a matrix of SciPy; of blocks as one of rows."""
    return KINDS.get(value.format, CSR).from_scipy(value)


def dense(x: Tensor) -> Tensor:
    """All elements of a matrix."""
    return x.dense() if isinstance(x, ImplicitTensor) else x + gt.zeros(x.shape, dtype=x.dtype)


def declared(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The same, dense where PyTensor says that the result is."""

    def convert(at: Application, *xs: Any) -> Tensor:
        y = function(at, *xs)
        return y if at.types[0] is None or y.ndim < 2 else dense(y)

    return convert


def of_arrays(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function of arrays in the place of an operation."""
    return declared(lambda at, *xs: function(*xs))


def stored(at: Application, x: Tensor) -> Any:
    """The implicit array of a matrix whose stored values are known as such.

    Raises:
        Refusal: It is computed by more than a transposition.
    """
    if isinstance(x, ImplicitTensor) and isinstance(x.array, CSR | CSC):
        return x.array
    raise Refusal("of a matrix that is computed; of constants and of CSM's results it can be had")


def unchanged(at: Application, x: Tensor) -> Tensor:
    return x


def from_parts(at: Application, data: Tensor, *rest: Tensor) -> Tensor:
    """A matrix of stored values and their places, with constant lengths."""
    indices, indptr, shape = rest
    m, n = (required(shape[i], f"the length {i} of a sparse matrix") for i in range(2))
    return as_tensor(KINDS[at.op.format](data, indices, indptr, (m, n)))


def parts(at: Application, x: Tensor) -> list[Tensor]:
    """The stored values, their places, and the shape."""
    array = stored(at, x)
    return [array.data, array.indices, array.indptr, gt.as_tensor(array.lengths)]


def gradient_of_parts(at: Application, *given: Tensor) -> Tensor:
    """The stored values of a gradient whose places are the same as the matrix's."""
    _, indices, indptr, _, g, its_indices, its_indptr, _ = given
    if indices is not its_indices or indptr is not its_indptr:
        raise Refusal("of a gradient with other places than the matrix; graphc.grad has it")
    return g


def transpose(at: Application, x: Tensor) -> Tensor:
    if isinstance(x, ImplicitTensor):
        return as_tensor(x.array.T)
    return x.T


def total(at: Application, x: Tensor) -> Tensor:
    return gt.sum(x, axis=at.op.axis)


def product(at: Application, x: Tensor, y: Tensor) -> Tensor:
    return x @ y


def scaled_product(at: Application, alpha: Tensor, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return alpha * (x @ y) + z


def product_in_places(at: Application, x: Tensor, y: Tensor, places: Tensor) -> Tensor:
    return places * (x @ y.T)


def gradient_of_product(rows_first: bool) -> Callable[..., Tensor]:
    """The gradient of stored values, of a product with a dense matrix."""

    def convert(at: Application, indices: Tensor, indptr: Tensor, y: Tensor, g: Tensor) -> Tensor:
        count = gt.arange(indices.shape[0], dtype=indptr.dtype)
        major = gt.searchsorted(indptr, count, side="right") - 1
        i, j = (major, indices) if rows_first else (indices, major)
        return gt.sum(dense(g)[i] * dense(y)[j], axis=-1)

    return convert


def scaled_columns(at: Application, x: Tensor, scale: Tensor) -> Tensor:
    return x * scale


def scaled_rows(at: Application, x: Tensor, scale: Tensor) -> Tensor:
    return x * scale[:, None]


def joined(axis: int) -> Callable[..., Tensor]:
    """Matrices side by side, or below each other."""

    def convert(at: Application, *xs: Tensor) -> Tensor:
        return gt.concatenate(xs, axis=axis)

    return convert


def cast(at: Application, x: Tensor) -> Tensor:
    return gt.cast(x, at.op.out_type)


def element(at: Application, x: Tensor, i: Any, j: Any) -> Tensor:
    return x[length(i), length(j)]


def elements(at: Application, x: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return x[i, j]


def rows(at: Application, x: Tensor, i: Tensor) -> Tensor:
    return x[i]


def window(at: Application, x: Tensor, *ends: Any) -> Tensor:
    """Rows and columns by two slices."""
    return x[index_of(slice(*ends[:3])), index_of(slice(*ends[3:]))]


def diagonal(at: Application, x: Tensor) -> Tensor:
    return gt.diagonal(x)


SPARSE: dict[str, Callable[..., Any]] = {
    # To and from dense arrays and stored values.
    "DenseFromSparse": declared(unchanged),
    "SparseFromDense": unchanged,
    "CSM": from_parts,
    "CSMProperties": parts,
    "CSMGrad": gradient_of_parts,
    "EnsureSortedIndices": unchanged,
    "Remove0": unchanged,
    "Cast": cast,
    # Products.
    "Dot": declared(product),
    "TrueDot": declared(product),
    "StructuredDot": declared(product),
    "StructuredDotGradCSR": gradient_of_product(rows_first=True),
    "StructuredDotGradCSC": gradient_of_product(rows_first=False),
    "SamplingDot": product_in_places,
    "Usmm": declared(scaled_product),
    # Sums and products of elements; newer versions of PyTensor have longer names.
    "SpSum": declared(total),
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
    "ColScaleCSC": scaled_columns,
    "RowScaleCSC": scaled_rows,
    # Elements in other places.
    "Transpose": transpose,
    "HStack": joined(1),
    "VStack": joined(0),
    "GetItemScalar": element,
    "GetItem2Lists": declared(elements),
    "GetItemList": rows,
    "GetItem2d": window,
    "Diag": diagonal,
}
"""The converters of PyTensor's operations on sparse matrices, by the names of their classes."""
