"""Rewrites and lengths that only the run decides: the law of docs/rewrites.md, for every rule.

A right program stays right, lengths of 0 and 1 included; a wrong one does not become a number but
where what is at fault is not used any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import (
    DTypeError,
    GraphcError,
    RuntimeShapeError,
    ShapeError,
    UnsupportedOperationError,
)
from graphc.ir import Graph, Node, TensorType, toposort
from graphc.loop.loop import Loop
from graphc.loop.step import Formal
from graphc.rewrite import optimize
from graphc.rewrite.rule import LOOPS, RULES, EquationRule
from tests.modes import uncompiled
from tests.rewrite.node_rule_examples import EXAMPLES, LEFT_ALONE, VALUES
from tests.rewrite.random_graphs import Sample, random_graph
from tests.rewrite.run_time import Failed, Run, array, fault, inputs_of, loosened

POOLS = [[1, 2, 3], [2, 3], [1, 2], [0, 1, 3], [2], [1], [0]]
"""Lengths to draw from: of one that is drawn often, more arrays fit each other."""

OF_NOTHING = {"sum_of_shares"}
"""Rules that make NaN of a sum of no elements, as docs/rewrites.md says."""


def written(name: str) -> list[Node]:
    """The graphs that a rule is tried on: its examples, and what it leaves alone."""
    return [*(before for before, _ in EXAMPLES.get(name, ())), *LEFT_ALONE.get(name, ())]


def faults_of(name: str, looser: list[int], draws: int) -> Iterator[str]:
    random = Random(name)
    for node in written(name):
        if not all(isinstance(x.type, TensorType) for x in inputs_of(node)):
            continue
        for percent in looser:
            made = loosened(node, random, percent)
            after = None if made is None else RULES[name].apply(made[0])
            if made is None or after is None or after is made[0]:
                continue
            before, swaps = made
            for i in range(draws):
                own = {} if i % 2 else {y: VALUES.get(x) for x, y in swaps.items()}
                run = Run(drawn([*swaps.values()], own, random))
                if not (name in OF_NOTHING and any(0 in np.shape(v) for v in run.values())):
                    yield from filter(None, [fault(before, after, run, random)])


def drawn(inputs: list[Node], own: dict[Node, Any], random: Random) -> dict[Node, Any]:
    """Values of inputs: all but one those that they have, or all at random."""
    changed, pool = random.randrange(len(inputs) or 1), random.choice(POOLS)
    return {
        x: array(x.type, random, lambda: random.choice(pool))
        if own.get(x) is None or i == changed
        else np.asarray(own[x], x.type.numpy_dtype)
        for i, x in enumerate(inputs)
    }


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_rule_keeps_to_the_law(name: str) -> None:
    assert not next(faults_of(name, [100, 50], 6), None)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_rule_keeps_to_the_law_whatever_is_unknown(name: str) -> None:
    assert not next(faults_of(name, [100, 100, 80, 60, 40, 20] * 2, 20), None)


# Equations.

EQUATIONS = [rule for rule in RULES.values() if isinstance(rule, EquationRule)]
SHAPES: list[tuple[int | None, ...]] = [(), (None,), (None, None), (1, None), (None, 1), (2,)]


def faults_of_equation(rule: EquationRule, tries: int) -> Iterator[str]:
    random = Random(rule.name)
    for _ in range(tries):
        dtypes = [d for d in ("float64", "int64", "complex128", "bool") if rule.dtypes(d)]
        dtype = random.choice(dtypes)
        xs = [TensorType(dtype, random.choice(SHAPES))(x.name) for x in rule.parameters]
        try:
            before = rule.function(*xs)[0]
        except (DTypeError, ShapeError):
            continue
        after = rule.apply(before)
        if after is None:
            continue
        for _ in range(4):
            run = Run(drawn([*xs], {}, random))
            if all(np.all(ok) for ok in domain(rule, xs, run)):
                yield from filter(None, [fault(before, after, run, random)])


def domain(rule: EquationRule, xs: list[Any], run: Run) -> list[Any]:
    found = [] if rule.domain is None else run.of(rule.domain(*xs))
    return [False if isinstance(ok, Failed) else ok for ok in found]


@pytest.mark.parametrize("rule", EQUATIONS, ids=lambda rule: rule.name)
def test_an_equation_keeps_to_the_law(rule: EquationRule) -> None:
    assert not next(faults_of_equation(rule, 4), None)


@pytest.mark.exhaustive
@pytest.mark.parametrize("rule", EQUATIONS, ids=lambda rule: rule.name)
def test_an_equation_keeps_to_the_law_for_arrays_of_all_shapes(rule: EquationRule) -> None:
    assert not next(faults_of_equation(rule, 60), None)


# Random graphs: each change of a rule, and the whole.


def other_lengths(sample: Sample, random: Random) -> Run:
    """The inputs with other lengths: those that were equal stay so, or may do so."""
    alike, pool = random.randrange(2), random.choice(POOLS)
    names: dict[int, int] = {}

    def renamed(n: int) -> int:
        if alike:
            return names.setdefault(n, random.randrange(5))
        return random.choice(pool) if random.randrange(2) else n

    run = Run()
    for x, value in sample.inputs.items():
        unknown = zip(np.shape(value), x.type.shape, strict=True)
        lengths = iter([renamed(n) for n, m in unknown if m is None])
        found = array(x.type, random, lambda lengths=lengths: next(lengths))  # type: ignore[misc]
        run[x] = np.asarray(value) if found.shape == np.shape(value) else found
    return run


def faults_of_sample(seed: int, draws: int) -> Iterator[str]:
    random, sample = Random(seed), random_graph(seed)
    done = optimize(Graph([*sample.inputs], sample.outputs), recording=True)
    changes = [c for report in done.passes for c in report.records if is_closed(c.before)]
    whole = [*zip(sample.outputs, done.graph.outputs, strict=True)]
    for _ in range(draws):
        run = other_lengths(sample, random)
        right = not any(isinstance(y, Failed) for y in run.of(*sample.outputs))
        pairs = [(c.rule.name, c.before, c.after) for c in changes]
        pairs += [("all rules", before, after) for before, after in whole if right]
        for name, before, after in pairs:
            # A loop may have parts that are not used; such rules make nothing worse but the whole.
            if right or name not in RULES or RULES[name].step != LOOPS:
                told = shape_fault(before, after, run, random)
                yield from [] if told is None else [f"seed {seed}, {name}: {told}"]


def shape_fault(before: Node, after: Node, run: Run, random: Random) -> str | None:
    """A fault that is none of rounding, which test_random_graphs.py has an eye on."""
    old, new = run.of(before, after)
    if not isinstance(old, Failed | tuple) and np.shape(old) == np.shape(new):
        return None
    return fault(before, after, run, random)


def is_closed(node: Node) -> bool:
    """Whether it stands outside of loops' steps."""
    return not any(isinstance(x.op, Formal) for x in toposort([node]))


