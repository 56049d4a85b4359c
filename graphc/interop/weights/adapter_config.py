"""The settings in ``adapter_config.json`` on which an adapter's numbers depend.

Source: PEFT, ``src/peft/tuners/lora/config.py``.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphc.interop.weights.files import refusal

KNOWN = {
    *("peft_type", "r", "lora_alpha", "use_rslora", "use_dora", "fan_in_fan_out", "bias"),
    *("rank_pattern", "alpha_pattern", "init_lora_weights", "modules_to_save"),
    # Which layers have adapters, which the file shows too.
    *("target_modules", "exclude_modules", "layers_to_transform", "layers_pattern"),
    # How and where the adapters were trained or initialised.
    *("lora_dropout", "eva_config", "loftq_config", "runtime_config", "inference_mode"),
    *("auto_mapping", "base_model_name_or_path", "revision", "task_type", "megatron_core"),
    *("peft_version", "qalora_group_size"),
}
"""The keys that are read, and the keys that change no number."""

DRAWN = (None, True, False, "gaussian", "eva", "orthogonal")
"""Initialisations of the factors that do not change the base."""

Patterns = Mapping[str, Any]


def check_config(path: Path, config: Mapping[str, Any]) -> None:
    """Raise unless the config is a LoRA's, without settings that would change the numbers.

    Raises:
        FormatError: If a setting is not supported; the error names the key.
    """
    kind = config.get("peft_type")
    if kind != "LORA":
        raise refusal(path, f"peft_type is {kind!r}.", "Adapters of type 'LORA' are read.")
    unknown = [key for key, value in config.items() if value and key not in KNOWN]
    if unknown:
        key = unknown[0]
        raise refusal(
            path,
            f"{key!r} is {config[key]!r:.100}, of which graphc does not know what it changes.",
            "Merge the adapter by the library that made it; or give config=, without the key, if "
            "it changes nothing.",
        )
    initialisation = config.get("init_lora_weights")
    if initialisation not in DRAWN:
        raise refusal(
            path,
            f"'init_lora_weights' is {initialisation!r}, which changes the base.",
            "Convert it by PEFT's save_pretrained(path_initial_model_for_weight_conversion=...).",
        )
    _check_numbers(path, config)


def _check_numbers(path: Path, config: Mapping[str, Any]) -> None:
    ranks, alphas = (config.get(key) or {} for key in ("rank_pattern", "alpha_pattern"))
    numbers = {"r": config.get("r"), "lora_alpha": config.get("lora_alpha")}
    for key, patterns in (("rank_pattern", ranks), ("alpha_pattern", alphas)):
        if not isinstance(patterns, dict):
            raise refusal(path, f"{key!r} is {patterns!r:.100}.", "It is a dict.")
        numbers |= {f"{key}[{name!r}]": value for name, value in patterns.items()}
        for name in patterns:
            try:
                re.compile(name)
            except re.error as error:
                raise refusal(path, f"{key!r} has {name!r}: {error}.", "See the file.") from error
    for key, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise refusal(path, f"{key} is {value!r}.", "It is a number above 0.")


def match_pattern(patterns: Patterns | None, name: str, default: Any) -> Any:
    """Return the value of the first pattern that a layer's name, or its end, matches.

    Example:
        >>> match_pattern({"q_proj": 4, "layers.1.q_proj": 8}, "model.layers.1.q_proj", 2)
        4
    """
    for pattern, value in (patterns or {}).items():
        if re.match(rf"(.*\.)?({pattern})$", name):
            return value
    return default


def rank_of(config: Mapping[str, Any], name: str) -> Any:
    """Return the rank of a layer's adapter."""
    return match_pattern(config.get("rank_pattern"), name, config["r"])


def scale_of(config: Mapping[str, Any], name: str) -> float:
    """Return the scale of a layer's adapter."""
    alpha = match_pattern(config.get("alpha_pattern"), name, config["lora_alpha"])
    rank = rank_of(config, name)
    return float(alpha) / (math.sqrt(rank) if config.get("use_rslora") else rank)


def ranks_config(
    ranks: Mapping[str, int], scales: Mapping[str, Any], *, root: bool
) -> dict[str, Any]:
    """Return the config of layers' ranks and alphas: the most frequent, and patterns for others.

    Args:
        ranks: Ranks by the names of layers.
        scales: Scales by the names of layers, of a floating dtype.
        root: Whether scales are alphas over roots of ranks.
    """
    alphas = {
        name: _alpha(scale, math.sqrt(ranks[name]) if root else ranks[name])
        for name, scale in scales.items()
    }
    config: dict[str, Any] = {"use_rslora": root}
    numbers: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
        ("r", "rank_pattern", ranks),
        ("lora_alpha", "alpha_pattern", alphas),
    )
    for key, patterns, values in numbers:
        common = Counter(values.values()).most_common(1)[0][0]
        # A name also fits the ends of longer ones, which therefore come first.
        names = sorted(values, key=lambda name: (-len(name), name))
        others = {re.escape(name): values[name] for name in names if values[name] != common}
        if any(match_pattern(others, name, common) != number for name, number in values.items()):
            others = {re.escape(name): values[name] for name in names}
        config |= {key: common, patterns: others}
    return config


DIGITS = 17
"""The number of digits that distinguishes all float64 numbers."""


def _alpha(scale: Any, divisor: float) -> float | int:
    """Return the shortest number that is the scale times the divisor in the scale's dtype."""
    exact = float(scale) * divisor
    shorter = (float(f"{exact:.{digits}g}") for digits in range(1, DIGITS))
    x = next((x for x in shorter if type(scale)(x / divisor) == scale), exact)
    return int(x) if x == int(x) else x
