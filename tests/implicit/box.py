"""A structure that can all, for tests of what structures are asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.implicit.structured import ElementwiseFunction, Structured
from graphc.implicit.treedef import dtype_of, lengths_of

__all__ = ["Box", "Plain", "numbers"]


@dataclass(frozen=True, repr=False)
class Box(Structured):
    """A whole array that can all a structure may be asked for, and asserts how it is asked."""

    values: Any

    def materialize(self) -> Any:
        return self.values

    @property
    def shape(self) -> tuple[Any, ...]:
        return lengths_of(self.values)

    @property
    def dtype(self) -> Any:
        return dtype_of(self.values)

    def rmatmul(self, x: Any) -> Any:
        given = lengths_of(x)
        assert len(given) == self.ndim >= 2
        assert given[:-2] == self.shape[:-2]
        assert given[-1] == self.shape[-2]
        x = x.values if isinstance(x, Box) else x
        return self.xp.matmul(x, self.values)

    def matrix_transpose(self) -> Any:
        return Box(self.xp.swapaxes(self.values, -1, -2))

    def permute(self, axes: tuple[int, ...]) -> Any:
        assert sorted(axes) == [*range(self.ndim)]
        return Box(self.xp.transpose(self.values, axes))

    def reshape_to(self, shape: tuple[int, ...]) -> Any:
        assert np.prod(shape) == self.size
        return Box(self.xp.reshape(self.values, shape))

    def broadcast(self, shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
        assert [*axes] == sorted(axes)
        xp = self.xp
        new = tuple(i for i in range(len(shape)) if i not in axes)
        return Box(xp.broadcast_to(xp.expand_dims(self.values, new), shape))

    def window(self, ranges: tuple[range, ...]) -> Any:
        for indices, n in zip(ranges, self.shape, strict=True):
            assert 0 <= indices.start <= indices.stop <= n
            assert indices.step >= 1
        return Box(self.values[tuple(slice(r.start, r.stop, r.step) for r in ranges)])

    def take_rows(self, index: Any) -> Any:
        return Box(self.xp.take(self.values, index, axis=0))

    def concatenate(self, others: Sequence[Any], axis: int) -> Any:
        return Box(self.xp.concatenate([self.values, *[x.values for x in others]], axis=axis))

    def cast(self, dtype: Any) -> Any:
        assert isinstance(dtype, np.dtype)
        assert dtype != self.dtype
        return Box(self.xp.cast(self.values, dtype))

    def scale_along(self, vector: Any, axis: int) -> Any:
        assert lengths_of(vector) == (self.shape[axis],)
        lengths = [1] * self.ndim
        lengths[axis] = -1
        return Box(self.values * self.xp.reshape(vector, tuple(lengths)))

    def elementwise(self, f: ElementwiseFunction, *others: Any) -> Any:
        assert all(lengths_of(x) == self.shape for x in others)
        return Box(f(*[x.values if isinstance(x, Box) else x for x in (self, *others)]))

    def reduce(self, name: str, axes: tuple[int, ...]) -> Any:
        return getattr(self.xp, name)(self.values, axis=axes)


@dataclass(frozen=True, repr=False)
class Plain(Box):
    """The same, which takes products only as matrices whose last two axes may change places."""

    def permute(self, axes: tuple[int, ...]) -> Any:
        order = tuple(range(self.ndim))
        if axes == order:
            return self
        return self.matrix_transpose() if axes == (*order[:-2], *order[:-3:-1]) else NotImplemented

    def matrix_transpose(self) -> Any:
        return Plain(self.xp.swapaxes(self.values, -1, -2))

    def reshape_to(self, shape: tuple[int, ...]) -> Any:
        return NotImplemented

    def broadcast(self, shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
        return NotImplemented


def numbers(shape: tuple[int, ...]) -> Any:
    """Of a normal distribution, the same each time."""
    return np.random.default_rng(len(shape)).normal(size=shape)
