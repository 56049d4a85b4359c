"""Arrays that are printed when they are computed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.tensor.core.shape import SameArray
from graphc.tensor.core.tensor import Tensor, as_tensor


@dataclass(frozen=True)
class Print(SameArray):
    """An array, unchanged, that is printed whenever it is computed.

    Every backend prints, in loops and branches too. MLX first computes the nodes before the array,
    and JAX prints as soon as the value is there, which may be after the call has returned:
    ``jax.effects_barrier()`` waits for that. Arrays that no output needs are not computed, and so
    not printed; equal arrays printed with equal messages are one.

    Args:
        message: Printed before the value.
        attrs: The names of the array's attributes to print; methods are called.
        global_fn: The function to call instead of printing, with this operation and the array.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> y = graphc.Print("doubled", attrs=("__str__", "shape"))(2 * x)
        >>> f = graphc.function([x], y.sum(), mode="NUMPY")
        >>> total = f([1.0, 2.0])
        doubled __str__ = [2. 4.]
        doubled shape = (2,)
    """

    message: str = ""
    attrs: Sequence[str] = ("__str__",)
    global_fn: Callable[[Print, np.ndarray[Any, Any]], Any] | None = None

    by_numpy = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "attrs", tuple(self.attrs))

    def __call__(self, x: Any) -> Tensor:
        """Return the array, printed when it is computed."""
        return Tensor.make(self, as_tensor(x))

    name = "print"

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        self.show(x)
        return x

    def show(self, x: np.ndarray[Any, Any]) -> None:
        if self.global_fn is not None:
            self.global_fn(self, x)
            return
        for name in self.attrs:
            attribute = getattr(x, name)
            value = attribute() if callable(attribute) else attribute
            sys.stdout.write(f"{self.message} {name} = {value}\n")

    def token(self) -> str:
        return f"Print({self.message!r},{self.attrs!r},{self.global_fn is not None})"

    def unwritten(self) -> Any:
        return self.global_fn
