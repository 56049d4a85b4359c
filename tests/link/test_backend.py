"""A backend: found by its folder's name, its lowerings by class, and what it lacks all at once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.link.backend
import graphc.tensor as gt
from graphc.errors import ModeError, UnsupportedOperationError
from graphc.ir import DTYPES, Graph, Input, Op, TensorType, toposort
from graphc.link import load, names
from graphc.tensor.arrays.reduce import Max, Sum
from graphc.tensor.core.elementwise import ROWS
from tests.modes import lacks

BACKENDS = names()
HERE = Path(graphc.link.backend.__file__).parent


class Plain(Op):
    """An operation of no backend but the reference."""

    __slots__ = ()

    def infer(self, x: TensorType) -> TensorType:
        return x

    def perform(self, x: Any) -> Any:
        return x + 1


@dataclass(frozen=True, slots=True)
class First(Plain):
    """One such operation."""


@dataclass(frozen=True, slots=True)
class Second(Plain):
    """Another."""


@dataclass(frozen=True, slots=True)
class Shortened(Plain):
    """An operation whose result is shorter than its type rule says, and of another dtype."""

    removed: int

    def perform(self, x: Any) -> Any:
        return x[self.removed :].astype("float32")


@pytest.mark.parametrize("mode", ["NUMPY", "JAX", "MLX"])
def test_a_users_operation_gives_the_lengths_and_the_dtype_that_infer_declares(mode: str) -> None:
    x = gt.vector("x")
    chosen = mode if mode == "NUMPY" else graphc.Mode(mode, fallback="numpy")
    kept, shortened = (gt.Tensor.make(Shortened(n), x) for n in (0, 1))
    # The sum with 2^-40 is one of float64.
    y = graphc.function([x], kept + 2.0**-40, mode=chosen)([1.0, 2.0])
    np.testing.assert_array_equal(y, [1 + 2.0**-40, 2 + 2.0**-40])
    # One element would broadcast.
    f = graphc.function([x], shortened + x, mode=chosen)
    with pytest.raises(Exception, match=r"shape \(1,\), where infer says float64\[2\]"):
        f([1.0, 2.0])


def test_numpy_jax_and_mlx_are_there() -> None:
    assert {"NUMPY", "JAX", "MLX"} <= {*BACKENDS}


def test_a_backend_is_loaded_once() -> None:
    assert load("NUMPY") is load("NUMPY")


@pytest.mark.parametrize("name", ["numpy", "Jax", "PYTORCH", "", "BACKEND"])
def test_a_name_of_no_folder_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(ModeError, match=r"JAX, .*NUMPY"):
        load(name)


FOLDER = {
    "__init__.py": "",
    "backend.py": """
from dataclasses import replace
from graphc.link import load
numpy = load("NUMPY")
backend = replace(numpy, name="ADDED", lowerings={})
""",
    "lower/__init__.py": "",
    "lower/core/__init__.py": "",
    "lower/core/elementwise.py": """
from graphc.link.added.backend import backend
from graphc.tensor.core.elementwise import ROWS
@backend.lower(ROWS["negative"])
def negative(op, x):
    return -x
""",
}


@pytest.fixture
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A backend in a folder of its own, beside the others."""
    folder = tmp_path / "added"
    for name, text in FOLDER.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    real = graphc.link.backend.pkgutil.iter_modules

    def iter_modules(path: Any = None, prefix: str = "") -> Any:
        yield from real(path, prefix)
        if list(path) == [str(HERE)]:
            yield from real([str(tmp_path)], prefix)

    monkeypatch.setattr(graphc.link.backend.pkgutil, "iter_modules", iter_modules)
    monkeypatch.setattr(graphc.link, "__path__", [str(HERE), str(tmp_path)])
    known = dict(graphc.link.backend._loaded)
    yield "ADDED"
    graphc.link.backend._loaded.clear()
    graphc.link.backend._loaded.update(known)
    for name in [name for name in sys.modules if name.startswith("graphc.link.added")]:
        del sys.modules[name]


def test_a_folder_is_a_mode_and_every_file_of_lowerings_is_read(added: str) -> None:
    assert added in names()
    assert [op.name for op in load(added).lowerings] == ["negative"]


