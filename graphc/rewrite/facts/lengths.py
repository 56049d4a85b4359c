"""The length of an array in terms of the inputs it is made of, so that it is never computed."""

from __future__ import annotations

import builtins
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce, singledispatch
from math import prod
from typing import Any

from graphc.ir import (
    TINY,
    Constant,
    Node,
    Op,
    Pick,
    TensorType,
    TupleType,
    Type,
    is_integer,
    replaced,
    toposort,
)
from graphc.loop.branch import Switch
from graphc.loop.loop import Loop
from graphc.loop.subgraph import Subgraph
from graphc.rewrite.facts.memo import Memo, memoized
from graphc.rewrite.facts.slices import canonical
from graphc.tensor.arrays.broadcast import BroadcastTo, broadcast_to
from graphc.tensor.arrays.create import Arange, Eye
from graphc.tensor.arrays.diagonal import Diagonal, FromDiagonal
from graphc.tensor.arrays.index import Entry, Hole, Index, IndexUpdate, Nonzero, Range
from graphc.tensor.arrays.join import Concatenate
from graphc.tensor.arrays.reduce import sum
from graphc.tensor.arrays.repeat import RepeatIndices
from graphc.tensor.arrays.split import Split
from graphc.tensor.core.elementwise import add, cast, equal, maximum, minimum, multiply, where
from graphc.tensor.core.shape import Length, Reshape
from graphc.tensor.core.specify import SpecifyShape, specify_shape
from graphc.tensor.core.tensor import Tensor, as_tensor, constant
from graphc.tensor.fft import HermitianFourier, RealFourier
from graphc.tensor.linalg.lu import LU
from graphc.tensor.linalg.qr import Orthogonal, PivotedQR, Reflectors
from graphc.tensor.linalg.svd import SVD, Svdvals
from graphc.tensor.signal.convolve import Convolution
from graphc.tensor.signal.pad import Pad

Known = int | Node
"""A length: a number, or an int64 scalar."""

Place = tuple[Node, int]
"""An array and one of its axes."""

_found = Memo[dict[int, Known]]()


def length_of(x: Node, axis: int) -> Known:
    """One length of an array, taken from as far towards the inputs as it can be."""
    own: dict[Place, Node] = {}
    stack = [(x, axis)]
    while stack:
        place = stack[-1]
        if _is_found(place, own):
            stack.pop()
            continue
        waiting = [p for p in _sources(*place) if not _is_found(p, own)]
        if not waiting:
            _find(place, own)
        stack += waiting
    known = _noted(x, axis)
    return own[x, axis] if known is None else known


def _is_found(place: Place, own: dict[Place, Node]) -> bool:
    return place in own or _noted(*place) is not None


def _find(place: Place, own: dict[Place, Node]) -> None:
    """Find a length after those it is made of, and note it."""
    node, axis = place
    kept = _kept(node, axis)
    if kept is None:
        known = length_step(node.op, node, axis)
    else:
        known = own[kept] if kept in own else _noted(*kept)
    if known is None:
        # Not kept: what holds an array would keep it from being freed.
        own[place] = _own_length(node, axis)
    else:
        found = _found.get(node)
        if found is None:
            found = _found[node] = {}
        found[axis] = known


def _sources(node: Node, axis: int) -> list[Place]:
    """The lengths that a length is made of."""
    kept = _kept(node, axis)
    if kept is not None:
        return [kept]
    if isinstance(node.op, Pick) and isinstance(node.inputs[0].op, HOLDERS):
        return [p for part in _inner(node, axis) for p in part.places().values()]
    axes: Iterable[int] = ()
    ndim = node.inputs[0].type.ndim if isinstance(node.op, Diagonal | Reshape) else 0
    match node.op:
        case Concatenate() | Convolution():
            return [(x, axis - node.type.ndim + x.type.ndim) for x in node.inputs]
        case Pad() | RealFourier():
            axes = (axis,)
        case Diagonal():
            axes = (ndim - 2, ndim - 1)
        case Reshape():
            axes = range(ndim)
        case Index(entries):
            at = _slice_at(node.op, node, axis)
            axes = () if at is None else (at - entries[:at].count(None),)
    return [(node.inputs[0], at) for at in axes]


