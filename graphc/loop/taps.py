"""Taps: the elements of sequences and the past states that a scan's step reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, DTypeError, ShapeError
from graphc.ir import Node, Wrapper, unwrapped
from graphc.loop.arguments import Count
from graphc.loop.carries import fitted, is_number
from graphc.tensor.arrays.join import concatenate
from graphc.tensor.core.axes import expand_dims
from graphc.tensor.core.elementwise import maximum
from graphc.tensor.core.shape import length
from graphc.tensor.core.specify import specified
from graphc.tensor.core.tensor import Tensor, as_tensor

REGISTERS = 8
"""So many past states are a carry each; more are the rows of one, which a step moves by one."""


def listed(given: Any) -> list[Any]:
    """One thing or a list of them, as a list."""
    if given is None:
        return []
    return list(given) if isinstance(given, list | tuple) else [given]


def rows_of(title: str, x: Tensor, n: Count) -> Tensor:
    """The array, which must have n rows: its type says so, and the program checks it."""
    return specified(x, (n, *[None] * (x.ndim - 1)), title)


@dataclass(frozen=True, slots=True)
class TappedSequence:
    """A sequence of which a step t reads the elements t + tap, as far as all of these are there.

    Attributes:
        title: What messages call it.
        x: The whole of it.
        taps: In the order of the step's arguments.
        given: What was given for it: the array, or a wrapper of it.
    """

    title: str
    x: Tensor
    taps: tuple[int, ...]
    given: Any = None

    def wrapped(self, element: Tensor) -> Any:
        """An element as a step gets it."""
        return self.given.element(element) if isinstance(self.given, Wrapper) else element

    @property
    def ends(self) -> tuple[int, int]:
        """The numbers of elements before the one at 0 and after it."""
        return -min(0, *self.taps), max(0, *self.taps)

    @property
    def steps(self) -> Count:
        """For how many steps it has elements."""
        n = length(self.x, 0)
        span = sum(self.ends)
        return _at_least(n - span, 0) if span else n

    def names(self) -> list[str]:
        """The names of the step's arguments."""
        name = self.x.name or "x"
        return [f"{name}[t{tap:+d}]" if tap else f"{name}[t]" for tap in self.taps]

    def windows(self, n: Count, backwards: bool, checked: bool) -> list[Tensor]:
        """The elements for n steps, for each tap: the first ones, or the last ones backwards.

        Args:
            n: How many steps there are.
            backwards: Take the last ones.
            checked: The number comes from elsewhere and may be too high: the program checks it.
        """
        have = self.steps
        if isinstance(have, int) and isinstance(n, int) and have < n:
            span = f" with the taps {list(self.taps)}" if any(self.taps) else ""
            raise ShapeError(
                f"{self.title} has elements for {have} steps{span}, and there are {n}.",
                "Give a longer sequence, or a smaller n_steps.",
            )
        cut = [self._cut(n, backwards, tap) for tap in self.taps]
        if not checked or _same(n, have) or (isinstance(have, int) and isinstance(n, int)):
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


def _at_least(n: Count, least: int) -> Count:
    return max(n, least) if isinstance(n, int) else maximum(n, least)


def _same(n: Count, m: Count) -> bool:
    return n is m or (isinstance(n, int) and isinstance(m, int) and n == m)


def sequence(title: str, place: int, given: Any) -> TappedSequence:
    """A sequence as it was given: an array, or a dict of ``input`` and ``taps``.

    Raises:
        ArgumentError: Another key, or taps that are not integers.
        ShapeError: A scalar.
    """
    whole = given if isinstance(given, Mapping) else {"input": given}
    subject = f"{title}: the sequence {place}"
    _refuse_keys(subject, whole, ("input", "taps"))
    if whole.get("input") is None:
        raise ArgumentError(
            f"{subject} is {given!r}.", "Give an array, or dict(input=array, taps=[...])."
        )
    x = _array(subject, whole["input"])
    subject += f" ({x.name})" if x.name else ""
    if not x.ndim:
        raise ShapeError(
            f"{subject} is a scalar, {x!r}.",
            "A sequence has its steps on axis 0; what every step takes is a non-sequence.",
        )
    taps = 0 if whole.get("taps") is None else whole["taps"]
    return TappedSequence(subject, x, _taps(subject, taps), whole["input"])


