"""Arguments of a call: found by place or name, converted to their inputs' dtypes, or refused."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, DTypeError
from graphc.implicit.array import ImplicitArray
from graphc.ir import (
    Node,
    TensorType,
    here,
    is_float,
    is_inexact,
    is_integer,
    value_class,
    where,
)
from graphc.link import Backend, as_numpy

__all__ = ["MISSING", "In", "Out", "converted", "goes_into", "is_weak", "shown"]


class Missing(enum.Enum):
    """Stands for an argument that is not given: one object in every process."""

    MISSING = "missing"


MISSING = Missing.MISSING
WEAK = (bool, int, float, complex, list, tuple)


@value_class
@dataclass(frozen=True)
class In:
    """An input of a function with more to say about it.

    Args:
        variable: The symbolic input.
        name: What keyword arguments call it; its own name by default.
        value: Its value where a call leaves it out.
        strict: Take only arrays of exactly its dtype.
        allow_downcast: True: any number is cast; False: nothing is cast down; None: only Python
            numbers are.

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

    @property
    def label(self) -> str | None:
        """What keyword arguments and messages call it."""
        return self.name or self.variable.name


@value_class
@dataclass(frozen=True)
class Out:
    """An output of a function.

    Args:
        variable: The symbolic output.
        borrow: Taken for the sake of scripts that have it: outputs are never overwritten.
    """

    variable: Any
    borrow: bool = False


def converted(given: Any, wanted: In, target: TensorType, place: int, backend: Backend) -> Any:
    """An argument as an array of the program's dtype, of one of the kinds a backend takes.

    Raises:
        DTypeError: Its dtype would lose values.
        ArgumentError: It is symbolic or no array.
    """
    array = _array(given, wanted, place, backend)
    declared: TensorType = wanted.variable.type
    dtype = backend.dtype(array)
    if dtype == target.numpy_dtype:
        return array
    if wanted.strict and dtype != declared.numpy_dtype:
        raise _refused(
            DTypeError, wanted, place, shown(given), "strict=True: give exactly that dtype."
        )
    if array.dtype is not dtype:
        array = backend.numpy(array)
    weak = is_weak(given) and wanted.allow_downcast is None
    if not (wanted.allow_downcast or goes_into(array, declared, weak)):
        raise _refused(
            DTypeError,
            wanted,
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
        raise _refused(DTypeError, wanted, place, f"a traced {shown(array)}", remedy) from error


def _array(given: Any, wanted: In, place: int, backend: Backend) -> Any:
    """The argument as an array of a kind that the backend takes, in its own dtype."""
    remedy = "Give numbers that its dtype holds: an array or nested lists."
    if isinstance(given, Node):
        given, remedy = f"the symbolic {given!r}", "Give a value: a number or an array."
        raise _refused(ArgumentError, wanted, place, given, remedy)
    if isinstance(given, ImplicitArray):
        remedy = "Make the input with graphc.tensor.implicit, or give the array whole."
        raise _refused(ArgumentError, wanted, place, f"the implicit {given!r}", remedy)
    if isinstance(given, np.ma.MaskedArray):
        remedy = "Fill its gaps: value.filled(...)."
        raise _refused(ArgumentError, wanted, place, "a masked array", remedy)
    if isinstance(given, backend.kinds) and not isinstance(given, np.ndarray):
        return given
    if wanted.strict and is_weak(given):
        remedy = "strict=True: give an array of exactly that dtype."
        raise _refused(DTypeError, wanted, place, shown(given), remedy)
    try:
        array = as_numpy(given)
    except (TypeError, ValueError) as error:
        raise _refused(ArgumentError, wanted, place, shown(given), str(error)) from error
    if array.dtype.kind not in "biufcV":
        raise _refused(ArgumentError, wanted, place, shown(given), remedy)
    return array


def is_weak(given: Any) -> bool:
    """Whether it is made of Python's numbers, which take the dtype that is wanted."""
    return type(given) in WEAK


def goes_into(array: np.ndarray[Any, Any], target: TensorType, weak: bool) -> bool:
    """Whether a dtype takes these values: always, or as they are numbers of Python's.

    Python's floats are rounded, and may not become infinite; its integers must fit.
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
    kind: type[ArgumentError | DTypeError], wanted: In, place: int, given: str, remedy: str
) -> Exception:
    label = repr(wanted.label) if wanted.label else str(place)
    return kind(
        f"The argument {label} is wanted as {wanted.variable.type!r}; {given} was given.",
        remedy,
        where(here()),
    )


def shown(given: Any) -> str:
    """What messages call an argument: an array by its dtype and shape."""
    if isinstance(given, ImplicitArray):
        return repr(given)
    if hasattr(given, "dtype") and hasattr(given, "shape"):
        # Without the name of the library.
        dtype = str(given.dtype).rpartition(".")[2]
        return f"{dtype}[{', '.join(map(str, given.shape))}]"
    text = repr(given)
    return f"{type(given).__name__} {text if len(text) <= 40 else text[:37] + '...'}"
