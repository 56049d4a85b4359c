"""What all tests share: every mode in turn, and property tests that are the same every time."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from graphc.link import names

# A check of the speed at which examples are made would judge what else the machine does.
settings.register_profile(
    "graphc",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("graphc")


@pytest.fixture(params=names())
def mode(request: pytest.FixtureRequest) -> str:
    """The name of each backend."""
    name: str = request.param
    return name
