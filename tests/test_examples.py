"""The examples run, and say what they are to say."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import graphc
import graphc.tensor as gt

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def ran(example: Path, folder: Path) -> str:
    """What a copy of an example prints; its pictures go to the folder it is in."""
    shutil.copytree(ROOT / "examples", folder / "examples")
    done = subprocess.run(
        [sys.executable, folder / "examples" / example.name],
        env={**os.environ, "MPLBACKEND": "Agg", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_ends_well(example: Path, tmp_path: Path) -> None:
    assert ran(example, tmp_path)


@pytest.mark.slow
def test_the_o_ring_example_agrees_with_the_published_estimates(tmp_path: Path) -> None:
    text = ran(ROOT / "examples" / "oring.py", tmp_path)
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines()[1:5]}
    assert set(rows) == {"NUMPY", "JAX", "MLX", "published"}
    assert rows["NUMPY"] == rows["JAX"] == rows["MLX"] == rows["published"]
    assert re.search(r"at 31 °F: 0\.\d+", text)
    assert (tmp_path / "build" / "oring.png").stat().st_size > 10_000


@pytest.mark.slow
def test_the_nile_example_finds_the_published_variances(tmp_path: Path) -> None:
    text = ran(ROOT / "examples" / "nile.py", tmp_path)
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines()[1:5]}
    assert set(rows) == {"NUMPY", "JAX", "MLX", "published"}
    for mode in ("NUMPY", "JAX", "MLX"):
        assert rows[mode][:3] == ["15098.5", "1469.2", "-632.5456"]
    assert rows["published"] == ["15099.0", "1469.1"]
    assert (tmp_path / "build" / "nile.png").stat().st_size > 10_000


def test_the_nile_is_smoothed_as_derivatives_of_its_likelihood_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples")
    nile = importlib.import_module("nile")
    flow = np.loadtxt(ROOT / "examples" / "data" / "nile.csv", delimiter=",", skiprows=1)[:, 1]
    # Of normal variables, the slope of the log likelihood tells how much noise is to be expected,
    # given all flows, and its curvature how much of the variance is left.
    slope = graphc.grad(-nile.loss, nile.flow)
    curvature = gt.diagonal(graphc.jacobian(slope, nile.flow))
    expected = [nile.flow + nile.noise * slope, nile.noise + nile.noise**2 * curvature]
    f = graphc.function([nile.logs, nile.flow], [*nile.curves, *expected], mode="NUMPY")
    level, variance, *wanted = f(np.log(nile.PUBLISHED), flow)
    np.testing.assert_allclose([level, variance], wanted, rtol=1e-9)


@pytest.mark.slow
def test_the_sunspot_example_agrees_with_least_squares(tmp_path: Path) -> None:
    text = ran(ROOT / "examples" / "sunspots.py", tmp_path)
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines()[1:5]}
    assert set(rows) == {"NUMPY", "JAX", "MLX", "lstsq"}
    assert rows["NUMPY"] == rows["JAX"] == rows["MLX"] == rows["lstsq"]
    assert rows["lstsq"][1:3] == ["1.38997", "-0.69252"]
    assert (tmp_path / "build" / "sunspots.png").stat().st_size > 10_000


@pytest.mark.slow
def test_packed_digits_are_read_by_one_program_for_all_packings(tmp_path: Path) -> None:
    text = ran(ROOT / "examples" / "packed.py", tmp_path)
    _, table = text.split("programs\n")
    rows = {line.split()[0]: line.split()[1:] for line in table.splitlines()}
    assert set(rows) == {"JAX", "MLX"}
    for before, _to, after, right, packings, programs in rows.values():
        assert float(after) < float(before) / 5
        assert float(right.rstrip("%")) > 93
        assert int(packings) > 50
        assert int(programs) == 1


@pytest.mark.slow
def test_adapters_on_four_bits_learn_alike_on_every_backend(tmp_path: Path) -> None:
    text = ran(ROOT / "examples" / "digits.py", tmp_path)
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines()[1:]}
    assert set(rows) == {"NUMPY", "JAX", "MLX"}
    for upright, rounded, before, after, dense, _, frozen, _adapters in rows.values():
        assert float(before.rstrip("%")) < 30
        assert float(after.rstrip("%")) > 90
        assert float(upright.rstrip("%")) - float(rounded.rstrip("%")) < 3
        assert int(frozen.replace(",", "")) * 6 < int(dense.replace(",", ""))
