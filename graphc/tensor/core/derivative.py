"""The derivatives of an elementwise function as code, from its row."""

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
"""The most characters of a derivative; longer ones are abbreviated by dots."""

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
"""Numbers that have names."""


def derivatives(row: Elementwise, names: Sequence[str]) -> list[str]:
    """Return the derivative with respect to each real operand as code, or that there is none.

    Example:
        >>> import graphc.tensor as gt
        >>> derivatives(gt.arctan, "x")
        ['x: ``1 / (x * x + 1)``']
    """
    computed, dtype = row.domain("float64")  # type: ignore[misc]
    xs = [_scalar(name, computed) for name in names]
    inner, has_name = _result(row, names)
    y = _scalar(inner, dtype) if has_name else row(*xs)
    one = as_tensor(np.ones((), dtype))
    gradients = row.slopes((True,) * len(xs), one, y, *xs)
    if all(isinstance(part, GradientError) for part in gradients):
        return ["none; to ask for one is a GradientError"]
    lines = [f"{name}: {_derivative(part)}" for name, part in zip(names, gradients, strict=True)]
    if has_name and y in ancestors([part for part in gradients if isinstance(part, Node)]):
        lines.append(f"where {inner} is the result, ``{row.name}({', '.join(names)})``")
    return lines


def _derivative(part: Any) -> str:
    if isinstance(part, GradientError):
        return "none; to ask for one is a GradientError"
    if part is None:
        return "0"
    simple = _map_nodes(part, _simplify)
    text = _format_code(simple)
    if "…" in text and simple.op.name == "where":
        near, series, other = map(_format_code, simple.inputs)
        if "…" not in other:
            special = "the series of it" if "…" in series else f"``{series}``"
            return f"``{other}``; {special} where ``{near}``"
    return f"``{text}``"


def _scalar(name: str, dtype: str) -> Tensor:
    return Tensor.input(TensorType(dtype, ()), name)


def _result(row: Elementwise, names: Sequence[str]) -> tuple[str, bool]:
    """Return the result's name in the gradient, and whether derivatives may refer to it."""
    slope: Any = getattr(row.slope, "parts", (row.slope,))[0]
    name = list(inspect.signature(slope).parameters)[1]
    return name, name != "y" and name not in names


def _format_code(part: Node) -> str:
    text = re.sub(r"\d+\.\d+", _name_number, Writer(LONGEST)(part))
    return text[1:-1] if text in NUMBERS and text[0] == "(" else text


def _name_number(number: re.Match[str]) -> str:
    value = float(number[0])
    names = [name for name, exact in NUMBERS.items() if abs(value / exact - 1) < 1e-12]
    return names[0] if names else number[0].removesuffix(".0")


# Rows write gradients for speed, and for operands at which a formula would be 0 times infinity.


def _map_nodes(x: Any, change: Callable[[Any], Any]) -> Any:
    done: dict[Any, Any] = {}
    for node in toposort([x]):
        rebuilt = node.with_inputs([done[y] for y in node.inputs]) if node.inputs else node
        done[node] = change(rebuilt)
    return done[x]


def _simplify(x: Any) -> Any:
    """Remove factors of one, and the guards of a branch within it."""
    inputs = x.inputs
    result = x
    match x.op.name:
        case "multiply" if isinstance(inputs[0].op, Constant):
            result = _product(*inputs)
        case "negative" if not np.isnan(_number(inputs[0])):
            result = as_tensor(np.asarray(-_number(inputs[0]), x.dtype))
        case "negative" if inputs[0].op.name == "negative":
            (result,) = inputs[0].inputs
        case "add" if _number(inputs[0]) == 0:
            result = inputs[1]
        case "add" if _number(inputs[0]) < 0:
            result = inputs[1] - abs(_number(inputs[0]))
        case "where":
            condition, a, b = inputs
            chosen = [_map_nodes(y, _assuming(condition, i)) for i, y in ((1, a), (2, b))]
            result = x.with_inputs([condition, *chosen])
        case "getitem":
            result = _element(x)
    return result


def _assuming(condition: Any, index: int) -> Callable[[Any], Any]:
    def change(x: Any) -> Any:
        chosen = x.op.name == "where" and x.inputs[0] is condition
        return x.inputs[index] if chosen else x

    return change


def _number(x: Any) -> float:
    """Return the value of a real scalar constant; NaN for other nodes."""
    is_number = isinstance(x.op, Constant) and x.op.shape == () and not np.iscomplexobj(x.op.value)
    return float(x.op.value) if is_number else np.nan


def _product(a: Any, b: Any) -> Any:
    """Return a product with a constant first."""
    first, second = _number(a), _number(b)
    if not np.isnan(first * second):
        return as_tensor(np.asarray(first * second, a.dtype))
    if abs(first) == 1:
        return b if first == 1 else _simplify(-b)
    return a * b


def _element(x: Any) -> Any:
    """Simplify an element of a function that computes several orders at once, as Bessel's."""
    values, *indices = x.inputs
    return x if indices or values.op.name not in TABLE else _at(values, *x.op.entries)


def _at(x: Any, place: int) -> Any:
    if isinstance(x.op, Constant):
        return as_tensor(x.op.value[place]) if x.op.shape else x
    if x.op.name == "expand_dims":
        return x.inputs[0]
    return _simplify(TABLE[x.op.name](*[_at(y, place) for y in x.inputs]))
