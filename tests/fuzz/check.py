"""Programs run by graphc, and compared with what NumPy gives."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import graphc
import graphc.tensor as gt
from graphc.errors import (
    DynamicShapeError,
    GradientError,
    GraphcError,
    ShapeError,
    UnsupportedOperationError,
)
from tests.fuzz.batches import batch
from tests.fuzz.case import Case, Fault, Mode
from tests.fuzz.oracle import MANY_RUNS, code, spread, wide, with_own, with_variable
from tests.fuzz.program import Call, Program, every, laid, used
from tests.fuzz.slopes import MANY_PARTS, slope_in, slopes
from tests.modes import lacks

__all__ = ["faults"]


# Running.


def built(program: Program) -> dict[str, Any]:
    """All that a program assigns, as symbolic arrays."""
    names: dict[str, Any] = {"np": np, "gt": gt, "graphc": graphc}
    for v in program.variables:
        names[f"{v.name}_value"] = laid(v.array, v.layout)
        exec(code(f"{v.name} = {v.declared()}"), names)
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
        self.names = [built(case.program) for case in self.cases]
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


def faults(groups: Sequence[Sequence[Case]], mode: Mode) -> list[Fault]:
    """What is wrong with programs, each with all of its cases, in a mode."""
    runnable = [group for group in groups if group and _fits(group, mode)]
    if mode.vectorized:
        found = [_of_batch(group[0], mode) for group in runnable]
        return [fault for fault in found if fault is not None]
    plain = [g for g in runnable if not all(c.expected.finite for c in g)] if mode.rewritten else []
    rewritten = [group for group in runnable if group not in plain]
    found = []
    for some, how in ((rewritten, mode), (plain, mode.plain())):
        for i in range(0, len(some), mode.batch):
            found += _faults(some[i : i + mode.batch], how)
    return found


def _fits(group: Sequence[Case], mode: Mode) -> bool:
    dtypes = frozenset[str]().union(*(case.expected.dtypes for case in group))
    return not any(lacks(mode.backend, dtype) for dtype in dtypes)


def _faults(groups: Sequence[Sequence[Case]], mode: Mode) -> list[Fault]:
    """Those of some programs, as one function if that runs, and else one by one."""
    first = [group[0] for group in groups]
    if len(groups) == 1 or not all(map(_is_right, first)):
        return [fault for group in groups for fault in _alone(group, mode)]
    try:
        together = Together(first, mode)
        found = together(first)
    except Exception:
        middle = len(groups) // 2
        return _faults(groups[:middle], mode) + _faults(groups[middle:], mode)
    faults = [_compared(case, mode, ys) for case, ys in zip(first, found, strict=True)]
    faults += _others(groups, together, mode)
    return [fault for fault in faults if fault is not None]


def _others(
    groups: Sequence[Sequence[Case]], together: Together, mode: Mode
) -> Iterator[Fault | None]:
    """Those for other shapes: where NumPy gives a result, of all programs at once."""
    others = [[case for case in group[1:] if _is_right(case)] for group in groups]
    for i in range(max(map(len, others))):
        there = [o[i] if len(o) > i else g[0] for o, g in zip(others, groups, strict=True)]
        try:
            results = together(there)
        except Exception:
            for case in there:
                yield from _alone([case], mode)
        else:
            yield from (_compared(c, mode, ys) for c, ys in zip(there, results, strict=True))
    for group in groups:
        yield from _alone([case for case in group[1:] if not _is_right(case)], mode)


def _is_right(case: Case) -> bool:
    return case.expected.error is None and not case.expected.refusable


def _alone(group: Sequence[Case], mode: Mode) -> Iterator[Fault]:
    """Those of one program: the cases with a result, and those where it may be an error."""
    for wrong in (False, True):
        some = [case for case in group if _is_right(case) != wrong]
        if not some:
            continue
        some = [replace(case, slope=None) for case in some] if wrong else some
        try:
            together = Together(some[:1], mode)
        except Exception as error:
            found = [_raised(some[0], mode, error)]
        else:
            found = [_of_call(case, together, mode) for case in some]
        yield from (fault for fault in found if fault is not None)


def _of_call(case: Case, together: Together, mode: Mode) -> Fault | None:
    """That of one call of a program by itself."""
    try:
        (found,) = together([case])
    except Exception as error:
        return _raised(case, mode, error)
    if case.expected.error is not None:
        return _missing_error(case, mode, found, together)
    fault = _compared(case, mode, found)
    # Where graphc may refuse, it must not give another result, if that needs what is refused.
    if fault and case.expected.refusable and _is_not_computed(case, found, together):
        return None
    return fault


def _of_batch(case: Case, mode: Mode) -> Fault | None:
    """That of a program for a batch of one of its variables."""
    many = batch(case.program)
    if many is None:
        return None
    whole = Case(case.program, many.expected)
    try:
        names = built(case.program)
        x, outputs = many.vectorized(names)
        others = [v for v in case.program.variables if v.name != many.name]
        f = graphc.function(
            [x, *(names[v.name] for v in others)],
            outputs,
            mode=mode.graphc(),
            on_unused_input="ignore",
            returns="numpy",
        )
        found = f(many.values, *(laid(v.array, v.layout) for v in others))
    except Exception as error:
        return _raised(whole, mode, error)
    return _compared(whole, mode, found)


# Comparing.

REFUSALS = (DynamicShapeError, UnsupportedOperationError)
"""How JAX refuses a shape that depends on values, and a batch one that would differ within it."""


def _raised(case: Case, mode: Mode, error: Exception) -> Fault | None:
    """Whether an error is what it must be."""
    text = f"{type(error).__name__}: {error}"
    if not isinstance(error, GraphcError):
        return Fault(case.program, mode, f"crash {type(error).__name__}", text)
    if case.expected.error is not None:
        return None
    if case.expected.refusable and isinstance(error, ShapeError):
        return None
    if isinstance(error, GradientError) or _is_too_wide(case, mode, error):
        return None
    if _has_no_one_shape(case, mode, error):
        return None
    return Fault(case.program, mode, f"refused {type(error).__name__}", text)


def _has_no_one_shape(case: Case, mode: Mode, error: Exception) -> bool:
    """Whether JAX, or a batch, refuses a shape that depends on values, or on a branch."""
    if mode.backend == "JAX" and "one branch gives the shape" in str(error):
        return True
    by_value = any(call.shape_by_value() for call in every(case.program.calls))
    return by_value and (mode.backend == "JAX" or mode.vectorized) and isinstance(error, REFUSALS)


def _is_too_wide(case: Case, mode: Mode, error: Exception) -> bool:
    """Whether MLX refuses complex numbers that promote to a dtype it lacks."""
    kinds = {np.dtype(name).kind for name in case.expected.dtypes}
    return mode.backend == "MLX" and "c" in kinds and isinstance(error, UnsupportedOperationError)


def _compared(case: Case, mode: Mode, found: Sequence[np.ndarray]) -> Fault | None:
    """The first output that is not what NumPy gives."""
    what = case.expected
    flips = mode.rewritten or mode.backend != "NUMPY"
    bounds = what.loose if flips else what.strict
    for i, (y, bound) in enumerate(zip(what.outputs, bounds, strict=True)):
        z = np.asarray(found[i])
        if z.dtype != y.dtype:
            return Fault(case.program, mode, "dtype", f"result {i} is {z.dtype}, not {y.dtype}")
        if z.shape != y.shape:
            return Fault(case.program, mode, "shape", f"result {i} is of {z.shape}, not {y.shape}")
        wrong = _wrong(y, z, bound)
        if wrong.any() and not mode.vectorized:
            values = case.program.values()
            bound = spread(case.program, values, what.outputs, flips, MANY_RUNS)[i]
            wrong = _wrong(y, z, bound)
        if wrong.any():
            text = f"result {i} is {z[wrong][:4]}, not {y[wrong][:4]} within {bound[wrong][:4]}"
            return Fault(case.program, mode, "value", text)
    if case.slope is not None and case.slope.value is not None:
        slope = float(found[-1])
        if not abs(slope - case.slope.value) <= case.slope.within and _has_slope(case):
            text = f"the slope is {slope}, not {case.slope.value} within {case.slope.within}"
            return Fault(case.program, mode, "slope", text)
    return None


def _has_slope(case: Case) -> bool:
    """Whether it is linear in many parts of the direction."""
    (slope,) = slopes([case.program], [case.expected], MANY_PARTS)
    return slope is not None and slope.value is not None


def _wrong(y: np.ndarray, z: np.ndarray, bound: np.ndarray) -> np.ndarray:
    if y.dtype.kind in "biu":
        return (y != z) & (bound == 0)
    a, b = wide(y), wide(z)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(all="ignore"):
        return ~(same | (np.abs(a - b) <= bound) | np.isinf(bound))


def _missing_error(
    case: Case, mode: Mode, found: Sequence[np.ndarray], together: Together
) -> Fault | None:
    error = case.expected.error
    if isinstance(error, np.linalg.LinAlgError):
        return None
    if isinstance(error, IndexError) and mode.backend != "NUMPY":
        return None
    if _is_not_computed(case, found, together):
        return None
    shapes = [np.shape(y) for y in found]
    text = f"gives arrays of {shapes}; NumPy raises {type(error).__name__}: {error}"
    return Fault(case.program, mode, "no error", re.sub(r"\s+", " ", text))


def _is_not_computed(case: Case, found: Sequence[np.ndarray], together: Together) -> bool:
    """Whether the results do not need what is refused, or not one of its operands."""
    return all(_is_needless(case, call, found, together) for call in case.expected.refused)


def _is_needless(
    case: Case, refused: Call, found: Sequence[np.ndarray], together: Together
) -> bool:
    program, mode = case.program, together.mode
    concerned = [refused.name in names for names in _needed(program)]
    in_bodies = {name for call in program.calls for body in call.bodies for name in body.names()}
    # A loop may compute what none of its results needs, or another result, which rewriting drops.
    is_within = refused.name in in_bodies or any(len(b.results) > 1 for b in refused.bodies)
    if not any(concerned) or (mode.rewritten and is_within):
        return True
    for operand in refused.names() & program.names():
        if _is_ignored(case, operand, found, concerned, together):
            return True
        for cut, name in _apart(program, refused, operand):
            one = replace(case, program=cut, slope=None)
            try:
                alone = Together([one], mode)
                (again,) = alone([one])
            except Exception:
                continue
            if _is_ignored(one, name, again, concerned, alone):
                return True
    return False


def _apart(program: Program, call: Call, operand: str) -> Iterator[tuple[Program, str]]:
    """Programs with a variable for an operand, for which other uses do not matter, and its name."""
    cut = with_variable(program, operand)
    if cut is not None:
        yield cut, operand
    one = cut or program
    variable = next((v for v in one.variables if v.name == operand), None)
    if variable is not None and any(operand in body.names() for body in call.bodies):
        yield with_own(one, call, variable)


def _needed(program: Program) -> list[set[str]]:
    """The names whose values each result needs: an output, one of a second call, or a state."""
    found = [used(program.calls, {name}, values=True) for name in program.outputs]
    updates = {v.name: v.update for v in program.states() if v.update}
    if not updates:
        return found
    for name in (*program.outputs, *updates.values()):
        names: set[str] = set()
        more = {name}
        while not more <= names:  # a state has its value from its update
            names |= used(program.calls, names | more, values=True)
            more = {updates[state] for state in names & {*updates}}
        found.append(names)
    return found


def _is_ignored(
    case: Case,
    operand: str,
    found: Sequence[np.ndarray],
    concerned: Sequence[bool],
    together: Together,
) -> bool:
    """Whether the outputs that are concerned are the same for other elements of an operand."""
    program = case.program
    numbers = np.random.default_rng(program.seed)
    needed = used(program.calls, {operand})
    variables = tuple(
        replace(v, array=_other(v.array, numbers)) if v.name in needed else v
        for v in program.variables
    )
    other = replace(case, program=replace(program, variables=variables))
    try:
        (again,) = together([other])
    except Exception:
        return False
    some = zip(found, again, concerned, strict=True)
    return all(np.array_equal(y, z, equal_nan=True) for y, z, is_one in some if is_one)


def _other(x: np.ndarray, numbers: np.random.Generator) -> np.ndarray:
    """Other elements of the same kind."""
    if x.dtype.kind in "biu":
        return numbers.permutation(x.ravel()).reshape(x.shape)
    return (3 * numbers.normal(size=x.shape)).astype(x.dtype)
