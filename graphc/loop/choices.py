"""Choices as users write them: ``ifelse``, ``cond`` and ``switch_case``.

All make choices between arrays. ``sink.py`` moves the nodes that only one branch needs into it
before a graph is differentiated or compiled, so that they are computed only if it is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from graphc import ir
from graphc.errors import ArgumentError
from graphc.loop.arguments import call_user
from graphc.loop.branch import check_index, choice, common_type
from graphc.tensor.core.elementwise import not_equal
from graphc.tensor.core.tensor import WEAK, ArrayOrNumber, Tensor, as_tensor, operands

Result = TypeVar("Result")
"""A branch's result: a container of arrays, whose structure is preserved."""


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
    """Return one expression or another; only the chosen one is computed.

    Nodes that just one branch needs are computed only if it is chosen, and so are their gradients:
    the other branch adds zero to a gradient, never NaN. Nodes needed elsewhere are always computed.

    Args:
        condition: A bool scalar, or an integer scalar that is true where it is not 0.
        then_branch: An array, or a container of arrays (a list, tuple or dict).
        else_branch: A container of the same structure, with arrays of equal dtypes and ranks.
        name: The choice's name in messages.

    Returns:
        Arrays in the same container, with the static lengths that the branches share.

    Raises:
        DTypeError: If the condition is not a bool or integer scalar, or two arrays differ in dtype.
        ShapeError: If two arrays differ in rank.
        ArgumentError: If the branches are containers of different structure.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.scalar("x")
        >>> y = graphc.ifelse(x > 0, gt.log(x), x)
        >>> f = graphc.function([x], [y, graphc.grad(y, x)], mode="NUMPY")
        >>> [float(v) for v in f(-1.0)]
        [-1.0, 1.0]
    """
    title = f"ifelse {name!r}" if name else "ifelse"
    return _choose(title, _as_condition(title, condition), [else_branch, then_branch], like=1)


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
        pred: A bool scalar, or an integer scalar that is true where it is not 0.
        true_fun: A function of the operands that returns an array or a container of arrays.
        false_fun: A function with results of the same structure, dtypes and ranks.
        operands: Arrays, or containers of arrays.

    Returns:
        Arrays in the container that ``true_fun`` returns.

    Raises:
        DTypeError: If the condition is not a bool or integer scalar, or two results differ in
            dtype.
        ShapeError: If two results differ in rank.
        ArgumentError: If the results differ in structure.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> y = graphc.cond(x.sum() > 0, lambda x: {"y": gt.sqrt(x)}, lambda x: {"y": -x}, x)
        >>> y["y"].eval({x: [1.0, 4.0]}, mode="NUMPY").tolist()
        [1.0, 2.0]
    """
    index = _as_condition("cond", pred)
    arrays = _as_arrays(operands)
    return _choose("cond", index, _call_all("cond", [false_fun, true_fun], arrays), like=1)


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
        index: The function's number, an integer scalar; a number outside the range selects the
            nearest function, on every backend.
        branches: Functions of the operands that return an array or a container of arrays, all of
            equal structure, dtypes and ranks.
        operands: Arrays, or containers of arrays.

    Returns:
        Arrays in the container that the first function returns.

    Raises:
        DTypeError: If the index is not an integer scalar, or two results differ in dtype.
        ShapeError: If two results differ in rank.
        ArgumentError: If there are no branches, or their results differ in structure.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> i, x = gt.lscalar("i"), gt.scalar("x")
        >>> y = graphc.switch_case(i, [lambda x: x + 1, lambda x: 10 * x, gt.exp], x)
        >>> float(y.eval({i: 1, x: 2.0}, mode="NUMPY"))
        20.0
    """
    number = as_tensor(ir.unwrap(index))
    check_index("switch_case", number.type)
    functions = list(branches)
    if not functions:
        raise ArgumentError("switch_case: there are no branches.", "Give at least one function.")
    arrays = _as_arrays(operands)
    return _choose("switch_case", number, _call_all("switch_case", functions, arrays), like=0)


def _call_all(title: str, functions: Sequence[Callable[..., Any]], arguments: Sequence[Any]) -> Any:
    return [call_user(title, f, arguments, "the operands", "function") for f in functions]


def _as_arrays(operands: Sequence[Any]) -> Any:
    leaves = ir.flatten(operands)
    return ir.rebuild(operands, [x if isinstance(x, ir.Wrapper) else as_tensor(x) for x in leaves])


def _as_condition(title: str, condition: Any) -> Tensor:
    index = as_tensor(ir.unwrap(condition))
    check_index(title, index.type)
    return index if index.dtype == "bool" else not_equal(index, 0)


def _choose(title: str, index: Tensor, branches: Sequence[Any], like: int) -> Any:
    """Return a choice between the branches' results, in the container of branch ``like``."""
    model = branches[like]
    leaves = [_leaves_like(title, model, branch) for branch in branches]
    label = None if title == "ifelse" else title
    choices: list[Any] = []
    for first, *values in zip(ir.flatten(model), *leaves, strict=True):
        ys = _unify_dtypes(title, [ir.unwrap_pair(first, y)[1] for y in values])
        common_type(title, ys)
        same = all(y is ys[0] for y in ys)
        choices.append(ir.wrap_like(first, ys[0] if same else choice(index, *ys, label=label)))
    return ir.rebuild(model, choices)


def _leaves_like(title: str, model: Any, branch: Any) -> list[Any]:
    try:
        leaves = ir.flatten_like(model, branch)
    except ValueError as error:
        raise _structure_error(title, model, branch) from error
    if any(ir.is_container(x) for x in leaves):
        raise _structure_error(title, model, branch)
    return leaves


def _structure_error(title: str, model: Any, branch: Any) -> ArgumentError:
    return ArgumentError(
        f"{title}: one branch gives {model!r}, another {branch!r}: their structures differ.",
        "Give containers of the same kinds, lengths and keys.",
    )


def _unify_dtypes(title: str, values: Sequence[Any]) -> list[Tensor]:
    """Convert values to arrays; a Python number takes the others' dtype if that can hold it."""
    strong = [as_tensor(x) for x in values if not isinstance(x, WEAK)]
    if not strong:
        return operands(title, values)[0]
    return [
        operands(title, [strong[0], x])[0][1] if isinstance(x, WEAK) else as_tensor(x)
        for x in values
    ]
