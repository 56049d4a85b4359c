"""Calls of a JAX function with symbolic arrays: captured arrays become inputs.

Lifted functions are pickled for processes with the same Python and libraries: code objects are
written out, modules and their variables are written as names.
"""

from __future__ import annotations

import io
import marshal
import pickle
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache, partial
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import Any

import jax
import numpy as np
from jax.extend.core import primitives

from graphc.capture import Lifted, Stripped, lift, rebuild
from graphc.errors import ArgumentError
from graphc.ir import Node, picks
from graphc.link.jax.wrap.call import JaxCall
from graphc.link.jax.wrap.function import JaxFunction, as_jax_results, is_key, is_running, running
from graphc.link.jax.wrap.types import needs_x64, result_types
from graphc.tensor.core.runtime import Runtime
from graphc.tensor.core.specify import specify_shape
from graphc.tensor.core.tensor import as_tensor

Tree = Any
"""The structure of nested values: JAX's PyTreeDef."""


def call(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    wide: bool = False,
) -> Any:
    """Return the function's results as symbolic arrays, nested as the function nests them.

    With ``wide``, 64-bit dtypes are enabled while JAX traces it, also without an input of 64 bits.
    """
    leaves, tree = jax.tree.flatten((tuple(args), dict(kwargs)), is_leaf=_is_symbolic)
    if is_running() or any(isinstance(x, jax.core.Tracer) for x in leaves):
        return function(*args, **kwargs)
    are_arrays = tuple(_is_array(x) for x in leaves)
    static = [x for x, is_array in zip(leaves, are_arrays, strict=True) if not is_array]
    arguments = [x for x, is_array in zip(leaves, are_arrays, strict=True) if is_array]
    lifted = _lift(partial(_apply, function, *static))
    arrays = [*lifted.leaves, *arguments]
    names = [*map(_display_name, lifted.stripped.names), *[None] * len(arguments)]
    inputs = [_symbolic(x, name) for x, name in zip(arrays, names, strict=True)]
    wide = wide or needs_x64([x.type.dtype for x in inputs])
    captured = Captured(function, lifted, (tree, are_arrays), [_kind(x) for x in arrays], wide)
    result = result_types(captured, [x.type for x in inputs])
    if not result.types:
        return jax.tree.unflatten(result.tree, [])
    ys = picks(Node.make(JaxCall(captured), *inputs))
    pairs = zip(ys, result.likely, strict=True)
    return jax.tree.unflatten(result.tree, [specify_shape(y, type.shape) for y, type in pairs])


def _is_symbolic(x: Any) -> bool:
    return isinstance(x, Node)


def _is_array(x: Any) -> bool:
    return isinstance(x, Node | np.ndarray | np.generic | jax.Array | Runtime)


WEAK = "weak"


def _kind(x: Any) -> str:
    if isinstance(x, Runtime):
        return WEAK if x.weak else ""
    return str(jax.random.key_impl(x)) if isinstance(x, jax.Array) and is_key(x.dtype) else ""


def _display_name(name: str) -> str:
    return name.removeprefix("function.").replace("__self__", "self")


def _symbolic(x: Any, name: str | None) -> Any:
    is_keys = _kind(x) not in {"", WEAK}
    return as_tensor(jax.random.key_data(x) if is_keys else x, name)


def _with_kind(x: Any, kind: str) -> Any:
    if not kind:
        return x
    if kind == WEAK:
        return primitives.convert_element_type_p.bind(
            x, new_dtype=x.dtype, weak_type=True, sharding=None
        )
    return jax.random.wrap_key_data(x, impl=kind)


def _apply(function: Any, *rest: Any) -> Any:
    """Call the function with ``*static, tree, are_arrays, arrays``: the arguments' leaves."""
    *static, tree, are_arrays, arrays = rest
    array, other = iter(arrays), iter(static)
    leaves = [next(array if is_array else other) for is_array in are_arrays]
    args, kwargs = jax.tree.unflatten(tree, leaves)
    return function(*args, **kwargs)


