"""Loops that hypothesis makes: on every backend, rewritten or not, what an interpreter gives.

``GRAPHC_FUZZ=17 pytest tests/contract/test_loop_fuzz.py`` begins with another seed, and
``GRAPHC_FUZZ_LOOPS=5000`` makes that many.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, seed, settings

from graphc.link import names
from tests.contract.random_loops import FAR, RandomLoop, random_loops
from tests.contract.test_loops import check

START = int(os.environ.get("GRAPHC_FUZZ", "0"))
LOOPS = {"NUMPY": 100}
"""How many there are for a backend."""

LARGEST = 1e3


@pytest.mark.parametrize("excluding", [(), ("all",)], ids=["rewritten", "as written"])
@pytest.mark.parametrize("backend", names())
def test_a_random_loop_gives_what_an_interpreter_gives(
    backend: str, excluding: tuple[str, ...]
) -> None:
    most = int(os.environ.get("GRAPHC_FUZZ_LOOPS", LOOPS.get(backend, 12)))

    @seed(START)
    @settings(max_examples=most, derandomize=False, suppress_health_check=[*HealthCheck])
    @given(random_loops())
    def tried(loop: RandomLoop) -> None:
        arrays = loop.given()
        outputs, _, near = loop.walked(arrays, arrays, 0)
        assume(near > FAR)
        assume(all(np.max(np.abs(y), initial=0) < LARGEST for rows in outputs for y in rows))
        check(loop.case(), backend, excluding)

    tried()
