"""Quantization for given inputs: GPTQ and AWQ, as graphs.

Both minimise the error of ``x @ w`` for the inputs x of a sample. The error depends on x only
through H = x.T @ x.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import graphc.tensor as gt
from graphc import hooks
from graphc.errors import ImplicitArrayError
from graphc.implicit.namespace import SYMBOLIC, numpy_like
from graphc.implicit.quantized.base import Quantized
from graphc.implicit.quantized.coding import Coding
from graphc.implicit.quantized.convert import Recipe, recipe_of, resolve_channels
from graphc.implicit.quantized.encode import nearest, parameters_of
from graphc.implicit.quantized.microscaled import Microscaled
from graphc.implicit.structures.channels import ChannelScaled
from graphc.implicit.treedef import Treedef, dtype_of, lengths_of
from graphc.ir import dtype_name
from graphc.loop.functional import loop
from graphc.tensor import Tensor

METHODS = ("gptq", "awq")

STEPS = 20
"""The number of exponents between 0 and 1 that AWQ tries."""


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
    """Quantize a matrix such that ``sample @ w`` changes little.

    ``"gptq"`` quantizes row by row, and changes the remaining rows to compensate the error.
    ``"awq"`` scales rows up before they are quantized, the more the larger their inputs are, and
    scales inputs down; of 20 exponents it uses the one with the smallest error.

    Args:
        w: ``(inputs, outputs)``, floating; of NumPy, JAX or MLX, or symbolic.
        sample: The inputs that are multiplied by w, ``(..., inputs)``, of the same library.
        kind: A kind of ``quantize``, or a mapping of its options; for ``"gptq"`` no kind of
            ``Microscaled``.
        method: ``"gptq"`` or ``"awq"``.
        group_size: The number of neighbours that share a scale, as for ``quantize``.
        axis: The axis along which groups lie: -2, the axis of inputs, or for ``"gptq"`` also -1.
        symmetric: As for ``quantize``.
        damping: The number added to the diagonal of H, relative to its mean; for ``"gptq"``.

    Returns:
        A quantized array as by ``quantize``; for ``"awq"`` a ``ChannelScaled`` one, whose factors
        the preceding layer may apply instead.

    Raises:
        ImplicitArrayError: If there is no such method or kind, or the sample does not fit.

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
    recipe, _ = resolve_channels(recipe, 2, "the matrix")

    def quantize_matrix(w: Tensor, sample: Tensor) -> Any:
        x = gt.reshape(sample, (-1, lengths_of(w)[0]))
        h = gt.matmul(x.T, x)
        return _gptq(recipe, w, h, damping) if method == "gptq" else _awq(recipe, w, h)

    dtype = np.promote_types(dtype_of(w), "float32") if dtype_of(w).kind == "f" else "float32"
    return _run(quantize_matrix, w, sample, dtype_name(dtype))


def _check(w: Any, sample: Any, method: str, recipe: Recipe) -> None:
    shape, inputs = lengths_of(w), lengths_of(sample)
    if method not in METHODS:
        problem = f"calibrate(method={method!r})."
        raise ImplicitArrayError(problem, f"Give one of {', '.join(map(repr, METHODS))}.")
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
    """Call a function of symbolic arrays in the dtype ``wide``, with arrays of any library."""
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


class _Blocks(NamedTuple):
    """A matrix in blocks of rows.

    Attributes:
        recipe: The options of the quantization.
        coding: The encoding.
        rows: The number of rows in a block: a group, or one if groups lie along columns.
        padding: The numbers of rows and columns of padding.
    """

    recipe: Recipe
    coding: Coding
    rows: int
    padding: tuple[int, int]

    @classmethod
    def of(cls, recipe: Recipe, shape: tuple[int, int]) -> _Blocks:
        along_rows = recipe.axis == -2
        n = shape[0 if along_rows else 1]
        coding = recipe.coding_for(n)
        count = -n % coding.group_size
        padding = (count, 0) if along_rows else (0, count)
        return cls(recipe, coding, coding.group_size if along_rows else 1, padding)

    def groups(self, block: Tensor) -> Tensor:
        """Return a block of rows with the groups' axis last."""
        return block.T if self.recipe.axis == -2 else block

    def of_row(self, numbers: Tensor) -> Tensor:
        """Return the scale or bias of each element of a row, from the scales or biases of a block.

        In a block of several rows, these are equal for all rows.
        """
        if self.recipe.axis == -2:
            return numbers[:, 0]
        return gt.repeat(numbers[0], self.coding.group_size)

    def build(self, codes: Tensor, numbers: list[Tensor]) -> Quantized:
        """Build the array from codes, and from scales and biases of one row for each block."""
        transposed = self.recipe.axis == -2
        build: Any = self.recipe.cls
        array: Quantized = build(
            self.coding.pack(SYMBOLIC, codes.T if transposed else codes),
            *[x.T if transposed else x for x in numbers],
            transposed=transposed,
            padding=sum(self.padding),
            group_size=self.coding.group_size,
            **self.recipe.options,
        )
        return array


