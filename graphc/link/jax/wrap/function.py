"""JAX functions as comparable values: functions of flat arrays, without captured arrays.

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
from graphc.ir import TensorType
from graphc.link.jax.wrap.programs import refuse_what_runs_not
from graphc.link.jax.wrap.types import result_types


class _Running(threading.local):
    depth = 0


_running = _Running()


def is_running() -> bool:
    """Whether a wrapped function is being traced: functions that it calls join its trace."""
    return _running.depth > 0


class Function:
    """A function of arrays that JAX traces.

    ``wide`` says whether 64-bit dtypes are enabled while it is traced.

    Args:
        name: What messages call it.
        apart: What tells it from others beside its text: comparable in this process only.
        parts: What it is made of, as text: equal for equal functions alone, in every process.
    """

    __slots__ = ("apart", "name", "text")

    wide: bool

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
        """Return its digest, which is equal in every process."""
        return self.text

    def described(self) -> tuple[str, tuple[tuple[str, Any], ...]]:
        """Return a key without the numbers in it, and these numbers by name."""
        raise NotImplementedError

    def whole(self, *values: Any) -> Any:
        """Return the results, nested."""
        raise NotImplementedError

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        """Return the results as a flat tuple."""
        return tuple(jax.tree.leaves(self.whole(*as_arrays(values))))

    def types(self, types: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Return the types of the results, given those of the arguments."""
        return result_types(self, types).types

    # Lengths of cotangents are those of results, which types may not tell: so what is derived is
    # tried on arguments made of those of the user's function.

    def base(self, types: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Return the argument types of the user's function, given its own."""
        return tuple(types)

    def example(self, *base: Any) -> tuple[Any, ...]:
        """Return example arguments, given those of the user's function."""
        return base

    def try_on(self, types: Sequence[TensorType]) -> None:
        """Raise where JAX cannot trace it for arguments of these types."""
        result_types(_Trial(self), self.base(types))


def as_arrays(values: Sequence[Any]) -> list[Any]:
    """Convert NumPy arrays to JAX's, which have more methods; tracers stay."""
    return [jnp.asarray(x) if isinstance(x, np.ndarray | np.generic) else x for x in values]


class running:  # noqa: N801 (reads as a statement)
    """A context in which a wrapped function is being traced."""

    def __enter__(self) -> None:
        _running.depth += 1

    def __exit__(self, *error: object) -> None:
        _running.depth -= 1


def checked_results(name: str, found: Any) -> Any:
    """Check that a function's results are arrays, and flatten them.

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
    """Return the error of a result that is no array."""
    is_number = isinstance(y, int | float | complex) or jax.export.is_symbolic_dim(y)
    if not is_number and not isinstance(y, jax.Array | np.ndarray | np.generic):
        return f"{y!r}, of the class {type(y).__name__}"
    dtype = getattr(y, "dtype", None)
    return "a random key" if dtype is not None and is_key(dtype) else ""


def is_key(dtype: Any) -> bool:
    """Whether a dtype is that of random keys."""
    return bool(jnp.issubdtype(dtype, jax.dtypes.prng_key))


class Derived(Function):
    """A function derived from another one.

    Args:
        inner: That.
        what: What it is of that.
        parameters: What it is made by beside it.
    """

    __slots__ = ("inner", "parameters")

    def __init__(self, inner: Function, what: str = "", *parameters: object) -> None:
        super().__init__(f"{inner.name}{what}", inner.apart, inner.text, *parameters)
        self.inner, self.parameters = inner, parameters

    @property
    def wide(self) -> bool:  # type: ignore[override]
        return self.inner.wide

    def described(self) -> tuple[str, tuple[tuple[str, Any], ...]]:
        kind, numbers = self.inner.described()
        return f"{type(self).__name__} {self.parameters} {kind}", numbers


class _Trial(Derived):
    """A derived function applied to example arguments, to find what JAX cannot do."""

    __slots__ = ()

    def whole(self, *values: Any) -> Any:
        """Return nothing; raise the errors that JAX would raise when the program runs."""
        program = jax.make_jaxpr(self.inner.whole)(*self.inner.example(*values))
        refuse_what_runs_not(program)
        return ()


class Pullback(Derived):
    """The pullback of a function: vectors times the Jacobian, for some results and arguments.

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
    """The pushforward of a function: the Jacobian times vectors.

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
        """Split the arguments into the function's, those that vary, and their tangents."""
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
    """The pushforward of a function with a pullback only: the transpose of that linear map."""

    __slots__ = ()

    def whole(self, *values: Any) -> Any:
        part, xs, ts = self._parts(values)
        ys, back = jax.vjp(part, *xs)
        zeros = [jnp.zeros_like(y) for y in ys]
        return jax.vjp(lambda *gs: back(gs), *zeros)[1](tuple(ts))


def _restricted(
    function: Function, inputs: Sequence[Any], moving: Sequence[int], wanted: Sequence[int]
) -> Callable[..., tuple[Any, ...]]:
    """Restrict a function to some results and some arguments."""

    def part(*values: Any) -> tuple[Any, ...]:
        given = [*inputs]
        for i, x in zip(moving, values, strict=True):
            given[i] = x
        ys = function(*given)
        return tuple(ys[i] for i in wanted)

    return part


class Batched(Derived):
    """A function mapped over the leading axis of some arguments.

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
