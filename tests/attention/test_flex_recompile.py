"""What masks and scores capture is passed when a program runs: other values compile nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.attention as ga
import graphc.tensor as gt
from graphc.attention import BlockMask
from graphc.errors import ArgumentError
from graphc.ir.containers import flatten
from graphc.link import as_numpy
from tests.attention import reference
from tests.attention.worlds import GRAPHS, static
from tests.modes import uncompiled

LENGTH, BLOCK, STEPS = 24, 8, 100

Q, K, V, G, _ = reference.problem(3, lengths=(LENGTH, LENGTH))


def documents_of(step: int) -> np.ndarray:
    """How long a step's documents are, they begin at other places each time."""
    random = np.random.default_rng(step)
    return np.sort(random.integers(0, 1 + step % 6, LENGTH)).astype(np.int32)


def expected_of(documents: np.ndarray, causal: bool = True) -> np.ndarray:
    keep = documents[:, None] == documents
    return reference.forward(
        Q, K, V, mask=keep & np.tri(LENGTH, dtype=bool) if causal else keep
    ).out


def packed(documents: Any) -> BlockMask:
    """Another function each time, of the same code."""

    def mask(b: Any, h: Any, q: Any, k: Any) -> Any:
        return (documents[q] == documents[k]) & (q >= k)

    return ga.create_block_mask(mask, None, None, LENGTH, LENGTH, BLOCK_SIZE=BLOCK)


