"""AutoAWQ's layout "gemm": 4-bit codes along outputs, interleaved.

A word has the codes of eight outputs: bits 4 i to 4 i + 3 are output ``ORDER[i]`` of the eight. The
matrix is ``scales * (code - zero)``, ``(in, out)``.

Source: Lin et al., AWQ, MLSys 2024; AutoAWQ, ``awq/modules/linear/gemm.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphc.implicit.quantized import Coding
from graphc.interop.weights import layout
from graphc.interop.weights.layout import codes_of, words_of

ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
INVERSE_ORDER = np.argsort(ORDER)
BITS = 4
CODING = Coding("affine", BITS, 8)


def read(module: layout.Module) -> Any:
    """Return the array of a layer, ``(out, in)``, as PyTorch has weights."""
    if module.setting("bits", module.settings.get("w_bit", BITS)) != BITS:
        raise module.refusal(f"{module.settings}.", "AWQ's codes have 4 bits.")
    words, zeros = module.part("qweight", ("int32",)), module.part("qzeros", ("int32",))
    scales = module.part("scales", layout.FLOATS)
    rows, columns = words.shape[0], words.shape[1] * 8
    size = module.setting("group_size", module.settings.get("q_group_size", -1))
    size = rows if size == -1 else size
    if size < 1 or rows % size or size % 8 or scales.shape != (rows // size, columns):
        raise module.unfit(("qweight", words), ("qzeros", zeros), ("scales", scales))
    if zeros.shape != (rows // size, words.shape[1]):
        raise module.unfit(("qweight", words), ("qzeros", zeros), ("scales", scales))
    packed = np.empty((columns, rows // 8), "uint32")
    step = max(1, layout.MAX_UNPACKED // (8 * rows))
    for start in range(0, words.shape[1], step):
        codes = _unpack(words[:, start : start + step])
        packed[start * 8 : (start + step) * 8] = words_of(CODING, np.ascontiguousarray(codes.T))
    wide = np.ascontiguousarray(scales.T, "float32")
    return layout.with_zeros(packed, wide, _unpack(zeros).T, BITS, size)


def parts(name: str, x: Any) -> tuple[dict[str, layout.Array], Mapping[str, Any]]:
    """Return the arrays of a layer by suffix, and its settings."""
    words, scales, zeros = layout.zeros_of(name, x, "awq")
    if x.coding.bits != BITS or len(words) % 8:
        raise layout.misfit(name, x, "awq", "It holds codes of 4 bits, and multiples of 8 rows.")
    packed = np.empty((x.shape[1], len(words) // 8), "int32")
    step = max(1, layout.MAX_UNPACKED // (8 * x.shape[1])) * 8
    for start in range(0, len(words), step):
        codes = codes_of(CODING, words[start : start + step])
        packed[:, start // 8 : (start + step) // 8] = _pack(codes.T)
    arrays = {"qweight": packed, "qzeros": _pack(zeros.T), "scales": scales.T}
    return arrays, {"bits": BITS, "group_size": x.group_size}


def _unpack(words: layout.Array) -> layout.Array:
    codes = codes_of(CODING, np.ascontiguousarray(words).view("uint32"))
    return codes.reshape(len(words), -1, 8)[..., INVERSE_ORDER].reshape(len(words), -1)


def _pack(codes: layout.Array) -> layout.Array:
    ordered = codes.reshape(len(codes), -1, 8)[..., ORDER].reshape(len(codes), -1)
    return words_of(CODING, np.ascontiguousarray(ordered)).view("int32")


def about(packed: Sequence[Any]) -> dict[str, Any]:
    """Return the settings in ``config.json`` that all layers share."""
    return {"version": "gemm", "zero_point": True}
