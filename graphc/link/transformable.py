"""Functions that a backend's library differentiates and batches: their rules are graphs again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from graphc.ir import TensorType


class Transformable(Protocol):
    """A function of arrays that knows its derivatives and batches; equal to itself alone."""

    @property
    def arguments(self) -> Sequence[TensorType]:
        """The types of what it takes."""

    @property
    def results(self) -> Sequence[TensorType]:
        """The types of what it gives."""

    @property
    def bound(self) -> Callable[..., Sequence[Any]]:
        """It, as what the library transforms by the rules below."""

    def run(self, *arrays: Any) -> Sequence[Any]:
        """The results for arrays of those dtypes; the library may trace it."""

    def pushed(self, moved: tuple[int, ...], wanted: tuple[int, ...]) -> Transformable:
        """The tangents of wanted results, given the arguments and tangents of some of them."""

    def pulled(self, wanted: tuple[int, ...], given: tuple[int, ...]) -> Transformable:
        """The gradients by wanted arguments, given the arguments and cotangents of results."""

    def transposed(
        self, wanted: tuple[int, ...], given: tuple[int, ...]
    ) -> tuple[Transformable, range]:
        """The same of what is linear in the wanted ones, and which arguments come before."""

    def batched(self, flags: tuple[bool, ...]) -> Transformable:
        """All results for a batch, the leading axis of those arguments that are flagged."""
