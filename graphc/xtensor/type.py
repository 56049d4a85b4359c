"""The array with named dimensions, its type, and the functions that make one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

import graphc.tensor as gt
from graphc.compile.shared import shared
from graphc.errors import ArgumentError, FrozenError, ShapeError
from graphc.ir import Input, Node, Shape, Sharding, TensorType, Wrapper, dtype_name
from graphc.ir.sharding import value_sharding
from graphc.tensor import Tensor
from graphc.tensor.core.equality import same
from graphc.xtensor.align import Dims, by_position, check_dims
from graphc.xtensor.methods import Methods


class NamedInput(Input):
    """An input whose axes have names in messages."""

    __slots__ = ("named_type",)

    def __init__(
        self,
        type: XTensorType,
        name: str | None,
        sharding: Sharding | None = None,
        position: int = -1,
    ) -> None:
        super().__init__(TensorType(type.dtype, type.shape), name, sharding, position=position)
        self.named_type = type

    @property
    def axes(self) -> Dims:  # type: ignore[override]
        """The names of its axes."""
        return self.named_type.dims

    @property
    def expected(self) -> str:
        return repr(self.named_type)

    def blank(self, position: int) -> NamedInput:
        return NamedInput(self.named_type, self.given_name, self.sharding, position)


@dataclass(frozen=True)
class XTensorType:
    """The type of an array with named dimensions.

    Args:
        dtype: Anything that NumPy takes for a dtype, or ``"floatX"``.
        dims: The names of the dimensions.
        shape: The static lengths, None where unknown; all unknown by default.

    Example:
        >>> XTensorType("float64", dims=("city", "year"), shape=(3, None))
        float64[city=3, year=?]
    """

    dtype: str
    dims: Dims
    shape: Shape

    def __init__(self, dtype: Any, *, dims: Sequence[str], shape: Any = None) -> None:
        names = check_dims("XTensorType", dims)
        lengths = (None,) * len(names) if shape is None else tuple(shape)
        if len(lengths) != len(names):
            raise ShapeError(
                f"XTensorType: {len(lengths)} lengths, {lengths}, for the dimensions {names}.",
                "Give one for each, None where it is unknown.",
            )
        base = TensorType(dtype_name(dtype), lengths)
        for field, value in (("dtype", base.dtype), ("dims", names), ("shape", base.shape)):
            object.__setattr__(self, field, value)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.dims)

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """NumPy's dtype object."""
        return TensorType(self.dtype).numpy_dtype

    def __call__(self, name: str | None = None, *, sharding: Any = None) -> XTensor:
        """Return a new symbolic input of this type.

        Args:
            name: The input's name.
            sharding: The partition spec of its values on the mode's mesh, as for ``xtensor``.

        Raises:
            ShardingError: The sharding does not fit the type.
        """
        if sharding is not None:
            subject = name or "an input"
            entries = by_position(subject, self.dims, sharding)
            sharding = value_sharding(entries, self.shape, subject)
        return XTensor(Tensor.make(NamedInput(self, name, sharding)), self.dims)

    def clone(self, dtype: Any = None, dims: Any = None, shape: Any = None) -> XTensorType:
        """Return the type with another dtype, dimensions or shape."""
        return XTensorType(
            dtype or self.dtype,
            dims=self.dims if dims is None else dims,
            shape=self.shape if shape is None else shape,
        )

    def __repr__(self) -> str:
        pairs = zip(self.dims, self.shape, strict=True)
        lengths = ", ".join(f"{dim}={'?' if n is None else n}" for dim, n in pairs)
        return f"{self.dtype}[{lengths}]"


@dataclass(frozen=True, slots=True)
class Part:
    """The array and the index of a part, for ``set`` and ``inc``.

    Attributes:
        array: The array.
        values: The part, indexed by position.
        dims: The dimensions of ``values``, in the order of its axes.
    """

    array: XTensor
    values: Tensor
    dims: Dims


