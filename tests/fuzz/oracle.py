"""The oracle: a program evaluated by NumPy, and how far rounding may move each element.

A program is run again with every rounded value moved at random by a few units in the last place.
An element that moves much is ill-conditioned; a choice that turns out otherwise is not decided by
the program. The tolerance of each element follows from that, and from nothing else.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import CodeType
from typing import Any

import ml_dtypes
import numpy as np

from tests.fuzz.functions import NAMESPACE, UndefinedError
from tests.fuzz.program import Call, Program, Variable, every

__all__ = ["Expected", "Rounding", "code", "expected", "run"]

ERRORS = (ArithmeticError, LookupError, TypeError, ValueError, np.linalg.LinAlgError)
"""What NumPy raises."""

NO_RESULT = (UndefinedError, *ERRORS)
"""What is raised where there is no result to compare."""

RUNS = 4
"""How often a program is run with other roundings."""

MANY_RUNS = 64
"""How often, before a difference counts as a fault: an integer may hang on one rounding."""

WIDER = 25.0
"""How much farther a backend's error may be than the largest error of those runs."""


@lru_cache(10_000)
def code(text: str) -> CodeType:
    return compile(text, "<program>", "exec")


@dataclass
class Rounding:
    """How results of NumPy are rounded, and what was seen on the way.

    Attributes:
        seed: Of the errors; without one there are none.
        flips: Whether zeros may change their sign, as rewriting allows.
        stretched: The assignments that broadcast a length of 1, and the operands' numbers and axes.
        finite: Whether all values were finite.
        smooth: Whether no function was where it has no derivative.
    """

    seed: int | None = None
    flips: bool = False
    stretched: set[tuple[str, int, int]] = field(default_factory=set)
    finite: bool = True
    smooth: bool = True

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)

    def r(self, x: Any, ulps: float, cusp: bool = False, edge: Any = False) -> np.ndarray:
        """Return a result, rounded otherwise."""
        x = np.asarray(x)
        at_cusp = cusp and _inexact(x) and bool((x == 0).any())
        self.smooth = self.smooth and not (edge or at_cusp)
        if not _inexact(x):
            return x
        self.finite = self.finite and bool(np.isfinite(x).all())
        return x if self.seed is None else self._moved(x, ulps)

    def p(self, x: np.ndarray) -> np.ndarray:
        """An operand of a sum, moved by its own rounding."""
        return self._moved(x, 2) if self.seed is not None and _inexact(x) else x

    def _moved(self, x: np.ndarray, ulps: float) -> np.ndarray:
        eps = ulps * float(ml_dtypes.finfo(x.dtype).eps)
        if self.seed == 0 and eps and x.dtype.kind == "f":
            # Where a result is just beside a number of few digits, it may be that number.
            few = np.round(x.astype("float64"), int(-np.log10(eps)))
            return np.where(np.abs(few - x) < eps, few, x).astype(x.dtype)
        noise = self.random.uniform(-eps, eps, x.shape)
        if x.dtype.kind == "c":
            noise = noise + 1j * self.random.uniform(-eps, eps, x.shape)
        moved = np.asarray(x * (1 + noise)).astype(x.dtype) if ulps else x
        if x.dtype.kind != "c":  # the sign of NaN is nobody's
            moved = np.where(np.isnan(x), np.copysign(moved, noise), moved).astype(x.dtype)
        if self.flips and x.dtype.kind != "c":
            signs = self.random.choice([-1, 1], x.shape).astype(x.dtype)
            moved = np.where(x == 0, signs * x, moved).astype(x.dtype)
        return moved

    def meet(self, name: str, shape: tuple[int, ...], *operands: Any, inner: int) -> None:
        """Operands that broadcast against each other, and to a shape, but for inner axes."""
        shapes = [np.shape(x)[: max(np.ndim(x) - inner, 0)] for x in operands]
        whole = np.broadcast_shapes(shape, *shapes)
        for i, own in enumerate(shapes):
            for axis in range(1, len(own) + 1):
                if own[-axis] == 1 != whole[-axis]:
                    self.stretched.add((name, i, -axis - inner))

    def namespace(self) -> dict[str, Any]:
        return {**NAMESPACE, "r": self.r, "p": self.p, "meet": self.meet}


