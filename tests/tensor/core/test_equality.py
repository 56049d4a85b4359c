"""What ``==`` is between symbolic arrays."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
import graphc.xtensor as px
from graphc.errors import IdentityWarning
from graphc.tensor.core.equality import elementwise_equality


def test_it_is_identity() -> None:
    x, y = gt.vector("x"), gt.vector("x")
    assert (x == x, x == y, x != y, x != x) == (True, False, True, False)  # noqa: PLR0124
    assert (x + 1 == x + 1) is True
    assert {x: 1}[x] == 1
    assert x in [y, x]
    assert 1 not in [y, x]


def test_a_comparison_with_a_number_or_an_array_warns() -> None:
    x = gt.vector("x")
    for asked in (lambda: x == 1, lambda: x == np.ones(2), lambda: x != 2.5, lambda: True == x):  # noqa: E712, SIM300
        with pytest.warns(IdentityWarning, match=r"gt\.eq") as told:
            asked()
        assert [w.filename for w in told] == [__file__]


def test_the_result_of_a_comparison_in_a_graph_warns() -> None:
    x, y = gt.vector("x"), gt.vector("y")
    with pytest.warns(IdentityWarning, match=r"test_equality\.py:\d+"):
        gt.mean(x == y)
    with pytest.warns(IdentityWarning):
        gt.where((x + 1 == y) & (x > 0), x, y)
    with pytest.warns(IdentityWarning):
        (x != y) * x
    differ = x != y
    with pytest.warns(IdentityWarning, match="!="):
        gt.where(differ, x, y)


def test_named_arrays_warn_as_well() -> None:
    a, b = px.xtensor("a", dims=("row",)), px.xtensor("b", dims=("row",))
    with pytest.warns(IdentityWarning):
        px.math.exp(a == b)
    with pytest.warns(IdentityWarning):
        a == 1  # noqa: B015
    same = a == a  # noqa: PLR0124
    assert same is True


@pytest.mark.filterwarnings("error")
def test_identity_that_is_meant_does_not_warn() -> None:
    x, y = gt.vector("x"), gt.vector("y")
    if x == y:
        raise AssertionError
    found = "same" if x == y and y != x else "different"
    gt.where(False, x, y)
    gt.switch(gt.constant(True), x, y)
    gt.full(3, x is y)
    assert (found, x in (y, x), {x: 1, y: 2}[y]) == ("different", True, 2)


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
