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
from graphc.implicit.partition import constrained
from graphc.implicit.policy import enforce_policy, policy_of, whole
from graphc.implicit.registry import altered
from graphc.implicit.stacks import of_elements
from graphc.implicit.treedef import Treedef, dtype_of, lengths_of
from graphc.ir import Input, Node, Op, Sharding, TensorType, dtype_name, replaced
from graphc.ir.line import Code, Writer, call
from graphc.tensor import Tensor, as_tensor
from graphc.tensor.arrays.broadcast import batch_of
from graphc.tensor.arrays.vectorize import batched


@dataclass(frozen=True, slots=True)
class Implicit(Op):
    """The operation from an implicit array's fields to the array.

    What needs it is computed from the fields, before a graph is differentiated or compiled, where a
    handler says how. What is left takes it as a whole.

    Attributes:
        treedef: The implicit array without its arrays.
    """

    treedef: Treedef

    stays_in_step: ClassVar[bool] = True

    used: ClassVar[bool] = False
    """Whether there ever was one in this process."""

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
        return np.asarray(whole(self.treedef.build(fields)))

    def expand(self, *fields: Tensor) -> Tensor:
        """Return the whole array."""
        return as_tensor(whole(self.treedef.build(fields)))

    def pullback(self, g: Tensor, y: Tensor, *fields: Tensor) -> Sequence[Any]:
        return self.pullback_to([True] * len(fields), g, y, *fields)

    def pullback_to(
        self, wanted: Sequence[bool], g: Tensor, y: Tensor, *fields: Tensor
    ) -> Sequence[Any]:
        """Differentiate with respect to the requested fields alone; others get no zeros."""
        # One field may be computed from another: it is by each for itself.
        fresh = [x.type() for x in fields]
        requested = [x for x, is_wanted in zip(fresh, wanted, strict=True) if is_wanted]
        found = cotangents({self.expand(*fresh): g}, requested)
        own = replaced([x for x in found if x is not None], dict(zip(fresh, fields, strict=True)))
        left = iter(own)
        given = iter([None if x is None else next(left) for x in found])
        return [next(given) if is_asked else None for is_asked in wanted]

    def batch(self, size: Any, flags: Sequence[bool], *fields: Tensor) -> Any:
        """Batch field by field where the class can be stacked, else the whole array."""
        own = [
            x.type.with_shape(x.type.shape[1:]) if flag else x.type
            for x, flag in zip(fields, flags, strict=True)
        ]
        if of_elements(self.treedef, tuple(own)) is not None:
            given = zip(fields, flags, strict=True)
            return Tensor.make(self, *[x if flag else batch_of(x, size) for x, flag in given])
        fresh = [type() if flag else x for x, flag, type in zip(fields, flags, own, strict=True)]
        enforce_policy(self.treedef.build(fresh), "a batch")
        swaps = {new: x for new, x in zip(fresh, fields, strict=True) if new is not x}
        (y,) = batched([self.expand(*fresh)], swaps)
        return y

    def token(self) -> str:
        return f"implicit {self.treedef.token()}"

    def unwritten(self) -> Any:
        """The user's classes and handlers, and a policy other than ``"allow"``."""
        policy = policy_of()
        parts = (self.treedef.unwritten(), altered() or None, policy if policy != "allow" else None)
        return parts if any(parts) else None


