"""What the functions of distributions take, and what they give for it."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, DTypeError, ShapeError
from graphc.ir import dtype_name
from graphc.random.generator import DISTRIBUTIONS
from tests.modes import uncompiled
from tests.random.distributions import DISCRETE, FLOATING

random = gt.random


def key(seed: int = 0) -> Any:
    return random.key(seed)


# Arguments.

PYTENSOR = {
    "bernoulli": "p",
    "beta": "alpha beta",
    "betabinom": "n a b",
    "binomial": "n p",
    "categorical": "p",
    "cauchy": "loc=0.0 scale=1.0",
    "chisquare": "df",
    "choice": "a size=None replace=True p=None rng=None return_next_rng=False",
    "dirichlet": "alphas",
    "exponential": "scale=1.0",
    "gamma": "shape rate=None scale=None",
    "gengamma": "alpha=1.0 p=1.0 lambd=1.0",
    "geometric": "p",
    "gumbel": "loc=0.0 scale=1.0",
    "halfcauchy": "loc=0.0 scale=1.0",
    "halfnormal": "loc=0.0 scale=1.0",
    "hypergeometric": "ngood nbad nsample",
    "integers": "low high=None",
    "invgamma": "shape scale=1.0",
    "laplace": "loc=0.0 scale=1.0",
    "logistic": "loc=0.0 scale=1.0",
    "lognormal": "mean=0.0 sigma=1.0",
    "multinomial": "n p",
    "multivariate_normal": "mean=None cov=None",
    "nbinom": "n p",
    "normal": "loc=0.0 scale=1.0",
    "pareto": "b scale=1.0",
    "permutation": "x size=None rng=None return_next_rng=False",
    "poisson": "lam=1.0",
    "rayleigh": "scale=1.0",
    "standard_normal": "",
    "t": "df loc=0.0 scale=1.0",
    "triangular": "left mode right",
    "truncexpon": "b loc=0.0 scale=1.0",
    "uniform": "low=0.0 high=1.0",
    "vonmises": "mu kappa",
    "wald": "mean=1.0 scale=1.0",
    "weibull": "shape",
}
"""PyTensor's parameters and defaults."""


@pytest.mark.parametrize("name", PYTENSOR)
def test_parameters_are_pytensors(name: str) -> None:
    ours = [*inspect.signature(DISTRIBUTIONS[name]).parameters.values()]
    theirs = [written.partition("=")[::2] for written in PYTENSOR[name].split()]
    for parameter, (wanted, default) in zip(ours, theirs, strict=False):
        assert parameter.name == wanted
        assert default == ("" if parameter.default is parameter.empty else str(parameter.default))
    rest = {"size", "rng", "return_next_rng"}
    assert rest <= {parameter.name for parameter in ours}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_examples_run_and_all_arguments_are_told(name: str) -> None:
    f = DISTRIBUTIONS[name]
    text = inspect.getdoc(f) or ""
    for parameter in inspect.signature(f).parameters:
        assert f"\n    {parameter}: " in text
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    found = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    assert found.examples
    assert not doctest.DocTestRunner(optionflags=flags).run(found).failed


def test_a_distribution_is_in_the_module_and_a_method() -> None:
    generator, stream = random.rng(), random.RandomStream(0)
    for name, f in DISTRIBUTIONS.items():
        assert getattr(random, name) is f
        assert name in dir(generator)
        assert callable(getattr(generator, name))
        assert name in dir(stream)
        assert callable(getattr(stream, name))


# Shapes.


@pytest.mark.parametrize("name", [*FLOATING, *DISCRETE])
def test_parameters_broadcast_and_a_size_is_the_whole_batch(name: str) -> None:
    f, numbers = DISTRIBUTIONS[name], (FLOATING | DISCRETE)[name].parameters[0]
    columns = [np.full((2, 1), x, "float64") for x in numbers]
    if columns:
        wide = [np.broadcast_to(x, (2, 4)) if i == 0 else x for i, x in enumerate(columns)]
        assert f(*wide, rng=key()).type.shape == (2, 4)
        assert f(*columns, rng=key()).type.shape == (2, 1)
        with pytest.raises(ShapeError, match="does not broadcast to"):
            f(*columns, size=(3,), rng=key())
    assert f(*columns, size=(3, 2, 5), rng=key()).type.shape == (3, 2, 5)
    assert f(*numbers, size=(), rng=key()).type.shape == ()
    if list(inspect.signature(f).parameters)[len(numbers)] == "size":
        assert f(*numbers, (4,), rng=key()).type.shape == (4,)
    with pytest.raises(ShapeError, match="-1"):
        f(*numbers, size=(-1,), rng=key())


