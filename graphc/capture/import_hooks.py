"""Callbacks on the import of another library: with JAX, ``Lifted`` becomes a pytree."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from graphc.capture.stripped import Lifted, Stripped

Callback = Callable[[Any], None]

_waiting: dict[str, list[Callback]] = {}


def call_when_imported(name: str, callback: Callback) -> None:
    """Call a function with a module, now or when it is imported; never imports it."""
    module = sys.modules.get(name)
    if module is not None and name not in _waiting:
        callback(module)
        return
    if name not in _waiting:
        _waiting[name] = []
        sys.meta_path.insert(0, _Finder(name))
    _waiting[name].append(callback)


class _Finder(MetaPathFinder):
    """A finder that wraps the loader of one module, and removes itself then."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != self.name or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(Loader):
    """A loader that runs the callbacks after another loader."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__loader__"] = self.loader
        self.loader.exec_module(module)
        for callback in _waiting.pop(module.__name__, ()):
            callback(module)


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
