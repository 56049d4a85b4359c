"""Functions of symbolic arrays with derivatives of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from graphc.errors import ArgumentError
from graphc.ir import Graph, flatten, flatten_like, rebuild
from graphc.loop.step import stand_in
from graphc.loop.subgraph import Arrays, Subgraph, applied
from graphc.tensor.core.tensor import as_tensor

F = TypeVar("F", bound=Callable[..., Any])


def custom_pullback(
    pullback: Callable[..., Any],
    pushforward: Callable[..., Any] | None = None,
    *,
    inline: bool = True,
) -> Callable[[F], F]:
    """A decorator: the function has this derivative, whatever it computes.

    The gradient holds wherever the function is used: in a loop's step, in batches
    (``graphc.vectorize``), and in a gradient's gradient, which is that of what ``pullback``
    computes.

    Args:
        pullback: Takes the gradient by the result, the result and the arguments, as
            ``Op.pullback`` does, and gives the gradient by each argument, None where there is none;
            of one argument, it may give that gradient itself. Where the function gives a tuple,
            list or dict, the first two are such, too; a gradient by integers is None. The
            function's keywords are passed on, if there are any.
        pushforward: The derivative in forward mode: takes the arguments' tangents in a tuple, None
            where there is none, the result and the arguments, and gives the result's tangent. By
            default it follows from ``pullback``, which then must be linear in its first argument.
        inline: Whether what the function computes takes its place when it is compiled; if not, it
            stays one operation of the function's name.

    Returns:
        What decorates a function. Its positional arguments are arrays; keywords are passed on as
        they are. What else it uses of symbolic arrays has no gradient through it: to ask for one
        is an error.

    Raises:
        ArgumentError: What is to be a function is none.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> @graphc.custom_pullback(lambda g, y, x: g)
        ... def rounded(x):
        ...     return gt.round(x)
        >>> x = gt.scalar("x")
        >>> f = graphc.function([x], [rounded(x), graphc.grad(rounded(x) ** 2, x)], mode="NUMPY")
        >>> [float(y) for y in f(2.7)]
        [3.0, 6.0]
    """
    _check(pullback)
    if pushforward is not None:
        _check(pushforward)

    def decorate(function: F) -> F:
        _check(function)

        @functools.wraps(function)
        def call(*arguments: Any, **keywords: Any) -> Any:
            xs = [as_tensor(x) for x in arguments]
            fresh = [stand_in(x, x.name) for x in xs]
            made = function(*fresh, **keywords)
            ys = [as_tensor(y) for y in flatten(made)]
            own = WrittenDerivatives(pullback, pushforward, len(xs), CallStructure(made, keywords))
            label = getattr(function, "__name__", type(function).__name__)
            like = Subgraph(Graph([], []), len(xs), label, inline, own)
            return rebuild(made, applied(like, fresh, xs, ys))

        return call  # type: ignore[return-value]

    return decorate


def _check(function: Any) -> None:
    if not callable(function):
        raise ArgumentError(
            f"custom_pullback: {function!r} is not a function.",
            "Write @graphc.custom_pullback(pullback) above the function.",
        )


class CallStructure:
    """The nesting of results and the keywords of a call; compared by identity if there are any."""

    def __init__(self, made: Any, keywords: dict[str, Any]) -> None:
        self.nested = rebuild(made, [*range(len(flatten(made)))])
        self.keywords = keywords
        self._identity: Any = object() if keywords else repr(self.nested)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CallStructure) and other._identity == self._identity

    def __hash__(self) -> int:
        return hash(self._identity)


@dataclass(frozen=True)
class WrittenDerivatives:
    """Derivatives as functions of what the user's function takes and gives.

    Attributes:
        backwards: From the gradient by the result to those by the arguments.
        forwards: From the arguments' tangents to the result's.
        arguments: How many arguments there are.
        structure: Nesting and keywords of its calls.
    """

    backwards: Callable[..., Any]
    forwards: Callable[..., Any] | None
    arguments: int
    structure: CallStructure

    @property
    def pullback(self) -> Callable[[Arrays, Arrays, Arrays], Arrays] | None:
        return self._pulled_back

    @property
    def pushforward(self) -> Callable[[Arrays, Arrays, Arrays], Arrays] | None:
        return None if self.forwards is None else self._pushed

    def _nested(self, arrays: Arrays) -> Any:
        return rebuild(self.structure.nested, list(arrays))

    def _pulled_back(self, g: Arrays, ys: Arrays, xs: Arrays) -> Arrays:
        given = xs[: self.arguments]
        nested = self._nested(g), self._nested(ys)
        found = self.backwards(*nested, *given, **self.structure.keywords)
        parts = found if isinstance(found, list | tuple) else [found]
        return [None if part is None else as_tensor(part) for part in parts]

    def _pushed(self, tangents: Arrays, ys: Arrays, xs: Arrays) -> Arrays:
        given, moved = xs[: self.arguments], tuple(tangents[: self.arguments])
        assert self.forwards is not None
        found = self.forwards(moved, self._nested(ys), *given, **self.structure.keywords)
        try:
            parts = flatten_like(self.structure.nested, found)
        except ValueError as error:
            raise ArgumentError(
                f"The pushforward gave another structure than the function: {error}.",
                "Return the tangent of each result, None where there is none.",
            ) from error
        return [None if part is None else as_tensor(part) for part in parts]
