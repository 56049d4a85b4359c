"""Functions of nested containers in which an implicit array is a leaf.

A container is what it is to JAX: a dict, list, tuple, named tuple, ``OrderedDict``,
``defaultdict``, None, and an object of a class that is registered with JAX, once JAX is loaded.
JAX itself is not needed.
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
    built,
    container,
    implicit,
    layer,
)

__all__ = [
    "Path",
    "Structure",
    "flatten",
    "flatten_one_implicit_layer",
    "flatten_with_path",
    "implicit_depth",
    "is_array",
    "leaves",
    "structure",
    "tree_map",
    "tree_map_with_path",
    "unflatten",
]


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """The leaves of a tree, and how they are nested; an implicit array is one leaf.

    Args:
        tree: A nested container of arrays and anything else. Dicts are read in the order of their
            sorted keys, as by JAX. None is a container of nothing.

    Returns:
        The leaves, and a structure that ``unflatten`` takes.

    Raises:
        ArgumentError: The keys of a dict have no order.

    Example:
        >>> flatten({"w": [1, 2], "b": (3, None)})
        ([3, 1, 2], Structure({'b': (*, None), 'w': [*, *]}))
    """
    found, nesting = _flattened(tree, container)
    return [leaf for _, leaf in found], nesting


def flatten_with_path(tree: Any) -> tuple[list[tuple[Path, Any]], Structure]:
    """Each leaf of a tree with the path to it, and how they are nested.

    Args:
        tree: A nested container; see ``flatten``.

    Returns:
        Pairs of a path and a leaf, and the structure. A path is a tuple of keys, places and names
        of attributes: what is inside JAX's own classes of keys.

    Raises:
        ArgumentError: The keys of a dict have no order.

    Example:
        >>> flatten_with_path({"layers": [{"w": 1.5}]})[0]
        [(('layers', 0, 'w'), 1.5)]
    """
    return _flattened(tree, container)


def leaves(tree: Any) -> list[Any]:
    """The leaves of a tree, in order; an implicit array is one leaf.

    Args:
        tree: A nested container; see ``flatten``.

    Returns:
        A list.

    Raises:
        ArgumentError: The keys of a dict have no order.

    Example:
        >>> leaves({"w": [1, 2], "b": (3, None)})
        [3, 1, 2]
    """
    return flatten(tree)[0]


def structure(tree: Any) -> Structure:
    """How a tree is nested, without its leaves; an implicit array is one leaf.

    Args:
        tree: A nested container; see ``flatten``.

    Returns:
        A structure, which can be compared and hashed.

    Raises:
        ArgumentError: The keys of a dict have no order.

    Example:
        >>> structure([1, (2, 3)])
        Structure([*, (*, *)])
    """
    return flatten(tree)[1]


def unflatten(structure: Structure, leaves: Sequence[Any]) -> Any:
    """A tree of a structure that has these leaves.

    Args:
        structure: From ``flatten``, ``structure`` or ``flatten_one_implicit_layer``.
        leaves: As many as it has; of any kind.

    Returns:
        New containers. Implicit arrays among them are made without their checks, so that a tree
        can hold what is no array.

    Raises:
        ArgumentError: The number of leaves is another.

    Example:
        >>> found, nesting = flatten({"w": [1, 2], "b": (3, None)})
        >>> unflatten(nesting, [10 * x for x in found])
        {'b': (30, None), 'w': [10, 20]}
    """
    given = list(leaves)
    if len(given) != len(structure):
        raise ArgumentError(
            f"unflatten: {len(given)} leaves, and {len(structure)} places in {structure}.",
            "Give one for each.",
        )
    return built(structure, iter(given))


def tree_map(f: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """A tree of the same structure whose leaves are ``f`` of the leaves.

    Args:
        f: Is called with a leaf of the tree and what stands in its place in each of ``rest``.
        tree: A nested container; an implicit array is one leaf.
        rest: Trees that are nested as the first is, down to its leaves; what is there is given to
            ``f`` as it is.

    Returns:
        New containers.

    Raises:
        ArgumentError: One of the rest is nested in another way; says where.

    Example:
        >>> tree_map(lambda x, y: x + y, {"a": 1, "b": [2]}, {"a": 10, "b": [20]})
        {'a': 11, 'b': [22]}
    """
    return tree_map_with_path(lambda _, *found: f(*found), tree, *rest)


def tree_map_with_path(f: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """A tree of the same structure whose leaves are ``f`` of the paths and the leaves.

    Args:
        f: Is called with the path, the leaf, and what stands in its place in each of ``rest``.
        tree: A nested container; an implicit array is one leaf.
        rest: Trees that are nested as the first is, down to its leaves.

    Returns:
        New containers.

    Raises:
        ArgumentError: One of the rest is nested in another way; says where.

    Example:
        >>> tree_map_with_path(lambda path, x: (*path, x), {"a": [1.5, 2.5]})
        {'a': [('a', 0, 1.5), ('a', 1, 2.5)]}
    """
    found, nesting = _flattened(tree, container)
    columns = [list(_up_to(nesting, other, ())) for other in rest]
    rows = zip(found, *columns, strict=True)
    return built(nesting, iter([f(path, leaf, *row) for (path, leaf), *row in rows]))


def flatten_one_implicit_layer(tree: Any) -> tuple[list[Any], Structure]:
    """The leaves of a tree in which the outermost implicit arrays are taken apart.

    Implicit arrays within them are leaves. Applied to its own leaves as often as
    ``implicit_depth`` says, it gives plain arrays only.

    Args:
        tree: A nested container, or an implicit array.

    Returns:
        The leaves, and a structure from which ``unflatten`` makes the implicit arrays again.

    Raises:
        ArgumentError: The keys of a dict have no order.

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
        >>> found, nesting = flatten_one_implicit_layer({"x": x})
        >>> found
        [array([1., 1.]), Sum(float64[2], float64[2])]
        >>> unflatten(nesting, found)
        {'x': Sum(float64[2], Sum(float64[2], float64[2]))}
    """
    found, nesting = _flattened(tree, layer)
    return [leaf for _, leaf in found], nesting


def implicit_depth(tree: Any) -> int:
    """How many implicit arrays lie within each other, at most; 0 where there is none.

    Args:
        tree: A nested container, or an array.

    Returns:
        A number of layers.

    Raises:
        ArgumentError: The keys of a dict have no order.

    Example:
        >>> implicit_depth([1.0, None])
        0
    """
    inside = [fields_of(array) for leaf in leaves(tree) if (array := implicit(leaf)) is not None]
    return 1 + max(map(implicit_depth, inside)) if inside else 0


def is_array(x: Any) -> bool:
    """Whether it is an array: NumPy's, JAX's, MLX's, a symbolic or an implicit one.

    Args:
        x: Anything.

    Returns:
        False for numbers, NumPy's scalars, lists and types.

    Example:
        >>> import numpy as np
        >>> is_array(np.zeros(2)), is_array(2.0), is_array([2.0])
        (True, False, False)
    """
    return isinstance(x, ImplicitArray) or is_dense(x)


def _flattened(
    tree: Any, open: Callable[[Any], Parts | None]
) -> tuple[list[tuple[Path, Any]], Structure]:
    found: list[tuple[Path, Any]] = []

    def walk(tree: Any, path: Path, open: Callable[[Any], Parts | None]) -> Structure:
        opened = open(tree)
        if opened is None:
            found.append((path, tree))
            return LEAF
        kind, parts = opened
        inner = container if kind.is_implicit else open
        keyed = zip(kind.keys, parts, strict=True)
        return Structure(kind, tuple([walk(part, (*path, key), inner) for key, part in keyed]))

    nesting = walk(tree, (), open)
    return found, nesting


def _up_to(nesting: Structure, tree: Any, path: Path) -> Iterator[Any]:
    """Return a tree's parts at the places where the structure has leaves."""
    if nesting.kind is None:
        yield tree
        return
    opened = container(tree)
    if opened is None or opened[0] != nesting.kind:
        at = "".join(f"[{key!r}]" for key in path)
        raise ArgumentError(
            f"tree_map: tree{at} is {nesting} in the first, {structure(tree)} in another.",
            "Nest all of them as the first is.",
        )
    for key, inner, part in zip(nesting.kind.keys, nesting.parts, opened[1], strict=True):
        yield from _up_to(inner, part, (*path, key))
