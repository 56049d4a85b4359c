"""Random draws: keys, and distributions with the same draws on every backend."""

from typing import TYPE_CHECKING

from graphc import lazy
from graphc.random.generator import Generator as Generator, rng as rng
from graphc.random.keys import *

if TYPE_CHECKING:
    from graphc.compile.streams import (
        RandomStream as RandomStream,
        SharedGenerator as SharedGenerator,
        default_rng as default_rng,
        shared_rng as shared_rng,
    )
    from graphc.random.signatures import *
else:
    from graphc.random.choice import *
    from graphc.random.counts import *
    from graphc.random.gamma_family import *
    from graphc.random.gaussian import *
    from graphc.random.inversion import *
    from graphc.random.poisson import *
    from graphc.random.uniform import *
    from graphc.random.vonmises import *

    __getattr__, __dir__ = lazy.attributes(globals())  # of a higher layer, see graphc/__init__.py

__all__ = list(lazy.public_names(globals()))
