"""Choices as users write them: ``ifelse``, ``cond`` and ``switch_case``.

All make plain choices between arrays. What only one branch needs is computed if that one is chosen:
``sink.py`` moves it there before a graph is differentiated or compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from graphc.errors import ArgumentError
from graphc.ir import (
    Wrapper,
    flatten,
    flatten_like,
    is_container,
    rebuild,
    unwrapped,
    unwrapped_pair,
    wrapped,
)
from graphc.loop.arguments import called
from graphc.loop.branch import check_index, choice, common_type
from graphc.tensor.core.elementwise import not_equal
from graphc.tensor.core.tensor import WEAK, ArrayOrNumber, Tensor, as_tensor, operands

Result = TypeVar("Result")
"""What a branch gives: a container of arrays, which stays as it is."""


@overload
def ifelse(
    condition: ArrayOrNumber,
    then_branch: ArrayOrNumber,
    else_branch: ArrayOrNumber,
    name: str | None = None,
) -> Tensor: ...


@overload
def ifelse(
    condition: ArrayOrNumber, then_branch: Result, else_branch: Result, name: str | None = None
) -> Result: ...


def ifelse(condition: Any, then_branch: Any, else_branch: Any, name: str | None = None) -> Any:
    """One expression or another, of which only the chosen one is computed.

    What just one branch needs is computed if that branch is chosen, and so is its gradient: the
    other one adds zero to it, never NaN. What is needed elsewhere too is computed at any rate.

    Args:
        condition: A bool scalar, or an integer one that is true where it is not 0.
        then_branch: An array, or a container of them (a list, tuple or dict).
        else_branch: The same of as many arrays, each of its partner's dtype and rank.
        name: What messages call it.

    Returns:
        Arrays in the same container. A length is known where it is the same in both.

    Raises:
        DTypeError: The condition is not a bool or integer scalar, or two arrays differ in dtype.
        ShapeError: The ranks of two arrays differ.
        ArgumentError: The branches are containers of different structure.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.scalar("x")
        >>> y = graphc.ifelse(x > 0, gt.log(x), x)
        >>> f = graphc.function([x], [y, graphc.grad(y, x)], mode="NUMPY")
        >>> [float(v) for v in f(-1.0)]
        [-1.0, 1.0]
    """
    title = f"ifelse {name!r}" if name else "ifelse"
    return _chosen(title, _condition(title, condition), [else_branch, then_branch], like=1)


@overload
def cond(
    pred: ArrayOrNumber,
    true_fun: Callable[..., ArrayOrNumber],
    false_fun: Callable[..., ArrayOrNumber],
    *operands: Any,
) -> Tensor: ...


@overload
def cond(
    pred: ArrayOrNumber,
    true_fun: Callable[..., Result],
    false_fun: Callable[..., Result],
    *operands: Any,
) -> Result: ...


def cond(
    pred: Any,
    true_fun: Callable[..., Any],
    false_fun: Callable[..., Any],
    *operands: Any,
) -> Any:
    """Apply one of two functions; only the chosen one is computed.

    The gradient is the chosen function's. Functions may use variables from around them.

    Args:
        pred: A bool scalar, or an integer one that is true where it is not 0.
        true_fun: Takes the operands and gives an array or a container of arrays.
        false_fun: The same, with results of equal structure, dtypes and ranks.
        operands: Arrays, or containers of them.

    Returns:
        Arrays in the container that ``true_fun`` gives.

    Raises:
        DTypeError: The condition is not a bool or integer scalar, or dtypes of results differ.
        ShapeError: The ranks of two results differ.
        ArgumentError: The results differ in structure.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> y = graphc.cond(x.sum() > 0, lambda x: {"y": gt.sqrt(x)}, lambda x: {"y": -x}, x)
        >>> y["y"].eval({x: [1.0, 4.0]}, mode="NUMPY").tolist()
        [1.0, 2.0]
    """
    index = _condition("cond", pred)
    given = _arrays(operands)
    return _chosen("cond", index, _results("cond", [false_fun, true_fun], given), like=1)


@overload
def switch_case(
    index: ArrayOrNumber, branches: Sequence[Callable[..., ArrayOrNumber]], *operands: Any
) -> Tensor: ...


@overload
def switch_case(
    index: ArrayOrNumber, branches: Sequence[Callable[..., Result]], *operands: Any
) -> Result: ...


def switch_case(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """Apply one of several functions; only the chosen one is computed.

    Args:
        index: Which function, an integer scalar; one beyond the ends counts as the nearest, on
            every backend.
        branches: Functions that take the operands and give an array or a container of arrays, all
            of equal structure, dtypes and ranks.
        operands: Arrays, or containers of them.

    Returns:
        Arrays in the container that the first function gives.

    Raises:
        DTypeError: The index is not an integer scalar, or dtypes of results differ.
        ShapeError: The ranks of two results differ.
        ArgumentError: There are no branches, or their results differ in structure.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> i, x = gt.lscalar("i"), gt.scalar("x")
        >>> y = graphc.switch_case(i, [lambda x: x + 1, lambda x: 10 * x, gt.exp], x)
        >>> float(y.eval({i: 1, x: 2.0}, mode="NUMPY"))
        20.0
    """
    number = as_tensor(unwrapped(index))
    check_index("switch_case", number.type)
    functions = list(branches)
    if not functions:
        raise ArgumentError("switch_case: there are no branches.", "Give at least one function.")
    given = _arrays(operands)
    return _chosen("switch_case", number, _results("switch_case", functions, given), like=0)


def _results(title: str, functions: Sequence[Callable[..., Any]], given: Sequence[Any]) -> Any:
    return [called(title, f, given, "the operands", "function") for f in functions]


def _arrays(operands: Sequence[Any]) -> Any:
    given = flatten(operands)
    return rebuild(operands, [x if isinstance(x, Wrapper) else as_tensor(x) for x in given])


def _condition(title: str, condition: Any) -> Tensor:
    index = as_tensor(unwrapped(condition))
    check_index(title, index.type)
    return index if index.dtype == "bool" else not_equal(index, 0)


def _chosen(title: str, index: Tensor, branches: Sequence[Any], like: int) -> Any:
    """One of the branches' results, in the container of one of them."""
    model = branches[like]
    parts = [_in_order(title, model, branch) for branch in branches]
    label = None if title == "ifelse" else title
    found: list[Any] = []
    for first, *values in zip(flatten(model), *parts, strict=True):
        ys = _of_one_dtype(title, [unwrapped_pair(first, y)[1] for y in values])
        common_type(title, ys)
        same = all(y is ys[0] for y in ys)
        found.append(wrapped(first, ys[0] if same else choice(index, *ys, label=label)))
    return rebuild(model, found)


def _in_order(title: str, model: Any, branch: Any) -> list[Any]:
    """The values in a container, in the order of one of the same structure."""
    try:
        values = flatten_like(model, branch)
    except ValueError as error:
        raise _unlike(title, model, branch) from error
    if any(is_container(x) for x in values):
        raise _unlike(title, model, branch)
    return values


def _unlike(title: str, model: Any, branch: Any) -> ArgumentError:
    return ArgumentError(
        f"{title}: one branch gives {model!r}, another {branch!r}: their structures differ.",
        "Give containers of the same kinds, lengths and keys.",
    )


def _of_one_dtype(title: str, values: Sequence[Any]) -> list[Tensor]:
    """The values as arrays; a Python number takes the dtype of the others where that holds it."""
    strong = [as_tensor(x) for x in values if not isinstance(x, WEAK)]
    if not strong:
        return operands(title, values)[0]
    return [
        operands(title, [strong[0], x])[0][1] if isinstance(x, WEAK) else as_tensor(x)
        for x in values
    ]
