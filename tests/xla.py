"""How XLA compiles programs of tests, most of which run once."""

from __future__ import annotations

import os
import subprocess
import sys

__all__ = ["compile_fewer_kernels"]

FEWER_KERNELS = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
"""Has XLA compile in less time. Not every release knows it, and XLA ends a process that gives a
flag it does not know: another process tries it first."""


def compile_fewer_kernels() -> None:
    """Set the flag for this process, before it compiles, and for those that it starts."""
    if "XLA_FLAGS" in os.environ:
        return
    tried = subprocess.run(
        [sys.executable, "-c", "import jax; jax.devices()"],
        env=os.environ | {"XLA_FLAGS": FEWER_KERNELS},
        capture_output=True,
        check=False,
    )
    os.environ["XLA_FLAGS"] = "" if tried.returncode else FEWER_KERNELS
