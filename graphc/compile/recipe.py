"""What a function is asked to be: its inputs, outputs, updates and givens, checked."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from graphc.compile.arguments import In, Out, goes_into, is_weak
from graphc.compile.mode import Mode
from graphc.compile.pipeline import Asked
from graphc.compile.shared import Shared
from graphc.errors import ArgumentError, DTypeError, UnusedInputError
from graphc.implicit.expand import expanded
from graphc.implicit.node import ImplicitTensor
from graphc.ir import (
    Constant,
    Graph,
    Input,
    Leaf,
    Node,
    flatten,
    gathered,
    here,
    rebuild,
    refuse_missing,
    replaced,
    toposort,
    where,
)
from graphc.loop.subgraph import inlined
from graphc.tensor import Tensor, as_tensor

__all__ = [
    "OnUnused",
    "Recipe",
    "Returns",
    "as_in",
    "as_output",
    "asked_of",
    "check_givens",
    "check_inputs",
    "clone_replace",
    "givens_of",
    "updates_of",
]

OnUnused = Literal["raise", "warn", "ignore"]
Returns = Literal["native", "numpy"]


@dataclass(frozen=True)
class Recipe:
    """What a function was asked to be: enough to make it again."""

    inputs: tuple[Any, ...]
    outputs: Any
    updates: tuple[tuple[Shared, Tensor], ...]
    mode: Mode
    name: str | None
    returns: Returns


def as_in(x: Any, allow_downcast: bool | None) -> In:
    """An input as the user gave it, as an ``In``."""
    wanted = x if isinstance(x, In) else In(x)
    variable = wanted.variable
    if not isinstance(variable, Tensor) or isinstance(variable.op, Constant | Leaf):
        is_array = hasattr(variable, "shape") and not isinstance(variable, Tensor)
        more = "; of a BlockMask, with mask.variables(name)" if is_array else ""
        raise ArgumentError(
            f"The input {variable!r} is no symbolic variable.",
            f"Make inputs with gt.scalar, gt.vector, gt.matrix, gt.tensor{more}.",
            where(here()),
        )
    if isinstance(variable, Shared):
        raise ArgumentError(
            f"The input {variable!r} is a shared variable, which has its own value.",
            "Leave it out; replace it with givens=[(variable, expression)] to pass a value.",
            where(here()),
        )
    if wanted.allow_downcast is None and allow_downcast is not None:
        return replace(wanted, allow_downcast=allow_downcast)
    return wanted


def as_output(y: Any) -> Tensor:
    """An output as the user gave it, as a symbolic array."""
    y = y.variable if isinstance(y, Out) else y
    try:
        return as_tensor(y)  # type: ignore[no-any-return]
    except DTypeError as error:
        raise ArgumentError(
            f"The output {y!r} is no symbolic array: {error.problem}", "", where(here())
        ) from error


def _pairs(given: Any, what: str) -> list[tuple[Any, Any]]:
    if given is None:
        return []
    pairs = list(given.items() if isinstance(given, Mapping) else _listed(given))
    if [pair for pair in pairs if not isinstance(pair, tuple | list) or len(pair) != 2]:
        raise ArgumentError(
            f"{what}={given!r}: pairs of a variable and an expression, or a dict, are wanted.",
            "",
            where(here()),
        )
    return [(old, new) for old, new in pairs]


def _listed(given: Any) -> Iterable[Any]:
    return given if isinstance(given, list | tuple) or hasattr(given, "__next__") else [given]


def _is_of_type(new: Tensor, old: Tensor) -> bool:
    """Whether it may take the other's place: no known length is another's."""
    pairs = zip(new.type.shape, old.type.shape, strict=False)
    return (
        new.dtype == old.dtype
        and new.ndim == old.ndim
        and not [1 for n, m in pairs if n is not None and m is not None and n != m]
    )


def givens_of(givens: Any) -> dict[Node, Node]:
    """What stands in the place of what."""
    swaps: dict[Node, Node] = {}
    for old, new in _pairs(givens, "givens"):
        new = as_tensor(new)
        if not isinstance(old, Tensor) or not _is_of_type(new, old):
            raise DTypeError(
                f"givens: {new!r} can't stand for {old!r}.",
                "Give it the same dtype, rank and lengths.",
                where(here()),
            )
        swaps[old] = new
        if isinstance(old, ImplicitTensor) and new.op == old.op:
            # A gradient reads the fields themselves.
            pairs = zip(old.inputs, new.inputs, strict=True)
            swaps.update({x: y for x, y in pairs if isinstance(x.op, Input)})
    return swaps


def check_givens(swaps: Mapping[Node, Node], ends: Sequence[Node], ins: Sequence[In]) -> None:
    """Raise where fields are read on their own of an implicit array that another stands for."""
    whole = [x for x in swaps if isinstance(x, ImplicitTensor) and x.op != swaps[x].op]
    if not whole:
        return
    needed = {*toposort(ends)} - {x.variable for x in ins} - {*swaps}
    for x in whole:
        left = [field for field in x.inputs if isinstance(field.op, Input) and field in needed]
        if left:
            raise ArgumentError(
                f"givens: {swaps[x]!r} can't stand for {x!r} here: the graph, perhaps a gradient, "
                f"reads {left[0]!r} on its own.",
                "Give an implicit array of the same form, or replace it before differentiating.",
                where(here()),
            )


def updates_of(updates: Any, swaps: Mapping[Node, Node]) -> tuple[tuple[Shared, Tensor], ...]:
    """Shared variables and their new values, the givens put in."""
    result: dict[Shared, Tensor] = {}
    for variable, new in _pairs(updates, "updates"):
        for x, y in _by_field(variable, new, swaps):
            if x in result:
                raise ArgumentError(f"updates: {x!r} comes twice.", "", where(here()))
            result[x] = y
    return tuple(result.items())


def _by_field(variable: Any, new: Any, swaps: Mapping[Node, Node]) -> Iterable[tuple[Any, Any]]:
    """An update of a shared variable, or those of an implicit one's fields."""
    if not isinstance(variable, ImplicitTensor):
        return [(variable, replaced([_updated(variable, new)], swaps)[0])]
    (made,) = expanded(replaced([as_tensor(new)], swaps))
    if made.op != variable.op:
        raise ArgumentError(
            f"updates: {variable.array!r} can't become {_form(made)}, which has not that form.",
            "Update its fields, as updates={w.array.scale: ...}, or keep the form in what is "
            "computed: a whole array is never put in its place.",
            made.where,
        )
    pairs = zip(variable.inputs, made.inputs, strict=True)
    return [(field, _updated(field, value)) for field, value in pairs]


