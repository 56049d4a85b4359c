"""Implicit arrays: arrays held as other arrays until an operation needs all elements."""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from functools import cache
from operator import attrgetter
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from graphc.capture.import_hooks import when_imported
from graphc.config import POLICIES
from graphc.errors import ImplicitArrayError, MaterializeError
from graphc.hooks import Hook
from graphc.implicit.jax_arrays import jax_arrays
from graphc.implicit.operators import Operators
from graphc.implicit.treedef import (
    NoArrayError,
    Treedef,
    check_static,
    declares_implicit,
    dtype_of,
    field_names_of,
    lengths_of,
    with_parts,
)
from graphc.ir import STATIC, TensorType
from graphc.tensor import Tensor

T = TypeVar("T")


def aux_field(**settings: Any) -> Any:
    """Declare a static field of an implicit array: it holds no array.

    Args:
        settings: As of ``dataclasses.field``.

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
    """Return whether an object is an implicit array, symbolic ones not counted.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit import Diagonal, is_implicit
        >>> is_implicit(Diagonal(np.ones(3))), is_implicit(np.eye(3))
        (True, False)
    """
    return isinstance(x, ImplicitArray)


def is_whole(x: Any) -> bool:
    """Return whether an object is an implicit array with all its arrays.

    In one that is part of a filtered tree, None stands in the place of others.
    """
    if not is_implicit(x):
        return False
    cls: Any = type(x)
    required = [getattr(x, name) for name in field_names_of(cls).required]
    return all(is_whole(part) if is_implicit(part) else part is not None for part in required)


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
    """Return a copy with other arrays in these fields, whose shapes and dtypes are not checked.

    Args:
        x: An implicit array.
        parts: The new arrays by the names of their fields; other fields are kept.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit import Diagonal, fields_of, with_fields
        >>> x = Diagonal(np.array([1.0, 2.0]))
        >>> (name,) = fields_of(x)
        >>> with_fields(x, {name: np.array([3.0, 4.0])}).materialize().tolist()
        [[3.0, 0.0], [0.0, 4.0]]
    """
    return with_parts(x, [parts.get(name, own) for name, own in fields_of(x).items()])


@dataclass(frozen=True, repr=False)
class ImplicitArray(Operators, ABC):
    """An array of a shape and a dtype that is held as other arrays, its fields.

    Subclasses are frozen dataclasses. A field is an array, an implicit array, None or a tuple of
    these; a field made by ``aux_field`` is static. The arrays may be NumPy's, JAX's, MLX's or
    symbolic. A tree of JAX's has it as a node, whose children are the fields in order.

    Two of them are equal only where they are one object: arrays have no truth value.

    Attributes:
        materialize_policy: What is done where one of this class must become whole: ``"allow"``,
            ``"warn"`` or ``"error"``; None for what ``materializing`` and the configuration say.
            Set by ``class Name(ImplicitArray, materialize="error")``.
        materialize_through: Whether ``materialize`` is written for dense fields, and run through
            where they are implicit; False where it takes implicit ones itself.
        stands_aside: Whether operations are those of the array in its field ``array``: its default
            handler goes before all handlers and passes that array on, and that array's class is
            reported and has the policy.
        frozen_fields: The fields that ``trainable`` leaves out, by name; None for all.
        keeps_shardings: Whether handlers take fields as they are sharded over explicit axes of a
            mesh of JAX's; for others those axes are automatic, and XLA shards what they compute.

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
    # NumPy's operators leave the work to those below.
    __array_ufunc__: ClassVar[None] = None

    def __init_subclass__(cls, materialize: str | None = None, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if materialize is not None:
            if materialize not in POLICIES:
                raise ImplicitArrayError(
                    f"class {cls.__name__}(materialize={materialize!r}).",
                    f"It is one of {', '.join(map(repr, POLICIES))}.",
                )
            cls.materialize_policy = materialize
        # A dataclass would compare the fields, and arrays cannot be.
        cls.__eq__ = Operators.__eq__  # type: ignore[method-assign]
        cls.__hash__ = object.__hash__  # type: ignore[method-assign,assignment]
        if "__repr__" not in vars(cls):
            cls.__repr__ = ImplicitArray.__repr__  # type: ignore[method-assign]
        when_imported("jax.tree_util", lambda module: _register(module, cls))

    def __post_init__(self) -> None:
        cls = type(self)
        for name in field_names_of(cls).static:
            check_static(cls, name, getattr(self, name))
        if cls.check is not ImplicitArray.check:
            treedef, leaves = Treedef.of(self)
            if all(hasattr(x, "shape") and hasattr(x, "dtype") for x in leaves):
                self._check_once(treedef, leaves)

    def _check_once(self, treedef: Treedef, leaves: Sequence[Any]) -> None:
        """Call ``check``, once for equal types where there are no values to look at."""
        key = treedef, _key(leaves)
        if key not in _checked or any(isinstance(x, np.ndarray) for x in leaves):
            self.check()
            _kept(_checked, key, True)

    @abstractmethod
    def materialize(self) -> Any:
        """Return the whole array, of its fields' library, or an array with one layer less."""

    def check(self) -> None:
        """Raise where the fields do not fit each other; called when one is made.

        It may look at the values of NumPy's arrays. Of others it is called once for equal types.

        Raises:
            ImplicitArrayError: Says how.
        """

    @classmethod
    def default_handler(cls, target: Any, *operands: Any, **parameters: Any) -> Any:
        """Handle a primitive or an operation for which no handler is registered.

        Args:
            target: A primitive of JAX's, or an operation.
            operands: As given; one is of this class.
            parameters: The primitive's or the operation's.

        Returns:
            An array, an implicit one, or NotImplemented: other classes of operands are asked, then
            the policy decides. If those of two classes apply, neither a subclass of the other,
            that is an error.
        """
        return NotImplemented

    @classmethod
    def spec(cls, shape: Any, dtype: Any, **options: Any) -> Self:
        """Return an instance whose arrays are types: that of a symbolic input of this shape.

        Raises:
            ImplicitArrayError: The class does not say.
        """
        raise ImplicitArrayError(
            f"{cls.__qualname__}.spec does not define fields for shape {shape}.",
            "Give it a class method spec, or pass an instance instead of the class.",
        )

    def field_specs(self, spec: tuple[Any, ...]) -> Mapping[str, tuple[Any, ...]]:
        """How fields are sharded over a mesh of JAX's where the array is sharded.

        A field without a spec is whole on every device, as all are by default. Shards of fields
        that are an array of the shape of the shard must be that shard; where no fields are, shards
        of them may be an array of another shape, and the array becomes whole where it matters.

        Args:
            spec: For each axis None, the name of an axis of the mesh, or a tuple of names.

        Returns:
            Specs by the names of fields, with an entry for each axis of the field: of an implicit
            one, of the array that it stands for; of a tuple, of each array in it.

        Example:
            >>> from graphc.implicit import LowRank
            >>> x = LowRank(np.ones((4, 1)), np.ones((1, 5)))
            >>> x.field_specs(("data", "model"))
            {'u': ('data', None), 'v': (None, 'model')}
        """
        return {}

    # What it is as an array.

    @property
    def shape(self) -> tuple[Any, ...]:
        """The lengths of its axes; with symbolic fields, None where unknown."""
        return type_of(self)[0]

    @property
    def dtype(self) -> Any:
        """NumPy's dtype."""
        return type_of(self)[1]

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements it stands for."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes that its fields take."""
        _, leaves = Treedef.of(self)
        return sum(math.prod(lengths_of(x)) * dtype_of(x).itemsize for x in leaves)  # type: ignore[arg-type]

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of an array without axes")
        return int(self.shape[0])

    def __repr__(self) -> str:
        names = field_names_of(type(self))
        parts = [_described(getattr(self, name)) for name in names.parts]
        static = [each for each in fields(type(self)) if each.name in names.static]
        given = [(each, getattr(self, each.name)) for each in static]
        # With repr=False it is shown where it is not the default.
        parts += [f"{each.name}={x!r}" for each, x in given if each.repr or x != each.default]
        return f"{type(self).__name__}({', '.join(parts)})"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Return the whole array as NumPy's, as the policy allows.

        Functions of libraries call this, and may not know that an array becomes whole. The method
        ``materialize`` says so, and no policy forbids it.
        """
        by_jax = sys._getframe(1).f_globals.get("__name__", "").partition(".")[0] == "jax"
        jax: Any = sys.modules.get("jax")
        if jax and any(isinstance(x, jax.Array) for x in Treedef.of(self)[1]):
            jax_arrays()  # what is imported first traces, which it cannot do below
        # Arrays that are captured where JAX traces have values.
        with jax.ensure_compile_time_eval() if jax else nullcontext():
            return np.asarray(convert(self, "JAX" if by_jax else "NumPy"), dtype)

    def __bool__(self) -> bool:
        raise ImplicitArrayError(
            f"The truth value of {self!r}: it is an array.",
            "Compare it with None by `is`, or make it whole with np.asarray.",
        )

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(len(self))])

    def __graphc_tensor__(self) -> Any:
        return to_tensor(self)


convert: Hook[[ImplicitArray, str], Any] = Hook("dense arrays for a library")
to_tensor: Hook[[ImplicitArray], Any] = Hook("symbolic implicit arrays")


def _described(x: Any) -> str:
    if isinstance(x, tuple | list):
        return f"({', '.join(map(_described, x))})"
    if declares_implicit(x) or not hasattr(x, "shape"):
        return repr(x)
    lengths = ", ".join("?" if n is None else str(n) for n in lengths_of(x))
    return f"{dtype_of(x)}[{lengths}]"


def _reader(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that reads the attributes of these names."""
    match names:
        case ():
            return lambda x: ()
        case (name,):
            get = attrgetter(name)
            return lambda x: (get(x),)
    return attrgetter(*names)


def _register(tree_util: Any, cls: Any) -> None:
    """Register a class as a JAX pytree."""
    key = tree_util.GetAttrKey

    @cache
    def readers() -> tuple[Any, Any]:
        # Fields are known when the class is complete.
        names = field_names_of(cls)
        return _reader(names.parts), _reader(names.static)

    def with_keys(x: Any) -> Any:
        children, static = flatten(x)
        pairs = zip(field_names_of(cls).parts, children, strict=True)
        return tuple([(key(name), part) for name, part in pairs]), static

    def flatten(x: Any) -> Any:
        parts, static = readers()
        return parts(x), static(x)

    def unflatten(static: Any, children: Any) -> Any:
        names = field_names_of(cls)
        made = object.__new__(cls)
        put = object.__setattr__
        for name, part in zip(names.parts, children, strict=True):
            put(made, name, part)
        for name, value in zip(names.static, static, strict=True):
            put(made, name, value)
        return made

    tree_util.register_pytree_with_keys(cls, with_keys, unflatten, flatten)


MOST = 4096
"""The number of types to remember before all are forgotten."""

_types: dict[Any, tuple[tuple[Any, ...], Any]] = {}
_checked: dict[Any, bool] = {}


def _kept(known: dict[Any, T], key: Any, value: T) -> T:
    if len(known) >= MOST:
        known.clear()
    known[key] = value
    return value


def _key(leaves: Sequence[Any]) -> tuple[Any, ...]:
    """Return the types of arrays, by which results are remembered."""
    try:
        return tuple([x.type if isinstance(x, Tensor) else (x.shape, x.dtype) for x in leaves])
    except AttributeError:
        # One is no array: this says which.
        return tuple([(lengths_of(x), dtype_of(x)) for x in leaves])


def type_of(x: ImplicitArray) -> tuple[tuple[Any, ...], Any]:
    """Return the shape and dtype of the whole array, inferred once for equal fields."""
    treedef, leaves = Treedef.of(x)
    jax: Any = sys.modules.get("jax.tree_util") and sys.modules["jax"]
    # The dtype of what has none of its own, as of jnp.zeros(3), is as JAX is set.
    key = treedef, _key(leaves), jax is not None and jax.config.jax_enable_x64
    found = _types.get(key)
    if found is not None:
        return found
    given = tuple([(lengths_of(leaf), dtype_of(leaf)) for leaf in leaves])
    symbolic = any(isinstance(leaf, Tensor | TensorType) for leaf in leaves)
    return _kept(_types, key, derived(treedef, given, symbolic))


OPENING: ContextVar[bool] = ContextVar("opening", default=False)
"""Whether ``materialize`` is being called: no policy applies to arrays that it makes whole."""


@contextmanager
def opening() -> Iterator[None]:
    """Mark that ``materialize`` is being called."""
    token = OPENING.set(True)
    try:
        yield
    finally:
        OPENING.reset(token)


def derived(treedef: Treedef, given: Any, symbolic: bool) -> tuple[tuple[Any, ...], Any]:
    # A class that is written in JAX's functions has loaded JAX.
    traced = sys.modules.get("jax")
    static = all(n is not None for shape, _ in given for n in shape)
    problem: Exception | None = None
    for attempt in (_by_graph, _by_jax) if symbolic else (_by_jax, _by_graph):
        if attempt is _by_jax and (traced is None or not static):
            continue
        try:
            with opening():
                whole = attempt(treedef, given)
        except Exception as error:  # the next way, or the error below
            problem = problem or error
            continue
        return lengths_of(whole), dtype_of(whole)
    if empty := treedef.empty_fields():
        raise NoArrayError(
            f"{treedef.cls.__qualname__} has no shape and no dtype: {', '.join(empty)} holds no "
            f"array, and materialize() failed: {problem}",
            "Put arrays into its fields, or treat it as a tree.",
        ) from problem
    raise MaterializeError(
        f"{treedef.cls.__qualname__}.materialize() failed for fields {given}: {problem}",
        "Give the class properties shape and dtype, or correct materialize.",
    ) from problem


def _by_graph(treedef: Treedef, given: Any) -> Any:
    whole = treedef.build([TensorType(dtype, shape)() for shape, dtype in given])
    while declares_implicit(whole):
        whole = whole.materialize()
    return whole


WIDE = frozenset({"int64", "uint64", "float64", "complex128"})


def _by_jax(treedef: Treedef, given: Any) -> Any:
    jax: Any = sys.modules["jax"]

    def whole(leaves: Any) -> Any:
        made = treedef.build(leaves)
        while declares_implicit(made):
            made = made.materialize()
        return made

    wide = any(str(dtype) in WIDE for _, dtype in given)
    with jax.enable_x64(True) if wide else nullcontext():
        return jax.eval_shape(whole, [jax.ShapeDtypeStruct(*x) for x in given])
