"""The examples run, and say what they are to say."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from tests.modes import uncompiled

ROOT = Path(__file__).parents[1]
COMPARED = (
    *("digits", "earthquakes", "earthquakes_posterior", "large_model", "nile", "oring"),
    *("oring_posterior", "packed", "sunspot_cycle", "sunspots"),
)
"""Examples whose results tests of their own compare, which run them too."""
OTHERS = [x for x in sorted((ROOT / "examples").glob("*.py")) if x.stem not in COMPARED]


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


@pytest.mark.exhaustive
@pytest.mark.parametrize("example", OTHERS, ids=lambda path: path.stem)
def test_an_example_ends_well(example: Path, tmp_path: Path) -> None:
    assert ran(example, tmp_path)


@pytest.mark.exhaustive
def test_the_plan_of_a_large_model_is_what_one_counts_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Memory is planned as for users, not as by the tests' setting.
    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "0")
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    text = ran(ROOT / "examples" / "large_model.py", tmp_path)
    rows = [line.rsplit(maxsplit=2) for line in text.replace(",", "").splitlines()[-5:]]
    for name, *given in rows:
        found, wanted = map(int, given)
        if name == "on the way":  # beside what the compiler keeps for itself
            assert wanted <= found <= 2 * wanted
        else:
            assert found == wanted, name


@pytest.mark.exhaustive
def test_the_o_ring_example_agrees_with_the_published_estimates(tmp_path: Path) -> None:
    text = ran(ROOT / "examples" / "oring.py", tmp_path)
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines()[1:5]}
    assert set(rows) == {"NUMPY", "JAX", "MLX", "published"}
    assert rows["NUMPY"] == rows["JAX"] == rows["MLX"] == rows["published"]
    assert re.search(r"at 31 °F: 0\.\d+", text)
    assert (tmp_path / "build" / "oring.png").stat().st_size > 10_000


@pytest.mark.exhaustive
def test_the_o_ring_posterior_is_the_one_that_a_grid_tells(tmp_path: Path) -> None:
    text = ran(ROOT / "examples" / "oring_posterior.py", tmp_path)
    rows = [line.rsplit(maxsplit=6)[1:] for line in text.splitlines()[1:4]]
    # The kurtosis of each posterior, which says how well draws tell a spread.
    for row, kurtosis in zip(rows, [3.26, 3.45, 62.2], strict=True):
        mean, spread, wanted, spread_wanted, worth, likeness = map(float, row)
        assert abs(mean - wanted) < 4 * spread_wanted / worth**0.5
        assert abs(spread / spread_wanted - 1) < 4 * ((kurtosis - 1) / 4 / worth) ** 0.5
        assert likeness < 1.02
    assert "Divergent: 0.0%" in text
    assert (tmp_path / "build" / "oring_posterior.png").stat().st_size > 10_000


@pytest.mark.exhaustive
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


@pytest.mark.exhaustive
def test_the_sunspot_example_agrees_with_least_squares(tmp_path: Path) -> None:
    text = ran(ROOT / "examples" / "sunspots.py", tmp_path)
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines()[1:5]}
    assert set(rows) == {"NUMPY", "JAX", "MLX", "lstsq"}
    assert rows["NUMPY"] == rows["JAX"] == rows["MLX"] == rows["lstsq"]
    assert rows["lstsq"][1:3] == ["1.38997", "-0.69252"]
    assert (tmp_path / "build" / "sunspots.png").stat().st_size > 10_000


@pytest.mark.exhaustive
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


@pytest.mark.exhaustive
def test_adapters_on_four_bits_learn_alike_on_every_backend(tmp_path: Path) -> None:
    text = ran(ROOT / "examples" / "digits.py", tmp_path)
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines()[1:]}
    assert set(rows) == {"NUMPY", "JAX", "MLX"}
    for upright, rounded, before, after, dense, _, frozen, _adapters in rows.values():
        assert float(before.rstrip("%")) < 30
        assert float(after.rstrip("%")) > 90
        assert float(upright.rstrip("%")) - float(rounded.rstrip("%")) < 3
        assert int(frozen.replace(",", "")) * 6 < int(dense.replace(",", ""))


@pytest.mark.exhaustive
def test_the_earthquake_example_finds_the_published_estimates(tmp_path: Path) -> None:
    text = ran(ROOT / "examples" / "earthquakes.py", tmp_path)
    rows = [line.split() for line in text.splitlines()[1:9]]
    assert [row[0] for row in rows] == ["NUMPY", "JAX", "MLX", "published"] * 2
    assert {row[2] for row in rows} == {"-342.3183", "-329.4603"}
    assert (tmp_path / "build" / "earthquakes.png").stat().st_size > 10_000


@pytest.mark.parametrize("mode", ["NUMPY", "JAX", "MLX"])
def test_hidden_states_are_what_hmmlearn_finds(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples")
    quakes = importlib.import_module("earthquakes")
    source = ROOT / "examples" / "data" / "earthquakes.csv"
    counts = np.loadtxt(source, delimiter=",", skiprows=1)[:, 1]
    moves = np.array([[0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0.02, 0.18, 0.8]])
    odds = np.log(moves / np.diag(moves)[:, None])
    f = graphc.function(
        [quakes.log_means, quakes.log_odds, quakes.counts],
        [quakes.shares, quakes.likelihood, quakes.chances, quakes.path],
        mode=uncompiled(mode),
        returns="numpy",
    )
    shares, likelihood, chances, path = f(np.log([13.0, 20.0, 30.0]), odds, counts)
    # What hmmlearn 0.3.3 gives for these parameters: score, predict_proba and decode of PoissonHMM.
    np.testing.assert_allclose(shares, [0.39285714, 0.33928571, 0.26785714], rtol=1e-7)
    np.testing.assert_allclose(likelihood, -331.5398531415828, rtol=1e-10)
    np.testing.assert_allclose(chances.sum(0), [37.19000313, 49.68266646, 20.12733041], rtol=1e-8)
    np.testing.assert_allclose(
        chances[50], [1.28768477e-09, 2.45577366e-03, 9.97544225e-01], rtol=1e-7
    )
    spells = [(5, 0), (6, 2), (8, 1), (4, 0), (19, 1), (9, 2), (6, 1), (1, 2), (10, 1), (3, 2)]
    spells += [(8, 1), (28, 0)]
    assert path.tolist() == [state for years, state in spells for _ in range(years)]


@pytest.mark.exhaustive
def test_pymc_draws_the_published_posterior_of_the_earthquakes(tmp_path: Path) -> None:
    text = ran(ROOT / "examples" / "earthquakes_posterior.py", tmp_path)
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines()[2:11]}
    assert list(rows) == [f"{x}[{i}]" for x in ("means", "stays", "shares") for i in range(3)]
    for mean, _spread, wanted, spread_wanted, worth, likeness in (
        map(float, row) for row in rows.values()
    ):
        assert abs(mean - wanted) < 5 * spread_wanted / min(worth, 2000) ** 0.5
        assert likeness < 1.02
    assert (tmp_path / "build" / "earthquakes_posterior.png").stat().st_size > 10_000


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", ["NUMPY", "JAX", "MLX"])
def test_the_likelihood_in_pymc_is_what_hmmlearn_finds(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from graphc.interop.pytensor import from_pytensor  # noqa: PLC0415

    monkeypatch.syspath_prepend(ROOT / "examples")
    quakes = importlib.import_module("earthquakes_posterior")
    source = ROOT / "examples" / "data" / "earthquakes.csv"
    counts = np.loadtxt(source, delimiter=",", skiprows=1, dtype=int)[:, 1]
    model = quakes.hidden_markov(counts)
    moves = [[0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0.02, 0.18, 0.8]]
    likelihood = from_pytensor(
        model["likelihood"],
        givens={model["means"]: np.array([13.0, 20.0, 30.0]), model["moves"]: np.array(moves)},
    )
    # What hmmlearn 0.3.3 gives for these parameters.
    assert float(likelihood.eval(mode=uncompiled(mode))) == pytest.approx(-331.5398531415828)


@pytest.mark.exhaustive
def test_the_cycle_of_the_sun_is_the_same_on_every_backend(tmp_path: Path) -> None:
    text = ran(ROOT / "examples" / "sunspot_cycle.py", tmp_path)
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines()[1:5]}
    assert set(rows) == {"NUMPY", "JAX", "MLX", "SciPy"}
    for mode in ("NUMPY", "JAX", "MLX"):
        assert float(rows[mode][2]) == pytest.approx(10.564, abs=2e-3)  # years
        assert float(rows[mode][-1]) == pytest.approx(-472.26426, abs=1e-4)
    assert (tmp_path / "build" / "sunspot_cycle.png").stat().st_size > 10_000


@pytest.mark.parametrize("mode", ["NUMPY", "JAX", "MLX"])
def test_a_marginal_likelihood_and_its_gradient_are_what_scikit_learn_finds(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples")
    cycle = importlib.import_module("sunspot_cycle")
    source = ROOT / "examples" / "data" / "sunspots.csv"
    years, spots = np.loadtxt(source, delimiter=",", skiprows=1).T
    roots = np.sqrt(spots)
    f = graphc.function(
        [cycle.logs, cycle.years, cycle.values],
        [cycle.likelihood, graphc.grad(cycle.likelihood, cycle.logs)],
        mode=uncompiled(mode),
        returns="numpy",
    )
    likelihood, slope = f(cycle.START, years, roots - roots.mean())
    # What GaussianProcessRegressor.log_marginal_likelihood of scikit-learn 1.9.1 gives. It counts
    # in squares of the size and the noise.
    np.testing.assert_allclose(likelihood, -734.1483143820407, rtol=1e-9)
    wanted = [2 * 48.53391394, -669.12115949, -663.40147697, 49.83463307, 2 * 263.33957682]
    np.testing.assert_allclose(slope, wanted, rtol=1e-6)


@pytest.mark.exhaustive
@pytest.mark.parametrize("dying", [1, 0])
def test_training_goes_on_after_the_death_of_a_process(
    dying: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    distributed = importlib.import_module("distributed")
    folder = str(tmp_path)
    processes = distributed.start(folder)
    while not graphc.distributed.has_checkpoint(folder):
        assert [process.poll() for process in processes] == [None, None]
        time.sleep(0.01)
    processes[dying].kill()
    processes[dying].communicate()
    other = processes[1 - dying]
    other.communicate()  # it ends by itself: HEARTBEAT seconds after the death at the latest
    assert other.returncode != 0
    stopped = distributed.Network()
    graphc.distributed.load_checkpoint(folder, stopped.variables)
    assert 0 < stopped.step.get_value() < distributed.STEPS
    processes = distributed.start(folder)
    printed, _ = processes[0].communicate()
    assert f"from step {stopped.step.get_value()}" in printed
    assert [process.wait() for process in processes] == [0, 0]
    assert distributed.difference(folder, distributed.train_here()) < 1e-10
