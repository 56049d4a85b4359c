"""Declared lengths: known from here on, and checked at run time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphc.errors import ShapeError
from graphc.ir import Op, Shape as StaticShape, TensorType
from graphc.tensor.core.shape import are_equal, entries, target_shape
from graphc.tensor.core.tensor import Tensor, TensorLike, as_tensor, axes_of, function


@dataclass(frozen=True, slots=True)
class SpecifyShape(Op):
    """The array with declared lengths; None stands for an input, -1 for any length.

    Attributes:
        shape: The lengths.
        title: What messages say that it is.
    """

    shape: StaticShape
    title: str = field(default="specify_shape", repr=False)

    rearranges = True
    name = "specify_shape"

    def infer(self, x: TensorType, *symbolic: TensorType) -> TensorType:
        result: list[int | None] = []
        for axis, (n, wanted) in enumerate(zip(x.shape, self.shape, strict=True)):
            fixed = wanted is not None and wanted >= 0
            if fixed and n not in {None, wanted}:
                raise ShapeError(
                    f"{self.title}({x!r}): axis {axis} has length {n}, not {wanted}.",
                    "Leave that length open with None.",
                )
            result.append(wanted if fixed else n)
        return x.with_shape(tuple(result))

    def host_inputs(self) -> tuple[int, ...]:
        return tuple(range(1, 1 + self.shape.count(None)))

    def admit(self, x_shape: tuple[int, ...], symbolic: Sequence[Any]) -> None:
        """Raise if the shape is not the specified one."""
        # -1 stands for any length where it is static, and is none where it is computed.
        target_shape((None,) * len(symbolic), symbolic)
        target = target_shape(self.shape, symbolic, least=-1)
        if not all(m == -1 or are_equal(n, m) for n, m in zip(x_shape, target, strict=True)):
            wanted = ", ".join("?" if m == -1 else str(m) for m in target)
            raise ShapeError(
                f"{self.title}: an array of shape {tuple(x_shape)} does not have the shape "
                f"({wanted}).",
                "Pass an array of that shape, or specify another one.",
            )

    def perform(self, x: np.ndarray[Any, Any], *symbolic: Any) -> np.ndarray[Any, Any]:
        self.admit(np.shape(x), symbolic)
        return x

    def pullback(self, g: Tensor, y: Tensor, x: Tensor, *symbolic: Tensor) -> Sequence[Any]:
        return (g, *(None for _ in symbolic))

    def pushforward(self, tangents: Sequence[Any], y: Tensor, x: Tensor, *symbolic: Tensor) -> Any:
        return tangents[0]

    def batch(self, size: Any, batched: Sequence[bool], x: Tensor, *symbolic: Tensor) -> Tensor:
        return Tensor.make(SpecifyShape((-1, *self.shape), self.title), x, *symbolic)


@function
def specify_shape(x: TensorLike, shape: Any) -> Tensor:
    """Return the array with a declared shape, which is checked at run time.

    Args:
        x: Any shape and dtype.
        shape: A length for each axis: a Python or symbolic integer, or None for any; or an
            int64 vector.

    Returns:
        The array, its type with the lengths that are Python integers.

    Raises:
        ShapeError: Another number of axes, or a length that x is known not to have.
        RuntimeShapeError: When it runs: x has another shape.

    Example:
        >>> import graphc.tensor as gt
        >>> specify_shape(gt.matrix("x"), (3, None)).type
        float64[3, ?]
    """
    return specified(as_tensor(x), shape, "specify_shape")


def specified(x: Tensor, shape: Any, title: str) -> Tensor:
    """Return ``specify_shape`` of an array, under the name of the function that messages are of."""
    if isinstance(shape, list | tuple):
        kept = [n for n in shape if n is not None]
        known, symbolic = entries(title, kept)
        given = iter(known)
        static = tuple(-1 if n is None else next(given) for n in shape)
    else:
        static, symbolic = entries(title, shape)
    if len(static) != x.ndim:
        raise ShapeError(
            f"{title}({x!r}): got {len(static)} lengths for {x.ndim} axes.",
            "Pass one for each axis, None for any length.",
        )
    same = all(m in {-1, n} for n, m in zip(x.type.shape, static, strict=True))
    return x if same and not symbolic else Tensor.make(SpecifyShape(static, title), x, *symbolic)


@function
def specify_broadcastable(x: TensorLike, *axes: int) -> Tensor:
    """Return the array with length 1 declared on these axes, so that they broadcast.

    Args:
        x: Any shape and dtype.
        axes: Which; negative ones count from the end.

    Raises:
        ShapeError: x has no such axis, or is known to have another length there.

    Example:
        >>> import graphc.tensor as gt
        >>> specify_broadcastable(gt.matrix("x"), 0).type
        float64[1, ?]
    """
    x = as_tensor(x)
    ones = axes_of("specify_broadcastable", axes, x.ndim)
    return specify_shape(x, [1 if axis in ones else None for axis in range(x.ndim)])
