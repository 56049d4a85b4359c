"""``Lifted`` becomes a pytree when JAX is imported."""

from __future__ import annotations

from typing import Any

from graphc.capture.stripped import Lifted, Stripped
from graphc.lazy import call_when_imported

MODULE = "jax.tree_util"

_state = {"registered": False}


def register() -> None:
    """Register ``Lifted`` as a pytree, now or when JAX is imported; never imports it."""
    if not _state["registered"]:
        _state["registered"] = True
        call_when_imported(MODULE, _register)


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