def near(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(as_numpy(found), expected, rtol=1e-11, atol=1e-12)


def variables() -> list[Any]:
    return [static(x) for x in (Q, K, V)]


@contextmanager
def counted() -> Iterator[list[str]]:
    """The kinds of what graphc does to get programs."""
    kinds: list[str] = []
    with graphc.events.subscribe(lambda event: kinds.append(event.kind)):
        yield kinds


@contextmanager
def jax_compiles() -> Iterator[list[str]]:
    """What JAX compiles."""
    found: list[str] = []
    active = [True]

    def note(event: str, _: float, **more: Any) -> None:
        if active and event.endswith("backend_compile_duration"):
            found.append(event)

    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        yield found
    finally:
        active.clear()


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("mode", GRAPHS)
def test_documents_that_are_an_input_compile_once_in_100_steps(mode: str) -> None:
    operands, documents = variables(), gt.ivector("documents", shape=(LENGTH,))
    out = ga.flex_attention(*operands, block_mask=packed(documents))
    step = graphc.function([*operands, documents], out, mode=uncompiled(mode))
    for i in range(STEPS):
        found = step(Q, K, V, documents_of(i))
        if i % 10 == 0:
            near(found, expected_of(documents_of(i)))
    assert step.stats.compiles <= 1
    assert step.stats.causes == []


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("mode", GRAPHS)
def test_a_mask_is_an_argument_and_other_documents_compile_nothing(mode: str) -> None:
    operands = variables()
    mask = packed(documents_of(0)).variables("mask")
    out = ga.flex_attention(*operands, block_mask=mask)
    with counted() as kinds:
        step = graphc.function([*operands, mask], out, mode=uncompiled(mode))
        for i in range(STEPS):
            found = step(Q, K, V, packed(documents_of(i)))
            if i % 10 == 0:
                near(found, expected_of(documents_of(i)))
    assert kinds.count("compile") == 1
    assert step.stats.compiles == 1


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("mode", GRAPHS)
def test_a_training_step_with_a_mask_as_argument_compiles_once(mode: str) -> None:
    """Gradients by queries and by a captured bias; the bias is updated each step."""
    operands = variables()
    bias = graphc.shared(np.zeros(LENGTH), "bias", shape=(LENGTH,))
    mask = packed(documents_of(0)).variables("mask")
    out = ga.flex_attention(*operands, score_mod=lambda s, b, h, q, k: s + bias[k], block_mask=mask)
    by_q, by_bias = graphc.grad((G * out).sum(), [operands[0], bias])
    step = graphc.function(
        [*operands, mask], by_q, updates=[(bias, bias - by_bias)], mode=uncompiled(mode)
    )
    exact = np.zeros(LENGTH)
    for i in range(20):
        found = step(Q, K, V, packed(documents_of(i)))
        keep = documents_of(i)[:, None] == documents_of(i)
        keep &= np.tri(LENGTH, dtype=bool)
        g = reference.backward(Q, K, V, G, mask=keep, plus=exact)
        near(found, g.q)
        exact = exact - g.final.sum((0, 1, 2))
    near(bias.get_value(), exact)
    assert step.stats.compiles == 1


@pytest.mark.parametrize("mode", GRAPHS)
def test_a_graph_built_anew_each_step_finds_its_program(mode: str) -> None:
    """A mask of numbers is no part of the program; everything else is equal."""
    with counted() as kinds:
        for i in range(12):
            operands = variables()
            out = ga.flex_attention(*operands, block_mask=packed(documents_of(i)))
            step = graphc.function(operands, out, mode=uncompiled(mode))
            near(step(Q, K, V), expected_of(documents_of(i)))
    assert kinds == ["compile"] + ["hit"] * 11


@pytest.mark.parametrize("mode", GRAPHS)
def test_windows_of_other_widths_are_the_same_program(mode: str) -> None:
    def of(width: int) -> BlockMask:
        window = ga.sliding_window(width)
        return ga.create_block_mask(window, None, None, LENGTH, LENGTH, BLOCK_SIZE=BLOCK)

    operands, mask = variables(), of(3).variables("mask")
    out = ga.flex_attention(*operands, block_mask=mask)
    step = graphc.function([*operands, mask], out, mode=uncompiled(mode))
    for width in (1, 2, 5, 8, 17, LENGTH):
        found = of(width)
        near(
            step(Q, K, V, found),
            reference.forward(Q, K, V, mask=found.to_dense()).out,
        )
    assert step.stats.compiles == 1


@pytest.mark.parametrize("mode", GRAPHS)
def test_biases_and_slopes_of_other_values_are_the_same_program(mode: str) -> None:
    with counted() as kinds:
        for i in range(5):
            slopes, table = np.array([0.1, 0.2]) * i, np.arange(60.0) * i / 60
            operands = variables()
            out = ga.flex_attention(
                *operands,
                score_mod=lambda s, b, h, q, k: s + slopes[h] * (k - q) + table[q + k],  # noqa: B023
            )
            step = graphc.function(operands, out, mode=uncompiled(mode))
            at = np.arange(LENGTH)
            far = at - at[:, None]
            plus = slopes[:, None, None] * far + table[at + at[:, None]]
            near(step(Q, K, V), reference.forward(Q, K, V, plus=plus).out)
    assert kinds.count("compile") == 1


def test_jit_with_a_mask_as_argument_traces_once_in_100_steps() -> None:
    traces = []

    @jax.jit
    def step(q: Any, k: Any, v: Any, mask: BlockMask) -> Any:
        traces.append(mask)
        return ga.flex_attention(q, k, v, block_mask=mask)

    with jax.enable_x64(True):
        arrays = [jnp.asarray(x) for x in (Q, K, V)]
        for i in range(STEPS):
            found = step(*arrays, packed(jnp.asarray(documents_of(i))))
            if i % 10 == 0:
                near(found, expected_of(documents_of(i)))
    assert len(traces) == 1


def test_jit_that_makes_the_mask_of_documents_traces_once_in_100_steps() -> None:
    traces = []

    @jax.jit
    @jax.value_and_grad
    def step(q: Any, k: Any, v: Any, documents: Any) -> Any:
        traces.append(documents)
        return (ga.flex_attention(q, k, v, block_mask=packed(documents)) * G).sum()

    with jax.enable_x64(True):
        arrays = [jnp.asarray(x) for x in (Q, K, V)]
        for i in range(STEPS):
            documents = documents_of(i)
            loss, by_q = step(*arrays, jnp.asarray(documents))
            if i % 10 == 0:
                keep = (documents[:, None] == documents) & np.tri(LENGTH, dtype=bool)
                near(loss, (expected_of(documents) * G).sum())
                near(by_q, reference.backward(Q, K, V, G, mask=keep).q)
    assert len(traces) == 1


@pytest.mark.parametrize("library", [np, jnp])
def test_attention_of_jax_arrays_step_by_step_compiles_in_the_first_steps_alone(
    library: Any,
) -> None:
    """With masks made anew, forwards and gradients: after two steps JAX compiles nothing."""

    def step(q: Any, mask: BlockMask) -> Any:
        return (ga.flex_attention(q, *arrays[1:], block_mask=mask) * weights).sum()

    arrays = [jnp.asarray(x, jnp.float32) for x in (Q, K, V)]
    weights = jnp.asarray(G, jnp.float32)
    masks = [library.asarray(documents_of(i)) for i in range(STEPS)]
    for documents in masks[:2]:
        jax.grad(step)(arrays[0], packed(documents))
    with jax_compiles() as compiles:
        for documents in masks[2:]:
            found = jax.grad(step)(arrays[0], packed(documents))
    assert compiles == []
    keep = (documents_of(STEPS - 1)[:, None] == documents_of(STEPS - 1)) & np.tri(
        LENGTH, dtype=bool
    )
    exact = [np.asarray(x, np.float64) for x in (*arrays, weights)]
    expected = reference.backward(*exact, mask=keep).q
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_jit_with_windows_of_other_widths_traces_once() -> None:
    traces = []

    @jax.jit
    def step(q: Any, k: Any, v: Any, mask: BlockMask) -> Any:
        traces.append(mask)
        return ga.flex_attention(q, k, v, block_mask=mask)

    with jax.enable_x64(True):
        arrays = [jnp.asarray(x) for x in (Q, K, V)]
        for width in (1, 2, 5, 8, 17, LENGTH):
            window = ga.sliding_window(width)
            mask = ga.create_block_mask(window, None, None, LENGTH, LENGTH, BLOCK_SIZE=BLOCK)
            expected = reference.forward(Q, K, V, mask=mask.to_dense()).out
            near(step(*arrays, mask), expected)
    assert len(traces) == 1


# Structure is compared, and never an array.


class Uncomparable(np.ndarray):
    """An array that does not say whether it equals another, and has no truth or hash."""

    def __eq__(self, other: object) -> Any:
        raise AssertionError("a captured array was compared")

    def __ne__(self, other: object) -> Any:
        raise AssertionError("a captured array was compared")

    def __bool__(self) -> bool:
        raise AssertionError("a captured array was asked for its truth")

    __hash__ = None  # type: ignore[assignment]


class Opaque:
    """Anything that JAX puts in the place of an array."""

    __eq__ = __ne__ = Uncomparable.__eq__
    __bool__ = Uncomparable.__bool__
    __hash__ = None  # type: ignore[assignment]


def test_flattening_a_mask_compares_no_captured_array() -> None:
    masks = [packed(documents_of(i).view(Uncomparable)) for i in (3, 4)]
    masks = [replace(x, leaves=tuple(y.view(Uncomparable) for y in x.leaves)) for x in masks]
    (leaves, first), (_, second) = map(jax.tree.flatten, masks)
    assert len(leaves) == 5
    assert first == second
    assert hash(first) == hash(second)
    assert jax.tree.structure(jax.tree.unflatten(second, leaves)) == first
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path(masks[0])]
    assert len(set(paths)) == 5
    assert flatten(masks[0])[4] is masks[0].leaves[0]


