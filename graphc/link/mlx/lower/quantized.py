"""Products with packed codes: ``mx.quantized_matmul``, or faster code on MLX's processor.

MLX has no kernel for NF4 or float64. On the processor, its kernel for words of w's columns is slow,
as it adds numbers one by one. There a table of the 256 bytes decodes codes, which
``mx.take_along_axis`` reads in a few instructions; sums run along axes over which neighbours stay
adjacent, so that one instruction adds several numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import mlx.core as mx
import numpy as np

from graphc.implicit.namespace import MLX
from graphc.implicit.quantized import ExpertMatmul, QuantizedMatmul
from graphc.implicit.quantized.coding import WORD, Coding, shorten_groups, table_of
from graphc.implicit.quantized.matmul import round_rows
from graphc.ir import Node, is_integer
from graphc.link.mlx.arrays import contiguous
from graphc.link.mlx.backend import WIDE, backend
from graphc.link.mlx.devices import device_choice
from graphc.link.mlx.lower.index import normalize_indices
from graphc.link.patterns import pattern
from graphc.tensor.arrays.index import HOLE, Index, Range

WIDE |= {QuantizedMatmul, ExpertMatmul}

BLOCK = 2**19
"""Elements decoded at a time, 2 MB of float32; MLX may be some ten blocks ahead."""

GROUP_SIZES = (32, 64, 128)
"""Numbers of neighbours that may share a scale in MLX's kernels."""

MOST_IN_GROUP = max(GROUP_SIZES)
"""Minimum number of columns in transposed words."""

BYTE = 8
"""Bits of a byte."""

LONG = 64
"""Bits of a word that MLX moves as fast as one of 32 bits."""

FEW_ROWS = 4
"""Rows of x that are multiplied with words of w's columns without a transpose."""


@backend.lower(QuantizedMatmul)
def quantized_matmul(op: QuantizedMatmul, x: Any, packed: Any, *numbers: Any) -> Any:
    """Multiply by MLX's kernel, or matrix by matrix in the fastest way."""
    coding, (rows, words) = op.coding, packed.shape[-2:]
    n = rows if op.transposed else coding.columns_of(words)
    shape = (*x.shape[:-1], n)
    if 0 in (*shape, x.shape[-1]):
        return mx.zeros(shape, x.dtype)
    if coding.kind == "w8a8":
        return _by_integers(coding, x, packed, *numbers)
    coding, *affine = _as_affine(*shorten_groups(MLX, coding, *numbers))
    in_columns = device_choice("words in columns")
    if _has_kernel(coding, x) and (in_columns or not op.transposed):
        return _by_kernel(coding, op.transposed, x, packed, *affine)
    # Narrow numbers are summed in float32.
    dtype = mx.float64 if x.dtype == mx.float64 else mx.float32
    scaling = [part.astype(dtype) for part in affine]
    way = _way(coding, op.transposed, not in_columns, x)
    arrays = [array.reshape(-1, *array.shape[-2:]) for array in (x.astype(dtype), packed, *scaling)]
    products = [way(coding, *[array[i] for array in arrays]) for i in range(arrays[0].shape[0])]
    return mx.stack(products).reshape(shape).astype(x.dtype)


@pattern(ExpertMatmul)
def matrices_of_experts(node: Node) -> Iterator[Node]:
    """``x @ w[i]`` for a stack ``w`` of packed matrices gathers no words."""
    if not isinstance(node.op, QuantizedMatmul):
        return
    op, (x, *words) = node.op, node.inputs
    gathers = {(part.op, part.type.ndim, *part.inputs[1:]) for part in words}
    if len(gathers) > 1 or words[0].op != Index((HOLE, Range(), Range())):
        return
    stacks, (_, index) = [part.inputs[0] for part in words], words[0].inputs
    if index.type.ndim and is_integer(index.type.dtype):
        product = ExpertMatmul(op.axes, op.kind, op.bits, op.group_size, op.transposed)
        yield Node.make(product, x, *stacks, index)


@backend.lower(ExpertMatmul)
def expert_matmul(op: ExpertMatmul, x: Any, packed: Any, *parts: Any) -> Any:
    """Multiply by ``mx.gather_qmm``; for kinds without a kernel, gather the words."""
    *numbers, index = parts
    if not packed.shape[0]:
        raise IndexError("an index is out of bounds for axis 0 of length 0")
    indices, _ = normalize_indices(index, packed.shape[0])
    coding, *affine = _as_affine(*shorten_groups(MLX, op.plain.coding, *numbers))
    if 0 in (*x.shape, *packed.shape) or not _has_kernel(coding, x):
        gathered = [mx.take(part, indices, 0) for part in (packed, *numbers)]
        return quantized_matmul(op.plain, x, *gathered)
    return mx.gather_qmm(
        x,
        packed,
        **_settings(coding, affine),
        rhs_indices=indices.astype(mx.uint32),
        transpose=op.transposed,
    )


