"""Nodes: one operation applied to inputs. They are frozen, and equal nodes are one object."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from itertools import count
from operator import is_
from typing import Any, Self
from weakref import WeakKeyDictionary, ref

import numpy as np

from graphc import hooks
from graphc.errors import FrozenError, GraphcError, InvalidGraphError
from graphc.ir.dtypes import dtype_name, numpy_dtype
from graphc.ir.line import ATOM, NEGATIVE, Code, Writer
from graphc.ir.op import Op, distinct, encode, follows_from_types, inferred_type
from graphc.ir.types import Buckets, Dims, Sharding, TensorType, TupleType, Type, shape_text
from graphc.site import Site, derived_from, here, where

LINE = 100
"""The approximate number of characters of a node's expression in messages."""

OPERAND = 40
"""The approximate number of characters of each operand in an error."""

TINY = 10
"""Arrays of fewer elements are compared by value; larger ones by identity, as leaves."""

_DIGEST = 2**60 - 1  # Python hashes integers of up to 60 bits fastest

_serials = count()
_lock = threading.RLock()


class _Entry(ref["Node"]):
    """A weak reference to a node, with its key in the table of nodes."""

    __slots__ = ("key",)
    key: tuple[Any, ...]


_table: dict[tuple[Any, ...], _Entry] = {}


def _forget(entry: _Entry) -> None:
    with _lock:
        if _table.get(entry.key) is entry:
            del _table[entry.key]


class Node:
    """An operation applied to inputs, made by ``Node.make`` and never by calling the class.

    Nodes are immutable, except for the name, which does not affect the value.

    Attributes:
        op: The operation, with its static parameters.
        inputs: The operands.
        type: The type of the value.
        height: 0 for a constant, 1 for an input or array, else one more than the highest operand.
        serial: Number of nodes that this process made before. No result, key, name or file depends
            on it.
        site: The user's line that first made the node.
    """

    __slots__ = (
        *("__weakref__", "_alias", "_behind", "_digest", "_facts", "_reads"),
        *("height", "inputs", "op", "serial", "site", "type"),
    )

    op: Op
    inputs: tuple[Node, ...]
    type: Any
    height: int
    serial: int
    site: Site | None
    _digest: int | None

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        raise FrozenError(f"{cls.__name__}(...) makes no node.", "Use Tensor.make(op, *inputs).")

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "name":
            object.__setattr__(self, name, value)
            return
        raise FrozenError(
            f"Setting .{name} of {self!r}: a graph never changes.",
            "Build a new node, or replace parts with graphc.clone_replace.",
        )

    def __delattr__(self, name: str) -> None:
        raise FrozenError(f"Deleting .{name} of {self!r}: a graph never changes.")

    @classmethod
    def make(cls, op: Op, *inputs: Node) -> Self:
        """Return the node of an operation on inputs; equal arguments give the same object."""
        try:
            key = (distinct(op), *inputs)
            entry = _table.get(key)
        except TypeError as error:
            raise _unmakeable(op, inputs) from error
        if entry is not None:
            existing = entry()
            if existing is not None:
                return existing  # type: ignore[return-value]
        try:
            types = [node.type for node in inputs]
        except AttributeError as error:
            raise _unmakeable(op, inputs) from error
        try:
            type = inferred_type(op, tuple(types)) if follows_from_types(op) else op.infer(*types)
        except GraphcError as error:
            raise _name_operands(error, op, inputs) from error.__cause__
        return _intern(key, op, inputs, type, here())  # type: ignore[return-value]

    @classmethod
    def input(
        cls,
        type: Type,
        name: str | None = None,
        sharding: Any = None,
        buckets: Buckets | None = None,
        dims: Dims | None = None,
    ) -> Self:
        """Return a new input, distinct from every other one."""
        if sharding is not None:
            from graphc.ir.sharding import value_sharding  # noqa: PLC0415 (few programs have one)

            sharding = value_sharding(sharding, type.shape, name or "an input")  # type: ignore[attr-defined]
        return cls.make(Input(type, name, sharding, buckets=buckets, dims=dims))

    @classmethod
    def apply(cls, op: Op, *inputs: Any) -> Any:
        """Return an operation applied to inputs, which a class of arrays converts."""
        return cls.make(op, *inputs)

    def with_inputs(self, inputs: Sequence[Node]) -> Node:
        """Return the same operation on other inputs, with the same user's line."""
        op, inputs_before, site = self.op, self.inputs, self.site
        arranged = op.arranged(inputs)
        # Symbolic arrays overload ==.
        if all(map(is_, arranged, inputs_before)) and len(arranged) == len(inputs_before):
            return self
        if site is not None and _have_types(arranged, inputs_before) and follows_from_types(op):
            return _intern((distinct(op), *arranged), op, arranged, self.type, site)
        with derived_from(site):
            return Node.make(op, *arranged)

    @property
    def name(self) -> str | None:
        """The name in messages and printed graphs, which may be set; None by default.

        Equal expressions are one object, and share the name that was set last.
        """
        return self.alias or self._own_name()

    @name.setter
    def name(self, name: str | None) -> None:
        _check_name(name)
        op = self.op
        # Other leaves and inputs are compared by name or position, and may stand in many graphs.
        if type(op) is Leaf or (isinstance(op, Input) and type(op).__eq__ is object.__eq__):
            op.given_name = name
        else:
            set_alias(self, name)

    @property
    def alias(self) -> str | None:
        """The user's name of a computed node or a constant."""
        try:
            return read_alias(self)  # type: ignore[no-any-return]
        except AttributeError:  # never set, which saves the time in every other node
            return None

    def _own_name(self) -> str | None:
        return self.op.given_name if isinstance(self.op, Input | Leaf) else None

    @property
    def owner(self) -> Owner | None:
        """The operation of the node, with all inputs and outputs.

        None for inputs, shared variables and constants.

        Example:
            >>> import graphc.tensor as gt
            >>> x = gt.vector("x")
            >>> gt.exp(x).owner
            exp(x: float64[?]) -> (exp(x): float64[x.0])
        """
        return owner(self)

    @property
    def where(self) -> str | None:
        """The user's ``file:line`` that first made the node."""
        return where(self.site)

    def type_text(self) -> str:
        """Return the type's text in messages, with named lengths: ``float64[2*n, x.0]``."""
        if isinstance(self.op, Input):
            return self.op.expected
        if isinstance(self.type, TensorType) and not self.type.is_static:
            return hooks.named_type(self)
        return repr(self.type)

    def __repr__(self) -> str:
        return _shown(self, LINE)

    def _repr_html_(self) -> str:
        return hooks.drawing(self)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # Flat, because nested pickling would overflow the stack on a long chain.
        return _last, (wire([self])[0],)


