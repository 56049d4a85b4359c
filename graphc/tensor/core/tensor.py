"""The symbolic array, conversions to it, and the table through which its methods find functions."""

from __future__ import annotations

import builtins
import reprlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from graphc import hooks, ir
from graphc.config import config
from graphc.errors import AxisError, DTypeError, ShapeError, remedy_for
from graphc.site import expects_updates, unpacking_targets
from graphc.tensor.core import dispatch
from graphc.tensor.core.captured import warn_of_captured
from graphc.tensor.core.equality import is_elementwise, same, warn_if_compared
from graphc.tensor.core.methods import TensorMethods, add_method
from graphc.tensor.core.runtime import Runtime, SupportsArray

__all__ = ["Axis", "Tensor", "TensorLike", "as_tensor", "constant"]

WRAPPERS = __file__
"""The file of the methods, which call functions for the user."""

TABLE: dict[str, Callable[..., Any]] = {}
"""Every public function of arrays by its name, for methods and for NumPy's dispatch."""

Axis = int | Sequence[int] | None
"""One axis, several, or all of them."""

Binary = Callable[[Any, Any], "Tensor"]
F = TypeVar("F", bound=Callable[..., Any])

Scalar = builtins.bool | builtins.int | builtins.float | builtins.complex
WEAK = (bool, int, float, complex)
OPERANDS = (ir.Node, np.ndarray, np.generic, list, tuple, *WEAK)


def function(f: F) -> F:
    """Register a public function under its own name."""
    enter(f.__name__, f)
    return f


def enter(name: str, f: Callable[..., Any]) -> None:
    """Register a public function, which may be a method of symbolic arrays too."""
    TABLE[name] = f
    add_method(name, f)


def _is_operand(value: Any) -> bool:
    # A wrapper has operators of its own.
    if isinstance(value, OPERANDS):
        return True
    is_array = hasattr(value, "__array__") or hasattr(value, "__dlpack__")
    return is_array and not isinstance(value, ir.Wrapper)


def _both_ways(name: str) -> tuple[Binary, Binary]:
    def forward(a: Any, b: Any) -> Any:
        return TABLE[name](a, b) if _is_operand(b) else NotImplemented

    def backward(b: Any, a: Any) -> Any:
        return TABLE[name](a, b) if _is_operand(a) else NotImplemented

    return forward, backward


