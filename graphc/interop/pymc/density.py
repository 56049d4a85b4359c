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
from graphc.interop.pymc.model import Layout, OnPoints, converted, following_generators, model_of
from graphc.ir import TensorType, is_inexact
from graphc.tensor.arrays.vectorize import vectorize_graph
from graphc.tensor.core.tensor import Tensor


@dataclass(frozen=True)
class Expression:
    """A log-density as a graph.

    Attributes:
        place: The input: a flat vector, or a dict of the variables' values.
        value: The log-density.
        gradient: With respect to ``place``, in the same form; None if it is not wanted.
        updates: The keys that minibatches are drawn by, and their next values.
    """

    place: Any
    value: Tensor
    gradient: Any
    updates: tuple[tuple[Any, Tensor], ...]

    @property
    def outputs(self) -> Any:
        """What a function of the place returns."""
        return self.value if self.gradient is None else [self.value, self.gradient]

    def batched(self) -> Expression:
        """The same of many places, along a leading axis."""
        inputs = _inputs(self.place)
        rows = {x: TensorType(x.dtype, (None, *x.type.shape))(x.name) for x in inputs}
        wanted = [self.value, *_inputs(self.gradient)]
        value, *slopes = vectorize_graph(wanted, rows)
        place = [rows[x] for x in inputs]
        slopes = _like(self.gradient, slopes)
        return Expression(_like(self.place, place), value, slopes, self.updates)


def _inputs(x: Any) -> list[Any]:
    if x is None:
        return []
    return list(x.values()) if isinstance(x, dict) else [x]


def _like(x: Any, values: Sequence[Any]) -> Any:
    """Values in the form that a place or a gradient has."""
    if x is None:
        return None
    return dict(zip(x, values, strict=True)) if isinstance(x, dict) else values[0]


def expressed(
    model: Any, layout: Layout, *, flat: bool, gradient: bool, linked: bool, **options: Any
) -> Expression:
    """The log-density of a model and its gradient, as a graph.

    Args:
        model: PyMC's.
        layout: Of its value variables.
        flat: Whether the place is a flat vector.
        gradient: Whether the gradient is wanted.
        linked: Whether shared variables have one value in both libraries.
        options: Of ``model.logp``.
    """
    place: Any
    if flat:
        place = TensorType(layout.dtype.name, (layout.size if layout.is_fixed else None,))("x")
        parts = _unknown(layout.parts(place), place, layout)
    else:
        rows = zip(layout.names, layout.shapes, layout.dtypes, layout.fixed, strict=True)
        place = parts = {
            name: TensorType(dtype.name, shape if fixed else (None,) * len(shape))(name)
            for name, shape, dtype, fixed in rows
        }
    given = {x: parts[x.name] for x in model.value_vars}
    density = model.logp(**options)
    following = following_generators([density])
    keys = {x: shared_rng(x.get_value(borrow=True), name=x.name) for x in following}
    wanted = [density, *following.values()]
    value, *drawn = converted(model, wanted, {**given, **keys}, linked=linked)
    updates = tuple(zip(keys.values(), drawn, strict=True))
    if not gradient:
        return Expression(place, value, None, updates)
    wrt = {name: x for name, x in parts.items() if is_inexact(x.dtype)}
    found = grad(value, list(wrt.values()), disconnected_inputs="ignore")
    slopes: Any = dict(zip(wrt, found, strict=True))
    if flat:
        slopes = gt.concatenate([g.ravel() for g in found])
    return Expression(place, value, slopes, updates)


