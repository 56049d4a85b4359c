"""Run benchmarks by name and print a table of ratios."""

from __future__ import annotations

import argparse
import os
import platform
from importlib.metadata import version

import jax
import numpy as np

import graphc
from benchmarks import (  # noqa: F401 (they fill BENCHMARKS)
    attention,
    attention_mlx,
    cache,
    call,
    compile,
    first,
    gaussian_process,
    gpu,
    implicit_calls,
    implicit_matmul,
    implicit_peers,
    implicit_tracing,
    imports,
    lengths,
    loops,
    mlx,
    mlx_loops,
    pymc_chains,
    pytensor,
    readme,
    rewrite,
    scaling,
    sharding,
    sparse_cholesky,
    steady,
    toeplitz,
    warm,
)
from benchmarks.table import BENCHMARKS, show, write


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("words", nargs="*", help="only those whose names contain one of these")
    parser.add_argument("--list", action="store_true", help="only name them")
    parser.add_argument("--small", action="store_true", help="gpu: sizes that a CPU can run")
    parser.add_argument("--long", action="store_true", help="also what takes minutes")
    asked = parser.parse_args()
    # What is timed as compiled is compiled, here and in processes started from here.
    os.environ["GRAPHC_CACHE_DIR"] = "off"
    chosen = {
        name: each
        for name, each in BENCHMARKS.items()
        if any(word in name for word in asked.words or [""])
        and (asked.long or not each.long)
        and (asked.words or not name.startswith("gpu"))
    }
    gpu.is_small = asked.small
    if asked.list or not chosen:
        for name, each in BENCHMARKS.items():
            write(name + ("   (--long)" if each.long else ""))
        return
    write(
        f"graphc {graphc.__version__}, JAX {jax.__version__}, MLX {version('mlx')}, "
        f"NumPy {np.__version__}, "
        f"Python {platform.python_version()}, {os.cpu_count()} cores, {jax.devices()[0].platform}"
    )
    lines = []
    for name, each in chosen.items():
        write(f"\n{name}")
        for line in each.run():
            show(line)
            lines.append(line)
    if lines:
        write(
            "\nTimes are medians; ratio: of neighbouring measurements; best: of the lowest deciles."
        )
        write("A star: above its target both ways.\n")
        show()
        for line in lines:
            show(line)


main()
