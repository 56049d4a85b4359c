"""Safetensors files, beside a ``config.json`` that says how their arrays are packed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from graphc.export.runtime import META, arrays_in, header_in
from graphc.interop.weights import awq, gptq, mlx
from graphc.interop.weights.files import TRUNCATED, Weights, mapped, refusal
from graphc.interop.weights.layout import Array, Module

LAYOUTS: dict[str, Any] = {"awq": awq, "gptq": gptq, "mlx": mlx}
SUFFIXES = {
    **dict.fromkeys(("awq", "gptq"), ("qweight", "qzeros", "scales", "g_idx")),
    "mlx": ("weight", "scales", "biases"),
}
"""For each layout the suffixes of the arrays that stand for one; all layers have the first."""

WEIGHT = ".weight"
CONFIG, INDEX = "config.json", "model.safetensors.index.json"


def load_safetensors(
    path: str | os.PathLike[str], *, config: Mapping[str, Any] | None = None
) -> Weights:
    """The arrays of safetensors files, packed as the files have them.

    Dense arrays are parts of the file. What ``config.json`` says is packed by AWQ, GPTQ or MLX is
    one implicit array for each layer, with the name of its weight and of the shape that PyTorch and
    MLX give it, ``(out, in)``, whose product is ``x @ w.T``.

    ====================  =========================================================================
    layout                arrays are
    ====================  =========================================================================
    MLX                   ``AffineQuantized`` or ``Microscaled``; words, scales and biases are parts
                          of the file
    AWQ, version "gemm"   ``AffineQuantized`` of float32, in which ``scale * (code - zero)`` is
                          exact; ``ScaledQuantized`` where all zero points are the middle
    GPTQ                  the same; within a ``ChannelPermuted`` where ``g_idx`` has another order,
                          as ``desc_act`` gives it
    ====================  =========================================================================

    Args:
        path: A file, or a folder with ``model.safetensors.index.json`` or one file.
        config: What ``config.json`` says, by default the one beside the file; ``{}`` to read the
            arrays as they lie, whatever they stand for.

    Returns:
        The arrays by name, each read when it is asked for, the files' metadata and the config.

    Raises:
        FormatError: A file is none, or is damaged, or missing; the arrays are packed in another
            way than those; when an array is read, its parts do not fit each other.
        OSError: A file cannot be read.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> from graphc import implicit
        >>> from graphc.interop.weights import load_safetensors, save_safetensors
        >>> w = implicit.quantize(np.eye(64, dtype="float32"), "int4")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_safetensors(f"{folder}/model.safetensors", {"head.weight": w}, layout="mlx")
        ...     weights = load_safetensors(folder)
        ...     weights["head.weight"], weights.config["quantization"]
        (AffineQuantized(uint32[64, 8], float32[64, 1], float32[64, 1], bits=4, group_size=64,
         transposed=False), {'group_size': 64, 'bits': 4, 'mode': 'affine'})
    """
    path = Path(path)
    arrays, kinds, metadata = _all_in(path)
    said = said_by(path) if config is None else dict(config)
    layout, settings = _layout(path, said)
    readers: dict[str, Callable[[], Any]] = {name: partial(_as_is, x) for name, x in arrays.items()}
    if layout is None:
        unknown = [name for name in arrays if name.endswith(".qweight")]
        if unknown and config is None:
            raise refusal(
                path,
                f"{unknown[0]!r} is packed, but no {CONFIG} says how.",
                "Give config=, with 'quantization_config', or {} to read the arrays as they lie.",
            )
        return Weights(path, readers, kinds=kinds, metadata=metadata, config=said)
    first, *others = SUFFIXES[layout]
    for full in [*arrays]:
        name = full.removesuffix(f".{first}")
        if name == full or f"{name}.scales" not in arrays:
            continue
        for suffix in (first, *others):
            readers.pop(f"{name}.{suffix}", None)
            kinds.pop(f"{name}.{suffix}", None)
        module = Module(path, name, arrays, _own(path, layout, name, settings))
        readers[name + WEIGHT] = partial(LAYOUTS[layout].read, module)
        kinds[name + WEIGHT] = layout
    return Weights(path, readers, kinds=kinds, metadata=metadata, config=said)


def _as_is(x: Array) -> Array:
    return x


def _all_in(path: Path) -> tuple[dict[str, Array], dict[str, str], dict[str, str]]:
    """The arrays of all files, the names of their dtypes, and the metadata."""
    arrays: dict[str, Array] = {}
    kinds: dict[str, str] = {}
    metadata: dict[str, str] = {}
    for file in _files(path):
        data = mapped(file)
        try:
            found = arrays_in(data)
            header, _ = header_in(data)
        except ValueError as error:
            raise refusal(file, f"{error}.", TRUNCATED) from error
        twice = arrays.keys() & found.keys()
        if twice:
            raise refusal(file, f"{min(twice)!r} is in another file, too.", "Remove one of them.")
        arrays |= found
        metadata |= header.pop(META, None) or {}
        kinds |= {name: entry["dtype"] for name, entry in header.items()}
    return arrays, kinds, metadata


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    if (path / INDEX).exists():
        shards = read_json(path / INDEX).get("weight_map", {})
        names = sorted({str(name) for name in shards.values()}) if isinstance(shards, dict) else []
        # A file of weights leads nowhere else.
        if not names or any(Path(name).name != name for name in names):
            raise refusal(path / INDEX, "it names no files of the folder.", TRUNCATED)
        missing = [name for name in names if not (path / name).exists()]
        if missing:
            raise refusal(path, f"{missing[0]!r} is missing.", f"{INDEX} names it: get it, too.")
        return [path / name for name in names]
    found = sorted(path.glob("*.safetensors"))
    if len(found) != 1:
        raise refusal(
            path,
            f"it has {len(found)} files of safetensors, and no {INDEX}.",
            "Give the path of a file.",
        )
    return found


def read_json(path: Path) -> dict[str, Any]:
    """The dict in a file."""
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise refusal(path, f"it is no JSON: {error}.", TRUNCATED) from error
    if not isinstance(found, dict):
        raise refusal(path, "it is no dict.", TRUNCATED)
    return found


def beside(path: Path) -> Path:
    """Where the config of a file or folder is."""
    return (path if path.is_dir() else path.parent) / CONFIG


def said_by(path: Path) -> dict[str, Any]:
    """What the config of a file or folder says."""
    return read_json(beside(path)) if beside(path).exists() else {}


def _layout(path: Path, config: Mapping[str, Any]) -> tuple[str | None, Mapping[str, Any]]:
    """The layout of what is packed, and its settings; None where nothing is."""
    settings = config.get("quantization_config") or config.get("quantization")
    if settings is None:
        return None, {}
    if not isinstance(settings, dict):
        raise refusal(path, f"the quantization is {settings!r:.100}.", f"See {CONFIG}.")
    # MLX-LM writes its settings under both names; other libraries name their methods.
    method = settings.get("quant_method", "mlx")
    version = str(settings.get("version") or "gemm").lower()
    if method not in LAYOUTS or (method == "awq" and version != "gemm"):
        known = "awq (version gemm), gptq and MLX's layouts are read"
        raise refusal(
            path,
            f"its arrays are packed by {method!r}, version {version!r}.",
            f"{known}; give config={{}} to read the arrays as they lie.",
        )
    return method, settings


def _own(path: Path, layout: str, name: str, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings of a layer: of MLX, which may have its own, without those of others."""
    if layout != "mlx":
        return settings
    own = settings.get(name, True)
    if isinstance(own, dict):
        return own
    if own is not True:
        problem = f"{name!r} is packed, though {CONFIG} has {own!r} for it."
        raise refusal(path, problem, "The config is another model's.")
    return {key: value for key, value in settings.items() if key in {"group_size", "bits", "mode"}}
