"""Arguments of a call: converted to their inputs' dtypes, or refused."""

from __future__ import annotations

import enum
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, DTypeError
from graphc.implicit.array import ImplicitArray
from graphc.ir import Node, TensorType, Wrapper, is_float, is_inexact, is_integer, value_class
from graphc.link import Backend, as_numpy
from graphc.tensor.core.tensor import FILL, holds_mask


class Missing(enum.Enum):
    """A missing argument: one object in every process."""

    MISSING = "missing"


MISSING = Missing.MISSING
WEAK = (bool, int, float, complex, list, tuple)


@value_class
@dataclass(frozen=True)
class In:
    """An input of a function, with a default value and rules for conversion.

    Args:
        variable: The symbolic input.
        name: Its name as a keyword argument; the variable's name by default.
        value: Its default value.
        strict: Accept only arrays of exactly its dtype.
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
    def expected(self) -> Any:
        """The type of arguments in messages."""
        return self.variable.type

    def fitted(self, given: Any) -> Any:
        """Return an argument with its axes in the input's order."""
        return given


@value_class
@dataclass(frozen=True, kw_only=True)
class WrappedIn(In):
    """An input that stood in a wrapper, which orders the axes of arguments that name them.

    Attributes:
        wrapper: The wrapper.
    """

    wrapper: Wrapper

    @classmethod
    def of(cls, parameter: In) -> WrappedIn:
        """The input of a parameter whose variable is a wrapper."""
        given = {x.name: getattr(parameter, x.name) for x in fields(In)}
        return cls(**given | {"variable": parameter.variable.values, "wrapper": parameter.variable})

    @property
    def expected(self) -> Any:
        return self.wrapper.type

    def fitted(self, given: Any) -> Any:
        return self.wrapper.fitted(given)


@value_class
@dataclass(frozen=True)
class Out:
    """An output of a function.

    Args:
        variable: The symbolic output.
        borrow: Accepted for PyTensor compatibility: outputs are never overwritten.
        sharding: How it lies on the mode's mesh of devices, as for ``graphc.tensor.shard``; by
            default as the compiler chooses.
    """

    variable: Any
    borrow: bool = False
    sharding: Any = None


def converted(given: Any, parameter: In, target: TensorType, place: int, backend: Backend) -> Any:
    """Convert an argument to an array of the program's dtype that the backend takes.

    Raises:
        DTypeError: The conversion would change values.
        ArgumentError: The argument is symbolic or no array.
    """
    array = _array(given, parameter, place, backend)
    declared: TensorType = parameter.variable.type
    dtype = backend.dtype(array)
    if dtype == target.numpy_dtype:
        return array
    if parameter.strict and dtype != declared.numpy_dtype:
        raise _refused(
            DTypeError, parameter, place, shown(given), "strict=True: give exactly that dtype."
        )
    if array.dtype is not dtype:
        array = backend.numpy(array)
    weak = is_weak(given) and parameter.allow_downcast is None
    if not (parameter.allow_downcast or goes_into(array, declared, weak)):
        raise _refused(
            DTypeError,
            parameter,
            place,
            shown(given if is_weak(given) else array),
            f"Cast it, value.astype({declared.dtype!r}), or pass allow_input_downcast=True.",
        )
    try:
        with np.errstate(over="ignore"):
            return np.asarray(array).astype(target.numpy_dtype)
    except TypeError as error:
        # A value that JAX traces has no numbers to convert.
        remedy = "Give it that dtype; float64 in traced code wants jax_enable_x64."
        raise _refused(DTypeError, parameter, place, f"a traced {shown(array)}", remedy) from error


def _array(given: Any, parameter: In, place: int, backend: Backend) -> Any:
    """The argument as an array of a kind that the backend takes, in its own dtype."""
    remedy = "Give numbers that its dtype holds: an array or nested lists."
    given = parameter.fitted(given)
    if isinstance(given, Node | Wrapper):
        given, remedy = f"the symbolic {given!r}", "Give a value: a number or an array."
        raise _refused(ArgumentError, parameter, place, given, remedy)
    if isinstance(given, ImplicitArray):
        remedy = "Make the input with graphc.tensor.implicit, or give the array whole."
        raise _refused(ArgumentError, parameter, place, f"the implicit {given!r}", remedy)
    if holds_mask(given):
        raise _refused(ArgumentError, parameter, place, "a masked array", FILL)
    if isinstance(given, backend.kinds) and not isinstance(given, np.ndarray):
        return given
    if parameter.strict and is_weak(given):
        remedy = "strict=True: give an array of exactly that dtype."
        raise _refused(DTypeError, parameter, place, shown(given), remedy)
    try:
        array = as_numpy(given)
    except (TypeError, ValueError) as error:
        raise _refused(ArgumentError, parameter, place, shown(given), str(error)) from error
    if array.dtype.kind not in "biufcV":
        raise _refused(ArgumentError, parameter, place, shown(given), remedy)
    return array


def is_weak(given: Any) -> bool:
    """Whether a value consists of Python numbers, which take the dtype of their input."""
    return type(given) in WEAK


def goes_into(array: np.ndarray[Any, Any], target: TensorType, weak: bool) -> bool:
    """Whether a dtype admits an array's values: always, or because they are Python numbers.

    Python floats are rounded, and may not become infinite; Python integers must fit.
    """
    if np.can_cast(array.dtype, target.numpy_dtype, "safe"):
        return True
    if not weak or array.dtype.kind not in "biufc":
        return False
    if is_integer(target.dtype):
        bounds = np.iinfo(target.dtype)
        whole = array.dtype.kind in "iu"
        return whole and bool(np.all((array >= bounds.min) & (array <= bounds.max)))
    if is_float(target.dtype) and array.dtype.kind == "c":
        return False
    with np.errstate(over="ignore"):
        rounded = array.astype(target.numpy_dtype)
    return is_inexact(target.dtype) and bool(np.all(np.isfinite(rounded) | ~np.isfinite(array)))


def _refused(
    kind: type[ArgumentError | DTypeError], parameter: In, place: int, given: str, remedy: str
) -> Exception:
    label = repr(parameter.label) if parameter.label else str(place)
    return kind(
        f"The argument {label}: expected {parameter.expected!r}, got {given}.",
        remedy,
    )


def shown(given: Any) -> str:
    """An argument in messages: an array by its dtype and shape."""
    if isinstance(given, ImplicitArray):
        return repr(given)
    if hasattr(given, "dtype") and hasattr(given, "shape"):
        # Without the name of the library.
        dtype = str(given.dtype).rpartition(".")[2]
        return f"{dtype}[{', '.join(map(str, given.shape))}]"
    text = repr(given)
    return f"{type(given).__name__} {text if len(text) <= 40 else text[:37] + '...'}"
