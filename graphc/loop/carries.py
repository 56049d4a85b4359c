"""First values of carries: Python's numbers among them take the dtype that a step gives them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from graphc.errors import DTypeError
from graphc.ir import TensorType, is_complex, is_inexact, is_integer, toposort
from graphc.tensor.specify import specify_shape
from graphc.tensor.tensor import Tensor, as_tensor

__all__ = ["Traced", "after", "fitted", "is_number", "settled"]

ROUNDS = 8
"""How often dtypes may become wider: there are no more between int8 and complex128."""


class Traced(Protocol):
    """A step written down.

    Attributes:
        carries: The inputs that stand for the carries before it.
        nexts: The carries after it, in the same order.
    """

    @property
    def carries(self) -> Sequence[Tensor]: ...

    @property
    def nexts(self) -> Sequence[Tensor]: ...


T = TypeVar("T", bound=Traced)
Trace = Callable[[list[Tensor]], T]
Dtypes = dict[int, str]

NUMBERS = (bool, int, float, complex)
"""Python's numbers, by kind: one of a later kind may come of any of an earlier one."""


def is_number(value: Any) -> bool:
    """Whether it is one of Python's numbers, which have no dtype of their own."""
    return type(value) in NUMBERS


def settled(first: Sequence[Any], trace: Trace[T]) -> tuple[list[Tensor], T]:
    """First values as arrays of the dtypes that a step keeps, and the step for these.

    Args:
        first: Arrays, and Python's numbers. An integer as a first value is one of int32 if a step
            adds an int32 array to it, and int64 if nothing says otherwise.
        trace: Writes the step down for such first values; called again for other dtypes.
    """
    usual = [as_tensor(kind(0)).dtype for kind in NUMBERS]
    begun = {i: usual[NUMBERS.index(type(x))] for i, x in enumerate(first) if is_number(x)}
    init, found = _traced(first, trace, begun)
    met = _met(found, begun)
    if all(found.nexts[i].dtype == dtype for i, dtype in begun.items()) and met <= {*usual}:
        return init, found
    least = ["bool", _least_integer(first, met), _least_float(met), "complex64"]
    try:
        narrow = {i: least[_kind(dtype)] for i, dtype in begun.items()}
        dtypes = _kept(first, trace, narrow, least)
    except DTypeError:
        # The narrowest dtype does not hold what a step adds to it.
        dtypes = begun
    # What nothing in a step widens is as wide as it is elsewhere.
    open_to = {*least}.difference(met, {"complex64"} if "float32" in met else ())
    dtypes = {i: usual[_kind(d)] if d in open_to else d for i, d in dtypes.items()}
    return _traced(first, trace, _kept(first, trace, dtypes, usual))


def _kept(first: Sequence[Any], trace: Trace[T], dtypes: Dtypes, lowest: Sequence[str]) -> Dtypes:
    """The dtypes, from given ones on, that a step leaves as they are.

    A number that becomes one of another kind begins as that kind's lowest dtype.
    """
    for _ in range(ROUNDS):
        _, found = _traced(first, trace, dtypes)
        moved = {
            i: _moved(first[i], dtype, found.nexts[i].dtype, lowest) for i, dtype in dtypes.items()
        }
        if moved == dtypes:
            break
        dtypes = moved
    return dtypes


def _traced(
    first: Sequence[Any], trace: Trace[T], dtypes: Mapping[int, str]
) -> tuple[list[Tensor], T]:
    init = [as_tensor(x, dtype=dtypes.get(i)) for i, x in enumerate(first)]
    return init, trace(init)


def _moved(x: Any, old: str, new: str, lowest: Sequence[str]) -> str:
    """A number's dtype after a step that makes it another, where that holds it."""
    if _kind(new) < NUMBERS.index(type(x)):
        return old
    return lowest[_kind(new)] if _kind(new) > _kind(old) else new


def _kind(dtype: str) -> int:
    return (dtype != "bool") + is_inexact(dtype) + is_complex(dtype)


def _met(found: Traced, numbers: Iterable[int]) -> set[str]:
    """The dtypes of what the numbers meet in a step."""
    own = {found.carries[i] for i in numbers}
    order = toposort([found.nexts[i] for i in numbers])
    return {
        x.type.dtype
        for x in order
        if not x.inputs and x not in own and isinstance(x.type, TensorType)
    }


def _least_integer(first: Sequence[Any], met: set[str]) -> str:
    """The narrowest dtype for integers beside arrays of these."""
    # Python's own integers in the step were int64 too.
    integers = [dtype for dtype in met if is_integer(dtype) and dtype != "int64"]
    unsigned = integers and all(dtype.startswith("u") for dtype in integers)
    return "uint8" if unsigned and all(x >= 0 for x in first if type(x) is int) else "int8"


def _least_float(met: set[str]) -> str:
    return "bfloat16" if "bfloat16" in met else "float16"


def after(value: Any, carry: Tensor | None) -> Tensor:
    """What a step gives for a carry, or for what is none: a number takes the carry's dtype."""
    if carry is None or not is_number(value) or _kind(carry.dtype) < NUMBERS.index(type(value)):
        return as_tensor(value)  # type: ignore[no-any-return]
    return as_tensor(value, dtype=carry.dtype)  # type: ignore[no-any-return]


def fitted(x: Tensor, like: Tensor) -> Tensor:
    """An array with the static lengths of another too, where they can be the same."""
    pairs = list(zip(x.type.shape, like.type.shape, strict=False))
    if x.ndim != like.ndim or any(n != m and None not in {n, m} for n, m in pairs):
        return x
    return specify_shape(x, [n if m is None else m for n, m in pairs])
