"""An ONNX graph under construction, and the arrays in it.

Lowerings are functions of ``Value``s, which emit nodes into the innermost open scope: the graph, or
the body of a loop or branch. A body may read values of the scopes around it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np

from graphc.context import setting
from graphc.export.onnx import protos
from graphc.export.onnx.kernels import kernel_dtype
from graphc.export.onnx.protos import GraphProto, NodeProto
from graphc.ir import TensorType, dtype_name, numpy_dtype, real_dtype


@dataclass(frozen=True, slots=True)
class Value:
    """An array of an ONNX graph.

    Attributes:
        name: Its unique name in the ONNX graph.
        dtype: Its dtype, which is real.
        type: Its type in graphc's graph, if it is the result of a node there.
    """

    name: str
    dtype: str
    type: Any = None

    def with_type(self, type: Any) -> Value:
        return replace(self, type=type)

    @property
    def is_float(self) -> bool:
        return numpy_dtype(self.dtype).kind not in "iub"

    def cast(self, dtype: str) -> Value:
        return (
            self if dtype == self.dtype else emit("Cast", self, dtype=dtype, to=protos.CODES[dtype])
        )

    def __add__(self, other: Any) -> Value:
        return emit("Add", self, other)

    def __radd__(self, other: Any) -> Value:
        return emit("Add", constant(other, self.dtype), self)

    def __sub__(self, other: Any) -> Value:
        return emit("Sub", self, other)

    def __rsub__(self, other: Any) -> Value:
        return emit("Sub", constant(other, self.dtype), self)

    def __mul__(self, other: Any) -> Value:
        return emit("Mul", self, other)

    def __rmul__(self, other: Any) -> Value:
        return emit("Mul", constant(other, self.dtype), self)

    def __truediv__(self, other: Any) -> Value:
        return emit("Div", self, other)

    def __rtruediv__(self, other: Any) -> Value:
        return emit("Div", constant(other, self.dtype), self)

    def __neg__(self) -> Value:
        return emit("Neg", self)

    def __lt__(self, other: Any) -> Value:
        return emit("Less", self, other, dtype="bool")

    def __gt__(self, other: Any) -> Value:
        return emit("Greater", self, other, dtype="bool")

    def __le__(self, other: Any) -> Value:
        return emit("LessOrEqual", self, other, dtype="bool")

    def __ge__(self, other: Any) -> Value:
        return emit("GreaterOrEqual", self, other, dtype="bool")

    def equals(self, other: Any) -> Value:
        return emit("Equal", self, other, dtype="bool")

    def __and__(self, other: Any) -> Value:
        return emit("And" if self.dtype == "bool" else "BitwiseAnd", self, other)

    def __or__(self, other: Any) -> Value:
        return emit("Or" if self.dtype == "bool" else "BitwiseOr", self, other)

    def __xor__(self, other: Any) -> Value:
        return emit("Xor" if self.dtype == "bool" else "BitwiseXor", self, other)

    def __invert__(self) -> Value:
        return emit("Not" if self.dtype == "bool" else "BitwiseNot", self)

    def __bool__(self) -> bool:
        raise TypeError("an array of an exported graph has no value yet")


@dataclass(frozen=True, slots=True)
class Complex:
    """A complex array: its real and imaginary part, two arrays of the ONNX graph."""

    re: Value
    im: Value
    type: Any = None

    def with_type(self, type: Any) -> Complex:
        part = type.with_dtype(real_dtype(type.dtype))
        return Complex(self.re.with_type(part), self.im.with_type(part), type)


Array = Value | Complex
"""The ONNX counterpart of an array of graphc's graph."""


@dataclass
class Scope:
    """Nodes of a graph or body, and their outputs by content, so that equal nodes are shared."""

    nodes: list[NodeProto] = field(default_factory=list)
    outputs: dict[Any, tuple[str, ...]] = field(default_factory=dict)


