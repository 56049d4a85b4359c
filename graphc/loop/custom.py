"""Functions of symbolic arrays with user-defined derivatives."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from graphc.errors import ArgumentError
from graphc.ir import Graph, flatten, flatten_like, rebuild
from graphc.loop.step import stand_in
from graphc.loop.subgraph import Arrays, Subgraph, apply_subgraph
from graphc.tensor.core.tensor import as_tensor

F = TypeVar("F", bound=Callable[..., Any])


def custom_pullback(
    pullback: Callable[..., Any],
    pushforward: Callable[..., Any] | None = None,
    *,
    inline: bool = True,
) -> Callable[[F], F]:
    """Return a decorator that replaces a function's derivative.

    The derivative applies wherever the function is used: in a loop's step, in batches
    (``graphc.vectorize``), and in second derivatives, which differentiate ``pullback``.

    Args:
        pullback: A function of the gradient with respect to the result, the result and the
            arguments, as ``Op.pullback``. It returns the gradient with respect to each argument, or
            None where there is none; for one argument, it may return that gradient alone. If the
            function returns a tuple, list or dict, the first two arguments have its structure; a
            gradient with respect to integers is None. Keywords of the call are passed on.
        pushforward: The derivative in forward mode: a function of a tuple of the arguments'
            tangents, None where there is none, the result and the arguments, that returns the
            result's tangent. By default it follows from ``pullback``, which then must be linear in
            its first argument.
        inline: Whether the compiler expands the function. If not, it stays one operation with the
            function's name.

    Returns:
        A decorator for functions whose positional arguments are arrays; keywords are passed on
        unchanged. Other symbolic arrays that the function uses have no gradient through it: asking
        for one is an error.

    Raises:
        ArgumentError: If a function is not callable.

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
            results = function(*fresh, **keywords)
            ys = [as_tensor(y) for y in flatten(results)]
            rules = WrittenDerivatives(
                pullback, pushforward, len(xs), CallStructure(results, keywords)
            )
            label = getattr(function, "__name__", type(function).__name__)
            like = Subgraph(Graph([], []), len(xs), label, inline, rules)
            return rebuild(results, apply_subgraph(like, fresh, xs, ys))

        return call  # type: ignore[return-value]

    return decorate


def _check(function: Any) -> None:
    if not callable(function):
        raise ArgumentError(
            f"custom_pullback: {function!r} is not a function.",
            "Write @graphc.custom_pullback(pullback) above the function.",
        )


class CallStructure:
    """The nesting of results and the keywords of a call; compared by identity if any keywords."""

    def __init__(self, results: Any, keywords: dict[str, Any]) -> None:
        self.nested = rebuild(results, [*range(len(flatten(results)))])
        self.keywords = keywords
        self._identity: Any = object() if keywords else repr(self.nested)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CallStructure) and other._identity == self._identity

    def __hash__(self) -> int:
        return hash(self._identity)


@dataclass(frozen=True)
class WrittenDerivatives:
    """User-defined derivatives of a function of arrays.

    Attributes:
        backwards: The pullback, over containers of the function's structure.
        forwards: The pushforward, over containers of the function's structure, or None.
        arguments: The number of arguments.
        structure: The nesting of results and the keywords.
    """

    backwards: Callable[..., Any]
    forwards: Callable[..., Any] | None
    arguments: int
    structure: CallStructure

    @property
    def pullback(self) -> Callable[[Arrays, Arrays, Arrays], Arrays] | None:
        return self._pull_back

    @property
    def pushforward(self) -> Callable[[Arrays, Arrays, Arrays], Arrays] | None:
        return None if self.forwards is None else self._push_forward

    def _nest(self, arrays: Arrays) -> Any:
        return rebuild(self.structure.nested, list(arrays))

    def _pull_back(self, g: Arrays, ys: Arrays, xs: Arrays) -> Arrays:
        arguments = xs[: self.arguments]
        nested = self._nest(g), self._nest(ys)
        gradients = self.backwards(*nested, *arguments, **self.structure.keywords)
        gradients = gradients if isinstance(gradients, list | tuple) else [gradients]
        return [None if part is None else as_tensor(part) for part in gradients]

    def _push_forward(self, tangents: Arrays, ys: Arrays, xs: Arrays) -> Arrays:
        arguments, moved = xs[: self.arguments], tuple(tangents[: self.arguments])
        assert self.forwards is not None
        result = self.forwards(moved, self._nest(ys), *arguments, **self.structure.keywords)
        try:
            leaves = flatten_like(self.structure.nested, result)
        except ValueError as error:
            raise ArgumentError(
                f"The pushforward gave another structure than the function: {error}.",
                "Return the tangent of each result, None where there is none.",
            ) from error
        return [None if part is None else as_tensor(part) for part in leaves]
