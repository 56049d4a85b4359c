"""Calls of a JAX function with symbolic arrays: captured arrays become inputs."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import jax
import numpy as np
from jax.extend.core import primitives

from graphc.capture import Lifted, Stripped, lift, rebuild
from graphc.errors import ArgumentError
from graphc.ir import Node, picks
from graphc.link.jax.wrap.call import JaxCall
from graphc.link.jax.wrap.function import Function, checked_results, is_key, is_running, running
from graphc.link.jax.wrap.portable import dumped, loaded
from graphc.link.jax.wrap.types import needs_x64, result_types
from graphc.tensor.core.runtime import Runtime
from graphc.tensor.core.specify import specify_shape
from graphc.tensor.core.tensor import as_tensor

Tree = Any
"""How values are nested: JAX's PyTreeDef."""


def call(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    wide: bool = False,
) -> Any:
    """Return the function's results as symbolic arrays, nested as the function nests them.

    Args:
        function: The user's.
        args: Its arguments.
        kwargs: Its keyword arguments.
        wide: Whether 64-bit dtypes are enabled while it is traced even if no input has one.
    """
    leaves, tree = jax.tree.flatten((tuple(args), dict(kwargs)), is_leaf=_is_symbolic)
    if is_running() or any(isinstance(x, jax.core.Tracer) for x in leaves):
        return function(*args, **kwargs)
    places = tuple(_is_array(x) for x in leaves)
    fixed = [x for x, is_array in zip(leaves, places, strict=True) if not is_array]
    given = [x for x, is_array in zip(leaves, places, strict=True) if is_array]
    lifted = _lifted(partial(_applied, function, *fixed))
    arrays = [*lifted.leaves, *given]
    names = [*map(_shown, lifted.stripped.names), *[None] * len(given)]
    inputs = [_symbolic(x, name) for x, name in zip(arrays, names, strict=True)]
    wide = wide or needs_x64([x.type.dtype for x in inputs])
    captured = Captured(function, lifted, (tree, places), [_kind(x) for x in arrays], wide)
    found = result_types(captured, [x.type for x in inputs])
    if not found.types:
        return jax.tree.unflatten(found.tree, [])
    results = picks(Node.make(JaxCall(captured), *inputs))
    pairs = zip(results, found.likely, strict=True)
    return jax.tree.unflatten(found.tree, [specify_shape(y, type.shape) for y, type in pairs])


def _is_symbolic(x: Any) -> bool:
    return isinstance(x, Node)


def _is_array(x: Any) -> bool:
    return isinstance(x, Node | np.ndarray | np.generic | jax.Array | Runtime)


WEAK = "weak"


def _kind(x: Any) -> str:
    """Return an array's kind: weakly typed, random keys of an implementation, or ""."""
    if isinstance(x, Runtime):
        return WEAK if x.weak else ""
    return str(jax.random.key_impl(x)) if isinstance(x, jax.Array) and is_key(x.dtype) else ""


def _shown(name: str) -> str:
    """Return the name of a captured array, without the parameter name ``function``."""
    return name.removeprefix("function.").replace("__self__", "self")


def _symbolic(x: Any, name: str | None) -> Any:
    is_keys = _kind(x) not in {"", WEAK}
    return as_tensor(jax.random.key_data(x) if is_keys else x, name)


def _of_kind(x: Any, kind: str) -> Any:
    """Convert a traced array to its kind."""
    if not kind:
        return x
    if kind == WEAK:
        return primitives.convert_element_type_p.bind(
            x, new_dtype=x.dtype, weak_type=True, sharding=None
        )
    return jax.random.wrap_key_data(x, impl=kind)


def _applied(function: Any, *rest: Any) -> Any:
    """Call the function with arrays at their places among fixed arguments."""
    *fixed, tree, places, given = rest
    values, others = iter(given), iter(fixed)
    leaves = [next(values if is_array else others) for is_array in places]
    args, kwargs = jax.tree.unflatten(tree, leaves)
    return function(*args, **kwargs)


