"""PyMC models compiled again: what a process keeps for the next one, and what PyMC asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.compile.cache import PROGRAMS
from graphc.interop.pytensor import from_pytensor, mode as graphc_mode
from tests.interop.pytensor.models import MODELS

pytestmark = pytest.mark.exhaustive  # importing PyMC takes longer than the rest of the folder


def by_conversion(model: Any) -> Any:
    values, logp = from_pytensor([list(model.value_vars), model.logp()])
    outputs = [logp, *graphc.grad(logp, values)]
    return graphc.function(values, outputs, mode="JAX", returns="numpy")


def by_mode(model: Any) -> Any:
    import pytensor  # noqa: PLC0415

    outputs = [model.logp(), model.dlogp()]
    return pytensor.function(model.value_vars, outputs, mode=graphc_mode("JAX"))


@pytest.mark.parametrize("build", [by_conversion, by_mode])
@pytest.mark.parametrize("name", ["radon", "hidden_markov"])
def test_a_models_gradient_is_found_on_disk_and_not_compiled(
    name: str, build: Any, tmp_path: Path
) -> None:
    kinds: list[str] = []
    found = []
    with graphc.config.change_flags(cache_dir=tmp_path / "cache", recompile="ignore"):
        for _ in range(2):
            PROGRAMS.clear()
            model = MODELS[name]()
            start = model.initial_point(random_seed=0)
            f = build(model)
            with graphc.events.subscribe(lambda event: kinds.append(event.kind)):
                found.append(f(*[np.asarray(start[x.name]) for x in model.value_vars]))
    assert kinds == ["compile", "load"]
    assert [np.shape(y) for y in found[0]] == [np.shape(y) for y in found[1]]


def test_a_density_is_zero_where_parameters_are_invalid_as_in_pymcs_own_modes(mode: str) -> None:
    import pymc as pm  # noqa: PLC0415

    with pm.Model() as model:
        scale = pm.Normal("scale", 0, 1)
        pm.Normal("x", 0, scale)
    density = model.compile_logp(mode=graphc_mode(mode))
    assert density({"scale": -1.0, "x": 0.3}) == -np.inf
    wanted = model.compile_logp(mode="FAST_COMPILE")({"scale": 1.0, "x": 0.3})
    np.testing.assert_allclose(density({"scale": 1.0, "x": 0.3}), wanted, 1e-12)


def test_a_models_nodes_have_lines_of_the_model_and_not_of_what_calls_pymc() -> None:
    nodes = by_conversion(MODELS["radon"]()).requested.nodes
    files = {node.where.partition(":")[0] for node in nodes if node.where}
    assert "models.py" in files
    assert "functools.py" not in files
