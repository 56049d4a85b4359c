"""Initial carries: a Python number takes the dtype that the step gives it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from graphc.config import short_traceback
from graphc.errors import GraphcError
from graphc.ir import TensorType, is_complex, is_inexact, is_integer, toposort
from graphc.loop.draws import Draws, draws_tape
from graphc.loop.step import LoopStep
from graphc.tensor.core.specify import specify_shape
from graphc.tensor.core.tensor import Tensor, as_tensor

ROUNDS = 8
"""A bound on dtype promotions: from int8 to complex128 there are fewer."""


T = TypeVar("T", bound=LoopStep)
Trace = Callable[[list[Tensor]], T]
Dtypes = dict[int, str]

NUMBERS = (bool, int, float, complex)
"""Python's numbers by kind; a step may promote a kind to a later one."""


def is_number(value: Any) -> bool:
    """Return whether a value is a Python number, which has no dtype."""
    return type(value) in NUMBERS


def settle_dtypes(first: Sequence[Any], trace: Trace[T]) -> tuple[list[Tensor], T, Draws]:
    """Return the initial carries in the dtypes that a step preserves, the step, and its draws.

    Args:
        first: Arrays and Python numbers. An integer becomes int32 if a step adds an int32 array to
            it, and int64 by default.
        trace: Traces the step for such initial carries; called again for other dtypes.

    Returns:
        Arrays; the step; and the shared keys that it draws from, with their values after it.
    """
    with short_traceback(), draws_tape() as retrace:
        return _settle_dtypes(_Trials(first, trace, retrace))


def _settle_dtypes(trials: _Trials[T]) -> tuple[list[Tensor], T, Draws]:
    first = trials.first
    usual = [as_tensor(kind(0)).dtype for kind in NUMBERS]
    begun = {i: usual[NUMBERS.index(type(x))] for i, x in enumerate(first) if is_number(x)}
    seen = _dtypes_met(trials.of(begun)[1], begun)
    if seen <= {*usual}:
        return trials.of(trials.settle(begun, usual))
    dtypes, lowest = _narrowest(trials, begun, seen) or (begun, usual)
    # A number that the step does not promote gets the usual dtype of its kind.
    unpromoted = {*lowest}.difference(seen, {"complex64"} if "float32" in seen else ())
    dtypes = {i: usual[_kind(d)] if d in unpromoted else d for i, d in dtypes.items()}
    return trials.of(trials.settle(dtypes, usual))


class _Trials(Generic[T]):
    """Traces of a step for initial numbers of several dtypes, each traced once."""

    def __init__(self, first: Sequence[Any], trace: Trace[T], retrace: Callable[..., Any]) -> None:
        self.first, self.trace, self.retrace = first, trace, retrace
        self.done: dict[tuple[str, ...], tuple[list[Tensor], T, Draws]] = {}

    def of(self, dtypes: Dtypes) -> tuple[list[Tensor], T, Draws]:
        key = tuple(dtypes.values())
        if key not in self.done:
            init = [as_tensor(x, dtype=dtypes.get(i)) for i, x in enumerate(self.first)]
            step, draws = self.retrace(lambda: self.trace(init))
            self.done[key] = init, step, draws
        return self.done[key]

    def settle(self, dtypes: Dtypes, lowest: Sequence[str]) -> Dtypes:
        """Return the dtypes that a step preserves, reached from the given ones.

        A number that the step promotes to another kind restarts at that kind's lowest dtype.
        """
        for _ in range(ROUNDS):
            nexts = self.of(dtypes)[1].nexts
            moved = {
                i: _promote(self.first[i], old, nexts[i].dtype, lowest) for i, old in dtypes.items()
            }
            if moved == dtypes:
                break
            dtypes = moved
        return dtypes


def _narrowest(
    trials: _Trials[Any], begun: Dtypes, seen: set[str]
) -> tuple[Dtypes, list[str]] | None:
    """Return dtypes reached from the narrowest ones, and these; None if the step rejects them."""
    narrow = "bfloat16" if "bfloat16" in seen else "float16"
    for integer in _narrowest_integers(trials.first, seen):
        least = ["bool", integer, narrow, "complex64"]
        try:
            with np.errstate(over="ignore"):  # 1e10 as a float16
                return trials.settle({i: least[_kind(d)] for i, d in begun.items()}, least), least
        except GraphcError:
            continue
    return None


def _promote(x: Any, old: str, new: str, lowest: Sequence[str]) -> str:
    """Return a number's dtype after a step, or the old dtype if the new one cannot hold it."""
    if _kind(new) < NUMBERS.index(type(x)):
        return old
    return lowest[_kind(new)] if _kind(new) > _kind(old) else new


def _kind(dtype: str) -> int:
    return (dtype != "bool") + is_inexact(dtype) + is_complex(dtype)


def _dtypes_met(step: LoopStep, numbers: Iterable[int]) -> set[str]:
    """Return the dtypes of inputs and constants that a step combines the numbers with."""
    own = {step.carries[i] for i in numbers}
    order = toposort([step.nexts[i] for i in numbers])
    return {
        x.type.dtype
        for x in order
        if not x.inputs and x not in own and isinstance(x.type, TensorType)
    }


def _narrowest_integers(first: Sequence[Any], seen: set[str]) -> list[str]:
    # Python's integers in the step became int64 too.
    integers = [dtype for dtype in seen if is_integer(dtype) and dtype != "int64"]
    unsigned = integers and all(dtype.startswith("u") for dtype in integers)
    if not unsigned or any(x < 0 for x in first if type(x) is int):
        return ["int8"]
    return ["uint8", "uint16", "uint32"]


def after(value: Any, carry: Tensor | None) -> Tensor:
    """Convert a step's output to an array; a Python number takes the carry's dtype, if any."""
    if carry is None or not is_number(value) or _kind(carry.dtype) < NUMBERS.index(type(value)):
        return as_tensor(value)
    return as_tensor(value, dtype=carry.dtype)


def share_lengths(x: Tensor, like: Tensor) -> Tensor:
    """Specify an array's static lengths by another array's where the shapes can be equal."""
    pairs = list(zip(x.type.shape, like.type.shape, strict=False))
    if x.ndim != like.ndim or any(n != m and None not in {n, m} for n, m in pairs):
        return x
    return specify_shape(x, [n if m is None else m for n, m in pairs])
