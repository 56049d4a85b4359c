"""Operators of sequences, lists while a model is loaded, and of what may be left out."""

from __future__ import annotations

from typing import Any

import graphc.tensor as gt
from graphc.interop.onnx.operation import Operation, register
from graphc.interop.onnx.operators.shapes import split
from graphc.interop.onnx.values import FEW, Known, Refusal, entries_of, tensor_of
from graphc.tensor import Tensor
from graphc.tensor.core.shape import length


@register("SequenceConstruct")
def _construct(op: Operation, *_: Any) -> list[Any]:
    return [*op.values]


@register("SequenceEmpty")
def _empty(_: Operation) -> list[Any]:
    return []


@register("SequenceLength")
def _length(_: Operation, parts: list[Any]) -> Known:
    return Known.of(len(parts), "int64")


def _place(op: Operation, i: int) -> int:
    return op.numbers(i, "the position")[0]


@register("SequenceAt")
def _at(op: Operation, parts: list[Any], *_: Any) -> Any:
    return parts[_place(op, 1)]


@register("SequenceErase")
def _erase(op: Operation, parts: list[Any], *_: Any) -> list[Any]:
    place = _place(op, 1) % len(parts) if op.has(1) else len(parts) - 1
    return [x for i, x in enumerate(parts) if i != place]


@register("SequenceInsert")
def _insert(op: Operation, parts: list[Any], x: Any, *_: Any) -> list[Any]:
    found = [*parts]
    found.insert(_place(op, 2) if op.has(2) else len(parts), x)
    return found


@register("ConcatFromSequence")
def _concat(op: Operation, parts: list[Any]) -> Tensor:
    axis = int(op["axis"])
    arrays = [x.tensor() if isinstance(x, Known) else x for x in parts]
    return gt.stack(arrays, axis) if op["new_axis"] else gt.concatenate(arrays, axis=axis)


@register("SplitToSequence")
def _split(op: Operation, x: Tensor, *_: Any) -> list[Any]:
    axis = op.axis(x.ndim)
    n = length(x, axis)
    sizes = entries_of(op.value(1)) if op.has(1) else [1]
    if not op.has(1) or tensor_of(op.value(1)).ndim == 0:
        if not isinstance(n, int) or not isinstance(sizes[0], int) or n > FEW * max(sizes[0], 1):
            raise Refusal("how many parts there are is unknown, or it is many")
        sizes = [min(sizes[0], n - at) for at in range(0, n, sizes[0])]
    parts = split(x, axis, sizes)
    if op.has(1) or op["keepdims"]:
        return [*parts]
    return [gt.squeeze(part, axis) for part in parts]


@register("Optional", "OptionalGetElement")
def _same(op: Operation, *_: Any) -> Any:
    if not op.has(0):
        raise Refusal("an element that is not there")
    return op.values[0]


@register("OptionalHasElement")
def _has(op: Operation, *_: Any) -> Known:
    return Known.of(op.has(0), "bool")
