"""The blocks of GGUF's kinds as codes and scales, and the other way round.

A block is some bytes that stand for 32, 64 or 256 neighbours. Here all blocks of a tensor are one
array of bytes, ``(blocks, bytes)``, and their codes another, ``(blocks, elements)``.

Source: https://github.com/ggml-org/ggml/blob/master/src/ggml-quants.c; the layouts are those of
``ggml-common.h``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Parts = tuple[Array, ...]

HALF = 2
"""The bytes of a float16."""


def halves(data: Array) -> Array:
    """Bytes as numbers of float16, in single width."""
    return np.ascontiguousarray(data).view("<f2").astype("float32")


def as_halves(x: Array) -> Array:
    """Numbers of float16, in any width, as bytes."""
    return np.ascontiguousarray(x.astype("<f2")).view("uint8")


def spread(data: Array, bits: int, width: int) -> Array:
    """Codes of a few bits: of each run of ``width`` bytes the lowest of all, then the next.

    Args:
        data: ``(blocks, bytes)``.
        bits: The length of a code, 1, 2 or 4.
        width: So many bytes are of one run.
    """
    places = np.arange(0, 8, bits, dtype="uint8")[:, None]
    rows, n = data.shape
    runs = data.reshape(rows, n // width, 1, width) >> places
    return (runs & np.uint8(2**bits - 1)).reshape(rows, n * 8 // bits)


def gathered(codes: Array, bits: int, width: int) -> Array:
    """The bytes of which ``spread`` gives these codes."""
    places = np.arange(0, 8, bits, dtype="uint8")[:, None]
    rows, n = codes.shape
    each = 8 // bits
    runs = codes.astype("uint8").reshape(rows, n // each // width, each, width) << places
    made: Array = np.bitwise_or.reduce(runs, -2).reshape(rows, n // each)
    return made


def _bits(data: Array) -> Array:
    """The bits of bytes, the lowest first."""
    return np.unpackbits(np.ascontiguousarray(data), axis=-1, bitorder="little")


def _as_bytes(bits: Array) -> Array:
    return np.packbits(bits, axis=-1, bitorder="little")


def split(data: Array, *sizes: int) -> list[Array]:
    """Parts of each block, of so many bytes; the last is what is left."""
    return np.split(data, np.cumsum(sizes), axis=-1)


def joined(*parts: Array) -> Array:
    """Blocks of parts, each of bytes."""
    return np.concatenate(parts, -1)


# One scale a block, and a minimum or none: the scale, the minimum, the fifth bits, the rest.


def _single(bits: int, has_minimum: bool) -> tuple[Callable[..., Parts], Callable[..., Array]]:
    high = 4 if bits == 5 else 0

    def read(data: Array) -> Parts:
        heads, fifth, low = split(data, HALF * (1 + has_minimum), high)
        codes = low ^ np.uint8(128) if bits == 8 else spread(low, 4, 16)
        if high:
            codes = codes | _bits(fifth) << np.uint8(4)
        return (codes, *np.split(halves(heads), 1 + has_minimum, -1))

    def write(codes: Array, *numbers: Array) -> Array:
        fifth = _as_bytes(codes >> np.uint8(4)) if high else codes[:, :0]
        low = codes ^ np.uint8(128) if bits == 8 else gathered(codes & np.uint8(15), 4, 16)
        return joined(*map(as_halves, numbers), fifth, low)

    return read, write


# K-quants: 256 elements, whose scales and minimums are integers times numbers of the block.


def _read_q2(data: Array) -> Parts:
    both, low, heads = split(data, 16, 64)
    factor, minimum_factor = np.split(halves(heads), 2, -1)
    return spread(low, 2, 32), both & np.uint8(15), factor, both >> np.uint8(4), minimum_factor


def _write_q2(codes: Array, scales: Array, factor: Array, minimums: Array, least: Array) -> Array:
    both = scales.astype("uint8") | minimums.astype("uint8") << np.uint8(4)
    return joined(both, gathered(codes, 2, 32), as_halves(factor), as_halves(least))


def _read_q3(data: Array) -> Parts:
    third, low, scales, factor = split(data, 32, 64, 12)
    # Numbers from -4 to 3, as codes of four bits that stand for themselves less 8.
    codes = (spread(low, 2, 32) | spread(third, 1, 32) << np.uint8(2)) + np.uint8(4)
    four, two = split(scales, 8)
    six = spread(four, 4, 8) | spread(two, 2, 4) << np.uint8(4)
    return codes, six.astype("int8") - np.int8(32), halves(factor)


def _write_q3(codes: Array, scales: Array, factor: Array) -> Array:
    codes = codes - np.uint8(4)
    six = (scales + np.int8(32)).astype("uint8")
    four, two = gathered(six & np.uint8(15), 4, 8), gathered(six >> np.uint8(4), 2, 4)
    low = gathered(codes & np.uint8(3), 2, 32)
    return joined(gathered(codes >> np.uint8(2), 1, 32), low, four, two, as_halves(factor))


def _six_bits(data: Array) -> tuple[Array, Array]:
    """Eight scales and eight minimums of six bits, of 12 bytes."""
    scales, minimums, rest = split(data, 4, 4)
    low, high = np.uint8(63), np.uint8(48)
    return (
        joined(scales & low, rest & np.uint8(15) | scales >> np.uint8(2) & high),
        joined(minimums & low, rest >> np.uint8(4) | minimums >> np.uint8(2) & high),
    )


def _as_six_bits(scales: Array, minimums: Array) -> Array:
    (first, last), (low, high) = (split(part.astype("uint8"), 4) for part in (scales, minimums))
    heads = [
        part | (more >> np.uint8(4)) << np.uint8(6) for part, more in ((first, last), (low, high))
    ]
    return joined(*heads, last & np.uint8(15) | (high & np.uint8(15)) << np.uint8(4))


def _read_q45(data: Array) -> Parts:
    heads, six, rest = split(data, 2 * HALF, 12)
    factor, minimum_factor = np.split(halves(heads), 2, -1)
    fifth, low = split(rest, rest.shape[-1] - 128)
    codes = spread(low, 4, 32)
    if fifth.shape[-1]:
        codes = codes | spread(fifth, 1, 32) << np.uint8(4)
    scales, minimums = _six_bits(six)
    return codes, scales, factor, minimums, minimum_factor


def _write_q4(codes: Array, scales: Array, factor: Array, minimums: Array, least: Array) -> Array:
    heads = as_halves(factor), as_halves(least), _as_six_bits(scales, minimums)
    return joined(*heads, gathered(codes, 4, 32))


def _write_q5(codes: Array, scales: Array, factor: Array, minimums: Array, least: Array) -> Array:
    heads = as_halves(factor), as_halves(least), _as_six_bits(scales, minimums)
    fifth = gathered(codes >> np.uint8(4), 1, 32)
    return joined(*heads, fifth, gathered(codes & np.uint8(15), 4, 32))


def _read_q6(data: Array) -> Parts:
    low, high, scales, factor = split(data, 128, 64, 16)
    codes = spread(low, 4, 64) | spread(high, 2, 32) << np.uint8(4)
    return codes, scales.view("int8"), halves(factor)


def _write_q6(codes: Array, scales: Array, factor: Array) -> Array:
    low, high = gathered(codes & np.uint8(15), 4, 64), gathered(codes >> np.uint8(4), 2, 32)
    return joined(low, high, scales.astype("int8").view("uint8"), as_halves(factor))


# Ternary numbers, as codes of two bits that stand for themselves less 2.

POWERS = np.array([1, 3, 9, 27, 81], "uint8")
RUNS = ((32, 5), (16, 5), (4, 4))
"""Of TQ1_0 how many bytes a run has, and how many ternary digits a byte."""


def _read_tq1(data: Array) -> Parts:
    *runs, factor = split(data, *[width for width, _ in RUNS])
    digits = [
        (run[:, None, :] * POWERS[:count, None]).reshape(len(run), count * width)
        for run, (width, count) in zip(runs, RUNS, strict=True)
    ]
    codes = joined(*digits).astype("uint16") * 3 >> 8
    return codes.astype("uint8") + np.uint8(1), halves(factor)


def _write_tq1(codes: Array, factor: Array) -> Array:
    parts = split(codes - np.uint8(1), *[width * count for width, count in RUNS])[:-1]
    runs = []
    for part, (width, count) in zip(parts, RUNS, strict=True):
        digits = part.reshape(len(part), count, width).astype("uint16")
        runs.append((digits * POWERS[4 - np.arange(count), None]).sum(1))
    # A byte is the number as a share of 256, of which the highest digits are read first.
    made = [((run * 256 + 242) // 243).astype("uint8") for run in runs]
    return joined(*made, as_halves(factor))


def _read_tq2(data: Array) -> Parts:
    low, factor = split(data, 64)
    return spread(low, 2, 32) + np.uint8(1), halves(factor)


def _write_tq2(codes: Array, factor: Array) -> Array:
    return joined(gathered(codes - np.uint8(1), 2, 32), as_halves(factor))


# Narrow floating numbers, with scales of eight bits.


def _read_mx(data: Array) -> Parts:
    scale, low = split(data, 1)
    return spread(low, 4, 16), scale


def _write_mx(codes: Array, scale: Array) -> Array:
    return joined(scale, gathered(codes, 4, 16))


def _read_nv(data: Array) -> Parts:
    scales, low = split(data, 4)
    return spread(low, 4, 8), scales


def _write_nv(codes: Array, scales: Array) -> Array:
    return joined(scales, gathered(codes, 4, 8))


def _read_signs(data: Array) -> Parts:
    factor, signs = split(data, HALF)
    return _bits(signs), halves(factor)


def _write_signs(codes: Array, factor: Array) -> Array:
    return joined(as_halves(factor), _as_bytes(codes))


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
"""For each kind the elements and bytes of a block, and how its parts are read and written."""
