"""The tree structure of an implicit array: classes, static fields and nesting, no arrays."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Any

import numpy as np

from graphc.errors import ImplicitArrayError, MaterializeError
from graphc.ir import STATIC, Node, Op, TensorType, dtype_name, encode, is_own_class, numpy_dtype


@dataclass(frozen=True)
class FieldNames:
    """The fields of a class.

    Attributes:
        parts: Names of the fields that hold arrays.
        static: Names of the static fields.
        required: Names of the fields that hold arrays and have no default value.
    """

    parts: tuple[str, ...]
    static: tuple[str, ...]
    required: tuple[str, ...]


@cache
def field_names_of(cls: Any) -> FieldNames:
    """Return the field names of a class of implicit arrays.

    Raises:
        ImplicitArrayError: If the class has fields and is not a dataclass.
    """
    own = vars(cls)
    if own.get("__annotations__") and "__dataclass_fields__" not in own:
        raise ImplicitArrayError(
            f"{cls.__qualname__} declares fields and is not a dataclass.",
            "Decorate it with @dataclass(frozen=True).",
        )
    named = fields(cls)
    with_arrays = [x for x in named if STATIC not in x.metadata]
    return FieldNames(
        tuple(x.name for x in with_arrays),
        tuple(x.name for x in named if STATIC in x.metadata),
        tuple(x.name for x in with_arrays if x.default is x.default_factory is MISSING),
    )


def build_array(cls: Any, static: Sequence[Any], parts: Sequence[Any]) -> Any:
    """Build an implicit array without its checks: a JAX tree may hold any objects."""
    names = field_names_of(cls)
    x, put = object.__new__(cls), object.__setattr__
    for name, value in zip((*names.parts, *names.static), (*parts, *static), strict=True):
        put(x, name, value)
    return x


def with_arrays(x: Any, parts: Sequence[Any]) -> Any:
    """Return a copy with other arrays, unchecked."""
    cls: Any = type(x)
    static = [getattr(x, name) for name in field_names_of(cls).static]
    return build_array(cls, static, parts)


def lengths_of(x: Any) -> tuple[int | None, ...]:
    """Return the static lengths of an array or type of any library; None where unknown."""
    kind = x.type if isinstance(x, Node) else x
    if not hasattr(kind, "shape"):
        raise _no_array(x)
    return tuple(kind.shape)


def shapes_fit(a: Sequence[int | None], b: Sequence[int | None]) -> bool:
    """Return whether two shapes are equal, except for unknown lengths."""
    return len(a) == len(b) and all(n == m or None in {n, m} for n, m in zip(a, b, strict=True))


class NoArrayError(MaterializeError, AttributeError):
    """An implicit array has no shape or dtype: a field holds something that is no array.

    Trees may hold None and other objects instead of arrays, and libraries look for shapes with
    ``getattr(x, "shape", None)``; hence the error is an AttributeError.
    """


FILTERED = (
    "It is one part of a filtered tree: put the parts together with graphc.implicit.combine, or "
    "with the function of the library that made them."
)
"""The remedy for an implicit array that holds None in place of arrays."""


def _no_array(x: Any) -> NoArrayError:
    if x is None:
        problem = "A field of an implicit array holds None, which is not an array."
        return NoArrayError(problem, FILTERED)
    return NoArrayError(
        f"A field of an implicit array holds {x!r}, which is not an array.",
        "Give it an array: np.asarray(...), or jnp.asarray(...).",
    )


def dtype_of(x: Any) -> Any:
    """Return the NumPy dtype of an array or type of any library."""
    if not isinstance(x, Node) and not hasattr(x, "dtype"):
        raise _no_array(x)
    dtype = x.type.dtype if isinstance(x, Node) else x.dtype
    if isinstance(dtype, str):
        return numpy_dtype(dtype)
    # MLX's dtypes are no NumPy dtypes, and print as mlx.core.float32.
    return (
        dtype if isinstance(dtype, np.dtype) or "mlx" not in str(dtype) else _from_mlx(str(dtype))
    )


@cache
def _from_mlx(name: str) -> np.dtype[Any]:
    return numpy_dtype(dtype_name(name.rpartition(".")[2]))


LEAF = "array"
"""The item of a ``Treedef`` that represents an array."""


@dataclass(frozen=True)
class Treedef:
    """The tree structure of an implicit array: everything except its arrays.

    Two are equal if their classes, static fields and nesting are.

    Attributes:
        cls: The class.
        parts: The item of each field with arrays: ``"array"``, a ``Treedef``, None, or a tuple of
            these.
        static: The values of the static fields.
    """

    cls: type
    parts: tuple[Any, ...]
    static: tuple[Any, ...]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Treedef) or self.cls is not other.cls:
            return False
        same = self.parts == other.parts and self.static == other.static
        return same and all(map(_is_same, self.static, other.static))

    def __hash__(self) -> int:
        return hash((self.cls, self.parts, self.static))

    @classmethod
    def of(cls, x: Any) -> tuple[Treedef, list[Any]]:
        """Return the tree structure of an implicit array, and its arrays in order."""
        leaves: list[Any] = []
        return _flatten(x, leaves), leaves

    def build(self, leaves: Sequence[Any]) -> Any:
        """Build an implicit array of this structure from its arrays."""
        return _build(self, iter(leaves))

    def __repr__(self) -> str:
        names = field_names_of(self.cls)
        shown = [
            name if part == LEAF else f"{name}={part!r}"
            for name, part in zip(names.parts, self.parts, strict=True)
        ]
        pairs = zip(names.static, self.static, strict=True)
        shown += [f"{name}={value!r}" for name, value in pairs]
        return f"{self.cls.__name__}({', '.join(shown)})"

    def token(self) -> str:
        """Return a text that is the same in every process and differs between structures."""
        names = field_names_of(self.cls)
        items = zip(names.parts, self.parts, strict=True)
        static = zip(names.static, self.static, strict=True)
        inside = [f"{name}:{_token(part)}" for name, part in items]
        inside += [f"{name}={_static_token(value)}" for name, value in static]
        return f"{self.cls.__module__}.{self.cls.__qualname__}({','.join(inside)})"

    def classes(self) -> Iterator[type]:
        """Yield the class and the classes nested in it."""
        for _, item in _walk("", self):
            if isinstance(item, Treedef):
                yield item.cls

    def paths(self, root: str) -> list[str]:
        """Return the path to each array, starting from an array of this name."""
        return [path for path, item in _walk(root, self) if item == LEAF]

    def empty_fields(self) -> list[str]:
        """Return the paths of fields that hold None or an empty tuple."""
        items = _walk("", self)
        return [path.removeprefix(".") for path, item in items if item is None or item == ()]

    def static_changes(self, other: Treedef) -> list[tuple[str, Any, Any]] | None:
        """Return the static fields that differ from another's; None if more differs.

        Each item is the path of the field, the value here, and the other value.
        """
        if self.cls is not other.cls or len(self.parts) != len(other.parts):
            return None
        names = field_names_of(self.cls)
        static = zip(names.static, self.static, other.static, strict=True)
        changes = [(name, a, b) for name, a, b in static if a != b or not _is_same(a, b)]
        for name, a, b in zip(names.parts, self.parts, other.parts, strict=True):
            if isinstance(a, Treedef) and isinstance(b, Treedef):
                nested = a.static_changes(b)
                if nested is None:
                    return None
                changes += [(f"{name}.{field}", x, y) for field, x, y in nested]
            elif a != b:
                return None
        return changes

    def root(self, names: Sequence[str | None]) -> str | None:
        """Return the array's name, given the names of its arrays; None if they do not match."""
        paths = self.paths("")
        if not names or not all(names):
            return None
        roots = {str(name).removesuffix(path) for name, path in zip(names, paths, strict=True)}
        root = roots.pop()
        return root if not roots and [*names] == self.paths(root) else None

    def unwritten(self) -> Any:
        """Return the structure itself if its text is ambiguous, else None.

        Classes may share a name, and so may functions in static fields, which only fields of the
        user's classes hold.
        """
        return None if all(map(is_own_class, self.classes())) else self


