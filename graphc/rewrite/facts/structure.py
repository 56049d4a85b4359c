"""Analysis of matrices: the facts of those in the last two axes, by how they are made."""

from __future__ import annotations

import math
from functools import lru_cache, singledispatch
from typing import Any

import numpy as np

from graphc.errors import ArgumentError
from graphc.ir import Constant, Node, Op, TensorType, is_complex, is_inexact
from graphc.rewrite.facts.bounds import bounds_of
from graphc.rewrite.facts.facts import (
    ANYWHERE,
    NOTHING,
    Band,
    Definiteness,
    MatrixFacts,
    both,
    declared,
)
from graphc.rewrite.facts.lengths import equal_lengths
from graphc.rewrite.facts.masks import is_counting, mask_bands
from graphc.rewrite.facts.matrices import (
    MatrixFactor,
    factors_of,
    is_square,
    is_uniform,
    kron_factors,
)
from graphc.rewrite.facts.memo import Memo, memoized
from graphc.rewrite.facts.signs import sign_of
from graphc.rewrite.facts.symmetry import equals_transpose
from graphc.tensor.arrays.broadcast import BroadcastTo
from graphc.tensor.arrays.create import Eye
from graphc.tensor.arrays.diagonal import FromDiagonal
from graphc.tensor.arrays.index import HOLE, Index, IndexUpdate, Range
from graphc.tensor.arrays.reduce import Sum
from graphc.tensor.core.axes import ExpandDims, Squeeze, Transpose
from graphc.tensor.core.elementwise import (
    Cast,
    Elementwise,
    Where,
    abs as absolute,
    add,
    conj,
    divide,
    multiply,
    negative,
    real,
    square,
    subtract,
)
from graphc.tensor.core.exponential import exp
from graphc.tensor.core.shape import Reshape
from graphc.tensor.core.specify import SpecifyShape
from graphc.tensor.linalg.assume import Assume
from graphc.tensor.linalg.dot import DotGeneral

_found = Memo[MatrixFacts]()


def facts_of(node: Node) -> MatrixFacts:
    """Return the facts of each matrix of an array; each node is analysed once.

    Raises:
        ArgumentError: What was assumed contradicts what is known.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.tensor("x", shape=(5, 3))
        >>> sorted(facts_of(x.T @ x + 2 * gt.eye(3)).held)
        ['positive_definite', 'symmetric']
    """
    known = _found.get(node)
    if known is not None:
        return known
    return memoized(node, _found, _sources, _facts)


def _is_matrix(node: Node) -> bool:
    return isinstance(node.type, TensorType) and node.type.ndim >= 2


def _sources(node: Node) -> list[Node]:
    """The inputs that facts can follow from."""
    if not _is_matrix(node):
        return []
    return [x for x in node.inputs if _is_matrix(x)]


def _facts(node: Node) -> MatrixFacts:
    if not _is_matrix(node):
        return NOTHING
    found = facts_step(node.op, node)
    if found is NOTHING or found == NOTHING:
        return NOTHING  # the same object, so that this is quickly seen
    n, m = node.type.shape[-2:]
    if None not in {n, m} and n != m:
        found = found._replace(symmetric=False, definite=Definiteness.UNKNOWN)
    elif found.symmetric or found.definite:
        found = found._replace(symmetric=True, band=found.band & found.band.transposed)
    if found.contradictions:
        names = ", ".join(sorted(found.contradictions))
        raise ArgumentError(
            f"{node!r} is assumed not to be what it is known to be: {names}.",
            "Take that out of the assume.",
            node.where,
        )
    return found


@singledispatch
def facts_step(op: Op, node: Node) -> MatrixFacts:
    """The facts of a node, those of its inputs being known."""
    return NOTHING


@facts_step.register
def _of_assume(op: Assume, node: Node) -> MatrixFacts:
    return both(facts_of(node.inputs[0]), declared(op.held, op.denied))


@facts_step.register
def _of_specify_shape(op: SpecifyShape, node: Node) -> MatrixFacts:
    return facts_of(node.inputs[0])


@facts_step.register
def _of_constant(op: Constant, node: Node) -> MatrixFacts:
    return _of_array(op)


LARGEST = 2**16
"""Constants of more elements are not looked at."""


