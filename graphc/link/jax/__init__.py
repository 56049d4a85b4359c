"""JAX: one ``jax.jit`` over the straight-line function."""
