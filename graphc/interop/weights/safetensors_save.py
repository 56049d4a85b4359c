"""Safetensors files written, and beside them how their arrays are packed."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphc.compile.transfer import written
from graphc.errors import ArgumentError, ImplicitArrayError
from graphc.export import safetensors as format
from graphc.export.runtime import NAMES
from graphc.implicit.array import is_implicit
from graphc.interop.weights.layout import Array
from graphc.interop.weights.safetensors_load import LAYOUTS, WEIGHT, beside, said_by
from graphc.ir import dtype_name
from graphc.link.backend import as_numpy


def save_safetensors(
    path: str | os.PathLike[str],
    arrays: Mapping[str, Any],
    *,
    layout: str | None = None,
    config: Mapping[str, Any] | None = None,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write arrays to a safetensors file, without a number of them changed.

    Packed arrays, whose names end in ``.weight``, are written as other libraries pack them, and
    ``config.json`` beside the file says so. What ``load_safetensors`` read is held by the layout
    that it was in; of other arrays, those with the same codes and scales: an error says which array
    has others.

    Args:
        path: The file, which is replaced.
        arrays: By name, of any library.
        layout: ``"mlx"``, ``"awq"`` or ``"gptq"``, where arrays are packed. The latter two have
            scales of two bytes, as ``w.astype("float16")`` makes them, and one size of groups for
            all layers.
        config: What ``config.json`` is to say besides, by default what it does already.
        metadata: What the file's header is to say; by default ``{"format": "mlx"}``, or ``"pt"``.

    Raises:
        ImplicitArrayError: The layout does not hold an array; says which, and why.
        ArgumentError: There is no such layout.
        OSError: A file cannot be written; one that was there stays.

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
        known = ", ".join(map(repr, LAYOUTS))
        raise ArgumentError(f"save_safetensors(layout={layout!r}).", f"Take one of {known}.")
    found: dict[str, Array] = {}
    settings: dict[str, Mapping[str, Any]] = {}
    for name, x in arrays.items():
        if not is_implicit(x):
            found[name] = _whole(name, x)
            continue
        if layout is None or not name.endswith(WEIGHT):
            raise ImplicitArrayError(
                f"save_safetensors: {name!r} is {x!r:.200}.",
                f"Give layout=, and names that end in {WEIGHT!r}; of others than quantized arrays, "
                "materialize(), or graphc.implicit.merge.",
            )
        own = name.removesuffix(WEIGHT)
        parts, settings[own] = LAYOUTS[layout].parts(name, x)
        found |= {f"{own}.{suffix}": part for suffix, part in parts.items()}
    path = Path(path)
    header = {"format": "mlx" if layout == "mlx" else "pt"} if metadata is None else metadata
    said = dict(said_by(path) if config is None else config)
    if settings:
        packed = [arrays[own + WEIGHT] for own in settings]
        said |= _quantization(str(layout), settings, LAYOUTS[str(layout)].about(packed), said)
    with written(path) as file:
        for chunk in format.chunks(found, header):
            file.write(chunk)
    if settings or config is not None:
        with written(beside(path)) as file:
            file.write(f"{json.dumps(said, indent=2)}\n".encode())


def _whole(name: str, x: Any) -> Array:
    found = as_numpy(x)
    if dtype_name(found.dtype) not in NAMES:
        raise ImplicitArrayError(
            f"save_safetensors: {name!r} is {found.dtype}{list(found.shape)}.",
            f"Cast it to one of {', '.join(NAMES)}.",
        )
    return found


def _quantization(
    layout: str,
    settings: Mapping[str, Mapping[str, Any]],
    about: Mapping[str, Any],
    config: Mapping[str, Any],
) -> dict[str, Any]:
    """What ``config.json`` says of packed layers.

    Args:
        layout: Its name.
        settings: What each layer has.
        about: What all have together.
        config: What was said before.
    """
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