class Captured(JaxFunction):
    """A user's function of its captured arrays followed by its array arguments.

    Args:
        function: The user's function.
        lifted: The function with its static arguments, without captured arrays.
        form: The structure of the arguments, and which of their leaves are arrays.
        kinds: The kind of each array: weakly typed, random keys of an implementation, or "".
        wide: Whether 64-bit dtypes are enabled while JAX traces the function.
    """

    __slots__ = ("are_arrays", "captured", "kinds", "stripped", "tree", "wide")

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
        self.tree, self.are_arrays = form
        self.kinds = tuple(kinds)
        nesting, static = _structure(self.tree)
        identity = (self.stripped, static)
        digests = [x if isinstance(x, str) else x.digest() for x in identity]
        is_portable = None not in digests and _can_be_pickled((self.stripped, self.tree))
        parameters = (digests, self.captured, self.are_arrays, self.kinds, nesting, wide)
        super().__init__(_name_of(function), None if is_portable else identity, *parameters)

    def key_and_numbers(self) -> tuple[str, tuple[tuple[str, Any], ...]]:
        items = self.stripped.parts
        code = tuple((x.kind, x.children, None if _is_number(x) else x.token) for x in items)
        kind = hash((code, self.are_arrays, self.kinds, _structure(self.tree)))
        return str(kind), tuple((_display_name(x.name), x.static) for x in items if _is_number(x))

    def __reduce__(self) -> tuple[Any, ...]:
        slots = ("name", "text", "identity", *self.__slots__)
        return _unpickle, (dump({name: getattr(self, name) for name in slots}),)

    def result_tree(self, *values: Any) -> Any:
        arrays = [*map(_with_kind, values, self.kinds)]
        function = rebuild(self.stripped, arrays[: self.captured])
        with running():
            results = function(self.tree, self.are_arrays, arrays[self.captured :])
        return as_jax_results(self.name, results)


def _is_number(part: Any) -> bool:
    return part.kind == "plain" and isinstance(part.static, int | float | complex | str | None)


def _unpickle(data: bytes) -> Captured:
    captured = object.__new__(Captured)
    for name, value in load(data).items():
        setattr(captured, name, value)
    return captured


def _name_of(function: Any) -> str:
    if isinstance(function, partial):
        return _name_of(function.func)
    return getattr(function, "__name__", type(function).__name__)


@lru_cache(1024)
def _can_be_pickled(value: Hashable) -> bool:
    """Return whether pickling and unpickling preserves a value."""
    try:
        return bool(load(dump(value)) == value)
    except (pickle.PickleError, AttributeError, ImportError, TypeError, ValueError):
        return False


def _lift(function: Callable[..., Any]) -> Lifted:
    try:
        return lift(function)
    except ArgumentError as error:
        raise ArgumentError(f"wrap_jax: {error.problem}", error.remedy, error.where) from error


def _structure(tree: Tree) -> tuple[str, Stripped | str]:
    """Return the nesting of values as text, and the static data of pytree classes."""
    data: list[Any] = []
    nesting = _nesting(tree, data)
    if not data:
        return nesting, ""
    static = _lift(partial(_no_operation, *data))
    arrays = [*static.leaves, *filter(_is_array, jax.tree.leaves(data))]
    if arrays:
        raise ArgumentError(
            f"wrap_jax: an argument of the structure {tree} holds {arrays[0]!r} beside its values.",
            "Make arrays children of its class of pytrees, not static fields.",
        )
    return nesting, static.stripped


def _nesting(tree: Tree, static: list[Any]) -> str:
    """Return a tree as text; classes and their data are appended to ``static``."""
    if tree.node_data() is None:
        return "*"
    cls, data = tree.node_data()
    children = " ".join([_nesting(child, static) for child in tree.children()])
    if cls in {tuple, list, type(None)}:
        return f"{cls.__name__}[{children}]"
    if cls is dict and all(type(key) is str for key in data):
        return f"dict{data}[{children}]"
    static += [cls, data]
    return f"{len(static)}[{children}]"


def _no_operation(*_: Any) -> None:
    """Do nothing: ``lift`` makes the arguments of a partial application comparable."""


class _Pickler(pickle.Pickler):
    def persistent_id(self, value: Any) -> tuple[str, Any] | None:
        if type(value) is CodeType:
            return "code", marshal.dumps(value)
        if isinstance(value, ModuleType):
            return "module", value.__name__
        if isinstance(value, ModuleSpec):
            return "spec", value.name
        if type(value) is dict:
            name = value.get("__name__")
            module = sys.modules.get(name) if isinstance(name, str) else None
            if module is not None and vars(module) is value:
                return "variables", name
        return None


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, pid: tuple[str, Any]) -> Any:
        kind, data = pid
        if kind == "code":
            return marshal.loads(data)
        if kind == "spec":
            # The specification of a script's module is None in another process.
            return getattr(sys.modules.get(data), "__spec__", None)
        module = import_module(data)
        return module if kind == "module" else vars(module)


def dump(value: Any) -> bytes:
    """Return a value as bytes.

    Raises:
        TypeError, AttributeError, ValueError, pickle.PicklingError: If the value holds an object
            that exists in this process alone.

    Example:
        >>> print(load(dump((lambda x: x + 1).__code__)).co_argcount)
        1
    """
    buffer = io.BytesIO()
    _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


def load(data: bytes) -> Any:
    """Return the value that ``dump`` wrote, from trusted bytes."""
    return _Unpickler(io.BytesIO(data)).load()
