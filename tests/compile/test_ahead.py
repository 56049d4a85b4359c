"""Programs on disk before anything calls them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.compile.cache import PROGRAMS
from graphc.errors import ArgumentError

pytestmark = pytest.mark.usefixtures("_pinned")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(graphc.config, "cache_dir", tmp_path / "cache")
    PROGRAMS.clear()
    yield tmp_path / "cache"
    PROGRAMS.clear()


def first_calls(make: Callable[[], Any], *arguments: Any) -> list[str]:
    """The events of a first call, as in a later process."""
    PROGRAMS.clear()
    kinds: list[str] = []
    with graphc.events.subscribe(lambda event: kinds.append(event.kind)):
        make()(*arguments)
    return kinds


def training() -> Any:
    x, w = gt.matrix("x"), graphc.shared(np.ones(3), "w")
    data = np.arange(30.0).reshape(10, 3)  # captured
    loss = ((x @ w) ** 2).mean() + ((data @ w) ** 2).sum()
    return graphc.function([x], loss, updates=[(w, w - 0.1 * graphc.grad(loss, w))])


def of_values() -> Any:
    x, n = gt.matrix("x"), gt.lscalar("n")
    return graphc.function({"x": x, "n": n}, gt.linalg.cholesky(x[:n] @ x[:n].T + gt.eye(n)))


def over_a_mesh() -> Any:
    x = gt.fmatrix("x", shape=(4, 3), sharding=("data", None))
    mode = graphc.Mode("JAX", mesh=graphc.mesh(data=1))
    return graphc.function([x], gt.tanh(x).sum(0), mode=mode)


CASES: dict[str, tuple[Callable[[], Any], tuple[Any, ...], tuple[Any, ...]]] = {
    "shapes": (training, ((4, 3),), (np.ones((4, 3)),)),
    "a struct": (training, (jax.ShapeDtypeStruct((4, 3), "float32"),), (np.ones((4, 3)),)),  # type: ignore[no-untyped-call]
    "lengths of types, over a mesh": (over_a_mesh, (), (np.ones((4, 3), "float32"),)),
}


@pytest.mark.parametrize("case", CASES)
def test_what_was_compiled_ahead_is_loaded_at_the_first_call(case: str) -> None:
    make, shapes, arguments = CASES[case]
    f = make()
    assert graphc.compile_ahead(f, *shapes)
    assert f.stats.compiles == 0
    assert not graphc.compile_ahead(make(), *shapes)
    assert first_calls(make, *arguments) == ["load"]


def test_nothing_is_run_ahead() -> None:
    f = training()
    graphc.compile_ahead(f, (4, 3))
    (w,) = (x for x in f.requested.inputs if x.name == "w")
    assert f.pure.state()["w"].tolist() == [1, 1, 1], w
    random = gt.random.RandomStream(3)
    draw = graphc.function([], random.normal(size=2))
    state = [x.get_value() for x, _ in random.state_updates]
    graphc.compile_ahead(draw)
    for before, (x, _) in zip(state, random.state_updates, strict=True):
        np.testing.assert_array_equal(x.get_value(), before)


def test_values_that_decide_shapes_are_given() -> None:
    f = of_values()
    assert graphc.compile_ahead(f, {"x": (5, 3), "n": 4})
    assert first_calls(of_values, {"x": np.ones((5, 3)), "n": 4}) == ["load"]
    assert first_calls(of_values, {"x": np.ones((5, 3)), "n": 3}) == ["compile"]


@pytest.mark.parametrize("mode", ["NUMPY", "MLX"])
def test_other_backends_keep_the_rewritten_graph(
    mode: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphc.compile.cache.WORTH_SAVING", 60.0)  # seconds: no call keeps it
    x = gt.fvector("x")

    def make() -> Any:
        return graphc.function([x], gt.log(1 + x), mode=mode)

    assert graphc.compile_ahead(make())
    assert not graphc.compile_ahead(make())
    assert len([*cache.glob("*.entry")]) == 1


def test_what_cannot_be_kept_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    x = gt.vector("x")
    with pytest.raises(ArgumentError, match="a length of argument 0"):
        graphc.compile_ahead(graphc.function([x], x + 1))
    with pytest.raises(ArgumentError, match="expected 1 argument, got 2"):
        graphc.compile_ahead(graphc.function([x], x + 1), (3,), (3,))
    shown = graphc.function([x], graphc.Print("x")(x) + 1)
    with pytest.raises(ArgumentError, match="calls back into Python"):
        graphc.compile_ahead(shown, (3,))

    @graphc.as_op([gt.dvector], [gt.dvector])
    def own(value: Any) -> Any:
        return value

    with pytest.raises(ArgumentError, match="operations, rules or lowerings of your own"):
        graphc.compile_ahead(graphc.function([x], own(x)), (3,))
    with jax.disable_jit(), pytest.raises(ArgumentError, match="jax_disable_jit is set"):
        graphc.compile_ahead(training(), (4, 3))
    monkeypatch.setattr(graphc.config, "cache_dir", None)
    with pytest.raises(ArgumentError, match="is off"):
        graphc.compile_ahead(training(), (4, 3))
