"""PyMC's models on graphc: log-densities and gradients, predictions, draws by several samplers."""

from typing import TYPE_CHECKING

from graphc import lazy

if TYPE_CHECKING:
    from graphc.interop.pymc.density import LogDensity as LogDensity, logp as logp
    from graphc.interop.pymc.in_jax import JaxLogDensity as JaxLogDensity, jax_logp as jax_logp
    from graphc.interop.pymc.predictive import predictive as predictive
    from graphc.interop.pymc.sample import sample as sample
else:
    # They import PyMC, which takes seconds.
    lazy.provide(
        __name__,
        names={
            "graphc.interop.pymc.density": "LogDensity logp",
            "graphc.interop.pymc.in_jax": "JaxLogDensity jax_logp",
            "graphc.interop.pymc.predictive": "predictive",
            "graphc.interop.pymc.sample": "sample",
        },
    )
    __getattr__, __dir__, __all__ = *lazy.attributes(globals()), sorted(lazy.SOURCES[__name__])
