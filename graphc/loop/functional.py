"""Loops over containers: a step of a carry and an element, to its end or until a condition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from graphc.errors import ArgumentError, DTypeError, ShapeError
from graphc.ir import (
    Graph,
    Wrapper,
    flatten,
    flatten_like,
    is_container,
    paths,
    rebuild,
    unwrapped,
    unwrapped_pair,
    wrapped,
)
from graphc.loop.arguments import Count, called, number_of_steps, stopping, titled, unrolled
from graphc.loop.build import ENDLESS, build
from graphc.loop.carries import after, fitted, is_number, settled
from graphc.loop.checkpoint import Checkpoint, looped, segment
from graphc.loop.draws import advanced, carrying
from graphc.loop.loop import Loop
from graphc.loop.step import LoopStep, of_kind, stand_in
from graphc.loop.taps import rows_of
from graphc.tensor.arrays.index import flip
from graphc.tensor.core.elementwise import logical_not, where as choose
from graphc.tensor.core.shape import length
from graphc.tensor.core.tensor import Tensor, as_tensor

Carry = TypeVar("Carry")
Rows = TypeVar("Rows")


def loop(  # noqa: PLR0913, PLR0917
    step: Callable[[Any, Any], tuple[Carry, Rows]],
    init: Any,
    xs: Any = None,
    n_steps: Any = None,
    until: Callable[[Any], Any] | None = None,
    max_steps: Any = None,
    reverse: bool = False,
    checkpoint: Checkpoint = None,
    unroll: int | None = None,
    name: str | None = None,
) -> tuple[Carry, Rows]:
    """A step applied over and over to a carry, with an element of the sequences each time.

    Carry, sequences and rows are arrays, or tuples, lists, dicts, named tuples and dataclasses of
    them; None is a container of nothing. A step may use any symbolic array from outside.

    Args:
        step: Takes the carry and an element of ``xs``, None where there are none; returns the
            carry after it, of the same structure, and a row of the stacked results, or None.
        init: The carry at first. Python's numbers in it take the dtype that a step gives them.
        xs: Sequences, whose axis 0 is the steps, all of the same length.
        n_steps: How many steps, an integer, also symbolic; by default as many as ``xs`` has.
        until: Takes the carry after a step, and says whether that step is the last: a bool scalar.
        max_steps: With ``until``, the most steps there can be, where neither ``xs`` nor
            ``n_steps`` says it. Without a bound there are no stacked results and no gradient.
        reverse: Walk from the last element to the first; rows stand where their elements do.
        checkpoint: Store carries for the gradient only after so many steps, and do the steps
            between again; ``"sqrt"`` for the square root of the number of steps.
        unroll: How many steps a backend may write out at a time.
        name: What messages call it.

    Returns:
        The carry at the end, and the rows along a new axis 0, None where a step gives none. With
        ``until`` the rows are those of the steps done.

    Raises:
        ArgumentError: No way to know the number of steps; a step that returns no pair, or a carry
            of another structure.
        DTypeError: A carry whose dtype is another after a step; a condition that is not a bool.
        ShapeError: A carry whose shape is another after a step; sequences of other lengths.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> def step(carry, x_t):
        ...     count, total = carry["count"] + 1, carry["total"] + x_t
        ...     return {"count": count, "total": total}, total / count
        >>> final, means = graphc.loop(step, {"count": 0, "total": 0.0}, x)
        >>> f = graphc.function([x], [final["total"], means], mode="NUMPY")
        >>> [y.tolist() for y in f([1.0, 3.0, 8.0])]
        [12.0, [1.0, 2.0, 4.0]]
    """
    title = titled(name, "loop")
    leaves = [_array(title, "sequence", x) for x in _leaves(xs)]
    n = _steps(title, leaves, n_steps, until is not None, max_steps)
    elements = _cut(title, leaves, n) if leaves else []
    # Steps that stop count from the start.
    turned = reverse and until is not None
    if turned:
        elements = [flip(x, 0) for x in elements]
    like = Loop(
        Graph([], []),
        reverse=reverse and not turned and bool(leaves),
        unroll=unrolled(title, unroll),
        label=title,
    )
    writing = _StepOfContainers(title, step, init, xs, until)
    first, traced, draws = settled(writing.first, lambda init: writing.traced(init, elements))
    if n == ENDLESS and traced.rows:
        raise ArgumentError(
            f"{title}: rows are stacked, and nothing says how many there can be.",
            "Give the most steps there can be: max_steps=..., or return None in place of a row.",
        )
    begun, wider = carrying(first, traced, draws)
    found = _run(like, n, checkpoint, begun, elements, wider)
    advanced(draws, dict(zip(draws, found[len(first) :], strict=False)))
    rows = found[len(begun) :]
    along = [x for x in flatten(xs) if isinstance(x, Wrapper)]
    if until is not None:
        rows = [y[: found[-1]] for y in rows[:-1]]
    if turned:
        rows = [flip(y, 0) for y in rows]
    filled = _filled(init, _of_kinds(first, found))
    return filled, _filled(traced.like_rows, rows, along)


def while_loop(
    cond: Callable[[Any], Any],
    body: Callable[[Any], Carry],
    init: Any,
    max_steps: Any = None,
    name: str | None = None,
) -> Carry:
    """A body applied to a carry while a condition holds, which is checked before each step.

    Args:
        cond: Takes the carry; returns a bool scalar.
        body: Takes the carry; returns the next one, of the same structure.
        init: The carry at first: an array, or a tuple, list, dict, named tuple or dataclass.
            Python's numbers in it take the dtype that the body gives them.
        max_steps: End after so many steps in any case; an integer, also symbolic. A gradient needs
            it, as it stores what the steps did.
        name: What messages call it.

    Returns:
        The carry at the end: ``init`` where the condition does not hold at first.

    Raises:
        ArgumentError: A carry of another structure after the body.
        DTypeError: A carry whose dtype is another after the body; a condition that is not a bool.
        ShapeError: A carry whose shape is another after the body.
        GradientError: When a gradient goes through it and there are no ``max_steps``.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> a, b = gt.lscalars("a", "b")
        >>> divisor, _ = graphc.while_loop(
        ...     lambda pair: pair[1] > 0, lambda pair: (pair[1], pair[0] % pair[1]), (a, b)
        ... )
        >>> int(divisor.eval({a: 12, b: 18}, mode="NUMPY"))
        6
    """
    title = titled(name, "while_loop")
    most = number_of_steps(title, max_steps, "max_steps")
    n = ENDLESS if most is None else most

    def step(carry: Any, _: None) -> tuple[Any, None]:
        return called(title, body, [carry], "the carry", "body"), None

    def goes_on(carry: Any) -> Tensor:
        return stopping(title, called(title, cond, [carry], "the carry", "condition"))

    def ends(carry: Any) -> Tensor:
        return logical_not(goes_on(carry))

    writing = _StepOfContainers(title, step, init, None, ends)
    first, traced, draws = settled(writing.first, lambda init: writing.traced(init, []))
    count = choose(goes_on(_filled(init, first)), as_tensor(n, dtype="int64"), 0)
    like = Loop(Graph([], []), label=title)
    begun, wider = carrying(first, traced, draws)
    found = build(like, n, count, begun, [], wider)
    advanced(draws, dict(zip(draws, found[len(first) :], strict=False)))
    return _filled(init, _of_kinds(first, found))  # type: ignore[no-any-return]


@dataclass(frozen=True, kw_only=True)
class _ContainerStep(LoopStep):
    """A step of containers as one of arrays.

    Attributes:
        like_rows: The container of the rows.
    """

    like_rows: Any


class _StepOfContainers:
    """A user's step of containers, which it traces as a step of arrays."""

    def __init__(
        self,
        title: str,
        step: Callable[[Any, Any], Any],
        init: Any,
        xs: Any,
        until: Callable[[Any], Any] | None,
    ) -> None:
        self.title, self.step, self.init, self.xs, self.until = title, step, init, xs, until
        self.first = [x if is_number(x) else _array(title, "carry", x) for x in _leaves(init)]
        self.names = _names(init)

    def traced(self, init: Sequence[Tensor], xs: Sequence[Tensor]) -> _ContainerStep:
        """The step for a first carry and sequences of these types."""
        carries = [stand_in(x, name or x.name) for x, name in zip(init, self.names, strict=True)]
        elements = [stand_in(x, x.name and f"{x.name}[t]", 1) for x in xs]
        own = iter(elements)
        element = [x if x is None else _element(x, next(own)) for x in flatten(self.xs)]
        arguments = [_filled(self.init, carries), rebuild(self.xs, element)]
        given = called(self.title, self.step, arguments, "the carry, an element of xs or None")
        if not isinstance(given, list | tuple) or len(given) != 2:
            raise ArgumentError(
                f"{self.title}: a step returns {given!r}.",
                "Return a pair: the next carry, and a row of the stacked results or None.",
            )
        following, row = given
        nexts = [
            fitted(_array(self.title, "carry after a step", y, x), x)
            for x, y in zip(carries, self._matched(following), strict=True)
        ]
        rows = [_array(self.title, "row of a step", y) for y in _leaves(row)]
        stop = None
        if self.until is not None:
            given = [_filled(self.init, _of_kinds(init, nexts))]
            ends = called(self.title, self.until, given, "the carry", "condition")
            stop = stopping(self.title, ends)
        return _ContainerStep(carries, elements, nexts, rows, stop, like_rows=row)

    def _matched(self, given: Any) -> list[Any]:
        """The arrays of a carry after a step, in the order of the first one."""
        try:
            found = flatten_like(self.init, given)
            for x, y in zip(flatten(self.init), found, strict=True):
                if (x is None) != (y is None) or is_container(y):
                    raise ValueError(f"{x!r} was there, and {y!r} is")
        except ValueError as error:
            raise ArgumentError(
                f"{self.title}: the carry after a step has another structure: {error}.",
                "Return it with the same keys, lengths and classes as it has at first.",
            ) from error
        pairs = map(unwrapped_pair, flatten(self.init), found)
        return [y for _, y in pairs if y is not None]


