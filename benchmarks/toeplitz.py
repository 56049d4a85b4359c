"""Products with Toeplitz matrices in graphs, by Fourier transforms, against dense ones.

The dense matrix is there, and in the cache as far as it fits; to make it takes longer than both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import mlx.core as mx
import numpy as np
from scipy.linalg import toeplitz

import graphc
import graphc.tensor as gt
from benchmarks.table import Line, benchmark
from benchmarks.timing import agree, compared
from graphc.implicit import Toeplitz

LENGTHS = (1024, 4096)
"""Of both sides; in between, transforms get ahead on every backend."""

COLUMNS = (1, 16)


LIBRARIES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "NUMPY": (np.asarray, np.asarray),
    "JAX": (jnp.asarray, jax.block_until_ready),
    "MLX": (mx.array, mx.eval),
}
"""How each mode's arrays are made, and waited for."""


@benchmark("toeplitz")
def with_every_backend() -> Iterator[Line]:
    """Compiled by ``graphc.function``, both, in float32."""
    rng = np.random.default_rng(0)
    for mode, n, k in product(("NUMPY", "JAX", "MLX"), LENGTHS, COLUMNS):
        t, x = (rng.standard_normal(shape).astype("float32") for shape in (n, (n, k)))
        w = gt.implicit(Toeplitz.spec((n, n), "float32", symmetric=True), name="w")
        columns, dense = gt.matrix("x", dtype="float32"), gt.matrix("w", dtype="float32")
        ours = graphc.function([w, columns], w @ columns, mode=mode)
        theirs = graphc.function([dense, columns], dense @ columns, mode=mode)
        whole: Any = toeplitz(t)
        agree(np.asarray(ours(Toeplitz(t), x)), whole @ x, rtol=1e-5)
        array, finish = LIBRARIES[mode]
        held, matrix, values = Toeplitz(array(t)), array(whole), array(x)
        ratio = compared(
            lambda f=ours, w=held, x=values, finish=finish: finish(f(w, x)),
            lambda f=theirs, w=matrix, x=values, finish=finish: finish(f(w, x)),
        )
        yield Line(f"{mode}, {n} x {n}, {k} columns: dense", ratio, 1.0)
