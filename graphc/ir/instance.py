"""Attributes that the instances of a class have values of their own of, such as ``__doc__``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class OfInstance:
    """An attribute, such as ``__doc__``, that instances compute and their class has a value of.

    Args:
        of_class: The class's value.
        compute: Gives an instance's value.
    """

    def __init__(self, of_class: Any, compute: Callable[[Any], Any]) -> None:
        self.of_class = of_class
        self.compute = compute

    def __get__(self, instance: Any, cls: type) -> Any:
        return self.of_class if instance is None else self.compute(instance)
