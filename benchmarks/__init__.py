"""graphc beside the same program written by hand for JAX or MLX, in one run: ratios of times.

``python -m benchmarks`` runs all of them, ``python -m benchmarks call chain`` those whose names
contain one of the words, ``--list`` names them, and ``--long`` adds what takes minutes. Each checks
that both forms give the same numbers; none fails for its time.

Programs by hand return arrays of JAX or MLX, so graphc's functions do here too.
"""

import warnings

import graphc
from graphc.errors import NarrowingWarning

graphc.config.returns = "native"
warnings.simplefilter("ignore", NarrowingWarning)
