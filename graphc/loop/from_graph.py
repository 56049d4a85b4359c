"""``OpFromGraph``: an operation of one's own, made of symbolic inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from graphc.errors import ArgumentError, DTypeError, MissingInputError, ShapeError
from graphc.grad.forward import push
from graphc.grad.reverse import cotangents, summed
from graphc.ir import (
    Graph,
    Input,
    Node,
    refuse_missing,
    replaced,
    toposort,
    unwrapped_all,
    unwrapped_pair,
    wrapped,
)
from graphc.loop.step import captured, stand_in
from graphc.loop.subgraph import Arrays, Subgraph, applied
from graphc.tensor.core.tensor import Tensor, as_tensor

Override = Callable[..., Any] | Sequence[Callable[..., Any] | None] | None
"""One function for all derivatives, or one for each; None for the graph's own."""


class OpFromGraph:
    """A graph as an operation: a function of symbolic arrays, with a name and derivatives.

    Each use is one node of the graph until it is compiled. Then what it computes takes its place,
    and is rewritten with everything else, unless it is kept.

    Args:
        inputs: What the operation takes, distinct symbolic arrays.
        outputs: What it gives, made of the inputs, of shared variables and of constants.
        inline: Whether the graph takes the operation's place when it is compiled. If not, it stays
            one operation, which is rewritten by itself, and plans and printed graphs show its name.
        pullback: Its gradient: a function of the inputs, the outputs and the outputs'
            gradients, each a list, which gives a list of the inputs' gradients, None where there
            is none. Another ``OpFromGraph`` takes the same arrays one by one. A list has such a
            function for each input, which gives that input's gradient; where it is None, the
            gradient is that of the graph.
        pushforward: Its derivative in forward mode: a function of the inputs and their tangents,
            None where there is none, or a list of such functions, one for each output. By default
            it follows from ``pullback``.
        lop_overrides: An older name of ``pullback``.
        rop_overrides: An older name of ``pushforward``.
        strict: Refuse shared variables that are not among the inputs.
        name: What printed graphs and messages call it.

    Raises:
        ArgumentError: Inputs or outputs that are not symbolic arrays, or an input that comes twice;
            derivatives of another number than the inputs or outputs, or under both names.
        MissingInputError: An output depends on an input that is not among the inputs.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x, y, z = gt.scalars("x", "y", "z")
        >>> doubled = lambda inputs, outputs, gradients: 2 * inputs[2] * gradients[0]
        >>> op = graphc.OpFromGraph([x, y, z], [x + y * z], pullback=[None, doubled, None])
        >>> slopes = graphc.grad(op(x, y, z), [x, y, z])
        >>> f = graphc.function([x, y, z], slopes, mode="NUMPY", on_unused_input="ignore")
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
        self.inputs = _listed("inputs", unwrapped_all(inputs))
        self.outputs = _listed("outputs", unwrapped_all(outputs))
        self._takes, self._gives = [*inputs], [*outputs]
        self.inline = inline
        self.name = name or type(self).__name__
        self._check(strict=strict)
        self._own: Overrides | None = None
        lop = _either("pullback", pullback, "lop_overrides", lop_overrides)
        rop = _either("pushforward", pushforward, "rop_overrides", rop_overrides)
        if lop is not None or rop is not None:
            self._own = Overrides(
                Graph([*self.inputs, *self._outside], self.outputs),
                len(self.inputs),
                _frozen("pullback", lop, len(self.inputs)),
                _frozen("pushforward", rop, len(self.outputs)),
            )

    def _check(self, *, strict: bool) -> None:
        if len(set(self.inputs)) < len(self.inputs):
            twice = next(x for x in self.inputs if self.inputs.count(x) > 1)
            raise ArgumentError(
                f"OpFromGraph: the input {twice!r} comes twice.", "Make another input for it."
            )
        self._outside = captured(self.inputs, self.outputs)
        inner = toposort(self.outputs, self.inputs)
        free = [x for x in inner if isinstance(x.op, Input)]
        refuse_missing([x for x in free if not x.op.is_shared], self.inputs)  # type: ignore[attr-defined]
        if strict and free:
            raise MissingInputError(
                f"OpFromGraph: the outputs depend on {', '.join(map(repr, free))}, not among the "
                "inputs.",
                "Add it to the inputs, or leave out strict=True.",
            )

    def __call__(self, *inputs: Any) -> Any:
        """The output for these arrays, or a list of several outputs.

        Raises:
            ArgumentError: Another number of arrays.
            DTypeError: An array has another dtype than the input that it stands for.
            ShapeError: An array has another rank, or another known length.
        """
        if len(inputs) != len(self.inputs):
            raise ArgumentError(
                f"{self.name} takes {len(self.inputs)} arrays, and is given {len(inputs)}."
            )
        arrays = [y for _, y in map(unwrapped_pair, self._takes, inputs)]
        given = [self._fitted(x, y) for x, y in zip(self.inputs, arrays, strict=True)]
        # What comes from outside is named too, so that derivatives know which it is.
        parameters, operands = [*self.inputs, *self._outside], [*given, *self._outside]
        fresh = [stand_in(x) for x in operands]
        made = replaced(self.outputs, dict(zip(parameters, fresh, strict=True)))
        like = Subgraph(Graph([], []), len(given), self.name, self.inline, self._own)
        results = [*map(wrapped, self._gives, applied(like, fresh, operands, made))]
        return results[0] if len(results) == 1 else results

    def _fitted(self, x: Tensor, given: Any) -> Tensor:
        """An array for one of the inputs."""
        expected = x.type
        made = as_tensor(given) if isinstance(given, Node) else as_tensor(given, dtype=x.dtype)
        what = f"{self.name} takes {x!r}, and is given {made!r}"
        if made.dtype != expected.dtype:
            raise DTypeError(f"{what}.", f"Cast it with .astype({x.dtype!r}).")
        pairs = zip(expected.shape, made.type.shape, strict=False)
        if made.ndim != x.ndim or any(n != m and None not in {n, m} for n, m in pairs):
            raise ShapeError(f"{what}.", "Reshape or index it.")
        return made

    def __repr__(self) -> str:
        types = (", ".join(repr(x.type) for x in nodes) for nodes in (self.inputs, self.outputs))
        return f"{self.name}({') -> ('.join(types)})"


def _listed(what: str, given: Any) -> list[Tensor]:
    if not isinstance(given, list | tuple) or not all(isinstance(x, Tensor) for x in given):
        raise ArgumentError(f"OpFromGraph: {what}={given!r}: expected a list of symbolic arrays.")
    return list(given)


def _either(name: str, given: Override, older: str, also: Override) -> Override:
    """A derivative under its name or an older one."""
    if given is not None and also is not None:
        raise ArgumentError(
            f"OpFromGraph: {name}= and {older}= are the same.", f"Give {name}= alone."
        )
    return also if given is None else given


def _frozen(name: str, override: Any, number: int) -> Any:
    """An override that can be compared."""
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
    """Derivatives as a user of ``OpFromGraph`` gives them.

    Attributes:
        graph: What the operation computes of its arguments and of what comes from outside.
        arguments: How many arguments there are.
        lop: A function for all gradients, or a tuple of one for each.
        rop: The same for tangents.
    """

    graph: Graph
    arguments: int
    lop: Any
    rop: Any

    @property
    def pullback(self) -> Callable[[Arrays, Arrays, Arrays], Arrays] | None:
        return None if self.lop is None else self._pulled_back

    @property
    def pushforward(self) -> Callable[[Arrays, Arrays, Arrays], Arrays] | None:
        return None if self.rop is None else self._pushed

    def _pulled_back(self, g: Arrays, ys: Arrays, xs: Arrays) -> Arrays:
        """Where functions are given one by one, the graph's own gradients beside them."""
        own = list(xs[: self.arguments])
        if not isinstance(self.lop, tuple):
            return _all_of(self.lop, own, list(ys), list(g))
        xs = xs[: len(self.graph.inputs)]
        fresh = [stand_in(x) for x in xs]
        made = replaced(self.graph.outputs, dict(zip(self.graph.inputs, fresh, strict=True)))
        pairs = [(y, part) for y, part in zip(made, g, strict=True) if part is not None]
        by_graph = cotangents(summed(pairs), fresh)
        swaps: dict[Node, Node] = dict(zip(fresh, xs, strict=True))
        found = [None if y is None else replaced([y], swaps)[0] for y in by_graph]
        for i, function in enumerate(self.lop):
            if function is not None:
                found[i] = function(own, list(ys), list(g))
        return found

    def _pushed(self, tangents: Arrays, ys: Arrays, xs: Arrays) -> Arrays:
        own, moved = list(xs[: self.arguments]), list(tangents[: self.arguments])
        if not isinstance(self.rop, tuple):
            return _all_of(self.rop, own, moved)
        xs = xs[: len(self.graph.inputs)]
        fresh = [stand_in(x) for x in xs]
        made = replaced(self.graph.outputs, dict(zip(self.graph.inputs, fresh, strict=True)))
        pairs = zip(fresh, tangents, strict=False)
        by_graph = push(made, {x: t for x, t in pairs if t is not None})
        swaps: dict[Node, Node] = dict(zip(fresh, xs, strict=True))
        found = [None if y is None else replaced([y], swaps)[0] for y in by_graph]
        return [
            y if function is None else function(own, moved)
            for y, function in zip(found, self.rop, strict=True)
        ]


def _all_of(override: Any, *given: list[Any]) -> Arrays:
    """Call one function for all derivatives; an operation takes the arrays one by one."""
    if not isinstance(override, OpFromGraph):
        found = override(*given)
        if not isinstance(found, list | tuple):
            raise ArgumentError(
                f"OpFromGraph: a derivative of its own gave {found!r}.",
                "Return a list, with None where there is no derivative.",
            )
        return found
    made = override(*[x for group in given for x in group])
    return made if isinstance(made, list) else [made]
