"""The functions that are methods of symbolic arrays too, with the array as their first argument.

A function becomes a method when it is registered, as a lower layer knows only its name. Type
checkers see the assignments below.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import TYPE_CHECKING, Any

from graphc.errors import SymbolicValueError
from graphc.ir import Node

if TYPE_CHECKING:
    from graphc.tensor.arrays import (
        broadcast,
        create,
        cumulative,
        diagonal as diagonals,
        nonzero as nonzeros,
        reduce,
        repeat as repeats,
        select,
        sort as sorting,
    )
    from graphc.tensor.core import axes, elementwise, rounding, shape
    from graphc.tensor.core.tensor import Tensor, TensorLike
    from graphc.tensor.linalg.dot import dot as product
    from graphc.tensor.statistics import statistics


class Symbolic:
    """An array without a value, which refuses what needs one."""

    __slots__ = ()

    def _refuse(self, asked: str, remedy: str) -> SymbolicValueError:
        return SymbolicValueError(f"{asked} of the symbolic {self!r}.", remedy)

    def __int__(self) -> int:
        raise self._refuse("int()", "Use x.astype('int64'), or x.eval({...}) for its value.")

    def __float__(self) -> float:
        raise self._refuse("float()", "Use x.astype('float64'), or x.eval({...}) for its value.")

    def __complex__(self) -> complex:
        raise self._refuse("complex()", "Use x.astype('complex128'), or x.eval({...}).")

    def __setitem__(self, index: Any, value: Any) -> None:
        raise self._refuse(
            "Item assignment", "Write y = x[index].set(value), or .inc(value) to add to it."
        )


class TensorMethods(Symbolic, Node):
    """A node with the operators and methods that are functions of ``graphc.tensor``."""

    __slots__ = ()

    if TYPE_CHECKING:

        def _operator(self, other: TensorLike, /) -> Tensor: ...

        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _operator
        __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = _operator
        __mod__ = __rmod__ = __pow__ = __rpow__ = __matmul__ = __rmatmul__ = _operator
        __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _operator
        __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _operator
        __lt__ = __le__ = __gt__ = __ge__ = _operator

        all = reduce.all
        any = reduce.any
        argmax = reduce.argmax
        argmin = reduce.argmin
        argpartition = sorting.argpartition
        argsort = sorting.argsort
        choose = select.choose
        clip = elementwise.clip
        compress = select.compress
        cumprod = cumulative.cumprod
        cumsum = cumulative.cumsum
        diagonal = diagonals.diagonal
        dot = product
        fill = broadcast.fill
        max = reduce.max
        mean = statistics.mean
        min = reduce.min
        nonzero = nonzeros.nonzero
        nonzero_values = nonzeros.nonzero_values
        ones_like = create.ones_like
        partition = sorting.partition
        prod = reduce.prod
        ptp = statistics.ptp
        ravel = shape.ravel
        repeat = repeats.repeat
        round = rounding.round
        searchsorted = sorting.searchsorted
        sort = sorting.sort
        squeeze = axes.squeeze
        std = statistics.std
        sum = reduce.sum
        swapaxes = axes.swapaxes
        take = select.take
        trace = diagonals.trace
        var = statistics.var
        zeros_like = create.zeros_like

        def _elementwise(self) -> Tensor: ...

        arccos = arccosh = arcsin = arcsinh = arctan = arctanh = _elementwise
        ceil = conj = conjugate = cos = cosh = deg2rad = exp = exp2 = expm1 = floor = _elementwise
        log = log10 = log1p = log2 = rad2deg = sin = sinh = sqrt = tan = tanh = trunc = _elementwise


METHODS = (
    "all", "any", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "argmax",
    "argmin", "argpartition", "argsort", "ceil", "choose", "clip", "compress", "conj", "conjugate",
    "cos", "cosh", "cumprod", "cumsum", "deg2rad", "diagonal", "dot", "exp", "exp2", "expm1",
    "fill", "floor", "log", "log10", "log1p", "log2", "max", "mean", "min", "nonzero",
    "nonzero_values", "ones_like", "partition", "prod", "ptp", "rad2deg", "ravel", "repeat",
    "round", "searchsorted", "sin", "sinh", "sort", "sqrt", "squeeze", "std", "sum", "swapaxes",
    "take", "tan", "tanh", "trace", "trunc", "var", "zeros_like",
)  # fmt: skip

OTHER_NAMES = {"conj": ("conjugate",)}
"""Further names of methods."""


class CallableMethod:
    """A callable as a method, which Python makes of functions only."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call = call

    def __get__(self, x: Any, cls: type) -> Callable[..., Any]:
        return self.call if x is None else MethodType(self.call, x)


def add_method(name: str, call: Callable[..., Any]) -> None:
    """Make a registered function a method, if ``METHODS`` lists it."""
    if name in METHODS:
        for each in (name, *OTHER_NAMES.get(name, ())):
            setattr(TensorMethods, each, CallableMethod(call))