def _run(
    like: Loop,
    n: Count,
    checkpoint: Checkpoint,
    init: list[Tensor],
    xs: list[Tensor],
    step: LoopStep,
) -> list[Tensor]:
    if step.stop is None:
        k = segment(like.title, checkpoint, n)
        return looped(like, k, n, init, xs, step)
    if checkpoint is not None:
        raise ArgumentError(
            f"{like.title}: both checkpoint= and until=.",
            "Do a number of steps that is known before, or leave checkpoint= out.",
        )
    return build(like, n, None, init, xs, step)


def _steps(title: str, xs: Sequence[Tensor], n_steps: Any, stops: bool, max_steps: Any) -> Count:
    """The number of steps, or the most there can be."""
    given = number_of_steps(title, n_steps)
    most = number_of_steps(title, max_steps, "max_steps")
    if most is not None and (given is not None or not stops):
        raise ArgumentError(
            f"{title}: max_steps={max_steps!r} {'and n_steps' if stops else 'without until'}.",
            "Give n_steps alone.",
        )
    if given is None and most is None:
        lengths = [length(x, 0) for x in xs]
        known = [n for n in lengths if isinstance(n, int)]
        if lengths:
            return (known or lengths)[0]
        if stops:
            return ENDLESS
        raise ArgumentError(
            f"{title}: neither xs nor n_steps says how many steps there are.",
            "Give n_steps=..., or until=... and max_steps=....",
        )
    return given if most is None else most  # type: ignore[return-value]


