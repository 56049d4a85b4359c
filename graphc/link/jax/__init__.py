"""The JAX backend: one ``jax.jit`` over a program's straight-line function."""
