"""Implicit arrays on the oldest release of JAX that is supported."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]

SAMPLE = ["tests/implicit/test_battery.py", "tests/implicit/test_defects.py"]
"""What touches most of JAX's interfaces; the other tests are of graphc's own."""


def _oldest() -> str:
    """The lowest version of JAX in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (bound,) = [x for x in project["dependencies"] if x.startswith("jax>=")]
    version = bound.removeprefix("jax>=")
    return version if re.fullmatch(r"\d+\.\d+\.\d+", version) else f"{version}.0"


def _is_missing(why: str) -> None:
    """What is told where the test cannot be made."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(why)


@pytest.fixture(scope="module")
def old_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment of its own, with that release of JAX.

    On a user's machine its test is skipped, and says why, where pip cannot install that release,
    as without a network. Where ``CI`` is set, that is a failure.
    """
    folder = tmp_path_factory.mktemp("old") / "environment"
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    wanted = [f"jax=={_oldest()}", "numpy>=2", "scipy", "filelock", "hypothesis", "pytest"]
    done = subprocess.run(
        [python, "-m", "pip", "install", "--retries=1", *wanted],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        _is_missing(f"JAX {_oldest()} cannot be installed: {done.stderr[-500:]}")
    return python


@pytest.mark.exhaustive
def test_programs_of_every_kind_run_on_the_oldest_jax(old_release: Path, tmp_path: Path) -> None:
    version = f"import jax; assert jax.__version__ == {_oldest()!r}, jax.__version__"
    subprocess.run([old_release, "-c", version], check=True)
    # Its environment has no MLX.
    options = ["-q", "--tb=short", "-p", "no:cacheprovider", "-k", "not MLX"]
    done = subprocess.run(
        [old_release, "-m", "pytest", *options, *SAMPLE],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
    )
    assert not done.returncode, done.stdout[-3000:] + done.stderr[-1000:]
