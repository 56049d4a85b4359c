"""What a program calls that NumPy lacks, written in NumPy; each under graphc's name for it.

These are the oracle's own: nothing of graphc is used here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import scipy.linalg
import scipy.special

__all__ = ["NAMESPACE", "UndefinedError"]

Step = Callable[..., Any]


class UndefinedError(Exception):
    """A result that the documentation leaves undefined."""


def cast(x: Any, dtype: str) -> np.ndarray:
    """``x`` in another dtype, where it holds all values, up to rounding."""
    x = np.asarray(x)
    wanted = np.dtype(dtype)
    if wanted.kind in "iu" and x.dtype.kind not in "iub" and x.size:
        bounds = np.iinfo(wanted)
        if not np.isfinite(x).all() or x.min() <= bounds.min or x.max() >= bounds.max:
            raise UndefinedError(f"{x} as {dtype}")
    return x.astype(wanted)


def power(a: Any, b: Any) -> Any:
    """NumPy's, which refuses a negative power of integers, where graphc documents a choice."""
    if np.result_type(a, b).kind == "i" and np.any(np.asarray(b) < 0):
        raise UndefinedError("a negative power of integers")
    return np.power(a, b)


def put(x: Any, index: Any, value: Any) -> np.ndarray:
    """Return a copy with other values at some positions, each of which is indexed once."""
    check_mask(x, index)
    y = np.array(x)
    places = np.arange(y.size).reshape(y.shape)[index]
    if len(np.unique(places)) != places.size:
        raise UndefinedError("several values for one place")
    y[index] = value
    return y


def inc(x: Any, index: Any, value: Any) -> np.ndarray:
    """Return a copy with values added, as often as a position is indexed."""
    check_mask(x, index)
    y = np.array(x)
    try:
        np.add.at(y, index, value)
    except IndexError as error:
        if np.any(value):
            raise
        raise UndefinedError("nothing is added out of bounds") from error
    return y


def masked(x: Any, mask: Any) -> Any:
    """Return the elements where a mask is true."""
    check_mask(x, mask)
    return x[mask]


def check_mask(x: Any, index: Any) -> None:
    """Refuse a mask of another shape than the array; NumPy accepts an empty one."""
    is_mask = isinstance(index, np.ndarray) and index.dtype == "bool"
    if is_mask and index.shape != x.shape[: index.ndim]:
        raise IndexError(f"a mask of shape {index.shape} for an array of shape {x.shape}")


def take_along_axis(x: Any, indices: Any, axis: int) -> Any:
    """Return elements along an axis; a length of 1 is repeated only where graphc knows it."""
    others = [
        (n, m)
        for i, (n, m) in enumerate(zip(x.shape, indices.shape, strict=True))
        if i != axis % x.ndim
    ]
    if any(n != m and 1 in (n, m) for n, m in others):
        raise UndefinedError("a length of 1 that may be repeated")
    return np.take_along_axis(x, indices, axis)


def einsum(pattern: str, a: Any, b: Any) -> Any:
    """A contraction; a length of 1 is repeated only where graphc knows it."""
    letters = pattern.partition("->")[0].replace(",", "")
    found = np.einsum(pattern, a, b)
    if len({*zip(letters, (*a.shape, *b.shape), strict=True)}) != len({*letters}):
        raise UndefinedError(f"a length of {pattern} that may be repeated")
    return found


def finite(x: Any) -> Any:
    """A matrix to be factored: of one with NaN, LAPACK's factors may be anything."""
    if not np.isfinite(x).all():
        raise UndefinedError("a matrix that is not finite")
    return x


def triangle(x: Any) -> np.ndarray:
    """The second factor of QR, up to signs, of a matrix whose rank is sure."""
    r = np.abs(np.linalg.qr(finite(x))[1])
    diagonal = np.diagonal(r, axis1=-2, axis2=-1)
    if diagonal.size and diagonal.min() <= 1e-5 * diagonal.max():
        raise UndefinedError("a matrix that has nearly a lower rank")
    return r  # type: ignore[no-any-return]


def logabsdet(x: Any) -> Any:
    """Of a determinant that is 0 up to rounding, the logarithm is any large negative number."""
    s = np.linalg.svd(finite(x), compute_uv=False)
    if np.any((s[..., -1] <= 100 * np.finfo(s.dtype).eps * s[..., 0]) & (s[..., 0] > 0)):
        raise UndefinedError("a matrix that may be singular")
    return np.linalg.slogdet(x)[1]


