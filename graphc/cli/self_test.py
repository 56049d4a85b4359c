"""``graphc doctor --self-test``: small programs on each backend's device, compared with NumPy.

Each check is one expression of a module ``n``, which is ``graphc.tensor`` for the backend and NumPy
for the reference, or has a separate reference.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

import graphc
import graphc.tensor as gt
from graphc.attention import causal, create_block_mask, flex_attention
from graphc.errors import GraphcError, UnsupportedOperationError
from graphc.implicit import quantize
from graphc.link import load, names

PRECISION = "JAX_DEFAULT_MATMUL_PRECISION"
"""The environment variable by which JAX multiplies float32 in full, and not as TF32."""

TOLERANCE = 2e-5
"""The largest difference of float32 results, relative to the largest number."""


class Check(NamedTuple):
    """A program with its operands.

    Attributes:
        name: What is checked.
        operands: The arguments.
        program: The function of ``graphc.tensor`` and symbolic arrays.
        reference: The function of NumPy and arrays; None for ``program`` itself.
    """

    name: str
    operands: Sequence[Any]
    program: Callable[..., Any]
    reference: Callable[..., Any] | None = None


class CheckOutcome(NamedTuple):
    """The outcome of a check: whether it passed, and the difference or the error."""

    backend: str
    name: str
    passed: bool
    outcome: str
    seconds: float


def run(backend: str | None, words: Sequence[str]) -> int:
    """Print a table of checks; return 1 if one failed.

    Args:
        backend: The backend to check; None for all that are installed.
        words: Only checks whose names contain one of these words; all if there are none.
    """
    # JAX reads it when it is first imported.
    os.environ.setdefault(PRECISION, "highest")
    rows = []
    for name in [backend] if backend else names():
        try:
            _write(f"{name}: {load(name).describe({})}, float32 to {TOLERANCE:g}")
        except GraphcError as error:
            _write(f"{name}: {error}")
            rows += [CheckOutcome(name, "import", backend is None, str(error), 0.0)]
            continue
        for check in checks():
            if not words or any(word in check.name for word in words):
                rows.append(run_check(name, check))
    _write(f"{PRECISION}={os.environ[PRECISION]}\n\n| backend | check | | difference | seconds |")
    _write("| --- | --- | --- | --- | --- |")
    for row in rows:
        mark = "ok" if row.passed else "**WRONG**"
        _write(f"| {row.backend} | {row.name} | {mark} | {row.outcome} | {row.seconds:.2f} |")
    failed = sum(not row.passed for row in rows)
    _write(f"\n{len(rows) - failed} of {len(rows)} checks passed.")
    return int(failed > 0)


def run_check(backend: str, check: Check) -> CheckOutcome:
    """Compile and call a program, and compare its results with NumPy's."""
    start = perf_counter()
    try:
        inputs = [gt.tensor(shape=x.shape, dtype=x.dtype.name) for x in check.operands]
        f = graphc.function(inputs, check.program(gt, *inputs), backend, returns="numpy")
        reference = check.reference or check.program
        wanted = np.asarray(reference(np, *check.operands))
        # The second call may run another tier, or an executable without a trace.
        results = [np.asarray(f(*check.operands)) for _ in range(2)]
        worst = max(_difference(y, wanted) for y in results)
    except UnsupportedOperationError as error:
        is_known = "float64" in check.name and "float64" in str(error)
        return CheckOutcome(
            backend, check.name, is_known, f"refused: {_line(error)}", perf_counter() - start
        )
    except Exception as error:  # a device's driver raises anything, and one row is one finding
        return CheckOutcome(backend, check.name, False, _line(error), perf_counter() - start)
    limit = 0 if wanted.dtype.kind in "biu" else 1e-12 if wanted.dtype == np.float64 else TOLERANCE
    return CheckOutcome(backend, check.name, worst <= limit, f"{worst:.1e}", perf_counter() - start)


