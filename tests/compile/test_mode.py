"""Modes, settings and plans: where a function runs, and what it says of that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, ModeError
from graphc.link import names
from graphc.rewrite.passes import select_rules
from tests.modes import dtype_of

x = gt.vector("x")
ONES = np.ones(3)


# Modes.


def test_a_mode_is_a_name_or_a_mode(mode: str) -> None:
    for given in (mode, graphc.Mode(mode), graphc.get_mode(mode)):
        f = graphc.function([x], x + 1, mode=given)
        assert f.mode == graphc.Mode(mode)
        np.testing.assert_array_equal(np.asarray(f(ONES)), ONES + 1)


def test_the_default_mode_is_jax() -> None:
    assert graphc.config.mode == "JAX"
    assert graphc.function([x], x).mode.name == "JAX"


def test_the_setting_is_the_default_mode(mode: str) -> None:
    with graphc.config.change_flags(mode=mode):
        assert graphc.function([x], x).mode.name == mode
        assert graphc.get_mode(None).name == mode
    plain = graphc.Mode(mode, excluding=["stabilize"])
    with graphc.config.change_flags(mode=plain):
        assert graphc.function([x], x).mode == plain
        assert gt.log(1 + x).eval({x: [1e-20]}).tolist() == [0.0]


@pytest.mark.parametrize("wrong", ["numpy", "FAST_RUN", "", "no such"])
def test_an_unknown_mode_names_those_there_are(wrong: str) -> None:
    with pytest.raises(ModeError, match=", ".join(names())):
        graphc.function([x], x, mode=wrong)


@pytest.mark.parametrize("wrong", [3, np.ones, ["JAX"]])
def test_a_mode_is_nothing_else(wrong: Any) -> None:
    with pytest.raises(ModeError, match=r"a name or a graphc\.Mode"):
        graphc.function([x], x, mode=wrong)


@pytest.mark.parametrize(
    "excluded", ["stabilize", ["stabilize"], ["log_of_one_plus"]], ids=["text", "pass", "rule"]
)
def test_rewrites_can_be_left_out(excluded: Any, mode: str) -> None:
    plain = graphc.Mode(mode, excluding=excluded)
    y = gt.log(1 + x)
    tiny = np.array([1e-20])
    assert float(graphc.function([x], y, mode=plain)(tiny)[0]) == 0.0
    assert float(graphc.function([x], y, mode=mode)(tiny)[0]) == 1e-20


SELECTIONS: dict[str, tuple[Callable[[graphc.Mode], graphc.Mode], float]] = {
    "nothing said": (lambda mode: mode, 1e-20),
    "a pass left out": (lambda mode: mode.excluding("stabilize"), 0.0),
    "a rule left out": (lambda mode: mode.excluding("product_with_one", "log_of_one_plus"), 0.0),
    "a subject left out": (lambda mode: mode.excluding("exponential"), 0.0),
    "everything left out": (lambda mode: mode.excluding("all"), 0.0),
    "taken back": (lambda mode: mode.excluding("stabilize").including("stabilize"), 1e-20),
    "a rule of a pass left out": (
        lambda mode: mode.excluding("stabilize").including("log_of_one_plus"),
        1e-20,
    ),
    "one pass alone": (lambda mode: mode.excluding("all").including("stabilize"), 1e-20),
    "another pass alone": (lambda mode: mode.excluding("all").including("canonicalize"), 0.0),
    "one rule alone": (lambda mode: mode.change(including="log_of_one_plus"), 1e-20),
    "nothing alone": (lambda mode: mode.change(including=()), 0.0),
    "a rule less of one pass alone": (
        lambda mode: mode.change(including=["stabilize"]).excluding("log_of_one_plus"),
        0.0,
    ),
    "a pass less of one subject alone": (
        lambda mode: mode.change(including=["exponential"]).excluding("stabilize"),
        0.0,
    ),
}


@pytest.mark.parametrize(("choose", "expected"), SELECTIONS.values(), ids=SELECTIONS)
def test_the_narrower_name_decides_which_rewrites_are_applied(
    choose: Callable[[graphc.Mode], graphc.Mode], expected: float, mode: str
) -> None:
    chosen = choose(graphc.get_mode(mode))
    tiny = np.array([1e-20])
    assert float(graphc.function([x], gt.log(1 + x), mode=chosen)(tiny)[0]) == expected
    # An evaluation by another mode before it leaves nothing behind.
    assert float(gt.log(1 + x).eval({x: tiny}, mode=chosen)[0]) == expected


def test_a_mode_stays_as_it_is() -> None:
    mode = graphc.Mode("JAX", device="cpu")
    changed = mode.excluding("stabilize").including("log_of_one_plus")
    assert mode == graphc.Mode("JAX", device="cpu")
    assert changed.options == mode.options
    assert changed.excluded == {"stabilize"}
    assert changed.included == {"all", "log_of_one_plus"}
    wanted = "Mode('JAX', excluding=['stabilize'], including=['all', 'log_of_one_plus']"
    assert repr(changed) == f"{wanted}, device='cpu')"


@pytest.mark.parametrize("method", ["excluding", "including"])
def test_a_misspelt_rewrite_is_named_with_the_nearest(method: str) -> None:
    with pytest.raises(ArgumentError, match=r"'stabilise'.*\n.*'stabilize'"):
        getattr(graphc.get_mode("NUMPY"), method)("stabilise")
    with pytest.raises(ArgumentError, match=r"'stabilise'.*\n.*'stabilize'"):
        graphc.Mode("NUMPY", **{method: ["stabilise"]})


def test_a_rewrite_that_is_not_there_cannot_be_left_out(mode: str) -> None:
    with pytest.raises(ArgumentError, match="log_of_one_plsu"):
        graphc.function([x], x, mode=graphc.Mode(mode, excluding=["log_of_one_plsu"]))


def test_an_unknown_option_names_those_there_are() -> None:
    with pytest.raises(ModeError, match=r"no option nonsense.*\n.*check_nan, device, fallback"):
        graphc.Mode("JAX", nonsense=1)
    with pytest.raises(ModeError, match=r"It has check, .*recompile, returns"):
        graphc.Mode("NUMPY", device="cpu")


def test_the_fallback_is_numpy() -> None:
    with pytest.raises(ModeError, match="fallback='torch'"):
        graphc.Mode("JAX", fallback="torch")


@pytest.mark.parametrize("device", ["cpu", "cpu:0", jax.devices("cpu")[0]])
def test_a_mode_may_name_a_device(device: Any) -> None:
    w = graphc.shared(ONES)
    mode = graphc.Mode("JAX", device=device, returns="native")
    f = graphc.function([x], x + w, updates=[(w, w * 2)], mode=mode)
    f(ONES)
    y = f(ONES)
    assert y.devices() == {jax.devices("cpu")[0]}
    np.testing.assert_array_equal(np.asarray(y), ONES * 3)


@pytest.mark.parametrize("device", ["nonsense", "cpu:99", "cpu:x"])
def test_a_device_that_is_not_there_names_those_that_are(device: str) -> None:
    with pytest.raises(ModeError, match=rf"device='{device}'.*\n.*It has .*:0"):
        graphc.function([x], x, mode=graphc.Mode("JAX", device=device))


def test_change_gives_another_mode() -> None:
    first = graphc.Mode("JAX", excluding="stabilize")
    second = first.change(device="cpu")
    assert repr(first) == "Mode('JAX', excluding=['stabilize'])"
    assert repr(second) == "Mode('JAX', excluding=['stabilize'], device='cpu')"
    assert second.change(excluding=()) == graphc.Mode("JAX", device="cpu")


# Settings.


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("floatX", "float128", ValueError),
        ("specializations", 0, ValueError),
        ("specializations", True, ValueError),
        ("specializations", 1.5, ValueError),
        ("programs", 0, ValueError),
        ("cache_bytes", 1e9, ValueError),
        ("cache_dir", 3, ValueError),
        ("cache_dir", "", ValueError),
        ("recompile", "error", ValueError),
        ("traceback", "long", ValueError),
        ("recompile", None, ValueError),
        ("warn_on_captured_constants", 1, ValueError),
        ("nonsense", 1, AttributeError),
    ],
)
def test_a_wrong_setting_is_refused_and_changes_nothing(
    name: str, value: Any, error: type[Exception]
) -> None:
    before = {key: getattr(graphc.config, key) for key in graphc.config.__slots__}
    with pytest.raises(error):
        setattr(graphc.config, name, value)
    with (
        pytest.raises(error),
        graphc.config.change_flags(mode="NUMPY", **{name: value}),
    ):
        pass
    assert {key: getattr(graphc.config, key) for key in graphc.config.__slots__} == before


def test_settings_come_back_after_an_error() -> None:
    with pytest.raises(KeyError), graphc.config.change_flags(floatX="float32"):
        raise KeyError
    assert graphc.config.floatX == "float64"


def test_floatx_is_the_dtype_of_what_has_none(mode: str) -> None:
    with graphc.config.change_flags(floatX="float32"):
        v = gt.vector("v")
        f = graphc.function([v], v * 2.0 + gt.zeros(3), mode=mode)
        assert dtype_of(f([1.0, 2.0, 3.0])) == "float32"


# Plans.


def test_a_plan_tells_steps_types_lines_and_rewrites(mode: str) -> None:
    n = gt.lscalar("n")
    w = graphc.shared(1.0, name="w")
    y = gt.log(1 + x[:n]) * w
    data = np.arange(10.0)
    f = graphc.function([x, n], [y, x @ data], updates=[(w, w + 1)], mode=mode, name="step")
    text = str(f.plan())
    assert text.startswith(f"function step in mode {mode}: ")
    for part in (
        "x: float64[?]",
        "w: float64[]   (shared)",
        "array: float64[10]   (array)",
        "log1p(",
        "test_mode.py:",
        "  return ",
        "  keep ",
        "rewritten: canonicalize ",
    ):
        assert part in text
    assert ("decides a shape: one executable for each value" in text) == (mode != "NUMPY")


def test_a_plan_tells_the_library_and_its_device() -> None:
    assert f"NumPy {np.__version__}" in str(graphc.function([x], x, mode="NUMPY").plan())
    text = str(graphc.function([x], x, mode=graphc.Mode("JAX", device="cpu")).plan())
    assert f"JAX {jax.__version__}, on cpu:0" in text


def test_a_plan_of_no_outputs_can_be_told(mode: str) -> None:
    assert "  return\n" in str(graphc.function([], mode=mode).plan())


def test_a_misspelt_pass_is_refused_by_the_mode() -> None:
    with pytest.raises(ArgumentError, match="canonicalise"):
        graphc.Mode("NUMPY", excluding=["canonicalise"])


@pytest.mark.parametrize("names", [["all"], ["specialize"], ["loop"], ["linear_recurrence"]])
def test_what_a_backend_gains_from_is_left_out_with_what_it_is_part_of(names: list[str]) -> None:
    for mode in (graphc.Mode("MLX", excluding=names), graphc.get_mode("MLX").excluding(*names)):
        x, h = gt.vector("x"), gt.scalar("h")
        f = graphc.function([x, h], graphc.scan(lambda x_t, h: 2 * h + x_t, x, h), mode)
        assert "linear_recurrence" not in {
            rule.name for rule in select_rules(mode.excluded, mode.included)
        }
        np.testing.assert_array_equal(np.asarray(f([1.0, 2.0], 3.0)), [7.0, 16.0])
    assert "linear_recurrence" in graphc.Mode("MLX").included
    assert repr(graphc.Mode("MLX")) == "Mode('MLX')"


def test_a_plan_tells_of_each_loop_what_it_carries_and_stores_and_what_left_it(mode: str) -> None:
    x, h, w = gt.tensor(shape=(9, 4, 2)), gt.tensor(shape=(4, 3)), gt.matrix("w")
    states = graphc.scan(
        lambda x_t, h: gt.tanh(h @ w[:3] + x_t @ w[3:]), x, outputs_info=h, name="net"
    )
    f = graphc.function([x, h, w], graphc.grad(states[-1].sum(), w), mode=mode)
    text = str(f.plan())
    for part in (
        "net: 9 steps, from the start",
        "net: 9 steps, from the end",
        "carries float64[4, 3]",
        "for its gradient: float64[9, 4, 3], 864 bytes",
        "each takes #0: float64[4, 3]",
        "product_before_loop: ",
    ):
        assert part in text


def test_a_plan_tells_when_a_loop_ends(mode: str) -> None:
    n = gt.lscalar("n")
    until = graphc.scan(lambda y: (2 * y, graphc.until(2 * y > 9)), outputs_info=1.0, n_steps=n)
    text = str(graphc.function([n], until[-1], mode=mode).plan())
    assert "scan: until it stops, at most a0 steps, from the start" in text
