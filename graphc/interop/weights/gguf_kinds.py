"""GGUF's kinds: their numbers, and the implicit arrays for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from graphc.implicit.quantized import (
    AffineQuantized,
    DoubleQuantized,
    Microscaled,
    OneBit,
    Quantized,
    ScaledQuantized,
)

DENSE = {
    0: "F32",
    1: "F16",
    30: "BF16",
    28: "F64",
    24: "I8",
    25: "I16",
    26: "I32",
    27: "I64",
}
DTYPES = {
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F64": "float64",
    **{f"I{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
}
PACKED = {
    2: "Q4_0",
    3: "Q4_1",
    6: "Q5_0",
    7: "Q5_1",
    8: "Q8_0",
    10: "Q2_K",
    11: "Q3_K",
    12: "Q4_K",
    13: "Q5_K",
    14: "Q6_K",
    34: "TQ1_0",
    35: "TQ2_0",
    39: "MXFP4",
    40: "NVFP4",
    41: "Q1_0",
}
OTHERS = {
    9: "Q8_1",
    15: "Q8_K",
    16: "IQ2_XXS",
    17: "IQ2_XS",
    18: "IQ3_XXS",
    19: "IQ1_S",
    20: "IQ4_NL",
    21: "IQ3_S",
    22: "IQ2_S",
    23: "IQ4_XS",
    29: "IQ1_M",
}
"""Kinds by their numbers: dense, packed with an implicit array, and packed without one."""
NAMES = DENSE | PACKED | OTHERS
NUMBERS = {name: number for number, name in NAMES.items()}

MAX_UNPACKED = 2**21
"""The most elements that are unpacked at a time."""


class Codec(NamedTuple):
    """The implicit array that encodes a kind.

    Attributes:
        cls: The class.
        options: The static fields.
        fields: The fields after the words, in the order of the parts of blocks.
        limits: The least and the largest integer that a block can store in these fields.
    """

    cls: type[Quantized]
    options: dict[str, Any]
    fields: tuple[str, ...] = ("scales",)
    limits: tuple[int, int] | None = None


TWICE = ("scales", "factors", "minimums", "minimum_factors")

CODECS = {
    "Q4_0": Codec(ScaledQuantized, {"element": "int4", "group_size": 32}),
    "Q4_1": Codec(AffineQuantized, {"bits": 4, "group_size": 32}, ("scales", "biases")),
    "Q5_0": Codec(ScaledQuantized, {"element": "int5", "group_size": 32}),
    "Q5_1": Codec(AffineQuantized, {"bits": 5, "group_size": 32}, ("scales", "biases")),
    "Q8_0": Codec(ScaledQuantized, {"element": "int8", "group_size": 32}),
    "Q2_K": Codec(DoubleQuantized, {"bits": 2, "group_size": 16, "per_factor": 16}, TWICE, (0, 15)),
    "Q3_K": Codec(
        DoubleQuantized,
        {"bits": 4, "group_size": 16, "per_factor": 16, "symmetric": True},
        TWICE[:2],
        (-32, 31),
    ),
    "Q4_K": Codec(DoubleQuantized, {"bits": 4, "group_size": 32, "per_factor": 8}, TWICE, (0, 63)),
    "Q5_K": Codec(DoubleQuantized, {"bits": 5, "group_size": 32, "per_factor": 8}, TWICE, (0, 63)),
    "Q6_K": Codec(
        DoubleQuantized,
        {"bits": 6, "group_size": 16, "per_factor": 16, "symmetric": True},
        TWICE[:2],
    ),
    "TQ2_0": Codec(ScaledQuantized, {"element": "ternary", "group_size": 256}),
    "TQ1_0": Codec(ScaledQuantized, {"element": "ternary", "group_size": 256}),
    "MXFP4": Codec(Microscaled, {"format": "mxfp4"}, ("scales",), (0, 254)),
    "NVFP4": Codec(Microscaled, {"format": "nvfp4"}, ("scales",), (0, 126)),
    "Q1_0": Codec(OneBit, {"group_size": 128}),
}


def row_slices(rows: int, width: int) -> Iterator[slice]:
    """Return slices of rows with a bounded number of elements; an empty slice for no rows."""
    step = max(1, MAX_UNPACKED // max(1, width))
    return (slice(start, min(start + step, rows)) for start in range(0, max(1, rows), step))
