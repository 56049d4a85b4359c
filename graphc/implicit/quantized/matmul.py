"""Products with matrices of packed codes, which decode a block at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.errors import DTypeError, ShapeError
from graphc.implicit.jax_arrays import jax_arrays
from graphc.implicit.namespace import NUMPY, SYMBOLIC, numpy_like
from graphc.implicit.quantized.coding import Coding, coding_for
from graphc.implicit.straight_through import replace_derivative
from graphc.implicit.treedef import lengths_of
from graphc.ir import TensorType
from graphc.ir.lengths import agree
from graphc.tensor import Tensor
from graphc.tensor.arrays.create import zeros_like
from graphc.tensor.arrays.reduce import AxisComposite
from graphc.tensor.linalg.dot import DotGeneral

BLOCK = 2**18
"""The number of elements that NumPy decodes at a time, 1 MB of float32."""


@dataclass(frozen=True, slots=True)
class QuantizedMatmul(AxisComposite):
    """``x @ w`` of x ``(*batch, m, k)`` and a matrix w of packed codes, ``(*batch, k, n)``.

    Inputs are x, the packed words, the scales, and the biases if the kind has them; x, scales and
    biases have one dtype. Words have no gradient.

    Attributes:
        axes: The last axis of x, which is summed over.
        kind: The kind of codes, as of ``Coding``.
        bits: The length of a code.
        group_size: The number of neighbours that share a scale.
        transposed: Whether the words encode the transpose of w, ``(*batch, n, k)``.
    """

    kind: str
    bits: int
    group_size: int
    transposed: bool

    @property
    def name(self) -> str:
        return "quantized_matmul"

    @property
    def coding(self) -> Coding:
        """The encoding."""
        return coding_for(self.kind, self.bits, self.group_size)

    def infer(self, x: TensorType, packed: TensorType, *numbers: TensorType) -> TensorType:  # type: ignore[override]
        if {y.dtype for y in numbers} != {x.dtype}:
            problem = f"{self.name}({x!r}, {packed!r}, {numbers[0]!r}): one dtype is wanted."
            raise DTypeError(problem, "Cast x, or the scales and biases.")
        rows, words = packed.shape[-2:]
        columns = None if words is None else self.coding.columns_of(words)
        k, n = (columns, rows) if self.transposed else (rows, columns)
        batched = [y for y in numbers if y.ndim == packed.ndim]
        batch = zip(packed.shape[:-2], x.shape, *[y.shape for y in batched], strict=False)
        fits = [agree(*lengths) for lengths in batch]
        fits += [agree(rows, *[y.shape[-2] for y in batched])]
        if self.kind == "affine":
            fits += [agree(*[y.shape[-1] for y in numbers])]
        if not all([*fits, agree(k, x.shape[-1])]):
            raise ShapeError(
                f"{self.name}: x of type {x!r} and a matrix of {k} rows and {n} columns.",
                "Make the last length of x and the number of rows equal.",
            )
        return x.with_shape((*x.shape[:-1], n))

    def dense(self, packed: Tensor, *numbers: Tensor) -> Tensor:
        """Return the dense matrix that the words encode."""
        return self.coding.dense(SYMBOLIC, packed, *numbers)  # type: ignore[no-any-return]

    def expand(self, x: Tensor, packed: Tensor, *numbers: Tensor) -> Tensor:  # type: ignore[override]
        if self.kind == "w8a8":
            rows, scale = round_rows(SYMBOLIC, x)
            x = replace_derivative(rows * scale, x)
        batch = tuple(range(x.ndim - 2))
        summed = x.ndim - 1 - (not self.transposed)
        op = DotGeneral(((x.ndim - 1,), (summed,)), (batch, batch))
        return Tensor.make(op, x, self.dense(packed, *numbers))

    def perform(self, x: Any, packed: Any, *numbers: Any) -> Any:
        """Multiply by a few rows of words at a time."""
        coding = self.coding
        if coding.kind == "w8a8":
            return _multiply_integers(coding, x, packed, *numbers)
        *batch, rows, words = packed.shape
        width = coding.columns_of(words)
        n = rows if self.transposed else width
        y = np.zeros((*x.shape[:-1], n), x.dtype)
        step = max(1, BLOCK // max(1, math.prod(batch) * width))
        for start in range(0, rows, step):
            some_rows = slice(start, start + step)
            block = coding.dense(NUMPY, *[a[..., some_rows, :] for a in (packed, *numbers)])
            if self.transposed:
                y[..., some_rows] = np.matmul(x, np.swapaxes(block, -1, -2))
            else:
                y += np.matmul(x[..., some_rows], block)
        return y

    def pullback(self, g: Tensor, y: Tensor, *inputs: Tensor) -> Sequence[Any]:
        return self.pullback_to((True,) * len(inputs), g, y, *inputs)

    def pullback_to(
        self, wanted: Sequence[bool], g: Tensor, y: Tensor, *inputs: Tensor
    ) -> Sequence[Any]:
        """Differentiate with respect to x, scales and biases, as far as wanted."""
        x, packed, *numbers = inputs
        g_x = g_scales = g_biases = None
        if wanted[0]:
            g_x = product(self.coding, not self.transposed, g, packed, *numbers)
        # The rows of words are the columns of w, or its rows.
        along, across = (g, x) if self.transposed else (x, g)
        if wanted[2]:
            values = self.coding.values(SYMBOLIC, self.coding.codes(SYMBOLIC, packed), x.dtype)
            terms = self.coding.split_groups(SYMBOLIC, _outer(along, across) * values)
            g_scales = SYMBOLIC.sum(terms, -1)
        if len(numbers) > 1 and wanted[3]:
            # A bias adds to all elements of its group: sum over groups before the product.
            sums = SYMBOLIC.sum(self.coding.split_groups(SYMBOLIC, across), -1)
            g_biases = _outer(along, sums)
        return g_x, None, g_scales, *([g_biases] if len(numbers) > 1 else [])

    def batch(self, size: Any, batched: Sequence[bool], *inputs: Tensor) -> Tensor:
        """Batch x alone as more rows; otherwise add a batch axis to all operands."""
        x, packed, *numbers = inputs
        xp = SYMBOLIC
        if not any(batched[1:]):
            *lead, m, k = xp.shape_of(x)[1:]
            rows = xp.reshape(xp.moveaxis(x, 0, -3), (*lead, size * m, k))
            y = product(self.coding, self.transposed, rows, packed, *numbers)
            y = xp.reshape(y, (*lead, size, m, xp.shape_of(y)[-1]))
            return xp.moveaxis(y, -3, 0)  # type: ignore[no-any-return]
        operands = [
            a if flag else xp.broadcast_to(a, (size, *xp.shape_of(a)))
            for a, flag in zip(inputs, batched, strict=True)
        ]
        return product(self.coding, self.transposed, *operands)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class ExpertMatmul(AxisComposite):
    """``x @ w[index]`` of a stack w of matrices of packed codes, which are not copied.

    Inputs are x ``(*batch, m, k)``, the words ``(experts, rows, words)``, the scales, the biases if
    the kind has them, and the index, integers of shape ``(*batch,)``.

    Attributes:
        kind: The kind of codes, as of ``Coding``.
        bits: The length of a code.
        group_size: The number of neighbours that share a scale.
        transposed: Whether the words encode the transposes.
    """

    kind: str
    bits: int
    group_size: int
    transposed: bool

    @property
    def name(self) -> str:
        return "expert_matmul"

    @property
    def plain(self) -> QuantizedMatmul:
        """The product with matrices that were taken from the stack."""
        return QuantizedMatmul(self.axes, self.kind, self.bits, self.group_size, self.transposed)

    def infer(self, x: TensorType, packed: TensorType, *rest: TensorType) -> TensorType:  # type: ignore[override]
        *numbers, index = rest
        selected = [a.with_shape((*index.shape, *a.shape[1:])) for a in (packed, *numbers)]
        return self.plain.infer(x, *selected)

    def expand(self, x: Tensor, packed: Tensor, *rest: Tensor) -> Tensor:  # type: ignore[override]
        *numbers, index = rest
        return Tensor.make(self.plain, x, *[a[index] for a in (packed, *numbers)])

    def pullback(self, g: Tensor, y: Tensor, *inputs: Tensor) -> Sequence[Any]:
        x, packed, *numbers, index = inputs
        selected = [a[index] for a in (packed, *numbers)]
        g_x, _, *g_selected = self.plain.pullback(g, y, x, *selected)
        pairs = zip(numbers, g_selected, strict=True)
        return [g_x, None, *[zeros_like(a)[index].inc(g_a) for a, g_a in pairs], None]

    def perform(self, x: Any, packed: Any, *rest: Any) -> Any:
        *numbers, index = rest
        return self.plain.perform(x, *[a[index] for a in (packed, *numbers)])


def round_rows(xp: Any, x: Any) -> tuple[Any, Any]:
    """Return each row as integers from -127 to 127, and the scale of each row, (..., m, 1)."""
    scale = xp.max(xp.abs(x), -1, keepdims=True) / 127
    return xp.round(x / xp.where(scale > 0, scale, xp.ones_like(scale))), scale


def _multiply_integers(coding: Coding, x: Any, packed: Any, scales: Any) -> Any:
    """Multiply rounded rows by the codes of w's columns; sums of integers in float64 are exact."""
    rows, scale = round_rows(NUMPY, x)
    codes = coding.values(NUMPY, coding.codes(NUMPY, packed), "float64")
    a, b = (
        np.moveaxis(coding.split_groups(NUMPY, y.astype("float64")), -2, -3) for y in (rows, codes)
    )
    sums = np.matmul(a, np.swapaxes(b, -1, -2)).astype(x.dtype)
    weights = np.expand_dims(np.swapaxes(scales, -1, -2), -2)
    return (sums * weights).sum(-3, dtype=x.dtype) * scale


