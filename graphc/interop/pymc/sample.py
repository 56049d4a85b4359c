"""Draws of a model's posterior by samplers of other libraries, with graphc's log-density."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from graphc.compile.function import function
from graphc.compile.mode import Mode, get_mode
from graphc.errors import ArgumentError, ModeError
from graphc.interop.pymc.dataset import dataset, inference_data
from graphc.interop.pymc.density import check_continuous, logp
from graphc.interop.pymc.model import ValueLayout, convert, model_of
from graphc.interop.pymc.settings import Draws, Settings, library, starts
from graphc.interop.pytensor.linker import mode as pytensor_mode
from graphc.ir import TensorType
from graphc.tensor.arrays.vectorize import vectorize_graph


def sample(  # noqa: PLR0913 (as pm.sample has)
    model: Any = None,
    sampler: str = "nutpie",
    *,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    target_accept: float = 0.8,
    random_seed: int | np.random.Generator | None = None,
    mode: str | Mode | None = None,
    **options: Any,
) -> Any:
    """Draw from a model's posterior by NUTS, with graphc's log-density and gradient.

    ``pm.sample`` lets a mode of PyTensor into its own sampler alone: it ignores
    ``compile_kwargs`` with ``nuts_sampler="nutpie"``, ``"numpyro"`` and ``"blackjax"``. Here the
    compiled function goes to these libraries through their public interfaces, and the results are
    computed from the draws by one batched function.

    Args:
        model: A PyMC model without discrete free variables (default: the model of the context).
        sampler: ``"nutpie"``, ``"numpyro"``, ``"blackjax"``, or ``"pymc"`` for ``pm.sample``.
            NumPyro and BlackJAX run all chains as one program on JAX, in 64 bits. nutpie runs each
            chain in a thread, and calls the function from there. PyMC runs one chain after the
            other, unless ``cores=`` or ``mp_ctx=`` says otherwise: JAX and MLX cannot be forked.
        draws: Number of draws of each chain that are returned.
        tune: Number of draws before these, to which step size and mass matrix adapt.
        chains: Number of chains.
        target_accept: The acceptance rate that the step size is adapted to.
        random_seed: An integer or a NumPy generator; None for a fresh seed.
        mode: ``"JAX"``, ``"MLX"``, ``"NUMPY"`` or a ``graphc.Mode`` (default: ``config.mode``).
            NumPyro and BlackJAX need JAX.
        options: For ``nutpie.sample``, ``numpyro.infer.NUTS``, ``blackjax.window_adaptation`` or
            ``pm.sample``.

    Returns:
        An ArviZ ``InferenceData``, or a ``DataTree`` where PyMC returns these, with the groups
        ``posterior``, ``sample_stats``, ``observed_data`` and ``constant_data``.

    Raises:
        ArgumentError: If the sampler is unknown, the model has discrete variables, or its
            log-density is not finite where chains would begin.
        ModeError: If the sampler cannot run in the mode.
        ModuleNotFoundError: If the sampler's library is not installed.

    Example:
        >>> import pymc as pm
        >>> from graphc.interop.pymc import sample
        >>> with pm.Model(coords={"group": ["a", "b"]}) as model:
        ...     mu = pm.Normal("mu", dims="group")
        ...     y = pm.Normal("y", mu, 0.5, observed=[1.0, 2.0], dims="group")
        >>> trace = sample(model, "nutpie", draws=400, tune=300, random_seed=1, mode="NUMPY")
        >>> means = trace.posterior["mu"].mean(("chain", "draw"))
        >>> abs(float(means.sel(group="b")) - 1.6) < 0.2
        True
    """
    model = model_of(model)
    if sampler not in SAMPLERS:
        raise ArgumentError(f"sample: no sampler {sampler!r}.", f"Choose of {', '.join(SAMPLERS)}.")
    chosen = get_mode(mode)
    seed = int(np.random.default_rng(random_seed).integers(2**31))
    if sampler == "pymc":
        counts = {"draws": draws, "tune": tune, "chains": chains, "random_seed": seed}
        return _by_pymc(model, chosen, {**counts, "target_accept": target_accept, **options})
    layout = ValueLayout.of(model)
    check_continuous(layout, "sample")
    middle = layout.ravel(model.initial_point(0))
    settings = Settings(
        model, layout, middle, chosen, draws, tune, chains, seed, target_accept, options
    )
    start = time.perf_counter()
    points, stats = SAMPLERS[sampler](settings)
    attributes = {"sampling_time": time.perf_counter() - start, "tuning_steps": tune}
    return _inference_data(settings, points, stats, {**attributes, "inference_library": sampler})


def _by_pymc(model: Any, mode: Mode, options: dict[str, Any]) -> Any:
    if mode.backend.name != "NUMPY" and "mp_ctx" not in options:
        options.setdefault("cores", 1)  # JAX and MLX cannot run in processes that are forked
    compiling = {"mode": pytensor_mode(mode)}
    import pymc as pm  # noqa: PLC0415 (it takes seconds)

    return pm.sample(model=model, nuts_sampler="pymc", compile_kwargs=compiling, **options)


def _inference_data(
    settings: Settings,
    points: np.ndarray[Any, Any],
    stats: Mapping[str, np.ndarray[Any, Any]],
    attributes: Mapping[str, Any],
) -> Any:
    model, lead = settings.model, points.shape[:2]
    names, outputs = _posterior_variables(model)
    x = TensorType(settings.layout.dtype.name, (settings.layout.size,))("x")
    values_by_name = settings.layout.parts(x)
    outputs_of_one = convert(model, outputs, {v: values_by_name[v.name] for v in model.value_vars})
    xs = TensorType(x.dtype, (None, settings.layout.size))("xs")
    many = vectorize_graph(outputs_of_one, {x: xs})
    f = function([xs], many, mode=settings.mode, name="constrained", returns="numpy")
    values = f(points.reshape(-1, settings.layout.size).astype(x.dtype))
    shaped = {n: y.reshape(*lead, *y.shape[1:]) for n, y in zip(names, values, strict=True)}
    dims: dict[str, Any] = {"chain": np.arange(lead[0]), "draw": np.arange(lead[1])}
    posterior = dataset(model, shaped, dims)
    return inference_data(model, posterior, dataset(model, dict(stats), dims), attributes)


def _posterior_variables(model: Any) -> tuple[list[str], list[Any]]:
    transformed = {
        model.rvs_to_values[x].name
        for x in model.free_RVs
        if model.rvs_to_transforms[x] is not None
    }
    variables = [x for x in model.unobserved_value_vars if x.name not in transformed]
    return [x.name for x in variables], variables


def _by_nutpie(settings: Settings) -> Draws:
    """Draw by nutpie, which calls a function of one point from a thread for each chain."""
    nutpie = library("nutpie", "nutpie")
    compiled_pyfunc = library("nutpie.compiled_pyfunc", "nutpie")
    f = logp(settings.model, mode=settings.mode, shared="copied")
    n = settings.layout.size

    def start(seed: int) -> np.ndarray[Any, Any]:
        one = replace(settings, seed=seed, chains=1)
        (first,) = starts(one, lambda x: [np.stack([y]) for y in f(x[0])])
        return np.asarray(first)

    start(settings.seed)  # so that an error is raised here, not in a thread of nutpie's
    model = compiled_pyfunc.from_pyfunc(
        ndim=n,
        make_logp_fn=lambda: f,
        make_expand_fn=lambda *seeds: lambda x: {"x": x},
        expanded_dtypes=[np.dtype("float64")],
        expanded_shapes=[(n,)],
        expanded_names=["x"],
        make_initial_point_fn=start,
    )
    options = {"progress_bar": False, **settings.options}
    trace = nutpie.sample(
        model,
        draws=settings.draws,
        tune=settings.tune,
        chains=settings.chains,
        seed=settings.seed,
        target_accept=settings.target_accept,
        **options,
    )
    stats = {str(name): x.values for name, x in trace.sample_stats.items() if x.ndim == 2}
    return trace.posterior["x"].values, stats


def _on_jax(name: str) -> Callable[[Settings], Draws]:
    def draw(settings: Settings) -> Draws:
        if settings.mode.backend.name != "JAX":
            raise ModeError(
                f"sample: {name} runs on JAX, not in the mode {settings.mode!r}.",
                'Use mode="JAX", or sampler="nutpie" in any mode.',
            )
        from graphc.interop.pymc.chains import DRAWERS  # noqa: PLC0415 (needs JAX)

        return DRAWERS[name](settings)

    return draw


SAMPLERS: dict[str, Any] = {
    "nutpie": _by_nutpie,
    "numpyro": _on_jax("numpyro"),
    "blackjax": _on_jax("blackjax"),
    "pymc": None,
}
"""The functions that draw, by sampler; None for ``pm.sample``, which needs no other code."""
