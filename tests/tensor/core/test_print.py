"""Arrays that are printed when they are computed."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from tests.modes import uncompiled

x = gt.vector("x")


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    jax.effects_barrier()
    return capsys.readouterr().out.splitlines()


def test_a_value_is_printed_at_every_call(mode: str, capsys: pytest.CaptureFixture[str]) -> None:
    y = graphc.Print("twice", attrs=["__str__", "shape", "dtype"])(2 * x)
    f = graphc.function([x], [y.sum(), y], uncompiled(mode))
    assert printed(capsys) == []
    for _ in range(2):
        assert float(f([1.0, 2.0])[0]) == 6.0
        lines = ["twice __str__ = [2. 4.]", "twice shape = (2,)", "twice dtype = float64"]
        assert printed(capsys) == lines


def test_it_is_printed_in_each_step_of_a_loop(
    mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def step(v: Any, c: Any) -> Any:
        return graphc.Print("sum")(v + c)

    y = graphc.scan(step, sequences=x, outputs_info=gt.zeros(()))
    f = graphc.function([x], y[-1], uncompiled(mode))
    assert float(f(np.arange(1.0, 5.0))) == 10.0
    wanted = [f"sum __str__ = {value}" for value in ("1.0", "3.0", "6.0", "10.0")]
    assert sorted(printed(capsys)) == sorted(wanted)


def test_only_what_is_computed_is_printed(mode: str, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = graphc.ifelse(x.sum() > 0, graphc.Print("yes")(x + 1), graphc.Print("no")(x - 1))
    graphc.Print("unused")(x)
    f = graphc.function([x], chosen.sum(), uncompiled(mode))
    assert float(f([1.0])) == 2.0
    assert [line.split()[0] for line in printed(capsys)] == ["yes"]


def test_another_function_may_print(mode: str) -> None:
    seen: list[Any] = []
    show = graphc.Print("m", global_fn=lambda op, value: seen.append((op.message, value.copy())))
    graphc.function([x], show(x * 3).sum(), uncompiled(mode))([1.0])
    jax.effects_barrier()
    ((message, value),) = seen
    assert (message, value.tolist(), value.dtype) == ("m", [3.0], np.float64)


def test_derivatives_and_batches_pass_through(mode: str) -> None:
    y = (graphc.Print(global_fn=lambda op, value: None)(x) ** 2).sum()
    rows = gt.matrix("rows")
    outputs = [
        graphc.grad(y, x),
        graphc.pushforward(y, x, gt.ones_like(x)),
        graphc.vectorize_graph(y, {x: rows}),
    ]
    f = graphc.function([x, rows], outputs, uncompiled(mode))
    slope, moved, batch = f([1.0, 2.0], [[1.0, 2.0], [3.0, 0.0]])
    assert np.asarray(slope).tolist() == [2.0, 4.0]
    assert float(moved) == 6.0
    assert np.asarray(batch).tolist() == [5.0, 9.0]


def test_equal_prints_are_one_and_others_are_not() -> None:
    assert graphc.Print("a")(x) is graphc.Print("a")(x)
    assert graphc.Print("a")(x) is not graphc.Print("b")(x)
    assert graphc.printing.Print is graphc.Print
