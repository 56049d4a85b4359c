"""Special cases of a scan, with PyTensor's arguments: maps and folds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Unpack, overload

from graphc.loop.recurrence import ScanArguments
from graphc.loop.scan import check_options, scan, select_results
from graphc.loop.taps import sequence, state, to_list
from graphc.tensor.core.tensor import Tensor

if TYPE_CHECKING:
    from graphc.loop.signatures import (
        Backwards,
        FoldFunction,
        No,
        One,
        Other,
        Several,
        Truncated,
        Updates,
        Yes,
    )


def as_fold(function: Any) -> FoldFunction:
    """Declare the overloads of a fold."""
    return function  # type: ignore[no-any-return]


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
    """Apply a function to each element of a sequence, or of several sequences together.

    See ``scan`` for the arguments.

    Returns:
        The results, along a new axis 0; a list where the function returns several. With
        ``return_updates``, a pair of the results and a dict.

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
    """Return the last value of each output of a scan; the initial one if there are no steps.

    See ``scan`` for the arguments.

    Returns:
        An array, or a list. With ``return_updates``, a pair of the outputs and a dict.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> horner = graphc.reduce(lambda c, y: 10 * y + c, x, outputs_info=0.0)
        >>> float(horner.eval({x: [1.0, 2.0, 3.0]}, mode="NUMPY"))
        123.0
    """
    title = check_options(name, "reduce", mode, False)
    results = ScanArguments(
        title,
        fn,
        [sequence(title, i, x) for i, x in enumerate(to_list(sequences))],
        [state(title, i, x) for i, x in enumerate(to_list(outputs_info))],
        to_list(non_sequences),
        backwards=bool(go_backwards),
    ).run()
    return select_results(title, results, results.last_outputs(), False, return_updates)


@as_fold
def foldl(  # noqa: PLR0913, PLR0917 (PyTensor's arguments)
    fn: Callable[..., Any],
    sequences: Any,
    outputs_info: Any,
    non_sequences: Any = None,
    mode: None = None,
    name: str | None = None,
    return_updates: bool | None = None,
) -> Any:
    """Apply ``reduce`` from the first element to the last.

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


@as_fold
def foldr(  # noqa: PLR0913, PLR0917 (PyTensor's arguments)
    fn: Callable[..., Any],
    sequences: Any,
    outputs_info: Any,
    non_sequences: Any = None,
    mode: None = None,
    name: str | None = None,
    return_updates: bool | None = None,
) -> Any:
    """Apply ``reduce`` from the last element to the first.

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
