"""Special cases of a scan, with PyTensor's arguments: a map, and the last values of a fold."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Unpack, overload

from graphc.loop.recurrence import Recurrence
from graphc.loop.scan import arranged, checked_title, scan
from graphc.loop.taps import listed, sequence, state
from graphc.tensor.core.tensor import Tensor

if TYPE_CHECKING:
    from graphc.loop.signatures import (
        Backwards,
        Named,
        No,
        One,
        Other,
        Several,
        Truncated,
        Updates,
        Yes,
    )


@overload
def map(
    fn: One,
    sequences: Any,
    non_sequences: Any = None,
    *,
    return_updates: No | None = None,
    **options: Unpack[Truncated],
) -> Tensor: ...


@overload
def map(
    fn: Several,
    sequences: Any,
    non_sequences: Any = None,
    *,
    return_updates: No | None = None,
    **options: Unpack[Truncated],
) -> list[Tensor]: ...


@overload
def map(
    fn: Other,
    sequences: Any,
    non_sequences: Any = None,
    *,
    return_updates: No | None = None,
    **options: Unpack[Truncated],
) -> Any: ...


@overload
def map(
    fn: Callable[..., Any],
    sequences: Any,
    non_sequences: Any = None,
    *,
    return_updates: Yes,
    **options: Unpack[Truncated],
) -> tuple[Any, Updates]: ...


def map(  # noqa: PLR0913, PLR0917 (PyTensor's arguments)
    fn: Callable[..., Any],
    sequences: Any,
    non_sequences: Any = None,
    truncate_gradient: int = -1,
    go_backwards: bool = False,
    mode: None = None,
    name: str | None = None,
    return_updates: bool | None = None,
) -> Any:
    """A function of each element, or of those of several sequences together.

    Args are as for ``scan``.

    Returns:
        The results, along a new axis 0; a list of them where the function returns several.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.matrix("x")
        >>> largest = graphc.map(lambda row: row.max(), x)
        >>> largest.eval({x: [[1.0, 2.0], [4.0, 3.0]]}, mode="NUMPY").tolist()
        [2.0, 4.0]
    """
    return scan(
        fn,
        sequences,
        None,
        non_sequences,
        truncate_gradient=truncate_gradient,
        go_backwards=go_backwards,
        mode=mode,
        name=name or "map",
        return_updates=return_updates,  # type: ignore[arg-type]
    )


@overload
def reduce(
    fn: One,
    sequences: Any,
    outputs_info: Any,
    non_sequences: Any = None,
    *,
    return_updates: No | None = None,
    **options: Unpack[Backwards],
) -> Tensor: ...


@overload
def reduce(
    fn: Several,
    sequences: Any,
    outputs_info: Any,
    non_sequences: Any = None,
    *,
    return_updates: No | None = None,
    **options: Unpack[Backwards],
) -> list[Tensor]: ...


@overload
def reduce(
    fn: Other,
    sequences: Any,
    outputs_info: Any,
    non_sequences: Any = None,
    *,
    return_updates: No | None = None,
    **options: Unpack[Backwards],
) -> Any: ...


@overload
def reduce(
    fn: Callable[..., Any],
    sequences: Any,
    outputs_info: Any,
    non_sequences: Any = None,
    *,
    return_updates: Yes,
    **options: Unpack[Backwards],
) -> tuple[Any, Updates]: ...


def reduce(  # noqa: PLR0913, PLR0917 (PyTensor's arguments)
    fn: Callable[..., Any],
    sequences: Any,
    outputs_info: Any,
    non_sequences: Any = None,
    go_backwards: bool = False,
    mode: None = None,
    name: str | None = None,
    return_updates: bool | None = None,
) -> Any:
    """The last value of each output of a scan; that before the first step where there is none.

    Args are as for ``scan``.

    Returns:
        An array, or a list of them. With ``return_updates``, a pair of that and of a dict.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> horner = graphc.reduce(lambda c, y: 10 * y + c, x, outputs_info=0.0)
        >>> float(horner.eval({x: [1.0, 2.0, 3.0]}, mode="NUMPY"))
        123.0
    """
    title = checked_title(name, "reduce", mode, False)
    found = Recurrence(
        title,
        fn,
        [sequence(title, i, x) for i, x in enumerate(listed(sequences))],
        [state(title, i, x) for i, x in enumerate(listed(outputs_info))],
        listed(non_sequences),
        backwards=bool(go_backwards),
    ).run()
    return arranged(title, found, found.last(), False, return_updates)


@overload
def foldl(
    fn: One,
    sequences: Any,
    outputs_info: Any,
    non_sequences: Any = None,
    *,
    return_updates: No | None = None,
    **options: Unpack[Named],
) -> Tensor: ...


@overload
def foldl(
    fn: Several,
    sequences: Any,
    outputs_info: Any,
    non_sequences: Any = None,
    *,
    return_updates: No | None = None,
    **options: Unpack[Named],
) -> list[Tensor]: ...


@overload
def foldl(
    fn: Other,
    sequences: Any,
    outputs_info: Any,
    non_sequences: Any = None,
    *,
    return_updates: No | None = None,
    **options: Unpack[Named],
) -> Any: ...


@overload
def foldl(
    fn: Callable[..., Any],
    sequences: Any,
    outputs_info: Any,
    non_sequences: Any = None,
    *,
    return_updates: Yes,
    **options: Unpack[Named],
) -> tuple[Any, Updates]: ...


def foldl(  # noqa: PLR0913, PLR0917 (PyTensor's arguments)
    fn: Callable[..., Any],
    sequences: Any,
    outputs_info: Any,
    non_sequences: Any = None,
    mode: None = None,
    name: str | None = None,
    return_updates: bool | None = None,
) -> Any:
    """``reduce`` from the first element to the last; its arguments are as there.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> y = graphc.foldl(lambda x_t, y: y / x_t, x, outputs_info=1.0)
        >>> float(y.eval({x: [2.0, 4.0]}, mode="NUMPY"))
        0.125
    """
    return reduce(  # type: ignore[call-overload]
        fn, sequences, outputs_info, non_sequences, False, mode, name or "foldl", return_updates
    )


@overload
def foldr(
    fn: One,
    sequences: Any,
    outputs_info: Any,
    non_sequences: Any = None,
    *,
    return_updates: No | None = None,
    **options: Unpack[Named],
) -> Tensor: ...


@overload
def foldr(
    fn: Several,
    sequences: Any,
    outputs_info: Any,
    non_sequences: Any = None,
    *,
    return_updates: No | None = None,
    **options: Unpack[Named],
) -> list[Tensor]: ...


@overload
def foldr(
    fn: Other,
    sequences: Any,
    outputs_info: Any,
    non_sequences: Any = None,
    *,
    return_updates: No | None = None,
    **options: Unpack[Named],
) -> Any: ...


@overload
def foldr(
    fn: Callable[..., Any],
    sequences: Any,
    outputs_info: Any,
    non_sequences: Any = None,
    *,
    return_updates: Yes,
    **options: Unpack[Named],
) -> tuple[Any, Updates]: ...


def foldr(  # noqa: PLR0913, PLR0917 (PyTensor's arguments)
    fn: Callable[..., Any],
    sequences: Any,
    outputs_info: Any,
    non_sequences: Any = None,
    mode: None = None,
    name: str | None = None,
    return_updates: bool | None = None,
) -> Any:
    """``reduce`` from the last element to the first; its arguments are as there.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> y = graphc.foldr(lambda x_t, y: x_t - y, x, outputs_info=0.0)
        >>> float(y.eval({x: [10.0, 3.0, 1.0]}, mode="NUMPY"))
        8.0
    """
    return reduce(  # type: ignore[call-overload]
        fn, sequences, outputs_info, non_sequences, True, mode, name or "foldr", return_updates
    )
