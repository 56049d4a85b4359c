"""Implicit arrays: arrays held as other arrays until an operation needs all elements."""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from functools import cache, partial
from operator import attrgetter
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from graphc.config import POLICIES
from graphc.context import setting
from graphc.errors import ImplicitArrayError, MaterializeError
from graphc.hooks import Hook
from graphc.implicit.jax_arrays import jax_arrays
from graphc.implicit.operators import ArrayOperators
from graphc.implicit.treedef import (
    NoArrayError,
    Treedef,
    build_array,
    check_static,
    declares_implicit,
    dtype_of,
    field_names_of,
    lengths_of,
    with_arrays,
)
from graphc.ir import STATIC, Node, TensorType
from graphc.ir.types import shape_text
from graphc.lazy import call_when_imported
from graphc.tensor import Tensor

T = TypeVar("T")


def aux_field(**settings: Any) -> Any:
    """Declare a static field of an implicit array: it holds no array.

    Args:
        settings: The keyword arguments of ``dataclasses.field``.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Scaled(ImplicitArray):
        ...     values: object
        ...     factor: float = aux_field(default=1.0)
        ...     def materialize(self):
        ...         return self.values * self.factor
        >>> Scaled(np.ones((2, 3)), 4.0)
        Scaled(float64[2, 3], factor=4.0)
    """
    metadata = {**settings.pop("metadata", {}), STATIC: True}
    return field(metadata=metadata, **settings)


def is_implicit(x: Any) -> bool:
    """Return whether an object is an implicit array; symbolic ones do not count.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit import Diagonal, is_implicit
        >>> is_implicit(Diagonal(np.ones(3))), is_implicit(np.eye(3))
        (True, False)
    """
    return isinstance(x, ImplicitArray)


def is_complete(x: Any) -> bool:
    """Return whether an object is an implicit array none of whose required fields is None.

    An array in a filtered tree has None in fields whose arrays are in another part of the tree.
    """
    if not is_implicit(x):
        return False
    cls: Any = type(x)
    required = [getattr(x, name) for name in field_names_of(cls).required]
    return all(
        is_complete(field) if is_implicit(field) else field is not None for field in required
    )


def fields_of(x: ImplicitArray) -> dict[str, Any]:
    """Return the fields that hold arrays, by name.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit import LowRank, fields_of
        >>> [*fields_of(LowRank(np.ones((4, 1)), np.ones((1, 5))))]
        ['u', 'v']
    """
    return {name: getattr(x, name) for name in field_names_of(type(x)).parts}


def with_fields(x: ImplicitArray, parts: Mapping[str, Any]) -> Any:
    """Return a copy with other arrays in some fields; shapes and dtypes are not checked.

    Args:
        x: An implicit array.
        parts: The new arrays by the names of their fields; other fields stay the same.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit import Diagonal, fields_of, with_fields
        >>> x = Diagonal(np.array([1.0, 2.0]))
        >>> (name,) = fields_of(x)
        >>> with_fields(x, {name: np.array([3.0, 4.0])}).materialize().tolist()
        [[3.0, 0.0], [0.0, 4.0]]
    """
    return with_arrays(x, [parts.get(name, own) for name, own in fields_of(x).items()])


def map_field(function: Callable[..., Any], field: Any, *others: Any) -> Any:
    """Apply a function to the array in a field, or to each array of a tuple; None stays None."""
    if isinstance(field, tuple):
        return tuple([map_field(function, *xs) for xs in zip(field, *others, strict=True)])
    return None if field is None else function(field, *others)


def map_fields(function: Callable[..., Any], x: ImplicitArray, *others: ImplicitArray) -> Any:
    """Apply a function to the arrays in the fields of implicit arrays of one structure."""
    fields = zip(*[fields_of(y).values() for y in (x, *others)], strict=True)
    return with_arrays(x, [map_field(function, *arrays) for arrays in fields])


