"""A function with state, and its file in a process that has no graphc."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

import graphc
import graphc.tensor as gt

TABLE = np.arange(30.0).reshape(10, 3)


def training(mode: str) -> tuple[graphc.Function[Any], Any]:
    """A loop, noise, state, a captured array, a default value and nested results."""
    x, rate = gt.matrix("x", dtype="float64"), gt.scalar("rate", dtype="float64")
    w = graphc.shared(np.eye(3), name="w")
    count = graphc.shared(0, name="count")
    h = graphc.scan(lambda row, h: gt.tanh(h @ w + row), x, gt.zeros(3, dtype="float64"))[-1]
    loss = (h**2).sum() + gt.as_tensor(TABLE)[2].sum() + gt.random.RandomStream(4).normal()
    f = graphc.function(
        [x, graphc.In(rate, value=0.5)],
        {"loss": loss, "all": [h]},
        updates=[(w, w - rate * graphc.grad(loss, w)), (count, count + 1)],
        mode=mode,
    )
    return f, w


READER = """
import json, sys
folder, file, *absent = sys.argv[1:]
sys.modules.update(dict.fromkeys(absent))
sys.path.insert(0, folder)
import numpy as np, runtime

model = runtime.load(file)
given = np.load(folder + "/given.npz")
found = [model(given["first"]), model(x=given["second"], rate=0.25)]
values = [[float(y["loss"]), np.asarray(y["all"][0]).tolist()] for y in found]
print(json.dumps([values, np.asarray(model.arrays["w"]).tolist(), int(model.arrays["count"])]))
"""


def check_alone(
    f: graphc.Function[Any], file: Path, first: Any, second: Any, absent: tuple[str, ...]
) -> Any:
    """Call ``training`` twice, here and from its file where libraries are absent.

    Returns:
        What ``w`` is there in the end.
    """
    folder = file.parent
    with zipfile.ZipFile(file) as parts:
        parts.extract("runtime.py", folder)
    np.savez(folder / "given.npz", first=first, second=second)
    run = [sys.executable, "-c", READER, str(folder), str(file), *absent]
    done = subprocess.run(run, capture_output=True, text=True, check=True, timeout=300)
    values, w, count = json.loads(done.stdout)
    for (loss, h), y in zip(values, [f(first), f(second, 0.25)], strict=True):
        np.testing.assert_allclose(loss, y["loss"], rtol=1e-12)
        np.testing.assert_allclose(h, y["all"][0], rtol=1e-12)
    assert count == 2
    return w
