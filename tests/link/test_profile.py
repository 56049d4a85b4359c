"""The stopwatch of profiles, with a clock that the test sets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc.tensor as gt
from graphc.link.profile import Stopwatch, size_of, time_calls

X = gt.vector("x")
OUTER, INNER = gt.exp(X), gt.sin(X)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_what_runs_within_another_part_is_taken_off_its_time() -> None:
    clock = Clock()
    watch = Stopwatch(clock=clock)

    def inner(x: Any) -> Any:
        clock.now += 2
        return x

    def outer(x: Any) -> Any:
        clock.now += 1
        for _ in range(3):
            watch.run((INNER,), inner, x)
        return x

    watch.run((OUTER,), outer, np.ones(4))
    watch.run((INNER,), inner, np.ones(4))
    found = {(part.inside, part.nodes): (part.seconds, part.calls) for part in watch.parts.all()}
    assert found == {
        ((), (OUTER,)): (1.0, 1),
        ((OUTER,), (INNER,)): (6.0, 3),
        ((), (INNER,)): (2.0, 1),
    }
    assert sum(part.seconds for part in watch.parts.all()) == clock.now


def test_an_error_leaves_the_stopwatch_as_it_was() -> None:
    clock = Clock()
    watch = Stopwatch(clock=clock)

    def failing() -> None:
        clock.now += 1
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 (there is no message)
        watch.run((OUTER,), failing)
    watch.run((INNER,), lambda: 0)
    assert [part.inside for part in watch.parts.all()] == [(), ()]


def test_calls_are_timed_together() -> None:
    clock = Clock()
    calls: list[int] = []

    def call() -> None:
        calls.append(1)
        clock.now += 0.5

    assert time_calls(call, 4, clock) == 2.0
    assert len(calls) == 4


def test_sizes_of_several_results_are_added() -> None:
    assert size_of((np.ones(3), [np.ones(2, np.int8), 7])) == 26
