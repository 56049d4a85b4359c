"""``OpFromGraph``: a user's operation, defined by symbolic inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from graphc import ir
from graphc.errors import ArgumentError, DTypeError, MissingInputError, ShapeError
from graphc.grad.forward import push
from graphc.grad.reverse import cotangents, sum_by_node
from graphc.loop.step import captured_nodes, stand_in
from graphc.loop.subgraph import Arrays, Subgraph, apply_subgraph
from graphc.tensor.core.specify import specify_named
from graphc.tensor.core.tensor import Tensor, as_tensor

Override = Callable[..., Any] | Sequence[Callable[..., Any] | None] | None
"""One function for all derivatives, or one for each; None for the graph's own."""


class OpFromGraph:
    """A graph as an operation: a function of symbolic arrays, with a name and derivatives.

    Each use is one node until the compiler expands it. With ``inline=False`` it stays one node.

    Args:
        inputs: The operation's inputs, distinct symbolic arrays.
        outputs: The operation's outputs, functions of the inputs, shared variables and constants.
        inline: Whether the compiler expands the operation. If not, its graph is rewritten by
            itself, and plans and printed graphs show its name.
        pullback: The gradient: a function of the inputs, the outputs and the outputs' gradients,
            each a list, that returns a list of the inputs' gradients, None where there is none.
            Another ``OpFromGraph`` takes the same arrays one by one. A list has a function for each
            input, which returns that input's gradient, or None for the graph's own gradient.
        pushforward: The derivative in forward mode: a function of the inputs and their tangents,
            None where there is none, or a list of functions, one for each output. By default it
            follows from ``pullback``.
        lop_overrides: An older name of ``pullback``.
        rop_overrides: An older name of ``pushforward``.
        strict: Refuse shared variables that are not among the inputs.
        name: The operation's name in printed graphs and messages.

    Raises:
        ArgumentError: If inputs or outputs are not symbolic arrays, an input comes twice, or
            derivatives are given under both names or not one for each input or output.
        MissingInputError: If an output depends on an input that is not among the inputs.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x, y, z = gt.scalars("x", "y", "z")
        >>> doubled = lambda inputs, outputs, gradients: 2 * inputs[2] * gradients[0]
        >>> op = graphc.OpFromGraph([x, y, z], [x + y * z], pullback=[None, doubled, None])
        >>> gradients = graphc.grad(op(x, y, z), [x, y, z])
        >>> f = graphc.function([x, y, z], gradients, mode="NUMPY", on_unused_input="ignore")
        >>> [float(g) for g in f(2.0, 3.0, 4.0)]
        [1.0, 8.0, 3.0]
    """

    def __init__(  # noqa: PLR0913
        self,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        *,
        inline: bool = True,
        pullback: Override = None,
        pushforward: Override = None,
        lop_overrides: Override = None,
        rop_overrides: Override = None,
        strict: bool = False,
        name: str | None = None,
    ) -> None:
        self.inputs = _check_arrays("inputs", ir.unwrap_all(inputs))
        self.outputs = _check_arrays("outputs", ir.unwrap_all(outputs))
        self._inputs, self._outputs = [*inputs], [*outputs]
        self.inline = inline
        self.name = name or type(self).__name__
        self._check(strict=strict)
        self._own: Overrides | None = None
        lop = _one_of("pullback", pullback, "lop_overrides", lop_overrides)
        rop = _one_of("pushforward", pushforward, "rop_overrides", rop_overrides)
        if lop is not None or rop is not None:
            self._own = Overrides(
                ir.Graph([*self.inputs, *self._captured], self.outputs),
                len(self.inputs),
                _freeze_override("pullback", lop, len(self.inputs)),
                _freeze_override("pushforward", rop, len(self.outputs)),
            )

    def _check(self, *, strict: bool) -> None:
        if len(set(self.inputs)) < len(self.inputs):
            twice = next(x for x in self.inputs if self.inputs.count(x) > 1)
            raise ArgumentError(
                f"OpFromGraph: the input {twice!r} comes twice.", "Make another input for it."
            )
        self._captured = captured_nodes(self.inputs, self.outputs)
        inner = ir.toposort(self.outputs, self.inputs)
        free = [x for x in inner if isinstance(x.op, ir.Input)]
        ir.refuse_missing([x for x in free if not x.op.is_shared], self.inputs)  # type: ignore[attr-defined]
        if strict and free:
            raise MissingInputError(
                f"OpFromGraph: the outputs depend on {', '.join(map(repr, free))}, not among the "
                "inputs.",
                "Add it to the inputs, or leave out strict=True.",
            )

    def __call__(self, *inputs: Any) -> Any:
        """Apply the operation; return an output, or a list of several outputs.

        Raises:
            ArgumentError: If the number of arrays is wrong.
            DTypeError: If an array differs in dtype from its input.
            ShapeError: If an array differs in rank or in a static length from its input.
        """
        if len(inputs) != len(self.inputs):
            raise ArgumentError(
                f"{self.name} takes {len(self.inputs)} arrays, and is given {len(inputs)}."
            )
        arrays = [y for _, y in map(ir.unwrap_pair, self._inputs, inputs)]
        arguments = [self._as_input(x, y) for x, y in zip(self.inputs, arrays, strict=True)]
        arguments = specify_named(self.inputs, arguments, self.name)
        # Captured arrays are operands too, so that derivatives can tell them apart.
        parameters, operands = [*self.inputs, *self._captured], [*arguments, *self._captured]
        fresh = [stand_in(x) for x in operands]
        outputs = ir.replace_nodes(self.outputs, dict(zip(parameters, fresh, strict=True)))
        like = Subgraph(ir.Graph([], []), len(arguments), self.name, self.inline, self._own)
        results = [
            *map(ir.wrap_like, self._outputs, apply_subgraph(like, fresh, operands, outputs))
        ]
        return results[0] if len(results) == 1 else results

    def _as_input(self, x: Tensor, array: Any) -> Tensor:
        expected = x.type
        y = as_tensor(array) if isinstance(array, ir.Node) else as_tensor(array, dtype=x.dtype)
        problem = f"{self.name} takes {x!r}, and is given {y!r}"
        if y.dtype != expected.dtype:
            raise DTypeError(f"{problem}.", f"Cast it with .astype({x.dtype!r}).")
        pairs = zip(expected.shape, y.type.shape, strict=False)
        if y.ndim != x.ndim or any(n != m and None not in {n, m} for n, m in pairs):
            raise ShapeError(f"{problem}.", "Reshape or index it.")
        return y

    def __repr__(self) -> str:
        types = (", ".join(repr(x.type) for x in nodes) for nodes in (self.inputs, self.outputs))
        return f"{self.name}({') -> ('.join(types)})"


