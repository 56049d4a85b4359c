"""Random draws with named dimensions, and generators with the distributions as methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from inspect import Parameter, getdoc, signature
from typing import Any

import graphc.random as gr
from graphc.compile import streams
from graphc.errors import ArgumentError, AxisError
from graphc.ir import Wrapper, unwrap
from graphc.tensor import Tensor
from graphc.xtensor.align import Dims, check_dims, length_of
from graphc.xtensor.batch import with_core
from graphc.xtensor.type import XTensor, as_xtensor

__all__ = [
    "XGenerator", "as_rng", "as_xrv", "bernoulli", "beta", "betabinom", "binomial", "categorical",
    "cauchy", "chisquare", "dirichlet", "exponential", "gamma", "gengamma", "geometric", "gumbel",
    "halfcauchy", "halfnormal", "hypergeometric", "integers", "invgamma", "laplace", "logistic",
    "lognormal", "multinomial", "multivariate_normal", "nbinom", "negative_binomial", "normal",
    "pareto", "poisson", "rayleigh", "rng", "shared_rng", "standard_normal", "t", "triangular",
    "truncexpon", "truncnorm", "uniform", "vonmises", "wald", "weibull",
]  # fmt: skip

DISTRIBUTIONS: dict[str, Callable[..., Any]] = {}
"""The distributions by name: the methods of generators."""


class XGenerator(Wrapper):
    """A key with the distributions as methods, which return the next generator and the draw.

    Made by ``rng`` and ``shared_rng``.

    Attributes:
        values: The key.

    Example:
        >>> import graphc, graphc.xtensor as gx
        >>> generator = gx.random.rng("generator")
        >>> following, x = generator.normal(0.0, 1.0, extra_dims={"city": 3})
        >>> x.type
        float64[city=3]
        >>> f = graphc.function([generator], [following, x])
    """

    __slots__ = ("values",)

    values: Tensor

    def __init__(self, values: Tensor) -> None:
        self.values = values

    def __eq__(self, other: object) -> bool:
        return isinstance(other, XGenerator) and other.values is self.values

    def __hash__(self) -> int:
        return hash((XGenerator, self.values))

    def __repr__(self) -> str:
        return repr(self.values)

    @property
    def name(self) -> str | None:
        """The key's name in messages."""
        return self.values.name

    def alike(self, values: Tensor) -> XGenerator:
        """Return another key as a generator."""
        return XGenerator(values)

    def rows(self, values: Tensor, sequences: Sequence[Wrapper]) -> XGenerator:
        """Return the last key of a loop as a generator."""
        return XGenerator(values)

    def get_value(self, borrow: bool = False) -> Any:
        """Return the present key of a shared generator."""
        shared: Any = self.values
        return shared.get_value(borrow)

    def set_value(self, new_value: Any = None, borrow: bool = False, **seed: Any) -> None:
        """Set the key of a shared generator, or make one from ``seed=``."""
        shared: Any = self.values
        shared.set_value(new_value, borrow, **seed)

    def __getattr__(self, name: str) -> Any:
        distribution = DISTRIBUTIONS.get(name)
        if distribution is None:
            raise AttributeError(f"A generator has no attribute {name!r}.", name=name, obj=self)

        @wraps(distribution)
        def draw(*args: Any, **kwargs: Any) -> Any:
            return distribution(*args, rng=self, return_next_rng=True, **kwargs)

        return draw

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *DISTRIBUTIONS})


def rng(name: str | None = None) -> XGenerator:
    """Make a generator that is an input of a function, whose argument is a key.

    Args:
        name: The input's name.
    """
    return XGenerator(gr.rng(name))


def shared_rng(value: Any = None, **options: Any) -> XGenerator:
    """Make a generator whose key persists between calls, and advances by updates of functions.

    Args:
        value: A key, or a ``numpy.random.Generator``.
        options: As for ``graphc.random.shared_rng``: ``seed``, ``name``, ``borrow``.

    Example:
        >>> import graphc, graphc.xtensor as gx
        >>> rng = gx.random.shared_rng(seed=7)
        >>> following, x = rng.integers(0, 100, extra_dims={"city": 3})
        >>> f = graphc.function([], x, updates={rng: following}, mode="NUMPY")
        >>> f().tolist() == f().tolist()
        False
    """
    return XGenerator(streams.shared_rng(value, **options))


def as_rng(x: Any) -> XGenerator:
    """Return a key as a generator.

    Args:
        x: A generator of this module or of ``graphc.random``, or any other symbolic key.
    """
    if isinstance(x, XGenerator):
        return x
    if not isinstance(x, Tensor):
        raise ArgumentError(
            f"as_rng: {x!r} is no key.", "Use rng() for an input, or shared_rng(seed=...)."
        )
    return XGenerator(x)


