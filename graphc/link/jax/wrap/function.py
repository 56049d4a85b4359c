"""JAX functions as comparable values: functions of flat arrays, without captured arrays.

A derivative of a function, or the function of a batch, is another comparable value.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from hashlib import blake2b
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr

from graphc.errors import ArgumentError
from graphc.ir import TensorType
from graphc.link.jax.jaxprs import has_primitive, nested, replace_at
from graphc.link.jax.wrap.types import result_types


class _Running(threading.local):
    depth = 0


_running = _Running()


def is_running() -> bool:
    """Return whether a wrapped function is being traced: functions that it calls join the trace."""
    return _running.depth > 0


class JaxFunction:
    """A function of arrays that JAX traces.

    ``wide`` says whether 64-bit dtypes are enabled while JAX traces the function.

    Args:
        name: The function's name in messages.
        identity: The identity of the function beside its text, comparable in this process only.
        parameters: Values whose representations identify the function in every process.
    """

    __slots__ = ("identity", "name", "text")

    wide: bool

    def __init__(self, name: str, identity: Hashable, *parameters: object) -> None:
        self.name = name
        self.identity = identity
        description = " ".join([type(self).__name__, *map(repr, parameters)])
        self.text = blake2b(description.encode(), digest_size=16).hexdigest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, JaxFunction):
            return NotImplemented
        return self.text == other.text and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return self.name

    def key(self) -> str:
        """Return the digest of the function, which is equal in every process."""
        return self.text

    def key_and_numbers(self) -> tuple[str, tuple[tuple[str, Any], ...]]:
        """Return a key of the function without its numbers, and the numbers by name."""
        raise NotImplementedError

    def result_tree(self, *values: Any) -> Any:
        """Return the results, nested as the user's function nests them."""
        raise NotImplementedError

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        """Return the results as a flat tuple."""
        # JAX's arrays have more methods than NumPy's; tracers stay tracers.
        arrays = [jnp.asarray(x) if isinstance(x, np.ndarray | np.generic) else x for x in values]
        return tuple(jax.tree.leaves(self.result_tree(*arrays)))

    def types(self, types: Sequence[TensorType]) -> tuple[TensorType, ...]:
        return result_types(self, types).types

    # Cotangents have the lengths of results, which types may lack. A derivative is therefore
    # traced for example arguments, computed from arguments of the user's function.

    def base(self, types: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Return the types of the user's function's arguments, given the types of the arguments."""
        return tuple(types)

    def example(self, *base: Any) -> tuple[Any, ...]:
        """Return example arguments, computed from arguments of the user's function."""
        return base

    def try_on(self, types: Sequence[TensorType]) -> None:
        """Raise an error if JAX cannot trace the function for arguments of these types."""
        result_types(_Trial(self), self.base(types))


class running:  # noqa: N801 (reads as a statement)
    """A context in which a wrapped function is being traced."""

    def __enter__(self) -> None:
        _running.depth += 1

    def __exit__(self, *error: object) -> None:
        _running.depth -= 1


def as_jax_results(name: str, results: Any) -> Any:
    """Convert a function's results to JAX's arrays.

    Raises:
        ArgumentError: If a result is not an array or number.
    """
    for path, y in jax.tree_util.tree_flatten_with_path(results)[0]:
        description = _describe_invalid(y)
        if description:
            at = jax.tree_util.keystr(path)
            at = f", at {at}" if at else ""
            raise ArgumentError(
                f"wrap_jax: {name} gave {description}{at}; its results are "
                "to be arrays and numbers, nested in any way.",
                "Return them alone; a random key as jax.random.key_data(key).",
            )
    return jax.tree.map(jnp.asarray, results)


def _describe_invalid(y: Any) -> str:
    """Return a description of a result that is not an array; empty for an array."""
    is_number = isinstance(y, int | float | complex) or jax.export.is_symbolic_dim(y)
    if not is_number and not isinstance(y, jax.Array | np.ndarray | np.generic):
        return f"{y!r}, of the class {type(y).__name__}"
    dtype = getattr(y, "dtype", None)
    return "a random key" if dtype is not None and is_key(dtype) else ""


def is_key(dtype: Any) -> bool:
    """Return whether a dtype is a dtype of random keys."""
    return bool(jnp.issubdtype(dtype, jax.dtypes.prng_key))


class Derived(JaxFunction):
    """A function derived from another one, with a suffix to its name and static parameters."""

    __slots__ = ("inner", "parameters")

    def __init__(self, inner: JaxFunction, suffix: str = "", *parameters: object) -> None:
        super().__init__(f"{inner.name}{suffix}", inner.identity, inner.text, *parameters)
        self.inner, self.parameters = inner, parameters

    @property
    def wide(self) -> bool:  # type: ignore[override]
        return self.inner.wide

    def key_and_numbers(self) -> tuple[str, tuple[tuple[str, Any], ...]]:
        kind, numbers = self.inner.key_and_numbers()
        return f"{type(self).__name__} {self.parameters} {kind}", numbers


class NoPushforwardError(TypeError):
    """A function with ``jax.custom_vjp`` has no pushforward."""


class CapturedByRuleError(TypeError):
    """JAX has no derivative with respect to an array that a custom rule's function captures."""


def check_can_run(program: ClosedJaxpr) -> None:
    """Raise an error if JAX cannot run a part of a traced program.

    Raises:
        NoPushforwardError: If the program is a pushforward of a function with only a pullback.
        CapturedByRuleError: If a function with a custom rule captures an array with respect to
            which the derivative is taken.
    """
    for part in nested(program):
        if isinstance(part, ClosedJaxpr) and any(
            isinstance(x, jax.core.Tracer) for x in part.consts
        ):
            raise CapturedByRuleError(
                "a function with jax.custom_jvp or jax.custom_vjp captures an array with respect "
                "to which the derivative is taken, for which JAX has no rule; make the array an "
                "argument of that function"
            )
    if has_primitive(program, "custom_lin"):
        raise NoPushforwardError("jax.custom_vjp has no forward mode")


class _Trial(Derived):
    """A derived function as a function of the base arguments, traced to raise errors early."""

    __slots__ = ()

    def result_tree(self, *values: Any) -> Any:
        """Return no results; raise the errors that JAX would raise when the program runs."""
        program = jax.make_jaxpr(self.inner.result_tree)(*self.inner.example(*values))
        check_can_run(program)
        return ()


class Pullback(Derived):
    """The pullback of a function: vectors times the Jacobian, for some results and arguments.

    The arguments are the function's arguments, then the cotangents.
    """

    __slots__ = ("outputs", "wrt")

    def __init__(self, inner: JaxFunction, wrt: tuple[int, ...], outputs: tuple[int, ...]) -> None:
        super().__init__(inner, "'s pullback", wrt, outputs)
        self.wrt, self.outputs = wrt, outputs

    def result_tree(self, *values: Any) -> Any:
        inputs, cotangents = values[: -len(self.outputs)], values[-len(self.outputs) :]
        f = _restrict(self.inner, inputs, self.wrt, self.outputs)
        ys, back = jax.vjp(f, *[inputs[i] for i in self.wrt])
        # JAX has the conjugate of df/dRe + i df/dIm.
        conjugates = [jnp.conj(g).astype(y.dtype) for g, y in zip(cotangents, ys, strict=True)]
        return tuple(jnp.conj(x) for x in back(tuple(conjugates)))

    def base(self, types: Sequence[TensorType]) -> tuple[TensorType, ...]:
        return self.inner.base(types[: -len(self.outputs)])

    def example(self, *base: Any) -> tuple[Any, ...]:
        inputs = self.inner.example(*base)
        ys = self.inner(*inputs)
        return *inputs, *[ys[i] for i in self.outputs]

    def types(self, types: Sequence[TensorType]) -> tuple[TensorType, ...]:
        self.try_on(types)
        return tuple(types[i] for i in self.wrt)


class Pushforward(Derived):
    """The pushforward of a function: the Jacobian times vectors.

    The arguments are the function's arguments, then the tangents.
    """

    __slots__ = ("outputs", "wrt")

    def __init__(self, inner: JaxFunction, wrt: tuple[int, ...], outputs: tuple[int, ...]) -> None:
        super().__init__(inner, "'s pushforward", wrt, outputs)
        self.wrt, self.outputs = wrt, outputs

    def result_tree(self, *values: Any) -> Any:
        f, xs, ts = self._parts(values)
        return jax.jvp(f, xs, ts)[1]

    def _parts(self, values: Sequence[Any]) -> tuple[Callable[..., Any], list[Any], list[Any]]:
        """Split the arguments into the function's, those that vary, and their tangents."""
        inputs, tangents = values[: -len(self.wrt)], values[-len(self.wrt) :]
        xs = [inputs[i] for i in self.wrt]
        ts = [t.astype(x.dtype) for t, x in zip(tangents, xs, strict=True)]
        return _restrict(self.inner, inputs, self.wrt, self.outputs), xs, ts

    def base(self, types: Sequence[TensorType]) -> tuple[TensorType, ...]:
        return self.inner.base(types[: -len(self.wrt)])

    def example(self, *base: Any) -> tuple[Any, ...]:
        inputs = self.inner.example(*base)
        return *inputs, *[inputs[i] for i in self.wrt]

    def types(self, types: Sequence[TensorType]) -> tuple[TensorType, ...]:
        self.try_on(types)
        results = self.inner.types(types[: -len(self.wrt)])
        return tuple(results[i] for i in self.outputs)


class TransposedPullback(Pushforward):
    """The pushforward of a function with a pullback only: the transpose of that linear map."""

    __slots__ = ()

    def result_tree(self, *values: Any) -> Any:
        f, xs, ts = self._parts(values)
        ys, back = jax.vjp(f, *xs)
        zeros = [jnp.zeros_like(y) for y in ys]
        return jax.vjp(lambda *gs: back(gs), *zeros)[1](tuple(ts))


def _restrict(
    function: JaxFunction, inputs: Sequence[Any], wrt: Sequence[int], outputs: Sequence[int]
) -> Callable[..., tuple[Any, ...]]:
    """Return some results of a function as a function of some of the inputs."""

    def restriction(*values: Any) -> tuple[Any, ...]:
        ys = function(*replace_at(inputs, wrt, values))
        return tuple(ys[i] for i in outputs)

    return restriction


class Batched(Derived):
    """A function mapped over the leading axis of some arguments; all results have that axis."""

    __slots__ = ("flags",)

    def __init__(self, inner: JaxFunction, flags: Sequence[bool]) -> None:
        super().__init__(inner, " of a batch", *flags)
        self.flags = tuple(flags)

    def result_tree(self, *values: Any) -> Any:
        axes = [0 if flag else None for flag in self.flags]
        return jax.vmap(self.inner, in_axes=axes)(*values)

    def base(self, types: Sequence[TensorType]) -> tuple[TensorType, ...]:
        return self.inner.base(self._elements(types))

    def example(self, *base: Any) -> tuple[Any, ...]:
        inputs = zip(self.flags, self.inner.example(*base), strict=True)
        return tuple(jnp.expand_dims(x, 0) if flag else x for flag, x in inputs)

    def types(self, types: Sequence[TensorType]) -> tuple[TensorType, ...]:
        sizes = [x.shape[0] for flag, x in zip(self.flags, types, strict=True) if flag]
        results = self.inner.types(self._elements(types))
        size = next((n for n in sizes if n is not None), None)
        return tuple(y.with_shape((size, *y.shape)) for y in results)

    def _elements(self, types: Sequence[TensorType]) -> list[TensorType]:
        pairs = zip(self.flags, types, strict=True)
        return [x.with_shape(x.shape[1:]) if flag else x for flag, x in pairs]
