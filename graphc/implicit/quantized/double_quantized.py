"""Arrays of codes whose scales, and minimums, are integers times factors of larger blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graphc.errors import ImplicitArrayError
from graphc.implicit.array import aux_field, with_fields
from graphc.implicit.quantized.base import Quantized
from graphc.implicit.quantized.coding import Coding, coding_for
from graphc.implicit.quantized.kinds import AffineQuantized, ScaledQuantized
from graphc.implicit.treedef import dtype_of
from graphc.ir import TensorType, dtype_name


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
    def parts_spec(
        cls,
        coding: Coding,
        dtype: str,
        groups: tuple[int | None, ...],
        per_factor: int = 8,
        symmetric: bool = False,
        **options: Any,
    ) -> list[TensorType | None]:
        *lead, count = groups
        factors = TensorType(dtype, (*lead, None if count is None else -(-count // per_factor)))
        pair = [TensorType("int8", groups), factors]
        return [*pair, *([None, None] if symmetric else pair)]

    def check(self) -> None:
        super().check()
        columns = self.matrix[self.transposed - 1]
        if self.padding or (columns is not None and columns % self.block):
            raise ImplicitArrayError(
                f"DoubleQuantized: packed codes of {columns} elements along the packed axis.",
                f"Give a multiple of {self.block}, as many as share a factor.",
            )

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
        settings: dict[str, Any] = {"group_size": self.group_size, "transposed": self.transposed}
        if self.symmetric:
            (scales,) = self.numbers
            return ScaledQuantized(self.packed, scales, element=f"int{self.bits}", **settings)
        scales, biases = self.numbers
        return AffineQuantized(self.packed, scales, biases, bits=self.bits, **settings)

    def _map_numbers(self, function: Any) -> Any:
        factors = {"factors": self.factors, "minimum_factors": self.minimum_factors}
        return with_fields(
            self, {name: None if x is None else function(x) for name, x in factors.items()}
        )
