"""What a value that changes is called: the variable, and where it lives."""

from __future__ import annotations

import linecache
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.compile.recompile.naming import title_of
from graphc.errors import RecompileError, RecompileWarning

HEADER = """\
import random
from functools import partial
import numpy as np
import graphc, graphc.tensor as gt
x = gt.vector("x")
ONES = np.ones(12)
"""


@pytest.fixture(autouse=True)
def warn() -> Iterator[None]:
    """As for users."""
    with graphc.config.change_flags(recompile="warn", mode="NUMPY"):
        yield


def told(folder: Path, source: str) -> str:
    """What is told of a file's code, which makes functions in a loop; without the header's lines.

    The same is raised where that is asked for.
    """
    path = folder / "train.py"
    path.write_text(HEADER + source)
    linecache.checkcache()
    code = compile(path.read_text(), str(path), "exec")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec(code, {"__name__": "train"})
    (warning,) = caught
    assert warning.category is RecompileWarning
    assert Path(warning.filename) == path
    again = compile(path.read_text(), str(path), "exec")
    with graphc.recompile("raise"), pytest.raises(RecompileError) as refused:
        exec(again, {"__name__": "train"})
    ours = [str(warning.message), str(refused.value)]
    first, second = [text.partition("changed: ")[2].partition("   [")[0] for text in ours]
    assert first == second
    return first


NUMBERS = {
    "a local variable": (
        """
def main():
    for i in range(3):
        rate = 0.5 + i
        f = graphc.function([x], x * rate)
        f(ONES)
main()
""",
        "`rate` (local of main, train.py:10)  0.5 -> 1.5",
    ),
    "a closure, of a function that is there no more": (
        """
def make(rate):
    def loss(w):
        return (w * rate).sum()
    return graphc.function([x], loss(x))
for i in range(3):
    make(0.5 + i)(ONES)
""",
        "`rate` (closure of make, train.py:9)  0.5 -> 1.5",
    ),
    "a closure that is still there": (
        """
def make(rate):
    def loss(w):
        return (w * rate).sum()
    return loss
for i in range(3):
    loss = make(0.5 + i)
    f = graphc.function([x], loss(x))
    f(ONES)
""",
        "`rate` (closure of make, train.py:9)  0.5 -> 1.5",
    ),
    "a global": (
        """
RATE = 0.5
def loss(w):
    return w * RATE
for i in range(3):
    RATE = 0.5 + i
    f = graphc.function([x], loss(x))
    f(ONES)
""",
        "`RATE` (global of train.py, train.py:9)  0.5 -> 1.5",
    ),
    "a default argument": (
        """
def loss(w, *, rate=0.5):
    return w * rate
for i in range(3):
    loss.__kwdefaults__["rate"] = 0.5 + i
    f = graphc.function([x], loss(x))
    f(ONES)
""",
        "a value in `w * rate` (train.py:8)  0.5 -> 1.5",
    ),
    "an argument of a partial": (
        """
def loss(w, rate):
    return w * rate
for i in range(3):
    bound = partial(loss, rate=0.5 + i)
    f = graphc.function([x], bound(x))
    f(ONES)
""",
        "a value in `w * rate` (train.py:8)  0.5 -> 1.5",
    ),
    "an argument of a function that has returned": (
        """
def loss(x, rate):
    return x * rate
for i in range(3):
    f = graphc.function([x], loss(x, 0.5 + i))
    f(ONES)
""",
        "`rate` (argument of loss, train.py:8)  0.5 -> 1.5",
    ),
    "one of two that may be it": (
        """
def loss(w, rate):
    return w * rate
for i in range(3):
    f = graphc.function([x], loss(x, 0.5 + i))
    f(ONES)
""",
        "a value in `w * rate` (train.py:8)  0.5 -> 1.5",
    ),
    "an attribute": (
        """
class Trainer:
    rate = 0.0
    def loss(self, w):
        return w * self.rate
trainer = Trainer()
for i in range(3):
    trainer.rate = 0.5 + i
    f = graphc.function([x], trainer.loss(x))
    f(ONES)
""",
        "a value in `w * self.rate` (train.py:10)  0.5 -> 1.5",
    ),
    "an attribute in a slot": (
        """
class Trainer:
    __slots__ = ("rate",)
trainer = Trainer()
for i in range(3):
    trainer.rate = 0.5 + i
    f = graphc.function([x], x * trainer.rate)
    f(ONES)
""",
        "`trainer.rate` (attribute of trainer, train.py:12)  0.5 -> 1.5",
    ),
    "an item of a dict": (
        """
settings = {"rate": 0.5}
for i in range(3):
    settings["rate"] = 0.5 + i
    f = graphc.function([x], x * settings["rate"])
    f(ONES)
""",
        "`settings['rate']` (item of settings, train.py:10)  0.5 -> 1.5",
    ),
    "a number of NumPy's": (
        """
for rate in np.linspace(0.5, 2.5, 3):
    f = graphc.function([x], x * rate)
    f(ONES)
""",
        "`rate` (global of train.py, train.py:8)  0.5 -> 1.5",
    ),
    "an integer beside floats": (
        """
for n in range(3, 6):
    f = graphc.function([x], x.sum() / n)
    f(ONES)
""",
        "`n` (global of train.py, train.py:8)  3.0 -> 4.0",
    ),
    "what is computed from a variable": (
        """
def main():
    for epoch in range(3):
        f = graphc.function([x], x * (1 / (2 + epoch)))
        f(ONES)
main()
""",
        "what comes from `epoch` (local of main, train.py:9)  0.5 -> 0.3333333333333333",
    ),
    "what nobody knows the name of": (
        """
random.seed(1)
for i in range(3):
    f = graphc.function([x], x * random.choice([0.5, 1.5]))
    f(ONES)
""",
        "a value in `x * random.choice([0.5, 1.5])` (train.py:9)  0.5 -> 1.5",
    ),
    "what an iterator gives": (
        """
draws = iter([0.5, 1.5, 2.5])
for i in range(3):
    f = graphc.function([x], x * next(draws))
    f(ONES)
""",
        "what comes from `draws` (global of train.py, train.py:9)  0.5 -> 1.5",
    ),
    "a variable of a comprehension": (
        """
def main():
    return [graphc.function([x], x * rate)(ONES) for rate in (0.5, 1.5, 2.5)]
main()
""",
        "`rate` (local of main, train.py:8)  0.5 -> 1.5",
    ),
    "a step of a loop": (
        """
for i in range(3):
    decay = 0.5 + i
    states = graphc.scan(lambda h: gt.tanh(h / decay), outputs_info=x, n_steps=3)
    f = graphc.function([x], states[-1])
    f(ONES)
""",
        "`decay` (global of train.py, train.py:9)  0.5 -> 1.5",
    ),
    "a number that other code used before": (
        """
kept = [x * (0.5 + i) for i in range(3)]
def main():
    for i in range(3):
        rate = 0.5 + i
        f = graphc.function([x], x * rate)
        f(ONES)
main()
""",
        "`rate` (local of main, train.py:11)  0.5 -> 1.5",
    ),
    "an expression of several lines": (
        """
for i in range(3):
    rate = 0.5 + i
    f = graphc.function([x], (
        x
        * rate
    ))
    f(ONES)
""",
        "`rate` (global of train.py, train.py:10)  0.5 -> 1.5",
    ),
    "the bound of a slice": (
        """
for n in range(3, 6):
    f = graphc.function([x], x[1:n].sum())
    f(ONES)
""",
        "`n` (global of train.py, train.py:8)  [1:3] -> [1:4]",
    ),
}


