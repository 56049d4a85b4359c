"""The converters of PyTensor's operations, by the names of their classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from graphc.errors import ArgumentError
from graphc.interop.pytensor import loops
from graphc.interop.pytensor.arrays import ARRAYS
from graphc.interop.pytensor.elementwise import SCALARS, Converter, elemwise
from graphc.interop.pytensor.identity import IDENTITIES
from graphc.interop.pytensor.linalg import LINALG
from graphc.interop.pytensor.perform import by_perform, by_perform_of_unknown
from graphc.interop.pytensor.pymc import PYMC
from graphc.interop.pytensor.random import VARIABLES, generator
from graphc.interop.pytensor.sparse import SPARSE
from graphc.interop.pytensor.special import SPECIAL
from graphc.interop.pytensor.subgraph import SUBGRAPHS

C = TypeVar("C", bound=Converter)

CONVERTERS: dict[str, Converter] = {
    "Elemwise": elemwise,
    **SCALARS,
    **ARRAYS,
    **SPECIAL,
    **LINALG,
    **IDENTITIES,
    **SUBGRAPHS,
    "Scan": loops.scan,
    "FromFunctionOp": by_perform,
    **VARIABLES,
    "DefaultGeneratorMakerOp": generator,
}
"""The converters of PyTensor's operations on dense arrays, by the names of their classes."""

INHERITED = ("OpFromGraph", "CheckAndRaise", "CustomDistRV", "SimulatorRV")
"""Classes whose converters also convert their subclasses."""

OTHER_TYPES = ("pytensor.sparse", "pytensor.typed_list", "pytensor.xtensor")
"""Modules of operations on other types, with classes of the same names."""

registered: WeakKeyDictionary[type, Converter] = WeakKeyDictionary()
"""The converters that users registered, for classes."""


def register(op: type) -> Callable[[C], C]:
    """Register a converter for a class of PyTensor operations, in preference to graphc's.

    Subclasses do not inherit the converter, as they may compute something else.

    Args:
        op: The class, of any package.

    Returns:
        A decorator of the converter: a function of an ``Application``, which has the operation
        with its parameters, and of a graphc tensor for each input. The converter returns the
        result, or a list of several; they are cast to the dtypes and static lengths that PyTensor
        declares.

    Raises:
        ArgumentError: If ``op`` is no class.

    Example:
        >>> import graphc.tensor as gt
        >>> from graphc.interop.pytensor import register
        >>> class Doubled:  # a pytensor.graph.op.Op
        ...     pass
        >>> @register(Doubled)
        ... def doubled(at, x):
        ...     return 2 * x
    """
    if not isinstance(op, type):
        raise ArgumentError(
            f"register: {op!r} is no class.", "Give the class of the operation: register(MyOp)."
        )

    def decorate(converter: C) -> C:
        registered[op] = converter
        return converter

    return decorate


def converter_of(op: type) -> Converter | None:
    """Return the converter of operations of a class, or None."""
    if op in registered:
        return registered[op]
    # One class of PyMC may be a graph in one version and Python code in another.
    is_graph = op.__module__.startswith("pymc.") and inherits(op, "OpFromGraph")
    candidates = (
        _builtin_converter(cls)
        for cls in op.__mro__
        if (cls is op and not is_graph) or cls.__name__ in INHERITED
    )
    return next(filter(None, candidates), None)


def converter_of_foreign(op: Any) -> Converter | None:
    """Return the converter that calls an operation's Python code, if it has no other.

    The operation, or the one that it applies to elements or to the last axes, is of another package
    than PyTensor.
    """
    core = type(getattr(op, "core_op", getattr(op, "scalar_op", op)))
    is_foreign = not core.__module__.startswith("pytensor.") and inherits(core, "Op")
    has_other = type(op) in registered or converter_of(core) is not None
    return by_perform_of_unknown if is_foreign and not has_other else None


def inherits(op: type, name: str) -> bool:
    """Return whether a class or one of its bases has a name."""
    return any(cls.__name__ == name for cls in op.__mro__)


def _builtin_converter(op: type) -> Converter | None:
    if is_dense(op):
        return CONVERTERS.get(op.__name__)
    if op.__module__.startswith("pytensor.sparse"):
        return SPARSE.get(op.__name__)
    return PYMC.get(op.__name__) if op.__module__.startswith("pymc.") else None


def is_dense(op: type) -> bool:
    """Return whether a class is one of PyTensor's operations on dense arrays."""
    module = op.__module__
    return module.startswith("pytensor.") and not module.startswith(OTHER_TYPES)
