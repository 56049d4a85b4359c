"""What tests of PyTensor's graphs share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext

import jax
import pytest


@pytest.fixture(autouse=True)
def _settings_of_the_jax_linker() -> Iterator[None]:
    """PyTensor's JAX linker computes in 64 bits: importing it says so, which a test undoes."""
    is_imported = "pytensor.link.jax.dispatch" in sys.modules
    with jax.enable_x64(True) if is_imported else nullcontext():
        yield
