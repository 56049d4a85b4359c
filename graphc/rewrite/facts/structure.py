"""Analysis of matrices: the facts of those in the last two axes, by their expression."""

from __future__ import annotations

import math
from functools import lru_cache, singledispatch
from typing import Any

import numpy as np

from graphc.errors import ArgumentError
from graphc.ir import Constant, Node, Op, TensorType, is_complex, is_inexact
from graphc.rewrite.facts.bounds import bounds_of, sign_of
from graphc.rewrite.facts.facts import (
    ANYWHERE,
    NOTHING,
    Band,
    Definiteness,
    MatrixFacts,
    combined_facts,
    named_facts,
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
from graphc.rewrite.facts.memo import Memo, memoize
from graphc.rewrite.facts.symmetry import equals_transpose
from graphc.tensor.arrays.broadcast import BroadcastTo
from graphc.tensor.arrays.create import Eye
from graphc.tensor.arrays.diagonal import FromDiagonal
from graphc.tensor.arrays.index import HOLE, Index, IndexUpdate, Range
from graphc.tensor.arrays.reduce import Sum
from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.axes import ExpandDims, Squeeze, Transpose
from graphc.tensor.core.exponential import exp
from graphc.tensor.core.shape import Reshape
from graphc.tensor.core.specify import SpecifyShape
from graphc.tensor.linalg.assume import Assume
from graphc.tensor.linalg.dot import DotGeneral

_cached_facts = Memo[MatrixFacts]()


def facts_of(node: Node) -> MatrixFacts:
    """Return the facts of the matrices in an array's last two axes; each node is analysed once.

    Raises:
        ArgumentError: If an assumption contradicts the facts.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.tensor("x", shape=(5, 3))
        >>> sorted(facts_of(x.T @ x + 2 * gt.eye(3)).held)
        ['positive_definite', 'symmetric']
    """
    facts = _cached_facts.get(node)
    if facts is not None:
        return facts
    return memoize(node, _cached_facts, _sources, _facts)


def _is_matrix(node: Node) -> bool:
    return isinstance(node.type, TensorType) and node.type.ndim >= 2


def _sources(node: Node) -> list[Node]:
    if not _is_matrix(node):
        return []
    return [x for x in node.inputs if _is_matrix(x)]


def _facts(node: Node) -> MatrixFacts:
    if not _is_matrix(node):
        return NOTHING
    facts = facts_step(node.op, node)
    if facts is NOTHING or facts == NOTHING:
        return NOTHING  # one object, which is quick to compare
    n, m = node.type.shape[-2:]
    if None not in {n, m} and n != m:
        facts = facts._replace(symmetric=False, definite=Definiteness.UNKNOWN)
    elif facts.symmetric or facts.definite:
        facts = facts._replace(symmetric=True, band=facts.band & facts.band.transposed)
    if facts.contradictions:
        names = ", ".join(sorted(facts.contradictions))
        raise ArgumentError(
            f"{node!r} is assumed not to be what it is known to be: {names}.",
            "Take that out of the assume.",
            node.where,
        )
    return facts


@singledispatch
def facts_step(op: Op, node: Node) -> MatrixFacts:
    """Return the facts of a node, given its inputs' facts."""
    return NOTHING


@facts_step.register
def _of_assume(op: Assume, node: Node) -> MatrixFacts:
    return combined_facts(facts_of(node.inputs[0]), named_facts(op.held, op.denied))


@facts_step.register
def _of_specify_shape(op: SpecifyShape, node: Node) -> MatrixFacts:
    return facts_of(node.inputs[0])


@facts_step.register
def _of_constant(op: Constant, node: Node) -> MatrixFacts:
    return _of_array(op)


MAX_CONSTANT_SIZE = 2**16
"""Largest constant to analyse."""


MAX_EIGENVALUE_ROWS = 64
"""Largest number of rows of a constant whose eigenvalues are computed."""


@lru_cache(maxsize=1024)
def _of_array(op: Constant) -> MatrixFacts:
    x = op.value
    n, m = x.shape[-2:]
    if not 0 < x.size <= MAX_CONSTANT_SIZE:
        return NOTHING
    rows, columns = np.nonzero(np.any(x != 0, axis=tuple(range(x.ndim - 2))))
    distances = columns - rows
    band = Band(int(distances.min()), int(distances.max())) if distances.size else Band(0, 0)
    symmetric = n == m and bool(np.array_equal(x, np.conj(np.swapaxes(x, -1, -2))))
    single = bool(np.all((x == 0) | (x == 1))) and bool(np.all(np.count_nonzero(x, -1) == 1))
    in_columns = np.count_nonzero(x, -2)
    selection = single and bool(np.all(in_columns <= 1))
    facts = MatrixFacts(
        band,
        symmetric,
        _of_values(x, band, symmetric),
        selection and n == m,
        selection,
        selection and n == m,
    )
    deniable = {"diagonal", "lower_triangular", "upper_triangular", "tridiagonal", "symmetric"}
    return facts._replace(denied=frozenset(deniable - facts.held))


def _of_values(x: np.ndarray[Any, Any], band: Band, symmetric: bool) -> Definiteness:
    """Return the definiteness by eigenvalues, or by Gershgorin's circles around the diagonal."""
    if not symmetric:
        return Definiteness.UNKNOWN
    wide = x.astype(np.complex128 if np.iscomplexobj(x) else np.float64)
    if wide.shape[-1] <= MAX_EIGENVALUE_ROWS and np.all(np.isfinite(wide)):
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
    return named_facts(["diagonal", "positive_definite", "permutation"])


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
def _of_cast(op: ew.Cast, node: Node) -> MatrixFacts:
    (x,) = node.inputs
    is_same = is_inexact(op.dtype) and x.type.dtype != "bool"
    facts = facts_of(x)
    if x.type.dtype == "bool":
        return MatrixFacts(mask_bands(x).inside)
    return facts if is_same else MatrixFacts(facts.band, facts.symmetric)


@facts_step.register
def _of_where(op: ew.Where, node: Node) -> MatrixFacts:
    mask, *sides = node.inputs
    inside, outside = mask_bands(mask)
    bands = [
        _band_of_operand(x, node) & part for x, part in zip(sides, (inside, outside), strict=True)
    ]
    return MatrixFacts(bands[0] | bands[1])


def _band_of_operand(x: Node, node: Node) -> Band:
    if is_uniform(x) or x.type.ndim < 2:
        limits = bounds_of(x)
        return Band(0, 0) if limits.low == 0 == limits.high else ANYWHERE
    return ANYWHERE if _is_broadcast(x, node) else facts_of(x).band


def _is_broadcast(x: Node, node: Node) -> bool:
    pairs = zip(x.type.shape[-2:], node.type.shape[-2:], strict=True)
    return x.type.ndim < 2 or any(n == 1 and m != 1 for n, m in pairs)


# Functions of elements.


@facts_step.register
def _of_elementwise(op: ew.Elementwise, node: Node) -> MatrixFacts:
    if node.type.dtype == "bool":
        return NOTHING
    if all(x.type.ndim < 2 or facts_of(x) is NOTHING for x in node.inputs):
        # Operands without facts give none, unless they are each other's transposes.
        return MatrixFacts(symmetric=True) if _is_own_mirror(node) else NOTHING
    facts = MatrixFacts(_band_of_row(op, node), symmetric=_is_symmetric(op, node))
    if not is_complex(node.type.dtype):
        facts = facts._replace(definite=_definite_of_row(op, node))
    if op is ew.negative or op is ew.conj:
        operand_facts = facts_of(node.inputs[0])
        facts = facts._replace(
            symmetric=operand_facts.symmetric, orthogonal=operand_facts.orthogonal
        )
    return facts


def _band_of_row(op: ew.Elementwise, node: Node) -> Band:
    bands = [_band_of_operand(x, node) for x in node.inputs]
    if op is ew.multiply:
        return bands[0] & bands[1]
    if op is ew.divide:
        return bands[0]
    if not keeps_zero(op):
        return ANYWHERE
    union = bands[0]
    for band in bands[1:]:
        union = union | band
    return union


@lru_cache(maxsize=256)
def keeps_zero(op: ew.Elementwise) -> bool:
    """Return whether a function of zeros is zero."""
    try:
        with np.errstate(all="ignore"):
            return bool(op.reference(*[np.zeros(())] * op.arity) == 0)
    except TypeError:
        return False  # a function of integers


def _is_symmetric(op: ew.Elementwise, node: Node) -> bool:
    matrices = [x for x in node.inputs if not is_uniform(x)]
    if all(not _is_broadcast(x, node) and facts_of(x).symmetric for x in matrices):
        linear = op in {ew.add, ew.subtract} and matrices == [*node.inputs]
        # Other functions may differ at conj(z) and z: imag, angle.
        is_conjugate = op in {ew.real, ew.abs} or not any(
            is_complex(x.type.dtype) for x in node.inputs
        )
        return is_square(node) and (linear or is_conjugate)
    return _is_own_mirror(node)


def _is_own_mirror(node: Node) -> bool:
    # A symmetric matrix is square.
    n, m = node.type.shape[-2:]
    if (n != m and None not in {n, m}) or not _may_be_mirror(node, MAX_LEVELS):
        return False
    return equals_transpose(node, _is_known_symmetric)


def _is_known_symmetric(x: Node) -> bool:
    facts = _cached_facts.get(x)
    return facts is not None and facts.symmetric


MAX_LEVELS = 4
"""Depth below a sum to which functions of an array and its transpose are sought."""


def _may_be_mirror(node: Node, levels: int) -> bool:
    """Return whether a node may be a function of an array and its transpose: a quick test."""
    op, inputs = node.op, node.inputs
    if op is ew.square or op is ew.abs:
        (x,) = inputs
        return x.op is ew.subtract and _may_be_transposes(*x.inputs)
    if op.is_commutative() and _may_be_transposes(*inputs):
        return True
    # Facts tell whether the matrices of other functions are symmetric.
    inside = isinstance(op, Sum) or (isinstance(op, ew.Elementwise) and levels < MAX_LEVELS)
    return levels > 0 and inside and any(_may_be_mirror(x, levels - 1) for x in inputs)


def _may_be_transposes(a: Node, b: Node) -> bool:
    return a.op == b.op or any(isinstance(x.op, Transpose | ExpandDims) for x in (a, b))


def _definite_of_row(op: ew.Elementwise, node: Node) -> Definiteness:
    """Return the definiteness of a sum, a Schur product, a multiple or a power series."""
    definites = [_definite(x, node) for x in node.inputs]
    if op is ew.add:
        return max(definites) if min(definites) else Definiteness.UNKNOWN
    if op is ew.multiply:
        return min(definites)
    if op is ew.divide and is_uniform(node.inputs[1]):
        return min(definites)
    if op is exp or op is ew.square:
        # A power series with nonnegative coefficients (Schur).
        return Definiteness.SEMI if definites[0] else Definiteness.UNKNOWN
    return Definiteness.UNKNOWN


def _definite(x: Node, node: Node) -> Definiteness:
    """Return the definiteness of an operand; a scalar in a sum is a matrix of equal elements."""
    if is_uniform(x):
        sign = sign_of(x)
        return min(sign, Definiteness.SEMI) if node.op is ew.add else sign
    return Definiteness.UNKNOWN if _is_broadcast(x, node) else facts_of(x).definite


# Products and sums.


def facts_of_factor(factor: MatrixFactor) -> MatrixFacts:
    """Return the facts of a factor of a product of matrices."""
    facts = facts_of(factor.x)
    return facts.transposed if factor.transposed and facts is not NOTHING else facts


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
    """Return the definiteness of ``A.T @ A``, also with all axes but one contracted."""
    if factors is None:
        (a, b), is_transposed = node.inputs, op.contract[0] == op.contract[1]
        if len(op.free(0, a.type.ndim)) != 1 or op.batch_axes[0] != op.batch_axes[1]:
            return Definiteness.UNKNOWN
    else:
        (a, a_transposed), (b, b_transposed) = factors
        is_transposed = a_transposed != b_transposed
    if not is_inexact(node.type.dtype) or not _are_conjugate(a, b):
        return Definiteness.UNKNOWN
    bare = a.inputs[0] if a.op is ew.conj else a
    if not is_transposed and (factors is None or not facts_of(bare).symmetric):
        return Definiteness.UNKNOWN
    return Definiteness.POSITIVE if _is_invertible(bare) else Definiteness.SEMI


def _are_conjugate(a: Node, b: Node) -> bool:
    if not is_complex(a.type.dtype):
        return a is b
    return (a.op is ew.conj and a.inputs[0] is b) or (b.op is ew.conj and b.inputs[0] is a)


def _is_invertible(x: Node) -> bool:
    facts = facts_of(x) if _is_matrix(x) else NOTHING
    return facts.orthogonal or facts.definite is Definiteness.POSITIVE


def _definite_of_congruence(
    node: Node, factors: tuple[MatrixFactor, MatrixFactor]
) -> Definiteness | None:
    """Return the definiteness of ``B.T @ A @ B`` with a symmetric A; None for others."""
    if is_complex(node.type.dtype):
        return None
    (a, b) = factors
    for inner, outer, inner_is_left in ((a, b, True), (b, a, False)):
        inner_factors = factors_of(inner.x)
        if inner_factors is None:
            continue
        one, two = inner_factors
        if inner.transposed:
            one, two = (MatrixFactor(x, not transposed) for x, transposed in (two, one))
        end, middle = (one, two) if inner_is_left else (two, one)
        facts = facts_of(middle.x)
        if end.x is outer.x and end.transposed != outer.transposed and facts.symmetric:
            positive = facts.definite is Definiteness.POSITIVE and _is_invertible(outer.x)
            return facts.definite if positive else min(facts.definite, Definiteness.SEMI)
    return None


@facts_step.register
def _of_sum(op: Sum, node: Node) -> MatrixFacts:
    (x,) = node.inputs
    if max(op.axes, default=0) < x.type.ndim - 2:
        facts = facts_of(x)
        return MatrixFacts(facts.band, facts.symmetric, facts.definite)
    return MatrixFacts(symmetric=is_inexact(node.type.dtype) and _is_own_mirror(node))


# Parts, and matrices made of smaller ones.


@facts_step.register
def _of_index(op: Index, node: Node) -> MatrixFacts:
    x = node.inputs[0]
    if not _is_matrix(x) or op.arrays([i.type.ndim for i in node.inputs[1:]]):
        return NOTHING
    *_, rows, columns = op.entries
    if None in {rows, columns} or not isinstance(rows, Range) or rows != columns:
        return NOTHING
    facts = facts_of(x)
    if rows == Range():
        return facts
    if HOLE in rows.parts or rows.step not in {None, 1} or not is_square(node):
        return NOTHING
    return MatrixFacts(facts.band, facts.symmetric, facts.definite)


@facts_step.register
def _of_index_update(op: IndexUpdate, node: Node) -> MatrixFacts:
    x, value, *indices = node.inputs
    if op.entries[-2:] != (HOLE, HOLE) or len(indices) != 2 or indices[0] is not indices[1]:
        return NOTHING
    if any(entry != Range() for entry in op.entries[:-2]):
        return NOTHING
    facts = facts_of(x)
    definite = Definiteness.UNKNOWN
    if op.accumulate and facts.definite and (sign := sign_of(value)):
        is_entire = is_counting(indices[0]) and equal_lengths(indices[0], 0, x, -1)
        definite = max(facts.definite, sign if is_entire else Definiteness.SEMI)
    is_real = not is_complex(node.type.dtype)
    return MatrixFacts(facts.band | Band(0, 0), facts.symmetric and is_real, definite)


@facts_step.register
def _of_reshape(op: Reshape, node: Node) -> MatrixFacts:
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
