"""Products with matrices of packed codes, of which a block is decoded at a time."""

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
"""So many elements are decoded at a time in NumPy, 1 MB of float32."""


@dataclass(frozen=True, slots=True)
class QuantizedMatmul(AxisComposite):
    """``x @ w`` of x ``(*batch, m, k)`` and a matrix w of packed codes, ``(*batch, k, n)``.

    Inputs are x, the packed words, the scales, and the biases where the kind has them; of x, scales
    and biases the dtype is one. Words have no gradient.

    Attributes:
        axes: The last axis of x alone, which is summed over.
        kind: As of ``Coding``, what the codes mean.
        bits: The length of a code.
        group_size: How many neighbours share a scale.
        transposed: Whether the words are those of w's transpose, ``(*batch, n, k)``.
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
        """The meaning of the codes."""
        return coding_for(self.kind, self.bits, self.group_size)

    def infer(self, x: TensorType, packed: TensorType, *parts: TensorType) -> TensorType:  # type: ignore[override]
        if {part.dtype for part in parts} != {x.dtype}:
            problem = f"{self.name}({x!r}, {packed!r}, {parts[0]!r}): one dtype is wanted."
            raise DTypeError(problem, "Cast x, or the scales and biases.")
        rows, words = packed.shape[-2:]
        columns = None if words is None else self.coding.columns_of(words)
        k, n = (columns, rows) if self.transposed else (rows, columns)
        alike = [part for part in parts if part.ndim == packed.ndim]
        batch = zip(packed.shape[:-2], x.shape, *[part.shape for part in alike], strict=False)
        fits = [agree(*lengths) for lengths in batch]
        fits += [agree(rows, *[part.shape[-2] for part in alike])]
        if self.kind == "affine":
            fits += [agree(*[part.shape[-1] for part in parts])]
        if not all([*fits, agree(k, x.shape[-1])]):
            raise ShapeError(
                f"{self.name}: x of type {x!r} and a matrix of {k} rows and {n} columns.",
                "Make the last length of x and the number of rows equal.",
            )
        return x.with_shape((*x.shape[:-1], n))

    def dense(self, packed: Tensor, *parts: Tensor) -> Tensor:
        """The matrix as the words lie, whole."""
        made: Tensor = self.coding.dense(SYMBOLIC, packed, *parts)
        return made

    def expand(self, x: Tensor, packed: Tensor, *parts: Tensor) -> Tensor:  # type: ignore[override]
        if self.kind == "w8a8":
            rows, scale = rounded_rows(SYMBOLIC, x)
            x = replace_derivative(rows * scale, x)
        batch = tuple(range(x.ndim - 2))
        summed = x.ndim - 1 - (not self.transposed)
        op = DotGeneral(((x.ndim - 1,), (summed,)), (batch, batch))
        return Tensor.make(op, x, self.dense(packed, *parts))

    def perform(self, x: Any, packed: Any, *parts: Any) -> Any:
        """Multiply a few rows of words at a time."""
        coding = self.coding
        if coding.kind == "w8a8":
            return _by_integers(coding, x, packed, *parts)
        *batch, rows, words = packed.shape
        width = coding.columns_of(words)
        n = rows if self.transposed else width
        y = np.zeros((*x.shape[:-1], n), x.dtype)
        step = max(1, BLOCK // max(1, math.prod(batch) * width))
        for start in range(0, rows, step):
            some = slice(start, start + step)
            block = coding.dense(NUMPY, *[part[..., some, :] for part in (packed, *parts)])
            if self.transposed:
                y[..., some] = np.matmul(x, np.swapaxes(block, -1, -2))
            else:
                y += np.matmul(x[..., some], block)
        return y

    def pullback(self, g: Tensor, y: Tensor, *inputs: Tensor) -> Sequence[Any]:
        return self.pullback_to((True,) * len(inputs), g, y, *inputs)

    def pullback_to(
        self, wanted: Sequence[bool], g: Tensor, y: Tensor, *inputs: Tensor
    ) -> Sequence[Any]:
        """Differentiate with respect to x: a product with the packed transpose."""
        x, packed, *parts = inputs
        by_x = by_scales = by_biases = None
        if wanted[0]:
            by_x = product(self.coding, not self.transposed, g, packed, *parts)
        # The rows of words are the columns of w, or its rows.
        along, across = (g, x) if self.transposed else (x, g)
        if wanted[2]:
            by_scales = self._by_scales(_outer(along, across), packed, parts[0])
        if len(parts) > 1 and wanted[3]:
            # Of each group all alike: its sum is taken before the product.
            by_biases = _outer(along, SYMBOLIC.sum(self.coding.grouped(SYMBOLIC, across), -1))
        return by_x, None, by_scales, *([by_biases] if len(parts) > 1 else [])

    def _by_scales(self, by_dense: Tensor, packed: Tensor, scales: Tensor) -> Tensor:
        """Each scale moves the elements of its group as much as their codes are."""
        coding = self.coding
        values = coding.values(SYMBOLIC, coding.codes(SYMBOLIC, packed), scales.dtype)
        made: Tensor = SYMBOLIC.sum(coding.grouped(SYMBOLIC, by_dense * values), -1)
        return made

    def batch(self, size: Any, batched: Sequence[bool], *inputs: Tensor) -> Tensor:
        """Batch x alone as more rows; otherwise add a batch axis to all operands."""
        x, packed, *parts = inputs
        xp = SYMBOLIC
        if not any(batched[1:]):
            *lead, m, k = xp.shape_of(x)[1:]
            rows = xp.reshape(xp.moveaxis(x, 0, -3), (*lead, size * m, k))
            y = product(self.coding, self.transposed, rows, packed, *parts)
            y = xp.reshape(y, (*lead, size, m, xp.shape_of(y)[-1]))
            return xp.moveaxis(y, -3, 0)  # type: ignore[no-any-return]
        whole = [
            part if flag else xp.broadcast_to(part, (size, *xp.shape_of(part)))
            for part, flag in zip(inputs, batched, strict=True)
        ]
        return product(self.coding, self.transposed, *whole)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class ExpertMatmul(AxisComposite):
    """``x @ w[index]`` of a stack w of matrices of packed codes, of which none is copied.

    Inputs are x ``(*batch, m, k)``, the words ``(experts, rows, words)``, the scales, the biases
    where the kind has them, and the index, integers of shape ``(*batch,)``.

    Attributes:
        kind: As of ``QuantizedMatmul``, as all others.
        bits: The length of a code.
        group_size: How many neighbours share a scale.
        transposed: Whether the words are those of transposes.
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
        """The product with matrices that were taken."""
        return QuantizedMatmul(self.axes, self.kind, self.bits, self.group_size, self.transposed)

    def infer(self, x: TensorType, packed: TensorType, *parts: TensorType) -> TensorType:  # type: ignore[override]
        *numbers, index = parts
        taken = [part.with_shape((*index.shape, *part.shape[1:])) for part in (packed, *numbers)]
        return self.plain.infer(x, *taken)

    def expand(self, x: Tensor, packed: Tensor, *parts: Tensor) -> Tensor:  # type: ignore[override]
        *numbers, index = parts
        return Tensor.make(self.plain, x, *[part[index] for part in (packed, *numbers)])

    def pullback(self, g: Tensor, y: Tensor, *inputs: Tensor) -> Sequence[Any]:
        x, packed, *numbers, index = inputs
        taken = [part[index] for part in (packed, *numbers)]
        by_x, _, *by_numbers = self.plain.pullback(g, y, x, *taken)
        pairs = zip(numbers, by_numbers, strict=True)
        return [by_x, None, *[zeros_like(part)[index].inc(by) for part, by in pairs], None]

    def perform(self, x: Any, packed: Any, *parts: Any) -> Any:
        *numbers, index = parts
        return self.plain.perform(x, *[part[index] for part in (packed, *numbers)])


