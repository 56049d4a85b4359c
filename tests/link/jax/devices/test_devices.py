"""Tests on eight devices, which a process of their own has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
EIGHT = {"XLA_FLAGS": f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=8"}


def passes(name: str, *options: str) -> None:
    """Run the tests of a file with eight virtual devices."""
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *options, FOLDER / name],
        capture_output=True,
        text=True,
        check=False,
        cwd=FOLDER.parents[3],
        env={**os.environ, **EIGHT},
    )
    assert not done.returncode, done.stdout[-6000:] + done.stderr[-1000:]
    assert " passed" in done.stdout


@pytest.mark.parametrize("name", ["attention.py", "implicit_arrays.py"])
def test_programs_on_eight_devices(name: str) -> None:
    passes(name, "-m", "not exhaustive")


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["attention.py", "implicit_arrays.py"])
def test_all_programs_on_eight_devices(name: str) -> None:
    passes(name, "-m", "exhaustive")
