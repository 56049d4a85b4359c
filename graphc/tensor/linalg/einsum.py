"""Einstein summation: products of any number of arrays over any axes, written with letters."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, ShapeError
from graphc.tensor.arrays.diagonal import MatrixDiagonal
from graphc.tensor.arrays.reduce import Any_, Sum
from graphc.tensor.core.axes import moveaxis, transpose
from graphc.tensor.core.shape import length
from graphc.tensor.core.specify import specify_shape
from graphc.tensor.core.tensor import Tensor, TensorLike, as_tensor, function, operands
from graphc.tensor.linalg.dot import contract_axes, without_ones

__all__ = ["einsum"]

Label = str | int
"""An axis: a letter, or a negative number from the end for an axis of the ellipsis."""

Step = tuple[int, int]
"""The indices of two factors to multiply: the arrays come first, then the results in order."""

REST = "..."
UNKNOWN = 100
"""The assumed value of an unknown length where costs are compared."""

EXACT = 7
"""The most factors whose best order is found by trying all: 3 ** 7 / 2 pairs."""


@function
def einsum(subscripts: Any, *operands: TensorLike, optimize: Any = None) -> Tensor:
    """Return sums of products of arrays whose axes are named by letters.

    Equal letters are matched; those missing from the output are summed over. A letter repeated
    within one array takes its diagonal. ``...`` stands for the axes without a letter, which
    broadcast. Without ``->``, the output has the axes of ``...`` and the letters that occur once,
    in alphabetical order. Products are made in pairs, in the order that takes the fewest
    multiplications as far as lengths are known.

    Args:
        subscripts: Letters for each array, as ``"ij,jk->ik"``; or the first array, where lists of
            integers stand behind each array and the output's list, if any, at the end.
        operands: The arrays.
        optimize: The order of the products: the best by default; ``"greedy"`` for a good one found
            sooner, ``"optimal"`` for the best however many arrays there are, False for the order
            given, or a path as ``np.einsum_path`` gives it.

    Returns:
        An array of the operands' common dtype; sums of bool are logical or.

    Raises:
        ArgumentError: Invalid subscripts or an invalid path.
        ShapeError: Letters that do not fit the arrays, or lengths that differ.

    Example:
        >>> import graphc.tensor as gt
        >>> a, b = gt.tensor(shape=(5, 2, 3)), gt.tensor(shape=(5, 3, 4))
        >>> einsum("bij,bjk->bik", a, b).type
        float64[5, 2, 4]
    """
    terms, output, arrays = _parse(subscripts, operands)
    if len(terms) != len(arrays):
        raise ArgumentError(
            f"einsum: got subscripts for {len(terms)} arrays and {len(arrays)} arrays.",
            "Write the subscripts of each array, with commas between.",
        )
    xs = _of_one_dtype(arrays)
    labels = [_axis_labels(term, x, i) for i, (term, x) in enumerate(zip(terms, xs, strict=True))]
    out = _output_labels(labels, output)
    sizes = _label_lengths(labels, xs)
    for i, x in enumerate(xs):
        xs[i], labels[i] = _take_diagonals(x, labels[i])
    xs, labels = without_ones(xs, labels, [*sizes])
    return _multiply(xs, labels, out, _steps(optimize, labels, out, sizes))


def _of_one_dtype(arrays: Sequence[Any]) -> list[Tensor]:
    return operands("einsum", [as_tensor(x) for x in arrays])[0]


# Parsing.


def _parse(
    subscripts: Any, arrays: Sequence[Any]
) -> tuple[list[list[str]], list[str] | None, Sequence[Any]]:
    """Return the letters of each array, the output's letters if stated, and the arrays."""
    if isinstance(subscripts, str):
        inputs, arrow, output = "".join(subscripts.split()).partition("->")
        return [_letters(t) for t in inputs.split(",")], _letters(output) if arrow else None, arrays
    alternating = [subscripts, *arrays]
    pairs = len(alternating) // 2
    if not pairs:
        raise ArgumentError(
            "einsum: expected subscripts, or arrays and lists of axes.",
            'Write einsum("ij,jk->ik", a, b), or einsum(a, [0, 1], b, [1, 2], [0, 2]).',
        )
    lists = [_from_numbers(axes) for axes in alternating[1 : 2 * pairs : 2]]
    rest = alternating[2 * pairs :]
    return lists, _from_numbers(rest[0]) if rest else None, alternating[: 2 * pairs : 2]


def _letters(term: str) -> list[str]:
    labels = re.findall(r"\.\.\.|.", term)
    wrong = [x for x in labels if x != REST and not re.fullmatch("[A-Za-z]", x)]
    if wrong or labels.count(REST) > 1:
        raise ArgumentError(
            f"einsum: {wrong[0]!r} in {term!r} is not a letter."
            if wrong
            else f"einsum: '...' is repeated in {term!r}.",
            "Axes are letters, a to z and A to Z, and '...' once for all others.",
        )
    return labels


