"""Operations: static parameters, a type rule, a NumPy reference and derivatives."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from graphc.errors import InvalidGraphError, UnsupportedOperationError
from graphc.ir.dtypes import is_inexact
from graphc.ir.line import ATOM, Code, Writer, call, operator
from graphc.ir.types import TensorType, Type

if TYPE_CHECKING:
    from graphc.ir.graph import Graph
    from graphc.ir.node import Node

Check = tuple[int, int, int, int]
"""(i, axis, j, axis): input i's length on that axis equals input j's, where types cannot tell."""


class Op:
    """An operation: static parameters, a type rule, a NumPy reference and derivatives.

    Subclasses are frozen dataclasses; backends decide how they are computed.

    Subclass it with ``infer`` and ``perform``, add ``pullback`` to differentiate it, and call the
    operation to apply it to arrays: ``MyOp(...)(x, y)``.

    Example:
        >>> from dataclasses import dataclass
        >>> import numpy as np
        >>> import graphc, graphc.tensor as gt
        >>> @dataclass(frozen=True, slots=True)
        ... class Cube(graphc.Op):
        ...     def infer(self, x):
        ...         return x
        ...     def perform(self, x):
        ...         return x**3
        ...     def pullback(self, g, y, x):
        ...         return (3 * g * x**2,)
        >>> x = gt.scalar("x")
        >>> y = Cube()(x)
        >>> float(graphc.function([x], graphc.grad(y, x), mode="NUMPY")(2.0))
        12.0
    """

    __slots__ = ()

    node_class: ClassVar[Any] = None
    """The class of its nodes; by default the type decides the class."""

    rearranges: ClassVar[bool] = False
    """Whether the operation is linear, and its pullback only moves elements of a cotangent."""

    is_linear: ClassVar[bool] = False
    """Whether the result is linear in the first input, and has no derivative by the others."""

    stays_in_step: ClassVar[bool] = False
    """Whether a loop runs it step by step if it varies: all steps at once need too much memory."""

    folds: ClassVar[bool] = True
    """Whether constants alone decide its result, so that constant folding may compute it.

    A sum over processes depends on the other processes, and a constant has no sharding.
    """

    by_numpy: ClassVar[bool] = False
    """Whether a backend with no lowering for it calls its NumPy reference.

    Functions of LAPACK or SciPy that the backends' libraries lack are computed in this way.
    """

    infers_by_numbers: ClassVar[bool] = False
    """Whether ``infer`` calls foreign code, which computes with numbers and None alone."""

    reads_shapes_alone: ClassVar[bool] = False
    """Whether the result depends on the shapes of inputs, and on none of their elements."""

    is_rule_of_types: ClassVar[bool] = False
    """Whether ``infer`` depends on the types of inputs alone, beside plain parameters."""

    core_ndim: ClassVar[int | None] = None
    """Number of last axes that are no batch: 0 elementwise, 2 for matrices; None is unknown."""

    core_padding: ClassVar[Any] = None
    """What ``padding_for`` returns for these axes."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "make_node" in vars(cls):
            raise InvalidGraphError(
                f"{cls.__qualname__} has make_node, which nothing calls here.",
                "Give it infer(*types), perform(*values) and pullback(g, y, *inputs) instead, as "
                "docs/operations.md shows, or decorate a function with graphc.wrap_py.",
            )

        own: Any = cls
        for method in ("checks", "host_inputs"):
            if method in vars(cls) and not is_own_class(own):
                raise InvalidGraphError(
                    f"{cls.__qualname__} has {method}, which nothing calls.",
                    "Compare lengths in infer by graphc.ir.lengths.agree.",
                )

    def __call__(self, *inputs: Any) -> Any:
        """Return the operation applied to arrays.

        Args:
            inputs: Symbolic arrays, arrays and numbers.

        Returns:
            A symbolic array, or a list of them if ``infer`` returns several types.
        """
        return TensorType.node_class.apply(self, *inputs)

    @property
    def name(self) -> str:
        """The name in messages and printed graphs."""
        return type(self).__name__

    def as_code(self, inputs: Sequence[Node], write: Writer) -> Code:
        """Return the operation on inputs in NumPy's notation, and how tightly that binds.

        Args:
            inputs: The inputs.
            write: Returns the code of an input, in brackets if it binds less tightly than the
                second argument.
        """
        code = operator(self.name, inputs, write)
        return code or call(self.name, inputs, parameters_of(self), write)

    def result_as_code(self, index: int, inputs: Sequence[Node], write: Writer) -> Code:
        """Return one of several results as ``as_code`` returns all of them."""
        code, binds = self.as_code(inputs, write)
        return f"{code if binds >= ATOM else f'({code})'}[{index}]", ATOM

    def infer(self, *types: Any) -> Type:
        """Return the type of the result for inputs of these types, or raise if they do not fit."""
        raise NotImplementedError(f"{type(self).__qualname__} has no type rule, infer.")

    def perform(self, *values: Any) -> Any:
        """Return the result for NumPy arrays: the reference for all backends."""
        raise UnsupportedOperationError(
            f"{self.name} has no NumPy reference.", f"Give {type(self).__qualname__} a perform."
        )

    def pullback(self, g: Any, y: Any, *inputs: Any) -> Sequence[Node | None]:
        """Return the gradient with respect to each input, or None where there is none.

        By default a result of integers or bool has none.

        Args:
            g: The gradient with respect to the result.
            y: The result.
            inputs: The inputs.
        """
        if type(self).pullback_to is not Op.pullback_to:
            return self.pullback_to((True,) * len(inputs), g, y, *inputs)
        if not any(is_inexact(getattr(t, "dtype", "")) for t in getattr(y.type, "items", [y.type])):
            return (None,) * len(inputs)
        raise UnsupportedOperationError(
            f"{self.name} has no derivative.", f"Give {type(self).__qualname__} a pullback."
        )

    def pullback_to(self, wanted: Sequence[bool], g: Any, y: Any, *inputs: Any) -> Sequence[Any]:
        """Return the same as ``pullback``, with None allowed for inputs that are not wanted."""
        return self.pullback(g, y, *inputs)

    def pushforward(self, tangents: Sequence[Any], y: Any, *inputs: Any) -> Any:
        """Return the result's tangent, or NotImplemented to derive it from pullback.

        By default, an operation that is linear is applied to the tangent of its first input, if
        that is the only tangent and the operation has one result.
        """
        moved = [i for i, t in enumerate(tangents) if t is not None]
        is_linear = self.is_linear or self.rearranges
        if not is_linear or moved != [0] or not isinstance(y.type, TensorType):
            return NotImplemented
        return y.make(self, tangents[0], *inputs[1:])

    def batch(self, size: Any, batched: Sequence[bool], *inputs: Any) -> Any:
        """Return the result for a batch: the leading axis of the batched inputs and of the result.

        A result that is equal for all elements may lack the axis. Several results are a tuple of
        nodes, or a node of tuple type. By default, batches of elements or matrices are one array.
        """
        if self.core_ndim is not None and len(inputs) == 1:
            return inputs[0].make(self, *inputs)
        raise UnsupportedOperationError(
            f"{self.name} has no rule for batches.", f"Give {type(self).__qualname__} a batch."
        )

    def padding_for(self, i: int, axis: int, type: Any) -> Any:
        """Return what an input must hold beyond its length if it lies in a longer buffer.

        A backend that compiles for known shapes pads an array whose length it does not know, and
        uses the results up to their lengths alone, which follow from ``infer``. By default, any
        padding is right along a batch, and ``core_padding`` along the last ``core_ndim`` axes.

        Args:
            i: The input.
            axis: The axis along which it is padded.
            type: The type of the input.

        Returns:
            A number; ``"any"`` if the results do not depend on the padding; ``"identity"`` for
            an identity matrix beyond square matrices; ``"index"`` for each element's own index;
            None if no padding is right.
        """
        n = self.core_ndim
        return "any" if n is not None and axis < type.ndim - n else self.core_padding

    def looks_at(self, *types: Any) -> Sequence[bool]:
        """Return which inputs the result depends on; wrapped functions may ignore some."""
        return [True] * len(types)

    def is_commutative(self) -> bool:
        """Return whether its two operands may be exchanged."""
        return False

    def arranged(self, inputs: Sequence[Node]) -> tuple[Node, ...]:
        """Return the inputs in a canonical order, where several have the same meaning."""
        return tuple(inputs)

    def graphs(self) -> tuple[Graph, ...]:
        """Return the graphs that the operation holds, such as the step of a loop."""
        return ()

    def passes(self) -> Sequence[Sequence[int | None]]:
        """Return, for each held graph, which of the operation's inputs each graph input is.

        None means another value, such as an element of a sequence.
        """
        return ()

    def with_graphs(self, graphs: Sequence[Graph]) -> Op:
        """Return the operation with other graphs of the same inputs."""
        assert not graphs, self
        return self

    def token(self) -> str:
        """Return class and parameters as text that is the same in every process."""
        return _plain_token(self) if is_plain(self) else _token(self)

    def unwritten(self) -> Any:
        """Return the dependencies of the operation that its token lacks, or None.

        A class of another package is a dependency, as another class may have the same name.
        """
        cls: Any = type(self)
        return None if is_own_class(cls) else cls