class Captured(Function):
    """A user's function of its captured arrays followed by its array arguments.

    Args:
        function: The user's.
        lifted: The same without its arrays, as are the arguments that are none.
        form: How the arguments are nested, and which of them are arrays.
        kinds: What each of the arrays is beside its numbers.
        wide: Whether 64-bit dtypes are enabled while it is traced.
    """

    __slots__ = ("captured", "kinds", "places", "stripped", "tree", "wide")

    def __init__(
        self,
        function: Any,
        lifted: Any,
        form: tuple[Tree, Any],
        kinds: Sequence[str],
        wide: bool,
    ) -> None:
        self.wide = wide
        self.stripped, self.captured = lifted.stripped, len(lifted.leaves)
        self.tree, self.places = form
        self.kinds = tuple(kinds)
        nesting, static = _structure(self.tree)
        whole = (self.stripped, static)
        digests = [x if isinstance(x, str) else x.digest() for x in whole]
        is_told = None not in digests and _is_portable((self.stripped, self.tree))
        text = (digests, self.captured, self.places, self.kinds, nesting, wide)
        super().__init__(_name(function), None if is_told else whole, *text)

    def described(self) -> tuple[str, tuple[tuple[str, Any], ...]]:
        parts = self.stripped.parts
        code = tuple((x.kind, x.children, None if _is_number(x) else x.token) for x in parts)
        kind = hash((code, self.places, self.kinds, _structure(self.tree)))
        return str(kind), tuple((_shown(x.name), x.static) for x in parts if _is_number(x))

    def __reduce__(self) -> tuple[Any, ...]:
        kept = {name: getattr(self, name) for name in ("name", "text", "apart", *self.__slots__)}
        return _again, (dumped(kept),)

    def whole(self, *values: Any) -> Any:
        arrays = [*map(_of_kind, values, self.kinds)]
        applied = rebuild(self.stripped, arrays[: self.captured])
        with running():
            found = applied(self.tree, self.places, arrays[self.captured :])
        return checked_results(self.name, found)


def _is_number(part: Any) -> bool:
    return part.kind == "plain" and isinstance(part.static, int | float | complex | str | None)


def _again(data: bytes) -> Captured:
    made = object.__new__(Captured)
    for name, value in loaded(data).items():
        setattr(made, name, value)
    return made


def _name(function: Any) -> str:
    if isinstance(function, partial):
        return _name(function.func)
    return getattr(function, "__name__", type(function).__name__)


@lru_cache(1024)
def _is_portable(parts: Hashable) -> bool:
    """Whether a round trip through pickled bytes preserves them."""
    try:
        return bool(loaded(dumped(parts)) == parts)
    except (pickle.PickleError, AttributeError, ImportError, TypeError, ValueError):
        return False


def _lifted(function: Callable[..., Any]) -> Lifted:
    try:
        return lift(function)
    except ArgumentError as error:
        raise ArgumentError(f"wrap_jax: {error.problem}", error.remedy, error.where) from error


def _structure(tree: Tree) -> tuple[str, Stripped | str]:
    """Return the nesting of values as text, and the static data of pytree classes."""
    parts: list[Any] = []
    nesting = _nesting(tree, parts)
    if not parts:
        return nesting, ""
    static = _lifted(partial(_nothing, *parts))
    arrays = [*static.leaves, *filter(_is_array, jax.tree.leaves(parts))]
    if arrays:
        raise ArgumentError(
            f"wrap_jax: an argument of the structure {tree} holds {arrays[0]!r} beside its values.",
            "Make arrays children of its class of pytrees, not static fields.",
        )
    return nesting, static.stripped


def _nesting(tree: Tree, parts: list[Any]) -> str:
    found = tree.node_data()
    if found is None:
        return "*"
    cls, data = found
    inside = " ".join([_nesting(child, parts) for child in tree.children()])
    if cls in {tuple, list, type(None)}:
        return f"{cls.__name__}[{inside}]"
    if cls is dict and all(type(key) is str for key in data):
        return f"dict{data}[{inside}]"
    parts += [cls, data]
    return f"{len(parts)}[{inside}]"


def _nothing(*parts: Any) -> None:
    """A function to lift these arguments with, so that they are compared."""
