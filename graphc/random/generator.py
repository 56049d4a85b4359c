"""Generators: keys with the distributions as methods, which also return the next generator."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from graphc import hooks
from graphc.ir import Input, Parameter, TensorType
from graphc.loop.draws import is_in_step
from graphc.site import frames_up
from graphc.tensor.arrays.reduce import Composite
from graphc.tensor.core.tensor import Tensor

DISTRIBUTIONS: dict[str, Callable[..., Any]] = {}
"""The distributions by name: the methods of generators and streams."""

KEY = TensorType("uint32", (2,))
"""The type of a key: two words, as ``jax.random.key_data`` returns them."""

SET_BY_METHOD = ("rng", "return_next_rng")
"""The arguments of a distribution that a method sets."""

F = TypeVar("F", bound=Callable[..., Any])


def as_method(distribution: Callable[..., Any]) -> Callable[[F], F]:
    """Return a decorator that documents a method by a distribution, without arguments it sets."""

    def document(method: F) -> F:
        result = method.__annotations__["return"]
        wraps(distribution)(method)
        signature = inspect.signature(distribution).replace(return_annotation=result)
        remaining = [p for name, p in signature.parameters.items() if name not in SET_BY_METHOD]
        method.__signature__ = signature.replace(parameters=remaining)  # type: ignore[attr-defined]
        return method

    return document


if TYPE_CHECKING:
    from graphc.random.signatures import Draws

    class Drawing(Tensor, Draws["tuple[Generator, Tensor]"]):
        """An array with the distributions as methods, which also return the next generator."""

else:
    Drawing = Tensor


class Generator(Drawing):
    """A key with the distributions as methods, which return the next generator and the draw.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> generator = gt.random.rng("generator")
        >>> following, x = generator.normal(size=3)
        >>> _, y = following.poisson(2.0)
        >>> x.type, y.type
        (float64[3], int64[])
    """

    __slots__ = ()

    parameter: ClassVar[type[Parameter]]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name not in DISTRIBUTIONS:
                return super().__getattr__(name)
            distribution = DISTRIBUTIONS[name]

            @as_method(distribution)
            def draw(*args: Any, **kwargs: Any) -> tuple[Generator, Tensor]:
                return distribution(*args, rng=self, return_next_rng=True, **kwargs)

            return draw

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *DISTRIBUTIONS})

    @classmethod
    def of_kind(cls, x: Tensor) -> Tensor:
        """Return the same key as a generator."""
        return as_generator(x)


class GeneratorParameter(Parameter):
    """A generator that a loop carries, as its step gets it."""

    __slots__ = ()


GeneratorParameter.node_class = Generator
Generator.parameter = GeneratorParameter


class GeneratorInput(Input):
    """An input that is a generator."""

    __slots__ = ()


GeneratorInput.node_class = Generator


@dataclass(frozen=True, slots=True)
class AsGenerator(Composite):
    """The identity from a key to a generator."""

    name = "generator"

    def infer(self, key: TensorType) -> TensorType:
        return key

    def expand(self, key: Tensor) -> Tensor:
        return key

    def perform(self, key: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return key

    def pullback(self, g: Tensor, y: Tensor, key: Tensor) -> tuple[None]:
        return (None,)

    def batch(self, size: Any, batched: Sequence[bool], key: Tensor) -> Tensor:
        return key


AsGenerator.node_class = Generator


def as_generator(key: Tensor) -> Generator:
    """Return a key as a generator, with the distributions as methods."""
    return key if isinstance(key, Generator) else Generator.make(AsGenerator(), key)


def rng(name: str | None = None) -> Generator:
    """Make a generator that is an input of a function, whose argument is a key.

    Args:
        name: The input's name.

    Returns:
        A symbolic key, uint32[2], that has every distribution as a method. A method takes the
        distribution's arguments except ``rng``, and returns a pair: the next generator and the
        draw.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> generator = gt.random.rng("generator")
        >>> following, x = generator.integers(100, size=3)
        >>> f = graphc.function([generator], [following, x], mode="NUMPY")
        >>> state = gt.random.key(7).eval(mode="NUMPY")
        >>> state, first = f(state)
        >>> state, second = f(state)
        >>> first.tolist() == second.tolist()
        False
    """
    return Generator.make(GeneratorInput(KEY, name))


def fresh() -> Tensor:
    """Return a shared generator with a new key, for a draw without ``rng``."""
    if is_in_step():
        warnings.warn(
            "A draw without rng= in a step of a loop: its key stays as it is, and every step draws "
            "the same numbers. Draw from a gt.random.RandomStream, which moves on, or give rng= a "
            "key that the loop carries.",
            stacklevel=frames_up(),
        )
    return hooks.shared_key()