def _from_numbers(axes: Any) -> list[str]:
    """Return the letters for numbered axes, in alphabetical order: A to Z, then a to z."""
    letters = []
    for axis in axes if isinstance(axes, list | tuple) else [axes]:
        number = isinstance(axis, int | np.integer) and not isinstance(axis, bool)
        if axis is not Ellipsis and not (number and 0 <= axis < 52):
            raise ArgumentError(
                f"einsum: {axis!r} does not name an axis.",
                "Axes are lists of integers from 0 to 51, or an Ellipsis.",
            )
        letter = REST if axis is Ellipsis else chr(ord("A") + axis + (6 if axis > 25 else 0))
        letters.append(letter)
    return _letters("".join(letters))


def _axis_labels(term: Sequence[str], x: Tensor, i: int) -> list[Label]:
    """Return the labels of an array's axes; axes of the ellipsis are counted from the end."""
    rest = x.ndim - len([label for label in term if label != REST])
    if rest < 0 or (rest and REST not in term):
        raise ShapeError(
            f"einsum: the subscripts {''.join(term)!r} have {len(term) - (REST in term)} letters, "
            f"and the array {i} has {x.ndim} axes: {x!r}.",
            "Write a letter for each axis, or '...' for those that stay as they are.",
        )
    labels: list[Label] = []
    for label in term:
        labels += range(-rest, 0) if label == REST else [label]
    return labels


def _output_labels(labels: Sequence[Sequence[Label]], output: Sequence[str] | None) -> list[Label]:
    every = [label for names in labels for label in names]
    rest = sorted({label for label in every if isinstance(label, int)})
    if output is None:
        return [*rest, *sorted({x for x in every if isinstance(x, str) and every.count(x) == 1})]
    wrong = [x for x in output if output.count(x) > 1 or (x != REST and x not in every)]
    if wrong or (rest and REST not in output):
        raise ArgumentError(
            f"einsum: the output {''.join(output)!r} "
            + (f"repeats {wrong[0]!r}, or no array has it." if wrong else "lacks the '...'."),
            "The output has letters of the arrays, each once, and '...' where an array has it.",
        )
    result: list[Label] = []
    for label in output:
        result += rest if label == REST else [label]
    return result


def _label_lengths(
    labels: Sequence[Sequence[Label]], xs: Sequence[Tensor]
) -> dict[Label, int | None]:
    """Return the length of each label: 1 if it broadcasts, None if unknown."""
    sizes: dict[Label, int | None] = {}
    for names, x in zip(labels, xs, strict=True):
        for label, n in zip(names, x.type.shape, strict=True):
            size = sizes.setdefault(label, n)
            if size in {1, None} and n != 1:
                sizes[label] = n if n is not None or size == 1 else size
            if n not in {1, None} and sizes[label] != n:
                raise ShapeError(
                    f"einsum: the axis {label!r} has the lengths {size} and {n}.",
                    "Make them equal, or one of them 1.",
                )
    return sizes


def _take_diagonals(x: Tensor, labels: list[Label]) -> tuple[Tensor, list[Label]]:
    """Take the diagonals of repeated labels, so that each label has one axis."""
    for label in labels:
        if labels.count(label) == 1:
            continue
        i = labels.index(label)
        j = labels.index(label, i + 1)
        x = _diagonal(x, i, j, label)
        rest = [other for k, other in enumerate(labels) if k not in {i, j}]
        return _take_diagonals(x, [*rest, label])
    return x, labels


def _diagonal(x: Tensor, i: int, j: int, label: Label) -> Tensor:
    """Return the elements at equal positions of both axes, along a new last axis."""
    n, m = x.type.shape[i], x.type.shape[j]
    if n != m and n is not None and m is not None:
        raise ShapeError(
            f"einsum: the axis {label!r} of {x!r} has the lengths {n} and {m}.",
            "A repeated letter needs equal lengths; a 1 does not broadcast there.",
        )
    x = moveaxis(x, (i, j), (-2, -1))
    # Checks at run time that both lengths are equal, where one is unknown.
    size = length(x, -2 if n is not None else -1)
    square = specify_shape(x, [*[None] * (x.ndim - 2), size, size])
    return Tensor.make(MatrixDiagonal(0), square)


# The order of the products.


def _steps(
    optimize: Any,
    labels: Sequence[Collection[Label]],
    out: Collection[Label],
    sizes: Mapping[Label, int | None],
) -> list[Step]:
    n = len(labels)
    estimates = {x: UNKNOWN if size is None else size for x, size in sizes.items()}
    match optimize:
        case False:
            return _number_steps([tuple(range(n))], n)
        case "optimal":
            return _best(labels, out, estimates)
        case "greedy":
            return _greedy(labels, out, estimates)
        case None | True | "auto":
            return (_best if n <= EXACT else _greedy)(labels, out, estimates)
        case ["einsum_path", *path]:
            return _number_steps(path, n)
    raise ArgumentError(
        f"einsum: unknown optimize={optimize!r}.",
        "Use None, 'greedy', 'optimal', False, or the path of np.einsum_path.",
    )


