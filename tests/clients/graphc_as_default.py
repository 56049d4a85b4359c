"""A pytest plugin: PyTensor's modes, except JAX, compile by graphc.

``differences.txt`` lists the tests that must fail, each with the reason. With ``ONE_IN=N`` in the
environment one of N tests runs.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from zlib import crc32

import pytensor
import pytest
from pytensor.compile import mode as modes

from graphc.interop.pytensor import mode

DIFFERENCES = Path(__file__).with_name("differences.txt")


def pytest_configure() -> None:
    """Replace PyTensor's modes, except the one that tests convert to functions of JAX."""
    pytensor.config.mode = graphc = mode()
    for table in (modes.predefined_modes, modes.fast_run_linkers_to_mode):
        table.update({name: graphc for name in table if name.upper() != "JAX"})


def _differences() -> dict[str, str]:
    """Return patterns of the beginnings of tests' names, with the reasons why these tests fail."""
    lines = DIFFERENCES.read_text(encoding="utf-8").splitlines()
    entries = [line.partition("  ") for line in lines if line and not line.startswith("#")]
    return {pattern: reason.strip() for pattern, _, reason in entries}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave tests out of a sample, and mark the tests that differ."""
    every = int(os.environ.get("ONE_IN", "1"))
    left = [item for item in items if crc32(item.nodeid.encode()) % every]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]
    for pattern, reason in _differences().items():
        for item in items:
            if re.match(pattern, item.nodeid):
                item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
