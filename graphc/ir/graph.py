"""Graphs: outputs as functions of inputs, values with a structural key, and their invariants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Self

from graphc import hooks
from graphc.errors import FrozenError, InvalidGraphError, MissingInputError
from graphc.ir.node import (
    Input,
    Leaf,
    Node,
    Parameter,
    Wiring,
    number_of,
    toposort,
    unwire,
    wire,
)
from graphc.ir.op import Op
from graphc.ir.types import TupleType, Type


class Graph:
    """Outputs as a function of inputs.

    Args:
        inputs: The arguments of the function; any nodes, whose own inputs are then ignored.
        outputs: Nodes.

    Attributes:
        nodes: Every node, each after its inputs, the graph's own inputs among them.
        leaves: Arrays that the graph refers to, in the order met, or in a program by position.

    Raises:
        MissingInputError: If the outputs depend on an input that is not among ``inputs``.

    Example:
        >>> import graphc.tensor as gt
        >>> x, y = gt.scalar("x"), gt.scalar("y")
        >>> Graph([x], [gt.exp(x) + 1]).key() == Graph([y], [gt.exp(y) + 1]).key()
        True
    """

    __slots__ = ("_keyed", "_kinds", "inputs", "leaves", "nodes", "outputs")

    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    nodes: tuple[Node, ...]
    leaves: tuple[Node, ...]
    _keyed: tuple[str, tuple[Node, ...]] | None
    _kinds: frozenset[type[Op]] | None

    def __init__(self, inputs: Iterable[Node], outputs: Iterable[Node]) -> None:
        arguments, ends = tuple(inputs), tuple(outputs)
        self._set(arguments, ends, toposort(ends, arguments))

    @classmethod
    def in_order(
        cls, inputs: Iterable[Node], outputs: Iterable[Node], needed: Sequence[Node]
    ) -> Self:
        """Return the graph, given its other nodes in topological order."""
        graph = object.__new__(cls)
        graph._set(tuple(inputs), tuple(outputs), needed)
        return graph

    def _set(
        self, inputs: tuple[Node, ...], outputs: tuple[Node, ...], needed: Sequence[Node]
    ) -> None:
        put = object.__setattr__
        put(self, "inputs", inputs)
        put(self, "outputs", outputs)
        refuse_missing([node for node in needed if isinstance(node.op, Input)], self.inputs)
        put(self, "nodes", (*dict.fromkeys(self.inputs), *needed))
        leaves = [node for node in needed if isinstance(node.op, Leaf)]
        leaves.sort(key=lambda node: node.op.position)  # type: ignore[attr-defined]
        put(self, "leaves", tuple(leaves))
        put(self, "_keyed", None)
        put(self, "_kinds", None)

    def __setattr__(self, name: str, value: Any) -> None:
        raise FrozenError(f"Graph.{name} = {value!r}: a graph never changes.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Graph):
            return NotImplemented
        return self.inputs == other.inputs and self.outputs == other.outputs

    def __hash__(self) -> int:
        return hash((self.inputs, self.outputs))

    def __len__(self) -> int:
        return len(self.nodes)

    def __repr__(self) -> str:
        types = (", ".join(x.type_text() for x in nodes) for nodes in (self.inputs, self.outputs))
        return f"Graph({') -> ('.join(types)}), {len(self.nodes)} nodes"

    def _repr_html_(self) -> str:
        return hooks.drawing(self)

    def __reduce__(self) -> tuple[Any, ...]:
        # One list for inputs and outputs, so that they share nodes after unpickling.
        wiring, indices = wire([*self.inputs, *self.outputs])
        ends = [[indices[x] for x in part] for part in (self.inputs, self.outputs)]
        return _rebuilt, (wiring, *ends)

    def key(self) -> str:
        """Return a hash of the structure, the same in every process, without names and arrays.

        Graphs of equal keys are equal, except for the arrays of leaves.
        """
        return self._in_order()[0]

    def canonical(self) -> tuple[Node, ...]:
        """Return the nodes in the key's order: graphs of equal keys correspond node by node.

        The graph's inputs come first, and no node before its inputs.

        Example:
            >>> import graphc.tensor as gt
            >>> x = gt.scalar("x")
            >>> [node.op.name for node in Graph([x], [gt.exp(gt.sin(x))]).canonical()]
            ['x', 'sin', 'exp']
        """
        return self._in_order()[1]

    def _in_order(self) -> tuple[str, tuple[Node, ...]]:
        keyed = self._keyed
        if keyed is None:
            keyed = _key_and_order(self)
            object.__setattr__(self, "_keyed", keyed)
        return keyed

    @property
    def kinds(self) -> frozenset[type[Op]]:
        """The classes of the operations, which tell passes that they have no work."""
        kinds = self._kinds
        if kinds is None:
            kinds = frozenset({type(node.op) for node in self.nodes})
            object.__setattr__(self, "_kinds", kinds)
        return kinds

    def holders(self) -> list[Node]:
        """Return the nodes whose operations may hold graphs, such as the step of a loop."""
        kinds = {kind for kind in self.kinds if kind.graphs is not Op.graphs}
        return [node for node in self.nodes if type(node.op) in kinds] if kinds else []

    def users(self) -> dict[Node, list[Node]]:
        """Return the users of each node: the nodes that have it as an input."""
        users: dict[Node, list[Node]] = {node: [] for node in self.nodes}
        inputs = set(self.inputs)
        for node in self.nodes:
            if node not in inputs:
                for x in node.inputs:
                    users[x].append(node)
        return users

    def substitute(self, replacements: Mapping[Node, Node]) -> Graph:
        """Return the graph with nodes replaced; replaced inputs are no longer inputs."""
        inputs = [x for x in self.inputs if x not in replacements]
        return Graph(inputs, replace_nodes(self.outputs, replacements))


def _rebuilt(wiring: Wiring, inputs: list[int], outputs: list[int]) -> Graph:
    nodes = unwire(wiring)
    return Graph([nodes[i] for i in inputs], [nodes[i] for i in outputs])


def _key_and_order(graph: Graph) -> tuple[str, tuple[Node, ...]]:
    """Return a hash of the nodes' tokens and wiring, and the nodes in the order of the hash.

    Commuting operands are visited in the order of their digests; operands of equal digests, such as
    leaves of one type, in the order in which they were written. The wiring is by numbers, in which
    commuting operands are sorted.
    """
    positions = {x: i for i, x in enumerate(graph.inputs)}
    of_ops, operands = _read_ops(graph, positions)
    axes = _axes_of_one_name(graph.inputs)
    lines = [f"{i} {x.type!r}{_declarations(x, axes[i])}" for x, i in positions.items()]
    wiring: list[list[int]] = []
    numbers = dict(positions)
    stack: list[Any] = [*graph.outputs][::-1]
    while stack:
        node = stack.pop()
        if node is None:
            node = stack.pop()  # its operands have numbers
        elif node not in numbers and (xs := operands[node]):
            stack += (node, None)
            stack += xs[::-1]
            continue
        if node not in numbers:
            token, _, commutes = of_ops[id(node.op)]
            lines.append(token)
            operand_numbers = [numbers[x] for x in operands[node]]
            if commutes:
                operand_numbers.sort()
            wiring.append(operand_numbers)
            numbers[node] = len(numbers)
    lines.append(f"{wiring} {[numbers[y] for y in graph.outputs]}")
    return blake2b("\n".join(lines).encode(), digest_size=20).hexdigest(), tuple(numbers)


_OpFacts = dict[int, tuple[str, int, bool]]
"""By the ids of operations: tokens, numbers of the tokens, and whether operands commute."""


def _read_ops(
    graph: Graph, inputs: Mapping[Node, int]
) -> tuple[_OpFacts, dict[Node, Sequence[Node]]]:
    """Return facts of each operation, and the operands of each node in canonical order."""
    facts: _OpFacts = {}
    operands: dict[Node, Sequence[Node]] = {}
    digests: dict[Node, int] = dict(inputs)
    for node in graph.nodes:
        if node in inputs:
            continue
        op = node.op
        xs: Sequence[Node] = node.inputs
        if id(op) not in facts:
            token = op.token()
            facts[id(op)] = token, number_of(token), op.is_commutative()
        _, number, commutes = facts[id(op)]
        if commutes:
            xs = sorted(xs, key=digests.__getitem__)
        operands[node] = xs
        # Python's hash of integers is the same in every process; that of a text is not.
        digests[node] = hash((number, *[digests[x] for x in xs]))
    return facts, operands


def _axes_of_one_name(inputs: Sequence[Node]) -> list[tuple[int | None, ...] | None]:
    """Return for each axis of inputs the number of its name, if another axis has the name too.

    A program compares these lengths, whatever their name is.
    """
    dims = [getattr(x.op, "dims", None) or () for x in inputs]
    counts = Counter(name for names in dims for name in names if name is not None)
    numbers = {name: i for i, name in enumerate(name for name, n in counts.items() if n > 1)}
    by_axis = [tuple([numbers.get(name) for name in names]) for names in dims]
    return [None if set(each) <= {None} else each for each in by_axis]


def _declarations(x: Node, axes_of_one_name: Any) -> str:
    declared = [getattr(x.op, field, None) for field in ("sharding", "buckets")]
    declared.append(axes_of_one_name)
    return f" {declared!r}" if any(x is not None for x in declared) else ""


def refuse_missing(missing: Sequence[Node], inputs: Iterable[Node]) -> None:
    """Raise if a graph depends on inputs that are not among its inputs.

    Raises:
        MissingInputError: If ``missing`` is not empty; names a different input of the same name.
    """
    if not missing:
        return
    inner = next((x for x in missing if isinstance(x.op, Parameter)), None)
    if inner is not None:
        raise MissingInputError(
            f"The outputs depend on {inner!r}, which exists only inside the step of a loop.",
            "Return it from the step, so that it is a result of the loop.",
            inner.where,
        )
    names = {x.op.given_name for x in inputs if isinstance(x.op, Input)} - {None}
    first = missing[0]
    same = next((x for x in missing if x.op.given_name in names), None)  # type: ignore[attr-defined]
    remedy = (
        "Add it to the inputs, function([x], y), or to the values, y.eval({x: value}); or replace "
        "it with givens."
    )
    if same is not None:
        remedy = f"The input called {same.op.name!r} is another variable: use one for both."
    raise MissingInputError(
        f"The outputs depend on {', '.join(map(repr, missing))}, not among the inputs.",
        remedy,
        first.where,
    )


def replace_nodes(outputs: Sequence[Node], replacements: Mapping[Node, Node]) -> list[Node]:
    """Return the outputs with nodes replaced, and all nodes that depend on them rebuilt.

    Example:
        >>> import graphc.tensor as gt
        >>> x, y = gt.scalar("x"), gt.scalar("y")
        >>> replace_nodes([gt.exp(x) + 1], {x: y})[0] is gt.exp(y) + 1
        True
    """
    done = dict(replacements)
    for node in toposort(outputs, done):
        done[node] = node.with_inputs([done[x] for x in node.inputs]) if node.inputs else node
    return [done[node] for node in outputs]


# Invariants, which every pass preserves.


def check(graph: Graph) -> None:
    """Raise if a graph breaks an invariant.

    The operation infers each node's type from the inputs; making a node again returns the same
    object; the graph's inputs are distinct; nodes come after their inputs; no output is a tuple.
    """
    if len(set(graph.inputs)) != len(graph.inputs):
        raise InvalidGraphError(f"{graph!r} has the same input twice.")
    inputs = set(graph.inputs)
    seen: set[Node] = set()
    for node in graph.nodes:
        if node not in inputs:
            _check_node(node, seen)
        seen.add(node)
    for node in graph.outputs:
        if node not in seen:
            raise InvalidGraphError(f"{node!r} is an output but not in the order.")
        if isinstance(node.type, TupleType):
            raise InvalidGraphError(f"{node!r} is a tuple of values; pick one.", "", node.where)


def _check_node(node: Node, seen: set[Node]) -> None:
    for x in node.inputs:
        if x not in seen:
            raise InvalidGraphError(f"{node!r} stands before its input {x!r}.", "", node.where)
    inferred: Type = node.op.infer(*[x.type for x in node.inputs])
    if inferred is not node.type:
        raise InvalidGraphError(
            f"{node!r} has the type {node.type!r}, but its operation infers {inferred!r}.",
            "",
            node.where,
        )
    if Node.make(node.op, *node.inputs) is not node:
        raise InvalidGraphError(f"{node!r} is not the only node of its kind.", "", node.where)


def check_same_interface(before: Graph, after: Graph) -> None:
    """Raise if a rewritten graph has other inputs, or outputs of other types.

    A length may become static; dtypes, ranks and static lengths may not change.
    """
    if before.inputs != after.inputs:
        raise InvalidGraphError(f"The inputs changed: {before!r} became {after!r}.")
    for i, (old, new) in enumerate(zip(before.outputs, after.outputs, strict=True)):
        if not old.type.admits(new.type):
            raise InvalidGraphError(
                f"Output {i} was {old.type!r} and became {new.type!r}.", "", old.where
            )
