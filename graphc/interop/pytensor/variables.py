"""Variables that nothing computes: constants, inputs, shared variables, random generators."""

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

from graphc.compile.shared import Shared, SharedInput, Store, shared
from graphc.compile.streams import shared_rng
from graphc.interop.pytensor.application import Refusal
from graphc.interop.pytensor.sparse import implicit_of
from graphc.ir import Input, Node, TensorType
from graphc.link import as_numpy
from graphc.random.generator import rng
from graphc.site import Site, frames_up, site_at
from graphc.tensor.core.tensor import as_tensor, constant

known: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""What stands for variables, so that a variable is the same array in all conversions."""

cut: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""The inputs that stand for computed variables and shared ones, where the user asks for it."""

_counterparts: WeakKeyDictionary[Node, ref[Any]] = WeakKeyDictionary()
"""For inputs and shared variables of graphc, PyTensor's variables that they stand for."""


def note(made: WeakKeyDictionary[Any, Any], variable: Any, x: Any) -> None:
    """Note what stands for a variable; where both are arrays, each for the other."""
    made[variable] = x
    if isinstance(x, Node) and isinstance(x.op, Input) and tensor_type(variable) is not None:
        _counterparts[x] = ref(variable)


def counterpart(x: Node) -> Any:
    """PyTensor's variable for an input or a shared variable; None where there is none."""
    found = _counterparts.get(x)
    return None if found is None else found()


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
    if kinds(variable) & {"TensorType", "ScalarType"} and not is_sparse(variable):
        return TensorType(variable.type.dtype, getattr(variable.type, "shape", ()))
    return None


def is_sparse(variable: Any) -> bool:
    """Whether a variable stands for a sparse matrix."""
    return "SparseTensorType" in kinds(variable)


def is_generator(variable: Any) -> bool:
    """Whether a variable stands for a random generator."""
    return "RandomType" in kinds(variable)


_OWN: Any = Store.__dict__["value"]
"""The slot of a store that has its value, and of a linked one PyTensor's container."""


class LinkedStore(Store):
    """The value of a shared variable of PyTensor, which both libraries read and write.

    It is read at each call, as PyTensor's functions write into arrays. No backend's array is kept.
    """

    # None of its own: the store of a variable that was graphc's alone becomes one.
    __slots__ = ()

    @property
    def container(self) -> Any:
        """PyTensor's container, which has the value."""
        return _OWN.__get__(self)

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


def link(store: Store, container: Any) -> None:
    """Let a store have PyTensor's value instead of its own, for all functions that refer to it."""
    with store.lock:
        _OWN.__set__(store, container)
        store.__class__ = LinkedStore


def named(variable: Any) -> str:
    """A variable with its type."""
    type = tensor_type(variable)
    shown = repr(type) if type is not None else str(variable.type)
    return f"{variable.name}: {shown}" if variable.name else shown


def site_of(variable: Any) -> Site | None:
    """The user's line that made a variable, as far as PyTensor has noted it."""
    frames = next(iter(getattr(variable.tag, "trace", None) or ()), ())
    libraries = folders() + PYTHON
    # The user may be the author of an installed package, but seldom of the innermost one.
    for others in (libraries + INSTALLED, libraries):
        for frame in reversed(frames):
            if not frame[0].startswith(others):
                return site_at(frame[0], frame[1])
    return None


def folders() -> tuple[str, ...]:
    """The folders of PyTensor and PyMC, as far as they are loaded."""
    return _folders(sys.modules.get("pytensor"), sys.modules.get("pymc"))


@functools.lru_cache
def _folders(*libraries: Any) -> tuple[str, ...]:
    return tuple(str(Path(str(x.__file__)).parent) + os.sep for x in libraries if x)


def constant_of(variable: Any) -> Any:
    """A constant: an array as it is, a generator as the key that it would draw."""
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
    """An input for a variable without a value."""
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
    """A shared variable with PyTensor's value, or with a copy of it."""
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
    """A shared key, drawn from a copy of a NumPy generator; warns that draws are others."""
    warnings.warn(
        f"from_pytensor: the NumPy generator {variable} becomes a key of graphc, drawn from a copy "
        "of it. Draws have the same distributions and other values, on every backend the same; "
        "the generator itself stays as it is. For a key of your own, which does not warn, pass "
        "givens={variable: gt.random.shared_rng(seed=...)}.",
        stacklevel=frames_up(),
    )
    return shared_rng(generator, name=variable.name)
