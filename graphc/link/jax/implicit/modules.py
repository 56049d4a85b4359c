"""Functions of modules of Flax's ``nnx``, which change when they are called.

JAX traces a function of copies of the modules, whose variables hold tracers. The variables' final
values are results of the traced function, and the modules are updated with them after the call.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax

from graphc.implicit.array import is_implicit
from graphc.link.jax.implicit.trace import trace_and_run


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