@pytest.mark.parametrize("chunk", range(5))
def test_random_graphs_keep_to_the_law(chunk: int) -> None:
    seeds = range(10_000 * chunk, 10_000 * chunk + 15)
    assert not next((told for seed in seeds for told in faults_of_sample(seed, 4)), None)


@pytest.mark.exhaustive
@pytest.mark.parametrize("chunk", range(10))
def test_many_random_graphs_keep_to_the_law(chunk: int) -> None:
    seeds = range(10_000 * chunk, 10_000 * chunk + 100)
    assert not next((told for seed in seeds for told in faults_of_sample(seed, 6)), None)


# Programs, by every backend: with inputs for which they are right, and wrong ones.

v, m, k = gt.vector("v"), gt.matrix("m"), gt.matrix("k")
wide = gt.tensor("wide", shape=(2, 3))
v1, v3 = np.array([5.0]), np.arange(3.0)
column = gt.tensor("column", shape=(None, 1))
ones = np.ones((2, 3))
PROGRAMS: dict[str, tuple[Any, list[Any], list[Any], list[list[Any]]]] = {
    "an operand that is asked to be one": (
        gt.broadcast_to(v, (2, 1)) + wide, [v, wide], [v1, ones], [[v3, ones]],
    ),
    "an array asked twice": (
        gt.broadcast_to(gt.broadcast_to(v, (1,)), (5,)), [v], [v1], [[np.ones(5)]],
    ),
    "a choice of two ranks": (
        gt.where(gt.constant(True), v, m), [v, m], [v3, ones], [[v3, ones.T]],
    ),
    "a part that is set": (
        wide[:, 1:].set(gt.broadcast_to(v, (1,))), [wide, v], [ones, v1], [[ones, v3[:2]]],
    ),
    "a diagonal of a product": (gt.diagonal(m * k), [m, k], [ones, ones], [[ones, ones[:, :2]]]),
    "an inverse of an inverse": (gt.linalg.inv(gt.linalg.inv(m)), [m], [np.eye(3)], [[ones]]),
    "a product with equal numbers": (m @ gt.full((3, 3), 3.0), [m], [ones], [[ones[:, :2]]]),
    "a product with a diagonal matrix": (
        column @ gt.diag(v), [column, v], [ones[:, :1], v1], [[ones[:, :1], v3]],
    ),
    "a determinant of a triangle": (gt.linalg.det(gt.triu(m)), [m], [np.eye(2)], [[ones]]),
    "a product with blocks": (
        gt.linalg.block_diag(m, k) @ v,
        [m, k, v],
        [ones[:1, :2], ones[:, :1], v3],
        [[ones[:1, :1], ones[:, :1], v3], [ones[:1, :2], ones[:, :2], v3]],
    ),
    "a loop": (
        graphc.scan(lambda row, y: row + y, m, outputs_info=v)[-1],
        [m, v],
        [ones, v3],
        [[ones[:, :1], v3], [ones, v1]],
    ),
}  # fmt: skip
"""A result, its inputs, values for which it is right, and some for which it is wrong."""


