"""Predictions of a model for many draws of its posterior, by one batched function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.compile.function import Function, function
from graphc.compile.mode import Mode
from graphc.errors import ArgumentError
from graphc.interop.pymc.dataset import dataset, sample_dims, values_of
from graphc.interop.pymc.model import converted, model_of
from graphc.interop.pytensor.variables import has_value, input_of, is_generator
from graphc.ir import TensorType
from graphc.ir.walk import reached
from graphc.tensor.arrays.vectorize import vectorize_graph


def predictive(
    model: Any = None,
    draws: Any = None,
    var_names: Iterable[str] | None = None,
    *,
    mode: str | Mode | None = None,
    random_seed: Any = None,
    batch_size: int | None = None,
) -> Any:
    """Posterior predictive draws and deterministic variables, for all draws by one function call.

    Random variables of ``draws`` have the drawn values; observed ones are drawn anew, and
    deterministic ones are computed, with ``pm.Data`` as they are now. The distributions are those
    of ``pm.sample_posterior_predictive``; the numbers are others, on every backend the same.

    Args:
        model: A PyMC model; the one of the context by default.
        draws: Values of random variables by name, arrays with the same leading axes: a dict, an
            xarray ``Dataset``, or what ``pm.sample`` returns.
        var_names: Which variables are returned: observed, deterministic, and free ones, which are
            drawn from their priors if they are not in ``draws``. By default the observed ones, and
            the deterministic ones that depend on them.
        mode: ``"JAX"``, ``"MLX"``, ``"NUMPY"`` or a ``graphc.Mode``; ``config.mode`` by default.
        random_seed: An integer, a ``numpy.random.Generator``, or None for a fresh one.
        batch_size: How many draws one call computes, to bound the memory; all by default. It does
            not change the result.

    Returns:
        A dict of arrays with the leading axes of ``draws`` if that is a dict; else an xarray
        ``Dataset`` with the model's dimensions and coordinates.

    Raises:
        ArgumentError: There is no model, a name is unknown, shapes do not fit, or a variable that
            the results depend on has no values.
        UnsupportedOperationError: Some operations have no converter, as draws by Python code.

    Example:
        >>> import numpy as np, pymc as pm
        >>> from graphc.interop.pymc import predictive
        >>> with pm.Model() as model:
        ...     mu = pm.Normal("mu")
        ...     twice = pm.Deterministic("twice", 2 * mu)
        ...     y = pm.Normal("y", mu, 0.1, observed=np.zeros(3))
        >>> draws = {"mu": np.array([[0.0, 1.0], [2.0, 3.0]])}
        >>> found = predictive(model, draws, ["twice", "y"], mode="NUMPY", random_seed=1)
        >>> found["twice"].tolist(), found["y"].shape
        ([[0.0, 2.0], [4.0, 6.0]], (2, 2, 3))
    """
    model = model_of(model)
    if draws is None:
        raise ArgumentError("predictive: no draws are given.", "Pass a dict, or an InferenceData.")
    names = list(var_names) if var_names is not None else _default_names(model)
    outputs = [_variable(model, name) for name in names]
    values = values_of(draws)
    given = _given(model, outputs, values)
    rows = {x.name: np.asarray(values[x.name]) for x in given}
    lead = _leading(given, rows)
    compiled = _compiled(model, outputs, given, mode)
    count = int(np.prod(lead, dtype=int))
    flat = {name: x.reshape(count, *x.shape[len(lead) :]) for name, x in rows.items()}
    keys = np.random.default_rng(random_seed).integers(
        2**32, size=(compiled.keys, count, 2), dtype=np.uint32
    )
    found = compiled(flat, keys, count, batch_size or count)
    shaped = {n: x.reshape(*lead, *x.shape[1:]) for n, x in zip(names, found, strict=True)}
    return shaped if values is draws else dataset(model, shaped, sample_dims(draws))


def _default_names(model: Any) -> list[str]:
    """The observed variables, and the deterministic ones that depend on them."""
    observed = set(model.observed_RVs)
    ends = set(model.basic_RVs)
    return [x.name for x in model.observed_RVs] + [
        x.name
        for x in model.deterministics
        if not observed.isdisjoint(reached([x], lambda v: [] if v in ends else _parents(v)))
    ]


def _parents(variable: Any) -> Sequence[Any]:
    return () if variable.owner is None else variable.owner.inputs


def _variable(model: Any, name: str) -> Any:
    if name not in model.named_vars:
        raise ArgumentError(
            f"predictive: the model has no variable {name!r}.",
            f"It has {', '.join(model.named_vars)}.",
        )
    return model.named_vars[name]


def _given(model: Any, outputs: Sequence[Any], values: Mapping[str, Any]) -> list[Any]:
    """The variables that have the values of draws.

    A deterministic variable has them only if it cannot be computed from others.

    Raises:
        ArgumentError: A free variable is needed and has no values.
    """
    free, asked = set(model.free_RVs), set(outputs)
    drawn = {x for x in free if x.name in values}
    computed = {x for x in model.deterministics if x.name in values}

    def lacks(x: Any) -> bool:
        found = reached([x], lambda v: () if v in drawn else _parents(v))
        return any(v in free and v not in drawn for v in found)

    kept = {x for x in computed - asked if lacks(x)}
    met = reached(outputs, lambda v: () if v in drawn or v in kept else _parents(v))
    missing = [x.name for x in met if x in free and x not in drawn and x not in asked]
    if missing:
        raise ArgumentError(
            f"predictive: the draws have no values of {', '.join(missing)}.",
            "Add them to the draws, or to var_names, to draw them from their priors.",
        )
    return [x for x in met if x in drawn or x in kept]


def _leading(given: Sequence[Any], rows: Mapping[str, np.ndarray[Any, Any]]) -> tuple[int, ...]:
    """The leading axes that the values have in common."""
    if not given:
        raise ArgumentError(
            "predictive: the results depend on no variable of the draws.",
            "pm.sample_prior_predictive draws from the prior.",
        )
    leads: dict[str, tuple[int, ...]] = {
        x.name: rows[x.name].shape[: rows[x.name].ndim - x.ndim] for x in given
    }
    first = next(iter(leads.values()))
    for x in given:
        if leads[x.name] != first or rows[x.name].ndim < x.ndim:
            raise ArgumentError(
                f"predictive: the values of {x.name} have the shape {rows[x.name].shape}: expected "
                f"the leading axes {first} of {given[0].name}, and {x.ndim} more."
            )
    return first


@dataclass(frozen=True)
class Predictor:
    """The compiled function of a batch of draws.

    Attributes:
        function: Takes a dict of values, and a list of keys for each draw.
        keys: How many generators there are.
    """

    function: Function
    keys: int

    def __call__(
        self, values: Mapping[str, Any], keys: np.ndarray[Any, Any], count: int, size: int
    ) -> list[np.ndarray[Any, Any]]:
        """The results for some draws at a time."""
        found = [
            self.function(
                {name: x[i : i + size] for name, x in values.items()},
                [k[i : i + size] for k in keys],
            )
            for i in range(0, count, size)
        ]
        return [np.concatenate(parts) for parts in zip(*found, strict=True)]


def _compiled(
    model: Any, outputs: Sequence[Any], given: Sequence[Any], mode: str | Mode | None
) -> Predictor:
    single = {x: input_of(x) for x in given}
    keys = {x: input_of(x) for x in _generators(outputs, set(given))}
    found = converted(model, outputs, {**single, **keys})
    rows = {
        x: TensorType(x.dtype, (None, *x.type.shape))(x.name)
        for x in (*single.values(), *keys.values())
    }
    many = vectorize_graph(found, rows)
    f = function(
        [{x.name: rows[y] for x, y in single.items()}, [rows[k] for k in keys.values()]],
        many,
        mode=mode,
        name="predictive",
        returns="numpy",
        on_unused_input="ignore",
    )
    return Predictor(f, len(keys))


def _generators(outputs: Sequence[Any], given: set[Any]) -> list[Any]:
    """The generators that variables are drawn by, as far as these have no values."""
    met = reached(outputs, lambda v: () if v in given else _parents(v))
    return [x for x in met if is_generator(x) and has_value(x)]
