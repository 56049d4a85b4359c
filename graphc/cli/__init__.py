"""The command line: what is kept on disk, and what is found on this machine."""

from graphc.cli.main import main

__all__ = ["main"]
