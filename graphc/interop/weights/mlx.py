"""MLX's layout: words, scales and biases of ``mx.quantize``, which graphc shares.

Source: https://ml-explore.github.io/mlx/build/html/python/_autosummary/mlx.core.quantize.html.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphc.implicit.quantized import AffineQuantized, Microscaled
from graphc.interop.weights.layout import FLOATS, Array, Module, misfit
from graphc.ir import numpy_dtype
from graphc.link.backend import as_numpy

BITS = (1, 2, 3, 4, 5, 6, 8)
MODES = {"mxfp4": (32, 4), "mxfp8": (32, 8), "nvfp4": (16, 4)}
"""The size of groups and the bits of a code for each mode of narrow floating numbers."""
GROUPS = (32, 64, 128)
"""The sizes of groups that MLX has for integers."""


def read(module: Module) -> Any:
    """Return the array of a layer, ``(out, in)``, whose fields are parts of the file."""
    mode = module.settings.get("mode") or "affine"
    if mode not in {"affine", *MODES}:
        raise module.refusal(
            f"the mode {mode!r} of {module.name!r}.", f"affine, {', '.join(MODES)} are read."
        )
    size, bits = MODES.get(mode, (64, 4))
    size, bits = module.setting("group_size", size), module.setting("bits", bits)
    words = module.part("weight", ("uint32",))
    scales = module.part("scales", FLOATS if mode == "affine" else ("uint8",))
    lengths = (*words.shape[:-1], words.shape[-1] * 32 // max(1, bits * size))
    valid = (size, bits) == MODES[mode] if mode in MODES else bits in BITS and size in GROUPS
    fits = valid and scales.shape == lengths and words.shape[-1] * 32 == lengths[-1] * bits * size
    if not fits:
        raise module.unfit(("weight", words), ("scales", scales))
    if mode in MODES:
        factor = np.ones((*words.shape[:-2], 1, 1), numpy_dtype("bfloat16"))
        return Microscaled(words, scales, factor, format=mode)
    biases = module.part("biases", FLOATS)
    if biases.shape != scales.shape or biases.dtype != scales.dtype:
        raise module.unfit(("scales", scales), ("biases", biases))
    return AffineQuantized(words, scales, biases, bits=bits, group_size=size)


def parts(name: str, x: Any) -> tuple[dict[str, Array], Mapping[str, Any]]:
    """Return the arrays of a layer by suffix, and its settings."""
    if type(x) not in {AffineQuantized, Microscaled} or x.transposed or x.padding:
        raise misfit(
            name,
            x,
            "mlx",
            "It holds what mx.quantize makes: int2 to int8 with biases, mxfp4, mxfp8 and nvfp4, "
            "along the last axis and in whole groups.",
        )
    words, scales = as_numpy(x.packed), as_numpy(x.scales)
    if isinstance(x, Microscaled):
        if (as_numpy(x.factor) != 1).any():
            remedy = "It has no factor: divide the array by it, and keep it apart."
            raise misfit(name, x, "mlx", remedy)
        size, bits = MODES[x.format]
        settings = {"group_size": size, "bits": bits, "mode": x.format}
        return {"weight": words, "scales": scales}, settings
    if x.group_size not in GROUPS or x.bits not in BITS:
        raise misfit(name, x, "mlx", f"It has groups of {', '.join(map(str, GROUPS))}.")
    arrays = {"weight": words, "scales": scales, "biases": as_numpy(x.biases)}
    return arrays, {"group_size": x.group_size, "bits": x.bits, "mode": "affine"}


def about(packed: Sequence[Any]) -> dict[str, Any]:
    """Return the settings in ``config.json`` that all layers share."""
    return {}
