"""Special functions, as in ``scipy.special``."""

from graphc import lazy
from graphc.tensor.special.bessel import *
from graphc.tensor.special.beta import *
from graphc.tensor.special.gamma import *
from graphc.tensor.special.hypergeometric import *
from graphc.tensor.special.special import *

__all__ = list(lazy.public_names(globals()))

__dir__ = lazy.listing(globals())  # without the files of the folder