@pytest.mark.parametrize("case", NUMBERS)
def test_a_number_is_told_by_its_name_its_home_and_its_line(case: str, tmp_path: Path) -> None:
    source, wanted = NUMBERS[case]
    assert told(tmp_path, source.lstrip("\n")) == wanted


ARRAYS = {
    "a local variable": (
        """
def main():
    for i in range(3):
        batch = np.full((4, 12), i)
        f = graphc.function([x], batch @ x)
        f(ONES)
main()
""",
        "`batch` (local of main, train.py:10)  int64[4, 12] of other values",
    ),
    "an item of a list": (
        """
batches = [np.full((4, 12), float(k)) for k in range(3)]
for k in range(3):
    f = graphc.function([x], batches[k] @ x)
    f(ONES)
""",
        "what comes from `batches` (global of train.py, train.py:9)"
        "  float64[4, 12] of other values",
    ),
    "an array that was made a symbolic one before": (
        """
def main():
    for i in range(3):
        data = np.full((4, 12), float(i))
        known = gt.constant(data)
        f = graphc.function([x], known @ x)
        f(ONES)
main()
""",
        "`data` (local of main, train.py:10)  float64[4, 12] of other values",
    ),
    "a constant with a name": (
        """
for i in range(3):
    known = gt.constant(np.full((4, 12), float(i)), name="prior")
    f = graphc.function([x], known @ x)
    f(ONES)
""",
        "`prior` (train.py:8)  float64[4, 12] of other values",
    ),
    "a list": (
        """
for i in range(3):
    weights = [float(i)] * 12
    f = graphc.function([x], x * weights)
    f(ONES)
""",
        "`weights` (global of train.py, train.py:9)  float64[12] of other values",
    ),
    "an array of another length each time": (
        """
for i in range(3):
    batch = np.full((4 + i, 12), float(i))
    f = graphc.function([x], batch @ x)
    f(ONES)
""",
        "`batch` (global of train.py, train.py:9)  float64[4, 12] -> float64[5, 12]",
    ),
    "a small array": (
        """
for i in range(3):
    center = np.full(3, 0.5 + i)
    f = graphc.function([x], x[:3] - center)
    f(ONES)
""",
        "`center` (global of train.py, train.py:9)  [0.5, 0.5, 0.5] -> [1.5, 1.5, 1.5]",
    ),
    "a part of an array": (
        """
data = np.arange(192.0).reshape(4, 4, 12)
for k in range(3):
    f = graphc.function([x], data[k] @ x)
    f(ONES)
""",
        "what comes from `data` (global of train.py, train.py:9)  float64[4, 12] of other values",
    ),
    "two arrays": (
        """
def main():
    for i in range(3):
        data, labels = np.full((4, 12), float(i)), np.full(12, float(i))
        f = graphc.function([x], (data @ x).sum() + labels @ x)
        f(ONES)
main()
""",
        "`data` (local of main, train.py:10)  float64[4, 12] of other values",
    ),
}