def _walk(path: str, item: Any) -> Iterator[tuple[str, Any]]:
    """Yield an item of a ``Treedef`` and all items nested in it, with their paths, in order."""
    yield path, item
    parts: list[tuple[str, Any]] = []
    if isinstance(item, Treedef):
        named = zip(field_names_of(item.cls).parts, item.parts, strict=True)
        parts = [(f"{path}.{name}", part) for name, part in named]
    elif isinstance(item, tuple):
        parts = [(f"{path}[{i}]", part) for i, part in enumerate(item)]
    for part in parts:
        yield from _walk(*part)


def declares_implicit(x: Any) -> bool:
    """Return whether a value is an implicit array, without importing the class."""
    cls: Any = type(x)
    return _declares(cls)


@cache
def _declares(cls: Any) -> bool:
    return hasattr(cls, "__graphc_implicit__")


def _flatten(x: Any, leaves: list[Any]) -> Any:
    if isinstance(x, Node) and declares_implicit(nested := getattr(x, "array", None)):
        x = nested
    if x is None:
        return None
    if isinstance(x, tuple | list):
        return tuple([_flatten(part, leaves) for part in x])
    if not declares_implicit(x):
        leaves.append(x)
        return LEAF
    cls: Any = type(x)
    names = field_names_of(cls)
    items = tuple([_flatten(getattr(x, name), leaves) for name in names.parts])
    return Treedef(cls, items, tuple([getattr(x, name) for name in names.static]))


