"""Implicit arrays of JAX arrays, which a higher layer provides: see ``graphc/__init__.py``."""

from __future__ import annotations

from graphc import lazy

__getattr__, __dir__ = lazy.attributes(globals())
