"""First values of carries: Python's numbers among them take the dtype that a step gives them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from graphc.errors import GraphcError
from graphc.ir import TensorType, is_complex, is_inexact, is_integer, toposort
from graphc.loop.draws import Draws, taped
from graphc.loop.step import LoopStep
from graphc.tensor.core.specify import specify_shape
from graphc.tensor.core.tensor import Tensor, as_tensor

ROUNDS = 8
"""The most times that dtypes may widen: there are no more between int8 and complex128."""


T = TypeVar("T", bound=LoopStep)
Trace = Callable[[list[Tensor]], T]
Dtypes = dict[int, str]

NUMBERS = (bool, int, float, complex)
"""Python's numbers, by kind: one of a later kind may come of any of an earlier one."""


def is_number(value: Any) -> bool:
    """Whether it is one of Python's numbers, which have no dtype of their own."""
    return type(value) in NUMBERS


def settled(first: Sequence[Any], trace: Trace[T]) -> tuple[list[Tensor], T, Draws]:
    """First values as arrays of the dtypes that a step keeps, the step for these, and its draws.

    Args:
        first: Arrays, and Python's numbers. An integer as a first value is one of int32 if a step
            adds an int32 array to it, and int64 if nothing says otherwise.
        trace: Writes the step down for such first values; called again for other dtypes.

    Returns:
        Arrays; the step; and the shared keys that it draws from, with their values after it.
    """
    with taped() as traced:
        return _settled(_Trials(first, trace, traced))


def _settled(trials: _Trials[T]) -> tuple[list[Tensor], T, Draws]:
    first = trials.first
    usual = [as_tensor(kind(0)).dtype for kind in NUMBERS]
    begun = {i: usual[NUMBERS.index(type(x))] for i, x in enumerate(first) if is_number(x)}
    met = _met(trials.of(begun)[1], begun)
    if met <= {*usual}:
        return trials.of(trials.kept(begun, usual))
    dtypes, least = _narrowest(trials, begun, met) or (begun, usual)
    # What nothing in a step widens is as wide as it is elsewhere.
    open_to = {*least}.difference(met, {"complex64"} if "float32" in met else ())
    dtypes = {i: usual[_kind(d)] if d in open_to else d for i, d in dtypes.items()}
    return trials.of(trials.kept(dtypes, usual))


class _Trials(Generic[T]):
    """A step written down for numbers of several dtypes, for each of them once."""

    def __init__(self, first: Sequence[Any], trace: Trace[T], traced: Callable[..., Any]) -> None:
        self.first, self.trace, self.traced = first, trace, traced
        self.done: dict[tuple[str, ...], tuple[list[Tensor], T, Draws]] = {}

    def of(self, dtypes: Dtypes) -> tuple[list[Tensor], T, Draws]:
        """The first values, the step for them, and its draws."""
        key = tuple(dtypes.values())
        if key not in self.done:
            init = [as_tensor(x, dtype=dtypes.get(i)) for i, x in enumerate(self.first)]
            step, draws = self.traced(lambda: self.trace(init))
            self.done[key] = init, step, draws
        return self.done[key]

    def kept(self, dtypes: Dtypes, lowest: Sequence[str]) -> Dtypes:
        """The dtypes, from given ones on, that a step leaves as they are.

        A number that becomes one of another kind begins as that kind's lowest dtype.
        """
        for _ in range(ROUNDS):
            nexts = self.of(dtypes)[1].nexts
            moved = {
                i: _moved(self.first[i], old, nexts[i].dtype, lowest) for i, old in dtypes.items()
            }
            if moved == dtypes:
                break
            dtypes = moved
        return dtypes


def _narrowest(
    trials: _Trials[Any], begun: Dtypes, met: set[str]
) -> tuple[Dtypes, list[str]] | None:
    """The dtypes that numbers get which begin as narrow as can be, and those that they begin as.

    None where a step takes no narrow ones, as it adds what they do not hold.
    """
    for integer in _least_integers(trials.first, met):
        least = ["bool", integer, _least_float(met), "complex64"]
        try:
            with np.errstate(over="ignore"):  # 1e10 as a float16
                return trials.kept({i: least[_kind(d)] for i, d in begun.items()}, least), least
        except GraphcError:
            continue
    return None


def _moved(x: Any, old: str, new: str, lowest: Sequence[str]) -> str:
    """A number's dtype after a step that makes it another, where that holds it."""
    if _kind(new) < NUMBERS.index(type(x)):
        return old
    return lowest[_kind(new)] if _kind(new) > _kind(old) else new


def _kind(dtype: str) -> int:
    return (dtype != "bool") + is_inexact(dtype) + is_complex(dtype)


def _met(found: LoopStep, numbers: Iterable[int]) -> set[str]:
    """The dtypes of what the numbers meet in a step."""
    own = {found.carries[i] for i in numbers}
    order = toposort([found.nexts[i] for i in numbers])
    return {
        x.type.dtype
        for x in order
        if not x.inputs and x not in own and isinstance(x.type, TensorType)
    }


def _least_integers(first: Sequence[Any], met: set[str]) -> list[str]:
    """The narrowest dtypes for integers beside arrays of these, the narrower ones first."""
    # Python's own integers in the step were int64 too.
    integers = [dtype for dtype in met if is_integer(dtype) and dtype != "int64"]
    unsigned = integers and all(dtype.startswith("u") for dtype in integers)
    if not unsigned or any(x < 0 for x in first if type(x) is int):
        return ["int8"]
    return ["uint8", "uint16", "uint32"]


def _least_float(met: set[str]) -> str:
    return "bfloat16" if "bfloat16" in met else "float16"


def after(value: Any, carry: Tensor | None) -> Tensor:
    """A step's output as an array; a Python number takes the dtype of the carry, if any."""
    if carry is None or not is_number(value) or _kind(carry.dtype) < NUMBERS.index(type(value)):
        return as_tensor(value)
    return as_tensor(value, dtype=carry.dtype)


def fitted(x: Tensor, like: Tensor) -> Tensor:
    """An array with the static lengths of another too, where they can be the same."""
    pairs = list(zip(x.type.shape, like.type.shape, strict=False))
    if x.ndim != like.ndim or any(n != m and None not in {n, m} for n, m in pairs):
        return x
    return specify_shape(x, [n if m is None else m for n, m in pairs])
