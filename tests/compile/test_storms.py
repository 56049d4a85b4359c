"""Programs that compile again and again are told so: once, at once, and what to change."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import RecompileError, RecompileWarning
from tests.compile.corpus import loaded, same

STORMS = [*loaded("storms")]
BAKED = [name for name, storm in loaded("storms").items() if storm.at == 2]
"""Those that are to be told at the second compile."""
COMPILED = {"lengths_of_arguments", "values_that_decide_lengths"}
"""Those of one function, which NumPy does not compile again for other lengths."""


@pytest.fixture(autouse=True)
def recompile() -> Iterator[None]:
    """As for users."""
    with graphc.config.change_flags(recompile="warn"):
        yield


@contextmanager
def recorded() -> Iterator[list[RecompileWarning]]:
    """What is told within."""
    found: list[RecompileWarning] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield found
    found += [each.message for each in caught if isinstance(each.message, RecompileWarning)]
    assert len(found) == len(caught)


def told(storm: Any, mode: Any, rounds: int) -> list[tuple[int, RecompileWarning]]:
    """The warnings and at which rounds they came, of that many; numbers are compared."""
    found = []
    steps = storm.run(mode)
    for i in range(1, rounds + 1):
        with recorded() as caught:
            same(*next(steps))
        found += [(i, warning) for warning in caught]
    return found


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("name", STORMS)
def test_a_storm_is_told_once_in_time_with_its_cause_its_name_and_its_line(
    name: str, mode: str
) -> None:
    storm = loaded("storms")[name]
    found = told(storm, mode, storm.at + 3)
    if name in COMPILED and mode == "NUMPY":
        assert found == []
        return
    ((at, warning),) = found
    assert at == storm.at
    text = str(warning)
    assert f"[{storm.cause}" in text
    assert storm.line in text
    assert not storm.names or any(f"`{name}`" in text for name in storm.names)


@pytest.mark.parametrize("name", STORMS)
def test_a_storm_ends_at_the_round_at_which_it_is_told_where_it_is_an_error(name: str) -> None:
    storm = loaded("storms")[name]
    rounds = []

    def run() -> None:
        for found, wanted in storm.run("MLX" if name in COMPILED else "NUMPY"):
            same(found, wanted)
            rounds.append(found)

    with graphc.recompile("raise"), pytest.raises(RecompileError, match=rf"\[{storm.cause}"):
        run()
    assert len(rounds) == storm.at - 1


@pytest.mark.parametrize("name", STORMS)
def test_a_storm_is_told_nowhere_where_that_is_off(name: str) -> None:
    storm = loaded("storms")[name]
    with graphc.recompile("ignore"):
        assert told(storm, "NUMPY", storm.at + 2) == []


@pytest.mark.parametrize("name", BAKED)
def test_a_mode_silences_as_the_warning_says(name: str, mode: str) -> None:
    ((_, warning),) = told(loaded("storms")[name], mode, 2)
    assert 'recompile="ignore"' in str(warning)
    assert told(loaded("storms")[name], graphc.Mode(mode, recompile="ignore"), 4) == []


def test_fifty_captured_batches_are_one_compilation_and_no_warning(mode: str) -> None:
    w = gt.vector("w", dtype="float32")
    events: list[graphc.Event] = []
    random = np.random.default_rng(0)
    weights = random.normal(size=100).astype("float32") / 10
    with graphc.events.subscribe(events.append), warnings.catch_warnings(action="error"):
        for _ in range(50):
            batch = random.normal(size=(32, 100)).astype("float32")
            loss = (gt.tanh(batch @ w) ** 2).mean()
            step = graphc.function([w], [loss, graphc.grad(loss, w)], mode=mode)
            y, slope = step(weights)
            z = np.tanh(batch @ weights)
            np.testing.assert_allclose(float(y), (z**2).mean(), rtol=1e-5)
            wanted = batch.T @ (2 * z * (1 - z**2)) / 32
            np.testing.assert_allclose(np.asarray(slope), wanted, rtol=1e-4, atol=1e-6)
    assert [event.kind for event in events].count("compile") == 1
    assert [event.kind for event in events].count("hit") == 49
    (cause,) = step.stats.causes
    assert cause.startswith("captured value: `batch` (local of test_fifty_captured_batches")
    assert cause.endswith("float32[32, 100] of other values")


def test_two_places_with_the_same_storm_are_told_of_each(mode: str) -> None:
    x = gt.vector("x")
    found: list[RecompileWarning] = []
    for make in (
        lambda k: graphc.function([x], x + k, mode=mode),
        lambda k: graphc.function([x], x - k, mode=mode),
    ):
        with recorded() as caught:
            for k in range(1, 5):
                make(k / 8)(np.ones(2))
        found += caught
    assert ["[Python scalar" in str(warning) for warning in found] == [True, True]


def test_there_are_fifteen_of_them() -> None:
    assert len(STORMS) >= 15
