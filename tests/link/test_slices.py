"""Slices between bounds that a call decides: one program for each length, and NumPy's elements."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import RecompileError
from graphc.ir import Graph
from graphc.link.backend import load
from graphc.link.host import analyse
from graphc.link.program import Program
from graphc.link.slices import with_lengths_of_slices
from tests.modes import uncompiled

RANDOM = np.random.default_rng(7)
ROWS = RANDOM.normal(size=(53, 3))

x = gt.matrix("x")
i, j, size = gt.lscalar("i"), gt.lscalar("j"), gt.lscalar("size")
bounds = gt.lvector("bounds")

COMPILED = ("JAX", "MLX")

Case = tuple[Sequence[Any], Callable[..., Any], Sequence[tuple[Any, ...]], int]
"""Symbolic scalars, a function of the rows and these, their values, and how many lengths occur."""

CASES: dict[str, Case] = {
    # 20, 13 and no elements; the last of these start before the first row.
    "batch": (
        [i],
        lambda x, i: x[i * 20 : (i + 1) * 20],
        [(k,) for k in (0, 1, 2, 3, 100, -1, -2, -3, -4, -100)],
        3,
    ),
    "sum": ([i], lambda x, i: i * 20 + x[i * 20 : i * 20 + 20], [(0,), (1,), (2,)], 2),
    "start": ([i], lambda x, i: x[i : i + 20], [(0,), (7,), (33,), (34,), (-20,), (-53,)], 3),
    "negative": ([i], lambda x, i: x[i - 20 : i], [(20,), (37,), (53,), (0,), (-1,)], 2),
    "bounds": ([i, j], lambda x, i, j: x[i:j], [(0, 5), (5, 10), (-10, -5), (9, 4)], 2),
    "size": ([i, size], lambda x, i, b: x[i * b : (i + 1) * b], [(0, 10), (3, 10), (4, 10)], 1),
    "columns": ([i, j], lambda x, i, j: x[i : i + 4, j : j + 2], [(0, 0), (3, 1), (4, 2)], 2),
    "other axes": ([i, j], lambda x, i, j: x[i : i + 4, None, j], [(0, 0), (3, 1)], 1),
    "vector": ([bounds], lambda x, b: x[b[0] : b[1]], [([0, 5],), ([5, 10],), ([48, 60],)], 1),
}


@pytest.mark.parametrize("backend", COMPILED)
@pytest.mark.parametrize("name", CASES)
def test_a_slice_is_compiled_once_for_each_length(name: str, backend: str) -> None:
    scalars, part, values, lengths = CASES[name]
    f = graphc.function([x, *scalars], part(x, *scalars), backend, returns="numpy")
    for given in values:
        np.testing.assert_array_equal(f(ROWS, *given), part(ROWS, *given))
    assert f.stats.compiles + f.stats.loads == lengths


@pytest.mark.parametrize("backend", COMPILED)
def test_a_slice_of_shared_rows_moves_with_a_shared_counter(backend: str) -> None:
    data, k = graphc.shared(ROWS), graphc.shared(0)
    mean = gt.exp(data)[k * 20 : (k + 1) * 20].mean(0)
    f = graphc.function([], mean, backend, updates=[(k, k + 1)], returns="numpy")
    for batch in range(3):
        np.testing.assert_allclose(f(), np.exp(ROWS[batch * 20 :][:20]).mean(0), 1e-5)
    assert f.stats.compiles + f.stats.loads == 2


def test_jax_reads_and_writes_a_slice_by_dynamic_slices() -> None:
    part = slice(i * 20, (i + 1) * 20)
    outputs = [gt.cos(x)[part], gt.set_subtensor(x[part], 7.0)]
    graph = load("JAX").prepare(Graph([x, i], outputs), {})
    program = Program(graph, load("JAX"), analyse(graph))

    def run(rows: Any, k: Any) -> list[Any]:
        with with_lengths_of_slices([20]):
            return program.trace(rows, k)

    names = {equation.primitive.name for equation in jax.make_jaxpr(run)(ROWS, 1).eqns}
    assert {"dynamic_slice", "dynamic_update_slice"} <= names
    assert not names & {"gather", "scatter"}


def replaced_part(x: Any, i: int) -> Any:
    y = x.copy()
    y[i * 20 : (i + 1) * 20, 1] = 7
    return y


def slope_of_part(x: Any, i: int) -> Any:
    y = np.zeros_like(x)
    y[i * 20 : (i + 1) * 20] = 3 * x[i * 20 : (i + 1) * 20] ** 2
    return y


@pytest.mark.parametrize("backend", COMPILED)
@pytest.mark.parametrize(
    ("symbolic", "wanted"),
    [
        (gt.set_subtensor(x[i * 20 : (i + 1) * 20, 1], 7.0), replaced_part),
        (graphc.grad((x[i * 20 : (i + 1) * 20] ** 3).sum(), x), slope_of_part),
    ],
    ids=["set", "gradient"],
)
def test_a_slice_is_written_as_it_is_read(symbolic: Any, wanted: Any, backend: str) -> None:
    f = graphc.function([x, i], symbolic, backend, returns="numpy")
    for k in (0, 1, 2, 3, -1):
        np.testing.assert_allclose(f(ROWS, k), wanted(ROWS, k))
    assert f.stats.compiles + f.stats.loads == 3


@pytest.mark.parametrize("backend", COMPILED)
@pytest.mark.parametrize("dtype", ["int8", "int32", "uint8"])
def test_bounds_of_a_slice_have_any_integer_dtype(dtype: str, backend: str) -> None:
    k = gt.scalar("k", dtype=dtype)
    f = graphc.function([x, k], x[k : k + 4], uncompiled(backend), returns="numpy")
    for start in (0, 30, 51):
        np.testing.assert_array_equal(f(ROWS, np.dtype(dtype).type(start)), ROWS[start:][:4])


@pytest.mark.parametrize("backend", COMPILED)
def test_an_index_that_is_a_number_of_steps_too_moves_a_slice(backend: str) -> None:
    grown = graphc.scan(lambda h: 1.5 * h, outputs_info=x[i : i + 4], n_steps=i)[-1]
    f = graphc.function([x, i], grown, backend, returns="numpy")
    for k in (1, 3, 9, 2, 4, 51, 5, 6):
        np.testing.assert_allclose(f(ROWS, k), ROWS[k : k + 4] * 1.5**k)


def test_padded_lengths_leave_slices_to_masks() -> None:
    f = graphc.function([x, i], x[i : i + 4].sum(0), graphc.Mode("JAX", lengths="buckets"))
    for rows, k in ((53, 0), (50, 3), (41, 39)):
        np.testing.assert_allclose(np.asarray(f(ROWS[:rows], k)), ROWS[:rows][k : k + 4].sum(0))


PROCESS = """
import sys, numpy as np, graphc, graphc.tensor as gt
x, i = gt.matrix("x"), gt.lscalar("i")
f = graphc.function([x, i], gt.cos(x)[i * 4 : (i + 1) * 4], mode="JAX", returns="numpy")
rows = np.arange(54.0).reshape(18, 3)
for k in range(5):
    np.testing.assert_allclose(f(rows, k), np.cos(rows)[k * 4 : (k + 1) * 4])
print(f.stats.compiles, f.stats.loads)
"""


def test_programs_of_slices_are_loaded_by_another_process(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROCESS]
    environment = {"GRAPHC_CACHE_DIR": str(tmp_path), "JAX_PLATFORMS": "cpu"}
    runs = [
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert [run.stdout.strip() for run in runs] == ["2 0", "0 2"]


def test_the_remedy_for_a_value_that_recompiles_keeps_the_data() -> None:
    f = graphc.function([x, i], x[: i + 1].sum(0), graphc.Mode("MLX", recompile="raise"))
    with pytest.raises(RecompileError, match=r"write x\[i \+ gt\.arange\(n\)\] with one n"):
        [f(ROWS, k) for k in range(12)]


@pytest.mark.parametrize("backend", COMPILED)
def test_a_plan_says_that_an_index_decides_the_length_of_a_slice(backend: str) -> None:
    f = graphc.function([x, i, j], [x[i : i + 4], gt.zeros(j)], backend)
    lines = str(f.plan()).split("\n")
    assert "a slice: one executable for each length" in next(y for y in lines if "= i:" in y)
    assert "a shape: one executable for each value" in next(y for y in lines if "= j:" in y)