SMALL = 64
"""Of constants of no more rows the eigenvalues are worked out."""


@lru_cache(maxsize=1024)
def _of_array(op: Constant) -> MatrixFacts:
    x = op.value
    n, m = x.shape[-2:]
    if not 0 < x.size <= LARGEST:
        return NOTHING
    rows, columns = np.nonzero(np.any(x != 0, axis=tuple(range(x.ndim - 2))))
    distances = columns - rows
    band = Band(int(distances.min()), int(distances.max())) if distances.size else Band(0, 0)
    symmetric = n == m and bool(np.array_equal(x, np.conj(np.swapaxes(x, -1, -2))))
    single = bool(np.all((x == 0) | (x == 1))) and bool(np.all(np.count_nonzero(x, -1) == 1))
    in_columns = np.count_nonzero(x, -2)
    selection = single and bool(np.all(in_columns <= 1))
    known = MatrixFacts(
        band,
        symmetric,
        _of_values(x, band, symmetric),
        selection and n == m,
        selection,
        selection and n == m,
    )
    deniable = {"diagonal", "lower_triangular", "upper_triangular", "tridiagonal", "symmetric"}
    return known._replace(denied=frozenset(deniable - known.held))


def _of_values(x: np.ndarray[Any, Any], band: Band, symmetric: bool) -> Definiteness:
    """By the eigenvalues, or the circles in which they lie around the diagonal (Gershgorin)."""
    if not symmetric:
        return Definiteness.UNKNOWN
    wide = x.astype(np.complex128 if np.iscomplexobj(x) else np.float64)
    if wide.shape[-1] <= SMALL and np.all(np.isfinite(wide)):
        values = np.linalg.eigvalsh(wide)
        room = np.finfo(float).eps * wide.shape[-1] * np.max(np.abs(values), -1, keepdims=True)
        return Definiteness.POSITIVE if np.all(values > room) else Definiteness.UNKNOWN
    diagonal = np.diagonal(wide, 0, -2, -1).real
    least = np.min(2 * diagonal - np.sum(np.abs(wide), -1) - (np.abs(diagonal) - diagonal))
    if least > 0:
        return Definiteness.POSITIVE
    return Definiteness.SEMI if least >= 0 else Definiteness.UNKNOWN


@facts_step.register
def _of_eye(op: Eye, node: Node) -> MatrixFacts:
    if op.offset:
        return MatrixFacts(Band(op.offset, op.offset))
    if not is_square(node):
        return MatrixFacts(Band(0, 0))
    return declared(["diagonal", "positive_definite", "permutation"])


@facts_step.register
def _of_from_diagonal(op: FromDiagonal, node: Node) -> MatrixFacts:
    band = Band(op.offset, op.offset)
    if op.offset or not is_square(node):
        return MatrixFacts(band)
    is_real = not is_complex(node.type.dtype)
    definite = sign_of(node.inputs[0]) if is_real else Definiteness.UNKNOWN
    return MatrixFacts(band, symmetric=is_real, definite=definite)


@facts_step.register
def _of_transpose(op: Transpose, node: Node) -> MatrixFacts:
    (x,) = node.inputs
    n = len(op.axes)
    if op.axes[-2:] == (n - 2, n - 1):
        return facts_of(x)
    return facts_of(x).transposed if op.axes[-2:] == (n - 1, n - 2) else NOTHING


@facts_step.register
def _of_expand_dims(op: ExpandDims, node: Node) -> MatrixFacts:
    (x,) = node.inputs
    new = {node.type.ndim - 2, node.type.ndim - 1} & {*op.axes}
    return NOTHING if new or not _is_matrix(x) else facts_of(x)


@facts_step.register
def _of_squeeze(op: Squeeze, node: Node) -> MatrixFacts:
    (x,) = node.inputs
    return NOTHING if {x.type.ndim - 2, x.type.ndim - 1} & {*op.axes} else facts_of(x)


@facts_step.register
def _of_broadcast_to(op: BroadcastTo, node: Node) -> MatrixFacts:
    x = node.inputs[0]
    if is_uniform(x):
        return _of_equal_elements(x, node)
    if not _is_matrix(x) or {x.type.ndim - 2, x.type.ndim - 1} & {*op.repeated}:
        return NOTHING
    return facts_of(x)


