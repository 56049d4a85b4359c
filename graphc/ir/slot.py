"""Slots: leaves without arrays, in a program that functions with different arrays share."""

from __future__ import annotations

from graphc.ir.node import Leaf
from graphc.ir.types import Type


class Slot(Leaf):
    """A leaf without its array.

    Attributes:
        position: The leaf's index among the graph's leaves, in the order of ``Graph.canonical``.
    """

    __slots__ = ("given_type", "position")

    def __init__(self, position: int, type: Type, name: str | None = None) -> None:
        self.position = position
        self.given_type = type
        self.given_name = name

    def __eq__(self, other: object) -> bool:
        return type(other) is Slot and (other.position, other.given_type, other.given_name) == (
            self.position,
            self.given_type,
            self.given_name,
        )

    def __hash__(self) -> int:
        return hash((self.position, self.given_type))

    def infer(self) -> Type:  # type: ignore[override]
        return self.given_type

    def token(self) -> str:
        return f"leaf {self.given_type!r}"
