"""The step of one loop, or of several fused ones, in an editable form, and its liveness."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from graphc.ir import Constant, Graph, Node, Pick, reachable_nodes, replace_nodes, toposort
from graphc.loop.build import unify_lengths
from graphc.loop.loop import Loop
from graphc.loop.step import LoopStep, captured_nodes, stand_in, with_formals
from graphc.rewrite.facts.lengths import length_of, lengths_of
from graphc.rewrite.rule import LOOKED_THROUGH, scalar_value
from graphc.tensor.core.shape import Length, Shape
from graphc.tensor.core.specify import specify_shape
from graphc.tensor.core.tensor import Tensor, as_tensor

# Liveness.


@dataclass(frozen=True, slots=True)
class Live:
    """The live parts of a loop: indices of results, carries, sequences and constants."""

    results: tuple[int, ...]
    carries: tuple[int, ...]
    xs: tuple[int, ...]
    consts: tuple[int, ...]


def _all_live(op: Loop) -> Live:
    # The number of steps done is the last result, and the condition the last output of the step.
    counts = (len(op.step.outputs), op.carries, op.sequences)
    consts = len(op.step.inputs) - op.carries - op.sequences
    return Live(*(tuple(range(n)) for n in (*counts, consts)))


def is_all_live(op: Loop, live: Live) -> bool:
    """Return whether every part is live; a carry may be without its final value."""
    every = _all_live(op)
    rows = op.carries + op.stacked
    return (live.carries, live.xs, live.consts) == (every.carries, every.xs, every.consts) and {
        *live.results
    } >= {*range(op.carries, rows)}


def live_parts(op: Loop, results: Iterable[int]) -> Live:
    """Return the parts that these results need; a carry that is read needs its next value."""
    step, outputs = op.formal, op.step.outputs
    indices = tuple(sorted(results))
    nexts = dict(zip(step.carries, step.nexts, strict=True))
    ends = [outputs[i] for i in indices]  # the condition's index is that of the steps done
    ends += outputs[-1:] if op.stops else ()
    seen = reachable_nodes(ends, lambda node: (nexts[node],) if node in nexts else node.inputs)
    carries = [i for i, p in enumerate(step.carries) if p in seen or i in indices]
    xs, consts = ([i for i, p in enumerate(part) if p in seen] for part in (step.xs, step.consts))
    return Live(indices, tuple(carries), tuple(xs), tuple(consts))


def inputs_of(node: Node, live: Live) -> list[Node]:
    """Return the inputs of a loop that its live parts read."""
    op: Loop = node.op  # type: ignore[assignment]
    operands = op.parts(node.inputs)
    inputs = [x for x in (operands.steps, operands.count) if x is not None]
    inputs += [operands.init[i] for i in live.carries]
    inputs += [operands.xs[i] for i in live.xs]
    return inputs + [operands.consts[i] for i in live.consts]


def liveness(graph: Graph, *, everything: bool = False) -> dict[Node, Live]:
    """Return the live parts of each loop that the outputs need.

    Args:
        graph: Any graph.
        everything: Count all parts of a loop as live if one is.
    """
    needed = set(graph.outputs)
    results_of: dict[Node, set[int]] = {}
    lives: dict[Node, Live] = {}
    for node in reversed(graph.nodes):
        if node not in needed:
            continue
        op = node.op
        if isinstance(op, Loop):
            lives[node] = _all_live(op) if everything else live_parts(op, results_of[node])
            needed.update(inputs_of(node, lives[node]))
            continue
        if isinstance(op, Pick):
            results_of.setdefault(node.inputs[0], set()).add(op.index)
        needed.update(node.inputs)
    return lives


# The step.

Key = tuple[Node, int]
"""A loop, and the index of one of its results."""


@dataclass(slots=True)
class Body:
    """The step of a loop over its own inputs, and the nodes outside that these stand for.

    Attributes:
        op: The operation, for its static parameters.
        steps: Number of steps.
        count: Number of steps that run; None for all.
        init: The initial carries, by the inputs that stand for them.
        nexts: The carries after a step, by the same inputs.
        xs: The inputs that stand for an element, by sequence.
        consts: The inputs that stand for a constant, by the node outside.
        finals: For results that are final carries, the carry, or the constant that it equals.
        rows: For results that are stacked, the row.
        done: The results that are the number of steps done.
        stops: The stop condition of each fused loop.
    """

    op: Loop
    steps: Node | int
    count: Node | None
    init: dict[Node, Node] = field(default_factory=dict)
    nexts: dict[Node, Node] = field(default_factory=dict)
    xs: dict[Node, Node] = field(default_factory=dict)
    consts: dict[Node, Node] = field(default_factory=dict)
    finals: dict[Key, Node] = field(default_factory=dict)
    rows: dict[Key, Node] = field(default_factory=dict)
    done: list[Key] = field(default_factory=list)
    stops: dict[Node, Node] = field(default_factory=dict)
    _order: dict[Node, int] = field(default_factory=dict)
    _lengths: dict[Node, Node] = field(default_factory=dict)

    @classmethod
    def like(cls, loops: Sequence[Node], new: Mapping[Node, Node]) -> Body:
        """Start an empty step with the parameters of these loops and the first label."""
        ops: list[Any] = [loop.op for loop in loops]
        label = next((op.label for op in ops if op.label is not None), None)
        operands = ops[0].parts(loops[0].inputs)
        steps = ops[0].steps if operands.steps is None else new[operands.steps]
        if isinstance(steps, Node) and isinstance(steps.op, Constant):
            steps = int(steps.op.value)
        count = None if operands.count is None else new[operands.count]
        return cls(replace(ops[0], label=label), steps, count)

    # Adding loops.

    def add(
        self, loop: Node, live: Live, new: Mapping[Node, Node], read: Mapping[int, Key]
    ) -> None:
        """Add a loop's live parts.

        Args:
            loop: The loop.
            live: Its live parts.
            new: The replacements of the loops' inputs.
            read: The rows of loops added before that are sequences of this one, by index.
        """
        op: Any = loop.op
        operands, step = op.parts(loop.inputs), op.formal
        swaps: dict[Node, Node] = {}
        for i in live.carries:
            p = swaps[step.carries[i]] = stand_in(step.carries[i])
            self.init[p] = new[operands.init[i]]
            self._learn(p, self.init[p], 0)
        for i in live.xs:
            row = self.rows[read[i]] if i in read else self._element(new[operands.xs[i]])
            swaps[step.xs[i]] = row
        swaps |= self._constants({step.consts[i]: new[operands.consts[i]] for i in live.consts})
        c, n = op.carries, op.carries + op.stacked
        parameters = [swaps[step.carries[i]] for i in live.carries]
        rows = [i for i in live.results if c <= i < n]
        added = replace(
            step, nexts=[step.nexts[i] for i in live.carries], rows=[step.rows[i - c] for i in rows]
        ).replace_nodes(swaps)
        self.nexts |= zip(parameters, added.nexts, strict=True)
        self.finals |= {(loop, i): swaps[step.carries[i]] for i in live.results if i < c}
        self.rows |= {(loop, i): y for i, y in zip(rows, added.rows, strict=True)}
        self.done += [(loop, i) for i in live.results if i == n]
        if added.stop is not None:
            self.stops[loop] = added.stop

    def _constants(self, consts: Mapping[Node, Node]) -> dict[Node, Node]:
        for x in consts.values():
            self._order.setdefault(x, len(self._order))
        stand_ins = {p: self._within(x) for p, x in consts.items() if x.type.ndim}
        stand_ins |= {p: self._length(x) for p, x in consts.items() if p not in stand_ins}
        return stand_ins

    def _element(self, x: Node) -> Node:
        if x not in self.xs:
            self.xs[x] = stand_in(x, axes=1)
            self._learn(self.xs[x], x, 1)
        return self.xs[x]

    def const(self, x: Node) -> Node:
        """Return the step's stand-in of a node outside of it."""
        if isinstance(x.op, Constant):
            return x
        if x not in self.consts:
            self.consts[x] = stand_in(x)
            self._learn(self.consts[x], x, 0)
        return self.consts[x]

    def _within(self, x: Node) -> Node:
        """Return the stand-in, or a constant made here if all elements are one number."""
        if scalar_value(x) is None:
            return self.const(x)
        chain = [x]
        while isinstance(chain[-1].op, LOOKED_THROUGH):
            chain.append(chain[-1].inputs[0])
        result = chain.pop()
        for node in reversed(chain):
            result = node.with_inputs([result, *map(self._length, node.inputs[1:])])
        return result

    def _length(self, n: Node) -> Node:
        """Return the stand-in of a scalar, as the length of another stand-in where it is one."""
        return self._lengths[n] if n in self._lengths else self._within(n)

    def _learn(self, p: Node, x: Node, axes: int) -> None:
        """Record the lengths of the node that an input stands for, without its first axes."""
        for axis, n in enumerate(p.type.shape):
            outer = length_of(x, axis + axes) if n is None else n
            if isinstance(outer, Node):
                self._lengths.setdefault(outer, Tensor.make(Length(axis), p))

    def _outside(self) -> dict[Node, tuple[Node, int]]:
        """Return the nodes that the step's inputs stand for, and how many axes lead."""
        return {
            **{p: (x, 0) for p, x in self.init.items()},
            **{p: (x, 1) for x, p in self.xs.items()},
            **{p: (x, 0) for x, p in self.consts.items()},
        }

    # Changing.

    @property
    def ends(self) -> list[Node]:
        """Return all outputs of the step."""
        return [*self.nexts.values(), *self.rows.values(), *self.stops.values()]

    def _put(self, ends: Sequence[Node]) -> None:
        outputs = iter(ends)
        self.nexts = {p: next(outputs) for p in self.nexts}
        self.rows = {key: next(outputs) for key in self.rows}
        self.stops = {loop: next(outputs) for loop in self.stops}

    def swap(self, swaps: Mapping[Node, Node]) -> None:
        """Replace some inputs of the step by others."""
        self._put(replace_nodes(self.ends, swaps))
        self.nexts = {p: y for p, y in self.nexts.items() if p not in swaps}
        self.init = {p: x for p, x in self.init.items() if p not in swaps}
        self.finals = {key: swaps.get(p, p) for key, p in self.finals.items()}

    def rewrite(self, better: Callable[[Graph], Graph]) -> bool:
        """Replace the step by a better graph; return whether there is one."""
        ends = self.ends
        needed = set(toposort(ends))
        formals = [p for p in self._outside() if p in needed]
        step = with_formals(formals, ends)
        better_step = better(step)
        if better_step.outputs == step.outputs:
            return False
        self._put(replace_nodes(better_step.outputs, dict(zip(step.inputs, formals, strict=True))))
        return True

    def settle(self) -> None:
        """Give carries the types of their initial values, where the step keeps these."""
        wider = [p for p, x in self.init.items() if x.type is not p.type]
        while wider:
            swaps: dict[Node, Node] = {p: stand_in(self.init[p]) for p in wider}
            ends = replace_nodes(self.ends, swaps)
            new_nexts = dict(zip(self.nexts, ends, strict=False))
            stable = [p for p in wider if new_nexts[p].type is swaps[p].type]
            if stable == wider:
                self._rename_carries(ends, swaps)
                break
            wider = stable
        if any(y.type is not p.type for p, y in self.nexts.items()):
            old = [*self.init]
            step = LoopStep(old, (), [*self.nexts.values()], self.ends[len(old) :])
            init: list[Any] = [*self.init.values()]
            init, step = unify_lengths(self.op, init, step)
            self.init = dict(zip(old, init, strict=True))
            self._rename_carries(step.outputs, dict(zip(old, step.carries, strict=True)))

    def _rename_carries(self, ends: Sequence[Node], names: Mapping[Node, Node]) -> None:
        self._put(ends)
        self.init = {names.get(p, p): x for p, x in self.init.items()}
        self.nexts = {names.get(p, p): y for p, y in self.nexts.items()}
        self.finals = {key: names.get(p, p) for key, p in self.finals.items()}

    # Rebuilding.

    def to_results(self) -> dict[Key, Node]:
        """Return the results of the rebuilt loop, with invariant work done before it."""
        xs = {p: x for x, p in self.xs.items()}
        # If no row is skipped, rows that are the elements of a sequence are the sequence.
        sequences = set() if self.op.counted or self.op.stops else {*xs}
        rows = list(dict.fromkeys(row for row in self.rows.values() if row not in sequences))
        ends = [*self.nexts.values(), *rows, *[*self.stops.values()][:1]]
        ends = replace_nodes(ends, self._outer_lengths(ends))
        needed = set(toposort(ends))
        xs_read = {p: x for p, x in xs.items() if p in needed}
        formals = [*self.init, *xs_read]
        outside: dict[Node, Node] = {p: x for x, p in self.consts.items()}
        free = captured_nodes(formals, ends)
        outer = dict(zip(free, replace_nodes(free, outside), strict=True))
        # In a fixed order, or rebuilding would change the loop every time.
        free.sort(key=lambda x: self._order.get(outer[x], len(self._order)))
        step = with_formals([*formals, *free], ends)
        op = replace(
            self.op,
            step=step,
            carries=len(self.init),
            sequences=len(xs_read),
            steps=self.steps if isinstance(self.steps, int) else None,
        )
        first = [x for x in (self.steps, self.count) if isinstance(x, Node)]
        loop = Node.make(
            op, *first, *self.init.values(), *xs_read.values(), *[outer[x] for x in free]
        )
        index = {p: i for i, p in enumerate(self.init)}
        row_index = {row: i for i, row in enumerate(rows, len(index))}
        results = {
            key: Node.make(Pick(index[p]), loop) if p in index else outside.get(p, p)
            for key, p in self.finals.items()
        }
        for key, row in self.rows.items():
            results[key] = Node.make(Pick(row_index[row]), loop) if row in row_index else xs[row]
        results |= {key: Node.make(Pick(len(step.outputs) - 1), loop) for key in self.done}
        return {key: _with_known_lengths(y, key) for key, y in results.items()}

    def _outer_lengths(self, ends: Sequence[Node]) -> dict[Node, Node]:
        inner_lengths: dict[Node, Node] = {}
        outside = self._outside()
        for node in toposort(ends):
            if isinstance(node.op, Length | Shape) and node.inputs[0] in outside:
                x, axes = outside[node.inputs[0]]
                n: Any = (
                    length_of(x, node.op.axis + axes)
                    if isinstance(node.op, Length)
                    else lengths_of(x)[axes:]
                )
                inner_lengths[node] = self.const(as_tensor(n, dtype="int64"))
        return inner_lengths


def _with_known_lengths(y: Node, key: Key) -> Node:
    loop, i = key
    old_type = loop.type.items[i]
    return y if old_type.admits(y.type) else specify_shape(y, old_type.shape)
