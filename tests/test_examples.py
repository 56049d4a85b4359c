"""The examples run, and say what they are to say."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def ran(example: Path, folder: Path) -> str:
    """What a copy of an example prints; its pictures go to the folder it is in."""
    shutil.copytree(ROOT / "examples", folder / "examples")
    done = subprocess.run(
        [sys.executable, folder / "examples" / example.name],
        env={**os.environ, "MPLBACKEND": "Agg", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_ends_well(example: Path, tmp_path: Path) -> None:
    assert ran(example, tmp_path)


@pytest.mark.slow
def test_the_o_ring_example_agrees_with_the_published_estimates(tmp_path: Path) -> None:
    text = ran(ROOT / "examples" / "oring.py", tmp_path)
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines()[1:4]}
    assert set(rows) == {"NUMPY", "JAX", "published"}
    assert rows["NUMPY"] == rows["JAX"] == rows["published"]
    assert re.search(r"at 31 °F: 0\.\d+", text)
    assert (tmp_path / "build" / "oring.png").stat().st_size > 10_000
