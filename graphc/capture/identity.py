"""Keys of captured objects: plain values by content, a library's objects by public name."""

from __future__ import annotations

import enum
import math
import sys
import sysconfig
from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from types import MethodDescriptorType, ModuleType, WrapperDescriptorType
from typing import Any

import numpy as np

from graphc.ir import TINY, Node
from graphc.tensor.core.elementwise import ROWS, Elementwise
from graphc.tensor.core.runtime import Runtime

NUMBERS = "biufc"
"""The kinds of NumPy's dtypes that are numbers."""


LONG = 256
"""The length above which text and bytes are replaced by a digest."""


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=20).hexdigest()


def _text(x: str) -> str:
    # Half of a surrogate pair is a character too.
    long = len(x) > LONG
    return f"str of {_digest(x.encode('utf-8', 'surrogatepass'))}" if long else f"str {x!r}"


def _bytes(x: bytes) -> str:
    return f"bytes of {_digest(x)}" if len(x) > LONG else f"bytes {x!r}"


def _float(x: float) -> str:
    return f"float {x.hex()}"


def _all(values: tuple[Any, ...]) -> str | None:
    forms = []
    for value in values:
        form = value_key(value)
        if form is None:
            return None
        forms.append(form)
    return f"({', '.join(forms)})"


VALUE_KEYS: dict[type, Callable[[Any], str | None]] = {
    type(None): repr,
    type(Ellipsis): repr,
    type(NotImplemented): repr,
    bool: repr,
    int: lambda x: f"int {x}",
    float: _float,
    complex: lambda x: f"complex {x.real.hex()} {x.imag.hex()}",
    str: _text,
    bytes: _bytes,
    range: repr,
    tuple: _all,
}
"""Keys of plain types, by type and bits: NaN is NaN, 0.0 is not -0.0, 1 is not 1.0 or True."""


def value_key(value: Any) -> str | None:
    """Return the key of a plain value, which only equal values share; None for other objects.

    Example:
        >>> value_key(1.0), value_key([])
        ('float 0x1.0000000000000p+0', None)
    """
    key_function = VALUE_KEYS.get(type(value))
    if key_function is not None:
        return key_function(value)
    if isinstance(value, np.generic) and not isinstance(value, Runtime | np.object_ | np.void):
        return f"{value.dtype.str} {value.tobytes().hex()}"
    if isinstance(value, np.dtype):
        return f"dtype {value.str} {value.descr if value.names else value.name}"
    if isinstance(value, slice):
        inner = _all((value.start, value.stop, value.step))
        return inner and f"slice {inner}"
    if isinstance(value, enum.Enum):
        cls = type(value)
        return f"enum {cls.__module__}.{cls.__qualname__}.{value.name}"
    return None


PROTOCOLS = ("__array__", "__dlpack__", "__jax_array__", "__mlx_array__")
"""An object with any of these, a shape and a dtype is an array."""


def is_array(value: Any) -> bool:
    """Return whether an object is an array of any library, also a symbolic one."""
    if isinstance(value, np.ndarray | Node):
        return True
    if isinstance(value, np.generic | type) or not any(hasattr(type(value), x) for x in PROTOCOLS):
        return False
    if hasattr(value, "__graphc_implicit__"):
        # Its fields are captured instead.
        return False
    return hasattr(value, "shape") and hasattr(value, "dtype")


def is_leaf(array: Any) -> bool:
    """Return whether an array is passed to the program: it is not small, or has no value yet."""
    if isinstance(array, Node):
        return True
    if isinstance(array, np.ndarray):
        return _size(array) >= TINY and _is_numeric(array.dtype)
    return _size(array) >= TINY or _is_tracer(array) or not _has_bytes(array)


def _is_numeric(dtype: np.dtype[Any]) -> bool:
    # Narrow floats of other libraries have the kind of structured dtypes.
    return dtype.kind in NUMBERS or (dtype.kind == "V" and dtype.type is not np.void)


def _size(array: Any) -> int:
    return math.prod(array.shape)


def _is_tracer(array: Any) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(array, jax.core.Tracer)


def _has_bytes(array: Any) -> bool:
    """Return whether an array's elements are readable numbers, unlike JAX's typed keys."""
    if type(array).__module__.startswith("mlx."):
        try:
            array.tolist()
        except (RuntimeError, ValueError):  # within a transformation of MLX's
            return False
        return True
    return isinstance(array.dtype, np.dtype)


def small_array(array: Any) -> tuple[str, Any]:
    """Return the key of a small array, and a copy that the user cannot change.

    Example:
        >>> small_array(np.array([1, 2], "int8"))
        ('numpy.ndarray int8 (2,) 0102', array([1, 2], dtype=int8))
    """
    cls = type(array)
    named = f"{cls.__module__}.{cls.__qualname__} {_dtype(array.dtype)} {tuple(array.shape)}"
    if cls.__module__.startswith("mlx."):
        return f"{named} {array.tolist()!r}", cls(array)
    values = np.asarray(array)
    weak = " weak" if getattr(array, "weak_type", False) else ""
    content = _digest(values.tobytes()) if values.nbytes > LONG else values.tobytes().hex()
    return f"{named}{weak} {content}", array.copy() if isinstance(array, np.ndarray) else array


def _dtype(dtype: Any) -> str:
    if not isinstance(dtype, np.dtype):
        return str(dtype)
    return dtype.name if dtype.isnative else dtype.str


_GRAPHC = str(Path(__file__).resolve().parent.parent)


METHODS = (MethodDescriptorType, WrapperDescriptorType)


def _roots() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    folders = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders |= {str(Path(folder).resolve()) for folder in folders}
    return tuple(f"{folder}/" for folder in (*sorted(folders), _GRAPHC))


ROOTS = _roots()
"""The folders of installed packages, Python's own modules and graphc."""


@lru_cache(4096)
def is_library_file(name: str) -> bool:
    """Return whether the code of a file is a library's, not the user's.

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
    """Return whether a module is a library's: compiled, frozen, or from a library's file."""
    if module.__name__ == "__main__" or getattr(module, "__spec__", None) is None:
        return False
    paths = getattr(module, "__path__", None)
    name = getattr(module, "__file__", None) or next(iter(paths or ()), None)
    return name is None or not name.endswith(".py") or is_library_file(name)


def public_name(value: Any) -> str | None:
    """Return the public name of a library's object; None if it has none.

    Example:
        >>> import math
        >>> public_name(math.sin), public_name(lambda x: x)
        ('math.sin', None)
    """
    if isinstance(value, Elementwise):
        return f"graphc.tensor.{value.row}" if ROWS.get(value.row) is value else None
    # The method of a compiled class has its module in the class.
    owner = value.__objclass__ if isinstance(value, METHODS) else value
    module, name = getattr(owner, "__module__", None), getattr(value, "__qualname__", None)
    name = name if isinstance(name, str) else getattr(value, "__name__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        return None
    public: Any = sys.modules.get(module)
    if not isinstance(public, ModuleType) or not is_library_module(public):
        return None
    for part in name.split("."):
        public = getattr(public, part, None)
    return f"{module}.{name}" if public is value else None


def version_of(module: str) -> str:
    """Return the version of a module's library, or an empty text."""
    package = sys.modules.get(module.partition(".")[0])
    return str(getattr(package, "__version__", ""))
