"""Tests that need several devices run in the processes that ``test_sharding.py`` starts."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator

import pytest

from graphc import config
from graphc.errors import NarrowingWarning

SEVERAL = "--xla_force_host_platform_device_count"

EIGHT = [
    "several_devices.py",
    "attention_on_mesh.py",
    "implicit_on_mesh.py",
    "programs_on_mesh.py",
]
"""The files of tests that need eight."""

if SEVERAL not in os.environ.get("XLA_FLAGS", ""):
    collect_ignore = EIGHT


@pytest.fixture(autouse=True)
def native_results() -> Iterator[None]:
    """Return results on the mesh, as arrays of JAX, whose 64 bits these tests do not lose."""
    warnings.simplefilter("ignore", NarrowingWarning)
    with config.change_flags(returns="native"):
        yield