def correlations(x: Any) -> np.ndarray:
    """Correlations of samples none of which is another, up to scale."""
    r = np.corrcoef(x)
    others = r - np.diag(np.diagonal(r)) if np.ndim(r) else 0 * r
    if np.any(np.abs(others) > 1 - 1e-6):
        raise UndefinedError("correlations that are clipped")
    return r


def sigmoid(x: Any) -> Any:
    return scipy.special.expit(x)


def softplus(x: Any) -> Any:
    return np.logaddexp(x, np.zeros_like(x))


def logsumexp(x: Any, axis: int, keepdims: bool = False) -> Any:
    top = np.max(x, axis, keepdims=True)
    found = np.log(np.sum(np.exp(x - top), axis, keepdims=True)) + top
    return found if keepdims else np.squeeze(found, axis)


def softmax(x: Any, axis: int) -> Any:
    terms = np.exp(x - np.max(x, axis, keepdims=True))
    return terms / np.sum(terms, axis, keepdims=True)


def beta(a: Any, b: Any) -> Any:
    """Return SciPy's beta function, and NaN for NaN; poles and zeros have either sign."""
    y = scipy.special.beta(a, b)
    if np.any(np.isinf(y) | (y == 0)) or np.any(np.isneginf(a) | np.isneginf(b)):
        raise UndefinedError("a pole, or a zero between values of either sign")
    return np.where(np.isnan(a) | np.isnan(b), np.nan, y)


def quantile(x: Any, q: float, axis: int) -> Any:
    """Return NumPy's quantiles of finite numbers; beside infinite ones NumPy interpolates NaN."""
    if np.isinf(x).any():
        raise UndefinedError("quantiles of infinite numbers")
    return np.quantile(x, q, axis=axis)


def expm(x: Any) -> Any:
    """Return matrix exponentials, unless rounding decides whether an element is 0."""
    y = scipy.linalg.expm(x)
    if y.size and np.any(np.abs(y) < 1e-13 * np.abs(y).max((-2, -1), keepdims=True)):
        raise UndefinedError("an element whose terms cancel")
    return y  # type: ignore[no-any-return]


def betaln(a: Any, b: Any) -> Any:
    """The logarithm of its magnitude, likewise."""
    if np.any(np.isneginf(a) | np.isneginf(b)):
        raise UndefinedError("no limit, among poles")
    return np.where(np.isnan(a) | np.isnan(b), np.nan, scipy.special.betaln(a, b))


def scan(  # noqa: PLR0913, PLR0917 (PyTensor's arguments)
    fn: Step,
    sequences: Sequence[Any],
    outputs_info: Sequence[Any],
    n_steps: Any = None,
    go_backwards: bool = False,
    return_list: bool = True,
    return_updates: bool = False,
) -> list[Any]:
    """A loop as docs/loops.md describes it, one step after the other."""
    assert return_list
    assert not return_updates
    reads, length = _read(sequences, go_backwards)
    limits = [n for n in (n_steps, length) if n is not None]
    states = [None if s is None else [*_initial(s)] for s in outputs_info]
    firsts = [None if s is None else len(s) for s in states]
    traces: list[list[Any]] = [[] for _ in outputs_info]
    if n_steps is not None and length is not None and n_steps > length:
        raise ValueError("a sequence is shorter than n_steps")

    def step(elements: list[Any]) -> tuple[list[Any], bool]:
        pairs = [(s, info) for s, info in zip(states, outputs_info, strict=True) if s is not None]
        past = [state[len(state) + tap] for state, info in pairs for tap in _taps(info)]
        return _results(fn(*elements, *past), len(traces))

    if not min(limits):
        _check_without_elements(step, sequences, states)
    for t in range(int(min(limits))):
        results, stop = step([x for read in reads for x in read(t)])
        for state, trace, y in zip(states, traces, results, strict=True):
            trace.append(y)
            if state is not None:
                state.append(_same(y, state[0]))
        if stop:
            break
    return [_trace(*parts) for parts in zip(traces, states, firsts, strict=True)]


def _read(sequences: Sequence[Any], backwards: bool) -> tuple[list[Step], int | None]:
    """Functions of the number of the step that give its elements, and how many steps there are."""
    reads: list[Step] = []
    lengths = []
    for x, taps in map(_with_taps, sequences):
        low, high = min(0, *taps), max(0, *taps)
        if len(x) < high - low:
            raise UndefinedError("a sequence without a position where all taps exist")
        lengths.append(n := len(x) - (high - low))
        places = range(-low, n - low)[:: -1 if backwards else 1]
        reads.append(lambda t, x=x, taps=taps, at=places: [x[at[t] + tap] for tap in taps])
    return reads, min(lengths, default=None)


