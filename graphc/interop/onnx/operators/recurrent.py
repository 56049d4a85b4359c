"""RNN, GRU and LSTM: each direction is one loop over the steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import graphc
import graphc.tensor as gt
from graphc.interop.onnx.operation import Operation, register
from graphc.interop.onnx.operators.shapes import reversed_rows, split
from graphc.interop.onnx.values import Refusal
from graphc.tensor import Tensor
from graphc.tensor.core.shape import length

Step = Callable[[Tensor, Sequence[Tensor]], list[Tensor]]
"""Takes the inputs' part of the gates and the state; gives the next state, its output first."""

ACTIVATIONS: dict[str, Callable[[Tensor, float, float], Tensor]] = {
    "affine": lambda x, a, b: a * x + b,
    "elu": lambda x, a, _: gt.maximum(x, 0) + a * gt.expm1(gt.minimum(x, 0)),
    "hardsigmoid": lambda x, a, b: gt.clip(a * x + b, 0, 1),
    "leakyrelu": lambda x, a, _: gt.where(x < 0, a * x, x),
    "relu": lambda x, *_: gt.maximum(x, 0),
    "scaledtanh": lambda x, a, b: a * gt.tanh(b * x),
    "sigmoid": lambda x, *_: gt.sigmoid(x),
    "softplus": lambda x, *_: gt.softplus(x),
    "softsign": lambda x, *_: x / (1 + gt.abs(x)),
    "tanh": lambda x, *_: gt.tanh(x),
    "thresholdedrelu": lambda x, a, _: gt.where(x > a, x, 0),
}
DEFAULTS = {
    "affine": (1.0, 0.0),
    "elu": (1.0, 0.0),
    "hardsigmoid": (0.2, 0.5),
    "leakyrelu": (0.01, 0.0),
    "scaledtanh": (1.0, 1.0),
    "thresholdedrelu": (1.0, 0.0),
}
"""The activations' parameters alpha and beta."""


class Recurrence:
    """The operands and attributes that RNN, GRU and LSTM have in common.

    Args:
        op: The node.
        operands: X, W, R, B, sequence_lens, and the initial states.
        gates: How many gates there are.
        functions: The default activations of a direction.
    """

    def __init__(
        self, op: Operation, operands: Sequence[Any], gates: int, functions: Sequence[str]
    ) -> None:
        self.op, self.gates = op, gates
        x, self.w, self.r, self.b, self.counts, *states = [*operands, *[None] * 8][:8]
        self.by_batch = bool(op.get("layout", 0))
        self.x = gt.swapaxes(x, 0, 1) if self.by_batch else x
        self.states = [
            s if s is None or not self.by_batch else gt.swapaxes(s, 0, 1) for s in states
        ]
        self.size = int(op["hidden_size"] or 0) or length(self.r, 2)
        self.directions = DIRECTIONS.get(op["direction"])
        if self.directions is None:
            raise ValueError(f"direction={op['direction']!r}")
        self.clip = op["clip"]
        self.functions = functions

    def activations(self, direction: int) -> list[Callable[[Tensor], Tensor]]:
        """The activations of a direction."""
        n = len(self.functions)
        names = self.op["activations"] or [*self.functions] * 2
        alphas, betas = (
            [*(self.op["activation_alpha"] or ())],
            [*(self.op["activation_beta"] or ())],
        )
        found = []
        for name in [str(x).lower() for x in names]:
            if name not in ACTIVATIONS:
                raise Refusal(f"the activation {name!r}")
            a, b = DEFAULTS.get(name, (0.0, 0.0))
            # Numbers are given in order, to those activations that take any.
            a = alphas.pop(0) if alphas and name in DEFAULTS else a
            b = betas.pop(0) if betas and name in TWO else b
            found.append(_applied(name, a, b, self.clip))
        return found[direction * n : direction * n + n]

    def biases(self, direction: int) -> tuple[Any, Any]:
        """Those of the inputs, and of the state."""
        if self.b is None:
            return None, None
        half = self.gates * self.size
        return self.b[direction, :half], self.b[direction, half:]

    def state(self, i: int, direction: int) -> Tensor:
        """The initial state of a direction, of batch and size."""
        given = self.states[i]
        if given is not None:
            return given[direction]
        return gt.zeros((length(self.x, 1), self.size), dtype=self.x.dtype)

    def run(self, states: int, step: Callable[[int], Step]) -> tuple[Tensor, ...]:
        """The outputs of all steps, and the last states, over all directions."""
        found = [
            self._of_direction(i, turned, states, step(i))
            for i, turned in enumerate(self.directions or ())
        ]
        rows = gt.stack([y for y, _ in found], axis=1)
        last = [gt.stack([final[i] for _, final in found], axis=0) for i in range(states)]
        if self.by_batch:
            rows = gt.transpose(rows, (2, 0, 1, 3))
            last = [gt.swapaxes(y, 0, 1) for y in last]
        return (rows, *last)[: len(self.op.node.output)]

    def _of_direction(
        self, direction: int, turned: bool, states: int, step: Step
    ) -> tuple[Tensor, list[Tensor]]:
        x, bias = self.x, self.biases(direction)[0]
        if turned:
            x = gt.flip(x, 0) if self.counts is None else reversed_rows(x, self.counts, 1, 0)
        part = gt.matmul(x, self.w[direction].T)
        part = part if bias is None else part + bias
        init = tuple(self.state(i, direction) for i in range(states))
        final, rows = self._looped(step, init, part)
        if turned:
            rows = (
                gt.flip(rows, 0) if self.counts is None else reversed_rows(rows, self.counts, 1, 0)
            )
        return rows, list(final)

    def _looped(self, step: Step, init: tuple[Tensor, ...], part: Tensor) -> Any:
        """The loop; behind the end of a sequence its state stays, and its output is 0."""
        if self.counts is None:

            def plain(carry: Any, row: Tensor) -> Any:
                found = tuple(step(row, carry))
                return found, found[0]

            return graphc.loop(plain, init, part)
        counts = self.counts.astype("int64")

        def masked(carry: Any, row: Any) -> Any:
            row, t = row
            goes_on = gt.expand_dims(t < counts, -1)
            found = step(row, carry)
            kept = [gt.where(goes_on, new, old) for new, old in zip(found, carry, strict=True)]
            return tuple(kept), gt.where(goes_on, found[0], 0)

        return graphc.loop(masked, init, (part, gt.arange(length(part, 0))))


DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
TWO = ("affine", "hardsigmoid", "scaledtanh")
"""Activations that take beta too."""


def _applied(name: str, a: float, b: float, clip: float | None) -> Callable[[Tensor], Tensor]:
    function = ACTIVATIONS[name]
    if not clip:
        return lambda x: function(x, a, b)
    return lambda x: function(gt.clip(x, -clip, clip), a, b)


def _with(y: Tensor, bias: Any) -> Tensor:
    return y if bias is None else y + bias


@register("RNN")
def _rnn(op: Operation, *operands: Any) -> tuple[Tensor, ...]:
    recurrence = Recurrence(op, operands, 1, ["Tanh"])

    def step(direction: int) -> Step:
        (f,) = recurrence.activations(direction)
        r, bias = recurrence.r[direction].T, recurrence.biases(direction)[1]
        return lambda row, state: [f(_with(row + gt.matmul(state[0], r), bias))]

    return recurrence.run(1, step)


@register("GRU")
def _gru(op: Operation, *operands: Any) -> tuple[Tensor, ...]:
    recurrence = Recurrence(op, operands, 3, ["Sigmoid", "Tanh"])
    n, before = recurrence.size, bool(op["linear_before_reset"])

    def step(direction: int) -> Step:
        f, g = recurrence.activations(direction)
        r, bias = recurrence.r[direction].T, recurrence.biases(direction)[1]
        of_gates, of_hidden = split(r, 1, [2 * n, n])
        bias_of_gates, bias_of_hidden = (
            (None, None) if bias is None else (bias[: 2 * n], bias[2 * n :])
        )

        def apply(row: Tensor, state: Sequence[Tensor]) -> list[Tensor]:
            (h,) = state
            gates = f(_with(row[:, : 2 * n] + gt.matmul(h, of_gates), bias_of_gates))
            update, reset = gates[:, :n], gates[:, n:]
            if before:
                hidden = reset * _with(gt.matmul(h, of_hidden), bias_of_hidden)
            else:
                hidden = _with(gt.matmul(reset * h, of_hidden), bias_of_hidden)
            return [(1 - update) * g(row[:, 2 * n :] + hidden) + update * h]

        return apply

    return recurrence.run(1, step)


@register("LSTM")
def _lstm(op: Operation, *operands: Any) -> tuple[Tensor, ...]:
    recurrence = Recurrence(op, operands, 4, ["Sigmoid", "Tanh", "Tanh"])
    n, coupled = recurrence.size, bool(op["input_forget"])
    peepholes = operands[7] if len(operands) > 7 else None

    def step(direction: int) -> Step:
        f, g, h = recurrence.activations(direction)
        r, bias = recurrence.r[direction].T, recurrence.biases(direction)[1]
        seen = [None] * 3 if peepholes is None else split(peepholes[direction], 0, [n] * 3)

        def apply(row: Tensor, state: Sequence[Tensor]) -> list[Tensor]:
            hidden, cell = state
            gates = _with(row + gt.matmul(hidden, r), bias)
            i, o, forget, c = (gates[:, k * n : (k + 1) * n] for k in range(4))
            i = f(i if seen[0] is None else i + seen[0] * cell)
            forget = 1 - i if coupled else f(forget if seen[2] is None else forget + seen[2] * cell)
            cell = forget * cell + i * g(c)
            o = f(o if seen[1] is None else o + seen[1] * cell)
            return [o * h(cell), cell]

        return apply

    return recurrence.run(2, step)