def _gptq(recipe: Recipe, w: Tensor, h: Tensor, damping: float) -> Quantized:
    """Quantize row by row; the remaining rows compensate the error, block by block."""
    shape: Any = lengths_of(w)
    m, blocks = shape[0], _Blocks.of(recipe, shape)
    rows, (below, beside) = blocks.rows, blocks.padding
    w = gt.pad(w, [(0, below), (0, beside)])
    h = h + gt.eye(m, dtype=h.dtype) * gt.maximum(damping * gt.diagonal(h).mean(), TINY)
    # Rows of padding do not depend on other rows.
    h = gt.pad(h, [(0, below), (0, below)])
    total = m + below
    h = h + gt.diag(gt.cast(gt.arange(total) >= m, h.dtype))
    upper = gt.linalg.cholesky(gt.linalg.inv(h)).T
    row_indices = gt.arange(total)

    def block_numbers(w: Tensor, i: Tensor) -> list[Any]:
        groups = blocks.groups(w)
        numbers = parameters_of(SYMBOLIC, blocks.coding, groups, beside)
        if not below:
            return numbers
        # Only the last block ends with rows of padding.
        is_last = gt.eq(i, total // rows - 1)
        last = parameters_of(SYMBOLIC, blocks.coding, groups, below)
        return [gt.where(is_last, *pair) for pair in zip(last, numbers, strict=True)]

    def quantize_block(w: Tensor, i: Tensor) -> Any:
        own = i * rows + gt.arange(rows)
        factors = upper[own]
        numbers = block_numbers(w[own], i)
        row_numbers = [blocks.of_row(x) for x in numbers]
        codes, errors = _quantize_rows(blocks.coding, w[own], gt.take(factors, own, 1), row_numbers)
        following = gt.where(row_indices >= (i + 1) * rows, factors, 0)
        w = w - gt.matmul(following.T, errors)
        return w, (codes, [x.reshape((-1,)) for x in numbers])

    _, (codes, numbers) = loop(quantize_block, w, gt.arange(total // rows))
    return blocks.build(codes.reshape((total, -1)), numbers)


def _quantize_rows(coding: Coding, w: Tensor, upper: Tensor, numbers: list[Tensor]) -> Any:
    """Return the codes of a block's rows, and the errors that following blocks compensate."""
    count: Any = upper.type.shape[0]
    row_indices = gt.arange(count)

    def quantize_row(w: Tensor, row: Any) -> Any:
        i, factors = row
        codes, values = nearest(SYMBOLIC, coding, w[i], *numbers)
        error = (w[i] - values) / factors[i]
        following = gt.where(row_indices > i, factors, 0)
        return w - following[:, None] * error, (codes, error)

    _, codes_and_errors = loop(quantize_row, w, (row_indices, upper))
    return codes_and_errors


TINY = 1e-12
"""The least number added to a diagonal, so that a sample of zeros has an inverse, too."""


def _awq(recipe: Recipe, w: Tensor, h: Tensor) -> ChannelScaled:
    """Use the exponent of the inputs' magnitudes that has the smallest error."""
    blocks = _Blocks.of(recipe, lengths_of(w))  # type: ignore[arg-type]
    # The root mean square is proportional to the mean magnitude.
    size = gt.sqrt(gt.diagonal(h))
    size = gt.maximum(size / gt.maximum(gt.max(size), TINY), 1e-4)

    def scales(exponent: Tensor) -> Tensor:
        powers = size**exponent
        return powers / gt.sqrt(gt.max(powers) * gt.min(powers))

    def quantize_scaled(s: Tensor) -> Any:
        x = gt.pad(w * s[:, None], [(0, blocks.padding[0]), (0, 0)])
        return recipe.encode(SYMBOLIC, blocks.coding, x.T, sum(blocks.padding))

    def squared_error(_: None, exponent: Tensor) -> Any:
        s = scales(exponent)
        error = quantize_scaled(s).materialize() / s[:, None] - w
        return None, (error * gt.matmul(h, error)).sum()

    exponents = gt.cast(gt.arange(STEPS), w.dtype) / STEPS
    _, errors = loop(squared_error, None, exponents)
    s = scales(exponents[gt.argmin(errors)])
    return ChannelScaled(quantize_scaled(s), 1 / s)