def _inexact(x: np.ndarray) -> bool:
    return x.dtype.kind in "fc" or x.dtype == ml_dtypes.bfloat16


def run(calls: Sequence[Call], namespace: dict[str, Any]) -> None:
    """Assign what NumPy makes of the calls."""
    # Of an empty array np.mean warns although all warnings of floating point are ignored.
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for call in calls:
            exec(code("\n".join(call.render("traced"))), namespace)


@dataclass
class Expected:
    """What a program gives for some values of its variables.

    Attributes:
        outputs: The outputs of each call of the function, and then the values of the states.
        strict: How far each element may be off as the program is written.
        loose: How far it may be off where signs of zeros do not matter.
        error: What NumPy raised instead.
        refusable: Whether graphc may refuse the program, as a length of 1 that it does not know
            broadcasts.
        refused: The calls that NumPy refuses, or graphc may refuse.
        finite: Whether all values on the way were finite.
        smooth: Whether no function on the way was where it has no derivative.
        dtypes: Those of all values on the way.
    """

    outputs: list[np.ndarray] = field(default_factory=list)
    strict: list[np.ndarray] = field(default_factory=list)
    loose: list[np.ndarray] = field(default_factory=list)
    error: Exception | None = None
    refusable: bool = False
    refused: tuple[Call, ...] = ()
    finite: bool = True
    smooth: bool = True
    dtypes: frozenset[str] = frozenset()


def expected(program: Program, values: Mapping[str, np.ndarray]) -> Expected | None:
    """What NumPy makes of a program; None where that is undefined."""
    exact = Rounding()
    found = Expected()
    try:
        found.outputs, names = evaluated(program, values, exact)
    except UndefinedError:
        return None
    except ERRORS as error:
        found.error = error
    else:
        arrays = [x for x in names.values() if isinstance(x, np.ndarray | np.generic)]
        found.dtypes = frozenset(x.dtype.name for x in arrays)
        found.strict = spread(program, values, found.outputs, flips=False)
        found.loose = spread(program, values, found.outputs, flips=True)
    found.finite, found.smooth = exact.finite, exact.smooth
    known = {call.name: _known(program, call) for call in program.calls}
    unknown = {n for n, i, axis in exact.stretched if n not in known or not known[n](i, axis)}
    found.refusable = bool(unknown)
    found.refused = (
        tuple(call for call in program.calls if unknown & {one.name for one in every((call,))})
        if found.error is None
        else (failing(program),)
    )
    return found


def evaluated(
    program: Program, values: Mapping[str, np.ndarray], rounding: Rounding
) -> tuple[list[np.ndarray], dict[str, Any]]:
    """The outputs, and everything that was assigned in the last call."""
    outputs: list[np.ndarray] = []
    names: dict[str, Any] = {}
    for names in _calls(program, values, rounding):
        run(program.calls, names)
        outputs += [np.asarray(names[y]) for y in program.outputs]
    return outputs + [np.asarray(names[v.update]) for v in program.states()], names


def _calls(
    program: Program, values: Mapping[str, np.ndarray], rounding: Rounding
) -> Iterator[dict[str, Any]]:
    """What each call of the function begins with: a second one, with the states of the first."""
    state = dict(values)
    for _ in range(2 if program.states() else 1):
        names = {**rounding.namespace(), **state}
        yield names
        state |= {v.name: names[v.update] for v in program.states()}


def failing(program: Program) -> Call:
    """The first call that NumPy refuses, with the states that earlier calls of the program left."""
    for names in _calls(program, program.values(), Rounding()):
        for call in program.calls:
            try:
                run([call], names)
            except ERRORS:
                return call
    raise AssertionError(f"NumPy refuses nothing of {program}")


