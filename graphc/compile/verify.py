"""Verification of a function against NumPy: the first operation whose results differ.

Each operation is compared on its own: NumPy computes it from the backend's operands. The results
may differ by as much as rounding the operands would change them, plus a few digits of the dtype. So
an error is reported where it arises, not where it has grown large.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from graphc.compile.mode import Mode
from graphc.errors import VerificationError
from graphc.ir import Constant, Graph, Node, Pick, TensorType, dependent, is_inexact, preview
from graphc.link import CallSpec, CompileContext, Program
from graphc.loop import Loop
from graphc.loop.branch import Switch
from graphc.loop.evaluate import evaluate
from graphc.loop.step import LoopInputs, stand_in
from graphc.tensor.core.shape import Length, Shape
from graphc.tensor.linalg.eigen import Eigh, GeneralEigen
from graphc.tensor.linalg.schur import QZ, SchurForm
from graphc.tensor.linalg.svd import SVD

TOLERANCE = {
    "bfloat16": 5e-2,
    "float16": 1e-2,
    "float32": 1e-4,
    "float64": 1e-9,
    "complex64": 1e-4,
    "complex128": 1e-9,
}
"""The relative difference allowed between two libraries, by dtype; other dtypes must be equal."""

TINY = {"float16": 2.0**-14, "float64": 2.0**-1022, "complex128": 2.0**-1022}
"""The smallest normal number, by dtype; 2**-126 for others. Below it libraries may give 0."""

TRIALS = 3
"""The number of times that the operands are perturbed, to see the effect of rounding."""

ULPS = 16
"""The largest perturbation, in units in the last place."""


def agree(
    dtype: str,
    given: np.ndarray[Any, Any],
    expected: np.ndarray[Any, Any],
    change: Callable[[], np.ndarray[Any, Any]],
) -> bool:
    """Whether two values are equal up to rounding.

    Args:
        dtype: The dtype that sets the tolerance.
        given: The backend's value.
        expected: NumPy's value.
        change: Computes how much rounding may change it; called where the tolerance is exceeded.
    """
    given = np.asarray(given)
    if given.shape != expected.shape or given.dtype != expected.dtype:
        return False
    if not is_inexact(dtype):
        return bool(np.array_equal(given, expected))
    allowed = TOLERANCE[dtype] * np.abs(_wide(expected))
    error = distance(given, expected)
    near = np.nan_to_num(allowed, nan=0.0, posinf=0.0) + TINY.get(dtype, 2.0**-126)
    return bool(np.all(error <= near)) or bool(np.all(error <= near + change()))


def _wide(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def distance(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The distance of elements: 0 where both are NaN or one infinity, infinite where one is."""
    a, b = _wide(a), _wide(b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(all="ignore"):
        apart = np.abs(a - b)
    return np.where(same, 0.0, np.where(np.isnan(apart), np.inf, apart))


def sensitivity(
    compute: Callable[[Sequence[Any]], Any],
    operands: Sequence[Any],
    expected: np.ndarray[Any, Any],
) -> np.ndarray[Any, Any]:
    """The change of results when operands are perturbed by rounding."""
    draw = np.random.default_rng(0)
    most: Any = 0.0
    for _ in range(TRIALS):
        moved = compute([_rounded(x, draw) for x in operands])
        if moved.shape == expected.shape:
            apart = distance(moved, expected)
            most = np.maximum(most, np.where(np.isfinite(apart), apart, 0.0))
    # A change in one element changes the others as much, as in a sum.
    change: np.ndarray[Any, Any] = 4 * np.asarray(most)
    return change


def _rounded(x: Any, draw: np.random.Generator) -> Any:
    x = np.asarray(x)
    if x.dtype.kind not in "fc" and x.dtype.name != "bfloat16":
        return x
    digits = 2.0**-7 if x.dtype.name == "bfloat16" else float(np.finfo(x.dtype).eps)
    return (x * (1 + ULPS * digits * draw.uniform(-1, 1, x.shape))).astype(x.dtype)


Values = dict[Node, np.ndarray[Any, Any]]

AMBIGUOUS = (GeneralEigen, Eigh, SVD, SchurForm, QZ)
"""Operations whose results are unique only up to signs, phases or an order."""


@dataclass(frozen=True)
class Difference:
    """A value that differs from NumPy's.

    Attributes:
        node: The node of the value.
        backend: The backend's value.
        numpy: NumPy's value for the same operands.
        operands: The operands, as NumPy arrays.
        inside: Whether it is an operation of the program; otherwise only a result of the whole
            function differs, from that of the graph as it was written.
        place: The step of a loop, or the branch, in which it was computed.
    """

    node: Node
    backend: np.ndarray[Any, Any]
    numpy: np.ndarray[Any, Any]
    operands: tuple[np.ndarray[Any, Any], ...]
    inside: bool
    place: str = ""

    @property
    def where(self) -> str | None:
        """The user's line."""
        return self.node.where

    def __str__(self) -> str:
        line = f"   {self.where}" if self.where else ""
        what = repr(self.node) if self.inside else f"The result {self.node!r}, as it was written,"
        place = f", {self.place}," if self.place else ""
        lines = [f"{what}{place} differs{line}", f"  backend: {preview(self.backend)}"]
        lines.append(f"  NumPy:   {preview(self.numpy)}{self._largest()}")
        lines += [f"  operand {i}: {preview(x)}" for i, x in enumerate(self.operands)]
        return "\n".join(lines)

    def _largest(self) -> str:
        """The place of the largest difference, and both values there."""
        if self.backend.shape != self.numpy.shape or not self.numpy.ndim:
            return ""
        error = distance(self.backend, self.numpy)
        place = np.unravel_index(int(np.argmax(error)), error.shape)
        at = ", ".join(map(str, place))
        return f"\n  most at [{at}]: {self.backend[place]!r} and {self.numpy[place]!r}"


@dataclass(frozen=True)
class Verification:
    """The comparison of a function's operations with NumPy's; true where all agree.

    Attributes:
        title: The function, and where it ran.
        compared: The number of operations that were compared.
        first: The first difference, in the order of the program; None where there is none.
        left: The operations that were not compared, as their results are not unique.
    """

    title: str
    compared: int
    first: Difference | None
    left: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.first is None

    def __str__(self) -> str:
        if self.first is None:
            left = f" Left out, as not unique: {', '.join(self.left)}." if self.left else ""
            return f"{self.title}: all {self.compared} operations agree with NumPy.{left}"
        text = f"{self.title}: operation {self.compared} is the first that differs from NumPy's."
        return f"{text}\n{self.first}"

    __repr__ = __str__

    def raise_if_different(self) -> None:
        """Raise where there is a difference.

        Raises:
            VerificationError: An operation differs from NumPy's; the message shows its values.
        """
        if self.first is not None:
            raise VerificationError(str(self), "", self.first.where)


def verified(
    title: str,
    mode: Mode,
    program: Program,
    written: Graph,
    arguments: Sequence[np.ndarray[Any, Any]],
    leaves: Sequence[np.ndarray[Any, Any]],
) -> Verification:
    """Run a program on its backend, and each of its operations by NumPy.

    Args:
        title: The function's name in the report.
        mode: The mode it runs in.
        program: Takes the arguments and the leaves that are not part of it.
        written: The graph as it was written, which takes the arguments only.
        arguments: The arguments' values.
        leaves: The arrays that the program captures.
    """
    comparison = _Comparison(program.graph, mode)
    values = comparison.values([*arguments, *leaves])
    first = comparison.first(values) or _results(written, program.graph, values, arguments)
    left = dict.fromkeys(node.op.name for node in program.graph.nodes if _is_ambiguous(node))
    return Verification(f"{title} in {mode!r}", comparison.compared, first, tuple(left))


def _is_ambiguous(node: Node) -> bool:
    return isinstance(node.op, AMBIGUOUS)


class _Comparison:
    """A comparison of a graph's operations on a backend with NumPy's, one after the other.

    Attributes:
        compared: The number of operations compared in the last run.
    """

    def __init__(self, graph: Graph, mode: Mode) -> None:
        self.graph = graph
        self.mode = mode
        self.passed = [*dict.fromkeys((*graph.inputs, *graph.leaves))]
        self.compared = 0
        backend, inner = mode.backend, set(self.passed)
        kept = [x for x in graph.nodes if isinstance(x.type, TensorType) and x not in inner]
        self.kept = [x for x in kept if not isinstance(x.op, Constant)]
        whole = Graph(graph.inputs, [*self.kept, *graph.outputs])
        host = backend.analyse(whole)
        made = Program(whole, backend, host, single=False)
        spec = CallSpec.of(whole, host, single=False, facts=backend.facts(made))
        self.run = backend.compile(spec, lambda: made, mode.options, (), CompileContext())

    def values(self, arrays: Sequence[Any]) -> Values:
        """The value of every array, by the backend."""
        backend, options = self.mode.backend, self.mode.options
        given = {
            p: np.asarray(x, p.type.numpy_dtype) for p, x in zip(self.passed, arrays, strict=True)
        }
        found = self.run(*[backend.array(x, p.type, options) for p, x in given.items()])
        return given | {x: backend.numpy(y) for x, y in zip(self.kept, found, strict=False)}

    def first(self, values: Values) -> Difference | None:
        """The first operation whose result differs from NumPy's."""
        self.compared = 0
        for node in self.kept:
            whole = node.inputs[0] if isinstance(node.op, Pick) else node
            if isinstance(node.op, Length | Shape) or _is_ambiguous(whole):
                continue
            operands = [_value(x, values) for x in _dependencies(node)]
            if any(x is None for x in operands):
                continue
            self.compared += 1
            found = _compared(node, values[node], operands)
            if found is not None:
                return self._inside(node, operands) or found
        return None

    def _inside(self, node: Node, operands: Sequence[Any]) -> Difference | None:
        """The first operation in the step of a loop, or in a branch, that differs on its own."""
        op = node.inputs[0].op if isinstance(node.op, Pick) else node.op
        match op:
            case Loop():
                return self._in_loop(op, op.parts(operands))
            case Switch():
                branch = _Comparison(op.chosen(operands[0]), self.mode)
                return _placed(branch.first(branch.values(operands[1:])), f"in {op.title}")
        return None

    def _in_loop(self, op: Loop, given: LoopInputs[Any]) -> Difference | None:
        n = op.number_of_steps(given)
        done = n if given.count is None else int(given.count)
        step, carry = _Comparison(op.step, self.mode), [*given.init]
        for i in range(done)[:: -1 if op.reverse else 1]:
            values = step.values([*carry, *[x[i] for x in given.xs], *given.consts])
            found = step.first(values)
            if found is not None:
                return _placed(found, f"in {op.title}, step {i}")
            outputs = [_value(y, values) for y in op.step.outputs]
            carry = outputs[: op.carries]
            if op.stops and outputs[-1]:
                break
        return None


def _placed(found: Difference | None, place: str) -> Difference | None:
    if found is None:
        return None
    return replace(found, place=f"{place}, {found.place}" if found.place else place)


def _dependencies(node: Node) -> Sequence[Node]:
    """The nodes that an array is computed from, also of an operation with several results."""
    return node.inputs[0].inputs if isinstance(node.op, Pick) else node.inputs


def _value(x: Node, values: Values) -> Any:
    return x.op.value if isinstance(x.op, Constant) else values.get(x)


def _compared(node: Node, given: Any, operands: Sequence[Any]) -> Difference | None:
    compute = _reference(node)
    expected = compute(operands)
    if agree(node.type.dtype, given, expected, lambda: sensitivity(compute, operands, expected)):
        return None
    return Difference(node, np.asarray(given), expected, tuple(operands), inside=True)


def _reference(node: Node) -> Callable[[Sequence[Any]], np.ndarray[Any, Any]]:
    """A function that computes a node by NumPy, given its operands."""
    several = node.inputs[0] if isinstance(node.op, Pick) else None
    whole = node if several is None else several
    inputs = [stand_in(x) for x in whole.inputs]
    made = Node.make(whole.op, *inputs)
    graph = Graph(inputs, [made if several is None else Node.make(node.op, made)])

    def compute(operands: Sequence[Any]) -> np.ndarray[Any, Any]:
        return _evaluated(graph, operands)[0]

    return compute


def _results(
    written: Graph,
    graph: Graph,
    values: Values,
    arguments: Sequence[np.ndarray[Any, Any]],
) -> Difference | None:
    """The first result that differs from that of the graph as it was written."""
    # Captured arrays are further arguments.
    arguments = [*arguments, *[x.op.array for x in written.leaves]]  # type: ignore[attr-defined]
    written = Graph([*written.inputs, *written.leaves], written.outputs)
    expected = _evaluated(written, arguments)
    ambiguous = ambiguous_nodes(written)
    for i, (y, made) in enumerate(zip(written.outputs, graph.outputs, strict=False)):
        if y in ambiguous:
            continue
        given = np.asarray(_value(made, values), y.type.numpy_dtype)

        def change(i: int = i) -> Any:
            return sensitivity(lambda xs: _evaluated(written, xs)[i], arguments, expected[i])

        if not agree(made.type.dtype, given, expected[i], change):
            return Difference(y, given, expected[i], tuple(arguments), inside=False)
    return None


def ambiguous_nodes(graph: Graph) -> set[Node]:
    """The nodes that depend on results that are not unique."""
    return dependent(graph.nodes, filter(_is_ambiguous, graph.nodes))


def _evaluated(graph: Graph, values: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """A graph's outputs by NumPy."""
    with np.errstate(all="ignore"):
        found = evaluate(graph, *values)
    pairs = zip(graph.outputs, found, strict=True)
    return [np.asarray(x, y.type.numpy_dtype) for y, x in pairs]
