"""GPTQ's layout: codes of 2, 3, 4 or 8 bits along inputs, in graphc's order.

The matrix is ``scales * (code - zero)``, ``(in, out)``. Format "gptq" stores zero points minus one,
"gptq_v2" unchanged.

Source: Frantar et al., GPTQ, ICLR 2023; AutoGPTQ and GPTQModel, ``qlinear``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphc.implicit.quantized import ChannelPermuted, Coding, ScaledQuantized
from graphc.interop.weights import layout
from graphc.interop.weights.layout import codes_of, words_of
from graphc.link.backend import as_numpy

BITS = (2, 3, 4, 8)
OFFSETS = {"gptq": 1, "gptq_v2": 0}
"""The difference of a zero point and its stored value in each format."""


def read(module: layout.Module) -> Any:
    """Return the array of a layer, ``(out, in)``, as PyTorch has weights."""
    bits = module.setting("bits")
    form = module.settings.get("checkpoint_format") or "gptq"
    if bits not in BITS or form not in OFFSETS:
        raise module.refusal(
            f"a layout of {bits} bits, format {form!r}, of {module.name!r}.",
            f"{', '.join(map(str, BITS))} bits and {', '.join(OFFSETS)} are read.",
        )
    others = [key for key in module.settings.get("dynamic") or {} if not key.startswith("-")]
    if others or module.settings.get("is_marlin_format"):
        raise module.refusal(
            f"{(others and 'dynamic') or 'is_marlin_format'} in the config.",
            "Layers with settings of their own, and Marlin's layout, are not read.",
        )
    words, zeros = module.part("qweight", ("int32",)), module.part("qzeros", ("int32",))
    scales = module.part("scales", layout.FLOATS)
    rows, columns = words.shape[0] * 32 // bits, words.shape[1]
    size = module.setting("group_size", -1)
    size = rows if size == -1 else size
    fits = size > 0 and size % layout.coding_along(bits).per_unit == 0 and rows % size == 0
    if not fits or (scales.shape, zeros.shape) != (
        (rows // size, columns),
        (rows // size, columns * bits // 32),
    ):
        raise module.unfit(("qweight", words), ("qzeros", zeros), ("scales", scales))
    stored = codes_of(layout.coding_along(bits), np.ascontiguousarray(zeros).view("uint32"))
    zero_points = (stored + np.uint8(OFFSETS[form])) & np.uint8(2**bits - 1)
    _check_symmetric(module, form, stored, zero_points, 2 ** (bits - 1))
    packed = np.ascontiguousarray(words.T).view("uint32")
    order = _group_order(module, rows, size)
    if order is not None:
        packed = _permute(layout.coding_along(bits), packed, order)
    array = layout.with_zeros(
        packed, np.ascontiguousarray(scales.T, "float32"), zero_points.T, bits, size
    )
    return array if order is None else ChannelPermuted(array, order, columns=True)


def _check_symmetric(
    module: layout.Module, form: str, stored: layout.Array, zero_points: layout.Array, middle: int
) -> None:
    """Raise if zero points are off the middle of codes that the config calls symmetric."""
    off = stored[zero_points != middle]
    if module.settings.get("sym") is not True or not off.size:
        return
    readings = " and ".join(
        [f"{int(off[0]) + offset} in format {name!r}" for name, offset in OFFSETS.items()]
    )
    raise module.refusal(
        f'the config has "sym": true, and {module.name!r} in format {form!r} has zero points off '
        f"the middle, {middle}: a stored {off[0]} is {readings}.",
        "Give config= in which quantization_config has the checkpoint_format that the file was "
        'written in; or "sym": false, if its zero points are off the middle.',
    )


def _group_order(module: layout.Module, rows: int, size: int) -> layout.Array | None:
    """Return the rows group by group, or None where they are in this order."""
    if f"{module.name}.g_idx" not in module.arrays:
        return None
    groups = module.part("g_idx", ("int32", "int64"), 1)
    if groups.shape == (rows,):
        if np.array_equal(groups, np.arange(rows) // size):
            return None
        order = np.argsort(groups, kind="stable").astype("int32")
        if np.array_equal(groups[order], np.arange(rows) // size):
            return order
    raise module.unfit(("g_idx", groups), ("groups", np.empty((rows // size, size))))


def _permute(coding: Coding, words: layout.Array, order: layout.Array) -> layout.Array:
    result = np.empty_like(words)
    step = max(1, layout.MAX_UNPACKED // len(order))
    for start in range(0, len(words), step):
        codes = codes_of(coding, words[start : start + step])
        result[start : start + step] = words_of(coding, codes[:, order])
    return result


def parts(name: str, x: Any) -> tuple[dict[str, layout.Array], Mapping[str, Any]]:
    """Return the arrays of a layer by suffix, and its settings."""
    order = None
    if isinstance(x, ChannelPermuted) and x.columns and x.ndim == 2:
        x, order = x.of, as_numpy(x.order)
    words, scales, zeros = layout.zeros_of(name, x, "gptq")
    bits, size = x.coding.bits, x.group_size
    coding = layout.coding_along(bits)
    if bits not in BITS or len(words) % coding.per_unit:
        raise layout.misfit(
            name,
            x,
            "gptq",
            f"It holds codes of {', '.join(map(str, BITS))} bits, and multiples of "
            f"{coding.per_unit} rows.",
        )
    groups = (np.arange(x.shape[1]) // size).astype("int32")
    if order is not None:
        inverse = np.argsort(order)
        words, groups = _permute(coding, words, inverse), groups[inverse]
    # A zero point of 0 is stored as the largest code, to which 1 is added without a carry.
    stored = (zeros - np.uint8(OFFSETS["gptq"])) & np.uint8(2**bits - 1)
    return {
        "qweight": np.ascontiguousarray(words).view("int32").T,
        "qzeros": words_of(coding, np.ascontiguousarray(stored.T)).view("int32"),
        "scales": scales.T,
        "g_idx": groups,
    }, {"bits": bits, "group_size": size}


def about(packed: Sequence[Any]) -> dict[str, Any]:
    """Return the settings in ``config.json`` that all layers share."""
    permuted = [isinstance(x, ChannelPermuted) for x in packed]
    plain = [x.of if isinstance(x, ChannelPermuted) else x for x in packed]
    symmetric = all(isinstance(x, ScaledQuantized) for x in plain)
    return {"checkpoint_format": "gptq", "desc_act": any(permuted), "sym": symmetric}
