"""The warnings as users read them, word for word but for times."""
# ruff: noqa: E501 (lines are as long as they are)

from __future__ import annotations

import linecache
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import graphc
from graphc.compile.recompile.report import seconds_as_text

HEADER = """\
import numpy as np
import graphc, graphc.tensor as gt
ONES = np.ones(12)
x = gt.vector("x")
"""

SILENCE = 'silence: recompile="ignore"'
CASES: dict[str, tuple[str, str, str, int]] = {
    "Python scalar": (
        "NUMPY",
        """\
def make_step(lr):
    def update(w):
        return w - lr * gt.sign(w)
    return graphc.function([x], update(x), name="step")
for i in range(3):
    step = make_step(0.1 * (1 + i))
    step(ONES)
""",
        f"""\
step (train.py:8) is compiled 2 times for the same input types; TIME lost so far.
  changed: `lr` (closure of make_step, train.py:7)  0.1 -> 0.2   [Python scalar, baked in]
  fix: pass lr as an input, or mark it graphc.runtime(lr).   {SILENCE}   all causes: step.stats""",
        11,
    ),
    "captured value": (
        "NUMPY",
        """\
for i in range(3):
    center = np.full(3, float(i))
    distance = graphc.function([x], x[:3] - center)
    distance(ONES)
""",
        f"""\
function (train.py:7) is compiled 2 times for the same input types; TIME lost so far.
  changed: `center` (global of train.py, train.py:7)  [0., 0., 0.] -> [1., 1., 1.]   [captured value, baked in]
  fix: pass center as an input, and build the function once.   {SILENCE}   all causes: f.stats""",
        8,
    ),
    "static parameter": (
        "NUMPY",
        """\
for t in range(1, 4):
    f = graphc.function([x], x[:t].sum(), name="sum so far")
    f(ONES)
""",
        f"""\
sum so far (train.py:6) is compiled 2 times for the same input types; TIME lost so far.
  changed: `t` (global of train.py, train.py:6)  [:1] -> [:2]   [static parameter, baked in]
  fix: make t an integer input, as gt.lscalar() is, or build the function once for each value and keep it.   {SILENCE}   all causes: f.stats""",
        7,
    ),
    "shape, declared": (
        "NUMPY",
        """\
for n in range(1, 12):
    y = gt.tensor("y", shape=(n, 3))
    f = graphc.function([y], gt.tanh(y))
    f(np.ones((n, 3)))
""",
        f"""\
function (train.py:7) is compiled 9 times for other shapes; TIME lost so far.
  changed: axis 0 of `y` (train.py:6): 1, 2, 3, 4, 5, 6, 7, 8, 9   [shape]
  fix: declare that length None, or pad axis 0 of `y` to a few lengths, such as powers of two.   {SILENCE}   all causes: f.stats""",
        8,
    ),
    "shape, of arguments": (
        "JAX",
        """\
f = graphc.function([x], gt.tanh(x), name="f")
for n in range(1, 12):
    f(np.ones(n))
""",
        f"""\
f (train.py:5) is compiled 9 times for other shapes; TIME lost so far.
  changed: axis 0 of `x` (train.py:4): 1, 2, 3, 4, 5, 6, 7, 8, 9   [shape]
  fix: use Mode('JAX', lengths='buckets'), or pad axis 0 of `x` to a few lengths, such as powers of two.   {SILENCE}   all causes: f.stats""",
        7,
    ),
    "dtype": (
        "NUMPY",
        """\
kinds = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64".split()
for kind in kinds:
    y = gt.vector("y", dtype=kind)
    f = graphc.function([y], y.any())
    f(np.ones(3, kind))
""",
        f"""\
function (train.py:8) is compiled 9 times for other dtypes; TIME lost so far.
  changed: `y` (train.py:7): int8, int16, int32, int64, uint8, uint16, uint32, uint64, float32   [dtype]
  fix: cast to one dtype before, or keep the function of each dtype.   {SILENCE}   all causes: f.stats""",
        9,
    ),
    "structure": (
        "NUMPY",
        """\
y = x
for n in range(1, 40):
    y = gt.tanh(y + x)
    f = graphc.function([x], y)
    f(ONES)
""",
        f"""\
function (train.py:8) is compiled 33 times for other graphs; TIME lost so far.
  changed: new: add, tanh (train.py:7)   [structure]
  fix: build the function once and keep it; graphc.scan stands for a Python loop.   {SILENCE}   all causes: f.stats""",
        9,
    ),
}


