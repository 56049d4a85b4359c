"""JAX functions as operations of graphs: ``wrap_jax``, from where a wrapped function is called."""

from graphc.link.jax.wrap.captured import call

__all__ = ["call"]
