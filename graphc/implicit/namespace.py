"""Array namespaces: NumPy's functions for NumPy, JAX, MLX and symbolic arrays.

The functions of ``numpy_like(x)`` have NumPy's names. Operands may be implicit: the functions for
symbolic and JAX arrays call handlers. A function of implicit arrays of NumPy arrays builds a graph
and evaluates the graph operation by operation, so that the same handlers are called.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from types import ModuleType
from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.errors import ImplicitArrayError
from graphc.hooks import Hook
from graphc.implicit.array import WIDE, ImplicitArray, is_complete
from graphc.implicit.jax_arrays import jax_arrays
from graphc.implicit.operators import apply_function
from graphc.implicit.treedef import (
    FILTERED,
    NoArrayError,
    Treedef,
    field_names_of,
    lengths_of,
    with_arrays,
)
from graphc.ir import Leaf, Node, TensorType, numpy_dtype, toposort
from graphc.loop.functional import loop
from graphc.tensor import Tensor, as_tensor
from graphc.tensor.core.tensor import TABLE
from graphc.tensor.linalg.dot import DotGeneral


class ArrayNamespace:
    """NumPy's functions for the arrays of one library, and a few more.

    ``solve``, ``inv``, ``det`` and ``slogdet`` are functions of matrices, as in ``numpy.linalg``;
    those of a singular matrix are infinities or NaN.
    """

    name: str
    fft: Any = None
    """The library's Fourier transforms; MLX computes in 32 bits."""

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
        """Return a NumPy array as one that is written into the program."""
        return x

    def segment_sum(self, values: Any, ids: Any, n: int) -> Any:
        """Sum ``values`` along axis 0 by segment; ids out of range are ignored.

        Args:
            values: (m, …).
            ids: Integers of shape (m,).
            n: The number of segments.

        Returns:
            (n, …), of values' dtype.
        """
        raise NotImplementedError

    def order_of(self, x: Any) -> Any:
        """Return the indices that sort along the last axis; the sort is stable."""
        return self.argsort(x, -1)

    def getitem(self, x: Any, index: Any) -> Any:
        """Return ``x[index]``."""
        return operator.getitem(x, index)

    def by_rows(self, function: Callable[[Any], Any], x: Any) -> Any:
        """Apply a function to each slice along the first axis, one after the other.

        Intermediate results are not stored: gradients compute them again.
        """
        return self.stack([function(row) for row in x])


class _Symbolic(ArrayNamespace):
    name = "graphc"
    fft = gt.fft

    def __getattr__(self, name: str) -> Callable[..., Any]:
        try:
            function: Callable[..., Any] = TABLE[name]
        except KeyError:
            function = getattr(gt.linalg if name in {"inv", "det", "slogdet"} else gt, name)
        return function

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
        # One more row collects the values whose ids are out of range.
        rows = TABLE["where"](inside, ids, n)
        lengths = self.shape_of(values)[1:]
        sums = TABLE["zeros"]((n + 1, *lengths), values.dtype)
        return TABLE["inc_subtensor"](sums[rows], values)[:n]

    def literal(self, x: np.ndarray[Any, Any]) -> Any:
        return gt.constant(x, bake=True)

    def getitem(self, x: Any, index: Any) -> Any:
        return as_tensor(x)[index]

    def by_rows(self, function: Callable[[Any], Any], x: Any) -> Any:
        _, ys = loop(lambda _, row: (None, function(row)), None, x, checkpoint=1)
        return ys

    def solve(self, a: Any, b: Any) -> Any:
        return gt.linalg.solve(a, b, b_ndim=2)


