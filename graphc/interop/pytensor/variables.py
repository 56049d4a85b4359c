"""Variables without an owner: constants, inputs, shared variables, random generators."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import sysconfig
import warnings
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary, ref

import numpy as np

from graphc.compile.shared import Shared, SharedInput, Store, StoredValue, shared
from graphc.compile.streams import shared_rng
from graphc.interop.pytensor.application import Refusal
from graphc.interop.pytensor.sparse import implicit_of
from graphc.ir import Input, Node, TensorType
from graphc.link import as_numpy
from graphc.random.generator import rng
from graphc.site import Site, frames_up, site_at
from graphc.tensor.core.tensor import as_tensor, constant

converted: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""The values of variables, so that a variable is the same array in all conversions."""

cut: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""The inputs for computed variables and shared ones, where the user makes them inputs."""

_counterparts: WeakKeyDictionary[Node, ref[Any]] = WeakKeyDictionary()
"""The PyTensor variables of graphc's inputs and shared variables."""


def note(table: WeakKeyDictionary[Any, Any], variable: Any, x: Any) -> None:
    """Record the value of a variable in a table, and the counterpart of an array."""
    table[variable] = x
    if isinstance(x, Node) and isinstance(x.op, Input) and tensor_type(variable) is not None:
        _counterparts[x] = ref(variable)


def counterpart(x: Node) -> Any:
    """Return PyTensor's variable for an input or a shared variable, or None."""
    reference = _counterparts.get(x)
    return None if reference is None else reference()


def is_variable(x: Any) -> bool:
    """Return whether ``x`` is a variable of PyTensor, if that is loaded."""
    library = sys.modules.get("pytensor.graph.basic")
    return library is not None and isinstance(x, library.Variable)


def has_value(variable: Any) -> bool:
    """Return whether a variable is a constant or a shared variable."""
    return hasattr(variable, "data") or hasattr(variable, "container")


def kinds(variable: Any) -> set[str]:
    """Return the names of the classes of a variable's type."""
    return {cls.__name__ for cls in type(variable.type).__mro__}


def tensor_type(variable: Any) -> TensorType | None:
    """Return the type of a dense array, or None for another variable."""
    if kinds(variable) & {"TensorType", "ScalarType"} and not is_sparse(variable):
        return TensorType(variable.type.dtype, getattr(variable.type, "shape", ()))
    return None


def is_sparse(variable: Any) -> bool:
    """Return whether a variable is a sparse matrix."""
    return "SparseTensorType" in kinds(variable)


def is_generator(variable: Any) -> bool:
    """Return whether a variable is a random generator."""
    return "RandomType" in kinds(variable)


class LinkedValue(StoredValue):
    """The value of a shared variable of PyTensor, which both libraries read and write.

    The value is read at each call, as PyTensor's functions write into arrays. No backend's array is
    cached.

    Attributes:
        container: PyTensor's container, which has the array.
    """

    __slots__ = ("container",)

    def __init__(self, container: Any) -> None:
        self.container = container

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

    def replace_by_copy(self, copy: Any) -> None:
        """Do nothing: PyTensor's array stays."""


PYTHON = (functools.__file__, contextlib.__file__)
"""Python's files of decorators, whose frames are skipped."""

INSTALLED = tuple(sysconfig.get_paths()[name] for name in ("purelib", "platlib", "stdlib"))
"""The folders of installed packages and of Python's modules."""


def link(store: Store, container: Any) -> None:
    """Let a store share PyTensor's value, for all functions that refer to the store."""
    with store.lock:
        store.current = LinkedValue(container)


def describe(variable: Any) -> str:
    """Return a variable's name and type as text."""
    type = tensor_type(variable)
    shown = repr(type) if type is not None else str(variable.type)
    return f"{variable.name}: {shown}" if variable.name else shown


def site_of(variable: Any) -> Site | None:
    """Return the user's line that made a variable, if PyTensor has recorded it."""
    frames = next(iter(getattr(variable.tag, "trace", None) or ()), ())
    libraries = folders() + PYTHON
    # The user may be the author of an installed package, but seldom of the innermost one.
    for others in (libraries + INSTALLED, libraries):
        for frame in reversed(frames):
            if not frame[0].startswith(others):
                return site_at(frame[0], frame[1])
    return None


def folders() -> tuple[str, ...]:
    """Return the folders of PyTensor and PyMC, as far as they are loaded."""
    return _folders(sys.modules.get("pytensor"), sys.modules.get("pymc"))


@functools.lru_cache
def _folders(*libraries: Any) -> tuple[str, ...]:
    return tuple(str(Path(str(x.__file__)).parent) + os.sep for x in libraries if x)


def constant_of(variable: Any) -> Any:
    """Return a constant: an array unchanged, a generator as the key that it would draw."""
    data = variable.data
    if is_generator(variable):
        return key_of(variable, data)
    if tensor_type(variable) is None:
        if data is None or isinstance(data, slice):
            return data
        if is_sparse(variable):
            return as_tensor(implicit_of(data))
        raise Refusal(f"a constant of the type {variable.type} is no array")
    return constant(np.asarray(data, variable.type.dtype), variable.name)


def input_of(variable: Any) -> Any:
    """Return an input for a variable without a value."""
    if is_generator(variable):
        return rng(variable.name)
    type = tensor_type(variable)
    if type is None:
        way = (
            "; give it in givens=, as gt.implicit(graphc.implicit.CSR.from_scipy(matrix))"
            if is_sparse(variable)
            else ""
        )
        raise Refusal(f"a variable of the type {variable.type} is no array{way}")
    return type(variable.name)


def shared_of(variable: Any, linked: bool) -> Any:
    """Return a shared variable with PyTensor's value, or with a copy of it."""
    if is_generator(variable):
        return key_of(variable, variable.get_value(borrow=True))
    type = tensor_type(variable)
    value = variable.container.storage[0]
    if is_sparse(variable) and not linked:
        return shared(implicit_of(value), variable.name)
    if type is None:
        way = '; with shared="copied" it can be had' if is_sparse(variable) else ""
        raise Refusal(f"a shared variable of the type {variable.type} is no array{way}")
    store = Store(value if linked else np.array(value), owned=not linked)
    if linked:
        link(store, variable.container)
    return Shared.make(SharedInput(type, variable.name, store))


def key_of(variable: Any, generator: Any) -> Any:
    """Return a shared key drawn from a copy of a NumPy generator, and warn that draws differ."""
    warnings.warn(
        f"from_pytensor: the NumPy generator {variable} becomes a key of graphc, drawn from a copy "
        "of it. Draws have the same distributions and other values, on every backend the same; "
        "the generator itself stays as it is. For a key of your own, which does not warn, pass "
        "givens={variable: gt.random.shared_rng(seed=...)}.",
        stacklevel=frames_up(),
    )
    return shared_rng(generator, name=variable.name)