def test_a_mask_holds_whatever_is_put_in_the_place_of_its_arrays() -> None:
    mask = packed(documents_of(3))
    structure = jax.tree.structure(mask)
    opaque = jax.tree.map(lambda _: Opaque(), mask)
    assert isinstance(opaque, BlockMask)
    assert jax.tree.structure(opaque) == structure
    nothing = jax.tree.unflatten(structure, [None] * 5)
    assert isinstance(nothing, BlockMask)
    jax.tree.map(lambda a, b: None, mask, packed(documents_of(4)))


def test_masks_of_other_functions_lengths_or_blocks_are_other_structures() -> None:
    documents = documents_of(3)

    def make(
        mask: Callable[..., Any], lengths: tuple[int, int] = (LENGTH, LENGTH), block: int = BLOCK
    ) -> Any:
        return jax.tree.structure(
            ga.create_block_mask(mask, None, None, *lengths, BLOCK_SIZE=block)
        )

    same = lambda b, h, q, k: documents[q] == documents[k]  # noqa: E731
    other = lambda b, h, q, k: documents[q] <= documents[k]  # noqa: E731
    structures = [make(same), make(other), make(same, (16, LENGTH)), make(same, block=4)]
    for i, a in enumerate(structures):
        for j, b in enumerate(structures):
            assert (a == b) is (i == j)


