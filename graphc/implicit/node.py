"""Implicit arrays in graphs: nodes whose inputs are their fields."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from graphc.config import config
from graphc.errors import ImplicitArrayError, ShapeError
from graphc.grad.reverse import cotangents
from graphc.implicit.array import ImplicitArray, to_tensor
from graphc.implicit.partition import constrain_fields
from graphc.implicit.policy import densify, enforce_policy, policy_of
from graphc.implicit.registry import user_changes
from graphc.implicit.stacks import of_elements
from graphc.implicit.treedef import Treedef, dtype_of, lengths_of
from graphc.ir import Input, Node, Op, Sharding, TensorType, dtype_name, replace_nodes
from graphc.ir.line import Code, Writer, call
from graphc.tensor import Tensor, as_tensor
from graphc.tensor.arrays.broadcast import batch_of
from graphc.tensor.arrays.vectorize import batched


@dataclass(frozen=True, slots=True)
class Implicit(Op):
    """The operation from the fields of an implicit array to the array.

    Before a graph is differentiated or compiled, operations on the array are computed from its
    fields if handlers exist. Other operations get the dense array.

    Attributes:
        treedef: The implicit array without its arrays.
    """

    treedef: Treedef

    stays_in_step: ClassVar[bool] = True

    used: ClassVar[bool] = False
    """Whether this process has created an ``Implicit``."""

    def __post_init__(self) -> None:
        Implicit.used = True

    @property
    def name(self) -> str:
        return self.treedef.cls.__name__

    def as_code(self, inputs: Sequence[Node], write: Writer) -> Code:
        return call(self.name, inputs, "", write)

    infers_by_numbers = True

    def infer(self, *fields: TensorType) -> TensorType:
        array = self.treedef.build(fields)
        return TensorType(dtype_name(array.dtype), lengths_of(array))

    def perform(self, *fields: np.ndarray[Any, Any]) -> Any:
        return np.asarray(densify(self.treedef.build(fields)))

    def expand(self, *fields: Tensor) -> Tensor:
        """Return the dense array."""
        return as_tensor(densify(self.treedef.build(fields)))

    def pullback(self, g: Tensor, y: Tensor, *fields: Tensor) -> Sequence[Any]:
        return self.pullback_to([True] * len(fields), g, y, *fields)

    def pullback_to(
        self, wanted: Sequence[bool], g: Tensor, y: Tensor, *fields: Tensor
    ) -> Sequence[Any]:
        """Differentiate with respect to the wanted fields only; others get no zeros."""
        # One field may be computed from another; fresh inputs make them independent.
        fresh = [x.type() for x in fields]
        requested = [x for x, is_wanted in zip(fresh, wanted, strict=True) if is_wanted]
        gradients = cotangents({self.expand(*fresh): g}, requested)
        swaps: dict[Node, Node] = dict(zip(fresh, fields, strict=True))
        present = iter(replace_nodes([x for x in gradients if x is not None], swaps))
        results = iter([None if x is None else next(present) for x in gradients])
        return [next(results) if is_wanted else None for is_wanted in wanted]

    def batch(self, size: Any, flags: Sequence[bool], *fields: Tensor) -> Any:
        """Batch each field if the class can be stacked, else the dense array."""
        own = [
            x.type.with_shape(x.type.shape[1:]) if flag else x.type
            for x, flag in zip(fields, flags, strict=True)
        ]
        if of_elements(self.treedef, tuple(own)) is not None:
            pairs = zip(fields, flags, strict=True)
            return Tensor.make(self, *[x if flag else batch_of(x, size) for x, flag in pairs])
        fresh = [type() if flag else x for x, flag, type in zip(fields, flags, own, strict=True)]
        enforce_policy(self.treedef.build(fresh), "a batch")
        swaps = {new: x for new, x in zip(fresh, fields, strict=True) if new is not x}
        (y,) = batched([self.expand(*fresh)], swaps)
        return y

    def token(self) -> str:
        return f"implicit {self.treedef.token()}"

    def unwritten(self) -> Any:
        """Return the user's classes, the user's handlers, and a policy other than ``"allow"``."""
        policy = policy_of()
        other_policy = policy if policy != "allow" else None
        items = (self.treedef.unwritten(), user_changes() or None, other_policy)
        return items if any(items) else None


class ImplicitTensor(Tensor):
    """A symbolic implicit array; every operation accepts it as a tensor.

    Example:
        >>> import numpy as np, graphc, graphc.tensor as gt
        >>> from graphc.implicit import Diagonal
        >>> d = gt.implicit(Diagonal, (3, 3), "float64", name="d")
        >>> f = graphc.function([d], gt.ones(3) @ d, mode="NUMPY")
        >>> f(Diagonal(np.array([1.0, 2.0, 3.0])))
        array([1., 2., 3.])
    """

    __slots__ = ()

    op: Implicit

    def _own_name(self) -> str | None:
        return self.op.treedef.root([x.name for x in self.inputs])

    @property
    def array(self) -> Any:
        """The implicit array, whose fields are symbolic: differentiate with respect to them."""
        return self.op.treedef.build(self.inputs)

    def shard_fields(self, sharding: Any, subject: str) -> Tensor:
        """Return the array with its fields sharded as its class defines."""
        return as_implicit(constrain_fields(self.array, sharding, subject))

    def dense(self) -> Tensor:
        """Return the dense array; no policy forbids this explicit conversion."""
        return self.op.expand(*self.inputs)  # type: ignore[arg-type]

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Return a copy with new shared variables."""
        return Tensor.make(self.op, *[deepcopy(x, memo) for x in self.inputs])

    def get_value(self, borrow: bool = False) -> Any:
        """Return the current value of shared fields as an implicit array of NumPy arrays.

        Raises:
            ImplicitArrayError: If not all fields are shared variables.
        """
        return self.op.treedef.build([x.get_value(borrow) for x in self._shared_fields()])

    def set_value(self, new_value: ImplicitArray, borrow: bool = False) -> None:
        """Set the value of shared fields, effective from the next call of any function.

        Args:
            new_value: An implicit array with the same class, static fields and nesting.
            borrow: Store its arrays themselves, not copies.

        Raises:
            ImplicitArrayError: If not all fields are shared variables, or the value has another
                structure.
        """
        shared = self._shared_fields()
        treedef, leaves = Treedef.of(new_value)
        if treedef != self.op.treedef:
            raise ImplicitArrayError(
                f"A value of {_kind(new_value)} does not go into {self.array!r}.",
                "Give it the same class, static fields and nesting.",
            )
        # All are converted before one is set, so that an error changes nothing.
        stored = [x.to_stored_value(value, borrow) for x, value in zip(shared, leaves, strict=True)]
        for x, value in zip(shared, stored, strict=True):
            x.set_value(value, borrow=True)

    def _shared_fields(self) -> list[Any]:
        if all(getattr(x.op, "is_shared", False) for x in self.inputs):
            return [*self.inputs]
        raise ImplicitArrayError(
            f"{self!r} has no value of its own: its fields are not shared variables.",
            "Make it with graphc.shared(implicit_array).",
        )


