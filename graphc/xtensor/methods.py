"""Operators and methods of arrays with named dimensions: the functions of graphc.xtensor.

A function becomes an operator and a method when it is registered, as a lower layer knows only its
name. Type checkers see the assignments in the class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from graphc.tensor.core.methods import Symbolic

if TYPE_CHECKING:
    from graphc.xtensor import indexing, math, reduction, shape
    from graphc.xtensor.align import Dim
    from graphc.xtensor.type import XTensor

Missing = Literal["raise", "warn", "ignore"]
"""The reaction to a dimension that an array lacks."""

TABLE: dict[str, Callable[..., XTensor]] = {}
"""Functions of arrays with named dimensions, by name."""

UFUNCS = {
    "absolute": "abs", "conjugate": "conj", "divide": "true_divide", "remainder": "mod",
    "left_shift": "", "right_shift": "", "matmul": "dot",
}  # fmt: skip
"""NumPy's names of functions that have another one here."""


class Methods(Symbolic):
    """The operators and the methods with xarray's names, which align dimensions by name."""

    __slots__ = ()

    if TYPE_CHECKING:

        def _unary(self) -> XTensor: ...

        __neg__ = __abs__ = __invert__ = __ceil__ = __floor__ = __trunc__ = _unary

        def _binary(self, other: Any, /) -> XTensor: ...

        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _binary
        __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = _binary
        __mod__ = __rmod__ = __pow__ = __rpow__ = __matmul__ = __rmatmul__ = _binary
        __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _binary
        __lt__ = __le__ = __gt__ = __ge__ = _binary

        astype = math.cast
        clip = math.clip
        conj = _unary
        round = math.round
        real = property(_unary)
        imag = property(_unary)
        all = reduction.all
        any = reduction.any
        max = reduction.max
        min = reduction.min
        mean = reduction.mean
        prod = reduction.prod
        sum = reduction.sum
        std = reduction.std
        var = reduction.var
        cumsum = reduction.cumsum
        cumprod = reduction.cumprod
        diff = reduction.diff
        transpose = shape.transpose
        stack = shape.stack
        unstack = shape.unstack
        broadcast_like = shape.broadcast_like
        isel = indexing.isel
        head = indexing.head
        tail = indexing.tail
        thin = indexing.thin
        set = indexing.set
        inc = indexing.inc

    # Methods whose arguments are not the function's.

    def where(self, cond: Any, other: Any = None, drop: bool = False) -> XTensor:
        """Return the values where a condition holds, and others where it does not.

        Args:
            cond: The condition.
            other: The other values; NaN by default.
            drop: Accepted for PyTensor compatibility: nothing is dropped.

        Returns:
            An array whose first dimensions are this one's.
        """
        result = TABLE["where"](cond, self, float("nan") if other is None else other)
        return result.transpose(*self.dims, ...)  # type: ignore[attr-defined]

    def dot(self, other: Any, dim: Dim = None) -> XTensor:
        """Return the products summed over dimensions; by default over the common ones."""
        return TABLE["dot"](self, other, dim)

    @property
    def T(self) -> XTensor:  # noqa: N802 (NumPy's name)
        """The array with its dimensions in reverse order."""
        return TABLE["transpose"](self)

    def expand_dims(
        self,
        /,
        dim: Any = None,
        create_index_for_new_dim: bool | None = None,
        axis: int | Sequence[int] | None = None,
        **dim_kwargs: Any,
    ) -> XTensor:
        """Return the array with new dimensions in front: ``x.expand_dims(draw=100)``.

        Args:
            dim: A name or several, of length 1; or a dict of names and lengths.
            create_index_for_new_dim: Accepted for xarray compatibility: there are no coordinates.
            axis: Positions of the new dimensions in the result.
            dim_kwargs: Names and lengths.
        """
        return TABLE["expand_dims"](self, dim, axis=axis, **dim_kwargs)

    def squeeze(
        self, dim: Dim = None, drop: Any = None, axis: int | Sequence[int] | None = None
    ) -> XTensor:
        """Return the array without dimensions of length 1.

        Args:
            dim: The dimensions; by default all of static length 1.
            drop: Accepted for xarray compatibility: there are no coordinates.
            axis: The positions of the dimensions, instead of ``dim``.
        """
        return TABLE["squeeze"](self, dim, axis=axis)

    def __getitem__(self, index: Any) -> XTensor:
        if isinstance(index, dict):
            return TABLE["isel"](self, index)
        return TABLE["index"](self, *(index if isinstance(index, tuple) else (index,)))

    def __divmod__(self, other: Any) -> tuple[XTensor, XTensor]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[XTensor, XTensor]:
        return other // self, other % self

    def __round__(self, digits: int | None = None) -> XTensor:
        return TABLE["round"](self, digits or 0)

    # NumPy's functions call these methods; functions that need a value are refused.

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        function = TABLE.get(UFUNCS.get(ufunc.__name__, ufunc.__name__))
        if function is None or method != "__call__" or kwargs:
            asked = f"np.{ufunc.__name__}" + (f".{method}" if method != "__call__" else "")
            raise self._refuse(asked, "Write it with functions of graphc.xtensor.math.")
        return function(*args)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        raise self._refuse(
            f"np.{func.__name__}",
            "Write it with a method or a function of graphc.xtensor, which take dim= in place of "
            "axis=.",
        )

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray[Any, Any]:
        raise self._refuse("A NumPy array", "x.eval({...}) computes the value.")

    def __graphc_tensor__(self) -> Any:
        raise self._refuse(
            "The array without names",
            "By position its axes would meet those of other arrays: use functions of "
            "graphc.xtensor, or write x.values where the position is meant.",
        )

    def __bool__(self) -> bool:
        raise self._refuse("The truth value", "Choose elementwise with graphc.xtensor.where.")

    def __index__(self) -> int:
        raise self._refuse("A Python integer", "Use x.eval({...}) for its value.")

    def __len__(self) -> int:
        raise self._refuse("len()", "x.sizes has the length of each dimension.")

    def __iter__(self) -> Any:
        raise self._refuse("Iteration", "Take elements by their place: x.isel(dim=i).")

    def __contains__(self, value: Any) -> bool:
        raise self._refuse("A search", "Use graphc.xtensor.math.equal(x, value).any().")


