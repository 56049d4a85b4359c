"""Random mask functions, written once for NumPy and for JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st

__all__ = ["ARRAYS", "dense", "masks", "of_jax", "of_numpy"]

ARRAYS: dict[str, np.ndarray] = {
    "ids": np.repeat(np.arange(9, dtype=np.int32), [5, 3, 9, 1, 7, 7, 12, 6, 10]),
    "jumps": (np.arange(31, dtype=np.int32) * 37) % 23 - 5,
    "rows": np.arange(2 * 40, dtype=np.int32).reshape(2, 40) // 11 % 5,
    "few": np.array([7, 21, 30], np.int32),
    "flags": np.arange(33) // 5 % 2 == 0,
}
"""What the functions capture."""


def _element_of_numpy(x: np.ndarray, *indices: Any) -> np.ndarray:
    """As JAX reads an element: negative indices count from the end, others are clipped."""
    places = [np.where(i < 0, i + n, i) for i, n in zip(indices, x.shape, strict=True)]
    return x[tuple(np.clip(i, 0, n - 1) for i, n in zip(places, x.shape, strict=True))]


def _filled_of_numpy(x: np.ndarray, i: Any) -> np.ndarray:
    place = np.where(i < 0, i + len(x), i)
    inside = (place >= 0) & (place < len(x))
    return np.where(inside, x[np.clip(place, 0, len(x) - 1)], x.dtype.type(1))


def _element_of_jax(x: Any, *indices: Any) -> Any:
    return x[indices]


def _filled_of_jax(x: Any, i: Any) -> Any:
    return x.at[i].get(mode="fill", fill_value=1)


def of_numpy(text: str) -> Callable[..., Any]:
    """A function of NumPy's arrays."""
    known = {"xp": np, "element": _element_of_numpy, "filled": _filled_of_numpy, **ARRAYS}
    return eval(f"lambda b, h, q, k: {text}", known)  # type: ignore[no-any-return]


def of_jax(text: str, arrays: dict[str, Any] | None = None) -> Callable[..., Any]:
    """A function of JAX's scalars that captures these arrays, by default those of ``ARRAYS``."""
    given = {name: jnp.asarray(x) for name, x in (arrays or ARRAYS).items()}
    known = {"xp": jnp, "element": _element_of_jax, "filled": _filled_of_jax, **given}
    return eval(f"lambda b, h, q, k: {text}", known)  # type: ignore[no-any-return]


def dense(text: str, lengths: Sequence[int]) -> np.ndarray:
    """What the function is for all (b, h, q, k)."""
    indices = np.ogrid[tuple(slice(n) for n in lengths)]
    with np.errstate(all="ignore"):
        kept = of_numpy(text)(*[x.astype(np.int32) for x in indices])
    return np.broadcast_to(kept, lengths)


def masks(leaves: int = 6) -> st.SearchStrategy[str]:
    """Python expressions of bools, of b, h, q, k, captured arrays and ``xp``."""
    simple = st.one_of(
        _filled_in("({} {} {})", _integers(leaves), COMPARED, _integers(leaves)),
        _filled_in("element(flags, {})", _integers(leaves)),
        _filled_in("({} {} {})", st.sampled_from(["q", "k", "q - k"]), COMPARED, NUMBERS),
    )
    return st.recursive(
        simple,
        lambda x: st.one_of(
            _filled_in("({} {} {})", x, st.sampled_from(["&", "|", "^"]), x),
            _filled_in("(~{})", x),
            _filled_in("xp.where({}, {}, {})", x, x, x),
        ),
        max_leaves=4,
    )


COMPARED = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])
NUMBERS = st.sampled_from([0, 1, 2, 3, 5, 8, 13, 30, -1, -4, -20, 100_000]).map(str)
DIVISORS = st.sampled_from([1, 2, 3, 7, 16, -3]).map(str)


def _filled_in(pattern: str, *parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*parts).map(lambda found: pattern.format(*found))


def _integers(leaves: int) -> st.SearchStrategy[str]:
    indices = st.sampled_from(["b", "h", "q", "k", "q - k", "k - q"]).map("({})".format)
    return st.recursive(
        st.one_of(indices, NUMBERS.map("xp.int32({})".format)), _larger, max_leaves=leaves
    )


def _larger(x: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    shifts = st.sampled_from(["<<", ">>"])
    return st.one_of(
        _filled_in("({} {} {})", x, st.sampled_from(["+", "-", "*", "&", "|", "^"]), x),
        _filled_in("({} {} {})", x, st.sampled_from(["//", "%"]), DIVISORS),
        _filled_in("({} {} {})", x, shifts, st.sampled_from(["0", "1", "4"])),
        _filled_in("xp.{}({}, {})", st.sampled_from(["minimum", "maximum"]), x, x),
        _filled_in("xp.{}({})", st.sampled_from(["abs", "negative", "sign", "square"]), x),
        _filled_in("xp.clip({}, -3, 17)", x),
        _filled_in("xp.where({} {} {}, {}, {})", x, COMPARED, x, x, x),
        _filled_in("element({}, {})", st.sampled_from(["ids", "jumps", "few"]), x),
        _filled_in("filled({}, {})", st.sampled_from(["ids", "jumps"]), x),
        _filled_in("element(rows, b, {})", x),
        _filled_in("xp.floor({} * xp.float32(0.25)).astype(xp.int32)", x),
    )
