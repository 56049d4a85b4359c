"""The form of an implicit array: its classes, static fields and nesting, without its arrays."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import numpy as np

from graphc.errors import ImplicitArrayError
from graphc.ir import (
    STATIC,
    Node,
    Op,
    TensorType,
    dtype_name,
    encode,
    here,
    is_own_class,
    numpy_dtype,
    where,
)

__all__ = ["Form", "Plan", "dtype_of", "lengths_of", "plan_of", "with_parts"]


@dataclass(frozen=True)
class Plan:
    """The fields of a class.

    Attributes:
        parts: Names of fields that hold arrays.
        static: Names of fields that do not.
    """

    parts: tuple[str, ...]
    static: tuple[str, ...]


@cache
def plan_of(cls: Any) -> Plan:
    """The fields of a class of implicit arrays.

    Raises:
        ImplicitArrayError: It has fields and is no dataclass.
    """
    own = vars(cls)
    if own.get("__annotations__") and "__dataclass_fields__" not in own:
        raise ImplicitArrayError(
            f"{cls.__qualname__} declares fields and is no dataclass.",
            "Decorate it with @dataclass(frozen=True).",
            where(here()),
        )
    named = fields(cls)
    return Plan(
        tuple(x.name for x in named if STATIC not in x.metadata),
        tuple(x.name for x in named if STATIC in x.metadata),
    )


def with_parts(x: Any, parts: Sequence[Any]) -> Any:
    """The same class and static fields with other parts, unchecked: a tree may hold anything."""
    cls: Any = type(x)
    plan = plan_of(cls)
    made = object.__new__(cls)
    put = object.__setattr__
    for name, part in zip(plan.parts, parts, strict=True):
        put(made, name, part)
    for name in plan.static:
        put(made, name, getattr(x, name))
    return made


def lengths_of(x: Any) -> tuple[int | None, ...]:
    """The static lengths of an array of any library, symbolic or a type; None where unknown."""
    kind = x.type if isinstance(x, Node) else x
    if not hasattr(kind, "shape"):
        raise _no_array(x)
    return tuple(kind.shape)


def _no_array(x: Any) -> ImplicitArrayError:
    return ImplicitArrayError(
        f"A field of an implicit array holds {x!r}, which is no array.",
        "Give it an array: np.asarray(...), or jnp.asarray(...).",
        where(here()),
    )


def dtype_of(x: Any) -> Any:
    """NumPy's dtype of an array of any library, symbolic or a type."""
    if not isinstance(x, Node) and not hasattr(x, "dtype"):
        raise _no_array(x)
    dtype = x.type.dtype if isinstance(x, Node) else x.dtype
    if isinstance(dtype, str):
        return numpy_dtype(dtype)
    # MLX's are no NumPy dtypes, and print as mlx.core.float32.
    return dtype if isinstance(dtype, np.dtype) or "mlx" not in str(dtype) else _mlx(str(dtype))


@cache
def _mlx(name: str) -> np.dtype[Any]:
    return numpy_dtype(dtype_name(name.rpartition(".")[2]))


LEAF = "array"
"""What stands for an array in a form."""


