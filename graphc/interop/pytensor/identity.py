"""Operations that return their argument: checks, prints, and barriers to gradients."""

from __future__ import annotations

import inspect

import graphc.tensor as gt
from graphc.errors import GradientError
from graphc.grad import disconnected_grad, grad_clip, grad_scale, zero_grad
from graphc.interop.pytensor.application import Application
from graphc.interop.pytensor.elementwise import Converter, identity, without_casts
from graphc.loop.custom import custom_pullback
from graphc.tensor.core.assertion import CheckAndRaise
from graphc.tensor.core.print import Print
from graphc.tensor.core.tensor import Tensor


def check_and_raise(at: Application, x: Tensor, *conditions: Tensor) -> Tensor:
    """Check conditions, in every backend unless the mode says ``check=False``."""
    return CheckAndRaise(at.op.exc_type, at.op.msg)(x, *conditions)


def print_value(at: Application, x: Tensor) -> Tensor:
    is_default = getattr(at.op.global_fn, "__module__", "").startswith("pytensor.")
    return Print(at.op.message, tuple(at.op.attrs), None if is_default else at.op.global_fn)(x)


def _raise_gradient_error(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    raise GradientError(
        f"{x!r} has no gradient: PyTensor's undefined_grad says so.",
        "Leave it out of wrt=, or pass it through disconnected_grad instead.",
    )


@custom_pullback(_raise_gradient_error)
def _undefined_gradient(x: Tensor) -> Tensor:
    return x


KNOWN_FACTS = frozenset(inspect.signature(gt.assume).parameters)


def assume(at: Application, x: Tensor) -> Tensor:
    """Declare facts of an array; facts that graphc does not know are dropped."""
    facts = {key.name: bool(state.value) for key, state in at.op.assumptions}
    return gt.assume(
        x, **{name: True for name, holds in facts.items() if holds and name in KNOWN_FACTS}
    )


IDENTITIES: dict[str, Converter] = {
    "ViewOp": identity,
    "DeepCopyOp": identity,
    "OutputGuard": identity,
    "TypeCastingOp": identity,
    "CpuContiguous": identity,
    "TensorFromScalar": identity,
    "ScalarFromTensor": identity,
    "CheckAndRaise": check_and_raise,
    "Assert": check_and_raise,
    "Print": print_value,
    "ZeroGrad": without_casts(zero_grad),
    "DisconnectedGrad": without_casts(disconnected_grad),
    "UndefinedGrad": without_casts(_undefined_gradient),
    "GradClip": lambda at, x: grad_clip(x, at.op.clip_lower_bound, at.op.clip_upper_bound),
    "GradScale": lambda at, x: grad_scale(x, at.op.multiplier),
    "SpecifyAssumptions": assume,
}
"""The converters of operations that return their argument, by the names of their classes."""
