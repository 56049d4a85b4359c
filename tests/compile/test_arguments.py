"""Arguments of a call: found by place or name, cast where nothing is lost, refused otherwise."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import jax
import jax.numpy as jnp
import mlx.core as mx
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, DTypeError
from graphc.ir import numpy_dtype
from graphc.link import as_numpy
from tests.modes import dtype_of

Pair = namedtuple("Pair", "a b")


def jax_array(value: Any, dtype: str) -> jax.Array:
    with jax.enable_x64(True):
        return jax.numpy.asarray(value, dtype)


def mlx_array(value: Any, dtype: str) -> mx.array:
    return mx.array(value, getattr(mx, {"bool": "bool_"}.get(dtype, dtype)))


MAKERS = {
    "numpy": lambda value, dtype: np.asarray(value).astype(numpy_dtype(dtype)),
    "jax": jax_array,
    "mlx": mlx_array,
}
"""What makes an array of each library, of a dtype."""


# By place and by name.


def test_arguments_are_taken_by_place_and_by_name(mode: str) -> None:
    x, y = gt.scalars("x", "y")
    f = graphc.function([x, y], x - y, mode=mode)
    calls = [f(5.0, 3.0), f(5.0, y=3.0), f(y=3.0, x=5.0)]
    assert [float(y) for y in calls] == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("name", ["self", "a0", "args", "execute"])
def test_an_input_may_have_any_name(name: str, mode: str) -> None:
    f = graphc.function(
        [gt.scalar("x"), x := gt.scalar(name)], x + 1, mode, on_unused_input="ignore"
    )
    assert float(f(0.0, **{name: 2.0})) == 3.0


def test_in_gives_an_input_another_name(mode: str) -> None:
    x = gt.scalar("x")
    f = graphc.function([graphc.In(x, name="rate")], x + 1, mode=mode)
    assert float(f(rate=1.0)) == 2.0
    with pytest.raises(ArgumentError, match="'x'"):
        f(x=1.0)


def test_in_gives_an_input_a_default(mode: str) -> None:
    x, y = gt.scalars("x", "y")
    f = graphc.function([x, graphc.In(y, value=10.0)], x + y, mode=mode)
    assert [float(f(1.0)), float(f(1.0, 2.0)), float(f(1.0, y=3.0))] == [11.0, 3.0, 4.0]


def test_a_default_may_stand_before_other_inputs(mode: str) -> None:
    x, y = gt.scalars("x", "y")
    f = graphc.function([graphc.In(x, value=10.0), y], x - y, mode=mode)
    assert float(f(y=1.0)) == 9.0


def test_none_may_not_stand_for_a_default(mode: str) -> None:
    x = gt.scalar("x")
    f = graphc.function([graphc.In(x, value=1.0)], x, mode=mode)
    with pytest.raises(ArgumentError, match="None"):
        f(None)


def test_unnamed_inputs_are_taken_by_place(mode: str) -> None:
    x, y = gt.scalar(), gt.scalar()
    assert float(graphc.function([x, y], x - y, mode=mode)(3.0, 2.0)) == 1.0


def test_two_inputs_of_one_name_are_taken_by_place_only(mode: str) -> None:
    x, y = gt.scalar("x"), gt.scalar("x")
    f = graphc.function([x, y], x - y, mode=mode)
    assert float(f(3.0, 2.0)) == 1.0
    with pytest.raises(ArgumentError, match="no single input"):
        f(3.0, x=2.0)


# Containers.


@pytest.mark.parametrize(
    "container",
    [
        lambda a, b: [a, b],
        lambda a, b: (a, b),
        lambda a, b: {"a": a, "b": b},
        Pair,
        lambda a, b: {"a": [a], "b": (b,)},
        lambda a, b: [{"a": a}, Pair([b], ())],
    ],
    ids=["list", "tuple", "dict", "namedtuple", "dict of lists", "deep"],
)
def test_an_argument_has_the_structure_of_its_input(container: Any, mode: str) -> None:
    a, b, c = gt.scalars("a", "b", "c")
    f = graphc.function([container(a, b), c], a + 10 * b + 100 * c, mode=mode)
    assert float(f(container(1.0, 2.0), 3.0)) == 321.0


def test_keys_of_a_dict_may_come_in_any_order(mode: str) -> None:
    a, b = gt.scalars("a", "b")
    f = graphc.function([{"a": a, "b": b}], a - b, mode=mode)
    assert float(f({"b": 1.0, "a": 3.0})) == 2.0


def test_an_input_without_a_list_is_the_only_one(mode: str) -> None:
    x = gt.scalar("x")
    assert float(graphc.function(x, x + 1, mode=mode)(1.0)) == 2.0
    assert float(graphc.function({"x": x}, x + 1, mode=mode)({"x": 1.0})) == 2.0


@pytest.mark.parametrize(
    "given",
    [[1.0], [1.0, 2.0, 3.0], 1.0, {"a": 1.0, "b": 2.0}],
    ids=["few", "many", "flat", "dict"],
)
def test_another_structure_is_refused(given: Any, mode: str) -> None:
    a, b = gt.scalars("a", "b")
    f = graphc.function([[a, b]], a + b, mode=mode)
    with pytest.raises(ArgumentError, match="structure"):
        f(given)


def test_another_key_is_refused(mode: str) -> None:
    a = gt.scalar("a")
    with pytest.raises(ArgumentError, match="keys"):
        graphc.function([{"a": a}], a, mode=mode)({"b": 1.0})


# Dtypes.


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "uint32", "float32"])
def test_a_cast_that_loses_nothing_is_made(dtype: str, mode: str) -> None:
    x = gt.dvector("x")
    y = graphc.function([x], x * 2, mode=mode)(np.array([0, 1], dtype))
    assert dtype_of(y) == "float64"
    np.testing.assert_array_equal(y, [0.0, 2.0])


LOSSY = [
    ("float32", np.ones(2)),
    ("float32", np.ones(2, "int32")),
    ("int32", np.ones(2, "int64")),
    ("int64", np.ones(2)),
    ("int8", np.ones(2, "uint8")),
    ("float64", np.ones(2, "complex128")),
    ("bool", np.ones(2, "int8")),
    ("int64", [1.0, 2.5]),
    ("int64", [1.0, float("inf")]),
    ("int64", [1.0, float("nan")]),
    ("int64", [2.0**63, 0.0]),
    ("int8", [1.0, 128.0]),
    ("int64", [1 + 0j, 2.0]),
    ("int8", [1, 300]),
    ("uint8", [-1, 2]),
    ("float32", [1.0, 1e300]),
    ("float64", [1j, 2.0]),
    ("bool", [1, 0]),
    ("int64", [2**63, 0]),
    ("float32", np.float64([1, 2])),
]


@pytest.mark.parametrize(("dtype", "given"), LOSSY, ids=[f"{d}-{g!r}" for d, g in LOSSY])
def test_a_cast_that_loses_values_is_refused(dtype: str, given: Any, mode: str) -> None:
    x = gt.vector("x", dtype=dtype)
    with pytest.raises(DTypeError, match="'x': expected"):
        graphc.function([x], x, mode=mode)(given)


def test_a_numpy_scalar_is_no_python_number(mode: str) -> None:
    x = gt.fscalar("x")
    f = graphc.function([x], x + 1, mode=mode)
    assert float(f(0.5)) == 1.5
    with pytest.raises(DTypeError, match="float64"):
        f(np.float64(0.5))


@pytest.mark.parametrize(
    ("dtype", "given"),
    [
        ("float32", 0.1),
        ("float32", 3),
        ("float32", [0.1, 2]),
        ("float64", True),
        ("complex64", 1.5),
        ("complex64", 1j),
        ("int8", -128),
        ("int8", -128.0),
        ("int64", -(2.0**63)),
        ("int32", [[1.0, 2.0], [-3.0, 4.0]]),
        ("int64", []),
        ("uint64", 2**64 - 1),
        ("int64", [[1, 2], [3, 4]]),
        ("bool", False),
        ("float32", float("inf")),
        ("float16", float("nan")),
    ],
)
def test_python_numbers_take_the_dtype_of_their_input(dtype: str, given: Any, mode: str) -> None:
    x = gt.tensor("x", dtype=dtype, ndim=np.ndim(given))
    y = graphc.function([x], x, mode=mode)(given)
    assert dtype_of(y) == dtype
    np.testing.assert_array_equal(np.asarray(y), np.asarray(given, dtype))


def test_allow_input_downcast_casts_anything(mode: str) -> None:
    x, n = gt.fvector("x"), gt.bscalar("n")
    f = graphc.function([x, n], [x, n], mode=mode, allow_input_downcast=True)
    y, m = f(np.array([0.1, 0.2]), 2.9)
    assert (dtype_of(y), dtype_of(m)) == ("float32", "int8")
    np.testing.assert_array_equal(np.asarray(y), np.float32([0.1, 0.2]))
    assert int(m) == 2


def test_without_downcast_python_numbers_are_refused_too(mode: str) -> None:
    x = gt.fscalar("x")
    f = graphc.function([x], x, mode=mode, allow_input_downcast=False)
    with pytest.raises(DTypeError, match="float32"):
        f(0.1)


def test_an_inputs_own_downcast_goes_before_the_functions(mode: str) -> None:
    x, y = gt.fscalar("x"), gt.fscalar("y")
    ins = [graphc.In(x, allow_downcast=True), y]
    f = graphc.function(ins, x + y, mode=mode, allow_input_downcast=False)
    assert float(f(np.float64(1.0), np.float32(2.0))) == 3.0
    with pytest.raises(DTypeError, match="'y'"):
        f(1.0, np.float64(2.0))


def test_a_strict_input_takes_arrays_of_its_dtype_only(mode: str) -> None:
    x = gt.dvector("x")
    f = graphc.function([graphc.In(x, strict=True)], x * 2, mode=mode)
    np.testing.assert_array_equal(f(np.ones(2)), [2.0, 2.0])
    for given in ([1.0, 1.0], np.ones(2, "float32")):
        with pytest.raises(DTypeError, match="strict"):
            f(given)


# Kinds of arrays.


@pytest.mark.parametrize(
    "given",
    [
        np.arange(3.0).astype(">f8"),
        np.frombuffer(np.arange(3.0).tobytes()),
        np.arange(6.0)[::2] / 2,
        np.arange(3.0)[::-1][::-1],
        np.asfortranarray(np.arange(3.0)),
        jax_array([0.0, 1.0, 2.0], "float64"),
        jax_array([0.0, 1.0, 2.0], "float32"),
        jax_array([0, 1, 2], "int32"),
        mlx_array([0.0, 1.0, 2.0], "float64"),
        mlx_array([0.0, 1.0, 2.0], "float32"),
        mlx_array([0, 1, 2], "uint8"),
        mlx_array([2.0, 1.0, 0.0], "bfloat16")[::-1],
        (0.0, np.float64(1.0), 2),
    ],
    ids=[
        "big endian",
        "read-only",
        "strided",
        "reversed",
        "fortran",
        "jax",
        "jax32",
        "jaxint",
        "mlx",
        "mlx32",
        "mlxint",
        "mlx16 reversed",
        "tuple",
    ],
)
def test_an_array_of_any_kind_is_an_argument(given: Any, mode: str) -> None:
    x = gt.vector("x")
    shifted, doubled = graphc.function([x], [x[1:], x * 2], mode=mode, returns="numpy")(given)
    np.testing.assert_array_equal(shifted, [1.0, 2.0])
    np.testing.assert_array_equal(doubled, [0.0, 2.0, 4.0])


@pytest.mark.parametrize("library", ["jax", "mlx"])
def test_an_array_of_another_library_is_numpys_in_numpy_mode(library: str) -> None:
    x = gt.vector("x")
    y = graphc.function([x], x, mode="NUMPY")(MAKERS[library]([1.0, 2.0], "float64"))
    assert type(y) is np.ndarray


class DLPackOnly:
    """An array of a library that has neither ``__array__`` nor an adaptor here."""

    def __init__(self, value: Any) -> None:
        self.value = np.asarray(value)

    def __dlpack__(self, **options: Any) -> Any:
        return self.value.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.value.__dlpack_device__()


def test_an_object_of_the_dlpack_protocol_is_an_array(mode: str) -> None:
    x, two = gt.vector("x"), DLPackOnly([1.0, 2.0])
    assert graphc.function([x], x * 2, mode)(two).tolist() == [2.0, 4.0]
    assert (x + two) is (x + two.value)
    assert gt.as_tensor(two) is gt.as_tensor(two.value)
    w = graphc.shared(two)
    w.set_value(DLPackOnly([3.0]))
    assert w.get_value().tolist() == [3.0]


class OnDevice(DLPackOnly):
    """An array in a device's memory."""

    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("cannot export from cuda:0")


