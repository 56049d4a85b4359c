"""A node knows the user's line that first made it."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas
import pytest
import scipy.stats

import graphc
import graphc.tensor as gt
from graphc.errors import SymbolicValueError
from graphc.ir import replace_nodes, toposort
from graphc.site import INTERNAL, derived_from, site_at, where


def line() -> str:
    """The caller's own line."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return f"test_site.py:{frame.f_back.f_lineno}"


def test_a_node_has_the_line_of_its_expression() -> None:
    x = gt.vector("x")
    y, here = gt.exp(x), line()
    z, there = y + 1, line()
    assert (y.where, z.where) == (here, there)


def test_a_linked_folder_is_graphcs_own(tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(Path(graphc.__file__).parents[1])
    script = "import graphc.tensor as gt\nprint(gt.exp(gt.vector('x')).where)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "linked")}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "<string>:2\n"


@pytest.mark.parametrize("use", [scipy.stats.norm.logpdf, scipy.stats.norm(0, 1).pdf])
def test_an_error_in_scipy_has_the_users_line(use: Callable[[Any], Any]) -> None:
    with pytest.raises(SymbolicValueError, match=r"test_site\.py"):
        use(gt.vector("x"))


def test_operators_of_pandas_are_those_of_symbolic_arrays() -> None:
    x, m = gt.vector("x"), gt.matrix("m")
    series = pandas.Series([1.0, 2.0])
    assert (series * x) is (series.to_numpy() * x)
    assert (pandas.DataFrame({"a": series}) - m).type.shape == (2, None)


def test_the_second_line_that_makes_a_node_does_not_change_it() -> None:
    x = gt.vector("x")
    first, there = gt.exp(x), line()
    again = gt.exp(x)
    assert again is first
    assert again.where == there


def test_all_nodes_of_a_function_have_the_line_of_its_call() -> None:
    x = gt.vector("x")
    y, here = gt.std(x), line()
    # A constant is shared with every graph that has it, and may be older.
    assert {node.where for node in toposort([y], [x]) if node.inputs} == {here}


def test_nodes_of_a_gradient_have_the_line_of_the_forward_node() -> None:
    x = gt.vector("x")
    y, there = gt.tanh(x), line()
    cost = y.sum()
    made = set(toposort([graphc.grad(cost, x)])) - set(toposort([cost]))
    assert there in {node.where for node in made}
    slope = next(node for node in made if node.op.name == "subtract")
    assert slope.where == there


def test_nodes_of_a_tangent_have_the_line_of_the_forward_node() -> None:
    x, t = gt.vector("x"), gt.vector("t")
    y, there = gt.exp(x), line()
    assert graphc.pushforward(y, x, t).where == there


def test_a_node_made_again_keeps_its_line() -> None:
    x, a = gt.vector("x"), gt.vector("a")
    y, there = gt.log1p(x), line()
    (z,) = replace_nodes([y], {x: a})
    assert z.where == there


def test_a_line_lent_to_new_nodes_is_taken_back() -> None:
    x = gt.vector("x")
    y, there = gt.exp(x), line()
    with derived_from(y.site):
        a = gt.exp(y)
    b, here = gt.exp(a), line()
    assert a.where == there
    assert b.where == here


def test_a_line_is_lent_within_one_thread() -> None:
    x = gt.vector("x")
    y = gt.exp(x)
    found = []

    def work() -> None:
        found.extend([gt.cosh(x).where, line()])

    with derived_from(y.site):
        worker = threading.Thread(target=work)
        worker.start()
        worker.join()
    assert found[0] == found[1]


def test_a_cached_property_of_graphcs_is_not_the_users_line() -> None:
    own: dict[str, Any] = {"gt": gt}
    exec(compile("def root(self): return gt.sqrt(self.x)", f"{INTERNAL}test>", "exec"), own)

    class Cached:
        x = gt.vector("x")
        y = cached_property(own["root"])

    Cached.y.__set_name__(Cached, "y")
    found, there = Cached().y, line()
    assert found.where == there


def test_no_site_is_no_line() -> None:
    assert where(None) is None


def test_equal_code_of_two_files_has_the_name_of_each() -> None:
    sites = [site_at(file, 7) for file in ("one.py", "two.py")]
    assert sites[0] == sites[1]
    assert [where(site) for site in sites] == ["one.py:7", "two.py:7"]