def _pairs(axes: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    left, right = axes
    return tuple(left), tuple(right)


class _NumPy(ArrayNamespace):
    name = "NumPy"
    fft = np.fft

    def __getattr__(self, name: str) -> Callable[..., Any]:
        # np.linalg raises for a singular matrix; graphs return infinities and NaN, as JAX does.
        direct = None if name in {"solve", "inv", "det"} else getattr(np, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            if direct is None or has_implicit([*args, *kwargs.values()]):
                return _evaluate(getattr(SYMBOLIC, name), args, kwargs)
            return direct(*args, **kwargs)

        return call

    def dot_general(self, a: Any, b: Any, contract: Any, batch: Any = ((), ())) -> Any:
        if has_implicit([a, b]):
            return _evaluate(SYMBOLIC.dot_general, (a, b, contract, batch), {})
        return DotGeneral(_pairs(contract), _pairs(batch)).perform(np.asarray(a), np.asarray(b))

    def cast(self, x: Any, dtype: Any) -> Any:
        if has_implicit([x]):
            return _evaluate(SYMBOLIC.cast, (x, dtype), {})
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
            return _evaluate(SYMBOLIC.getitem, (x, index), {})
        return x[index]

    def slogdet(self, a: Any) -> tuple[Any, Any]:
        sign, log = [_evaluate(lambda x, i=i: gt.linalg.slogdet(x)[i], (a,), {}) for i in (0, 1)]
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
            named = {key: _to_mlx(x) for key, x in kwargs.items()}
            return direct(*[_to_mlx(x) for x in args], **named)

        return call

    def cast(self, x: Any, dtype: Any) -> Any:
        name = "bool_" if str(dtype) == "bool" else str(dtype)
        return x.astype(getattr(sys.modules["mlx.core"], name))

    def segment_sum(self, values: Any, ids: Any, n: int) -> Any:
        # One more row collects the values whose ids are out of range.
        rows = self.where(self.logical_and(ids >= 0, ids < n), ids, n)
        return self.zeros((n + 1, *values.shape[1:]), values.dtype).at[rows].add(values)[:n]


def _to_mlx(x: Any) -> Any:
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
    libraries = _libraries(values)
    if "graphc" in libraries:
        return SYMBOLIC
    if "jax" in libraries:
        return jax_arrays().NAMESPACE
    return MLX if "mlx" in libraries else NUMPY


def has_jax(*values: Any) -> bool:
    """Return whether some arrays are JAX's and none is symbolic."""
    libraries = _libraries(values)
    return "jax" in libraries and "graphc" not in libraries


def _libraries(values: Iterable[Any]) -> set[str]:
    return {_library(x) for x in _leaves(values)}


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
    if package in {"jax", "jaxlib"} or ((jax := _module("jax")) and isinstance(x, jax.Array)):
        return "jax"
    return package


def _module(name: str) -> Any:
    module = sys.modules.get(name)
    return module if isinstance(module, ModuleType) and hasattr(module, "Array") else None


def has_implicit(values: Iterable[Any]) -> bool:
    for x in values:
        if isinstance(x, ImplicitArray) or (isinstance(x, list | tuple) and has_implicit(x)):
            return True
    return False


expand_graph: Hook[[Sequence[Node]], list[Any]] = Hook("graphs in which handlers replace nodes")


def _evaluate(f: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Apply a function to NumPy arrays, some implicit, by the graph that the function builds."""
    values: dict[Node, Any] = {}

    def to_field(x: Any) -> Any:
        # Integers may be indices, whose values handlers read.
        return Tensor.make(Leaf(x)) if x.dtype.kind in "iu" else to_symbolic(x)

    def to_symbolic(x: Any) -> Any:
        if isinstance(x, list | tuple):
            return type(x)([to_symbolic(item) for item in x])
        if isinstance(x, ImplicitArray):
            treedef, leaves = Treedef.of(x)
            return as_tensor(treedef.build([to_field(np.asarray(leaf)) for leaf in leaves]))
        if isinstance(x, np.ndarray | np.generic):
            tensor = TensorType(x.dtype, x.shape)()
            values[tensor] = x
            return tensor
        return x

    y = f(*map(to_symbolic, args), **{name: to_symbolic(x) for name, x in kwargs.items()})
    (y,) = expand_graph([as_tensor(y)])
    implicit = getattr(y, "array", None)
    treedef, outputs = Treedef.of(implicit) if implicit is not None else (None, [y])
    for node in toposort(outputs, values):
        if isinstance(node.op, Leaf):
            values[node] = node.op.array
            continue
        values[node] = node.op.perform(*[values[x] for x in node.inputs])
    leaves = [values[output] for output in outputs]
    return leaves[0] if treedef is None else treedef.build(leaves)


def apply(name: str, *operands: Any, **settings: Any) -> Any:
    """Call the function of this name from the operands' ``ArrayNamespace``."""
    try:
        return getattr(numpy_like(*operands), name)(*operands, **settings)
    except Exception as error:
        refuse_filtered(name, operands, error)
        raise


def refuse_filtered(name: str, operands: Sequence[Any], error: Exception) -> None:
    """Raise if a function failed because operands are parts of filtered trees.

    Raises:
        NoArrayError: If a required field of an operand holds None.
    """
    for x in operands:
        if isinstance(x, ImplicitArray) and not is_complete(x):
            required = field_names_of(type(x)).required
            paths = Treedef.of(x)[0].empty_fields()
            empty = ", ".join(path for path in paths if path.partition(".")[0] in required)
            problem = f"{name} of {x!r}: no array is in {empty}."
            raise NoArrayError(problem, FILTERED) from error


apply_function.provide(apply)


def materialize_layer(x: ImplicitArray) -> Any:
    """Call ``materialize``; JAX functions in it may get implicit fields."""
    if numpy_like(x).name != "JAX":
        return x.materialize()
    dtypes = [leaf.dtype for leaf in Treedef.of(x)[1] if hasattr(leaf, "dtype")]
    is_wide = any(str(dtype) in WIDE for dtype in dtypes)
    with sys.modules["jax"].enable_x64(True) if is_wide else nullcontext():
        return jax_arrays().densify_layer(_materialize, x)


def _materialize(x: ImplicitArray) -> Any:
    fields = [getattr(x, name) for name in field_names_of(type(x)).parts]
    if type(x).materialize_through and has_implicit(fields):
        dense = jax_arrays().NAMESPACE.implicit(lambda *xs: with_arrays(x, xs).materialize())
        return dense(*fields)
    return x.materialize()
