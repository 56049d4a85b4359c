"""Arrays of narrow floating numbers whose scales are narrow floating numbers, too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.errors import ImplicitArrayError
from graphc.implicit.array import aux_field, with_fields
from graphc.implicit.quantized.base import Quantized
from graphc.implicit.quantized.coding import BITS, LARGEST_OF, Coding, coding_for, table_of
from graphc.implicit.quantized.encode import encode_with_scales, float_codes
from graphc.implicit.quantized.kinds import ScaledQuantized
from graphc.implicit.treedef import dtype_of
from graphc.ir import TensorType, dtype_name

GROUPS = {"mxfp4": 32, "mxfp8": 32, "nvfp4": 16}
"""The number of elements that share a scale, for each format."""

ELEMENTS = {"mxfp4": "float4_e2m1fn", "mxfp8": "float8_e4m3fn", "nvfp4": "float4_e2m1fn"}
"""The dtype of the elements, for each format."""

EXPONENT_BIAS = 127
"""The bias of exponents in codes of ``float8_e8m0fnu``."""

POWERS = np.append(np.exp2(np.arange(255.0) - EXPONENT_BIAS), np.nan).astype("float32")
"""The powers of two that these codes represent; the last code represents NaN."""


@dataclass(frozen=True, repr=False)
class Microscaled(Quantized):
    """Elements of a narrow floating dtype, times scales of 8 bits, times a factor for each matrix.

    The formats are defined by the Open Compute Project and NVIDIA, and supported by MLX's kernels.
    An ``"mxfp4"`` or ``"mxfp8"`` scale is a power of two, such that the largest magnitude of a
    group has the largest exponent of an element; an ``"nvfp4"`` scale is a ``float8_e4m3fn``.

    Attributes:
        packed: Words of uint32, ``(*batch, rows, words)``: the first code is in the lowest bits.
        scales: Codes of uint8, ``(*batch, rows, groups)``: of ``float8_e8m0fnu``, or for
            ``"nvfp4"`` of ``float8_e4m3fn``.
        factor: ``(*batch, 1, 1)``, of the array's dtype.
        format: ``"mxfp4"``, ``"mxfp8"`` (of ``float8_e4m3fn``) or ``"nvfp4"``.
        transposed: Whether the packed axis is the last but one.
        padding: The number of elements at the end of the last group that are padding.

    Source: Open Compute Project, Microscaling Formats (MX) Specification 1.0, 2023; NVIDIA,
    Pretraining large language models with NVFP4, arXiv:2509.25149, 2025.

    Example:
        >>> from graphc.implicit.quantized import quantize
        >>> w = np.random.default_rng(0).standard_normal((256, 128)).astype("float32")
        >>> q = quantize(w, "nvfp4")
        >>> q, q.nbytes, w.nbytes
        (Microscaled(uint32[256, 16], uint8[256, 8], float32[1, 1], format='nvfp4',
         transposed=False), 18436, 131072)
    """

    packed: Any
    scales: Any
    factor: Any
    format: str = aux_field(default="mxfp4")
    transposed: bool = aux_field(default=False)
    padding: int = aux_field(default=0, repr=False)

    @classmethod
    def coding_of(
        cls, group_size: int | None = None, *, format: str = "mxfp4", **options: Any
    ) -> Coding:
        if format not in GROUPS:
            raise ImplicitArrayError(
                f"{cls.__name__}: format {format!r}.",
                f"Take one of {', '.join(map(repr, GROUPS))}.",
            )
        return coding_for(format, BITS[format][0], GROUPS[format])

    @classmethod
    def parts_spec(
        cls, coding: Coding, dtype: str, groups: tuple[int | None, ...], **options: Any
    ) -> list[TensorType | None]:
        return [TensorType("uint8", groups), TensorType(dtype, (*groups[:-2], 1, 1))]

    def group_fields(self) -> dict[str, Any]:
        return {"packed": self.packed, "scales": self.scales}

    def matrix_specs(self, rows: Any, columns: Any) -> Mapping[str, tuple[Any, ...]]:
        return {**super().matrix_specs(rows, columns), "factor": (None, None)}

    @property
    def dtype(self) -> Any:
        return dtype_of(self.factor)

    def scales_of(self) -> Any:
        """Return the scales as numbers, without the factor."""
        xp, codes = self.xp, self.xp.cast(self.scales, "int32")
        table = table_of("float8_e4m3fn", 8) if self.format == "nvfp4" else POWERS
        return xp.cast(xp.take(xp.literal(table), codes), dtype_name(self.dtype))

    @property
    def numbers(self) -> tuple[Any, ...]:
        return (self.scales_of() * self.factor,)

    @property
    def once_quantized(self) -> ScaledQuantized:
        (scales,) = self.numbers
        return ScaledQuantized(
            self.packed,
            scales,
            element=ELEMENTS[self.format],
            group_size=self.coding.group_size,
            transposed=self.transposed,
            padding=self.padding,
        )

    def product_of(self, x: Any, numbers: tuple[Any, ...] | None = None) -> Any:
        # A kernel may use the codes of the scales, which do not include the factor.
        return super().product_of(x, numbers or (self.scales_of(),)) * self.factor

    def scale_along(self, vector: Any, axis: int) -> Any:
        return self.once_quantized.scale_along(vector, axis)

    def _map_numbers(self, function: Any) -> Any:
        return with_fields(self, {"factor": function(self.factor)})


def encode_microscaled(xp: Any, coding: Coding, x: Any) -> tuple[Any, ...]:
    """Return the words, codes of scales, and factors of an array of complete groups."""
    dtype = dtype_of(x)
    wide = xp.cast(x, "float32") if dtype.itemsize < 4 else x
    largest = xp.max(xp.abs(coding.split_groups(xp, wide)), -1)
    if coding.kind == "nvfp4":
        scales, numbers, factor = _nvfp4_scales(xp, coding, largest)
    else:
        scales, numbers = _power_of_two_scales(xp, coding, largest)
        factor = xp.ones((*xp.shape_of(x)[:-2], 1, 1), dtype=dtype_name(dtype_of(wide)))
    words = encode_with_scales(xp, coding, wide, numbers)
    return words, xp.cast(scales, "uint8"), xp.cast(factor, dtype_name(dtype))


def _nvfp4_scales(xp: Any, coding: Coding, magnitudes: Any) -> tuple[Any, ...]:
    """Return codes, scales and a factor, such that the largest scale has the largest code."""
    largest_element = LARGEST_OF[coding.kind]
    factor = xp.max(magnitudes, (-2, -1), keepdims=True) / (
        largest_element * LARGEST_OF["float8_e4m3fn"]
    )
    safe = xp.where(factor > 0, factor, xp.ones_like(factor))
    codes = float_codes(xp, "float8_e4m3fn", magnitudes / largest_element / safe)
    scales = xp.take(xp.literal(table_of("float8_e4m3fn", 8)), xp.cast(codes, "int32"))
    return codes, xp.cast(scales, dtype_of(magnitudes)) * factor, factor


def _power_of_two_scales(xp: Any, coding: Coding, magnitudes: Any) -> tuple[Any, ...]:
    dtype = dtype_of(magnitudes)
    guess = xp.floor(xp.log2(xp.maximum(magnitudes, float(POWERS[1]))))
    code = xp.clip(xp.cast(guess, "int32") + EXPONENT_BIAS, 1, len(POWERS) - 3)
    # The logarithm may be wrong by a rounding error.
    too_high = xp.cast(xp.take(xp.literal(POWERS), code), dtype) > magnitudes
    too_low = xp.cast(xp.take(xp.literal(POWERS), code + 1), dtype) <= magnitudes
    code = code - xp.cast(too_high, "int32") + xp.cast(too_low, "int32")
    largest_exponent = int(np.log2(LARGEST_OF[coding.kind]))
    code = xp.clip(code - largest_exponent, 0, len(POWERS) - 2)
    return code, xp.cast(xp.take(xp.literal(POWERS), code), dtype)
