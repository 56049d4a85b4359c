"""Batching: the graph for a batch, by each operation's batching rule."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar, overload

from graphc import hooks
from graphc.errors import ArgumentError, DTypeError, ShapeError, UnsupportedOperationError
from graphc.ir import (
    Node,
    Pick,
    TensorType,
    TupleType,
    Wrapper,
    flatten,
    rebuild,
    replace_nodes,
    to_gathered_form,
    toposort,
)
from graphc.ir.law import deciding_inputs
from graphc.site import derived_from
from graphc.tensor.arrays.broadcast import batch_of, broadcast_to
from graphc.tensor.core.axes import expand_dims, squeeze
from graphc.tensor.core.shape import length, lengths
from graphc.tensor.core.specify import specify_shape
from graphc.tensor.core.tensor import ArrayOrNumber, Tensor, TensorLike, as_tensor

Size = int | Tensor
"""The number of elements of a batch."""


@dataclass(slots=True)
class _BatchedNodes:
    """Nodes with a value for every element of a batch.

    Attributes:
        done: The value for each node.
        leading: The nodes whose values have the batch axis; other values are equal for all
            elements.
        sizes: The batch's length, for each node that depends on a replaced one.
    """

    done: dict[Node, Any]
    leading: set[Node] = field(default_factory=set)
    sizes: dict[Node, Size] = field(default_factory=dict)

    def add(self, node: Node) -> None:
        size = self._size(node)
        if size is not None:
            self.sizes[node] = size
        inputs = [self.done.get(x, x) for x in node.inputs]
        if isinstance(node.op, Pick) and isinstance(inputs[0], tuple):
            self._enter(node, inputs[0][node.op.index])
            return
        flags = [x in self.leading for x in node.inputs]
        if size is None or not any(flags):
            self.done[node] = node.with_inputs(inputs)
            return
        _check_shape_fixed(node, flags)
        with derived_from(node.site):
            self._enter(node, node.op.batch(size, flags, *inputs))

    def _enter(self, node: Node, made: Any) -> None:
        self.done[node] = made
        if _is_batched(made, node):
            self.leading.add(node)

    def _size(self, node: Node) -> Size | None:
        sizes = [self.sizes[x] for x in node.inputs if x in self.sizes]
        static = {n for n in sizes if isinstance(n, int)}
        if len(static) > 1:
            raise ShapeError(
                f"Batches of different lengths, {', '.join(map(str, sorted(static)))}, meet in "
                f"{node!r}.",
                "Make them equal, or one of them 1.",
                node.where,
            )
        return static.pop() if static else sizes[0] if sizes else None

    def result(self, y: Node) -> Any:
        """Return the batched output, or the node itself if it depends on no replaced node."""
        value = self.done.get(y, y)
        spread = y in self.sizes and y not in self.leading
        return batch_of(value, self.sizes[y]) if spread else value


def _batch_graph(
    outputs: Sequence[Node],
    replacements: Mapping[Any, Tensor],
    same: Mapping[Any, Tensor] | None = None,
) -> _BatchedNodes:
    """Return the graph for a batch; ``same`` has replacements that are equal for all of it."""
    batch = _BatchedNodes({**replacements, **(same or {})})
    for node, new in replacements.items():
        if not new.ndim or not node.type.admits(new.type.with_shape(new.type.shape[1:])):
            raise ShapeError(
                f"{new!r} is not a batch of {node!r}.",
                "Its first axis is the batch, the others are the node's.",
                new.where,
            )
        batch.leading.add(node)
        batch.sizes[node] = length(new, 0)
    for node in toposort(outputs, batch.done):
        batch.add(node)
    return batch


def batched(outputs: Sequence[Node], replacements: Mapping[Any, Tensor]) -> list[Tensor]:
    """Return the outputs for every element of a batch, along a new leading axis.

    Args:
        outputs: Arrays of any shape.
        replacements: For nodes of their graph, arrays with one more axis in front, the batch.

    Returns:
        An array for each output, with the batch axis in front; one that does not depend on the
        replaced nodes is repeated along it.

    Raises:
        ShapeError: A replacement's other axes are not the node's, or batches differ in length.
        UnsupportedOperationError: An operation has no rule, or its result's shape would differ
            from one element of the batch to the next.

    Example:
        >>> import graphc.tensor as gt
        >>> x, rows = gt.tensor("x", shape=(3,)), gt.tensor("rows", shape=(5, 3))
        >>> [y.type for y in batched([x.sum(), x * 2], {x: rows})]
        [float64[5], float64[5, 3]]
    """
    outputs = to_gathered_form(outputs, replacements)
    batch = _batch_graph(outputs, replacements)
    sizes = [batch.sizes[x] for x in replacements]
    size = next((n for n in sizes if isinstance(n, int)), sizes[0])
    return [
        batch.result(y) if y in batch.sizes else batch_of(batch.result(y), size) for y in outputs
    ]


def _check_shape_fixed(node: Node, flags: Sequence[bool]) -> None:
    if any(flags[i] for i in deciding_inputs(node)):
        raise UnsupportedOperationError(
            f"{node!r}: its shape would differ from one element of the batch to the next.",
            "Compute lengths, slices, selecting masks and numbers of steps from values equal for "
            "the whole batch; a loop may end by each element's own condition: until=, while_loop.",
            node.where,
        )


def _is_batched(value: Node, node: Node) -> bool:
    # A rule may return a value that is the same for all elements: a length, of the node's rank.
    several = isinstance(value, tuple) or isinstance(value.type, TupleType)
    return several or bool(value.type.ndim > node.type.ndim)


# Several batch axes.


@overload
def vectorize_graph(outputs: ArrayOrNumber, replace: Mapping[Any, Any]) -> Tensor: ...


@overload
def vectorize_graph(
    outputs: tuple[TensorLike, ...], replace: Mapping[Any, Any]
) -> tuple[Tensor, ...]: ...


@overload
def vectorize_graph(outputs: list[Any], replace: Mapping[Any, Any]) -> list[Tensor]: ...


def vectorize_graph(outputs: Any, replace: Mapping[Any, Any]) -> Any:
    """Return the outputs for every element of batches that replace parts of their graph.

    No loop is built: each operation is applied once, to all elements. Derivatives of the result
    are vectorised too.

    Args:
        outputs: An array, or a nested list, tuple or dict of them.
        replace: For arrays of the outputs' graph, arrays of the same dtype with any number of axes
            in front. These broadcast against each other, an axis of static length 1 against any
            length; other nodes are the same for all elements.

    Returns:
        Arrays in the structure of ``outputs``, each with the batch axes of its inputs in front of
        its other axes.

    Raises:
        DTypeError: A replacement has another dtype.
        ShapeError: The last axes of a replacement do not match the array it replaces, or batches
            differ in length.
        UnsupportedOperationError: An operation has no rule for batches, or its result's shape
            would differ from one element of the batch to the next.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x, y = gt.tensor(shape=(3,)), gt.tensor(shape=(3,))
        >>> xs, ys = gt.tensor(shape=(5, 1, 3)), gt.tensor(shape=(4, 3))
        >>> graphc.vectorize_graph(x @ y, {x: xs, y: ys}).type
        float64[5, 4]
    """
    values = flatten(outputs)
    if any(isinstance(x, Wrapper) for x in [*values, *replace, *replace.values()]):
        return hooks.vectorize_xtensors(outputs, replace)
    targets = [as_tensor(y) for y in values]
    results = _over_axes(targets, {x: _replacement(x, new) for x, new in replace.items()})
    return rebuild(outputs, results)


def _replacement(x: Any, new: Any) -> Any:
    if not isinstance(x, Tensor):
        raise ArgumentError(f"vectorize_graph: {x!r} is not an array of the graph.")
    new = as_tensor(new)
    if new.dtype != x.dtype:
        raise DTypeError(
            f"vectorize_graph: {new!r} for {x!r}: the dtypes differ.", f"Use .astype({x.dtype!r})."
        )
    pairs = zip(new.type.shape[new.ndim - x.ndim :], x.type.shape, strict=False)
    if new.ndim < x.ndim or any(n not in {m, None} and m is not None for n, m in pairs):
        raise ShapeError(
            f"vectorize_graph: {new!r} for {x!r}: its last axes are not those of the replaced "
            "array.",
            "Put the batch axes in front.",
        )
    return specify_shape(new, [*[None] * (new.ndim - x.ndim), *x.type.shape])


def _over_axes(outputs: list[Tensor], replacements: Mapping[Tensor, Tensor]) -> list[Tensor]:
    """Return the outputs for batches of any rank, one batch axis after the other, the last first.

    Arrays without this axis, or with static length 1, are the same for all elements along it.
    """
    outputs = [*to_gathered_form(outputs, replacements)]  # type: ignore[list-item]
    ranks = {x: new.ndim - x.ndim for x, new in replacements.items()}
    deepest = _deepest(outputs, ranks)
    most = max(ranks.values(), default=0)
    squeezed = {x: _without_ones(new, ranks[x]) for x, new in replacements.items()}
    # All are replaced together, with the last axis, as one may depend on what another replaces.
    present = dict(zip(ranks, ranks, strict=True))
    for axis in range(1, most + 1):
        wide = [x for x in ranks if _is_wide(replacements[x], ranks[x] - axis)]
        if axis < most:
            new = {x: _stand_in(present[x], replacements[x], ranks[x] - axis) for x in wide}
        else:
            new = squeezed
        same = {present[x]: y for x, y in new.items() if x not in wide}
        batch = _batch_graph(outputs, {present[x]: new[x] for x in wide}, same)
        outputs = [
            expand_dims(batch.result(y), 0)
            if rank >= axis and y not in batch.sizes
            else batch.result(y)
            for y, rank in zip(outputs, deepest, strict=True)
        ]
        present |= new
    return outputs if most else replace_nodes(outputs, squeezed)  # type: ignore[arg-type, return-value]


def _deepest(outputs: Sequence[Node], ranks: Mapping[Any, int]) -> list[int]:
    """Return the number of batch axes of each output, the most of any node it depends on."""
    depths: dict[Node, int] = {**ranks}
    for node in toposort(outputs, ranks):
        depths[node] = max((depths[x] for x in node.inputs), default=0)
    return [depths[y] for y in outputs]


def _is_wide(new: Tensor, axis: int) -> bool:
    return axis >= 0 and new.type.shape[axis] != 1


def _stand_in(x: Tensor, new: Tensor, axis: int) -> Tensor:
    return TensorType(x.dtype, (new.type.shape[axis], *x.type.shape))()


def _without_ones(new: Tensor, rank: int) -> Tensor:
    unit_axes = tuple(i for i, n in enumerate(new.type.shape[:rank]) if n == 1)
    return squeeze(new, unit_axes) if unit_axes else new


# Functions.


P = ParamSpec("P")
R = TypeVar("R")


@overload
def vectorize(
    func: Callable[P, R], signature: str | None = None, *, excluded: Any = ()
) -> Callable[P, R]: ...


@overload
def vectorize(
    func: None = None, signature: str | None = None, *, excluded: Any = ()
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def vectorize(func: Any = None, signature: str | None = None, *, excluded: Any = ()) -> Any:
    """Return a function of batches from one of single elements, without a loop.

    Args:
        func: A function of symbolic arrays that returns one, or a list or tuple of them. Without
            it, the result is a decorator.
        signature: The axes of an element of each argument and result, as ``"(n),(n,m)->(m)"``;
            axes of one name have one length, and a number is a length. By default all are scalars.
        excluded: Positions or names of arguments that are passed on unchanged.

    Returns:
        A function of arrays with any number of axes in front of an element's, which broadcast
        against each other; every result has all of those axes in front. ``func`` is called once.

    Raises:
        ArgumentError: The signature is invalid; when called, the number of arguments or results
            differs from it.
        ShapeError: When called, an argument or result lacks axes of the signature, or lengths
            differ.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> @graphc.vectorize(signature="(n),(n)->()")
        ... def distance(a, b):
        ...     return gt.sqrt(((a - b) ** 2).sum())
        >>> distance(gt.tensor(shape=(5, 1, 3)), gt.tensor(shape=(4, 3))).type
        float64[5, 4]
    """
    if func is None:
        return partial(vectorize, signature=signature, excluded=excluded)
    core = None if signature is None else _Signature.of(signature)
    left_out = frozenset(excluded)

    @wraps(func)
    def over_batches(*args: Any, **kwargs: Any) -> Any:
        positions = [i for i in range(len(args)) if i not in left_out]
        names = [name for name in kwargs if name not in left_out]
        arrays = [
            as_tensor(x) for x in [*(args[i] for i in positions), *(kwargs[k] for k in names)]
        ]
        sides = _Signature(((),) * len(arrays), None) if core is None else core
        elements = sides.elements(arrays)
        named = dict(zip([*positions, *names], elements, strict=True))
        outputs = func(
            *[named.get(i, x) for i, x in enumerate(args)],
            **{name: named.get(name, x) for name, x in kwargs.items()},
        )
        several = isinstance(outputs, list | tuple)
        results = [as_tensor(y) for y in (outputs if several else [outputs])]
        sides.check_results(results)
        vectorized = vectorize_graph(results, dict(zip(elements, arrays, strict=True)))
        batch = _batch_lengths(
            [(x, x.ndim - e.ndim) for x, e in zip(arrays, elements, strict=True)]
        )
        vectorized = [
            _broadcast_to_batch(y, y0.ndim, batch)
            for y, y0 in zip(vectorized, results, strict=True)
        ]
        return type(outputs)(vectorized) if several else vectorized[0]

    return over_batches


Core = tuple[str, ...]
"""The names of an element's axes."""