@dataclass(frozen=True)
class Form:
    """What an implicit array is but for its arrays; equal forms have equal classes and nesting.

    Attributes:
        cls: Its class.
        parts: What each of its fields is: ``"array"``, a form, None, or a tuple of such.
        static: The values of its static fields.
    """

    cls: type
    parts: tuple[Any, ...]
    static: tuple[Any, ...]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Form) or self.cls is not other.cls:
            return False
        same = self.parts == other.parts and self.static == other.static
        return same and all(map(_is_same, self.static, other.static))

    def __hash__(self) -> int:
        return hash((self.cls, self.parts, self.static))

    @classmethod
    def of(cls, x: Any) -> tuple[Form, list[Any]]:
        """The form of an implicit array, and its arrays in order."""
        leaves: list[Any] = []
        return _form(x, leaves), leaves

    def build(self, leaves: Sequence[Any]) -> Any:
        """An implicit array of this form that has these arrays."""
        return _built(self, iter(leaves))

    def __repr__(self) -> str:
        plan = plan_of(self.cls)
        shown = [
            name if part == LEAF else f"{name}={part!r}"
            for name, part in zip(plan.parts, self.parts, strict=True)
        ]
        pairs = zip(plan.static, self.static, strict=True)
        shown += [f"{name}={value!r}" for name, value in pairs]
        return f"{self.cls.__name__}({', '.join(shown)})"

    def token(self) -> str:
        """A text that is the same in every process, and different for other forms."""
        plan = plan_of(self.cls)
        parts = zip(plan.parts, self.parts, strict=True)
        static = zip(plan.static, self.static, strict=True)
        inside = [f"{name}:{_token(part)}" for name, part in parts]
        inside += [f"{name}={_static_token(value)}" for name, value in static]
        return f"{self.cls.__module__}.{self.cls.__qualname__}({','.join(inside)})"

    def classes(self) -> Iterator[type]:
        """Its class, and those of what is nested in it."""
        yield self.cls
        waiting = list(self.parts)
        while waiting:
            part = waiting.pop()
            if isinstance(part, Form):
                yield from part.classes()
            elif isinstance(part, tuple):
                waiting += part

    def paths(self, root: str) -> list[str]:
        """How each of its arrays is reached from an array of that name."""
        found: list[str] = []
        waiting: list[tuple[str, Any]] = [(root, self)]
        while waiting:
            path, part = waiting.pop()
            if isinstance(part, Form):
                named = zip(plan_of(part.cls).parts, part.parts, strict=True)
                waiting += [(f"{path}.{field}", inner) for field, inner in named][::-1]
            elif isinstance(part, tuple):
                waiting += [(f"{path}[{i}]", inner) for i, inner in enumerate(part)][::-1]
            elif part is not None:
                found.append(path)
        return found

    def root(self, names: Sequence[str | None]) -> str | None:
        """The name of an array whose own arrays are called so, as ``paths`` calls them."""
        paths = self.paths("")
        if not names or not all(names):
            return None
        roots = {str(name).removesuffix(path) for name, path in zip(names, paths, strict=True)}
        root = roots.pop()
        return root if not roots and [*names] == self.paths(root) else None

    def unwritten(self) -> Any:
        """The form itself where its text does not tell all: others may have its classes' names.

        So may functions in static fields, which only fields of the user's classes hold.
        """
        return None if all(map(is_own_class, self.classes())) else self


def is_form(x: Any) -> bool:
    """Whether it is an implicit array, by what its class declares."""
    cls: Any = type(x)
    return _declares(cls)


@cache
def _declares(cls: Any) -> bool:
    return hasattr(cls, "__graphc_implicit__")


def _form(x: Any, leaves: list[Any]) -> Any:
    if isinstance(x, Node) and is_form(nested := getattr(x, "array", None)):
        x = nested
    if x is None:
        return None
    if isinstance(x, tuple | list):
        return tuple([_form(part, leaves) for part in x])
    if not is_form(x):
        leaves.append(x)
        return LEAF
    cls: Any = type(x)
    plan = plan_of(cls)
    parts = tuple([_form(getattr(x, name), leaves) for name in plan.parts])
    return Form(cls, parts, tuple([getattr(x, name) for name in plan.static]))


def _built(form: Any, leaves: Iterator[Any]) -> Any:
    if isinstance(form, Form):
        made: Any = object.__new__(form.cls)
        put = object.__setattr__
        plan = plan_of(form.cls)
        for name, part in zip(plan.parts, form.parts, strict=True):
            put(made, name, _built(part, leaves))
        for name, value in zip(plan.static, form.static, strict=True):
            put(made, name, value)
        return made
    if isinstance(form, tuple):
        return tuple([_built(part, leaves) for part in form])
    return None if form is None else next(leaves)


def _token(part: Any) -> str:
    if isinstance(part, Form):
        return part.token()
    if isinstance(part, tuple):
        return f"({','.join(map(_token, part))})"
    return str(part)


def _is_same(a: Any, b: Any) -> bool:
    """Whether equal static values are alike: not 1, 1.0 and True, and not 0.0 and -0.0."""
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
    if isinstance(value, type) or callable(value):
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value)}"
    return encode(value)


NUMBERS = (int, float, complex, str, bytes, bool, type(None))
PLAIN = (*NUMBERS, np.dtype, enum.Enum, type, Op, TensorType)


def check_static(cls: type, name: str, value: Any) -> None:
    """Raise where a static field holds what cannot be one.

    Raises:
        ImplicitArrayError: An array, or what has no hash.
    """
    if isinstance(value, PLAIN):
        return
    if isinstance(value, tuple):
        for part in value:
            check_static(cls, name, part)
        return
    problem = f"{cls.__qualname__}.{name} = {value!r}"
    if hasattr(value, "shape") or is_form(value) or isinstance(value, Node):
        raise ImplicitArrayError(
            f"{problem}: the static field holds an array.",
            "Declare it without aux_field, so that it is passed when a program runs.",
            where(here()),
        )
    try:
        hash(value)
    except TypeError as error:
        raise ImplicitArrayError(
            f"{problem}: the static field has no hash.",
            "Use numbers, strings, tuples, enums or frozen dataclasses.",
            where(here()),
        ) from error
