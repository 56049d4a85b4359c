"""Conversion of a call's arguments to their inputs' dtypes."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, DTypeError
from graphc.implicit.array import ImplicitArray
from graphc.ir import Node, TensorType, Wrapper, is_float, is_inexact, is_integer, value_class
from graphc.ir.dtypes import INTEGERS
from graphc.link import Backend, as_numpy
from graphc.tensor.core.tensor import FILL, holds_mask


class Missing(enum.Enum):
    """A missing argument: one object in every process."""

    MISSING = "missing"


MISSING = Missing.MISSING
WEAK = (bool, int, float, complex, list, tuple)

_limits = [np.iinfo(dtype) for dtype in INTEGERS]
RANGES = {x.dtype.name: range(int(x.min), int(x.max) + 1) for x in _limits}
"""The integers that each integer dtype has."""


@value_class
@dataclass(frozen=True)
class In:
    """An input of a function, with a default value and rules for conversion.

    Args:
        variable: The symbolic input.
        name: The name as a keyword argument; the variable's name by default.
        value: The default value.
        strict: Accept only arrays of exactly the variable's dtype.
        allow_downcast: True: any number is cast; False: none is cast down; None: only Python
            numbers are.
        borrow: Accepted for PyTensor compatibility: arguments are never written to.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x, y = gt.scalars("x", "y")
        >>> f = graphc.function([x, graphc.In(y, value=10.0)], x + y, mode="NUMPY")
        >>> float(f(1.0)), float(f(1.0, y=2.0))
        (11.0, 3.0)
    """

    variable: Any
    name: str | None = None
    value: Any = MISSING
    strict: bool = False
    allow_downcast: bool | None = None
    borrow: bool | None = None

    @property
    def label(self) -> str | None:
        """The input's name in keyword arguments and messages."""
        return self.name or self.variable.name

    @property
    def expected(self) -> str:
        """The type of arguments in messages."""
        return str(self.variable.type_text())

    def order_axes(self, value: Any) -> Any:
        """Return an argument with its axes in the input's order."""
        return value


@value_class
@dataclass(frozen=True, kw_only=True)
class WrappedIn(In):
    """An input of a wrapper, which orders the axes of arguments that name them.

    Attributes:
        wrapper: The wrapper.
    """

    wrapper: Wrapper

    @classmethod
    def of(cls, parameter: In) -> WrappedIn:
        """Return the input of a parameter whose variable is a wrapper."""
        args = {x.name: getattr(parameter, x.name) for x in fields(In)}
        return cls(**args | {"variable": parameter.variable.values, "wrapper": parameter.variable})

    @property
    def expected(self) -> str:
        return repr(self.wrapper.type)

    def order_axes(self, value: Any) -> Any:
        return self.wrapper.order_axes(value)


@value_class
@dataclass(frozen=True)
class Out:
    """An output of a function.

    Args:
        variable: The symbolic output.
        borrow: Accepted for PyTensor compatibility: outputs are never overwritten.
        sharding: The output's partition spec on the mode's mesh, as for ``graphc.tensor.shard``;
            chosen by the compiler by default.
    """

    variable: Any
    borrow: bool = False
    sharding: Any = None


def convert_arguments(
    args: tuple[Any, ...], parameters: Sequence[In], targets: Sequence[TensorType], backend: Backend
) -> tuple[Any, ...]:
    """Convert the arguments of a call to arrays of the program's dtypes that the backend takes.

    Args:
        args: The arguments by position.
        parameters: The inputs of the function.
        targets: The types of the program's inputs.
        backend: The program's backend.

    Raises:
        DTypeError: The conversion would change values.
        ArgumentError: An argument is symbolic or no array.
    """
    rows = enumerate(zip(args, parameters, targets, strict=True))
    return tuple([convert(x, parameter, type, i, backend) for i, (x, parameter, type) in rows])


