"""Attention of JAX arrays. What imports JAX here is loaded where JAX arrays are given."""