def _form(x: Node) -> str:
    return repr(x.array if isinstance(x, ImplicitTensor) else x)


def _updated(variable: Any, new: Any) -> Tensor:
    """A shared variable's new value, of its type."""
    if not isinstance(variable, Shared):
        raise ArgumentError(
            f"updates: {variable!r} is no shared variable.",
            "Make it with graphc.shared(value).",
            where(here()),
        )
    if not isinstance(new, Tensor) and goes_into(np.asarray(new), variable.type, is_weak(new)):
        new = as_tensor(new, dtype=variable.dtype)
    new = as_tensor(new)
    if not _is_of_type(new, variable):
        raise DTypeError(
            f"updates: {variable!r} can't become {new!r}.",
            f"Give it the same dtype, rank and lengths, as with .astype({variable.dtype!r}).",
            where(here()),
        )
    return new  # type: ignore[no-any-return]


def check_inputs(
    ins: Sequence[In],
    outputs: Sequence[Node],
    on_unused: OnUnused,
    implicit: Sequence[ImplicitTensor] = (),
    wholes: Sequence[Sequence[Node]] = (),
) -> None:
    """Raise where inputs are missing, come twice or are not used.

    Of those that are implicit, or values of one object with static fields, one that is used is
    enough.
    """
    if on_unused not in {"raise", "warn", "ignore"}:
        raise ArgumentError(f"on_unused_input={on_unused!r}: it is 'raise', 'warn' or 'ignore'.")
    variables = [wanted.variable for wanted in ins]
    given = set(variables)
    if len(given) != len(variables):
        twice = next(x for x in given if variables.count(x) > 1)
        raise ArgumentError(f"The input {twice!r} comes twice.", "", where(here()))
    needed = toposort(outputs, given)
    missing = [x for x in needed if isinstance(x.op, Input) and not isinstance(x, Shared)]
    refuse_missing(missing, variables)
    used = {x for node in needed for x in node.inputs}.union(outputs)
    together = [*[x.inputs for x in implicit], *wholes]
    used.update(*[values for values in together if not used.isdisjoint(values)])
    for x in variables:
        if x not in used and on_unused != "ignore":
            whole = next((y for y in implicit if x in y.inputs), None)
            subject = repr(x) if whole is None else f"{whole.name}: {whole.array!r}"
            message = f"No output depends on the input {subject}."
            if on_unused == "raise":
                raise UnusedInputError(
                    message, "Leave it out, or pass on_unused_input='ignore'.", where(here())
                )
            warnings.warn(message, stacklevel=3)


def asked_of(recipe: Recipe, variables: list[Node]) -> tuple[list[Shared], Asked]:
    """The shared variables, and the graph of all that a function takes and gives."""
    outputs = flatten(recipe.outputs) if recipe.outputs is not None else []
    ends = [*outputs, *(new for _, new in recipe.updates)]
    # A computed node that is an input is nothing but an input here, or a rewrite of something
    # else could give that very node.
    cut: dict[Node, Node] = {
        x: Node.input(x.type) for x in variables if not isinstance(x.op, Input)
    }
    if cut:
        ends = replaced(ends, cut)
        variables = [cut.get(x, x) for x in variables]
    found = [x for x in toposort(ends, variables) if isinstance(x, Shared)]
    shared = sorted({*found, *(x for x, _ in recipe.updates)}, key=lambda x: x.serial)
    places = {x: len(variables) + i for i, x in enumerate(shared)}
    asked = Asked(
        # Whatever rules there are, of branches only the chosen one is computed.
        Graph([*variables, *shared], gathered(inlined(ends, variables), variables)),
        len(variables),
        tuple([places[x] for x, _ in recipe.updates]),
        isinstance(recipe.outputs, Tensor) and not recipe.updates,
        recipe.mode,
    )
    return shared, asked


def clone_replace(
    output: Any, replace: Iterable[tuple[Any, Any]] | Mapping[Any, Any] | None = None
) -> Any:
    """A graph with parts replaced by others.

    Args:
        output: A symbolic array, or a nested list, tuple or dict of them.
        replace: Pairs, or a dict, of parts of the graph and what stands in their place, of the
            same dtype and rank.

    Returns:
        The structure of ``output``.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x, y = gt.scalars("x", "y")
        >>> graphc.clone_replace(gt.exp(x), {x: y}) is gt.exp(y)
        True
    """
    return rebuild(output, replaced(flatten(output), givens_of(replace)))
