"""The straight-through estimator, and an array with one array's value and another's derivative."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np

from graphc.errors import DTypeError, ImplicitArrayError, ShapeError
from graphc.grad.barriers import disconnected_grad
from graphc.implicit.array import ImplicitArray
from graphc.implicit.dispatch import dispatch
from graphc.implicit.jax_arrays import jax_arrays
from graphc.implicit.namespace import numpy_like
from graphc.implicit.policy import densify
from graphc.implicit.treedef import Treedef, dtype_of, lengths_of, shapes_fit
from graphc.implicit.trees import flatten, unflatten
from graphc.ir import Node, Op, TensorType, dtype_name, is_complex, is_inexact
from graphc.tensor import Tensor, as_tensor, broadcast_to, cast
from graphc.tensor.arrays.reduce import AxisComposite


@dataclass(frozen=True, slots=True)
class ReplaceDerivative(AxisComposite):
    """The value of the first array, with the derivative of the sum of both."""

    axes: tuple[int, ...] = ()

    def infer(self, value: TensorType, toward: TensorType) -> TensorType:  # type: ignore[override]
        return value

    def expand(self, value: Tensor, toward: Tensor) -> Tensor:  # type: ignore[override]
        """Return the value; once differentiated, the other array is not needed."""
        return value

    def perform(self, value: np.ndarray[Any, Any], toward: Any) -> np.ndarray[Any, Any]:
        return value

    def pullback(self, g: Tensor, y: Tensor, value: Tensor, toward: Tensor) -> tuple[Any, Any]:
        return g, g

    def pushforward(self, tangents: Sequence[Any], y: Tensor, *inputs: Tensor) -> Any:
        present = [t for t in tangents if t is not None]
        return present[0] + present[1] if len(present) > 1 else next(iter(present), None)

    def batch(self, size: Any, batched: Sequence[bool], *inputs: Tensor) -> Tensor:
        """Batch both arrays; one that is not batched is repeated."""
        flags = zip(inputs, batched, strict=True)
        full = [x if flag else broadcast_to(x, (size, *x.shape)) for x, flag in flags]
        return Tensor.make(self, *full)


def replace_derivative(value: Any, toward: Any) -> Tensor:
    """Return the first of two symbolic arrays, with the derivatives of their sum."""
    return Tensor.make(ReplaceDerivative(), as_tensor(value), as_tensor(toward))


@dataclass(frozen=True, repr=False)
class StraightThrough(ImplicitArray):
    """The value of an implicit array with the derivative of another array.

    ``ste`` returns one if its function returns an implicit array; so does a function with a custom
    derivative whose result handlers keep implicit. Operations call the handlers of ``array``;
    gradients flow to ``toward``.

    Attributes:
        array: The array with the value; there is no derivative with respect to its fields.
        toward: The array with the derivative, of the same shape and dtype; its value is not used.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit import Diagonal
        >>> StraightThrough(Diagonal(np.ones(2)), np.zeros((2, 2))).materialize()
        array([[1., 0.],
               [0., 1.]])
    """

    materialize_through: ClassVar[bool] = False
    stands_aside: ClassVar[bool] = True

    array: Any
    toward: Any

    def field_specs(self, spec: tuple[Any, ...]) -> Mapping[str, tuple[Any, ...]]:
        """Return the spec of the array for both fields."""
        return {"array": spec, "toward": spec}

    @property
    def shape(self) -> tuple[Any, ...]:
        return lengths_of(self.array)

    @property
    def dtype(self) -> Any:
        return dtype_of(self.array)

    def materialize(self) -> Any:
        xp = numpy_like(self)
        if xp.name == "graphc":
            toward = as_tensor(self.toward)
            return replace_derivative(disconnected_grad(densify(self.array)), toward)
        if xp.name == "JAX":
            return jax_arrays().with_derivative_of(self.array, self.toward)
        return densify(self.array)

    @classmethod
    def default_handler(cls, target: Any, *operands: Any, **parameters: Any) -> Any:
        """Return the result of handlers, with the derivative of dense arrays."""
        if isinstance(target, Op):
            return _symbolic(target, operands, parameters)
        return jax_arrays().apply_to_values(target, operands, parameters)


def _symbolic(op: Op, operands: Sequence[Any], parameters: dict[str, Any]) -> Any:
    result = dispatch(op, [value_of(x) for x in operands], parameters)
    if result is NotImplemented:
        return NotImplemented
    dense = [x.materialize() if isinstance(x, StraightThrough) else as_tensor(x) for x in operands]
    toward = Tensor.make(op, *dense)
    if isinstance(result, ImplicitArray):
        return StraightThrough(_constant(result), toward)
    return replace_derivative(disconnected_grad(result), toward)


def value_of(x: Any) -> Any:
    """Return the array that the value of an operand is computed from."""
    while isinstance(x, StraightThrough):
        x = x.array
    return x


def _constant(x: ImplicitArray) -> Any:
    treedef, leaves = Treedef.of(x)
    return treedef.build([disconnected_grad(leaf) for leaf in leaves])


Straight = StraightThrough
"""An older name for ``StraightThrough``."""


R = TypeVar("R")


def ste(function: Callable[..., R]) -> Callable[..., R]:
    """Give a function the derivative of the identity: the straight-through estimator.

    The derivative is the identity with respect to every floating array that has the shape of the
    result, among positional and keyword arguments, also in containers; with several of these, the
    derivative of their sum. With respect to all other arrays, and to captured ones, the derivative
    is zero. Tangents and cotangents are cast between the dtypes of the argument and the result. The
    function itself is never differentiated.

    JAX arrays, within ``jit``, ``vmap``, ``scan``, ``grad`` and ``jvp``, and symbolic arrays are
    supported. Arguments may be implicit arrays: the gradient with respect to the array is passed on
    to its fields.

    Args:
        function: A function of arrays that returns one array, of the shape of at least one of them.
            The result may be an implicit array, such as a quantised one; then the new function
            returns a ``StraightThrough`` that contains this array and calls its handlers. Python
            numbers and other objects among the arguments are passed to the function unchanged.

    Returns:
        The function with another derivative. For NumPy arrays alone, which have no derivatives, it
        is the function itself.

    Raises:
        DTypeError: When called, if the function returns integers, which have no derivative.
        ShapeError: When called, if no floating array has the result's shape.
        ImplicitArrayError: When called, if the function returns no array, or gets MLX arrays.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> y = ste(gt.round)(x)
        >>> f = graphc.function([x], [y, graphc.grad((y * y).sum(), x)], mode="NUMPY")
        >>> f([0.4, 1.7])
        [array([0., 2.]), array([0., 4.])]
    """

    @functools.wraps(function)
    def straight_through(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = flatten((args, kwargs))
        indices = [i for i, x in enumerate(leaves) if hasattr(x, "shape") and hasattr(x, "dtype")]
        operands = [leaves[i] for i in indices]

        def call(*arrays: Any) -> Any:
            swaps = dict(zip(indices, arrays, strict=True))
            args, kwargs = unflatten(structure, [swaps.get(i, x) for i, x in enumerate(leaves)])
            return function(*args, **kwargs)

        library = numpy_like(*operands).name
        if library not in BY_LIBRARY:
            raise ImplicitArrayError(
                f"ste({_name(function)}) of {library}'s arrays.",
                "Use symbolic arrays and mode='MLX'.",
            )
        return BY_LIBRARY[library](_name(function), call, operands)

    return straight_through


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", None) or repr(function)


def _of_symbolic(name: str, call: Callable[..., Any], operands: Sequence[Any]) -> Any:
    operands = [as_tensor(x) for x in operands]
    y = call(*map(disconnected_grad, operands))
    if isinstance(y, ImplicitArray):
        through = operands_through(name, operands, y)
        return StraightThrough(_constant(y), _sum(through, dtype_name(y.dtype)))
    y = as_tensor(y)
    through = operands_through(name, operands, y)
    return replace_derivative(disconnected_grad(y), _sum(through, y.dtype))


def _sum(operands: Sequence[Any], dtype: str) -> Tensor:
    return functools.reduce(lambda a, b: a + b, [cast(x, dtype) for x in operands])


def _of_numpy(name: str, call: Callable[..., Any], operands: Sequence[Any]) -> Any:
    y = call(*operands)
    operands_through(name, operands, y)
    return y


BY_LIBRARY: dict[str, Callable[[str, Callable[..., Any], Sequence[Any]], Any]] = {
    "graphc": _of_symbolic,
    "JAX": lambda *call: jax_arrays().straight_through(*call),
    "NumPy": _of_numpy,
}
"""The implementations, by the library of the arrays."""


def operands_through(name: str, operands: Sequence[Any], y: Any) -> list[Any]:
    """Return the operands with respect to which a result has the identity's derivative.

    Raises:
        ImplicitArrayError: If the result is no array.
        DTypeError: If the result has no derivative.
        ShapeError: If no operand has the result's shape.
    """
    if not (isinstance(y, Node) or (hasattr(y, "shape") and hasattr(y, "dtype"))):
        raise ImplicitArrayError(f"ste({name}): the function gave {y!r}.", "Return one array.")
    shape, dtype = lengths_of(y), dtype_name(dtype_of(y))
    if not is_inexact(dtype):
        raise DTypeError(
            f"ste({name}): the function gave {dtype}{list(shape)}, which has no derivative.",
            "Cast the result to a floating dtype within it.",
        )
    matches = [x for x in operands if _fits(x, shape, dtype)]
    if operands and not matches:
        types = ", ".join(f"{dtype_of(x)}{list(lengths_of(x))}" for x in operands)
        raise ShapeError(
            f"ste({name}): the function gave {dtype}{list(shape)}, and no floating array of that "
            f"shape is among its arguments: {types}.",
            "Let it keep the shape of one.",
        )
    return matches


def _fits(x: Any, shape: Sequence[int | None], dtype: str) -> bool:
    """Return whether an array is floating and has this shape, except for unknown lengths."""
    own = dtype_name(dtype_of(x))
    is_narrower = is_inexact(own) and (is_complex(dtype) or not is_complex(own))
    return is_narrower and shapes_fit(lengths_of(x), shape)
