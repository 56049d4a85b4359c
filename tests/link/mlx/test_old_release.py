"""A release of MLX that gets parts of mixed steps wrong on the CPU, and graphc right beside it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.link.mlx.old_release import OLD, ROOT

PROGRAM = """
import mlx.core as mx

def absent(name):
    # What this release lacks is named when graphc is imported, and not called here.
    if name.startswith("_"):
        raise AttributeError(name)
    return lambda *_: None

mx.__getattr__ = absent

import numpy as np
import graphc
import graphc.tensor as gt

assert mx.__version__ == "{old}", mx.__version__
mx.set_default_device(mx.cpu)
y = np.linspace(1, 2, 20, dtype=np.float32).reshape(4, 5)
b = np.full((4, 5), 7, np.float32)

def plain(b, y):
    b = b[...]
    b[::-1, ::2] = y[::-1, ::2] * y[::-1, ::2]
    return b

by_mlx = np.array(mx.compile(plain)(mx.array(b), mx.array(y)))
s, t = gt.fmatrix("b"), gt.fmatrix("y")
part = t[::-1, ::2]
outputs = [s[::-1, ::2].set(part * part), s[::-1, ::2].inc(part * part), part * part]
outputs.append(graphc.grad(outputs[0].sum(), t))
mode = graphc.Mode("MLX", compile=True)
by_graphc = graphc.function([s, t], outputs, mode, returns="numpy")(b, y)
np.savez({path!r}, by_mlx, *by_graphc)
"""


@pytest.mark.exhaustive
def test_a_mixed_step_update_is_right_where_mlx_gets_it_wrong(
    old_release: Path, tmp_path: Path
) -> None:
    path = tmp_path / "found.npz"
    program = PROGRAM.format(old=OLD, path=str(path))
    done = subprocess.run(
        [old_release, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
    )
    assert not done.returncode, done.stderr
    by_mlx, replaced, added, squares, slope = np.load(path).values()
    y = np.linspace(1, 2, 20, dtype=np.float32).reshape(4, 5)
    wanted = np.full((4, 5), 7, np.float32)
    wanted[::-1, ::2] = y[::-1, ::2] ** 2
    assert not np.allclose(by_mlx, wanted)
    np.testing.assert_array_equal(replaced, wanted)
    np.testing.assert_array_equal(squares, wanted[::-1, ::2])
    twice = np.zeros_like(y)
    twice[:, ::2] = 2 * y[:, ::2]
    np.testing.assert_array_equal(slope, twice)
    wanted[:, ::2] += 7
    np.testing.assert_array_equal(added, wanted)
