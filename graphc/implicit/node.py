"""Implicit arrays in graphs: an operation that stands for the array, on its fields."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from graphc.config import config
from graphc.errors import ImplicitArrayError
from graphc.grad.reverse import cotangents
from graphc.implicit.array import TENSOR, ImplicitArray
from graphc.implicit.form import Form, dtype_of, lengths_of
from graphc.implicit.policy import policy_of, tell, whole
from graphc.implicit.registry import altered
from graphc.implicit.stacks import of_elements
from graphc.ir import Op, TensorType, dtype_name, here, replaced, where
from graphc.tensor import Tensor, as_tensor
from graphc.tensor.broadcast import repeated
from graphc.tensor.vectorize import batched

__all__ = ["Implicit", "ImplicitTensor", "as_implicit", "implicit"]


@dataclass(frozen=True, slots=True)
class Implicit(Op):
    """The array that an implicit array of these fields stands for.

    What needs it is computed from the fields, before a graph is differentiated or compiled, where a
    handler says how. What is left takes it as a whole.

    Attributes:
        form: The implicit array without its arrays.
    """

    form: Form

    stays_in_step: ClassVar[bool] = True

    used: ClassVar[bool] = False
    """Whether there ever was one in this process."""

    def __post_init__(self) -> None:
        Implicit.used = True

    @property
    def name(self) -> str:
        return self.form.cls.__name__

    def infer(self, *fields: TensorType) -> TensorType:
        array = self.form.build(fields)
        return TensorType(dtype_name(array.dtype), lengths_of(array))

    def perform(self, *fields: np.ndarray[Any, Any]) -> Any:
        return np.asarray(whole(self.form.build(fields)))

    def expand(self, *fields: Tensor) -> Tensor:
        """The whole array."""
        return as_tensor(whole(self.form.build(fields)))  # type: ignore[no-any-return]

    def pullback(self, g: Tensor, y: Tensor, *fields: Tensor) -> Sequence[Any]:
        return self.pullback_to([True] * len(fields), g, y, *fields)

    def pullback_to(
        self, wanted: Sequence[bool], g: Tensor, y: Tensor, *fields: Tensor
    ) -> Sequence[Any]:
        """By those alone; the others are frozen, and of them there are no zeros."""
        # One field may be computed from another: it is by each for itself.
        fresh = [x.type() for x in fields]
        asked = [x for x, is_asked in zip(fresh, wanted, strict=True) if is_asked]
        found = cotangents({self.expand(*fresh): g}, asked)
        own = replaced([x for x in found if x is not None], dict(zip(fresh, fields, strict=True)))
        left = iter(own)
        given = iter([None if x is None else next(left) for x in found])
        return [next(given) if is_asked else None for is_asked in wanted]

    def batch(self, size: Any, flags: Sequence[bool], *fields: Tensor) -> Any:
        """A stack where its class has any, else of the whole."""
        own = [
            x.type.with_shape(x.type.shape[1:]) if flag else x.type
            for x, flag in zip(fields, flags, strict=True)
        ]
        if of_elements(self.form, tuple(own)) is not None:
            given = zip(fields, flags, strict=True)
            return Tensor.make(self, *[x if flag else repeated(x, size) for x, flag in given])
        fresh = [type() if flag else x for x, flag, type in zip(fields, flags, own, strict=True)]
        tell(self.form.build(fresh), "a batch")
        swaps = {new: x for new, x in zip(fresh, fields, strict=True) if new is not x}
        (y,) = batched([self.expand(*fresh)], swaps)
        return y

    def token(self) -> str:
        return f"implicit {self.form.token()}"

    def unwritten(self) -> Any:
        """Classes and handlers of the user's, and a policy that has something to say."""
        policy = policy_of()
        parts = (self.form.unwritten(), altered() or None, policy if policy != "allow" else None)
        return parts if any(parts) else None


