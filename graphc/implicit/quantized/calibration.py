"""Quantization for given inputs: GPTQ and AWQ, as graphs.

Both make the error of ``x @ w`` small, for the inputs x of a sample. That enters by the products of
its columns alone, H = x.T @ x.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import graphc.tensor as gt
from graphc import hooks
from graphc.errors import ImplicitArrayError
from graphc.implicit.namespace import SYMBOLIC, numpy_like
from graphc.implicit.quantized.base import Quantized
from graphc.implicit.quantized.channel_scaled import ChannelScaled
from graphc.implicit.quantized.coding import Coding
from graphc.implicit.quantized.convert import Recipe, placed, recipe_of
from graphc.implicit.quantized.encode import nearest, parameters_of
from graphc.implicit.quantized.microscaled import Microscaled
from graphc.implicit.treedef import Treedef, dtype_of, lengths_of
from graphc.ir import dtype_name
from graphc.loop.functional import loop
from graphc.tensor import Tensor

METHODS = ("gptq", "awq")

STEPS = 20
"""So many exponents between 0 and 1 are tried."""


def calibrate(  # noqa: PLR0913 (the choices of quantize, and those of a method)
    w: Any,
    sample: Any,
    kind: Any = "int4",
    *,
    method: str = "gptq",
    group_size: int | None = None,
    axis: int = -2,
    symmetric: bool = False,
    damping: float = 0.01,
) -> Any:
    """A matrix as packed codes, such that ``sample @ w`` changes little.

    ``"gptq"`` quantizes row by row, and changes the rows that are left so that they make up for the
    error. ``"awq"`` scales rows up before they are quantized, the more the larger the inputs that
    they meet, and inputs down; of 20 strengths it takes the one with the least error.

    Args:
        w: ``(inputs, outputs)``, floating; of NumPy, JAX or MLX, or symbolic.
        sample: ``(..., inputs)``: what is multiplied by w, of the same library.
        kind: A kind of ``quantize``, or a mapping of its options; for ``"gptq"`` none of
            ``Microscaled``.
        method: ``"gptq"`` or ``"awq"``.
        group_size: How many neighbours share a scale, as of ``quantize``.
        axis: Along which axis groups lie: -2, that of inputs, or of ``"gptq"`` also -1.
        symmetric: As of ``quantize``.
        damping: What is added to the diagonal of H, relative to its mean; of ``"gptq"``.

    Returns:
        A quantized array like that of ``quantize``; of ``"awq"`` a ``ChannelScaled`` one, whose
        factors a layer before may apply instead.

    Raises:
        ImplicitArrayError: There is no such method or kind; the sample does not fit.

    Source: Frantar, Ashkboos, Hoefler & Alistarh, GPTQ, ICLR 2023; Lin et al., AWQ, MLSys 2024.

    Example:
        >>> from graphc.implicit import quantize
        >>> rng = np.random.default_rng(0)
        >>> w = rng.normal(size=(64, 8))
        >>> x = rng.normal(size=(256, 8)) @ rng.normal(size=(8, 64))  # inputs are correlated
        >>> def error(q):
        ...     return np.linalg.norm(x @ np.asarray(q) - x @ w)
        >>> q = calibrate(w, x, "int4")
        >>> type(q).__name__, bool(error(q) < 0.3 * error(quantize(w, "int4", axis=-2)))
        ('AffineQuantized', True)
    """
    options = {"group_size": group_size, "axis": axis, "symmetric": symmetric}
    recipe = recipe_of(kind, {**options, "channel_axes": None})
    _check(w, sample, method, recipe)
    recipe, _ = placed(recipe, 2, "the matrix")

    def made(w: Tensor, sample: Tensor) -> Any:
        x = gt.reshape(sample, (-1, lengths_of(w)[0]))
        h = gt.matmul(x.T, x)
        return _gptq(recipe, w, h, damping) if method == "gptq" else _awq(recipe, w, h)

    dtype = np.promote_types(dtype_of(w), "float32") if dtype_of(w).kind == "f" else "float32"
    return _run(made, w, sample, dtype_name(dtype))


def _check(w: Any, sample: Any, method: str, recipe: Recipe) -> None:
    shape, inputs = lengths_of(w), lengths_of(sample)
    if method not in METHODS:
        problem = f"calibrate(method={method!r})."
        raise ImplicitArrayError(problem, f"It is one of {', '.join(map(repr, METHODS))}.")
    if len(shape) != 2 or None in shape or not inputs or inputs[-1] != shape[0]:
        raise ImplicitArrayError(
            f"calibrate: a matrix of shape {shape}, a sample of {inputs}.",
            "Give a matrix of known shape, and a sample whose last axis is its rows'.",
        )
    if method == "gptq" and recipe.cls is Microscaled:
        raise ImplicitArrayError(
            "calibrate by 'gptq' of scales of 8 bits.", "Take another kind, or method='awq'."
        )
    if method == "awq" and recipe.axis != -2:
        raise ImplicitArrayError(
            f"calibrate(method='awq', axis={recipe.axis}).",
            "Groups of inputs, axis=-2, have rows of several scales; others have no use of it.",
        )


def _run(function: Any, w: Any, sample: Any, wide: str) -> Any:
    """Call a function of symbolic arrays in double or single width, with arrays of any library."""
    xp, dtype = numpy_like(w, sample), dtype_name(dtype_of(w))
    if xp.name == "graphc":
        y = function(SYMBOLIC.cast(w, wide), SYMBOLIC.cast(sample, wide))
        return SYMBOLIC.cast(gt.as_tensor(y), dtype).array
    inputs = [gt.tensor(dtype=dtype_name(dtype_of(x)), shape=lengths_of(x)) for x in (w, sample)]
    y = SYMBOLIC.cast(gt.as_tensor(function(*[SYMBOLIC.cast(x, wide) for x in inputs])), dtype)
    mode = xp.name if xp.name in {"JAX", "MLX"} else None
    returns: Any = "numpy" if mode is None else "native"
    result = hooks.compile_function(inputs, y, mode=mode, returns=returns)(w, sample)
    if xp.name != "NumPy":
        return result
    treedef, leaves = Treedef.of(result)
    return treedef.build([np.asarray(leaf) for leaf in leaves])


class _Layout(NamedTuple):
    """A matrix in blocks of rows.

    Attributes:
        recipe: How it is quantized.
        coding: What the codes mean.
        rows: The rows of a block: a group, or one where groups lie along columns.
        more: Rows and columns that are added.
    """

    recipe: Recipe
    coding: Coding
    rows: int
    more: tuple[int, int]

    @classmethod
    def of(cls, recipe: Recipe, shape: tuple[int, int]) -> _Layout:
        along_rows = recipe.axis == -2
        n = shape[0 if along_rows else 1]
        coding = recipe.coding_for(n)
        padding = -n % coding.group_size
        more = (padding, 0) if along_rows else (0, padding)
        return cls(recipe, coding, coding.group_size if along_rows else 1, more)

    def groups(self, block: Tensor) -> Tensor:
        """A block of rows with the groups' axis last."""
        return block.T if self.recipe.axis == -2 else block

    def of_row(self, part: Tensor) -> Tensor:
        """What the scales or biases of a block are for each element of a row."""
        if self.recipe.axis == -2:
            return part[:, 0]
        return gt.repeat(part[0], self.coding.group_size)

    def built(self, codes: Tensor, parts: list[Tensor]) -> Quantized:
        """The array of these codes, and of parts of one row for each block."""
        words = self.coding.packed(SYMBOLIC, codes.T if self.recipe.axis == -2 else codes)
        build: Any = self.recipe.cls
        made: Quantized = build(
            words,
            *[part.T if self.recipe.axis == -2 else part for part in parts],
            transposed=self.recipe.axis == -2,
            padding=sum(self.more),
            group_size=self.coding.group_size,
            **self.recipe.options,
        )
        return made