@pytest.mark.sample(every=3)
def test_a_size_is_given_in_many_ways(mode: str) -> None:
    n, x = gt.lscalar("n"), gt.matrix("x")
    shape = gt.tensor("shape", dtype="int64", shape=(2,))
    sizes = [3, (3,), n, (n, 2), x.shape, shape, np.array([3, 2]), [n + 1, n], 0, (2, 0), ()]
    draws = [random.normal(size=size, rng=key()) for size in sizes]
    draws += [random.poisson(3.0, size=size, rng=key()) for size in ((n, 2), x.shape, 0)]
    draws += [random.normal(x, 1.0, rng=key()), random.choice(n, (2, n), rng=key())]
    draws += [random.permutation(n, rng=key()), random.permutation(x, size=n, rng=key())]
    draws += [random.multinomial(5, x, rng=key()), random.categorical(x, size=(n, 3), rng=key())]
    f = graphc.function([n, x, shape], draws, mode=uncompiled(mode), returns="numpy")
    with graphc.config.change_flags(recompile="ignore"):
        found = f(3, np.ones((3, 2)), [3, 2])
    assert [y.shape for y in found] == [
        *[(3,), (3,), (3,), (3, 2), (3, 2), (3, 2), (3, 2), (4, 3), (0,), (2, 0), ()],
        *[(3, 2), (3, 2), (0,), (3, 2), (2, 3), (3,), (3, 3, 2), (3, 2), (3, 3)],
    ]
    np.testing.assert_array_equal(found[0], found[2])
    np.testing.assert_array_equal(found[3], found[4])
    np.testing.assert_array_equal(found[3], found[5])
    assert sorted(found[16].tolist()) == [0, 1, 2]


# Dtypes.


@pytest.mark.parametrize("name", FLOATING)
def test_floating_draws_have_the_dtype_of_their_parameters(name: str) -> None:
    f, numbers = DISTRIBUTIONS[name], FLOATING[name].parameters[0]
    if numbers:
        assert f(*FLOATING[name].arguments("float32"), rng=key()).dtype == "float32"
        assert f(*[np.array([x], "int64") for x in numbers], rng=key()).dtype == "float64"
    assert f(*numbers, size=2, rng=key()).dtype == "float64"
    assert f(*numbers, size=2, rng=key(), dtype="float32").dtype == "float32"
    with graphc.config.change_flags(floatX="float32"):
        assert f(*numbers, size=2, rng=key()).dtype == "float32"
    with pytest.raises(DTypeError, match="floating numbers"):
        f(*numbers, size=2, rng=key(), dtype="int64")


@pytest.mark.sample(every=3)
@pytest.mark.parametrize(
    ("mode", "name"),
    [(mode, name) for mode in ("NUMPY", "MLX") for name in DISCRETE]
    + [("JAX", "bernoulli"), ("JAX", "geometric")],
)
def test_integer_draws_are_int64_or_as_asked(mode: str, name: str) -> None:
    f, args = DISTRIBUTIONS[name], DISCRETE[name].parameters[0]
    assert f(*args, rng=key()).dtype == "int64"
    with pytest.raises(DTypeError, match="integers"):
        f(*args, rng=key(), dtype="float32")
    dtypes = ["int8", "uint8", "int32", "uint64"]
    own = key()
    draws = [f(*args, size=3, rng=own, dtype=dtype) for dtype in dtypes]
    found = graphc.function([], draws, mode=uncompiled(mode), returns="numpy", name=name)()
    assert [dtype_name(y.dtype) for y in found] == dtypes


# Keys.


