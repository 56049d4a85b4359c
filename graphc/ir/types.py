"""Types of values: arrays of a dtype and a static shape, and tuples of values."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakValueDictionary

from graphc.errors import ArgumentError, FrozenError, ShapeError
from graphc.ir.dtypes import DTYPES, dtype_name, numpy_dtype
from graphc.ir.lengths import AnyLength, StaticLength, SymbolicLength

if TYPE_CHECKING:
    import numpy as np

    from graphc.tensor.core.tensor import Tensor

Shape = tuple[int | None, ...]

Entry = str | tuple[str, ...] | None
"""The axes of a mesh of devices that divide an axis of an array, by their names."""

Sharding = tuple[Entry, ...]
"""An entry for each axis of an array."""

Buckets = tuple[float | None, ...]
"""For each axis of an input the growth from one bucket of lengths to the next, or None."""

Dims = tuple[str | None, ...]
"""For each axis of an input the name of its unknown length, or None."""

LARGEST_GROWTH = 16
"""A larger growth is a length by mistake."""

OPEN = "*"
"""The entry of an axis that the compiler may divide as it likes."""


class OfInstance:
    """An attribute, such as ``__doc__``, that instances compute and their class has a value of.

    Args:
        of_class: The class's value.
        compute: Gives an instance's value.
    """

    def __init__(self, of_class: Any, compute: Callable[[Any], Any]) -> None:
        self.of_class = of_class
        self.compute = compute

    def __get__(self, instance: Any, cls: type) -> Any:
        return self.of_class if instance is None else self.compute(instance)


class Type:
    """The type of a value; types are interned, so that equal types are one object."""

    __slots__ = ("__weakref__",)

    node_class: ClassVar[Any] = None
    """The class of nodes of this type, set by the layer that defines it."""

    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __setattr__(self, name: str, value: Any) -> None:
        raise FrozenError(f"{type(self).__name__}.{name} = {value!r}: types never change.")

    def admits(self, other: Type) -> bool:
        """Return whether every value of another type is one of this type."""
        raise NotImplementedError


def _length(length: Any) -> AnyLength | None:
    if length is None or isinstance(length, StaticLength | SymbolicLength):
        return length
    try:
        index = length.__index__()
    except AttributeError:
        index = -1
    if index < 0 or isinstance(length, bool):
        raise ShapeError(
            f"{length!r} is not a static length.",
            "Name a length where an input is made: gt.tensor('x', shape=('n', 3))."
            if isinstance(length, str)
            else "Use an integer from 0 on, or None where the length is known at run time only.",
        )
    return int(index)


class TensorType(Type):
    """An array's dtype and static shape; an unknown length is None.

    A length that is statically 1 broadcasts; an unknown length never does.

    Args:
        dtype: Anything that NumPy takes for a dtype.
        shape: Lengths from 0 on, or None where unknown.

    Attributes:
        value: The symbol of the array's value while ``graphc.ir.law`` runs a type rule, when
            unknown lengths are symbols too; None otherwise.

    Example:
        >>> TensorType("float64", (None, 3))
        float64[?, 3]
        >>> TensorType("float64", (None, 3)) is TensorType(float, [None, 3])
        True
    """

    __slots__ = ("dtype", "is_static", "ndim", "shape", "value")

    dtype: str
    shape: Shape
    ndim: int
    value: SymbolicLength | None
    is_static: bool
    """Whether every length is known."""

    _interned: ClassVar[WeakValueDictionary[tuple[str, Shape], TensorType]] = WeakValueDictionary()

    def __new__(cls, dtype: Any, shape: Any = ()) -> TensorType:
        if type(dtype) is not str or dtype not in DTYPES:
            dtype = dtype_name(dtype)
        for length in shape:
            # Exactly int: True and 1.0 are equal to 1, and would share its entry.
            if length is not None and (type(length) is not int or length < 0):
                shape = tuple(_length(n) for n in shape)
                if any(isinstance(n, StaticLength | SymbolicLength) for n in shape):
                    return cls._of(dtype, shape)
                break
        key = (dtype, tuple(shape))
        interned = cls._interned.get(key)
        if interned is not None:
            return interned
        with cls._lock:
            interned = cls._interned.get(key)
            if interned is None:
                interned = cls._interned[key] = cls._of(*key)
        return interned

    @classmethod
    def _of(cls, dtype: str, shape: Any, value: SymbolicLength | None = None) -> TensorType:
        type = object.__new__(cls)
        fields = {"dtype": dtype, "shape": shape, "ndim": len(shape), "value": value}
        fields["is_static"] = all(isinstance(n, int) for n in shape)
        for name, field in fields.items():
            object.__setattr__(type, name, field)
        return type

    def with_symbols(self, i: int) -> TensorType:
        """Return the type of input i of an operation with symbols for its unknown lengths.

        Such types are not interned: their static lengths know their positions.
        """
        shape = [
            SymbolicLength.of("axis", i, k) if n is None else StaticLength(n, (i, k))
            for k, n in enumerate(self.shape)
        ]
        return self._of(self.dtype, tuple(shape), SymbolicLength.of("value", i))

    def __call__(
        self,
        name: str | None = None,
        *,
        shape: Any = None,
        sharding: Any = None,
        bucket: Any = None,
    ) -> Tensor:
        """Return a new symbolic input of this type.

        Args:
            name: The input's name.
            shape: Lengths that the type leaves unknown, or names for them.
            sharding: The partition spec on the mode's mesh of devices.
            bucket: The growth of the buckets to which JAX pads unknown lengths.

        Raises:
            ShapeError: If the type has another rank or length, or a name is no identifier.
            ShardingError: If the sharding does not fit the type.
            ArgumentError: If the bucket is no number above 1.
        """
        dims = None if shape is None else dims_of(shape)
        type = self if shape is None else self.with_shape(without_names(shape))
        if not self.admits(type):
            raise ShapeError(
                f"expected a shape of {self!r}, got {shape}.",
                "Use gt.tensor(shape=...) for any shape.",
            )
        buckets = None if bucket is None else as_buckets(bucket, type.shape)
        return self.node_class.input(type, name, sharding, buckets, dims)  # type: ignore[no-any-return]

    def clone(self, dtype: Any = None, shape: Any = None) -> TensorType:
        """Return the type with another dtype or shape."""
        return TensorType(dtype or self.dtype, self.shape if shape is None else shape)

    def __reduce__(self) -> tuple[Any, ...]:
        return TensorType, (self.dtype, self.shape)

    def __repr__(self) -> str:
        return f"{self.dtype}[{shape_text(self.shape)}]"

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """NumPy's dtype object."""
        return numpy_dtype(self.dtype)

    @property
    def broadcastable(self) -> tuple[bool, ...]:
        """Which axes have the static length 1."""
        return tuple(n == 1 for n in self.shape)

    def with_dtype(self, dtype: str) -> TensorType:
        """Return the type of the same shape and another dtype."""
        return TensorType(dtype, self.shape)

    def with_shape(self, shape: Shape) -> TensorType:
        """Return the type of the same dtype and another shape."""
        return TensorType(self.dtype, shape)

    def admits(self, other: Type) -> bool:
        """Return whether every array of another type is one of this type."""
        return (
            isinstance(other, TensorType)
            and self.dtype == other.dtype
            and self.ndim == other.ndim
            and all(n is None or n == m for n, m in zip(self.shape, other.shape, strict=True))
        )