def _number_steps(path: Sequence[Sequence[int]], n: int) -> list[Step]:
    """Convert NumPy's path, which appends each result to the remaining arrays, to steps."""
    remaining = list(range(n))
    steps: list[Step] = []
    for positions in path:
        if not positions or not set(positions) <= {*range(len(remaining))}:
            raise ArgumentError(
                f"einsum: {tuple(positions)} in the path are not positions among "
                f"{len(remaining)} arrays.",
                "Use the path that np.einsum_path gives for these subscripts.",
            )
        first, *others = [remaining[i] for i in sorted(positions)]
        for other in others:
            steps.append((first, other))
            first = n + len(steps) - 1
        remaining = [x for i, x in enumerate(remaining) if i not in positions] + [first]
    for other in remaining[1:]:
        steps.append((remaining[0], other))
        remaining[0] = n + len(steps) - 1
    return steps


def _cost(labels: Collection[Label], sizes: Mapping[Label, int]) -> int:
    return math.prod(sizes[x] for x in labels)


def _best(
    labels: Sequence[Collection[Label]], out: Collection[Label], sizes: Mapping[Label, int]
) -> list[Step]:
    """Return the order with the fewest multiplications, from the best order of each subset."""
    n = len(labels)
    outer: dict[int, set[Label]] = {}
    cost: dict[int, tuple[int, int]] = {}
    for members in range(1, 2**n):
        inside = {x for i in range(n) if members >> i & 1 for x in labels[i]}
        outside = {x for i in range(n) if not members >> i & 1 for x in labels[i]}
        outer[members] = inside & (outside | {*out})
        part = (members - 1) & members
        cost[members] = (0, 0)
        options = []
        while part:
            rest = members ^ part
            if part > rest:
                product_cost = _cost(outer[part] | outer[rest], sizes)
                options.append((cost[part][0] + cost[rest][0] + product_cost, part))
            part = (part - 1) & members
        if options:
            cost[members] = min(options)
    steps: list[Step] = []

    def append_steps(members: int) -> int:
        part = cost[members][1]
        if not part:
            return members.bit_length() - 1
        steps.append((append_steps(members ^ part), append_steps(part)))
        return n + len(steps) - 1

    append_steps(2**n - 1)
    return steps


def _greedy(
    labels: Sequence[Collection[Label]], out: Collection[Label], sizes: Mapping[Label, int]
) -> list[Step]:
    """Return the order that always multiplies the pair whose product adds the fewest elements."""
    live = {i: {*names} for i, names in enumerate(labels)}
    added: dict[Step, tuple[int, int]] = {}
    steps: list[Step] = []

    def left_of(a: int, b: int) -> set[Label]:
        others = {x for i, names in live.items() if i not in {a, b} for x in names}
        return (live[a] | live[b]) & (others | {*out})

    def enter(a: int, b: int) -> None:
        gain = _cost(left_of(a, b), sizes) - _cost(live[a], sizes) - _cost(live[b], sizes)
        added[a, b] = gain, _cost(live[a] | live[b], sizes)

    for a, b in combinations(live, 2):
        enter(a, b)
    while len(live) > 1:
        a, b = min(added, key=added.__getitem__)
        names = left_of(a, b)
        del live[a], live[b]
        added = {pair: gain for pair, gain in added.items() if {a, b}.isdisjoint(pair)}
        new = len(labels) + len(steps)
        steps.append((a, b))
        live[new] = names
        for other in [i for i in live if i != new]:
            enter(other, new)
    return steps


# The products.


def _multiply(
    xs: Sequence[Tensor],
    labels: Sequence[list[Label]],
    out: list[Label],
    steps: Sequence[Step],
) -> Tensor:
    arrays = list(xs)
    names = list(labels)
    live = {*range(len(xs))}
    for a, b in steps:
        live -= {a, b}
        needed = {*out, *(label for i in live for label in names[i])}
        x, x_labels = _sum_over_unneeded(arrays[a], names[a], needed | {*names[b]})
        y, y_labels = _sum_over_unneeded(arrays[b], names[b], needed | {*names[a]})
        outer = [n for n in dict.fromkeys([*x_labels, *y_labels]) if n in needed]
        shared = [n for n in outer if n in x_labels and n in y_labels]
        order = [*shared, *(n for n in outer if n not in shared)] if live else out
        arrays.append(contract_axes(x, x_labels, y, y_labels, order))
        names.append(order)
        live.add(len(arrays) - 1)
    result, labels_of_result = _sum_over_unneeded(arrays[-1], names[-1], {*out})
    return transpose(result, [labels_of_result.index(n) for n in out])


def _sum_over_unneeded(
    x: Tensor, labels: list[Label], needed: Collection[Label]
) -> tuple[Tensor, list[Label]]:
    """Sum over the axes whose labels nothing needs; any() for bool."""
    axes = tuple(i for i, label in enumerate(labels) if label not in needed)
    if not axes:
        return x, labels
    op = Any_(axes) if x.dtype == "bool" else Sum(axes)
    return Tensor.make(op, x), [label for label in labels if label in needed]
