"""Keys that are kept between calls: draws differ, seeds repeat them, nothing is compiled again."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from jax import random as theirs

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, DTypeError
from tests.modes import uncompiled

random = gt.random


def compiled(outputs: Any, mode: str, **options: Any) -> Any:
    return graphc.function([], outputs, mode=uncompiled(mode), returns="numpy", **options)


# Shared generators.


def test_a_shared_generator_moves_on_with_its_updates_alone(mode: str) -> None:
    rng = random.shared_rng(seed=3, name="rng")
    following, x = rng.normal(size=4)
    still, moving = compiled(x, mode), compiled(x, mode, updates={rng: following})
    assert still().tolist() == still().tolist()
    first, second = moving(), moving()
    assert first.tolist() != second.tolist()
    rng.set_value(seed=3)
    np.testing.assert_array_equal(moving(), first)
    np.testing.assert_allclose(second, random.normal(size=4, rng=next_key(3)).eval(mode="NUMPY"))


def next_key(seed: int) -> Any:
    return random.fold_in(random.key(seed), 2**32 - 1)


def test_other_seeds_and_keys_compile_nothing(mode: str) -> None:
    rng = random.shared_rng(seed=0)
    following, x = rng.uniform(size=3)
    f = compiled(x, mode, updates=[(rng, following)])
    found = [f().tolist()]
    with graphc.expect_compiles(0):
        for seed in (1, 2**40, None, [1, 2, 3], np.random.SeedSequence(4)):
            rng.set_value(seed=seed)
            found.append(f().tolist())
        for value in (np.array([7, 8], "uint32"), np.random.default_rng(5)):
            rng.set_value(value)
            found.append(f().tolist())
    assert f.stats.compiles <= 1
    assert len({tuple(x) for x in found}) == len(found)


def test_a_seed_gives_the_key_of_jax() -> None:
    for seed in (0, 42, -1, 2**33 + 5):
        key = theirs.key_data(theirs.key(seed)) if abs(seed) < 2**31 else None
        found = random.shared_rng(seed=seed).get_value()
        assert key is None or found[1] == key[1]
        np.testing.assert_array_equal(found, random.key(seed).eval(mode="NUMPY"))


def test_a_generator_of_numpy_is_copied() -> None:
    generator = np.random.default_rng(5)
    first, second = random.shared_rng(generator), random.shared_rng(generator)
    np.testing.assert_array_equal(first.get_value(), second.get_value())
    generator.normal(size=3)
    assert random.shared_rng(generator).get_value().tolist() != first.get_value().tolist()


def test_a_shared_generator_is_copied_and_pickled_with_its_key() -> None:
    rng = random.shared_rng(seed=9, name="rng")
    for other in (copy.deepcopy(rng), pickle.loads(pickle.dumps(rng))):
        assert type(other) is type(rng)
        assert other is not rng
        assert other.name == "rng"
        np.testing.assert_array_equal(other.get_value(), rng.get_value())
        other.set_value(seed=1)
        assert rng.get_value().tolist() == [0, 9]
    _, x = pickle.loads(pickle.dumps(rng.normal(size=2)))
    np.testing.assert_array_equal(
        x.eval(mode="NUMPY"), random.normal(size=2, rng=random.key(9)).eval(mode="NUMPY")
    )


def test_what_is_no_key_or_seed_is_told() -> None:
    rng = random.shared_rng(seed=0)
    for wrong in (random.shared_rng, lambda: random.shared_rng(np.zeros(2), seed=1)):
        with pytest.raises(ArgumentError, match="either a key or seed"):
            wrong()
    with pytest.raises(ArgumentError, match="no seed"):
        random.shared_rng(seed="x")
    with pytest.raises(DTypeError, match="no key"):
        rng.set_value(np.zeros(2))
    with pytest.raises(ArgumentError, match="shape"):
        rng.set_value(np.zeros(3, "uint32"))


# Generators as inputs and of seeds.


def test_a_generator_is_an_input_and_an_output(mode: str) -> None:
    rng = random.rng("rng")
    following, x = rng.normal(size=2)
    last, y = following.poisson(4.0, size=2)
    f = graphc.function([rng], [last, x, y], mode=uncompiled(mode), returns="numpy")
    state, a, b = f(np.array([0, 1], "uint32"))
    again, *_ = f(rng=state)
    own = random.normal(size=2, rng=random.key(1)).eval(mode="NUMPY")
    np.testing.assert_allclose(a, own, 1e-12)
    assert b.dtype == np.int64
    assert state.tolist() != again.tolist()
    assert isinstance(last, random.Generator)


def test_a_generator_of_a_seed_has_no_state(mode: str) -> None:
    seed = gt.lscalar("seed")
    f = graphc.function(
        [seed], random.default_rng(seed).integers(1000, size=5)[1], mode=uncompiled(mode)
    )
    g = compiled(random.default_rng(8).integers(1000, size=5)[1], mode)
    assert np.asarray(f(8)).tolist() == g().tolist() == g().tolist() != np.asarray(f(9)).tolist()
    assert random.default_rng(None).normal()[1] is not random.default_rng(None).normal()[1]


def test_a_generator_is_carried_by_a_scan(mode: str) -> None:
    rng = random.shared_rng(seed=6)

    def step(generator: Any) -> Any:
        following, x = generator.normal()
        return x, following

    draws, final = graphc.scan(step, outputs_info=[None, rng], n_steps=3)
    assert isinstance(final, random.Generator)
    f = compiled(draws, mode, updates={rng: final})
    found = np.concatenate([f(), f()])
    expected, following = [], random.default_rng(6)
    for _ in range(6):
        following, x = following.normal()
        expected.append(x)
    np.testing.assert_allclose(found, compiled(expected, "NUMPY")(), 1e-6)


def test_a_generator_is_carried_by_loops_of_containers(mode: str) -> None:
    def step(carry: Any, _: None) -> Any:
        carry["rng"], x = carry["rng"].normal()
        return carry, x

    def more(carry: Any) -> Any:
        return carry["rng"].uniform()[1] < 0.9

    first = {"rng": random.rng("generator")}
    final, draws = graphc.loop(step, dict(first), n_steps=3)
    stopped, _ = graphc.loop(step, dict(first), until=lambda c: ~more(c), max_steps=99)
    ended = graphc.while_loop(more, lambda c: step(c, None)[0], dict(first), 99)
    draws_after = [end["rng"].normal()[1] for end in (final, stopped, ended)]
    f = graphc.function([first["rng"]], [draws, *draws_after], mode=mode, returns="numpy")
    generator, expected = random.rng("g"), []
    following = generator
    for _ in range(4):
        following, x = following.normal()
        expected.append(x)
    key = np.array([1, 2], "uint32")
    found, then, *_ = f(key)
    np.testing.assert_allclose([*found, then], [y.eval({generator: key}) for y in expected])


def test_the_owner_of_a_draw_gives_the_next_generator_and_the_draw() -> None:
    rng = random.shared_rng(seed=6)
    for x in (random.normal(2.0, 3.0, rng=rng), random.integers(9, rng=rng, size=2)):
        following, draw = x.owner.outputs
        assert draw is x
        assert following is rng.normal()[0]
    f = compiled(draw, "NUMPY", updates={rng: following})
    assert len({tuple(f()) for _ in range(4)}) > 1


# Streams.


def test_draws_of_a_stream_are_of_its_seed_and_their_number(mode: str) -> None:
    stream = random.RandomStream(seed=11)
    draws = [stream.normal(size=3), stream.normal(size=3), stream.binomial(9, 0.5, size=3)]
    f = compiled(draws, mode, updates=stream.updates())
    first, second = f(), f()
    for i, (a, b) in enumerate(zip(first, second, strict=True)):
        assert a.tolist() != b.tolist()
        key = theirs.fold_in(theirs.key(11), i)
        np.testing.assert_array_equal(
            random.fold_in(random.key(11), i).eval(mode="NUMPY"), theirs.key_data(key)
        )
        own = theirs.key_data(key)
        draw = random.binomial(9, 0.5, size=3, rng=own) if i == 2 else None
        draw = random.normal(size=3, rng=own) if draw is None else draw
        np.testing.assert_allclose(a, draw.eval(mode="NUMPY"), 1e-12)
    assert first[0].tolist() != first[1].tolist()
    with graphc.expect_compiles(0):
        stream.seed(12)
        other = f()
        stream.seed()
        again = f()
    assert other[0].tolist() != first[0].tolist()
    np.testing.assert_array_equal(again[0], first[0])
    assert len(stream.state_updates) == 3
    assert stream.default_instance_seed == 11


def test_equal_streams_give_equal_draws_and_share_a_program(mode: str) -> None:
    def draws(seed: int) -> Any:
        stream = random.RandomStream(seed)
        x = stream.uniform(size=4)
        return compiled(x, mode, updates=stream.updates())

    f = draws(5)
    first = f()
    with graphc.expect_compiles(0):
        g, h = draws(5), draws(6)
        np.testing.assert_array_equal(g(), first)
        assert h().tolist() != first.tolist()


def test_a_stream_of_no_seed_is_fresh_each_time() -> None:
    stream = random.RandomStream()
    x = stream.uniform(size=3)
    f = compiled(x, "NUMPY", no_default_updates=True)
    first = f()
    stream.seed()
    assert f().tolist() != first.tolist()
    assert random.RandomStream().uniform(size=3).eval(mode="NUMPY").tolist() != first.tolist()


def test_any_function_with_a_key_draws_from_a_stream() -> None:
    def two(scale: Any, rng: Any = None, return_next_rng: bool = False) -> Any:
        following, x = random.normal(0, scale, size=2, rng=rng, return_next_rng=True)
        return (following, x) if return_next_rng else x

    stream = random.RandomStream(2)
    x = stream.gen(two, 10.0)
    f = compiled(x, "NUMPY", updates=stream.updates())
    assert f().tolist() != f().tolist()
    with pytest.raises(ArgumentError, match="no rng="):
        stream.normal(rng=random.key(0))
    with pytest.raises(AttributeError, match="no distribution 'cosine'"):
        stream.cosine()


def test_a_stream_draws_new_numbers_in_each_call_by_default(mode: str) -> None:
    stream = random.RandomStream(11)
    x = stream.normal(size=3)
    f, still = compiled(x, mode), compiled(x, mode, no_default_updates=True)
    first, second = f(), f()
    key = theirs.fold_in(theirs.key(11), 0)
    for found in (first, second):
        expected = random.normal(size=3, rng=theirs.key_data(key)).eval(mode="NUMPY")
        np.testing.assert_allclose(found, expected, 1e-12)
        key = theirs.fold_in(key, 2**32 - 1)
    assert still().tolist() == still().tolist() != second.tolist()
    (rng,) = [rng for rng, _ in stream.updates()]
    assert compiled(x, mode, no_default_updates=[rng])().tolist() == f().tolist()
    named = compiled(x, mode, updates={rng: rng})
    assert named().tolist() == named().tolist()
    for _ in range(2):
        stream.seed()
        np.testing.assert_array_equal(f(), first)


def test_default_updates_are_part_of_a_program_and_compile_once(mode: str) -> None:
    def made(**options: Any) -> Any:
        return compiled(random.RandomStream(5).uniform(size=7) ** 3, mode, **options)

    f, still = made(), made(no_default_updates=True)
    assert f().tolist() == still().tolist() == still().tolist() != f().tolist()
    with graphc.expect_compiles(0):
        g, quiet = made(), made(no_default_updates=True)
        assert g().tolist() == quiet().tolist() == quiet().tolist() != g().tolist()


def test_default_updates_may_read_other_shared_variables() -> None:
    a, b = graphc.shared(1, name="a"), graphc.shared(10, name="b")
    a.default_update, b.default_update = a + b, b + 1
    f = compiled(a, "NUMPY")
    assert [int(f()) for _ in range(3)] == [1, 11, 22]
    assert int(b.get_value()) == 13
    copied, pickled = copy.deepcopy(a), pickle.loads(pickle.dumps(a))
    for other in (copied, pickled):
        g = compiled(other, "NUMPY")
        assert [int(g()) for _ in range(2)] == [34, 47]
    assert (int(a.get_value()), int(b.get_value())) == (34, 13)
    with pytest.raises(ArgumentError, match="no shared variable"):
        compiled(a, "NUMPY", no_default_updates=[a + 1])


def test_copies_of_functions_have_the_keys_of_streams(mode: str) -> None:
    f = compiled(random.RandomStream(4).uniform(size=2), mode)
    f()
    others = copy.deepcopy(f), pickle.loads(pickle.dumps(f))
    expected = [f().tolist() for _ in range(2)]
    for g in others:
        assert [g().tolist() for _ in range(2)] == expected


def keys(seed: int, place: int, count: int) -> list[Any]:
    """The keys of a stream's draw, one after the other, by JAX."""
    found = [theirs.fold_in(theirs.key(seed), place)]
    for _ in range(count - 1):
        found.append(theirs.fold_in(found[-1], 2**32 - 1))
    return [theirs.uniform(key, dtype="float32").item() for key in found]