# Distributions.

COMMON = """    core_dims: The names of the dimensions {core}.
    extra_dims: A dict of new dimensions, the first of the draw, and their lengths.
    rng: A generator or a key. By default a shared one of fresh entropy, which nothing updates.
    return_next_rng: Return a pair of the next generator and the draw."""

KEYWORDS = tuple(
    Parameter(name, Parameter.KEYWORD_ONLY, default=default)
    for name, default in (
        ("core_dims", None),
        ("extra_dims", None),
        ("rng", None),
        ("return_next_rng", False),
    )
)
"""The arguments that all distributions have after their own."""


def as_xrv(
    core_op: Callable[..., Any],
    core_inps_dims_map: Sequence[Sequence[int]] | None = None,
    core_out_dims_map: Sequence[int] | None = None,
    name: str | None = None,
) -> Callable[..., Any]:
    """Return a distribution of ``graphc.random`` that takes parameters with named dimensions.

    Args:
        core_op: The distribution: a function of parameters, ``size=``, ``rng=`` and
            ``return_next_rng=``.
        core_inps_dims_map: For each parameter, indices of its core dimensions; none by default.
        core_out_dims_map: Indices of the draw's core dimensions; none by default.
        name: The function's name; the distribution's by default.

    Returns:
        A function of the parameters, aligned by name, and ``core_dims=``, ``extra_dims=``, ``rng=``
        and ``return_next_rng=``.
    """
    title = name or core_op.__name__
    formals = [p for p in signature(core_op).parameters.values() if p.name not in APART]
    inputs = tuple(map(tuple, core_inps_dims_map or [()] * len(formals)))
    output = tuple(core_out_dims_map or ())
    needed = max((i + 1 for core in (*inputs, output) for i in core), default=0)

    def draw(*args: Any, **kwargs: Any) -> Any:
        arguments = _bind(title, signature_, args, kwargs)
        core_dims, extra, rng, return_pair = (arguments.pop(p.name) for p in KEYWORDS)
        names = _core_dims(title, core_dims, needed)
        cores = dict(zip([p.name for p in formals], inputs, strict=True))
        params = {key: x for key, x in arguments.items() if x is not None}
        return _draw(
            title,
            core_op,
            params,
            [tuple(names[i] for i in cores[key]) for key in params],
            tuple(names[i] for i in output),
            (dict(extra or {}), rng, return_pair),
        )

    signature_ = signature(core_op).replace(
        parameters=[*[p.replace(kind=Parameter.POSITIONAL_OR_KEYWORD) for p in formals], *KEYWORDS]
    )
    draw.__name__ = draw.__qualname__ = title
    draw.__signature__ = signature_  # type: ignore[attr-defined]
    meaning = (getdoc(core_op) or "").partition("\n")[0]
    core = f"that one draw has, {needed} of them" if needed else "of one draw, which are none"
    draw.__doc__ = (
        f"{meaning}\n\nParameters are aligned by name; they are those of\n"
        f"``graphc.random.{title}``, where that does not say otherwise.\n\n"
        f"Args:\n{COMMON.format(core=core)}"
    )
    DISTRIBUTIONS[title] = draw
    return draw


APART = {"size", "rng", "dtype", "return_next_rng", "method", "common"}
"""Arguments of distributions that are no parameters."""


