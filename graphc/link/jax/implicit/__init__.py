"""Implicit arrays in JAX programs: an interpreter of traced programs, and rules."""

# The rules below are registered by the names of primitives, so these come first.
from graphc.link.jax.primitives import primitive, primitive_names

# isort: split
from graphc.link.jax.implicit import (
    control,
    function_pair,
    ragged,
    rules,
    sharded,
    stacks,
)
from graphc.link.jax.implicit.automatic import densify_layer
from graphc.link.jax.implicit.avals import merge_trees
from graphc.link.jax.implicit.captured import call
from graphc.link.jax.implicit.interpreter import where_now
from graphc.link.jax.implicit.known import known_array, known_number
from graphc.link.jax.implicit.krylov import CALCULUS as KRYLOV
from graphc.link.jax.implicit.numpy_like import NAMESPACE, bcoo
from graphc.link.jax.implicit.partition import device_put, partition_specs, shardings
from graphc.link.jax.implicit.quantized import matmul as quantized_matmul
from graphc.link.jax.implicit.straight_through import (
    apply_to_values,
    straight_through,
    with_derivative_of,
)
from graphc.link.jax.releases import bind

__all__ = [
    "KRYLOV", "NAMESPACE", "apply_to_values", "bcoo", "bind", "call", "control",
    "densify_layer", "device_put", "function_pair", "known_array", "known_number",
    "merge_trees", "partition_specs", "primitive", "primitive_names", "quantized_matmul",
    "ragged", "rules", "sharded", "shardings", "stacks", "straight_through", "where_now",
    "with_derivative_of",
]  # fmt: skip