def _unmakeable(op: Op, inputs: Sequence[Any]) -> InvalidGraphError:
    """Return the error of an operand that is no node, or of an operation without a hash."""
    for x in inputs:
        if not isinstance(x, Node):
            return InvalidGraphError(
                f"{op.name} takes symbolic arrays, not {x!r}.", "Write gt.as_tensor(x) for it."
            )
    return InvalidGraphError(
        f"{type(op).__qualname__} has no hash, so its graphs cannot be compared.",
        "Decorate it with @dataclass(frozen=True, slots=True), and make its fields tuples, not "
        "lists; an array is an input.",
    )


def _name_operands(error: GraphcError, op: Op, inputs: Sequence[Node]) -> GraphcError:
    types = [repr(x.type) for x in inputs]
    shown = [_shown(x, OPERAND) for x in inputs]
    plain, named = (f"{op.name}({', '.join(each)})" for each in (types, shown))
    problem = error.problem.replace(plain, named, 1)
    if problem == error.problem and all(problem.count(x) == 1 for x in types):
        for type_text, operand in zip(types, shown, strict=True):
            problem = problem.replace(type_text, operand)
    if problem == error.problem:
        return error
    return type(error)(problem, error.remedy, error.where)


def _shown(node: Node, limit: int) -> str:
    return f"{Writer(limit, named=True)(node)}: {node.type_text()}"


def _check_name(name: Any) -> None:
    if name is not None and not isinstance(name, str):
        raise InvalidGraphError(f"An array's name is a string, not {name!r}.")


def _have_types(nodes: Sequence[Node], others: Sequence[Node]) -> bool:
    for x, y in zip(nodes, others, strict=False):
        if x.type is not y.type:
            return False
    return len(nodes) == len(others)


def _intern(
    key: tuple[Any, ...], op: Op, inputs: tuple[Node, ...], result_type: Type, site: Site | None
) -> Node:
    """Return the node of a key in the table of nodes, and make it if there is none."""
    with _lock:
        entry = _table.get(key)
        node = entry() if entry is not None else None
        if node is None:
            node = _create(op, inputs, result_type, site)
            entry = _Entry(node, _forget)
            entry.key = key
            _table[key] = entry
    return node