class Tensor(TensorMethods):
    """A symbolic array: the value an expression will have, given values for its inputs.

    It has NumPy's operators and methods. It has no value, so it cannot be a condition, an index of
    a list or an argument of a function of plain numbers. ``==`` compares identity, as equal
    graphs are one object; elementwise equality is ``gt.equal``.

    Attributes:
        type: Its TensorType; ``dtype``, ``ndim`` and ``broadcastable`` are short for its fields.
    """

    __slots__ = ()

    type: ir.TensorType

    @property
    def dtype(self) -> str:
        """The dtype's name."""
        return self.type.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.type.ndim

    @property
    def broadcastable(self) -> tuple[bool, ...]:
        """Which axes have the static length 1, and so broadcast."""
        return self.type.broadcastable

    @property
    def shape(self) -> Tensor:
        """The lengths, an int64 vector; ``x.type.shape`` has those that are known statically."""
        return TABLE["shape"](self)  # type: ignore[no-any-return]

    @property
    def size(self) -> Tensor:
        """The number of elements, an int64 scalar."""
        return TABLE["size"](self)  # type: ignore[no-any-return]

    @property
    def T(self) -> Tensor:  # noqa: N802 (NumPy's name)
        """The transpose: all axes in reverse order."""
        return TABLE["transpose"](self)  # type: ignore[no-any-return]

    @property
    def mT(self) -> Tensor:  # noqa: N802 (NumPy's name)
        """The array with its last two axes exchanged."""
        return TABLE["matrix_transpose"](self)  # type: ignore[no-any-return]

    @property
    def real(self) -> Tensor:
        """The real part."""
        return TABLE["real"](self)  # type: ignore[no-any-return]

    @property
    def imag(self) -> Tensor:
        """The imaginary part."""
        return TABLE["imag"](self)  # type: ignore[no-any-return]

    def __str__(self) -> str:
        return self.name or repr(self)

    # Nodes are compared by identity; but in functions of single elements, as a mask's, by value.
    # Type checkers see bool, and so show where elementwise equality was meant.

    def __eq__(self, other: object) -> bool:
        return TABLE["equal"](self, other) if is_elementwise() else same(self, other)

    def __ne__(self, other: object) -> bool:
        return TABLE["not_equal"](self, other) if is_elementwise() else not same(self, other)

    __hash__ = ir.Node.__hash__

    # Operations that need a value are refused.

    def __bool__(self) -> bool:
        raise self._refuse(
            "The truth value",
            "Choose elementwise with gt.where(condition, a, b); for a Python if, compile it first. "
            "Whether there is an array is `x is not None`.",
        )

    def __len__(self) -> int:
        raise self._refuse("len()", "Use x.shape[0], or x.type.shape[0] where it is static.")

    def __index__(self) -> int:
        raise self._refuse(
            "A Python integer",
            "graphc's own functions take it as it is, also as a shape; for range(n) use "
            "gt.arange(n), or graphc.scan(..., n_steps=n).",
        )

    if not TYPE_CHECKING:  # NumPy's operators would claim the result of ``array + tensor``

        def __array__(self, *args: Any, **kwargs: Any) -> Any:
            raise self._refuse(
                "A NumPy array",
                "Use graphc.tensor's functions (gt.stack for a list), or x.eval({...}).",
            )

    def __format__(self, form: str) -> str:
        if form:
            raise self._refuse(f"The format {form!r}", "Format the value: x.eval({...}).")
        return str(self)

    def __contains__(self, value: Any) -> bool:
        raise self._refuse("A search", "Use gt.any(gt.equal(x, value)).")

    @classmethod
    def apply(cls, op: ir.Op, *inputs: Any) -> Any:
        """Return an operation applied to array representations; several results are a list."""
        y = Tensor.make(op, *map(as_tensor, inputs))
        return ir.picks(y) if isinstance(y.type, ir.TupleType) else y

    def shard_fields(self, sharding: Any, subject: str) -> Tensor | None:
        """Return an implicit array whose fields are sharded this way; None for a dense array."""
        return None

    @classmethod
    def of_kind(cls, x: Tensor) -> Tensor:
        """Return an array as one of this class, if the class says how to use it, such as a key."""
        return x

    def __iter__(self) -> Iterator[Tensor]:
        if not self.ndim:
            raise self._refuse("Iteration", "A 0-d array has no elements to iterate over.")
        length = self.type.shape[0]
        is_of_loop = _is_loop_result(self)
        if is_of_loop and expects_updates(unpacking_targets()):
            raise self._refuse("The unpacking to outputs and updates", OUTPUTS_ALONE)
        if length is None:
            remedy = f"{UNKNOWN} {OUTPUTS_ALONE}" if is_of_loop else UNKNOWN
            raise self._refuse("Iteration", remedy)
        return (self[i] for i in range(length))

    # Operators of pandas, whose arrays come first, leave the operation to symbolic arrays.
    __pandas_priority__ = 10_000

    # NumPy's own functions dispatch here.

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        asked = f"np.{ufunc.__name__}" + (f".{method}" if method != "__call__" else "")
        reduction = TABLE.get(dispatch.UFUNC_METHODS.get((ufunc.__name__, method), ""))
        if reduction is not None:
            return self._call(asked, reduction, dispatch.ufunc_method_arguments, args, kwargs)
        name = dispatch.OTHER_NAMES.get(ufunc.__name__, ufunc.__name__)
        call = TABLE.get(name)
        if call is not None and not kwargs:
            if method == "__call__":
                return call(*args)
            if method == "outer":
                return self._outer(call, *args)
        raise self._refuse(asked, self._remedy(method, name))

    def _outer(self, known: Any, a: Any, b: Any) -> Tensor:
        a, b = as_tensor(a), as_tensor(b)
        axes = tuple(range(a.ndim, a.ndim + b.ndim))
        return known(TABLE["expand_dims"](a, axes) if axes else a, b)  # type: ignore[no-any-return]

    def _remedy(self, method: str, name: str) -> str:
        if method == "at":
            return "Write x[index].set(value), or .inc(value) to add to it."
        if method == "__call__" and name in TABLE:
            return f"Write it with graphc.tensor: it has gt.{name}, without NumPy's keywords."
        return "Write it with graphc.tensor's functions."

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        asked = f"np.{func.__name__}"
        if func.__name__ in dispatch.IN_PLACE:
            raise self._refuse(asked, "It would be changed in place: write x[index].set(value).")
        call = TABLE.get(dispatch.OTHER_NAMES.get(func.__name__, func.__name__))
        if call is None or func.__name__ in dispatch.DIFFERENT:
            remedy = dispatch.DIFFERENT.get(
                func.__name__, "Write it with graphc.tensor's functions."
            )
            raise self._refuse(asked, remedy)
        return self._call(asked, call, partial(dispatch.arguments_for, func), args, kwargs)

    def _call(self, asked: str, known: Any, translate: Any, args: Any, kwargs: Any) -> Any:
        try:
            first, named = translate(known, args, kwargs)
        except KeyError as error:
            raise self._refuse(
                f"{asked} with {error.args[0]}=", "Leave it out: graphc.tensor's has none."
            ) from None
        return known(*first, **named)

    # Operators. A tuple or list beside a symbolic array is an array, as in NumPy.

    if not TYPE_CHECKING:  # which see them in Methods
        __add__, __radd__ = _both_ways("add")
        __sub__, __rsub__ = _both_ways("subtract")
        __mul__, __rmul__ = _both_ways("multiply")
        __truediv__, __rtruediv__ = _both_ways("divide")
        __floordiv__, __rfloordiv__ = _both_ways("floor_divide")
        __mod__, __rmod__ = _both_ways("remainder")
        __pow__, __rpow__ = _both_ways("power")
        __matmul__, __rmatmul__ = _both_ways("matmul")
        __and__, __rand__ = _both_ways("bitwise_and")
        __or__, __ror__ = _both_ways("bitwise_or")
        __xor__, __rxor__ = _both_ways("bitwise_xor")
        __lshift__, __rlshift__ = _both_ways("left_shift")
        __rshift__, __rrshift__ = _both_ways("right_shift")
        __lt__, _ = _both_ways("less")
        __le__, _ = _both_ways("less_equal")
        __gt__, _ = _both_ways("greater")
        __ge__, _ = _both_ways("greater_equal")
        del _

    def __neg__(self) -> Tensor:
        return TABLE["negative"](self)  # type: ignore[no-any-return]

    def __pos__(self) -> Tensor:
        return self

    def __abs__(self) -> Tensor:
        return TABLE["abs"](self)  # type: ignore[no-any-return]

    def __invert__(self) -> Tensor:
        return TABLE["invert"](self)  # type: ignore[no-any-return]

    def __round__(self, digits: int | None = None) -> Tensor:
        return TABLE["round"](self, digits or 0)  # type: ignore[no-any-return]

    def __divmod__(self, other: Any) -> tuple[Tensor, Tensor]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Tensor, Tensor]:
        return other // self, other % self

    def __getitem__(self, index: Any) -> Tensor:
        return TABLE["getitem"](self, index)  # type: ignore[no-any-return]

    def set(self, value: Any) -> Tensor:
        """Return x with the part ``x[index]`` replaced by a value, which broadcasts."""
        return TABLE["set_subtensor"](self, value)  # type: ignore[no-any-return]

    def inc(self, value: Any) -> Tensor:
        """Return x with a value added to the part ``x[index]``; repeated indices add up."""
        return TABLE["inc_subtensor"](self, value)  # type: ignore[no-any-return]

    # Methods, as in NumPy.

    def astype(self, dtype: Any) -> Tensor:
        """Return the values in another dtype; see ``graphc.tensor.cast``."""
        return TABLE["cast"](self, dtype)  # type: ignore[no-any-return]

    def reshape(self, *shape: Any, ndim: int | None = None) -> Tensor:
        """Return the same elements in another shape, with at most one length -1."""
        lengths = shape[0] if len(shape) == 1 else shape
        return TABLE["reshape"](self, lengths, ndim=ndim)  # type: ignore[no-any-return]

    def transpose(self, *axes: Any) -> Tensor:
        """Return the array with its axes permuted, reversed by default."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
        return TABLE["transpose"](self, order)  # type: ignore[no-any-return]

    def dimshuffle(self, *pattern: Any) -> Tensor:
        """Return the array with its axes in a new order, ``"x"`` for a new one of length 1."""
        order = (
            pattern[0] if len(pattern) == 1 and not isinstance(pattern[0], int | str) else pattern
        )
        return TABLE["dimshuffle"](self, order)  # type: ignore[no-any-return]

    def flatten(self, ndim: int = 1) -> Tensor:
        """Return the same elements with the last axes merged, so that ``ndim`` are left."""
        return TABLE["flatten"](self, ndim)  # type: ignore[no-any-return]

    def norm(self, L: float = 2, axis: Axis = None, keepdims: bool = False) -> Tensor:  # noqa: N803
        """Return ``sum(abs(x)**L, axis)**(1/L)``: all elements are one vector by default."""
        return TABLE["vector_norm"](self, axis=axis, keepdims=keepdims, ord=L)  # type: ignore[no-any-return]

    def copy(self, name: str | None = None) -> Tensor:
        """Return the array itself: a symbolic array never changes, so it needs no copy."""
        return self

    def eval(
        self, values: Mapping[Any, Any] | None = None, *, mode: Any = None
    ) -> np.ndarray[Any, Any]:
        """Return the value as a NumPy array.

        Args:
            values: Values for the inputs it depends on, by the input or its name.
            mode: Where to compute it; ``config.mode`` by default.
        """
        return hooks.evaluate(self, values, mode)

    @property
    def data(self) -> np.ndarray[Any, Any]:
        """The value of a constant, which only constants have.

        Example:
            >>> constant([1.5, 2.5]).data
            array([1.5, 2.5])
        """
        if isinstance(self.op, ir.Constant):
            return self.op.value
        if type(self.op) is ir.Leaf:
            return self.op.array
        raise AttributeError  # __getattr__ says what is wrong

    def clone(self, name: str | None = None) -> Tensor:
        """Return a new input of this type, of the same name or another.

        Constants and shared variables, which have values, are returned themselves.

        Example:
            >>> import graphc.tensor as gt
            >>> x = gt.vector("x", shape=(3,))
            >>> x.clone(), x.clone() is x
            (x: float64[3], False)
        """
        if isinstance(self.op, ir.Constant | ir.Leaf) or getattr(self.op, "is_shared", False):
            return self
        if not isinstance(self.op, ir.Input):
            return Tensor.input(self.type, name or self.name)
        op = self.op
        return Tensor.input(self.type, name or self.name, op.sharding, op.buckets, op.dims)

    def dprint(self, **options: Any) -> str | None:
        """Print the graph as a tree; options as for ``graphc.dprint``."""
        return ir.dprint(self, **options)

    if not TYPE_CHECKING:  # for which there are no attributes that are not declared

        def __getattr__(self, name: str) -> Any:
            from graphc.absent import problem_of_tensor_attribute  # noqa: PLC0415 (for errors alone)

            raise AttributeError(problem_of_tensor_attribute(name), name=name, obj=self)


UNKNOWN = (
    "Its length is unknown: declare it, x = gt.tensor(shape=(3, ...)), or index x[i]; gt.sum, "
    "gt.max and graphc.scan take arrays of any length."
)


OUTPUTS_ALONE = (
    "graphc.scan, map, reduce, foldl and foldr return outputs alone: write out = graphc.scan(...). "
    "For a pair of outputs and updates add return_updates=True, or set "
    "graphc.config.scan_returns_updates = True."
)
"""The remedies for a line that unpacks updates beside the outputs of a loop."""


def _is_loop_result(x: ir.Node) -> bool:
    while x.op.name == "getitem" or isinstance(x.op, ir.Pick):
        x = x.inputs[0]
    return x.op.name == "loop"


ir.TensorType.node_class = Tensor


class SupportsTensor(Protocol):
    """An object that converts itself to a symbolic array, such as an implicit array."""

    def __graphc_tensor__(self) -> Tensor: ...


ArrayOrNumber = ir.Node | SupportsArray | SupportsTensor | int | float | complex
"""One array of any library, or a number."""

TensorLike = ArrayOrNumber | Sequence[Any]
"""The arguments of ``as_tensor``: arrays, numbers, and nested sequences that may mix them."""


def constant(
    value: TensorLike, name: str | None = None, dtype: Any = None, *, bake: bool = False
) -> Tensor:
    """Return a value that does not change, as a symbolic array.

    Fewer than 10 elements become part of the graph, compared by value. A larger array stays a
    leaf: compared by identity and passed to the compiled function like an argument, so that equal
    graphs over other data are one program. Its values are read when a function is compiled.

    Args:
        value: Numbers, nested lists of numbers, or an array; any shape.
        name: The leaf's name in printed graphs.
        dtype: Convert to this first.
        bake: Make a larger array part of the graph too.

    Raises:
        DTypeError: The value is not an array of numbers.

    Example:
        >>> constant([1.5, 2.5])
        [1.5, 2.5]: float64[2]
    """
    if isinstance(value, ir.Node):
        return value  # type: ignore[return-value]
    if isinstance(value, Runtime):
        return _constant_of_runtime(value, name, dtype, bake)
    if hasattr(value, "__graphc_tensor__"):
        tensor = value.__graphc_tensor__()
        return tensor if dtype is None else TABLE["cast"](tensor, dtype)
    array = _array(value, dtype)
    if array.size < ir.TINY or bake:
        return Tensor.make(ir.Constant.of(array))
    return Tensor.make(ir.Leaf(array, name))


def _constant_of_runtime(value: Runtime, name: str | None, dtype: Any, bake: bool) -> Tensor:
    if bake:
        return constant(value.number, name, dtype)
    if dtype is None and value.weak:
        dtype = _scalar_dtype(value.number)
    return Tensor.make(ir.Leaf(value.array(None if dtype is None else ir.dtype_name(dtype)), name))


def _array(value: Any, dtype: Any) -> np.ndarray[Any, Any]:
    if isinstance(value, WEAK):
        dtype = dtype or _scalar_dtype(value)
    elif isinstance(value, list | tuple) and not value:
        dtype = dtype or config.floatX
    wanted = None if dtype is None else ir.numpy_dtype(ir.dtype_name(dtype))
    try:
        value = import_dlpack(value)
        _refuse_loss(value, wanted)
        array = np.asarray(value, wanted)
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, DTypeError):
            raise
        problem = f"{_short(value)} is no array of numbers: {str(error).rstrip('.')}."
        remedy = "Give numbers, nested lists of them, or a NumPy array."
        raise DTypeError(problem, remedy) from error
    remedy = remedy_for(value, "") if array.dtype == object else ""
    if remedy:
        raise DTypeError(f"{_short(value)} is no array of numbers, and none of graphc's.", remedy)
    ir.dtype_name(array.dtype)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


FILL = "Fill its gaps: value.filled(...)."
"""The remedy for masked arrays."""


def _refuse_loss(value: Any, dtype: np.dtype[Any] | None) -> None:
    """Refuse values that NumPy converts by dropping a part: a mask, or an imaginary part."""
    if holds_mask(value):
        raise DTypeError("A masked array is no array of numbers: its mask would be lost.", FILL)
    # Arrays of JAX, too, have dtypes of NumPy.
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if dtype is not None and dtype.kind not in "cb" and kind == "c":
        problem = f"{_short(value)} as {dtype} would lose its imaginary part."
        raise DTypeError(problem, "Take the real part first: value.real.")


def holds_mask(value: Any) -> bool:
    """Return whether a value is a masked array of NumPy, or nested lists hold one."""
    if "numpy.ma" not in sys.modules:
        return False
    masked = np.ma.MaskedArray
    if isinstance(value, list | tuple):
        return any(isinstance(part, masked) for part in _leaves(value))
    return isinstance(value, masked)


def import_dlpack(value: Any) -> Any:
    """Return an array that NumPy reads by DLPack alone as NumPy's; other values as they are."""
    if hasattr(value, "__array__") or not hasattr(value, "__dlpack__"):
        return value
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError) as error:
        problem = str(error).rstrip(".")
        remedy = "copy the array to the processor, in a dtype of NumPy"
        raise TypeError(f"{problem}; {remedy}") from error


