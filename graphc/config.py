"""The few settings that change what graphc does; each can also be given where it applies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["Config", "config"]

FLOATS = ("float16", "float32", "float64")


class Config:
    """Settings with their defaults; an unknown name or value is an error.

    Attributes:
        floatX: The dtype of ``gt.vector("v")``, ``gt.zeros(3)`` and the like: ``"float64"``,
            ``"float32"`` or ``"float16"``.
        mode: The mode of ``function`` and ``eval`` where none is given: its name, or a
            ``graphc.Mode``.
        specializations: How many executables one function keeps for different values of
            integer arguments that decide shapes.

    Example:
        >>> from graphc import config
        >>> with config.change_flags(floatX="float32"):
        ...     config.floatX
        'float32'
        >>> config.floatX
        'float64'
    """

    __slots__ = ("floatX", "mode", "specializations")

    floatX: str  # noqa: N815 (the name that users of the field know)
    mode: Any
    specializations: int

    def __init__(self) -> None:
        self.floatX = "float64"
        self.mode = "JAX"
        self.specializations = 64

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "floatX" and value not in FLOATS:
            raise ValueError(f"config.floatX = {value!r}: use one of {', '.join(FLOATS)}.")
        whole = isinstance(value, int) and not isinstance(value, bool)
        if name == "specializations" and not (whole and value >= 1):
            raise ValueError(f"config.{name} = {value!r}: use a positive integer.")
        if name not in self.__slots__:
            raise AttributeError(f"No setting {name!r}; there are {', '.join(self.__slots__)}.")
        object.__setattr__(self, name, value)

    @contextmanager
    def change_flags(self, **settings: Any) -> Iterator[None]:
        """These settings within a ``with`` block, the earlier ones after it."""
        before = {name: getattr(self, name) for name in settings}
        try:
            for name, value in settings.items():
                setattr(self, name, value)
            yield
        finally:
            for name, value in before.items():
                setattr(self, name, value)


config = Config()
