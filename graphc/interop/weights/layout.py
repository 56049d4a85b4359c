"""Shared code of the layouts of quantized safetensors: modules, and zero points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from graphc.errors import FormatError, ImplicitArrayError
from graphc.implicit.namespace import NUMPY
from graphc.implicit.quantized import AffineQuantized, Coding, ScaledQuantized
from graphc.interop.weights.files import refusal
from graphc.ir import dtype_name
from graphc.link.backend import as_numpy

Array = np.ndarray[Any, Any]

MAX_UNPACKED = 2**21
"""The most codes that are unpacked at a time."""


@dataclass(frozen=True)
class Module:
    """A layer of a file: the arrays whose names begin with the layer's.

    Attributes:
        path: The file.
        name: The prefix of the names.
        arrays: The file's arrays by their full names.
        settings: The settings of the layer in ``config.json``.
    """

    path: Path
    name: str
    arrays: Mapping[str, Array]
    settings: Mapping[str, Any]

    def part(self, suffix: str, dtypes: tuple[str, ...], ndim: int = 2) -> Array:
        """Return an array of the layer.

        Raises:
            FormatError: If the array is missing, or has another dtype or number of axes.
        """
        name = f"{self.name}.{suffix}"
        if name not in self.arrays:
            raise self.refusal(f"{name!r} is missing.", "Get all files of the model.")
        array = self.arrays[name]
        if dtype_name(array.dtype) not in dtypes or array.ndim < ndim:
            raise self.refusal(
                f"{name!r} is {array.dtype}{list(array.shape)}.",
                f"It is to be of {' or '.join(dtypes)}, with {ndim} axes: see config.json.",
            )
        return array

    def setting(self, key: str, default: Any = None) -> Any:
        """Return a setting that is an integer."""
        value = self.settings.get(key, default)
        if type(value) is not int:
            raise self.refusal(f"{key} of {self.name!r} is {value!r}.", "See config.json.")
        return value

    def refusal(self, problem: str, remedy: str) -> FormatError:
        """Return an error about the file."""
        return refusal(self.path, problem, remedy)

    def unfit(self, *parts: tuple[str, Array]) -> FormatError:
        """Return the error about shapes that do not fit each other."""
        shapes = ", ".join(f"{suffix} {list(x.shape)}" for suffix, x in parts)
        return self.refusal(
            f"{self.name!r} has {shapes}, with {dict(self.settings)!r:.200}.",
            "These do not go together: the config is another model's, or the file is damaged.",
        )


FLOATS = ("float16", "bfloat16", "float32")


def with_zeros(words: Array, scales: Array, zeros: Array, bits: int, group_size: int) -> Any:
    """Return the array ``scales * (code - zeros)``, exact for scales with few digits.

    Args:
        words: ``(rows, words)``.
        scales: ``(rows, groups)``, of float32.
        zeros: Integers, ``(rows, groups)``.
        bits: The length of a code.
        group_size: The number of codes that share a scale.
    """
    if (zeros == 2 ** (bits - 1)).all():
        return ScaledQuantized(words, scales, element=f"int{bits}", group_size=group_size)
    biases = scales * -zeros.astype("float32")
    return AffineQuantized(words, scales, biases, bits=bits, group_size=group_size)


def zeros_of(name: str, x: Any, layout: str) -> tuple[Array, Array, Array]:
    """Return the words, scales and zero points of an array; scales in the dtype of a file.

    Raises:
        ImplicitArrayError: If the array has no zero points, or scales with more digits than float16
            or bfloat16.
    """
    if type(x) not in {AffineQuantized, ScaledQuantized} or x.transposed or x.padding or x.ndim > 2:
        raise misfit(name, x, layout, "It holds matrices of integers, packed along the last axis.")
    words, wide = as_numpy(x.packed), as_numpy(x.scales).astype("float32")
    scales = narrow_scales(name, x, layout, wide)
    if isinstance(x, ScaledQuantized):
        if x.coding.kind != "integer":
            raise misfit(name, x, layout, "Its elements are other than integers.")
        return words, scales, np.full(wide.shape, 2 ** (x.coding.bits - 1), "uint8")
    biases = as_numpy(x.biases).astype("float32")
    rounded = np.rint(-biases / np.where(wide == 0, 1, wide))
    zeros = np.where(np.isfinite(rounded), rounded, -1).clip(-1, 2**x.bits)
    if not ((zeros >= 0) & (zeros < 2**x.bits) & (wide * -zeros == biases)).all():
        raise misfit(
            name,
            x,
            layout,
            f"Its biases are no whole numbers of scales, 0 to {2**x.bits - 1}, as zero points are; "
            "quantize(..., symmetric=True) has these.",
        )
    return words, scales, zeros.astype("uint8")


def narrow_scales(name: str, x: Any, layout: str, wide: Array) -> Array:
    """Return scales as float16 or bfloat16 numbers."""
    import ml_dtypes  # noqa: PLC0415 (it comes with JAX)

    for dtype in (np.float16, ml_dtypes.bfloat16):
        with np.errstate(over="ignore"):
            narrow: Array = wide.astype(dtype)
        if np.array_equal(narrow.astype("float32"), wide):
            return narrow
    raise misfit(
        name,
        x,
        layout,
        "Its scales have more digits than float16: array.astype('float16') rounds them.",
    )


def misfit(name: str, x: Any, layout: str, remedy: str) -> ImplicitArrayError:
    """Return the error about an array that a layout does not hold."""
    return ImplicitArrayError(
        f"save_safetensors: {name!r} is {x!r:.200}, which layout {layout!r} does not hold.", remedy
    )


def coding_along(bits: int) -> Coding:
    """Return the coding of integers that are packed without scales, as zero points are."""
    return Coding("affine", bits, 32 // np.gcd(bits, 32))


# Packing of codes of a few bits in words of 32 bits, the first in the lowest bits, by NumPy.

BYTE = 8


def words_of(coding: Coding, codes: Array) -> Array:
    """Pack codes of uint8, ``(..., n)``, to words.

    Example:
        >>> words_of(Coding("affine", 4, 8), np.arange(8, dtype="uint8"))
        array([1985229328], dtype=uint32)
    """
    if BYTE % coding.bits:
        words: Array = coding.pack(NUMPY, codes)
        return words
    per_byte = BYTE // coding.bits
    *lead, n = codes.shape
    groups = codes.reshape(*lead, n // per_byte, per_byte)
    data = groups[..., 0].copy()
    for i in range(1, per_byte):
        data |= groups[..., i] << np.uint8(i * coding.bits)
    return data.view("<u4")


def codes_of(coding: Coding, words: Array) -> Array:
    """Unpack words, ``(..., n)``, to codes of uint8: the inverse of ``words_of``."""
    if BYTE % coding.bits:
        unpacked: Array = coding.codes(NUMPY, words).astype("uint8")
        return unpacked
    data = np.ascontiguousarray(words, "<u4").view("uint8")
    shifts = np.arange(0, BYTE, coding.bits, dtype="uint8")
    codes = data[..., None] >> shifts & np.uint8(2**coding.bits - 1)
    *lead, n = data.shape
    return codes.reshape(*lead, n * len(shifts))