def _leaves(nested: Sequence[Any]) -> Iterator[Any]:
    levels = [nested]
    while levels:
        for part in levels.pop():
            if isinstance(part, list | tuple):
                levels.append(part)
            else:
                yield part


def _short(value: Any) -> str:
    text = reprlib.repr(value) if isinstance(value, list | tuple) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _scalar_dtype(value: Scalar) -> str:
    if isinstance(value, bool):
        warn_if_compared(value)
        return "bool"
    if isinstance(value, int):
        return "int64"
    if isinstance(value, float):
        return config.floatX
    return "complex128" if config.floatX == "float64" else "complex64"


@function
def as_tensor(
    x: TensorLike, name: str | None = None, ndim: int | None = None, dtype: Any = None
) -> Tensor:
    """Return anything that represents an array as a symbolic one.

    Args:
        x: A symbolic array, a number, an array, or a nested sequence that mixes these.
        name: A larger array's name in printed graphs.
        ndim: The number of axes: axes of length 1 are added or removed in front.
        dtype: The dtype of the result.

    Returns:
        A Tensor; a Python float and an empty list are ``config.floatX``, a Python int int64.

    Raises:
        DTypeError: If x is not an array of numbers.
        ShapeError: If x has more axes than ``ndim``, of other lengths than 1, or its parts differ
            in shape.

    Example:
        >>> as_tensor(3.0), as_tensor([1, 2])
        (3.0: float64[], [1, 2]: int64[2])
    """
    y = x if isinstance(x, Tensor) else _convert(x, name, dtype)
    if isinstance(y.type, ir.TupleType):
        raise DTypeError(f"expected one array, got {y!r}.", "Use one of them.")
    if dtype is not None and y.dtype != ir.dtype_name(dtype):
        y = TABLE["cast"](y, dtype)
    if ndim is not None and y.ndim > ndim:
        extra = y.ndim - ndim
        if y.type.shape[:extra] != (1,) * extra:
            raise ShapeError(
                f"{y!r} has {y.ndim} axes, more than ndim={ndim}.",
                f"The first {extra} must be declared to have length 1.",
            )
        return TABLE["squeeze"](y, tuple(range(extra)))  # type: ignore[no-any-return]
    if ndim is not None and y.ndim < ndim:
        return TABLE["expand_dims"](y, tuple(range(ndim - y.ndim)))  # type: ignore[no-any-return]
    return y


