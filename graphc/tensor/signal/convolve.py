"""Convolution and correlation of arrays over their last axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, DTypeError, ShapeError
from graphc.ir import Op, TensorType, is_complex, is_inexact
from graphc.ir.lengths import agree, common
from graphc.tensor.arrays.index import flip
from graphc.tensor.arrays.join import stack
from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.axes import expand_dims, moveaxis, slice_at_axis, squeeze, transpose
from graphc.tensor.core.shape import length
from graphc.tensor.core.tensor import Tensor, TensorLike, function, operands
from graphc.tensor.signal.pad import pad

__all__ = ["convolve", "correlate"]


@dataclass(frozen=True, slots=True)
class Convolution(Op):
    """Sums of ``a[i - t] * b[t]`` over the last, spatial axes, where both have an element.

    In front of these, each operand has axes of three kinds: groups, rows (a) or columns (b), and
    channels. The result has groups, rows, columns and the spatial axes. bool is "or" of "and".

    Attributes:
        groups: The number of leading axes that a, b and the result share.
        rows: The number of axes that a alone has.
        columns: The number of axes that b alone has.
        channels: The number of pairs of axes that are summed over.
        full: Whether the result has every sum of one product at least, n + k - 1 along an axis;
            else only the sums of all of b's elements, n - k + 1.
    """

    groups: int
    rows: int
    columns: int
    channels: int
    full: bool
    name = "convolve"

    def first(self, side: int) -> int:
        return self.groups + (self.rows, self.columns)[side] + self.channels

    def pairs(self) -> list[tuple[int, int]]:
        channels = zip(
            range(self.groups + self.rows, self.first(0)),
            range(self.groups + self.columns, self.first(1)),
            strict=True,
        )
        return [*((i, i) for i in range(self.groups)), *channels]

    def infer(self, a: TensorType, b: TensorType) -> TensorType:
        if a.dtype != b.dtype or is_complex(a.dtype):
            raise DTypeError(f"convolve({a!r}, {b!r}): expected real arrays of one dtype.")
        for i, j in self.pairs():
            if not agree(a.shape[i], b.shape[j]):
                raise ShapeError(
                    f"convolve({a!r}, {b!r}): axis {i} of the first has length {a.shape[i]}, axis "
                    f"{j} of the second {b.shape[j]}.",
                    "Make them equal, or one of them 1.",
                )
        groups = [common(n, b.shape[i]) for i, n in enumerate(a.shape[: self.groups])]
        rows = a.shape[self.groups : self.groups + self.rows]
        columns = b.shape[self.groups : self.groups + self.columns]
        return a.with_shape((*groups, *rows, *columns, *self.spatial(a.shape, b.shape)))

    def spatial(self, a: Sequence[Any], b: Sequence[Any]) -> tuple[Any, ...]:
        """Return the result's spatial lengths, given the operands' shapes; None is unknown."""
        pairs = list(zip(a[self.first(0) :], b[self.first(1) :], strict=True))
        for n, k in pairs:
            short = isinstance(n, int) and isinstance(k, int) and not self.full and n < k
            if 0 in {n, k} or short:
                raise ShapeError(
                    f"convolve: cannot convolve {n} elements with {k}.",
                    "Pass at least one element of each, and the longer array first.",
                )
        return tuple(None if None in (n, k) else self.result(n, k) for n, k in pairs)

    def result(self, n: Any, k: Any) -> Any:
        return n + k - 1 if self.full else n - k + 1

    def merge_axes(self, a: Any, b: Any) -> tuple[Any, Any, tuple[int, ...]]:
        spatial = self.spatial(a.shape, b.shape)
        g, r, k = self.groups, self.rows, self.columns
        groups, rows, channels = a.shape[:g], a.shape[g : g + r], a.shape[g + r : self.first(0)]
        columns = b.shape[g : g + k]
        sizes = [prod(axes) for axes in (groups, rows, columns, channels)]
        return (
            a.reshape((sizes[0], sizes[1], sizes[3], *a.shape[self.first(0) :])),
            b.reshape((sizes[0], sizes[2], sizes[3], *b.shape[self.first(1) :])),
            (*groups, *rows, *columns, *spatial),
        )

    def padding_for(self, i: int, axis: int, type: TensorType) -> Any:
        return 0 if axis >= self.groups + (self.rows, self.columns)[i] else "any"

    def perform(self, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> Any:
        wide = np.dtype(np.int64) if a.dtype == bool else ew.wide_dtype(a.dtype)
        left, right, shape = self.merge_axes(a.astype(wide, copy=False), b.astype(wide, copy=False))
        if left.ndim == 4 and left.shape[:3] == right.shape[:3] == (1, 1, 1):
            y = np.convolve(left[0, 0, 0], right[0, 0, 0], "full" if self.full else "valid")
        else:
            spatial = shape[len(shape) - left.ndim + 3 :]
            y = (_sum_full if self.full else _sum_valid)(left, right, spatial)
        return y.reshape(shape).astype(a.dtype, copy=False)

    # Both gradients are convolutions; they differ by which operand is flipped.

    def pullback_to(
        self, wanted: Sequence[bool], g: Tensor, y: Tensor, a: Tensor, b: Tensor
    ) -> Sequence[Any]:
        if not is_inexact(a.dtype):
            return None, None
        by_a, by_b = wanted
        return self._gradient_of_a(g, a, b) if by_a else None, self._gradient_of_b(
            g, a, b
        ) if by_b else None

    def _gradient_of_a(self, g: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Convolve groups, rows, columns of g with groups, channels, columns of b."""
        op = self.of(self.groups, self.rows, self.channels, self.columns, full=not self.full)
        b = flip_last(self._channels_first(b, self.columns), b.ndim - self.first(1))
        return Tensor.make(op, g, b)

    def _gradient_of_b(self, g: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Convolve groups, columns, rows of g with groups, channels, rows of a."""
        spatial = a.ndim - self.first(0)
        g = _swap_axes(g, self.groups, self.rows, self.columns)
        a = flip_last(self._channels_first(a, self.rows), spatial)
        if self.full:
            op = self.of(self.groups, self.columns, self.channels, self.rows, full=False)
            return Tensor.make(op, g, a)
        op = self.of(self.groups, self.channels, self.columns, self.rows, full=False)
        return _swap_axes(Tensor.make(op, a, g), self.groups, self.channels, self.columns)

    def _channels_first(self, x: Tensor, own: int) -> Tensor:
        return _swap_axes(x, self.groups, own, self.channels)

    def of(self, groups: int, rows: int, columns: int, channels: int, *, full: bool) -> Convolution:
        """Return the same algorithm over other axes."""
        return replace(
            self, groups=groups, rows=rows, columns=columns, channels=channels, full=full
        )

    def pushforward(self, tangents: Sequence[Any], y: Tensor, a: Tensor, b: Tensor) -> Any:
        da, db = tangents
        terms = [] if da is None else [Tensor.make(self, da, b)]
        terms += [] if db is None else [Tensor.make(self, a, db)]
        return None if not terms else terms[0] if len(terms) == 1 else terms[0] + terms[1]

    def batch(self, size: Any, batched: Sequence[bool], a: Tensor, b: Tensor) -> Tensor:
        """Make two batches a pair of groups; the batch of one operand a row, or a column."""
        if all(batched):
            return Tensor.make(replace(self, groups=self.groups + 1), a, b)
        if batched[0]:
            y = Tensor.make(replace(self, rows=self.rows + 1), moveaxis(a, 0, self.groups), b)
            return moveaxis(y, self.groups, 0)
        b = moveaxis(b, 0, self.groups)
        y = Tensor.make(replace(self, columns=self.columns + 1), a, b)
        return moveaxis(y, self.groups + self.rows, 0)


def _swap_axes(x: Tensor, first: int, some: int, others: int) -> Tensor:
    """Swap ``some`` axes from the first on with ``others`` axes behind them."""
    middle = first + some
    order = [*range(first), *range(middle, middle + others), *range(first, middle)]
    order += range(len(order), x.ndim)
    return x if order == [*range(x.ndim)] else transpose(x, order)


def _taps(shape: Sequence[int]) -> Iterator[tuple[int, ...]]:
    return iter(np.ndindex(*shape))


def _product(a: np.ndarray[Any, Any], tap: np.ndarray[Any, Any]) -> Any:
    """Multiply one element of b, its groups, columns and channels, with all of a."""
    if a.shape[2] == 1:
        b = tap.reshape((tap.shape[0], 1, tap.shape[1], *(1,) * (a.ndim - 3)))
        return a * b
    return np.einsum("grc...,gkc->grk...", a, tap)


def _sum_valid(a: Any, b: Any, spatial: Sequence[int]) -> Any:
    y = np.zeros((*a.shape[:2], b.shape[1], *spatial), a.dtype)
    for tap in _taps(b.shape[3:]):
        first = [k - 1 - t for k, t in zip(b.shape[3:], tap, strict=True)]
        part = a[..., *(slice(i, i + m) for i, m in zip(first, spatial, strict=True))]
        y += _product(part, b[(..., *tap)])
    return y


def _sum_full(a: Any, b: Any, spatial: Sequence[int]) -> Any:
    """Return all sums, looping over the elements of the smaller operand."""
    if prod(a.shape[3:]) < prod(b.shape[3:]):
        return np.swapaxes(_sum_full(b, a, spatial), 1, 2)
    y: Any = np.zeros((*a.shape[:2], b.shape[1], *spatial), a.dtype)
    for tap in _taps(b.shape[3:]):
        part = tuple(slice(t, t + n) for t, n in zip(tap, a.shape[3:], strict=True))
        y[(..., *part)] += _product(a, b[(..., *tap)])
    return y


@dataclass(frozen=True, slots=True)
class FourierConvolution(Convolution):
    """The same convolution by Fourier transforms, in n log n operations."""

    name = "fftconvolve"

    def perform(self, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> Any:
        wide = ew.wide_dtype(a.dtype)
        y = self.by(np.fft, a.astype(wide, copy=False), b.astype(wide, copy=False))
        return y.astype(a.dtype, copy=False)

    def by(self, fft: Any, a: Any, b: Any) -> Any:
        """Multiply spectra, by a library's transforms of its floating arrays.

        Without ``full``, the sums from k - 1 on are needed, which do not wrap around n
        elements.
        """
        a, b, shape = self.merge_axes(a, b)
        sides = list(zip(a.shape[3:], b.shape[3:], strict=True))
        s = [fast_length(self.result(n, k) if self.full else n) for n, k in sides]
        axes = list(range(4, 4 + len(s)))
        y = fft.rfftn(a[:, :, None], s, axes) * fft.rfftn(b[:, None], s, axes)
        y = fft.irfftn(y.sum(3), s, [axis - 1 for axis in axes])
        cuts = [slice(0, n + k - 1) if self.full else slice(k - 1, n) for n, k in sides]
        return y[(..., *cuts)].reshape(shape)


SMALL_FACTORS = (2, 3, 5)
"""Lengths of these factors alone transform fastest in every library."""


def fast_length(n: int) -> int:
    """Return the smallest length from n on that transforms fast."""
    while True:
        rest = n
        for factor in SMALL_FACTORS:
            while rest % factor == 0:
                rest //= factor
        if rest == 1:
            return n
        n += 1


# Convolutions of complex numbers, and axes in front that broadcast.


def flip_last(x: Tensor, spatial: int) -> Tensor:
    """Return the array with its last axes reversed."""
    return flip(x, tuple(range(x.ndim - spatial, x.ndim)))


def _convolve_complex(op: Convolution, a: Tensor, b: Tensor, spatial: int) -> Tensor:
    """Convolve complex arrays as real ones: parts are a channel of a, and two axes of b.

    (p + iq)(r + is) = (pr - qs) + i(ps + qr).
    """
    at = a.ndim - spatial, b.ndim - spatial
    re, im = ew.real(b), ew.imag(b)
    a_parts = stack([ew.real(a), ew.imag(a)], at[0])
    turned = stack([stack([re, -im], at[1]), stack([im, re], at[1])], at[1])
    y = Tensor.make(replace(op, columns=op.columns + 1, channels=1), a_parts, turned)
    column = y.ndim - spatial - 1
    return ew.complex(*(y[slice_at_axis(i, column)] for i in (0, 1)))


KINDS = {(True, True): "group", (True, False): "row", (False, True): "column"}
"""The kind of a leading axis, by whether each operand has one not known to be 1 long."""


def _convolve(a: Tensor, b: Tensor, spatial: int, cls: type[Convolution], *, full: bool) -> Tensor:
    """Convolve over the last axes; those in front broadcast."""
    ndim = max(a.ndim, b.ndim) - spatial
    long = zip(_longer(a, spatial, ndim), _longer(b, spatial, ndim), strict=True)
    kinds = [KINDS.get(sides, "one") for sides in long]
    a, b = _arrange_axes(a, spatial, kinds, "row"), _arrange_axes(b, spatial, kinds, "column")
    groups, rows, columns = (kinds.count(kind) for kind in ("group", "row", "column"))
    op = cls(groups, rows, columns, 0, full)
    y = _convolve_complex(op, a, b, spatial) if is_complex(a.dtype) else Tensor.make(op, a, b)
    axes = [i for kind in ("group", "row", "column") for i, k in enumerate(kinds) if k == kind]
    y = _move_to_front(y, [axes.index(i) for i in sorted(axes)])
    unit_axes = [i for i, kind in enumerate(kinds) if kind == "one"]
    return expand_dims(y, unit_axes) if unit_axes else y


def _longer(x: Tensor, spatial: int, ndim: int) -> list[bool]:
    """Return which of the leading axes exist and are not statically 1 long."""
    own = [n != 1 for n in x.type.shape[: x.ndim - spatial]]
    return [False] * (ndim - len(own)) + own


def _move_to_front(x: Tensor, first: Sequence[int]) -> Tensor:
    order = [*first, *range(len(first), x.ndim)]
    return x if order == [*range(x.ndim)] else transpose(x, order)


def _arrange_axes(x: Tensor, spatial: int, kinds: Sequence[str], own: str) -> Tensor:
    """Put the groups first, then the operand's own axes, and drop axes of length 1."""
    held = kinds[len(kinds) + spatial - x.ndim :]
    dropped = tuple(i for i, kind in enumerate(held) if kind not in {"group", own})
    remaining = [kind for kind in held if kind in {"group", own}]
    x = squeeze(x, dropped) if dropped else x
    return _move_to_front(
        x, [i for kind in ("group", own) for i, k in enumerate(remaining) if k == kind]
    )


def _sizes(x: Tensor, spatial: int) -> list[Any]:
    return [length(x, axis) for axis in range(x.ndim - spatial, x.ndim)]


def _pad_last_axes(x: Tensor, sides: Sequence[tuple[Any, Any]]) -> Tensor:
    if all(isinstance(n, int) and n == 0 for side in sides for n in side):
        return x
    return pad(x, [*[(0, 0)] * (x.ndim - len(sides)), *sides])


def full_convolution(a: Tensor, b: Tensor, spatial: int, cls: type[Convolution]) -> Tensor:
    """Return every sum of at least one product."""
    return _convolve(a, b, spatial, cls, full=True)


def valid_convolution(a: Tensor, b: Tensor, spatial: int, cls: type[Convolution]) -> Tensor:
    """Return the sums in which all elements of the shorter operand take part."""
    sides = list(zip(_sizes(a, spatial), _sizes(b, spatial), strict=True))
    static = [(n, k) for n, k in sides if isinstance(n, int) and isinstance(k, int)]
    if any(n > k for n, k in static) and any(n < k for n, k in static):
        raise ShapeError(
            f"convolve({a!r}, {b!r}) with mode='valid': each array is longer than the other on "
            "some axis.",
            "Make one of them at least as long on each axis.",
        )
    if len(static) == len(sides):
        if any(n < k for n, k in static):
            a, b = b, a
        return _convolve(a, b, spatial, cls, full=False)
    # Which one is longer is found at run time; if it is b, a is zero-padded.
    widths = [
        max(k - n, 0) if isinstance(n, int) and isinstance(k, int) else ew.maximum(k - n, 0)
        for n, k in sides
    ]
    return _convolve(_pad_last_axes(a, [(w, w) for w in widths]), b, spatial, cls, full=False)


def same_convolution(
    a: Tensor, b: Tensor, spatial: int, cls: type[Convolution], *, later: bool = False
) -> Tensor:
    """Return the middle part of all sums, as many as a has elements.

    Args:
        a: The first operand.
        b: The second one.
        spatial: The number of convolved axes.
        cls: The algorithm.
        later: Whether to return the later one if there are two middle parts.
    """
    sizes = _sizes(b, spatial)
    sides = [((k - 1) // 2, k // 2) if later else (k // 2, (k - 1) // 2) for k in sizes]
    return _convolve(_pad_last_axes(a, sides), b, spatial, cls, full=False)


MODES = ("full", "same", "valid")


def _vectors(op: str, a: Any, v: Any, mode: str) -> tuple[Tensor, Tensor]:
    (a, v), _ = operands(op, (a, v))
    if a.ndim > 1 or v.ndim > 1:
        raise ShapeError(
            f"{op}({a!r}, {v!r}): expected two vectors.",
            "Use gt.signal.convolve and gt.signal.correlate for more axes.",
        )
    check_mode(op, mode)
    return (expand_dims(a, 0) if not a.ndim else a), (expand_dims(v, 0) if not v.ndim else v)


def check_mode(op: str, mode: Any, modes: Sequence[str] = MODES) -> None:
    """Raise if there is no such mode."""
    if mode not in modes:
        raise ArgumentError(f"{op}: unknown mode={mode!r}.", f"Use one of {', '.join(modes)}.")


@function
def convolve(a: TensorLike, v: TensorLike, mode: str = "full") -> Tensor:
    """Return the convolution of two vectors: sums of ``a[i - t] * v[t]``.

    Args:
        a: A vector of any dtype.
        v: A vector of any dtype; the two may be exchanged.
        mode: ``"full"``: every sum of at least one product; ``"same"``: as many as the longer
            vector has elements; ``"valid"``: the sums of all elements of the shorter one.

    Returns:
        For n and k elements, ``n + k - 1``, ``max(n, k)`` or ``abs(n - k) + 1``.

    Raises:
        ShapeError: An operand is not a vector, or is empty.
        ArgumentError: The mode is unknown.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.convolve([1, 2, 3], [1, 10]).eval(mode="NUMPY").tolist()
        [1, 12, 23, 30]
    """
    a, v = _vectors("convolve", a, v, mode)
    n, k = length(a, 0), length(v, 0)
    if mode == "valid":
        return valid_convolution(a, v, 1, Convolution)
    if mode == "same" and isinstance(n, int) and isinstance(k, int):
        return same_convolution(*((a, v) if n >= k else (v, a)), 1, Convolution)
    y = full_convolution(a, v, 1, Convolution)
    if mode == "full":
        return y
    first = (ew.minimum(n, k) - 1) // 2
    return y[first : first + ew.maximum(n, k)]


@function
def correlate(a: TensorLike, v: TensorLike, mode: str = "valid") -> Tensor:
    """Return the correlation of two vectors: sums of ``a[i + t] * conj(v[t])``.

    Args:
        a: A vector of any dtype.
        v: A vector of any dtype; if the two are exchanged, the result is reversed and conjugate.
        mode: As for ``convolve``.

    Returns:
        As for ``convolve``.

    Raises:
        ShapeError: An operand is not a vector, or is empty.
        ArgumentError: The mode is unknown.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.correlate([1, 2, 3], [0, 1, 0.5]).eval(mode="NUMPY").tolist()
        [3.5]
    """
    a, v = _vectors("correlate", a, v, mode)
    n, k = length(a, 0), length(v, 0)
    turned = flip(ew.conj(v) if is_complex(v.dtype) else v, 0)
    if mode == "valid":
        return valid_convolution(a, turned, 1, Convolution)
    if mode == "same" and isinstance(n, int) and isinstance(k, int):
        if n >= k:
            return same_convolution(a, turned, 1, Convolution)
        return same_convolution(turned, a, 1, Convolution, later=True)
    y = full_convolution(a, turned, 1, Convolution)
    if mode == "full":
        return y
    # Where v is the longer one, NumPy takes the middle of the reversed sums.
    first = (ew.minimum(n, k) - ew.cast(n >= k, "int64")) // 2
    return y[first : first + ew.maximum(n, k)]