def _kind(x: Any) -> str:
    return repr(x) if isinstance(x, ImplicitArray) else f"class {type(x).__name__}"


Implicit.node_class = ImplicitTensor


def as_implicit(x: ImplicitArray) -> Tensor:
    """Convert an implicit array to a symbolic one; its arrays become constants and leaves.

    Raises:
        ImplicitArrayError: If a field holds something that is no array.
    """
    treedef, leaves = Treedef.of(x)
    if treedef.parts and not leaves:
        # The static fields alone define the array.
        return Tensor.make(Implicit(treedef))
    fields: Sequence[Any] = [as_tensor(leaf) for leaf in leaves]
    if any(isinstance(field.op, Implicit) for field in fields):
        # The fields of a field that is implicit replace it.
        treedef, fields = Treedef.of(treedef.build(fields))
    return Tensor.make(Implicit(treedef), *fields)


to_tensor.provide(as_implicit)


def implicit(
    cls: Any,
    shape: Any = None,
    dtype: Any = None,
    name: str | None = None,
    *,
    sharding: Any = None,
    **options: Any,
) -> Any:
    """Return a symbolic input that is an implicit array, which calls pass without densifying.

    Args:
        cls: A class of implicit arrays; or an implicit array, whose structure and types are used.
        shape: The lengths, None where unknown; only with a class.
        dtype: The dtype, by default ``config.floatX``; only with a class.
        name: The name in messages and of the keyword argument.
        sharding: The sharding of the array over the mode's mesh of devices; the class defines the
            shardings of the fields.
        options: The options of ``cls.spec``, such as a rank or the bits.

    Returns:
        An ``ImplicitTensor``; ``.array`` has its fields.

    Raises:
        ImplicitArrayError: If there is no such class, or it does not define the fields for a shape.
        ShardingError: If the sharding does not fit the array, or the class cannot be sharded so.

    Example:
        >>> import graphc.tensor as gt
        >>> from graphc.implicit import LowRank
        >>> w = gt.implicit(LowRank, (100, 50), "float32", name="w", rank=4)
        >>> w.type, w.array
        (float32[100, 50], LowRank(float32[100, 4], float32[4, 50]))
    """
    example = _spec(cls, shape, dtype, options)
    treedef, leaves = Treedef.of(example)
    if any(isinstance(x, Tensor) for x in leaves):
        raise ImplicitArrayError(
            f"implicit({example!r}): an input, and the fields are symbolic already.",
            "Use the array itself, as in w @ x, or gt.as_tensor(w).",
        )
    types = [TensorType(dtype_of(x), lengths_of(x)) for x in leaves]
    paths = treedef.paths(name) if name else [None] * len(types)
    shardings, role = _shardings(example, name or cls, sharding, len(types))
    triples = zip(types, paths, shardings, strict=True)
    fields = [Tensor.make(Input(type, path, entries, role)) for type, path, entries in triples]
    return Tensor.make(Implicit(treedef), *fields)


