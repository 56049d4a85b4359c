"""Meshes of eight devices, and what tests on them compare and count."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

__all__ = ["assert_near", "collectives", "mesh", "put"]

COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")


@cache
def mesh(kind: AxisType = AxisType.Auto) -> Any:
    """Four times two devices."""
    return jax.make_mesh((4, 2), ("data", "model"), axis_types=(kind, kind))


def put(x: Any, *spec: Any) -> Any:
    """An array sharded over the mesh with explicit axes."""
    return jax.device_put(x, NamedSharding(mesh(AxisType.Explicit), PartitionSpec(*spec)))


def collectives(f: Callable[..., Any], *arguments: Any) -> dict[str, int]:
    """How many collective operations of each kind are in a compiled program."""
    text = jax.jit(f).lower(*arguments).compile().as_text()
    counts = {name: len(re.findall(rf" {name}(?:-start)?\(", text)) for name in COLLECTIVES}
    return {name: n for name, n in counts.items() if n}


def assert_near(found: Any, wanted: Any, digits: float = 1e-4) -> None:
    """Two trees of arrays differ by no more than float32 rounds, of their largest elements."""
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True)
    for a, b in pairs:
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=0, atol=digits * max(1, np.abs(b).max()))
