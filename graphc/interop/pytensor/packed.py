"""Small results as parts of one array: each array that a compiled backend returns costs a while."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

from graphc.ir import TensorType
from graphc.tensor.arrays.join import concatenate
from graphc.tensor.core.tensor import Tensor

FEWEST = 3
"""Results: of two, taking them apart costs what was gained."""

LARGEST = 200
"""The most elements of a result; to copy more costs what is gained."""


def _is_small(type: Any) -> bool:
    is_known = isinstance(type, TensorType) and type.is_static
    return is_known and prod(_shape(type)) <= LARGEST


def _shape(type: Any) -> tuple[int, ...]:
    return tuple(int(n) for n in type.shape)


@dataclass(frozen=True)
class Packing:
    """Which results are put together, and where they are in the array of them.

    Attributes:
        number: How many results there are.
        parts: For each result that is packed its place, its elements and its shape.
    """

    number: int
    parts: tuple[tuple[int, Any, tuple[int, ...]], ...]

    @classmethod
    def of(cls, outputs: Sequence[Tensor], apart: Collection[int]) -> Packing | None:
        """The packing of as many results as can be; None where it is not worthwhile.

        Args:
            outputs: The results.
            apart: The places of those that stay by themselves.
        """
        places: dict[str, list[int]] = {}
        for i, y in enumerate(outputs):
            if i not in apart and _is_small(y.type):
                places.setdefault(y.type.dtype, []).append(i)
        chosen = max(places.values(), key=len, default=[])
        if len(chosen) < FEWEST:
            return None
        shapes = [_shape(outputs[i].type) for i in chosen]
        starts = [0, *accumulate(prod(shape) for shape in shapes)]
        cuts = [
            slice(start, end) if shape else (start, ...)
            for start, end, shape in zip(starts[:-1], starts[1:], shapes, strict=True)
        ]
        return cls(len(outputs), tuple(zip(chosen, cuts, shapes, strict=True)))

    def pack(self, outputs: Sequence[Tensor]) -> list[Tensor]:
        """The array of the packed results, and the others."""
        packed = [i for i, _, _ in self.parts]
        flat = concatenate([outputs[i].reshape((-1,)) for i in packed])
        return [flat, *(y for i, y in enumerate(outputs) if i not in packed)]

    def unpack(self, results: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        """The results, those that were packed as views."""
        flat, *others = results
        found: list[Any] = [None] * self.number
        for i, cut, shape in self.parts:
            part = flat[cut]
            found[i] = part if len(shape) < 2 else part.reshape(shape)
        if others:
            left = iter(others)
            return [next(left) if y is None else y for y in found]
        return found
