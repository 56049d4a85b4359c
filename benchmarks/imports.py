"""The time to import graphc and of a first function in a new process; NumPy is imported before."""

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
{}
start = time.process_time()
{}
print(time.process_time() - start)
"""

GRAPH = "import jax, graphc, graphc.tensor as gt; x = gt.vector('x')"
"""The graph's input. JAX is imported in either way."""

FIRST = "graphc.function([x], x**2, mode={!r})([1.0, 2.0])"

BY_HAND = "jax.jit(lambda x: x**2)(jax.numpy.array([1.0, 2.0]))"


def seconds(before: str, measured: str, compiled: str) -> float:
    """The processor's seconds of a statement in a new process.

    Args:
        before: The statements before it.
        measured: The statement.
        compiled: The folder of the byte code.
    """
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": compiled, "GRAPHC_CACHE_DIR": "off"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(before, measured)],
        cwd=Path(__file__).parents[1],
        env=environment,
        capture_output=True,
        check=True,
    )
    return float(done.stdout)


def compared(ours: tuple[str, str], theirs: tuple[str, str]) -> Ratio:
    """Two statements, each with those before it, in processes in turns."""
    with TemporaryDirectory() as compiled:
        rounds = [[seconds(*way, compiled) for way in (ours, theirs)] for _ in range(REPEATS + 1)]
    return Ratio.of(*([each[i] for each in rounds[1:]] for i in (0, 1)))


@benchmark("import")
def imports() -> Iterator[Line]:
    ratio = compared(("", "import graphc, graphc.tensor"), ("", "import jax, jax.numpy"))
    yield Line("import beyond NumPy, by JAX's", ratio, 0.3)


@benchmark("import first")
def first() -> Iterator[Line]:
    imported = ("", "import graphc, graphc.tensor")
    ratio = compared((GRAPH, FIRST.format("NUMPY")), imported)
    yield Line("first function on NUMPY, by the import", ratio, 1.2)
    ratio = compared((GRAPH, FIRST.format("JAX")), (GRAPH, BY_HAND))
    yield Line("first function on JAX, by jax.jit's", ratio, 2.0)