def _of_equal_elements(x: Node, node: Node) -> MatrixFacts:
    from_zero = bounds_of(x)
    if from_zero.low == 0 == from_zero.high:
        square_one = is_square(node)
        return MatrixFacts(
            Band(0, 0), square_one, Definiteness.SEMI if square_one else Definiteness.UNKNOWN
        )
    if not is_square(node) or is_complex(node.type.dtype):
        return NOTHING
    return MatrixFacts(symmetric=True, definite=min(sign_of(x), Definiteness.SEMI))


@facts_step.register
def _of_cast(op: Cast, node: Node) -> MatrixFacts:
    (x,) = node.inputs
    keeps = is_inexact(op.dtype) and x.type.dtype != "bool"
    known = facts_of(x)
    if x.type.dtype == "bool":
        return MatrixFacts(mask_bands(x).inside)
    return known if keeps else MatrixFacts(known.band, known.symmetric)


@facts_step.register
def _of_where(op: Where, node: Node) -> MatrixFacts:
    mask, *sides = node.inputs
    inside, outside = mask_bands(mask)
    bands = [_band(x, node) & part for x, part in zip(sides, (inside, outside), strict=True)]
    return MatrixFacts(bands[0] | bands[1])


def _band(x: Node, node: Node) -> Band:
    """Where an operand has elements, repeated to the shape of the result."""
    if is_uniform(x) or x.type.ndim < 2:
        limits = bounds_of(x)
        return Band(0, 0) if limits.low == 0 == limits.high else ANYWHERE
    return ANYWHERE if _is_stretched(x, node) else facts_of(x).band


def _is_stretched(x: Node, node: Node) -> bool:
    """Whether a row or a column is repeated to a matrix."""
    pairs = zip(x.type.shape[-2:], node.type.shape[-2:], strict=True)
    return x.type.ndim < 2 or any(n == 1 and m != 1 for n, m in pairs)


# Functions of elements.


@facts_step.register
def _of_elementwise(op: Elementwise, node: Node) -> MatrixFacts:
    if node.type.dtype == "bool":
        return NOTHING
    if all(x.type.ndim < 2 or facts_of(x) is NOTHING for x in node.inputs):
        # Nothing comes of nothing, but for a sum with the transpose, and factors that are 0.
        return MatrixFacts(symmetric=True) if _is_own_mirror(node) else NOTHING
    found = MatrixFacts(_band_of_row(op, node), symmetric=_is_symmetric(op, node))
    if not is_complex(node.type.dtype):
        found = found._replace(definite=_definite_of_row(op, node))
    if op is negative or op is conj:
        known = facts_of(node.inputs[0])
        found = found._replace(symmetric=known.symmetric, orthogonal=known.orthogonal)
    return found


def _band_of_row(op: Elementwise, node: Node) -> Band:
    bands = [_band(x, node) for x in node.inputs]
    if op is multiply:
        return bands[0] & bands[1]
    if op is divide:
        return bands[0]
    if not keeps_zero(op):
        return ANYWHERE
    whole = bands[0]
    for band in bands[1:]:
        whole = whole | band
    return whole


@lru_cache(maxsize=256)
def keeps_zero(op: Elementwise) -> bool:
    """Whether a function of zeros is zero."""
    try:
        with np.errstate(all="ignore"):
            return bool(op.reference(*[np.zeros(())] * op.arity) == 0)
    except TypeError:
        return False  # of whole numbers


def _is_symmetric(op: Elementwise, node: Node) -> bool:
    parts = [x for x in node.inputs if not is_uniform(x)]
    if all(not _is_stretched(x, node) and facts_of(x).symmetric for x in parts):
        linear = op in {add, subtract} and parts == [*node.inputs]
        # Of other functions the value for conj(z) need not be that for z: imag, angle.
        kept = op in {real, absolute} or not any(is_complex(x.type.dtype) for x in node.inputs)
        return is_square(node) and (linear or kept)
    return _is_own_mirror(node)


def _is_own_mirror(node: Node) -> bool:
    # What is its own mirror image is square: only what is known to be none is told apart.
    n, m = node.type.shape[-2:]
    if (n != m and None not in {n, m}) or not _may_be_mirror(node, LEVELS):
        return False
    return equals_transpose(node, _is_known_symmetric)