def with_default(width: int) -> Callable[..., Any]:
    def mask(b: Any, h: Any, q: Any, k: Any, width: int = width) -> Any:
        return (q >= k) & (q - k < width)

    return mask


def test_other_defaults_are_other_programs() -> None:
    def step(q: Any, k: Any, v: Any, mask: BlockMask) -> Any:
        return ga.flex_attention(q, k, v, block_mask=mask)

    run = jax.jit(step)
    with jax.enable_x64(True):
        for width in (4, 9):
            mask = ga.create_block_mask(with_default(width), None, None, LENGTH, LENGTH)
            at = np.arange(LENGTH)
            far = at[:, None] - at
            expected = reference.forward(Q, K, V, mask=(far >= 0) & (far < width)).out
            near(run(*map(jnp.asarray, (Q, K, V)), mask), expected)


class Packing:
    """Documents that are the attribute of an object, and a method that is a mask."""

    def __init__(self, documents: Any) -> None:
        self.documents = documents

    def keep(self, b: Any, h: Any, q: Any, k: Any) -> Any:
        return self.documents[q] == self.documents[k]


def by_default(documents: Any) -> Callable[..., Any]:
    def mask(b: Any, h: Any, q: Any, k: Any, documents: Any = documents) -> Any:
        return documents[q] == documents[k]

    return mask


def by_helpers(documents: Any) -> Callable[..., Any]:
    def of(i: Any) -> Any:
        return documents[i]

    def first(i: Any) -> Any:
        return of(i)

    return lambda b, h, q, k: first(q) == of(k)


def by_recursion(documents: Any) -> Callable[..., Any]:
    def same(q: Any, k: Any, deep: int) -> Any:
        return same(q, k, deep - 1) if deep else documents[q] == documents[k]

    return lambda b, h, q, k: same(q, k, 2)


WAYS: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "an attribute of a method's object": lambda documents: Packing(documents).keep,
    "a default": by_default,
    "a helper that is captured twice": by_helpers,
    "a function that calls itself": by_recursion,
}


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("way", WAYS)
def test_arrays_are_leaves_however_they_are_captured(way: str) -> None:
    """A mask whose arrays are replaced has the new ones everywhere, and is the same program."""
    traces = []

    @jax.jit
    def step(q: Any, k: Any, v: Any, mask: BlockMask) -> Any:
        traces.append(mask)
        return ga.flex_attention(q, k, v, block_mask=mask)

    with jax.enable_x64(True):
        for i in (5, 10, 15):
            mask = WAYS[way](documents_of(i))
            made = ga.create_block_mask(mask, None, None, LENGTH, LENGTH, BLOCK_SIZE=BLOCK)
            assert len(made.leaves) == 1
            found = step(*map(jnp.asarray, (Q, K, V)), made)
            near(found, expected_of(documents_of(i), causal=False))
    assert len(traces) == 1


def test_a_mask_that_writes_to_what_it_captures_is_refused() -> None:
    calls = 0

    def mask(b: Any, h: Any, q: Any, k: Any) -> Any:
        nonlocal calls
        calls += 1
        return q >= k

    with pytest.raises(ArgumentError, match="calls"):
        ga.create_block_mask(mask, None, None, LENGTH, LENGTH)


@pytest.mark.parametrize("mode", [*GRAPHS, "arrays"])
def test_writing_to_the_documents_later_changes_neither_blocks_nor_mask(mode: str) -> None:
    documents = documents_of(9).copy()
    expected = expected_of(documents)
    mask = packed(documents)
    documents[:] = documents_of(4)
    if mode == "arrays":
        with jax.enable_x64(True):
            found = ga.flex_attention(*map(jnp.asarray, (Q, K, V)), block_mask=mask)
    else:
        operands = variables()
        out = ga.flex_attention(*operands, block_mask=mask)
        found = graphc.function(operands, out, mode=uncompiled(mode))(Q, K, V)
    near(found, expected)
