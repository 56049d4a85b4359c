"""Programs for a batch of one variable: graphc vectorizes them, and NumPy takes one at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import graphc
import graphc.tensor as gt
from graphc.ir import toposort
from tests.fuzz.oracle import Expected, expected
from tests.fuzz.program import Program, used

__all__ = ["SIZE", "Batch", "batch"]

SIZE = 3
"""How many values are together."""


@dataclass(frozen=True)
class Batch:
    """Several values of a variable.

    Attributes:
        name: The variable's.
        values: One behind the other.
        outputs: Those that depend on it.
        expected: These outputs for all values.
    """

    name: str
    values: np.ndarray
    outputs: tuple[str, ...]
    expected: Expected

    def vectorized(self, names: Mapping[str, Any]) -> tuple[Any, list[Any]]:
        """The input that takes the values, and the outputs."""
        x = names[self.name]
        many = gt.tensor(f"{self.name}s", dtype=x.dtype, shape=(SIZE, *x.type.shape))
        outputs = [names[name] for name in self.outputs]
        made = graphc.vectorize_graph(outputs, {x: many})
        # A choice between equal branches does not depend on what chooses.
        whole = [
            y if x in toposort([one]) else gt.stack([y] * SIZE)
            for one, y in zip(outputs, made, strict=True)
        ]
        return many, whole


def batch(program: Program) -> Batch | None:
    """A batch of a program's variable; None where that is not defined for all of its values."""
    numbers = np.random.default_rng(program.seed)
    floating = [v for v in program.variables if v.array.dtype.kind in "fcb" and not v.update]
    if not floating or program.states():
        return None
    chosen = floating[numbers.integers(len(floating))]
    outputs = tuple(
        y for y in program.outputs if chosen.name in used(program.calls, {y}, values=True)
    )
    arrays = [numbers.permutation(chosen.array.ravel()) for _ in range(SIZE)]
    values = np.stack([x.reshape(chosen.array.shape) for x in arrays])
    found = []
    for x in values:
        variables = tuple(replace(v, array=x) if v is chosen else v for v in program.variables)
        one = replace(program, variables=variables, outputs=outputs)
        found.append(expected(one, one.values()))
    return _together(chosen.name, values, outputs, found)


def _together(
    name: str, values: np.ndarray, outputs: tuple[str, ...], found: list[Expected | None]
) -> Batch | None:
    right = [one for one in found if one and one.finite and not one.error and not one.refusable]
    if len(right) < SIZE or not outputs:
        return None
    shapes = {tuple(y.shape for y in one.outputs) for one in right}
    if len(shapes) > 1:
        return None

    def stacked(what: str) -> list[np.ndarray]:
        parts = [getattr(one, what) for one in right]
        return [np.stack(arrays) for arrays in zip(*parts, strict=True)]

    dtypes = frozenset[str]().union(*(one.dtypes for one in right))
    whole = Expected(stacked("outputs"), stacked("strict"), stacked("loose"), dtypes=dtypes)
    return Batch(name, values, outputs, whole)
