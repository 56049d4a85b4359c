"""Modules of Flax's ``nnx``, which change as they are called, in functions that JAX traces.

Within the trace there is a copy of each module, whose variables hold what the trace follows; what
it has in the end are results, which the modules get when the call is over.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax

from graphc.implicit.array import is_implicit
from graphc.link.jax.implicit.trace import called


def modules_in(*trees: Any) -> list[Any]:
    """Return the modules of ``nnx`` that arguments are or hold, each once."""
    nnx: Any = sys.modules.get("flax.nnx")
    if nnx is None:
        return []
    leaves = jax.tree.leaves(trees, is_leaf=_is_leaf(nnx))
    return list({id(x): x for x in leaves if isinstance(x, nnx.Module)}.values())


def with_modules(
    modules: Sequence[Any], function: Callable[..., Any], args: Sequence[Any], kwargs: Any
) -> Any:
    """Call a function of these modules, or one of them, and let them have what it changes."""
    nnx = sys.modules["flax.nnx"]
    structure, state = nnx.split(list(modules))
    is_leaf = _is_leaf(nnx)
    leaves, tree = jax.tree.flatten((function, tuple(args), kwargs), is_leaf=is_leaf)
    places = {id(x): i for i, x in enumerate(modules)}
    which = [places.get(id(x)) for x in leaves]
    others = [None if i is not None else x for x, i in zip(leaves, which, strict=True)]

    def run(state: Any, others: Sequence[Any]) -> tuple[Any, Any]:
        made = nnx.merge(structure, state)
        given = [x if i is None else made[i] for x, i in zip(others, which, strict=True)]
        function, args, kwargs = jax.tree.unflatten(tree, given)
        return function(*args, **kwargs), nnx.state(made)

    result, changed = called(run, (state, others), {})
    nnx.update(list(modules), changed)
    return result


def _is_leaf(nnx: Any) -> Callable[[Any], bool]:
    return lambda x: is_implicit(x) or isinstance(x, nnx.Module)
