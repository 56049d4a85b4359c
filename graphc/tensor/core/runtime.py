"""Python numbers that are passed to a program at run time instead of being constants of it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Protocol, overload

import numpy as np

from graphc.errors import ArgumentError
from graphc.ir import Node, numpy_dtype


class Runtime:
    """A number passed at run time: the base of the classes of marked numbers.

    Attributes:
        number: The plain number.
        weak: Whether the number takes the dtype of arrays beside it, as a Python number does.
    """

    number: Any
    weak: bool

    def array(self, dtype: str | None = None) -> np.ndarray[Any, Any]:
        """Return the number as a 0-d array, always the same one: graphs know it by identity."""
        arrays: dict[str | None, np.ndarray[Any, Any]] = self.__dict__.setdefault("_arrays", {})
        if dtype not in arrays:
            array = np.array(self.number, None if dtype is None else numpy_dtype(dtype))
            return arrays.setdefault(dtype, array)
        return arrays[dtype]

    # NumPy takes a float for weak only where it is a float and no more.

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        if any(isinstance(x, Node) for x in args):
            return NotImplemented
        return getattr(ufunc, method)(*map(_unmark, args), **kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if any(issubclass(x, Node) for x in types):
            return NotImplemented
        return func(*map(_unmark, args), **{name: _unmark(x) for name, x in kwargs.items()})

    def __repr__(self) -> str:
        return f"runtime({self.number!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return runtime, (self.number,)

    def __copy__(self) -> Runtime:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Runtime:
        return self


def _unmark(x: Any) -> Any:
    if isinstance(x, list | tuple):
        return [_unmark(part) for part in x]
    return x.number if isinstance(x, Runtime) else x


class RuntimeFloat(Runtime, float):
    """A marked float."""


class RuntimeInt(Runtime, int):
    """A marked int."""


class RuntimeBool(Runtime, int):
    """A marked bool; Python allows no subclass of bool."""


class RuntimeComplex(Runtime, complex):
    """A marked complex."""


_CLASSES: tuple[tuple[tuple[type, ...], type[Any]], ...] = (
    ((bool, np.bool_), RuntimeBool),
    ((int, np.integer), RuntimeInt),
    ((float, np.floating), RuntimeFloat),
    ((complex, np.complexfloating), RuntimeComplex),
)


class SupportsArray(Protocol):
    """An array of any library that NumPy can read: of NumPy, JAX or MLX."""

    def __array__(self) -> Any: ...


@overload
def runtime(x: int) -> int: ...


@overload
def runtime(x: float) -> float: ...


@overload
def runtime(x: complex) -> complex: ...


@overload
def runtime(x: SupportsArray) -> Any: ...


def runtime(x: Any) -> Any:
    """Return a number that is passed to a program at run time instead of being a constant of it.

    A Python number beside a symbolic array is part of the graph, so that another number makes
    another program. A marked one is a leaf: equal graphs with other numbers are one program.
    Everywhere else it is the number, to NumPy, JAX and MLX as well; arithmetic on it returns plain
    numbers, and shapes, indices and a Python ``if`` use its value.

    Args:
        x: A bool, int, float or complex number, one of NumPy's scalars, or an array of no axes of
            any library.

    Returns:
        The same number, marked. A Python number is weak as ever: beside a float32 array it is
        float32. A scalar of NumPy's, and an array's element, keeps its dtype in graphs and in
        NumPy; JAX and MLX take it for a Python number.

    Raises:
        ArgumentError: x is not a number.

    Example:
        >>> import graphc.tensor as gt
        >>> rate = runtime(0.1)
        >>> rate + 1
        1.1
        >>> (gt.vector("x", dtype="float32") * rate).type
        float32[?]
    """
    if isinstance(x, Runtime):
        return x
    if getattr(x, "shape", None) == () and not isinstance(x, np.generic | Node):
        # What JAX traces has no value: it is refused below.
        with suppress(TypeError, ValueError):
            x = np.asarray(x)[()]
    cls = next((cls for kinds, cls in _CLASSES if isinstance(x, kinds)), None)
    if cls is None:
        raise ArgumentError(
            f"runtime({x!r}): {type(x).__name__} is not a number.",
            "Of an array of one element take the number: graphc.runtime(x.item()). Arrays of ten "
            "or more elements are passed at run time anyhow; others are inputs.",
        )
    marked = cls(x)
    marked.number = x
    marked.weak = not isinstance(x, np.generic)
    return marked