def _create(op: Op, inputs: tuple[Node, ...], result_type: Type, site: Site | None) -> Node:
    node: Node = _blank(op.node_class or result_type.node_class or Node)
    set_op(node, op)
    set_inputs(node, inputs)
    set_type(node, result_type)
    set_serial(node, next(_serials))
    set_site(node, site)
    set_facts(node, None)
    set_height(
        node, max([x.height for x in inputs]) + 1 if inputs else int(type(op) is not Constant)
    )
    set_digest(node, None)
    return node


_blank = object.__new__

# The slots' own setters: the only way past Node.__setattr__, and the fastest.
set_op = Node.__dict__["op"].__set__
set_inputs = Node.__dict__["inputs"].__set__
set_type = Node.__dict__["type"].__set__
set_serial = Node.__dict__["serial"].__set__
set_site = Node.__dict__["site"].__set__
# Cached results of analyses (rewrite/facts/memo.py).
set_facts = Node.__dict__["_facts"].__set__
set_height = Node.__dict__["height"].__set__
set_digest = Node.__dict__["_digest"].__set__
set_alias = Node.__dict__["_alias"].__set__
read_alias = Node.__dict__["_alias"].__get__


def precedes(a: Node, b: Node) -> bool:
    """Return whether a comes before b if their order is free; every process agrees.

    Constants come first, then inputs and arrays, then computed nodes by height, and nodes of one
    height in the order of hashes of their operations and operands. Inputs of one type are not
    ordered, nor arrays of one type, nor nodes that differ only in them: they stay in the order in
    which they were written. Inputs and arrays of a program differ by their positions.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.scalar("x")
        >>> precedes(gt.constant(7.0), x), precedes(gt.exp(x), x)
        (True, False)
    """
    if a.height != b.height:
        return a.height < b.height
    return a is not b and _digest_of(a) < _digest_of(b)


def has_equal_operands(node: Node) -> bool:
    """Return whether two operands commute and differ, and neither precedes the other."""
    if not node.op.is_commutative():
        return False
    a, b = node.inputs
    return a is not b and a.height == b.height and _digest_of(a) == _digest_of(b)


def precedence(node: Node) -> tuple[int, int]:
    """Return the sort key of a node: a precedes b if its precedence is less."""
    return node.height, _digest_of(node)


def _digest_of(node: Node) -> int:
    digest: int | None = node._digest
    if digest is not None:
        return digest
    waiting = [node]
    while waiting:
        node = waiting[-1]
        operands = [x._digest for x in node.inputs]
        if None in operands:
            waiting += [x for x in node.inputs if x._digest is None]
        else:
            waiting.pop()
            set_digest(node, _digest(node.op, operands))
    return node._digest  # type: ignore[return-value]


def _digest(op: Op, operands: Sequence[int | None]) -> int:
    """Return a hash of an operation and its operands' digests, or the position in a program."""
    if isinstance(op, Input | Leaf) and op.position >= 0:
        return 2 * op.position + isinstance(op, Leaf)
    # Python's hash of integers is the same in every process; that of a text is not.
    return hash((_number_of_op(op), *operands)) & _DIGEST


def _number_of_op(op: Op) -> int:
    try:
        return number_of(op.token())
    except InvalidGraphError:  # no graph of it can be compiled
        return number_of(type(op).__qualname__)


@lru_cache(4096)
def number_of(token: str) -> int:
    """Return a number of 64 bits for a text, the same in every process."""
    return int.from_bytes(blake2b(token.encode(), digest_size=8).digest())


Wiring = list[tuple[Op, list[int]]]


def wire(outputs: Iterable[Node]) -> tuple[Wiring, dict[Node, int]]:
    """Return nodes as a list of operations and indices of inputs, and each node's index."""
    nodes = toposort(outputs)
    indices = {node: i for i, node in enumerate(nodes)}
    return [(node.op, [indices[x] for x in node.inputs]) for node in nodes], indices


def unwire(wiring: Wiring) -> list[Node]:
    """Return the nodes of the list that ``wire`` returns."""
    nodes: list[Node] = []
    for op, indices in wiring:
        nodes.append(Node.make(op, *op.arranged([nodes[i] for i in indices])))
    return nodes


def _last(wiring: Wiring) -> Node:
    return unwire(wiring)[-1]


