"""Loops and branches, whose functions are programs of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tests.fuzz.program import Body
from tests.fuzz.row import DOUBLE, EVERY, FLOATS, Choice, row
from tests.fuzz.values import Value

if TYPE_CHECKING:
    from tests.fuzz.generate import Growing

STATES = DOUBLE | {"int64", "int32", "bool", "complex64"}
"""Dtypes of states."""


def element(x: Value, at: int = 0) -> tuple[np.ndarray, tuple[bool, ...]]:
    """What a step sees of a sequence."""
    return x.array[at], x.ones[1:]


def whole(x: Value) -> tuple[np.ndarray, tuple[bool, ...]]:
    return x.array, x.ones


def mapped(g: Growing) -> Choice | None:
    """One or two sequences, and a step without a state."""
    xs = [x for x in (g.any(lambda v: v.ndim and v.shape[0]) for _ in range(g.integer(1, 2))) if x]
    if not xs:
        return None
    inner, parameters = g.body((element(x) for x in xs), g.integer(1, 4))
    result = inner.pool[-1].name
    names = ", ".join(x.name for x in xs)
    body = inner.finished(parameters, [result])
    return Choice((), {"sequences": names}, (body,))


row(
    "map",
    "scan({f0}, [{sequences}], [None], return_updates=False)[0]",
    mapped,
    "graphc.map({f0}, [{sequences}])",
    weight=3,
    depth=1,
)


def next_state(inner: Growing, state: Value) -> str:
    """A value of the state's type that the step computes; else one made of the state."""
    fits = [v for v in inner.pool if v.dtype == state.dtype and v.shape == state.shape]
    made = [v for v in fits if v.name.startswith("v") and v.ones == state.ones]
    return (made or [state])[-1].name


def stopping(inner: Growing, names: list[str]) -> str | None:
    """A condition that ends a loop, if there is a bool without axes."""
    found = [v.name for v in inner.pool if v.dtype == "bool" and not v.ndim and v.name[0] == "v"]
    return found[-1] if found and inner.chance(50) else None


def scanned(g: Growing) -> Choice | None:
    """A state, perhaps a sequence with taps, perhaps an end, perhaps rows beside."""
    state = g.any(lambda v: v.dtype in STATES)
    if state is None:
        return None
    x = g.any(lambda v: v.ndim and v.shape[0] > 1) if g.chance(75) else None
    taps = g.pick([[0], [0], [0, 1], [-1, 0], [1]]) if x else []
    given = [element(x) for _ in taps] if x else []
    inner, parameters = g.body([*given, whole(state)], g.integer(1, 4))
    state_in = next(v for v in inner.pool if v.name == parameters[-1])
    results = [next_state(inner, state_in)]
    outputs = [state.name]
    if g.chance(40):
        results.append(inner.pool[-1].name)
        outputs.append("None")
    until = stopping(inner, results)
    body = inner.finished(parameters, results, until)
    sequence = f"dict(input={x.name}, taps={taps})" if x else ""
    options = {
        "sequences": f"[{sequence}]",
        "outputs": f"[{', '.join(outputs)}]",
        "n_steps": "None" if x else str(g.integer(1, 4)),
        "backwards": g.pick(["True", "False"]) if x else "False",
        "which": str(g.integer(0, len(results) - 1)),
    }
    return Choice((), options, (body,))


SCAN = (
    "scan({f0}, {sequences}, {outputs}, n_steps={n_steps}, go_backwards={backwards}, "
    "return_list=True, return_updates=False)"
)
row("scan", SCAN + "[{which}]", scanned, f"graphc.{SCAN}[{{which}}]", weight=4, depth=1)
row(
    "scan_last",
    f"last({SCAN}[0], {{outputs}}[0])",
    scanned,
    f"graphc.{SCAN}[0][-1]",
    weight=3,
    depth=1,
)


def looking_back(g: Growing) -> Choice | None:
    """A state with two taps."""
    state = g.any(lambda v: v.ndim and v.shape[0] == 2 and v.dtype in STATES)
    if state is None:
        return None
    inner, parameters = g.body([element(state, 0), element(state, 1)], g.integer(1, 3))
    own = next(v for v in inner.pool if v.name == parameters[-1])
    body = inner.finished(parameters, [next_state(inner, own)])
    options = {
        "sequences": "[]",
        "outputs": f"[dict(initial={state.name}, taps=[-2, -1])]",
        "n_steps": str(g.integer(1, 5)),
        "backwards": "False",
    }
    return Choice((), options, (body,))


