"""What graphc makes of programs, compared with what NumPy gives."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

import graphc
from graphc.errors import (
    BoundsError,
    DynamicShapeError,
    GradientError,
    GraphcError,
    ShapeError,
    UnsupportedOperationError,
)
from tests.fuzz.batches import batch
from tests.fuzz.case import Case, Fault, Mode
from tests.fuzz.needless import is_not_computed
from tests.fuzz.oracle import MANY_RUNS, spread, wide
from tests.fuzz.program import every, laid
from tests.fuzz.slopes import MANY_PARTS, slope_in, slopes
from tests.fuzz.together import Together, built
from tests.modes import lacks

__all__ = ["faults"]


def faults(groups: Sequence[Sequence[Case]], mode: Mode) -> list[Fault]:
    """What is wrong with programs, each with all of its cases, in a mode."""
    runnable = [group for group in groups if group and _fits(group, mode)]
    if mode.padded:
        # The others are exact programs, as in the mode without.
        runnable = [group for group in runnable if _is_padded(group[0], mode)]
    if mode.vectorized:
        found = [_of_batch(group[0], mode) for group in runnable]
        return [fault for fault in found if fault is not None]
    plain = [g for g in runnable if not all(c.expected.finite for c in g)] if mode.rewritten else []
    rewritten = [group for group in runnable if group not in plain]
    found = []
    for some, how in ((rewritten, mode), (plain, mode.plain())):
        joined = [group for group in some if mode.batch > 1 and _may_be_joined(group, how)]
        for i in range(0, len(joined), mode.batch):
            found += _faults(joined[i : i + mode.batch], how)
        found += [f for group in some if group not in joined for f in _alone(group, how)]
    return found


def _is_padded(case: Case, mode: Mode) -> bool:
    try:
        return Together([case], mode).is_padded()
    except Exception:
        return True


def _may_be_joined(group: Sequence[Case], mode: Mode) -> bool:
    """Whether a program will hardly be refused, by which others in one function would be too."""
    case = group[0]
    by_value = any(call.shape_by_value() for call in every(case.program.calls))
    if not _is_right(case) or (by_value and mode.backend == "JAX"):
        return False
    try:
        return case.slope is None or bool(
            slope_in(built(case.program), case.slope, case.program.seed)
        )
    except GraphcError:
        return False


def _fits(group: Sequence[Case], mode: Mode) -> bool:
    dtypes = frozenset[str]().union(*(case.expected.dtypes for case in group))
    return not any(lacks(mode.backend, dtype) for dtype in dtypes)


def _faults(groups: Sequence[Sequence[Case]], mode: Mode) -> list[Fault]:
    """Those of some programs, as one function if that runs, and else one by one."""
    first = [group[0] for group in groups]
    if len(groups) == 1:
        return list(_alone(groups[0], mode))
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
            if isinstance(error, GradientError) and some[0].slope is not None:
                yield from _alone([replace(case, slope=None) for case in some], mode)
                continue
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
    if fault and case.expected.refusable and is_not_computed(case, found, together):
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
    # With the length that graphc takes in place of NumPy's, an index may be out of bounds.
    if case.expected.refusable and isinstance(error, ShapeError | BoundsError):
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
    # So it is where the slope of a branch takes the gradient of the other one's shape.
    if mode.backend == "JAX" and "slopes.py" in str(error) and "in the switch of" in str(error):
        return True
    by_value = any(call.shape_by_value() for call in every(case.program.calls))
    return by_value and (mode.backend == "JAX" or mode.vectorized) and isinstance(error, REFUSALS)


def _is_too_wide(case: Case, mode: Mode, error: Exception) -> bool:
    """Whether MLX refuses complex numbers that promote to a dtype it lacks."""
    kinds = {np.dtype(name).kind for name in case.expected.dtypes}
    return mode.backend == "MLX" and "c" in kinds and isinstance(error, UnsupportedOperationError)


def _compared(case: Case, mode: Mode, found: Sequence[np.ndarray]) -> Fault | None:
    """The first output that is not what NumPy gives, or the slope."""
    for i in range(len(case.expected.outputs)):
        fault = _result(case, mode, i, np.asarray(found[i]))
        if fault is not None:
            return fault
    if case.slope is None or case.slope.value is None:
        return None
    slope = float(found[-1])
    if abs(slope - case.slope.value) <= case.slope.within or not _has_slope(case):
        return None
    text = f"the slope is {slope}, not {case.slope.value} within {case.slope.within}"
    return Fault(case.program, mode, "slope", text)


def _result(case: Case, mode: Mode, i: int, z: np.ndarray) -> Fault | None:
    """What is wrong with one output."""
    flips = mode.rewritten or mode.backend != "NUMPY"
    y = case.expected.outputs[i]
    bound = (case.expected.loose if flips else case.expected.strict)[i]
    if z.dtype != y.dtype:
        return Fault(case.program, mode, "dtype", f"result {i} is {z.dtype}, not {y.dtype}")
    if z.shape != y.shape:
        if not mode.vectorized and _is_decided_by_rounding(case, i, flips):
            return None
        return Fault(case.program, mode, "shape", f"result {i} is of {z.shape}, not {y.shape}")
    wrong = _wrong(y, z, bound)
    if wrong.any() and not mode.vectorized:
        bound = _wider(case, i, flips)
        wrong = _wrong(y, z, bound)
    if not wrong.any():
        return None
    text = f"result {i} is {z[wrong][:4]}, not {y[wrong][:4]} within {bound[wrong][:4]}"
    return Fault(case.program, mode, "value", text)


def _wider(case: Case, i: int, flips: bool) -> np.ndarray:
    """How far each element of a result may be off, by many runs with other roundings."""
    program = case.program
    return spread(program, program.values(), case.expected.outputs, flips, MANY_RUNS)[i]


def _is_decided_by_rounding(case: Case, i: int, flips: bool) -> bool:
    """Whether a result's shape is, as of the distinct ones among numbers that are nearly equal."""
    bound = _wider(case, i, flips)
    return bool(bound.size and np.isinf(bound).all())


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
    if is_not_computed(case, found, together):
        return None
    shapes = [np.shape(y) for y in found]
    text = f"gives arrays of {shapes}; NumPy raises {type(error).__name__}: {error}"
    return Fault(case.program, mode, "no error", re.sub(r"\s+", " ", text))
