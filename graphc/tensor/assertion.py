"""Conditions that must hold when a program runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, CheckError, DTypeError, GraphcError
from graphc.ir import Node, Op, TensorType, here, where
from graphc.tensor.tensor import Tensor, as_tensor

__all__ = ["Assert", "CheckAndRaise", "assert_op", "failed"]


@dataclass(frozen=True)
class CheckAndRaise(Op):
    """An array, unless a condition does not hold: then an exception of one's own is raised.

    Called with an array and conditions, which hold where all their elements do, it gives the
    array. Whatever uses that depends on the conditions; what nothing uses is not checked. They are
    checked on every backend, after the program has run, or before what uses the array where NumPy
    runs it; and not at all in a mode with ``check=False``, in ``f.pure``, and where JAX or MLX
    trace the function as part of other code.

    Args:
        exc_type: What is raised: an exception that is this one and a ``GraphcError``.
        msg: What it says.

    Raises:
        ArgumentError: ``exc_type`` is no class of exceptions.

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
                f"CheckAndRaise: {self.exc_type!r} is no class of exceptions.",
                "Give one, such as ValueError.",
                where(here()),
            )

    def __call__(self, value: Any, *conds: Any) -> Tensor:
        """The array, where all conditions hold.

        Raises:
            DTypeError: A condition is neither bool nor integer.
            CheckError: A condition is False already; or ``exc_type`` in its place.
        """
        conditions = [as_tensor(condition) for condition in conds]
        for condition in conditions:
            if np.dtype(condition.type.numpy_dtype).kind not in "biu":
                raise DTypeError(
                    f"{self.name}: {condition!r} is no condition.", "Compare it.", where(here())
                )
        return Tensor.make(self, as_tensor(value), *conditions)

    @property
    def name(self) -> str:
        return "check_and_raise"

    def infer(self, x: TensorType, *conditions: TensorType) -> TensorType:
        return x

    def perform(self, x: np.ndarray[Any, Any], *conditions: Any) -> Any:
        if not all(np.all(condition) for condition in conditions):
            kind: Any = self.exc_type
            raise failed(kind)(self.msg)
        return x

    def pullback(self, g: Tensor, y: Tensor, x: Tensor, *conditions: Tensor) -> Sequence[Any]:
        return (g, *[None] * len(conditions))

    def pushforward(self, tangents: Sequence[Any], y: Tensor, *inputs: Tensor) -> Any:
        return tangents[0]

    def batch(self, size: Any, batched: Sequence[bool], *inputs: Tensor) -> Node:
        """The array of the batch, for which the conditions hold throughout."""
        return Tensor.make(self, *inputs)

    def token(self) -> str:
        kind = f"{self.exc_type.__module__}.{self.exc_type.__qualname__}"
        return f"CheckAndRaise({kind},{self.msg!r})"

    def unwritten(self) -> Any:
        kind = self.exc_type
        return None if kind.__module__ == "builtins" or issubclass(kind, GraphcError) else kind


@cache
def failed(kind: Any) -> Any:
    """The class of what is raised for a class of exceptions: one of graphc's too."""
    if kind is AssertionError:
        return CheckError
    if issubclass(kind, GraphcError):
        return kind
    namespace = {"__module__": "graphc.errors", "__doc__": CheckError.__doc__}
    return type(kind.__name__, (GraphcError, kind), namespace)


class Assert(CheckAndRaise):
    """``CheckAndRaise`` of an ``AssertionError``.

    Args:
        msg: What it says.

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
"""``Assert`` with a message that says no more than that."""
