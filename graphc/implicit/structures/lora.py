"""Low-rank adapters: a frozen matrix and a trainable update of low rank."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from graphc.errors import ImplicitArrayError
from graphc.implicit.array import ImplicitArray, is_implicit
from graphc.implicit.namespace import numpy_like
from graphc.implicit.policy import densify
from graphc.implicit.structured import ElementwiseFunction
from graphc.implicit.structures.factors import (
    Factored,
    add_factors,
    check_factors,
    check_spec,
)
from graphc.implicit.structures.fill import accumulation_dtype, append_axes
from graphc.implicit.structures.one_hot import OneHot
from graphc.implicit.structures.stacked import check_same_dtype
from graphc.implicit.treedef import dtype_of, lengths_of
from graphc.ir import Node, TensorType, is_inexact


@dataclass(frozen=True, repr=False)
class LoRA(Factored):
    """``base + scale * a @ b``: a matrix and an update of low rank, or a stack of such matrices.

    The base may be implicit, such as a quantized matrix. The product of a and b is never formed:
    ``x @ lora`` is ``x @ base + ((x @ a) * scale) @ b``. Differentiate with respect to ``lora.a``,
    ``lora.b`` and ``lora.scale``; a gradient with respect to the base is computed only on request.

    Attributes:
        base: ``(*batch, m, n)``, an array or an implicit array.
        a: ``(*batch, m, rank)``.
        b: ``(*batch, rank, n)``.
        scale: A number for each matrix, ``(*batch,)``; None for 1.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit import LoRA
        >>> w = LoRA.of(np.ones((4, 3)), rank=2, seed=0)
        >>> w, np.ones(4) @ w
        (LoRA(float64[4, 3], float64[4, 2], float64[2, 3], float64[]), array([4., 4., 4.]))
        >>> w.merged().shape
        (4, 3)
    """

    base: Any
    a: Any
    b: Any
    scale: Any = None

    frozen_fields: ClassVar[tuple[str, ...] | None] = ("base", "scale")

    @classmethod
    def of(
        cls,
        base: Any,
        rank: int,
        *,
        alpha: float | None = None,
        rank_stabilized: bool = False,
        seed: Any = 0,
        key: Any = None,
    ) -> Self:
        """Return the base with an update that is zero before training.

        ``a`` is drawn from the normal distribution with variance 1 / m, so that ``x @ a`` has the
        magnitude of x; ``b`` is zero; the scale is ``alpha / rank``. With ``rank_stabilized``
        (rsLoRA) the scale is ``alpha / sqrt(rank)``, with which updates of high rank learn as fast
        as others.

        Args:
            base: ``(*batch, m, n)``, floating: an array of any library, or an implicit array.
            rank: The rank of the update, at least 1.
            alpha: The strength of the update, by default the divisor, so that the scale is 1.
            rank_stabilized: Whether to divide by the root of the rank.
            seed: A seed or generator of ``numpy.random.default_rng``.
            key: Replaces the seed: the data of a key, as ``jax.random.key_data`` returns it.

        Raises:
            ImplicitArrayError: If the base is no floating matrix, the rank no positive integer, or
                the seed or key has no generator.

        Example:
            >>> import numpy as np
            >>> LoRA.of(np.ones((4, 3), "float32"), 2, alpha=4).scale
            array(2., dtype=float32)

        Source: Hu et al., LoRA: Low-Rank Adaptation of Large Language Models, ICLR 2022;
            Kalajdzievski, A Rank Stabilization Scaling Factor for Fine-Tuning with LoRA, 2023.
        """
        shape, dtype = lengths_of(base), dtype_of(base)
        if len(shape) < 2 or None in shape or not is_inexact(str(dtype)):
            raise ImplicitArrayError(
                f"LoRA.of: a base of {dtype}{list(shape)}.",
                "Give a floating matrix of known shape.",
            )
        if not isinstance(rank, int | np.integer) or rank < 1:
            raise ImplicitArrayError(f"LoRA.of: a rank of {rank!r}.", "Give an integer from 1 on.")
        lengths: Any = shape
        *batch, m, n = lengths
        rng = _generator(seed, key)
        draws = rng.standard_normal((*batch, m, rank))
        a = (draws / math.sqrt(max(m, 1))).astype(dtype)
        divisor = math.sqrt(rank) if rank_stabilized else rank
        scale = np.full(batch, (divisor if alpha is None else alpha) / divisor, dtype)
        fields = [a, np.zeros((*batch, rank, n), dtype), scale]
        return cls(base, *[as_library_array(base, x) for x in fields])

    @classmethod
    def spec(  # type: ignore[override]
        cls, shape: Any, dtype: Any, rank: int | None = None, base: Any = None, scaled: bool = False
    ) -> Self:
        """Return the type of an input.

        Args:
            shape: ``(*batch, m, n)``.
            dtype: The dtype of all fields.
            rank: The rank of the update.
            base: The type of the base, such as the ``spec`` of another class; by default dense.
            scaled: Whether the array has a scale.

        Raises:
            ImplicitArrayError: If the shape has fewer than two lengths, or the rank is missing.

        Example:
            >>> LoRA.spec((4, 3), "float32", rank=2)
            LoRA(float32[4, 3], float32[4, 2], float32[2, 3], None)
        """
        *batch, m, n = check_spec(cls, shape, rank)
        return cls(
            TensorType(dtype, shape) if base is None else base,
            TensorType(dtype, (*batch, m, rank)),
            TensorType(dtype, (*batch, rank, n)),
            TensorType(dtype, tuple(batch)) if scaled else None,
        )

    def check(self) -> None:
        check_factors(self, self.a, self.b)
        base, a, b = map(lengths_of, (self.base, self.a, self.b))
        if base != (*a[:-1], b[-1]):
            raise ImplicitArrayError(
                f"LoRA: a base of shape {list(base)}, but a @ b of {[*a[:-1], b[-1]]}.",
                "Give a of shape (*batch, m, rank) and b of (*batch, rank, n), for (*batch, m, n).",
            )
        if self.scale is not None and lengths_of(self.scale) != a[:-2]:
            raise ImplicitArrayError(
                f"LoRA: a scale of shape {list(lengths_of(self.scale))}, but a stack of "
                f"{list(a[:-2])}.",
                "Give a number for each matrix.",
            )
        check_same_dtype(self, base=self.base, a=self.a, b=self.b, scale=self.scale)

    def matrix_specs(self, rows: Any, columns: Any) -> Mapping[str, tuple[Any, ...]]:
        return {"a": (rows, None), "base": (rows, columns), "b": (None, columns), "scale": ()}

    @property
    def matrix(self) -> tuple[int | None, int | None]:
        return lengths_of(self.a)[-2], lengths_of(self.b)[-1]

    def materialize(self) -> Any:
        xp = self.xp
        return xp.add(densify(self.base), xp.matmul(*self.factors(xp)))

    def merged(self) -> Any:
        """Return the dense sum of base and update. The materialization policy does not apply."""
        return densify(self)

    def unmerged(self, w: Any) -> LoRA:
        """Return the same update on the base for which the two add up to ``w``.

        Args:
            w: ``(*batch, m, n)``, such as the result of ``merged``.

        Example:
            >>> import numpy as np
            >>> lora = LoRA(np.eye(2), np.ones((2, 1)), np.ones((1, 2)))
            >>> lora.unmerged(lora.merged()).base.tolist()
            [[1.0, 0.0], [0.0, 1.0]]
        """
        xp = numpy_like(self, w)
        return self.with_scale(xp.subtract(w, xp.matmul(*self.factors(xp))), self.scale)

    def factors(self, xp: Any) -> tuple[Any, Any]:
        """Return ``scale * a`` and b."""
        if self.scale is None:
            return self.a, self.b
        return xp.multiply(self.a, append_axes(xp, self.scale, self.ndim)), self.b

    def scale_or_ones(self, xp: Any) -> Any:
        return xp.ones(xp.shape_of(self.a)[:-2], self.dtype) if self.scale is None else self.scale

    # Products.

    def rmatmul(self, x: Any) -> Any:
        xp = numpy_like(self, x)
        through_base = xp.matmul(x, self.base)
        if is_implicit(x) and not isinstance(x, OneHot):
            return LoRA(through_base, xp.matmul(x, self.a), self.b, self.scale)
        low = xp.matmul(x, self.a)
        if self.scale is not None:
            low = xp.multiply(low, append_axes(xp, self.scale, self.ndim))
        return xp.add(through_base, xp.matmul(low, self.b))

    # Linear systems with an implicit base: a system of the base, and one of ``rank`` rows.

    @property
    def is_solvable(self) -> bool:
        return _is_structured(self.base)

    def _solve_update(self, xp: Any, *sides: Any) -> tuple[Any, Any, tuple[Any, ...]]:
        """Solve systems of the base for the scaled ``a`` and for other right sides.

        Returns:
            ``base⁻¹ a``; ``1 + b base⁻¹ a``, whose determinant is ``det(self) / det(base)``; and
            the solutions for the other sides.
        """
        a, b = self.factors(xp)
        solutions = xp.solve(self.base, xp.concatenate([a, *sides], -1) if sides else a)
        rank = xp.shape_of(a)[-1]
        solved_a = xp.getitem(solutions, (..., slice(None, rank))) if sides else solutions
        rest = (xp.getitem(solutions, (..., slice(rank, None))),) if sides else ()
        inner = xp.matmul(b, solved_a)
        return solved_a, xp.add(inner, xp.eye(rank, dtype=self.dtype)), rest

    def solve(self, b: Any) -> Any:
        """Apply Woodbury's identity; the result is NaN for a singular base."""
        xp = numpy_like(self, b)
        solved_a, inner, (y,) = self._solve_update(xp, b)
        return xp.subtract(y, xp.matmul(solved_a, xp.solve(inner, xp.matmul(self.b, y))))

    def inverse(self) -> Any:
        xp = self.xp
        solved_a, inner, _ = self._solve_update(xp)
        inverse = xp.inv(self.base)
        right = xp.solve(inner, xp.matmul(self.b, inverse))
        return LoRA(inverse, xp.negative(solved_a), right)

    def slogdet(self) -> Any:
        """Apply the matrix determinant lemma; the result is NaN for a singular base."""
        xp = self.xp
        _, inner, _ = self._solve_update(xp)
        (base_sign, base_log), (inner_sign, inner_log) = xp.slogdet(self.base), xp.slogdet(inner)
        return xp.multiply(base_sign, inner_sign), xp.add(base_log, inner_log)

    # The same elements in another order.

    def matrix_transpose(self) -> Any:
        xp = self.xp
        base, a, b = [xp.swapaxes(x, -1, -2) for x in (self.base, self.a, self.b)]
        return LoRA(base, b, a, self.scale)

    def concatenate(self, others: Sequence[ImplicitArray], axis: int) -> Any:
        loras: Any = (self, *others)
        if axis >= self.ndim - 2:
            return self.join_matrices(others, axis - self.ndim)
        if not all(
            isinstance(x, LoRA) and lengths_of(x.b)[-2] == lengths_of(self.b)[-2] for x in loras
        ):
            return NotImplemented
        xp = numpy_like(*loras)
        columns = [[x.base for x in loras], [x.a for x in loras], [x.b for x in loras]]
        if any(x.scale is not None for x in loras):
            columns.append([x.scale_or_ones(xp) for x in loras])
        return LoRA(*[xp.concatenate(column, axis) for column in columns])

    # Element by element.

    def with_scale(self, base: Any, scale: Any) -> LoRA:
        """Return the same factors with another base and scale."""
        return LoRA(base, self.a, self.b, scale)

    def elementwise(self, f: ElementwiseFunction, *others: Any) -> Any:
        if f.linear:
            return self.with_scale(f(self.base), f(self.scale_or_ones(self.xp)))
        if f.shift is not None:
            return self.with_scale(f(self.base), self.scale)
        if f.name == "add":
            return self._add(f, others[0])
        if f.name == "conj":
            return self.fieldwise(lambda x, own: f(x))
        return NotImplemented

    def _add(self, f: ElementwiseFunction, other: Any) -> Any:
        if not isinstance(other, Factored):
            return self.with_scale(f(self.base, other), self.scale)
        xp = numpy_like(self, other)
        base = f(self.base, other.base) if isinstance(other, LoRA) else self.base
        return LoRA(base, *add_factors(xp, self.factors(xp), other.factors(xp)))


