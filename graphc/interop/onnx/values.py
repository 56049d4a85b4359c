"""What stands for an ONNX value: a symbolic array, or one whose elements are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.compile import shared as shared_variable
from graphc.ir import DTYPES
from graphc.tensor import Tensor

FEW = 64
"""Up to so many elements, an array is computed while the model is loaded."""


class Refusal(Exception):  # noqa: N818 (it reads as what is raised)
    """graphc has no operations for a node with these attributes or operands, with the reason."""


@dataclass(eq=False)
class Known:
    """An array whose elements are numbers, or integers that are computed from lengths.

    Shapes are computed by nodes: an array of an axis' length and two numbers is one of these.

    Attributes:
        array: Numbers; or objects, integers and symbolic scalars.
        dtype: The dtype, by its name.
        name: The name of an initializer.
        is_shared: Whether it is a shared variable in the graph.
        is_narrow: Whether ONNX has it as integers of 2 or 4 bits.
        is_fixed: Whether its elements decide what the graph is.
        made: The symbolic array, once it was asked for.
    """

    array: np.ndarray[Any, Any]
    dtype: str
    name: str | None = None
    is_shared: bool = False
    is_narrow: bool = False
    is_fixed: bool = False
    made: Tensor | None = field(default=None, repr=False)

    @classmethod
    def of(cls, array: Any, dtype: str | None = None) -> Known:
        """Numbers, or integers and symbolic scalars."""
        array = np.asarray(array)
        if dtype is None:
            dtype = array.dtype.name
        if array.dtype != object:
            return cls(array.astype(dtype, copy=False), dtype)
        if not any(isinstance(x, Tensor) for x in array.flat):
            return cls(array.astype(dtype), dtype)
        return cls(array, dtype)

    @classmethod
    def of_list(cls, entries: Sequence[Any], dtype: str = "int64") -> Known:
        """A vector of integers and symbolic scalars."""
        array = np.empty(len(entries), object)
        for i, entry in enumerate(entries):  # NumPy would look into a symbolic one
            array[i] = entry
        return cls.of(array, dtype)

    @property
    def is_symbolic(self) -> bool:
        """Whether some elements are symbolic."""
        return self.array.dtype == object and self.dtype in DTYPES

    def tensor(self) -> Tensor:
        """The symbolic array, the same one each time."""
        if self.made is None:
            self.made = self._make()
        return self.made

    def _make(self) -> Tensor:
        if self.dtype not in DTYPES:
            raise Refusal(f"symbolic arrays have no {self.dtype}")
        if self.is_symbolic:
            entries = [gt.as_tensor(x, dtype=self.dtype) for x in self.array.flat]
            return gt.reshape(gt.stack(entries), self.array.shape)
        if self.is_shared:
            return shared_variable(self.array, self.name, shape=self.array.shape)
        return gt.constant(self.array, self.name, self.dtype)


Value = Tensor | Known | list[Any] | None
"""A list is a sequence of ONNX; None stands for an operand that is left out."""


def tensor_of(value: Value) -> Tensor:
    """A value as a symbolic array."""
    if isinstance(value, Known):
        return value.tensor()
    if not isinstance(value, Tensor):
        raise Refusal("an operand is no array, where one is needed")
    return value


def entries_of(value: Value) -> list[Any]:
    """The elements of a vector: integers where they are known, else symbolic scalars."""
    if isinstance(value, Known):
        return [x if isinstance(x, Tensor) else int(x) for x in value.array.reshape(-1)]
    x = tensor_of(value)
    if x.ndim == 0:
        return [x]
    if x.ndim > 1 or x.type.shape[0] is None:
        raise Refusal(f"how many lengths the operand {x!r} holds is unknown")
    return [x[i] for i in range(x.type.shape[0])]


def axis_of(axis: int, ndim: int) -> int:
    """An axis counted from the first.

    Raises:
        ValueError: There is none.
    """
    if not -ndim <= axis < ndim:
        raise ValueError(f"there is no axis {axis} of {ndim}")
    return axis % ndim


def with_axes(x: Tensor, ndim: int, first: int) -> Tensor:
    """A vector, or an array, whose first axis stands at a place of ``ndim`` axes."""
    return gt.dimshuffle(x, [*["x"] * first, *range(x.ndim), *["x"] * (ndim - first - x.ndim)])