@pytest.mark.parametrize("backend", ["NUMPY", "JAX", "MLX"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_right_or_fails(name: str, backend: str) -> None:
    y, inputs, right, wrong = PROGRAMS[name]
    as_written = graphc.function(inputs, y, mode=graphc.Mode("NUMPY", excluding=["all"]))
    f = graphc.function(inputs, y, mode=uncompiled(backend))
    np.testing.assert_allclose(f(*right), as_written(*right), rtol=1e-5)
    for given in wrong:
        for g in (as_written, f):
            with pytest.raises(RuntimeShapeError):
                g(*given)


def test_a_mask_of_another_array_may_be_shorter() -> None:
    u = gt.vector("u")
    f = graphc.function([v, u], gt.sum(v[gt.nonzero(u > 0)[0]]), mode="NUMPY")
    assert f(v3, v1) == 0
    assert f(v3, v3) == 3


@pytest.mark.exhaustive
@pytest.mark.parametrize("backend", ["NUMPY", "JAX", "MLX"])
@pytest.mark.parametrize("chunk", range(2))
def test_backends_compare_the_lengths_in_random_graphs(chunk: int, backend: str) -> None:
    for seed in range(10_000 * chunk, 10_000 * chunk + (100 if backend != "JAX" else 25)):
        random, sample = Random(seed), random_graph(seed)
        dtypes = {getattr(x.type, "dtype", None) for x in toposort(sample.outputs)}
        if backend == "MLX" and "complex128" in dtypes:
            continue  # it has none
        inputs = [*sample.inputs]
        done = optimize(Graph(inputs, sample.outputs)).graph.outputs
        try:
            f = graphc.function(
                inputs, sample.outputs, uncompiled(backend),
                on_unused_input="ignore", returns="numpy",
            )  # fmt: skip
        except UnsupportedOperationError:
            continue
        for _ in range(3):
            run = other_lengths(sample, random)
            failed = [y for y in run.of(*done) if isinstance(y, Failed)]
            if not failed:
                got = f(*[run[x] for x in inputs])
                assert [np.shape(y) for y in got] == [np.shape(run[y]) for y in done], seed
            # A step that does not fit is not seen where none is done.
            elif not any(y.by_value or isinstance(y.node.op, Loop) for y in failed):
                with pytest.raises(GraphcError):
                    f(*[run[x] for x in inputs])