def _gptq(recipe: Recipe, w: Tensor, h: Tensor, damping: float) -> Quantized:
    """Quantize row by row; rows that are left take up the error, block by block."""
    shape: Any = lengths_of(w)
    m, layout = shape[0], _Layout.of(recipe, shape)
    rows, (below, beside) = layout.rows, layout.more
    w = gt.pad(w, [(0, below), (0, beside)])
    h = h + gt.eye(m, dtype=h.dtype) * gt.maximum(damping * gt.diagonal(h).mean(), TINY)
    # Rows that are added have no part in others.
    h = gt.pad(h, [(0, below), (0, below)])
    total = m + below
    h = h + gt.diag(gt.cast(gt.arange(total) >= m, h.dtype))
    upper = gt.linalg.cholesky(gt.linalg.inv(h)).T
    places = gt.arange(total)

    def parameters(w: Tensor, i: Tensor) -> list[Any]:
        groups = layout.groups(w)
        scales = parameters_of(SYMBOLIC, layout.coding, groups, beside)
        if not below:
            return scales
        # The last block alone ends with rows of padding.
        is_last = gt.eq(i, total // rows - 1)
        last = parameters_of(SYMBOLIC, layout.coding, groups, below)
        return [gt.where(is_last, *pair) for pair in zip(last, scales, strict=True)]

    def block(w: Tensor, i: Tensor) -> Any:
        own = i * rows + gt.arange(rows)
        of_block = upper[own]
        scales = parameters(w[own], i)
        numbers = [layout.of_row(part) for part in scales]
        codes, errors = _block(layout.coding, w[own], gt.take(of_block, own, 1), numbers)
        behind = gt.where(places >= (i + 1) * rows, of_block, 0)
        w = w - gt.matmul(behind.T, errors)
        return w, (codes, [part.reshape((-1,)) for part in scales])

    _, (codes, parts) = loop(block, w, gt.arange(total // rows))
    return layout.built(codes.reshape((total, -1)), parts)


def _block(coding: Coding, w: Tensor, upper: Tensor, numbers: list[Tensor]) -> Any:
    """The codes of a block's rows, and their errors, which rows behind the block take up."""
    count: Any = upper.type.shape[0]
    places = gt.arange(count)

    def row(w: Tensor, given: Any) -> Any:
        i, factors = given
        codes, values = nearest(SYMBOLIC, coding, w[i], *numbers)
        error = (w[i] - values) / factors[i]
        behind = gt.where(places > i, factors, 0)
        return w - behind[:, None] * error, (codes, error)

    _, found = loop(row, w, (places, upper))
    return found


TINY = 1e-12
"""The least that is added to a diagonal: a sample of zeros has an inverse, too."""


def _awq(recipe: Recipe, w: Tensor, h: Tensor) -> ChannelScaled:
    """Of several exponents of the inputs' magnitudes take the one with the least error."""
    layout = _Layout.of(recipe, lengths_of(w))  # type: ignore[arg-type]
    # The root of the mean square is as large as the mean magnitude but for a factor.
    size = gt.sqrt(gt.diagonal(h))
    size = gt.maximum(size / gt.maximum(gt.max(size), TINY), 1e-4)

    def scales(exponent: Tensor) -> Tensor:
        found = size**exponent
        return found / gt.sqrt(gt.max(found) * gt.min(found))

    def quantized(s: Tensor) -> Any:
        x = gt.pad(w * s[:, None], [(0, layout.more[0]), (0, 0)])
        return recipe.built(SYMBOLIC, layout.coding, x.T, sum(layout.more))

    def tried(_: None, exponent: Tensor) -> Any:
        s = scales(exponent)
        off = quantized(s).materialize() / s[:, None] - w
        return None, (off * gt.matmul(h, off)).sum()

    exponents = gt.cast(gt.arange(STEPS), w.dtype) / STEPS
    _, errors = loop(tried, None, exponents)
    s = scales(exponents[gt.argmin(errors)])
    return ChannelScaled(quantized(s), 1 / s)