class XTensor(Methods, Wrapper):
    """A symbolic array whose dimensions have names, by which operations align their operands.

    The symbolic array is ``values``, with a name for each axis; compiled graphs have no names.
    ``==`` compares the graph and the names; elementwise equality is
    ``graphc.xtensor.math.equal``. Made by ``xtensor``, ``as_xtensor`` and ``xtensor_shared``.

    Attributes:
        values: The array without names.
        dims: The names of its axes, in order.

    Example:
        >>> import graphc.xtensor as gx
        >>> x = gx.xtensor("x", dims=("city", "year"), shape=(3, None))
        >>> rain = gx.xtensor("rain", dims=("year",))
        >>> (x * rain).sum("year")
        sum(rain * x, axis=1): float64[city=3]
    """

    __slots__ = ("dims", "part", "values")

    values: Tensor
    dims: Dims
    part: Part | None

    def __init__(self, values: Tensor, dims: Sequence[str], part: Part | None = None) -> None:
        names = check_dims("XTensor", dims)
        if not isinstance(values, Tensor):
            raise ArgumentError(
                f"XTensor: {values!r} is no symbolic array.", "Use graphc.xtensor.as_xtensor."
            )
        if len(names) != values.ndim:
            raise ShapeError(
                f"{values!r} has {values.ndim} axes, and there are the names {names}.",
                "Give a name for each axis.",
            )
        for field, value in (("values", values), ("dims", names), ("part", part)):
            object.__setattr__(self, field, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "name":
            raise FrozenError(
                f"Setting .{name} of {self!r}: a graph never changes.",
                "Build a new array; x.rename(...) gives dimensions other names.",
            )
        object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, XTensor):
            return same(self, other)
        return same(self.values, other.values) and other.dims == self.dims

    def __hash__(self) -> int:
        return hash((self.values, self.dims))

    def __reduce__(self) -> tuple[Any, ...]:
        return XTensor, (self.values, self.dims)

    def __repr__(self) -> str:
        text, _, _ = repr(self.values).rpartition(": ")
        return f"{text}: {self.type!r}"

    # Properties.

    @property
    def name(self) -> str | None:
        """The name in messages and printed graphs, which may be set; None by default."""
        return self.values.name

    @name.setter
    def name(self, name: str | None) -> None:
        self.values.name = name

    @property
    def type(self) -> XTensorType:
        """The dtype, the dimensions, and the static lengths."""
        tensor_type: TensorType = self.values.type
        return XTensorType(tensor_type.dtype, dims=self.dims, shape=tensor_type.shape)

    @property
    def dtype(self) -> str:
        """The dtype's name."""
        return self.values.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.dims)

    @property
    def shape(self) -> tuple[Tensor, ...]:
        """The lengths, int64 scalars; ``x.type.shape`` has the static ones."""
        return tuple(self.values.shape[i] for i in range(self.ndim))

    @property
    def sizes(self) -> dict[str, Tensor]:
        """The lengths by dimension, int64 scalars."""
        return dict(zip(self.dims, self.shape, strict=True))

    @property
    def size(self) -> Tensor:
        """The number of elements, an int64 scalar."""
        return self.values.size

    @property
    def as_numpy(self) -> XTensor:
        """The array itself, as in PyTensor: compiled functions return the backend's arrays."""
        return self

    @property
    def data(self) -> np.ndarray[Any, Any]:
        """The value of a constant, which only constants have."""
        return self.values.data

    @property
    def coords(self) -> NoReturn:
        """Absent: dimensions have names and no coordinates."""
        raise self._no_labels("coords", " Beside an array of xarray's it comes first: x + array.")

    @property
    def loc(self) -> NoReturn:
        """Absent: dimensions have names and no coordinates."""
        raise self._no_labels("loc")

    def sel(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise: dimensions have names and no coordinates."""
        raise self._no_labels("sel")

    def _no_labels(self, asked: str, more: str = "") -> ArgumentError:
        return ArgumentError(
            f"{asked} of {self!r}: its dimensions have no coordinates, names alone.",
            f"Select by place: x.isel(dim=...).{more}",
        )

    def rename(self, /, new_name_or_name_dict: Any = None, **names: str) -> XTensor:
        """Return the array with other names of dimensions: ``x.rename(year="month")``.

        Args:
            new_name_or_name_dict: A dict of old and new names; or a name of the array itself.
            names: Old and new names.

        Raises:
            ArgumentError: There is no such dimension, or two would have one name.
        """
        argument = new_name_or_name_dict
        if isinstance(argument, str) or (argument is None and not names):
            copy = XTensor(gt.identity(self.values), self.dims)
            copy.name = argument
            return copy
        if argument is not None and names:
            raise ArgumentError("rename: names in a dict and as keywords.", "Give one of them.")
        new = {**(argument or {}), **names}
        missing = [dim for dim in new if dim not in self.dims]
        if missing:
            raise ArgumentError(
                f"rename({self!r}): there is no dimension {missing[0]!r}.",
                f"There are {', '.join(map(repr, self.dims))}.",
            )
        return XTensor(self.values, check_dims("rename", [new.get(dim, dim) for dim in self.dims]))

    def copy(self, name: str | None = None) -> XTensor:
        """Return the array itself: a symbolic array never changes, so it needs no copy."""
        return self

    def eval(self, values: Any = None, **options: Any) -> Any:
        """Return the value as a NumPy array, given a dict of values for the inputs."""
        return self.values.eval(values, **options)

    def dprint(self, **options: Any) -> str | None:
        """Print the graph as a tree; options as for ``graphc.dprint``."""
        return self.values.dprint(**options)

    def __getattr__(self, name: str) -> Any:
        # Reached only where the class has no such attribute.
        problem = f"An array with named dimensions has no attribute {name!r}."
        if name not in XTensor.__slots__ and hasattr(self.values, name):
            problem += f" x.values.{name} is that of the array without names."
        raise AttributeError(problem, name=name, obj=self)

    # Shared variables.

    def get_value(self, borrow: bool = False, return_internal_type: bool = False) -> Any:
        """Return the present value of a shared variable."""
        shared: Any = self.values
        return shared.get_value(borrow, return_internal_type)

    def set_value(self, new_value: Any, borrow: bool = False) -> None:
        """Set the value of a shared variable, which the next calls of functions read."""
        shared: Any = self.values
        shared.set_value(self.order_axes(new_value), borrow)

    # Functions of graphs unwrap the array and wrap results.

    def alike(self, values: Any) -> XTensor:
        """Give another array these names."""
        return XTensor(values, self.dims)

    def positional(self, sharding: Any) -> Any:
        """Return a sharding by names of dimensions as one by position.

        Raises:
            ShardingError: If the sharding names a dimension that the array lacks.
        """
        return by_position(repr(self), self.dims, sharding)

    def order_axes(self, given: Any) -> Any:
        """Return the array of a value, its axes in the order of these dimensions.

        Raises:
            ShapeError: If the value has other dimensions.
        """
        if not isinstance(given, XTensor) and not is_named(given):
            return given
        dims = tuple(given.dims)
        if {*dims} != {*self.dims}:
            raise ShapeError(
                f"A value with the dimensions {dims} for {self!r}.",
                f"Give it the dimensions {self.dims}, in any order.",
            )
        arranged = given if dims == self.dims else given.transpose(*self.dims)
        return arranged.values

    def element(self, values: Any) -> XTensor:
        """Give an element of a sequence the names after the first."""
        return XTensor(values, self.dims[1:])

    def rows(self, values: Any, sequences: Sequence[Wrapper]) -> XTensor:
        """Give a loop's rows the name of the dimension that it goes along, ``step`` without one."""
        along = dict.fromkeys(x.dims[0] for x in sequences if isinstance(x, XTensor))
        if len(along) > 1:
            raise ArgumentError(
                f"A loop goes along the dimensions {', '.join(map(repr, along))} at once.",
                "Give its sequences one first dimension: x.transpose(dim, ...), x.rename(...).",
            )
        return XTensor(values, (next(iter(along), "step"), *self.dims))


XTensorVariable = XTensor


def is_named(value: Any) -> bool:
    """Return whether a value is an array of another library with named axes, such as xarray's."""
    dims = getattr(value, "dims", None)
    return isinstance(dims, tuple) and hasattr(value, "values") and hasattr(value, "transpose")


def xtensor(
    name: str | None = None,
    *,
    dims: Sequence[str],
    shape: Sequence[int | None] | None = None,
    dtype: Any = "floatX",
    sharding: Any = None,
) -> XTensor:
    """Return a symbolic input whose dimensions have names.

    Args:
        name: The input's name.
        dims: The names of the dimensions, in the order of the axes of its values.
        shape: The static lengths, None where unknown; all unknown by default.
        dtype: The dtype.
        sharding: How its values are sharded over the mode's mesh of devices: a dict of dimensions
            and the axes of the mesh that shard them, each a name, or a tuple of names. Other
            dimensions are replicated. A tuple goes by position, as for ``graphc.tensor.tensor``.

    Raises:
        ArgumentError: A dimension comes twice, or is no string.
        ShapeError: Another number of lengths.
        ShardingError: The sharding does not fit the array.

    Example:
        >>> xtensor("x", dims=("city", "year"), shape=(3, None))
        x: float64[city=3, year=?]
    """
    return XTensorType(dtype, dims=dims, shape=shape)(name, sharding=sharding)


def _value_and_dims(title: str, x: Any, dims: Any) -> tuple[Any, Dims]:
    if is_named(x):
        names = check_dims(title, x.dims)
        if dims is not None and check_dims(title, dims) != names:
            raise ArgumentError(
                f"{title}: a value with the dimensions {names}, and dims={dims!r}.",
                "Leave dims out, or use transpose or rename.",
            )
        return x.values, names
    if dims is None:
        if np.ndim(x) if not isinstance(x, Node) else x.type.ndim:
            raise ArgumentError(
                f"{title}: {_shown(x)} has no names of its axes.",
                "Name them: graphc.xtensor.as_xtensor(x, dims=(...)). A scalar needs none.",
            )
        return x, ()
    return x, check_dims(title, dims)


def _shown(x: Any) -> str:
    return repr(x) if isinstance(x, Node) else f"a {type(x).__name__} of shape {np.shape(x)}"


def as_xtensor(x: Any, dims: Sequence[str] | None = None, *, name: str | None = None) -> XTensor:
    """Return a value as an array with named dimensions.

    Args:
        x: An array with named dimensions, also xarray's; a symbolic array, an array or a number.
        dims: The names of the axes; a scalar needs none.
        name: The name of the result.

    Raises:
        ArgumentError: If the value is no scalar and has no names, or has others than ``dims``.
        ShapeError: If the number of names is not the number of axes.
        DTypeError: If the value is no array of numbers.

    Example:
        >>> import graphc.tensor as gt
        >>> as_xtensor(gt.matrix("m"), dims=("row", "column"))
        m: float64[row=?, column=?]
    """
    if isinstance(x, XTensor):
        if dims is not None and check_dims("as_xtensor", dims) != x.dims:
            raise ArgumentError(
                f"as_xtensor: {x!r} with dims={dims!r}.",
                "Leave dims out, or use x.transpose(...) or x.rename(...).",
            )
        return x
    value, names = _value_and_dims("as_xtensor", x, dims)
    result = XTensor(gt.as_tensor(value), names)
    if name is not None:
        result.name = name
    return result


def xtensor_constant(x: Any, name: str | None = None, dims: Sequence[str] | None = None) -> XTensor:
    """Return a value that does not change, as an array with named dimensions.

    Args:
        x: Numbers, or an array, also xarray's.
        name: The name in printed graphs.
        dims: The names of the axes; a scalar needs none.

    Raises:
        ArgumentError: If the value is no scalar and has no names.

    Example:
        >>> xtensor_constant([1.5, 2.5], dims=("city",))
        [1.5, 2.5]: float64[city=2]
    """
    value, names = _value_and_dims("xtensor_constant", x, dims)
    return XTensor(gt.constant(value, name), names)


def xtensor_shared(  # noqa: PLR0913 (PyTensor's arguments)
    x: Any,
    *,
    name: str | None = None,
    shape: Any = None,
    dims: Sequence[str] | None = None,
    strict: bool = False,
    allow_downcast: bool | None = None,
    borrow: bool = False,
    sharding: Any = None,
) -> XTensor:
    """Make a variable with named dimensions whose value persists between calls.

    Args:
        x: An array, also xarray's, or a number.
        name: The name in messages.
        shape: Static lengths, None where unknown; all unknown by default.
        dims: The names of the axes; a scalar needs none.
        strict: Accept only a NumPy array.
        allow_downcast: Convert a float64 array to ``config.floatX``.
        borrow: Store the array itself, not a copy.
        sharding: How values are sharded over a mesh of devices: a dict of dimensions and axes of
            the mesh, as for ``xtensor``; or an argument of ``graphc.shared``.

    Returns:
        An array with the methods ``get_value`` and ``set_value``.

    Raises:
        ShardingError: The sharding does not fit the array.

    Example:
        >>> import graphc
        >>> w = xtensor_shared([1.0, 2.0], dims=("city",), name="w")
        >>> step = graphc.function([], updates=[(w, w * 10)], mode="NUMPY")
        >>> step()
        >>> w.get_value()
        array([10., 20.])
    """
    value, names = _value_and_dims("xtensor_shared", x, dims)
    label = name if name is not None else getattr(x, "name", None)
    options = {
        "shape": shape,
        "borrow": borrow,
        "sharding": by_position(label or "xtensor_shared", names, sharding),
    }
    return XTensor(shared(value, label, strict, allow_downcast, **options), names)
