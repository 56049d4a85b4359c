"""Arguments of a call: found by place or name, converted to their inputs' dtypes, or refused."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, DTypeError
from graphc.ir import Node, TensorType, here, is_float, is_inexact, is_integer, where

__all__ = ["MISSING", "In", "Out", "converted", "goes_into", "is_weak"]


class Missing(enum.Enum):
    """Stands for an argument that is not given: one object in every process."""

    MISSING = "missing"


MISSING = Missing.MISSING
WEAK = (bool, int, float, complex, list, tuple)


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


def converted(given: Any, wanted: In, place: int, kinds: tuple[type, ...]) -> Any:
    """An argument as an array of its input's dtype, of one of the kinds a backend takes.

    Raises:
        DTypeError: Its dtype would lose values.
        ArgumentError: It is symbolic or no array.
    """
    dtype = wanted.variable.type.numpy_dtype
    if isinstance(given, Node):
        raise _refused(
            ArgumentError,
            wanted,
            place,
            f"the symbolic {given!r}",
            "Give a value: a number or an array.",
        )
    if isinstance(given, np.ma.MaskedArray):
        raise _refused(
            ArgumentError, wanted, place, "a masked array", "Fill its gaps: value.filled(...)."
        )
    if wanted.strict and not (isinstance(given, np.ndarray) and given.dtype == dtype):
        raise _refused(
            DTypeError, wanted, place, _described(given), "strict=True: give exactly that dtype."
        )
    try:
        own = isinstance(given, kinds) and not isinstance(given, np.ndarray)
        if own and given.dtype == dtype:
            return given
        array = np.asarray(given)
    except (TypeError, ValueError) as error:
        raise _refused(ArgumentError, wanted, place, _described(given), str(error)) from error
    if array.dtype == dtype:
        return array
    if array.dtype.kind not in "biufcV":
        raise _refused(
            ArgumentError,
            wanted,
            place,
            _described(given),
            "Give numbers: an array or nested lists.",
        )
    weak = is_weak(given) and wanted.allow_downcast is None
    if not (wanted.allow_downcast or goes_into(array, wanted.variable.type, weak)):
        raise _refused(
            DTypeError,
            wanted,
            place,
            _described(given if is_weak(given) else array),
            f"Cast it, value.astype({dtype.name!r}), or pass allow_input_downcast=True.",
        )
    return array.astype(dtype)


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


def _described(given: Any) -> str:
    if isinstance(given, np.ndarray | np.generic):
        return f"{given.dtype}[{', '.join(map(str, given.shape))}]"
    text = repr(given)
    return f"{type(given).__name__} {text if len(text) <= 40 else text[:37] + '...'}"
