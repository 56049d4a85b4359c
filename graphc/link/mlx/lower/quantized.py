"""Products with packed codes: ``mx.quantized_matmul``, or what is faster on MLX's processor.

MLX has no kernel for NF4 and none for float64, and on the processor a slow one where words are of
w's columns, which adds one number after the other. There codes are decoded by a table of the 256
bytes, which ``mx.take_along_axis`` reads in a few instructions; sums are along axes over which
neighbours stay neighbours, so that they are made of several numbers at once.
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
from graphc.implicit.quantized.coding import WORD, Coding, regrouped, table_of
from graphc.implicit.quantized.matmul import rounded_rows
from graphc.ir import Node, is_integer
from graphc.link.mlx.arrays import contiguous
from graphc.link.mlx.backend import WIDE, backend
from graphc.link.mlx.lower.arrays.index import settled
from graphc.link.patterns import pattern
from graphc.tensor.arrays.index import HOLE, Index, Range

WIDE |= {QuantizedMatmul, ExpertMatmul}

BLOCK = 2**19
"""So many elements are decoded at a time, 2 MB of float32. MLX may be some ten blocks ahead."""

GROUP_SIZES = (32, 64, 128)
"""How many neighbours may share a scale in MLX's kernels."""

MOST_IN_GROUP = max(GROUP_SIZES)
"""So many columns at least are in words that were turned."""

BYTE = 8
"""The bits of a byte."""

LONG = 64
"""The bits of a word that MLX moves as fast as one of 32."""

FEW = 4
"""So many rows of x are multiplied with words of w's columns as these lie."""


@backend.lower(QuantizedMatmul)
def quantized_matmul(op: QuantizedMatmul, x: Any, packed: Any, *parts: Any) -> Any:
    """Multiply by MLX's kernel, or matrix by matrix in the way that is fastest."""
    coding, (rows, words) = op.coding, packed.shape[-2:]
    n = rows if op.transposed else coding.columns_of(words)
    shape = (*x.shape[:-1], n)
    if 0 in (*shape, x.shape[-1]):
        return mx.zeros(shape, x.dtype)
    if coding.kind == "w8a8":
        return _by_integers(coding, x, packed, *parts)
    coding, *affine = _as_affine(*regrouped(MLX, coding, *parts))
    on_cpu = mx.default_device().type == mx.cpu
    if _has_kernel(coding, x) and not (op.transposed and on_cpu):
        return _by_kernel(coding, op.transposed, x, packed, *affine)
    # Narrow numbers are added up in float32.
    wide = mx.float64 if x.dtype == mx.float64 else mx.float32
    numbers = [part.astype(wide) for part in affine]
    way = _way(coding, op.transposed, on_cpu, x)
    arrays = [array.reshape(-1, *array.shape[-2:]) for array in (x.astype(wide), packed, *numbers)]
    found = [way(coding, *[array[i] for array in arrays]) for i in range(arrays[0].shape[0])]
    return mx.stack(found).reshape(shape).astype(x.dtype)


@pattern(ExpertMatmul)
def matrices_of_experts(node: Node) -> Iterator[Node]:
    """A product with matrices that an index takes of a packed stack leaves the words in place."""
    if not isinstance(node.op, QuantizedMatmul):
        return
    op, (x, *words) = node.op, node.inputs
    taken = {(part.op, part.type.ndim, *part.inputs[1:]) for part in words}
    if len(taken) > 1 or words[0].op != Index((HOLE, Range(), Range())):
        return
    stacks, (_, index) = [part.inputs[0] for part in words], words[0].inputs
    if index.type.ndim and is_integer(index.type.dtype):
        made = ExpertMatmul(op.axes, op.kind, op.bits, op.group_size, op.transposed)
        yield Node.make(made, x, *stacks, index)


@backend.lower(ExpertMatmul)
def expert_matmul(op: ExpertMatmul, x: Any, packed: Any, *parts: Any) -> Any:
    """Multiply by ``mx.gather_qmm``; of kinds that it does not have, take the words."""
    *numbers, index = parts
    if not packed.shape[0]:
        raise IndexError("an index is out of bounds for axis 0 of length 0")
    places, _ = settled(index, packed.shape[0])
    coding, *affine = _as_affine(*regrouped(MLX, op.plain.coding, *numbers))
    if 0 in (*x.shape, *packed.shape) or not _has_kernel(coding, x):
        taken = [mx.take(part, places, 0) for part in (packed, *numbers)]
        return quantized_matmul(op.plain, x, *taken)
    return mx.gather_qmm(
        x,
        packed,
        **_settings(coding, affine),
        rhs_indices=places.astype(mx.uint32),
        transpose=op.transposed,
    )


