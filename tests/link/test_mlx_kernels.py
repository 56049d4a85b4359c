"""Whole programs on MLX with the kernels that the C++ compiler fuses, as users have them.

Elsewhere the tests run MLX unfused, see ``conftest.py`` in the root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SCRIPT = """
import sys
from importlib import import_module
import numpy as np
import graphc
program = import_module("tests.programs." + sys.argv[1])
with graphc.config.change_flags(mode="MLX"):
    found = program.program()
for y, wanted in zip(found, program.expected(), strict=True):
    np.testing.assert_allclose(np.asarray(y), wanted, rtol=1e-7, atol=1e-9)
"""

PROGRAMS = {
    "broadcasting": "elementwise chains of several shapes",
    "logistic_regression": "a gradient, and updates of shared variables",
    "autoregression": "a loop of chunks",
    "garch": "a loop and its gradient",
    "roots_by_iteration": "a loop that stops",
    "recurrent_network": "products in the steps of a loop and its gradient",
    "viterbi": "indices and a loop backwards",
}
"""Programs of ``tests/programs``, and what each has kernels for."""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler to test")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_with_fused_kernels_gives_what_numpy_gives(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT, name],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    # It did fuse, if there is a library for the processor.
    assert [*tmp_path.glob("mlx/*/cpu/*.so")]
