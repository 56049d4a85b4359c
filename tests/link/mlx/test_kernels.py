"""Whole programs on MLX with the kernels that the C++ compiler fuses, from the first call on.

Elsewhere the tests run MLX unfused, see ``conftest.py`` in the root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

SCRIPT = """
import sys
from importlib import import_module
import numpy as np
import graphc
from graphc.link.mlx import tiers
tiers.has_kernels = lambda key: True
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


LOOP = """
import sys
from tests.contract.loops import CASES
from tests.contract.loop_check import check
from graphc.link.mlx import tiers
tiers.has_kernels = lambda key: True
check(CASES[sys.argv[1]], "MLX", ())
"""

LOOPS = (
    *("a map over one sequence", "a carry over a sequence", "taps read backwards"),
    *("the two states before", "an integer a bool and a float", "bytes that wrap around"),
    *("stops over a sequence", "a while loop without a bound", "a bound that is an input"),
    *("fewer steps than elements by an input", "a tuple in reverse", "segments in reverse"),
    *("three levels", "an inner loop that stops", "one of three branches every step"),
    *("the hessian of a last state", "a gradient through the last two steps backwards"),
    *("a batch that stops at one step", "complex and real states"),
)
"""A case of each kind of loop, of ``tests/contract/loop_cases``, with all its derivatives."""


@pytest.mark.exhaustive
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler to test")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_with_fused_kernels_gives_what_numpy_gives(name: str, tmp_path: Path) -> None:
    run(SCRIPT, name, tmp_path)


@pytest.mark.exhaustive
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler to test")
@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_with_fused_kernels_gives_what_a_plain_loop_gives(name: str, tmp_path: Path) -> None:
    run(LOOP, name, tmp_path)


def run(script: str, name: str, tmp_path: Path) -> None:
    """Raise where a process of its own fails, or makes no kernel."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, name],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    # It did fuse, if there is a library for the processor.
    assert [*tmp_path.glob("mlx/*/cpu/*.so")]
