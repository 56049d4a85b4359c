"""A model's log-density as a JAX function, for samplers written in JAX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphc.compile.function import function
from graphc.compile.pure import Pure
from graphc.compile.shared import Shared
from graphc.errors import ArgumentError, UnsupportedOperationError
from graphc.interop.pymc.density import Expression, build_expression, check_continuous
from graphc.interop.pymc.model import OnPoints, ValueLayout, convert, model_of
from graphc.ir import graph_inputs


def jax_logp(
    model: Any = None, *, flat: bool = True, jacobian: bool = True, vars: Any = None
) -> JaxLogDensity:
    """Return a model's log-density as a JAX function, to differentiate, batch and compile.

    ``jax.value_and_grad`` computes the value and graphc's gradient in one program; derivatives of
    any order and batches exist too, also where JAX has none. The negated function is a potential
    for NumPyro; the function itself is a ``logdensity_fn`` for BlackJAX. Without
    ``jax_enable_x64``, points and results have 32 bits; the numbers between them have the dtypes
    of the model.

    Args:
        model: A PyMC model (default: the model of the context).
        flat: Take a vector of all values, one variable after the other; else a dict by name.
        jacobian: Add the logarithms of the transforms' determinants, as samplers need.
        vars: Only the terms of these random variables and potentials.

    Returns:
        A function of a point, which also has ``ravel``, ``unravel``, ``point``, ``names``,
        ``shapes`` and ``size``, like the result of ``logp``. It reads ``pm.Data`` when it is
        called, which is once where JAX traces it; pass ``f(x, data)``, such as ``f.data()``, to
        give the values as arguments.

    Raises:
        ArgumentError: If there is no model, it has no free variables, or ``flat`` is given and it
            has discrete ones.
        UnsupportedOperationError: If some operations of PyTensor have no converter, or the density
            is drawn at random, as with ``pm.Minibatch``.

    Example:
        >>> import jax, jax.numpy as jnp, pymc as pm
        >>> from graphc.interop.pymc import jax_logp
        >>> with pm.Model() as model:
        ...     mu = pm.Normal("mu", shape=2)
        ...     y = pm.Normal("y", mu, observed=[1.0, 2.0])
        >>> density = jax_logp(model)
        >>> [round(float(g), 3) for g in jax.jit(jax.grad(density))(jnp.zeros(2))]
        [1.0, 2.0]
        >>> jax.vmap(density)(jnp.zeros((64, 2))).shape
        (64,)
    """
    model = model_of(model)
    layout = ValueLayout.of(model)
    if flat:
        check_continuous(layout, "jax_logp")
    options = {"jacobian": jacobian, "vars": vars}
    expression = build_expression(model, layout, flat=flat, gradient=True, linked=True, **options)
    if expression.updates:
        raise UnsupportedOperationError(
            "jax_logp: the log-density is random: each call would draw a minibatch.",
            "Leave out pm.Minibatch, or use graphc.interop.pymc.logp, which draws at each call.",
        )
    return JaxLogDensity(model, layout, expression)


class JaxLogDensity(OnPoints):
    """A model's log-density as a JAX function, returned by ``jax_logp``."""

    def __init__(self, model: Any, layout: ValueLayout, expression: Expression) -> None:
        super().__init__(model, layout)
        # Functions in JAX do not load JAX before they are needed.
        from graphc.link.jax.pure import with_gradient  # noqa: PLC0415

        self._wrap = with_gradient
        self._flat = not isinstance(expression.point, dict)
        shared = [x for x in graph_inputs([expression.value]) if isinstance(x, Shared)]
        lengths = {*convert(model, list(model.dim_lengths.values()), {})}
        self._data = _by_unique_name(shared)
        self._lengths = {name for name, x in self._data.items() if x in lengths}
        self._value = self._compile(expression, expression.value)
        self._both = self._compile(expression, expression.outputs)

    def _compile(self, expression: Expression, outputs: Any) -> Pure:
        data = {name: x.type(name) for name, x in self._data.items()}
        givens = {x: data[name] for name, x in self._data.items()}
        f = function(
            [data, expression.point],
            outputs,
            mode="JAX",
            givens=givens,
            name="logp",
            on_unused_input="ignore",
        )
        return f.pure

    def data(self) -> dict[str, Any]:
        """Return the current values of ``pm.Data`` and other shared variables, by name.

        The lengths of dimensions are left out: they decide shapes, so that they are read where JAX
        traces the function.
        """
        return {n: x.get_value() for n, x in self._data.items() if n not in self._lengths}

    def __call__(self, x: Any, data: Mapping[str, Any] | None = None) -> Any:
        """Return the log-density at a point.

        Args:
            x: A vector, or with ``flat=False`` a dict.
            data: Values instead of the current ones, by the names of ``data()``.

        Raises:
            ArgumentError: If a length is wrong, a variable has no value, or data are unknown.
        """
        if self._flat:
            self.layout.check_length(np.shape(x), lead=0)
        else:
            self.layout.check(x)
            x = {name: x[name] for name in self.names}
        values = dict(data or {})
        unknown = values.keys() - self._data.keys()
        if unknown:
            raise ArgumentError(
                f"jax_logp: the log-density does not read {', '.join(sorted(unknown))}.",
                f"It reads {', '.join(self.data()) or 'no data'}.",
            )
        # Other values may decide shapes, so that JAX must not trace them.
        constants = {n: x.get_value() for n, x in self._data.items() if n not in values}

        def value(values: Mapping[str, Any], x: Any) -> Any:
            return self._value({**constants, **values}, x)

        def both(values: Mapping[str, Any], x: Any) -> Any:
            return self._both({**constants, **values}, x)

        return self._wrap(value, both)(values, x)

    def __repr__(self) -> str:
        return f"jax_logp({', '.join(self.names)})"


def _by_unique_name(shared: Sequence[Shared]) -> dict[str, Shared]:
    names = [x.name for x in shared]
    return {
        name if name and names.count(name) == 1 else f"{name or 'shared'}{i}": x
        for i, (name, x) in enumerate(zip(names, shared, strict=True))
    }
