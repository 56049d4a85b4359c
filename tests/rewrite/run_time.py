"""Graphs run with lengths that only the run decides, and whether a rewrite may lose an error.

The law is in docs/rewrites.md: a right program stays right whatever the lengths are, and an error
is lost only with an array whose elements are not used any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import numpy as np

from graphc.errors import ShapeError
from graphc.ir import (
    Graph,
    Input,
    Leaf,
    Node,
    TensorType,
    TupleType,
    is_integer,
    replace_nodes,
    toposort,
)
from graphc.ir.law import checks_of
from graphc.loop.loop import Loop
from graphc.rewrite.rule import scalar_value
from graphc.tensor.arrays.reduce import Composite
from graphc.tensor.core.shape import Length, Shape
from graphc.tensor.linalg.assume import Assume

__all__ = ["Failed", "Run", "array", "fault", "inputs_of", "loosened"]

TRIES, MOST_OTHERS = 400, 3
"""How often other arrays are tried, and how many in the place of those that do not fit."""


@dataclass(frozen=True)
class Failed:
    """The value of a node that fails, or that needs one that does.

    Attributes:
        node: The first node to fail.
        why: The shapes, or the error.
        by_value: Whether values are wrong, not lengths: an index is out of bounds.
    """

    node: Node
    why: str
    by_value: bool = False


class StepError(Exception):
    """A step of a loop that fails."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.why)
        self.failed = failed


class Run(dict[Node, Any]):
    """The values of nodes, each by its operation's reference, with every check of lengths made."""

    def of(self, *nodes: Node) -> list[Any]:
        """The values of these nodes, computed once."""
        for node in toposort(nodes, self):
            self[node] = self._value(node)
        return [self[node] for node in nodes]

    def _value(self, node: Node) -> Any:
        given = [self[x] for x in node.inputs]
        failed = next((x for x in given if isinstance(x, Failed)), None)
        if failed is not None:
            return failed
        for a, m, b, n in checks_of(node):
            if np.shape(given[a])[m] != np.shape(given[b])[n]:
                return Failed(node, f"operands of shapes {[np.shape(x) for x in given]}")
        try:
            with np.errstate(all="ignore"):
                return self._performed(node, given)
        except StepError as error:
            return Failed(node, error.failed.why, error.failed.by_value)
        except (ShapeError, ValueError, IndexError, np.linalg.LinAlgError) as error:
            return Failed(node, str(error), isinstance(error, IndexError))

    def _performed(self, node: Node, given: Sequence[Any]) -> Any:
        match node.op:
            case Leaf():
                return node.op.array
            case Composite():
                return self.of(node.op.expand(*node.inputs))[0]
            case Loop():
                return _looped(node.op, given)
        y = node.op.perform(*given)
        if not isinstance(node.type, TupleType):
            pairs = zip(node.type.shape, np.shape(y), strict=True)
            if not all(n in {None, m} for n, m in pairs):
                return Failed(node, f"a value of shape {np.shape(y)}")
        return y


def _looped(op: Loop, given: Sequence[Any]) -> Any:
    """A loop whose step fits, whether it is run or not."""
    parts = op.parts(given)
    if not (op.number_of_steps(parts) if parts.count is None else parts.count):
        blanks = [np.zeros(x.shape[1:], x.dtype) for x in parts.xs]
        try:
            op.check_carry(parts.init, _stepped(op.step, *parts.init, *blanks, *parts.consts))
        except StepError as error:
            if not error.failed.by_value:
                raise
    return op.run(partial(_stepped, op.step), given)


def _stepped(step: Graph, *values: Any) -> list[Any]:
    found = Run(zip(step.inputs, values, strict=True)).of(*step.outputs)
    failed = next((y for y in found if isinstance(y, Failed)), None)
    if failed is not None:
        raise StepError(failed)
    return found


def inputs_of(*nodes: Node) -> list[Node]:
    """The inputs of a graph."""
    return [x for x in toposort(nodes) if isinstance(x.op, Input)]


def loosened(node: Node, random: Random, percent: int) -> tuple[Node, dict[Node, Node]] | None:
    """The graph with some lengths of its inputs unknown, and what stands for each input.

    None where an operation wants to know a length.
    """
    swaps: dict[Node, Node] = {}
    for x in inputs_of(node):
        shape = tuple(None if random.randrange(100) < percent else n for n in x.type.shape)
        swaps[x] = x.type.with_shape(shape)(x.name)
    try:
        return replace_nodes([node], swaps)[0], swaps
    except ShapeError:
        return None