class ImplicitTensor(Tensor):
    """A symbolic implicit array; every operation takes it as a tensor.

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
        """The name that its fields' names begin with."""
        return self.op.treedef.root([x.name for x in self.inputs])

    @property
    def array(self) -> Any:
        """The implicit array, whose fields are symbolic: differentiate with respect to those."""
        return self.op.treedef.build(self.inputs)

    def shard_fields(self, sharding: Any, subject: str) -> Tensor:
        """Return the array with its fields sharded as its class says."""
        return as_implicit(constrained(self.array, sharding, subject))

    def dense(self) -> Tensor:
        """The whole array; no policy forbids this explicit conversion."""
        return self.op.expand(*self.inputs)  # type: ignore[arg-type]

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Copy it with new shared variables."""
        return Tensor.make(self.op, *[deepcopy(x, memo) for x in self.inputs])

    def get_value(self, borrow: bool = False) -> Any:
        """Return the current value of shared fields as an implicit array of NumPy arrays.

        Raises:
            ImplicitArrayError: Not all fields are shared variables.
        """
        return self.op.treedef.build([x.get_value(borrow) for x in self._shared()])

    def set_value(self, new_value: ImplicitArray, borrow: bool = False) -> None:
        """Set the value of shared fields, from the next call of any function on.

        Args:
            new_value: Of the same class, static fields and nesting.
            borrow: Keep its arrays themselves, not copies.

        Raises:
            ImplicitArrayError: Not all fields are shared variables, or the value has another form.
        """
        shared = self._shared()
        treedef, leaves = Treedef.of(new_value)
        if treedef != self.op.treedef:
            raise ImplicitArrayError(
                f"A value of {_kind(new_value)} does not go into {self.array!r}.",
                "Give it the same class, static fields and nesting.",
            )
        # All fit before one is set.
        held = [x.to_stored_value(value, borrow) for x, value in zip(shared, leaves, strict=True)]
        for x, value in zip(shared, held, strict=True):
            x.set_value(value, borrow=True)

    def _shared(self) -> list[Any]:
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
        ImplicitArrayError: Something that is no array among its fields.
    """
    treedef, leaves = Treedef.of(x)
    if treedef.parts and not leaves:
        # Nothing of it is an array: it is what its static fields say.
        return Tensor.make(Implicit(treedef))
    made = Tensor.make(Implicit(treedef), *[as_tensor(leaf) for leaf in leaves])
    return _nested(made)


def _nested(x: Tensor) -> Tensor:
    """Flatten fields that are implicit themselves."""
    if not any(isinstance(field.op, Implicit) for field in x.inputs):
        return x
    treedef, leaves = Treedef.of(x.array)  # type: ignore[attr-defined]
    return Tensor.make(Implicit(treedef), *leaves)


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
    """A symbolic input that is an implicit array: calls take one, and it is not made whole.

    Args:
        cls: A class of implicit arrays; or an implicit array, whose form and types are taken.
        shape: Its lengths, None where unknown; of a class alone.
        dtype: Its dtype, by default ``config.floatX``; of a class alone.
        name: What messages and keyword arguments call it.
        sharding: How the whole lies on the mode's mesh of devices; the fields lie as the class
            says.
        options: What ``cls.spec`` takes, such as a rank or the bits.

    Returns:
        An ``ImplicitTensor``; ``.array`` has its fields.

    Raises:
        ImplicitArrayError: No such class, or it does not say what fields a shape has.
        ShardingError: The sharding does not fit the array, or the class cannot be divided so.

    Example:
        >>> import graphc.tensor as gt
        >>> from graphc.implicit import LowRank
        >>> w = gt.implicit(LowRank, (100, 50), "float32", name="w", rank=4)
        >>> w.type, w.array
        (float32[100, 50], LowRank(float32[100, 4], float32[4, 50]))
    """
    wanted = _spec(cls, shape, dtype, options)
    treedef, leaves = Treedef.of(wanted)
    types = [TensorType(dtype_of(x), lengths_of(x)) for x in leaves]
    paths = treedef.paths(name) if name else [None] * len(types)
    own, role = _shardings(wanted, name or cls, sharding, len(types))
    triples = zip(types, paths, own, strict=True)
    fields = [Tensor.make(Input(type, path, entries, role)) for type, path, entries in triples]
    return Tensor.make(Implicit(treedef), *fields)


def _shardings(
    x: ImplicitArray, subject: object, sharding: Any, count: int
) -> tuple[Sequence[Sharding | None], str]:
    """The shardings of an input's fields, and their role in messages."""
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
        made = cls.spec(wanted.shape, wanted.dtype, **options)
    except TypeError as error:
        if isinstance(error, ImplicitArrayError | ShapeError):
            raise
        raise ImplicitArrayError(
            f"implicit({cls.__name__}, {shape}, ...) with the options {options}: {error}",
            f"See {cls.__name__}.spec for what it takes.",
        ) from error
    found = lengths_of(made), dtype_name(dtype_of(made))
    if found != (wanted.shape, wanted.dtype):
        raise ImplicitArrayError(
            f"{cls.__name__}.spec gave {found[1]}{list(found[0])} for {wanted!r}.",
            "Return fields of the requested shape and dtype.",
        )
    return made
