"""Lifted functions as trees of JAX's: registered when JAX is there, or as soon as it comes."""

from __future__ import annotations

import importlib.util
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from graphc.capture.stripped import Lifted, Stripped

__all__ = ["register"]

MODULE = "jax.tree_util"

_state = {"registered": False}


def register() -> None:
    """Make ``Lifted`` a tree to JAX, now or when JAX is imported; graphc does not import it."""
    if _state["registered"]:
        return
    _state["registered"] = True
    module = sys.modules.get(MODULE)
    if module is None:
        sys.meta_path.insert(0, _Awaited())
    else:
        _register(module)


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


class _Awaited(MetaPathFinder):
    """Waits for the import of JAX's trees, and then is gone."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != MODULE or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Followed(spec.loader)
        return spec


class _Followed(Loader):
    """Another loader, after which lifted functions are registered."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__loader__"] = self.loader
        self.loader.exec_module(module)
        _register(module)
