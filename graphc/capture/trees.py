"""Lifted functions as trees of JAX's: registered when JAX is there, or as soon as it comes."""

from __future__ import annotations

from typing import Any

from graphc.capture.awaited import when_imported
from graphc.capture.stripped import Lifted, Stripped

__all__ = ["register"]

MODULE = "jax.tree_util"

_state = {"registered": False}


def register() -> None:
    """Make ``Lifted`` a tree to JAX, now or when JAX is imported; graphc does not import it."""
    if not _state["registered"]:
        _state["registered"] = True
        when_imported(MODULE, _register)


def _register(tree_util: Any) -> None:
    def flatten(lifted: Lifted) -> tuple[Any, Stripped]:
        names = lifted.stripped.names
        keys = (tree_util.DictKey(name) for name in names)
        return tuple(zip(keys, lifted.leaves, strict=True)), lifted.stripped

    tree_util.register_pytree_with_keys(
        Lifted,
        flatten,
        lambda stripped, leaves: Lifted(stripped, tuple(leaves)),
        lambda lifted: (lifted.leaves, lifted.stripped),
    )