def _cut(title: str, xs: Sequence[Tensor], n: Count) -> list[Tensor]:
    """The sequences, each of as many elements as there are steps."""
    found = []
    for i, x in enumerate(xs):
        have = length(x, 0)
        subject = f"{title}: the sequence {i}" + (f" ({x.name})" if x.name else "")
        if isinstance(have, int) and isinstance(n, int) and have != n:
            raise ShapeError(
                f"{subject} has {have} elements for {n} steps.",
                f"Cut it, x[:{n}], or do {have} steps.",
            )
        found.append(x if have is n else rows_of(subject, x, n))
    return found


def _leaves(container: Any) -> list[Any]:
    return [x for x in flatten(container) if x is not None]


def _names(container: Any) -> list[str | None]:
    """Names for the arrays of a carry in messages: how a step reads them, if there are several."""
    if not is_container(container):
        return [] if container is None else [None]
    values = flatten(container)
    return [p for p, x in zip(paths(container, "carry"), values, strict=True) if x is not None]


def _of_kinds(like: Sequence[Any], values: Sequence[Tensor]) -> list[Tensor]:
    """The first of some values, as arrays of the classes of others."""
    return [of_kind(x, y) for x, y in zip(like, values, strict=False)]


def _filled(like: Any, values: Sequence[Any], along: Sequence[Wrapper] | None = None) -> Any:
    """Values in the structure of a container and in its wrappers; its Nones stay.

    Args:
        like: The container.
        values: The values.
        along: Where they are rows of a loop, the sequences that it goes along.
    """
    left = iter(values)

    def filled(x: Any) -> Any:
        if x is None:
            return None
        if along is None or not isinstance(x, Wrapper):
            return wrapped(x, next(left))
        return x.rows(next(left), along)

    return rebuild(like, [filled(x) for x in flatten(like)])


def _element(x: Any, element: Tensor) -> Any:
    """An element of a sequence as a step gets it."""
    return x.element(element) if isinstance(x, Wrapper) else element


def _array(title: str, what: str, x: Any, like: Tensor | None = None) -> Tensor:
    try:
        found = after(unwrapped(x), like)
    except DTypeError as error:
        raise ArgumentError(
            f"{title}: {x!r} in a {what} is not an array.",
            "Use arrays and numbers, in tuples, lists, dicts and dataclasses.",
        ) from error
    if what == "sequence" and not found.ndim:
        raise ShapeError(
            f"{title}: a sequence is a scalar, {found!r}.",
            "A sequence has its steps on axis 0; what every step takes is used as it is.",
        )
    return found
