"""Trainable and frozen arrays of a tree: splitting a tree into both, and combining them."""

from __future__ import annotations

from typing import Any

from graphc.implicit.array import fields_of, is_implicit, map_field, map_fields, with_fields
from graphc.implicit.jax_arrays import jax_arrays
from graphc.implicit.node import ImplicitTensor
from graphc.implicit.quantized.selection import Where, predicate
from graphc.implicit.structures.dora import DoRA
from graphc.implicit.structures.lora import LoRA
from graphc.implicit.treedef import dtype_of
from graphc.implicit.trees import is_array, tree_map, tree_map_with_path
from graphc.ir import is_inexact


def trainable(tree: Any, *, where: Where = None) -> Any:
    """Return the trainable arrays of a tree, and None instead of the others.

    Floating arrays are trainable, except the fields that an implicit array's class freezes: the
    base and the scale of a ``LoRA``, all fields of a quantized array, the ``frozen_fields`` of your
    own class. In JAX and its libraries None is an empty tree: gradients and optimizers have no leaf
    for it, so ``allow_int`` is not needed.

    Args:
        tree: A nested container of arrays; also a module of Equinox, or a state of Flax. Implicit
            arrays may be symbolic, as shared variables are.
        where: Selects trainable arrays by path, as for ``quantize``; by default all.

    Returns:
        A tree with the same nesting.

    Raises:
        ImplicitArrayError: If ``where`` is no pattern or function.

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
    return _select(tree, where, learns=True)


def frozen(tree: Any, *, where: Where = None) -> Any:
    """Return the arrays of a tree that ``trainable`` omits, and None instead of the others.

    Args:
        tree: As for ``trainable``.
        where: As for ``trainable``.

    Returns:
        A tree with the same nesting.

    Raises:
        ImplicitArrayError: If ``where`` is no pattern or function.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit import LoRA
        >>> frozen({"w": LoRA.of(np.eye(3), rank=1), "x": np.zeros(3)})
        {'w': LoRA(float64[3, 3], None, None, float64[]), 'x': None}
    """
    return _select(tree, where, learns=False)


def combine(*trees: Any) -> Any:
    """Merge the parts of a tree that ``trainable`` and ``frozen`` return.

    Args:
        trees: Trees that are equal except where they hold None. Where several hold another object,
            the first one is taken.

    Returns:
        The merged tree.

    Raises:
        ValueError: If the trees are nested differently.

    Example:
        >>> combine({"a": 1, "b": None}, {"a": None, "b": 2})
        {'a': 1, 'b': 2}
    """
    return jax_arrays().merge_trees(trees)


def merge(tree: Any) -> Any:
    """Return a tree with each adapter's update added to its base, as dense arrays.

    Args:
        tree: A nested container; its ``LoRA`` and ``DoRA`` arrays are merged, whatever the policy.

    Returns:
        A tree with the same nesting.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit import LoRA
        >>> merge({"w": LoRA.of(np.ones((2, 2)), rank=1)})
        {'w': array([[1., 1.],
               [1., 1.]])}
    """
    return tree_map(lambda x: x.merged() if isinstance(x, LoRA | DoRA) else x, tree)


def _select(tree: Any, where: Where, *, learns: bool) -> Any:
    """Return the arrays that learn, or the others, and None elsewhere."""
    may_learn = predicate(where)

    def select(path: Any, x: Any) -> Any:
        x = x.array if isinstance(x, ImplicitTensor) else x
        if where is not None and not (is_array(x) and may_learn(path, x)):
            return _remove_arrays(x) if learns else x
        return _select_fields(x, learns=learns)

    return tree_map_with_path(select, tree)


def _remove_arrays(x: Any) -> Any:
    return map_fields(_remove_arrays, x) if is_implicit(x) else None


def _select_fields(x: Any, *, learns: bool) -> Any:
    if not is_implicit(x):
        return x if (is_array(x) and is_inexact(str(dtype_of(x)))) == learns else None
    frozen_fields = type(x).frozen_fields

    def select(name: str, field: Any) -> Any:
        if frozen_fields is None or name in frozen_fields:
            return map_field(_remove_arrays, field) if learns else field
        return map_field(lambda y: _select_fields(y, learns=learns), field)

    return with_fields(x, {name: select(name, field) for name, field in fields_of(x).items()})
