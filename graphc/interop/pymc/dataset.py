"""Draws as xarray's datasets, with a model's dimensions and coordinates."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphc.compile.function import function
from graphc.errors import ArgumentError
from graphc.interop.pymc.model import converted, following_generators
from graphc.site import frames_up

SAMPLES = ("chain", "draw", "sample")
"""The dimensions of draws that ArviZ and PyMC use."""


def values_of(draws: Any) -> Mapping[str, Any]:
    """Values by name, with the dimensions of draws in front; a dict is returned as it is.

    Raises:
        ArgumentError: It is nothing of that kind.
    """
    if isinstance(draws, dict):
        return draws
    found = _posterior(draws)
    lead = sample_dims(draws)
    return {str(name): x.transpose(*lead, ...).values for name, x in found.items()}


def sample_dims(draws: Any) -> dict[str, Any]:
    """The dimensions of draws, in order, with their coordinates."""
    found = _posterior(draws)
    return {dim: found.coords.get(dim) for dim in SAMPLES if dim in found.dims}


def _posterior(draws: Any) -> Any:
    """The dataset itself, or the group ``posterior`` of an InferenceData or a DataTree."""
    found = getattr(draws, "posterior", draws)
    if not hasattr(found, "data_vars"):
        raise ArgumentError(
            f"{type(draws).__name__} holds no draws of a posterior.",
            "Give a dict of arrays, an xarray Dataset, or what pm.sample returns.",
        )
    return found


def dataset(model: Any, values: Mapping[str, Any], lead: Mapping[str, Any]) -> Any:
    """Arrays by name as an xarray ``Dataset``.

    Args:
        model: PyMC's, which has the dimensions of variables and their coordinates.
        values: The arrays.
        lead: Their leading dimensions, with coordinates or None.
    """
    import xarray  # noqa: PLC0415 (it takes a third of a second)

    dims = {
        name: (*lead, *_dims(model, name, np.ndim(x) - len(lead))) for name, x in values.items()
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


def _dims(model: Any, name: str, rank: int) -> Sequence[str]:
    """The names of a variable's dimensions."""
    declared = model.named_vars_to_dims.get(name) or (None,) * rank
    return [dim or f"{name}_dim_{i}" for i, dim in enumerate(declared)]


def inference_data(model: Any, posterior: Any, stats: Any, attributes: Mapping[str, Any]) -> Any:
    """An ArviZ ``InferenceData``, or a ``DataTree`` where ArviZ uses these.

    Args:
        model: PyMC's, whose data are added.
        posterior: A ``Dataset``.
        stats: A ``Dataset`` of the sampler's.
        attributes: What is to be known of both.
    """
    import arviz  # noqa: PLC0415 (it takes a second)
    import xarray  # noqa: PLC0415

    data = {x.name: x for x in model.data_vars}
    observed = {x.name: model.rvs_to_values[x] for x in model.observed_RVs}
    groups = {
        "posterior": posterior.assign_attrs(attributes),
        "sample_stats": stats.assign_attrs(attributes),
        "observed_data": dataset(model, _computed(model, observed), {}),
        "constant_data": dataset(model, _computed(model, data), {}),
    }
    groups = {name: x for name, x in groups.items() if x.data_vars}
    # ArviZ 1 finds the name by its __getattr__, with a warning that it is a DataTree.
    own = vars(arviz).get("InferenceData")
    return xarray.DataTree.from_dict(groups) if own is None else own(**groups)


def _computed(model: Any, variables: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """The values of data, without those that are drawn at random, as minibatches are."""
    kept = {name: x for name, x in variables.items() if not following_generators([x])}
    found = converted(model, list(kept.values()), {})
    values = function([], found, mode="NUMPY", returns="numpy")()
    return dict(zip(kept, values, strict=True))
