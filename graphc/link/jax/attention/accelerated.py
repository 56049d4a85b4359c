"""Attention by kernels for GPUs, where a mode asks for them: ``Mode("JAX", attention="pallas")``.

Kernels run on one device, for mask and score functions that are computed element by element, and
for the lengths and dtypes that Triton compiles. All other attention is that of ``lowered.py``, and
so is attention of a program that runs on another platform.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graphc.attention.flex import Flex, FlexGradient, FlexOp
from graphc.attention.inputs import AttentionInputs, scale_of
from graphc.attention.mods import INDICES
from graphc.ir import Graph, Node
from graphc.link.jax.attention import lowered
from graphc.link.jax.attention.elements import MIN_LENGTH, ElementFunction
from graphc.link.jax.backend import OPTION_RULES, OptionRule
from graphc.link.jax.jaxprs import replace_at
from graphc.link.jax.mesh import current
from graphc.link.jax.releases import pallas_triton
from graphc.link.jax.varying import varying_axes
from graphc.link.legalize import replace_kind

if TYPE_CHECKING:
    from graphc.link.jax.attention.pallas import KernelSpec


@dataclass(frozen=True, slots=True)
class KernelFlex(Flex):
    """Attention that a GPU computes by kernels.

    Attributes:
        interpret: Whether Pallas interprets the kernels, on any device.
    """

    interpret: bool

    def gradient(self, wanted: tuple[bool, ...]) -> FlexGradient:
        return KernelFlexGradient(**_parameters(self), wanted=wanted)


@dataclass(frozen=True, slots=True)
class KernelFlexGradient(FlexGradient):
    """The gradient of attention that a GPU computes by kernels.

    Attributes:
        interpret: Whether Pallas interprets the kernels, on any device.
    """

    interpret: bool


def _parameters(op: FlexOp) -> dict[str, Any]:
    return {x.name: getattr(op, x.name) for x in fields(op)}


def with_kernels(op: Flex, choice: str | None) -> Flex:
    """Return attention for a value of the option ``attention``."""
    if choice is None or choice == "xla":
        return op
    return KernelFlex(**_parameters(op), interpret=choice == "interpret")


def use_kernels(graph: Graph, choice: str) -> Graph:
    """Return the graph whose attention is computed as the option ``attention`` says."""

    def new(op: FlexOp, inputs: Sequence[Node]) -> Node:
        if isinstance(op, FlexGradient):
            op = KernelFlexGradient(**_parameters(op), interpret=choice == "interpret")
        return Node.make(with_kernels(op, choice) if isinstance(op, Flex) else op, *inputs)

    return graph if choice == "xla" else replace_kind(graph, FlexOp, new)


def flex(op: KernelFlex, values: Sequence[Any]) -> Any:
    """Return attention, by kernels where they exist."""
    from graphc.link.jax.attention import pallas  # noqa: PLC0415 (few programs need it)

    spec = kernel_spec(op, op.split_inputs(values))
    if spec is None:
        return lowered.flex(op, values)

    def by_kernels(*values: Any) -> Any:
        x = op.split_inputs(list(map(jnp.asarray, values)))
        score, mask = (
            () if f is None else f.operands(*captured)
            for f, captured in ((spec.score, x.score_captured), (spec.mask, x.mask_captured))
        )
        return pallas.forward(spec, x._replace(score_captured=score, mask_captured=mask))

    return _on_gpu(op, by_kernels, lambda *values: lowered.flex(op, values), values)


def flex_gradient(op: KernelFlexGradient, values: Sequence[Any]) -> Any:
    """Return the gradient of attention, by kernels where they exist."""
    from graphc.link.jax.attention import pallas  # noqa: PLC0415 (few programs need it)

    spec = kernel_spec(op, op.split_inputs(values))
    if spec is None:
        return lowered.flex_gradient(op, values)

    def by_kernels(*values: Any) -> Any:
        x = op.split_inputs(list(map(jnp.asarray, values)))
        mask = () if spec.mask is None else spec.mask.operands(*x.mask_captured)
        x = x._replace(mask_captured=mask)
        if spec.score is None:
            return pallas.backward(spec, x, ())
        function, positions = spec.score, [i for i, flag in enumerate(op.wanted) if flag]

        def operands(*wanted: Any) -> Any:
            return function.operands(*replace_at(x.score_captured, positions, wanted))

        arrays, pull = jax.vjp(operands, *op.wanted_of(x.score_captured))
        flags = function.depends(op.wanted)
        by_q, by_k, by_v, *others = pallas.backward(spec, x._replace(score_captured=arrays), flags)
        remaining = iter(others)
        cotangents = tuple(
            next(remaining).astype(y.dtype) if flag else _zero(y)
            for y, flag in zip(arrays, flags, strict=True)
        )
        return by_q, by_k, by_v, *pull(cotangents)

    return _on_gpu(op, by_kernels, lambda *values: lowered.flex_gradient(op, values), values)


def _zero(x: Any) -> Any:
    dtype = x.dtype if jnp.issubdtype(x.dtype, jnp.inexact) else jax.dtypes.float0
    return np.zeros(x.shape, dtype)


def _on_gpu(op: Any, by_kernels: Any, by_xla: Any, values: Sequence[Any]) -> Any:
    """Return the results of kernels on CUDA's devices, or where they are interpreted."""
    if op.interpret:
        return by_kernels(*values)
    return lax.platform_dependent(*values, cuda=by_kernels, default=by_xla)


