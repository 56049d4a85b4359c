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
from graphc.link.mlx.lengths import KNOW_LENGTHS, NamedLengths
from graphc.link.mlx.plans import UNFUSED, Plan, Planner, PlanValue, value_decides
from graphc.link.mlx.saved import SavedFunctions
from graphc.link.mlx.segments import Segments
from graphc.link.program import Program, observing

Argument = tuple[str, Sequence[str | int | None]]
"""An argument's dtype and shape: lengths, names of lengths, or None for any length."""


def programs(
    program: Program, arguments: Sequence[Argument], chosen: Mapping[str, Sequence[int]]
) -> tuple[dict[str, Any], list[bytes]]:
    """Return a program as plans, one for each choice of lengths, and the functions that they call.

    Args:
        program: Program to save.
        arguments: Dtypes and shapes of its arguments; lengths of equal names are equal.
        chosen: Lengths that a name may stand for, with a plan for each.

    Raises:
        ExportError: If MLX cannot save the program for all other lengths, if a value decides a
            shape, or if an operation runs in Python. The error names the operation and its line.
    """
    if program.host is not None and program.host.inputs:
        raise value_decides(program.graph.inputs[program.host.inputs[0]])
    shapes = [
        [f"{i}.{axis}" if n is None else n for axis, n in enumerate(shape)]
        for i, (_, shape) in enumerate(arguments)
    ]
    names = dict.fromkeys(n for shape in shapes for n in shape if isinstance(n, str))
    dynamic = [name for name in names if name not in chosen]
    if len(dynamic) > MAX_DYNAMIC_LENGTHS:
        raise ExportError(
            f"MLX saves programs for any of {MAX_DYNAMIC_LENGTHS} lengths at most, "
            f"and {len(dynamic)} are open.",
            KNOW_LENGTHS,
        )
    functions = SavedFunctions()
    plans = []
    for lengths in product(*[chosen.get(name, (1, None)) for name in names]):
        fixed = {m: n for m, n in zip(names, lengths, strict=True) if n is not None}
        planner = _ProgramPlans(
            program, [dtype for dtype, _ in arguments], shapes, fixed, functions
        )
        plans.append({"lengths": fixed, **planner.plan([m for m in names if m not in fixed])})
    manifest = {"mlx": version("mlx"), "shapes": shapes, "programs": plans}
    return manifest, functions.files


MAX_DYNAMIC_LENGTHS = 3
"""Dynamic lengths of a program, each saved for any length and for 1: MLX crashes if a program saved
for any length reduces an axis of length 1."""


@dataclass(frozen=True)
class _ProgramPlans:
    """The plans of a program.

    Attributes:
        fixed: Fixed lengths, by name.
    """

    program: Program
    dtypes: Sequence[str]
    shapes: Sequence[Sequence[str | int]]
    fixed: Mapping[str, int]
    functions: SavedFunctions

    def plan(self, names: Sequence[str]) -> Plan:
        """Return the plan for any lengths of these names; an empty one if only length 1 fails."""
        try:
            return self.plan_for_any(names) if names else self.plan_for({})
        except GraphcError as error:
            if 1 in self.fixed.values():
                return {"steps": None, "results": []}
            if isinstance(error, ExportError):
                raise
            where = "for these lengths" if self.fixed else "for any length"
            problem = f"MLX cannot save the program {where}: {error.problem}"
            raise ExportError(problem, KNOW_LENGTHS, error.where) from error

    def plan_for(self, lengths: Mapping[str, int], functions: SavedFunctions | None = None) -> Plan:
        dynamic_lengths = NamedLengths(lengths) if lengths else None
        functions = functions or self.functions
        functions.start(dynamic_lengths)
        all_lengths = {**self.fixed, **lengths}
        operands = [
            PlanValue(
                i,
                tuple([n if isinstance(n, int) else all_lengths[n] for n in shape]),
                dtype_of(dtype),
            )
            for i, (dtype, shape) in enumerate(zip(self.dtypes, self.shapes, strict=True))
        ]
        planner = Planner(functions, len(operands))
        if dynamic_lengths is None:
            return planner.plan(Segments(self.program, UNFUSED), operands)[0]
        with observing(dynamic_lengths.observe):
            program = Program(self.program.graph, backend, self.program.host)
            return planner.plan(Segments(program, UNFUSED), operands)[0]

    def plan_for_any(self, names: Sequence[str]) -> Plan:
        """Return the plan for any lengths of these names, equal for several example lengths."""
        taken = _numbers(self.program.graph)
        taken |= {n for shape in self.shapes for n in shape if isinstance(n, int)}
        taken |= {*self.fixed.values()}
        examples = [
            dict(zip(names, _primes(first, taken), strict=False)) for first in EXAMPLE_LENGTHS
        ]
        plans = [self.plan_for(examples[0])]
        plans += [
            self.plan_for(lengths, SavedFunctions(self.functions)) for lengths in examples[1:]
        ]
        plan: Plan = _merge_plans(plans, examples)
        return plan


EXAMPLE_LENGTHS = (101, 11, 10007)
"""Lower bounds of the example lengths, for which the programs must be equal."""


def _primes(first: int, taken: Set[int]) -> Iterator[int]:
    """Return primes from ``first`` on that divide no number of ``taken``."""
    for n in count(first, 2):
        is_prime = all(n % k for k in range(2, math.isqrt(n) + 1))
        if is_prime and all(m % n for m in taken if m):
            yield n


def _numbers(graph: Graph) -> set[int]:
    """Return the lengths and scalar constants in a graph."""
    numbers: set[int] = set()
    for node in graph.nodes:
        if isinstance(node.type, TensorType):
            numbers |= {n for n in node.type.shape if n is not None}
        if isinstance(node.op, Constant) and not node.op.value.ndim:
            value = float(np.real(node.op.value))
            numbers |= {int(value)} if math.isfinite(value) else set()
        for held in node.op.graphs():
            numbers |= _numbers(held)
    return numbers


def _merge_plans(plans: Sequence[Any], examples: Sequence[Mapping[str, int]]) -> Any:
    """Return the common form of plans for several lengths.

    Numbers that differ become ``[k, name, c]`` for ``k * length + c``.
    """
    first = plans[0]
    if all(plan == first for plan in plans):
        return first
    if isinstance(first, list) and len({*map(len, plans)}) == 1:
        return [_merge_plans(items, examples) for items in zip(*plans, strict=True)]
    if isinstance(first, dict) and all(plan.keys() == first.keys() for plan in plans):
        return {key: _merge_plans([plan[key] for plan in plans], examples) for key in first}
    if all(type(n) is int for n in plans):
        for name in examples[0]:
            ns = [lengths[name] for lengths in examples]
            k = (plans[1] - first) // (ns[1] - ns[0])
            if all(m == first + k * (n - ns[0]) for m, n in zip(plans, ns, strict=True)):
                return [k, name, first - k * ns[0]]
    raise ExportError(
        "MLX cannot save the program for any length: what it does depends on the length.",
        KNOW_LENGTHS,
    )
