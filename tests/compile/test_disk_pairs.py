"""No order that another process may have otherwise is stored, or decides a key, text or result."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.link import names
from tests.disks import python

ORDERS = ("1", "21", "12")

CAPTURED = """
import sys, numpy as np, graphc, graphc.tensor as gt
mode, n, other, lengths = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "other", sys.argv[4:]
rng = np.random.default_rng(0)
W, X, S = (rng.normal(size=n) for n in (int(lengths[0]), int(lengths[1]), 60))
c = gt.vector("c")
if other:
    outputs = [gt.exp(gt.as_tensor(S) * c[0]).sum(), (gt.sin(1.46 + gt.as_tensor(X)) * c[0]).sum()]
    g = graphc.function([c], outputs, mode=mode)
    g(np.ones(n))
z = gt.cos(gt.as_tensor(W)[:, None] * gt.sin(1.46 + gt.as_tensor(X))).mean() * c
y = z.sum()
for k in range(40):
    y = gt.log1p(gt.exp(y * 0.5)) - k
f = graphc.function([c], [z, y], mode=mode, returns="numpy")
expected = np.cos(W[:, None] * np.sin(1.46 + X)).mean()
np.testing.assert_allclose(f(np.ones(n))[0], np.full(n, expected), rtol=1e-12)
f.verify(np.ones(n)).raise_if_different()
print("loaded" if f._lowered is None else "compiled")
"""


def output(tmp_path: Path, code: str, *arguments: object) -> str:
    """Return what another process prints, which has the cache in a folder and hashes of its own."""
    seed = "1" if "1" in arguments else "2"
    environment = os.environ | {
        "GRAPHC_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONHASHSEED": seed,
    }
    run = subprocess.run(
        python(code, *arguments), env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("lengths", [(50, 50), (50, 40)])
def test_a_program_loaded_from_disk_keeps_its_captured_arrays(
    tmp_path: Path, mode: str, lengths: tuple[int, int]
) -> None:
    runs = [(3, "alone"), (3, "other"), *([(4, "other")] if mode == "JAX" else [])]
    states = [output(tmp_path, CAPTURED, mode, n, other, *lengths) for n, other in runs]
    assert states == ["compiled\n", *["loaded\n"] * (len(runs) - 1)]


def check_pairs(tmp_path: Path, modes: str, first: int, count: int, folder: Path | None) -> None:
    code = "import sys; from tests.compile.pairs import main\n"
    code += "for mode in sys.argv[1].split():\n"
    code += "    folders = [f'{x}/{mode}' for x in sys.argv[5:]]\n"
    code += "    main(mode, sys.argv[2], *map(int, sys.argv[3:5]), *folders)"
    further = () if folder is None else (folder,)
    lines: dict[str, list[Any]] = {}
    for order in ORDERS:
        text = output(tmp_path, code, modes, order, first, count, *further)
        lines[order] = [json.loads(line) for line in text.splitlines()]
    assert len(lines["1"]) == count * len(modes.split())
    for order in ORDERS[1:]:
        for i, ((facts, fresh), (again, loaded)) in enumerate(
            zip(lines["1"], lines[order], strict=True)
        ):
            assert (fresh, loaded) == (False, True), (i, order)
            assert again == facts, (i, order)


def test_a_file_and_the_disk_keep_the_arrays_of_graphs_that_share_parts(
    tmp_path: Path,
) -> None:
    for name in names():
        (tmp_path / name).mkdir()
    check_pairs(tmp_path, " ".join(names()), 0, 2, tmp_path)


@pytest.mark.exhaustive
def test_the_disk_keeps_the_arrays_of_40_random_pairs_of_graphs_that_share_parts(
    tmp_path: Path, mode: str
) -> None:
    check_pairs(tmp_path, mode, 1000, 40, None)


def test_verify_detects_an_exchange_of_captured_arrays(mode: str) -> None:
    w, v = np.arange(20.0), np.arange(20.0, 40.0)
    c, s = gt.vector("c"), graphc.shared(np.ones(20))
    outputs = [(c * np.sin(w) - v).sum(), s * c]
    f = graphc.function([c], outputs, updates=[(s, s * 2 + v)], mode=mode)
    f(np.ones(20))
    f.verify(np.ones(20)).raise_if_different()
    np.testing.assert_array_equal(s.get_value(), 2 + v)
    f._compiled.slots = f._compiled.slots[::-1]
    assert not f.verify(np.ones(20))
