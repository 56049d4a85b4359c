"""Calls of JAX functions with implicit arrays, which may be captured from closures or globals.

Operators of captured implicit arrays work in a function that JAX traces, and so do their fields.
JAX's functions, though, take no object of another class, or densify it. For these the captured
arrays become arguments. Beside implicit arguments they become arguments too, so that handlers of
two implicit arrays are called.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

import jax

from graphc.capture import Lifted, Stripped, lift, rebuild
from graphc.errors import ArgumentError
from graphc.implicit.array import is_complete, is_implicit
from graphc.implicit.functions import implicit
from graphc.implicit.policy import ConversionError, arguments_only, materializing
from graphc.link.jax.implicit.interpreter import report_at
from graphc.link.jax.implicit.trace import run_leaves, trace_and_run
from graphc.link.jax.jaxprs import replace_at
from graphc.site import Site, derived_from, where


class LiftedFunction:
    """A function whose captured arrays are its first argument.

    Args:
        stripped: The function without the arrays.
    """

    def __init__(self, stripped: Stripped) -> None:
        self.stripped = stripped

    def __call__(self, captured: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        return rebuild(self.stripped, captured)(*args, **kwargs)


_lifted: WeakKeyDictionary[Any, LiftedFunction] = WeakKeyDictionary()


def call(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Call a function; its results are nested as the function returns them, and may be implicit."""
    if modules := modules_in(function, args, kwargs):
        return call_with_modules(modules, function, args, kwargs)
    leaves, tree = jax.tree.flatten((tuple(args), kwargs), is_leaf=is_complete)
    lifted = _lift(function) if any(map(is_implicit, leaves)) else None
    if _captured_names(lifted) or _lifted_of(function) is not None:
        # The handlers of two implicit arrays are found only if both are arguments.
        with suppress(TypeError, AttributeError):
            return _call_lifted(function, args, kwargs)
    try:
        with arguments_only():
            return run_leaves(function, leaves, tree, lifted)
    except TypeError as error:
        return _retry(function, args, kwargs, error)


def _retry(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], error: TypeError
) -> Any:
    """Call a function with its captured arrays as arguments, or let JAX densify these."""
    names = _captured_names(_lift(function))
    if names:
        with suppress(TypeError, AttributeError):
            return _call_lifted(function, args, kwargs)
    if isinstance(error, ConversionError):
        return trace_and_run(function, args, kwargs)
    if names:
        error.add_note(f"It captures implicit arrays, {', '.join(names)}: make them arguments.")
    raise error


def _lifted_of(function: Callable[..., Any]) -> LiftedFunction | None:
    try:
        return _lifted.get(function)
    except TypeError:  # the function has no hash, or takes no weak references
        return None


def _lift(function: Callable[..., Any]) -> Lifted | None:
    """Return a function and the arrays it captures; None if they cannot be told apart."""
    try:
        return lift(function, is_implicit)
    except ArgumentError:
        return None


def _captured_names(lifted: Lifted | None) -> list[str]:
    """Return the names of the implicit arrays that a function captures."""
    if lifted is None:
        return []
    stripped, leaves = lifted
    return [name for name, x in zip(stripped.names, leaves, strict=True) if is_implicit(x)]


def _call_lifted(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    stripped, leaves = lift(function, is_implicit)
    lifted = _lifted_of(function)
    if lifted is None or lifted.stripped != stripped:
        lifted = LiftedFunction(stripped)
    result = trace_and_run(lifted, (leaves, *args), kwargs)
    with suppress(TypeError):  # as above
        _lifted[function] = lifted
    return result


def at_primitives(
    compute: Callable[..., Any], values: Sequence[Any], policy: str, site: Site | None
) -> Any:
    """Run a node's lowering on values of which some are implicit, primitive by primitive.

    Dense values are not traced, since lowerings need lengths and other numbers to be known.
    """
    positions = [i for i, x in enumerate(values) if is_implicit(x)]
    dense = [None if is_implicit(x) else x for x in values]

    def run(*arrays: Any) -> Any:
        return compute(*replace_at(dense, positions, arrays))

    with materializing(policy), derived_from(site), report_at(where(site)):
        return implicit(run)(*[values[i] for i in positions])


# Modules of Flax's nnx. JAX traces a function of copies, whose variables hold tracers. The final
# values are results of the traced function, and the modules are updated with them after the call.


def modules_in(*trees: Any) -> list[Any]:
    """Return the distinct ``nnx`` modules that trees of arguments contain."""
    nnx: Any = sys.modules.get("flax.nnx")
    if nnx is None:
        return []
    leaves = jax.tree.leaves(trees, is_leaf=_is_leaf(nnx))
    return list({id(x): x for x in leaves if isinstance(x, nnx.Module)}.values())


def call_with_modules(
    modules: Sequence[Any], function: Callable[..., Any], args: Sequence[Any], kwargs: Any
) -> Any:
    """Call a function of modules, or a module, and update the modules with the changes."""
    nnx = sys.modules["flax.nnx"]
    structure, state = nnx.split(list(modules))
    is_leaf = _is_leaf(nnx)
    leaves, tree = jax.tree.flatten((function, tuple(args), kwargs), is_leaf=is_leaf)
    index_of = {id(x): i for i, x in enumerate(modules)}
    indices = [index_of.get(id(x)) for x in leaves]
    others = [None if i is not None else x for x, i in zip(leaves, indices, strict=True)]

    def run(state: Any, others: Sequence[Any]) -> tuple[Any, Any]:
        copies = nnx.merge(structure, state)
        leaves = [x if i is None else copies[i] for x, i in zip(others, indices, strict=True)]
        function, args, kwargs = jax.tree.unflatten(tree, leaves)
        return function(*args, **kwargs), nnx.state(copies)

    result, new_state = trace_and_run(run, (state, others), {})
    nnx.update(list(modules), new_state)
    return result


def _is_leaf(nnx: Any) -> Callable[[Any], bool]:
    return lambda x: is_implicit(x) or isinstance(x, nnx.Module)
