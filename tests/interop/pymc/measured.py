"""A PyMC model with data, and a point near its initial one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm


def measured() -> Any:
    """A model with data, a transform, and a closed form."""
    with pm.Model(coords={"group": ["a", "b"]}) as model:
        seen = pm.Data("seen", [1.0, 2.0], dims="group")
        mu = pm.Normal("mu", dims="group")
        sigma = pm.HalfNormal("sigma")
        pm.Normal("y", mu, sigma, observed=seen, dims="group")
    return model


def near(model: Any) -> dict[str, np.ndarray[Any, Any]]:
    """A point beside the initial one."""
    found = model.initial_point(random_seed=0)
    return {x.name: np.asarray(found[x.name]) + 0.1 for x in model.value_vars}
