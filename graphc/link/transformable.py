"""Functions that a backend's library transforms; their derivatives and batches are graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from graphc.ir import TensorType


class Transformable(Protocol):
    """A function of arrays with derivatives and batches; two objects are never equal."""

    @property
    def arguments(self) -> Sequence[TensorType]:
        """The types of the arguments."""

    @property
    def results(self) -> Sequence[TensorType]:
        """The types of the results."""

    @property
    def bound(self) -> Callable[..., Sequence[Any]]:
        """The function that the library transforms by the rules below."""

    def run(self, *arrays: Any) -> Sequence[Any]:
        """Return the results; the library may trace the call."""

    def jvp(self, moved: tuple[int, ...], wanted: tuple[int, ...]) -> Transformable:
        """Return the function from arguments and tangents to tangents of ``wanted`` results."""

    def vjp(self, wanted: tuple[int, ...], given: tuple[int, ...]) -> Transformable:
        """Return the function from arguments and cotangents to ``wanted`` gradients."""

    def transpose(
        self, wanted: tuple[int, ...], given: tuple[int, ...]
    ) -> tuple[Transformable, range]:
        """Return the transpose in ``wanted`` arguments, and the arguments before cotangents."""

    def batch(self, flags: tuple[bool, ...]) -> Transformable:
        """Return the function for a batch along the leading axis of flagged arguments."""