def parameters_of(op: Op) -> str:
    """Return the parameters of an operation as printed graphs show them: ``axes=(0,)``."""
    if not dataclasses.is_dataclass(op):
        return ""
    _, _, inside = repr(op).partition("(")
    return inside[:-1]


@cache
def is_own_class(cls: type) -> bool:
    """Return whether a class is graphc's, not a user's."""
    return cls.__module__.startswith("graphc.")


@cache
def _class_name(cls: Any) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


@lru_cache(4096)
def inferred_type(op: Op, types: tuple[Type, ...]) -> Type:
    """Return the result's type, inferred once for equal operations on equal types."""
    return op.infer(*types)


@lru_cache(4096)
def _plain_token(op: Op) -> str:
    return _token(op)


def is_plain(op: Op) -> bool:
    """Return whether an operation is graphc's own and holds no data, so that its facts are cached.

    The type rule of a user's operation may depend on more than its arguments.
    """
    cls: Any = type(op)
    return _is_plain_class(cls)


def follows_from_types(op: Op) -> bool:
    """Return whether equal types of inputs imply an equal type and equal checks."""
    cls: Any = type(op)
    return cls.is_rule_of_types or _is_plain_class(cls)


@cache
def _is_plain_class(cls: Any) -> bool:
    return is_own_class(cls) and dataclasses.is_dataclass(cls) and _words(cls) <= PLAIN - {"bytes"}


