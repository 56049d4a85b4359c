"""Programs that MLX runs without graphc: plans, and the functions that they call."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from importlib.metadata import version
from itertools import count, product
from typing import Any

import numpy as np

from graphc.errors import ExportError, GraphcError
from graphc.ir import Constant, Graph, TensorType
from graphc.link.mlx.arrays import dtype_of
from graphc.link.mlx.backend import backend
from graphc.link.mlx.lengths import KNOW_LENGTHS, Lengths
from graphc.link.mlx.plans import UNFUSED, Plan, Planner, Slot, value_decides
from graphc.link.mlx.saved import SavedFunctions
from graphc.link.mlx.segments import Segments
from graphc.link.program import Program, observing

Argument = tuple[str, Sequence[str | int | None]]
"""The dtype of an argument and its shape: lengths, names of lengths, or None for any."""


def programs(
    program: Program,
    arguments: Sequence[Argument],
    chosen: Mapping[str, Sequence[int]],
) -> tuple[dict[str, Any], list[bytes]]:
    """A program as plans, for each choice of lengths one, and the functions that they call.

    Args:
        program: What is to be saved.
        arguments: Its arguments; lengths of equal names are equal.
        chosen: The lengths that a name may stand for, where a plan is to know them.

    Raises:
        ExportError: MLX cannot save it for all other lengths; a value decides a shape; or something
            runs in Python. It names the operation and its line.
    """
    if program.host is not None and program.host.inputs:
        raise value_decides(program.graph.inputs[program.host.inputs[0]])
    shapes = [
        [f"{i}.{axis}" if n is None else n for axis, n in enumerate(shape)]
        for i, (_, shape) in enumerate(arguments)
    ]
    names = dict.fromkeys(n for shape in shapes for n in shape if isinstance(n, str))
    free = [name for name in names if name not in chosen]
    if len(free) > MOST_FREE:
        raise ExportError(
            f"MLX saves programs for any of {MOST_FREE} lengths at most, and {len(free)} are open.",
            KNOW_LENGTHS,
        )
    functions = SavedFunctions()
    plans = []
    for lengths in product(*[chosen.get(name, (1, None)) for name in names]):
        known = {m: n for m, n in zip(names, lengths, strict=True) if n is not None}
        made = _Plans(program, [dtype for dtype, _ in arguments], shapes, known, functions)
        plans.append({"lengths": known, **made.plan([m for m in names if m not in known])})
    found = {"mlx": version("mlx"), "shapes": shapes, "programs": plans}
    return found, functions.parts


MOST_FREE = 3
"""Of so many lengths, programs are saved for any and for 1: MLX crashes where a program that it
saved for any length reduces an axis of length 1."""


@dataclass(frozen=True)
class _Plans:
    """The plans of a program.

    Attributes:
        known: The lengths that are known, by name.
    """

    program: Program
    dtypes: Sequence[str]
    shapes: Sequence[Sequence[str | int]]
    known: Mapping[str, int]
    functions: SavedFunctions

    def plan(self, names: Sequence[str]) -> Plan:
        """The plan for any lengths of these names; none where only 1 is a length that fails."""
        try:
            return self.of_any(names) if names else self.of({})
        except GraphcError as error:
            if 1 in self.known.values():
                return {"steps": None, "results": []}
            if isinstance(error, ExportError):
                raise
            where = "for these lengths" if self.known else "for any length"
            problem = f"MLX cannot save the program {where}: {error.problem}"
            raise ExportError(problem, KNOW_LENGTHS, error.where) from error

    def of(self, lengths: Mapping[str, int], functions: SavedFunctions | None = None) -> Plan:
        """The plan for these lengths."""
        followed = Lengths(lengths) if lengths else None
        functions = functions or self.functions
        functions.start(followed)
        all_lengths = {**self.known, **lengths}
        slots = [
            Slot(
                i,
                tuple([n if isinstance(n, int) else all_lengths[n] for n in shape]),
                dtype_of(dtype),
            )
            for i, (dtype, shape) in enumerate(zip(self.dtypes, self.shapes, strict=True))
        ]
        planner = Planner(functions, len(slots))
        if followed is None:
            return planner.plan(Segments(self.program, UNFUSED), slots)
        with observing(followed.observe):
            program = Program(self.program.graph, backend, self.program.host)
            return planner.plan(Segments(program, UNFUSED), slots)

    def of_any(self, names: Sequence[str]) -> Plan:
        """The plan for any lengths of these names, which is one for several."""
        taken = _numbers(self.program.graph)
        taken |= {n for shape in self.shapes for n in shape if isinstance(n, int)}
        taken |= {*self.known.values()}
        several = [dict(zip(names, _primes(first, taken), strict=False)) for first in TRIED]
        plans = [self.of(several[0])]
        plans += [self.of(lengths, SavedFunctions(self.functions)) for lengths in several[1:]]
        made: Plan = _merged(plans, several)
        return made


TRIED = (101, 11, 10007)
"""Lengths for which a program is the same that is saved for any: these, or somewhat more."""


def _primes(first: int, taken: Set[int]) -> Iterator[int]:
    """Primes from a number on which none of the other numbers is a multiple of."""
    for n in count(first, 2):
        is_prime = all(n % k for k in range(2, math.isqrt(n) + 1))
        if is_prime and all(m % n for m in taken if m):
            yield n


def _numbers(graph: Graph) -> set[int]:
    """The lengths and constants in a graph."""
    found: set[int] = set()
    for node in graph.nodes:
        if isinstance(node.type, TensorType):
            found |= {n for n in node.type.shape if n is not None}
        if isinstance(node.op, Constant) and not node.op.value.ndim:
            value = float(np.real(node.op.value))
            found |= {int(value)} if math.isfinite(value) else set()
        for held in node.op.graphs():
            found |= _numbers(held)
    return found


def _merged(plans: Sequence[Any], several: Sequence[Mapping[str, int]]) -> Any:
    """What plans for several lengths have in common; ``[k, name, c]`` where a number is k n + c."""
    first = plans[0]
    if all(plan == first for plan in plans):
        return first
    if isinstance(first, list) and len({*map(len, plans)}) == 1:
        return [_merged(parts, several) for parts in zip(*plans, strict=True)]
    if isinstance(first, dict) and all(plan.keys() == first.keys() for plan in plans):
        return {key: _merged([plan[key] for plan in plans], several) for key in first}
    if all(type(n) is int for n in plans):
        for name in several[0]:
            ns = [lengths[name] for lengths in several]
            k = (plans[1] - first) // (ns[1] - ns[0])
            if all(m == first + k * (n - ns[0]) for m, n in zip(plans, ns, strict=True)):
                return [k, name, first - k * ns[0]]
    raise ExportError(
        "MLX cannot save the program for any length: what it does depends on the length.",
        KNOW_LENGTHS,
    )
