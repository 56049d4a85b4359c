"""Pickling of lifted functions, for processes with the same Python and libraries.

Code objects are written out; modules and their variables are written as names.
"""

from __future__ import annotations

import io
import marshal
import pickle
import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import Any


class _Pickler(pickle.Pickler):
    def persistent_id(self, value: Any) -> tuple[str, Any] | None:
        if type(value) is CodeType:
            return "code", marshal.dumps(value)
        if isinstance(value, ModuleType):
            return "module", value.__name__
        if isinstance(value, ModuleSpec):
            return "spec", value.name
        if type(value) is dict:
            name = value.get("__name__")
            module = sys.modules.get(name) if isinstance(name, str) else None
            if module is not None and vars(module) is value:
                return "variables", name
        return None


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, pid: tuple[str, Any]) -> Any:
        kind, data = pid
        if kind == "code":
            return marshal.loads(data)
        if kind == "spec":
            # The specification of a script's module is None in another process.
            return getattr(sys.modules.get(data), "__spec__", None)
        module = import_module(data)
        return module if kind == "module" else vars(module)


def dump(value: Any) -> bytes:
    """Return a value as bytes.

    Raises:
        TypeError, AttributeError, ValueError, pickle.PicklingError: If the value holds an object
            that exists in this process alone.

    Example:
        >>> print(load(dump((lambda x: x + 1).__code__)).co_argcount)
        1
    """
    buffer = io.BytesIO()
    _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


def load(data: bytes) -> Any:
    """Return the value that ``dump`` wrote, from trusted bytes."""
    return _Unpickler(io.BytesIO(data)).load()
