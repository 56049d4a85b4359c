"""JAX's functions run with implicit arguments: traced once for what these are, then run through."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from types import NoneType
from typing import Any
from weakref import WeakKeyDictionary, ref

import jax
import jax.numpy as jnp
import numpy as np

from graphc.capture import lift
from graphc.errors import ArgumentError
from graphc.implicit.array import ImplicitArray, is_implicit
from graphc.implicit.jax.interpreter import inline, standing
from graphc.implicit.jax.kinds import aval_of, owned
from graphc.ir import Node

__all__ = ["called"]


class Static:
    """A value in a tree that is no array: part of the tree's structure.

    Args:
        value: It.
    """

    __slots__ = ("key", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.key = _key(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


jax.tree_util.register_static(Static)


def _key(value: Any) -> Hashable:
    """Equal for values that a program is the same for: not for 1, 1.0 and True, or 0.0 and -0.0."""
    try:
        hash(value)
    except TypeError:
        return id(value)
    return type(value), repr(value) if isinstance(value, float | complex) else value


def _is_array(x: Any) -> bool:
    return isinstance(x, jax.Array | np.ndarray | np.generic | ImplicitArray | Node)


def called(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The function's results, nested as they are; arrays among them may be implicit."""
    leaves, tree = jax.tree.flatten((tuple(args), kwargs), is_leaf=is_implicit)
    places = tuple(map(_is_array, leaves))
    operands = [owned(x) for x, is_array in zip(leaves, places, strict=True) if is_array]
    fixed = tuple(Static(x) for x, is_array in zip(leaves, places, strict=True) if not is_array)
    trace = _trace(function, (tree, places, fixed))
    given = [aval_of(x) if isinstance(x, ImplicitArray) else x for x in operands]
    program, structure = trace(*given)
    results = [_array(y) for y in inline(program, operands)]
    made = jax.tree.unflatten(structure, results)
    return jax.tree.map(_value, made, is_leaf=lambda x: isinstance(x, Static) or is_implicit(x))


def _value(x: Any) -> Any:
    return x.value if isinstance(x, Static) else x


Form = tuple[Any, tuple[bool, ...], tuple[Static, ...]]
"""How arguments are nested, which of them are arrays, and the others."""

TRACES = 16
"""How many traces of one function are kept, of other static arguments or captured arrays."""

PLAIN = (int, float, complex, str, bytes, type, np.dtype, NoneType)

Trace = Callable[..., tuple[Any, Any]]
"""What gives a program, and how its results are nested, for the types of its operands."""

Traces = OrderedDict[Hashable, tuple[Any, Trace]]

_traces: WeakKeyDictionary[Any, Traces] = WeakKeyDictionary()


def _trace(function: Callable[..., Any], form: Form) -> Trace:
    """What gives the function's program for avals; the same as long as it captures the same."""
    # What is no array may hold arrays, or be changed: an object, a function.
    objects = [x.value for x in form[2] if not isinstance(x.value, PLAIN)]
    captured = _captured(partial(function, *objects) if objects else function)
    known = None if captured is None else _traces_of(function)
    if captured is None or known is None:
        return partial(_traced_anew, _flat(lambda: function, form))
    stripped, arrays = captured
    # Handlers are asked while it is traced, too, for implicit arrays that it captures or makes.
    key = form, stripped, tuple(map(id, arrays)), standing()
    found = known.pop(key, None)
    if found is None:
        # The function is the key of what is kept, so that must not hold it.
        found = arrays, partial(_traced, jax.jit(_flat(ref(function), form)))
    known[key] = found
    if len(known) > TRACES:
        known.popitem(last=False)
    return found[1]


def _traces_of(function: Callable[..., Any]) -> Traces | None:
    try:
        return _traces.setdefault(function, OrderedDict())
    except TypeError:  # it has no hash, or takes no weak references
        return None


def _traced(compiled: Any, *given: Any) -> tuple[Any, Any]:
    """JAX keeps traces for the types of the operands and for its own settings."""
    found = compiled.trace(*given)
    return found.jaxpr, jax.tree.structure(found.out_info)


def _traced_anew(function: Callable[..., Any], *given: Any) -> tuple[Any, Any]:
    program, shape = jax.make_jaxpr(function, return_shape=True)(*given)
    return program, jax.tree.structure(shape)


def _captured(function: Callable[..., Any]) -> tuple[Any, tuple[Any, ...]] | None:
    """What the function is beside its arguments; None where that may change unseen."""
    try:
        stripped, arrays = lift(function)
    except ArgumentError:
        return None
    fixed = all(isinstance(x, jax.Array) and not isinstance(x, jax.core.Tracer) for x in arrays)
    return (stripped, arrays) if fixed else None


def _flat(function: Callable[[], Any], form: Form) -> Callable[..., Any]:
    """The function of the arrays among its arguments."""
    tree, places, fixed = form

    def run(*arrays: Any) -> Any:
        given, others = iter(arrays), iter(fixed)
        leaves = [next(given) if is_array else next(others).value for is_array in places]
        args, kwargs = jax.tree.unflatten(tree, leaves)
        return jax.tree.map(_result, function()(*args, **kwargs))

    return run


def _result(y: Any) -> Any:
    y = _array(y)
    return y if isinstance(y, jax.Array) else Static(y)


def _array(y: Any) -> Any:
    return jnp.asarray(y) if isinstance(y, np.ndarray | np.generic) else y
