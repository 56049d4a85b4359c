"""Graphs print as trees and as lines that a reader of NumPy knows."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, BoundsError, ShapeError
from graphc.ir import Graph, dprint, pprint, preview
from tests.reference import evaluate

x, y = gt.vector("x"), gt.vector("y")


def test_a_shared_node_is_printed_once() -> None:
    a = gt.exp(x)
    assert dprint(a * a + gt.sin(a), file="str") == "\n".join(
        [
            "add float64[x.0] [id A]",
            " ├─ sin float64[x.0] [id B]",
            " │   └─ exp float64[x.0] [id C]",
            " │       └─ x float64[?] [id D]",
            " └─ multiply float64[x.0] [id E]",
            "     ├─ exp float64[x.0] [id C] ...",
            "     └─ exp float64[x.0] [id C] ...",
        ]
    )


def test_parameters_are_printed_with_the_operation() -> None:
    text = dprint(x[None, 1:].sum(axis=0), file="str")
    assert text is not None
    assert text.splitlines()[0] == "sum{axes=(0,)} float64[max(x.0 - 1, 0)] [id A]"


def test_outputs_share_their_ids() -> None:
    a = gt.exp(x)
    text = dprint(Graph([x], [a, a + x]), file="str")
    assert text is not None
    assert text.count("exp float64[x.0] [id A]") == 2
    assert text.count("[id B]") == 2


def test_a_name_that_was_set_stands_behind_the_id() -> None:
    y = gt.exp(gt.scalar("x"))
    y.name = "rate"
    assert dprint(y + 1, file="str").splitlines()[2] == " └─ exp float64[] [id C] 'rate'"
    assert pprint(y + 1) == "exp(x) + 1.0"


def test_a_tree_can_be_cut_at_a_depth() -> None:
    text = dprint(gt.exp(gt.sin(gt.cos(x))), depth=2, file="str")
    assert text is not None
    assert [line.strip(" └─").split()[0] for line in text.splitlines()] == ["exp", "sin"]


def test_a_tree_is_written_to_a_file() -> None:
    file = io.StringIO()
    assert dprint([x, y], file=file) is None
    assert file.getvalue() == "x float64[?] [id A]\ny float64[?] [id B]\n"


def test_a_tree_is_written_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    dprint(x)
    assert capsys.readouterr().out == "x float64[?] [id A]\n"


def test_a_deep_tree_goes_on_from_a_new_root() -> None:
    a = x
    for _ in range(100):
        a = gt.sin(a)
    text = dprint(a, file="str")
    assert text is not None
    lines = text.splitlines()
    assert len([line for line in lines if "continued below" in line]) == 2
    assert max(map(len, lines)) < 250


LINES: dict[str, tuple[Callable[[], Any], str]] = {
    "sums and products": (lambda: (x + y) * x - x * y, "x * (x + y) - x * y"),
    "differences to the right": (lambda: x - (y - x), "x - (y - x)"),
    "differences to the left": (lambda: (x - y) - x, "x - y - x"),
    "powers": (lambda: x**2 / y, "x ** 2.0 / y"),
    "a negated sum": (lambda: -(x + y), "-(x + y)"),
    "a power of a negation": (lambda: (-x) ** y, "(-x) ** y"),
    "a negated power": (lambda: -(x**y), "-x ** y"),
    "a power of a power": (lambda: (x**y) ** x, "(x ** y) ** x"),
    "powers of powers": (lambda: x ** (y**x), "x ** y ** x"),
    "a power of a negative number": (lambda: (-1.5) ** x, "(-1.5) ** x"),
    "comparisons": (lambda: (x < y) & (y > 0), "(y > 0.0) & (x < y)"),
    "functions": (lambda: gt.tanh(x) + gt.exp(y), "exp(y) + tanh(x)"),
    "an inputs name": (gt.scalar, "input"),
    "a constant": (lambda: x * 3, "3.0 * x"),
    "a constant that is added": (lambda: x + 3, "x + 3.0"),
    "a constant from which is subtracted": (lambda: 3 - x, "3.0 - x"),
    "indices": (lambda: (x + y)[1:, None], "(x + y)[1:, None]"),
    "an index that is computed": (lambda: x[gt.lscalar("i") :: 2], "x[i::2]"),
    "a part that is set": (lambda: x[1:].set(y[0]), "x[1:].set(y[0])"),
    "another dtype": (lambda: (x + y).astype("int32"), "(x + y).astype('int32')"),
    "lengths and axes": (lambda: gt.matrix("a").T.shape[0] + 1, "a.T.shape[0] + 1"),
    "sums over axes": (lambda: gt.matrix("a").sum(0) + x.sum(), "sum(a, axis=0) + sum(x)"),
    "products of matrices": (lambda: gt.matrix("a") @ x - gt.dot(x, y), "a @ x - x @ y"),
    "one of several results": (
        lambda: gt.linalg.slogdet(gt.matrix("a"))[1],
        "slogdet(a, assume='gen')[1]",
    ),
    "remainders": (lambda: x % y // x, "x % y // x"),
}


@pytest.mark.parametrize("what", LINES)
def test_a_line_has_brackets_where_they_are_needed(what: str) -> None:
    make, text = LINES[what]
    assert pprint(make()) == text


@pytest.mark.parametrize(
    ("name", "text"), [(None, "the second result of scan"), ("h", "the second result of h")]
)
def test_a_result_of_a_loop_is_shown_by_its_place(name: str | None, text: str) -> None:
    def step(x: Any, a: Any) -> tuple[Any, Any]:
        return a * x, a + x

    _, rows = graphc.scan(step, x, [gt.constant(1.0), None], name=name)
    assert repr(rows) == f"{text}: float64[x.0]"
    assert pprint(rows[-1] + 1) == f"({text})[-1] + 1.0"
    assert "Pick" not in str(dprint(rows, file="str"))


def test_the_carry_of_a_loop_and_the_result_of_a_branch_are_shown_as_such() -> None:
    last, _ = graphc.loop(lambda a, x: (a + x, x), gt.constant(1.0), x)
    assert pprint(last) == "the last carry of loop"
    assert pprint(graphc.cond(x.sum() > 0, lambda: x, lambda: -x)) == "the result of cond"


def test_a_node_is_shown_as_its_expression_with_its_type() -> None:
    assert repr(x + y) == str(x + y) == "x + y: float64[x.0]"
    assert repr(gt.matrix("a")[0, 1:]) == "a[0, 1:]: float64[max(a.1 - 1, 0)]"


def test_a_deep_node_is_abbreviated() -> None:
    a = x
    for _ in range(3000):
        a = gt.sin(a) * (a + y)
    assert len(repr(a)) < 200
    assert "…" in repr(a)


def test_an_error_of_a_type_rule_names_the_operands() -> None:
    a, b = gt.vector("a", shape=(3,)), gt.vector("b", shape=(4,))
    with pytest.raises(
        ShapeError, match=r"^add\(a: float64\[3\], exp\(b\): float64\[4\]\): lengths"
    ):
        a + gt.exp(b)
    with pytest.raises(BoundsError, match=r"^Index 5 .* of a: float64\[3\]"):
        a[5]


@pytest.mark.parametrize("a", [2.0, -1.5])
@pytest.mark.parametrize("b", [0.5, 3.0])
@pytest.mark.parametrize("what", ["sums and products", "differences to the right", "a negated sum"])
def test_a_line_reads_as_what_it_computes(what: str, a: float, b: float) -> None:
    made = LINES[what][0]()
    (value,) = evaluate([made], {x: [a], y: [b]})
    assert eval(pprint(made), {"x": a, "y": b}) == value[0]


def test_a_line_is_cut_by_dots() -> None:
    a = x
    for _ in range(30):
        a = a * gt.sin(a)
    text = pprint(a, limit=100)
    assert "…" in text
    assert len(text) < 500


def test_a_preview_shows_short_arrays_whole() -> None:
    assert preview(np.array([1, 2])) == "[1 2]: int64[2]"
    assert preview(np.zeros((10, 3), np.float32)) == "float32[10, 3]"


def test_long_constants_are_shortened() -> None:
    assert pprint(gt.constant(np.arange(9))) == "[0, 1, 2, ...]"
    assert pprint(gt.constant([1, 2])) == "[1, 2]"


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises(ArgumentError, match="dprint of 3, which is not a graph"):
        dprint([3])
    with pytest.raises(ArgumentError, match="dprint of 3, which is not a graph"):
        dprint(3)
