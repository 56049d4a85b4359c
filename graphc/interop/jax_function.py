"""JAX functions as values: of flat arrays, compared by what they compute, without the arrays.

A derivative, or the function of a batch, is such a value again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from hashlib import blake2b
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graphc.errors import ArgumentError
from graphc.interop.jax_programs import refuse_what_runs_not
from graphc.interop.jax_types import traced
from graphc.ir import TensorType

__all__ = [
    "Batched",
    "Function",
    "Pullback",
    "Pushforward",
    "TransposedPullback",
    "checked_results",
    "is_key",
    "is_running",
    "running",
]


class _Running(threading.local):
    depth = 0


_running = _Running()


def is_running() -> bool:
    """Whether a function is being traced here: what it calls is then traced with it."""
    return _running.depth > 0


class Function:
    """A function of arrays that JAX traces.

    Args:
        name: What messages call it.
        apart: What tells it from others beside its text: comparable in this process only.
        parts: What it is made of, as text: equal for equal functions alone, in every process.
    """

    __slots__ = ("apart", "name", "text")

    def __init__(self, name: str, apart: Hashable, *parts: object) -> None:
        self.name = name
        self.apart = apart
        written = " ".join([type(self).__name__, *map(repr, parts)])
        self.text = blake2b(written.encode(), digest_size=16).hexdigest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Function):
            return NotImplemented
        return self.text == other.text and self.apart == other.apart

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return self.name

    def key(self) -> str:
        """Its text, which is equal in every process."""
        return self.text

    def described(self) -> tuple[str, tuple[tuple[str, Any], ...]]:
        """What it is without the numbers that are part of it, and those, each with its name."""
        raise NotImplementedError

    def whole(self, *values: Any) -> Any:
        """Its results, nested as they are."""
        raise NotImplementedError

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        """Its results, one after the other."""
        return tuple(jax.tree.leaves(self.whole(*as_arrays(values))))

    def types(self, types: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """The types of its results, given those of its arguments."""
        return traced(self, types).types

    # Lengths of cotangents are those of results, which types may not tell: so what is derived is
    # tried on arguments made of those of the user's function.

    def base(self, types: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """The types of the user's function's arguments, given those of its own."""
        return tuple(types)

    def example(self, *base: Any) -> tuple[Any, ...]:
        """Its arguments, of the right shapes, given the user's function's."""
        return base

    def try_on(self, types: Sequence[TensorType]) -> None:
        """Raise where JAX cannot trace it for arguments of these types."""
        traced(_Trial(self), self.base(types))


def as_arrays(values: Sequence[Any]) -> list[Any]:
    """NumPy arrays as JAX's, which have methods of their own; what is traced as it is."""
    return [jnp.asarray(x) if isinstance(x, np.ndarray | np.generic) else x for x in values]


class running:  # noqa: N801 (reads as a statement)
    """A function is being traced within."""

    def __enter__(self) -> None:
        _running.depth += 1

    def __exit__(self, *error: object) -> None:
        _running.depth -= 1


def checked_results(name: str, found: Any) -> Any:
    """A function's results as arrays; raises where one is none.

    Raises:
        ArgumentError: Names it.
    """
    for path, y in jax.tree_util.tree_flatten_with_path(found)[0]:
        what = _refused(y)
        if what:
            place = jax.tree_util.keystr(path)
            raise ArgumentError(
                f"wrap_jax: {name} gave {what}{f', at {place}' if place else ''}; its results are "
                "to be arrays and numbers, nested in any way.",
                "Return them alone; a random key as jax.random.key_data(key).",
            )
    return jax.tree.map(jnp.asarray, found)


def _refused(y: Any) -> str:
    """What is wrong with a result."""
    is_number = isinstance(y, int | float | complex) or jax.export.is_symbolic_dim(y)
    if not is_number and not isinstance(y, jax.Array | np.ndarray | np.generic):
        return f"{y!r}, of the class {type(y).__name__}"
    dtype = getattr(y, "dtype", None)
    return "a random key" if dtype is not None and is_key(dtype) else ""


def is_key(dtype: Any) -> bool:
    """Whether it is a dtype of random keys."""
    return bool(jnp.issubdtype(dtype, jax.dtypes.prng_key))


class Derived(Function):
    """A function made of another one.

    Args:
        inner: That.
        what: What it is of that.
        parameters: What it is made by beside it.
    """

    __slots__ = ("inner", "parameters")

    def __init__(self, inner: Function, what: str = "", *parameters: object) -> None:
        super().__init__(f"{inner.name}{what}", inner.apart, inner.text, *parameters)
        self.inner, self.parameters = inner, parameters

    def described(self) -> tuple[str, tuple[tuple[str, Any], ...]]:
        kind, numbers = self.inner.described()
        return f"{type(self).__name__} {self.parameters} {kind}", numbers


class _Trial(Derived):
    """A derived function of the user's function's arguments, and whether JAX can do it."""

    __slots__ = ()

    def whole(self, *values: Any) -> Any:
        """Nothing; raises what JAX would tell when the program runs alone."""
        program = jax.make_jaxpr(self.inner.whole)(*self.inner.example(*values))
        refuse_what_runs_not(program)
        return ()


