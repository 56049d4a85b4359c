"""Calls of JAX functions with implicit arguments: traced once, then interpreted."""

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
from graphc.implicit.array import ImplicitArray, is_complete
from graphc.ir import Node
from graphc.link.jax.implicit.avals import owned
from graphc.link.jax.implicit.interpreter import inline, standing
from graphc.link.jax.implicit.partition import aval_of


class StaticLeaf:
    """A tree leaf that is no array: part of the tree's structure.

    Args:
        value: It.
    """

    __slots__ = ("key", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.key = _key(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StaticLeaf) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


jax.tree_util.register_static(StaticLeaf)


def _key(value: Any) -> Hashable:
    """Return a key, equal for values with one program: not for 1, 1.0 and True."""
    try:
        hash(value)
    except TypeError:
        return id(value)
    return type(value), repr(value) if isinstance(value, float | complex) else value


def _is_array(x: Any) -> bool:
    return isinstance(x, jax.Array | np.ndarray | np.generic | ImplicitArray | Node)


def called(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    is_leaf: Callable[[Any], bool] = is_complete,
) -> Any:
    """Call a function; its results are nested as it returns them, and may be implicit.

    Implicit arrays of filtered trees are containers, of the arrays that they have.
    """
    leaves, tree = jax.tree.flatten((tuple(args), kwargs), is_leaf=is_leaf)
    places = tuple(map(_is_array, leaves))
    operands = [owned(x) for x, is_array in zip(leaves, places, strict=True) if is_array]
    fixed = tuple(StaticLeaf(x) for x, is_array in zip(leaves, places, strict=True) if not is_array)
    trace = _trace(function, (tree, places, fixed))
    given = [aval_of(x) if isinstance(x, ImplicitArray) else x for x in operands]
    program, structure = trace(*given)
    results = [_array(y) for y in inline(program, operands)]
    made = jax.tree.unflatten(structure, results)
    return jax.tree.map(_value, made, is_leaf=lambda x: isinstance(x, StaticLeaf) or is_complete(x))


def _value(x: Any) -> Any:
    return x.value if isinstance(x, StaticLeaf) else x


CallTree = tuple[Any, tuple[bool, ...], tuple[StaticLeaf, ...]]
"""How arguments are nested, which of them are arrays, and the others."""

TRACES = 16
"""How many traces of one function are kept, of other static arguments or captured arrays."""

PLAIN = (int, float, complex, str, bytes, type, np.dtype, NoneType)

Trace = Callable[..., tuple[Any, Any]]
"""A function from operand types to a program and the nesting of its results."""

Traces = OrderedDict[Hashable, tuple[Any, Trace]]

_traces: WeakKeyDictionary[Any, Traces] = WeakKeyDictionary()


def _trace(function: Callable[..., Any], call_tree: CallTree) -> Trace:
    """Return a function from avals to the program; equal while the captures are."""
    # What is no array may hold arrays, or be changed: an object, a function.
    objects = [x.value for x in call_tree[2] if not isinstance(x.value, PLAIN)]
    captured = _captured(partial(function, *objects) if objects else function)
    known = None if captured is None else _traces_of(function)
    if captured is None or known is None:
        return partial(_traced_anew, _flat(lambda: function, call_tree))
    stripped, arrays = captured
    # Handlers are called while it is traced, too, for implicit arrays that it captures or makes.
    key = call_tree, stripped, tuple(map(id, arrays)), standing()
    found = known.pop(key, None)
    if found is None:
        # The function is the key of what is kept, so that must not hold it.
        found = arrays, partial(_traced, jax.jit(_flat(ref(function), call_tree)))
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
    """Trace by ``jax.jit``, which caches by operand types and JAX's settings."""
    found = compiled.trace(*given)
    return found.jaxpr, jax.tree.structure(found.out_info)


def _traced_anew(function: Callable[..., Any], *given: Any) -> tuple[Any, Any]:
    program, shape = jax.make_jaxpr(function, return_shape=True)(*given)
    return program, jax.tree.structure(shape)


def _captured(function: Callable[..., Any]) -> tuple[Any, tuple[Any, ...]] | None:
    """Return the function's captures; None where they may change unseen."""
    try:
        stripped, arrays = lift(function)
    except ArgumentError:
        return None
    fixed = all(isinstance(x, jax.Array) and not isinstance(x, jax.core.Tracer) for x in arrays)
    return (stripped, arrays) if fixed else None


def _flat(function: Callable[[], Any], call_tree: CallTree) -> Callable[..., Any]:
    """Return the function of the arrays among its arguments."""
    tree, places, fixed = call_tree

    def run(*arrays: Any) -> Any:
        given, others = iter(arrays), iter(fixed)
        leaves = [next(given) if is_array else next(others).value for is_array in places]
        args, kwargs = jax.tree.unflatten(tree, leaves)
        return jax.tree.map(_result, function()(*args, **kwargs))

    return run


def _result(y: Any) -> Any:
    y = _array(y)
    return y if isinstance(y, jax.Array) else StaticLeaf(y)


def _array(y: Any) -> Any:
    return jnp.asarray(y) if isinstance(y, np.ndarray | np.generic) else y
