"""The command line, in processes of its own."""

import json
import os
import platform
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

import graphc as graphc_package
import graphc.tensor as gt
from graphc.cli import doctor, main
from graphc.cli.cache import state_lines
from graphc.cli.self_test import Check, run_check
from graphc.compile.disk import DiskCache
from graphc.config import Config
from graphc.link.probe import Finding, _run_probe, run_probes

NAME = "0123456789abcdef"

BLOCK = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)
sys.meta_path.insert(0, Missing())
"""
"""Runs before anything else in a process and those it starts."""


def graphc(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command, run."""
    return subprocess.run(
        [sys.executable, "-m", "graphc", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def without(folder: Path, *packages: str) -> dict[str, str]:
    """An environment in which these are not installed."""
    (folder / "sitecustomize.py").write_text(BLOCK.format(blocked=packages))
    return {"PYTHONPATH": str(folder)}


def broken(folder: Path, how: str) -> dict[str, str]:
    """An environment in which MLX does that as it is imported, and JAX is not there."""
    (folder / "mlx").mkdir()
    (folder / "mlx" / "__init__.py").write_text("")
    (folder / "mlx" / "core.py").write_text(how)
    return without(folder, "jax", "jaxlib")


# The cache.


def test_the_path_is_printed(tmp_path: Path) -> None:
    found = graphc("cache", "path", GRAPHC_CACHE_DIR=str(tmp_path / "x"))
    assert (found.returncode, found.stdout) == (0, f"{tmp_path / 'x'}\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["path", "clear"])
def test_a_cache_that_is_off_has_neither_path_nor_entries(command: str) -> None:
    found = graphc("cache", command, GRAPHC_CACHE_DIR="off")
    assert (found.returncode, found.stdout) == (1, "")
    assert "the cache is off" in found.stderr


def test_the_cache_is_told_of_and_cleared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Whoever edits graphc while its tests run has them pass.
    monkeypatch.setattr("graphc.compile.disk.edited_since_import", lambda: False)
    disk = DiskCache(tmp_path / "cache", 10**6)
    for i in range(3):
        disk.save(f"{i:016x}", bytes(100_000))
    size = disk.info().bytes
    directory = {"GRAPHC_CACHE_DIR": str(disk.directory)}
    told = graphc("cache", "info", **directory)
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout == f"{disk.directory}\n3 entries, 300.2 kB of 1.1 GB\n"
    found = json.loads(graphc("cache", "info", "--json", **directory).stdout)
    assert found == {
        "directory": str(disk.directory),
        "entries": 3,
        "bytes": size,
        "limit": 2**30,
        "problem": None,
    }
    cleared = graphc("cache", "clear", **directory)
    assert cleared.stdout == f"3 entries removed from {disk.directory}\n"
    assert list(disk.directory.iterdir()) == []


def test_a_cache_that_was_never_used_is_empty(tmp_path: Path) -> None:
    directory = str(tmp_path / "nowhere")
    assert graphc("cache", "info", GRAPHC_CACHE_DIR=directory).stdout.startswith(directory)
    assert graphc("cache", "clear", GRAPHC_CACHE_DIR=directory).returncode == 0


@pytest.mark.skipif(os.name != "posix", reason="needs the modes of POSIX")
def test_a_cache_that_is_not_trusted_is_told_of(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    told = graphc("cache", "info", GRAPHC_CACHE_DIR=str(tmp_path))
    assert told.returncode == 1
    assert f"not used: {tmp_path} can be written to by others; run: chmod go-w" in told.stdout


@pytest.mark.parametrize(
    ("size", "text"), [(999, "999 bytes"), (1000, "1.0 kB"), (2**30, "1.1 GB"), (10**16, "10000.0")]
)
def test_sizes_are_told_in_units_of_a_thousand(size: int, text: str) -> None:
    state = {"directory": "d", "entries": 0, "bytes": size, "limit": 1, "problem": None}
    assert text in state_lines(state)[1]


# Functions in files.


def written(folder: Path) -> str:
    """A file of a function of an input, with a state and nested results."""
    x = gt.vector("x", dtype="float64")
    w = graphc_package.shared([1.0, 2.0], name="w")
    results = {"y": w * x, "all": [(w * x).sum()]}
    f = graphc_package.function([x], results, updates=[(w, w * 2)], mode="NUMPY", name="scale")
    f.export(folder / "model.graphc", dynamic={"x": ("n",)}, licence="MIT")
    return str(folder / "model.graphc")


def test_a_file_of_a_function_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path)
    assert main(["show", file]) == 0
    shown = capsys.readouterr().out
    for line in (
        "scale, by graphc 0.1.0, licence MIT",
        "  x  float64[n]",
        "  output['all'][0]  float64[]",
        "  w  float64[2]   updated by each call",
        '{"shared": "w", "type": "float64[?]", "at": ',
    ):
        assert line in shown
    assert main(["show", "--text", file]) == 0
    text = capsys.readouterr().out
    assert text.startswith('{"graphc-graph": 1}\n')
    assert '"at"' not in text


def test_a_file_of_a_function_is_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path)
    np.save(tmp_path / "x.npy", np.array([3.0, 4.0]))
    assert main(["run", file, f"x={tmp_path / 'x.npy'}", "--mode", "NUMPY"]) == 0
    assert capsys.readouterr().out == "output['y'] = [3., 8.]\noutput['all'][0] = 11.\n"
    output = tmp_path / "results.npz"
    assert main(["run", file, "x=[1,2]", "--mode", "NUMPY", "--output", str(output)]) == 0
    assert np.load(output)["output['y']"].tolist() == [1.0, 4.0]


def test_a_file_of_a_function_is_verified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path)
    assert main(["verify", file, "--mode", "NUMPY"]) == 1
    assert "model.graphc has no recorded calls to verify.\nGive arg" in capsys.readouterr().err
    assert main(["verify", file, "x=[3,4]", "--mode", "NUMPY", "--mode", "JAX"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "model.graphc: 1 given call"
    assert [line.split()[:2] for line in shown[1:]] == [["NUMPY", "agrees"], ["JAX", "agrees"]]


def test_what_cannot_be_run_or_shown_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path)
    for arguments, problem in (
        (["run", file, "y=1"], "no single input called 'y'"),
        (["run", file, "x=a"], "Write x=input.npy, or a number or list"),
        (["run", file, "x"], "'x' gives no argument a value"),
        (["run", file, "x=none.npy"], "No such file"),
        (["show", __file__], "is no function that can be loaded"),
        (["show", str(tmp_path / "none")], "No such file"),
    ):
        assert main(arguments) == 1
        assert problem in capsys.readouterr().err


# The command line itself.


def test_graphc_alone_prints_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "\n    doctor " in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [["nonsense"], ["cache"], ["cache", "nonsense"], ["doctor", "--backend", "TPU"]],
    ids=" ".join,
)
def test_a_wrong_command_line_is_told_what_there_is(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("usage: graphc")


@pytest.mark.parametrize("arguments", [[], ["cache"], ["cache", "info"], ["doctor"]], ids=" ".join)
def test_every_command_explains_itself(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--help"])
    assert ended.value.code == 0
    assert "--help" in capsys.readouterr().out


def test_the_version_is_that_of_the_package() -> None:
    assert graphc("--version").stdout == f"graphc {version('graphc')}\n"


def test_the_installed_command_is_this_one() -> None:
    scripts = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"][
        "scripts"
    ]
    assert scripts == {"graphc": f"{main.__module__.rpartition('.')[0]}:{main.__name__}"}


@pytest.mark.exhaustive
def test_a_reader_that_has_enough_is_no_error(tmp_path: Path) -> None:
    found = subprocess.run(
        f"{sys.executable} -m graphc doctor | head -1",
        shell=True,
        env={**os.environ, **without(tmp_path, "jax", "mlx")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.startswith("graphc")
    assert found.stderr == ""


# The doctor.


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    """What it finds here."""
    found = graphc("doctor", "--json")
    assert found.stderr == ""
    assert found.returncode == 0, found.stdout
    report: dict[str, Any] = json.loads(found.stdout)
    return report


def test_versions_are_those_installed(report: dict[str, Any]) -> None:
    assert report["python"] == f"CPython {platform.python_version()}"
    for name in ("graphc", "numpy", "scipy", "jax", "jaxlib", "filelock"):
        assert report["packages"][name] == version(name)


def test_every_backend_is_found_and_says_what_it_is(report: dict[str, Any]) -> None:
    import jax  # noqa: PLC0415

    assert sorted(report["backends"]) == ["JAX", "MLX", "NUMPY"]
    found = {name: found["about"] for name, found in report["backends"].items()}
    assert f"NumPy {version('numpy')}" in found["NUMPY"]
    assert f"JAX {jax.__version__}, on {jax.devices()[0].platform}:0" in found["JAX"]


def test_what_is_probed_is_told_with_what_graphc_does_about_it(report: dict[str, Any]) -> None:
    found = {
        (name, probe["what"].partition(",")[0]): probe["found"]
        for name, backend in report["backends"].items()
        for probe in backend["probes"]
    }
    assert found["JAX", "float64"] == "computed in 64 bits"
    assert found["JAX", "executables on disk"] == "saved and loaded"
    if report["backends"]["MLX"]["state"] == "found":
        assert found["MLX", "mlx.core.compile"] == "right"
        assert found["MLX", "views that run backwards"].startswith("read ")
        assert found["MLX", "C++ compiler"] in {shutil.which("g++"), "there is no g++"}
    assert not any(x["wrong"] for b in report["backends"].values() for x in b["probes"])


def test_the_report_is_told_in_lines(report: dict[str, Any]) -> None:
    lines = doctor._lines(report)
    assert any(line.startswith("JAX       JAX ") for line in lines)
    assert "  executables on disk: saved and loaded" in lines
    assert any(line.startswith("cache     the cache is off") for line in lines)


def test_doctor_reports_a_wrong_environment_variable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "config", Config())
    monkeypatch.setattr(doctor, "names", list)
    monkeypatch.setenv("GRAPHC_MODE", "jax")
    monkeypatch.setenv("GRAPHC_FLOATX", "float32")
    assert main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert "settings  floatX=float32 (GRAPHC_FLOATX), wrong: GRAPHC_MODE=jax: " in text


def test_a_backend_that_is_missing_has_its_line_for_installing(tmp_path: Path) -> None:
    found = graphc("doctor", "--backend", "MLX", **without(tmp_path, "mlx"))
    assert found.returncode == 0, found.stderr
    assert "MLX       missing: " in found.stdout
    assert "pip install 'graphc[mlx]'" in found.stdout


@pytest.mark.exhaustive
def test_without_the_default_backend_something_is_to_be_mended(tmp_path: Path) -> None:
    found = graphc("doctor", "--json", **without(tmp_path, "jax", "mlx"))
    assert (found.returncode, found.stderr) == (1, "")
    states = {name: x["state"] for name, x in json.loads(found.stdout)["backends"].items()}
    assert states == {"JAX": "missing", "MLX": "missing", "NUMPY": "found"}


@pytest.mark.sample(every=6)
@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("raise RuntimeError('no such driver')", "RuntimeError: no such driver"),
        ("raise ImportError('libcuda.so.1: cannot open')", "libcuda.so.1: cannot open"),
        ("import os; os.abort()", "its process was ended by SIGABRT"),
        ("import os; os._exit(7)", "its process exited with 7: it said nothing"),
        ("print('[7]'); raise SystemExit('gone')", "its process exited with 1: gone"),
    ],
    ids=lambda text: text.partition("(")[0],
)
def test_a_backend_that_is_broken_is_a_line_of_the_report(
    tmp_path: Path, how: str, told: str
) -> None:
    found = graphc("doctor", **broken(tmp_path, how))
    assert (found.returncode, found.stderr) == (1, "")
    (line,) = [line for line in found.stdout.splitlines() if line.startswith("MLX")]
    assert line.startswith("MLX       broken: ")
    assert told in line
    assert "NUMPY     NumPy" in found.stdout


def test_a_backend_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "SECONDS", 0.2)
    child = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert doctor._report_of(child)["state"] == "broken"
    assert child.returncode is not None