def _token(op: Op) -> str:
    if not dataclasses.is_dataclass(op):
        raise InvalidGraphError(
            f"{type(op).__qualname__} is not a dataclass, so its graphs cannot be compared.",
            "Decorate it with @dataclass(frozen=True, slots=True), or define token().",
        )
    fields = (encode(getattr(op, field.name)) for field in dataclasses.fields(op))
    return f"{_class_name(type(op))}({','.join(fields)})"


def distinct(op: Op) -> Any:
    """Return a form of the operation that equals another's only if both compute the same.

    In Python 0.0 equals -0.0, 1 equals 1.0 and True, and NaN does not equal itself.
    """
    cls: Any = type(op)
    names = _loose_fields(cls)
    return (cls, *[_exact(getattr(op, name)) for name in names]) if names else op


@cache
def _loose_fields(cls: Any) -> tuple[str, ...]:
    """Return all parameters if Python's equality of one could confuse two operations."""
    is_own = is_own_class(cls)
    if not dataclasses.is_dataclass(cls) or cls.__eq__ is object.__eq__:
        return ()
    # Parameters of a user's class may differ from the annotations.
    if is_own and _words(cls) <= PLAIN:
        return ()
    return tuple(field.name for field in dataclasses.fields(cls))


def _words(cls: Any) -> set[str]:
    fields = dataclasses.fields(cls)
    return {word for field in fields for word in re.findall(r"\w+", str(field.type))}


PLAIN = {"int", "str", "bytes", "tuple", "None", "Shape", "StaticShape"}
"""The words of annotations whose values are equal only where they are the same."""


def _exact(value: Any) -> Any:
    match value:
        case float():
            return float, value.hex()
        case complex():
            return complex, value.real.hex(), value.imag.hex()
        case bool() | int():
            return type(value), value
        case tuple():
            return tuple(map(_exact, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type | Op):
        fields = dataclasses.fields(value)
        return type(value), *[_exact(getattr(value, field.name)) for field in fields]
    return value


FORMS: dict[type, Callable[[Any], str]] = {
    type(None): repr,
    enum.Enum: lambda value: f"{_class_name(value.__class__)}.{value.name}",
    int: repr,
    str: repr,
    float: float.hex,
    complex: lambda value: f"{value.real.hex()} {value.imag.hex()}",
    bytes: lambda value: hashlib.blake2b(value, digest_size=16).hexdigest(),
    Op: lambda value: value.token(),
    Type: repr,
}
"""The text form of a parameter, by class; the first class that fits decides."""


@cache
def _form(cls: Any) -> Callable[[Any], str] | None:
    return next((form for kind, form in FORMS.items() if issubclass(cls, kind)), None)


def encode(value: Any) -> str:
    """Return a parameter of an operation as text, the same in every process.

    Raises:
        InvalidGraphError: If the value has no such form, as an array.
    """
    if isinstance(value, tuple):
        return f"({','.join(map(encode, value))})"
    cls: Any = type(value)
    form = _form(cls)
    if form is not None:
        return form(value)
    if hasattr(value, "key"):
        return str(value.key())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = (encode(getattr(value, field.name)) for field in dataclasses.fields(value))
        return f"{_class_name(type(value))}({','.join(fields)})"
    raise InvalidGraphError(
        f"An operation's parameter {value!r} has no form that is equal across processes.",
        "Use numbers, strings, tuples, enums or frozen dataclasses; pass arrays as inputs.",
    )
