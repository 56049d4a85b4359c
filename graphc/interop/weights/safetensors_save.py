"""Saving safetensors files, with a ``config.json`` that describes the packing of their arrays."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphc.errors import ArgumentError, ImplicitArrayError
from graphc.export.archive import array_chunks
from graphc.export.runtime import NAMES
from graphc.implicit.array import is_implicit
from graphc.interop.weights.files import replacement
from graphc.interop.weights.layout import Array
from graphc.interop.weights.safetensors_load import LAYOUTS, WEIGHT, config_of, config_path
from graphc.link.backend import as_numpy


def save_safetensors(
    path: str | os.PathLike[str],
    arrays: Mapping[str, Any],
    *,
    layout: str | None = None,
    config: Mapping[str, Any] | None = None,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write arrays to a safetensors file without changing a number.

    Packed arrays, whose names end in ``.weight``, are written as other libraries pack them, and
    ``config.json`` beside the file describes it. A layout holds the arrays that
    ``load_safetensors`` read from it, and others with the same kind of codes and scales.

    Args:
        path: The file, which is replaced.
        arrays: Arrays of any library, by name.
        layout: ``"mlx"``, ``"awq"`` or ``"gptq"``, where arrays are packed. The latter two have
            scales of two bytes, as ``w.astype("float16")`` makes them, and one size of groups for
            all layers.
        config: More settings for ``config.json`` (default: its present contents).
        metadata: The metadata of the file's header (default: ``{"format": "mlx"}``, or ``"pt"``).

    Raises:
        ImplicitArrayError: If the layout does not hold an array; the error names it and the reason.
        ArgumentError: If the layout is unknown.
        OSError: If a file cannot be written; an existing file stays.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> from graphc import implicit
        >>> from graphc.interop.weights import load_safetensors, save_safetensors
        >>> w = np.random.default_rng(0).standard_normal((8, 64)).astype("float16")
        >>> w = implicit.quantize(w, "int4", symmetric=True)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_safetensors(f"{folder}/model.safetensors", {"up.weight": w}, layout="gptq")
        ...     print(load_safetensors(folder, config={}).kinds)
        ...     found = load_safetensors(folder)["up.weight"]
        {'up.qweight': 'I32', 'up.qzeros': 'I32', 'up.scales': 'F16', 'up.g_idx': 'I32'}
        >>> bool((np.asarray(found.astype("float16")) == np.asarray(w)).all())
        True
    """
    if layout not in {None, *LAYOUTS}:
        layouts = ", ".join(map(repr, LAYOUTS))
        raise ArgumentError(f"save_safetensors(layout={layout!r}).", f"Take one of {layouts}.")
    tensors: dict[str, Array] = {}
    settings: dict[str, Mapping[str, Any]] = {}
    for name, x in arrays.items():
        if not is_implicit(x):
            tensors[name] = _dense(name, x)
            continue
        if layout is None or not name.endswith(WEIGHT):
            raise ImplicitArrayError(
                f"save_safetensors: {name!r} is {x!r:.200}.",
                f"Give layout=, and names that end in {WEIGHT!r}; of others than quantized arrays, "
                "materialize(), or graphc.implicit.merge.",
            )
        module = name.removesuffix(WEIGHT)
        layer, settings[module] = LAYOUTS[layout].parts(name, x)
        tensors |= {f"{module}.{suffix}": part for suffix, part in layer.items()}
    path = Path(path)
    header = {"format": "mlx" if layout == "mlx" else "pt"} if metadata is None else metadata
    values = dict(config_of(path) if config is None else config)
    if settings:
        packed = [arrays[module + WEIGHT] for module in settings]
        values |= _quantization(str(layout), settings, LAYOUTS[str(layout)].about(packed), values)
    with replacement(path) as file:
        for chunk in array_chunks(tensors, header):
            file.write(chunk)
    if settings or config is not None:
        with replacement(config_path(path)) as file:
            file.write(f"{json.dumps(values, indent=2)}\n".encode())


def _dense(name: str, x: Any) -> Array:
    array = as_numpy(x)
    if array.dtype.name not in NAMES:
        raise ImplicitArrayError(
            f"save_safetensors: {name!r} is {array.dtype}{list(array.shape)}.",
            f"Cast it to one of {', '.join(NAMES)}.",
        )
    return array


def _quantization(
    layout: str,
    settings: Mapping[str, Mapping[str, Any]],
    about: Mapping[str, Any],
    config: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the entries of ``config.json`` about packed layers; ``about`` is shared by all."""
    counted = Counter(tuple(each.items()) for each in settings.values())
    common = dict(counted.most_common(1)[0][0])
    others = {name: dict(each) for name, each in settings.items() if dict(each) != common}
    if layout == "mlx":
        return dict.fromkeys(("quantization", "quantization_config"), common | others)
    if others:
        name, each = next(iter(others.items()))
        raise ImplicitArrayError(
            f"save_safetensors: {name!r} has {each}, most others {common}.",
            f"Layout {layout!r} has one size of codes and groups for all layers.",
        )
    before = config.get("quantization_config") or {}
    before = before if before.get("quant_method") == layout else {}
    return {"quantization_config": {**before, "quant_method": layout, **common, **about}}
