"""Saving PEFT's adapters: the LoRA and DoRA arrays of a tree."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from graphc.errors import ArgumentError, ImplicitArrayError
from graphc.implicit.structures.dora import DoRA
from graphc.implicit.structures.lora import LoRA
from graphc.implicit.trees import flatten_with_path, is_array
from graphc.interop.weights import adapter_config, adapter_load
from graphc.interop.weights.files import replacement
from graphc.interop.weights.safetensors_save import save_safetensors
from graphc.link.backend import as_numpy

Array = np.ndarray[Any, Any]


def save_adapter(  # noqa: PLR0913 (what PEFT lets a user choose)
    path: str | os.PathLike[str],
    tree: Any,
    *,
    transposed: adapter_load.Transposed = False,
    rename: adapter_load.Rename = None,
    embeddings: Collection[str] = (),
    modules_to_save: Collection[str] = (),
    bias: Literal["none", "lora_only", "all"] = "none",
    rank_stabilized: bool = False,
    config: Mapping[str, Any] | None = None,
) -> None:
    """Write the adapters of a tree in PEFT's format, without their bases.

    Args:
        path: A folder, created if it is missing, for ``adapter_model.safetensors`` and
            ``adapter_config.json``.
        tree: A nested container, with ``LoRA`` or ``DoRA`` arrays. The keys of a path, joined by
            dots, are the name of a layer in PyTorch, or that and ``.weight``.
        transposed: As in ``load_adapter``.
        rename: A function from such names of layers in the tree to those in the file.
        embeddings: The names, in the file, of layers that are embeddings.
        modules_to_save: The names, in the file, of layers whose arrays are written in full.
        bias: Which biases are written: of layers with adapters, or all that the tree has.
        rank_stabilized: Whether scales are written as alphas over roots of ranks.
        config: More settings for ``adapter_config.json``, such as ``base_model_name_or_path`` and
            ``task_type``; ``fan_in_fan_out`` for linear layers whose PyTorch weights are
            ``(in, out)``.

    Raises:
        ImplicitArrayError: If an adapter is a stack, has magnitudes of the other axis, or is a
            ``LoRA`` where others are ``DoRA``.
        ArgumentError: If the tree has no adapter, or no layer of a given name.
        OSError: If a file cannot be written.

    Example:
        >>> import json
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from graphc import implicit
        >>> from graphc.interop.weights import save_adapter
        >>> tree = {"up": {"weight": implicit.LoRA.of(np.ones((6, 4), "float32"), rank=2)}}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_adapter(folder, tree, config={"task_type": "CAUSAL_LM"})
        ...     settings = json.loads((Path(folder) / "adapter_config.json").read_text())
        >>> settings["r"], settings["lora_alpha"], settings["target_modules"], settings["task_type"]
        (2, 2, ['up'], 'CAUSAL_LM')
    """
    if bias not in {"none", "lora_only", "all"}:
        raise ArgumentError(
            f"save_adapter(bias={bias!r}).", "Take one of 'none', 'lora_only', 'all'."
        )
    flipped = bool((config or {}).get("fan_in_fan_out"))
    writer = _Writer(transposed, flipped, {*embeddings})
    saved = {*modules_to_save}
    writer.take(tree, rename or str, saved, bias)
    settings = {
        "peft_type": "LORA",
        "base_model_name_or_path": None,
        "task_type": None,
        "inference_mode": True,
        "bias": bias,
        "fan_in_fan_out": flipped,
        "init_lora_weights": True,
        "lora_dropout": 0.0,
        "modules_to_save": sorted(saved) or None,
        "target_modules": sorted(writer.kinds),
        "use_dora": DoRA in writer.kinds.values(),
        **adapter_config.ranks_config(writer.ranks, writer.scales, root=rank_stabilized),
        **(config or {}),
    }
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    save_safetensors(folder / adapter_load.FILE, writer.arrays)
    with replacement(folder / adapter_load.CONFIG) as file:
        file.write(f"{json.dumps(settings, indent=2)}\n".encode())


@dataclass
class _Writer:
    """The contents of the files, collected from a tree.

    Attributes:
        transposed: As in ``save_adapter``.
        flipped: Whether PyTorch's linear weights are ``(in, out)``.
        embeddings: The names of layers that are embeddings.
        arrays: The arrays by their names in the file.
        ranks: The ranks of adapters by the names of layers.
        scales: The scales of adapters, in their dtypes.
        kinds: The classes of adapters.
    """

    transposed: adapter_load.Transposed
    flipped: bool
    embeddings: set[str]
    arrays: dict[str, Array] = field(default_factory=dict)
    ranks: dict[str, int] = field(default_factory=dict)
    scales: dict[str, Any] = field(default_factory=dict)
    kinds: dict[str, type] = field(default_factory=dict)

    def take(self, tree: Any, rename: Callable[[str], str], saved: set[str], bias: str) -> None:
        """Collect the adapters of a tree, the layers of ``saved``, and biases."""
        rest: list[tuple[str, str, Any]] = []
        for keys, x in flatten_with_path(tree)[0]:
            name = ".".join(map(str, keys))
            if isinstance(x, LoRA | DoRA):
                self.add(rename(name.removesuffix(".weight")), x)
            elif is_array(x):
                owner, _, part = name.rpartition(".")
                rest.append((rename(owner), part, x))
        for module, part, x in rest:
            is_adapted = module in self.kinds
            if module in saved:
                self.keep(module, f"{module}.{part}", x)
            elif part == "bias" and (bias == "all" or (bias == "lora_only" and is_adapted)):
                self.keep(
                    module, f"{module}.base_layer.bias" if is_adapted else f"{module}.bias", x
                )
        self.check(saved - {module for module, _, _ in rest})

    def add(self, module: str, x: LoRA | DoRA) -> None:
        lora = x.lora if isinstance(x, DoRA) else x
        if x.ndim > 2 or not isinstance(lora, LoRA):
            raise _unfit(module, x, "PEFT has matrices: write each of a stack by itself.")
        is_embedding = module in self.embeddings
        inputs_first = (
            is_embedding or adapter_load.is_transposed(self.transposed, module) != self.flipped
        )
        a, b = as_numpy(lora.a), as_numpy(lora.b)
        a, b = (a.T, b.T) if inputs_first else (b, a)
        prefix = f"{adapter_load.PREFIX}{module}.lora_"
        names = ("embedding_A", "embedding_B") if is_embedding else ("A.weight", "B.weight")
        self.arrays |= {prefix + name: part for name, part in zip(names, (a, b), strict=True)}
        self.ranks[module], self.kinds[module] = len(a), type(x)
        self.scales[module] = a.dtype.type(1) if lora.scale is None else as_numpy(lora.scale)[()]
        if isinstance(x, DoRA):
            if x.axis != (-1 if inputs_first else -2):
                raise _unfit(
                    module,
                    x,
                    "PEFT has a length for each output: the axis is -2 for weights (out, in), and "
                    "-1 with transposed=True.",
                )
            self.arrays[f"{prefix}magnitude_vector"] = as_numpy(x.magnitude)

    def keep(self, module: str, name: str, x: Any) -> None:
        array = as_numpy(x)
        flipped = array.ndim == 2 and adapter_load.is_transposed(self.transposed, module)
        self.arrays[adapter_load.PREFIX + name] = array.T if flipped else array

    def check(self, unknown: Iterable[str]) -> None:
        """Raise if there is nothing to write, or PEFT cannot hold it."""
        missing = [*sorted(unknown), *sorted(self.embeddings - {*self.kinds})]
        if missing or not self.kinds:
            lack = f"no layer {missing[0]!r}" if missing else "no adapter"
            raise ArgumentError(
                f"save_adapter: the tree has {lack}.",
                f"It has adapters of {', '.join(self.kinds) or 'no layer'}; LoRA.of makes one.",
            )
        names = {kind.__name__: module for module, kind in self.kinds.items()}
        if len(names) > 1:
            raise ImplicitArrayError(
                f"save_adapter: {names['LoRA']!r} is a LoRA, and {names['DoRA']!r} a DoRA.",
                "PEFT has one kind in a file: write two, each of a part of the tree.",
            )


def _unfit(module: str, x: Any, remedy: str) -> ImplicitArrayError:
    return ImplicitArrayError(f"save_adapter: {module!r} is {x!r:.200}.", remedy)