@pytest.mark.parametrize("mode", ["JAX", "MLX"])
def test_load_enters_the_lowerings_of_a_package_that_is_imported_later(mode: str) -> None:
    packages = "graphc.attention, graphc.implicit.quantized, graphc.random"
    lines = [
        f"import {packages}",
        f"from graphc.link import load; found = load({mode!r}).lowerings",
    ]
    report = "print(sorted(getattr(op, '__qualname__', None) or op.name for op in found))"
    first, later = (
        subprocess.run(
            [sys.executable, "-c", "\n".join([*order, report])],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for order in (lines, lines[::-1])
    )
    assert first == later
    assert "Threefry" in later
    assert "FlexGradient" in later
    assert "QuantizedMatmul" in later


def test_a_library_that_is_not_installed_is_named(
    added: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = tmp_path / "added" / "backend.py"
    backend.write_text("import no_such_library_here\n", encoding="utf-8")
    with pytest.raises(ModeError, match="needs the package no_such_library_here") as error:
        load(added)
    assert error.value.remedy == "Install it: pip install 'graphc[added]'."


def test_a_lowering_serves_the_classes_below() -> None:
    backend = replace(load("JAX"), lowerings={})

    @backend.lower(Plain)
    def plain(op: Plain, x: Any) -> Any:
        return x

    assert backend.lowering(First()) is plain
    assert backend.lowering(Sum((0,))) is None

    @backend.lower(First)
    def first(op: First, x: Any) -> Any:
        return x

    assert backend.lowering(First()) is first
    assert backend.lowering(Second()) is plain


def test_a_row_has_a_lowering_of_its_own() -> None:
    jax = load("JAX")
    # But for those that are made of others.
    found = [jax.lowering(row) for row in ROWS.values() if row.expand is None]
    assert None not in found
    assert len(set(found)) == len(found)


def test_missing_operations_are_told_all_at_once_with_their_lines() -> None:
    x = gt.vector("x")
    y = gt.Tensor.make(First(), x)
    z = gt.Tensor.make(Second(), gt.exp(y))
    with pytest.raises(UnsupportedOperationError) as error:
        load("JAX").check(Graph([x], [z]), (), {})
    text = str(error.value)
    assert text.count("test_backend.py:") == 2
    assert "First   test_backend.py:" in text
    assert "Second   test_backend.py:" in text
    assert "exp" not in text
    assert "fallback='numpy'" in text


def test_what_the_host_computes_is_not_missing() -> None:
    x = gt.vector("x")
    y = gt.Tensor.make(First(), x.shape[0])
    assert load("JAX").missing(Graph([x], [gt.zeros(y)]), {y, x.shape[0]}) == []


def test_a_lowering_of_the_same_class_is_found_for_any_parameters() -> None:
    jax = load("JAX")
    assert jax.lowering(Max((0,))) is jax.lowering(Max((1, 2)))


# Arrays.


def views() -> dict[str, Any]:
    x = gt.matrix("x")
    return {
        "the argument": x,
        "a transpose": x.T,
        "a slice": x[1:],
        "a reshape": x.reshape(-1),
        "a broadcast": gt.broadcast_to(x[0], (3, 2)),
        "an expansion": gt.expand_dims(x, 0),
        "a real part": gt.real(x),
        "an element": x[0, 0],
    }


@pytest.mark.parametrize("case", views())
def test_an_output_of_numpy_is_never_the_memory_of_an_argument(case: str) -> None:
    y = views()[case]
    (x,) = [node for node in toposort([y]) if isinstance(node.op, Input)]
    f = graphc.function([x], [y, y], mode=graphc.Mode("NUMPY", excluding=["canonicalize"]))
    value = np.arange(4.0).reshape(2, 2)
    first, second = f(value)
    assert not np.shares_memory(first, value)
    assert not np.shares_memory(first, second)
    assert first.flags.writeable


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_output_never_changes_with_an_argument(backend: str) -> None:
    x = gt.matrix("x")
    f = graphc.function([x], [x, x.T, x[1:]], mode=backend)
    value = np.arange(4.0).reshape(2, 2)
    found = f(value)
    value[...] = -1
    for y, expected in zip(found, ([[0, 1], [2, 3]], [[0, 2], [1, 3]], [[2, 3]]), strict=True):
        assert np.asarray(y).tolist() == expected


@pytest.mark.parametrize(
    ("dtype", "backend"), [(d, b) for d in DTYPES for b in BACKENDS if not lacks(b, d)]
)
def test_an_array_goes_in_and_comes_out_as_it_is(dtype: str, backend: str) -> None:
    found = load(backend)
    type_ = TensorType(dtype, (3,))
    value = np.array([0, 1, 1]).astype(type_.numpy_dtype)
    array = found.array(value, type_, {})
    back = found.numpy(array)
    assert back.dtype == type_.numpy_dtype
    np.testing.assert_array_equal(back, value)
    assert isinstance(array, found.kinds)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backend_describes_itself_in_a_line(backend: str) -> None:
    text = load(backend).describe({})
    assert text.strip()
    assert "\n" not in text
