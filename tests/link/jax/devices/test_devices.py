"""Tests on eight devices, which a process of their own has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
EIGHT = {"XLA_FLAGS": f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=8"}


def check_on_eight_devices(marker: str) -> None:
    """Run the tests of both files that have the marker, with eight virtual devices."""
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "-m", marker, FOLDER / "attention.py", FOLDER / "implicit_arrays.py"],
        capture_output=True,
        text=True,
        check=False,
        cwd=FOLDER.parents[3],
        env={**os.environ, **EIGHT},
    )
    assert not done.returncode, done.stdout[-6000:] + done.stderr[-1000:]
    assert " passed" in done.stdout


def test_attention_and_implicit_arrays_on_eight_devices() -> None:
    check_on_eight_devices("not exhaustive")


@pytest.mark.exhaustive
def test_all_cases_of_attention_and_implicit_arrays_on_eight_devices() -> None:
    check_on_eight_devices("exhaustive")