class Pullback(Derived):
    """Cotangents of some results pulled back to some arguments: vectors times the Jacobian.

    It takes the function's arguments and then the cotangents.
    """

    __slots__ = ("given", "wanted")

    def __init__(self, inner: Function, wanted: tuple[int, ...], given: tuple[int, ...]) -> None:
        super().__init__(inner, "'s pullback", wanted, given)
        self.wanted, self.given = wanted, given

    def whole(self, *values: Any) -> Any:
        inputs, cotangents = values[: -len(self.given)], values[-len(self.given) :]
        part = _restricted(self.inner, inputs, self.wanted, self.given)
        ys, back = jax.vjp(part, *[inputs[i] for i in self.wanted])
        # JAX has the conjugate of df/dRe + i df/dIm.
        conjugates = [jnp.conj(g).astype(y.dtype) for g, y in zip(cotangents, ys, strict=True)]
        return tuple(jnp.conj(x) for x in back(tuple(conjugates)))

    def base(self, types: Sequence[TensorType]) -> tuple[TensorType, ...]:
        return self.inner.base(types[: -len(self.given)])

    def example(self, *base: Any) -> tuple[Any, ...]:
        inputs = self.inner.example(*base)
        ys = self.inner(*inputs)
        return *inputs, *[ys[i] for i in self.given]

    def types(self, types: Sequence[TensorType]) -> tuple[TensorType, ...]:
        self.try_on(types)
        return tuple(types[i] for i in self.wanted)


class Pushforward(Derived):
    """How some results move when some arguments do: the Jacobian times vectors.

    It takes the function's arguments and then the tangents.
    """

    __slots__ = ("moved", "wanted")

    def __init__(self, inner: Function, moved: tuple[int, ...], wanted: tuple[int, ...]) -> None:
        super().__init__(inner, "'s pushforward", moved, wanted)
        self.moved, self.wanted = moved, wanted

    def whole(self, *values: Any) -> Any:
        part, xs, ts = self._parts(values)
        return jax.jvp(part, xs, ts)[1]

    def _parts(self, values: Sequence[Any]) -> tuple[Callable[..., Any], list[Any], list[Any]]:
        """What moves, from where, and how."""
        inputs, tangents = values[: -len(self.moved)], values[-len(self.moved) :]
        xs = [inputs[i] for i in self.moved]
        ts = [t.astype(x.dtype) for t, x in zip(tangents, xs, strict=True)]
        return _restricted(self.inner, inputs, self.moved, self.wanted), xs, ts

    def base(self, types: Sequence[TensorType]) -> tuple[TensorType, ...]:
        return self.inner.base(types[: -len(self.moved)])

    def example(self, *base: Any) -> tuple[Any, ...]:
        inputs = self.inner.example(*base)
        return *inputs, *[inputs[i] for i in self.moved]

    def types(self, types: Sequence[TensorType]) -> tuple[TensorType, ...]:
        self.try_on(types)
        results = self.inner.types(types[: -len(self.moved)])
        return tuple(results[i] for i in self.wanted)


class TransposedPullback(Pushforward):
    """The pushforward of what has only a pullback: that is linear, and this is its transpose."""

    __slots__ = ()

    def whole(self, *values: Any) -> Any:
        part, xs, ts = self._parts(values)
        ys, back = jax.vjp(part, *xs)
        zeros = [jnp.zeros_like(y) for y in ys]
        return jax.vjp(lambda *gs: back(gs), *zeros)[1](tuple(ts))


def _restricted(
    function: Function, inputs: Sequence[Any], moving: Sequence[int], wanted: Sequence[int]
) -> Callable[..., tuple[Any, ...]]:
    """Some of the results as a function of some of the arguments."""

    def part(*values: Any) -> tuple[Any, ...]:
        given = [*inputs]
        for i, x in zip(moving, values, strict=True):
            given[i] = x
        ys = function(*given)
        return tuple(ys[i] for i in wanted)

    return part


class Batched(Derived):
    """The function for every element of a batch: the leading axis of some arguments.

    It is the leading axis of every result.
    """

    __slots__ = ("flags",)

    def __init__(self, inner: Function, flags: Sequence[bool]) -> None:
        super().__init__(inner, " of a batch", *flags)
        self.flags = tuple(flags)

    def whole(self, *values: Any) -> Any:
        axes = [0 if flag else None for flag in self.flags]
        return jax.vmap(self.inner, in_axes=axes)(*values)

    def base(self, types: Sequence[TensorType]) -> tuple[TensorType, ...]:
        return self.inner.base(self._elements(types))

    def example(self, *base: Any) -> tuple[Any, ...]:
        inputs = zip(self.flags, self.inner.example(*base), strict=True)
        return tuple(jnp.expand_dims(x, 0) if flag else x for flag, x in inputs)

    def types(self, types: Sequence[TensorType]) -> tuple[TensorType, ...]:
        sizes = _known(x.shape[0] for flag, x in zip(self.flags, types, strict=True) if flag)
        results = self.inner.types(self._elements(types))
        size = next(sizes, None)
        return tuple(y.with_shape((size, *y.shape)) for y in results)

    def _elements(self, types: Sequence[TensorType]) -> list[TensorType]:
        pairs = zip(self.flags, types, strict=True)
        return [x.with_shape(x.shape[1:]) if flag else x for flag, x in pairs]


def _known(lengths: Iterator[int | None]) -> Iterator[int]:
    return (n for n in lengths if n is not None)