def _convert(x: TensorLike, name: str | None, dtype: Any) -> Tensor:
    if isinstance(x, list | tuple) and has_symbols(x):
        return TABLE["stack"]([as_tensor(part) for part in x])  # type: ignore[no-any-return]
    y = constant(x, name, dtype)
    if config.warn_on_captured_constants and isinstance(y.op, ir.Leaf):
        warn_of_captured(y)
    return y


def has_symbols(parts: Any) -> bool:
    return any(isinstance(part, ir.Node | Runtime) for part in _leaves(parts))


def operands(op: str, values: Sequence[Any]) -> tuple[list[Tensor], str]:
    """Return the values as symbolic arrays of one dtype, and that dtype: Python scalars are weak.

    Raises:
        DTypeError: A Python integer that the other operands' dtype can't hold.
    """
    first = values[0]
    if isinstance(first, Tensor):
        dtype = first.type.dtype
        if all(isinstance(x, Tensor) and x.type.dtype == dtype for x in values):
            return list(values), dtype
    xs = [x if is_weak(x) else as_tensor(x) for x in values]
    strong = [x.dtype for x in xs if isinstance(x, Tensor)]
    weak = [x.number if isinstance(x, Runtime) else x for x in xs if not isinstance(x, Tensor)]
    if not strong:
        dtype = ir.promote(*map(_scalar_dtype, weak))
    else:
        dtype = ir.promote(*strong)
        for x in weak:
            dtype = _with_weak(dtype, x)
    return [_in_dtype(op, x, dtype) for x in xs], dtype