def test_a_probe_that_fails_is_a_finding() -> None:
    def probe() -> Finding:
        """Something."""
        raise KeyError("x")

    assert _run_probe(probe) == Finding("Something", "KeyError: 'x'", "", wrong=True)


def test_executables_that_cannot_be_saved_are_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    run_probes("JAX")
    monkeypatch.setattr("graphc.link.jax.probes.pack", lambda lowered, compiled: None)
    (found,) = [finding for finding in run_probes("JAX") if finding.what == "executables on disk"]
    assert "rewritten graph" in found.so
    assert not found.wrong


def test_kernels_that_read_wrong_are_told_of_and_do_no_harm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("graphc.link.mlx.probes._compile", lambda f: lambda x: f(x) * 0)
    found = {finding.what: finding for finding in run_probes("MLX")}
    assert found["views that run backwards"].found == "read wrong by kernels"
    assert not found["views that run backwards"].wrong
    assert found["mlx.core.compile"].wrong
    assert mx.sum(mx.array([1.0, 2.0])[::-1]).item() == 3.0


def test_without_a_compiler_it_is_told_what_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    if mx.default_device() != mx.Device(mx.cpu, 0):
        pytest.skip("a GPU needs no C++ compiler")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    found = {finding.what: finding for finding in run_probes("MLX")}["C++ compiler"]
    assert "one by one" in found.so