def _generator(seed: Any, key: Any) -> np.random.Generator:
    try:
        words = None if key is None else np.asarray(key).ravel()
        if words is not None and (words.dtype.kind not in "iu" or not words.size):
            raise ValueError(f"the key has dtype {words.dtype} and {words.size} elements")
        return np.random.default_rng(seed if words is None else words)
    except (TypeError, ValueError) as error:
        raise ImplicitArrayError(
            f"LoRA.of(seed={seed!r}, key={key!r}): {error}.",
            "Give a seed of np.random.default_rng, or as key integers from 0 on, as "
            "jax.random.key_data(key) outside of functions that JAX traces.",
        ) from error


def _is_structured(x: Any) -> bool:
    """Return whether an array is implicit, or is a symbolic function of an implicit array."""
    while not is_implicit(x):
        if not isinstance(x, Node) or not x.inputs:
            return False
        x = x.array if hasattr(x, "array") else x.inputs[0]
    return True


def as_library_array(base: Any, x: np.ndarray[Any, Any]) -> Any:
    """Convert a NumPy array to the library of ``base``, unless that is symbolic."""
    xp = numpy_like(base)
    if xp.name == "graphc":
        return x
    return xp.cast(xp.array(x.astype(accumulation_dtype(x.dtype))), x.dtype)
