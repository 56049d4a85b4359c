"""The step of one loop, or of several merged, taken apart, changed and rebuilt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from graphc.ir import Constant, Graph, Node, Pick, replaced, toposort
from graphc.loop.build import settled
from graphc.loop.loop import Loop
from graphc.loop.step import LoopStep, captured, stand_in, with_formals
from graphc.rewrite.facts.lengths import length_of, lengths_of
from graphc.rewrite.loops.dead import Live
from graphc.rewrite.rule import LOOKED_THROUGH, scalar_value
from graphc.tensor.core.shape import Length, Shape
from graphc.tensor.core.specify import specify_shape
from graphc.tensor.core.tensor import Tensor, as_tensor

Key = tuple[Node, int]
"""A result of a loop by its number."""


@dataclass(slots=True)
class Body:
    """The step of a loop over inputs of its own, and what these stand for outside.

    Attributes:
        op: How it runs.
        steps: How many there are.
        count: How many of them are done; None for all.
        init: The carries at first, by the inputs that stand for them.
        nexts: The carries after a step, by the same.
        xs: The inputs that stand for an element, by sequence.
        consts: The inputs that stand for a constant, by what it is outside.
        finals: For results that are carries at last, the carry, or the constant that it is.
        rows: For results that are stacked, the row.
        done: The results that are the number of steps done.
        stops: Whether to stop after a step, for each loop that it was made of.
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
        """Start an empty step that runs as these loops do, named after the oldest."""
        loops = sorted(loops, key=lambda loop: loop.serial)
        ops: list[Any] = [loop.op for loop in loops]
        label = next((op.label for op in ops if op.label is not None), None)
        given = ops[0].parts(loops[0].inputs)
        steps = ops[0].steps if given.steps is None else new[given.steps]
        if isinstance(steps, Node) and isinstance(steps.op, Constant):
            steps = int(steps.op.value)
        count = None if given.count is None else new[given.count]
        return cls(replace(ops[0], label=label), steps, count)

    # Taking apart.

    def add(
        self, loop: Node, live: Live, new: Mapping[Node, Node], read: Mapping[int, Key]
    ) -> None:
        """A loop's live parts.

        Args:
            loop: It.
            live: They.
            new: What stands for the inputs of these.
            read: For sequences that are rows of a loop that is here already, which.
        """
        op: Any = loop.op
        given, step = op.parts(loop.inputs), op.formal
        swaps: dict[Node, Node] = {}
        for i in live.carries:
            p = swaps[step.carries[i]] = stand_in(step.carries[i])
            self.init[p] = new[given.init[i]]
            self._learn(p, self.init[p], 0)
        for i in live.xs:
            row = self.rows[read[i]] if i in read else self._element(new[given.xs[i]])
            swaps[step.xs[i]] = row
        swaps |= self._constants({step.consts[i]: new[given.consts[i]] for i in live.consts})
        c, n = op.carries, op.carries + op.stacked
        parameters = [swaps[step.carries[i]] for i in live.carries]
        rows = [i for i in live.results if c <= i < n]
        made = replace(
            step,
            nexts=[step.nexts[i] for i in live.carries],
            rows=[step.rows[i - c] for i in rows],
        ).replaced(swaps)
        self.nexts |= zip(parameters, made.nexts, strict=True)
        self.finals |= {(loop, i): swaps[step.carries[i]] for i in live.results if i < c}
        self.rows |= {(loop, i): y for i, y in zip(rows, made.rows, strict=True)}
        self.done += [(loop, i) for i in live.results if i == n]
        if made.stop is not None:
            self.stops[loop] = made.stop

    def _constants(self, consts: Mapping[Node, Node]) -> dict[Node, Node]:
        """Return the step's stand-ins of constants; lengths may be those of the others."""
        for x in consts.values():
            self._order.setdefault(x, len(self._order))
        found = {p: self._within(x) for p, x in consts.items() if x.type.ndim}
        found |= {p: self._length(x) for p, x in consts.items() if p not in found}
        return found

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
        made = chain.pop()
        for node in reversed(chain):
            made = node.with_inputs([made, *map(self._length, node.inputs[1:])])
        return made

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
        made = iter(ends)
        self.nexts = {p: next(made) for p in self.nexts}
        self.rows = {key: next(made) for key in self.rows}
        self.stops = {loop: next(made) for loop in self.stops}

    def swap(self, swaps: Mapping[Node, Node]) -> None:
        """Replace some inputs of the step by others."""
        self._put(replaced(self.ends, swaps))
        self.nexts = {p: y for p, y in self.nexts.items() if p not in swaps}
        self.init = {p: x for p, x in self.init.items() if p not in swaps}
        self.finals = {key: swaps.get(p, p) for key, p in self.finals.items()}

    def rewrite(self, better: Callable[[Graph], Graph]) -> bool:
        """Replace the step by a better graph; return whether there is one."""
        ends = self.ends
        needed = set(toposort(ends))
        given = [p for p in self._outside() if p in needed]
        step = with_formals(given, ends)
        found = better(step)
        if found.outputs == step.outputs:
            return False
        self._put(replaced(found.outputs, dict(zip(step.inputs, given, strict=True))))
        return True

    def settle(self) -> None:
        """Give carries the types of their initial values, where the step keeps these."""
        wider = [p for p, x in self.init.items() if x.type is not p.type]
        while wider:
            swaps: dict[Node, Node] = {p: stand_in(self.init[p]) for p in wider}
            ends = replaced(self.ends, swaps)
            found = dict(zip(self.nexts, ends, strict=False))
            kept = [p for p in wider if found[p].type is swaps[p].type]
            if kept == wider:
                self._rename(ends, swaps)
                break
            wider = kept
        if any(y.type is not p.type for p, y in self.nexts.items()):
            old = [*self.init]
            step = LoopStep(old, (), [*self.nexts.values()], self.ends[len(old) :])
            init: list[Any] = [*self.init.values()]
            init, step = settled(self.op, init, step)
            self.init = dict(zip(old, init, strict=True))
            self._rename(step.outputs, dict(zip(old, step.carries, strict=True)))

    def _rename(self, ends: Sequence[Node], names: Mapping[Node, Node]) -> None:
        """Rebuild the step on other inputs for carries."""
        self._put(ends)
        self.init = {names.get(p, p): x for p, x in self.init.items()}
        self.nexts = {names.get(p, p): y for p, y in self.nexts.items()}
        self.finals = {key: names.get(p, p) for key, p in self.finals.items()}

    # Putting together.

    def closed(self) -> dict[Key, Node]:
        """Return the results of the rebuilt loop, with invariant work done before it."""
        xs = {p: x for x, p in self.xs.items()}
        # Without rows that are zero, those of a sequence are the sequence.
        kept = set() if self.op.counted or self.op.stops else {*xs}
        rows = list(dict.fromkeys(row for row in self.rows.values() if row not in kept))
        ends = [*self.nexts.values(), *rows, *[*self.stops.values()][:1]]
        ends = replaced(ends, self._outer_lengths(ends))
        needed = set(toposort(ends))
        xs_read = {p: x for p, x in xs.items() if p in needed}
        given = [*self.init, *xs_read]
        outside: dict[Node, Node] = {p: x for x, p in self.consts.items()}
        free = captured(given, ends)
        outer = dict(zip(free, replaced(free, outside), strict=True))
        # In the order they had, or a loop would be another one each time it is put together.
        free.sort(key=lambda x: self._order.get(outer[x], len(self._order)))
        step = with_formals([*given, *free], ends)
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
        place = {p: i for i, p in enumerate(self.init)}
        places = {row: i for i, row in enumerate(rows, len(place))}
        found = {
            key: Node.make(Pick(place[p]), loop) if p in place else outside.get(p, p)
            for key, p in self.finals.items()
        }
        for key, row in self.rows.items():
            found[key] = Node.make(Pick(places[row]), loop) if row in places else xs[row]
        found |= {key: Node.make(Pick(len(step.outputs) - 1), loop) for key in self.done}
        return {key: _as_known(y, key) for key, y in found.items()}

    def _outer_lengths(self, ends: Sequence[Node]) -> dict[Node, Node]:
        """Return the outer lengths that the step's lengths stand for."""
        found: dict[Node, Node] = {}
        outside = self._outside()
        for node in toposort(ends):
            if isinstance(node.op, Length | Shape) and node.inputs[0] in outside:
                x, axes = outside[node.inputs[0]]
                n: Any = (
                    length_of(x, node.op.axis + axes)
                    if isinstance(node.op, Length)
                    else lengths_of(x)[axes:]
                )
                found[node] = self.const(as_tensor(n, dtype="int64"))
        return found


def _as_known(y: Node, key: Key) -> Node:
    """Return a result with no fewer known lengths than before."""
    loop, i = key
    wanted = loop.type.items[i]
    return y if wanted.admits(y.type) else specify_shape(y, wanted.shape)
