"""A loop taken apart, or several as one, so that they can be changed and put together again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from graphc.ir import Constant, Graph, Node, Pick, replaced, toposort
from graphc.loop.build import settled
from graphc.loop.loop import Loop
from graphc.loop.step import captured, stand_in, with_formals
from graphc.rewrite.dead import Live
from graphc.rewrite.lengths import length_of, lengths_of
from graphc.rewrite.rule import LOOKED_THROUGH, scalar_value
from graphc.tensor.shape import Length, Shape
from graphc.tensor.specify import specify_shape
from graphc.tensor.tensor import Tensor, as_tensor

__all__ = ["Body", "Key"]

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
        """Nothing yet, but running as these loops do, by the name of the oldest."""
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
        given = op.parts(loop.inputs)
        c, x = op.carries, op.carries + op.sequences
        formal = op.step.inputs
        swaps: dict[Node, Node] = {formal[i]: stand_in(formal[i]) for i in live.carries}
        self.init |= {swaps[formal[i]]: new[given.init[i]] for i in live.carries}
        for i in live.carries:
            self._learn(swaps[formal[i]], new[given.init[i]], 0)
        for i in live.xs:
            row = self.rows[read[i]] if i in read else self._element(new[given.xs[i]])
            swaps[formal[c + i]] = row
        swaps |= self._constants({formal[x + i]: new[given.consts[i]] for i in live.consts})
        ends = range(len(op.step.outputs) - op.stops)
        kept = [i for i in ends if i in (live.carries if i < c else live.results)]
        kept += [len(ends)] if op.stops else []
        found = replaced([op.step.outputs[i] for i in kept], swaps)
        made = dict(zip(kept, found, strict=True))
        self.nexts |= {swaps[formal[i]]: made[i] for i in live.carries}
        self.finals |= {(loop, i): swaps[formal[i]] for i in live.results if i < c}
        self.rows |= {(loop, i): made[i] for i in live.results if c <= i < len(ends)}
        self.done += [(loop, i) for i in live.results if i == len(ends)]
        if op.stops:
            self.stops[loop] = made[len(ends)]

    def _constants(self, consts: Mapping[Node, Node]) -> dict[Node, Node]:
        """What stands for constants, given what they are outside; lengths may be of the others."""
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
        """What stands for something outside."""
        if isinstance(x.op, Constant):
            return x
        if x not in self.consts:
            self.consts[x] = stand_in(x)
            self._learn(self.consts[x], x, 0)
        return self.consts[x]

    def _within(self, x: Node) -> Node:
        """The same, or made here of the number that it is everywhere: rules know what to do."""
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
        """A scalar, by what it is the length of where that is taken, too."""
        return self._lengths[n] if n in self._lengths else self._within(n)

    def _learn(self, p: Node, x: Node, axes: int) -> None:
        """Note the lengths of what an input of the step stands for, but for its first axes."""
        for axis, n in enumerate(p.type.shape):
            outer = length_of(x, axis + axes) if n is None else n
            if isinstance(outer, Node):
                self._lengths.setdefault(outer, Tensor.make(Length(axis), p))

    def _outside(self) -> dict[Node, tuple[Node, int]]:
        """What the step's inputs stand for, and how many more axes that has in front."""
        return {
            **{p: (x, 0) for p, x in self.init.items()},
            **{p: (x, 1) for x, p in self.xs.items()},
            **{p: (x, 0) for x, p in self.consts.items()},
        }

    # Changing.

    @property
    def ends(self) -> list[Node]:
        """All that a step makes."""
        return [*self.nexts.values(), *self.rows.values(), *self.stops.values()]

    def _put(self, ends: Sequence[Node]) -> None:
        made = iter(ends)
        self.nexts = {p: next(made) for p in self.nexts}
        self.rows = {key: next(made) for key in self.rows}
        self.stops = {loop: next(made) for loop in self.stops}

    def swap(self, swaps: Mapping[Node, Node]) -> None:
        """Put others in the place of some inputs, which are gone then."""
        self._put(replaced(self.ends, swaps))
        self.nexts = {p: y for p, y in self.nexts.items() if p not in swaps}
        self.init = {p: x for p, x in self.init.items() if p not in swaps}
        self.finals = {key: swaps.get(p, p) for key, p in self.finals.items()}

    def rewrite(self, better: Callable[[Graph], Graph]) -> bool:
        """Let a better graph make what a step makes; whether there is one."""
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
        """Let the carries have the types that they have at first, where a step keeps these."""
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
            init: list[Any] = [*self.init.values()]
            init, new, ends = settled(self.op, init, old, self.ends)  # type: ignore[arg-type]
            self.init = dict(zip(old, init, strict=True))
            self._rename(ends, dict(zip(old, new, strict=True)))

    def _rename(self, ends: Sequence[Node], names: Mapping[Node, Node]) -> None:
        """Let a step that makes these have other inputs for carries."""
        self._put(ends)
        self.init = {names.get(p, p): x for p, x in self.init.items()}
        self.nexts = {names.get(p, p): y for p, y in self.nexts.items()}
        self.finals = {key: names.get(p, p) for key, p in self.finals.items()}

    # Putting together.

    def closed(self) -> dict[Key, Node]:
        """The results, of a loop that computes what does not change from step to step before it."""
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
        """For lengths of what the step takes, what stands for those outside."""
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
    """A result, of no fewer known lengths than it had."""
    loop, i = key
    wanted = loop.type.items[i]
    return y if wanted.admits(y.type) else specify_shape(y, wanted.shape)