@pytest.mark.parametrize("case", ARRAYS)
def test_a_cause_names_an_array_its_scope_and_its_line(case: str, tmp_path: Path) -> None:
    source, wanted = ARRAYS[case]
    path = tmp_path / "train.py"
    path.write_text(HEADER + source.lstrip("\n"))
    events: list[graphc.Event] = []
    with graphc.events.subscribe(events.append), warnings.catch_warnings(action="ignore"):
        exec(compile(path.read_text(), str(path), "exec"), {"__name__": "train"})
    first = next(event.cause for event in events if event.cause)
    assert first.partition("; ")[0] == f"captured value: {wanted}"


def test_objects_that_cannot_be_looked_at_do_no_harm(tmp_path: Path) -> None:
    source = """
class Awkward:
    def __getattribute__(self, name):
        raise RuntimeError(name)
    def __eq__(self, other):
        raise RuntimeError
    def __bool__(self):
        raise RuntimeError
    __hash__ = None
def make(rate):
    return lambda w: (awkward, w * rate)[1]
def main():
    for i in range(3):
        also = awkward
        f = graphc.function([x], make(0.5 + i)(x))
        f(ONES)
awkward = Awkward()
main()
"""
    wanted = "`rate` (closure of make, train.py:16)  0.5 -> 1.5"
    assert told(tmp_path, source.lstrip("\n")) == wanted


def test_a_property_is_not_run_to_find_a_name(tmp_path: Path) -> None:
    source = """
class Trainer:
    asked = 0
    @property
    def rate(self):
        Trainer.asked += 1
        return 0.5 * Trainer.asked
trainer = Trainer()
for i in range(3):
    f = graphc.function([x], x * trainer.rate)
    f(ONES)
assert Trainer.asked <= 3, Trainer.asked
"""
    wanted = "`trainer.rate` (attribute of trainer, train.py:15)  0.5 -> 1.0"
    assert told(tmp_path, source.lstrip("\n")) == wanted


def test_code_has_the_title_that_messages_use() -> None:
    def inner() -> None: ...

    assert title_of(inner.__code__) == "inner"
    assert title_of(compile("", "/somewhere/train.py", "exec")) == "train.py"
    assert title_of((1 for _ in ()).gi_code) == "test_code_has_the_title_that_messages_use"
    assert np.vectorize.__call__.__code__.co_qualname == title_of(np.vectorize.__call__.__code__)


def test_without_columns_the_line_is_enough(tmp_path: Path, monkeypatch: Any) -> None:
    """As with ``python -X no_debug_ranges``."""
    from graphc.capture import code as bytecode  # noqa: PLC0415

    def lines_only(code: Any, offset: int) -> tuple[Any, ...]:
        line = [*code.co_positions()][offset // 2][0]
        return line, line, None, None

    monkeypatch.setattr(bytecode, "span", lines_only)
    source = """
for i in range(3):
    rate = 0.5 + i
    f = graphc.function([x], x * rate)
    f(ONES)
"""
    assert told(tmp_path, source.lstrip("\n")).startswith("`rate` (global of train.py, train.py:9)")
