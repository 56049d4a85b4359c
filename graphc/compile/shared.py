"""Shared variables: values that functions read and update between calls."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Literal, overload

import numpy as np

from graphc import hooks
from graphc.compile.arguments import goes_into, is_weak
from graphc.compile.placement import (
    DeclaredSharding,
    declared_fields,
    declared_sharding,
    is_on_mesh,
    is_sharded,
    mesh_here,
    on_mesh,
    portable_mesh,
    refuse_shape,
    require_fit,
)
from graphc.config import config
from graphc.errors import ArgumentError, DTypeError
from graphc.implicit.array import ImplicitArray
from graphc.implicit.node import ImplicitTensor, as_implicit
from graphc.implicit.treedef import Treedef
from graphc.ir import (
    Constant,
    Input,
    Leaf,
    Sharding,
    TensorType,
    Wrapper,
    dtype_name,
    replace_nodes,
    toposort,
    unwrap,
)
from graphc.ir.sharding import with_role
from graphc.link import as_numpy
from graphc.site import frames_up
from graphc.tensor import Tensor, as_tensor, constant
from graphc.tensor.core.tensor import FILL, holds_mask


class StoredValue:
    """An array, and whether nothing else refers to it, so that its buffer may be reused."""

    __slots__ = ("owned", "value")

    def __init__(self, value: Any, owned: bool) -> None:
        self.value = value
        self.owned = owned

    def replace_by_copy(self, copy: Any) -> None:
        """Replace the array by a copy of it that a backend made."""
        self.value = copy
        self.owned = True


class Store:
    """A shared variable's present value, as an array of the backend that wrote it last.

    Attributes:
        current: Holds the array; functions look it up at each call.
        lock: Held while a function reads and replaces the value.
    """

    __slots__ = ("current", "lock")

    def __init__(self, value: Any, owned: bool) -> None:
        self.current = StoredValue(value, owned)
        self.lock = threading.RLock()

    @property
    def value(self) -> Any:
        """The array."""
        return self.current.value

    def set(self, value: Any, owned: bool) -> None:
        """Replace the array; ``owned`` says whether nothing else refers to the new one."""
        self.current.value = value
        self.current.owned = owned

    def numpy(self, type: Any) -> np.ndarray[Any, Any]:
        """Return the value as a NumPy array of the type's dtype; memory may be shared."""
        return np.asarray(as_numpy(self.value), type.numpy_dtype)


class SharedInput(Input):
    """An input whose value persists between calls.

    Attributes:
        store: Holds the value.
        mesh: The user's mesh for the value, or None.
    """

    __slots__ = ("default_update", "mesh", "store")

    is_shared = True

    def __init__(
        self,
        type: TensorType,
        name: str | None,
        store: Store,
        sharding: Sharding | None = None,
        mesh: Any = None,
        role: str = "",
    ) -> None:
        super().__init__(type, name, sharding, role)
        self.store = store
        self.mesh = mesh
        self.default_update = None

    @property
    def name(self) -> str:
        return self.given_name or "shared"

    @property
    def subject(self) -> str:
        """The variable's name in messages about its sharding."""
        return with_role(f"The shared variable {self.name}", self)

    def __reduce__(self) -> tuple[Any, ...]:
        with self.store.lock:
            value = np.array(self.store.numpy(self.given_type))
        mesh = portable_mesh(self.mesh)
        state = self.given_type, self.given_name, value, self.sharding, self.role, mesh
        return _shared_input, state, self.default_update

    def __setstate__(self, default_update: Tensor | None) -> None:
        # The update reads this variable, and is set after it exists.
        self.default_update = default_update


def _shared_input(
    type: TensorType,
    name: str | None,
    value: Any,
    sharding: Sharding | None,
    role: str,
    mesh: Any,
) -> SharedInput:
    here = None if mesh is None else mesh_here(mesh, f"The shared variable {name or 'shared'}")
    op = SharedInput(type, name, Store(value, owned=True), sharding, here, role)
    copy = on_mesh(value, op.subject, sharding, here)
    if copy is not value:
        op.store.current.replace_by_copy(copy)
    return op