def convert(value: Any, parameter: In, target: TensorType, index: int, backend: Backend) -> Any:
    """Convert an argument to an array of the program's dtype that the backend takes.

    Raises:
        DTypeError: The conversion would change values.
        ArgumentError: The argument is symbolic or no array.
    """
    declared: TensorType = parameter.variable.type
    # The same as below in a tenth of the time, for numbers of batches and steps.
    if value.__class__ is int and declared is target and not target.ndim:
        is_plain = not parameter.strict and parameter.allow_downcast is not False
        if is_plain and value in RANGES.get(target.dtype, ()):
            return np.array(value, target.numpy_dtype)
    array = _array(value, parameter, index, backend)
    dtype = backend.dtype(array)
    if dtype == target.numpy_dtype:
        return array
    if parameter.strict and dtype != declared.numpy_dtype:
        raise _error(
            DTypeError, parameter, index, shown(value), "strict=True: give exactly that dtype."
        )
    if array.dtype is not dtype:
        array = backend.numpy(array)
    weak = is_weak(value) and parameter.allow_downcast is None
    if not (parameter.allow_downcast or goes_into(array, declared, weak)):
        raise _error(
            DTypeError,
            parameter,
            index,
            shown(value if is_weak(value) else array),
            f"Cast it, value.astype({declared.dtype!r}), or pass allow_input_downcast=True.",
        )
    try:
        with np.errstate(over="ignore"):
            return np.asarray(array).astype(target.numpy_dtype)
    except TypeError as error:
        # A value that JAX traces has no numbers to convert.
        remedy = "Give it that dtype; float64 in traced code wants jax_enable_x64."
        raise _error(DTypeError, parameter, index, f"a traced {shown(array)}", remedy) from error


def _array(value: Any, parameter: In, index: int, backend: Backend) -> Any:
    """Return the argument as an array that the backend takes, in its own dtype."""
    remedy = "Give numbers that its dtype holds: an array or nested lists."
    value = parameter.order_axes(value)
    if isinstance(value, Node | Wrapper):
        value, remedy = f"the symbolic {value!r}", "Give a value: a number or an array."
        raise _error(ArgumentError, parameter, index, value, remedy)
    if isinstance(value, ImplicitArray):
        remedy = "Make the input with graphc.tensor.implicit, or give the array whole."
        raise _error(ArgumentError, parameter, index, f"the implicit {value!r}", remedy)
    if holds_mask(value):
        raise _error(ArgumentError, parameter, index, "a masked array", FILL)
    if isinstance(value, backend.kinds) and not isinstance(value, np.ndarray):
        return value
    if parameter.strict and is_weak(value):
        remedy = "strict=True: give an array of exactly that dtype."
        raise _error(DTypeError, parameter, index, shown(value), remedy)
    try:
        array = as_numpy(value)
    except (TypeError, ValueError) as error:
        raise _error(ArgumentError, parameter, index, shown(value), str(error)) from error
    if array.dtype.kind not in "biufcV":
        raise _error(ArgumentError, parameter, index, shown(value), remedy)
    return array


def is_weak(value: Any) -> bool:
    """Return whether a value consists of Python numbers, which take the dtype of their input."""
    return type(value) in WEAK


def goes_into(array: np.ndarray[Any, Any], target: TensorType, weak: bool) -> bool:
    """Return whether a dtype admits an array's values: always, or because they are Python numbers.

    Integer dtypes admit Python integers, and floats without a fraction, that fit; floats are
    rounded, and may not become infinite.
    """
    if np.can_cast(array.dtype, target.numpy_dtype, "safe"):
        return True
    if not weak or array.dtype.kind not in "biufc":
        return False
    if is_integer(target.dtype):
        bounds = np.iinfo(target.dtype)
        if array.dtype.kind == "c" or not (np.isfinite(array) & (array == np.trunc(array))).all():
            return False
        # Compared as Python integers, since the largest int64 is no float.
        ends = (int(array.min()), int(array.max())) if array.size else (0, 0)
        return bounds.min <= ends[0] and ends[1] <= bounds.max
    if is_float(target.dtype) and array.dtype.kind == "c":
        return False
    with np.errstate(over="ignore"):
        rounded = array.astype(target.numpy_dtype)
    return is_inexact(target.dtype) and bool(np.all(np.isfinite(rounded) | ~np.isfinite(array)))


def _error(
    kind: type[ArgumentError | DTypeError], parameter: In, index: int, given: str, remedy: str
) -> Exception:
    label = repr(parameter.label) if parameter.label else str(index)
    return kind(
        f"The argument {label}: expected {parameter.expected}, got {given}.",
        remedy,
    )


def shown(value: Any) -> str:
    """Return the text of an argument in messages: of an array, its dtype and shape."""
    if isinstance(value, ImplicitArray):
        return repr(value)
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        # Without the name of the library.
        dtype = str(value.dtype).rpartition(".")[2]
        return f"{dtype}[{', '.join(map(str, value.shape))}]"
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 40 else text[:37] + '...'}"
