"""What is done once another library's module is there: now, or right after its import."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["when_imported"]

Callback = Callable[[Any], None]

_waiting: dict[str, list[Callback]] = {}


def when_imported(name: str, callback: Callback) -> None:
    """Call back with the module of that name, now or when it is imported; graphc does not do so."""
    module = sys.modules.get(name)
    if module is not None and name not in _waiting:
        callback(module)
        return
    if name not in _waiting:
        _waiting[name] = []
        sys.meta_path.insert(0, _Awaited(name))
    _waiting[name].append(callback)


class _Awaited(MetaPathFinder):
    """Waits for the import of a module, and then is gone."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != self.name or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Followed(spec.loader)
        return spec


class _Followed(Loader):
    """Another loader, after which those who wait are called."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__loader__"] = self.loader
        self.loader.exec_module(module)
        for callback in _waiting.pop(module.__name__, ()):
            callback(module)
