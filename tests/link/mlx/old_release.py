"""An environment with an old release of MLX."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


OLD = "0.29.3"
"""Its kernels take some views of mixed steps for contiguous, and read what is beside them."""


def _is_missing(why: str) -> None:
    """What is told where the test cannot be made."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(why)


@pytest.fixture(scope="module")
def old_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment of its own, with that release of MLX.

    On a user's machine its test is skipped, and says why, where pip cannot install that release,
    as without a network or for a newer Python; and without a C++ compiler, which it needs. Where
    ``CI`` is set, that is a failure. What pip installs must run.
    """
    if shutil.which("g++") is None:
        _is_missing(f"MLX {OLD} needs g++")
    folder = tmp_path_factory.mktemp("old") / "environment"
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    wanted = f"mlx[cpu]=={OLD}" if sys.platform == "linux" else f"mlx=={OLD}"
    done = subprocess.run(
        [python, "-m", "pip", "install", "--retries=1", wanted, "numpy>=2", "scipy", "filelock"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        _is_missing(f"MLX {OLD} cannot be installed: {done.stderr[-500:]}")
    return python
