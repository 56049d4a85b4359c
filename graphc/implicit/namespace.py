"""Array namespaces: NumPy's functions for NumPy, JAX, MLX and symbolic arrays.

``numpy_like(x)`` has NumPy's names. Operands may be implicit: symbolic and JAX's are dispatched to
handlers; NumPy's are computed as a graph is, operation by operation, and so handled alike.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.errors import ImplicitArrayError
from graphc.hooks import Hook
from graphc.implicit.array import WIDE, ImplicitArray, is_whole
from graphc.implicit.jax_arrays import jax_arrays
from graphc.implicit.operators import apply_function
from graphc.implicit.treedef import (
    FILTERED,
    NoArrayError,
    Treedef,
    field_names_of,
    lengths_of,
    with_parts,
)
from graphc.ir import Leaf, Node, TensorType, numpy_dtype, toposort
from graphc.loop.functional import loop
from graphc.tensor import Tensor, as_tensor
from graphc.tensor.core.tensor import TABLE
from graphc.tensor.linalg.dot import DotGeneral


class ArrayNamespace:
    """NumPy's functions for the arrays of one library, with a few additions."""

    name: str
    fft: Any = None
    """The library's Fourier transforms; MLX's compute in 32 bits."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        raise NotImplementedError

    def dot_general(
        self,
        a: Any,
        b: Any,
        contract: tuple[Sequence[int], Sequence[int]],
        batch: tuple[Sequence[int], Sequence[int]] = ((), ()),
    ) -> Any:
        """Contract pairs of axes; the result has batch axes first, then a's free axes, then b's."""
        raise NotImplementedError

    def cast(self, x: Any, dtype: Any) -> Any:
        """Cast an array to a dtype."""
        raise NotImplementedError

    def shape_of(self, x: Any) -> tuple[Any, ...]:
        """Return the lengths of an array; unknown ones are symbolic scalars."""
        return lengths_of(x)

    def literal(self, x: np.ndarray[Any, Any]) -> Any:
        """Return NumPy's array as one that is written into the program."""
        return x

    def segment_sum(self, values: Any, ids: Any, n: int) -> Any:
        """Sum ``values`` along axis 0 by segment; ids out of range are ignored.

        Args:
            values: (m, …).
            ids: Integers of shape (m,).
            n: How many segments.

        Returns:
            (n, …), of values' dtype.
        """
        raise NotImplementedError

    def order_of(self, x: Any) -> Any:
        """Return the order that sorts along the last axis, equal elements as they stand."""
        return self.argsort(x, -1)

    def getitem(self, x: Any, index: Any) -> Any:
        """``x[index]``."""
        return operator.getitem(x, index)

    def by_rows(self, function: Callable[[Any], Any], x: Any) -> Any:
        """Apply a function to each slice along the first axis, one after the other.

        What it computes is not kept: gradients compute it again.
        """
        return self.stack([function(row) for row in x])

    def solve(self, a: Any, b: Any) -> Any:
        """Solve ``a @ x = b`` for matrices b; a singular a gives infinities or NaN."""
        raise NotImplementedError

    def inv(self, a: Any) -> Any:
        """Return inverses of matrices."""
        raise NotImplementedError

    def det(self, a: Any) -> Any:
        """Return determinants of matrices."""
        raise NotImplementedError

    def slogdet(self, a: Any) -> tuple[Any, Any]:
        """Return the signs of determinants, and the logarithms of their magnitudes."""
        raise NotImplementedError


class _Symbolic(ArrayNamespace):
    name = "graphc"
    fft = gt.fft

    def __getattr__(self, name: str) -> Callable[..., Any]:
        try:
            found: Callable[..., Any] = TABLE[name]
        except KeyError:
            found = getattr(gt, name)
        return found

    def dot_general(self, a: Any, b: Any, contract: Any, batch: Any = ((), ())) -> Any:
        op = DotGeneral(_pairs(contract), _pairs(batch))
        return Tensor.make(op, as_tensor(a), as_tensor(b))

    def cast(self, x: Any, dtype: Any) -> Any:
        return TABLE["cast"](as_tensor(x), dtype)

    def shape_of(self, x: Any) -> tuple[Any, ...]:
        x = as_tensor(x)
        return tuple([x.shape[i] if n is None else n for i, n in enumerate(x.type.shape)])

    def segment_sum(self, values: Any, ids: Any, n: int) -> Any:
        ids, values = as_tensor(ids), as_tensor(values)
        inside = TABLE["logical_and"](ids >= 0, ids < n)
        # One row more takes what is out of range.
        kept = TABLE["where"](inside, ids, n)
        lengths = self.shape_of(values)[1:]
        sums = TABLE["zeros"]((n + 1, *lengths), values.dtype)
        return TABLE["inc_subtensor"](sums[kept], values)[:n]

    def literal(self, x: np.ndarray[Any, Any]) -> Any:
        return gt.constant(x, bake=True)

    def getitem(self, x: Any, index: Any) -> Any:
        return as_tensor(x)[index]

    def by_rows(self, function: Callable[[Any], Any], x: Any) -> Any:
        _, found = loop(lambda _, row: (None, function(row)), None, x, checkpoint=1)
        return found

    def solve(self, a: Any, b: Any) -> Any:
        return gt.linalg.solve(a, b, b_ndim=2)

    def inv(self, a: Any) -> Any:
        return gt.linalg.inv(a)

    def det(self, a: Any) -> Any:
        return gt.linalg.det(a)

    def slogdet(self, a: Any) -> tuple[Any, Any]:
        return gt.linalg.slogdet(a)