class Shared(Tensor):
    """A symbolic array with a value that calls of functions read and may update.

    Example:
        >>> import graphc
        >>> w = graphc.shared([1.0, 2.0], name="w")
        >>> w.set_value([3.0, 4.0, 5.0])
        >>> float(w.sum().eval(mode="NUMPY"))
        12.0
    """

    __slots__ = ()

    op: SharedInput

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "default_update":
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)

    @property
    def default_update(self) -> Tensor | None:
        """The new value in functions that read this variable and do not update it; may be set.

        Example:
            >>> import graphc
            >>> n = graphc.shared(0, name="n")
            >>> n.default_update = n + 1
            >>> count = graphc.function([], n, mode="NUMPY")
            >>> int(count()), int(count())
            (0, 1)
        """
        new: Tensor | None = self.op.default_update
        return new

    @default_update.setter
    def default_update(self, new: Any) -> None:
        self.op.default_update = None if new is None else as_tensor(unwrap(new))

    def __deepcopy__(self, memo: dict[int, Any]) -> Shared:
        if id(self) not in memo:
            op = self.op
            with op.store.lock:
                value = self.get_value(borrow=is_sharded(op.store.value))
            store = Store(value, owned=not is_sharded(value))
            copied_op = SharedInput(self.type, self.name, store, op.sharding, op.mesh, op.role)
            self._copy_default_update(Shared.make(copied_op), memo)
        copied: Shared = memo[id(self)]
        return copied

    def _copy_default_update(self, copied: Shared, memo: dict[int, Any]) -> None:
        """Give a copy its default update, in which copies replace all shared variables."""
        memo[id(self)] = copied
        new = self.default_update
        if new is not None:
            read = [x for x in toposort([new]) if isinstance(x, Shared)]
            copied.default_update = replace_nodes([new], {x: deepcopy(x, memo) for x in read})[0]

    @overload
    def get_value(
        self, borrow: bool = False, return_internal_type: Literal[False] = False
    ) -> np.ndarray[Any, Any]: ...

    @overload
    def get_value(self, borrow: bool = False, *, return_internal_type: Literal[True]) -> Any: ...

    def get_value(self, borrow: bool = False, return_internal_type: bool = False) -> Any:
        """Return the present value.

        Args:
            borrow: Return the array itself, not a copy, if it is NumPy's, or JAX's on a mesh of
                devices.
            return_internal_type: Return the backend's array.

        Returns:
            A NumPy array, or the backend's array. A sharded value is gathered, unless borrowed.

        Raises:
            ShardingError: If devices of other processes have shards, and ``borrow`` is False.
        """
        store = self.op.store
        with store.lock:
            if return_internal_type or (borrow and is_on_mesh(store.value)):
                store.current.owned = False
                return store.value
            if borrow:
                store.current.owned = False
                return store.numpy(self.type)
            return np.array(store.numpy(self.type))

    def to_stored_value(self, value: Any, borrow: bool = False) -> Any:
        """Return a value as the variable would store it.

        Raises:
            ArgumentError: Its rank or a static length differs from the variable's.
            DTypeError: Its dtype cannot be converted to the variable's.
            ShardingError: A length cannot be sharded over the variable's mesh.
        """
        op = self.op
        if op.sharding is not None and is_sharded(value):
            array = require_fit(value, self.type)
        else:
            _warn_of_sharding(value)
            array = _value(value, self.type, borrow)
        return on_mesh(array, op.subject, op.sharding, op.mesh)

    def set_value(self, new_value: Any, borrow: bool = False) -> None:
        """Set the value that the next calls of functions read.

        The variable keeps its sharding: a function brings a value to the devices where it is to be.

        Args:
            new_value: An array or number of the variable's dtype, rank and static lengths.
            borrow: Store the array itself, not a copy.

        Raises:
            ArgumentError: Its rank or a static length differs from the variable's.
            DTypeError: Its dtype cannot be converted to the variable's.
        """
        value = self.to_stored_value(new_value, borrow)
        store = self.op.store
        with store.lock:
            store.set(value, owned=not (borrow or is_sharded(value)))


