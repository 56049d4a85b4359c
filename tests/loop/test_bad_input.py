"""Wrong loops: each is refused with the loop's name, what is wrong, the way out, and the line."""
# ruff: noqa: E501, C408 (a row is a line, and written as such scripts are)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc import loop, scan, until, while_loop
from graphc.errors import (
    ArgumentError,
    DTypeError,
    GraphcError,
    MissingInputError,
    ShapeError,
    SymbolicValueError,
)

x, y, m = gt.vector("x"), gt.vector("y"), gt.matrix("m")
s, single, n = gt.scalar("s"), gt.fscalar("single"), gt.lscalar("n")
x3, x5 = gt.vector("x3", shape=(3,)), gt.vector("x5", shape=(5,))
w = graphc.shared(np.ones(3), name="w")

Row = tuple[Callable[..., Any], type[GraphcError], tuple[str, ...]]


def same(*given: Any) -> Any:
    """A step that changes nothing."""
    return given[-1]


def leaked() -> Any:
    """What a step was given, taken out of it."""
    kept: list[Any] = []
    scan(lambda x_t: kept.append(x_t) or x_t, x)
    return kept[0] + 1


# fmt: off
BUILT: list[Row] = [
    # What a step takes and returns.
    (lambda: scan(lambda a, b: a, x, name="filter"), ArgumentError, ("filter: the step", "x[t]", "missing a required argument: 'b'", "past outputs")),
    (lambda: scan(3, x), ArgumentError, ("scan: the step 3 is not a function",)),
    (lambda: scan(same, outputs_info=[s, None], n_steps=3), ArgumentError, ("scan: a step returns 1 output, and outputs_info has 2 entries", "None for one")),
    (lambda: scan(lambda a: [a, a], x, [None]), ArgumentError, ("a step returns 2 outputs, and outputs_info has 1 entry",)),
    (lambda: scan(lambda a: None, x), ArgumentError, ("scan: the output 0 of a step is None", "symbolic arrays")),
    (lambda: scan(lambda a: [a, "q"], x), ArgumentError, ("scan: the output 1 of a step is 'q'",)),
    (lambda: scan(lambda h: (until(h > 1), h), outputs_info=s, n_steps=2), ArgumentError, ("until(s[t-1] > 1.0: bool[])", "The order is outputs, updates, until")),
    (lambda: scan(lambda h: h if h > 1 else -h, outputs_info=s, n_steps=2), SymbolicValueError, ("truth value", "gt.where")),
    (lambda: scan(lambda h: (h, until(h)), outputs_info=x, n_steps=2), DTypeError, ("float64[?] is not a bool scalar", "Compare")),
    (lambda: scan(lambda h: (h, until(h > 1)), outputs_info=x, n_steps=2), DTypeError, ("bool[?] is not a bool scalar", "gt.any")),
    # Carries that change.
    (lambda: scan(lambda h: h * s, outputs_info=single, n_steps=3, name="decay"), DTypeError, ("decay: the carry 0 (single[t-1]) begins as float32[], and a step makes it float64[]", "begin as float64, or cast the result: .astype('float32')")),
    (lambda: scan(lambda h: h * 1.5, outputs_info=gt.constant(1), n_steps=3), DTypeError, ("(output 0[t-1]) begins as int64[], and a step makes it float64[]", "begin as float64")),
    (lambda: scan(lambda row, h: h + row, m, s), ShapeError, ("the carry 0 (s[t-1]) begins as float64[], and a step makes it float64[?]", "its shape changes")),
    (lambda: scan(lambda h: gt.concatenate([h, h]), outputs_info=x3, n_steps=2), ShapeError, ("begins as float64[3], and a step makes it float64[6]",)),
    (lambda: scan(lambda h: h.astype("float32"), outputs_info=dict(initial=x, taps=[-12]), n_steps=2), DTypeError, ("(x[t-12:t])", "float64", "float32")),
    (lambda: loop(lambda c, _: (c * s, c), single, n_steps=9, name="decay"), DTypeError, ("decay: the carry 0 (single) begins as float32[]", "float64[]")),
    (lambda: while_loop(lambda c: c > 1, lambda c: c > 2, s), DTypeError, ("while_loop: the carry 0 (s) begins as float64[], and a step makes it bool[]",)),
    # How many steps.
    (lambda: scan(same, outputs_info=s), ArgumentError, ("scan: neither a sequence nor n_steps", "Give n_steps")),
    (lambda: scan(lambda h: (h, until(h > 1)), outputs_info=s), ArgumentError, ("neither a sequence nor n_steps", "the most there can be", "until")),
    (lambda: scan(same, outputs_info=s, n_steps=-1, name="f"), ArgumentError, ("f: n_steps=-1", "from 0 on")),
    (lambda: scan(same, outputs_info=s, n_steps=2.0), DTypeError, ("n_steps=2.0", "Give an integer")),
    (lambda: scan(same, outputs_info=s, n_steps=True), DTypeError, ("n_steps=True",)),
    (lambda: scan(same, outputs_info=s, n_steps=s), DTypeError, ("n_steps=s: float64[]", ".astype('int64')")),
    (lambda: scan(same, outputs_info=s, n_steps=gt.lvector("k")), DTypeError, ("n_steps=k: int64[?]",)),
    (lambda: scan(same, x3, n_steps=5), ShapeError, ("scan: the sequence 0 (x3) has elements for 3 steps, and there are 5", "smaller n_steps")),
    (lambda: scan(same, [x, dict(input=x5, taps=[-1, 1])], n_steps=5), ShapeError, ("the sequence 1 (x5) has elements for 3 steps with the taps [-1, 1]",)),
    (lambda: loop(same, s), ArgumentError, ("loop: neither xs nor n_steps", "until=... and max_steps")),
    (lambda: loop(lambda c, z: (c, c), s, (x3, x5)), ShapeError, ("loop: the sequence 1 (x5) has 5 elements for 3 steps", "x[:3]")),
    (lambda: loop(lambda c, z: (c, c), s, x3, n_steps=2), ShapeError, ("the sequence 0 (x3) has 3 elements for 2 steps",)),
    (lambda: loop(lambda c, _: (c, c), s, until=lambda c: c > 1), ArgumentError, ("loop: rows are stacked", "max_steps=...")),
    (lambda: loop(lambda c, _: (c, c), s, max_steps=3), ArgumentError, ("max_steps=3 without until", "n_steps alone")),
    (lambda: loop(lambda c, _: (c, c), s, n_steps=2, until=lambda c: c > 1, max_steps=3), ArgumentError, ("max_steps=3 and n_steps",)),
    (lambda: while_loop(lambda c: c > 1, lambda c: c, s, max_steps=-2), ArgumentError, ("while_loop: max_steps=-2",)),
    # Sequences, states and taps.
    (lambda: scan(same, s), ShapeError, ("the sequence 0 (s) is a scalar", "non-sequence")),
    (lambda: scan(same, dict(input=x, tap=0)), ArgumentError, ("the sequence 0 has the keys 'tap'", "'input', 'taps'")),
    (lambda: scan(same, dict(taps=0)), ArgumentError, ("the sequence 0 is {'taps': 0}", "dict(input=array, taps=[...])")),
    (lambda: scan(same, "abc"), ArgumentError, ("the sequence 0 is 'abc', not an array",)),
    (lambda: scan(same, outputs_info="abc", n_steps=2), ArgumentError, ("the output 0 is 'abc', not an array",)),
    (lambda: scan(same, dict(input=x, taps=[])), ArgumentError, ("the sequence 0 (x) has the taps []", "distinct integers")),
    (lambda: scan(same, outputs_info=dict(initial=x3, taps=[-4, -1]), n_steps=5), ShapeError, ("the output 0 (x3) reads 4 steps back", "float64[3]", "Give 4 values as its rows, the oldest first")),
    (lambda: scan(same, outputs_info=dict(initial=s, taps=[-2]), n_steps=5), ShapeError, ("the output 0 (s) reads 2 steps back", "float64[]")),
    (lambda: scan(same, outputs_info=dict(initial=x3, taps=[-2, 0]), n_steps=5), ArgumentError, ("has the taps [-2, 0]", "negative")),
    (lambda: scan(same, outputs_info=dict(initial=x3, taps=[-2, -2]), n_steps=5), ArgumentError, ("has the taps [-2, -2]", "distinct")),
    (lambda: scan(same, outputs_info=dict(initial=x3, taps=[-1.5]), n_steps=5), ArgumentError, ("has the taps [-1.5]", "integers")),
    (lambda: scan(same, outputs_info=dict(initial=x3, tap=[-2]), n_steps=5), ArgumentError, ("the output 0 has the keys 'tap'", "'initial', 'taps', 'traced'")),
    (lambda: scan(same, outputs_info=[s, dict(taps=[-2])], n_steps=5), ArgumentError, ("the output 1 has the taps [-2] and no initial value",)),
    (lambda: scan(same, outputs_info=dict(initial=s, traced=3), n_steps=9), ArgumentError, ("traced=3",)),
    (lambda: scan(same, outputs_info=dict(traced=False), n_steps=9), ArgumentError, ("traced=False, and the initial value None",)),
    # Shared variables.
    (lambda: scan(lambda h: h * w, outputs_info=x3, n_steps=2, strict=True), ArgumentError, ("a step uses w: float64[?], and strict=True", "non_sequences")),
    (lambda: scan(lambda x_t: [], x), ArgumentError, ("scan: a step returns [], and so nothing", "Return an array")),
    (lambda: scan(lambda h: until(h > 1), x), ArgumentError, ("a step returns until", "Return an array")),
    (lambda: scan(lambda: {w: w + 1}, n_steps=2), ArgumentError, ("a step updates w: float64[?]", "return_updates=True")),
    (lambda: scan(lambda: {x: x + 1}, n_steps=2), ArgumentError, ("a step updates x: float64[?], which is not a shared variable", "outputs_info")),
    (lambda: scan(lambda: {w: w.astype("int64")}, n_steps=2, return_updates=True), DTypeError, ("(w) begins as float64[?], and a step makes it int64[?]",)),
    # Other arguments.
    (lambda: scan(same, outputs_info=s, n_steps=2, mode="JAX"), ArgumentError, ("scan: mode='JAX'", "compiled with the function")),
    (lambda: scan(same, outputs_info=s, n_steps=2, profile=True), ArgumentError, ("profile=True", "f.plan()")),
    (lambda: scan(same, outputs_info=s, n_steps=2, name=3), ArgumentError, ("the name 3 is not a string",)),
    (lambda: scan(same, outputs_info=s, n_steps=2, truncate_gradient=-3), ArgumentError, ("truncate_gradient=-3", "-1 for all")),
    (lambda: scan(same, outputs_info=s, n_steps=2, unroll=0), ArgumentError, ("unroll=0", "from 1 on")),
    (lambda: scan(same, outputs_info=s, n_steps=2, checkpoint=0), ArgumentError, ("checkpoint=0", "'sqrt'")),
    (lambda: scan(same, outputs_info=s, n_steps=2, checkpoint="log"), ArgumentError, ("checkpoint='log'",)),
    (lambda: scan(same, outputs_info=s, n_steps=9, checkpoint=3, truncate_gradient=2), ArgumentError, ("both checkpoint= and truncate_gradient",)),
    (lambda: scan(lambda h: (h, until(h > 1)), outputs_info=s, n_steps=9, checkpoint=3), ArgumentError, ("both checkpoint= and until", "known before")),
    (lambda: loop(lambda c, _: (c, c), s, n_steps=9, until=lambda c: c > 1, checkpoint=3), ArgumentError, ("both checkpoint= and until=",)),
    # Containers.
    (lambda: loop(lambda c: (c, c), s, n_steps=2), ArgumentError, ("loop: the step", "2 arguments", "the carry, an element of xs or None")),
    (lambda: while_loop(lambda c: c > 1, lambda: s, s), ArgumentError, ("while_loop: the body <lambda> does not take 1 argument", "the carry")),
    (lambda: while_loop(lambda c, d: c > 1, lambda c, d: (c, d), (s, s)), ArgumentError, ("while_loop: the body", "missing a required argument: 'd'")),
    (lambda: while_loop(s > 1, lambda c: c, s), ArgumentError, ("while_loop: the condition s > 1.0: bool[]", "is not a function")),
    (lambda: loop(lambda c, z: (c, c), s, x, until=s > 1), ArgumentError, ("loop: the condition s > 1.0: bool[]", "is not a function")),
    (lambda: loop(lambda c, z: ({"a": c["a"] + z, "b": c["b"] + z}, None), {"a": s, "b": n}, x), DTypeError, ("loop: the carry 1 (carry['b']) begins as int64[]",)),
    (lambda: scan("f", x), ArgumentError, ("scan: the step 'f' is not a function", "elements of the sequences")),
    (lambda: graphc.function([x], leaked()), MissingInputError, ("x[t]: float64[], which exists only inside the step of a loop", "Return it from the step")),
    (lambda: loop(lambda c, z: c, s, x), ArgumentError, ("loop: a step returns s: float64[]", "Return a pair")),
    (lambda: loop(lambda c, z: ((c, c), c), s, x), ArgumentError, ("another structure",)),
    (lambda: loop(lambda c, z: (c[0], c), (s, s), x), ArgumentError, ("another structure", "expected a sequence of 2")),
    (lambda: loop(lambda c, z: ({"b": 1.0}, c), {"a": s}, x), ArgumentError, ("expected a dict with the keys ['a'], got ['b']", "same keys")),
    (lambda: loop(lambda c, z: (c, c), s, s), ShapeError, ("a sequence is a scalar",)),
    (lambda: loop(lambda c, z: (c, c), s, "abc"), ArgumentError, ("'abc' in a sequence is not an array",)),
    (lambda: loop(lambda c, z: (c, c), s, n_steps=9, until=lambda c: c), DTypeError, ("loop: the condition s: float64[] is not a bool scalar",)),
    (lambda: while_loop(lambda c: c, lambda c: c, s), DTypeError, ("while_loop: the condition s: float64[] is not a bool scalar",)),
    (lambda: while_loop(lambda c: c > 1, lambda c: (c, c), s), ArgumentError, ("while_loop: the carry after a step has another structure",)),
]

