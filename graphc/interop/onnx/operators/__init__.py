"""Converters of ONNX's operators: a file for each subject, a function for each operator."""

from importlib import import_module
from pkgutil import iter_modules


def load() -> None:
    """Fill the table of converters by importing every file of this folder."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
