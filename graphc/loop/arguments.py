"""Arguments of loops: the number of steps, the step function and the condition that ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

import numpy as np

from graphc.config import short_traceback
from graphc.errors import ArgumentError, DTypeError
from graphc.ir import Constant, Node, is_integer, unwrap
from graphc.tensor.core.captured import within
from graphc.tensor.core.elementwise import cast, minimum, not_equal
from graphc.tensor.core.tensor import Tensor, as_tensor

Count = int | Tensor
"""A number of steps: an integer, or an int64 scalar."""


def title_of(name: Any, kind: str) -> str:
    """Return the name of a loop in messages."""
    if name is not None and not isinstance(name, str):
        raise ArgumentError(f"{kind}: the name {name!r} is not a string.")
    return kind if name is None else name


def call_user(
    title: str,
    function: Callable[..., Any],
    arguments: Sequence[Any],
    order: str,
    what: str = "step",
) -> Any:
    """Call a user's function and return its result.

    Args:
        title: The loop's name in messages.
        function: The function.
        arguments: Its arguments.
        order: The arguments in words, in their order, for messages.
        what: The function's role in messages.
    """
    if not callable(function):
        raise ArgumentError(
            f"{title}: the {what} {function!r} is not a function.",
            f"Give a function. Its arguments are: {order}.",
        )
    try:
        signature(function).bind(*arguments)
    except ValueError:
        pass  # a built-in function without a signature
    except TypeError as error:
        names = ", ".join(str(getattr(x, "name", None) or x) for x in arguments)
        raise ArgumentError(
            f"{title}: the {what} {getattr(function, '__name__', function)} does not take "
            f"{len(arguments)} arguments{names and f' ({names})'}: {error}.",
            f"Their order is: {order}. Past outputs are given by outputs_info=[initial value]."
            if what == "step"
            else f"Their order is: {order}.",
        ) from None
    with within(function), short_traceback():
        return function(*arguments)


def number_of_steps(title: str, value: Any, what: str = "n_steps") -> Count | None:
    """Return a number of steps as None, an integer, or an int64 scalar.

    Raises:
        DTypeError: If the value is not an integer scalar.
        ArgumentError: If the number is negative.
    """
    if value is None:
        return None
    n = as_tensor(value) if isinstance(value, Node | np.ndarray | np.generic) else value
    if isinstance(n, Tensor):
        if not is_integer(n.dtype) or n.ndim:
            raise _no_integer(title, what, value)
        if not isinstance(n.op, Constant):
            return cast(n, "int64")
        n = int(n.op.value)
    if isinstance(n, bool) or not isinstance(n, int):
        raise _no_integer(title, what, value)
    if n < 0:
        raise ArgumentError(f"{title}: {what}={n}.", "Use a number from 0 on.")
    return n


def _no_integer(title: str, what: str, value: Any) -> DTypeError:
    return DTypeError(
        f"{title}: {what}={value!r}.",
        "Give an integer, Python's or a symbolic scalar: gt.lscalar, x.shape[0], .astype('int64').",
    )


def smallest_count(counts: Sequence[Count]) -> Count | None:
    """Return the smallest of several numbers, or None if there are none."""
    integers = [n for n in counts if isinstance(n, int)]
    symbolic = list(dict.fromkeys(n for n in counts if isinstance(n, Tensor)))
    if not symbolic:
        return min(integers, default=None)
    result = symbolic[0]
    others: list[Count] = [*symbolic[1:], *([min(integers)] if integers else [])]
    for n in others:
        result = minimum(result, n)
    return result


def stop_condition(title: str, condition: Any) -> Tensor:
    """Return a stop condition as a symbolic bool scalar."""
    stop: Tensor = as_tensor(unwrap(condition))
    if stop.dtype != "bool" or stop.ndim:
        raise DTypeError(
            f"{title}: the condition {stop!r} is not a bool scalar.",
            "Compare: x > 0; and reduce: gt.all(...), gt.any(...).",
        )
    return stop


def unrolling(title: str, value: Any) -> int:
    """Return the largest number of steps that a backend may unroll."""
    if value is None:
        return 1
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ArgumentError(f"{title}: unroll={value!r}.", "Use a number from 1 on.")
    return value


class until:  # noqa: N801 (PyTensor's name; it reads as a statement)
    """A condition that ends a scan after this step, returned by the step after its outputs.

    Args:
        condition: A scalar, bool or numeric; the step is the last one, and its outputs count, if
            the condition is not zero.

    Raises:
        DTypeError: If the condition is not a scalar.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> powers = graphc.scan(
        ...     lambda x: (x * 2, graphc.until(x * 2 > 10)), outputs_info=1, n_steps=100
        ... )
        >>> powers.eval(mode="NUMPY").tolist()
        [2, 4, 8, 16]
    """

    __slots__ = ("condition",)

    def __init__(self, condition: Any) -> None:
        stop = as_tensor(unwrap(condition))
        is_bool = stop.dtype == "bool" or stop.ndim
        self.condition = stop_condition("until", stop if is_bool else not_equal(stop, 0))

    def __repr__(self) -> str:
        return f"until({self.condition!r})"
