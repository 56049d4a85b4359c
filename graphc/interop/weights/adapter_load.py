"""Loading PEFT's adapters: LoRA and DoRA of the layers of a tree."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, FormatError
from graphc.implicit.namespace import numpy_like
from graphc.implicit.policy import densify
from graphc.implicit.structures.dora import DoRA
from graphc.implicit.structures.lora import LoRA, as_library_array
from graphc.implicit.structures.stacked import Stacked
from graphc.implicit.treedef import dtype_of, lengths_of
from graphc.implicit.trees import flatten_with_path, is_array, unflatten
from graphc.interop.weights import adapter_config
from graphc.interop.weights.files import TRUNCATED, refusal
from graphc.interop.weights.safetensors_load import load_safetensors, read_json
from graphc.ir import dtype_name, is_inexact, numpy_dtype

Array = np.ndarray[Any, Any]

FILE, CONFIG = "adapter_model.safetensors", "adapter_config.json"
PREFIX = "base_model.model."
PARTS = re.compile(
    r"(?P<module>.+)\.(?P<part>lora_(?:embedding_)?[AB]|lora_magnitude_vector)(?:\.weight)?$"
)
Rename = Callable[[str], str] | None
Transposed = bool | Callable[[str], bool]


@dataclass
class Adapter:
    """The arrays of a layer's adapter.

    Attributes:
        path: The file.
        module: The layer's name.
        config: The settings of all adapters.
        parts: The arrays by name.
    """

    path: Path
    module: str
    config: Mapping[str, Any]
    arrays: dict[str, Array] = field(default_factory=dict)

    @property
    def is_embedding(self) -> bool:
        """Whether the layer is an embedding, whose matrix has inputs first."""
        return "lora_embedding_A" in self.arrays

    def factors(self, inputs_first: bool) -> tuple[Array, Array]:
        """Return the factors of the update of a matrix."""
        kind = "lora_embedding_" if self.is_embedding else "lora_"
        a, b = (self.arrays.get(f"{kind}{letter}") for letter in "AB")
        rank = adapter_config.rank_of(self.config, self.module)
        if a is None or b is None or (a.ndim, b.ndim) != (2, 2):
            shapes = {name: list(x.shape) for name, x in self.arrays.items()}
            raise self.refusal(
                f"{self.module!r} has {shapes}.",
                "Adapters of linear layers and embeddings are read, which have two matrices; of "
                "convolutions merge them in PEFT.",
            )
        if a.shape[0] != rank or b.shape[1] != rank:
            raise self.refusal(
                f"{self.module!r} has {kind}A {list(a.shape)} and {kind}B {list(b.shape)}, but the "
                f"config has rank {rank}.",
                "The config is another adapter's: r and rank_pattern say the rank.",
            )
        return (a.T, b.T) if inputs_first else (b, a)

    def refusal(self, problem: str, remedy: str) -> FormatError:
        """Return an error about the adapter's file."""
        return refusal(self.path, problem, remedy)


