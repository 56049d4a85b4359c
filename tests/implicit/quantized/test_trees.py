"""Trees that are quantized by rules, made whole again, and reported."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import mlx.core as mx
import numpy as np
import pytest

from graphc.errors import ImplicitArrayError
from graphc.implicit import LoRA, dequantize, leaves, quantize, report


def tree() -> Any:
    rng = np.random.default_rng(0)
    layer = {"w": rng.standard_normal((64, 128)), "head": rng.standard_normal((64, 64))}
    return {"embed": rng.standard_normal((10, 64)), "layers": [layer, dict(layer)], "step": 3}


def names(made: Any) -> list[str]:
    return [type(x).__name__ for x in leaves(made)]


def test_the_first_rule_that_is_found_in_a_path_applies() -> None:
    rules = {
        r"layers/1/head": None,
        r"head$": {"kind": "nf4", "axis": -2},
        r"^layers/\d+/": "int8",
    }
    made = quantize(tree(), rules, group_size=32)
    wanted = ["ndarray", "NF4", "AffineQuantized", "ndarray", "AffineQuantized", "int"]
    assert names(made) == wanted
    head = made["layers"][0]["head"]
    assert (head.transposed, head.group_size) == (True, 32)
    assert made["layers"][1]["w"].bits == 8


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"nowhere": "int8"}, "'nowhere' fits no array"),
        ({"w$": "int8", "layers/0/w": "int4"}, "'layers/0/w' fits no array"),
        ({"(": "int8"}, r"'\(' is no regular expression"),
        ({"w": {"bits": 4}}, "'kind', 'group_size', 'axis'|a rule"),
        ({"w": "int9"}, "kind='int9'"),
        ({"w": {"kind": "int8", "axis": 0}}, "axis=0"),
        ({"embed": {"kind": "int8", "group_size": 30}}, "Groups of 30 elements of affine"),
    ],
)
def test_rules_that_cannot_be_followed_are_named(rules: Any, message: str) -> None:
    with pytest.raises(ImplicitArrayError, match=message):
        quantize(tree(), rules)
    with pytest.raises(ImplicitArrayError, match="A rule says which"):
        quantize(tree(), rules, where="w")


@pytest.mark.parametrize("library", [np.asarray, jnp.asarray, mx.array])
def test_quantized_arrays_become_whole_where_they_stand(library: Any) -> None:
    w = library(np.random.default_rng(0).standard_normal((32, 64)).astype("float32"))
    q = quantize(w, "nf4")
    nested = {"a": [q, w], "b": LoRA.of(q, rank=2) if library is not mx.array else q}
    made = dequantize(nested)
    assert type(made["a"][0]) is type(w)
    assert made["a"][1] is w
    np.testing.assert_array_equal(np.asarray(made["a"][0]), np.asarray(q.materialize()))
    if library is not mx.array:
        assert type(made["b"]) is LoRA
        assert isinstance(made["b"].base, jax.Array if library is jnp.asarray else np.ndarray)


def test_a_report_has_sizes_and_errors_of_each_array() -> None:
    given = tree()
    made = quantize(given, {r"/w$": "int4"})
    rows = {row.path: row for row in report(made, given).arrays}
    assert [*rows] == ["embed", "layers/0/head", "layers/0/w", "layers/1/head", "layers/1/w"]
    row, w, q = rows["layers/0/w"], given["layers"][0]["w"], made["layers"][0]["w"]
    off = np.asarray(q.materialize()) - w
    assert row.largest_error == np.abs(off).max()
    np.testing.assert_allclose(row.relative_error, np.linalg.norm(off) / np.linalg.norm(w))
    assert (row.nbytes, row.dense_nbytes) == (q.nbytes, w.nbytes)
    assert row.bits == 4 + 2 * 64 / 64
    assert rows["embed"].relative_error == 0
    text = str(report(made, given)).splitlines()
    assert text[3].split() == [
        *("layers/0/w", "64x128", "AffineQuantized", "bits=4", "group_size=64", "6144", "6.00"),
        *("9.4%", f"{row.relative_error:.3g}", f"{row.largest_error:.3g}"),
    ]
    assert text[-1].split()[0] == "total"


def test_reports_read_narrow_numbers_of_every_library() -> None:
    w = np.random.default_rng(0).standard_normal((4, 64)).astype("float32")
    for x in (mx.array(w).astype(mx.bfloat16), jnp.asarray(w, jnp.bfloat16)):
        (row,) = report({"w": quantize(x, "int8")}, {"w": x}).arrays
        assert 0 < row.relative_error < 0.01
