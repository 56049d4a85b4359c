"""JAX functions as graphc's graphs: to run on other backends, rewrite, explain and export."""

from typing import TYPE_CHECKING

from graphc import lazy

if TYPE_CHECKING:
    from graphc.interop.jax.convert import from_jaxpr as from_jaxpr
else:
    # It imports JAX, which a program for other backends need not load.
    lazy.provide(__name__, names={"graphc.interop.jax.convert": "from_jaxpr"})
    __getattr__, __dir__ = lazy.attributes(globals())

__all__ = ["from_jaxpr"]
