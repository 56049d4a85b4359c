"""What a converter is given: an equation of a JAX program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn

from graphc.link.jax.from_jaxpr.lengths import Lengths
from graphc.tensor import Tensor

if TYPE_CHECKING:
    from graphc.link.jax.from_jaxpr.convert import Conversion


class Refusal(Exception):  # noqa: N818 (it reads as what is raised)
    """graphc has no operations for an equation with these parameters: JAX computes it."""


@dataclass(frozen=True)
class Equation:
    """An equation of a JAX program, as a converter gets it beside its operands.

    Attributes:
        eqn: JAX's equation.
        conversion: The conversion that it is part of.
    """

    eqn: JaxprEqn
    conversion: Conversion

    @property
    def lengths(self) -> Lengths:
        """The lengths that are known when the program runs."""
        return self.conversion.lengths

    def __getitem__(self, name: str) -> Any:
        """A parameter of the equation."""
        return self.eqn.params[name]

    @property
    def dtype(self) -> str:
        """The dtype of the first result."""
        return dtype_of(self.eqn.outvars[0].aval)

    @property
    def shape(self) -> tuple[Any, ...]:
        """The lengths of the first result: integers and symbolic scalars."""
        return self.lengths.of_shape(self.eqn.outvars[0].aval)

    def operand_shape(self, i: int = 0) -> tuple[Any, ...]:
        """The lengths of an operand: integers and symbolic scalars."""
        return self.lengths.of_shape(self.eqn.invars[i].aval)

    def with_lengths(self, symbols: Mapping[str, Any]) -> Equation:
        """The same where JAX's symbols stand for other scalars."""
        return replace(self, conversion=replace(self.conversion, lengths=Lengths(symbols)))

    def run(self, program: ClosedJaxpr | Jaxpr, operands: Sequence[Any]) -> list[Any]:
        """The results of a program inside of the equation."""
        return self.conversion.run(program, operands)


Converter = Callable[..., Tensor | Sequence[Tensor]]
"""Takes an Equation and the symbolic operands; gives the result, or all of several."""


def dtype_of(aval: Any) -> str:
    """The dtype that stands for a JAX variable's: random keys are their two words in a uint64."""
    name = str(aval.dtype)
    return "uint64" if name.startswith("key<") else name