class Builder:
    """A graph under construction.

    Attributes:
        initializers: Arrays by name.
        scopes: The graph, and the bodies that are open.
        domains: The domains of operations outside of ONNX's own.
        ops: The names of all operations.
        lengths: The lengths that scalars were made from, by the scalars' names.
    """

    def __init__(self) -> None:
        self.initializers: dict[str, Any] = {}
        self.scopes = [Scope()]
        self.domains: set[str] = set()
        self.ops: set[str] = set()
        self.lengths: dict[str, Value] = {}
        self._constants: dict[Any, Value] = {}
        self._names: dict[str, int] = {}

    def name(self, wanted: str) -> str:
        """Return the name, with a number appended if it is in use."""
        count = self._names.get(wanted, 0)
        self._names[wanted] = count + 1
        return self.name(f"{wanted}_{count}") if count else wanted

    def initializer(self, wanted: str, array: np.ndarray[Any, Any]) -> Value:
        """Store an array in the file, under its name if that is free."""
        name = self.name(wanted)
        self.initializers[name] = protos.tensor(name, array)
        return Value(name, dtype_name(array.dtype))

    def constant(self, array: np.ndarray[Any, Any]) -> Value:
        """Store an array as a constant of the program; equal arrays share one."""
        key = array.dtype, array.shape, array.tobytes()
        if key not in self._constants:
            type = TensorType(dtype_name(array.dtype), array.shape)
            self._constants[key] = self.initializer("constant", array).with_type(type)
        return self._constants[key]

    def emit(
        self,
        op: str,
        inputs: Sequence[str],
        outputs: int,
        attributes: dict[str, Any],
        domain: str = "",
    ) -> tuple[str, ...]:
        """Emit a node and return the names of its outputs; an equal node in scope is reused."""
        holds_graph = any(isinstance(x, GraphProto) for x in attributes.values())
        key = None if holds_graph else (op, *inputs, outputs, repr(sorted(attributes.items())))
        for scope in self.scopes if key else ():
            if key in scope.outputs:
                return scope.outputs[key]
        names = tuple(self.name(op.lower()) for _ in range(outputs))
        self.domains.update({domain} - {""})
        self.ops.add(op)
        self.scopes[-1].nodes.append(protos.node(op, inputs, names, attributes, domain))
        if key:
            self.scopes[-1].outputs[key] = names
        return names

    def result(self, x: Value, wanted: str) -> Value:
        """Return the array under a separate name, as a graph's results need one each."""
        y = Value(self.name(wanted), x.dtype, x.type)
        self.scopes[-1].nodes.append(protos.node("Identity", [x.name], [y.name], {}))
        return y

    def body(self, parameters: Sequence[Value], build: Any) -> GraphProto:
        """Return a graph nested in a node.

        Args:
            parameters: The values that the node passes to it.
            build: Emits its nodes and returns its results.
        """
        self.scopes.append(Scope())
        results = [self.result(x, "result") for x in build()]
        nodes, _ = protos.prune(self.scopes.pop().nodes, [x.name for x in results])
        inputs, outputs = ([_info(x) for x in part] for part in (parameters, results))
        return protos.graph(self.name("body"), nodes, inputs, outputs)


def _info(x: Value) -> Any:
    return protos.value_info(x.name, x.dtype, None if x.type is None else x.type.shape)


CURRENT: ContextVar[Builder] = ContextVar("CURRENT")
"""The graph that lowerings emit nodes into."""


def building() -> setting[Builder]:
    """Open a new graph for lowerings to emit into."""
    return setting(CURRENT, Builder())


def emit(op: str, *inputs: Any, dtype: str | None = None, type: Any = None, **more: Any) -> Value:
    """Emit an ONNX operation with one result.

    If the runtime has no kernel for the operands' dtype, they are cast to a dtype that holds all
    its values, and the result is cast back.

    Args:
        op: The operation's name.
        inputs: Arrays; None for an omitted one. A number has the dtype of the first array.
        dtype: The result's dtype, by default the operands' dtype.
        type: The result's type in graphc's graph.
        more: Attributes.
    """
    first = 1 if op == "Where" else 0
    leading = inputs[first]
    own_dtype = leading.dtype
    operands = [x if isinstance(x, Value) or x is None else constant(x, own_dtype) for x in inputs]
    wide = kernel_dtype(op, own_dtype)
    if wide != own_dtype:
        operands = [
            x.cast(wide) if i >= first and x is not None and x.dtype == own_dtype else x
            for i, x in enumerate(operands)
        ]
    (name,) = CURRENT.get().emit(op, ["" if x is None else x.name for x in operands], 1, more)
    y = Value(name, wide if dtype is None else dtype, type)
    return y.cast(own_dtype) if dtype is None else y


def emit_several(
    op: str, inputs: Sequence[Value], dtypes: Sequence[str], **more: Any
) -> list[Value]:
    domain = more.pop("domain", "")
    operands = [x.name for x in inputs]
    names = CURRENT.get().emit(op, operands, len(dtypes), more, domain)
    return [Value(name, dtype) for name, dtype in zip(names, dtypes, strict=True)]