def is_weak(x: Any) -> bool:
    return type(x) in WEAK or (isinstance(x, Runtime) and x.weak)


def _with_weak(dtype: str, x: Scalar) -> str:
    if isinstance(x, bool):
        warn_if_compared(x)
        return dtype
    if isinstance(x, int):
        return "int64" if dtype == "bool" else dtype
    if isinstance(x, float):
        return dtype if ir.is_inexact(dtype) else "float64"
    if ir.is_complex(dtype):
        return dtype
    return "complex128" if dtype == "float64" or not ir.is_inexact(dtype) else "complex64"


def _in_dtype(op: str, x: Any, dtype: str) -> Tensor:
    if isinstance(x, Tensor):
        return x if x.dtype == dtype else TABLE["cast"](x, dtype)
    if ir.is_integer(dtype):
        bounds = np.iinfo(dtype)
        if not bounds.min <= x <= bounds.max:
            raise DTypeError(
                f"{op}: the Python integer {int(x)} does not fit {dtype}, the other operand's "
                "dtype.",
                "Cast the array to a wider dtype first.",
            )
    if isinstance(x, Runtime):
        return Tensor.make(ir.Leaf(x.array(dtype)))
    return Tensor.make(ir.Constant(np.array(x, ir.numpy_dtype(dtype)).tobytes(), dtype, ()))