row("scan_taps", SCAN + "[0]", looking_back, f"graphc.{SCAN}[0]", weight=2, depth=1)


def repeated(g: Growing) -> Choice | None:
    """A state, a condition on it and a step."""
    state = g.any(lambda v: v.dtype in FLOATS and v.ndim <= 1 and v.array.size)
    if state is None:
        return None
    condition = Body(("s",), (), ("s.sum() < 20.0",))
    inner, parameters = g.body([whole(state)], g.integer(1, 3))
    own = next(v for v in inner.pool if v.name == parameters[-1])
    step = inner.finished(parameters, [next_state(inner, own)])
    return Choice((state.name,), {"most": str(g.integer(1, 6))}, (condition, step))


row(
    "while_loop",
    "while_loop({f0}, {f1}, {0}, {most})",
    repeated,
    "graphc.while_loop({f0}, {f1}, {0}, max_steps={most})",
    weight=2,
    depth=1,
)


def branched(g: Growing) -> Choice | None:
    """A condition and two values of one type, each computed by a branch."""
    condition = g.any(lambda v: v.dtype == "bool" and not v.ndim)
    like = g.any(lambda v: v.dtype in EVERY)
    if condition is None or like is None:
        return None
    bodies = []
    for _ in range(2):
        inner, parameters = g.body([], g.integer(1, 3))
        bodies.append(inner.finished(parameters, [next_state(inner, like)]))
    return Choice((condition.name,), {}, tuple(bodies))


row("cond", "cond({0}, {f0}, {f1})", branched, "graphc.cond({0}, {f0}, {f1})", weight=4, depth=1)


def compared(g: Growing) -> Choice | None:
    x = g.any(lambda v: v.dtype in DOUBLE | {"int64"} and v.array.size)
    return x and Choice((x.name,), {"than": g.pick(["0", "1", "3"])})


row("sum_exceeds", "np.sum({0}) > {than}", compared, "gt.sum({0}) > {than}", weight=5)


def folded(g: Growing) -> Choice | None:
    """A state and a sequence, of which only the last state is wanted."""
    state = g.any(lambda v: v.dtype in STATES)
    x = g.any(lambda v: v.ndim and v.shape[0])
    if state is None or x is None:
        return None
    inner, parameters = g.body([element(x), whole(state)], g.integer(1, 3))
    own = next(v for v in inner.pool if v.name == parameters[-1])
    body = inner.finished(parameters, [next_state(inner, own)])
    return Choice((), {"sequence": x.name, "state": state.name}, (body,))


for _name, _backwards in {"reduce": False, "foldl": False, "foldr": True}.items():
    row(
        _name,
        f"fold({{f0}}, {{sequence}}, {{state}}, {_backwards})",
        folded,
        f"graphc.{_name}({{f0}}, {{sequence}}, {{state}})",
        weight=1,
        depth=1,
    )


def carried(g: Growing) -> Choice | None:
    """A state, elements and rows of graphc.loop."""
    found = folded(g)
    if found is None:
        return None
    (body,) = found.bodies
    step = Body(body.parameters[::-1], body.calls, (body.results[0], body.results[0]))
    options = {**found.options, "reverse": g.pick(["True", "False"]), "i": g.pick(["0", "1"])}
    return Choice((), options, (step,))


row(
    "loop",
    "loop({f0}, {state}, {sequence}, {reverse})[{i}]",
    carried,
    "graphc.loop({f0}, {state}, {sequence}, reverse={reverse})[{i}]",
    weight=2,
    depth=1,
)


def switched(g: Growing) -> Choice | None:
    """An integer and three branches."""
    index = g.any(lambda v: v.dtype == "int64" and not v.ndim)
    like = g.any()
    if index is None or like is None:
        return None
    bodies = []
    for _ in range(3):
        inner, parameters = g.body([], g.integer(1, 2))
        bodies.append(inner.finished(parameters, [next_state(inner, like)]))
    return Choice((index.name,), {}, tuple(bodies))


row(
    "switch_case",
    "switch_case({0}, [{f0}, {f1}, {f2}])",
    switched,
    "graphc.switch_case({0}, [{f0}, {f1}, {f2}])",
    depth=1,
)


def either(g: Growing) -> Choice | None:
    condition = g.any(lambda v: v.dtype == "bool" and not v.ndim)
    x = condition and g.any()
    y = x and g.any(lambda v: v.dtype == x.dtype and v.shape == x.shape)
    return y and Choice((condition.name, x.name, y.name))


row("ifelse", "({1} if {0} else {2})", either, "graphc.ifelse({0}, {1}, {2})")
