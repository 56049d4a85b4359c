"""Loops over containers, of a given number of steps or until a condition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from graphc import ir
from graphc.errors import ArgumentError, DTypeError, ShapeError
from graphc.loop.arguments import (
    Count,
    call_user,
    number_of_steps,
    stop_condition,
    title_of,
    unrolling,
)
from graphc.loop.build import ENDLESS, build
from graphc.loop.carries import after, is_number, settle_dtypes, share_lengths
from graphc.loop.checkpoint import Checkpoint, build_in_segments, segment_length
from graphc.loop.draws import advance_keys, carry_variables
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
    """Apply a step repeatedly to a carry and to the elements of sequences.

    Carry, sequences and rows are arrays, or tuples, lists, dicts, named tuples and dataclasses of
    arrays; None is an empty container. A step may use any symbolic array from outside.

    Args:
        step: A function of the carry and an element of ``xs`` (None without ``xs``) that returns
            the next carry, of the same structure, and a row of the stacked results or None.
        init: The initial carry. Python numbers in it take the dtype that a step gives them.
        xs: Sequences of equal length, with the steps along axis 0.
        n_steps: The number of steps, an integer, also symbolic; by default the length of ``xs``.
        until: A function of the carry after a step that returns a bool scalar: whether that step
            is the last.
        max_steps: With ``until``, the largest number of steps, if neither ``xs`` nor ``n_steps``
            limits it. Without a limit there are no stacked results and no gradient.
        reverse: Go from the last element to the first; rows keep the order of the elements.
        checkpoint: The number of steps between carries stored for the gradient, which recomputes
            the other steps; ``"sqrt"`` for the square root of the number of steps.
        unroll: The number of steps that a backend may unroll.
        name: The loop's name in messages.

    Returns:
        The final carry, and the rows along a new axis 0, None where a step returns None. With
        ``until``, there are rows for the steps done only.

    Raises:
        ArgumentError: If the number of steps is unknown, a step does not return a pair, or the
            carry's structure changes.
        DTypeError: If a step changes a carry's dtype, or a condition is not bool.
        ShapeError: If a step changes a carry's shape, or sequences differ in length.

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
    title = title_of(name, "loop")
    sequences = [_as_array(title, "sequence", x) for x in _leaves(xs)]
    n = _step_count(title, sequences, n_steps, until is not None, max_steps)
    elements = _check_lengths(title, sequences, n) if sequences else []
    # The steps before a stop are the first ones, so sequences are reversed instead.
    flipped = reverse and until is not None
    if flipped:
        elements = [flip(x, 0) for x in elements]
    like = Loop(
        ir.Graph([], []),
        reverse=reverse and not flipped and bool(sequences),
        unroll=unrolling(title, unroll),
        label=title,
    )
    tracer = _ContainerStepTracer(title, step, init, xs, until)
    first, traced, draws = settle_dtypes(tracer.first, lambda init: tracer.trace(init, elements))
    if n == ENDLESS and traced.rows:
        raise ArgumentError(
            f"{title}: rows are stacked, and nothing says how many there can be.",
            "Give the most steps there can be: max_steps=..., or return None in place of a row.",
        )
    carries, full_step = carry_variables(first, traced, draws)
    results = _build_loop(like, n, checkpoint, carries, elements, full_step)
    advance_keys(draws, dict(zip(draws, results[len(first) :], strict=False)))
    rows = results[len(carries) :]
    wrappers = [x for x in ir.flatten(xs) if isinstance(x, ir.Wrapper)]
    if until is not None:
        rows = [y[: results[-1]] for y in rows[:-1]]
    if flipped:
        rows = [flip(y, 0) for y in rows]
    final = _fill(init, _with_kinds(first, results))
    return final, _fill(traced.like_rows, rows, wrappers)


