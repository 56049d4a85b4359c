"""Declared lengths: known from here on, and checked at run time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphc.errors import ShapeError
from graphc.ir import Node, Shape as StaticShape, TensorType
from graphc.ir.law import named_checks
from graphc.ir.lengths import agree, common, require
from graphc.tensor.core.shape import SameArray, are_equal, entries, fill_shape, target_shape
from graphc.tensor.core.tensor import Tensor, TensorLike, as_tensor, axes_of, function

__all__ = ["specify_broadcastable", "specify_shape"]


@dataclass(frozen=True, slots=True)
class SpecifyShape(SameArray):
    """The array with declared lengths; None stands for an input, -1 for any length.

    Attributes:
        shape: The lengths.
        title: The function's name in messages.
    """

    shape: StaticShape
    title: str = field(default="specify_shape", repr=False)

    rearranges = True
    name = "specify_shape"

    def infer(self, x: TensorType, *symbolic: TensorType) -> TensorType:
        expected = fill_shape(self.shape, symbolic)
        require(*expected)
        result: list[Any] = []
        for axis, (n, wanted) in enumerate(zip(x.shape, expected, strict=True)):
            if wanted != -1 and not agree(n, wanted):
                raise ShapeError(
                    f"{self.title}({x!r}): axis {axis} has length {n}, not {wanted}.",
                    "Leave that length open with None.",
                )
            result.append(n if wanted == -1 else common(n, wanted))
        return x.with_shape(tuple(result))

    def admit(self, x_shape: tuple[int, ...], symbolic: Sequence[Any]) -> None:
        # -1 stands for any length where it is static, and is none where it is computed.
        target_shape((None,) * len(symbolic), symbolic)
        target = target_shape(self.shape, symbolic, least=-1)
        if not all(m == -1 or are_equal(n, m) for n, m in zip(x_shape, target, strict=True)):
            lengths = ["?" if m == -1 else str(m) for m in target]
            shape = f"({', '.join(lengths)}{',' * (len(lengths) == 1)})"
            raise ShapeError(
                f"{self.title}: an array of shape {tuple(x_shape)} does not have the shape "
                f"{shape}.",
                "Pass an array of that shape, or specify another one.",
            )

    def perform(self, x: np.ndarray[Any, Any], *symbolic: Any) -> np.ndarray[Any, Any]:
        self.admit(np.shape(x), symbolic)
        return x

    def batch(self, size: Any, batched: Sequence[bool], x: Tensor, *symbolic: Tensor) -> Tensor:
        return Tensor.make(SpecifyShape((-1, *self.shape), self.title), x, *symbolic)


@function
def specify_shape(x: TensorLike, shape: Any) -> Tensor:
    """Return the array with a declared shape, which is checked at run time.

    Args:
        x: Any shape and dtype.
        shape: A length for each axis: a Python or symbolic integer, or None for any, and ``...``
            for axes of any length; or an int64 vector.

    Returns:
        The array, its type with the lengths that are Python integers.

    Raises:
        ShapeError: If x has another number of axes, or statically another length.
        RuntimeShapeError: If x has another shape in a call.

    Example:
        >>> import graphc.tensor as gt
        >>> specify_shape(gt.matrix("x"), (3, None)).type
        float64[3, ?]
    """
    return specify(as_tensor(x), shape, "specify_shape")


def specify(x: Tensor, shape: Any, title: str) -> Tensor:
    """Return ``specify_shape`` of an array, under another function's name in messages."""
    if isinstance(shape, list | tuple):
        shape = _without_ellipsis(shape, x.ndim)
        lengths = [n for n in shape if n is not None]
        fixed, symbolic = entries(title, lengths)
        values = iter(fixed)
        static = tuple(-1 if n is None else next(values) for n in shape)
    else:
        static, symbolic = entries(title, shape)
    if len(static) != x.ndim:
        raise ShapeError(
            f"{title}({x!r}): got {len(static)} lengths for {x.ndim} axes.",
            "Pass one for each axis, None for any length.",
        )
    same = all(m in {-1, n} for n, m in zip(x.type.shape, static, strict=True))
    return x if same and not symbolic else Tensor.make(SpecifyShape(static, title), x, *symbolic)


def specify_named(inputs: Sequence[Node], arrays: Sequence[Any], title: str) -> list[Any]:
    """Return arrays in the place of inputs, with equal lengths where the inputs' have one name."""
    results = [*arrays]
    for a, m, b, n in named_checks(inputs):
        x = results[b]
        shape = [results[a].shape[m] if axis == n else None for axis in range(x.ndim)]
        results[b] = specify(x, shape, title)
    return results


def _without_ellipsis(shape: Sequence[Any], ndim: int) -> list[Any]:
    """Return lengths with None for each axis that an ellipsis stands for."""
    dots = [i for i, n in enumerate(shape) if n is Ellipsis]
    missing = [None] * (ndim + 1 - len(shape))
    return [*shape[: dots[0]], *missing, *shape[dots[0] + 1 :]] if len(dots) == 1 else [*shape]


@function
def specify_broadcastable(x: TensorLike, *axes: int) -> Tensor:
    """Return the array with length 1 declared on these axes, so that they broadcast.

    Args:
        x: Any shape and dtype.
        axes: The axes; negative ones count from the end.

    Raises:
        ShapeError: x has no such axis, or is known to have another length there.

    Example:
        >>> import graphc.tensor as gt
        >>> specify_broadcastable(gt.matrix("x"), 0).type
        float64[1, ?]
    """
    x = as_tensor(x)
    unit_axes = axes_of("specify_broadcastable", axes, x.ndim)
    return specify_shape(x, [1 if axis in unit_axes else None for axis in range(x.ndim)])