def test_an_object_of_the_dlpack_protocol_on_a_device_is_refused(mode: str) -> None:
    x = gt.vector("x")
    with pytest.raises(ArgumentError, match="cuda:0; copy the array to the processor"):
        graphc.function([x], x, mode)(OnDevice([1.0]))
    with pytest.raises(DTypeError, match="cuda:0"):
        gt.as_tensor(OnDevice([1.0]))


class OfUnknownDtype(DLPackOnly):
    """An array of a dtype that NumPy lacks."""

    def __dlpack__(self, **options: Any) -> Any:
        return jnp.asarray(self.value, "bfloat16").__dlpack__()


def test_an_object_of_the_dlpack_protocol_of_a_dtype_that_numpy_lacks_is_refused(mode: str) -> None:
    x = gt.vector("x")
    with pytest.raises(
        ArgumentError, match="DLTensor; copy the array to the processor, in a dtype"
    ):
        graphc.function([x], x, mode)(OfUnknownDtype([1.0]))
    with pytest.raises(DTypeError, match="no array of numbers: Unsupported dtype"):
        gt.as_tensor(OfUnknownDtype([1.0]))


def test_constants_of_other_libraries_do_not_lose_imaginary_parts() -> None:
    for value in (DLPackOnly([1j]), jnp.array([1j])):
        with pytest.raises(DTypeError, match="imaginary part"):
            gt.as_tensor(value, dtype="float64")


