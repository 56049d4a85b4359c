"""Programs run by graphc, several as one function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import graphc
import graphc.tensor as gt
from tests.fuzz.case import Case, Mode
from tests.fuzz.oracle import code
from tests.fuzz.program import Program, laid
from tests.fuzz.slopes import slope_in

__all__ = ["Together", "built"]


def built(program: Program, declaring: str = "") -> dict[str, Any]:
    """All that a program assigns, as symbolic arrays."""
    names: dict[str, Any] = {"np": np, "gt": gt, "graphc": graphc}
    for v in program.variables:
        names[f"{v.name}_value"] = laid(v.array, v.layout)
        exec(code(f"{v.name} = {v.declared(declaring)}"), names)
    for call in program.calls:
        exec(code("\n".join(call.render("graphc"))), names)
    return names


@dataclass
class Together:
    """Several programs as one function.

    Attributes:
        cases: The programs.
        mode: How they are run.
    """

    cases: Sequence[Case]
    mode: Mode

    def __post_init__(self) -> None:
        self.names = [built(case.program, self.mode.declaring) for case in self.cases]
        inputs, outputs, updates = [], [], []
        for case, names in zip(self.cases, self.names, strict=True):
            program = case.program
            inputs += [names[v.name] for v in program.variables if v.update is None]
            updates += [(names[v.name], names[v.update]) for v in program.states() if v.update]
            outputs += [gt.as_tensor(names[y]) for y in program.outputs]
            if case.slope is not None:
                more, slope = slope_in(names, case.slope, program.seed)
                inputs += more
                outputs.append(slope)
        self.function = graphc.function(
            inputs,
            outputs,
            mode=self.mode.graphc(),
            updates=updates,
            on_unused_input="ignore",
            returns="numpy",
        )

    def is_padded(self) -> bool:
        """Whether some lengths are padded to buckets, and not all of them exact."""
        return any("is padded" in line for line in self.function.plan().padding)

    def __call__(self, cases: Sequence[Case]) -> list[list[np.ndarray]]:
        """The outputs of each program for these values of its variables, in the oracle's order."""
        arguments = []
        for case, names in zip(cases, self.names, strict=True):
            for v in case.program.variables:
                if v.update is None:
                    arguments.append(laid(v.array, v.layout))
                else:
                    names[v.name].set_value(v.array)
            arguments += case.slope.arguments() if case.slope else []
        calls = [self.function(*arguments)]
        if any(case.program.states() for case in cases):
            calls.append(self.function(*arguments))
        found = []
        at = 0
        for case, names in zip(cases, self.names, strict=True):
            states = case.program.states()
            end = at + len(case.program.outputs)
            parts = [y for call in calls[: 1 + bool(states)] for y in call[at:end]]
            parts += [np.asarray(names[v.name].get_value()) for v in states]
            parts += [calls[0][end]] if case.slope else []
            at = end + (case.slope is not None)
            found.append(parts)
        return found
