"""Arguments of a call: found by place or name, converted to their inputs' dtypes, or refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, DTypeError
from graphc.ir import Node, TensorType, here, is_float, is_integer, where
from graphc.tensor import Tensor

__all__ = ["In", "Out", "converted"]

MISSING = object()


@dataclass(frozen=True)
class In:
    """An input of a function with more to say about it.

    Args:
        variable: The symbolic input.
        name: What keyword arguments call it; its own name by default.
        value: Its value where a call leaves it out.
        strict: Take only NumPy arrays of exactly its dtype.
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


@dataclass(frozen=True)
class Out:
    """An output of a function; ``borrow`` is accepted, as outputs are never overwritten."""

    variable: Any
    borrow: bool = False


def converted(given: Any, wanted: In, place: int) -> Any:
    """An argument as an array of its input's dtype.

    Raises:
        DTypeError: Its dtype would lose values.
        ArgumentError: It is symbolic or no array.
    """
    variable: Tensor = wanted.variable
    type: TensorType = variable.type
    if isinstance(given, Node):
        raise _refused(
            ArgumentError, wanted, place, f"the symbolic {given!r}", "Give a value: a number or an array."
        )
    if wanted.strict and not (isinstance(given, np.ndarray) and given.dtype == type.numpy_dtype):
        raise _refused(
            DTypeError, wanted, place, _described(given), "strict=True: give exactly that dtype."
        )
    weak = isinstance(given, bool | int | float | complex | list | tuple)
    try:
        array = given if hasattr(given, "dtype") and hasattr(given, "ndim") else np.asarray(given)
        if array.dtype == type.numpy_dtype:
            return array
        array = np.asarray(array)
    except (TypeError, ValueError) as error:
        raise _refused(ArgumentError, wanted, place, _described(given), str(error)) from error
    if array.dtype.kind not in "biufcV":
        raise _refused(
            ArgumentError, wanted, place, _described(given), "Give numbers: an array or nested lists."
        )
    _check_cast(array, wanted, place, weak)
    return array.astype(type.numpy_dtype)


def _check_cast(array: np.ndarray[Any, Any], wanted: In, place: int, weak: bool) -> None:
    target: TensorType = wanted.variable.type
    if wanted.allow_downcast or np.can_cast(array.dtype, target.numpy_dtype, "safe"):
        return
    if weak and wanted.allow_downcast is None and _holds(array, target):
        return
    raise _refused(
        DTypeError,
        wanted,
        place,
        f"{array.dtype}[{', '.join(map(str, array.shape))}]",
        f"Cast it, value.astype({target.dtype!r}), or pass allow_input_downcast=True.",
    )


def _holds(array: np.ndarray[Any, Any], target: TensorType) -> bool:
    """Whether Python numbers go into a dtype: floats are rounded, integers must fit."""
    if is_integer(target.dtype):
        bounds = np.iinfo(target.dtype)
        whole = array.dtype.kind in "iu"
        return whole and bool(np.all((array >= bounds.min) & (array <= bounds.max)))
    if is_float(target.dtype):
        return array.dtype.kind in "biuf"
    return array.dtype.kind in "biufc" and target.dtype != "bool"


def _refused(
    kind: type[ArgumentError | DTypeError], wanted: In, place: int, given: str, remedy: str
) -> Exception:
    label = repr(wanted.label) if wanted.label else str(place)
    return kind(
        f"The argument {label} is wanted as {wanted.variable.type!r}; {given} was given.",
        remedy,
        where(here()),
    )


def _described(given: Any) -> str:
    if isinstance(given, np.ndarray | np.generic):
        return f"{given.dtype}[{', '.join(map(str, given.shape))}]"
    text = repr(given)
    return f"{type(given).__name__} {text if len(text) <= 40 else text[:37] + '...'}"