def _noted(x: Node, axis: int) -> Known | None:
    known: int | None = x.type.shape[axis]
    if known is not None:
        return known
    found = _found.get(x)
    return None if found is None else found.get(axis)


def _own_length(x: Node, axis: int) -> Node:
    return Tensor.make(Length(axis), x)


def lengths_of(x: Node) -> list[Known]:
    """All lengths of an array, taken from as far towards the inputs as they can be."""
    return [length_of(x, axis) for axis in range(x.type.ndim)]


def symbolic_length(shape: tuple[int | None, ...], symbolic: tuple[Node, ...], axis: int) -> Known:
    """An entry of a shape in which None stands for the next of the symbolic lengths."""
    known = shape[axis]
    return symbolic[shape[:axis].count(None)] if known is None else known


def equal_lengths(a: Node, m: int, b: Node, n: int) -> bool:
    """Whether two lengths are equal whatever the inputs are."""
    left, right = length_of(a, m % a.type.ndim), length_of(b, n % b.type.ndim)
    return left is right or (isinstance(left, int) and left == right)


def stated_lengths(x: Node, axis: int) -> list[Known]:
    """The lengths that an array is compared with on an axis, where it is computed, and its own."""
    found = [length_of(x, axis)]
    if isinstance(x.op, BroadcastTo | SpecifyShape) and x.op.shape[axis] != -1:
        found.append(symbolic_length(x.op.shape, x.inputs[1:], axis))
    return found


def with_lengths(x: Node, wanted: Mapping[int, Known]) -> Tensor:
    """The array, whose lengths are compared with these at run time where they may be others.

    A rule that uses the elements of an array takes it from here where it leaves out what would
    have compared its lengths.
    """
    ndim = x.type.ndim
    left = {axis % ndim: n for axis, n in wanted.items()}
    left = {axis: n for axis, n in left.items() if n not in stated_lengths(x, axis)}
    if not left:
        return x  # type: ignore[return-value]
    return specify_shape(x, [left.get(axis) for axis in range(ndim)])


def checked_inputs(node: Node) -> list[Tensor]:
    """A node's inputs, of which it compares lengths, to be used without it: still compared."""
    xs: list[Any] = [*node.inputs]
    for a, m, b, n in node.op.checks(*[x.type for x in xs]):
        if xs[a].type.shape[m] is None:
            a, m, b, n = b, n, a, m
        xs[b] = with_lengths(xs[b], {n: length_of(xs[a], m % xs[a].type.ndim)})
    return xs


def is_elsewhere(n: Known, xs: Sequence[Node]) -> bool:
    """Whether a length is one of an array that these do not read, and that array may have any.

    Of such an array nothing is used any more where these alone are left, so it need not fit them.

    Example:
        >>> import graphc.tensor as gt
        >>> x, y = gt.vector("x"), gt.vector("y")
        >>> is_elsewhere(length_of(y[1:], 0), [gt.exp(x)]), is_elsewhere(length_of(y, 0), [x * y])
        (True, False)
        >>> is_elsewhere(length_of(y[:3], 0), [x])  # which is at most 3
        False
    """
    if not isinstance(n, Node) or not isinstance(n.op, Length):
        return False
    (y,) = n.inputs
    while isinstance(y.op, Index) and all(map(_is_open, y.op.entries)):
        y = y.inputs[0]
    if y.inputs or None not in y.type.shape:
        return False
    return all(x is not y and _reads_others(x, y) for x in xs)


def _is_open(entry: Entry) -> bool:
    """Whether a slice is as long as one wants, of an array that is long enough."""
    match entry:
        case Range(start, stop, None):
            from_start = not isinstance(start, int) or start >= 0
            return from_start and (not isinstance(stop, int) or stop < 0)
        case Range(None, None, _):
            return True
    return False


