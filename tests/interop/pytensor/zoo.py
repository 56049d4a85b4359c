"""All the PyMC models that are compared."""

from __future__ import annotations

from tests.interop.pytensor.models import MODELS
from tests.interop.pytensor.models_of_regression import REGRESSION
from tests.interop.pytensor.models_of_structure import STRUCTURE
from tests.interop.pytensor.models_of_time import TIME

__all__ = ["ZOO"]

ZOO = {**MODELS, **REGRESSION, **STRUCTURE, **TIME}