EXACT = 1024
"""So many products of integers of 8 bits have a sum that float32 holds exactly."""


def _by_integers(coding: Coding, x: Any, packed: Any, scales: Any) -> Any:
    """Multiply rounded rows by the codes of w's columns. MLX multiplies floating numbers alone."""
    rows, scale = rounded_rows(MLX, x)
    codes = packed.view(mx.uint8).astype(mx.float32) - 2 ** (BYTE - 1)
    y: Any = 0
    for group in range(scales.shape[-1]):
        start, stop = group * coding.group_size, (group + 1) * coding.group_size
        total: Any = 0
        for first in range(start, stop, EXACT):
            some = (..., slice(first, min(first + EXACT, stop)))
            sums = rows[some].astype(mx.float32) @ mx.swapaxes(codes[some], -1, -2)
            total = total + sums.astype(mx.int32)
        y = y + total.astype(x.dtype) * mx.expand_dims(scales[..., group], -2)
    return y * scale


def _as_affine(coding: Coding, *parts: Any) -> tuple[Any, ...]:
    """Codes that count in steps, with the bias of each group.

    A sign is a code of one bit, of two magnitudes and a bias of minus one.
    """
    if coding.kind not in {"1bit", "integer", "ternary", "w8a8"}:
        return coding, *parts
    (scales,) = parts
    affine = replace(coding, kind="affine")
    if coding.kind == "1bit":
        return affine, scales * 2, -scales
    return affine, scales, scales * -(2 ** (coding.bits - 1))


def _has_kernel(coding: Coding, x: Any) -> bool:
    """Whether MLX multiplies with codes of this kind and numbers of x's dtype."""
    if x.dtype == mx.float64:
        return False
    if coding.kind in SCALE_CODES:
        return _has_mode(coding.kind)
    known = coding.group_size in GROUP_SIZES and (coding.bits > 1 or _has_single_bits())
    return coding.kind == "affine" and known


@cache
def _has_mode(kind: str) -> bool:
    """Whether this MLX has a format whose scales are codes."""
    try:
        x = mx.ones((1, 32))
        mx.eval(mx.quantized_matmul(x, *mx.quantize(x, mode=kind), mode=kind))
    except (TypeError, ValueError, RuntimeError):
        return False
    return True


def _as_exponents(scales: Any) -> Any:
    """The codes of scales that are powers of two: the exponents of float32."""
    return mx.right_shift(scales.astype(mx.float32).view(mx.uint32), 23).astype(mx.uint8)


def _as_narrow_floats(scales: Any) -> Any:
    """The codes of scales that are numbers of ``float8_e4m3fn``."""
    return mx.to_fp8(scales)


SCALE_CODES: dict[str, Callable[[Any], Any]] = {
    "mxfp4": _as_exponents,
    "mxfp8": _as_exponents,
    "nvfp4": _as_narrow_floats,
}
"""For each format of MLX's how scales, which are exact there, become codes."""


@cache
def _has_single_bits() -> bool:
    """Whether this MLX has codes of one bit."""
    try:
        parts = (mx.zeros((1, 1), mx.uint32), mx.ones((1, 1)), mx.ones((1, 1)))
        y = mx.quantized_matmul(mx.ones((1, 32)), *parts, group_size=32, bits=1)
        mx.eval(y)
    except (ValueError, RuntimeError):
        return False
    return True


def _by_kernel(coding: Coding, transposed: bool, x: Any, packed: Any, *numbers: Any) -> Any:
    return mx.quantized_matmul(x, packed, **_settings(coding, numbers), transpose=transposed)


def _settings(coding: Coding, numbers: Sequence[Any]) -> dict[str, Any]:
    """What MLX's kernels are told of codes."""
    sizes = {"group_size": coding.group_size, "bits": coding.bits}
    if coding.kind in SCALE_CODES:
        return {"scales": SCALE_CODES[coding.kind](numbers[0]), "mode": coding.kind, **sizes}
    scales, biases = numbers
    return {"scales": scales, "biases": biases, **sizes}


