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
"""The smallest normal number, by dtype; 2**-126 for others. Libraries may flush less to 0."""

TRIALS = 3
"""The number of times that the operands are perturbed, to see the effect of rounding."""

ULPS = 16
"""The largest perturbation, in units in the last place."""


def agree(
    dtype: str,
    value: np.ndarray[Any, Any],
    expected: np.ndarray[Any, Any],
    change: Callable[[], np.ndarray[Any, Any]],
) -> bool:
    """Return whether two values are equal up to rounding.

    Args:
        dtype: The dtype that sets the tolerance.
        value: The backend's value.
        expected: NumPy's value.
        change: Computes the possible effect of rounding; called if the tolerance is exceeded.
    """
    value = np.asarray(value)
    if value.shape != expected.shape or value.dtype != expected.dtype:
        return False
    if not is_inexact(dtype):
        return bool(np.array_equal(value, expected))
    allowed = TOLERANCE[dtype] * np.abs(_wide(expected))
    error = distance(value, expected)
    near = np.nan_to_num(allowed, nan=0.0, posinf=0.0) + TINY.get(dtype, 2.0**-126)
    return bool(np.all(error <= near)) or bool(np.all(error <= near + change()))


def _wide(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def distance(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the distance of elements: 0 if both are NaN or one infinity, infinite if one is."""
    a, b = _wide(a), _wide(b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(all="ignore"):
        gap = np.abs(a - b)
    return np.where(same, 0.0, np.where(np.isnan(gap), np.inf, gap))


def sensitivity(
    compute: Callable[[Sequence[Any]], Any],
    operands: Sequence[Any],
    expected: np.ndarray[Any, Any],
) -> np.ndarray[Any, Any]:
    """Return the change of results when operands are perturbed by rounding."""
    draw = np.random.default_rng(0)
    most: Any = 0.0
    for _ in range(TRIALS):
        perturbed = compute([_perturb(x, draw) for x in operands])
        if perturbed.shape == expected.shape:
            gap = distance(perturbed, expected)
            most = np.maximum(most, np.where(np.isfinite(gap), gap, 0.0))
    # A change in one element changes the others as much, as in a sum.
    change: np.ndarray[Any, Any] = 4 * np.asarray(most)
    return change


def _perturb(x: Any, draw: np.random.Generator) -> Any:
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
    """A value that differs from NumPy's value.

    Attributes:
        node: The node of the value.
        backend: The backend's value.
        numpy: NumPy's value for the same operands.
        operands: The operands, as NumPy arrays.
        inside: Whether an operation of the program differs; otherwise only a result of the function
            differs from the requested graph's.
        place: The step of the loop, or the branch, of the operation.
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
        name = repr(self.node) if self.inside else f"The result {self.node!r}, as it was written,"
        location = f", {self.place}," if self.place else ""
        lines = [f"{name}{location} differs{line}", f"  backend: {preview(self.backend)}"]
        lines.append(f"  NumPy:   {preview(self.numpy)}{self._largest()}")
        lines += [f"  operand {i}: {preview(x)}" for i, x in enumerate(self.operands)]
        return "\n".join(lines)

    def _largest(self) -> str:
        if self.backend.shape != self.numpy.shape or not self.numpy.ndim:
            return ""
        error = distance(self.backend, self.numpy)
        index = np.unravel_index(int(np.argmax(error)), error.shape)
        at = ", ".join(map(str, index))
        return f"\n  most at [{at}]: {self.backend[index]!r} and {self.numpy[index]!r}"


@dataclass(frozen=True)
class Verification:
    """The comparison of a function's operations with NumPy's; true where all agree.

    Attributes:
        title: The function, and where it ran.
        compared: The number of operations that were compared.
        first: The first difference, in the order of the program; None where there is none.
        left: The operations that were not compared, because their results are not unique.
    """

    title: str
    compared: int
    first: Difference | None
    left: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.first is None

    def __str__(self) -> str:
        if self.first is None:
            omitted = f" Left out, as not unique: {', '.join(self.left)}." if self.left else ""
            return f"{self.title}: all {self.compared} operations agree with NumPy.{omitted}"
        text = f"{self.title}: operation {self.compared} is the first that differs from NumPy's."
        return f"{text}\n{self.first}"

    __repr__ = __str__

    def raise_if_different(self) -> None:
        """Raise if there is a difference.

        Raises:
            VerificationError: An operation differs from NumPy's; the message shows its values.
        """
        if self.first is not None:
            raise VerificationError(str(self), "", self.first.where)


def verify(
    title: str,
    mode: Mode,
    program: Program,
    written: Graph,
    arrays: Sequence[np.ndarray[Any, Any]],
    results: Sequence[np.ndarray[Any, Any]],
) -> Verification:
    """Compare each operation of a program, and the results of the compiled one, with NumPy's.

    Args:
        title: The function's name in the report.
        mode: The mode it runs in.
        program: A program of the arguments and the leaves that are not baked in.
        written: The requested graph, with its captured arrays.
        arrays: Values of the graph's inputs, and then the arrays that the program captures.
        results: The results of the function's compiled program.
    """
    comparison = _Comparison(program.graph, mode)
    arguments, outputs = arrays[: len(written.inputs)], program.graph.outputs
    first = comparison.first(comparison.values(arrays)) or _different_result(
        written, outputs, results, arguments
    )
    ambiguous = dict.fromkeys(node.op.name for node in program.graph.nodes if _is_ambiguous(node))
    return Verification(f"{title} in {mode!r}", comparison.compared, first, tuple(ambiguous))


def _is_ambiguous(node: Node) -> bool:
    return isinstance(node.op, AMBIGUOUS)


class _Comparison:
    """The comparison of a graph's operations on a backend with NumPy's, one after the other.

    Attributes:
        compared: The number of operations compared in the last run.
    """

    def __init__(self, graph: Graph, mode: Mode) -> None:
        self.graph = graph
        self.mode = mode
        self.passed = [*dict.fromkeys((*graph.inputs, *graph.leaves))]
        self.compared = 0
        backend, inner = mode.backend, set(self.passed)
        arrays = [x for x in graph.nodes if isinstance(x.type, TensorType) and x not in inner]
        self.kept = [x for x in arrays if not isinstance(x.op, Constant)]
        extended = Graph(graph.inputs, [*self.kept, *graph.outputs])
        host = backend.analyse(extended)
        program = Program(extended, backend, host, single=False)
        spec = CallSpec.of(extended, host, single=False, facts=backend.facts(program))
        self.run = backend.compile(spec, lambda: program, mode.options, (), CompileContext())

    def values(self, arrays: Sequence[Any]) -> Values:
        backend, options = self.mode.backend, self.mode.options
        arguments = {
            p: np.asarray(x, p.type.numpy_dtype) for p, x in zip(self.passed, arrays, strict=True)
        }
        results = self.run(*[backend.array(x, p.type, options) for p, x in arguments.items()])
        return arguments | {x: backend.numpy(y) for x, y in zip(self.kept, results, strict=False)}

    def first(self, values: Values) -> Difference | None:
        """Return the first operation whose result differs from NumPy's."""
        self.compared = 0
        for node in self.kept:
            source = node.inputs[0] if isinstance(node.op, Pick) else node
            if isinstance(node.op, Length | Shape) or _is_ambiguous(source):
                continue
            operands = [_value(x, values) for x in _dependencies(node)]
            if any(x is None for x in operands):
                continue
            self.compared += 1
            difference = _compare(node, values[node], operands)
            if difference is not None:
                return self._inside(node, operands) or difference
        return None

    def _inside(self, node: Node, operands: Sequence[Any]) -> Difference | None:
        """Return the first operation in a loop's step, or in a branch, that differs by itself."""
        op = node.inputs[0].op if isinstance(node.op, Pick) else node.op
        match op:
            case Loop():
                return self._in_loop(op, op.parts(operands))
            case Switch():
                branch = _Comparison(op.chosen(operands[0]), self.mode)
                return _locate(branch.first(branch.values(operands[1:])), f"in {op.title}")
        return None

    def _in_loop(self, op: Loop, inputs: LoopInputs[Any]) -> Difference | None:
        n = op.number_of_steps(inputs)
        done = n if inputs.count is None else int(inputs.count)
        step, carry = _Comparison(op.step, self.mode), [*inputs.init]
        for i in range(done)[:: -1 if op.reverse else 1]:
            values = step.values([*carry, *[x[i] for x in inputs.xs], *inputs.consts])
            difference = step.first(values)
            if difference is not None:
                return _locate(difference, f"in {op.title}, step {i}")
            outputs = [_value(y, values) for y in op.step.outputs]
            carry = outputs[: op.carries]
            if op.stops and outputs[-1]:
                break
        return None


def _locate(difference: Difference | None, place: str) -> Difference | None:
    if difference is None:
        return None
    return replace(difference, place=f"{place}, {difference.place}" if difference.place else place)


def _dependencies(node: Node) -> Sequence[Node]:
    return node.inputs[0].inputs if isinstance(node.op, Pick) else node.inputs


def _value(x: Node, values: Values) -> Any:
    return x.op.value if isinstance(x.op, Constant) else values.get(x)


def _compare(node: Node, value: Any, operands: Sequence[Any]) -> Difference | None:
    compute = _reference(node)
    expected = compute(operands)
    if agree(node.type.dtype, value, expected, lambda: sensitivity(compute, operands, expected)):
        return None
    return Difference(node, np.asarray(value), expected, tuple(operands), inside=True)


def _reference(node: Node) -> Callable[[Sequence[Any]], np.ndarray[Any, Any]]:
    """Return a function that computes a node by NumPy, given its operands."""
    several = node.inputs[0] if isinstance(node.op, Pick) else None
    source = node if several is None else several
    inputs = [stand_in(x) for x in source.inputs]
    copy = Node.make(source.op, *inputs)
    graph = Graph(inputs, [copy if several is None else Node.make(node.op, copy)])

    def compute(operands: Sequence[Any]) -> np.ndarray[Any, Any]:
        return _evaluate(graph, operands)[0]

    return compute


def _different_result(
    written: Graph,
    outputs: Sequence[Node],
    results: Sequence[np.ndarray[Any, Any]],
    arguments: Sequence[np.ndarray[Any, Any]],
) -> Difference | None:
    """Return the first result that differs from NumPy's for the requested graph.

    Args:
        written: The requested graph.
        outputs: The program's outputs, whose dtypes set the tolerance.
        results: Values of the outputs.
        arguments: Values of the graph's inputs.
    """
    # Captured arrays are further arguments.
    arguments = [*arguments, *[x.op.array for x in written.leaves]]  # type: ignore[attr-defined]
    written = Graph([*written.inputs, *written.leaves], written.outputs)
    expected = _evaluate(written, arguments)
    ambiguous = ambiguous_nodes(written)
    for i, (y, output, result) in enumerate(zip(written.outputs, outputs, results, strict=False)):
        if y in ambiguous:
            continue
        value = np.asarray(result, y.type.numpy_dtype)

        def change(i: int = i) -> Any:
            return sensitivity(lambda xs: _evaluate(written, xs)[i], arguments, expected[i])

        if not agree(output.type.dtype, value, expected[i], change):
            return Difference(y, value, expected[i], tuple(arguments), inside=False)
    return None


def ambiguous_nodes(graph: Graph) -> set[Node]:
    """Return the nodes that depend on results that are not unique."""
    return dependent(graph.nodes, filter(_is_ambiguous, graph.nodes))


def _evaluate(graph: Graph, values: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    with np.errstate(all="ignore"):
        outputs = evaluate(graph, *values)
    pairs = zip(graph.outputs, outputs, strict=True)
    return [np.asarray(x, y.type.numpy_dtype) for y, x in pairs]