RUN: list[tuple[Callable[..., Any], dict[Any, Any], tuple[str, ...]]] = [
    (lambda: scan(lambda x_t: x_t * 2, x, n_steps=5), {x: np.ones(3)}, ("scan: the sequence 0 (x), for n_steps", "(3,)", "(5,)")),
    (lambda: scan(lambda x_t: x_t * 2, x, n_steps=n), {x: np.ones(3), n: 5}, ("scan: the sequence 0 (x)", "(3,)", "(5,)")),
    (lambda: scan(lambda x_t: x_t * 2, x, n_steps=n, go_backwards=True), {x: np.ones(3), n: 4}, ("scan: the sequence 0 (x)", "(3,)", "(4,)")),
    (lambda: scan(lambda x_t: x_t * 2, x, n_steps=n), {x: np.ones(3), n: -1}, ("the length -1 is negative",)),
    (lambda: scan(gt.sin, outputs_info=1.0, n_steps=n, name="f"), {n: -1}, ("f: -1 steps", "from 0 on")),
    (lambda: scan(lambda h: h * 2, outputs_info=dict(initial=x, taps=[-3]), n_steps=2), {x: np.ones(2)}, ("scan: the output 0 (x), its initial values", "(2,)", "(3,)")),
    (lambda: loop(lambda c, z: (c, c + z[0] * z[1]), 0.0, (x, y))[1], {x: np.ones(3), y: np.ones(2)}, ("loop: the sequence 1 (y)", "(2,)", "(3,)")),
    (lambda: scan(lambda x_t, h: gt.concatenate([h, x_t[None]]), x, y, name="growing"), {x: np.ones(3), y: np.ones(2)}, ("growing: the carry 0 has the shape (2,) before a step, and (3,) after it",)),
]
# fmt: on


@pytest.mark.parametrize(("build", "kind", "words"), BUILT)
def test_a_wrong_loop_is_refused_when_it_is_built(
    build: Callable[..., Any], kind: type[GraphcError], words: tuple[str, ...]
) -> None:
    with pytest.raises(kind) as caught:
        build()
    message = str(caught.value)
    for word in words:
        assert word in message
    assert "test_bad_input.py:" in message


@pytest.mark.parametrize(("build", "given", "words"), RUN)
def test_what_does_not_fit_is_told_when_it_runs(
    build: Callable[..., Any], given: dict[Any, Any], words: tuple[str, ...], mode: str
) -> None:
    f = graphc.function(list(given), build(), mode=mode)
    with pytest.raises(GraphcError) as caught:
        f(*given.values())
    message = str(caught.value)
    for word in words:
        assert word in message
    assert "test_bad_input.py:" in message
