"""What is packed is unpacked as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, RuntimeShapeError, ShapeError
from graphc.link import names
from tests.reference import evaluate
from tests.tensor.agreement import inputs_for

LENGTHS = st.lists(st.integers(0, 3), max_size=2).map(tuple)
KEPT: dict[Any, tuple[tuple[int, ...], tuple[int, ...]]] = {
    None: ((), ()),
    0: ((2,), ()),
    -1: ((), (3,)),
    (0, -1): ((2,), (3,)),
    (-2, 0, -1): ((2,), (3, 1)),
}
"""The axes kept: the lengths in front and behind."""


@settings(max_examples=60)
@given(st.sampled_from([*KEPT]), st.lists(LENGTHS, min_size=1, max_size=3), st.booleans())
def test_any_arrays_come_out_of_a_pack_as_they_went_in(
    kept: Any, own: list[tuple[int, ...]], static: bool
) -> None:
    front, back = KEPT[kept]
    values = [np.random.default_rng(i).random((*front, *n, *back)) for i, n in enumerate(own)]
    xs = inputs_for(values, static)
    packed, shapes = gt.pack(*xs, keep_axes=kept)
    wanted = np.concatenate([v.reshape(*front, -1 if v.size else int(np.prod(n)), *back)
                             for v, n in zip(values, own, strict=True)], len(front))  # fmt: skip
    again = gt.unpack(packed, shapes, keep_axes=kept)
    joined, *found = evaluate([packed, *again], dict(zip(xs, values, strict=True)))
    np.testing.assert_array_equal(joined, wanted)
    for value, y in zip(values, found, strict=True):
        np.testing.assert_array_equal(y, value)
    if static:
        assert packed.type.shape == wanted.shape
        assert [y.type.shape for y in again] == [value.shape for value in values]


@pytest.mark.parametrize("mode", names())
def test_a_vector_of_parameters_is_unpacked_by_run_time_lengths(mode: str) -> None:
    x, n = gt.vector("x"), gt.lscalar("n")
    scale, weights = gt.unpack(x, [(), (n, 2)])
    slope = graphc.grad((scale * weights**2).sum(), x)
    f = graphc.function([x, n], [scale, weights, slope], mode, returns="numpy")
    value = np.arange(1.0, 8)
    found, w, by_x = f(value, 3)
    assert found == 1
    np.testing.assert_array_equal(w, value[1:].reshape(3, 2))
    np.testing.assert_array_equal(by_x, [(value[1:] ** 2).sum(), *2 * value[1:]])
    with pytest.raises(RuntimeShapeError, match="do not add up to 7"):
        f(value, 2)


def test_axes_are_joined_and_split_again() -> None:
    x = gt.tensor("x", shape=(2, None, 4))
    assert gt.join_dims(x).type.shape == (None,)
    assert gt.join_dims(x, -2).type.shape == (2, None)
    assert gt.join_dims(x, 1, 0).type.shape == (2, 1, None, 4)
    assert gt.join_dims(x, 1, 1) is x
    assert gt.split_dims(x, (2, -1), -1).type.shape == (2, None, 2, 2)
    assert gt.split_dims(gt.col(), (), 1).type.shape == (None,)
    assert gt.split_dims(x, gt.as_tensor([2, 2]), 2).type.shape == (2, None, 2, 2)


X = gt.tensor("x", shape=(2, 3))

REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "join too many": (lambda: gt.join_dims(X, 1, 2), ShapeError, "does not have 2 axes from 1 on"),
    "join from nowhere": (lambda: gt.join_dims(X, -3), ShapeError, "axes from -3 on"),
    "split no axis": (lambda: gt.split_dims(X, (1, 2), 2), ShapeError, "no axis 2"),
    "split otherwise": (lambda: gt.split_dims(X, (2, 2), 1), ShapeError, "elements do not fit"),
    "split by a vector": (lambda: gt.split_dims(X, gt.lvector()), ShapeError, "number of entries"),
    "pack nothing": (gt.pack, ShapeError, "at least one"),
    "pack what lacks an axis": (lambda: gt.pack(X, keep_axes=(0, 1, 2)), ShapeError, "3 axes"),
    "pack keeping one between": (lambda: gt.pack(X, keep_axes=1), ArgumentError, "keep_axes=1"),
    "unpack a matrix": (lambda: gt.unpack(X, [(2,)]), ShapeError, "one axis beside"),
    "unpack other lengths": (
        lambda: gt.unpack(gt.tensor(shape=(5,)), [(2, 2)]), ShapeError, "has length 5",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_pack_is_refused(what: str) -> None:
    build, error, message = REFUSED[what]
    with pytest.raises(error, match=message):
        build()
