"""Passes over the fronts of a sparse factor, compiled by Numba; the dense parts are BLAS's.

Importing this file takes Numba. Arrays of elements are flat. Matrices in them have their columns
one after the other, as BLAS takes them, and of symmetric ones the lower triangle counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import get_cython_function_address, intrinsic

Array = np.ndarray[Any, Any]

COLUMNS = 16
"""The number of right hand sides that are solved for at once."""


class Tree(NamedTuple):
    """The fronts in postorder, as arrays of integers.

    Attributes:
        k: The number of columns that each eliminates.
        m: The number of rows below them, its border.
        parent: The front that follows.
        panel: Where its k columns of the factor begin among those of all.
        row: Where its rows begin among those of all.
        rows: Those, as places in a vector.
        border: Where its border begins among those of all.
        above: The places of the rows of borders in the parents.
        child: Where its children begin among those of all.
        children: Those.
        update: Where its update is while it waits for the parent.
        inverse: Where its inverse is while fronts below need it.
        element: Where the elements of the matrix in it begin among those of all.
        elements: Those, as numbers of stored values.
        element_place: Their places in the front: the column times k + m, and the row.
    """

    k: Array
    m: Array
    parent: Array
    panel: Array
    row: Array
    rows: Array
    border: Array
    above: Array
    child: Array
    children: Array
    update: Array
    inverse: Array
    element: Array
    elements: Array
    element_place: Array


class Library(NamedTuple):
    """What a call of BLAS takes, as addresses.

    Attributes:
        functions: Those of ``FUNCTIONS``.
        letters: Those of L, R, T and N.
        numbers: Those of 0, 1 and -1.
        words: Space for k, m, k + m and a result. Functions that read 32 bits find them, too.
    """

    functions: tuple[int, ...]
    letters: tuple[int, ...]
    numbers: tuple[int, ...]
    words: Array


FUNCTIONS = (
    "blas.dtrsm", "blas.dsyrk", "blas.dsymm", "blas.dgemm", "lapack.dpotrf", "lapack.dpotri",
)  # fmt: skip
LETTERS = np.frombuffer(b"LRTN", np.uint8)
NUMBERS = np.array([0.0, 1.0, -1.0])


def library() -> Library:
    """Those of SciPy, and words of one thread."""
    letters, numbers = LETTERS.ctypes.data, NUMBERS.ctypes.data
    return Library(
        _functions(),
        tuple([letters + i for i in range(len(LETTERS))]),
        tuple([numbers + 8 * i for i in range(len(NUMBERS))]),
        np.zeros(4, np.int64),
    )


@cache
def _functions() -> tuple[int, ...]:
    names = [name.split(".") for name in FUNCTIONS]
    return tuple([get_cython_function_address(f"scipy.linalg.cython_{x}", y) for x, y in names])


def _compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile at the first call, and keep the result on the disk where a folder can be written."""
    try:
        return njit(nogil=True, cache=True, **options)(function)  # type: ignore[no-any-return]
    except RuntimeError:
        return njit(nogil=True, **options)(function)  # type: ignore[no-any-return]


_summing = partial(_compiled, fastmath={"reassoc", "contract"})  # sums in parts, at once


