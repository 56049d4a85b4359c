"""The last row of a loop's trace, found from what the loop ends with."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from graphc.ir import GATHERERS, Node, Pick, replaced, toposort
from graphc.loop.loop import Loop
from graphc.tensor.arrays.index import HOLE, Index, Range
from graphc.tensor.arrays.join import Concatenate
from graphc.tensor.core.shape import Reshape, lengths
from graphc.tensor.core.tensor import Tensor


def _without_last_rows(outputs: Sequence[Node], known: Collection[Node]) -> list[Node]:
    """Outputs made of what loops end with, in the place of last rows of traces."""
    order = toposort(outputs, known)
    if not any(isinstance(node.op, Loop) for node in order):
        return list(outputs)
    done: dict[Node, Node] = {x: x for x in known}
    for node in order:
        new = node.with_inputs([done[x] for x in node.inputs]) if node.inputs else node
        if isinstance(new.op, Index) and not _reads(node, known):
            found = last_row(new)
            new = new if found is None else found
        done[node] = new
    return [done[y] for y in outputs]


def _reads(node: Node, known: Collection[Node]) -> bool:
    """Whether it is an index into one of these, or into a part of it."""
    while node not in known:
        if not isinstance(node.op, Index | Pick):
            return False
        node = node.inputs[0]
    return True


# Derivatives and batches know nothing of traces of which only the last row is read: these
# have none at zero steps, and their gradients would be as long as they are.
GATHERERS.append(_without_last_rows)


def last_row(node: Node) -> Node | None:
    """Return a node equal to an index into the row of the last step, which needs no trace.

    That is a carry at the end, or is made of such ones and of the last elements of sequences.
    """
    op: Any = node.op
    first, *rest = op.entries
    x = node.inputs[0]
    if isinstance(first, int) and is_reversed(x):
        x, first = x.inputs[0], ~first
    if not isinstance(first, int) or op.arrays(node.inputs[1:]):
        return None
    trace = _trace(x)
    if trace is None:
        row = _end(x)
        row = None if row is None or first != _place(row) else row
    else:
        loop, i = trace
        row = _after(loop, i) if first in _last_places(loop.op) else None  # type: ignore[arg-type]
    if row is None or all(entry == Range() for entry in rest):
        return row
    return Tensor.make(Index(tuple(rest)), row, *node.inputs[1:])


def is_reversed(x: Node) -> bool:
    """Whether it is an array with its first axis reversed, and otherwise as it is."""
    if not isinstance(x.op, Index):
        return False
    first, *rest = x.op.entries
    return first == Range(None, None, -1) and all(entry == Range() for entry in rest)


def _trace(x: Node) -> tuple[Node, int] | None:
    """The loop, and the number of its result, whose rows of the steps done an array is."""
    done: Node | None = None
    if isinstance(x.op, Index):
        first, *rest = x.op.entries
        if first != Range(None, HOLE) or any(entry != Range() for entry in rest):
            return None
        x, done = x.inputs
    loop = x.inputs[0] if isinstance(x.op, Pick) else x
    op: Any = loop.op
    if not isinstance(op, Loop) or op.counted:
        return None
    i: Any = x.op.index  # type: ignore[attr-defined]
    end = op.carries + op.stacked
    if not op.carries <= i < end or (op.stops and op.reverse):
        return None
    return (loop, i) if done is (Node.make(Pick(end), loop) if op.stops else None) else None


def _last_places(op: Loop) -> set[int]:
    """Where the row of the last step stands."""
    if op.reverse:
        return {0}
    return {-1} if op.stops or op.steps is None else {-1, op.steps - 1}


def _end(rows: Node) -> Node | None:
    """The carry at the end of a loop that is the row of its last step.

    The loop may be in segments, as checkpoints make it: one over whole segments, each of them a
    loop, and one over the steps that are left.
    """
    match rows.op:
        case Concatenate(axis=0) if len(rows.inputs) == 2:
            return _end_of_both(*rows.inputs)
        case Reshape():
            trace = _trace(rows.inputs[0]) if _joins_two_axes(rows) else None
            end = None if trace is None else _end(_row(*trace))
        case _:
            trace = _trace(rows)
            end = None if trace is None else _row(*trace)
    if trace is None or end is None:
        return None
    loop: Any = trace[0]
    nexts = loop.op.formal.nexts
    is_inner = isinstance(rows.op, Reshape)
    if end not in nexts or (is_inner and _place(end) != _place(loop)):
        return None
    return Tensor.make(Pick(nexts.index(end)), loop)


def _end_of_both(*rows: Node) -> Node | None:
    """The same where the rows of a loop are joined to those of one that goes on from its end."""
    ends: Any = [_end(x) for x in rows]
    if None in ends or _place(ends[0]) != _place(ends[1]):
        return None
    before, last = ends if _place(ends[0]) else ends[::-1]
    (loop,) = last.inputs
    return last if loop.op.parts(loop.inputs).init[last.op.index] is before else None


def _row(loop: Node, index: int) -> Node:
    """A row, as the loop's step makes it."""
    return loop.op.step.outputs[index]  # type: ignore[attr-defined, no-any-return]


def _place(x: Any) -> int:
    """Where the row of the last step of a loop, or of the loop that it is a result of, stands."""
    loop = x if isinstance(x.op, Loop) else x.inputs[0]
    return 0 if loop.op.reverse else -1


def _joins_two_axes(y: Node) -> bool:
    """Whether a reshaped array has one axis for its first two, and all others as they were."""
    x, *symbolic = y.inputs
    op: Any = y.op
    given = iter(symbolic)
    new = [next(given) if n is None else n for n in op.shape]
    return len(new) + 1 == x.type.ndim and new[1:] == lengths(x)[2:]  # type: ignore[arg-type]


def _after(loop: Node, index: int) -> Node | None:
    """A row of the last step, or None where that takes what only the step knows."""
    op: Any = loop.op
    given, step = op.parts(loop.inputs), op.formal
    row = op.step.outputs[index]
    ends = {y: Tensor.make(Pick(i), loop) for i, y in reversed([*enumerate(step.nexts)])}
    if row in ends:
        return ends[row]
    swaps = dict(zip(step.consts, given.consts, strict=True)) | ends
    within = set(toposort([row], swaps))
    read = [p for p in step.xs if p in within]
    # Of no steps there is no last row, which must still be an error.
    begins = bool(read) or (op.steps is not None and op.steps > 0)
    if not begins or (read and op.stops) or not within.isdisjoint(step.carries):
        return None
    last = 0 if op.reverse else -1
    elements = dict(zip(step.xs, given.xs, strict=True))
    swaps |= {p: elements[p][last] for p in read}
    return replaced([row], swaps)[0]
