"""A model's log-density and its gradient, as compiled functions of a point or of many."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

import graphc.tensor as gt
from graphc.compile.function import Function, function
from graphc.compile.mode import Mode
from graphc.compile.streams import shared_rng
from graphc.errors import ArgumentError
from graphc.grad import grad
from graphc.interop.pymc.model import OnPoints, ValueLayout, convert, following_generators, model_of
from graphc.ir import TensorType, is_inexact
from graphc.tensor.arrays.vectorize import vectorize_graph
from graphc.tensor.core.tensor import Tensor


@dataclass(frozen=True)
class Expression:
    """A log-density as a graph.

    Attributes:
        point: The input: a flat vector, or a dict of the variables' values.
        value: The log-density.
        gradient: The gradient with respect to ``point``, in the same form, or None.
        updates: The keys that draw minibatches, with their next values.
    """

    point: Any
    value: Tensor
    gradient: Any
    updates: tuple[tuple[Any, Tensor], ...]

    @property
    def outputs(self) -> Any:
        """The outputs of a function of the point."""
        return self.value if self.gradient is None else [self.value, self.gradient]

    def batched(self) -> Expression:
        """Return the expression for many points along a leading axis."""
        inputs = _inputs(self.point)
        rows = {x: TensorType(x.dtype, (None, *x.type.shape))(x.name) for x in inputs}
        wanted = [self.value, *_inputs(self.gradient)]
        value, *gradients = vectorize_graph(wanted, rows)
        points = [rows[x] for x in inputs]
        gradient = _like(self.gradient, gradients)
        return Expression(_like(self.point, points), value, gradient, self.updates)


def _inputs(x: Any) -> list[Any]:
    if x is None:
        return []
    return list(x.values()) if isinstance(x, dict) else [x]


def _like(x: Any, values: Sequence[Any]) -> Any:
    """Return values in the form of a point or a gradient."""
    if x is None:
        return None
    return dict(zip(x, values, strict=True)) if isinstance(x, dict) else values[0]


def build_expression(
    model: Any, layout: ValueLayout, *, flat: bool, gradient: bool, linked: bool, **options: Any
) -> Expression:
    """Build the log-density of a model and its gradient.

    Args:
        model: The PyMC model.
        layout: The layout of the model's value variables.
        flat: Whether the point is a flat vector.
        gradient: Whether to build the gradient.
        linked: Whether shared variables have one value in both libraries.
        options: Options of ``model.logp``.
    """
    point: Any
    if flat:
        point = TensorType(layout.dtype.name, (layout.size if layout.is_fixed else None,))("x")
        values = _without_static_lengths(layout.parts(point), point, layout)
    else:
        rows = zip(layout.names, layout.shapes, layout.dtypes, layout.fixed, strict=True)
        point = values = {
            name: TensorType(dtype.name, shape if fixed else (None,) * len(shape))(name)
            for name, shape, dtype, fixed in rows
        }
    replacements = {x: values[x.name] for x in model.value_vars}
    density = model.logp(**options)
    following = following_generators([density])
    keys = {x: shared_rng(x.get_value(borrow=True), name=x.name) for x in following}
    wanted = [density, *following.values()]
    value, *drawn = convert(model, wanted, {**replacements, **keys}, linked=linked)
    updates = tuple(zip(keys.values(), drawn, strict=True))
    if not gradient:
        return Expression(point, value, None, updates)
    wrt = {name: x for name, x in values.items() if is_inexact(x.dtype)}
    gradients = grad(value, list(wrt.values()), disconnected_inputs="ignore")
    result: Any = dict(zip(wrt, gradients, strict=True))
    if flat:
        result = gt.concatenate([g.ravel() for g in gradients])
    return Expression(point, value, result, updates)


def _without_static_lengths(
    values: dict[str, Any], x: Tensor, layout: ValueLayout
) -> dict[str, Any]:
    """Drop the static lengths that PyMC does not know.

    A length of 1 must not broadcast where data of another length may be set later.
    """
    if layout.is_fixed:
        return values
    everything = slice(x.shape[0])
    return {
        name: value if fixed else value[(everything,) * value.ndim]
        for (name, value), fixed in zip(values.items(), layout.fixed, strict=True)
    }


def logp(  # noqa: PLR0913 (each of them is one choice)
    model: Any = None,
    *,
    mode: str | Mode | None = None,
    flat: bool = True,
    gradient: bool = True,
    jacobian: bool = True,
    vars: Any = None,
    shared: Literal["linked", "copied"] = "linked",
    returns: Literal["numpy", "native"] = "numpy",
) -> LogDensity:
    """Compile a model's log-density and its gradient: a function of one point or of many.

    The arguments are the values of the free variables without constraints, as
    ``model.initial_point()`` has them. The log-density is -inf where parameters of a
    distribution are invalid, as in what PyMC compiles. The gradient is graphc's, also through
    ``pytensor.scan``. Each call draws another ``pm.Minibatch``, by keys that the function keeps.

    Args:
        model: A PyMC model (default: the model of the context).
        mode: ``"JAX"``, ``"MLX"``, ``"NUMPY"`` or a ``graphc.Mode`` (default: ``config.mode``).
        flat: Take a vector of all values, one variable after the other; else a dict by name.
        gradient: Return the value and the gradient; else the value alone.
        jacobian: Add the logarithms of the transforms' determinants, as samplers need.
        vars: Only the terms of these random variables and potentials, as in ``model.logp``.
        shared: ``"linked"``: each call reads the current ``pm.Data``. ``"copied"``: the values at
            this call are kept on the backend's device.
        returns: ``"numpy"`` for NumPy arrays, ``"native"`` for the backend's own.

    Returns:
        A function of ``(size,)``, or of many points at once, ``(..., size)``; with ``flat=False``
        of a dict of arrays, which may have leading axes. It returns the value and the gradient,
        with the same leading axes, the gradient in the form of the point.

    Raises:
        ArgumentError: If there is no model, it has no free variables, or a flat gradient is asked
            for with respect to discrete variables.
        UnsupportedOperationError: If some operations of PyTensor have no converter.

    Example:
        >>> import numpy as np, pymc as pm
        >>> from graphc.interop.pymc import logp
        >>> with pm.Model() as model:
        ...     mu, sigma = pm.Normal("mu"), pm.HalfNormal("sigma")
        ...     y = pm.Normal("y", mu, sigma, observed=[1.0, 2.0])
        >>> f = logp(model, mode="NUMPY")
        >>> f.names, f.size
        (('mu', 'sigma_log__'), 2)
        >>> value, gradient = f(f.ravel({"mu": 1.0, "sigma_log__": 0.0}))
        >>> print(value.round(3), gradient)
        -4.483 [ 0. -1.]
        >>> values, gradients = f(np.zeros((64, 2)))
        >>> values.shape, gradients.shape
        ((64,), (64, 2))
    """
    model = model_of(model)
    if shared not in {"linked", "copied"}:
        raise ArgumentError(f"logp: shared={shared!r}.", 'Expected "linked" or "copied".')
    layout = ValueLayout.of(model)
    if flat and gradient:
        check_continuous(layout, "logp", ", or gradient=False")
    expression = build_expression(
        model,
        layout,
        flat=flat,
        gradient=gradient,
        linked=shared == "linked",
        jacobian=jacobian,
        vars=vars,
    )
    return LogDensity(model, layout, expression, {"mode": mode, "returns": returns})


def check_continuous(layout: ValueLayout, title: str, more: str = "") -> None:
    """Raise if a variable has no gradient."""
    pairs = zip(layout.names, layout.dtypes, strict=True)
    discrete = [name for name, dtype in pairs if dtype.kind != "f"]
    if discrete:
        raise ArgumentError(
            f"{title}: discrete variables have no gradient: {', '.join(discrete)}.",
            f"Pass flat=False: the gradient is with respect to the others{more}.",
        )


class LogDensity(OnPoints):
    """A model's compiled log-density and gradient, returned by ``logp``."""

    def __init__(
        self, model: Any, layout: ValueLayout, expression: Expression, options: Mapping[str, Any]
    ) -> None:
        super().__init__(model, layout)
        self._expression = expression
        self._options = options
        self._shape = (layout.size,)
        self._flat = not isinstance(expression.point, dict)
        self._with_gradient = expression.gradient is not None

    @cached_property
    def single(self) -> Function:
        """The compiled function of one point."""
        return self._compile(self._expression)

    @cached_property
    def many(self) -> Function:
        """The compiled function of points along a leading axis."""
        return self._compile(self._expression.batched())

    def _compile(self, expression: Expression) -> Function:
        return function(
            [expression.point],
            expression.outputs,
            updates=list(expression.updates),
            name="logp",
            on_unused_input="ignore",
            **self._options,
        )

    def __call__(self, x: Any) -> Any:
        """Return the value and the gradient at one point, or at each of many.

        Args:
            x: A vector, or an array of vectors along its last axis; with ``flat=False`` a dict.

        Raises:
            ArgumentError: If a length is wrong, or a variable has no value.
        """
        if not self._flat:
            return self._at_point(x)
        if not hasattr(x, "shape"):
            x = np.asarray(x, self.layout.dtype)
        if x.shape == self._shape:
            result = self.single(x)
            return tuple(result) if self._with_gradient else result
        lead = x.shape[:-1]
        self.layout.check_length(x.shape)
        return self._restore_axes(self.many(x.reshape(-1, self.size)), lead)

    def _at_point(self, point: Mapping[str, Any]) -> Any:
        self.layout.check(point)
        values = {name: point[name] for name in self.names}
        first, shape = np.shape(values[self.names[0]]), self.layout.shapes[0]
        lead = first[: len(first) - len(shape)]
        if not lead:
            result = self.single(values)
            return tuple(result) if self._with_gradient else result
        rows = {
            name: np.reshape(x, (math.prod(lead), *np.shape(x)[len(lead) :]))
            for name, x in values.items()
        }
        return self._restore_axes(self.many(rows), lead)

    def _restore_axes(self, result: Any, lead: tuple[int, ...]) -> Any:
        if not self._with_gradient:
            return result.reshape(lead)
        value, gradient = result
        gradients = [g.reshape((*lead, *g.shape[1:])) for g in _inputs(gradient)]
        return value.reshape(lead), _like(gradient, gradients)

    def __repr__(self) -> str:
        return f"logp({', '.join(self.names)})"