def shape_text(shape: Sequence[Any]) -> str:
    """Return lengths as a printed type has them, ``?`` for None."""
    return ", ".join("?" if n is None else str(n) for n in shape)


def without_names(shape: Sequence[Any]) -> tuple[Any, ...]:
    """Return a shape with None for each named length."""
    return tuple(None if isinstance(n, str) else n for n in shape)


def dims_of(shape: Sequence[Any]) -> Dims | None:
    """Return the names in a shape, None for other lengths; None if it has no names."""
    if isinstance(shape, str):
        raise ShapeError(f"{shape!r} is no shape.", f"Use a tuple of lengths: shape=({shape!r},).")
    dims = tuple(n if isinstance(n, str) else None for n in shape)
    for name in dims:
        if name is not None and not (name.isidentifier() and name.isascii()):
            raise ShapeError(
                f"{name!r} is no name of a length.", "Use letters, digits and _, such as 'n'."
            )
    return dims if any(dims) else None


def as_buckets(bucket: Any, shape: Shape) -> Buckets:
    """Return the growth factor of each axis's buckets, with None for axes of static length."""
    entries = tuple(bucket) if isinstance(bucket, tuple | list) else (bucket,) * len(shape)
    factors = []
    for growth, n in zip(entries, shape, strict=False):
        is_number = isinstance(growth, int | float) and not isinstance(growth, bool)
        if growth is not None and not (is_number and 1 < growth <= LARGEST_GROWTH):
            raise ArgumentError(
                f"bucket={bucket!r}: the growth from one bucket to the next is a number above 1, "
                f"up to {LARGEST_GROWTH}.",
                "Use bucket=2 for powers of two, or bucket=1.25 for less padding.",
            )
        factors.append(None if growth is None or n is not None else float(growth))
    if len(entries) != len(shape):
        raise ArgumentError(
            f"bucket={bucket!r} for {len(shape)} axes.",
            "Pass one number, or one for each axis: bucket=(2, None).",
        )
    return tuple(factors)


def _help_of(type: TensorType) -> str:
    return f"""A type, which makes symbolic inputs when it is called: {type!r}.

Args:
    name: The input's name.
    shape: Lengths that the type leaves unknown, or names for them.
    sharding: The partition spec on the mode's mesh of devices: see ``graphc.mesh``.
    bucket: The growth of the buckets to which JAX pads unknown lengths: see ``gt.tensor``.

Returns:
    A symbolic array of this type.

Raises:
    ShapeError: If the type has another rank or length.
    ShardingError: If the sharding does not fit the type.
    ArgumentError: If the bucket is no number above 1.

Example:
    >>> import graphc.tensor as gt
    >>> gt.TensorType({type.dtype!r}, {type.shape!r})("x")
    x: {type!r}
"""


TensorType.__doc__ = OfInstance(TensorType.__doc__, _help_of)  # type: ignore[assignment]


class TupleType(Type):
    """Several results of one operation, in order."""

    __slots__ = ("items",)

    items: tuple[Type, ...]

    _interned: ClassVar[WeakValueDictionary[tuple[Type, ...], TupleType]] = WeakValueDictionary()

    def __new__(cls, items: tuple[Type, ...]) -> TupleType:
        items = tuple(items)
        with cls._lock:
            interned = cls._interned.get(items)
            if interned is None:
                interned = object.__new__(cls)
                object.__setattr__(interned, "items", items)
                cls._interned[items] = interned
        return interned

    def __reduce__(self) -> tuple[Any, ...]:
        return TupleType, (self.items,)

    def __repr__(self) -> str:
        return f"({', '.join(map(repr, self.items))})"

    def admits(self, other: Type) -> bool:
        """Return whether every tuple of another type is one of this type."""
        return (
            isinstance(other, TupleType)
            and len(self.items) == len(other.items)
            and all(a.admits(b) for a, b in zip(self.items, other.items, strict=True))
        )