MAX_EXACT = 1024
"""Products of 8-bit integers whose sum is exact in float32."""


def _by_integers(coding: Coding, x: Any, packed: Any, scales: Any) -> Any:
    """Multiply rounded rows by the codes of w's columns; MLX multiplies only floats."""
    rows, scale = round_rows(MLX, x)
    codes = packed.view(mx.uint8).astype(mx.float32) - 2 ** (BYTE - 1)
    y: Any = 0
    for group in range(scales.shape[-1]):
        start, stop = group * coding.group_size, (group + 1) * coding.group_size
        total: Any = 0
        for first in range(start, stop, MAX_EXACT):
            block = (..., slice(first, min(first + MAX_EXACT, stop)))
            sums = rows[block].astype(mx.float32) @ mx.swapaxes(codes[block], -1, -2)
            total = total + sums.astype(mx.int32)
        y = y + total.astype(x.dtype) * mx.expand_dims(scales[..., group], -2)
    return y * scale


def _as_affine(coding: Coding, *numbers: Any) -> tuple[Any, ...]:
    """Return codes as affine codes, with a bias for each group.

    A sign is a code of one bit: the step is twice the magnitude, and the bias its negative.
    """
    if coding.kind not in {"1bit", "integer", "ternary", "w8a8"}:
        return coding, *numbers
    (scales,) = numbers
    affine = replace(coding, kind="affine")
    if coding.kind == "1bit":
        return affine, scales * 2, -scales
    return affine, scales, scales * -(2 ** (coding.bits - 1))


def _has_kernel(coding: Coding, x: Any) -> bool:
    """Return whether MLX multiplies codes of this kind by numbers of x's dtype."""
    if x.dtype == mx.float64:
        return False
    if coding.kind in SCALE_CODES:
        return _has_mode(coding.kind)
    is_supported = coding.group_size in GROUP_SIZES and (coding.bits > 1 or _has_single_bits())
    return coding.kind == "affine" and is_supported


@cache
def _has_mode(kind: str) -> bool:
    """Return whether this MLX release has a format whose scales are codes."""
    try:
        x = mx.ones((1, 32))
        mx.eval(mx.quantized_matmul(x, *mx.quantize(x, mode=kind), mode=kind))
    except (TypeError, ValueError, RuntimeError):
        return False
    return True


def _as_exponents(scales: Any) -> Any:
    """Return the codes of powers of two: the exponents of float32."""
    return mx.right_shift(scales.astype(mx.float32).view(mx.uint32), 23).astype(mx.uint8)


SCALE_CODES: dict[str, Callable[[Any], Any]] = {
    "mxfp4": _as_exponents,
    "mxfp8": _as_exponents,
    "nvfp4": mx.to_fp8,
}
"""Functions that convert scales to codes, exactly, for MLX's formats."""


@cache
def _has_single_bits() -> bool:
    """Return whether this MLX release has codes of one bit."""
    try:
        weights = (mx.zeros((1, 1), mx.uint32), mx.ones((1, 1)), mx.ones((1, 1)))
        y = mx.quantized_matmul(mx.ones((1, 32)), *weights, group_size=32, bits=1)
        mx.eval(y)
    except (ValueError, RuntimeError):
        return False
    return True


def _by_kernel(coding: Coding, transposed: bool, x: Any, packed: Any, *numbers: Any) -> Any:
    return mx.quantized_matmul(x, packed, **_settings(coding, numbers), transpose=transposed)


def _settings(coding: Coding, numbers: Sequence[Any]) -> dict[str, Any]:
    sizes = {"group_size": coding.group_size, "bits": coding.bits}
    if coding.kind in SCALE_CODES:
        return {"scales": SCALE_CODES[coding.kind](numbers[0]), "mode": coding.kind, **sizes}
    scales, biases = numbers
    return {"scales": scales, "biases": biases, **sizes}


