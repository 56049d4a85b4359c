"""Functions of nested containers in which an implicit array is a leaf.

The containers are JAX's: dicts, lists, tuples, named tuples, ``OrderedDict``, ``defaultdict``,
None, and objects of classes that are registered with JAX, once JAX is loaded. JAX itself is not
needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from graphc.capture.identity import is_array as is_dense
from graphc.errors import ArgumentError
from graphc.implicit.array import ImplicitArray, fields_of
from graphc.implicit.nesting import (
    LEAF,
    Parts,
    Path,
    Structure,
    build_tree,
    container,
    implicit,
    layer,
)

__all__ = [
    "Path", "Structure", "flatten", "flatten_one_implicit_layer", "flatten_with_path",
    "implicit_depth", "is_array", "leaves", "structure", "tree_map", "tree_map_with_path",
    "unflatten",
]  # fmt: skip


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """Return the leaves of a tree and its structure; an implicit array is one leaf.

    Args:
        tree: A nested container of arrays and other objects. Dicts are read in the order of their
            sorted keys, as by JAX. None is an empty container.

    Returns:
        The leaves, and a structure for ``unflatten``.

    Raises:
        ArgumentError: If the keys of a dict have no order.

    Example:
        >>> flatten({"w": [1, 2], "b": (3, None)})
        ([3, 1, 2], Structure({'b': (*, None), 'w': [*, *]}))
    """
    pairs, nesting = _flatten(tree, container)
    return [leaf for _, leaf in pairs], nesting


def flatten_with_path(tree: Any) -> tuple[list[tuple[Path, Any]], Structure]:
    """Return each leaf of a tree with its path, and the structure of the tree.

    Args:
        tree: A nested container; see ``flatten``.

    Returns:
        Pairs of a path and a leaf, and the structure. A path is a tuple of keys, indices and
        attribute names, as plain values instead of JAX's key classes.

    Raises:
        ArgumentError: If the keys of a dict have no order.

    Example:
        >>> flatten_with_path({"layers": [{"w": 1.5}]})[0]
        [(('layers', 0, 'w'), 1.5)]
    """
    return _flatten(tree, container)


def leaves(tree: Any) -> list[Any]:
    """Return the leaves of a tree, in order; an implicit array is one leaf.

    Args:
        tree: A nested container; see ``flatten``.

    Returns:
        A list.

    Raises:
        ArgumentError: If the keys of a dict have no order.

    Example:
        >>> leaves({"w": [1, 2], "b": (3, None)})
        [3, 1, 2]
    """
    return flatten(tree)[0]


def structure(tree: Any) -> Structure:
    """Return the nesting of a tree without its leaves; an implicit array is one leaf.

    Args:
        tree: A nested container; see ``flatten``.

    Returns:
        A structure, which can be compared and hashed.

    Raises:
        ArgumentError: If the keys of a dict have no order.

    Example:
        >>> structure([1, (2, 3)])
        Structure([*, (*, *)])
    """
    return flatten(tree)[1]


def unflatten(structure: Structure, leaves: Sequence[Any]) -> Any:
    """Build a tree from its structure and leaves.

    Args:
        structure: From ``flatten``, ``structure`` or ``flatten_one_implicit_layer``.
        leaves: As many leaves as the structure has; any objects.

    Returns:
        New containers. Implicit arrays are built without their checks, so that a tree can hold
        other objects than arrays.

    Raises:
        ArgumentError: If the number of leaves differs from the structure's.

    Example:
        >>> xs, nesting = flatten({"w": [1, 2], "b": (3, None)})
        >>> unflatten(nesting, [10 * x for x in xs])
        {'b': (30, None), 'w': [10, 20]}
    """
    xs = list(leaves)
    if len(xs) != len(structure):
        raise ArgumentError(
            f"unflatten: {len(xs)} leaves for a structure with {len(structure)}, {structure}.",
            "Give as many leaves as the structure has.",
        )
    return build_tree(structure, iter(xs))


def tree_map(f: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """Return a tree of the same structure whose leaves are ``f`` of the leaves.

    Args:
        f: Called with a leaf of the tree and the corresponding items of ``rest``.
        tree: A nested container; an implicit array is one leaf.
        rest: Trees with the first tree's nesting down to its leaves; what they contain at a leaf is
            passed to ``f`` unchanged.

    Returns:
        New containers.

    Raises:
        ArgumentError: If one of the rest is nested differently.

    Example:
        >>> tree_map(lambda x, y: x + y, {"a": 1, "b": [2]}, {"a": 10, "b": [20]})
        {'a': 11, 'b': [22]}
    """
    return tree_map_with_path(lambda _, *xs: f(*xs), tree, *rest)


def tree_map_with_path(f: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """Return a tree of the same structure whose leaves are ``f(path, leaf)``.

    Args:
        f: Called with the path, the leaf, and the corresponding items of ``rest``.
        tree: A nested container; an implicit array is one leaf.
        rest: Trees with the first tree's nesting down to its leaves.

    Returns:
        New containers.

    Raises:
        ArgumentError: If one of the rest is nested differently.

    Example:
        >>> tree_map_with_path(lambda path, x: (*path, x), {"a": [1.5, 2.5]})
        {'a': [('a', 0, 1.5), ('a', 1, 2.5)]}
    """
    pairs, nesting = _flatten(tree, container)
    columns = [list(_up_to(nesting, other, ())) for other in rest]
    rows = zip(pairs, *columns, strict=True)
    return build_tree(nesting, iter([f(path, leaf, *row) for (path, leaf), *row in rows]))


def flatten_one_implicit_layer(tree: Any) -> tuple[list[Any], Structure]:
    """Return the leaves of a tree, with outermost implicit arrays flattened.

    Implicit arrays within these are leaves. Applied ``implicit_depth(tree)`` times, to its own
    leaves, the function returns plain arrays only.

    Args:
        tree: A nested container, or an implicit array.

    Returns:
        The leaves, and a structure from which ``unflatten`` builds the implicit arrays again.

    Raises:
        ArgumentError: If the keys of a dict have no order.

    Example:
        >>> from dataclasses import dataclass
        >>> import numpy as np
        >>> from graphc.implicit import ImplicitArray
        >>> @dataclass(frozen=True)
        ... class Sum(ImplicitArray):
        ...     a: object
        ...     b: object
        ...     def materialize(self):
        ...         return self.a + self.b
        >>> x = Sum(np.ones(2), Sum(np.ones(2), np.zeros(2)))
        >>> xs, nesting = flatten_one_implicit_layer({"x": x})
        >>> xs
        [array([1., 1.]), Sum(float64[2], float64[2])]
        >>> unflatten(nesting, xs)
        {'x': Sum(float64[2], Sum(float64[2], float64[2]))}
    """
    pairs, nesting = _flatten(tree, layer)
    return [leaf for _, leaf in pairs], nesting


def implicit_depth(tree: Any) -> int:
    """Return the largest number of nested implicit arrays; 0 if there are none.

    Args:
        tree: A nested container, or an array.

    Returns:
        A number of layers.

    Raises:
        ArgumentError: If the keys of a dict have no order.

    Example:
        >>> implicit_depth([1.0, None])
        0
    """
    inside = [fields_of(array) for leaf in leaves(tree) if (array := implicit(leaf)) is not None]
    return 1 + max(map(implicit_depth, inside)) if inside else 0


def is_array(x: Any) -> bool:
    """Return whether an object is an array: NumPy's, JAX's, MLX's, symbolic or implicit.

    Args:
        x: Any object.

    Returns:
        False for numbers, NumPy's scalars, lists and types.

    Example:
        >>> import numpy as np
        >>> is_array(np.zeros(2)), is_array(2.0), is_array([2.0])
        (True, False, False)
    """
    return isinstance(x, ImplicitArray) or is_dense(x)


def _flatten(
    tree: Any, split: Callable[[Any], Parts | None]
) -> tuple[list[tuple[Path, Any]], Structure]:
    pairs: list[tuple[Path, Any]] = []

    def walk(tree: Any, path: Path, split: Callable[[Any], Parts | None]) -> Structure:
        contents = split(tree)
        if contents is None:
            pairs.append((path, tree))
            return LEAF
        kind, items = contents
        split_item = container if kind.is_implicit else split
        keyed = zip(kind.keys, items, strict=True)
        return Structure(kind, tuple([walk(x, (*path, key), split_item) for key, x in keyed]))

    nesting = walk(tree, (), split)
    return pairs, nesting


def _up_to(nesting: Structure, tree: Any, path: Path) -> Iterator[Any]:
    """Yield the subtrees at the positions where the structure has leaves."""
    if nesting.kind is None:
        yield tree
        return
    contents = container(tree)
    if contents is None or contents[0] != nesting.kind:
        at = "".join(f"[{key!r}]" for key in path)
        raise ArgumentError(
            f"tree_map: tree{at} is {nesting} in the first, {structure(tree)} in another.",
            "Nest all of them as the first is.",
        )
    for key, part, item in zip(nesting.kind.keys, nesting.parts, contents[1], strict=True):
        yield from _up_to(part, item, (*path, key))
