"""Variables of a model: their layout in a flat vector, and their conversion to graphc's arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

try:
    import pymc
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "graphc.interop.pymc needs PyMC.\nInstall it: pip install 'graphc[pymc]'.", name=error.name
    ) from error
import graphc.tensor as gt
from graphc.errors import ArgumentError
from graphc.interop.pytensor.application import Application
from graphc.interop.pytensor.convert import Conversion
from graphc.interop.pytensor.identity import check_and_raise
from graphc.tensor.core.tensor import Tensor


def model_of(model: Any) -> Any:
    """Return the model, or the model of the context.

    Raises:
        ArgumentError: If ``model`` is no model, or None without a context.
    """
    if model is None:
        model = pymc.Model.get_context(error_if_none=False)
    if not isinstance(model, pymc.Model):
        raise ArgumentError(
            "No PyMC model is given, and none is the context."
            if model is None
            else f"{type(model).__name__} is no PyMC model.",
            "Give the model as the first argument, or call it in `with model:`.",
        )
    return model


def convert(
    model: Any, wanted: Sequence[Any], given: Mapping[Any, Any], *, linked: bool = True
) -> list[Any]:
    """Convert variables of a model, with replacements for some of them.

    Checks of parameters are treated as PyMC treats them when it compiles a model.
    """
    check = minus_infinity_where_invalid if model.check_bounds else skip_checks
    conversion = Conversion(linked=linked, overrides={"CheckParameterValue": check})
    return conversion.outputs(wanted, dict(given))


def following_generators(outputs: Sequence[Any]) -> dict[Any, Any]:
    """Return the shared generators that draw variables, with their next states."""
    return dict(pymc.pytensorf.collect_default_updates(outputs))


def minus_infinity_where_invalid(at: Application, x: Tensor, *conditions: Tensor) -> Tensor:
    """Return a log-density that is -inf where parameters are invalid.

    The conditions are checked, as everywhere else, where PyMC does not allow that.
    """
    if not at.op.can_be_replaced_by_ninf:
        return check_and_raise(at, x, *conditions)
    valid = conditions[0]
    for condition in conditions[1:]:
        valid = valid & condition
    return gt.where(valid, x, -np.inf)


def skip_checks(at: Application, x: Tensor, *conditions: Tensor) -> Tensor:
    """Return ``x`` without checking the conditions."""
    return x


@dataclass(frozen=True)
class ValueLayout:
    """Positions of a model's value variables in a flat vector: one after the other, in C order.

    Attributes:
        names: The variables' names.
        shapes: The variables' shapes.
        dtypes: The variables' dtypes.
        fixed: Whether the shape of each variable is independent of the model's data.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[np.dtype[Any], ...]
    fixed: tuple[bool, ...]

    @classmethod
    def of(cls, model: Any) -> ValueLayout:
        """Return the layout of a model's value variables, with the current lengths of its data."""
        variables = model.value_vars
        if not variables:
            raise ArgumentError("The model has no free random variables.")
        static = {x.name: x.type.shape for x in variables}
        fixed = tuple(None not in shape for shape in static.values())
        if not all(fixed):
            static = {name: np.shape(x) for name, x in model.initial_point(0).items()}
        shapes = tuple(tuple(map(int, static[x.name])) for x in variables)
        dtypes = tuple(np.dtype(x.type.dtype) for x in variables)
        return cls(tuple(x.name for x in variables), shapes, dtypes, fixed)

    @property
    def is_fixed(self) -> bool:
        """Whether all shapes are independent of the model's data."""
        return all(self.fixed)

    @property
    def sizes(self) -> list[int]:
        """The number of elements of each variable."""
        return [math.prod(shape) for shape in self.shapes]

    @property
    def size(self) -> int:
        """The length of the flat vector."""
        return sum(self.sizes)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the flat vector: the widest of the floating ones, float64 for integers."""
        dtype = np.result_type(*self.dtypes)
        return dtype if dtype.kind == "f" else np.dtype("float64")

    def ravel(self, point: Mapping[str, Any]) -> Any:
        """Return the flat vectors of values by name, which may have leading axes."""
        self.check(point)
        values = [np.asarray(point[name]) for name in self.names]
        ranks = {x.ndim - len(shape) for x, shape in zip(values, self.shapes, strict=True)}
        lead = values[0].shape[: max(*ranks, 0)]
        for name, x, shape in zip(self.names, values, self.shapes, strict=True):
            if x.shape != (*lead, *shape):
                raise ArgumentError(
                    f"The value of {name} has the shape {x.shape}, not {(*lead, *shape)}."
                )
        rows = [x.reshape(*lead, n) for x, n in zip(values, self.sizes, strict=True)]
        return np.concatenate(rows, -1).astype(self.dtype, copy=False)

    def unravel(self, x: Any) -> dict[str, Any]:
        """Split flat vectors by name, with their leading axes and the variables' dtypes.

        ``x`` is an array of any library, or a symbolic one.
        """
        self.check_length(x.shape)
        return self.parts(x, x.shape[:-1])

    def parts(self, x: Any, lead: tuple[int, ...] = ()) -> dict[str, Any]:
        """Split flat vectors of the right length, as ``unravel`` does."""
        ends = list(accumulate(self.sizes))
        starts = [0, *ends[:-1]]
        # Without jax_enable_x64, JAX's floats cannot have the dtypes of the model.
        keeps_floats = not isinstance(x, np.ndarray | Tensor)
        result = {}
        rows = zip(self.names, starts, ends, self.shapes, self.dtypes, strict=True)
        for name, a, b, shape, dtype in rows:
            part = x[..., a:b].reshape((*lead, *shape))
            result[name] = part if keeps_floats and dtype.kind == "f" else part.astype(dtype)
        return result

    def check_length(self, shape: tuple[int, ...], lead: int | None = None) -> None:
        """Raise if an array has no flat vectors along its last axis, or another rank."""
        if shape[-1:] != (self.size,) or lead not in {None, len(shape) - 1}:
            raise ArgumentError(
                f"Expected vectors of {self.size} elements, got an array of the shape {shape}.",
                "f.ravel(point) makes a vector of a dict.",
            )

    def check(self, point: Mapping[str, Any]) -> None:
        """Raise if a variable has no value."""
        missing = [name for name in self.names if name not in point]
        if missing:
            raise ArgumentError(
                f"The point has no value of {', '.join(missing)}.",
                f"Give a dict of {', '.join(self.names)}, such as model.initial_point().",
            )


class OnPoints:
    """A function of the unconstrained values of a model's free variables.

    Attributes:
        model: The PyMC model.
        layout: The layout of the variables in a flat vector.
    """

    def __init__(self, model: Any, layout: ValueLayout) -> None:
        self.model = model
        self.layout = layout

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the value variables, in the order of the flat vector: ``"sigma_log__"``."""
        return self.layout.names

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the value variables, by name."""
        return dict(zip(self.layout.names, self.layout.shapes, strict=True))

    @property
    def size(self) -> int:
        """The length of the flat vector."""
        return self.layout.size

    @property
    def point(self) -> dict[str, np.ndarray[Any, Any]]:
        """The model's initial point, as ``model.initial_point()``."""
        values = self.model.initial_point(0)
        return {name: np.asarray(values[name]) for name in self.names}

    def ravel(self, point: Mapping[str, Any]) -> np.ndarray[Any, Any]:
        """Return the flat vector of values by name; leading axes, as of chains, are kept.

        Raises:
            ArgumentError: If a value is missing, or has another shape.
        """
        return self.layout.ravel(point)  # type: ignore[no-any-return]

    def unravel(self, x: Any) -> dict[str, Any]:
        """Return the values by name for flat vectors; leading axes, as of chains, are kept.

        Raises:
            ArgumentError: If the last axis has another length.
        """
        return self.layout.unravel(x if hasattr(x, "reshape") else np.asarray(x))
