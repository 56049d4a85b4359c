"""Random keys that persist between calls: shared generators, and streams of them."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np

from graphc.compile.shared import Shared, SharedInput, Store
from graphc.errors import ArgumentError, DTypeError
from graphc.ir import Leaf
from graphc.link import as_numpy
from graphc.loop.draws import key_of_draw
from graphc.random.generator import (
    DISTRIBUTIONS,
    KEY,
    Generator,
    as_generator,
    as_method,
)
from graphc.random.keys import key
from graphc.random.threefry import Threefry
from graphc.tensor import Tensor

UNSET: Any = object()
"""A missing seed; None means a fresh one."""

WORD = 0xFFFFFFFF


class GeneratorStore(SharedInput):
    """A shared variable whose value is a key."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        with self.store.lock:
            value = np.array(self.store.numpy(self.given_type))
        return _store, (value, self.given_name), self.default_update


def _store(value: np.ndarray[Any, Any], name: str | None) -> GeneratorStore:
    return GeneratorStore(KEY, name, Store(value, owned=True))


class SharedGenerator(Shared, Generator):
    """A generator whose key persists between calls, and advances by updates of functions."""

    __slots__ = ()

    def set_value(self, new_value: Any = None, borrow: bool = False, *, seed: Any = UNSET) -> None:
        """Set the key that the next calls of functions read; nothing is compiled again.

        Args:
            new_value: A key, or any other value that ``shared_rng`` takes.
            borrow: Store the array itself, not a copy.
            seed: A seed instead.

        Raises:
            ArgumentError: If not exactly one of them is given, or the value is no key.
            DTypeError: The value has another dtype.
        """
        super().set_value(_key_or_seed("set_value", new_value, seed), borrow)

    def __deepcopy__(self, memo: dict[int, Any]) -> SharedGenerator:
        if id(self) not in memo:
            generator = SharedGenerator.make(_store(self.get_value(), self.name))
            self._copy_default_update(generator, memo)
        copied: SharedGenerator = memo[id(self)]
        return copied


GeneratorStore.node_class = SharedGenerator


def _key_of_seed(seed: Any) -> np.ndarray[Any, Any]:
    """Return the key of an integer, as ``gt.random.key`` does, or NumPy's state of another seed."""
    if isinstance(seed, int | np.integer) and not isinstance(seed, bool):
        return np.array([int(seed) >> 32 & WORD, int(seed) & WORD], np.uint32)
    is_sequence = isinstance(seed, np.random.SeedSequence)
    try:
        sequence = seed if is_sequence else np.random.SeedSequence(seed)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"{seed!r} is no seed: {error}.",
            "Give an integer, a sequence of integers, a numpy.random.SeedSequence, or None for a "
            "fresh one.",
        ) from error
    return sequence.generate_state(2)


def key_from(value: Any) -> np.ndarray[Any, Any]:
    """Return a key, or draw one from a copy of a NumPy generator."""
    if isinstance(value, np.random.Generator):
        return deepcopy(value).integers(WORD, size=2, dtype=np.uint32, endpoint=True)
    array = as_numpy(value)
    if array.dtype != np.uint32:
        raise DTypeError(
            f"A value of {array.dtype} is no key, which is uint32[2].",
            "Give seed=..., or the data of a key: gt.random.key(seed).eval().",
        )
    return array


def _key_or_seed(title: str, value: Any, seed: Any) -> np.ndarray[Any, Any]:
    if (value is None) == (seed is UNSET):
        raise ArgumentError(
            f"{title}: expected either a key or seed=.",
            "Give one of them; seed=None makes a fresh key.",
        )
    return _key_of_seed(seed) if value is None else key_from(value)


def shared_rng(
    value: Any = None, *, seed: Any = UNSET, name: str | None = None, borrow: bool = False
) -> SharedGenerator:
    """Make a generator whose key persists between calls, and advances by updates of functions.

    Args:
        value: A key, uint32[2], or a ``numpy.random.Generator``, of which a copy draws one.
        seed: An integer, for the key of ``gt.random.key``; any other seed that
            ``numpy.random.SeedSequence`` takes; or None for a fresh one.
        name: The generator's name in messages.
        borrow: Store the array itself, not a copy.

    Returns:
        A shared variable that has every distribution as a method. A method takes the
        distribution's arguments except ``rng``, and returns a pair: the next generator and the
        draw.

    Raises:
        ArgumentError: Neither or both of a value and a seed, or an invalid seed.
        DTypeError: The value is no key.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> rng = gt.random.shared_rng(seed=7)
        >>> following, x = rng.integers(100, size=3)
        >>> f = graphc.function([], x, updates={rng: following}, mode="NUMPY")
        >>> first, second = f(), f()
        >>> first.tolist() == second.tolist()
        False
        >>> rng.set_value(seed=7)
        >>> first.tolist() == f().tolist()
        True
    """
    generator_key = _key_or_seed("shared_rng", value, seed)
    generator = SharedGenerator.make(GeneratorStore(KEY, name, Store(None, owned=True)))
    Shared.set_value(generator, generator_key, borrow)
    return generator


