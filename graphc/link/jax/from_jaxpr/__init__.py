"""JAX programs as graphs of graphc's operations: a converter for each primitive."""

from graphc.link.jax.from_jaxpr.convert import convert

__all__ = ["convert"]