def _is_known_symmetric(x: Node) -> bool:
    found = _found.get(x)
    return found is not None and found.symmetric


LEVELS = 4
"""So far below a sum it is looked for a function of two arrays that may be each other's mirror."""


def _may_be_mirror(node: Node, levels: int) -> bool:
    """Whether a node may be made of an array and its transpose: a quick look."""
    op, inputs = node.op, node.inputs
    if op is square or op is absolute:
        (x,) = inputs
        return x.op is subtract and _may_be_mirrored(*x.inputs)
    if op.is_commutative() and _may_be_mirrored(*inputs):
        return True
    # Of functions of matrices it is known whether those are symmetric.
    inside = isinstance(op, Sum) or (isinstance(op, Elementwise) and levels < LEVELS)
    return levels > 0 and inside and any(_may_be_mirror(x, levels - 1) for x in inputs)


def _may_be_mirrored(a: Node, b: Node) -> bool:
    """Whether one may be the other's transpose: it is made alike, or by moving axes."""
    return a.op == b.op or any(isinstance(x.op, Transpose | ExpandDims) for x in (a, b))


def _definite_of_row(op: Elementwise, node: Node) -> Definiteness:
    """Sums, products by element (Schur) and positive multiples keep the signs of eigenvalues."""
    known = [_definite(x, node) for x in node.inputs]
    if op is add:
        return max(known) if min(known) else Definiteness.UNKNOWN
    if op is multiply:
        return min(known)
    if op is divide and is_uniform(node.inputs[1]):
        return min(known)
    if op is exp or op is square:
        # A power series of coefficients that are not negative.
        return Definiteness.SEMI if known[0] else Definiteness.UNKNOWN
    return Definiteness.UNKNOWN


def _definite(x: Node, node: Node) -> Definiteness:
    """Of an operand; a number stands for a matrix of equal elements in sums, a factor else."""
    if is_uniform(x):
        found = sign_of(x)
        return min(found, Definiteness.SEMI) if node.op is add else found
    return Definiteness.UNKNOWN if _is_stretched(x, node) else facts_of(x).definite


# Products and sums.


def facts_of_factor(factor: MatrixFactor) -> MatrixFacts:
    """Return the facts of a factor of a product of matrices."""
    known = facts_of(factor.x)
    return known.transposed if factor.turned and known is not NOTHING else known


@facts_step.register
def _of_dot(op: DotGeneral, node: Node) -> MatrixFacts:
    factors = factors_of(node)
    gram = _definite_of_gram(op, node, factors)
    if factors is None:
        return MatrixFacts(symmetric=gram > 0, definite=gram)
    a, b = map(facts_of_factor, factors)
    around = _definite_of_congruence(node, factors)
    if not gram and around is None and (a is NOTHING or b is NOTHING):
        return NOTHING
    return MatrixFacts(
        a.band @ b.band,
        symmetric=gram > 0 or around is not None,
        definite=max(gram, around or Definiteness.UNKNOWN),
        orthogonal=a.orthogonal and b.orthogonal,
        selection=a.selection and b.selection,
        permutation=a.permutation and b.permutation,
    )


def _definite_of_gram(
    op: DotGeneral, node: Node, factors: tuple[MatrixFactor, MatrixFactor] | None
) -> Definiteness:
    """Of a matrix and its transpose, or of an array and itself over all axes but one."""
    if factors is None:
        (a, b), turned = node.inputs, op.contract[0] == op.contract[1]
        if len(op.free(0, a.type.ndim)) != 1 or op.batch_axes[0] != op.batch_axes[1]:
            return Definiteness.UNKNOWN
    else:
        (a, left), (b, right) = factors
        turned = left != right
    if not is_inexact(node.type.dtype) or not _are_conjugate(a, b):
        return Definiteness.UNKNOWN
    bare = a.inputs[0] if a.op is conj else a
    if not turned and (factors is None or not facts_of(bare).symmetric):
        return Definiteness.UNKNOWN
    return Definiteness.POSITIVE if _is_regular(bare) else Definiteness.SEMI


def _are_conjugate(a: Node, b: Node) -> bool:
    if not is_complex(a.type.dtype):
        return a is b
    return (a.op is conj and a.inputs[0] is b) or (b.op is conj and b.inputs[0] is a)


