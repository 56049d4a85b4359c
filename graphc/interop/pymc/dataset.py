"""Draws as xarray's datasets, with a model's dimensions and coordinates."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphc.compile.function import function
from graphc.errors import ArgumentError
from graphc.interop.pymc.model import convert, following_generators
from graphc.site import frames_up

SAMPLES = ("chain", "draw", "sample")
"""The dimensions of draws that ArviZ and PyMC use."""


def values_of(draws: Any) -> Mapping[str, Any]:
    """Return values by name, with the dimensions of draws in front; return a dict unchanged.

    Raises:
        ArgumentError: If ``draws`` is neither a dict nor holds a posterior.
    """
    if isinstance(draws, dict):
        return draws
    posterior = _posterior(draws)
    lead = sample_dims(draws)
    return {str(name): x.transpose(*lead, ...).values for name, x in posterior.items()}


def sample_dims(draws: Any) -> dict[str, Any]:
    """Return the dimensions of draws, in order, with their coordinates."""
    posterior = _posterior(draws)
    return {dim: posterior.coords.get(dim) for dim in SAMPLES if dim in posterior.dims}


def _posterior(draws: Any) -> Any:
    """Return the dataset itself, or the group ``posterior`` of an InferenceData or a DataTree."""
    posterior = getattr(draws, "posterior", draws)
    if not hasattr(posterior, "data_vars"):
        raise ArgumentError(
            f"{type(draws).__name__} holds no draws of a posterior.",
            "Give a dict of arrays, an xarray Dataset, or what pm.sample returns.",
        )
    return posterior


def dataset(model: Any, values: Mapping[str, Any], lead: Mapping[str, Any]) -> Any:
    """Return arrays by name as an xarray ``Dataset``.

    Args:
        model: The PyMC model, which has the dimensions of variables and their coordinates.
        values: The arrays.
        lead: The leading dimensions of all arrays, with coordinates or None.
    """
    import xarray  # noqa: PLC0415 (it takes a third of a second)

    dims = {
        name: (*lead, *_dimension_names(model, name, np.ndim(x) - len(lead)))
        for name, x in values.items()
    }
    lengths = {
        dim: n for name, x in values.items() for dim, n in zip(dims[name], x.shape, strict=True)
    }
    coords = {dim: x for dim, x in lead.items() if x is not None}
    for dim, labels in model.coords.items():
        if dim in lengths and labels is not None:
            if len(labels) == lengths[dim]:
                coords[dim] = list(labels)
            else:
                warnings.warn(
                    f"The dimension {dim!r} has {lengths[dim]} elements and {len(labels)} "
                    "coordinates, which are left out. Set them with the data: "
                    "pm.set_data(..., coords=...).",
                    stacklevel=frames_up(),
                )
    pairs = {name: (dims[name], x) for name, x in values.items()}
    return xarray.Dataset(pairs, coords=coords)


def _dimension_names(model: Any, name: str, rank: int) -> Sequence[str]:
    declared = model.named_vars_to_dims.get(name) or (None,) * rank
    return [dim or f"{name}_dim_{i}" for i, dim in enumerate(declared)]


def inference_data(model: Any, posterior: Any, stats: Any, attributes: Mapping[str, Any]) -> Any:
    """Return an ArviZ ``InferenceData``, or a ``DataTree`` where ArviZ uses these.

    Args:
        model: The PyMC model, whose data are added.
        posterior: A ``Dataset`` of the draws.
        stats: A ``Dataset`` of the sampler's statistics.
        attributes: Attributes of the posterior and of the statistics.
    """
    import arviz  # noqa: PLC0415 (it takes a second)
    import xarray  # noqa: PLC0415

    data = {x.name: x for x in model.data_vars}
    observed = {x.name: model.rvs_to_values[x] for x in model.observed_RVs}
    groups = {
        "posterior": posterior.assign_attrs(attributes),
        "sample_stats": stats.assign_attrs(attributes),
        "observed_data": dataset(model, _data_values(model, observed), {}),
        "constant_data": dataset(model, _data_values(model, data), {}),
    }
    groups = {name: x for name, x in groups.items() if x.data_vars}
    # ArviZ 1 finds the name by its __getattr__, with a warning that it is a DataTree.
    cls = vars(arviz).get("InferenceData")
    return xarray.DataTree.from_dict(groups) if cls is None else cls(**groups)


def _data_values(model: Any, variables: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """Return the values of data, without minibatches, which are drawn at random."""
    fixed = {name: x for name, x in variables.items() if not following_generators([x])}
    outputs = convert(model, list(fixed.values()), {})
    values = function([], outputs, mode="NUMPY", returns="numpy")()
    return dict(zip(fixed, values, strict=True))