def _difference(found: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> float:
    """Return the largest difference relative to the largest number; infinity for other types."""
    if (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
        return np.inf
    if wanted.dtype.kind in "biu":
        return float(np.sum(found != wanted))
    if not np.array_equal(np.isnan(found), np.isnan(wanted)):
        return np.inf
    scale = max(float(np.nanmax(np.abs(wanted), initial=0)), 1e-30)
    return float(np.nanmax(np.abs(found - wanted), initial=0)) / scale


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0].replace("|", "/")


def _write(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _numbers(*shape: int, dtype: str = "float32") -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def checks() -> Iterator[Check]:
    """Yield all checks."""
    yield from _reversed_views()
    yield from _arrays()
    yield from _loops()
    yield from _attention()
    yield from _packed_products()


def _reversed_views() -> Iterator[Check]:
    """Yield consumers of reversed views, the shapes among them of MLX's issues 3716 to 4528."""
    rows, columns = _numbers(3, 65), _numbers(2, 1024, 16)
    consumers: dict[str, Callable[[Any, Any], Any]] = {
        "exp": lambda n, x: n.exp(-x) * 2,
        "sum of rows": lambda n, x: n.sum(x, -1),
        "max": lambda n, x: n.max(x, 1),
        "argmax": lambda n, x: n.argmax(x, -1),
        "mean": lambda n, x: n.mean(x, 1),
        "cumsum": lambda n, x: n.cumsum(x, -1),
        "sort": lambda n, x: n.sort(x, -1),
        "argsort": lambda n, x: n.argsort(x, -1),
        "product": lambda n, x: x @ x.T,
        "concatenate": lambda n, x: n.concatenate([x, x], 0),
        "gather": lambda n, x: x[[2, 0, 2]],
        "reshape": lambda n, x: n.reshape(x, (-1,)),
        "where": lambda n, x: n.where(x > 0, x, n.sqrt(n.abs(x))),
    }
    for name, consume in consumers.items():
        for where, part in {"rows": np.s_[::-1], "columns": np.s_[:, ::-2]}.items():
            yield Check(
                f"reversed {where}: {name}",
                [rows],
                lambda n, x, part=part, consume=consume: consume(n, x[part]),
            )
    yield Check("reversed planes: sum", [columns], lambda n, x: n.sum(x[::-1], 1))


def _arrays() -> Iterator[Check]:
    million, x = np.ones(1_000_003, "float32"), _numbers(37, 37)
    big = np.array([2**40 + 1, -3, 2**62, 7])
    yield Check("reduction: a million ones", [million], lambda n, x: n.sum(x))
    yield Check("reduction: products of columns", [x], lambda n, x: n.prod(x, 0))
    yield Check("reduction: variance", [x], lambda n, x: n.var(x, 1))
    yield Check("reduction: all", [x], lambda n, x: n.all(x > -2, 0))
    yield Check("sort: NaN is last", [np.where(x > 1, np.nan, x)], lambda n, x: n.sort(x, 0))
    yield Check("sort: integers", [big], lambda n, x: n.sort(x))
    yield Check("product: float32", [x, x], lambda n, a, b: a @ b)
    yield Check("int64: arithmetic", [big], lambda n, x: x * 3 + x // 5)
    yield Check("int64: scatter", [big], lambda n, x: gt.set_subtensor(x[[2, 0]], 9), _scatter)
    yield Check(
        "scatter: repeated indices", [x], lambda n, x: gt.inc_subtensor(x[[1, 1, 5]], 1), _add_at
    )
    yield Check(
        "exp: near overflow", [np.array([88.5, -88.5, 0], "float32")], lambda n, x: n.exp(x)
    )
    yield Check("linalg: solve", [x + 9 * np.eye(37, dtype="float32")], _solve)
    wide = _numbers(19, dtype="float64")
    yield Check("float64: computed or refused", [wide], lambda n, x: n.exp(x) + 1)
    key = np.array([0, 7], "uint32")
    yield Check("draws: normal", [key], lambda n, k: _normal(k), _draw)


def _scatter(n: Any, x: Any) -> Any:
    y = x.copy()
    y[[2, 0]] = 9
    return y


def _add_at(n: Any, x: Any) -> Any:
    y = x.copy()
    np.add.at(y, [1, 1, 5], np.float32(1))
    return y


def _solve(n: Any, a: Any) -> Any:
    return n.linalg.solve(a, a[0])


def _draw(n: Any, key: Any) -> Any:
    k = gt.tensor("k", shape=(2,), dtype="uint32")
    return graphc.function([k], _normal(k), "NUMPY")(key)


def _normal(key: Any) -> Any:
    return gt.random.normal(size=64, rng=key, dtype="float32")


def _loops() -> Iterator[Check]:
    x, w = _numbers(200, 5), _numbers(5, 5) / 3

    def states(x: Any, w: Any, **options: Any) -> Any:
        start = gt.zeros(5, "float32")
        return graphc.scan(lambda row, h: gt.tanh(row + h @ w), x, outputs_info=start, **options)

    def reference(n: Any, x: Any, w: Any) -> Any:
        h, rows = np.zeros(5, "float32"), []
        for row in x:
            h = np.tanh(row + h @ w)
            rows.append(h)
        return np.array(rows)

    def pulled_back(n: Any, x: Any, w: Any) -> Any:
        rows, gradient, g = reference(n, x, w), np.zeros_like(w), np.zeros(5, "float32")
        for i in reversed(range(len(x))):
            g = (g + 2 * rows[i]) * (1 - rows[i] ** 2)
            gradient += np.outer(rows[i - 1] if i else 0 * g, g)
            g = w @ g
        return gradient

    yield Check("loop: 200 steps", [x, w], lambda n, x, w: states(x, w), reference)
    yield Check("loop: 4 steps", [x[:4], w], lambda n, x, w: states(x, w), reference)
    yield Check(
        "loop: gradient",
        [x, w],
        lambda n, x, w: graphc.grad((states(x, w) ** 2).sum(), w),
        pulled_back,
    )
    yield Check(
        "loop: until",
        [np.array(100, "float32")],
        lambda n, x: graphc.while_loop(lambda x: x > 1, lambda x: x / 2, x),
        lambda n, x: np.float32(100 / 128),
    )
    yield Check(
        "loop: recurrence",
        [x, 0 * x + 0.5],
        lambda n, x, a: graphc.scan(
            lambda x, a, h: a * h + x, [x, a], outputs_info=gt.zeros(5, "float32")
        ),
        lambda n, x, a: _recurrence(x, a),
    )


def _recurrence(x: Any, a: Any) -> Any:
    y = x.copy()
    for i in range(1, len(x)):
        y[i] += a[i] * y[i - 1]
    return y


def _attention() -> Iterator[Check]:
    operands = [*_numbers(3, 1, 2, 260, 16)]
    mask = create_block_mask(causal, None, None, 260, 260)

    def reference(n: Any, q: Any, k: Any, v: Any) -> Any:
        scores = q @ np.swapaxes(k, -1, -2) / 4
        scores = np.where(np.tri(260, dtype=bool), scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True) @ v

    yield Check(
        "attention: causal",
        operands,
        lambda n, q, k, v: flex_attention(q, k, v, block_mask=mask),
        reference,
    )
    yield Check(
        "attention: softmax(q @ k) @ v",
        operands,
        lambda n, q, k, v: (
            gt.softmax(
                gt.where(np.tri(260, dtype=bool), q @ gt.swapaxes(k, -1, -2) / 4, -np.inf), axis=-1
            )
            @ v
        ),
        reference,
    )


def _packed_products() -> Iterator[Check]:
    for kind in ("int4", "int8", "nf4", "mxfp4"):
        for axis, rows in ((-1, 1), (-2, 3)):
            w = quantize(_numbers(128, 64), kind, axis=axis)
            dense = np.asarray(w.materialize(), "float32")
            yield Check(
                f"packed: {kind}, axis {axis}, {rows} rows",
                [_numbers(rows, 128)],
                lambda n, x, w=w: x @ w,
                lambda n, x, dense=dense: x @ dense,
            )
