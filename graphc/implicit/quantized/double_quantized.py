"""Arrays of codes whose scales, and minimums, are integers times factors of larger blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from graphc.errors import ImplicitArrayError
from graphc.implicit.array import aux_field, with_fields
from graphc.implicit.quantized.base import Quantized, fit
from graphc.implicit.quantized.coding import Coding, coding_for
from graphc.implicit.quantized.kinds import AffineQuantized, ScaledQuantized
from graphc.implicit.treedef import dtype_of, lengths_of
from graphc.ir import TensorType, dtype_name, is_complex, is_inexact


@dataclass(frozen=True, repr=False)
class DoubleQuantized(Quantized):
    """Codes of 2 to 8 bits whose scales are 8-bit integers times the factor of a block.

    An element is ``factor * scale * code - minimum_factor * minimum``; without minimums ``2**(bits
    - 1)`` is subtracted from the code, so that it may be negative. These are the k-quants of
    llama.cpp, which ``graphc.interop.weights.load_gguf`` loads.

    Attributes:
        packed: Words of uint32, ``(*batch, rows, words)``: the first code is in the lowest bits.
        scales: Integers of int8, ``(*batch, rows, groups)``.
        factors: ``(*batch, rows, groups / per_factor)``, of the array's dtype.
        minimums: Integers of int8 like the scales; or None.
        minimum_factors: Numbers like the factors; or None.
        bits: The length of a code.
        group_size: The number of neighbours along the packed axis that share a scale.
        per_factor: The number of groups that share a factor.
        symmetric: Whether there are no minimums.
        transposed: Whether the packed axis is the last but one.
        padding: Always 0: the packed axis consists of complete blocks.

    Example:
        >>> import numpy as np
        >>> scales, factors = np.ones((1, 8), "int8"), np.float32([[0.5]])
        >>> w = DoubleQuantized(
        ...     np.full((1, 32), 0x76543210, "uint32"), scales, factors, 2 * scales, factors
        ... )
        >>> np.asarray(w)[0, :8]
        array([-1. , -0.5,  0. ,  0.5,  1. ,  1.5,  2. ,  2.5], dtype=float32)

    Source: Dettmers, Pagnoni, Holtzman & Zettlemoyer, QLoRA, NeurIPS 2023, section 3; llama.cpp,
    ``ggml-quants.c``.
    """

    packed: Any
    scales: Any
    factors: Any
    minimums: Any = None
    minimum_factors: Any = None
    bits: int = aux_field(default=4)
    group_size: int = aux_field(default=32)
    per_factor: int = aux_field(default=8)
    symmetric: bool = aux_field(default=False)
    transposed: bool = aux_field(default=False)
    padding: int = aux_field(default=0, repr=False)

    @classmethod
    def coding_of(
        cls, group_size: int = 32, *, bits: int = 4, symmetric: bool = False, **options: Any
    ) -> Coding:
        return coding_for("integer" if symmetric else "affine", bits, group_size)

    @classmethod
    def spec(
        cls,
        shape: Any,
        dtype: Any,
        *,
        transposed: bool = False,
        per_factor: int = 8,
        symmetric: bool = False,
        **options: Any,
    ) -> Self:
        """Return an instance whose arrays are types.

        Args:
            shape: The lengths of the array, at least two.
            dtype: The dtype of the factors, and so of the array; floating.
            transposed: Whether the codes are packed along the last axis but one.
            per_factor: The number of groups that share a factor.
            symmetric: Whether there are no minimums.
            options: ``bits`` and ``group_size``.

        Raises:
            ImplicitArrayError: If no encoding has these options, or the length of the packed axis
                is no multiple of the block's.
        """
        coding = cls.coding_of(symmetric=symmetric, **options)
        *batch, n, m = shape
        rows, columns = (m, n) if transposed else (n, m)
        block = coding.group_size * per_factor
        if columns is not None and columns % block:
            raise ImplicitArrayError(
                f"{cls.__name__}: {columns} elements along the packed axis.",
                f"Give a multiple of {block}, as many as share a factor.",
            )

        def each(size: int, count: int = 1) -> tuple[int | None, ...]:
            return (*batch, rows, None if columns is None else columns // size * count)

        words = TensorType("uint32", each(coding.group_size, coding.words_per_group))
        scales, factors = (
            TensorType("int8", each(coding.group_size)),
            TensorType(dtype, each(block)),
        )
        return cls(
            words,
            scales,
            factors,
            None if symmetric else scales,
            None if symmetric else factors,
            **options,
            per_factor=per_factor,
            symmetric=symmetric,
            transposed=transposed,
        )

    def check(self) -> None:
        scales, factors = lengths_of(self.scales), lengths_of(self.factors)
        pairs = [(self.scales, self.factors)]
        if not self.symmetric:
            pairs.append((self.minimums, self.minimum_factors))
        last = factors[-1] if factors else None
        count = None if last is None else last * self.per_factor
        if (
            str(dtype_of(self.packed)) != "uint32"
            or (self.minimums is None) != self.symmetric
            or (self.minimum_factors is None) != self.symmetric
            or not fit(self.coding, lengths_of(self.packed), scales)
            or scales[:-1] != factors[:-1]
            or (None not in (count, scales[-1]) and count != scales[-1])
            or self.padding
            or not all(_is_pair(x, y, self) for x, y in pairs)
        ):
            kinds = [
                f"{name} {dtype_of(x)}{list(lengths_of(x))}"
                for name in ("packed", "scales", "factors", "minimums", "minimum_factors")
                if (x := getattr(self, name)) is not None
            ]
            raise ImplicitArrayError(
                f"DoubleQuantized: {', '.join(kinds)}, symmetric={self.symmetric}.",
                f"Words are uint32, {self.coding.words_per_group} a group; scales and minimums are "
                f"int8, of equal shapes; {self.per_factor} groups share a factor, of floating "
                "dtype; symmetric arrays have no minimums, and there is no padding.",
            )

    def group_fields(self) -> dict[str, Any]:
        return {name: x for name, x in super().group_fields().items() if x is not None}

    def length_of_groups(self, name: str, groups: int) -> int:
        is_factor = name in {"factors", "minimum_factors"}
        return groups // self.per_factor if is_factor else super().length_of_groups(name, groups)

    @property
    def block(self) -> int:
        return self.group_size * self.per_factor

    @property
    def dtype(self) -> Any:
        return dtype_of(self.factors)

    @property
    def numbers(self) -> tuple[Any, ...]:
        scales = self._multiply_factors(self.scales, self.factors)
        if self.symmetric:
            return (scales,)
        return scales, self.xp.negative(self._multiply_factors(self.minimums, self.minimum_factors))

    def _multiply_factors(self, integers: Any, factors: Any) -> Any:
        xp = self.xp
        numbers = xp.cast(integers, dtype_name(dtype_of(factors)))
        blocks = xp.reshape(numbers, (*xp.shape_of(factors), self.per_factor))
        return xp.reshape(blocks * xp.expand_dims(factors, -1), xp.shape_of(numbers))

    @property
    def once_quantized(self) -> AffineQuantized | ScaledQuantized:
        """The same elements, with scales and biases of the array's dtype."""
        settings: dict[str, Any] = {"group_size": self.group_size, "transposed": self.transposed}
        if self.symmetric:
            (scales,) = self.numbers
            return ScaledQuantized(self.packed, scales, element=f"int{self.bits}", **settings)
        scales, biases = self.numbers
        return AffineQuantized(self.packed, scales, biases, bits=self.bits, **settings)

    def join_matrices(self, others: Sequence[Any], axis: int) -> Any:
        y = super().join_matrices(others, axis)
        if y is not NotImplemented or not all(isinstance(x, DoubleQuantized) for x in others):
            return y
        return self.once_quantized.join_matrices([x.once_quantized for x in others], axis)

    def matrix_window(self, rows: range, columns: range) -> Any:
        y = super().matrix_window(rows, columns)
        return self.once_quantized.matrix_window(rows, columns) if y is NotImplemented else y

    def map_window(self, function: Callable[..., Any], covers: Sequence[bool], *values: Any) -> Any:
        # The new values would need new factors, which other groups share.
        return NotImplemented if values else super().map_window(function, covers)

    def add_number(self, c: Any) -> Any:
        return self.once_quantized.add_number(c)

    def _map_numbers(self, function: Any) -> Any:
        factors = {"factors": self.factors, "minimum_factors": self.minimum_factors}
        return with_fields(
            self, {name: None if x is None else function(x) for name, x in factors.items()}
        )


def _is_pair(integers: Any, factors: Any, like: DoubleQuantized) -> bool:
    """Return whether integers and factors have dtypes and shapes that fit the array's."""
    kind = dtype_name(dtype_of(factors))
    is_floating = is_inexact(kind) and not is_complex(kind) and dtype_of(factors) == like.dtype
    return (
        str(dtype_of(integers)) == "int8"
        and is_floating
        and lengths_of(integers) == lengths_of(like.scales)
        and lengths_of(factors) == lengths_of(like.factors)
    )
