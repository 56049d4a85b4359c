"""Functions of implicit operands that have the derivatives of functions of dense operands.

The value of such a function is computed by handlers. Its derivative is the derivative of the
function of dense operands, a custom rule for example: JAX traces the derivative, and the traced
program is interpreted with the implicit operands, so that handlers are called in the rule too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, JaxprEqn

from graphc.implicit.array import is_implicit
from graphc.implicit.policy import densify, enforce_policy, materialized, materializing, policy_of
from graphc.implicit.straight_through import StraightThrough, value_of
from graphc.link.jax.applied import Rules, zeros_for_types
from graphc.link.jax.implicit import interpreter
from graphc.link.jax.implicit.avals import OperandTree, flatten, per_array, unflatten
from graphc.link.jax.implicit.deferred import Cache, defer, dense_toward, toward_of, with_toward
from graphc.link.jax.implicit.interpreter import rule
from graphc.link.jax.implicit.partition import aval_of
from graphc.link.jax.implicit.trace import StaticLeaf
from graphc.link.jax.implicit.transform import run_through
from graphc.link.jax.jaxprs import bind_equation, replace_at
from graphc.link.jax.varying import vary_as


@dataclass(frozen=True)
class FunctionPair:
    """A function in two versions: for implicit operands, and for dense operands.

    Attributes:
        value: The function from operands, dense or implicit, to a sequence of such results.
        dense: The function of dense operands, whose derivative is the derivative of both versions.
        name: The function's name in messages.
        key: A value that is equal for functions which compute the same.
        where: The user's line.
        policy: The policy for arrays that a derivative densifies.
    """

    value: Callable[..., Sequence[Any]] = field(compare=False)
    dense: Callable[..., Sequence[Any]] = field(compare=False)
    name: str = field(compare=False)
    key: Hashable
    where: str | None = field(default_factory=interpreter.where_now, compare=False)
    policy: str = field(default_factory=policy_of, compare=False)

    def __call__(self, operands: Sequence[Any], add_up: bool = False) -> list[Any]:
        """Return the results, with derivatives if JAX traces an operand.

        Args:
            operands: The operands, dense or implicit.
            add_up: Whether the cotangents of all uses of an implicit result are added up before
                they are pulled back. The result then comes with zeros, as the policy allows.
        """
        if not _is_traced(operands):
            return list(self.value(*operands))
        arrays, tree = OperandTree.of(operands)
        traced: list[Any] = []

        def run(*arrays: Any) -> list[Any]:
            results = [value_of(y) for y in self.value(*tree.build(arrays))]
            # The fields of an implicit result lack the function's derivative.
            implicit = [i for i, y in enumerate(results) if is_implicit(y) and _has_derivative(y)]
            leaves, kinds = flatten(results)
            traced.extend((kinds, implicit))
            for i in implicit if add_up else ():
                enforce_policy(results[i], f"the derivative of {self.name}", self.where)
                leaves += vary_as([jnp.zeros(results[i].shape, results[i].dtype)], *arrays)
            return leaves

        program = jax.make_jaxpr(run)(*arrays)
        kinds, implicit = traced
        zeros = implicit if add_up else []
        sources = (*per_array(kinds, range(len(kinds)), None), *zeros)
        application = FunctionApplication(self, program, tree, sources, zeros)
        ys = application.apply([*arrays, *program.consts])
        results = unflatten(kinds, ys)
        towards = dict(zip(zeros, ys[len(ys) - len(zeros) :], strict=True))
        for i in implicit:
            toward = towards[i] if add_up else defer(self, operands, i, results[i])
            results[i] = StraightThrough(results[i], toward)
        return results

    def densify(self, x: Any) -> Any:
        """Densify an array for the derivative, as the policy allows."""
        if is_implicit(x):
            return materialized(x, f"the derivative of {self.name}", self.where)
        return x

    def jvp(self, operands: Sequence[Any], wrt: Sequence[int], directions: Sequence[Any]) -> Any:
        """Return the rule's results and tangents, given dense tangents of the operands ``wrt``."""

        def rule(operands: Sequence[Any], directions: Sequence[Any]) -> Any:
            def function(*inner: Any) -> Sequence[Any]:
                return self.dense(*replace_at(operands, wrt, inner))

            return jax.jvp(function, [operands[i] for i in wrt], directions)

        return run_through(rule, operands, directions)

    def zeros(self, operands: Sequence[Any], index: int, shape: Any, dtype: Any) -> Any:
        """Return zeros with the derivative of the result with an index."""
        arrays, tree = OperandTree.of(operands)
        program = jax.make_jaxpr(lambda *xs: vary_as([jnp.zeros(shape, dtype)], *xs))(*arrays)
        return FunctionApplication(self, program, tree, (index,), [index]).apply(arrays)[0]


