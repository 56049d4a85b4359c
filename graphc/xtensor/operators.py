"""Operators of arrays with named dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphc.errors import SymbolicValueError
from graphc.xtensor.table import TABLE

if TYPE_CHECKING:
    from graphc.xtensor.type import XTensor

UFUNCS = {
    "absolute": "abs", "conjugate": "conj", "divide": "true_divide", "remainder": "mod",
    "left_shift": "", "right_shift": "", "matmul": "dot",
}  # fmt: skip
"""NumPy's names of functions that have another one here."""


class Operators:
    """The operators, which align dimensions by name, and NumPy's functions of single elements."""

    __slots__ = ()

    def __add__(self, other: Any) -> XTensor:
        return TABLE["add"](self, other)

    def __radd__(self, other: Any) -> XTensor:
        return TABLE["add"](other, self)

    def __sub__(self, other: Any) -> XTensor:
        return TABLE["subtract"](self, other)

    def __rsub__(self, other: Any) -> XTensor:
        return TABLE["subtract"](other, self)

    def __mul__(self, other: Any) -> XTensor:
        return TABLE["multiply"](self, other)

    def __rmul__(self, other: Any) -> XTensor:
        return TABLE["multiply"](other, self)

    def __truediv__(self, other: Any) -> XTensor:
        return TABLE["true_divide"](self, other)

    def __rtruediv__(self, other: Any) -> XTensor:
        return TABLE["true_divide"](other, self)

    def __floordiv__(self, other: Any) -> XTensor:
        return TABLE["floor_divide"](self, other)

    def __rfloordiv__(self, other: Any) -> XTensor:
        return TABLE["floor_divide"](other, self)

    def __mod__(self, other: Any) -> XTensor:
        return TABLE["mod"](self, other)

    def __rmod__(self, other: Any) -> XTensor:
        return TABLE["mod"](other, self)

    def __divmod__(self, other: Any) -> tuple[XTensor, XTensor]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[XTensor, XTensor]:
        return other // self, other % self

    def __pow__(self, other: Any) -> XTensor:
        return TABLE["power"](self, other)

    def __rpow__(self, other: Any) -> XTensor:
        return TABLE["power"](other, self)

    def __matmul__(self, other: Any) -> XTensor:
        return TABLE["dot"](self, other)

    def __rmatmul__(self, other: Any) -> XTensor:
        return TABLE["dot"](other, self)

    def __and__(self, other: Any) -> XTensor:
        return TABLE["bitwise_and"](self, other)

    def __rand__(self, other: Any) -> XTensor:
        return TABLE["bitwise_and"](other, self)

    def __or__(self, other: Any) -> XTensor:
        return TABLE["bitwise_or"](self, other)

    def __ror__(self, other: Any) -> XTensor:
        return TABLE["bitwise_or"](other, self)

    def __xor__(self, other: Any) -> XTensor:
        return TABLE["bitwise_xor"](self, other)

    def __rxor__(self, other: Any) -> XTensor:
        return TABLE["bitwise_xor"](other, self)

    def __lt__(self, other: Any) -> XTensor:
        return TABLE["less"](self, other)

    def __le__(self, other: Any) -> XTensor:
        return TABLE["less_equal"](self, other)

    def __gt__(self, other: Any) -> XTensor:
        return TABLE["greater"](self, other)

    def __ge__(self, other: Any) -> XTensor:
        return TABLE["greater_equal"](self, other)

    def __neg__(self) -> XTensor:
        return TABLE["negative"](self)

    def __abs__(self) -> XTensor:
        return TABLE["abs"](self)

    def __invert__(self) -> XTensor:
        return TABLE["invert"](self)

    def __ceil__(self) -> XTensor:
        return TABLE["ceil"](self)

    def __floor__(self) -> XTensor:
        return TABLE["floor"](self)

    def __trunc__(self) -> XTensor:
        return TABLE["trunc"](self)

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

    def __int__(self) -> int:
        raise self._refuse("int()", "Use x.astype('int64'), or x.eval({...}) for its value.")

    def __float__(self) -> float:
        raise self._refuse("float()", "Use x.astype('float64'), or x.eval({...}) for its value.")

    def __complex__(self) -> complex:
        raise self._refuse("complex()", "Use x.astype('complex128'), or x.eval({...}).")

    def __index__(self) -> int:
        raise self._refuse("A Python integer", "Use x.eval({...}) for its value.")

    def __len__(self) -> int:
        raise self._refuse("len()", "x.sizes has the length of each dimension.")

    def __iter__(self) -> Any:
        raise self._refuse("Iteration", "Take elements by their place: x.isel(dim=i).")

    def __contains__(self, value: Any) -> bool:
        raise self._refuse("A search", "Use graphc.xtensor.math.equal(x, value).any().")

    def __setitem__(self, index: Any, value: Any) -> None:
        raise self._refuse(
            "Item assignment", "Write y = x[index].set(value), or .inc(value) to add to it."
        )

    def _refuse(self, asked: str, remedy: str) -> SymbolicValueError:
        return SymbolicValueError(f"{asked} of the symbolic {self!r}.", remedy)
