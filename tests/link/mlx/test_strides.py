"""No MLX operation sees an array whose strides are negative: each reversed part is copied once.

What MLX compiled of such arrays was wrong on Apple's GPUs before 0.32.0, and some of its other
kernels still are. The CPU cannot show that, so the calls themselves are looked at: which parts run
backwards, and what reads them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import graphc
import graphc.tensor as gt
from graphc.ir import TensorType
from graphc.link.mlx import tiers
from tests.modes import uncompiled

MODE = uncompiled("MLX", returns="native")


# The calls.


def runs_backwards(index: Any) -> bool:
    """Whether an index holds a slice of negative step."""
    parts = index if isinstance(index, tuple) else (index,)
    return any(isinstance(part, slice) and (part.step or 1) < 0 for part in parts)


@dataclass
class Calls:
    """What was emitted while it listened.

    Attributes:
        backwards: The parts that run backwards.
        written: How often an index of a negative step was written to.
    """

    backwards: list[Any] = field(default_factory=list)
    written: int = 0


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[Calls]:
    """Listens to every index that MLX is given; nothing is evaluated, so that graphs stay whole."""
    heard = Calls()
    at = type(mx.array(0).at)
    read, write, place = mx.array.__getitem__, mx.array.__setitem__, at.__getitem__

    def getitem(self: Any, index: Any) -> Any:
        part = read(self, index)
        if runs_backwards(index):
            heard.backwards.append(part)
        return part

    def setitem(self: Any, index: Any, value: Any) -> None:
        heard.written += runs_backwards(index)
        write(self, index, value)

    def at_index(self: Any, index: Any) -> Any:
        heard.written += runs_backwards(index)
        return place(self, index)

    with monkeypatch.context() as patched:
        patched.setattr(mx.array, "__getitem__", getitem)
        patched.setattr(mx.array, "__setitem__", setitem)
        patched.setattr(at, "__getitem__", at_index)
        patched.setattr(mx, "eval", lambda *_: None)
        patched.setattr(mx, "async_eval", lambda *_: None)
        yield heard


@dataclass
class Emitted:
    """A graph of MLX: for each array what made it, and what reads it."""

    makers: dict[str, str]
    readers: dict[str, list[str]]

    @classmethod
    def of(cls, path: Path, outputs: Sequence[Any], named: dict[str, Any]) -> Emitted:
        """What the outputs are made by, some arrays having names."""
        mx.export_to_dot(str(path), *outputs, **named)
        text = path.read_text()
        labels = dict(re.findall(r'\{ (\d+) \[label ="([^"]*)"', text))
        makers: dict[str, str] = {}
        readers: dict[str, list[str]] = {}
        for step, array in re.findall(r'^(\d+) -> "([^"]*)"$', text, re.MULTILINE):
            makers[array] = labels[step]
        for array, step in re.findall(r'^"([^"]*)" -> (\d+)$', text, re.MULTILINE):
            readers.setdefault(array, []).append(labels[step])
        return cls(makers, readers)

    def read_by(self, step: str) -> list[str]:
        """The arrays that steps of that name read."""
        return [array for array, steps in self.readers.items() for s in steps if s == step]


def copies(calls: Calls, path: Path, outputs: Sequence[Any]) -> int:
    """Return the number of copies: one of each part that runs backwards, and no other.

    MLX never computes a part whose lengths alone are asked for.
    """
    every = {f"backwards{i}": x for i, x in enumerate(calls.backwards)}
    emitted = Emitted.of(path / "graph.dot", outputs, every)
    named = [name for name in every if name in emitted.readers]
    for name in named:
        assert emitted.makers[name] == "Slice"
        assert emitted.readers[name] == ["Contiguous"]
    assert sorted(emitted.read_by("Contiguous")) == sorted(named)
    assert not {"AsStrided", "Copy"}.intersection(emitted.makers.values())
    assert not calls.written
    return len(named)


def x_and_v() -> tuple[Any, Any]:
    return gt.fmatrix("x"), gt.fmatrix("v")


X = np.arange(1, 31, dtype=np.float32).reshape(5, 6)

READS: dict[str, tuple[Callable[[Any], Any], int]] = {
    "rows": (lambda x: x[::-1], 1),
    "columns": (lambda x: x[:, ::-1], 1),
    "both": (lambda x: x[::-1, ::-1], 1),
    "rows, every other": (lambda x: x[::-2, 1:], 1),
    "columns, every third, and rows": (lambda x: x[1:4, ::-3], 1),
    "rows beside every other column": (lambda x: x[::-1, ::2], 1),
    "a range": (lambda x: x[3:0:-1, 4:1:-2], 1),
    "a reversed row": (lambda x: x[2, ::-1], 1),
    "with a new axis": (lambda x: x[::-1, None], 1),
    "flip": (lambda x: gt.flip(x, 1), 1),
    "flipped, transposed": (lambda x: gt.flip(x).T, 1),
    "transposed, flipped": (lambda x: gt.flip(x.T, 0), 1),
    "twice": (lambda x: x[::-1][::-1], 0),
    "one row": (lambda x: x[2:1:-1], 0),
    "rows of an index": (lambda x: x[[4, 0, 4], ::-1], 1),
    "forwards": (lambda x: x[::2, 1:], 0),
    "one column": (lambda x: x[:, 3], 0),
    "transposed": (lambda x: x.T, 0),
    "forwards, transposed": (lambda x: x[1:, ::3].T, 0),
    "gathered": (lambda x: x[[4, 0, 4]], 0),
    "joined": (lambda x: gt.concatenate([x[::2], x[1:]]), 0),
    "diagonal": (lambda x: gt.diagonal(x, 1), 0),
}
"""What is read, and how many copies that takes."""


@pytest.mark.parametrize("name", READS)
def test_what_is_read_backwards_is_copied_once(name: str, calls: Calls, tmp_path: Path) -> None:
    build, wanted = READS[name]
    x, _ = x_and_v()
    # Two consumers share the copy.
    outputs = graphc.function([x], [gt.exp(build(x)), build(x).sum()], MODE)(X)
    assert copies(calls, tmp_path, outputs) == wanted


@pytest.mark.parametrize("name", READS)
def test_so_it_is_in_a_gradient(name: str, calls: Calls, tmp_path: Path) -> None:
    build, wanted = READS[name]
    x, _ = x_and_v()
    part = build(x)
    weights = part.type("weights")
    slope = graphc.grad((part**2 * weights).sum(), x)
    shape = graphc.function([x], part.shape, "NUMPY")(X)
    given = np.ones(shape, np.float32)
    outputs = graphc.function([x, weights], [slope], MODE)(X, given)
    # The part is read, and the gradient by it written back.
    assert copies(calls, tmp_path, outputs) == 2 * wanted


WRITES: dict[str, tuple[Callable[[Any, Any], Any], int]] = {
    "rows set": (lambda x, v: x[::-1].set(v), 1),
    "rows added to": (lambda x, v: x[::-1].inc(v), 1),
    "columns set": (lambda x, v: x[:, ::-1].set(v), 1),
    "both set": (lambda x, v: x[::-1, ::-1].set(v), 1),
    "mixed steps set": (lambda x, v: x[::-1, ::2].set(v[:, :3]), 1),
    "mixed steps added to": (lambda x, v: x[::-2, 1:].inc(v[:3, :5]), 1),
    "rows of an index set": (lambda x, v: x[[3, 0, 1], ::-1].set(v[:3]), 1),
    "rows of an index added to": (lambda x, v: x[[3, 0, 3], ::-2].inc(v[:3, :3]), 1),
    "a number": (lambda x, v: x[::-1].set(2.0), 0),
    "a row, rows reversed": (lambda x, v: x[::-1].set(v[0]), 0),
    "a row, columns reversed": (lambda x, v: x[:, ::-1].set(v[0]), 1),
    "forwards": (lambda x, v: x[::2].set(v[:3]), 0),
    "forwards, added to": (lambda x, v: x[1:, ::3].inc(v[1:, :2]), 0),
    "scattered": (lambda x, v: x[[3, 0, 3]].inc(v[:3]), 0),
}
"""What is written, and how many copies that takes."""


@pytest.mark.parametrize("name", WRITES)
def test_what_is_written_backwards_is_turned_round_once(
    name: str, calls: Calls, tmp_path: Path
) -> None:
    build, wanted = WRITES[name]
    x, v = x_and_v()
    outputs = graphc.function([x, v], [build(x, gt.exp(v))], MODE, on_unused_input="ignore")(X, X)
    assert copies(calls, tmp_path, outputs) == wanted


@pytest.mark.parametrize("name", WRITES)
def test_so_it_is_in_a_gradient_of_a_write(name: str, calls: Calls, tmp_path: Path) -> None:
    build, wanted = WRITES[name]
    x, v = x_and_v()
    cost = (build(x, v) ** 2 * (1 + x)).sum()
    slopes = graphc.grad(cost, [x, v], disconnected_inputs="ignore")
    outputs = graphc.function([x, v], slopes, MODE)(X, X)
    # The value is turned round, and so is the gradient by it.
    assert copies(calls, tmp_path, outputs) == 2 * wanted


@pytest.mark.parametrize(
    ("mode", "copy"),
    [
        (graphc.Mode("MLX", compile=True, returns="native"), "Contiguous"),
        (graphc.Mode("MLX", returns="native"), "Concatenate"),
    ],
    ids=["compiled", "replayed"],
)
def test_so_it_is_in_what_mlx_traces(
    mode: Any, copy: str, calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mx, "compile", lambda function: function)
    monkeypatch.setattr(tiers, "saved_program", lambda function, arrays: function)
    x, _ = x_and_v()
    y = gt.exp(x[::-1, ::2] * 2)
    outputs = graphc.function([x], [y, x[:, ::-1].set(y[0, 0]).sum(0)], mode)(X)
    named = {f"backwards{i}": part for i, part in enumerate(calls.backwards)}
    emitted = Emitted.of(tmp_path / "graph.dot", outputs, named)
    assert named
    # An empty part is joined to it, which makes a copy.
    assert all({*emitted.readers[name]} - {"Slice"} == {copy} for name in named)


# The numbers.


VIEWS: dict[str, Callable[[Any], Any]] = {
    "rows": lambda x: x[::-1],
    "columns": lambda x: x[:, ::-1],
    "mixed": lambda x: x[::-1, ::2],
    "steps": lambda x: x[::-2, 4:0:-3],
}


def written(lib: Any, v: Any) -> Any:
    """A part written backwards into another one."""
    if lib is gt:
        return v[::-1, 1:].set(2 * v[:, 1:])[:, ::-1].inc(v)
    y = v.copy()
    y[::-1, 1:] = 2 * v[:, 1:]
    y[:, ::-1] += v
    return y


CONSUMERS: dict[str, Callable[[Any, Any], Any]] = {
    "elementwise": lambda lib, v: v * v + 3 * v - 1,
    "sum": lambda lib, v: lib.sum(v),
    "sum of columns": lambda lib, v: lib.sum(v, 0),
    "sum of rows": lambda lib, v: lib.sum(v, 1),
    "largest of columns": lambda lib, v: lib.max(v, 0),
    "largest of rows": lambda lib, v: lib.max(v, 1),
    "place of the largest": lambda lib, v: lib.argmax(v, 1),
    "sorted columns": lambda lib, v: lib.sort(v, 0),
    "sorted rows": lambda lib, v: lib.sort(v, 1),
    "order of rows": lambda lib, v: lib.argsort(v, 1),
    "product": lambda lib, v: v @ v.T,
    "gathered": lambda lib, v: v[:, np.array([1, 0, 1])],
    "cumulated columns": lambda lib, v: lib.cumsum(v, 0),
    "cumulated rows": lambda lib, v: lib.cumsum(v, 1),
    "joined": lambda lib, v: lib.concatenate([v, v[::-1]], 1),
    "reshaped": lambda lib, v: lib.reshape(v, (-1,)),
    "written": written,
    "where": lambda lib, v: lib.where(v > 12, v, v[::-1]),
}


def consumed(x: Any) -> tuple[list[str], list[Any]]:
    pairs = [(view, consumer) for view in VIEWS for consumer in CONSUMERS]
    lib = gt if isinstance(x, gt.Tensor) else np
    outputs = [CONSUMERS[consumer](lib, VIEWS[view](x)) for view, consumer in pairs]
    return [f"{consumer} of {view}" for view, consumer in pairs], outputs


def unordered(dtype: str) -> np.ndarray[Any, Any]:
    """Distinct small whole numbers in no order, so that every result is exact."""
    return np.random.default_rng(0).permutation(35).reshape(7, 5).astype(dtype) - 3


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32"])
def test_every_consumer_of_a_reversed_part_sees_its_numbers(dtype: str) -> None:
    x = gt.tensor("x", dtype=dtype, shape=(None, None))
    value = unordered(dtype)
    names, outputs = consumed(x)
    _, wanted = consumed(value)
    found = graphc.function([x], outputs, MODE, returns="numpy")(value)
    for name, one, expected in zip(names, found, wanted, strict=True):
        np.testing.assert_array_equal(one, expected, err_msg=name)


def test_so_does_every_compiled_one() -> None:
    x = gt.fmatrix("x")
    value = unordered("float32")
    chosen = [*CONSUMERS][::2]
    outputs = [CONSUMERS[name](gt, x[::-1, ::2]) for name in chosen]
    slope = graphc.grad((outputs[0] ** 2).sum(), x)
    found = graphc.function([x], [*outputs, slope], "MLX", returns="numpy")(value)
    for name, one in zip(chosen, found, strict=False):
        np.testing.assert_array_equal(one, CONSUMERS[name](np, value[::-1, ::2]), name)
    part = value[:, ::2]
    by_x = np.zeros_like(value)
    by_x[:, ::2] = 2 * (part * part + 3 * part - 1) * (2 * part + 3)
    np.testing.assert_array_equal(found[-1], by_x)


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (0, 0)])
def test_what_is_empty_runs_backwards_too(shape: tuple[int, int]) -> None:
    x = gt.fmatrix("x")
    y = x[::-1, ::-2]
    outputs = [y, y.sum(0), x[::-1].set(x + 1), x[:, ::-1].inc(x), graphc.grad(y.sum(), x)]
    found = graphc.function([x], outputs, MODE, returns="numpy")(np.zeros(shape, np.float32))
    part = (shape[0], (shape[1] + 1) // 2)
    assert [one.shape for one in found] == [part, part[1:], shape, shape, shape]
    assert {one.dtype for one in found} == {np.dtype("float32")}


@st.composite
def slices(draw: Any, n: int) -> slice:
    near = st.one_of(st.none(), st.integers(-n - 2, n + 2))
    return slice(draw(near), draw(near), draw(st.sampled_from([-1, -2, -3, 1, 2, None])))


@st.composite
def indices(draw: Any) -> tuple[tuple[int, ...], tuple[slice, ...]]:
    shape = draw(st.lists(st.integers(0, 6), min_size=1, max_size=3))
    return tuple(shape), tuple(draw(slices(n)) for n in shape)


@settings(max_examples=60)
@given(case=indices(), dtype=st.sampled_from(["float32", "float64", "int64", "bool"]))
def test_any_slices_read_write_and_derive_as_in_numpy(case: Any, dtype: str) -> None:
    shape, index = case
    array = np.random.default_rng(0).permutation(np.prod(shape)).reshape(shape).astype(dtype)
    part = array[index]
    value = np.arange(100, 100 + part.size).reshape(part.shape).astype(dtype)
    x, v = TensorType(dtype, (None,) * array.ndim)(), TensorType(dtype, (None,) * part.ndim)()
    y = x[index]
    outputs = [y, y.set(v), y.inc(v)]
    with_set, with_added = array.copy(), array.copy()
    with_set[index] = value
    with_added[index] += value
    wanted = [part, with_set, with_added]
    if dtype.startswith("float"):
        cost = (y * v).sum() + (y.set(v) * x).sum()
        outputs += graphc.grad(cost, [x, v])
        # Elsewhere x is a factor twice; there it weighs v, which is in its place too.
        wanted += [2 * with_set, 2 * part]
    found = graphc.function([x, v], outputs, MODE, returns="numpy")(array, value)
    for one, expected in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, expected)
        assert one.dtype == expected.dtype


def test_an_argument_of_length_one_that_was_reversed() -> None:
    v = gt.vector("v")
    value = np.array([3.0])[::-1]
    assert value.strides < (0,)
    assert graphc.function([v], 2 * v, mode="MLX", returns="numpy")(value).tolist() == [6.0]
