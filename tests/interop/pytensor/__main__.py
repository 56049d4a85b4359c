"""``python -m tests.interop.pytensor``: many random graphs, as ``make fuzz-pytensor`` runs them."""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
import traceback
from collections import Counter

os.environ.setdefault("PYTENSOR_FLAGS", "cxx=,mode=FAST_COMPILE")

import jax
import mlx.core as mx

import graphc
from graphc.compile.cache import PROGRAMS
from tests.interop.pytensor.seeds import MODES, check_seed
from tests.tracing import traced
from tests.xla import compile_fewer_kernels

CHUNK = 50
"""How many graphs are made at a time; their programs are then forgotten."""


def main() -> int:
    """Compare the graphs, each on one backend in turn; the exit status is 1 if one differs."""
    parser = argparse.ArgumentParser(prog="make fuzz-pytensor", description=__doc__)
    parser.add_argument("-n", type=int, default=1000, help="how many graphs")
    parser.add_argument("--seed", type=int, default=1000, help="of the first graph")
    parser.add_argument("--modes", default=",".join(MODES), help="which modes, with commas")
    given = parser.parse_args()
    modes = given.modes.split(",")
    compile_fewer_kernels()
    mx.compile = traced  # the C++ compiler takes a second for each fused kernel
    ran = Counter[str]()
    start = time.monotonic()
    with graphc.config.change_flags(recompile="ignore"):
        for done, seed in enumerate(range(given.seed, given.seed + given.n), 1):
            ran[_outcome(seed, modes[seed % len(modes)])] += 1
            if done % CHUNK == 0 or done == given.n:
                _forget()
                counts = ", ".join(f"{what} {count}" for what, count in ran.items())
                _say(f"{done} of {given.n} graphs, {time.monotonic() - start:.0f} s: {counts}")
    return bool(ran["different"])


def _outcome(seed: int, mode: str) -> str:
    """Which of the counts a graph belongs to; what is wrong with it is printed."""
    try:
        return mode if check_seed(seed, mode) else "not finite"
    except Exception:
        _say(f"seed {seed} in {mode}:\n{traceback.format_exc()}")
        return "different"


def _forget() -> None:
    PROGRAMS.clear()
    jax.clear_caches()
    gc.collect()


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
