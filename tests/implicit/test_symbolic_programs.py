"""Copies of functions of implicit arrays, programs that are found again, and JAX functions."""

from __future__ import annotations

import importlib
import pickle
import subprocess
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc import In
from graphc.capture import lift, rebuild
from graphc.implicit import materializations, materializing
from graphc.implicit.structures.lora import LoRA
from graphc.ir import TensorType
from tests.disks import python
from tests.implicit.symbolic import Coded, coded, dense, like
from tests.modes import uncompiled

x = gt.matrix("x")
w = gt.implicit(Coded, (4, 3), "float64", name="w")
X, W, V = np.random.default_rng(1).normal(size=(2, 4)), coded(4, 3), coded(4, 3, seed=2)
PRODUCT = X @ dense(W)


def test_functions_go_through_pickle_and_copies(mode: str) -> None:
    s = graphc.shared(W, "s")
    f = graphc.function(
        [x, In(w, value=V)],
        [x @ w, x @ s, s],
        uncompiled(mode),
        updates={s: s * 0.5},
        returns="numpy",
    )
    for other in (pickle.loads(pickle.dumps(f)), deepcopy(f)):
        first, second, third = other(X)
        np.testing.assert_allclose(first, X @ dense(V))
        np.testing.assert_allclose(second, PRODUCT)
        np.testing.assert_allclose(dense(third), dense(W))
        np.testing.assert_allclose(other(x=X, w=W)[1], PRODUCT / 2)
    np.testing.assert_array_equal(dense(s.get_value()), dense(W))


def test_a_plan_shows_fields_and_what_is_done_to_them(mode: str) -> None:
    text = str(graphc.function([x, w], x @ w, uncompiled(mode)).plan())
    assert "w.codes: int8[4, 3]" in text
    assert "Coded" not in text.partition("\n")[2]


def test_other_values_compile_nothing(mode: str) -> None:
    compiled: list[Any] = []
    f = graphc.function([x, w], x @ w, uncompiled(mode))
    f(X, W)
    with graphc.events.subscribe(compiled.append):
        for seed in range(3):
            f(X, coded(4, 3, seed=seed))
    assert not compiled


def test_equal_forms_share_a_program_and_others_do_not() -> None:
    def made(bits: int) -> graphc.Function:
        u = gt.implicit(Coded, (4, 3), "float64", name="u", bits=bits)
        return graphc.function([u], gt.exp(u), mode="NUMPY")

    assert made(8).key == made(8).key
    assert made(8).key != made(4).key
    found = made(4)(Coded(W.codes, W.scale, 4))
    np.testing.assert_allclose(found, np.exp(dense(W)))


def test_why_something_was_compiled_again_names_the_field() -> None:
    types = Coded(TensorType("int8", (None, 3)), TensorType("float64", (3,)))
    u, z = gt.implicit(types, name="u"), gt.matrix("z")
    f = graphc.function([z, u], z @ u, mode="JAX")
    for n in (2, 3):
        f(np.ones((1, n)), coded(n, 3))
    (cause,) = f.stats.causes
    assert "axis 0 of `u.codes`" in cause
    assert "2, 3" in cause


PROGRAM = """
import sys, json
from graphc.compile import cache
cache.WORTH_SAVING = 0.0
rewrites = []
built = cache.lower_program
cache.lower_program = lambda signature: (rewrites.append(1), built(signature))[1]
import numpy as np, graphc, graphc.tensor as gt
from graphc.implicit import materializing
from graphc.implicit.structures.lora import LoRA
graphc.config.recompile = "ignore"
mode, policy = sys.argv[1:]
x = gt.matrix("x")
u = gt.implicit(LoRA, (4, 3), "float64", name="u", rank=2)
value = LoRA(np.ones((4, 3)), np.ones((4, 2)), np.ones((2, 3)))
f = graphc.function([x, u], [x @ u, gt.exp(u * 0.1).sum()], mode=mode, returns="numpy")
found = f(np.ones((2, 4)), value)
print(json.dumps([len(rewrites), [np.sum(y).item() for y in found]]))
"""


@pytest.mark.parametrize("backend", ["NUMPY", pytest.param("JAX", marks=pytest.mark.exhaustive)])
def test_a_later_process_finds_programs_of_graphcs_own_structures(
    backend: str, tmp_path: Path
) -> None:
    def run() -> str:
        done = subprocess.run(
            [*python(PROGRAM), backend, "allow"],
            env={"GRAPHC_CACHE_DIR": str(tmp_path / "cache"), "PATH": ""},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    first, second = run(), run()
    assert first.startswith("[1, ")
    assert second.startswith("[0, ")
    assert first[3:] == second[3:]


# Other ways in.


def test_lift_takes_the_fields_of_captured_arrays() -> None:
    captured = coded(20, 20)
    lifted = lift(lambda z: z @ dense(captured))
    assert set(lifted.stripped.names) == {"captured.codes", "captured.scale"}
    other = coded(20, 20, seed=3)
    by_name = {"captured.codes": other.codes, "captured.scale": other.scale}
    again = rebuild(lifted.stripped, [by_name[name] for name in lifted.stripped.names])
    np.testing.assert_allclose(again(np.ones(20)), np.ones(20) @ dense(other))


def test_a_captured_array_of_another_form_is_another_function() -> None:
    def made(value: Coded) -> Any:
        return lift(lambda z: z @ value).stripped

    assert made(coded(20, 20)) == made(coded(20, 20, seed=3))
    assert made(coded(20, 20)) != made(coded(20, 20, bits=4))


@pytest.mark.parametrize("backend", ["NUMPY", "JAX"])
def test_a_jax_function_takes_one_whole_by_the_policy(backend: str) -> None:
    jnp = importlib.import_module("jax.numpy")
    y = graphc.wrap_jax(lambda a, b: jnp.tanh(a @ b))(x, w)
    with materializations() as report:
        found = graphc.function([x, w], y, backend, returns="numpy")(X, W)
    np.testing.assert_allclose(found, np.tanh(PRODUCT))
    assert [entry.type for entry in report] == ["Coded"]


@pytest.mark.parametrize("backend", ["NUMPY", "JAX"])
def test_a_jax_function_takes_fields_as_an_implicit_array(backend: str) -> None:
    jnp = importlib.import_module("jax.numpy")
    implicit = importlib.import_module("graphc.implicit.functions").implicit
    lora = LoRA(np.ones((4, 3)), np.ones((4, 2)), np.ones((2, 3)))
    u = like(lora, "u")
    y = graphc.wrap_jax(implicit(lambda a, b: jnp.tanh(a @ b)))(x, u.array)
    with materializing("error"):
        f = graphc.function([x, u], [y, graphc.grad(y.sum(), u.array.a)], backend, returns="numpy")
        found, slope = f(X, lora)
    np.testing.assert_allclose(found, np.tanh(X @ dense(lora)))
    assert slope.shape == (4, 2)