def axes_of(op: str, axis: Axis, ndim: int) -> tuple[int, ...]:
    """Return axes as distinct, sorted, non-negative integers; None means all."""
    if axis is None:
        return tuple(range(ndim))
    static = known_axes(axis)
    wanted = static if isinstance(static, tuple) else (static,)
    axes = []
    for a in wanted:
        if isinstance(a, bool) or not isinstance(a, int | np.integer):
            raise DTypeError(f"{op}: expected Python integers as axes, got {a!r}.")
        if not -ndim <= a < ndim:
            raise AxisError(
                f"{op}: no axis {a} in an array of {ndim} axes.",
                f"Use {-ndim} to {ndim - 1}." if ndim else "A 0-d array has no axes.",
            )
        axes.append(int(a) % ndim)
    if len(set(axes)) != len(axes):
        raise AxisError(f"{op}: an axis is repeated in {wanted}.")
    return tuple(sorted(axes))


def known_axes(axis: Any) -> Any:
    """Return axes as integers, also constants and NumPy's arrays, and a tuple for a list."""
    if isinstance(axis, list | tuple):
        return tuple(map(known_axes, axis))
    if isinstance(axis, Tensor) and isinstance(axis.op, ir.Constant):
        axis = axis.op.value
    if isinstance(axis, np.ndarray | np.generic) and axis.dtype.kind in "iu":
        return known_axes(axis.tolist())
    return axis
