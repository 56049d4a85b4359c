"""What ``==`` is between symbolic arrays."""

from __future__ import annotations

import threading

import pytest

import graphc
import graphc.tensor as gt
from graphc.tensor.core.equality import elementwise_equality


def test_it_is_identity() -> None:
    x, y = gt.vector("x"), gt.vector("x")
    assert (x == x, x == y, x != y, x != x) == (True, False, True, False)  # noqa: PLR0124
    assert (x + 1 == x + 1) is True
    assert {x: 1}[x] == 1
    assert x in [y, x]
    assert (x == 1) is False


def test_it_is_elementwise_where_that_is_said() -> None:
    x, y = gt.lvector("x"), gt.lvector("y")
    with elementwise_equality():
        same, other, number = x == y, x != y, x == 2
    assert (same, other) == (gt.equal(x, y), gt.not_equal(x, y))
    found = graphc.function([x, y], [same, other, number], mode="NUMPY")([1, 2], [1, 3])
    assert [v.tolist() for v in found] == [[True, False], [False, True], [False, True]]
    assert (x == y) is False


def test_it_ends_with_an_error() -> None:
    x, y = gt.lvector("x"), gt.lvector("y")
    with pytest.raises(ZeroDivisionError), elementwise_equality():
        raise ZeroDivisionError
    assert (x == y) is False


def test_nodes_made_meanwhile_are_interned_as_ever() -> None:
    x, y = gt.vector("x"), gt.vector("y")
    before = gt.concatenate([x, y]).sum() + gt.exp(x)[0]
    with elementwise_equality():
        made = gt.concatenate([x, y]).sum() + gt.exp(x)[0]
        slope = graphc.grad(made, x)
    assert made is before
    assert slope is graphc.grad(before, x)


def test_other_threads_go_on_as_ever() -> None:
    x, y = gt.vector("x"), gt.vector("y")
    found = []
    with elementwise_equality():
        thread = threading.Thread(target=lambda: found.append(x == y))
        thread.start()
        thread.join()
    assert found == [False]