MOST_READ = 16
"""Of more arrays that a node is made of, it is not noted which they are."""

_read = Memo[frozenset[Node] | None]()


def _reads_others(x: Node, y: Node) -> bool:
    """Whether an array is known to be made without another one from outside."""
    read = memoized(x, _read, lambda node: node.inputs, _arrays_read)
    return read is not None and y not in read


def _arrays_read(node: Node) -> frozenset[Node] | None:
    """The arrays from outside that a node is made of, itself not among them; None if many."""
    found: set[Node] = set()
    for x in node.inputs:
        own = _read[x]
        if own is None or len(found) > MOST_READ:
            return None
        found |= own if x.inputs or isinstance(x.op, Constant) else {x}
    return frozenset(found)


HOLDERS = (Loop, Switch, Subgraph)
"""Operations whose results are made by graphs that they hold."""


# Lengths that an operation keeps: its type rule says which.

MARKS = (2**60 + 451, 2**59 + 1009)
"""Lengths to try: too large to be anyone's own, and far apart."""


def _kept(node: Node, axis: int) -> Place | None:
    """The input's axis that has this one's length, where the type rule gives any length on."""
    if isinstance(node.op, IndexUpdate):
        return node.inputs[0], axis  # as the rule says, but for each index anew
    source, item = node, 0
    if isinstance(node.op, Pick):
        (source,) = node.inputs
        item = node.op.index
    if isinstance(source.op, HOLDERS):
        return None  # their graphs say more than their type rules
    types = tuple([x.type for x in source.inputs])
    place = _kept_places(source.op, types).get((item, axis))
    return None if place is None else (source.inputs[place[0]], place[1])


@lru_cache(maxsize=4096)
def _kept_places(op: Op, types: tuple[Type, ...]) -> dict[tuple[int, int], tuple[int, int]]:
    """For results and their axes, an input and axis of the same length.

    A length that no array has is put in an input's type; where it comes out again, whichever it
    was, the result has the length of that axis. Of several inputs, that with the most axes is
    asked first, so that the lengths of a result are those of one array where they can be.
    """
    found: dict[tuple[int, int], tuple[int, int]] = {}
    arrays = [(i, x) for i, x in enumerate(types) if isinstance(x, TensorType)]
    for i, x in sorted(arrays, key=lambda pair: -pair[1].ndim):
        for at in [at for at, n in enumerate(x.shape) if n is None]:
            first, second = (_places_of(mark, op, types, i, at) for mark in MARKS)
            for place in first & second:
                found.setdefault(place, (i, at))
    return found


def _places_of(mark: int, op: Op, types: Sequence[Any], i: int, at: int) -> set[tuple[int, int]]:
    """The results and axes that have this length where axis ``at`` of input i has it."""
    shape = types[i].shape
    marked = types[i].with_shape((*shape[:at], mark, *shape[at + 1 :]))
    try:
        y = op.infer(*types[:i], marked, *types[i + 1 :])
    except Exception:
        return set()  # the operation takes no such length
    items = y.items if isinstance(y, TupleType) else (y,)
    return {
        (item, axis)
        for item, result in enumerate(items)
        for axis, n in enumerate(getattr(result, "shape", ()))
        if n == mark
    }


# Lengths that an operation makes.


@singledispatch
def length_step(op: Any, node: Node, axis: int) -> Known | None:
    """A length of a node in terms of what it is made of, or None."""
    return None


@length_step.register
def _of_broadcast_to(op: BroadcastTo, node: Node, axis: int) -> Known | None:
    return symbolic_length(op.shape, node.inputs[1:], axis)


@length_step.register
def _of_eye(op: Eye, node: Node, axis: int) -> Known | None:
    return symbolic_length(op.shape, node.inputs, axis)