def rounded_rows(xp: Any, x: Any) -> tuple[Any, Any]:
    """Each row as integers from -127 to 127, and the scale of these, (..., m, 1)."""
    scale = xp.max(xp.abs(x), -1, keepdims=True) / 127
    return xp.round(x / xp.where(scale > 0, scale, xp.ones_like(scale))), scale


def _by_integers(coding: Coding, x: Any, packed: Any, scales: Any) -> Any:
    """Multiply rounded rows by the codes of w's columns; sums of integers in float64 are exact."""
    rows, scale = rounded_rows(NUMPY, x)
    codes = coding.values(NUMPY, coding.codes(NUMPY, packed), "float64")
    a, b = (
        np.moveaxis(coding.grouped(NUMPY, part.astype("float64")), -2, -3) for part in (rows, codes)
    )
    sums = np.matmul(a, np.swapaxes(b, -1, -2)).astype(x.dtype)
    weights = np.expand_dims(np.swapaxes(scales, -1, -2), -2)
    return (sums * weights).sum(-3, dtype=x.dtype) * scale


def _outer(a: Tensor, b: Tensor) -> Tensor:
    """The products of two arrays' last axes, summed over the last but one."""
    batch = tuple(range(a.ndim - 2))
    return Tensor.make(DotGeneral(((a.ndim - 2,), (a.ndim - 2,)), (batch, batch)), a, b)


def product(
    coding: Coding, transposed: bool, x: Any, packed: Any, scales: Any, biases: Any = None
) -> Any:
    """``x @ w`` of arrays of any library, x ``(*batch, m, k)`` and w a matrix of packed codes.

    Args:
        coding: What the codes mean.
        transposed: Whether the words are those of w's transpose.
        x: Floating numbers.
        packed: Words of uint32, ``(*batch, rows, words)``.
        scales: Of x's dtype, ``(*batch, rows, groups)``.
        biases: Like the scales, where the kind has them.
    """
    parts = (scales,) if biases is None else (scales, biases)
    # Scales of rows that are summed over are no factor of sums of integers.
    coding = coding if transposed else coding.plain
    xp = numpy_like(x, packed, *parts)
    if xp.name == "JAX":
        return jax_arrays().quantized_matmul(coding, transposed, x, packed, *parts)
    if xp.name == "MLX":
        if coding.kind == "w8a8":
            rows, scale = rounded_rows(xp, x)
            x = rows * scale
        w = coding.dense(xp, packed, *parts)
        return xp.matmul(x, xp.swapaxes(w, -1, -2) if transposed else w)
    axis = len(lengths_of(x)) - 1
    op = QuantizedMatmul((axis,), coding.kind, coding.bits, coding.group_size, transposed)
    if xp.name == "NumPy":
        return op.perform(x, packed, *parts)
    return Tensor.make(op, x, packed, *parts)