def with_variable(program: Program, name: str) -> Program | None:
    """The program with a variable in the place of a call; None where NumPy gives it no value."""
    i = next((i for i, call in enumerate(program.calls) if call.name == name), None)
    if i is None:
        return None
    namespace: dict[str, Any] = {**Rounding().namespace(), **program.values()}
    call = program.calls[i]
    try:
        run(program.calls[: i + 1], namespace)
    except NO_RESULT:
        return None
    array = np.asarray(namespace[name])
    static = tuple(1 if one else None for one in call.ones or (False,) * array.ndim)
    variables = (*program.variables, Variable(name, array, static))
    calls = (*program.calls[:i], *program.calls[i + 1 :])
    return replace(program, variables=variables, calls=calls).pruned()


def with_own(program: Program, call: Call, variable: Variable) -> Iterator[tuple[Program, str]]:
    """The program in which an operand, or an option, of a call is a variable of its own; its name.

    What else the variable is used for does not matter then.
    """
    name = f"{variable.name}_own"
    other = replace(variable, name=name, update=None)

    def own(text: str) -> str:
        return re.sub(rf"\b{variable.name}\b", name, text)

    changed = [
        *(replace(call, options={**call.options, k: own(x)}) for k, x in call.options.items()),
        replace(call, operands=tuple(map(own, call.operands))),
    ]
    for one in changed:
        if name in one.names():
            calls = tuple(one if old.name == call.name else old for old in program.calls)
            yield replace(program, calls=calls, variables=(*program.variables, other)), name


def spread(
    program: Program,
    values: Mapping[str, np.ndarray],
    exact: list[np.ndarray],
    flips: bool,
    runs: int = RUNS,
) -> list[np.ndarray]:
    """How far each element of the outputs may be off."""
    bounds = [_smallest(y) for y in exact]
    for seed in range(runs):
        try:
            others, _ = evaluated(program, values, Rounding(seed, flips))
        except NO_RESULT:
            return [np.full(y.shape, np.inf) for y in exact]
        for i, (y, other) in enumerate(zip(exact, others, strict=True)):
            bounds[i] = np.maximum(bounds[i], _distance(y, other))
    return bounds


def _smallest(y: np.ndarray) -> np.ndarray:
    """The error of one rounding, of that of the smallest number at least."""
    if not _inexact(y):
        return np.zeros(y.shape)
    info = ml_dtypes.finfo(y.dtype)
    size = np.abs(np.nan_to_num(wide(y)))
    return 8 * float(info.eps) * size + 4 * float(info.tiny)


def wide(y: np.ndarray) -> np.ndarray:
    """The same numbers in a dtype that all functions of NumPy take."""
    return y.astype("complex128" if y.dtype.kind == "c" else "float64")


def _distance(y: np.ndarray, other: np.ndarray) -> np.ndarray:
    """How far two results are from each other; infinite where they are not comparable."""
    if y.shape != other.shape:
        return np.full(y.shape, np.inf)
    if not _inexact(y):
        return np.where(y == other, 0.0, np.inf)
    a, b = wide(y), wide(other)
    both = np.isfinite(a) & np.isfinite(b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    apart = np.abs(np.where(both, a, 0) - np.where(both, b, 0))
    return np.where(both, WIDER * apart, np.where(same, 0.0, np.inf))


def _known(program: Program, call: Call) -> Any:
    """Whether graphc must know that the length of an operand's axis is 1."""
    ones = {v.name: tuple(n == 1 for n in v.static) for v in program.variables}
    ones |= {c.name: c.ones for c in program.calls}
    names = [x for x in call.operands if x.isidentifier()]
    names = names[1:] if call.row.broadcasts == "into" else names
    return lambda i, axis: bool(ones[names[i]]) and ones[names[i]][axis]