def while_loop(
    cond: Callable[[Any], Any],
    body: Callable[[Any], Carry],
    init: Any,
    max_steps: Any = None,
    name: str | None = None,
) -> Carry:
    """Apply a body to a carry while a condition holds, which is checked before each step.

    Args:
        cond: A function of the carry that returns a bool scalar.
        body: A function of the carry that returns the next one, of the same structure.
        init: The initial carry: an array, or a tuple, list, dict, named tuple or dataclass. Python
            numbers in it take the dtype that the body gives them.
        max_steps: The largest number of steps; an integer, also symbolic. A gradient needs it to
            store the carries.
        name: The loop's name in messages.

    Returns:
        The final carry: ``init`` if the condition does not hold initially.

    Raises:
        ArgumentError: If the body changes the carry's structure.
        DTypeError: If the body changes a carry's dtype, or the condition is not bool.
        ShapeError: If the body changes a carry's shape.
        GradientError: If a gradient passes through the loop and ``max_steps`` is None.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> a, b = gt.lscalars("a", "b")
        >>> divisor, _ = graphc.while_loop(
        ...     lambda pair: pair[1] > 0, lambda pair: (pair[1], pair[0] % pair[1]), (a, b)
        ... )
        >>> int(divisor.eval({a: 12, b: 18}, mode="NUMPY"))
        6
    """
    title = title_of(name, "while_loop")
    limit = number_of_steps(title, max_steps, "max_steps")
    n = ENDLESS if limit is None else limit

    def step(carry: Any, _: None) -> tuple[Any, None]:
        return call_user(title, body, [carry], "the carry", "body"), None

    def goes_on(carry: Any) -> Tensor:
        return stop_condition(title, call_user(title, cond, [carry], "the carry", "condition"))

    def ends(carry: Any) -> Tensor:
        return logical_not(goes_on(carry))

    tracer = _ContainerStepTracer(title, step, init, None, ends)
    first, traced, draws = settle_dtypes(tracer.first, lambda init: tracer.trace(init, []))
    count = choose(goes_on(_fill(init, first)), as_tensor(n, dtype="int64"), 0)
    like = Loop(ir.Graph([], []), label=title)
    carries, full_step = carry_variables(first, traced, draws)
    results = build(like, n, count, carries, [], full_step)
    advance_keys(draws, dict(zip(draws, results[len(first) :], strict=False)))
    return _fill(init, _with_kinds(first, results))  # type: ignore[no-any-return]


@dataclass(frozen=True, kw_only=True)
class _ContainerStep(LoopStep):
    """A step over arrays, traced from containers; ``like_rows`` has the structure of its row."""

    like_rows: Any


class _ContainerStepTracer:
    """A user's step over containers, which can be traced as a step over arrays."""

    def __init__(
        self,
        title: str,
        step: Callable[[Any, Any], Any],
        init: Any,
        xs: Any,
        until: Callable[[Any], Any] | None,
    ) -> None:
        self.title, self.step, self.init, self.xs, self.until = title, step, init, xs, until
        self.first = [x if is_number(x) else _as_array(title, "carry", x) for x in _leaves(init)]
        self.names = _names(init)

    def trace(self, init: Sequence[Tensor], xs: Sequence[Tensor]) -> _ContainerStep:
        carries = [stand_in(x, name or x.name) for x, name in zip(init, self.names, strict=True)]
        elements = [stand_in(x, x.name and f"{x.name}[t]", 1) for x in xs]
        remaining = iter(elements)
        element = [
            x if x is None else _wrap_element(x, next(remaining)) for x in ir.flatten(self.xs)
        ]
        arguments = [_fill(self.init, carries), ir.rebuild(self.xs, element)]
        result = call_user(self.title, self.step, arguments, "the carry, an element of xs or None")
        if not isinstance(result, list | tuple) or len(result) != 2:
            raise ArgumentError(
                f"{self.title}: a step returns {result!r}.",
                "Return a pair: the next carry, and a row of the stacked results or None.",
            )
        following, row = result
        nexts = [
            share_lengths(_as_array(self.title, "carry after a step", y, x), x)
            for x, y in zip(carries, self._arrays_of_carry(following), strict=True)
        ]
        rows = [_as_array(self.title, "row of a step", y) for y in _leaves(row)]
        stop = None
        if self.until is not None:
            after_step = [_fill(self.init, _with_kinds(init, nexts))]
            ends = call_user(self.title, self.until, after_step, "the carry", "condition")
            stop = stop_condition(self.title, ends)
        return _ContainerStep(carries, elements, nexts, rows, stop, like_rows=row)

    def _arrays_of_carry(self, carry: Any) -> list[Any]:
        try:
            leaves = ir.flatten_like(self.init, carry)
            for x, y in zip(ir.flatten(self.init), leaves, strict=True):
                if (x is None) != (y is None) or ir.is_container(y):
                    raise ValueError(f"{x!r} was there, and {y!r} is")
        except ValueError as error:
            raise ArgumentError(
                f"{self.title}: the carry after a step has another structure: {error}.",
                "Return it with the same keys, lengths and classes as it has at first.",
            ) from error
        pairs = map(ir.unwrap_pair, ir.flatten(self.init), leaves)
        return [y for _, y in pairs if y is not None]


