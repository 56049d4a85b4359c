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
from graphc.interop.pymc.model import convert, model_of
from graphc.interop.pytensor.variables import has_value, input_of, is_generator
from graphc.ir import TensorType
from graphc.ir.walk import reachable_nodes
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
    """Return posterior predictive draws and deterministic variables, by one function of all draws.

    Random variables of ``draws`` have the drawn values; observed variables are drawn anew, and
    deterministic ones are computed, with the current ``pm.Data``. The distributions are the same as
    in ``pm.sample_posterior_predictive``; the numbers are others, on every backend the same.

    Args:
        model: A PyMC model (default: the model of the context).
        draws: Values of random variables by name, arrays with the same leading axes: a dict, an
            xarray ``Dataset``, or what ``pm.sample`` returns.
        var_names: Which variables are returned: observed, deterministic, and free ones, which are
            drawn from their priors if they are not in ``draws``. By default the observed ones, and
            the deterministic ones that depend on them.
        mode: ``"JAX"``, ``"MLX"``, ``"NUMPY"`` or a ``graphc.Mode`` (default: ``config.mode``).
        random_seed: An integer, a ``numpy.random.Generator``, or None for a fresh one.
        batch_size: Number of draws that one call computes, to bound the memory (default: all). It
            does not change the result.

    Returns:
        A dict of arrays with the leading axes of ``draws`` if that is a dict; else an xarray
        ``Dataset`` with the model's dimensions and coordinates.

    Raises:
        ArgumentError: If there is no model, a name is unknown, shapes do not fit, or a variable
            that the results depend on has no values.
        UnsupportedOperationError: If some operations have no converter, as draws by Python code.

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
    drawn = _drawn_variables(model, outputs, values)
    rows = {x.name: np.asarray(values[x.name]) for x in drawn}
    lead = _leading_axes(drawn, rows)
    compiled = _compile(model, outputs, drawn, mode)
    count = int(np.prod(lead, dtype=int))
    flat = {name: x.reshape(count, *x.shape[len(lead) :]) for name, x in rows.items()}
    keys = np.random.default_rng(random_seed).integers(
        2**32, size=(compiled.keys, count, 2), dtype=np.uint32
    )
    results = compiled(flat, keys, count, batch_size or count)
    shaped = {n: x.reshape(*lead, *x.shape[1:]) for n, x in zip(names, results, strict=True)}
    return shaped if values is draws else dataset(model, shaped, sample_dims(draws))


def _default_names(model: Any) -> list[str]:
    """Return the observed variables, and the deterministic ones that depend on them."""
    observed = set(model.observed_RVs)
    ends = set(model.basic_RVs)
    return [x.name for x in model.observed_RVs] + [
        x.name
        for x in model.deterministics
        if not observed.isdisjoint(reachable_nodes([x], lambda v: [] if v in ends else _parents(v)))
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


def _drawn_variables(model: Any, outputs: Sequence[Any], values: Mapping[str, Any]) -> list[Any]:
    """Return the variables whose values are taken from draws.

    A deterministic variable is one of them only if it cannot be computed from others.
    """
    free, asked = set(model.free_RVs), set(outputs)
    drawn = {x for x in free if x.name in values}
    computed = {x for x in model.deterministics if x.name in values}

    def lacks(x: Any) -> bool:
        ancestors = reachable_nodes([x], lambda v: () if v in drawn else _parents(v))
        return any(v in free and v not in drawn for v in ancestors)

    supplied = {x for x in computed - asked if lacks(x)}
    ancestors = reachable_nodes(
        outputs, lambda v: () if v in drawn or v in supplied else _parents(v)
    )
    missing = [x.name for x in ancestors if x in free and x not in drawn and x not in asked]
    if missing:
        raise ArgumentError(
            f"predictive: the draws have no values of {', '.join(missing)}.",
            "Add them to the draws, or to var_names, to draw them from their priors.",
        )
    return [x for x in ancestors if x in drawn or x in supplied]


def _leading_axes(
    drawn: Sequence[Any], rows: Mapping[str, np.ndarray[Any, Any]]
) -> tuple[int, ...]:
    if not drawn:
        raise ArgumentError(
            "predictive: the results depend on no variable of the draws.",
            "pm.sample_prior_predictive draws from the prior.",
        )
    leads: dict[str, tuple[int, ...]] = {
        x.name: rows[x.name].shape[: rows[x.name].ndim - x.ndim] for x in drawn
    }
    first = next(iter(leads.values()))
    for x in drawn:
        if leads[x.name] != first or rows[x.name].ndim < x.ndim:
            raise ArgumentError(
                f"predictive: the values of {x.name} have the shape {rows[x.name].shape}: expected "
                f"the leading axes {first} of {drawn[0].name}, and {x.ndim} more."
            )
    return first


@dataclass(frozen=True)
class Predictor:
    """The compiled function of a batch of draws.

    Attributes:
        function: A function of a dict of values, and of a list of keys for each draw.
        keys: The number of generators.
    """

    function: Function
    keys: int

    def __call__(
        self, values: Mapping[str, Any], keys: np.ndarray[Any, Any], count: int, size: int
    ) -> list[np.ndarray[Any, Any]]:
        """Return the results, computed ``size`` draws at a time."""
        results = [
            self.function(
                {name: x[i : i + size] for name, x in values.items()},
                [k[i : i + size] for k in keys],
            )
            for i in range(0, count, size)
        ]
        return [np.concatenate(pieces) for pieces in zip(*results, strict=True)]


def _compile(
    model: Any, outputs: Sequence[Any], drawn: Sequence[Any], mode: str | Mode | None
) -> Predictor:
    single = {x: input_of(x) for x in drawn}
    keys = {x: input_of(x) for x in _generators_to_draw_by(outputs, set(drawn))}
    single_outputs = convert(model, outputs, {**single, **keys})
    rows = {
        x: TensorType(x.dtype, (None, *x.type.shape))(x.name)
        for x in (*single.values(), *keys.values())
    }
    many = vectorize_graph(single_outputs, rows)
    f = function(
        [{x.name: rows[y] for x, y in single.items()}, [rows[k] for k in keys.values()]],
        many,
        mode=mode,
        name="predictive",
        returns="numpy",
        on_unused_input="ignore",
    )
    return Predictor(f, len(keys))


def _generators_to_draw_by(outputs: Sequence[Any], given: set[Any]) -> list[Any]:
    ancestors = reachable_nodes(outputs, lambda v: () if v in given else _parents(v))
    return [x for x in ancestors if is_generator(x) and has_value(x)]
