"""Primitives of linear algebra: products, convolutions, factorizations, solutions, transforms."""

from __future__ import annotations

import math

import numpy as np

import graphc.tensor as gt
from graphc.link.jax.from_jaxpr.equation import Converter, JaxprEquation, UnsupportedEquationError
from graphc.link.jax.from_jaxpr.shapes import windows
from graphc.tensor import Tensor
from graphc.tensor.core.shape import length
from graphc.tensor.linalg import DotGeneral


def _dot_general(eqn: JaxprEquation, a: Tensor, b: Tensor) -> Tensor:
    contract, batches = [
        (tuple(a_axes), tuple(b_axes)) for a_axes, b_axes in eqn["dimension_numbers"]
    ]
    op, dtype = DotGeneral(contract, batches), eqn.dtype
    return Tensor.make(op, a.astype(dtype), b.astype(dtype))


def _convolution(eqn: JaxprEquation, x: Tensor, kernel: Tensor) -> Tensor:
    """Convert a convolution to one matrix product: of all windows of x, and the kernel."""
    numbers = eqn["dimension_numbers"]
    if eqn["batch_group_count"] != 1 or x.dtype != kernel.dtype:
        raise UnsupportedEquationError
    # Windows are along the first axes; then come the batch and the features.
    batch, features, *space = numbers.lhs_spec
    x = gt.transpose(x, (*space, batch, features))
    n_out, n_in, *kernel_space = numbers.rhs_spec
    kernel = gt.transpose(kernel, (*kernel_space, n_in, n_out))
    sizes = [length(kernel, i) for i in range(len(space))]
    dilations = ("lhs_dilation", "rhs_dilation")
    parts = windows(eqn, x, gt.zeros((), x.dtype), sizes, dilations)
    y = _grouped_product(parts, kernel, len(space), int(eqn["feature_group_count"]))
    batch, features, *space = numbers.out_spec
    order = np.argsort([*space, batch, features]).tolist()
    return gt.transpose(y, tuple(order)).astype(eqn.dtype)


def _grouped_product(windows: Tensor, kernel: Tensor, n: int, groups: int) -> Tensor:
    """Return the products of windows and a kernel, whose features are in groups.

    Args:
        windows: Axes: elements of a window, ``n`` axes of positions, batch, input features.
        kernel: Axes: ``n`` axes of elements, input features of a group, output features.
        n: The number of axes of a window.
        groups: The number of groups of equal size.

    Returns:
        Axes: ``n`` axes of positions, batch, output features.
    """
    inner, outer = length(kernel, n), length(kernel, n + 1)
    size = math.prod(length(kernel, i) for i in range(n))
    kernel = gt.reshape(kernel, (size, inner, groups, outer // groups))
    positions = [length(windows, i) for i in range(1, n + 2)]
    windows = gt.reshape(windows, (size, *positions, groups, inner))
    axes = "abcde"[: n + 1]
    y = gt.einsum(f"z{axes}gi,zigo->{axes}go", windows, kernel)
    return gt.reshape(y, (*positions, outer))


def _triangular_solve(eqn: JaxprEquation, a: Tensor, b: Tensor) -> Tensor:
    if eqn["conjugate_a"]:
        a = gt.conj(a)
    is_left, lower, transposed = eqn["left_side"], eqn["lower"], eqn["transpose_a"]
    if not is_left:  # x a = b is a.T x.T = b.T
        b, transposed = b.mT, not transposed
    x = gt.linalg.solve_triangular(
        a, b, trans=int(transposed), lower=lower, unit_diagonal=eqn["unit_diagonal"], b_ndim=2
    )
    return x if is_left else x.mT


def _eigh(eqn: JaxprEquation, x: Tensor) -> list[Tensor]:
    if eqn.eqn.params.get("subset_by_index") is not None:
        raise UnsupportedEquationError
    values, vectors = gt.linalg.eigh(x, lower=bool(eqn["lower"]))
    return [vectors, values]


def _svd(eqn: JaxprEquation, x: Tensor) -> list[Tensor]:
    if eqn.eqn.params.get("subset_by_index") is not None:
        raise UnsupportedEquationError
    if not eqn["compute_uv"]:
        return [gt.linalg.svd(x, compute_uv=False)]
    u, s, vt = gt.linalg.svd(x, full_matrices=bool(eqn["full_matrices"]))
    return [s, u, vt]


def _qr(eqn: JaxprEquation, x: Tensor) -> list[Tensor]:
    if eqn.eqn.params.get("pivoting"):
        raise UnsupportedEquationError
    return gt.linalg.qr(x, mode="complete" if eqn["full_matrices"] else "reduced")


def _lu(eqn: JaxprEquation, x: Tensor) -> list[Tensor]:
    packed, pivots = gt.linalg.lu_factor(x)
    if x.ndim != 2:
        raise UnsupportedEquationError
    order = gt.argsort(gt.linalg.pivot_to_permutation(pivots))
    return [packed, pivots.astype("int32"), order.astype("int32")]


def _fft(eqn: JaxprEquation, x: Tensor) -> Tensor:
    name = str(getattr(eqn["fft_type"], "name", eqn["fft_type"])).rsplit(".", 1)[-1].lower()
    lengths = [eqn.lengths(n) for n in eqn["fft_lengths"]]
    functions = {
        "fft": gt.fft.fftn,
        "ifft": gt.fft.ifftn,
        "rfft": gt.fft.rfftn,
        "irfft": gt.fft.irfftn,
    }
    axes = tuple(range(-len(lengths), 0))
    return functions[name](x, lengths, axes).astype(eqn.dtype)


LINALG: dict[str, Converter] = {
    "dot_general": _dot_general,
    "conv_general_dilated": _convolution,
    "cholesky": lambda _, x: gt.linalg.cholesky(x),
    "triangular_solve": _triangular_solve,
    "eigh": _eigh,
    "svd": _svd,
    "qr": _qr,
    "lu": _lu,
    "fft": _fft,
}
"""Converters of primitives of linear algebra."""