def test_a_key_is_a_uint32_pair_or_an_error_that_says_how_to_make_one() -> None:
    for wrong in (0, np.random.default_rng(0), np.zeros(2), np.zeros(3, "uint32")):
        with pytest.raises((DTypeError, ShapeError), match="key"):
            random.normal(rng=wrong)
    with pytest.raises(ShapeError, match="vectorize"):
        random.normal(rng=np.zeros((3, 2), "uint32"))
    with pytest.raises(DTypeError, match="key_data"):
        random.normal(rng=gt.dvector())


def test_keys_that_are_known_are_no_part_of_a_program(mode: str) -> None:
    def draw(key: Any) -> Any:
        x = random.uniform(size=2, rng=key)
        return graphc.function([], x, mode=uncompiled(mode), returns="numpy")

    f = draw(np.array([0, 3], "uint32"))
    f()
    with graphc.expect_compiles(0):
        g, h = draw(np.array([0, 4], "uint32")), draw(random.key(3))
        assert f().tolist() == h().tolist() != g().tolist()


def test_each_call_without_a_key_has_its_own() -> None:
    x, y = random.normal(size=3), random.normal(size=3)
    a, b = (z.eval(mode="NUMPY").tolist() for z in (x, y))
    assert a != b
    assert a == x.eval(mode="NUMPY").tolist()


def test_the_next_key_is_another_one_and_the_same_for_all(mode: str) -> None:
    following, _ = random.normal(rng=key(5), return_next_rng=True)
    same, _ = random.permutation(3, rng=key(5), return_next_rng=True)
    other = random.fold_in(key(5), 2**32 - 1)
    f = graphc.function([], [following, same, other], mode=uncompiled(mode), returns="numpy")
    a, b, c = (x.tolist() for x in f())
    assert a == b == c != [0, 5]


def test_a_distribution_tells_wrong_arguments() -> None:
    with pytest.raises(ArgumentError, match="normal: too many"):
        random.normal(0, 1, 2, 3)
    with pytest.raises(ArgumentError, match="poisson: got an unexpected keyword argument 'rate'"):
        random.poisson(rate=1)
    with pytest.raises(ArgumentError, match="missing a required argument: 'p'"):
        random.binomial(3)
    with pytest.raises(DTypeError, match="complex"):
        random.normal(1j)
    with pytest.raises(ShapeError, match="broadcast"):
        random.normal(np.zeros(3), np.zeros(4))
    with pytest.raises(ShapeError, match="at least 1"):
        random.categorical(0.5)
    with pytest.raises(ArgumentError, match="without replacement"):
        random.choice(3, 4, replace=False)
    with pytest.raises(ArgumentError, match="method"):
        random.multivariate_normal([0.0], [[1.0]], method="lu")
    with pytest.raises(ShapeError, match="differ in length"):
        random.multivariate_normal(np.zeros(3), np.eye(2))
    with pytest.raises(ArgumentError, match="at least 3"):
        random.integers(3, 3)
    with pytest.raises(DTypeError, match="256 does not fit"):
        random.integers(0, 257, dtype="uint8")
    with pytest.raises(DTypeError, match="no integer"):
        random.integers(gt.dscalar())
    with pytest.raises(ShapeError, match="one probability for each"):
        random.choice(3, p=[0.5, 0.5])
    with pytest.raises(DTypeError, match="nor an integer"):
        random.permutation(2.5)


KEYS: dict[str, Callable[[], Any]] = {
    "a key": lambda: random.key(0),
    "a generator": lambda: random.rng("g"),
    "a part of a split key": lambda: random.split(random.key(0))[1],
    "a shared key": lambda: random.shared_rng(seed=1),
    "an old key of JAX": lambda: jax.random.PRNGKey(0),
    "a typed key of JAX": lambda: jax.random.key(0),
    "a generator of NumPy": lambda: np.random.default_rng(0),
}


@pytest.mark.parametrize("what", KEYS)
def test_a_key_is_no_parameter_of_any_distribution(what: str) -> None:
    key = KEYS[what]()
    for draw in DISTRIBUTIONS.values():
        for parameters in ((key, (3,)), (0.5, key), (key,)):
            with pytest.raises(ArgumentError, match="a key is no parameter"):
                draw(*parameters)
    for options in ({"loc": key}, {"size": key}):
        with pytest.raises(ArgumentError, match="a key is no parameter"):
            random.normal(**options)