def _bind(title: str, own: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    try:
        bound = own.bind(*args, **kwargs)
    except TypeError as error:
        raise ArgumentError(f"{title}: {error}.", f"Its arguments are {own}.") from None
    bound.apply_defaults()
    return dict(bound.arguments)


def _core_dims(title: str, core_dims: Any, needed: int) -> Dims:
    names = () if core_dims is None else check_dims(title, core_dims)
    if len(names) != needed:
        raise AxisError(
            f"{title}: core_dims={core_dims!r}.",
            f"Name {needed} dimensions." if needed else "A draw is a scalar: leave them out.",
        )
    return names


def _draw(
    title: str,
    f: Callable[..., Any],
    params: Mapping[str, Any],
    cores: Sequence[Dims],
    output: Dims,
    common: tuple[dict[str, Any], Any, bool],
) -> Any:
    extra, rng, return_pair = common
    operands = [as_xtensor(x) for x in params.values()]
    arrays, batch = with_core(title, operands, cores)
    twice = [dim for dim in check_dims(title, extra) if dim in batch or dim in output]
    if twice:
        raise ArgumentError(
            f"{title}: the extra dimension {twice[0]!r} is one of the parameters.",
            "The draw has their dimensions anyhow: leave it out, or choose another name.",
        )
    sizes = [unwrap(n) for n in extra.values()]
    sizes += [length_of(operands, dim) if n is None else n for dim, n in batch.items()]
    following, values = f(
        *_weak(params.values(), arrays), size=sizes, rng=unwrap(rng), return_next_rng=True
    )
    result = XTensor(values, [*extra, *batch, *output])
    return (XGenerator(following), result) if return_pair else result


def _weak(params: Any, arrays: Sequence[Tensor]) -> list[Any]:
    # Python's numbers take the dtype of the other parameters.
    pairs = zip(params, arrays, strict=True)
    return [x if type(x) in {bool, int, float} else array for x, array in pairs]


def _gamma(shape: Any, scale: Any = 1.0, **common: Any) -> Any:
    """Return draws of the gamma distribution of a shape and a scale, the second parameter."""
    return gr.gamma(shape, scale=scale, **common)


bernoulli = as_xrv(gr.bernoulli)
beta = as_xrv(gr.beta)
betabinom = as_xrv(gr.betabinom)
binomial = as_xrv(gr.binomial)
categorical = as_xrv(gr.categorical, [(0,)])
cauchy = as_xrv(gr.cauchy)
chisquare = as_xrv(gr.chisquare)
dirichlet = as_xrv(gr.dirichlet, [(0,)], (0,))
exponential = as_xrv(gr.exponential)
gamma = as_xrv(_gamma, name="gamma")
gengamma = as_xrv(gr.gengamma)
geometric = as_xrv(gr.geometric)
gumbel = as_xrv(gr.gumbel)
halfcauchy = as_xrv(gr.halfcauchy)
halfnormal = as_xrv(gr.halfnormal)
hypergeometric = as_xrv(gr.hypergeometric)
integers = as_xrv(gr.integers)
invgamma = as_xrv(gr.invgamma)
laplace = as_xrv(gr.laplace)
logistic = as_xrv(gr.logistic)
lognormal = as_xrv(gr.lognormal)
multinomial = as_xrv(gr.multinomial, [(), (0,)], (0,))
nbinom = as_xrv(gr.nbinom)
negative_binomial = as_xrv(gr.negative_binomial, name="negative_binomial")
normal = as_xrv(gr.normal)
pareto = as_xrv(gr.pareto)
poisson = as_xrv(gr.poisson)
rayleigh = as_xrv(gr.rayleigh)
t = as_xrv(gr.t)
triangular = as_xrv(gr.triangular)
truncexpon = as_xrv(gr.truncexpon)
truncnorm = as_xrv(gr.truncnorm)
uniform = as_xrv(gr.uniform)
vonmises = as_xrv(gr.vonmises)
wald = as_xrv(gr.wald)
weibull = as_xrv(gr.weibull)


def multivariate_normal(
    mean: Any,
    cov: Any,
    *,
    core_dims: Sequence[str],
    method: str = "cholesky",
    **common: Any,
) -> Any:
    """Return draws of vectors with the multivariate normal distribution.

    Args:
        mean: Means, with one of the core dimensions.
        cov: Covariances, with both.
        core_dims: The two dimensions of the covariances; a draw has the dimension of the means.
        method: The factorisation, as for ``graphc.random.multivariate_normal``.
        common: ``extra_dims``, ``rng`` and ``return_next_rng``, as for every distribution.
    """
    names = _core_dims("multivariate_normal", core_dims, 2)
    names = names if names[0] in as_xtensor(mean).dims else names[::-1]
    options = {"extra_dims": None, "rng": None, "return_next_rng": False, **common}
    return _draw(
        "multivariate_normal",
        partial(gr.multivariate_normal, method=method),
        {"mean": mean, "cov": cov},
        [names[:1], names],
        names[:1],
        (dict(options["extra_dims"] or {}), options["rng"], options["return_next_rng"]),
    )


def standard_normal(extra_dims: Any = None, rng: Any = None, return_next_rng: bool = False) -> Any:
    """Return draws of the normal distribution of mean 0 and standard deviation 1.

    Args:
        extra_dims: A dict of the draw's dimensions and their lengths.
        rng: A generator or a key.
        return_next_rng: Return a pair of the next generator and the draw.
    """
    return normal(0.0, 1.0, extra_dims=extra_dims, rng=rng, return_next_rng=return_next_rng)


DISTRIBUTIONS |= {f.__name__: f for f in (multivariate_normal, standard_normal)}
