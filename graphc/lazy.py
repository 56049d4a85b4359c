"""Names of modules that are imported when they are first used (PEP 562).

A higher layer can provide a lower one with names: the lower layer does not import what is above it.

Example:
    >>> provide("graphc.example", names={"math": "sqrt tau"})
    >>> provided("graphc.example", "sqrt")(16.0)
    4.0
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

SOURCES: dict[str, dict[str, tuple[str, str | None]]] = {}
"""For each module and name: the module that has it and its name there, None for that module."""


def provide(
    module: str, *, modules: Sequence[str] = (), names: Mapping[str, str] | None = None
) -> None:
    """Provide a module with names of others, none of which is imported yet.

    Args:
        module: The module's full name; it need not be imported either.
        modules: Modules by their full names, provided under the last part.
        names: For each other module by its full name: names in it, separated by spaces.
    """
    sources = SOURCES.setdefault(module, {})
    sources.update((path.rpartition(".")[2], (path, None)) for path in modules)
    for path, listed in (names or {}).items():
        sources.update((name, (path, name)) for name in listed.split())


def provided(module: str, name: str) -> Any:
    """Import and return what a module is provided with under a name.

    Raises:
        KeyError: It is provided with no such name.
    """
    path, attribute = SOURCES[module][name]
    source = import_module(path)
    return source if attribute is None else getattr(source, attribute)


def attributes(
    namespace: dict[str, Any],
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and ``__dir__`` of a module with the names it is provided with.

    Args:
        namespace: The module's ``globals()``, which keeps each name once it is used.
    """
    module = namespace["__name__"]
    sources = SOURCES.setdefault(module, {})

    def __getattr__(name: str) -> Any:  # noqa: N807 (it becomes the module's)
        if name not in sources:
            problem = f"module {module!r} has no attribute {name!r}"
            raise AttributeError(problem, name=name, obj=sys.modules[module])
        namespace[name] = value = provided(module, name)
        return value

    def __dir__() -> list[str]:  # noqa: N807 (it becomes the module's)
        return sorted({*namespace, *sources})

    return __getattr__, __dir__


def load_all() -> None:
    """Import what every module is provided with."""
    for module, sources in SOURCES.items():
        for name in sources:
            provided(module, name)