@dataclass(frozen=True, repr=False)
class ImplicitArray(ArrayOperators, ABC):
    """An array with a shape and a dtype, represented by other arrays: its fields.

    Subclasses are frozen dataclasses. A field is an array, an implicit array, None or a tuple of
    these; a field made by ``aux_field`` is static. The arrays may be NumPy's, JAX's, MLX's or
    symbolic. In JAX, an implicit array is a pytree whose children are the fields in order.

    Two implicit arrays are equal only if they are one object: arrays have no truth value.

    Attributes:
        materialize_policy: The policy where an array of this class must become dense: ``"allow"``,
            ``"warn"`` or ``"error"``; None for the policy of ``materializing`` and the
            configuration. Set by ``class Name(ImplicitArray, materialize="error")``.
        materialize_through: Whether ``materialize`` is written for dense fields, and implicit
            fields are passed to it by ``implicit``; False where it accepts implicit ones itself.
        stands_aside: Whether operations apply to the array in the field ``array``: the default
            handler of this class precedes all handlers and passes that array on, and that array's
            class is reported and has the policy.
        frozen_fields: The fields that ``trainable`` leaves out, by name; None for all.
        keeps_shardings: Whether handlers accept fields that are sharded over explicit axes of a JAX
            mesh; for other classes those axes are automatic, and XLA shards the computation.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Outer(ImplicitArray):
        ...     u: object
        ...     v: object
        ...     def materialize(self):
        ...         return self.u[:, None] * self.v
        >>> x = Outer(np.arange(3.0), np.ones(2))
        >>> x.shape, x.dtype
        ((3, 2), dtype('float64'))
    """

    materialize_policy: ClassVar[str | None] = None
    materialize_through: ClassVar[bool] = True
    frozen_fields: ClassVar[tuple[str, ...] | None] = ()
    stands_aside: ClassVar[bool] = False
    keeps_shardings: ClassVar[bool] = False
    __graphc_implicit__: ClassVar[bool] = True
    # NumPy's operators call the reflected operators of this class.
    __array_ufunc__: ClassVar[None] = None

    def __init_subclass__(cls, materialize: str | None = None, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if materialize is not None:
            if materialize not in POLICIES:
                raise ImplicitArrayError(
                    f"class {cls.__name__}(materialize={materialize!r}).",
                    f"Give one of {', '.join(map(repr, POLICIES))}.",
                )
            cls.materialize_policy = materialize
        # A dataclass would compare the fields, and arrays have no truth value.
        cls.__eq__ = ArrayOperators.__eq__  # type: ignore[method-assign]
        cls.__hash__ = object.__hash__  # type: ignore[method-assign,assignment]
        if "__repr__" not in vars(cls):
            cls.__repr__ = ImplicitArray.__repr__  # type: ignore[method-assign]
        call_when_imported("jax.tree_util", lambda module: _register(module, cls))

    def __post_init__(self) -> None:
        cls = type(self)
        for name in field_names_of(cls).static:
            check_static(cls, name, getattr(self, name))
        if cls.check is not ImplicitArray.check:
            treedef, leaves = Treedef.of(self)
            if not all(hasattr(x, "shape") and hasattr(x, "dtype") for x in leaves):
                return
            # Equal types are checked once, unless the arrays have values to look at.
            key = treedef, _key(leaves)
            if key not in _checked or any(isinstance(x, np.ndarray) for x in leaves):
                self.check()
                _remember(_checked, key, True)

    @abstractmethod
    def materialize(self) -> Any:
        """Return the dense array, of the fields' library, or an array with one layer less."""

    def check(self) -> None:
        """Raise if the fields do not fit each other; called when an instance is made.

        The check may look at the values of NumPy arrays. For other arrays, equal types are checked
        once.

        Raises:
            ImplicitArrayError: If the fields do not fit each other.
        """

    @classmethod
    def default_handler(cls, target: Any, *operands: Any, **parameters: Any) -> Any:
        """Handle a primitive or an operation for which no handler is registered.

        Args:
            target: A JAX primitive, or an operation.
            operands: The operands, at least one of them of this class.
            parameters: The parameters of the primitive or the operation.

        Returns:
            An array, an implicit array, or NotImplemented: the other operands' classes are asked
            next, then the policy decides. If the default handlers of two classes apply, and neither
            class is a subclass of the other, an error is raised.
        """
        return NotImplemented

    @classmethod
    def spec(cls, shape: Any, dtype: Any, **options: Any) -> Self:
        """Return an instance whose arrays are types, for a symbolic input of this shape and dtype.

        Raises:
            ImplicitArrayError: If the class does not define fields for a shape.
        """
        raise ImplicitArrayError(
            f"{cls.__qualname__}.spec does not define fields for shape {shape}.",
            "Give it a class method spec, or pass an instance instead of the class.",
        )

    def field_specs(self, spec: tuple[Any, ...]) -> Mapping[str, tuple[Any, ...]]:
        """Return the partition specs of the fields for a partition spec of the array.

        A field without a spec is replicated, as all fields are by default. If the shards of the
        fields represent an array of the shard's shape, that array must be the shard; otherwise the
        array is made dense where its shards are needed.

        Args:
            spec: For each axis None, the name of an axis of the mesh, or a tuple of names.

        Returns:
            Partition specs by the names of the fields, with an entry for each axis of the field. An
            implicit field needs the spec of the array which the field represents; a tuple needs one
            spec, for each of its arrays.

        Example:
            >>> from graphc.implicit import LowRank
            >>> x = LowRank(np.ones((4, 1)), np.ones((1, 5)))
            >>> x.field_specs(("data", "model"))
            {'u': ('data', None), 'v': (None, 'model')}
        """
        return {}

    # Attributes of arrays.

    @property
    def shape(self) -> tuple[Any, ...]:
        """The lengths of the axes; with symbolic fields, None where unknown."""
        return type_of(self)[0]

    @property
    def dtype(self) -> Any:
        """The NumPy dtype."""
        return type_of(self)[1]

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The number of bytes of all fields."""
        _, leaves = Treedef.of(self)
        return sum(math.prod(lengths_of(x)) * dtype_of(x).itemsize for x in leaves)  # type: ignore[arg-type]

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of an array without axes")
        return int(self.shape[0])

    def __repr__(self) -> str:
        names = field_names_of(type(self))
        items = [_describe(getattr(self, name)) for name in names.parts]
        static = [field for field in fields(type(self)) if field.name in names.static]
        values = [(field, getattr(self, field.name)) for field in static]
        # A field with repr=False is shown if it differs from its default.
        items += [f"{field.name}={x!r}" for field, x in values if field.repr or x != field.default]
        return f"{type(self).__name__}({', '.join(items)})"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Return the dense array as a NumPy array, as the policy allows.

        Functions of libraries call this method without the user knowing that an array becomes
        dense; so the policy applies. An explicit call of ``materialize`` is always allowed.
        """
        by_jax = sys._getframe(1).f_globals.get("__name__", "").partition(".")[0] == "jax"
        jax: Any = sys.modules.get("jax")
        if jax and any(isinstance(x, jax.Array) for x in Treedef.of(self)[1]):
            jax_arrays()  # importing it traces, which is impossible below
        # JAX arrays that a traced function captures have values.
        with jax.ensure_compile_time_eval() if jax else nullcontext():
            return np.asarray(convert(self, "JAX" if by_jax else "NumPy"), dtype)

    def __bool__(self) -> bool:
        raise ImplicitArrayError(
            f"The truth value of {self!r}: it is an array.",
            "Compare it with None by `is`, or densify it with np.asarray.",
        )

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(len(self))])

    def __graphc_tensor__(self) -> Any:
        return to_tensor(self)