def _build_loop(
    like: Loop,
    n: Count,
    checkpoint: Checkpoint,
    init: list[Tensor],
    xs: list[Tensor],
    step: LoopStep,
) -> list[Tensor]:
    if step.stop is None:
        k = segment_length(like.title, checkpoint, n)
        return build_in_segments(like, k, n, init, xs, step)
    if checkpoint is not None:
        raise ArgumentError(
            f"{like.title}: both checkpoint= and until=.",
            "Do a number of steps that is known before, or leave checkpoint= out.",
        )
    return build(like, n, None, init, xs, step)


def _step_count(
    title: str, xs: Sequence[Tensor], n_steps: Any, stops: bool, max_steps: Any
) -> Count:
    steps = number_of_steps(title, n_steps)
    limit = number_of_steps(title, max_steps, "max_steps")
    if limit is not None and (steps is not None or not stops):
        raise ArgumentError(
            f"{title}: max_steps={max_steps!r} {'and n_steps' if stops else 'without until'}.",
            "Give n_steps alone.",
        )
    if steps is None and limit is None:
        lengths = [length(x, 0) for x in xs]
        static = [n for n in lengths if isinstance(n, int)]
        if lengths:
            return (static or lengths)[0]
        if stops:
            return ENDLESS
        raise ArgumentError(
            f"{title}: neither xs nor n_steps says how many steps there are.",
            "Give n_steps=..., or until=... and max_steps=....",
        )
    return steps if limit is None else limit  # type: ignore[return-value]


def _check_lengths(title: str, xs: Sequence[Tensor], n: Count) -> list[Tensor]:
    sequences = []
    for i, x in enumerate(xs):
        available = length(x, 0)
        subject = f"{title}: the sequence {i}" + (f" ({x.name})" if x.name else "")
        if isinstance(available, int) and isinstance(n, int) and available != n:
            raise ShapeError(
                f"{subject} has {available} elements for {n} steps.",
                f"Cut it, x[:{n}], or do {available} steps.",
            )
        sequences.append(x if available is n else rows_of(subject, x, n))
    return sequences


def _leaves(container: Any) -> list[Any]:
    return [x for x in ir.flatten(container) if x is not None]


def _names(container: Any) -> list[str | None]:
    """Return names for the arrays of a carry in messages: paths from ``carry``, if it is nested."""
    if not ir.is_container(container):
        return [] if container is None else [None]
    values = ir.flatten(container)
    return [p for p, x in zip(ir.paths(container, "carry"), values, strict=True) if x is not None]


def _with_kinds(like: Sequence[Any], values: Sequence[Tensor]) -> list[Tensor]:
    return [of_kind(x, y) for x, y in zip(like, values, strict=False)]


def _fill(like: Any, values: Sequence[Any], along: Sequence[ir.Wrapper] | None = None) -> Any:
    """Fill a container; ``along`` are the wrapped sequences if the values are rows of a loop."""
    remaining = iter(values)

    def fill(x: Any) -> Any:
        if x is None:
            return None
        if along is None or not isinstance(x, ir.Wrapper):
            return ir.wrap_like(x, next(remaining))
        return x.rows(next(remaining), along)

    return ir.rebuild(like, [fill(x) for x in ir.flatten(like)])


def _wrap_element(x: Any, element: Tensor) -> Any:
    return x.element(element) if isinstance(x, ir.Wrapper) else element


def _as_array(title: str, what: str, x: Any, like: Tensor | None = None) -> Tensor:
    try:
        y = after(ir.unwrap(x), like)
    except DTypeError as error:
        raise ArgumentError(
            f"{title}: {x!r} in a {what} is not an array.",
            "Use arrays and numbers, in tuples, lists, dicts and dataclasses.",
        ) from error
    if what == "sequence" and not y.ndim:
        raise ShapeError(
            f"{title}: a sequence is a scalar, {y!r}.",
            "A sequence has its steps on axis 0; what every step takes is used as it is.",
        )
    return y


def over_each(op: ir.Op, size: Any, batched: Sequence[bool], inputs: Sequence[Tensor]) -> Any:
    """Apply an operation on one element to each element of a batch of inputs."""
    wide = tuple(x for x, flag in zip(inputs, batched, strict=True) if flag)

    def step(_: None, elements: Sequence[Tensor]) -> tuple[None, Any]:
        remaining = iter(elements)
        xs = [next(remaining) if flag else x for x, flag in zip(inputs, batched, strict=True)]
        y = ir.Node.make(op, *xs)
        return None, tuple(ir.picks(y)) if isinstance(y.type, ir.TupleType) else y

    return loop(step, None, wide, n_steps=size, name=f"batch of {op.name}")[1]