def _is_regular(x: Node) -> bool:
    """Whether a matrix is known to have an inverse."""
    known = facts_of(x) if _is_matrix(x) else NOTHING
    return known.orthogonal or known.definite is Definiteness.POSITIVE


def _definite_of_congruence(
    node: Node, factors: tuple[MatrixFactor, MatrixFactor]
) -> Definiteness | None:
    """Of ``B.T @ A @ B`` with a symmetric A; None of other products."""
    if is_complex(node.type.dtype):
        return None
    (a, b) = factors
    for inner, outer, inner_is_left in ((a, b, True), (b, a, False)):
        parts = factors_of(inner.x)
        if parts is None:
            continue
        one, two = parts
        if inner.turned:
            one, two = (MatrixFactor(x, not turned) for x, turned in (two, one))
        end, middle = (one, two) if inner_is_left else (two, one)
        known = facts_of(middle.x)
        if end.x is outer.x and end.turned != outer.turned and known.symmetric:
            positive = known.definite is Definiteness.POSITIVE and _is_regular(outer.x)
            return known.definite if positive else min(known.definite, Definiteness.SEMI)
    return None


@facts_step.register
def _of_sum(op: Sum, node: Node) -> MatrixFacts:
    (x,) = node.inputs
    if max(op.axes, default=0) < x.type.ndim - 2:
        known = facts_of(x)
        return MatrixFacts(known.band, known.symmetric, known.definite)
    return MatrixFacts(symmetric=is_inexact(node.type.dtype) and _is_own_mirror(node))


# Parts, and matrices made of smaller ones.


@facts_step.register
def _of_index(op: Index, node: Node) -> MatrixFacts:
    """Of some of a batch, and of blocks on the diagonal."""
    x = node.inputs[0]
    if not _is_matrix(x) or op.arrays([i.type.ndim for i in node.inputs[1:]]):
        return NOTHING
    *_, rows, columns = op.entries
    if None in {rows, columns} or not isinstance(rows, Range) or rows != columns:
        return NOTHING
    known = facts_of(x)
    if rows == Range():
        return known
    if HOLE in rows.parts or rows.step not in {None, 1} or not is_square(node):
        return NOTHING
    return MatrixFacts(known.band, known.symmetric, known.definite)


@facts_step.register
def _of_index_update(op: IndexUpdate, node: Node) -> MatrixFacts:
    """Of a matrix with another main diagonal."""
    x, value, *places = node.inputs
    if op.entries[-2:] != (HOLE, HOLE) or len(places) != 2 or places[0] is not places[1]:
        return NOTHING
    if any(entry != Range() for entry in op.entries[:-2]):
        return NOTHING
    known = facts_of(x)
    definite = Definiteness.UNKNOWN
    if op.accumulate and known.definite and (sign := sign_of(value)):
        whole = is_counting(places[0]) and equal_lengths(places[0], 0, x, -1)
        definite = max(known.definite, sign if whole else Definiteness.SEMI)
    is_real = not is_complex(node.type.dtype)
    return MatrixFacts(known.band | Band(0, 0), known.symmetric and is_real, definite)


@facts_step.register
def _of_reshape(op: Reshape, node: Node) -> MatrixFacts:
    """Of a Kronecker product, and of a batch in another shape."""
    x = node.inputs[0]
    pair = kron_factors(node)
    if pair is not None:
        return _of_kron(facts_of(pair.a), facts_of(pair.b), pair.b)
    if not _is_matrix(x) or not all(equal_lengths(x, axis, node, axis) for axis in (-2, -1)):
        return NOTHING
    return facts_of(x)


def _of_kron(a: MatrixFacts, b: MatrixFacts, inner: Node) -> MatrixFacts:
    band = ANYWHERE
    if a.is_diagonal and is_square(inner):
        band = b.band
    elif is_square(inner):
        low = 0 if a.band.low >= 0 and b.band.low >= 0 else -math.inf
        high = 0 if a.band.high <= 0 and b.band.high <= 0 else math.inf
        band = Band(low, high)
    return MatrixFacts(
        band,
        a.symmetric and b.symmetric,
        min(a.definite, b.definite),
        a.orthogonal and b.orthogonal,
        a.selection and b.selection,
        a.permutation and b.permutation,
    )