def kernel_spec(op: Any, x: AttentionInputs[Any]) -> KernelSpec | None:
    """Return the specification of the kernels for some arrays; None if there are none."""
    from graphc.link.jax.attention.pallas import KernelSpec  # noqa: PLC0415 (few programs need it)

    if why_no_kernels(op, x.q.dtype) or current() is not None or varying_axes(x.q, x.k, x.v):
        return None
    captured = [np.shape(y) for y in (*x.score_captured, *x.mask_captured)]
    if 0 in (*x.q.shape[:3], *x.k.shape[1:3], *sum(captured, ())):
        return None
    return KernelSpec(*_functions(op), op.block, scale_of(op, x.q.shape[3]), op.interpret)


def why_no_kernels(op: Any, dtype: Any) -> str:
    """Return why there are no kernels for an operation on one device; "" if there are."""
    if not op.interpret and pallas_triton() is None:
        return "Pallas has no Triton in this release of JAX"
    smallest = 1 if op.interpret else MIN_LENGTH
    if any(n < smallest or n & (n - 1) for n in op.block):
        return f"blocks of {op.block} are no powers of two from {smallest} on"
    if np.dtype(dtype).itemsize > 4 and not op.interpret:
        return f"Triton multiplies no matrices of {dtype}"
    score, mask = _functions(op)
    for name, graph, function in (("score", op.score, score), ("mask", op.mask, mask)):
        if graph is not None and function is None:
            return f"the {name} function computes with arrays, not with elements of arrays"
    return ""


def _functions(op: Any) -> tuple[ElementFunction | None, ElementFunction | None]:
    n = len(INDICES)
    return (
        None if op.score is None else ElementFunction.of(op.score, n + 1, has_score=True),
        None if op.mask is None else ElementFunction.of(op.mask, n, has_score=False),
    )


def notes_of(graph: Graph) -> dict[Node, str]:
    """Return a plan's notes on attention that kernels compute, or why none do."""
    notes = {}
    for node in graph.nodes:
        if isinstance(node.op, KernelFlex | KernelFlexGradient):
            reason = why_no_kernels(node.op, node.inputs[0].type.dtype)
            notes[node] = f"by XLA: {reason}" if reason else "by kernels on CUDA's devices"
    return notes


OPTION_RULES["attention"] = OptionRule(use_kernels, notes_of)
