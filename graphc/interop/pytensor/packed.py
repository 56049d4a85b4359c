"""Packing of small results into one array: each array that a backend returns costs time."""

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
"""The fewest results that are packed: unpacking two costs what was gained."""

LARGEST = 200
"""The most elements of a packed result: copying more costs what was gained."""


def _is_small(type: Any) -> bool:
    is_known = isinstance(type, TensorType) and type.is_static
    return is_known and prod(_shape(type)) <= LARGEST


def _shape(type: Any) -> tuple[int, ...]:
    return tuple(int(n) for n in type.shape)


@dataclass(frozen=True)
class Packing:
    """Which results are packed, and where they are in the packed array.

    Attributes:
        number: The number of results.
        slots: The index, the slice and the shape of each packed result.
    """

    number: int
    slots: tuple[tuple[int, Any, tuple[int, ...]], ...]

    @classmethod
    def of(cls, outputs: Sequence[Tensor], apart: Collection[int]) -> Packing | None:
        """Return the packing of as many results as possible, or None for too few.

        Args:
            outputs: The results.
            apart: The indices of results that are not packed.
        """
        indices: dict[str, list[int]] = {}
        for i, y in enumerate(outputs):
            if i not in apart and _is_small(y.type):
                indices.setdefault(y.type.dtype, []).append(i)
        chosen = max(indices.values(), key=len, default=[])
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
        """Return the packed array and the other results."""
        packed = [i for i, _, _ in self.slots]
        flat = concatenate([outputs[i].reshape((-1,)) for i in packed])
        return [flat, *(y for i, y in enumerate(outputs) if i not in packed)]

    def unpack(self, results: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        """Return the results; the packed ones are views."""
        flat, *others = results
        unpacked: list[Any] = [None] * self.number
        for i, cut, shape in self.slots:
            x = flat[cut]
            unpacked[i] = x if len(shape) < 2 else x.reshape(shape)
        if others:
            remaining = iter(others)
            return [next(remaining) if y is None else y for y in unpacked]
        return unpacked