def _unknown(parts: dict[str, Any], x: Tensor, layout: Layout) -> dict[str, Any]:
    """The parts of a vector, without static lengths where PyMC knows none.

    A length that is 1 by chance must not broadcast, as after data of another length are set.
    """
    if layout.is_fixed:
        return parts
    cut = slice(x.shape[0])
    return {
        name: part if fixed else part[(cut,) * part.ndim]
        for (name, part), fixed in zip(parts.items(), layout.fixed, strict=True)
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
    """A model's log-density and its gradient, compiled: a function of one point or of many.

    It is a function of the values of the free variables without constraints, as
    ``model.initial_point()`` has them. As in what PyMC compiles, it is -inf where parameters of a
    distribution are invalid. The gradient is graphc's own, also through ``pytensor.scan``. Each
    call draws another ``pm.Minibatch``, by keys that the function keeps.

    Args:
        model: A PyMC model; the one of the context by default.
        mode: ``"JAX"``, ``"MLX"``, ``"NUMPY"`` or a ``graphc.Mode``; ``config.mode`` by default.
        flat: Take a vector of all values, one variable after the other; else a dict by name.
        gradient: Return the value and the gradient; else the value alone.
        jacobian: Add the logarithms of the transforms' determinants, as samplers need.
        vars: Only the terms of these random variables and potentials, as ``model.logp`` takes them.
        shared: ``"linked"``: each call reads ``pm.Data`` as it is then. ``"copied"``: the values
            are those of now, which stay on the backend's device.
        returns: ``"numpy"`` for NumPy arrays, ``"native"`` for the backend's own.

    Returns:
        A function of ``(size,)``, or of many points at once, ``(..., size)``; with ``flat=False``
        of a dict of arrays, which may have leading axes. It returns the value and the gradient,
        with the same leading axes, the gradient in the form of the point.

    Raises:
        ArgumentError: There is no model, it has no free variables, or a flat gradient is wanted
            with respect to discrete variables.
        UnsupportedOperationError: Some operations of PyTensor have no converter.

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
    layout = Layout.of(model)
    if flat and gradient:
        check_continuous(layout, "logp", ", or gradient=False")
    made = expressed(
        model,
        layout,
        flat=flat,
        gradient=gradient,
        linked=shared == "linked",
        jacobian=jacobian,
        vars=vars,
    )
    return LogDensity(model, layout, made, {"mode": mode, "returns": returns})


def check_continuous(layout: Layout, title: str, more: str = "") -> None:
    """Raise if a variable has no gradient."""
    pairs = zip(layout.names, layout.dtypes, strict=True)
    discrete = [name for name, dtype in pairs if dtype.kind != "f"]
    if discrete:
        raise ArgumentError(
            f"{title}: discrete variables have no gradient: {', '.join(discrete)}.",
            f"Pass flat=False: the gradient is with respect to the others{more}.",
        )


class LogDensity(OnPoints):
    """A model's log-density and its gradient, compiled; ``logp`` makes it.

    Attributes:
        model: PyMC's model.
        layout: Where the variables are in a flat vector.
        names: The names of the value variables, in the order of the flat vector.
        shapes: Their shapes, by name.
        size: The length of the flat vector.
        point: The model's initial point.
    """

    def __init__(
        self, model: Any, layout: Layout, made: Expression, options: Mapping[str, Any]
    ) -> None:
        super().__init__(model, layout)
        self._made = made
        self._options = options
        self._shape = (layout.size,)
        self._flat = not isinstance(made.place, dict)
        self._with_gradient = made.gradient is not None

    @cached_property
    def single(self) -> Function:
        """The compiled function of one point."""
        return self._compiled(self._made)

    @cached_property
    def many(self) -> Function:
        """The compiled function of points along a leading axis."""
        return self._compiled(self._made.batched())

    def _compiled(self, made: Expression) -> Function:
        return function(
            [made.place],
            made.outputs,
            updates=list(made.updates),
            name="logp",
            on_unused_input="ignore",
            **self._options,
        )

    def __call__(self, x: Any) -> Any:
        """The value and the gradient at one point, or at each of many.

        Args:
            x: A vector, or an array of vectors along its last axis; with ``flat=False`` a dict.

        Raises:
            ArgumentError: A wrong length, or a variable without a value.
        """
        if not self._flat:
            return self._at_point(x)
        if not hasattr(x, "shape"):
            x = np.asarray(x, self.layout.dtype)
        if x.shape == self._shape:
            found = self.single(x)
            return tuple(found) if self._with_gradient else found
        lead = x.shape[:-1]
        self.layout.check_length(x.shape)
        return self._shaped(self.many(x.reshape(-1, self.size)), lead)

    def _at_point(self, point: Mapping[str, Any]) -> Any:
        self.layout.check(point)
        given = {name: point[name] for name in self.names}
        first, shape = np.shape(given[self.names[0]]), self.layout.shapes[0]
        lead = first[: len(first) - len(shape)]
        if not lead:
            found = self.single(given)
            return tuple(found) if self._with_gradient else found
        rows = {
            name: np.reshape(x, (math.prod(lead), *np.shape(x)[len(lead) :]))
            for name, x in given.items()
        }
        return self._shaped(self.many(rows), lead)

    def _shaped(self, found: Any, lead: tuple[int, ...]) -> Any:
        """Results with the leading axes of what was given."""
        if not self._with_gradient:
            return found.reshape(lead)
        value, gradient = found
        slopes = [g.reshape((*lead, *g.shape[1:])) for g in _inputs(gradient)]
        return value.reshape(lead), _like(gradient, slopes)

    def __repr__(self) -> str:
        return f"logp({', '.join(self.names)})"