def _with_taps(entry: Any) -> tuple[Any, list[int]]:
    return (entry["input"], entry["taps"]) if isinstance(entry, dict) else (entry, [0])


def _check_without_elements(
    step: Callable[[list[Any]], tuple[list[Any], bool]],
    sequences: Sequence[Any],
    states: list[list[Any] | None],
) -> None:
    """Raise where a step that is never run does not fit its operands, or its states."""
    pairs = [(np.asarray(x), taps) for x, taps in map(_with_taps, sequences)]
    elements = [np.zeros(x.shape[1:], x.dtype) for x, taps in pairs for _ in taps]
    try:
        results, _ = step(elements)
        for state, y in zip(states, results, strict=True):
            if state is not None:
                _same(y, state[0])
    except (ArithmeticError, np.linalg.LinAlgError):
        return  # by the zeros, in place of the elements that are not there
    except (LookupError, ValueError) as error:
        raise UndefinedError("a step that does not fit its operands") from error


def _taps(info: Any) -> Sequence[int]:
    return info["taps"] if isinstance(info, dict) else [-1]


def _initial(info: Any) -> Sequence[Any]:
    if not isinstance(info, dict):
        return [info]
    if len(info["initial"]) < -min(info["taps"]):
        raise ValueError("fewer initial values than the farthest tap needs")
    if len(info["initial"]) > -min(info["taps"]):
        raise UndefinedError("more initial values than taps need")
    return info["initial"]  # type: ignore[no-any-return]


def _results(returned: Any, count: int) -> tuple[list[Any], bool]:
    """The results of a step, and whether it is the last one."""
    results, stop = returned if isinstance(returned, tuple) else (returned, False)
    results = results if isinstance(results, list) else [results]
    assert len(results) == count
    return results, bool(stop)


def _same(y: Any, state: Any) -> Any:
    if np.shape(y) != np.shape(state) or np.asarray(y).dtype != np.asarray(state).dtype:
        raise ValueError("a state becomes an array of another type")
    return y


def _trace(rows: list[Any], state: list[Any] | None, first: int | None) -> Any:
    if rows:
        return np.stack(rows)
    if state is None or first is None:
        raise UndefinedError("rows of no step, of a shape that no step says")
    return np.zeros((0, *np.shape(state[0])), np.asarray(state[0]).dtype)


def last(rows: Any, initial: Any) -> Any:
    """The last state of a loop, which after no step is the initial one."""
    return rows[-1] if len(rows) else initial


def while_loop(condition: Step, body: Step, init: Any, max_steps: int) -> Any:
    for _ in range(max_steps):
        if not condition(init):
            break
        init = _same(body(init), init)
    return init


def fold(fn: Step, xs: Any, state: Any, backwards: bool) -> Any:
    first = state
    if not len(xs):
        _check_without_elements(lambda elements: ([fn(*elements, first)], False), [xs], [[first]])
    for x in xs[::-1] if backwards else xs:
        state = _same(fn(x, state), first)
    return state


def loop(step: Step, state: Any, xs: Any, reverse: bool) -> tuple[Any, Any]:
    """The last state, and the rows in the order of the elements."""
    first = state
    rows = []
    for x in xs[::-1] if reverse else xs:
        state, y = step(state, x)
        _same(state, first)
        rows.append(y)
    if not rows:
        raise UndefinedError("rows of no step, of a shape that no step says")
    return state, np.stack(rows[::-1] if reverse else rows)


def switch_case(index: Any, branches: Sequence[Step]) -> Any:
    return branches[int(np.clip(index, 0, len(branches) - 1))]()


def cond(condition: Any, yes: Step, no: Step) -> Any:
    return yes() if condition else no()


def draw(name: str, key: int, *arguments: Any, **options: Any) -> np.ndarray:
    """A draw of jax.random."""
    with jax.enable_x64(True):
        return np.asarray(getattr(jax.random, name)(jax.random.key(key), *arguments, **options))


NAMESPACE = {
    "p": lambda x: x,
    "np": np,
    "scipy": scipy,
    **{
        f.__name__: f
        for f in (
            *(
                cast,
                power,
                put,
                inc,
                masked,
                expm,
                quantile,
                take_along_axis,
                einsum,
                finite,
                triangle,
                logabsdet,
                beta,
                betaln,
                correlations,
                sigmoid,
                softplus,
                logsumexp,
                softmax,
            ),
            *(scan, last, while_loop, fold, loop, switch_case, cond, draw),
        )
    },
}
"""What NumPy's code of a program may use."""