class Input(Op):
    """A value given at run time; inputs are compared by identity, not by name.

    Attributes:
        is_shared: Whether the input is a shared variable, whose value persists between calls.
        default_update: The value after a call that does not update the input; None for no change.
        axes: The names of its axes in messages; empty by default.
        sharding: The declared sharding on the mode's mesh of devices, or None.
        role: The role in messages of a field of an implicit array.
        buckets: The declared growth of the buckets that its axes are padded to, or None.
        dims: The declared name of each unknown length, None for other axes; None without names.
            Lengths of one name are equal in all inputs of a function.
        position: Its position among the inputs of a program, or of a loop's step; -1 for others.
    """

    __slots__ = ("buckets", "dims", "given_name", "given_type", "position", "role", "sharding")

    is_shared = False
    axes: Sequence[str] = ()
    default_update: Any = None

    def __init__(  # noqa: PLR0913, PLR0917 (all that an input declares)
        self,
        type: Type,
        name: str | None = None,
        sharding: Sharding | None = None,
        role: str = "",
        buckets: Buckets | None = None,
        dims: Dims | None = None,
        position: int = -1,
    ) -> None:
        _check_name(name)
        self.given_type = type
        self.given_name = name
        self.sharding = sharding
        self.role = role
        self.buckets = buckets
        self.dims = dims
        self.position = position

    def __setstate__(self, state: Any) -> None:
        _, fields = state
        for field_name, value in fields.items():
            setattr(self, field_name, value)

    @property
    def name(self) -> str:
        return self.given_name or "input"

    @property
    def expected(self) -> str:
        """The type of its values in messages."""
        type = self.given_type
        if self.dims is None or not isinstance(type, TensorType):
            return repr(type)
        lengths = [name if n is None else n for name, n in zip(self.dims, type.shape, strict=True)]
        return f"{type.dtype}[{shape_text(lengths)}]"

    def blank(self, position: int) -> Input:
        """Return an input that holds no values, at a position of a program."""
        return Input(self.given_type, *self._declared, position)

    def of_type(self, type: Type) -> Input:
        """Return an input of another type with the same declarations."""
        return Input(type, *self._declared, self.position)

    @property
    def _declared(self) -> tuple[str | None, Sharding | None, str, Buckets | None, Dims | None]:
        return self.given_name, self.sharding, self.role, self.buckets, self.dims

    def infer(self) -> Type:
        return self.given_type

    def as_code(self, inputs: Sequence[Node], write: Writer) -> Code:
        return self.name, ATOM

    def token(self) -> str:
        return f"input {self.given_type!r}"


class Parameter(Input):
    """An argument of a user's function while it is traced, such as the step of a loop."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Constant(Op):
    """A value that is part of the graph, compared by its bytes: NaN is NaN, 0.0 is not -0.0."""

    data: bytes
    dtype: str
    shape: tuple[int, ...]

    def __hash__(self) -> int:
        return hash(self.data)  # bytes cache their hash

    @classmethod
    def of(cls, value: np.ndarray[Any, Any]) -> Constant:
        """Return the constant that holds an array's present value."""
        return cls(value.tobytes(), dtype_name(value.dtype), value.shape)

    @property
    def value(self) -> np.ndarray[Any, Any]:
        """The array, read-only."""
        return np.frombuffer(self.data, numpy_dtype(self.dtype)).reshape(self.shape)

    @property
    def shown(self) -> str:
        """The value as printed graphs show it, abbreviated beyond four elements."""
        array = self.value
        if array.ndim == 0 or array.size <= 4:
            return str(array.tolist())
        return f"[{', '.join(str(x) for x in array.ravel()[:3].tolist())}, ...]"

    def as_code(self, inputs: Sequence[Node], write: Writer) -> Code:
        text = self.shown
        return text, NEGATIVE if text.startswith("-") else ATOM

    def infer(self) -> TensorType:
        return TensorType(self.dtype, self.shape)

    def perform(self) -> np.ndarray[Any, Any]:
        return self.value

    def token(self) -> str:
        return f"constant {self.dtype}{self.shape} {encode(self.data)}"


