"""Operators that hold graphs: branches and loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import graphc
import graphc.tensor as gt
from graphc.interop.onnx.operation import Operation, register
from graphc.interop.onnx.values import Known, Refusal, Value, axis_of, entries_of, tensor_of
from graphc.tensor import Tensor


@register("If")
def _if(op: Operation, condition: Tensor) -> tuple[Any, ...]:
    """Only the chosen branch is computed; where the choice is known, the other is left out."""
    value = op.value(0)
    if isinstance(value, Known) and not value.is_symbolic:
        name = "then_branch" if bool(value.array.reshape(-1)[0]) else "else_branch"
        return tuple(op.scope.graph(op[name], ()))

    def branch(name: str) -> Any:
        return lambda: tuple(map(tensor_of, op.scope.graph(op[name], ())))

    found = graphc.cond(_scalar(condition), branch("then_branch"), branch("else_branch"))
    return tuple(found)


def _scalar(x: Tensor) -> Tensor:
    return x if x.ndim == 0 else gt.reshape(x, ())


@register("Loop")
def _loop(op: Operation, most: Any, condition: Any, *init: Any) -> tuple[Any, ...]:
    body = op["body"]
    carried = len(init)
    count = None if most is None else entries_of(op.value(0))[0]
    first = _known_bool(op.value(1))
    if first is False:
        count = 0
    names = [x.name for x in body.output]
    if _always(body, first is not False):
        return _counted(op, body, init, count)
    if len(names) > carried + 1 and count is None:
        raise Refusal(
            "rows are collected, and neither a trip count nor a fixed condition says "
            "how many there can be"
        )
    return _conditional(op, body, init, count, first)


def _known_bool(value: Value) -> bool | None:
    """Whether a condition holds; one that is left out does, and None is unknown."""
    if value is None:
        return True
    known = isinstance(value, Known) and not value.is_symbolic
    return bool(value.array.reshape(-1)[0]) if known else None  # type: ignore[union-attr]


def _always(body: Any, first: bool) -> bool:
    """Whether the condition that a body gives is the one that it takes, or true."""
    wanted = body.output[0].name
    producers = {name: node for node in body.node for name in node.output}
    constants = {x.name: x for x in body.initializer}
    while wanted in producers and producers[wanted].op_type == "Identity":
        wanted = producers[wanted].input[0]
    if wanted == body.input[1].name:
        return first
    if wanted in constants:
        return any(constants[wanted].raw_data) or any(constants[wanted].int32_data)
    node = producers.get(wanted)
    if node is None or node.op_type != "Constant":
        return False
    value = next((x.t for x in node.attribute if x.name == "value"), None)
    return value is not None and (any(value.raw_data) or any(value.int32_data))


def _step(op: Operation, body: Any, count: Any, condition: Any, carry: Sequence[Any]) -> list[Any]:
    return [tensor_of(x) for x in op.scope.graph(body, [count, condition, *carry])]


def _counted(op: Operation, body: Any, init: Sequence[Tensor], count: Any) -> tuple[Any, ...]:
    """A loop whose condition always holds."""
    if count is None:
        raise Refusal("neither a trip count nor a condition that may end it")
    started = _known_bool(op.value(1))
    if started is None:
        count = gt.where(_scalar(tensor_of(op.value(1))), count, 0)

    def step(carry: Any, i: Tensor) -> Any:
        _, *found = _step(op, body, i, Known.of(True), carry)
        return tuple(found[: len(init)]), tuple(found[len(init) :])

    counted = gt.arange(gt.maximum(count, 0) if isinstance(count, Tensor) else max(count, 0))
    final, rows = graphc.loop(step, _typed(init), counted)
    return (*final, *rows)


def _typed(init: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return tuple(init)


def _conditional(
    op: Operation, body: Any, init: Sequence[Tensor], count: Any, first: bool | None
) -> tuple[Any, ...]:
    """A loop that may end early; without a trip count it collects no rows."""
    begins = gt.constant(True) if first else _scalar(tensor_of(op.value(1)))
    zero = gt.constant(0, dtype="int64")
    if count is None:

        def ahead(carry: Any) -> Any:
            i, goes_on, *state = carry
            again, *found = _step(op, body, i, goes_on, state)
            return (i + 1, _scalar(again), *found)

        final = graphc.while_loop(lambda carry: carry[1], ahead, (zero, begins, *init))
        return tuple(final[2:])

    def step(carry: Any, _: Any) -> Any:
        i, goes_on, *state = carry
        again, *found = _step(op, body, i, goes_on, state)
        n = len(init)
        return (i + 1, _scalar(again), *found[:n]), tuple(found[n:])

    most = count if first else gt.where(begins, count, 0)
    final, rows = graphc.loop(
        step,
        (zero, begins, *_typed(init)),
        n_steps=gt.maximum(most, 0) if isinstance(most, Tensor) else max(most, 0),
        until=lambda carry: gt.logical_not(carry[1]),
    )
    return (*final[2:], *rows)


@register("Scan")
def _scan(op: Operation, *operands: Tensor) -> tuple[Any, ...]:
    if op.version < 9:
        raise Refusal("Scan of opset 8, which goes over a batch: convert the model to opset 9")
    body = op["body"]
    m = int(op["num_scan_inputs"])
    init, xs = operands[: len(operands) - m], operands[len(operands) - m :]
    carried = len(init)
    if len(operands) < m or m < 1:
        raise ValueError(f"num_scan_inputs={m} of {len(operands)} operands")
    axes = op["scan_input_axes"] or [0] * m
    turned = op["scan_input_directions"] or [0] * m
    sequences = []
    for x, axis, back in zip(xs, axes, turned, strict=True):
        x = gt.moveaxis(x, axis_of(int(axis), x.ndim), 0)
        sequences.append(gt.flip(x, 0) if back else x)

    def step(carry: Any, row: Any) -> Any:
        found = [tensor_of(x) for x in op.scope.graph(body, [*carry, *row])]
        return tuple(found[:carried]), tuple(found[carried:])

    final, rows = graphc.loop(step, tuple(init), tuple(sequences))
    k = len(rows)
    axes = op["scan_output_axes"] or [0] * k
    turned = op["scan_output_directions"] or [0] * k
    found = []
    for y, axis, back in zip(rows, axes, turned, strict=True):
        y = gt.flip(y, 0) if back else y
        found.append(gt.moveaxis(y, 0, axis_of(int(axis), y.ndim)))
    return (*final, *found)
