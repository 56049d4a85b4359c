"""The operators and methods of implicit arrays, also outside of implicit functions.

Arithmetic, products, indexing and casts obey the policy if the structure is lost. All others keep
the structure or reduce slices, such as a sum; they make nothing dense.
"""

from __future__ import annotations

import numbers
import sys
import warnings
from collections.abc import Callable
from copy import copy
from types import MethodType
from typing import Any

import numpy as np

from graphc.errors import IdentityWarning, ImplicitArrayError
from graphc.hooks import Hook
from graphc.implicit.treedef import Treedef
from graphc.ir import Node, dtype_name
from graphc.site import compares, frames_up, is_own

apply_function: Hook[..., Any] = Hook("functions of arrays by their names")
apply_structured: Hook[..., Any] = Hook("functions by name that make no operand dense")
to_dense: Hook[[Any], Any] = Hook("dense arrays of implicit ones")


class UnsupportedAttributeError(ImplicitArrayError, AttributeError):
    """An attribute of arrays that implicit arrays do not have."""


Binary = Callable[[Any, Any], Any]


def _both_ways(name: str, by: Hook[..., Any] = apply_function) -> tuple[Binary, Binary]:
    def forward(a: Any, b: Any) -> Any:
        return by(name, a, b)

    def backward(b: Any, a: Any) -> Any:
        return by(name, a, b)

    return forward, backward


def _keeping(name: str) -> Callable[..., Any]:
    def apply(self: Any) -> Any:
        return apply_structured(name, self)

    return apply


def _over_axes(name: str, result: str, by: Hook[..., Any] = apply_structured) -> Any:
    def reduction(
        self: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False
    ) -> Any:
        if out is not None:
            raise ImplicitArrayError(f"{name}(..., out=...) of {self!r}.", "Take the result.")
        x = self if dtype is None else self.astype(dtype)
        return by(name, x, axis=axis, keepdims=keepdims)

    reduction.__name__ = name
    reduction.__doc__ = f"Return the {result} over axes, by default over all."
    return reduction


def _copy(self: Any) -> Any:
    """Return a copy whose fields are copies."""
    treedef, leaves = Treedef.of(self)
    return treedef.build([x if isinstance(x, Node) else copy(x) for x in leaves])


METHODS: dict[str, Callable[..., Any]] = {
    name: _over_axes(name, result)
    for name, result in {
        "max": "maximum",
        "min": "minimum",
        "prod": "product",
        "mean": "mean",
        "any": "disjunction",
        "all": "conjunction",
    }.items()
}
"""Methods by name. As attributes of the class, they would be default values of its fields."""
METHODS |= {
    "copy": _copy,
    "dot": lambda self, other: apply_function("dot", self, other),
    "ravel": _keeping("ravel"),
    "squeeze": lambda self, axis=None: apply_structured("squeeze", self, axis=axis),
    "swapaxes": lambda self, axis1, axis2: apply_structured("swapaxes", self, axis1, axis2),
}


def _number(kind: Any) -> Callable[[Any], Any]:
    def convert(self: Any) -> Any:
        if self.size != 1:
            raise ImplicitArrayError(
                f"{kind.__name__} of {self!r}, which has {self.size} elements.",
                "Take one element.",
            )
        return kind(np.asarray(to_dense(self)).item())

    return convert


JAX_ATTRIBUTES = (
    "at device devices sharding addressable_shards block_until_ready is_fully_replicated"
)
ATTRIBUTES = {name for name in dir(np.ndarray) if name[0] != "_"}.union(JAX_ATTRIBUTES.split())
"""The names of attributes that NumPy or JAX arrays have."""