convert: Hook[[ImplicitArray, str], Any] = Hook("dense arrays for a library")
to_tensor: Hook[[ImplicitArray], Any] = Hook("symbolic implicit arrays")


def _describe(x: Any) -> str:
    if isinstance(x, tuple | list):
        return f"({', '.join(map(_describe, x))})"
    if declares_implicit(x) or not hasattr(x, "shape"):
        return repr(x)
    if isinstance(x, Node):
        return x.type_text()
    return f"{dtype_of(x)}[{shape_text(lengths_of(x))}]"


def _reader(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    match names:
        case ():
            return lambda x: ()
        case (name,):
            get = attrgetter(name)
            return lambda x: (get(x),)
    return attrgetter(*names)


def _register(tree_util: Any, cls: Any) -> None:
    key = tree_util.GetAttrKey

    @cache
    def readers() -> tuple[Any, Any]:
        # Fields are known when the class is complete.
        names = field_names_of(cls)
        return _reader(names.parts), _reader(names.static)

    def with_keys(x: Any) -> Any:
        children, static = flatten(x)
        pairs = zip(field_names_of(cls).parts, children, strict=True)
        return tuple([(key(name), child) for name, child in pairs]), static

    def flatten(x: Any) -> Any:
        read_children, read_static = readers()
        return read_children(x), read_static(x)

    unflatten = partial(build_array, cls)
    tree_util.register_pytree_with_keys(cls, with_keys, unflatten, flatten)


MAX_CACHED_TYPES = 4096
"""The size at which a cache of types is emptied."""

_types: dict[Any, tuple[tuple[Any, ...], Any]] = {}
_checked: dict[Any, bool] = {}


def _remember(cache: dict[Any, T], key: Any, value: T) -> T:
    if len(cache) >= MAX_CACHED_TYPES:
        cache.clear()
    cache[key] = value
    return value


def _key(leaves: Sequence[Any]) -> tuple[Any, ...]:
    """Return the types of arrays, the key of the caches."""
    try:
        return tuple([x.type if isinstance(x, Tensor) else (x.shape, x.dtype) for x in leaves])
    except AttributeError:
        # One of the leaves is no array; this raises an error that names it.
        return tuple([(lengths_of(x), dtype_of(x)) for x in leaves])


def type_of(x: ImplicitArray) -> tuple[tuple[Any, ...], Any]:
    """Return the shape and dtype of the dense array, inferred once for equal fields."""
    treedef, leaves = Treedef.of(x)
    jax: Any = sys.modules.get("jax.tree_util") and sys.modules["jax"]
    # The default dtype, as of jnp.zeros(3), depends on the configuration of JAX.
    key = treedef, _key(leaves), jax is not None and jax.config.jax_enable_x64
    cached = _types.get(key)
    if cached is not None:
        return cached
    types = tuple([(lengths_of(leaf), dtype_of(leaf)) for leaf in leaves])
    symbolic = any(isinstance(leaf, Tensor | TensorType) for leaf in leaves)
    return _remember(_types, key, infer_type(treedef, types, symbolic))


OPENING: ContextVar[bool] = ContextVar("opening", default=False)
"""Whether ``materialize`` is running: no policy applies to arrays that it makes dense."""


def opening() -> setting[bool]:
    """Mark that ``materialize`` is running."""
    return setting(OPENING, True)


def infer_type(treedef: Treedef, types: Any, symbolic: bool) -> tuple[tuple[Any, ...], Any]:
    """Return the shape and dtype that ``materialize`` returns for fields of these types."""
    # A class that calls JAX functions has loaded JAX.
    jax = sys.modules.get("jax")
    static = all(n is not None for shape, _ in types for n in shape)
    problem: Exception | None = None
    for attempt in (_by_graph, _by_jax) if symbolic else (_by_jax, _by_graph):
        if attempt is _by_jax and (jax is None or not static):
            continue
        try:
            with opening():
                dense = attempt(treedef, types)
        except Exception as error:  # the next attempt follows, or the error below
            problem = problem or error
            continue
        return lengths_of(dense), dtype_of(dense)
    if empty := treedef.empty_fields():
        raise NoArrayError(
            f"{treedef.cls.__qualname__} has no shape and no dtype: {', '.join(empty)} holds no "
            f"array, and materialize() failed: {problem}",
            "Put arrays into its fields, or treat it as a tree.",
        ) from problem
    raise MaterializeError(
        f"{treedef.cls.__qualname__}.materialize() failed for fields {types}: {problem}",
        "Give the class properties shape and dtype, or correct materialize.",
    ) from problem


def _by_graph(treedef: Treedef, types: Any) -> Any:
    array = treedef.build([TensorType(dtype, shape)() for shape, dtype in types])
    while declares_implicit(array):
        array = array.materialize()
    return array


WIDE = frozenset({"int64", "uint64", "float64", "complex128"})


def _by_jax(treedef: Treedef, types: Any) -> Any:
    jax: Any = sys.modules["jax"]

    def densify(leaves: Any) -> Any:
        array = treedef.build(leaves)
        while declares_implicit(array):
            array = array.materialize()
        return array

    wide = any(str(dtype) in WIDE for _, dtype in types)
    with jax.enable_x64(True) if wide else nullcontext():
        return jax.eval_shape(densify, [jax.ShapeDtypeStruct(*x) for x in types])