@dataclass(frozen=True, slots=True)
class _Signature:
    """The core axes of each argument and, where given, of each result."""

    inputs: tuple[Core, ...]
    outputs: tuple[Core, ...] | None

    @classmethod
    def of(cls, text: str) -> _Signature:
        core = r"\((?:\w+(?:,\w+)*)?\)"
        bare = "".join(text.split())
        if not re.fullmatch(rf"(?:{core}(?:,{core})*)?->{core}(?:,{core})*", bare):
            raise ArgumentError(
                f"vectorize: {text!r} is not a signature.",
                "Write the axes of each argument and result, as in '(n),(n,m)->(m)'.",
            )
        sides = [re.findall(r"\((.*?)\)", side) for side in bare.split("->")]
        inputs, outputs = (
            tuple(tuple(axes.split(",")) if axes else () for axes in side) for side in sides
        )
        return cls(inputs, outputs)

    def elements(self, arguments: Sequence[Tensor]) -> list[Tensor]:
        """Return an input for an element of each argument, or the argument if it is one element."""
        if len(arguments) != len(self.inputs):
            raise ArgumentError(
                f"vectorize: got {len(arguments)} arguments for a signature of {len(self.inputs)}.",
                "List the others in excluded=.",
            )
        sizes: dict[str, int] = {}
        for x, core in zip(arguments, self.inputs, strict=True):
            self._check("argument", x, core, x.type.shape[x.ndim - len(core) :], sizes)
        if all(x.ndim == len(core) for x, core in zip(arguments, self.inputs, strict=True)):
            return list(arguments)
        return [
            TensorType(
                x.dtype,
                tuple(
                    sizes.get(name, n)
                    for name, n in zip(core, x.type.shape[x.ndim - len(core) :], strict=True)
                ),
            )()
            for x, core in zip(arguments, self.inputs, strict=True)
        ]

    def _check(
        self, what: str, x: Tensor, core: Core, shape: Sequence[int | None], sizes: dict[str, int]
    ) -> None:
        if len(shape) != len(core):
            raise ShapeError(
                f"vectorize: the {what} {x!r} does not have the core axes ({','.join(core)}).",
                "Change the signature or the array.",
            )
        for name, n in zip(core, shape, strict=True):
            expected = int(name) if name.isdigit() else sizes.get(name, n)
            if n is not None and n != expected:
                raise ShapeError(
                    f"vectorize: the axis {name} has length {n} in the {what} {x!r}, and "
                    f"{expected} elsewhere.",
                    "Make them equal, or give them two names.",
                )
            if expected is not None:
                sizes[name] = expected

    def check_results(self, results: Sequence[Tensor]) -> None:
        outputs = ((),) * len(results) if self.outputs is None else self.outputs
        if len(results) != len(outputs):
            raise ArgumentError(
                f"vectorize: got {len(results)} results for a signature of {len(outputs)}."
            )
        for y, core in zip(results, outputs, strict=True):
            self._check("result", y, core, y.type.shape, {})


def _batch_lengths(heads: Sequence[tuple[Tensor, int]]) -> list[Size]:
    result: list[Size] = []
    for axis in range(max((rank for _, rank in heads), default=0), 0, -1):
        having = [(x, rank - axis) for x, rank in heads if _is_wide(x, rank - axis)]
        static = [(x, i) for x, i in having if x.type.shape[i] is not None]
        source = static or having
        result.append(length(*source[0]) if source else 1)
    return result


def _broadcast_to_batch(y: Tensor, rank: int, batch: Sequence[Size]) -> Tensor:
    leading = y.type.shape[: y.ndim - rank]
    if len(leading) == len(batch) and all(
        n != 1 or m == 1 for n, m in zip(leading, batch, strict=True)
    ):
        return y
    return broadcast_to(y, (*batch, *lengths(y)[y.ndim - rank :]))
