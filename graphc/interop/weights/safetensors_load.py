"""Loading safetensors files, with a ``config.json`` that describes the packing of their arrays."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from graphc.export.runtime import META, arrays_in, header_in
from graphc.interop.weights import awq, gptq, mlx
from graphc.interop.weights.files import TRUNCATED, Weights, map_file, refusal
from graphc.interop.weights.layout import Array, Module

LAYOUTS: dict[str, Any] = {"awq": awq, "gptq": gptq, "mlx": mlx}
SUFFIXES = {
    **dict.fromkeys(("awq", "gptq"), ("qweight", "qzeros", "scales", "g_idx")),
    "mlx": ("weight", "scales", "biases"),
}
"""The suffixes of the arrays of a layer in each layout; all layers have the first."""

WEIGHT = ".weight"
CONFIG, INDEX = "config.json", "model.safetensors.index.json"


def load_safetensors(
    path: str | os.PathLike[str], *, config: Mapping[str, Any] | None = None
) -> Weights:
    """Return the arrays of safetensors files, packed as the files have them.

    Dense arrays are parts of the file. A layer that ``config.json`` declares packed by AWQ, GPTQ or
    MLX is one implicit array, with the name and the shape of the weight in PyTorch and MLX,
    ``(out, in)``, whose product is ``x @ w.T``.

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
        config: The settings (default: ``config.json`` beside the file); ``{}`` to read the arrays
            as they are stored.

    Returns:
        The arrays by name, each read when it is asked for, the files' metadata and the config.

    Raises:
        FormatError: If a file is no safetensors file, is damaged or missing, or its arrays have
            another layout; when an array is read: if its parts do not fit each other.
        OSError: If a file cannot be read.

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
    arrays, kinds, metadata = _read_all(path)
    values = config_of(path) if config is None else dict(config)
    layout, settings = _layout(path, values)
    readers: dict[str, Callable[[], Any]] = {name: partial(_as_is, x) for name, x in arrays.items()}
    if layout is None:
        unknown = [name for name in arrays if name.endswith(".qweight")]
        if unknown and config is None:
            raise refusal(
                path,
                f"{unknown[0]!r} is packed, but no {CONFIG} says how.",
                "Give config=, with 'quantization_config', or {} to read the arrays as they lie.",
            )
        return Weights(path, readers, kinds=kinds, metadata=metadata, config=values)
    first, *others = SUFFIXES[layout]
    for full in [*arrays]:
        name = full.removesuffix(f".{first}")
        if name == full or f"{name}.scales" not in arrays:
            continue
        for suffix in (first, *others):
            readers.pop(f"{name}.{suffix}", None)
            kinds.pop(f"{name}.{suffix}", None)
        module = Module(path, name, arrays, _layer_settings(path, layout, name, settings))
        readers[name + WEIGHT] = partial(LAYOUTS[layout].read, module)
        kinds[name + WEIGHT] = layout
    return Weights(path, readers, kinds=kinds, metadata=metadata, config=values)


def _as_is(x: Array) -> Array:
    return x


def _read_all(path: Path) -> tuple[dict[str, Array], dict[str, str], dict[str, str]]:
    arrays: dict[str, Array] = {}
    kinds: dict[str, str] = {}
    metadata: dict[str, str] = {}
    for file in _files(path):
        data = map_file(file)
        try:
            file_arrays = arrays_in(data)
            header, _ = header_in(data)
        except ValueError as error:
            raise refusal(file, f"{error}.", TRUNCATED) from error
        twice = arrays.keys() & file_arrays.keys()
        if twice:
            raise refusal(file, f"{min(twice)!r} is in another file, too.", "Remove one of them.")
        arrays |= file_arrays
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
    files = sorted(path.glob("*.safetensors"))
    if len(files) != 1:
        raise refusal(
            path,
            f"it has {len(files)} files of safetensors, and no {INDEX}.",
            "Give the path of a file.",
        )
    return files


def read_json(path: Path) -> dict[str, Any]:
    """Return the dict in a file."""
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise refusal(path, f"it is no JSON: {error}.", TRUNCATED) from error
    if not isinstance(value, dict):
        raise refusal(path, "it is no dict.", TRUNCATED)
    return value


def config_path(path: Path) -> Path:
    """Return the path of the config of a file or folder."""
    return (path if path.is_dir() else path.parent) / CONFIG


def config_of(path: Path) -> dict[str, Any]:
    """Return the config of a file or folder; empty without one."""
    return read_json(config_path(path)) if config_path(path).exists() else {}


def _layout(path: Path, config: Mapping[str, Any]) -> tuple[str | None, Mapping[str, Any]]:
    settings = config.get("quantization_config") or config.get("quantization")
    if settings is None:
        return None, {}
    if not isinstance(settings, dict):
        raise refusal(path, f"the quantization is {settings!r:.100}.", f"See {CONFIG}.")
    # MLX-LM writes its settings under both names; other libraries name their methods.
    method = settings.get("quant_method", "mlx")
    version = str(settings.get("version") or "gemm").lower()
    if method not in LAYOUTS or (method == "awq" and version != "gemm"):
        supported = "awq (version gemm), gptq and MLX's layouts are read"
        raise refusal(
            path,
            f"its arrays are packed by {method!r}, version {version!r}.",
            f"{supported}; give config={{}} to read the arrays as they lie.",
        )
    return method, settings


def _layer_settings(
    path: Path, layout: str, name: str, settings: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the settings of a layer; MLX has settings of single layers."""
    if layout != "mlx":
        return settings
    layer = settings.get(name, True)
    if isinstance(layer, dict):
        return layer
    if layer is not True:
        problem = f"{name!r} is packed, though {CONFIG} has {layer!r} for it."
        raise refusal(path, problem, "The config is another model's.")
    return {key: value for key, value in settings.items() if key in {"group_size", "bits", "mode"}}
