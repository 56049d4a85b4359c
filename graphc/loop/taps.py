"""Taps: the elements of sequences and the past states that a scan's step reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, DTypeError, ShapeError
from graphc.ir import Node, Wrapper, unwrap
from graphc.loop.arguments import Count
from graphc.loop.carries import is_number, share_lengths
from graphc.tensor.arrays.join import concatenate
from graphc.tensor.core.axes import expand_dims
from graphc.tensor.core.elementwise import maximum
from graphc.tensor.core.shape import length
from graphc.tensor.core.specify import specify
from graphc.tensor.core.tensor import Tensor, as_tensor

REGISTERS = 8
"""Up to this depth, past states are separate carries; deeper ones are the rows of one carry."""


def to_list(value: Any) -> list[Any]:
    """Return a value or a list of values as a list; None is empty."""
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def rows_of(title: str, x: Tensor, n: Count) -> Tensor:
    """Specify that an array has n rows, which the program checks."""
    return specify(x, (n, *[None] * (x.ndim - 1)), title)


@dataclass(frozen=True, slots=True)
class TappedSequence:
    """A sequence of which step t reads the elements t + tap for several taps.

    Attributes:
        title: The sequence's name in messages.
        x: The array.
        taps: The taps in the order of the step's arguments.
        user_value: The user's array, or its wrapper.
    """

    title: str
    x: Tensor
    taps: tuple[int, ...]
    user_value: Any = None

    def wrap(self, element: Tensor) -> Any:
        return self.user_value.element(element) if isinstance(self.user_value, Wrapper) else element

    @property
    def ends(self) -> tuple[int, int]:
        """The numbers of elements that the taps reach before t and after t."""
        return -min(0, *self.taps), max(0, *self.taps)

    @property
    def steps(self) -> Count:
        """The number of steps for which all taps are in the sequence."""
        n = length(self.x, 0)
        span = sum(self.ends)
        return _at_least(n - span, 0) if span else n

    def names(self) -> list[str]:
        name = self.x.name or "x"
        return [f"{name}[t{tap:+d}]" if tap else f"{name}[t]" for tap in self.taps]

    def windows(self, n: Count, backwards: bool, checked: bool) -> list[Tensor]:
        """Return for each tap the elements for n steps, and check n if it may be too large."""
        most = self.steps
        if isinstance(most, int) and isinstance(n, int) and most < n:
            span = f" with the taps {list(self.taps)}" if any(self.taps) else ""
            raise ShapeError(
                f"{self.title} has elements for {most} steps{span}, and there are {n}.",
                "Give a longer sequence, or a smaller n_steps.",
            )
        cut = [self._cut(n, backwards, tap) for tap in self.taps]
        if not checked or _same(n, most) or (isinstance(most, int) and isinstance(n, int)):
            return cut
        return [rows_of(f"{self.title}, for n_steps", y, n) for y in cut]

    def _cut(self, n: Count, backwards: bool, tap: int) -> Tensor:
        before, after = self.ends
        start, end = before + tap, after - tap
        if _same(n, self.steps):
            return self.x if start == end == 0 else self.x[start : -end if end else None]
        if not backwards:
            return self.x[start : start + n]
        total = length(self.x, 0)
        return self.x[_at_least(total - end - n, start) : total - end]


def _at_least(n: Count, bound: int) -> Count:
    return max(n, bound) if isinstance(n, int) else maximum(n, bound)


def _same(n: Count, m: Count) -> bool:
    return n is m or (isinstance(n, int) and isinstance(m, int) and n == m)


def sequence(title: str, i: int, value: Any) -> TappedSequence:
    """Return a sequence of a scan from an array, or a dict of ``input`` and ``taps``."""
    entry = value if isinstance(value, Mapping) else {"input": value}
    subject = f"{title}: the sequence {i}"
    _check_keys(subject, entry, ("input", "taps"))
    if entry.get("input") is None:
        raise ArgumentError(
            f"{subject} is {value!r}.", "Give an array, or dict(input=array, taps=[...])."
        )
    x = _as_array(subject, entry["input"])
    subject += f" ({x.name})" if x.name else ""
    if not x.ndim:
        raise ShapeError(
            f"{subject} is a scalar, {x!r}.",
            "A sequence has its steps on axis 0; what every step takes is a non-sequence.",
        )
    taps = 0 if entry.get("taps") is None else entry["taps"]
    return TappedSequence(subject, x, _as_taps(subject, taps), entry["input"])


@dataclass(frozen=True, slots=True)
class State:
    """An output of which step t reads the values at t + tap for several negative taps.

    Attributes:
        title: The output's name in messages.
        name: The output's name in a step.
        initial: The initial value; with ``rows``, a value for each step back, the oldest first.
        taps: The taps in the order of the step's arguments; empty if no step reads the output.
        rows: Whether the initial values are the rows of an array.
        traced: Whether the values at all steps are returned, not the last alone.
        wrapper: A wrapper of the value of one step, or None.
    """

    title: str
    name: str
    initial: Any = None
    taps: tuple[int, ...] = ()
    rows: bool = False
    traced: bool = True
    wrapper: Wrapper | None = None

    @property
    def depth(self) -> int:
        """The number of steps that the taps reach back."""
        return -min(self.taps, default=0)

    def first(self) -> list[Any]:
        """Return the initial carries, the value before the first step first."""
        if not self.rows:
            return [self.initial] if self.taps else []
        m = self.depth
        initial = rows_of(f"{self.title}, its initial values", self.initial[:m], m)
        return [initial] if m > REGISTERS else [initial[m - 1 - i] for i in range(m)]

    def names(self) -> list[str]:
        if not self.taps:
            return []
        if self.depth > REGISTERS:
            return [f"{self.name}[t-{self.depth}:t]"]
        return [f"{self.name}[t-{i + 1}]" for i in range(self.depth)]

    def read(self, carries: Sequence[Tensor]) -> list[Tensor]:
        """Return the step's arguments."""
        if self.depth > REGISTERS:
            return [carries[0][self.depth + tap] for tap in self.taps]
        return [carries[-tap - 1] for tap in self.taps]

    def latest(self, carries: Sequence[Tensor]) -> Tensor | None:
        """Return the latest value; None for a map."""
        if not self.taps:
            return None
        return carries[0][0] if self.depth > REGISTERS else carries[0]

    def next_carries(self, new: Tensor, carries: Sequence[Tensor]) -> list[Tensor]:
        """Return the carries after a step with the output ``new``."""
        if self.depth <= REGISTERS:
            return [new, *carries[:-1]] if self.taps else []
        (window,) = carries
        if new.dtype != window.dtype or new.ndim != window.ndim - 1:
            # `unify_lengths` reports the difference.
            return [expand_dims(new, 0)]
        return [share_lengths(concatenate([window[1:], expand_dims(new, 0)]), window)]