EVERYWHERE = ("bool", "int8", "int64", "uint32", "bfloat16", "float16", "float32", "float64")


@pytest.mark.parametrize("library", MAKERS)
@pytest.mark.parametrize("dtype", [*EVERYWHERE, "complex64"])
def test_an_array_of_any_library_keeps_its_dtype_and_values(
    dtype: str, library: str, mode: str
) -> None:
    x = gt.tensor("x", dtype=dtype, ndim=2)
    value = [[0, 1, 1], [1, 0, 1]]
    y = graphc.function([x], x.T, mode=mode)(MAKERS[library](value, dtype))
    assert dtype_of(y) == dtype
    np.testing.assert_array_equal(as_numpy(y).astype(complex), np.transpose(value))


@pytest.mark.parametrize("library", MAKERS)
@pytest.mark.parametrize(
    ("wanted", "dtype"),
    [("float32", "float64"), ("bfloat16", "float32"), ("int8", "uint8"), ("float64", "complex64")],
)
def test_an_array_of_any_library_is_refused_where_values_would_be_lost(
    wanted: str, dtype: str, library: str, mode: str
) -> None:
    x = gt.vector("x", dtype=wanted)
    f = graphc.function([x], x, mode=mode)
    with pytest.raises(DTypeError, match=rf"'x': expected {wanted}.*got {dtype}\[2\]"):
        f(MAKERS[library]([1, 0], dtype))
    cast = graphc.function([graphc.In(x, allow_downcast=True)], x, mode=mode)
    if wanted != "float64":  # a part of a complex number is lost with a warning
        assert dtype_of(cast(MAKERS[library]([1, 0], dtype))) == wanted