def _shardings(
    x: ImplicitArray, subject: object, sharding: Any, count: int
) -> tuple[Sequence[Sharding | None], str]:
    if sharding is None:
        return [None] * count, ""
    from graphc.implicit.partition import role_of, value_shardings  # noqa: PLC0415 (few have one)

    return value_shardings(x, sharding, f"{subject}"), role_of(x, sharding)


def _spec(cls: Any, shape: Any, dtype: Any, options: Any) -> ImplicitArray:
    if isinstance(cls, ImplicitArray):
        return cls
    if not (isinstance(cls, type) and issubclass(cls, ImplicitArray)):
        raise ImplicitArrayError(
            f"implicit({cls!r}): expected a class of implicit arrays.",
            "Give a subclass of graphc.implicit.ImplicitArray, or an array of one.",
        )
    if shape is None:
        problem = f"implicit({cls.__name__}): the shape is missing."
        raise ImplicitArrayError(problem, "Give its lengths.")
    wanted = TensorType(dtype_name(dtype or config.floatX), shape)
    try:
        array = cls.spec(wanted.shape, wanted.dtype, **options)
    except TypeError as error:
        if isinstance(error, ImplicitArrayError | ShapeError):
            raise
        raise ImplicitArrayError(
            f"implicit({cls.__name__}, {shape}, ...) with the options {options}: {error}",
            f"See {cls.__name__}.spec for what it takes.",
        ) from error
    shape, dtype = lengths_of(array), dtype_name(dtype_of(array))
    if (shape, dtype) != (wanted.shape, wanted.dtype):
        raise ImplicitArrayError(
            f"{cls.__name__}.spec gave {dtype}{list(shape)} for {wanted!r}.",
            "Return fields of the requested shape and dtype.",
        )
    return array
