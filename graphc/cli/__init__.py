"""The command line: ``graphc cache``, ``doctor``, ``show`` and ``run``."""

from graphc.cli.main import main

__all__ = ["main"]