def loops(stream: Any) -> dict[str, Any]:
    """Six draws, one in each step of a loop; the draw of two nested ones, of three and two steps.

    Python's numbers begin the carries, so that steps are traced more than once.
    """

    def draw() -> Any:
        return stream.uniform(dtype="float32")

    def add_row(h: Any, _: Any) -> Any:
        _, row = graphc.loop(lambda c, _: (c + 1, draw()), 0, n_steps=2)
        return h + row.sum(), row

    def put(pair: Any) -> Any:
        i, row = pair
        return i + 1, gt.set_subtensor(row[i], draw())

    blank = gt.zeros(6, "float32")
    return {
        "scan": graphc.scan(lambda h: h + draw(), outputs_info=0, n_steps=6),
        "map": graphc.map(lambda x: draw(), gt.arange(6)),
        "reduce": graphc.reduce(lambda x, h: h + draw(), gt.arange(6), 0),
        "checkpoint": graphc.scan(
            lambda h: h + draw(), outputs_info=gt.zeros((), "float32"), n_steps=6, checkpoint=2
        ),
        "nested": graphc.loop(add_row, 0, n_steps=3)[1].ravel(),
        "while_loop": graphc.while_loop(lambda c: c[0] < 6, put, (0, blank))[1],
    }


def test_each_step_of_a_loop_draws_new_numbers(mode: str) -> None:
    stream = random.RandomStream(7)
    made = loops(stream)
    assert len(stream.updates()) == len(made)
    f = graphc.function([], made, mode=uncompiled(mode), returns="numpy")
    for call in range(2):
        found = f()
        for i, (name, x) in enumerate(found.items()):
            expected = np.array(keys(7, i, 12)[6 * call : 6 * call + 6], "float32")
            total = name in {"scan", "checkpoint", "reduce"}
            expected = np.cumsum(expected) if total else expected
            expected = expected[-1] if name == "reduce" else expected
            np.testing.assert_allclose(x, expected, 1e-5, err_msg=name)