@length_step.register
def _of_reshape(op: Reshape, node: Node, axis: int) -> Known | None:
    """An entry of the shape, or for -1 the number of elements over those of the other axes."""
    asked = [symbolic_length(op.shape, node.inputs[1:], at) for at in range(len(op.shape))]
    own = asked.pop(axis)
    if isinstance(own, int) and own >= 0:
        return own
    if isinstance(own, Node) and (-1 in op.shape or is_count(own)):
        return own
    elements = lengths_of(node.inputs[0])
    for n in tuple(asked):
        if n in elements:
            elements.remove(n)
            asked.remove(n)
    rest: Known = product(elements)
    if asked:
        rest = as_tensor(rest, dtype="int64") // product(asked)
    return rest if isinstance(own, int) else where(equal(own, -1), rest, own)


def product(lengths: Sequence[Any]) -> Any:
    """The product of lengths."""
    symbolic = [n for n in lengths if isinstance(n, Node)]
    known = prod(n for n in lengths if isinstance(n, int))
    return reduce(multiply, symbolic, *([] if symbolic and known == 1 else [known]))


def is_count(n: Known, depth: int = 2) -> bool:
    """Whether it is made of lengths alone, and so is not negative."""
    if isinstance(n, int):
        return n >= 0
    if isinstance(n.op, Length):
        return True
    if isinstance(n.op, Constant):
        return bool(n.op.value >= 0)
    made = n.op is multiply or n.op is add
    return made and depth > 0 and all(is_count(x, depth - 1) for x in n.inputs)


@length_step.register
def _of_concatenate(op: Concatenate, node: Node, axis: int) -> Known | None:
    return total([length_of(x, axis) for x in node.inputs])


def total(lengths: Sequence[Known]) -> Known:
    """The sum of lengths."""
    symbolic: list[Any] = [n for n in lengths if isinstance(n, Node)]
    number = builtins.sum(n for n in lengths if isinstance(n, int))
    # Numbers are added up last: they are known here, and 0 leaves no trace.
    return reduce(add, [*symbolic, number] if number or not symbolic else symbolic)  # type: ignore[no-any-return]


@length_step.register
def _of_pad(op: Pad, node: Node, axis: int) -> Known | None:
    x, _, *symbolic = node.inputs
    sides = [symbolic_length(op.widths, tuple(symbolic), 2 * axis + i) for i in (0, 1)]
    parts = [length_of(x, axis), *sides]
    return reduce(add, [n for n in parts if n != 0] or [0])


@length_step.register
def _of_real_fourier(op: RealFourier, node: Node, axis: int) -> Known | None:
    n: Any = length_of(node.inputs[0], axis)
    return n // 2 + 1  # type: ignore[no-any-return]


@length_step.register
def _of_hermitian_fourier(op: HermitianFourier, node: Node, axis: int) -> Known | None:
    return node.inputs[1]


@length_step.register
def _of_convolution(op: Convolution, node: Node, axis: int) -> Known | None:
    n, k = (length_of(x, axis - node.type.ndim + x.type.ndim) for x in node.inputs)
    return op.result(n, k)  # type: ignore[no-any-return]


@length_step.register
def _of_diagonal(op: Diagonal, node: Node, axis: int) -> Known | None:
    (x,) = node.inputs
    rows: Any = length_of(x, x.type.ndim - 2)
    columns: Any = length_of(x, x.type.ndim - 1)
    if rows is columns and not op.offset:
        return rows  # type: ignore[no-any-return]
    return maximum(minimum(rows + min(op.offset, 0), columns - max(op.offset, 0)), 0)


@length_step.register
def _of_from_diagonal(op: FromDiagonal, node: Node, axis: int) -> Known | None:
    return symbolic_length(op.shape, node.inputs[1:], axis - (node.type.ndim - 2))