def array(type: TensorType, random: Random, length: Callable[[], int]) -> np.ndarray:
    """A small array of a type, its unknown lengths as ``length`` says."""
    shape = tuple(length() if n is None else n for n in type.shape)
    numbers = np.random.default_rng(random.getrandbits(32))
    whole = type.dtype == "bool" or is_integer(type.dtype)
    value = numbers.integers(0, 3, shape) if whole else numbers.normal(size=shape)
    return np.asarray(value).astype(type.numpy_dtype)


def fault(before: Node, after: Node, run: Run, random: Random) -> str | None:
    """What is wrong with a node in the place of another one, with these inputs; None if nothing."""
    old, new = run.of(before, after)
    if isinstance(old, tuple) or isinstance(new, tuple):
        return None
    shapes = [f"{x.name}{np.shape(run[x])}" for x in inputs_of(before, after)]
    told = f"{before} -> {after} of {', '.join(shapes)}"
    if isinstance(old, Failed):
        lost = not isinstance(new, Failed) and not _may_be_lost(before, after, run, random)
        return f"{told} gives {np.shape(new)}, and fails as written: {old.why}" if lost else None
    if isinstance(new, Failed):
        return f"{told} gives {np.shape(old)} as written, and fails: {new.why}"
    return None if _is_same(old, new, before) else f"{told} is {old}, not {new}"


def _is_same(old: Any, new: Any, before: Node) -> bool:
    """Whether two values are equal, or where properties of values are assumed, their shapes."""
    if np.shape(old) != np.shape(new) or np.result_type(old) != np.result_type(new):
        return False
    if before not in ASSUMING:
        ASSUMING[before] = any(
            isinstance(x.op, Assume) or getattr(x.op, "assume", "gen") != "gen"
            for x in toposort([before])
        )
    with np.errstate(all="ignore"):
        finite = np.isfinite(old).all()
        return ASSUMING[before] or not finite or np.allclose(new, old, rtol=1e-2, atol=1e-4)


ASSUMING: dict[Node, bool] = {}


def _may_be_lost(before: Node, after: Node, run: Run, random: Random) -> bool:
    """Whether an error of one node may be lost in the one that took its place.

    That is where its value does not depend on what is at fault: nothing of that is used, or another
    array in the place of the node that fails, of one of its operands or of an input gives the same.
    """
    failed: Failed = run[before]
    if failed.by_value or isinstance(before.op, Length | Shape):
        return True
    if not {*_used(after)} & {*inputs_of(failed.node)}:
        return True
    written = toposort([before])
    given = {x: run[x] for x in (*inputs_of(before, after), *_kept(after, {*written}))}
    for _ in range(TRIES):
        held = given
        for _ in range(MOST_OTHERS):
            (y,) = Run(held).of(before)
            if not isinstance(y, Failed):
                if _is_same(run[after], y, before):
                    return True
                break
            x = _place(y.node, written, random)
            held = {**held, x: _other(x, y.node, {**run, **held}, random)}
    return False


def _place(failed: Node, written: Sequence[Node], random: Random) -> Node:
    """A node to give another value."""
    operands = [z for x in failed.inputs for z in (x, *x.inputs)]
    places = [failed, *operands, *inputs_of(failed)]
    places += written[:-1] if random.randrange(100) < 30 else []
    return random.choice([x for x in places if isinstance(x.type, TensorType)])


def _other(x: Node, failed: Node, run: dict[Node, Any], random: Random) -> Any:
    """Another value of it, of lengths that there are about the node that fails."""
    known = [run.get(y) for y in failed.inputs]
    lengths = [n for y in known if isinstance(y, np.ndarray) for n in y.shape]
    lengths += [0, 1, 2, *(2 * n for n in lengths)] if random.randrange(100) < 30 else []
    length = partial(random.choice, lengths or [0, 1])
    if x.type == TensorType("int64"):
        return np.array(length())
    value = array(x.type, random, length)
    # Of zeros and ones nothing is used but that they are.
    same = scalar_value(x)
    return np.full_like(value, same) if same in {0, 1} else value


def _used(node: Node) -> Iterator[Node]:
    """The inputs whose elements a node is made of."""
    stack, seen = [node], set()
    while stack:
        x = stack.pop()
        if x in seen or isinstance(x.op, Length | Shape):
            continue
        seen.add(x)
        stack += x.inputs
        if isinstance(x.op, Input):
            yield x


def _kept(after: Node, written: set[Node]) -> set[Node]:
    """The parts of what was written that what took its place is made of."""
    found: set[Node] = set()
    stack, seen = [after], set()
    while stack:
        x = stack.pop()
        if x in written:
            found.add(x)
        elif x not in seen:
            stack += x.inputs
        seen.add(x)
    return found