def test_a_draw_made_before_a_loop_is_one_draw(mode: str) -> None:
    x = random.RandomStream(7).uniform()
    f = compiled(graphc.map(lambda y: x + y, gt.zeros(4)), mode)
    first, second = f(), f()
    assert np.ptp(first) == np.ptp(second) == 0.0
    assert first[0] != second[0]


def test_a_draw_in_a_branch_has_the_next_key_whichever_is_taken(mode: str) -> None:
    flag, stream = gt.bscalar("flag"), random.RandomStream(7)
    y = graphc.cond(flag > 0, stream.uniform, lambda: gt.constant(0.0))
    f = graphc.function([flag], y, mode=uncompiled(mode), returns="numpy")
    found = [float(f(np.int8(n))) for n in (1, 0, 1)]
    g = compiled(random.RandomStream(7).uniform(), mode)
    expected = [float(g()) for _ in range(3)]
    np.testing.assert_allclose(found, [expected[0], 0.0, expected[2]], 1e-6)


def test_gradients_of_loops_that_draw_are_those_of_their_numbers(mode: str) -> None:
    scale, stream = gt.scalar("scale"), random.RandomStream(2)
    (trace, last) = graphc.scan(
        lambda h, t: [gt.tanh(h * stream.normal(1.0, scale)), t + h * stream.uniform()],
        outputs_info=[1.0, 0.0],
        n_steps=5,
    )
    loss = (trace**2).sum() + last[-1]
    value, slope = (
        graphc.function([scale], y, mode=uncompiled(mode), returns="numpy", no_default_updates=True)
        for y in (loss, graphc.grad(loss, scale))
    )
    step = 1e-5 if mode != "MLX" else 1e-3
    difference = (float(value(0.7 + step)) - float(value(0.7 - step))) / (2 * step)
    np.testing.assert_allclose(slope(0.7), difference, 1e-2 if mode == "MLX" else 1e-6)
    moving = graphc.function([scale], [loss, graphc.grad(loss, scale)], mode=uncompiled(mode))
    (first, by_first), (second, by_second) = moving(0.7), moving(0.7)
    assert float(first) != float(second)
    assert float(by_first) != float(by_second)


def test_the_same_draw_in_every_step_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="every step draws the same"):
        graphc.map(lambda x: x + random.normal(), gt.zeros(3))


def test_a_stream_in_a_step_is_updated_by_the_scan(mode: str) -> None:
    rng = random.shared_rng(seed=4)

    def step(x: Any) -> Any:
        following, e = rng.normal()
        return x + e, {rng: following}

    walk, updates = graphc.scan(step, outputs_info=0.0, n_steps=5, return_updates=True)
    f = compiled(walk, mode, updates=updates)
    steps = np.diff([0, *f()]), np.diff([0, *f()])
    assert len({*np.concatenate(steps).round(12)}) == 10
