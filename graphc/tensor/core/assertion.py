"""Conditions that must hold when a program runs."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, CheckError, DTypeError, GraphcError
from graphc.ir import TensorType
from graphc.tensor.core.shape import SameArray
from graphc.tensor.core.tensor import Tensor, as_tensor


@dataclass(frozen=True)
class CheckAndRaise(SameArray):
    """An array, returned if all conditions hold; otherwise a given exception is raised.

    A call with an array and conditions returns the array. The conditions hold if all their elements
    are true; conditions of an unused result are not checked. NumPy checks them before the array is
    used, other backends after the program has run. They are not checked in a mode with
    ``check=False``, in ``f.pure``, and where JAX or MLX trace the function as part of other code.

    Args:
        exc_type: The exception to raise, as a class that is also a ``GraphcError``.
        msg: The message.

    Raises:
        ArgumentError: ``exc_type`` is not a class of exceptions.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> positive = graphc.CheckAndRaise(ValueError, "x is to be positive.")
        >>> f = graphc.function([x], gt.log(positive(x, x > 0)))
        >>> f([1.0, -1.0])
        Traceback (most recent call last):
            ...
        graphc.errors.ValueError: x is to be positive...
    """

    exc_type: type[Exception]
    msg: str = ""

    def __post_init__(self) -> None:
        if not (isinstance(self.exc_type, type) and issubclass(self.exc_type, Exception)):
            raise ArgumentError(
                f"CheckAndRaise: {self.exc_type!r} is not an exception class.",
                "Pass a class such as ValueError.",
            )

    def __call__(self, value: Any, *conds: Any) -> Tensor:
        """Return the array, checked against the conditions at run time.

        Raises:
            DTypeError: A condition is neither bool nor integer.
            CheckError: A condition is the constant False; ``exc_type`` sets the class.
        """
        conditions = [as_tensor(condition) for condition in conds]
        for condition in conditions:
            if np.dtype(condition.type.numpy_dtype).kind not in "biu":
                raise DTypeError(
                    f"{self.name}: the condition {condition!r} is neither bool nor integer.",
                    "Write a comparison, such as x > 0.",
                )
        return Tensor.make(self, as_tensor(value), *conditions)

    name = "check_and_raise"

    def padding_for(self, i: int, axis: int, type: TensorType) -> Any:
        return 1 if i else "any"

    def perform(self, x: np.ndarray[Any, Any], *conditions: Any) -> Any:
        if not all(np.all(condition) for condition in conditions):
            kind: Any = self.exc_type
            raise error_class(kind)(self.msg)
        return x

    def token(self) -> str:
        kind = f"{self.exc_type.__module__}.{self.exc_type.__qualname__}"
        return f"CheckAndRaise({kind},{self.msg!r})"

    def unwritten(self) -> Any:
        return None if _is_importable(self.exc_type) else self.exc_type


def _is_importable(cls: type) -> bool:
    """Return whether a class can be imported by its name in every process."""
    value: Any = sys.modules.get(cls.__module__)
    for part in cls.__qualname__.split("."):
        value = getattr(value, part, None)
    return value is cls and cls.__module__ != "__main__"


@cache
def error_class(kind: Any) -> Any:
    """Return the exception class to raise: a subclass of the given one and of graphc's errors."""
    if kind is AssertionError:
        return CheckError
    if issubclass(kind, GraphcError):
        return kind
    namespace = {"__module__": "graphc.errors", "__doc__": CheckError.__doc__}
    return type(kind.__name__, (GraphcError, kind), namespace)


class Assert(CheckAndRaise):
    """``CheckAndRaise`` with an ``AssertionError``.

    Args:
        msg: The message.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> rising = graphc.Assert("x is to rise")(x, gt.diff(x) > 0)
        >>> graphc.function([x], rising[-1])([1.0, 3.0, 2.0])
        Traceback (most recent call last):
            ...
        graphc.errors.CheckError: x is to rise...
    """

    def __init__(self, msg: str = "Assert failed!") -> None:
        super().__init__(AssertionError, msg)


assert_op = Assert()
"""``Assert`` with the default message."""
