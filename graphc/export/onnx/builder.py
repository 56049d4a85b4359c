"""An ONNX graph under construction, and the arrays in it.

Lowerings are functions of ``Value``s, which emit nodes into the innermost open scope: the graph, or
the body of a loop or branch. A body may use what stands around it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np

from graphc.export.onnx import protos
from graphc.export.onnx.kernels import computed_in
from graphc.export.onnx.protos import GraphProto, NodeProto
from graphc.ir import TensorType, dtype_name, numpy_dtype, real_dtype


@dataclass(frozen=True, slots=True)
class Value:
    """An array of an ONNX graph.

    Attributes:
        name: Its name there, of which there is one.
        dtype: Its dtype, which is real.
        type: Its type, where it is the result of a node of graphc's graph.
    """

    name: str
    dtype: str
    type: Any = None

    def typed(self, type: Any) -> Value:
        """It, with that type."""
        return replace(self, type=type)

    @property
    def is_float(self) -> bool:
        """Whether its elements are floating numbers."""
        return numpy_dtype(self.dtype).kind not in "iub"

    def cast(self, dtype: str) -> Value:
        """It in another dtype."""
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
        """Where elements are equal."""
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
    """An array of complex numbers: its parts, of which ONNX's operations take one at a time."""

    re: Value
    im: Value
    type: Any = None

    def typed(self, type: Any) -> Complex:
        """It, with that type, and its parts with those of their own."""
        part = type.with_dtype(real_dtype(type.dtype))
        return Complex(self.re.typed(part), self.im.typed(part), type)


Array = Value | Complex
"""What stands for an array of graphc's graph."""


@dataclass
class Scope:
    """Nodes of a graph or body, and what they were made of, by which an equal one is found."""

    nodes: list[NodeProto] = field(default_factory=list)
    known: dict[Any, tuple[str, ...]] = field(default_factory=dict)


class Builder:
    """A graph under construction.

    Attributes:
        initializers: Arrays by name.
        scopes: The graph, and the bodies that are open.
        domains: Where operations come from that are not ONNX's own.
        ops: The names of all operations.
        lengths: By the names of scalars the lengths that they are.
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
        """A name that nothing else has, this one if that is so."""
        count = self._names.get(wanted, 0)
        self._names[wanted] = count + 1
        return self.name(f"{wanted}_{count}") if count else wanted

    def initializer(self, wanted: str, array: np.ndarray[Any, Any]) -> Value:
        """An array that is part of the file, under that name if it is free."""
        name = self.name(wanted)
        self.initializers[name] = protos.tensor(name, array)
        return Value(name, dtype_name(array.dtype))

    def constant(self, array: np.ndarray[Any, Any]) -> Value:
        """An array that is part of the program; equal ones are one."""
        key = array.dtype, array.shape, array.tobytes()
        if key not in self._constants:
            type = TensorType(dtype_name(array.dtype), array.shape)
            self._constants[key] = self.initializer("constant", array).typed(type)
        return self._constants[key]

    def emit(
        self,
        op: str,
        inputs: Sequence[str],
        outputs: int,
        attributes: dict[str, Any],
        domain: str = "",
    ) -> tuple[str, ...]:
        """A node's outputs by name; those of an equal node in reach, if there is one."""
        holds_graph = any(isinstance(x, GraphProto) for x in attributes.values())
        key = None if holds_graph else (op, *inputs, outputs, repr(sorted(attributes.items())))
        for scope in self.scopes if key else ():
            if key in scope.known:
                return scope.known[key]
        names = tuple(self.name(op.lower()) for _ in range(outputs))
        self.domains.update({domain} - {""})
        self.ops.add(op)
        self.scopes[-1].nodes.append(protos.node(op, inputs, names, attributes, domain))
        if key:
            self.scopes[-1].known[key] = names
        return names

    def result(self, x: Value, wanted: str) -> Value:
        """An array under a name of its own, as results of graphs have, that name if it is free."""
        y = Value(self.name(wanted), x.dtype, x.type)
        self.scopes[-1].nodes.append(protos.node("Identity", [x.name], [y.name], {}))
        return y

    def body(self, given: Sequence[Value], build: Any) -> GraphProto:
        """A graph within a node.

        Args:
            given: What the node passes to it.
            build: Gives its results.
        """
        self.scopes.append(Scope())
        results = [self.result(x, "result") for x in build()]
        nodes, _ = protos.needed(self.scopes.pop().nodes, [x.name for x in results])
        inputs, outputs = ([_info(x) for x in part] for part in (given, results))
        return protos.graph(self.name("body"), nodes, inputs, outputs)


def _info(x: Value) -> Any:
    return protos.value_info(x.name, x.dtype, None if x.type is None else x.type.shape)


CURRENT: ContextVar[Builder] = ContextVar("CURRENT")
"""The graph that lowerings emit nodes into."""


@contextmanager
def building() -> Iterator[Builder]:
    """Begin a graph."""
    token = CURRENT.set(Builder())
    try:
        yield CURRENT.get()
    finally:
        CURRENT.reset(token)


