"""The command line: ``graphc cache`` and ``graphc doctor``."""

from graphc.cli.main import main

__all__ = ["main"]