SharedInput.node_class = Shared


def sharding_of(variable: Shared) -> Sharding:
    """Return the declared sharding of a variable's values; replicated by default."""
    declared = variable.op.sharding
    return (None,) * variable.ndim if declared is None else declared


def _value(value: Any, type: TensorType, borrow: bool) -> np.ndarray[Any, Any]:
    if holds_mask(value):
        raise ArgumentError(f"A masked array does not fit a shared variable of {type!r}.", FILL)
    array = as_numpy(value)
    if not goes_into(array, type, is_weak(value)):
        raise DTypeError(
            f"A value of {array.dtype} does not fit a shared variable of {type!r}.",
            f"Convert it: value.astype({type.dtype!r}).",
        )
    refuse_shape(array.shape, type)
    return np.array(array, type.numpy_dtype, copy=None if borrow else True)


def _warn_of_sharding(value: Any) -> None:
    """Warn that a JAX array on several devices is copied to one array."""
    if is_sharded(value):
        devices = value.sharding.device_set
        warnings.warn(
            f"A shared variable without a sharding keeps a value of {len(devices)} devices as one "
            "whole array. Declare one, graphc.shared(value, sharding=...), or pass "
            "np.asarray(value) to say that this is meant.",
            stacklevel=frames_up(),
        )


@overload
def shared(
    value: ImplicitArray,
    name: str | None = None,
    strict: bool = False,
    allow_downcast: bool | None = None,
    *,
    shape: Any = None,
    borrow: bool = False,
    sharding: Any = None,
) -> ImplicitTensor: ...


@overload
def shared(
    value: Any,
    name: str | None = None,
    strict: bool = False,
    allow_downcast: bool | None = None,
    *,
    shape: Any = None,
    borrow: bool = False,
    sharding: Any = None,
) -> Shared: ...


def shared(  # noqa: PLR0913 (PyTensor's arguments)
    value: Any,
    name: str | None = None,
    strict: bool = False,
    allow_downcast: bool | None = None,
    *,
    shape: Any = None,
    borrow: bool = False,
    sharding: Any = None,
) -> Any:
    """Make a variable that keeps a value between calls; ``updates=`` replace the value.

    Args:
        value: An array, or a number: a Python float becomes ``config.floatX``, an int int64. Each
            field of an implicit array becomes a shared variable.
        name: The variable's name in messages.
        strict: Accept only a NumPy array.
        allow_downcast: Convert a float64 array to ``config.floatX``.
        shape: Static lengths, None where unknown; all unknown by default, as a later value may
            have other lengths.
        borrow: Store the array itself, not a copy.
        sharding: The partition spec of values: for each axis the name of an axis of the mode's
            mesh, a tuple of names, or None; or a ``jax.sharding.NamedSharding``, over whose
            mesh functions then run where their mode names none. By default the sharding of a JAX
            array on several devices; other values are replicated. The class of an implicit array
            decides the shardings of its fields.

    Returns:
        A symbolic array with ``get_value`` and ``set_value``; an implicit one of an implicit array.

    Raises:
        DTypeError: The value is no array of numbers.
        ArgumentError: If the value is symbolic, or does not have the ``shape``.
        ShardingError: If the sharding does not fit the value.

    Example:
        >>> import graphc
        >>> n = graphc.shared(0, name="n")
        >>> count = graphc.function([], n, updates=[(n, n + 1)], mode="NUMPY")
        >>> int(count()), int(count()), int(n.get_value())
        (0, 1, 2)
    """
    if isinstance(value, Wrapper):
        symbolic = value.values
        array = symbolic.data if isinstance(symbolic.op, Constant | Leaf) else symbolic
        options = {"shape": shape, "borrow": borrow, "sharding": value.positional(sharding)}
        return value.alike(shared(array, name, strict, allow_downcast, **options))
    if hasattr(value, "dims") and hasattr(value, "transpose"):
        # An array of xarray's, whose names would be lost.
        options = {"strict": strict, "allow_downcast": allow_downcast, "borrow": borrow}
        return hooks.shared_xtensor(value, name=name, shape=shape, sharding=sharding, **options)
    if isinstance(value, Tensor):
        raise ArgumentError(
            f"The value of a shared variable is symbolic: {value!r}.",
            "Give a number or an array; x.eval({...}) computes one.",
        )
    if isinstance(value, ImplicitArray):
        if shape is not None:
            raise ArgumentError(
                f"shared({value!r}, shape={shape!r}): its lengths follow from those of its fields.",
                "Leave out shape=, or use graphc.tensor.specify_shape(w, shape).",
            )
        return _shared_implicit(value, name, borrow, sharding)
    if strict and not isinstance(value, np.ndarray):
        raise ArgumentError(
            f"{value!r} is no NumPy array, and strict=True.", "Convert it with np.asarray."
        )
    return _shared_array(value, name, allow_downcast, shape, borrow, sharding)


