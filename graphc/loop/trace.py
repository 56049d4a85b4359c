"""The last row of a loop's trace, from the loop's final carries."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from graphc.ir import GATHERERS, Node, Pick, replace_nodes, toposort
from graphc.loop.loop import Loop
from graphc.tensor.arrays.index import HOLE, Entry, Index, Range
from graphc.tensor.arrays.join import Concatenate
from graphc.tensor.core.shape import Reshape, complete_shape, lengths
from graphc.tensor.core.tensor import Tensor


def _replace_last_rows(outputs: Sequence[Node], known: Collection[Node]) -> list[Node]:
    order = toposort(outputs, known)
    if not any(isinstance(node.op, Loop) for node in order):
        return list(outputs)
    done: dict[Node, Node] = {x: x for x in known}
    for node in order:
        new = node.with_inputs([done[x] for x in node.inputs]) if node.inputs else node
        if isinstance(new.op, Index) and not _is_index_into(node, known):
            row = last_row(new)
            new = new if row is None else row
        done[node] = new
    return [done[y] for y in outputs]


def _is_index_into(node: Node, known: Collection[Node]) -> bool:
    """Return whether a node is an index into a known node, or into a part of it."""
    while node not in known:
        if not isinstance(node.op, Index | Pick):
            return False
        node = node.inputs[0]
    return True


# This comes before derivatives and batches: a trace of zero steps has no last row, and the
# gradient with respect to a trace is as long as the trace.
GATHERERS.append(_replace_last_rows)


def last_row(node: Node) -> Node | None:
    """Return an index into the last step's row without the trace, or None.

    The row is a function of final carries and of the last elements of sequences.
    """
    op: Any = node.op
    first, rest = _first_entry(op)
    x = node.inputs[0]
    if not isinstance(first, int) or op.arrays(node.inputs[1:]):
        return None
    if is_reversed(x):
        x, first = x.inputs[0], ~first
    trace = _trace(x)
    if trace is None:
        row = _final_carry(x)
        row = None if row is None or first != _last_index(row) else row
    else:
        loop, i = trace
        row = _last_step_row(loop, i) if first in _last_indices(loop.op) else None  # type: ignore[arg-type]
    if row is None or all(entry == Range() for entry in rest):
        return row
    return Tensor.make(Index(rest), row, *node.inputs[1:])


def is_reversed(x: Node) -> bool:
    """Return whether a node reverses the first axis of an array and leaves the others."""
    if not isinstance(x.op, Index):
        return False
    first, rest = _first_entry(x.op)
    return first == Range(None, None, -1) and all(entry == Range() for entry in rest)


def _first_entry(op: Index) -> tuple[Entry, tuple[Entry, ...]]:
    """Return the entry for the first axis, a new axis where there is no entry, and the others.

    An index of a 0-d array, ``x[...]``, has no entries.
    """
    return (op.entries[0], op.entries[1:]) if op.entries else (None, ())


def _trace(x: Node) -> tuple[Node, int] | None:
    """Return the loop and the result's number if an array is the rows of the steps done."""
    done: Node | None = None
    if isinstance(x.op, Index):
        first, rest = _first_entry(x.op)
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


def _last_indices(op: Loop) -> set[int]:
    if op.reverse:
        return {0}
    return {-1} if op.stops or op.steps is None else {-1, op.steps - 1}


def _final_carry(rows: Node) -> Node | None:
    """Return the final carry of a loop that is the row of its last step.

    The loop may be in segments, as checkpoints build it: nested loops over full segments, and a
    loop over the remaining steps.
    """
    match rows.op:
        case Concatenate(axis=0) if len(rows.inputs) == 2:
            return _final_carry_of_both(*rows.inputs)
        case Reshape():
            trace = _trace(rows.inputs[0]) if _joins_two_axes(rows) else None
            end = None if trace is None else _final_carry(_row(*trace))
        case _:
            trace = _trace(rows)
            end = None if trace is None else _row(*trace)
    if trace is None or end is None:
        return None
    loop: Any = trace[0]
    nexts = loop.op.formal.nexts
    is_inner = isinstance(rows.op, Reshape)
    if end not in nexts or (is_inner and _last_index(end) != _last_index(loop)):
        return None
    return Tensor.make(Pick(nexts.index(end)), loop)


def _final_carry_of_both(*rows: Node) -> Node | None:
    """Return the final carry if the second loop continues the first and the rows are joined."""
    ends: Any = [_final_carry(x) for x in rows]
    if None in ends or _last_index(ends[0]) != _last_index(ends[1]):
        return None
    before, last = ends if _last_index(ends[0]) else ends[::-1]
    (loop,) = last.inputs
    return last if loop.op.parts(loop.inputs).init[last.op.index] is before else None


def _row(loop: Node, index: int) -> Node:
    return loop.op.step.outputs[index]  # type: ignore[attr-defined, no-any-return]


def _last_index(x: Any) -> int:
    """Return the index of the last step's row of a loop, or of the loop with the result x."""
    loop = x if isinstance(x.op, Loop) else x.inputs[0]
    return 0 if loop.op.reverse else -1


def _joins_two_axes(y: Node) -> bool:
    x, *symbolic = y.inputs
    op: Any = y.op
    new = complete_shape(op.shape, symbolic)
    return len(new) + 1 == x.type.ndim and new[1:] == lengths(x)[2:]  # type: ignore[arg-type]


def _last_step_row(loop: Node, index: int) -> Node | None:
    """Return a row of the last step, or None if it depends on nodes inside the step."""
    op: Any = loop.op
    inputs, step = op.parts(loop.inputs), op.formal
    row = op.step.outputs[index]
    ends = {y: Tensor.make(Pick(i), loop) for i, y in reversed([*enumerate(step.nexts)])}
    if row in ends:
        return ends[row]
    swaps = dict(zip(step.consts, inputs.consts, strict=True)) | ends
    nodes = set(toposort([row], swaps))
    elements_read = [p for p in step.xs if p in nodes]
    # Without steps there is no last row, and indexing it must be an error.
    has_steps = bool(elements_read) or (op.steps is not None and op.steps > 0)
    if not has_steps or (elements_read and op.stops) or not nodes.isdisjoint(step.carries):
        return None
    last = 0 if op.reverse else -1
    elements = dict(zip(step.xs, inputs.xs, strict=True))
    swaps |= {p: elements[p][last] for p in elements_read}
    return replace_nodes([row], swaps)[0]