def default_rng(seed: Any = None) -> Generator:
    """Make a generator from a seed, without state: it has the same key in each call.

    Args:
        seed: As for ``shared_rng``; or a symbolic integer.

    Returns:
        A symbolic key that has every distribution as a method. It is passed to a program when it
        runs, so that another seed does not compile another program.

    Example:
        >>> import graphc.tensor as gt
        >>> following, x = gt.random.default_rng(7).integers(100, size=3)
        >>> same = gt.random.integers(100, size=3, rng=gt.random.key(7))
        >>> x.eval(mode="NUMPY").tolist() == same.eval(mode="NUMPY").tolist()
        True
    """
    if isinstance(seed, Tensor):
        return as_generator(key(seed))
    value = key_from(seed) if isinstance(seed, np.random.Generator) else _key_of_seed(seed)
    return as_generator(Tensor.make(Leaf(value, "key")))


if TYPE_CHECKING:
    from graphc.random.signatures import Draws

    Drawing = Draws[Tensor]
else:
    Drawing = object


class RandomStream(Drawing):
    """A stream of draws with keys from one seed, each stored in a shared variable.

    Every distribution is a method, with its arguments except ``rng``. In a stream of an integer
    seed, draw number i starts with the key ``fold_in(key(seed), i)``. A function that reads a draw
    advances its key by default, and so does each step of a loop that makes a draw.

    Args:
        seed: As for ``shared_rng``; a fresh one by default.

    Attributes:
        default_instance_seed: The seed.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> stream = gt.random.RandomStream(seed=3)
        >>> x = stream.integers(100, size=3)
        >>> f = graphc.function([], x, mode="NUMPY")
        >>> first, second = f(), f()
        >>> first.tolist() == second.tolist()
        False
        >>> stream.seed(3)
        >>> first.tolist() == f().tolist()
        True
    """

    def __init__(self, seed: Any = None) -> None:
        self.default_instance_seed = seed
        self._generators: list[SharedGenerator] = []
        self._key = _key_of_seed(seed)

    def __repr__(self) -> str:
        return f"RandomStream(seed={self.default_instance_seed!r})"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name not in DISTRIBUTIONS:
                raise AttributeError(f"A random stream has no distribution {name!r}.")
            distribution = DISTRIBUTIONS[name]

            @as_method(distribution)
            def draw(*args: Any, **kwargs: Any) -> Tensor:
                return self.gen(distribution, *args, **kwargs)

            return draw

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *DISTRIBUTIONS})

    @property
    def state_updates(self) -> list[tuple[SharedGenerator, Tensor]]:
        """A pair for each draw: the shared variable, and its next key."""
        pairs = [(x, x.default_update) for x in self._generators]
        return [(x, new) for x, new in pairs if new is not None]

    def updates(self) -> list[tuple[SharedGenerator, Tensor]]:
        """Return the updates that functions do by default: ``state_updates``."""
        return self.state_updates

    def seed(self, seed: Any = None) -> None:
        """Set the keys of all draws, as if the stream were made with this seed.

        Args:
            seed: As for ``shared_rng``; by default the seed that the stream was made with.
        """
        self._key = _key_of_seed(self.default_instance_seed if seed is None else seed)
        for i, generator in enumerate(self._generators):
            generator.set_value(self._key_of(i))

    def gen(self, op: Callable[..., Any], *args: Any, **kwargs: Any) -> Tensor:
        """Draw from a distribution, or any function with ``rng=`` and ``return_next_rng=``.

        Args:
            op: The distribution, such as ``gt.random.normal``.
            args: Arguments of the distribution.
            kwargs: Keyword arguments of the distribution.

        Raises:
            ArgumentError: ``rng`` is given.
        """
        if "rng" in kwargs:
            raise ArgumentError(
                "A draw of a RandomStream has a key of its own, and takes no rng=.",
                "Call the distribution itself: gt.random.normal(rng=...).",
            )
        generator = key_of_draw(self, self._new)
        following, draw = op(*args, rng=generator, return_next_rng=True, **kwargs)
        generator.default_update = following
        return draw  # type: ignore[no-any-return]

    def _new(self) -> SharedGenerator:
        generator = shared_rng(self._key_of(len(self._generators)))
        self._generators.append(generator)
        return generator

    def _key_of(self, i: int) -> np.ndarray[Any, Any]:
        counter = np.array([0, i], np.uint32)
        return np.stack(Threefry().perform(*self._key, *counter))