def constant(value: Any, dtype: str) -> Value:
    if isinstance(value, Value):
        return value
    return CURRENT.get().constant(np.asarray(value, numpy_dtype(dtype)))


# Lengths: Python integers where they are static, and otherwise vectors of one int64.

Length = int | Value


def lengths(x: Any) -> list[Length]:
    """Return all lengths of a node's result."""
    return [length(x, axis) for axis in range(x.type.ndim)]


def length(x: Any, axis: int) -> Length:
    """Return one length of a node's result."""
    static: int | None = x.type.shape[axis]
    if static is not None:
        return static
    axis %= x.type.ndim
    part = x.re if isinstance(x, Complex) else x
    return emit("Shape", part, dtype="int64", start=axis, end=axis + 1)


def as_length(x: Any) -> Length:
    """Return a scalar of any integer dtype as a length."""
    source: Value | None = CURRENT.get().lengths.get(x.name)
    if source is not None:
        return source
    return emit("Reshape", x.cast("int64"), vector([1]))


def vector(sizes: Sequence[Length]) -> Value:
    """Return lengths as one vector."""
    if all(isinstance(n, int) for n in sizes):
        return constant(sizes, "int64")
    pieces = [x if isinstance(x, Value) else constant([x], "int64") for x in sizes]
    return pieces[0] if len(pieces) == 1 else emit("Concat", *pieces, axis=0)


def scalar(x: Length) -> Value:
    """Return a length as a scalar."""
    if isinstance(x, int):
        return constant(x, "int64")
    y = emit("Reshape", x, vector([]))
    CURRENT.get().lengths[y.name] = x
    return y


def product(sizes: Sequence[Length]) -> Length:
    static = math.prod(n for n in sizes if isinstance(n, int))
    symbolic = [n for n in sizes if isinstance(n, Value)]
    if not symbolic or not static:
        return static
    dynamic = reduce(Value.__mul__, symbolic)
    return dynamic if static == 1 else dynamic * static


def complete_shape(shape: Sequence[int | None], symbolic: Sequence[Any]) -> list[Length]:
    """Return a shape's lengths, each None replaced by the next symbolic length."""
    values = iter(symbolic)
    return [as_length(next(values)) if n is None else n for n in shape]


# Movements of elements.


def reshape_to(x: Value, shape: Sequence[Length]) -> Value:
    """Reshape an array; a length of 0 means no elements, not the operand's length."""
    return emit("Reshape", x, vector(shape), allowzero=1)


def expand_to(x: Value, shape: Sequence[Length]) -> Value:
    """Broadcast an array to a shape; onnxruntime cannot expand to no elements."""
    if 0 in shape:
        zero = protos.tensor("zero", np.zeros(1, numpy_dtype(x.dtype)))
        return emit("ConstantOfShape", vector(shape), dtype=x.dtype, value=zero)
    return emit("Expand", x, vector(shape))


def permute_axes(x: Value, axes: Sequence[int]) -> Value:
    return x if [*axes] == [*range(len(axes))] else emit("Transpose", x, perm=[*axes])


def insert_axes(x: Value, axes: Sequence[int]) -> Value:
    """Insert axes of length 1."""
    return emit("Unsqueeze", x, vector([*axes])) if axes else x


def remove_axes(x: Value, axes: Sequence[int]) -> Value:
    """Remove axes of length 1."""
    return emit("Squeeze", x, vector([*axes])) if axes else x


def where(condition: Value, a: Any, b: Any) -> Value:
    like = a if isinstance(a, Value) else b
    return emit("Where", condition, constant(a, like.dtype), constant(b, like.dtype))


def reverse_axis(x: Value, axis: int) -> Value:
    ends = (vector([-1]), vector([-(2**63)]), vector([axis]), vector([-1]))
    return emit("Slice", x, *ends)


def iota(n: Length) -> Value:
    """Return the integers from 0 up to a length, which is excluded."""
    if isinstance(n, int):
        return constant(np.arange(n), "int64")
    ends = constant(0, "int64"), scalar(n), constant(1, "int64")
    return emit("Range", *ends)


def full_like(x: Value, value: Any, dtype: str | None = None) -> Value:
    """Return an array of x's shape filled with a number."""
    shape = emit("Shape", x, dtype="int64")
    return emit("Expand", constant(value, dtype or x.dtype), shape)
