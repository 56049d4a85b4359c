"""Which arrays of a tree learn: those that do, the others, and both together again."""

from __future__ import annotations

from typing import Any

from graphc.implicit.array import fields_of, is_implicit, with_fields
from graphc.implicit.jax_arrays import jax_arrays
from graphc.implicit.node import ImplicitTensor
from graphc.implicit.quantized.selection import Where, chooser
from graphc.implicit.structures.dora import DoRA
from graphc.implicit.structures.lora import LoRA
from graphc.implicit.treedef import dtype_of
from graphc.implicit.trees import is_array, tree_map, tree_map_with_path
from graphc.ir import is_inexact


def trainable(tree: Any, *, where: Where = None) -> Any:
    """The arrays of a tree that learn; None stands in the place of the others.

    Floating arrays learn, but for the fields that an implicit array's class freezes: the base and
    the scale of a ``LoRA``, all of a quantized array, a ``frozen_fields`` of your own class. JAX
    and its libraries take None for nothing: gradients and optimizers have no part for it, so there
    need be no ``allow_int``.

    Args:
        tree: A nested container of arrays; also a module of Equinox, or a state of Flax. Implicit
            arrays in it may be symbolic, as shared variables are.
        where: Which arrays of the tree may learn, by path, as of ``quantize``; by default all.

    Returns:
        A tree like the one given.

    Raises:
        ImplicitArrayError: ``where`` is no pattern or function.

    Example:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> from graphc.implicit import LoRA, combine, frozen, implicit, trainable
        >>> params = {"w": LoRA.of(jnp.eye(3), rank=1), "b": jnp.zeros(3), "steps": jnp.int32(7)}
        >>> learns, rest = trainable(params), frozen(params)
        >>> learns["w"], learns["steps"]
        (LoRA(None, float32[3, 1], float32[1, 3], None), None)
        >>> def loss(learns, x):
        ...     params = combine(learns, rest)
        ...     return ((x @ params["w"] + params["b"]) ** 2).sum()
        >>> jax.grad(implicit(loss))(learns, jnp.ones(3))["w"]
        LoRA(None, float32[3, 1], float32[1, 3], None)
    """
    return _parts(tree, where, learns=True)


def frozen(tree: Any, *, where: Where = None) -> Any:
    """What ``trainable`` leaves out of a tree; None stands in the place of what learns.

    Args:
        tree: As of ``trainable``.
        where: As given to ``trainable``.

    Returns:
        A tree like the one given.

    Raises:
        ImplicitArrayError: ``where`` is no pattern or function.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit import LoRA
        >>> frozen({"w": LoRA.of(np.eye(3), rank=1), "x": np.zeros(3)})
        {'w': LoRA(float64[3, 3], None, None, float64[]), 'x': None}
    """
    return _parts(tree, where, learns=False)


def combine(*trees: Any) -> Any:
    """The tree of which these are parts, as ``trainable`` and ``frozen`` make them.

    Args:
        trees: Equal but for what is None. What is no None in several is taken from the first.

    Returns:
        The tree.

    Raises:
        ValueError: They are nested differently.

    Example:
        >>> combine({"a": 1, "b": None}, {"a": None, "b": 2})
        {'a': 1, 'b': 2}
    """
    return jax_arrays().combined(trees)


def merge(tree: Any) -> Any:
    """The tree with each adapter's update added to its base, as whole arrays.

    Args:
        tree: A nested container; its ``LoRA`` and ``DoRA`` arrays are merged, as no policy forbids.

    Returns:
        A tree like the one given.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit import LoRA
        >>> merge({"w": LoRA.of(np.ones((2, 2)), rank=1)})
        {'w': array([[1., 1.],
               [1., 1.]])}
    """
    return tree_map(lambda x: x.merged() if isinstance(x, LoRA | DoRA) else x, tree)


def _parts(tree: Any, where: Where, *, learns: bool) -> Any:
    may_learn = chooser(where)

    def part(path: Any, x: Any) -> Any:
        x = x.array if isinstance(x, ImplicitTensor) else x
        if where is not None and not (is_array(x) and may_learn(path, x)):
            return _nothing(x) if learns else x
        return _field(x, learns=learns)

    return tree_map_with_path(part, tree)


def _nothing(x: Any) -> Any:
    """None in the place of each array, also of those in implicit ones."""
    if isinstance(x, tuple):
        return tuple(map(_nothing, x))
    if not is_implicit(x):
        return None
    return with_fields(x, {name: _nothing(field) for name, field in fields_of(x).items()})


def _field(x: Any, *, learns: bool) -> Any:
    if not is_implicit(x):
        return x if (is_array(x) and is_inexact(str(dtype_of(x)))) == learns else None
    kept = type(x).frozen_fields
    fields = {}
    for name, field in fields_of(x).items():
        if kept is None or name in kept:
            fields[name] = _nothing(field) if learns else field
        elif isinstance(field, tuple):
            fields[name] = tuple([_field(y, learns=learns) for y in field])
        else:
            fields[name] = _field(field, learns=learns)
    return with_fields(x, fields)