# The self-test.


def self_test(mode: str, *words: str) -> subprocess.CompletedProcess[str]:
    return graphc("doctor", "--backend", mode, "--self-test", *words)


def test_the_self_test_compares_each_backend_with_numpy(mode: str) -> None:
    found = self_test(mode, "reversed rows: sum of", "loop: 4", "int4, axis -1", "float64")
    assert (found.returncode, found.stderr) == (0, "")
    rows = [line for line in found.stdout.splitlines() if line.startswith(f"| {mode} ")]
    assert len(rows) == 4
    assert all(" | ok | " in row for row in rows)
    assert "JAX_DEFAULT_MATMUL_PRECISION=highest" in found.stdout
    assert found.stdout.endswith("4 of 4 checks passed.\n")


def test_the_precision_of_the_self_test_is_set_before_jax_is_imported() -> None:
    script = "import sys, graphc.cli.self_test; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


X = np.arange(6, dtype="float32").reshape(2, 3)


@pytest.mark.parametrize(
    ("reference", "outcome"),
    [
        (lambda n, x: x.sum(0) + np.float32(1e-3), "1.4e-04"),
        (lambda n, x: x.sum(0).astype("float64"), "inf"),
        (lambda n, x: x.sum(1), "inf"),
        (lambda n, x: np.where(x[0] > 0, np.nan, x.sum(0)), "inf"),
        (lambda n, x: 1 / 0, "ZeroDivisionError"),
    ],
    ids=["value", "dtype", "shape", "NaN", "error"],
)
def test_the_self_test_fails_if_a_result_differs(
    reference: Any,
    outcome: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("JAX_DEFAULT_MATMUL_PRECISION", "highest")
    wrong = Check("wrong", [X], lambda n, x: n.sum(x, 0), reference)
    monkeypatch.setattr("graphc.cli.self_test.checks", lambda: [wrong])
    assert main(["doctor", "--self-test", "--backend", "NUMPY"]) == 1
    text = capsys.readouterr().out
    assert "| NUMPY | wrong | **WRONG** | " + outcome in text
    assert "0 of 1 checks passed." in text


def test_the_self_test_takes_a_refusal_of_float64_and_of_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("graphc.link.mlx.devices.device_of", lambda options: mx.Device(mx.gpu))
    wide = X.astype("float64")
    refused = run_check("MLX", Check("float64: computed or refused", [wide], lambda n, x: x + 1))
    assert refused.passed
    assert refused.outcome.startswith("refused: ")
    assert not run_check("MLX", Check("sums", [wide], lambda n, x: n.sum(x))).passed
