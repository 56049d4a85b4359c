"""``python -m tests.fuzz``: many random programs on all backends, as ``make fuzz`` runs them."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence

import graphc
from tests.fuzz.case import MODES, Fault, cases
from tests.fuzz.check import faults
from tests.fuzz.generate import program
from tests.fuzz.open import is_open
from tests.fuzz.script import report
from tests.fuzz.shrink import shrunk
from tests.xla import compile_fewer_kernels

CHUNK = 32
"""How many programs are generated at a time; their code and results are then forgotten."""


def main() -> int:
    """Run the programs; the exit status is 1 if one is faulty."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("-n", type=int, default=1000, help="how many programs")
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--modes", default=",".join(MODES), help="which modes, with commas")
    parser.add_argument("--all", action="store_true", help="programs of open classes too")
    given = parser.parse_args()
    modes = given.modes.split(",")
    compile_fewer_kernels()
    ran = Counter[str]()
    seen = set[tuple[str, ...]]()
    start = time.monotonic()
    with graphc.config.change_flags(recompile="ignore"):
        for first in range(given.seed, given.seed + given.n, CHUNK):
            seeds = range(first, min(first + CHUNK, given.seed + given.n))
            for fault in _faults(seeds, modes, ran, everything=given.all):
                _tell(fault, seen)
            done = seeds.stop - given.seed
            _say(f"{done} of {given.n} programs, {time.monotonic() - start:.0f} s: {_counts(ran)}")
    return bool(ran["faults"])


def _faults(
    seeds: Sequence[int], modes: Sequence[str], ran: Counter[str], *, everything: bool
) -> list[Fault]:
    groups = [cases(one) for one in map(program, seeds) if everything or not is_open(one)]
    found = []
    for mode in modes:
        ran[mode] += sum(map(len, groups))
        found += faults(groups, MODES[mode])
    ran["faults"] += len(found)
    return found


def _tell(fault: Fault, seen: set[tuple[str, ...]]) -> None:
    """Print a fault, made small, unless one like it was printed."""
    small = shrunk(fault)
    if small.signature() not in seen:
        seen.add(small.signature())
        _say(f"{report(small)}\n\n# end of {fault.program}\n")


def _counts(ran: Counter[str]) -> str:
    return ", ".join(f"{mode} {count}" for mode, count in ran.items())


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