def _outer(a: Tensor, b: Tensor) -> Tensor:
    """Return ``swapaxes(a, -1, -2) @ b``."""
    batch = tuple(range(a.ndim - 2))
    return Tensor.make(DotGeneral(((a.ndim - 2,), (a.ndim - 2,)), (batch, batch)), a, b)


def product(
    coding: Coding, transposed: bool, x: Any, packed: Any, scales: Any, biases: Any = None
) -> Any:
    """Return ``x @ w`` for x ``(*batch, m, k)`` and a matrix w of packed codes, in any library.

    Args:
        coding: The encoding.
        transposed: Whether the words encode the transpose of w.
        x: Floating numbers.
        packed: Words of uint32, ``(*batch, rows, words)``.
        scales: Of x's dtype, ``(*batch, rows, groups)``.
        biases: Like the scales, if the kind has them.
    """
    numbers = (scales,) if biases is None else (scales, biases)
    # Scales along the summed axis can't be factored out of sums of integers.
    coding = coding if transposed else coding.plain
    xp = numpy_like(x, packed, *numbers)
    if xp.name == "JAX":
        return jax_arrays().quantized_matmul(coding, transposed, x, packed, *numbers)
    if xp.name == "MLX":
        if coding.kind == "w8a8":
            rows, scale = round_rows(xp, x)
            x = rows * scale
        w = coding.dense(xp, packed, *numbers)
        return xp.matmul(x, xp.swapaxes(w, -1, -2) if transposed else w)
    axis = len(lengths_of(x)) - 1
    op = QuantizedMatmul((axis,), coding.kind, coding.bits, coding.group_size, transposed)
    if xp.name == "NumPy":
        return op.perform(x, packed, *numbers)
    return Tensor.make(op, x, packed, *numbers)