def load_adapter(
    path: str | os.PathLike[str],
    tree: Any,
    *,
    transposed: Transposed = False,
    rename: Rename = None,
    dtype: Any = None,
    config: Mapping[str, Any] | None = None,
) -> Any:
    """Return a tree of weights with the adapters of PEFT's files.

    A weight that has an adapter becomes the base of a ``LoRA`` or ``DoRA``, unchanged: dense or
    quantized, of any library. Arrays of the files that replace others, such as ``modules_to_save``
    and biases, replace the tree's.

    Args:
        path: The folder of ``adapter_model.safetensors`` and ``adapter_config.json``, or that file.
        tree: A nested container of arrays. The keys of a path, joined by dots, are the names of
            PyTorch's state dict, as ``model.layers.0.self_attn.q_proj.weight``. A flat dict of such
            names, such as ``dict(weights)``, is a tree too.
        transposed: Whether the tree has the transposes of PyTorch's linear weights, ``(in, out)``;
            or a function that returns this for the name of a layer. Embeddings are
            ``(tokens, features)`` in both.
        rename: A function from the names of layers in the file, as
            ``model.layers.0.self_attn.q_proj``, to paths in the tree, joined by dots.
        dtype: The floating dtype of adapted arrays. It is needed where the base and the adapter
            differ: graphc neither rounds the adapter nor widens the base unasked.
        config: The settings (default: ``adapter_config.json`` beside the file).

    Returns:
        A tree of the same nesting.

    Raises:
        FormatError: If a file is no safetensors file, is damaged or missing, has other shapes than
            the tree, or is no LoRA's; or if the config has a key that would change the numbers,
            which the error names.
        ArgumentError: If the tree has no array of a layer's name, or dtypes differ.
        OSError: If a file cannot be read.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> from graphc import implicit
        >>> from graphc.interop.weights import load_adapter, save_adapter
        >>> base = {"up.weight": np.ones((6, 4), "float32")}
        >>> tree = {"up.weight": implicit.LoRA.of(base["up.weight"], rank=2, alpha=8)}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_adapter(folder, tree)
        ...     found = load_adapter(folder, base)
        >>> found["up.weight"], found["up.weight"].scale
        (LoRA(float32[6, 4], float32[6, 2], float32[2, 4], float32[]), array(4., dtype=float32))
    """
    file, settings = _locate(Path(path), config)
    adapters, others = _split_adapters(file, settings, load_safetensors(file, config={}))
    leaves, nesting = flatten_with_path(tree)
    indices = {".".join(map(str, keys)): i for i, (keys, x) in enumerate(leaves) if is_array(x)}
    values = [x for _, x in leaves]
    for name, x in others.items():
        module, _, part = name.rpartition(".")
        index = _index_of(file, indices, f"{rename(module)}.{part}" if rename else name, name)
        values[index] = _replace(file, name, values[index], x, is_transposed(transposed, module))
    for module, adapter in adapters.items():
        target = rename(module) if rename else module
        weight = f"{target}.weight"
        index = _index_of(file, indices, weight if weight in indices else target, module)
        values[index] = _adapt(adapter, values[index], is_transposed(transposed, module), dtype)
    return unflatten(nesting, values)


def _locate(path: Path, config: Mapping[str, Any] | None) -> tuple[Path, Mapping[str, Any]]:
    file = path / FILE if path.is_dir() else path
    beside = file.parent / CONFIG
    if config is None and not beside.exists():
        raise refusal(file, f"there is no {CONFIG} beside it.", "Get it, or give config=.")
    settings = read_json(beside) if config is None else config
    adapter_config.check_config(beside if config is None else file, settings)
    if not file.exists() and (file.parent / "adapter_model.bin").exists():
        remedy = "Save it as safetensors: PyTorch's pickles, which may run code, are not read."
        raise refusal(file.parent / "adapter_model.bin", "it is no safetensors file.", remedy)
    return file, settings


def _split_adapters(
    path: Path, config: Mapping[str, Any], arrays: Mapping[str, Array]
) -> tuple[dict[str, Adapter], dict[str, Array]]:
    adapters: dict[str, Adapter] = {}
    others: dict[str, Array] = {}
    for full, x in arrays.items():
        name = full.removeprefix(PREFIX)
        match = PARTS.match(name)
        if match is not None:
            module = match["module"].removesuffix(".base_layer")
            adapter = adapters.setdefault(module, Adapter(path, module, config))
            adapter.arrays[match["part"]] = x
        elif ".lora_" in f".{name}":
            raise refusal(
                path,
                f"graphc does not know what {full!r} is.",
                "Files of PEFT's save_pretrained are read, without names of adapters in those of "
                "arrays, and without biases of factors.",
            )
        else:
            others[name.replace(".base_layer.", ".")] = x
    return adapters, others


def _index_of(path: Path, indices: Mapping[str, int], name: str, module: str) -> int:
    if name not in indices:
        names = ", ".join(sorted(indices)[:3])
        raise ArgumentError(
            f"load_adapter: {path} has {module!r}, but the tree has no {name!r}; it has {names}.",
            "Give rename=, from the names of layers to paths in the tree.",
        )
    return indices[name]


def is_transposed(transposed: Transposed, module: str) -> bool:
    """Return whether a layer's weight is the transpose of PyTorch's."""
    return transposed(module) if callable(transposed) else transposed