def _pairs(axes: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    left, right = axes
    return tuple(left), tuple(right)


class _NumPy(ArrayNamespace):
    name = "NumPy"
    fft = np.fft

    def __getattr__(self, name: str) -> Callable[..., Any]:
        direct = getattr(np, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            if has_implicit([*args, *kwargs.values()]):
                return _performed(getattr(SYMBOLIC, name), args, kwargs)
            return direct(*args, **kwargs)

        return call

    def dot_general(self, a: Any, b: Any, contract: Any, batch: Any = ((), ())) -> Any:
        if has_implicit([a, b]):
            return _performed(SYMBOLIC.dot_general, (a, b, contract, batch), {})
        return DotGeneral(_pairs(contract), _pairs(batch)).perform(np.asarray(a), np.asarray(b))

    def cast(self, x: Any, dtype: Any) -> Any:
        if has_implicit([x]):
            return _performed(SYMBOLIC.cast, (x, dtype), {})
        return np.asarray(x).astype(numpy_dtype(dtype) if isinstance(dtype, str) else dtype)

    def segment_sum(self, values: Any, ids: Any, n: int) -> Any:
        sums = np.zeros((n, *values.shape[1:]), values.dtype)
        inside = (ids >= 0) & (ids < n)
        np.add.at(sums, ids[inside], values[inside])
        return sums

    def order_of(self, x: Any) -> Any:
        return np.argsort(x, -1, kind="stable")

    def getitem(self, x: Any, index: Any) -> Any:
        if has_implicit([x]):
            return _performed(SYMBOLIC.getitem, (x, index), {})
        return x[index]

    # NumPy's raise where a matrix is singular; graphs give infinities and NaN, as JAX does.

    def solve(self, a: Any, b: Any) -> Any:
        return _performed(SYMBOLIC.solve, (a, b), {})

    def inv(self, a: Any) -> Any:
        return _performed(SYMBOLIC.inv, (a,), {})

    def det(self, a: Any) -> Any:
        return _performed(SYMBOLIC.det, (a,), {})

    def slogdet(self, a: Any) -> tuple[Any, Any]:
        sign, log = [_performed(lambda x, i=i: gt.linalg.slogdet(x)[i], (a,), {}) for i in (0, 1)]
        return sign, log


class _MLX(ArrayNamespace):
    """MLX's functions, which take no implicit arrays."""

    name = "MLX"

    @property
    def fft(self) -> Any:
        """MLX's Fourier transforms."""
        return sys.modules["mlx.core"].fft

    def __getattr__(self, name: str) -> Callable[..., Any]:
        direct = getattr(sys.modules["mlx.core"], name)

        def call(*args: Any, **kwargs: Any) -> Any:
            if has_implicit([*args, *kwargs.values()]):
                raise ImplicitArrayError(
                    f"{name} of an implicit array of MLX's arrays: MLX has no dispatch.",
                    "Make it an input of graphc.function(..., mode='MLX').",
                )
            named = {key: _of_mlx(x) for key, x in kwargs.items()}
            return direct(*[_of_mlx(x) for x in args], **named)

        return call

    def cast(self, x: Any, dtype: Any) -> Any:
        name = "bool_" if str(dtype) == "bool" else str(dtype)
        return x.astype(getattr(sys.modules["mlx.core"], name))

    def segment_sum(self, values: Any, ids: Any, n: int) -> Any:
        # One row more takes what is out of range.
        kept = self.where(self.logical_and(ids >= 0, ids < n), ids, n)
        return self.zeros((n + 1, *values.shape[1:]), values.dtype).at[kept].add(values)[:n]


def _of_mlx(x: Any) -> Any:
    """Convert NumPy's arrays and dtypes to MLX's; return anything else unchanged."""
    if isinstance(x, np.ndarray):
        return sys.modules["mlx.core"].array(x)
    if not isinstance(x, np.dtype):
        return x
    return getattr(sys.modules["mlx.core"], "bool_" if x.name == "bool" else x.name)


SYMBOLIC = _Symbolic()
NUMPY = _NumPy()
MLX = _MLX()


def numpy_like(*values: Any) -> Any:
    """Return the namespace of NumPy's functions for the library of these arrays.

    Args:
        values: Arrays, implicit arrays, types of symbolic arrays, numbers.

    Returns:
        An ``ArrayNamespace``: functions named as in NumPy, and ``dot_general``, ``cast``,
        ``shape_of``, ``segment_sum``.

    Example:
        >>> import numpy as np, graphc.tensor as gt
        >>> numpy_like(np.ones(2)).name, numpy_like(np.ones(2), gt.vector()).name
        ('NumPy', 'graphc')
    """
    libraries = {_library(x) for x in _leaves(values)}
    if "graphc" in libraries:
        return SYMBOLIC
    if "jax" in libraries:
        return jax_arrays().NAMESPACE
    return MLX if "mlx" in libraries else NUMPY


def _leaves(values: Iterable[Any]) -> Iterator[Any]:
    for x in values:
        if isinstance(x, ImplicitArray):
            yield from Treedef.of(x)[1]
        elif isinstance(x, list | tuple):
            yield from _leaves(x)
        else:
            yield x


def _library(x: Any) -> str:
    if isinstance(x, Node | TensorType):
        return "graphc"
    if isinstance(x, np.ndarray | np.generic | int | float | complex):
        return "numpy"
    package: str = type(x).__module__.partition(".")[0]
    if package in {"jax", "jaxlib"} or ((jax := _loaded("jax")) and isinstance(x, jax.Array)):
        return "jax"
    return package


def _loaded(name: str) -> Any:
    found = sys.modules.get(name)
    return found if isinstance(found, ModuleType) and hasattr(found, "Array") else None


def has_implicit(values: Iterable[Any]) -> bool:
    return any(
        isinstance(x, ImplicitArray) or (isinstance(x, list | tuple) and has_implicit(x))
        for x in values
    )


expand_graph: Hook[[Sequence[Node]], list[Any]] = Hook("graphs in which handlers replace nodes")


def _performed(f: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Apply a function to NumPy arrays, some implicit, through the graph that it builds."""
    known: dict[Node, Any] = {}

    def placed(x: Any) -> Any:
        """A field: integers, which may be places, have values that handlers can read."""
        return Tensor.make(Leaf(x)) if x.dtype.kind in "iu" else entered(x)

    def entered(x: Any) -> Any:
        if isinstance(x, list | tuple):
            return type(x)([entered(part) for part in x])
        if isinstance(x, ImplicitArray):
            treedef, leaves = Treedef.of(x)
            return as_tensor(treedef.build([placed(np.asarray(leaf)) for leaf in leaves]))
        if isinstance(x, np.ndarray | np.generic):
            made = TensorType(x.dtype, x.shape)()
            known[made] = x
            return made
        return x

    made = f(*[entered(x) for x in args], **{name: entered(x) for name, x in kwargs.items()})
    (made,) = expand_graph([as_tensor(made)])
    implicit = getattr(made, "array", None)
    treedef, outputs = Treedef.of(implicit) if implicit is not None else (None, [made])
    for node in toposort(outputs, known):
        if isinstance(node.op, Leaf):
            known[node] = node.op.array
            continue
        known[node] = node.op.perform(*[known[x] for x in node.inputs])
    leaves = [known[y] for y in outputs]
    return leaves[0] if treedef is None else treedef.build(leaves)


def apply(name: str, *operands: Any, **settings: Any) -> Any:
    """Call a function of ``ArrayNamespace`` or NumPy by its name, on operands of any library."""
    try:
        return getattr(numpy_like(*operands), name)(*operands, **settings)
    except Exception as error:
        refuse_filtered(name, operands, error)
        raise


def refuse_filtered(name: str, operands: Sequence[Any], error: Exception) -> None:
    """Raise where a function failed because operands are parts of filtered trees.

    Raises:
        NoArrayError: Names their fields that hold None.
    """
    for x in operands:
        if isinstance(x, ImplicitArray) and not is_whole(x):
            required = field_names_of(type(x)).required
            paths = Treedef.of(x)[0].empty_fields()
            empty = ", ".join(path for path in paths if path.partition(".")[0] in required)
            problem = f"{name} of {x!r}: no array is in {empty}."
            raise NoArrayError(problem, FILTERED) from error


apply_function.provide(apply)


def opened(x: ImplicitArray) -> Any:
    """Call ``materialize``; JAX functions in it may get implicit fields."""
    xp = numpy_like(x)
    if xp.name == "JAX" and _is_wide(x):
        with sys.modules["jax"].enable_x64(True):
            return _opened(x, xp)
    return _opened(x, xp)


def _is_wide(x: ImplicitArray) -> bool:
    """Whether a JAX array has a 64-bit dtype, which it has within ``enable_x64`` alone."""
    return any(str(leaf.dtype) in WIDE for leaf in Treedef.of(x)[1] if hasattr(leaf, "dtype"))


def _opened(x: ImplicitArray, xp: Any) -> Any:
    if xp.name == "JAX":
        return jax_arrays().opened(lambda x: _materialized(x, xp), x)
    return x.materialize()


def _materialized(x: ImplicitArray, xp: Any) -> Any:
    parts = [getattr(x, name) for name in field_names_of(type(x)).parts]
    if type(x).materialize_through and has_implicit(parts):
        return xp.implicit(lambda *fields: with_parts(x, fields).materialize())(*parts)
    return x.materialize()
