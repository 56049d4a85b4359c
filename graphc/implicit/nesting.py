"""Pytrees flattened and rebuilt by JAX's rules, without JAX."""

from __future__ import annotations

import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.errors import ArgumentError
from graphc.implicit.array import ImplicitArray
from graphc.implicit.treedef import build_array, field_names_of
from graphc.ir import Node

Path = tuple[Any, ...]
"""The path to a leaf: keys of dicts, indices of lists and tuples, names of attributes."""


@dataclass(frozen=True)
class ContainerType:
    """The type of a container and how to rebuild it, without its contents.

    Attributes:
        build: The key of the function in ``BUILDERS`` that builds the container.
        cls: The container's class.
        keys: The key, index or attribute name of each item.
        static: Whatever else rebuilding needs: static fields, a default factory, or JAX's treedef.
    """

    build: str
    cls: type
    keys: Path
    static: Any = None

    @property
    def is_implicit(self) -> bool:
        """Whether the container is an implicit array."""
        return issubclass(self.cls, ImplicitArray)


Parts = tuple[ContainerType, Sequence[Any]]
"""A container's type, and its contents one layer deep."""


@dataclass(frozen=True)
class Structure:
    """The nesting of a tree without its leaves; equal nestings are equal and hash alike.

    Attributes:
        kind: The type of the outermost container; None for a leaf.
        parts: The structures of the container's items.

    Example:
        >>> from graphc.implicit import structure
        >>> structure({"b": [1, 2], "a": None})
        Structure({'a': None, 'b': [*, *]})
        >>> structure((1, 2)) == structure((3, 4)), structure((1, 2)) == structure([1, 2])
        (True, False)
    """

    kind: ContainerType | None
    parts: tuple[Structure, ...] = ()

    def __len__(self) -> int:
        """Return the number of leaves."""
        return 1 if self.kind is None else sum(map(len, self.parts))

    def __bool__(self) -> bool:
        """Return True, even if there are no leaves."""
        return True

    def __repr__(self) -> str:
        return f"Structure({_show(self)})"


LEAF = Structure(None)


def build_tree(structure: Structure, leaves: Iterator[Any]) -> Any:
    """Build a tree from its leaves."""
    if structure.kind is None:
        return next(leaves)
    items = [build_tree(part, leaves) for part in structure.parts]
    return BUILDERS[structure.kind.build](structure.kind, items)


def container(x: Any) -> Parts | None:
    """Return a container's type and items; None for a leaf, such as an implicit array."""
    if isinstance(x, ImplicitArray | Node | np.ndarray):
        return None
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return ContainerType("named tuple", type(x), x._fields), x
    split = CONTAINERS.get(type(x), _split_registered)
    return split(x)


def layer(x: Any) -> Parts | None:
    """Return the type and items of a container or an implicit array; None for another leaf."""
    array = implicit(x)
    if array is None:
        return container(x)
    cls = type(array)
    names = field_names_of(cls)
    build = "array" if array is x else "tensor"
    static = tuple(getattr(array, name) for name in names.static)
    return ContainerType(build, cls, names.parts, static), [
        getattr(array, name) for name in names.parts
    ]


def implicit(x: Any) -> ImplicitArray | None:
    """Return an implicit array, also of a symbolic array that represents it, else None."""
    array = getattr(x, "array", None) if isinstance(x, Node) else x
    return array if isinstance(array, ImplicitArray) else None


BUILDERS: dict[str, Callable[[ContainerType, list[Any]], Any]] = {
    "none": lambda kind, parts: None,
    "sequence": lambda kind, parts: kind.cls(parts),
    "named tuple": lambda kind, parts: kind.cls(*parts),
    "mapping": lambda kind, parts: kind.cls(zip(kind.keys, parts, strict=True)),
    "default dict": lambda kind, parts: defaultdict(
        kind.static, zip(kind.keys, parts, strict=True)
    ),
    "array": lambda kind, parts: build_array(kind.cls, kind.static, parts),
    "tensor": lambda kind, parts: build_array(kind.cls, kind.static, parts).__graphc_tensor__(),
    "registered": lambda kind, parts: sys.modules["jax.tree_util"].tree_unflatten(
        kind.static, parts
    ),
}
"""Functions that build a container from its type and its items."""


# Functions that split a container into its type and items.


def _sort_keys(x: dict[Any, Any]) -> Path:
    try:
        return tuple(sorted(x))
    except TypeError as error:
        raise ArgumentError(
            f"The keys {list(x)} of a dict have no order: {error}.",
            "Use keys of one kind, or an OrderedDict.",
        ) from error


def _split_dict(x: dict[Any, Any]) -> Parts:
    keys = _sort_keys(x)
    return ContainerType("mapping", dict, keys), [x[key] for key in keys]


def _split_default_dict(x: defaultdict[Any, Any]) -> Parts:
    keys = _sort_keys(x)
    return ContainerType("default dict", defaultdict, keys, x.default_factory), [
        x[key] for key in keys
    ]


CONTAINERS: dict[type, Callable[[Any], Parts]] = {
    type(None): lambda x: (ContainerType("none", type(None), ()), ()),
    list: lambda x: (ContainerType("sequence", list, tuple(range(len(x)))), x),
    tuple: lambda x: (ContainerType("sequence", tuple, tuple(range(len(x)))), x),
    dict: _split_dict,
    OrderedDict: lambda x: (ContainerType("mapping", OrderedDict, tuple(x)), list(x.values())),
    defaultdict: _split_default_dict,
}
"""The containers that need no registration; their subclasses do."""


def _split_registered(x: Any) -> Parts | None:
    """Split an object of a class that is registered with JAX, once JAX is loaded."""
    tree_util: Any = sys.modules.get("jax.tree_util")
    flatten = getattr(tree_util, "tree_flatten_with_path", None)
    if flatten is None:
        return None
    pairs, record = flatten(x, is_leaf=lambda part: part is not x)
    if any(not path for path, _ in pairs):
        return None
    keys = tuple(_plain_key(path[0]) for path, _ in pairs)
    return ContainerType("registered", type(x), keys, record), [part for _, part in pairs]


def _plain_key(key: Any) -> Any:
    named = [getattr(key, name) for name in ("key", "idx", "name") if hasattr(key, name)]
    return named[0] if named else key


def _show(structure: Structure) -> str:
    kind = structure.kind
    if kind is None:
        return "*"
    items = [_show(part) for part in structure.parts]
    if kind.cls is type(None):
        return "None"
    if kind.cls is list:
        return f"[{', '.join(items)}]"
    if kind.cls is tuple:
        return f"({', '.join(items)}{',' * (len(items) == 1)})"
    pairs = list(zip(kind.keys, items, strict=True))
    if kind.cls is dict:
        return f"{{{', '.join(f'{key!r}: {item}' for key, item in pairs)}}}"
    return f"{kind.cls.__name__}({', '.join(f'{key}={item}' for key, item in pairs)})"