@pytest.mark.parametrize("library", MAKERS)
def test_a_strict_input_takes_arrays_of_any_library(library: str, mode: str) -> None:
    x = gt.dvector("x")
    f = graphc.function([graphc.In(x, strict=True)], x * 2, mode=mode)
    np.testing.assert_array_equal(as_numpy(f(MAKERS[library]([1, 2], "float64"))), [2.0, 4.0])
    with pytest.raises(DTypeError, match="strict"):
        f(MAKERS[library]([1, 2], "float32"))


def test_what_is_no_array_of_a_library_is_refused(mode: str) -> None:
    x = gt.vector("x")
    with pytest.raises(ArgumentError, match="'x': expected"):
        graphc.function([x], x, mode=mode)(mx.float32)


@pytest.mark.parametrize(
    "given",
    [np.array(2.0), np.float64(2.0), 2.0, 2, jax_array(2.0, "float64"), mlx_array(2.0, "float64")],
)
def test_a_0d_array_is_a_scalar(given: Any, mode: str) -> None:
    x = gt.scalar("x")
    y = graphc.function([x], x**2, mode=mode)(given)
    assert y.shape == ()
    assert float(y) == 4.0


def test_a_masked_array_is_refused(mode: str) -> None:
    x = gt.vector("x")
    with pytest.raises(ArgumentError, match="filled"):
        graphc.function([x], x, mode=mode)(np.ma.array([1.0, 2.0], mask=[0, 1]))


