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

from graphc.capture import Lifted, lift
from graphc.errors import ArgumentError
from graphc.implicit.array import ImplicitArray, is_complete
from graphc.ir import Node
from graphc.link.jax.implicit.avals import to_jax
from graphc.link.jax.implicit.interpreter import dispatch_state, inline
from graphc.link.jax.implicit.partition import aval_of


class StaticLeaf:
    """A tree leaf that is not an array, as a part of the tree's structure.

    Args:
        value: The leaf.
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
    """Return a key that is equal for values with the same program: not for 1, 1.0 and True."""
    try:
        hash(value)
    except TypeError:
        return id(value)
    return type(value), repr(value) if isinstance(value, float | complex) else value


def _is_array(x: Any) -> bool:
    return isinstance(x, jax.Array | np.ndarray | np.generic | ImplicitArray | Node)


def trace_and_run(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    is_leaf: Callable[[Any], bool] = is_complete,
) -> Any:
    """Call a function; its results are nested as the function returns them, and may be implicit.

    Implicit arrays of filtered trees are containers of their arrays.
    """
    leaves, tree = jax.tree.flatten((tuple(args), kwargs), is_leaf=is_leaf)
    return run_leaves(function, leaves, tree)


def run_leaves(
    function: Callable[..., Any], leaves: Sequence[Any], tree: Any, lifted: Lifted | None = None
) -> Any:
    """Call a function with the leaves of its arguments.

    Args:
        function: The function.
        leaves: The leaves of the function's arguments, which may be implicit arrays.
        tree: The structure of the positional and keyword arguments.
        lifted: The function without its captured arrays, and these, if they are known.
    """
    flags = tuple(map(_is_array, leaves))
    operands = [to_jax(x) for x, is_array in zip(leaves, flags, strict=True) if is_array]
    static = tuple(StaticLeaf(x) for x, is_array in zip(leaves, flags, strict=True) if not is_array)
    trace = _trace_of(function, (tree, flags, static), lifted)
    program, structure = trace(
        *[aval_of(x) if isinstance(x, ImplicitArray) else x for x in operands]
    )
    results = [_as_array(y) for y in inline(program, operands)]
    tree = jax.tree.unflatten(structure, results)
    return jax.tree.map(_value, tree, is_leaf=lambda x: isinstance(x, StaticLeaf) or is_complete(x))


def _value(x: Any) -> Any:
    return x.value if isinstance(x, StaticLeaf) else x


CallTree = tuple[Any, tuple[bool, ...], tuple[StaticLeaf, ...]]
"""The structure of arguments, for each leaf whether it is an array, and the other leaves."""

MAX_TRACES = 16
"""The number of cached traces of one function, for other static arguments or captured arrays."""

PLAIN = (int, float, complex, str, bytes, type, np.dtype, NoneType)

Trace = Callable[..., tuple[Any, Any]]
"""A function from operand types to a program and the structure of its results."""

Traces = OrderedDict[Hashable, tuple[Any, Trace]]

_traces: WeakKeyDictionary[Any, Traces] = WeakKeyDictionary()


def _trace_of(function: Callable[..., Any], call_tree: CallTree, lifted: Lifted | None) -> Trace:
    """Return the trace of a function, which is cached while its captures are equal."""
    # Other objects and functions may hold arrays, or change.
    objects = [x.value for x in call_tree[2] if not isinstance(x.value, PLAIN)]
    if objects or lifted is None:
        captured = _captures(partial(function, *objects) if objects else function)
    else:
        captured = _constant_captures(lifted)
    cache = None if captured is None else _traces_of(function)
    if captured is None or cache is None:
        return partial(_trace, _function_of_arrays(lambda: function, call_tree))
    stripped, arrays = captured
    # Tracing too calls handlers, of implicit arrays that the function captures or creates.
    key = call_tree, stripped, tuple(map(id, arrays)), dispatch_state()
    entry = cache.pop(key, None)
    if entry is None:
        # The function is the cache's weak key, so a trace must not hold it.
        compiled = jax.jit(_function_of_arrays(ref(function), call_tree))
        entry = arrays, partial(_trace_compiled, compiled)
    cache[key] = entry
    if len(cache) > MAX_TRACES:
        cache.popitem(last=False)
    return entry[1]


def _traces_of(function: Callable[..., Any]) -> Traces | None:
    try:
        return _traces.setdefault(function, OrderedDict())
    except TypeError:  # the function has no hash, or takes no weak references
        return None


def _trace_compiled(compiled: Any, *avals: Any) -> tuple[Any, Any]:
    """Trace by ``jax.jit``, which caches by operand types and JAX's settings."""
    traced = compiled.trace(*avals)
    return traced.jaxpr, jax.tree.structure(traced.out_info)


def _trace(function: Callable[..., Any], *avals: Any) -> tuple[Any, Any]:
    program, shapes = jax.make_jaxpr(function, return_shape=True)(*avals)
    return program, jax.tree.structure(shapes)


def _captures(function: Callable[..., Any]) -> tuple[Any, tuple[Any, ...]] | None:
    """Return a function without its captures, and these; None if they may change unseen."""
    try:
        return _constant_captures(lift(function))
    except ArgumentError:
        return None


def _constant_captures(lifted: Lifted) -> tuple[Any, tuple[Any, ...]] | None:
    """Return a function without its captures, and these; None if they are traced."""
    stripped, arrays = lifted
    constant = all(isinstance(x, jax.Array) and not isinstance(x, jax.core.Tracer) for x in arrays)
    return (stripped, arrays) if constant else None


def _function_of_arrays(function: Callable[[], Any], call_tree: CallTree) -> Callable[..., Any]:
    """Return a function of the arrays among the function's arguments."""
    tree, flags, static = call_tree

    def run(*arrays: Any) -> Any:
        array, other = iter(arrays), iter(static)
        leaves = [next(array) if is_array else next(other).value for is_array in flags]
        args, kwargs = jax.tree.unflatten(tree, leaves)
        return jax.tree.map(_as_leaf, function()(*args, **kwargs))

    return run


def _as_leaf(y: Any) -> Any:
    y = _as_array(y)
    return y if isinstance(y, jax.Array) else StaticLeaf(y)


def _as_array(y: Any) -> Any:
    return jnp.asarray(y) if isinstance(y, np.ndarray | np.generic) else y