@pytest.fixture(autouse=True)
def warn() -> Iterator[None]:
    """As for users."""
    with graphc.config.change_flags(recompile="warn"):
        yield


def run(folder: Path, source: str) -> Any:
    """The only warning of a file's code."""
    path = folder / "train.py"
    path.write_text(HEADER + source)
    linecache.checkcache()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec(compile(path.read_text(), str(path), "exec"), {"__name__": "train"})
    (warning,) = caught
    return warning


@pytest.mark.parametrize("case", CASES)
def test_a_warning_reads_as_it_should_and_stands_at_the_call(case: str, tmp_path: Path) -> None:
    mode, source, wanted, line = CASES[case]
    with graphc.config.change_flags(mode=mode):
        warning = run(tmp_path, source)
    text = re.sub(r"\d+(\.\d)? m?s lost", "TIME lost", str(warning.message))
    assert text == wanted
    assert warning.message.cause == case.partition(",")[0]
    assert (Path(warning.filename).name, warning.lineno) == ("train.py", line)


def test_an_error_says_the_same_as_the_warning(tmp_path: Path) -> None:
    mode, source, wanted, _ = CASES["Python scalar"]
    with (
        graphc.config.change_flags(mode=mode, recompile="raise"),
        pytest.raises(graphc.errors.RecompileError) as caught,
    ):
        run(tmp_path, source)
    assert re.sub(r"\d+(\.\d)? m?s lost", "TIME lost", str(caught.value)) == wanted


def test_two_values_of_one_expression_have_each_its_name(tmp_path: Path) -> None:
    source = """\
for low, high in ((0.1, 0.9), (0.2, 0.8)):
    graphc.function([x], gt.clip(x, low, high), name="clipped", mode="NUMPY")(ONES)
"""
    text = str(run(tmp_path, source).message)
    assert "`low` (global of train.py, train.py:6)  0.1 -> 0.2" in text
    assert "`high` (global of train.py, train.py:6)  0.9 -> 0.8" in text


def test_a_small_array_of_another_length_has_its_name(tmp_path: Path) -> None:
    source = """\
for n in (2, 3, 4):
    weights = np.arange(1.0, 1.0 + n)
    graphc.function([x], x.sum() * weights, name="weighted", mode="NUMPY")(ONES)
"""
    text = str(run(tmp_path, source).message)
    assert "changed: `weights` (global of train.py, train.py:7)  float64[2] -> float64[3] " in text
    assert "fix: pass weights as an input, and build the function once." in text


def test_a_value_within_a_branch_is_told_and_not_the_branch(tmp_path: Path) -> None:
    source = """\
for rate in (0.3, 0.4, 0.5):
    y = graphc.cond(x.sum() > 0, lambda: x * rate, lambda: x)
    graphc.function([x], y, name="chosen", mode="NUMPY")(ONES)
"""
    lines = str(run(tmp_path, source).message).splitlines()
    assert [line.strip() for line in lines if "->" in line] == [
        "changed: `rate` (global of train.py, train.py:6)  0.3 -> 0.4   [Python scalar, baked in]"
    ]


def test_what_a_cache_had_compiled_is_told_as_built(tmp_path: Path) -> None:
    source = """\
kept = [graphc.function([x], x * k * 1.375, mode="NUMPY") for k in (0.1, 0.2)]
values = [f(ONES) for f in kept]
for k in (0.1, 0.2):
    graphc.function([x], x * k * 1.375, mode="NUMPY")(ONES)
"""
    text = str(run(tmp_path, source).message)
    wanted = (
        "function (train.py:8) is built 2 times for the same input types, and was found compiled;"
    )
    assert text.startswith(wanted)


def test_the_time_lost_is_that_of_the_compilations_before(tmp_path: Path) -> None:
    _, source, *_ = CASES["Python scalar"]
    taken: list[float] = []
    with (
        graphc.config.change_flags(mode="NUMPY"),
        graphc.events.subscribe(lambda event: taken.append(event.milliseconds)),
    ):
        text = str(run(tmp_path, source).message)
    assert f"; {seconds_as_text(taken[0] / 1e3)} lost so far." in text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(63.04, "63.0 s"), (1.0, "1.0 s"), (0.9994, "999 ms"), (0.012, "12 ms"), (0.0001, "0.1 ms")],
)
def test_times_have_two_digits_or_so(seconds: float, text: str) -> None:
    assert seconds_as_text(seconds) == text
