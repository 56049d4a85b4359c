"""Programs of several processes: they begin together, share batches, print once and save.

JAX is the engine, ``jax.distributed`` and its arrays; the page on shardings shows a whole program.
"""

from graphc.compile.checkpoint import has_checkpoint, load_checkpoint, save_checkpoint
from graphc.link.jax.distributed import global_array, initialize, print_once

__all__ = [
    "global_array",
    "has_checkpoint",
    "initialize",
    "load_checkpoint",
    "print_once",
    "save_checkpoint",
]