def _generated(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    address, packed = values
    arguments = cgutils.unpack_tuple(builder, packed)
    kind = ir.FunctionType(ir.VoidType(), [x.type for x in arguments])
    builder.call(builder.inttoptr(address, kind.as_pointer()), arguments)
    return context.get_dummy_value()


def _typed(context: Any, address: Any, arguments: Any) -> Any:
    """Call a function without a result at an address, with addresses as its arguments."""
    return types.void(address, arguments), _generated


_call: Any = intrinsic(_typed)


@_compiled
def _assemble(tree: Tree, s: int, data: Array, panels: Array, stack: Array, corner: Array) -> None:
    """Put together a front: its panel, and the corner of its border."""
    k, m, panel = tree.k[s], tree.m[s], tree.panel[s]
    f = k + m
    for i in range(panel, panel + k * f):
        panels[i] = 0.0
    for i in range(m * m):
        corner[i] = 0.0
    for e in range(tree.element[s], tree.element[s + 1]):
        panels[panel + tree.element_place[e]] += data[tree.elements[e]]
    for at in range(tree.child[s], tree.child[s + 1]):
        c = tree.children[at]
        size = tree.m[c]
        above = tree.above[tree.border[c] : tree.border[c] + size]
        for j in range(size):
            source, column = tree.update[c] + j * size, above[j]
            if column < k:
                to, y = panel + column * f, panels
            else:
                to, y = (column - k) * m - k, corner
            for i in range(j, size):
                y[to + above[i]] += stack[source + i]


@_compiled
def factorise(
    tree: Tree, blas: Library, data: Array, panels: Array, work: tuple[Array, Array]
) -> float:
    """Fill the panels of all fronts; the logarithm of the determinant, NaN if there is none.

    Args:
        tree: The fronts.
        blas: BLAS.
        data: The stored values.
        panels: The result.
        work: Space for the updates that wait, and for one.
    """
    trsm, syrk, _, _, potrf, _ = blas.functions
    low, right, turned, plain = blas.letters
    _, one, minus = blas.numbers
    words, (stack, corner) = blas.words, work
    k_at = words.ctypes.data
    m_at, f_at, info = k_at + 8, k_at + 16, k_at + 24
    c_at, total = corner.ctypes.data, 0.0
    for s in range(len(tree.k)):
        k, m = tree.k[s], tree.m[s]
        words[0], words[1], words[2], words[3] = k, m, k + m, 0
        _assemble(tree, s, data, panels, stack, corner)
        a = panels.ctypes.data + 8 * tree.panel[s]
        b = a + 8 * k
        _call(potrf, (low, k_at, a, f_at, info))
        if words[3] != 0:
            return math.nan
        for j in range(k):
            total += math.log(panels[tree.panel[s] + j * (k + m + 1)])
        if m:
            _call(trsm, (right, low, turned, plain, m_at, k_at, one, a, f_at, b, f_at))
            _call(syrk, (low, plain, m_at, k_at, minus, b, f_at, one, c_at, m_at))
            for j in range(m):
                for i in range(j * (m + 1), j * m + m):
                    stack[tree.update[s] + i] = corner[i]
    return 2 * total


@_compiled
def _begin_inverse(tree: Tree, s: int, panels: Array, stack: Array) -> None:
    """The inverse of a front's border, from that of the parent, and the identity before it.

    Where there is no border, the factor comes in place of the identity.
    """
    k, m, own = tree.k[s], tree.m[s], tree.inverse[s]
    f = k + m
    for j in range(k):
        for i in range(k):
            stack[own + j * f + i] = 0.0 if m else panels[tree.panel[s] + j * f + i]
        if m:
            stack[own + j * (f + 1)] = 1.0
    if m:
        parent = tree.parent[s]
        size, begin = tree.k[parent] + tree.m[parent], tree.inverse[parent]
        above = tree.above[tree.border[s] : tree.border[s] + m]
        for j in range(m):
            to, source = own + (k + j) * f + k, begin + above[j] * size
            for i in range(j, m):
                stack[to + i] = stack[source + above[i]]


@_compiled
def invert(tree: Tree, blas: Library, panels: Array, stack: Array, y: Array) -> None:
    """The elements of the inverse in the places of the stored values.

    With the factor [p; q] of a front and the inverse z of its border, the inverse's columns are
    ``-z @ q @ inv(p)`` in the border and ``inv(p).T @ (1 + q.T @ z @ q) @ inv(p)`` above.

    Args:
        tree: The fronts.
        blas: BLAS.
        panels: The factor.
        stack: Space for the inverses of fronts above one another.
        y: The result.
    """
    trsm, _, symm, gemm, _, potri = blas.functions
    low, right, turned, plain = blas.letters
    zero, one, minus = blas.numbers
    words = blas.words
    k_at = words.ctypes.data
    m_at, f_at, info = k_at + 8, k_at + 16, k_at + 24
    for s in range(len(tree.k) - 1, -1, -1):
        k, m, own = tree.k[s], tree.m[s], tree.inverse[s]
        words[0], words[1], words[2] = k, m, k + m
        _begin_inverse(tree, s, panels, stack)
        p, a = panels.ctypes.data + 8 * tree.panel[s], stack.ctypes.data + 8 * own
        q, b, z = p + 8 * k, a + 8 * k, a + 8 * (k * (k + m) + k)
        if m:
            # The letter L stands for left as well.
            _call(symm, (low, low, m_at, k_at, minus, z, f_at, q, f_at, zero, b, f_at))
            _call(gemm, (turned, plain, k_at, k_at, m_at, minus, q, f_at, b, f_at, one, a, f_at))
            _call(trsm, (right, low, plain, plain, f_at, k_at, one, p, f_at, a, f_at))
            _call(trsm, (low, low, turned, plain, k_at, k_at, one, p, f_at, a, f_at))
        else:
            _call(potri, (low, k_at, a, f_at, info))
        for e in range(tree.element[s], tree.element[s + 1]):
            y[tree.elements[e]] = stack[own + tree.element_place[e]]


@_compiled
def solve(tree: Tree, panels: Array, x: Array, forward: bool, backward: bool) -> None:
    """Solve with the factor, with its transpose or with both, in place.

    Args:
        tree: The fronts.
        panels: The factor.
        x: As many right hand sides as it has columns, (n, c).
        forward: Whether with the factor.
        backward: Whether with the transpose, after it.
    """
    c = x.shape[1]
    own = np.zeros((min(c, COLUMNS), (tree.k + tree.m).max()))
    for begin in range(0, c, COLUMNS):
        part = x[:, begin : begin + COLUMNS]
        if forward:
            for s in range(len(tree.k)):
                _forward(tree, s, panels, part, own)
        if backward:
            for s in range(len(tree.k) - 1, -1, -1):
                _backward(tree, s, panels, part, own)


@_compiled
def _move(rows: Array, x: Array, own: Array, back: bool) -> None:
    """Copy the rows of a front out of x, or back."""
    for i in range(len(rows)):
        for d in range(x.shape[1]):
            if back:
                x[rows[i], d] = own[d, i]
            else:
                own[d, i] = x[rows[i], d]


@_compiled
def _forward(tree: Tree, s: int, panels: Array, x: Array, own: Array) -> None:
    k, f = tree.k[s], tree.k[s] + tree.m[s]
    rows = tree.rows[tree.row[s] : tree.row[s] + f]
    _move(rows, x, own, False)
    for j in range(k):
        column = panels[tree.panel[s] + j * f : tree.panel[s] + (j + 1) * f]
        for d in range(x.shape[1]):
            y = own[d, j] / column[j]
            own[d, j] = y
            for i in range(j + 1, f):
                own[d, i] -= column[i] * y
    _move(rows, x, own, True)


@_summing
def _backward(tree: Tree, s: int, panels: Array, x: Array, own: Array) -> None:
    k, f = tree.k[s], tree.k[s] + tree.m[s]
    rows = tree.rows[tree.row[s] : tree.row[s] + f]
    _move(rows, x, own, False)
    for j in range(k - 1, -1, -1):
        column = panels[tree.panel[s] + j * f : tree.panel[s] + (j + 1) * f]
        for d in range(x.shape[1]):
            product = 0.0
            for i in range(j + 1, f):
                product += column[i] * own[d, i]
            own[d, j] = (own[d, j] - product) / column[j]
    _move(rows[:k], x, own, True)