class ImplicitTensor(Tensor):
    """A symbolic array that is held as other ones: a tensor to every operation.

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

    @property
    def name(self) -> str | None:
        """What its fields are named after, as ``gt.implicit`` and ``graphc.shared`` do it."""
        return self.op.form.root([x.name for x in self.inputs])

    @property
    def array(self) -> Any:
        """The implicit array whose fields are symbolic arrays; differentiate by these."""
        return self.op.form.build(self.inputs)

    def dense(self) -> Tensor:
        """The whole array, asked for on purpose: no policy forbids it."""
        return self.op.expand(*self.inputs)  # type: ignore[arg-type]

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """With shared variables of its own where it has any."""
        return Tensor.make(self.op, *[deepcopy(x, memo) for x in self.inputs])

    def get_value(self, borrow: bool = False) -> Any:
        """The present value of shared fields, an implicit array of NumPy's arrays.

        Raises:
            ImplicitArrayError: Not all fields are shared variables.
        """
        return self.op.form.build([x.get_value(borrow) for x in self._shared()])

    def set_value(self, new_value: ImplicitArray, borrow: bool = False) -> None:
        """Another value of shared fields, from the next call of any function on.

        Args:
            new_value: Of the same class, static fields and nesting.
            borrow: Keep its arrays themselves, not copies.

        Raises:
            ImplicitArrayError: Not all fields are shared variables, or the value has another form.
        """
        shared = self._shared()
        form, leaves = Form.of(new_value)
        if form != self.op.form:
            raise ImplicitArrayError(
                f"A value of {_kind(new_value)} does not go into {self.array!r}.",
                "Give it the same class, static fields and nesting.",
                where(here()),
            )
        # All fit before one is set.
        held = [x.admitted(value, borrow) for x, value in zip(shared, leaves, strict=True)]
        for x, value in zip(shared, held, strict=True):
            x.set_value(value, borrow=True)

    def _shared(self) -> list[Any]:
        if all(getattr(x.op, "is_shared", False) for x in self.inputs):
            return [*self.inputs]
        raise ImplicitArrayError(
            f"{self!r} has no value of its own: its fields are not shared variables.",
            "Make it with graphc.shared(implicit_array).",
            where(here()),
        )


def _kind(x: Any) -> str:
    return repr(x) if isinstance(x, ImplicitArray) else f"class {type(x).__name__}"


Implicit.node_class = ImplicitTensor


def as_implicit(x: ImplicitArray) -> Tensor:
    """An implicit array as a symbolic one; its arrays become constants and leaves.

    Raises:
        ImplicitArrayError: Something that is no array among its fields.
    """
    form, leaves = Form.of(x)
    if form.parts and not leaves:
        # Nothing of it is an array: it is what its static fields say.
        return Tensor.make(Implicit(form))
    made = Tensor.make(Implicit(form), *[as_tensor(leaf) for leaf in leaves])
    return _nested(made)


def _nested(x: Tensor) -> Tensor:
    """Fields that are implicit themselves as part of its form."""
    if not any(isinstance(field.op, Implicit) for field in x.inputs):
        return x
    form, leaves = Form.of(x.array)
    return Tensor.make(Implicit(form), *leaves)


TENSOR.append(as_implicit)


def implicit(
    cls: Any, shape: Any = None, dtype: Any = None, name: str | None = None, **options: Any
) -> Any:
    """A symbolic input that is an implicit array: a call gives one, and it stays in its own form.

    Args:
        cls: A class of implicit arrays; or an implicit array, whose form and types are taken.
        shape: Its lengths, None where unknown; of a class alone.
        dtype: Its dtype, by default ``config.floatX``; of a class alone.
        name: What messages and keyword arguments call it.
        options: What ``cls.spec`` takes, such as a rank or the bits.

    Returns:
        An ``ImplicitTensor``; ``.array`` has its fields.

    Raises:
        ImplicitArrayError: No such class, or it does not say what fields a shape has.

    Example:
        >>> import graphc.tensor as gt
        >>> from graphc.implicit import LowRank
        >>> w = gt.implicit(LowRank, (100, 50), "float32", name="w", rank=4)
        >>> w.type, w.array
        (float32[100, 50], LowRank(float32[100, 4], float32[4, 50]))
    """
    wanted = _spec(cls, shape, dtype, options)
    form, leaves = Form.of(wanted)
    types = [TensorType(dtype_of(x), lengths_of(x)) for x in leaves]
    paths = form.paths(name) if name else [None] * len(types)
    fields = [type(path) for type, path in zip(types, paths, strict=True)]
    return Tensor.make(Implicit(form), *fields)


def _spec(cls: Any, shape: Any, dtype: Any, options: Any) -> ImplicitArray:
    if isinstance(cls, ImplicitArray):
        return cls
    if not (isinstance(cls, type) and issubclass(cls, ImplicitArray)):
        raise ImplicitArrayError(
            f"implicit({cls!r}): it is no class of implicit arrays.",
            "Give a subclass of graphc.implicit.ImplicitArray, or an array of one.",
            where(here()),
        )
    if shape is None:
        problem = f"implicit({cls.__name__}): the shape is missing."
        raise ImplicitArrayError(problem, "Give its lengths.", where(here()))
    wanted = TensorType(dtype_name(dtype or config.floatX), shape)
    try:
        made = cls.spec(wanted.shape, wanted.dtype, **options)
    except TypeError as error:
        if isinstance(error, ImplicitArrayError):
            raise
        raise ImplicitArrayError(
            f"implicit({cls.__name__}, {shape}, ...) with the options {options}: {error}",
            f"See {cls.__name__}.spec for what it takes.",
            where(here()),
        ) from error
    found = lengths_of(made), dtype_name(dtype_of(made))
    if found != (wanted.shape, wanted.dtype):
        raise ImplicitArrayError(
            f"{cls.__name__}.spec gave {found[1]}{list(found[0])} for {wanted!r}.",
            "Let its fields have the shape and dtype that were asked for.",
            where(here()),
        )
    return made