class ArrayOperators:
    """NumPy's operators and methods, computed by the library of the fields."""

    def astype(self, dtype: Any) -> Any:
        """Return a copy of another dtype; implicit if the class has a handler of casts."""
        return apply_function("cast", self, dtype_name(dtype))

    @property
    def T(self) -> Any:  # noqa: N802 (NumPy's name)
        """The transpose: all axes in reverse order."""
        return apply_function("transpose", self)

    @property
    def mT(self) -> Any:  # noqa: N802 (NumPy's name)
        """The array with its last two axes exchanged."""
        return apply_function("swapaxes", self, -1, -2)

    def __getitem__(self, index: Any) -> Any:
        if index is Ellipsis:  # as Flax reads a variable
            return self
        return apply_function("getitem", self, index)

    def reshape(self, *shape: Any) -> Any:
        """Reshape the array in row-major order."""
        lengths = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        return apply_function("reshape", self, lengths)

    def transpose(self, *axes: Any) -> Any:
        """Return the array with its axes permuted, by default reversed."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        return apply_function("transpose", self, order or None)

    sum = _over_axes("sum", "sum", apply_function)

    def __neg__(self) -> Any:
        return apply_function("negative", self)

    def __pos__(self) -> Any:
        return self

    __add__, __radd__ = _both_ways("add")
    __sub__, __rsub__ = _both_ways("subtract")
    __mul__, __rmul__ = _both_ways("multiply")
    __truediv__, __rtruediv__ = _both_ways("divide")
    __matmul__, __rmatmul__ = _both_ways("matmul")

    # Operators that make nothing dense.

    __pow__, __rpow__ = _both_ways("power", apply_structured)
    __floordiv__, __rfloordiv__ = _both_ways("floor_divide", apply_structured)
    __mod__, __rmod__ = _both_ways("remainder", apply_structured)
    __and__, __rand__ = _both_ways("bitwise_and", apply_structured)
    __or__, __ror__ = _both_ways("bitwise_or", apply_structured)
    __xor__, __rxor__ = _both_ways("bitwise_xor", apply_structured)
    __lt__, _ = _both_ways("less", apply_structured)
    __le__, _ = _both_ways("less_equal", apply_structured)
    __gt__, _ = _both_ways("greater", apply_structured)
    __ge__, _ = _both_ways("greater_equal", apply_structured)
    del _
    __abs__ = _keeping("abs")
    __invert__ = _keeping("invert")

    def __round__(self, digits: int | None = None) -> Any:
        return apply_structured("round", self, digits or 0)

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Any, Any]:
        return other // self, other % self

    __float__, __int__, __complex__ = map(_number, (float, int, complex))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        frame = sys._getframe(1)
        if not is_own(frame) and (comparison := compares(frame.f_code, frame.f_lasti)):
            is_array = hasattr(other, "shape") and not isinstance(other, ArrayOperators)
            if is_array or isinstance(other, numbers.Number):
                _warn(self, comparison.operator)
        return False

    __hash__ = object.__hash__

    def __contains__(self, value: Any) -> bool:
        raise ImplicitArrayError(
            f"An element is looked for in {self!r} by `in`.",
            "Look for it in np.asarray of the array.",
        )

    def __setitem__(self, index: Any, value: Any) -> None:
        raise ImplicitArrayError(
            f"Item assignment to {self!r}: implicit arrays never change.",
            "Make another with graphc.implicit.with_fields, or densify it with np.asarray.",
        )

    def __getattr__(self, name: str) -> Any:
        if name in METHODS:
            return MethodType(METHODS[name], self)
        cls = type(self)
        attribute = getattr(cls, name, None)
        if isinstance(attribute, property) and attribute.fget:
            return attribute.fget(self)  # raises its AttributeError again
        problem = f"{cls.__name__!r} object has no attribute {name!r}"
        if name not in ATTRIBUTES:
            raise AttributeError(problem, name=name, obj=self)
        raise UnsupportedAttributeError(
            f"{problem}: an implicit array has some of NumPy's attributes only.",
            "Its fields are arrays; its method materialize and np.asarray return the dense array, "
            "and a function made by graphc.implicit.implicit gets a JAX array.",
        )


def _warn(x: Any, operator: str) -> None:
    warnings.warn(
        f"{x!r} is compared by {operator}, which asks whether two objects are one and gives a "
        "Python bool.\nCompare np.asarray of it elementwise; ask for identity by `a is b`.",
        IdentityWarning,
        stacklevel=frames_up(),
    )
