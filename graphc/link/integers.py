"""Integers that a call computes before its program runs, by generated Python code.

NumPy takes a microsecond for an operation on scalars, and Python a fraction of that. So integer
scalars are Python integers, which wrap around as their dtypes do. Other values are NumPy arrays,
which the operations' references compute.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from graphc.ir import Constant, Graph, Node, TensorType, is_integer
from graphc.link.host import SliceLength
from graphc.loop.evaluate import perform_node
from graphc.tensor.core import elementwise as el
from graphc.tensor.core.shape import Length, Shape

EXPRESSIONS: dict[Any, str] = {
    el.add: "{0} + {1}",
    el.subtract: "{0} - {1}",
    el.multiply: "{0} * {1}",
    el.negative: "-{0}",
    el.floor_divide: "{0} // {1} if {1} else 0",
    el.remainder: "{0} % {1} if {1} else 0",
    el.maximum: "{0} if {0} > {1} else {1}",
    el.minimum: "{0} if {0} < {1} else {1}",
    el.less: "{0} < {1}",
    el.less_equal: "{0} <= {1}",
    el.greater: "{0} > {1}",
    el.greater_equal: "{0} >= {1}",
    el.equal: "{0} == {1}",
    el.not_equal: "{0} != {1}",
}
"""Operations on integers of one dtype as Python expressions of their operands."""


class IntegerCode:
    """Lines of Python that compute values of a graph from a call's arguments ``a0``, ``a1``, ...

    Attributes:
        lines: The lines, each value's after its operands'.
        namespace: The globals of the lines.
    """

    def __init__(self, graph: Graph) -> None:
        self.lines: list[str] = []
        self.namespace: dict[str, Any] = {"asarray": np.asarray}
        self._names = {x: f"a{i}" for i, x in enumerate(graph.inputs)}
        self._integers: dict[Node, str] = {}
        self._arrays: dict[Node, str] = {}
        for node in graph.nodes:
            if node not in self._names:
                self._names[node] = f"v{len(self._names)}"
                self._write(node)

    def integer(self, x: Node) -> str:
        """Return the name of an integer or bool scalar as Python's."""
        if x not in self._integers:
            kind = "bool" if x.type.dtype == "bool" else "int"
            name = f"{self._names[x]}_{kind}"
            self.lines.append(f"{name} = {kind}({self.array(x)})")
            self._integers[x] = name
        return self._integers[x]

    def array(self, x: Node) -> str:
        """Return the name of a value as an array of NumPy's."""
        if x not in self._arrays:
            name, value = f"{self._names[x]}_array", self._integers.get(x, self._names[x])
            self._arrays[x] = name
            self.namespace[f"{name}_dtype"] = x.type.numpy_dtype
            self.lines.append(f"{name} = asarray({value}, {name}_dtype)")
        return self._arrays[x]

    def content(self, x: Node) -> str:
        """Return an expression that is equal for equal values of an integer array."""
        if _is_integer_scalar(x):
            return self.integer(x)
        array = self.array(x)
        return f"({array}.shape, {array}.tobytes())"

    def _write(self, node: Node) -> None:
        name, op = self._names[node], node.op
        if isinstance(op, Constant):
            self.namespace[name] = op.value
            if _is_integer_scalar(node):
                self._integers[node] = f"({int(op.value)})"
            else:
                self._arrays[node] = name
            return
        expression = self._expression(node)
        if expression is not None:
            self._integers[node] = name
            self.lines += [f"{name} = {expression}", *_wrap_around(name, node)]
            return
        # The shape of an array on a device is known without its values.
        value = self._raw if isinstance(op, Length | Shape) else self.array
        operands = ", ".join(map(value, node.inputs))
        perform = np.errstate(all="ignore")(partial(_perform, node))
        self.namespace[f"{name}_perform"] = perform
        self.lines.append(f"{name} = {name}_perform({operands})")
        self._arrays[node] = name

    def _raw(self, x: Node) -> str:
        return self._arrays.get(x, self._names[x])

    def _expression(self, node: Node) -> str | None:
        """Return a Python expression for an integer scalar, or None."""
        if isinstance(node.op, Length):
            return f"{self._raw(node.inputs[0])}.shape[{node.op.axis}]"
        if not all(map(_is_integer_scalar, (node, *node.inputs))):
            return None
        template = _template(node)
        return None if template is None else template.format(*map(self.integer, node.inputs))


def _perform(node: Node, *values: Any) -> Any:
    y = perform_node(node, values)
    return np.asarray(y, node.type.numpy_dtype) if isinstance(node.type, TensorType) else y


def _template(node: Node) -> str | None:
    dtypes = [x.type.dtype for x in node.inputs]
    match node.op:
        case SliceLength():
            return "len(range({2})[{0}:{1}])"
        case el.Where():
            return "{1} if {0} else {2}"
        case el.Cast(dtype):
            return "{0} != 0" if dtype == "bool" else "int({0})"
    is_of_integers = len({*dtypes}) == 1 and is_integer(dtypes[0])
    return EXPRESSIONS.get(node.op) if is_of_integers else None


def _is_integer_scalar(x: Node) -> bool:
    type = x.type
    return isinstance(type, TensorType) and not type.ndim and type.numpy_dtype.kind in "biu"


def _wrap_around(name: str, node: Node) -> list[str]:
    if node.type.dtype == "bool" or isinstance(node.op, Length | SliceLength):
        return []
    limits = np.iinfo(node.type.numpy_dtype)
    low, high, count = int(limits.min), int(limits.max), 2**limits.bits
    return [f"if not {low} <= {name} <= {high}: {name} = ({name} - {low}) % {count} + {low}"]
