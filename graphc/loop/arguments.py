"""Arguments of loops: the number of steps, the step function and the condition that ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, DTypeError
from graphc.ir import Constant, Node, is_integer, unwrapped
from graphc.tensor.core.captured import within
from graphc.tensor.core.elementwise import cast, minimum
from graphc.tensor.core.tensor import Tensor, as_tensor

Count = int | Tensor
"""A number of steps: known, or an int64 scalar."""


def titled(name: Any, kind: str) -> str:
    """Return the name of a loop in messages.

    Raises:
        ArgumentError: The name is not a string.
    """
    if name is not None and not isinstance(name, str):
        raise ArgumentError(f"{kind}: the name {name!r} is not a string.")
    return kind if name is None else name


def called(
    title: str, step: Callable[..., Any], given: Sequence[Any], order: str, what: str = "step"
) -> Any:
    """Call a user's function and return its result.

    Args:
        title: What messages call the loop.
        step: The function.
        given: What it is given.
        order: Says what that is, and in which order.
        what: What messages call the function.

    Raises:
        ArgumentError: It is not a function, or takes another number of arguments.
    """
    if not callable(step):
        raise ArgumentError(
            f"{title}: the {what} {step!r} is not a function.",
            f"Give a function. Its arguments are: {order}.",
        )
    try:
        signature(step).bind(*given)
    except ValueError:
        pass  # a built-in function that does not tell
    except TypeError as error:
        names = ", ".join(str(getattr(x, "name", None) or x) for x in given)
        raise ArgumentError(
            f"{title}: the {what} {getattr(step, '__name__', step)} does not take {len(given)} "
            f"arguments{names and f' ({names})'}: {error}.",
            f"Their order is: {order}.",
        ) from error
    with within(step):
        return step(*given)


def number_of_steps(title: str, given: Any, what: str = "n_steps") -> Count | None:
    """A number of steps as it was given: None, an integer, or a symbolic one.

    Raises:
        DTypeError: It is not an integer scalar.
        ArgumentError: It is negative.
    """
    if given is None:
        return None
    n = as_tensor(given) if isinstance(given, Node | np.ndarray | np.generic) else given
    if isinstance(n, Tensor):
        if not is_integer(n.dtype) or n.ndim:
            raise _no_integer(title, what, given)
        if not isinstance(n.op, Constant):
            return cast(n, "int64")
        n = int(n.op.value)
    if isinstance(n, bool) or not isinstance(n, int):
        raise _no_integer(title, what, given)
    if n < 0:
        raise ArgumentError(f"{title}: {what}={n}.", "Use a number from 0 on.")
    return n


def _no_integer(title: str, what: str, given: Any) -> DTypeError:
    return DTypeError(
        f"{title}: {what}={given!r}.",
        "Give an integer, Python's or a symbolic scalar: gt.lscalar, x.shape[0], .astype('int64').",
    )


def fewest(given: Sequence[Count]) -> Count | None:
    """The smallest of several numbers; None where there is none."""
    known = [n for n in given if isinstance(n, int)]
    unknown = list(dict.fromkeys(n for n in given if isinstance(n, Tensor)))
    if not unknown:
        return min(known, default=None)
    found = unknown[0]
    others: list[Count] = [*unknown[1:], *([min(known)] if known else [])]
    for n in others:
        found = minimum(found, n)
    return found


def stopping(title: str, condition: Any) -> Tensor:
    """Whether to stop, as a symbolic array.

    Raises:
        DTypeError: It is not a bool scalar.
    """
    found: Tensor = as_tensor(unwrapped(condition))
    if found.dtype != "bool" or found.ndim:
        raise DTypeError(
            f"{title}: the condition {found!r} is not a bool scalar.",
            "Compare: x > 0; and reduce: gt.all(...), gt.any(...).",
        )
    return found


def unrolled(title: str, given: Any) -> int:
    """Return the number of steps that may be written out at a time.

    Raises:
        ArgumentError: It is not a positive integer.
    """
    if given is None:
        return 1
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise ArgumentError(f"{title}: unroll={given!r}.", "Use a number from 1 on.")
    return given


class until:  # noqa: N801 (PyTensor's name; it reads as a statement)
    """A condition that ends a scan after this step, returned by the step after its outputs.

    Args:
        condition: A bool scalar: whether this step is the last one. Its outputs are kept.

    Raises:
        DTypeError: It is not a bool scalar.

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
        self.condition = stopping("until", condition)

    def __repr__(self) -> str:
        return f"until({self.condition!r})"