def test_a_matrix_is_multiplied_as_an_array(mode: str) -> None:
    x = gt.matrix("x")
    with pytest.warns(PendingDeprecationWarning):
        given = np.matrix([[1.0, 2.0], [3.0, 4.0]])
    y = graphc.function([x], x * x, mode=mode)(given)
    np.testing.assert_array_equal(np.asarray(y), [[1.0, 4.0], [9.0, 16.0]])


def test_an_argument_is_never_written_to(mode: str) -> None:
    x = gt.vector("x")
    given = np.arange(4.0)
    graphc.function([x], [x[:2].set(9.0), x[1:].inc(1.0)], mode=mode)(given)
    np.testing.assert_array_equal(given, np.arange(4.0))


def test_an_output_does_not_change_with_an_argument(mode: str) -> None:
    x = gt.vector("x")
    given = np.arange(4.0)
    outputs = graphc.function([x], [x, x[1:], x.reshape((2, 2)), x[::-1]], mode=mode)(given)
    before = [np.array(y) for y in outputs]
    given[:] = -1.0
    for y, was in zip(outputs, before, strict=True):
        np.testing.assert_array_equal(np.asarray(y), was)


@pytest.mark.parametrize("library", ["jax", "mlx"])
def test_an_array_of_the_backends_goes_in_without_a_copy(library: str) -> None:
    x, mode = gt.vector("x"), library.upper()
    given = MAKERS[library]([1.0, 2.0], "float64")
    f = graphc.function([x], x + 1, mode=mode)
    taken = []
    execute = f._execute
    f = graphc.function([graphc.In(x, name="y")], x + 1, mode=mode)
    f._execute = lambda *arguments: taken.append(arguments[0]) or execute(*arguments)
    f(given)
    assert taken[0] is given


def test_a_function_can_be_called_while_jax_traces() -> None:
    x = gt.fvector("x")
    f = graphc.function([x], (x**2).sum(), mode="JAX", returns="native")
    slope = jax.grad(lambda v: f(v) * 2)(jax_array([1.0, 3.0], "float32"))
    np.testing.assert_allclose(slope, [4.0, 12.0])


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint64"])
def test_a_python_integer_is_an_integer_scalar_if_it_fits(dtype: str) -> None:
    x, limits = gt.scalar("x", dtype=dtype), np.iinfo(dtype)
    f = graphc.function([x], x, mode="NUMPY")
    for n in (int(limits.min), 0, int(limits.max)):
        y = f(n)
        assert (y.dtype, y.shape, int(y)) == (dtype, (), n)
    for n in (int(limits.min) - 1, int(limits.max) + 1):
        with pytest.raises((DTypeError, ArgumentError), match=rf"expected {dtype}"):
            f(n)


def test_a_python_integer_is_refused_where_nothing_is_cast() -> None:
    x = gt.iscalar("x")
    for options in ({"strict": True}, {"allow_downcast": False}):
        f = graphc.function([graphc.In(x, **options)], x, mode="NUMPY")
        with pytest.raises(DTypeError):
            f(3)
