"""Loops that hypothesis makes: on every backend, rewritten or not, what an interpreter gives.

``GRAPHC_FUZZ=17 pytest tests/contract/test_loop_fuzz.py`` begins with another seed, and
``GRAPHC_FUZZ_LOOPS=5000`` makes that many.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, seed, settings, strategies as st

from graphc.link import names
from tests.contract.loop_case import LoopCase
from tests.contract.loop_cases.batches import each, over
from tests.contract.loop_check import check
from tests.contract.random_loops import FAR, RandomLoop, random_loops

KINDS = {"f": [1.0, -0.5, 1.5], "b": [True, False, True], "i": [1, 2, 0]}
"""What the values of an element of a batch are multiplied with."""

START = int(os.environ.get("GRAPHC_FUZZ", "0"))
LOOPS, BATCHES = {"NUMPY": 40}, {"NUMPY": 24}
"""How many there are for a backend, where it is not 12."""

LARGEST = 1e3


def is_tame(loop: RandomLoop, arrays: Sequence[Any]) -> bool:
    """Whether differences say what its slopes are: no jump is near, and nothing grows large."""
    outputs, _, near = loop.walked(arrays, arrays, 0)
    largest = max((np.max(np.abs(y), initial=0) for rows in outputs for y in rows), default=0)
    return bool(near > FAR and largest < LARGEST)


def loops(backend: str, usual: dict[str, int]) -> Any:
    """How many examples are made."""
    most = int(os.environ.get("GRAPHC_FUZZ_LOOPS", usual.get(backend, 12)))
    return settings(max_examples=most, derandomize=False, suppress_health_check=[*HealthCheck])


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("excluding", [(), ("all",)], ids=["rewritten", "as written"])
@pytest.mark.parametrize("backend", names())
def test_a_random_loop_gives_what_an_interpreter_gives(
    backend: str, excluding: tuple[str, ...]
) -> None:
    @seed(START)
    @loops(backend, LOOPS)
    @given(random_loops())
    def tried(loop: RandomLoop) -> None:
        assume(is_tame(loop, loop.given()))
        check(loop.case(), backend, excluding)

    tried()


@pytest.mark.exhaustive
@pytest.mark.parametrize("backend", names())
def test_a_batch_of_random_loops_gives_what_each_of_them_gives(backend: str) -> None:
    @seed(START)
    @loops(backend, BATCHES)
    @given(random_loops(), st.integers(0, 7))
    def tried(loop: RandomLoop, place: int) -> None:
        # Traces of different lengths are no batch, and what is not felt is tried above.
        assume(loop.stop is None or loop.most)
        read = loop.read if loop.stop is None else ["last"] * len(loop.read)
        loop = replace(loop, read=read, truncate=None)
        arrays = loop.given()
        place %= len(arrays) - (loop.steps is not None and loop.steps[1])
        x = arrays[place]
        batch = np.array([x * np.asarray(k, x.dtype) for k in KINDS[x.dtype.kind]])
        flags = [i == place for i in range(len(arrays))]
        for one in batch:
            assume(
                is_tame(loop, [one if flag else y for y, flag in zip(arrays, flags, strict=True)])
            )
        given_ = tuple(batch if flag else y for y, flag in zip(arrays, flags, strict=True))
        build, plain = over(loop.build, *flags), each(loop.plain, *flags)
        check(LoopCase("batch", given_, build, plain, order=1, static=loop.static), backend, ())

    tried()