def _shared_array(
    value: Any,
    name: str | None,
    allow_downcast: bool | None,
    shape: Any,
    borrow: bool,
    sharding: Any,
) -> Shared:
    """Return a shared variable of one array, or of a number.

    Args:
        value: An array or number; a JAX array on several devices stays there.
        name: The variable's name.
        allow_downcast: Whether to convert float64 to ``config.floatX``.
        shape: Static lengths of the variable.
        borrow: Whether to store the array itself.
        sharding: The user's argument, or a ``Where``.
    """
    if is_sharded(value):
        value_type = TensorType(dtype_name(value.dtype), value.shape)
        type = _type_of(value_type, allow_downcast, shape)
        array = value if value.dtype == type.numpy_dtype else value.astype(type.numpy_dtype)
    else:
        is_foreign = hasattr(value, "__array__") or hasattr(value, "__dlpack__")
        if is_foreign and not isinstance(value, np.ndarray | np.generic):
            value = as_numpy(value)
        type = _type_of(constant(value, bake=True).type, allow_downcast, shape)
        array = np.asarray(value).astype(type.numpy_dtype, copy=not borrow)
    is_where = isinstance(sharding, DeclaredSharding)
    where = sharding if is_where else declared_sharding(sharding, array, name or "shared")
    op = SharedInput(type, name, Store(None, owned=False), *where)
    stored = require_fit(array, type) if is_sharded(array) else _value(array, type, borrow=True)
    on_devices = on_mesh(stored, op.subject, where.sharding, where.mesh)
    op.store.set(on_devices, owned=not (borrow or is_sharded(on_devices)))
    return Shared.make(op)


def _shared_implicit(value: ImplicitArray, name: str | None, borrow: bool, sharding: Any) -> Any:
    treedef, leaves = Treedef.of(value)
    paths = treedef.paths(name) if name else [None] * len(leaves)
    shardings: Sequence[Any] = [None] * len(leaves)
    if sharding is not None:
        shardings = declared_fields(sharding, value, name or "shared")
    triples = zip(leaves, paths, shardings, strict=True)
    fields = [_shared_array(x, path, None, None, borrow, where) for x, path, where in triples]
    return as_implicit(treedef.build(fields))


def _type_of(value_type: TensorType, allow_downcast: bool | None, shape: Any) -> TensorType:
    dtype = config.floatX if allow_downcast and value_type.dtype == "float64" else value_type.dtype
    return TensorType(dtype_name(dtype), (None,) * value_type.ndim if shape is None else shape)