def _way(coding: Coding, transposed: bool, on_cpu: bool, x: Any) -> Callable[..., Any]:
    """The product of two matrices that is fastest for so many rows of x."""
    if coding.unit_words > 1 or coding.has_digits or coding.group_size * coding.bits % LONG:
        return _by_columns if transposed else _by_rows
    few = x.shape[-2] <= (FEW if coding.bits < BYTE else FEW // 2)
    if not transposed:
        return _by_rows
    if on_cpu and few:
        return _by_tables if coding.bits < BYTE else _by_sums
    return _by_turned_words if on_cpu and x.dtype != mx.float64 else _by_columns


# Decoding.


@cache
def _numbers(kind: str, bits: int) -> np.ndarray[Any, Any]:
    """The numbers of the codes in each of the 256 bytes, (256, codes in a byte), of float32."""
    codes = np.arange(2**BYTE)[:, None] >> np.arange(0, BYTE, bits) & 2**bits - 1
    found: np.ndarray[Any, Any] = table_of(kind, bits)[codes]
    return found


def _decoded(coding: Coding, words: Any, dtype: Any) -> Any:
    """The numbers of the codes in rows of words, (rows, groups, codes), before they are scaled."""
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
    # Two of float32 are read at once, as one number of 64 bits.
    pairs = np.ascontiguousarray(numbers.reshape(len(numbers), -1, 2).swapaxes(0, 1)).view("int64")
    flat = bytes_.reshape(-1)
    found = [mx.take_along_axis(mx.array(pair[:, 0]), flat, 0).view(mx.float32) for pair in pairs]
    y = found[0] if len(found) == 1 else mx.stack([part.reshape(-1, 2) for part in found], 1)
    return y.reshape(shape).astype(dtype)


def _repeated(x: Any, axis: int, count: int) -> Any:
    """Each part as many times, along a new axis.

    ``mx.compile`` fuses no view with a product, which would be made one number at a time then.
    """
    x = contiguous(x)
    strides = [1]
    for length in reversed(x.shape[1:]):
        strides.insert(0, strides[0] * length)
    shape = [*x.shape[:axis], count, *x.shape[axis:]]
    return mx.as_strided(x, shape, [*strides[:axis], 0, *strides[axis:]])


def _scaled(coding: Coding, packed: Any, scales: Any, biases: Any = None) -> Any:
    """The numbers that rows of words stand for."""
    y = _decoded(coding, packed, scales.dtype) * _repeated(scales, 2, coding.group_size)
    if biases is not None:
        y = y + _repeated(biases, 2, coding.group_size)
    return y.reshape(packed.shape[0], -1)


def _blocks(size: int, rows: int, *arrays: Any) -> Iterator[tuple[Any, ...]]:
    """Rows of arrays of which a block has so many elements, some at a time."""
    step = max(1, BLOCK // size)
    for start in range(0, rows, step):
        yield tuple(array[start : start + step] for array in arrays)


def _sum(terms: Any) -> Any:
    first, *others = terms
    return sum(others, first)


# Products of matrices, each of x (m, k) and words of w's rows or columns, with their numbers.


def _by_rows(coding: Coding, x: Any, packed: Any, *numbers: Any) -> Any:
    """Some rows of w at a time; one row of x is summed over, as a product of a few rows is slow."""
    rows, n = packed.shape[0], coding.columns_of(packed.shape[1])
    if x.shape[0] > 1 or len(numbers) > 1:
        blocks = _blocks(n, rows, mx.swapaxes(x, 0, 1), packed, *numbers)
        return _sum(mx.swapaxes(of, 0, 1) @ _scaled(coding, *some) for of, *some in blocks)
    (scales,) = numbers
    blocks = _blocks(n, rows, packed, mx.reshape(x, (rows, 1)) * scales)
    size = coding.group_size
    terms = (
        (_decoded(coding, some, x.dtype) * _repeated(by, 2, size)).sum(0) for some, by in blocks
    )
    return _sum(terms).reshape(1, n)


def _by_columns(coding: Coding, x: Any, packed: Any, *numbers: Any) -> Any:
    """Some columns of w at a time."""
    blocks = _blocks(x.shape[1], packed.shape[0], packed, *numbers)
    return mx.concatenate([x @ mx.swapaxes(_scaled(coding, *some), 0, 1) for some in blocks], 1)


def _by_sums(coding: Coding, x: Any, packed: Any, scales: Any, *biases: Any) -> Any:
    """Each column of w times x, and the sums over groups."""
    m, (n, groups) = x.shape[0], scales.shape
    rows = x.reshape(m, groups, coding.group_size)
    found = []
    for words, by in _blocks(x.shape[1], n, packed, scales):
        codes = _decoded(coding, words, x.dtype)
        found.append(
            mx.stack([((codes * _repeated(row, 0, len(by))).sum(-1) * by).sum(-1) for row in rows])
        )
    return _with_biases(mx.concatenate(found, 1), coding, x, *biases)


def _by_tables(coding: Coding, x: Any, packed: Any, scales: Any, *biases: Any) -> Any:
    """Sums of what the codes in a byte add to a product, which a table has for each place of one.

    A table has the products of 256 bytes with the elements of x at its place.
    """
    m, (n, groups) = x.shape[0], scales.shape
    numbers = mx.array(np.ascontiguousarray(_numbers(coding.kind, coding.bits).T), x.dtype)
    places = packed.shape[1] * (WORD // BYTE)
    tables = x.reshape(m, places, -1) @ numbers
    width = LONG if packed.shape[1] % 2 == 0 else WORD
    lanes = width // BYTE
    tables = tables.reshape(m, places // lanes, lanes, -1)
    found = []
    for words, by in _blocks(m * places, n, packed, scales):
        wide = words.view(mx.uint64) if width == LONG else words
        bytes_ = contiguous(mx.swapaxes(wide, 0, 1)).view(mx.uint8)
        index = mx.swapaxes(bytes_.reshape(places // lanes, -1, lanes), 1, 2)
        index = mx.broadcast_to(index, (m, *index.shape))
        sums = mx.take_along_axis(tables, index, 3).reshape(m, groups, places // groups, -1).sum(2)
        found.append((sums * mx.swapaxes(by, 0, 1)).sum(1))
    return _with_biases(mx.concatenate(found, 1), coding, x, *biases)


def _with_biases(y: Any, coding: Coding, x: Any, biases: Any = None) -> Any:
    """Add the product of biases, each of which belongs to a group."""
    if biases is None:
        return y
    sums = x.reshape(x.shape[0], -1, coding.group_size).sum(-1)
    return y + sums @ mx.swapaxes(biases, 0, 1)


# Words turned.


def _by_turned_words(coding: Coding, x: Any, packed: Any, scales: Any, *biases: Any) -> Any:
    """The product with words of w's rows, group by group of what is summed over, then scaled."""
    (n, groups), size = scales.shape, coding.group_size
    more = -n % MOST_IN_GROUP
    words = _turned(mx.pad(packed, [(0, more), (0, 0)]) if more else packed, coding.bits)
    words = words.reshape(groups, size, -1)
    rows = mx.swapaxes(x.reshape(x.shape[0], groups, size), 0, 1)
    factors = mx.expand_dims(contiguous(mx.swapaxes(scales, 0, 1)), 1)
    if coding.kind == "affine":
        ones = mx.ones((groups, size, (n + more) // MOST_IN_GROUP), x.dtype)
        plain = replace(coding, group_size=MOST_IN_GROUP)
        sums = _by_kernel(plain, False, rows, words, ones, mx.zeros_like(ones))
        return _with_biases((sums[..., :n] * factors).sum(0), coding, x, *biases)
    blocks = _blocks(size * (n + more), groups, rows, words, factors)
    return _sum(
        ((row @ _decoded(coding, some, x.dtype).reshape(*some.shape[:2], -1))[..., :n] * by).sum(0)
        for row, some, by in blocks
    )


def _turned(packed: Any, bits: int) -> Any:
    """Words of a matrix's columns, given those of its rows.

    Squares of as many rows as a word has codes are transposed by halves: in each step, halves of
    two words change places.
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
            change = (mx.right_shift(a, shift) ^ b) & mask
            lines[i], lines[i + half] = a ^ mx.left_shift(change, shift), b ^ change
        half //= 2
    return mx.stack(lines, 1).reshape(words * size, rows // size).view(mx.uint32)