def _build(treedef: Any, leaves: Iterator[Any]) -> Any:
    if isinstance(treedef, Treedef):
        values = [_build(part, leaves) for part in treedef.parts]
        return build_array(treedef.cls, treedef.static, values)
    if isinstance(treedef, tuple):
        return tuple([_build(part, leaves) for part in treedef])
    return None if treedef is None else next(leaves)


def _token(part: Any) -> str:
    if isinstance(part, Treedef):
        return part.token()
    if isinstance(part, tuple):
        return f"({','.join(map(_token, part))})"
    return str(part)


def _is_same(a: Any, b: Any) -> bool:
    """Return whether equal values are identical: 1, 1.0 and True are not, nor 0.0 and -0.0."""
    if a is b:
        return True
    if isinstance(a, tuple) and isinstance(b, tuple):
        return all(map(_is_same, a, b))
    return type(a) is type(b) and (not isinstance(a, float | complex) or repr(a) == repr(b))


def _static_token(value: Any) -> str:
    if isinstance(value, np.dtype):
        return str(value)
    if isinstance(value, tuple):
        return f"({','.join(map(_static_token, value))})"
    if isinstance(value, type) or (callable(value) and not isinstance(value, Op)):
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value)}"
    return encode(value)


NUMBERS = (int, float, complex, str, bytes, bool, type(None))
PLAIN = (*NUMBERS, np.dtype, enum.Enum, type, Op, TensorType)


def check_static(cls: type, name: str, value: Any) -> None:
    """Raise an error if a static field cannot hold a value.

    Raises:
        ImplicitArrayError: If it is an array, or has no hash.
    """
    if isinstance(value, PLAIN):
        return
    if isinstance(value, tuple):
        for part in value:
            check_static(cls, name, part)
        return
    problem = f"{cls.__qualname__}.{name} = {value!r}"
    if hasattr(value, "shape") or declares_implicit(value) or isinstance(value, Node):
        raise ImplicitArrayError(
            f"{problem}: the static field holds an array.",
            "Declare it without aux_field, so that it is passed when a program runs.",
        )
    try:
        hash(value)
    except TypeError as error:
        raise ImplicitArrayError(
            f"{problem}: the static field has no hash.",
            "Use numbers, strings, tuples, enums or frozen dataclasses.",
        ) from error
