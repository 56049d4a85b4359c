"""Variables that nothing computes: constants, inputs, shared variables, random generators."""

from __future__ import annotations

import contextlib
import functools
import sys
import sysconfig
import warnings
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from graphc.compile.shared import Shared, SharedInput, Store
from graphc.compile.streams import shared_rng
from graphc.interop.pytensor.application import Refusal
from graphc.ir import TensorType
from graphc.link import as_numpy
from graphc.random.generator import rng
from graphc.site import Site, frames_up
from graphc.tensor.core.tensor import constant

known: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""What stands for variables, so that a variable is the same array in all conversions."""

cut: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""The inputs that stand for computed variables and shared ones, where the user asks for it."""


def is_variable(x: Any) -> bool:
    """Whether it is a variable of PyTensor, which then is loaded."""
    library = sys.modules.get("pytensor.graph.basic")
    return library is not None and isinstance(x, library.Variable)


def has_value(variable: Any) -> bool:
    """Whether it is a constant or a shared variable."""
    return hasattr(variable, "data") or hasattr(variable, "container")


def kinds(variable: Any) -> set[str]:
    """The names of the classes of a variable's type."""
    return {cls.__name__ for cls in type(variable.type).__mro__}


def tensor_type(variable: Any) -> TensorType | None:
    """The type of an array; None for what is no dense array."""
    if kinds(variable) & {"TensorType", "ScalarType"} and "SparseTensorType" not in kinds(variable):
        return TensorType(variable.type.dtype, getattr(variable.type, "shape", ()))
    return None


def is_generator(variable: Any) -> bool:
    """Whether a variable stands for a random generator."""
    return "RandomType" in kinds(variable)


class LinkedStore(Store):
    """The value of a shared variable of PyTensor, which both libraries read and write.

    It is read at each call, as PyTensor's functions write into arrays. No backend's array is kept.

    Attributes:
        container: PyTensor's, which has the value.
    """

    __slots__ = ("container",)

    def __init__(self, container: Any) -> None:
        self.container = container
        super().__init__(container.storage[0], owned=False)

    @property
    def value(self) -> Any:
        """The array that PyTensor has."""
        return self.container.storage[0]

    @value.setter
    def value(self, new: Any) -> None:
        if new is not self.container.storage[0]:
            # A copy: a program's result may be memory that the program uses again.
            self.container.storage[0] = np.array(as_numpy(new))

    @property
    def owned(self) -> bool:
        """False: PyTensor refers to the array."""
        return False

    @owned.setter
    def owned(self, owned: bool) -> None:
        pass

    def converted(self, value: Any) -> None:
        """Nothing is kept."""


PYTHON = (functools.__file__, contextlib.__file__)
"""Files that call functions for others."""

INSTALLED = tuple(sysconfig.get_paths()[name] for name in ("purelib", "platlib", "stdlib"))
"""Where installed packages are, and Python's own modules."""


def site_of(variable: Any) -> Site | None:
    """The user's line that made a variable, as far as PyTensor has noted it."""
    frames = next(iter(getattr(variable.tag, "trace", None) or ()), ())
    libraries = _folders()
    # The user may be the author of an installed package, but seldom of the innermost one.
    for others in ((*libraries, *INSTALLED), libraries):
        for frame in reversed(frames):
            if not frame[0].startswith(others):
                return _site(frame[0], frame[1])
    return None


def _folders() -> tuple[str, ...]:
    """Where the files are that are not the user's."""
    loaded = [sys.modules[name] for name in ("pytensor", "pymc") if name in sys.modules]
    return (*(str(Path(str(module.__file__)).parent) for module in loaded), *PYTHON)


@functools.lru_cache(4096)
def _site(file: str, line: int) -> Site:
    # Only the file and the line of the code are ever asked for.
    code = compile("0", file, "exec").replace(co_firstlineno=line)
    return code, next(start for start, _, n in code.co_lines() if n == line)


def constant_of(variable: Any) -> Any:
    """A constant: an array as it is, a generator as the key that it would draw."""
    data = variable.data
    if is_generator(variable):
        return key_of(variable, data)
    if tensor_type(variable) is None:
        if data is None or isinstance(data, slice):
            return data
        raise Refusal(f"a constant of the type {variable.type} is no array")
    return constant(np.asarray(data, variable.type.dtype), variable.name)


def input_of(variable: Any) -> Any:
    """An input for a variable without a value."""
    if is_generator(variable):
        return rng(variable.name)
    type = tensor_type(variable)
    if type is None:
        raise Refusal(f"a variable of the type {variable.type} is no array")
    return type(variable.name)


def shared_of(variable: Any, linked: bool) -> Any:
    """A shared variable with PyTensor's value, or with a copy of it."""
    if is_generator(variable):
        return key_of(variable, variable.get_value(borrow=True))
    type = tensor_type(variable)
    if type is None:
        raise Refusal(f"a shared variable of the type {variable.type} is no array")
    value = variable.container.storage[0]
    store = LinkedStore(variable.container) if linked else Store(np.array(value), owned=True)
    return Shared.make(SharedInput(type, variable.name, store))


def key_of(variable: Any, generator: Any) -> Any:
    """A shared key, drawn from a copy of a NumPy generator; warns that draws are others."""
    warnings.warn(
        f"from_pytensor: the NumPy generator {variable} becomes a key of graphc, drawn from a copy "
        "of it. Draws have the same distributions and other values, on every backend the same; "
        "the generator itself stays as it is. For a key of your own, which does not warn, pass "
        "givens={variable: gt.random.shared_rng(seed=...)}.",
        stacklevel=frames_up(),
    )
    return shared_rng(generator, name=variable.name)