@dataclass(frozen=True, slots=True)
class State:
    """An output of which a step t reads the values at t + tap; no taps where it reads none.

    Attributes:
        title: What messages call it.
        name: What it is called in a step.
        initial: The values at first: one, or with ``rows`` those of the taps, the oldest first.
        taps: In the order of the step's arguments, all negative.
        rows: Whether the initial values are rows of an array.
        traced: Whether its values at all steps are returned, and not only the last.
        wrapper: A wrapper of a value of one step; None where it has none.
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
        """The number of steps it goes back."""
        return -min(self.taps, default=0)

    def first(self) -> list[Any]:
        """The carries at first, the value before the first step in front."""
        if not self.rows:
            return [self.initial] if self.taps else []
        m = self.depth
        known = rows_of(f"{self.title}, its initial values", self.initial[:m], m)
        return [known] if m > REGISTERS else [known[m - 1 - i] for i in range(m)]

    def names(self) -> list[str]:
        """The names of its carries."""
        if not self.taps:
            return []
        if self.depth > REGISTERS:
            return [f"{self.name}[t-{self.depth}:t]"]
        return [f"{self.name}[t-{i + 1}]" for i in range(self.depth)]

    def read(self, carries: Sequence[Tensor]) -> list[Tensor]:
        """The step's arguments."""
        if self.depth > REGISTERS:
            return [carries[0][self.depth + tap] for tap in self.taps]
        return [carries[-tap - 1] for tap in self.taps]

    def one(self, carries: Sequence[Tensor]) -> Tensor | None:
        """A value of one step; None for a map."""
        if not self.taps:
            return None
        return carries[0][0] if self.depth > REGISTERS else carries[0]

    def moved(self, new: Tensor, carries: Sequence[Tensor]) -> list[Tensor]:
        """The carries after a step that gives that value."""
        if self.depth <= REGISTERS:
            return [new, *carries[:-1]] if self.taps else []
        (window,) = carries
        if new.dtype != window.dtype or new.ndim != window.ndim - 1:
            # The error comes where carries are compared.
            return [expand_dims(new, 0)]
        return [fitted(concatenate([window[1:], expand_dims(new, 0)]), window)]


def state(title: str, place: int, given: Any) -> State:
    """An entry of ``outputs_info`` as it was given.

    Raises:
        ArgumentError: Unknown keys, or taps that are not negative, come twice, or have no values.
        ShapeError: Fewer initial values than the taps reach back.
    """
    whole = given if isinstance(given, Mapping) else {"initial": given}
    initial, name = whole.get("initial"), f"output {place}"
    subject = f"{title}: the {name}"
    _refuse_keys(subject, whole, ("initial", "taps", "traced"))
    traced = _traced(subject, whole)
    if initial is None:
        if whole.get("taps") is not None:
            raise ArgumentError(
                f"{subject} has the taps {whole['taps']!r} and no initial value.",
                "Give it: dict(initial=array, taps=[...]).",
            )
        return State(subject, name)
    initial = initial if is_number(initial) else _array(subject, initial)
    if isinstance(initial, Node) and initial.name:
        name = initial.name
        subject += f" ({name})"
    taps = _taps(subject, -1 if whole.get("taps") is None else whole["taps"])
    if [tap for tap in taps if tap >= 0]:
        raise ArgumentError(
            f"{subject} has the taps {list(taps)}.",
            "A step reads values of steps before it: taps of outputs are negative.",
        )
    # A generator is a state alone, as in PyTensor: of its keys the last is returned.
    traced = traced and not hasattr(type(initial), "parameter")
    rows = taps != (-1,)
    wrapper = whole["initial"] if isinstance(whole["initial"], Wrapper) else None
    if wrapper is not None and rows:
        wrapper = wrapper.element(as_tensor(initial)[0])
    found = State(subject, name, initial, taps, rows, traced, wrapper)
    return _checked(found) if found.rows else found


def _checked(x: State) -> State:
    """The same, if its initial values reach as far back as its taps."""
    values = as_tensor(x.initial)
    have = values.type.shape[0] if values.ndim else 0
    if have is not None and have < x.depth:
        raise ShapeError(
            f"{x.title} reads {x.depth} steps back by its taps {list(x.taps)}, and its initial "
            f"value is {values.type!r}.",
            f"Give {x.depth} values as its rows, the oldest first.",
        )
    return replace(x, initial=values)


def _array(subject: str, given: Any) -> Tensor:
    try:
        return as_tensor(unwrapped(given))
    except DTypeError as error:
        raise ArgumentError(f"{subject} is {given!r}, not an array of numbers.") from error


def _traced(subject: str, given: Mapping[Any, Any]) -> bool:
    traced = given.get("traced", True)
    if traced not in {True, False} or not (traced or given.get("initial") is not None):
        raise ArgumentError(
            f"{subject} has traced={traced!r}, and the initial value {given.get('initial')!r}.",
            "traced=False returns only the last value of a state, which needs an initial value.",
        )
    return bool(traced)


def _taps(subject: str, given: Any) -> tuple[int, ...]:
    taps = list(given) if isinstance(given, Sequence | np.ndarray) else [given]
    whole = all(isinstance(tap, int | np.integer) and not isinstance(tap, bool) for tap in taps)
    if not taps or not whole or len(set(taps)) != len(taps):
        raise ArgumentError(
            f"{subject} has the taps {given!r}.",
            "Taps are distinct integers: dict(..., taps=[-2, -1]).",
        )
    return tuple(int(tap) for tap in taps)


def _refuse_keys(subject: str, given: Mapping[Any, Any], known: Sequence[str]) -> None:
    unknown = [key for key in given if key not in known]
    if unknown:
        raise ArgumentError(
            f"{subject} has the keys {', '.join(map(repr, unknown))}.",
            f"There are {', '.join(map(repr, known))}.",
        )