def _way(coding: Coding, transposed: bool, on_cpu: bool, x: Any) -> Callable[..., Any]:
    """Return the product of matrices that is fastest for the number of rows of x."""
    if coding.unit_words > 1 or coding.has_digits or coding.group_size * coding.bits % LONG:
        return _by_columns if transposed else _by_rows
    few = x.shape[-2] <= (FEW_ROWS if coding.bits < BYTE else FEW_ROWS // 2)
    if not transposed:
        return _by_rows
    if on_cpu and few:
        return _by_tables if coding.bits < BYTE else _by_sums
    return _by_transposed_words if on_cpu and x.dtype != mx.float64 else _by_columns


# Decoding.


@cache
def _numbers(kind: str, bits: int) -> np.ndarray[Any, Any]:
    """Return the float32 numbers of the codes in each byte, (256, codes in a byte)."""
    codes = np.arange(2**BYTE)[:, None] >> np.arange(0, BYTE, bits) & 2**bits - 1
    numbers: np.ndarray[Any, Any] = table_of(kind, bits)[codes]
    return numbers


def _decode(coding: Coding, words: Any, dtype: Any) -> Any:
    """Return the unscaled numbers of the codes in rows of words, (rows, groups, codes)."""
    shape = (words.shape[0], -1, coding.group_size)
    if coding.unit_words > 1 or coding.has_digits:
        return coding.values(MLX, coding.codes(MLX, words), str(dtype).split(".")[-1]).reshape(
            shape
        )
    bytes_ = words.view(mx.uint8)
    numbers = _numbers(coding.kind, coding.bits)
    if coding.bits == BYTE and coding.kind == "affine":
        return bytes_.astype(dtype).reshape(shape)
    if coding.bits == BYTE:
        return mx.take(mx.array(numbers[:, 0]), bytes_).astype(dtype).reshape(shape)
    # Two float32 numbers are read at once, as one number of 64 bits.
    pairs = np.ascontiguousarray(numbers.reshape(len(numbers), -1, 2).swapaxes(0, 1)).view("int64")
    flat = bytes_.reshape(-1)
    columns = [mx.take_along_axis(mx.array(pair[:, 0]), flat, 0).view(mx.float32) for pair in pairs]
    y = columns[0] if len(columns) == 1 else mx.stack([part.reshape(-1, 2) for part in columns], 1)
    return y.reshape(shape).astype(dtype)


def _repeat(x: Any, axis: int, count: int) -> Any:
    """Repeat x along a new axis.

    With a view, ``mx.compile`` would compute a product one number at a time.
    """
    x = contiguous(x)
    strides = [1]
    for length in reversed(x.shape[1:]):
        strides.insert(0, strides[0] * length)
    shape = [*x.shape[:axis], count, *x.shape[axis:]]
    return mx.as_strided(x, shape, [*strides[:axis], 0, *strides[axis:]])


def _dequantize(coding: Coding, packed: Any, scales: Any, biases: Any = None) -> Any:
    y = _decode(coding, packed, scales.dtype) * _repeat(scales, 2, coding.group_size)
    if biases is not None:
        y = y + _repeat(biases, 2, coding.group_size)
    return y.reshape(packed.shape[0], -1)


def _blocks(size: int, rows: int, *arrays: Any) -> Iterator[tuple[Any, ...]]:
    """Split the rows of arrays into parts of at most BLOCK elements, of ``size`` for each row."""
    step = max(1, BLOCK // size)
    for start in range(0, rows, step):
        yield tuple(array[start : start + step] for array in arrays)


def _sum(terms: Any) -> Any:
    first, *others = terms
    return sum(others, first)


# Products of matrices x (m, k) with words of w's rows or columns, given scales and biases.


def _by_rows(coding: Coding, x: Any, packed: Any, *numbers: Any) -> Any:
    """Multiply some rows of w at a time; for one row of x, sum products, which is faster."""
    rows, n = packed.shape[0], coding.columns_of(packed.shape[1])
    if x.shape[0] > 1 or len(numbers) > 1:
        blocks = _blocks(n, rows, mx.swapaxes(x, 0, 1), packed, *numbers)
        return _sum(mx.swapaxes(xs, 0, 1) @ _dequantize(coding, *words) for xs, *words in blocks)
    (scales,) = numbers
    blocks = _blocks(n, rows, packed, mx.reshape(x, (rows, 1)) * scales)
    size = coding.group_size
    terms = (
        (_decode(coding, words, x.dtype) * _repeat(scale, 2, size)).sum(0)
        for words, scale in blocks
    )
    return _sum(terms).reshape(1, n)


def _by_columns(coding: Coding, x: Any, packed: Any, *numbers: Any) -> Any:
    blocks = _blocks(x.shape[1], packed.shape[0], packed, *numbers)
    return mx.concatenate(
        [x @ mx.swapaxes(_dequantize(coding, *words), 0, 1) for words in blocks], 1
    )


def _by_sums(coding: Coding, x: Any, packed: Any, scales: Any, *biases: Any) -> Any:
    """Multiply each column of w by x, and add the sums of groups."""
    m, (n, groups) = x.shape[0], scales.shape
    rows = x.reshape(m, groups, coding.group_size)
    blocks = []
    for words, scale in _blocks(x.shape[1], n, packed, scales):
        codes = _decode(coding, words, x.dtype)
        repeated = [_repeat(row, 0, len(scale)) for row in rows]
        blocks.append(mx.stack([((codes * row).sum(-1) * scale).sum(-1) for row in repeated]))
    return _with_biases(mx.concatenate(blocks, 1), coding, x, *biases)


def _by_tables(coding: Coding, x: Any, packed: Any, scales: Any, *biases: Any) -> Any:
    """Add the contributions of bytes of codes, which tables contain for each position of a byte.

    A table has the products of the codes of all 256 bytes with the elements of x at its position.
    """
    m, (n, groups) = x.shape[0], scales.shape
    numbers = mx.array(np.ascontiguousarray(_numbers(coding.kind, coding.bits).T), x.dtype)
    positions = packed.shape[1] * (WORD // BYTE)
    tables = x.reshape(m, positions, -1) @ numbers
    width = LONG if packed.shape[1] % 2 == 0 else WORD
    lanes = width // BYTE
    tables = tables.reshape(m, positions // lanes, lanes, -1)
    blocks = []
    for words, scale in _blocks(m * positions, n, packed, scales):
        wide = words.view(mx.uint64) if width == LONG else words
        bytes_ = contiguous(mx.swapaxes(wide, 0, 1)).view(mx.uint8)
        index = mx.swapaxes(bytes_.reshape(positions // lanes, -1, lanes), 1, 2)
        index = mx.broadcast_to(index, (m, *index.shape))
        sums = (
            mx.take_along_axis(tables, index, 3).reshape(m, groups, positions // groups, -1).sum(2)
        )
        blocks.append((sums * mx.swapaxes(scale, 0, 1)).sum(1))
    return _with_biases(mx.concatenate(blocks, 1), coding, x, *biases)


def _with_biases(y: Any, coding: Coding, x: Any, biases: Any = None) -> Any:
    """Add the product of biases, each of which belongs to a group."""
    if biases is None:
        return y
    sums = x.reshape(x.shape[0], -1, coding.group_size).sum(-1)
    return y + sums @ mx.swapaxes(biases, 0, 1)


# Transposed words.


def _by_transposed_words(coding: Coding, x: Any, packed: Any, scales: Any, *biases: Any) -> Any:
    """Multiply words of w's rows, group by group of the summed axis, then scale."""
    (n, groups), size = scales.shape, coding.group_size
    padding = -n % MOST_IN_GROUP
    padded = mx.pad(packed, [(0, padding), (0, 0)]) if padding else packed
    words = _transpose_words(padded, coding.bits)
    words = words.reshape(groups, size, -1)
    rows = mx.swapaxes(x.reshape(x.shape[0], groups, size), 0, 1)
    factors = mx.expand_dims(contiguous(mx.swapaxes(scales, 0, 1)), 1)
    if coding.kind == "affine":
        ones = mx.ones((groups, size, (n + padding) // MOST_IN_GROUP), x.dtype)
        plain = replace(coding, group_size=MOST_IN_GROUP)
        sums = _by_kernel(plain, False, rows, words, ones, mx.zeros_like(ones))
        return _with_biases((sums[..., :n] * factors).sum(0), coding, x, *biases)
    blocks = _blocks(size * (n + padding), groups, rows, words, factors)

    def multiply(row: Any, words: Any, scale: Any) -> Any:
        codes = _decode(coding, words, x.dtype).reshape(*words.shape[:2], -1)
        return ((row @ codes)[..., :n] * scale).sum(0)

    return _sum(multiply(*block) for block in blocks)


def _transpose_words(packed: Any, bits: int) -> Any:
    """Return the words of a matrix's columns, given the words of its rows.

    Squares with as many rows as a word has codes are transposed by halves: each step swaps halves
    of two words.
    """
    wide, bits_of_word = (packed, WORD) if packed.shape[1] % 2 else (packed.view(mx.uint64), LONG)
    (rows, words), size, dtype = wide.shape, bits_of_word // bits, wide.dtype
    squares = contiguous(wide.reshape(rows // size, size, words).transpose(1, 2, 0))
    lines, half = [squares[i] for i in range(size)], size // 2
    while half:
        firsts = [i for i in range(size) if not i & half]
        mask = mx.array(sum((2**bits - 1) << bits * i for i in firsts), dtype)
        shift = mx.array(bits * half, dtype)
        for i in firsts:
            a, b = lines[i], lines[i + half]
            difference = (mx.right_shift(a, shift) ^ b) & mask
            lines[i], lines[i + half] = a ^ mx.left_shift(difference, shift), b ^ difference
        half //= 2
    return mx.stack(lines, 1).reshape(words * size, rows // size).view(mx.uint32)
