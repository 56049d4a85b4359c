"""What the layouts of quantized safetensors have in common: modules, and zero points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from graphc.errors import FormatError, ImplicitArrayError
from graphc.implicit.quantized import AffineQuantized, Coding, ScaledQuantized
from graphc.interop.weights.files import refusal
from graphc.ir import dtype_name
from graphc.link.backend import as_numpy

Array = np.ndarray[Any, Any]

SOME = 2**21
"""So many codes are unpacked at a time."""


@dataclass(frozen=True)
class Module:
    """A layer of a file: the arrays whose names begin with its own.

    Attributes:
        path: The file.
        name: What the names begin with.
        arrays: The file's arrays by their full names.
        settings: What ``config.json`` says of the layer.
    """

    path: Path
    name: str
    arrays: Mapping[str, Array]
    settings: Mapping[str, Any]

    def part(self, suffix: str, dtypes: tuple[str, ...], ndim: int = 2) -> Array:
        """One of its arrays.

        Raises:
            FormatError: It is missing, or has another dtype or number of axes.
        """
        name = f"{self.name}.{suffix}"
        if name not in self.arrays:
            raise self.refusal(f"{name!r} is missing.", "Get all files of the model.")
        found = self.arrays[name]
        if dtype_name(found.dtype) not in dtypes or found.ndim < ndim:
            raise self.refusal(
                f"{name!r} is {found.dtype}{list(found.shape)}.",
                f"It is to be of {' or '.join(dtypes)}, with {ndim} axes: see config.json.",
            )
        return found

    def setting(self, key: str, default: Any = None) -> Any:
        """A setting that is an integer."""
        found = self.settings.get(key, default)
        if type(found) is not int:
            raise self.refusal(f"{key} of {self.name!r} is {found!r}.", "See config.json.")
        return found

    def refusal(self, problem: str, remedy: str) -> FormatError:
        """The error about it."""
        return refusal(self.path, problem, remedy)

    def unfit(self, *parts: tuple[str, Array]) -> FormatError:
        """The error about shapes that do not go together."""
        shapes = ", ".join(f"{suffix} {list(x.shape)}" for suffix, x in parts)
        return self.refusal(
            f"{self.name!r} has {shapes}, with {dict(self.settings)!r:.200}.",
            "These do not go together: the config is another model's, or the file is damaged.",
        )


FLOATS = ("float16", "bfloat16", "float32")


def with_zeros(words: Array, scales: Array, zeros: Array, bits: int, group_size: int) -> Any:
    """The array ``scales * (code - zeros)``, which is exact where these have few digits.

    Args:
        words: ``(rows, words)``.
        scales: ``(rows, groups)``, of float32.
        zeros: Integers of the same shape.
        bits: The length of a code.
        group_size: How many codes share a scale.
    """
    if (zeros == 2 ** (bits - 1)).all():
        return ScaledQuantized(words, scales, element=f"int{bits}", group_size=group_size)
    biases = scales * -zeros.astype("float32")
    return AffineQuantized(words, scales, biases, bits=bits, group_size=group_size)


def zeros_of(name: str, x: Any, layout: str) -> tuple[Array, Array, Array]:
    """The words, scales and zero points of such an array; scales in the dtype of a file.

    Raises:
        ImplicitArrayError: It is no such array, has scales of more digits than float16 or bfloat16,
            or biases that are no whole numbers of them.
    """
    if type(x) not in {AffineQuantized, ScaledQuantized} or x.transposed or x.padding or x.ndim > 2:
        raise unsaved(name, x, layout, "It holds matrices of integers, packed along the last axis.")
    words, wide = as_numpy(x.packed), as_numpy(x.scales).astype("float32")
    scales = narrowed(name, x, layout, wide)
    if isinstance(x, ScaledQuantized):
        if x.coding.kind != "integer":
            raise unsaved(name, x, layout, "Its elements are other than integers.")
        return words, scales, np.full(wide.shape, 2 ** (x.coding.bits - 1), "uint8")
    biases = as_numpy(x.biases).astype("float32")
    found = np.rint(-biases / np.where(wide == 0, 1, wide))
    zeros = np.where(np.isfinite(found), found, -1).clip(-1, 2**x.bits)
    if not ((zeros >= 0) & (zeros < 2**x.bits) & (wide * -zeros == biases)).all():
        raise unsaved(
            name,
            x,
            layout,
            f"Its biases are no whole numbers of scales, 0 to {2**x.bits - 1}, as zero points are; "
            "quantize(..., symmetric=True) has these.",
        )
    return words, scales, zeros.astype("uint8")


def narrowed(name: str, x: Any, layout: str, wide: Array) -> Array:
    """Scales as numbers of two bytes, which they are to be."""
    import ml_dtypes  # noqa: PLC0415 (it comes with JAX)

    for dtype in (np.float16, ml_dtypes.bfloat16):
        with np.errstate(over="ignore"):
            narrow: Array = wide.astype(dtype)
        if np.array_equal(narrow.astype("float32"), wide):
            return narrow
    raise unsaved(
        name,
        x,
        layout,
        "Its scales have more digits than float16: array.astype('float16') rounds them.",
    )


def unsaved(name: str, x: Any, layout: str, remedy: str) -> ImplicitArrayError:
    """The error about an array that a layout does not hold."""
    return ImplicitArrayError(
        f"save_safetensors: {name!r} is {x!r:.200}, which layout {layout!r} does not hold.", remedy
    )


def coding_along(bits: int) -> Coding:
    """The coding of integers that are packed without scales, as zero points are."""
    return Coding("affine", bits, 32 // np.gcd(bits, 32))