def _check_arrays(what: str, arrays: Any) -> list[Tensor]:
    if not isinstance(arrays, list | tuple) or not all(isinstance(x, Tensor) for x in arrays):
        raise ArgumentError(f"OpFromGraph: {what}={arrays!r}: expected a list of symbolic arrays.")
    return list(arrays)


def _one_of(name: str, override: Override, older: str, older_override: Override) -> Override:
    if override is not None and older_override is not None:
        raise ArgumentError(
            f"OpFromGraph: {name}= and {older}= are the same.", f"Give {name}= alone."
        )
    return older_override if override is None else override


def _freeze_override(name: str, override: Any, number: int) -> Any:
    """Return an override as one function or a tuple, which can be compared."""
    if not isinstance(override, list | tuple):
        each = [override]
    else:
        each = list(override)
        if len(each) != number:
            raise ArgumentError(
                f"OpFromGraph: {name} has {len(each)} functions for {number}.",
                "Give one for each, None for the graph's own derivative.",
            )
    for function in each:
        if function is not None and not callable(function):
            raise ArgumentError(f"OpFromGraph: {name} has {function!r}, which is not a function.")
    return tuple(each) if isinstance(override, list | tuple) else override


@dataclass(frozen=True)
class Overrides:
    """Derivatives defined by a user of ``OpFromGraph``.

    Attributes:
        graph: The operation's graph, over its arguments and captured arrays.
        arguments: The number of arguments.
        lop: A function for all gradients, or a tuple of functions, one for each.
        rop: A function for all tangents, or a tuple of functions, one for each.
    """

    graph: ir.Graph
    arguments: int
    lop: Any
    rop: Any

    @property
    def pullback(self) -> Callable[[Arrays, Arrays, Arrays], Arrays] | None:
        return None if self.lop is None else self._pull_back

    @property
    def pushforward(self) -> Callable[[Arrays, Arrays, Arrays], Arrays] | None:
        return None if self.rop is None else self._push_forward

    def _pull_back(self, g: Arrays, ys: Arrays, xs: Arrays) -> Arrays:
        """Return gradients; where an input has no function, the graph's own gradient."""
        arguments = list(xs[: self.arguments])
        if not isinstance(self.lop, tuple):
            return _call_override(self.lop, arguments, list(ys), list(g))
        xs = xs[: len(self.graph.inputs)]
        fresh = [stand_in(x) for x in xs]
        outputs = ir.replace_nodes(
            self.graph.outputs, dict(zip(self.graph.inputs, fresh, strict=True))
        )
        pairs = [(y, part) for y, part in zip(outputs, g, strict=True) if part is not None]
        by_graph = cotangents(sum_by_node(pairs), fresh)
        swaps: dict[ir.Node, ir.Node] = dict(zip(fresh, xs, strict=True))
        gradients = [None if y is None else ir.replace_nodes([y], swaps)[0] for y in by_graph]
        for i, function in enumerate(self.lop):
            if function is not None:
                gradients[i] = function(arguments, list(ys), list(g))
        return gradients

    def _push_forward(self, tangents: Arrays, ys: Arrays, xs: Arrays) -> Arrays:
        arguments, ts = list(xs[: self.arguments]), list(tangents[: self.arguments])
        if not isinstance(self.rop, tuple):
            return _call_override(self.rop, arguments, ts)
        xs = xs[: len(self.graph.inputs)]
        fresh = [stand_in(x) for x in xs]
        outputs = ir.replace_nodes(
            self.graph.outputs, dict(zip(self.graph.inputs, fresh, strict=True))
        )
        pairs = zip(fresh, tangents, strict=False)
        by_graph = push(outputs, {x: t for x, t in pairs if t is not None})
        swaps: dict[ir.Node, ir.Node] = dict(zip(fresh, xs, strict=True))
        results = [None if y is None else ir.replace_nodes([y], swaps)[0] for y in by_graph]
        return [
            y if function is None else function(arguments, ts)
            for y, function in zip(results, self.rop, strict=True)
        ]


def _call_override(override: Any, *groups: list[Any]) -> Arrays:
    """Call one function for all derivatives; an ``OpFromGraph`` takes the arrays one by one."""
    if not isinstance(override, OpFromGraph):
        derivatives = override(*groups)
        if not isinstance(derivatives, list | tuple):
            raise ArgumentError(
                f"OpFromGraph: a derivative of its own gave {derivatives!r}.",
                "Return a list, with None where there is no derivative.",
            )
        return derivatives
    results = override(*[x for group in groups for x in group])
    return results if isinstance(results, list) else [results]