class Leaf(Op):
    """An array that the graph refers to and never compares: passed at run time, like an input."""

    __slots__ = ("array", "given_name")

    position = -1

    def __init__(self, array: np.ndarray[Any, Any], name: str | None = None) -> None:
        self.array = array
        self.given_name = name

    @property
    def name(self) -> str:
        return self.given_name or "array"

    def __eq__(self, other: object) -> bool:
        return type(other) is Leaf and other.array is self.array

    def __hash__(self) -> int:
        return id(self.array)

    def infer(self) -> TensorType:
        return TensorType(self.array.dtype, self.array.shape)

    def as_code(self, inputs: Sequence[Node], write: Writer) -> Code:
        return self.name, ATOM

    def token(self) -> str:
        return f"leaf {self.infer()!r}"


class Slot(Leaf):
    """A leaf without its array, in a program that functions with different arrays share.

    Attributes:
        position: The leaf's index among the graph's leaves, in the order of ``Graph.canonical``.
    """

    __slots__ = ("given_type", "position")

    def __init__(self, position: int, type: Type, name: str | None = None) -> None:
        self.position = position
        self.given_type = type
        self.given_name = name

    def __eq__(self, other: object) -> bool:
        return type(other) is Slot and (other.position, other.given_type, other.given_name) == (
            self.position,
            self.given_type,
            self.given_name,
        )

    def __hash__(self) -> int:
        return hash((self.position, self.given_type))

    def infer(self) -> Type:  # type: ignore[override]
        return self.given_type

    def token(self) -> str:
        return f"leaf {self.given_type!r}"


@dataclass(frozen=True, slots=True)
class Pick(Op):
    """One of several results."""

    index: int = field(repr=False)

    @property
    def name(self) -> str:
        return f"result[{self.index}]"

    def as_code(self, inputs: Sequence[Node], write: Writer) -> Code:
        (items,) = inputs
        return items.op.result_as_code(self.index, items.inputs, write)

    def infer(self, items: TupleType) -> Type:
        return items.items[self.index]

    def perform(self, items: tuple[Any, ...]) -> Any:
        return items[self.index]

    def batch(self, size: Any, batched: Sequence[bool], items: Node) -> Node:
        return Node.make(self, items)


@dataclass(frozen=True, slots=True)
class MakeTuple(Op):
    """A tuple of arrays as one node."""

    def infer(self, *items: Type) -> Type:
        return TupleType(items)

    def perform(self, *items: Any) -> tuple[Any, ...]:
        return items

    def batch(self, size: Any, batched: Sequence[bool], *items: Node) -> tuple[Node, ...]:
        return items


def picks(several: Node) -> list[Any]:
    """Return a node for each result of an operation that has several."""
    return [Node.make(Pick(i), several) for i in range(len(several.type.items))]


@dataclass(frozen=True, slots=True)
class Owner:
    """An operation applied to inputs, as seen from one of its outputs; immutable.

    Attributes:
        op: The operation; ``op.name`` is its name.
        inputs: The operands.
        outputs: All results.
    """

    op: Op
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]

    def __repr__(self) -> str:
        operands, results = (", ".join(map(repr, xs)) for xs in (self.inputs, self.outputs))
        return f"{self.op.name}({operands}) -> ({results})"


BESIDE: WeakKeyDictionary[Node, Callable[[], Node]] = WeakKeyDictionary()
"""The output before a node among its owner's outputs: the next generator before a draw."""


def owner(node: Node) -> Owner | None:
    """Return the operation of a node, with all outputs; None for inputs, leaves and constants."""
    op = node.op
    if isinstance(op, Input | Leaf | Constant):
        return None
    if isinstance(op, Pick):
        (several,) = node.inputs
        return Owner(several.op, several.inputs, tuple(picks(several)))
    beside = BESIDE.get(node)
    return Owner(op, node.inputs, (node,) if beside is None else (beside(), node))


def toposort(outputs: Iterable[Node], known: Iterable[Node] = ()) -> list[Node]:
    """Return the nodes that the outputs depend on, inputs first; known nodes are left out.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.scalar("x")
        >>> [str(node.op.name) for node in toposort([gt.exp(-x)])]
        ['x', 'negative', 'exp']
    """
    order: list[Node] = []
    done = set(known)
    stack: list[Any] = [*outputs]
    stack.reverse()
    # Every compilation walks so several times: the methods are looked up once.
    pop, push, enter, put = stack.pop, stack.append, done.add, order.append
    while stack:
        node = pop()
        if node is None:
            # The inputs of the node below have been visited.
            node = pop()
            if node not in done:
                enter(node)
                put(node)
        elif node not in done:
            inputs = node.inputs
            if inputs:
                push(node)
                push(None)
                stack += inputs[::-1]
            else:
                enter(node)
                put(node)
    return order