METHODS = {"cast": "astype", "conjugate": "conj"} | {
    name: name
    for name in (
        "all", "any", "broadcast_like", "clip", "cumprod", "cumsum", "diff", "head", "imag", "inc",
        "isel", "max", "mean", "min", "prod", "real", "round", "set", "stack", "std", "sum", "tail",
        "thin", "transpose", "unstack", "var",
    )
}  # fmt: skip
"""The methods that are functions, by the function's name."""

PROPERTIES = {"real", "imag"}

UNARY = {
    "abs": "abs", "ceil": "ceil", "floor": "floor", "invert": "invert", "negative": "neg",
    "trunc": "trunc",
}  # fmt: skip
"""The operators of one array, by the function's name."""

COMPARISONS = {"less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge"}
"""The operators whose reflection is another one of them, by the function's name."""

BINARY = {
    "add": "add", "subtract": "sub", "multiply": "mul", "true_divide": "truediv",
    "floor_divide": "floordiv", "mod": "mod", "power": "pow", "dot": "matmul",
    "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor",
}  # fmt: skip
"""The operators of two arrays, by the function's name."""

F = TypeVar("F", bound=Callable[..., Any])


def method(f: F) -> F:
    """Register a public function under its own name, as an operator and a method too."""
    name = f.__name__
    TABLE[name] = f
    if name in METHODS:
        setattr(Methods, METHODS[name], property(f) if name in PROPERTIES else f)
    if operator := UNARY.get(name) or COMPARISONS.get(name) or BINARY.get(name):
        setattr(Methods, f"__{operator}__", f)
    if name in BINARY:
        setattr(Methods, f"__r{BINARY[name]}__", lambda self, other: f(other, self))
    return f
