"""The derivatives of an elementwise function as code, from the slope that its row has."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from graphc.errors import GradientError
from graphc.ir import Constant, Node, TensorType
from graphc.ir.line import Writer
from graphc.ir.node import toposort
from graphc.ir.walk import ancestors
from graphc.tensor.core.tensor import TABLE, Tensor, as_tensor

if TYPE_CHECKING:
    from graphc.tensor.core.elementwise import Elementwise

LONGEST = 260
"""Characters of a derivative; what is longer is abbreviated by dots."""

NUMBERS = {
    "sqrt(pi)": np.sqrt(np.pi),
    "(2 / sqrt(pi))": 2 / np.sqrt(np.pi),
    "(sqrt(pi) / 2)": np.sqrt(np.pi) / 2,
    "sqrt(1 / 2)": np.sqrt(0.5),
    "sqrt(2 / pi)": np.sqrt(2 / np.pi),
    "sqrt(1 / (2 * pi))": np.sqrt(0.5 / np.pi),
    "(2 * pi)": 2 * np.pi,
    "pi": np.pi,
    "(pi / 180)": np.pi / 180,
    "(180 / pi)": 180 / np.pi,
    "log(2)": np.log(2),
    "log(10)": np.log(10),
}
"""Numbers that a reader knows by another name."""


def derivatives(row: Elementwise, names: Sequence[str]) -> list[str]:
    """The derivative with respect to each real operand, as code, or that there is none.

    Example:
        >>> import graphc.tensor as gt
        >>> derivatives(gt.arctan, "x")
        ['x: ``1 / (x * x + 1)``']
    """
    computed, made = row.domain("float64")  # type: ignore[misc]
    xs = [_scalar(name, computed) for name in names]
    inner, is_told = _result(row, names)
    y = _scalar(inner, made) if is_told else row(*xs)
    one = as_tensor(np.ones((), made))
    parts = row.slopes((True,) * len(xs), one, y, *xs)
    if all(isinstance(part, GradientError) for part in parts):
        return ["none; to ask for one is a GradientError"]
    lines = [f"{name}: {_derivative(part)}" for name, part in zip(names, parts, strict=True)]
    if is_told and y in ancestors([part for part in parts if isinstance(part, Node)]):
        lines.append(f"where {inner} is the result, ``{row.name}({', '.join(names)})``")
    return lines


def _derivative(part: Any) -> str:
    if isinstance(part, GradientError):
        return "none; to ask for one is a GradientError"
    if part is None:
        return "0"
    simple = _changed(part, _simpler)
    text = _written(simple)
    if "…" in text and simple.op.name == "where":
        near, series, other = map(_written, simple.inputs)
        if "…" not in other:
            special = "the series of it" if "…" in series else f"``{series}``"
            return f"``{other}``; {special} where ``{near}``"
    return f"``{text}``"


def _scalar(name: str, dtype: str) -> Tensor:
    return Tensor.input(TensorType(dtype, ()), name)


def _result(row: Elementwise, names: Sequence[str]) -> tuple[str, bool]:
    """What the slope calls the result, and whether derivatives are to be told in terms of it."""
    slope: Any = getattr(row.slope, "parts", (row.slope,))[0]
    name = list(inspect.signature(slope).parameters)[1]
    return name, name != "y" and name not in names


def _written(part: Node) -> str:
    text = re.sub(r"\d+\.\d+", _known, Writer(LONGEST)(part))
    return text[1:-1] if text in NUMBERS and text[0] == "(" else text


def _known(number: re.Match[str]) -> str:
    value = float(number[0])
    found = [name for name, known in NUMBERS.items() if abs(value / known - 1) < 1e-12]
    return found[0] if found else number[0].removesuffix(".0")


# A slope is written for speed, and for operands at which a formula would be 0 times infinity.


def _changed(x: Any, change: Callable[[Any], Any]) -> Any:
    """A graph with each node changed, inputs first."""
    done: dict[Any, Any] = {}
    for node in toposort([x]):
        rebuilt = node.with_inputs([done[y] for y in node.inputs]) if node.inputs else node
        done[node] = change(rebuilt)
    return done[x]


def _simpler(x: Any) -> Any:
    """Without factors of one, and without the guards of a branch within it."""
    inputs = x.inputs
    found = x
    match x.op.name:
        case "multiply" if isinstance(inputs[0].op, Constant):
            found = _product(*inputs)
        case "negative" if not np.isnan(_number(inputs[0])):
            found = as_tensor(np.asarray(-_number(inputs[0]), x.dtype))
        case "negative" if inputs[0].op.name == "negative":
            (found,) = inputs[0].inputs
        case "add" if _number(inputs[0]) == 0:
            found = inputs[1]
        case "add" if _number(inputs[0]) < 0:
            found = inputs[1] - abs(_number(inputs[0]))
        case "where":
            condition, a, b = inputs
            chosen = [_changed(y, _assuming(condition, i)) for i, y in ((1, a), (2, b))]
            found = x.with_inputs([condition, *chosen])
        case "getitem":
            found = _element(x)
    return found


def _assuming(condition: Any, place: int) -> Callable[[Any], Any]:
    def change(x: Any) -> Any:
        chosen = x.op.name == "where" and x.inputs[0] is condition
        return x.inputs[place] if chosen else x

    return change


def _number(x: Any) -> float:
    """The value of a real scalar constant; NaN of others."""
    known = isinstance(x.op, Constant) and x.op.shape == () and not np.iscomplexobj(x.op.value)
    return float(x.op.value) if known else np.nan


def _product(a: Any, b: Any) -> Any:
    """A product with a constant first."""
    left, right = _number(a), _number(b)
    if not np.isnan(left * right):
        return as_tensor(np.asarray(left * right, a.dtype))
    if abs(left) == 1:
        return b if left == 1 else _simpler(-b)
    return a * b


def _element(x: Any) -> Any:
    """An element of a function of several orders, as Bessel functions are computed at once."""
    whole, *more = x.inputs
    return x if more or whole.op.name not in TABLE else _at(whole, *x.op.entries)


def _at(x: Any, place: int) -> Any:
    if isinstance(x.op, Constant):
        return as_tensor(x.op.value[place]) if x.op.shape else x
    if x.op.name == "expand_dims":
        return x.inputs[0]
    return _simpler(TABLE[x.op.name](*[_at(y, place) for y in x.inputs]))
