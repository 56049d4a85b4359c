"""Processes that share a cache directory."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

START = """
import json, sys
from graphc.compile import cache, disk as disk_module, entry as entry_module

# Whoever edits graphc while its tests run has them pass; a fast machine keeps all that a slow does.
disk_module.stamp = entry_module.stamp = lambda: bytes(16)
disk_module.edited_since_import = lambda: False
cache.WORTH_SAVING = 0.0

rewrites = []
built = cache.lower_program
cache.lower_program = lambda signature: (rewrites.append(1), built(signature))[1]

import numpy as np
import graphc
import graphc.tensor as gt

graphc.config.recompile = "ignore"

def traced_by_python(mode):
    # What is fused takes the C++ compiler seconds, and is the same program.
    if mode == "MLX":
        import mlx.core as mx
        from tests.tracing import traced
        mx.compile = traced

def values(found):
    return [np.asarray(y).tolist() for y in (found if isinstance(found, list) else [found])]
"""


def started(code: str, cache: Path, *arguments: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", START + code, *arguments],
        env={**os.environ, "GRAPHC_CACHE_DIR": str(cache)},
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        text=True,
    )


def answer(process: subprocess.Popen[str], said: str = "") -> Any:
    """What it prints last, as JSON."""
    out, complaint = process.communicate(said)
    assert process.returncode == 0, complaint
    return json.loads(out.splitlines()[-1])
