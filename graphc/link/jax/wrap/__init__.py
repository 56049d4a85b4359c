"""JAX functions as operations of graphs: what ``wrap_jax`` calls."""

from graphc.link.jax.wrap.captured import call

__all__ = ["call"]
