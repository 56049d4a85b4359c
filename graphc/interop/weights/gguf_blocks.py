"""Conversion of the blocks of GGUF's kinds to codes and scales, and back.

A block is some bytes for 32 to 256 neighbouring elements. Here all blocks of a tensor are one array
of bytes, ``(blocks, bytes)``, and their codes another, ``(blocks, elements)``.

Source: https://github.com/ggml-org/ggml/blob/master/src/ggml-quants.c; the layouts are in
``ggml-common.h``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Parts = tuple[Array, ...]

HALF = 2
"""The number of bytes of a float16."""


def halves(data: Array) -> Array:
    """Convert bytes of float16 numbers to float32."""
    return np.ascontiguousarray(data).view("<f2").astype("float32")


def as_halves(x: Array) -> Array:
    """Convert numbers that are float16 exactly to bytes."""
    return np.ascontiguousarray(x.astype("<f2")).view("uint8")


def unpack(data: Array, bits: int, width: int) -> Array:
    """Unpack codes of a few bits: from each run of bytes the lowest bits of all, then the next.

    Args:
        data: ``(blocks, bytes)``.
        bits: The length of a code, 1, 2 or 4.
        width: The number of bytes of a run.
    """
    shifts = np.arange(0, 8, bits, dtype="uint8")[:, None]
    rows, n = data.shape
    runs = data.reshape(rows, n // width, 1, width) >> shifts
    return (runs & np.uint8(2**bits - 1)).reshape(rows, n * 8 // bits)


def pack(codes: Array, bits: int, width: int) -> Array:
    """Pack codes to bytes: the inverse of ``unpack``."""
    shifts = np.arange(0, 8, bits, dtype="uint8")[:, None]
    rows, n = codes.shape
    each = 8 // bits
    runs = codes.astype("uint8").reshape(rows, n // each // width, each, width) << shifts
    data: Array = np.bitwise_or.reduce(runs, -2).reshape(rows, n // each)
    return data


def _unpack_bits(data: Array) -> Array:
    return np.unpackbits(np.ascontiguousarray(data), axis=-1, bitorder="little")


def _pack_bits(bits: Array) -> Array:
    return np.packbits(bits, axis=-1, bitorder="little")


def split(data: Array, *sizes: int) -> list[Array]:
    """Split each block at sizes in bytes; the last part is the rest."""
    return np.split(data, np.cumsum(sizes), axis=-1)


def join(*parts: Array) -> Array:
    """Join the bytes of parts of blocks."""
    return np.concatenate(parts, -1)


# One scale per block, and optionally a minimum: the scale, the minimum, the fifth bits, the rest.


def _single(bits: int, has_minimum: bool) -> tuple[Callable[..., Parts], Callable[..., Array]]:
    high = 4 if bits == 5 else 0

    def read(data: Array) -> Parts:
        heads, fifth, low = split(data, HALF * (1 + has_minimum), high)
        codes = low ^ np.uint8(128) if bits == 8 else unpack(low, 4, 16)
        if high:
            codes = codes | _unpack_bits(fifth) << np.uint8(4)
        return (codes, *np.split(halves(heads), 1 + has_minimum, -1))

    def write(codes: Array, *numbers: Array) -> Array:
        fifth = _pack_bits(codes >> np.uint8(4)) if high else codes[:, :0]
        low = codes ^ np.uint8(128) if bits == 8 else pack(codes & np.uint8(15), 4, 16)
        return join(*map(as_halves, numbers), fifth, low)

    return read, write


# K-quants: 256 elements, whose scales and minimums are integers times factors of the block.


def _read_q2(data: Array) -> Parts:
    pairs, low, heads = split(data, 16, 64)
    factor, minimum_factor = np.split(halves(heads), 2, -1)
    return unpack(low, 2, 32), pairs & np.uint8(15), factor, pairs >> np.uint8(4), minimum_factor


def _write_q2(codes: Array, scales: Array, factor: Array, minimums: Array, least: Array) -> Array:
    pairs = scales.astype("uint8") | minimums.astype("uint8") << np.uint8(4)
    return join(pairs, pack(codes, 2, 32), as_halves(factor), as_halves(least))


def _read_q3(data: Array) -> Parts:
    third, low, scales, factor = split(data, 32, 64, 12)
    # Numbers from -4 to 3, as codes of four bits with the offset 8.
    codes = (unpack(low, 2, 32) | unpack(third, 1, 32) << np.uint8(2)) + np.uint8(4)
    four, two = split(scales, 8)
    six = unpack(four, 4, 8) | unpack(two, 2, 4) << np.uint8(4)
    return codes, six.astype("int8") - np.int8(32), halves(factor)


def _write_q3(codes: Array, scales: Array, factor: Array) -> Array:
    codes = codes - np.uint8(4)
    six = (scales + np.int8(32)).astype("uint8")
    four, two = pack(six & np.uint8(15), 4, 8), pack(six >> np.uint8(4), 2, 4)
    low = pack(codes & np.uint8(3), 2, 32)
    return join(pack(codes >> np.uint8(2), 1, 32), low, four, two, as_halves(factor))


def _unpack_six_bits(data: Array) -> tuple[Array, Array]:
    scales, minimums, rest = split(data, 4, 4)
    low, high = np.uint8(63), np.uint8(48)
    return (
        join(scales & low, rest & np.uint8(15) | scales >> np.uint8(2) & high),
        join(minimums & low, rest >> np.uint8(4) | minimums >> np.uint8(2) & high),
    )


def _pack_six_bits(scales: Array, minimums: Array) -> Array:
    (first, last), (low, high) = (split(x.astype("uint8"), 4) for x in (scales, minimums))
    heads = [a | (b >> np.uint8(4)) << np.uint8(6) for a, b in ((first, last), (low, high))]
    return join(*heads, last & np.uint8(15) | (high & np.uint8(15)) << np.uint8(4))


def _read_q45(data: Array) -> Parts:
    heads, six, rest = split(data, 2 * HALF, 12)
    factor, minimum_factor = np.split(halves(heads), 2, -1)
    fifth, low = split(rest, rest.shape[-1] - 128)
    codes = unpack(low, 4, 32)
    if fifth.shape[-1]:
        codes = codes | unpack(fifth, 1, 32) << np.uint8(4)
    scales, minimums = _unpack_six_bits(six)
    return codes, scales, factor, minimums, minimum_factor


def _write_q4(codes: Array, scales: Array, factor: Array, minimums: Array, least: Array) -> Array:
    heads = as_halves(factor), as_halves(least), _pack_six_bits(scales, minimums)
    return join(*heads, pack(codes, 4, 32))


def _write_q5(codes: Array, scales: Array, factor: Array, minimums: Array, least: Array) -> Array:
    heads = as_halves(factor), as_halves(least), _pack_six_bits(scales, minimums)
    fifth = pack(codes >> np.uint8(4), 1, 32)
    return join(*heads, fifth, pack(codes & np.uint8(15), 4, 32))


def _read_q6(data: Array) -> Parts:
    low, high, scales, factor = split(data, 128, 64, 16)
    codes = unpack(low, 4, 64) | unpack(high, 2, 32) << np.uint8(4)
    return codes, scales.view("int8"), halves(factor)


def _write_q6(codes: Array, scales: Array, factor: Array) -> Array:
    low, high = pack(codes & np.uint8(15), 4, 64), pack(codes >> np.uint8(4), 2, 32)
    return join(low, high, scales.astype("int8").view("uint8"), as_halves(factor))


# Ternary numbers, as codes of two bits with the offset 2.

POWERS = np.array([1, 3, 9, 27, 81], "uint8")
RUNS = ((32, 5), (16, 5), (4, 4))
"""The bytes of each run of TQ1_0, and the ternary digits of a byte."""


def _read_tq1(data: Array) -> Parts:
    *runs, factor = split(data, *[width for width, _ in RUNS])
    digits = [
        (run[:, None, :] * POWERS[:count, None]).reshape(len(run), count * width)
        for run, (width, count) in zip(runs, RUNS, strict=True)
    ]
    codes = join(*digits).astype("uint16") * 3 >> 8
    return codes.astype("uint8") + np.uint8(1), halves(factor)


def _write_tq1(codes: Array, factor: Array) -> Array:
    groups = split(codes - np.uint8(1), *[width * count for width, count in RUNS])[:-1]
    runs = []
    for part, (width, count) in zip(groups, RUNS, strict=True):
        digits = part.reshape(len(part), count, width).astype("uint16")
        runs.append((digits * POWERS[4 - np.arange(count), None]).sum(1))
    # A byte is the number as a fraction of 256, whose highest digits are read first.
    data = [((run * 256 + 242) // 243).astype("uint8") for run in runs]
    return join(*data, as_halves(factor))


def _read_tq2(data: Array) -> Parts:
    low, factor = split(data, 64)
    return unpack(low, 2, 32) + np.uint8(1), halves(factor)


def _write_tq2(codes: Array, factor: Array) -> Array:
    return join(pack(codes - np.uint8(1), 2, 32), as_halves(factor))


# Narrow floating numbers, with scales of eight bits.


def _read_mx(data: Array) -> Parts:
    scale, low = split(data, 1)
    return unpack(low, 4, 16), scale


def _write_mx(codes: Array, scale: Array) -> Array:
    return join(scale, pack(codes, 4, 16))


def _read_nv(data: Array) -> Parts:
    scales, low = split(data, 4)
    return unpack(low, 4, 8), scales


def _write_nv(codes: Array, scales: Array) -> Array:
    return join(scales, pack(codes, 4, 8))


def _read_signs(data: Array) -> Parts:
    factor, signs = split(data, HALF)
    return _unpack_bits(signs), halves(factor)


def _write_signs(codes: Array, factor: Array) -> Array:
    return join(as_halves(factor), _pack_bits(codes))


BLOCKS: dict[str, tuple[int, int, Callable[..., Sequence[Array]], Callable[..., Array]]] = {
    "Q4_0": (32, 18, *_single(4, False)),
    "Q4_1": (32, 20, *_single(4, True)),
    "Q5_0": (32, 22, *_single(5, False)),
    "Q5_1": (32, 24, *_single(5, True)),
    "Q8_0": (32, 34, *_single(8, False)),
    "Q2_K": (256, 84, _read_q2, _write_q2),
    "Q3_K": (256, 110, _read_q3, _write_q3),
    "Q4_K": (256, 144, _read_q45, _write_q4),
    "Q5_K": (256, 176, _read_q45, _write_q5),
    "Q6_K": (256, 210, _read_q6, _write_q6),
    "TQ1_0": (256, 54, _read_tq1, _write_tq1),
    "TQ2_0": (256, 66, _read_tq2, _write_tq2),
    "MXFP4": (32, 17, _read_mx, _write_mx),
    "NVFP4": (64, 36, _read_nv, _write_nv),
    "Q1_0": (128, 18, _read_signs, _write_signs),
}
"""The elements and bytes of a block of each kind, and the functions that read and write it."""