def state(title: str, i: int, value: Any) -> State:
    """Return a state of a scan from an entry of ``outputs_info``.

    Raises:
        ArgumentError: If a key is unknown, or taps are not negative, come twice, or have no values.
        ShapeError: If the taps reach back further than the initial values.
    """
    entry = value if isinstance(value, Mapping) else {"initial": value}
    initial, name = entry.get("initial"), f"output {i}"
    subject = f"{title}: the {name}"
    _check_keys(subject, entry, ("initial", "taps", "traced"))
    traced = _is_traced(subject, entry)
    if initial is None:
        if entry.get("taps") is not None:
            raise ArgumentError(
                f"{subject} has the taps {entry['taps']!r} and no initial value.",
                "Give it: dict(initial=array, taps=[...]).",
            )
        return State(subject, name)
    initial = initial if is_number(initial) else _as_array(subject, initial)
    if isinstance(initial, Node) and initial.name:
        name = initial.name
        subject += f" ({name})"
    taps = _as_taps(subject, -1 if entry.get("taps") is None else entry["taps"])
    if [tap for tap in taps if tap >= 0]:
        raise ArgumentError(
            f"{subject} has the taps {list(taps)}.",
            "A step reads values of steps before it: taps of outputs are negative.",
        )
    # As in PyTensor, only the last key of a generator is returned.
    traced = traced and not hasattr(type(initial), "parameter")
    rows = taps != (-1,)
    wrapper = entry["initial"] if isinstance(entry["initial"], Wrapper) else None
    if wrapper is not None and rows:
        wrapper = wrapper.element(as_tensor(initial)[0])
    result = State(subject, name, initial, taps, rows, traced, wrapper)
    return _check_initial(result) if result.rows else result


def _check_initial(x: State) -> State:
    values = as_tensor(x.initial)
    available = values.type.shape[0] if values.ndim else 0
    if available is not None and available < x.depth:
        raise ShapeError(
            f"{x.title} reads {x.depth} steps back by its taps {list(x.taps)}, and its initial "
            f"value is {values.type!r}.",
            f"Give {x.depth} values as its rows, the oldest first.",
        )
    return replace(x, initial=values)


def _as_array(subject: str, value: Any) -> Tensor:
    try:
        return as_tensor(unwrap(value))
    except DTypeError as error:
        raise ArgumentError(f"{subject} is {value!r}, not an array of numbers.") from error


def _is_traced(subject: str, entry: Mapping[Any, Any]) -> bool:
    traced = entry.get("traced", True)
    if traced not in {True, False} or not (traced or entry.get("initial") is not None):
        raise ArgumentError(
            f"{subject} has traced={traced!r}, and the initial value {entry.get('initial')!r}.",
            "traced=False returns only the last value of a state, which needs an initial value.",
        )
    return bool(traced)


def _as_taps(subject: str, value: Any) -> tuple[int, ...]:
    taps = list(value) if isinstance(value, Sequence | np.ndarray) else [value]
    valid = all(isinstance(tap, int | np.integer) and not isinstance(tap, bool) for tap in taps)
    if not taps or not valid or len(set(taps)) != len(taps):
        raise ArgumentError(
            f"{subject} has the taps {value!r}.",
            "Taps are distinct integers: dict(..., taps=[-2, -1]).",
        )
    return tuple(int(tap) for tap in taps)


def _check_keys(subject: str, entry: Mapping[Any, Any], known: Sequence[str]) -> None:
    unknown = [key for key in entry if key not in known]
    if unknown:
        raise ArgumentError(
            f"{subject} has the keys {', '.join(map(repr, unknown))}.",
            f"There are {', '.join(map(repr, known))}.",
        )
