"""The time to import graphc in a new process, beside JAX; NumPy is imported before."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.table import Line, benchmark
from benchmarks.timing import Ratio

REPEATS = 9

SCRIPT = """
import time
import numpy
start = time.process_time()
import {}
print(time.process_time() - start)
"""


def seconds(modules: str, compiled: str) -> float:
    """The processor's seconds to import modules, whose byte code is kept in a folder."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": compiled}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(modules)],
        cwd=Path(__file__).parents[1],
        env=environment,
        capture_output=True,
        check=True,
    )
    return float(done.stdout)


@benchmark("import")
def imports() -> Iterator[Line]:
    ways = ("graphc, graphc.tensor", "jax, jax.numpy")
    with TemporaryDirectory() as compiled:
        rounds = [[seconds(way, compiled) for way in ways] for _ in range(REPEATS + 1)][1:]
    ours, theirs = ([each[i] for each in rounds] for i in (0, 1))
    yield Line("import beyond NumPy, by JAX's", Ratio.of(ours, theirs), 0.3)
