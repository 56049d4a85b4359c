"""What belongs to an installed library, and is known by its name alone."""

from __future__ import annotations

import sys
import sysconfig
from functools import lru_cache
from pathlib import Path
from types import MethodDescriptorType, ModuleType, WrapperDescriptorType
from typing import Any

from graphc.tensor.elementwise import ROWS, Elementwise

__all__ = ["is_library_file", "is_library_module", "public_name", "version_of"]

_GRAPHC = str(Path(__file__).resolve().parent.parent)


METHODS = (MethodDescriptorType, WrapperDescriptorType)


def _roots() -> tuple[str, ...]:
    known = sysconfig.get_paths()
    places = {known[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    places |= {str(Path(place).resolve()) for place in places}
    return tuple(f"{place}/" for place in (*sorted(places), _GRAPHC))


ROOTS = _roots()
"""Where installed packages, Python's own modules and graphc lie."""


@lru_cache(4096)
def is_library_file(name: str) -> bool:
    """Whether code of that file is a library's, rather than the user's.

    Example:
        >>> is_library_file(Path.exists.__code__.co_filename), is_library_file("<stdin>")
        (True, False)
    """
    if name.startswith("<frozen ") or any(
        x in name for x in ("/site-packages/", "/dist-packages/")
    ):
        return True
    return name.replace("\\", "/").startswith(ROOTS)


def is_library_module(module: ModuleType) -> bool:
    """Whether a module is a library's: compiled, frozen, or a file of one."""
    if module.__name__ == "__main__" or getattr(module, "__spec__", None) is None:
        return False
    paths = getattr(module, "__path__", None)
    name = getattr(module, "__file__", None) or next(iter(paths or ()), None)
    return name is None or not name.endswith(".py") or is_library_file(name)


def public_name(value: Any) -> str | None:
    """The name under which a library's object is found again; None for what has none.

    Example:
        >>> import math
        >>> public_name(math.sin), public_name(lambda x: x)
        ('math.sin', None)
    """
    if isinstance(value, Elementwise):
        return f"graphc.tensor.{value.row}" if ROWS.get(value.row) is value else None
    # Of a compiled class's method the class alone tells the module.
    owner = value.__objclass__ if isinstance(value, METHODS) else value
    module, name = getattr(owner, "__module__", None), getattr(value, "__qualname__", None)
    name = name if isinstance(name, str) else getattr(value, "__name__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        return None
    found: Any = sys.modules.get(module)
    if not isinstance(found, ModuleType) or not is_library_module(found):
        return None
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{module}.{name}" if found is value else None


def version_of(module: str) -> str:
    """The version of the library that a module is part of, as far as it tells."""
    package = sys.modules.get(module.partition(".")[0])
    return str(getattr(package, "__version__", ""))