def _replace(path: Path, name: str, before: Any, x: Array, transposed: bool) -> Any:
    is_linear = transposed and x.ndim == 2
    y = x.T if is_linear and lengths_of(before) == x.T.shape else x
    if lengths_of(before) != y.shape:
        raise refusal(
            path,
            f"{name!r} has the shape {list(x.shape)}, the tree's {list(lengths_of(before))}.",
            "It is for another model; or give transposed=.",
        )
    return as_library_array(before, np.array(y))


def _adapt(adapter: Adapter, base: Any, transposed: bool, dtype: Any) -> Any:
    flipped = bool(adapter.config.get("fan_in_fan_out"))
    inputs_first = True if adapter.is_embedding else transposed != flipped
    a, b = adapter.factors(inputs_first)
    shape = (a.shape[0], b.shape[1])
    if lengths_of(base) != shape:
        raise adapter.refusal(
            f"{adapter.module!r} has an update of shape {list(shape)}, the tree's is "
            f"{list(lengths_of(base))}.",
            "It is for another model; or give transposed=, for weights that are (in, out).",
        )
    kind = _common_dtype(adapter, base, a, dtype)
    xp = numpy_like(base)
    base = base if dtype_name(dtype_of(base)) == kind else xp.cast(base, kind)
    scale = np.array(adapter_config.scale_of(adapter.config, adapter.module))
    lora = LoRA(base, *[_cast(base, x, kind) for x in (a, b, scale)])
    magnitude = adapter.arrays.get("lora_magnitude_vector")
    if bool(adapter.config.get("use_dora")) != (magnitude is not None):
        raise adapter.refusal(
            f"use_dora is {adapter.config.get('use_dora')!r}, but {adapter.module!r} has "
            f"{'a' if magnitude is not None else 'no'} lora_magnitude_vector.",
            "The config is another adapter's.",
        )
    if magnitude is None:
        return lora
    axis = -1 if inputs_first else -2
    lengths = magnitude.reshape(-1)
    if lengths.shape != (shape[axis],):
        raise adapter.refusal(
            f"{adapter.module!r} has a lora_magnitude_vector of {list(magnitude.shape)} for "
            f"{list(shape)}.",
            TRUNCATED,
        )
    return DoRA(lora, _cast(base, lengths, kind), sums_of_squares(xp, base, axis), axis)


def _cast(base: Any, x: Array, dtype: str) -> Any:
    y = np.ascontiguousarray(x).reshape(x.shape).astype(numpy_dtype(dtype))
    return as_library_array(base, y)


def _common_dtype(adapter: Adapter, base: Any, x: Array, dtype: Any) -> str:
    if dtype is not None:
        return dtype_name(dtype)
    own, other = dtype_name(dtype_of(base)), dtype_name(x.dtype)
    if own != other or not is_inexact(own):
        raise ArgumentError(
            f"load_adapter: {adapter.module!r} is of {own}, its adapter of {other}.",
            f"Give dtype={own!r}, to which the adapter is rounded, or {other!r}, to which the base "
            "is converted.",
        )
    return own


MAX_DENSE = 2**22
"""The most elements of a base that are dense at a time."""


def sums_of_squares(xp: Any, base: Any, axis: int) -> Any:
    """Return the sums of squares of a matrix's rows, axis -2, or columns, axis -1."""

    def sum_squares(rows: Any) -> Any:
        return xp.sum(xp.multiply(rows, rows), -1)

    if not isinstance(base, Stacked):
        dense = densify(base)
        return sum_squares(dense if axis == -2 else xp.swapaxes(dense, -1, -2))
    rows = base if axis == -2 else base.matrix_transpose()
    lengths: Any = rows.shape
    m, n = lengths
    step = max(1, MAX_DENSE // max(1, n))
    pieces = []
    for start in range(0, m, step):
        piece = rows.matrix_window(range(start, min(start + step, m)), range(n))
        if piece is NotImplemented:
            return sum_squares(densify(rows))
        pieces.append(sum_squares(densify(piece)))
    return xp.concatenate(pieces, -1)