@dataclass(frozen=True, eq=False)
class FunctionApplication(Rules):
    """A program of arrays that computes a function's value, with the function's derivative.

    Attributes:
        pair: The function.
        program: The program, from the operands' arrays to arrays.
        operands: The structure of the operands.
        sources: For each of these arrays, the index of the result that has its derivative, or None.
        zeros: The indices of results for which the program has zeros.
    """

    pair: FunctionPair
    program: ClosedJaxpr
    operands: OperandTree
    sources: tuple[int | None, ...]
    zeros: Sequence[int]

    def run(self, *arrays: Any) -> list[Any]:
        """Return what the program computes of arrays, and of its constants."""
        count = len(self.program.in_avals)
        return jax.core.eval_jaxpr(self.program.jaxpr, arrays[count:], *arrays[:count])

    def jvp(self, arrays: Sequence[Any], tangents: Sequence[Any]) -> Any:
        none = [None] * len(self.sources)
        with materializing(self.pair.policy), interpreter.report_at(self.pair.where):
            ys, ts = self._push_forward(arrays, tangents)
        if not ts:
            return self.apply(arrays), none
        # The fields of implicit results have no derivatives, so their application has none.
        fixed = replace(self, sources=tuple(none))
        values = fixed.apply(arrays) if None in self.sources else none
        pairs = zip(self.sources, values, strict=True)
        return [ys.get(i, y) for i, y in pairs], [ts.get(i) for i in self.sources]

    def _push_forward(
        self, arrays: Sequence[Any], tangents: Sequence[Any]
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Return the dense results as the rule computes them, and tangents, by their indices."""
        moved = [i for i, t in enumerate(tangents) if t is not None]
        wrt, inputs, dense = self._dense_operands(arrays, moved)
        avals = zip(self.sources, self.program.out_avals, strict=True)
        outputs = [i for i, aval in avals if i is not None and _has_derivative(aval)]
        if not wrt or not outputs:
            return {}, {}
        points = [arrays[i] for i in inputs]
        towards, directions = jax.jvp(dense, points, [tangents[i] for i in inputs])
        operands = self.operands.build(arrays)
        for i, toward in zip(wrt, towards, strict=True):
            operands[i] = with_toward(operands[i], toward)
        ys, ts = self.pair.jvp(operands, wrt, directions)
        # Nothing is reported where the derivative alone is used.
        results = {
            i: dense_toward(densify, ys[i], {}) if i in self.zeros else self.pair.densify(ys[i])
            for i in self.sources
            if i is not None
        }
        return results, {i: self.pair.densify(ts[i]) for i in outputs}

    def transpose(
        self, arrays: Sequence[Any], is_linear: Sequence[bool], cotangents: Sequence[Any]
    ) -> Sequence[Any]:
        arrays, pairs = zeros_for_types(arrays), zip(self.sources, cotangents, strict=True)
        gs = {i: g for i, g in pairs if i is not None and g is not None}
        with materializing(self.pair.policy), interpreter.report_at(self.pair.where):
            linear = [i for i, flag in enumerate(is_linear) if flag]
            wrt, inputs, dense = self._dense_operands(arrays, linear)
            operands = self.operands.build(arrays)
            types = [aval_of(operands[i]) for i in wrt]

            def transpose(constant: Sequence[Any], gs: Mapping[int, Any]) -> Any:
                def function(*inner: Any) -> list[Any]:
                    ys = self.pair.dense(*replace_at(constant, wrt, inner))
                    return [ys[i] for i in gs]

                return jax.linear_transpose(function, *types)([*gs.values()])

            constant = replace_at(operands, wrt, [None] * len(wrt))
            grads = [*map(self.pair.densify, run_through(transpose, constant, gs))]
            # ``jax.vjp`` would recurse without end: it differentiates ``dense`` first. The tangent
            # of a deferred operand applies this function, and its transpose is computed here again.
            pull_back = jax.linear_transpose(dense, *[arrays[i] for i in inputs])
            return replace_at([None] * len(arrays), inputs, pull_back(grads))

    def _dense_operands(
        self, arrays: Sequence[Any], changing: Sequence[int]
    ) -> tuple[list[int], list[int], Callable[..., list[Any]]]:
        """Return the operands with derivatives with respect to changing arrays.

        Returns:
            The indices of these operands, the indices of the arrays that they depend on, and a
            function from these arrays to dense arrays with the derivatives of the operands.
        """
        operands = self.operands.build(arrays)
        indices = [jax.tree.leaves(toward_of(x)) for x in self.operands.build(range(len(arrays)))]
        used = [set(changing).intersection(each) for each in indices]
        wrt = [i for i, x in enumerate(operands) if used[i] and _has_derivative(x)]
        inputs = sorted(set().union(*[used[i] for i in wrt]))

        def dense(*inner: Any) -> list[Any]:
            operands = self.operands.build(replace_at(arrays, inputs, inner))
            cache: Cache = {}
            return [dense_toward(self.pair.densify, operands[i], cache) for i in wrt]

        return wrt, inputs, dense


def key_of(primitive: Any, parameters: Mapping[str, Any]) -> Hashable:
    """Return a key that is equal for equations that compute the same."""
    return primitive, tuple([(name, StaticLeaf(parameters[name])) for name in sorted(parameters)])


def _is_traced(operands: Sequence[Any]) -> bool:
    """Return whether a function may be differentiated: JAX traces operands of floating dtypes."""
    leaves = jax.tree.leaves(list(operands))
    return any(isinstance(x, jax.core.Tracer) and _has_derivative(x) for x in leaves)


def _has_derivative(x: Any) -> bool:
    """Return whether arrays of x's dtype have derivatives."""
    return bool(jnp.issubdtype(jnp.result_type(x), jnp.inexact))


@rule("custom_jvp_call", "custom_vjp_call")
def custom_derivative(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Run a function with a custom JVP or VJP rule, which stays its derivative."""
    function = FunctionPair(
        lambda *operands: interpreter.inline(eqn.params["call_jaxpr"], operands),
        lambda *operands: bind_equation(eqn, operands),
        eqn.primitive.name,
        key_of(eqn.primitive, eqn.params),
        interpreter.where_of(eqn),
    )
    # A VJP rule need not be linear, so the cotangents of all uses of a result are added up first.
    return function(operands, add_up=eqn.primitive.name == "custom_vjp_call")


@rule("custom_lin")
def custom_lin(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Stage the linear function that JAX transposes by a VJP rule: forward mode is JAX's error."""

    def value(*operands: Any) -> Sequence[Any]:
        zeros = [jnp.zeros(x.shape, x.dtype) for x in map(aval_of, operands)]
        return bind_equation(eqn, zeros)

    function = FunctionPair(
        value, lambda *operands: bind_equation(eqn, operands), "custom_vjp_call", None
    )
    return function(operands)
