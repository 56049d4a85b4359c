"""Printed types have named lengths, and expressions of them."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt

x = gt.tensor("x", shape=("n", 3))
y = gt.tensor("y", shape=("m",))
z, k, u = gt.vector("z"), gt.lscalar("k"), gt.vector()

TYPES: dict[str, tuple[Any, str]] = {
    "an input": (x, "float64[n, 3]"),
    "elementwise": (gt.exp(x) + 1, "float64[n, 3]"),
    "joined": (gt.concatenate([x, x[::-1]]), "float64[2*n, 3]"),
    "joined with another": (gt.concatenate([x[:, 0], y, y]), "float64[2*m + n]"),
    "a product": (x @ x.T, "float64[n, n]"),
    "from the second on": (x[1:], "float64[max(n - 1, 0), 3]"),
    "all but two": (x[:-2], "float64[max(n - 2, 0), 3]"),
    "at most four": (x[:4], "float64[min(n, 4), 3]"),
    "the last four": (x[-4:], "float64[min(n, 4), 3]"),
    "each second": (x[::2], "float64[?, 3]"),
    "arithmetic": (gt.zeros(2 * x.shape[0] + 1), "float64[2*n + 1]"),
    "a range": (gt.arange(x.shape[0] + y.shape[0]), "int64[m + n]"),
    "a shorter range": (gt.arange(x.shape[0] - 1), "int64[max(n - 1, 0)]"),
    "a value": (gt.zeros(k), "float64[k]"),
    "a range up to a value": (gt.arange(k - 1), "int64[max(k - 1, 0)]"),
    "the rows of a loop": (graphc.scan(lambda row: row.sum(), sequences=[x]), "float64[n]"),
    "of an unnamed length": (gt.concatenate([y, z]), "float64[m + z.0]"),
    "of an unnamed input": (gt.concatenate([y, u]), "float64[?]"),
    "a part from a length on": (z[y.shape[0] :], "float64[max(z.0 - m, 0)]"),
    "a window from a length on": (z[y.shape[0] :][:3], "float64[min(max(z.0 - m, 0), 3)]"),
    "between lengths": (x[y.shape[0] : z.shape[0]], "float64[max(min(n, z.0) - m, 0), 3]"),
    "from a value of any sign on": (x[k:], "float64[?, 3]"),
    "between values": (x[k : 2 * k], "float64[?, 3]"),
    "no rows": (gt.zeros(z.shape[0] - z.shape[0]), "float64[0]"),
    "half": (gt.zeros(2 * (z.shape[0] // 2)), "float64[2*(z.0 // 2)]"),
    "a product of lengths": (gt.zeros(y.shape[0] * (z.shape[0] + 1)), "float64[m + m*z.0]"),
    "all elements": (x.ravel(), "float64[3*n]"),
    "a part of the rows": (x[: (0.5 * x.shape[0]).astype("int64")], "float64[?, 3]"),
    "an infinite part": (x[: gt.minimum(x.shape[0] * np.inf, 2).astype("int64")], "float64[?, 3]"),
    "a narrow integer": (gt.zeros(x.shape[0].astype("int8")), "float64[?]"),
    "a quotient": (gt.zeros(10 // (y.shape[0] + 1)), "float64[10 // (m + 1)]"),
    "at most zero": (gt.arange(gt.minimum(x.shape[0] - 5, 0) + 10), "int64[?]"),
    "a smaller range": (
        gt.arange(gt.minimum(x.shape[0] - 5, y.shape[0])),
        "int64[max(min(n - 5, m), 0)]",
    ),
}


@pytest.mark.parametrize("name", TYPES)
def test_types_are_printed_with_names(name: str) -> None:
    array, text = TYPES[name]
    assert array.type_text() == text
    assert repr(array).endswith(f": {text}")
    assert text in graphc.dprint(array, file="str")


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize(("n", "m"), [(5, 2), (0, 0), (1, 7)])
def test_printed_lengths_are_right(name: str, n: int, m: int) -> None:
    array, text = TYPES[name]
    f = graphc.function([x, y, z, k, u], array, mode="NUMPY", on_unused_input="ignore")
    shape = f(np.ones((n, 3)), np.ones(m), np.ones(4), 6, np.ones(3)).shape
    _, _, lengths_text = text.removesuffix("]").partition("[")
    lengths_text = lengths_text.replace("?", "None").replace("z.0", "4")
    lengths = eval(f"[{lengths_text}]", {"n": n, "m": m, "k": 6})
    assert len(lengths) == len(shape)
    assert all(a is None or a == b for a, b in zip(lengths, shape, strict=True))


@pytest.mark.parametrize("start", [-30, -7, -4, -1, 0, 1, 3, 9, 11, 12])
def test_a_slice_between_values_has_at_most_the_difference(start: int) -> None:
    i, rows = gt.iscalar("i"), gt.matrix("rows")
    part = rows[4 * i : 4 * (i + 1)]
    assert part.type_text() == "float64[min(4, ...), rows.1]"
    assert part.eval({rows: np.ones((11, 2)), i: start}, mode="NUMPY").shape[0] <= 4
    batch = rows[i * y.shape[0] : (i + 1) * y.shape[0]]
    assert batch.type_text() == "float64[min(m, ...), rows.1]"


def test_inputs_of_one_name_have_lengths_of_their_own() -> None:
    first, second = gt.vector("a"), gt.vector("a")
    joined = gt.concatenate([first, second])
    assert joined.type_text() == "float64[a.0 + a.0]"
    second.name = "b"
    assert joined.type_text() in {"float64[a.0 + b.0]", "float64[b.0 + a.0]"}


def test_an_input_may_get_another_name() -> None:
    a = gt.matrix("a")
    arrays = a[1:], a.ravel(), gt.concatenate([a[:5], a])
    texts = [array.type_text() for array in arrays]
    assert texts == [
        "float64[max(a.0 - 1, 0), a.1]",
        "float64[a.0*a.1]",
        "float64[a.0 + min(a.0, 5), a.1]",
    ]
    a.name = "rows"
    assert [array.type_text() for array in arrays] == [
        text.replace("a.", "rows.") for text in texts
    ]


def test_fields_of_implicit_arrays_are_printed_with_names() -> None:
    product = graphc.implicit.LowRank(x, gt.tensor("b", shape=(3, "m")))
    assert repr(product) == "LowRank(float64[n, 3], float64[3, m])"
    assert gt.as_tensor(product).type_text() == "float64[n, m]"
    f = graphc.function([product], gt.as_tensor(product) + 1, mode="NUMPY")
    assert "LowRank(float64[n, 3], float64[3, m])" in repr(f)


def test_long_expressions_are_not_printed() -> None:
    part = doubled = y
    for _ in range(300):
        part, doubled = part[1:], gt.concatenate([doubled[1:], doubled])
    assert part.type_text() == doubled.type_text() == "float64[?]"


def test_a_long_chain_is_printed_quickly() -> None:
    chain = x
    for _ in range(1_000):
        chain = chain * 0.5 + 1
    text = graphc.dprint(chain, file="str")
    assert text is not None
    assert text.count("float64[n, 3]") >= 2_001
    assert "float64[?, 3]" not in text


def test_names_are_printed_in_another_process(tmp_path: Path) -> None:
    file = tmp_path / "y.pickle"
    file.write_bytes(pickle.dumps(gt.concatenate([x, x])))
    code = f"import pickle; print(pickle.load(open({str(file)!r}, 'rb')).type_text())"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout == "float64[2*n, 3]\n"