def emit(op: str, *inputs: Any, dtype: str | None = None, typed: Any = None, **more: Any) -> Value:
    """The only result of an ONNX operation.

    Operands of a dtype that the runtime lacks the operation for are cast to one that holds all
    values of it, and the result is cast back.

    Args:
        op: Its name.
        inputs: Arrays; None for one that is left out. A number has the dtype of the first array.
        dtype: The result's dtype, by default that of the operands.
        typed: The result's type in graphc's graph.
        more: Attributes.
    """
    place = 1 if op == "Where" else 0
    like = inputs[place]
    own = like.dtype
    given = [x if isinstance(x, Value) or x is None else constant(x, own) for x in inputs]
    wide = computed_in(op, own)
    if wide != own:
        given = [
            x.cast(wide) if i >= place and x is not None and x.dtype == own else x
            for i, x in enumerate(given)
        ]
    (name,) = CURRENT.get().emit(op, ["" if x is None else x.name for x in given], 1, more)
    y = Value(name, wide if dtype is None else dtype, typed)
    return y.cast(own) if dtype is None else y


def several(op: str, inputs: Sequence[Value], dtypes: Sequence[str], **more: Any) -> list[Value]:
    """All results of an ONNX operation."""
    domain = more.pop("domain", "")
    given = [x.name for x in inputs]
    names = CURRENT.get().emit(op, given, len(dtypes), more, domain)
    return [Value(name, dtype) for name, dtype in zip(names, dtypes, strict=True)]


def constant(value: Any, dtype: str) -> Value:
    """A number or array that is part of the program."""
    if isinstance(value, Value):
        return value
    return CURRENT.get().constant(np.asarray(value, numpy_dtype(dtype)))


# Lengths, which are Python integers where they are known, and otherwise vectors of one int64.

Length = int | Value


def lengths(x: Any) -> list[Length]:
    """All lengths of the result of a node."""
    return [length(x, axis) for axis in range(x.type.ndim)]


def length(x: Any, axis: int) -> Length:
    """A length of the result of a node."""
    known: int | None = x.type.shape[axis]
    if known is not None:
        return known
    axis %= x.type.ndim
    part = x.re if isinstance(x, Complex) else x
    return emit("Shape", part, dtype="int64", start=axis, end=axis + 1)


def as_length(x: Any) -> Length:
    """A scalar of any integer dtype as a length."""
    known: Value | None = CURRENT.get().lengths.get(x.name)
    if known is not None:
        return known
    return emit("Reshape", x.cast("int64"), vector([1]))


def vector(parts: Sequence[Length]) -> Value:
    """Lengths side by side."""
    if all(isinstance(n, int) for n in parts):
        return constant(parts, "int64")
    found = [x if isinstance(x, Value) else constant([x], "int64") for x in parts]
    return found[0] if len(found) == 1 else emit("Concat", *found, axis=0)


def scalar(x: Length) -> Value:
    """A length as a scalar."""
    if isinstance(x, int):
        return constant(x, "int64")
    y = emit("Reshape", x, vector([]))
    CURRENT.get().lengths[y.name] = x
    return y


def product(parts: Sequence[Length]) -> Length:
    """The product of lengths."""
    known = math.prod(n for n in parts if isinstance(n, int))
    others = [n for n in parts if isinstance(n, Value)]
    if not others or not known:
        return known
    found = reduce(Value.__mul__, others)
    return found if known == 1 else found * known


def filled(shape: Sequence[int | None], symbolic: Sequence[Any]) -> list[Length]:
    """The lengths of a static shape, of which None stands for an input."""
    left = iter(symbolic)
    return [as_length(next(left)) if n is None else n for n in shape]


# Movements of elements.


def reshaped(x: Value, shape: Sequence[Length]) -> Value:
    """The elements in another shape, of which a length of 0 is one of no elements."""
    return emit("Reshape", x, vector(shape), allowzero=1)


def expanded(x: Value, shape: Sequence[Length]) -> Value:
    """It repeated to a shape; onnxruntime leaves out what repeats to no elements."""
    if 0 in shape:
        zero = protos.tensor("zero", np.zeros(1, numpy_dtype(x.dtype)))
        return emit("ConstantOfShape", vector(shape), dtype=x.dtype, value=zero)
    return emit("Expand", x, vector(shape))


def transposed(x: Value, axes: Sequence[int]) -> Value:
    """Its axes in another order."""
    return x if [*axes] == [*range(len(axes))] else emit("Transpose", x, perm=[*axes])


def unsqueezed(x: Value, axes: Sequence[int]) -> Value:
    """It with new axes of length 1."""
    return emit("Unsqueeze", x, vector([*axes])) if axes else x


def squeezed(x: Value, axes: Sequence[int]) -> Value:
    """It without some axes, of length 1."""
    return emit("Squeeze", x, vector([*axes])) if axes else x


def where(condition: Value, a: Any, b: Any) -> Value:
    """A selection."""
    like = a if isinstance(a, Value) else b
    return emit("Where", condition, constant(a, like.dtype), constant(b, like.dtype))


def flipped(x: Value, axis: int) -> Value:
    """It with an axis in the other direction."""
    ends = (vector([-1]), vector([-(2**63)]), vector([axis]), vector([-1]))
    return emit("Slice", x, *ends)


def counted(n: Length) -> Value:
    """0, 1, ... up to a length."""
    if isinstance(n, int):
        return constant(np.arange(n), "int64")
    ends = constant(0, "int64"), scalar(n), constant(1, "int64")
    return emit("Range", *ends)


def full_like(x: Value, value: Any, dtype: str | None = None) -> Value:
    """A number in x's shape."""
    shape = emit("Shape", x, dtype="int64")
    return emit("Expand", constant(value, dtype or x.dtype), shape)