@length_step.register
def _of_arange(op: Arange, node: Node, axis: int) -> Known | None:
    """Of integers, the distance over the step, rounded up."""
    if not is_integer(op.dtype):
        return None
    start, stop, step = node.inputs
    if isinstance(stop.op, Length) and is_number(start, 0) and is_number(step, 1):
        return stop
    first, last, by = (cast(n, "int64") for n in node.inputs)
    return maximum(-((first - last) // by), 0)


def is_number(x: Node, value: int) -> bool:
    """Whether a scalar is this constant."""
    return isinstance(x.op, Constant) and bool(x.op.value == value)


@length_step.register
def _of_pick(op: Pick, node: Node, axis: int) -> Known | None:
    (several,) = node.inputs
    match several.op:
        case Nonzero():
            return sum(cast(bare_mask(several.inputs[0]), "bool"))
        case Split(along, sizes) if axis == along:
            return symbolic_length(sizes, several.inputs[1:], op.index)
        case SVD() | Orthogonal() | PivotedQR() | Reflectors() | LU():
            return _shorter(several)
        case Loop() | Switch() | Subgraph():
            return _of_graphs(node, axis)
    return None


@length_step.register
def _of_svdvals(op: Svdvals, node: Node, axis: int) -> Known | None:
    return _shorter(node)


def _shorter(node: Node) -> Known | None:
    """How many rows or columns a matrix has, whichever are fewer."""
    (x,) = node.inputs
    m: Any = length_of(x, x.type.ndim - 2)
    n: Any = length_of(x, x.type.ndim - 1)
    return m if m is n else minimum(m, n)


# Lengths of what graphs make that an operation holds, in terms of what it takes.


@dataclass(frozen=True, slots=True)
class _InnerLength:
    """A length of a result of such a graph.

    Attributes:
        n: It, made of the graph's inputs.
        outer: What these inputs stand for, and how many more axes that has in front.
        same: Those of them that are what they stand for, at all times.
    """

    n: Known
    outer: Mapping[Node, Place]
    same: Collection[Node]

    def places(self) -> dict[Node, Place]:
        """For lengths of inputs in it, what outside has that length."""
        found = {}
        for node in toposort([self.n] if isinstance(self.n, Node) else []):
            if isinstance(node.op, Length) and node.inputs[0] in self.outer:
                x, axes = self.outer[node.inputs[0]]
                found[node] = x, node.op.axis + axes
        return found

    def outside(self) -> Known | None:
        """The length in terms of what is outside, or None where it differs from time to time."""
        if not isinstance(self.n, Node):
            return self.n
        swaps: dict[Node, Node] = {
            node: as_tensor(length_of(*place), dtype="int64")
            for node, place in self.places().items()
        }
        swaps |= {x: self.outer[x][0] for x in self.same}
        if any(x in self.outer for x in toposort([self.n], swaps)):
            return None
        return replaced([self.n], swaps)[0]


def _inner(node: Node, axis: int) -> list[_InnerLength]:
    """A length of a result, from each graph that may make it."""
    (several,) = node.inputs
    op: Any = several.op
    i: int = node.op.index  # type: ignore[attr-defined]
    if isinstance(op, Switch | Subgraph):
        found, first = [], int(isinstance(op, Switch))
        for branch in op.graphs():
            given = dict(zip(branch.inputs, several.inputs[first:], strict=True))
            outer = {x: (y, 0) for x, y in given.items()}
            found.append(_InnerLength(length_of(branch.outputs[i], axis), outer, given))
        return found
    step, given = op.formal, op.parts(several.inputs)
    if i < op.carries:  # no step changes a carry's length
        p = step.carries[i]
        return [_InnerLength(_own_length(p, axis), {p: (given.init[i], 0)}, ())]
    if not axis:
        return []
    row = step.rows[i - op.carries]
    return [_InnerLength(length_of(row, axis - 1), step.outer(given), step.consts)]


def _of_graphs(node: Node, axis: int) -> Known | None:
    """That of all branches, where it is the same; of a loop's rows there are as many as steps."""
    (several,) = node.inputs
    parts = _inner(node, axis)
    if not parts:
        op: Any = several.op
        return cast(op.parts(several.inputs).steps, "int64")
    # What depends on the branch chosen is left to backends, which know shapes better than values.
    found, *others = [part.outside() for part in parts]
    return found if all(n == found for n in others) else None


def bare_mask(mask: Node) -> Node:
    """A mask before it was made as long as the array: it must be, or the program fails."""
    x = mask.inputs[0] if isinstance(mask.op, BroadcastTo) else mask
    alike = x.type.ndim == mask.type.ndim and 1 not in (*x.type.shape, *mask.type.shape)
    return x if alike else mask


@length_step.register
def _of_repeated(op: RepeatIndices, node: Node, axis: int) -> Known | None:
    return sum(node.inputs[0], dtype="int64")


@length_step.register
def _of_index(op: Index, node: Node, axis: int) -> Known | None:
    """That of the same slice of the array which the indexed axis has its length from."""
    x, *symbolic = node.inputs
    at = _slice_at(op, node, axis)
    if at is None:
        return None
    place = at - op.entries[:at].count(None)
    entry: Any = canonical(op.entries[at], x.type.shape[place])  # type: ignore[arg-type]
    entry = _from_start(entry)
    first = len(list(holes(op.entries[:at])))
    bounds = symbolic[first : first + len(list(holes([entry])))]
    source, own = _measured(length_of(x, place))
    entries = tuple(entry if i == own else Range() for i in range(source.type.ndim))
    made = Tensor.make(Index(entries), source, *bounds)
    return None if made is node else _own_length(made, own)


def _from_start(entry: Range) -> Range:
    """The slice without the first elements that has the length of one without the last ones."""
    match entry:
        case Range(None, int(stop), None) if stop < 0:
            return Range(-stop)
        case Range(int(start), int(stop), None) if stop < 0 <= start:
            return Range(start - stop)
    return entry


def _slice_at(op: Index, node: Node, axis: int) -> int | None:
    """The place of the slice among the entries that an axis of the result comes from."""
    kept: list[int | None] = [
        i for i, e in enumerate(op.entries) if e is None or isinstance(e, Range)
    ]
    arrays = op.arrays([x.type.ndim for x in node.inputs[1:]])
    if arrays:
        place = op.place()
        kept[place:place] = [None] * max(arrays)
    at = kept[axis]
    return at if at is not None and op.entries[at] is not None else None


def holes(entries: Iterable[Entry]) -> Iterator[Hole]:
    """Yield the holes in the entries of an index, in order."""
    for entry in entries:
        parts = entry.parts if isinstance(entry, Range) else (entry,)
        yield from (part for part in parts if isinstance(part, Hole))


def _measured(n: Known) -> Place:
    """An array of that length on an axis; none is made for it."""
    if isinstance(n, Node) and isinstance(n.op, Length):
        return n.inputs[0], n.op.axis
    zeros = broadcast_to(constant(0), (n,))
    # Small arrays of constants are constants, once rewritten.
    folded = isinstance(n, int) and n < TINY
    return (Tensor.make(Constant.of(zeros.op.perform(0))) if folded else zeros), 0


def admitted(made: Node, node: Node) -> Node | None:
    """Return a replacement of a node if its type allows it, or None."""
    return made if node.type.admits(made.type) else None


def fitted(y: Node, node: Node) -> Node | None:
    """A value in the shape of the node it is to replace, broadcast where it lost axes.

    Its own lengths are compared with the node's at run time where they may be others. None where
    it can't be: it has another dtype, or lengths that the node is known not to have.
    """
    if y.type is node.type:
        return y
    if y.type.dtype != node.type.dtype or y.type.ndim > node.type.ndim:
        return None
    lengths = lengths_of(node)
    new = len(lengths) - y.type.ndim
    for axis, n in enumerate(y.type.shape):
        wanted = lengths[new + axis]
        if n not in {None, 1} and isinstance(wanted, int) and n != wanted:
            return None
    made = broadcast_to(y, lengths)
    return admitted(made, node)
