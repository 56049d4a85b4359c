"""A recurrent network with delayed inputs and outputs, and two steps of gradient descent."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc
import graphc.tensor as pt

RNG = np.random.default_rng(3)
INPUTS = RNG.uniform(-1, 1, (9, 2))
TARGETS = RNG.uniform(-1, 1, 7)
FIRST_STATE = np.array([0.1, -0.2, 0.3])
FIRST_OUTPUTS = np.array([0.5, -0.25])
WEIGHTS = {
    "recurrent": RNG.uniform(-0.5, 0.5, (3, 3)),
    "delayed": RNG.uniform(-0.5, 0.5, (2, 3)),
    "now": RNG.uniform(-0.5, 0.5, (2, 3)),
    "feedback": RNG.uniform(-0.5, 0.5, 3),
    "readout": RNG.uniform(-0.5, 0.5, 3),
}
RATE = 0.1


def program() -> list[Any]:
    u, target = pt.matrix("u"), pt.vector("target")
    w = {name: graphc.shared(value, name=name) for name, value in WEIGHTS.items()}

    def step(u_before: Any, u_now: Any, state: Any, y_before: Any, y_last: Any) -> list[Any]:
        state = pt.tanh(
            state @ w["recurrent"]
            + u_before @ w["delayed"]
            + u_now @ w["now"]
            + y_before * w["feedback"]
        )
        return [state, state @ w["readout"] + 0.1 * y_last]

    _, outputs = graphc.scan(
        step,
        sequences={"input": u, "taps": [-2, 0]},
        outputs_info=[
            pt.as_tensor(FIRST_STATE),
            {"initial": pt.as_tensor(FIRST_OUTPUTS), "taps": [-2, -1]},
        ],
    )
    error = ((outputs - target) ** 2).sum()
    slopes = graphc.grad(error, list(w.values()))
    updates = [(x, x - RATE * g) for x, g in zip(w.values(), slopes, strict=True)]
    train = graphc.function([u, target], [outputs, error], updates=updates)
    first = train(INPUTS, TARGETS)
    second = train(INPUTS, TARGETS)
    return [*first, *second, *(x.get_value() for x in w.values())]


def run(w: dict[str, Any]) -> tuple[Any, Any]:
    """The outputs and the error."""
    state, outputs = FIRST_STATE, [*FIRST_OUTPUTS]
    for t in range(2, 9):
        state = np.tanh(
            state @ w["recurrent"]
            + INPUTS[t - 2] @ w["delayed"]
            + INPUTS[t] @ w["now"]
            + outputs[-2] * w["feedback"]
        )
        outputs.append(state @ w["readout"] + 0.1 * outputs[-1])
    found = np.array(outputs[2:])
    return found, ((found - TARGETS) ** 2).sum()


def slopes(w: dict[str, Any]) -> dict[str, Any]:
    """The gradient of the error, by imaginary steps."""
    found = {}
    for name, value in w.items():
        found[name] = np.zeros_like(value)
        for place in np.ndindex(value.shape):
            moved = value.astype(complex)
            moved[place] += 1e-20j
            found[name][place] = run({**w, name: moved})[1].imag / 1e-20
    return found


def expected() -> list[Any]:
    w, found = dict(WEIGHTS), []
    for _ in range(2):
        found += run(w)
        g = slopes(w)
        w = {name: value - RATE * g[name] for name, value in w.items()}
    return [*found, *w.values()]
