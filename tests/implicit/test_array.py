"""Implicit arrays as objects: their fields, types, checks and trees."""

import copy
import pickle
import subprocess
import sys
import warnings
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import GetAttrKey, tree_flatten_with_path

import graphc
import graphc.tensor as gt
from graphc.errors import IdentityWarning, ImplicitArrayError, MaterializeError
from graphc.implicit import (
    Diagonal,
    ImplicitArray,
    LoRA,
    aux_field,
    fields_of,
    is_implicit,
    materializations,
    materializing,
    with_fields,
)
from graphc.implicit.treedef import Treedef
from graphc.ir import TensorType


@dataclass(frozen=True)
class Outer(ImplicitArray):
    """Products of two vectors' elements, times a number."""

    u: Any
    v: Any
    times: float = aux_field(default=1.0)

    def materialize(self) -> Any:
        return self.u[:, None] * self.v * self.times

    def check(self) -> None:
        if self.u.ndim != 1:
            raise ImplicitArrayError(f"Outer of u of shape {self.u.shape}.", "Give a vector.")


@dataclass(frozen=True)
class Sum(ImplicitArray):
    """The sum of parts, which may be implicit."""

    parts: tuple[Any, ...]
    more: Any = None

    def materialize(self) -> Any:
        first, *rest = [x.materialize() if is_implicit(x) else x for x in self.parts]
        for x in rest:
            first = first + x
        return first


def outer(n: int = 3, m: int = 2) -> Outer:
    return Outer(np.arange(1.0, n + 1), np.arange(2.0, m + 2), 3.0)


def test_shape_and_dtype_follow_from_the_fields() -> None:
    x = outer()
    assert (x.shape, x.dtype, x.ndim, x.size, len(x)) == ((3, 2), np.float64, 2, 6, 3)
    assert Outer(jnp.ones(4, jnp.float32), jnp.ones(5, jnp.float32)).dtype == np.float32
    assert x.nbytes == 5 * 8


def test_a_changed_tree_has_another_shape() -> None:
    stacked = jax.tree.map(lambda *xs: np.concatenate(xs), outer(), outer(4, 5))
    assert stacked.shape == (7, 7)
    assert jax.eval_shape(lambda x: x, outer()).shape == (3, 2)


def test_symbolic_fields_give_symbolic_types() -> None:
    x = Outer(gt.vector("u"), gt.tensor("v", shape=(2,)))
    assert x.shape == (None, 2)
    assert Outer(TensorType("float32", (3,)), TensorType("float32", (2,))).dtype == np.float32


def test_fields_that_do_not_fit_are_refused_where_it_is_made() -> None:
    with pytest.raises(ImplicitArrayError, match=r"u of shape \(2, 2\)"):
        Outer(np.ones((2, 2)), np.ones(2))


def test_a_tree_may_hold_anything_in_its_place() -> None:
    leaves, structure = jax.tree.flatten(outer())
    made = jax.tree.unflatten(structure, [object(), None])
    assert type(made) is Outer
    assert made.times == 3.0
    assert len(leaves) == 2


def test_a_tree_has_keys() -> None:
    paths = [path for path, _ in tree_flatten_with_path({"w": outer()})[0]]
    assert [path[-1] for path in paths] == [GetAttrKey("u"), GetAttrKey("v")]


def test_static_fields_are_part_of_the_structure() -> None:
    same = jax.tree.structure(outer()) == jax.tree.structure(outer(5, 5))
    other = jax.tree.structure(outer()) == jax.tree.structure(replace(outer(), times=2.0))
    assert (same, other) == (True, False)


def test_it_goes_through_jit_as_an_argument_without_recompiling() -> None:
    traces = []

    @jax.jit
    def f(x: Outer) -> Any:
        traces.append(x)
        return x.u.sum() + x.times

    assert float(f(outer())) == 9.0
    assert float(f(replace(outer(), u=np.array([4.0, 5.0, 6.0])))) == 18.0
    assert len(traces) == 1
    assert float(f(replace(outer(), times=0.0))) == 6.0
    assert len(traces) == 2


@pytest.mark.parametrize("value", [np.ones(3), jnp.ones(3), gt.vector("v"), outer(), [1, 2], {}])
def test_a_static_field_holds_no_array_and_nothing_without_a_hash(value: Any) -> None:
    with pytest.raises(ImplicitArrayError, match=r"Outer\.times = .*static field"):
        Outer(np.ones(2), np.ones(2), value)
    with pytest.raises(ImplicitArrayError, match=r"Outer\.times"):
        Outer(np.ones(2), np.ones(2), (1, (value,)))  # type: ignore[arg-type]


def test_it_is_equal_to_itself_alone_and_has_a_hash() -> None:
    x, y = outer(), outer()
    assert x == x  # noqa: PLR0124 (what is tested)
    assert x != y
    assert len({x, y}) == 2


def test_it_never_changes() -> None:
    x = outer()
    with pytest.raises(AttributeError):
        x.u = np.zeros(3)  # type: ignore[misc]
    narrow = x.astype("float32")
    assert x.dtype == np.float64
    assert narrow.dtype == np.float32
    np.testing.assert_array_equal(narrow, np.asarray(x).astype(np.float32))


def test_fields_are_taken_and_put_by_name() -> None:
    x = outer()
    assert [*fields_of(x)] == ["u", "v"]
    assert with_fields(x, {"u": 5}).u == 5
    assert with_fields(x, {}).times == 3.0


def test_parts_nest_in_tuples_and_may_be_missing() -> None:
    x = Sum((outer(), np.ones((3, 2)), outer()))
    treedef, leaves = Treedef.of(x)
    assert len(leaves) == 5
    assert treedef.paths("x") == ["x.parts[0].u", "x.parts[0].v", "x.parts[1]", "x.parts[2].u",
                               "x.parts[2].v"]  # fmt: skip
    again = treedef.build(leaves)
    np.testing.assert_array_equal(np.asarray(again), 2 * np.asarray(outer()) + 1)
    assert again.shape == (3, 2)
    assert len(jax.tree.leaves(x)) == 5


def test_forms_of_equal_classes_and_static_fields_are_equal() -> None:
    treedef = Treedef.of(outer())[0]
    assert treedef == Treedef.of(outer(7, 7))[0]
    assert treedef.token() == Treedef.of(outer(7, 7))[0].token()
    assert treedef != Treedef.of(replace(outer(), times=4.0))[0]
    assert treedef.token() != Treedef.of(replace(outer(), times=4.0))[0].token()


def test_numpy_gets_the_whole_where_it_asks_for_it() -> None:
    x = outer()
    np.testing.assert_array_equal(np.asarray(x), np.outer(x.u, x.v) * 3)
    assert np.asarray(x, np.float32).dtype == np.float32


def test_operators_are_those_of_its_fields_library() -> None:
    x, dense = outer(), np.asarray(outer())
    rows = np.ones((5, 3))
    for made, wanted in [
        (rows @ x, rows @ dense),
        (x @ np.ones((2, 4)), dense @ np.ones((2, 4))),
        (x + 1, dense + 1),
        (2 - x, 2 - dense),
        (x / 2, dense / 2),
        (-x, -dense),
        (x.T, dense.T),
        (x.mT, dense.T),
        (x[1], dense[1]),
        (x[:, 0], dense[:, 0]),
        (x.reshape(2, 3), dense.reshape(2, 3)),
        (x.sum(0), dense.sum(0)),
        (x.transpose(1, 0), dense.T),
    ]:
        np.testing.assert_allclose(np.asarray(made), wanted)


def test_it_goes_with_symbolic_arrays() -> None:
    x = gt.matrix("x")
    y = x @ outer()
    assert y.type == TensorType("float64", (None, 2))
    np.testing.assert_allclose(
        y.eval({x: np.ones((4, 3))}, mode="NUMPY"), np.ones((4, 3)) @ np.asarray(outer())
    )


def test_it_copies_and_pickles() -> None:
    x = outer()
    for made in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        np.testing.assert_array_equal(np.asarray(made), np.asarray(x))
        assert made.times == 3.0


def test_fields_want_a_dataclass() -> None:
    class Plain(ImplicitArray):
        values: Any

        def materialize(self) -> Any:
            return self.values

    with pytest.raises(ImplicitArrayError, match="is not a dataclass"):
        Plain().shape  # noqa: B018 (the property is what raises)


def test_a_class_that_cannot_be_made_whole_has_no_shape() -> None:
    @dataclass(frozen=True)
    class Broken(ImplicitArray):
        values: Any

        def materialize(self) -> Any:
            raise ValueError("no memory of it")

    with pytest.raises(MaterializeError, match=r"Broken.*no memory of it"):
        Broken(np.ones(2)).shape  # noqa: B018


def test_a_policy_of_a_class_is_one_of_three() -> None:
    with pytest.raises(ImplicitArrayError, match="'never'"):

        class Never(Outer, materialize="never"):
            pass


def test_slots_may_be_asked_for() -> None:
    @dataclass(frozen=True, slots=True)
    class Slotted(ImplicitArray):
        values: Any
        bits: int = aux_field(default=4)

        def materialize(self) -> Any:
            return self.values

    x = Slotted(np.ones(3))
    assert x.shape == (3,)
    assert jax.tree.leaves(x)[0] is x.values
    assert x == x  # noqa: PLR0124


def test_jax_need_not_be_there() -> None:
    program = """
import sys
import warnings
from dataclasses import dataclass
import numpy as np
from graphc.implicit import ImplicitArray
@dataclass(frozen=True)
class Twice(ImplicitArray):
    half: object
    def materialize(self):
        return self.half * 2
x = Twice(np.ones(3))
assert x.shape == (3,)
assert "jax" not in sys.modules
import jax
assert len(jax.tree.leaves(x)) == 1
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_it_is_walked_row_by_row_and_ends() -> None:
    rows = [np.asarray(row) for row in Outer(jnp.arange(3.0), jnp.ones(2))]
    np.testing.assert_array_equal(rows, [[0, 0], [1, 1], [2, 2]])


def test_it_has_no_truth_value() -> None:
    with pytest.raises(ImplicitArrayError, match="truth value"):
        bool(outer())


def test_an_error_names_the_users_line() -> None:
    with pytest.raises(ImplicitArrayError) as error:
        Outer(np.ones((2, 2)), np.ones(2), [3])  # type: ignore[arg-type]
    assert "test_array.py" in str(error.value)


def test_numpy_does_not_get_another_array_than_was_said() -> None:
    @dataclass(frozen=True)
    class Wrong(ImplicitArray):
        values: Any

        @property
        def shape(self) -> Any:
            return (7,)

        def materialize(self) -> Any:
            return self.values

    with pytest.raises(MaterializeError, match="Wrong"):
        np.asarray(Wrong(np.ones(2)))


def test_a_field_that_is_no_array_is_told() -> None:
    with pytest.raises(ImplicitArrayError, match=r"holds 3\.0, which is not an array"):
        Outer(3.0, np.ones(2)).shape  # noqa: B018


@dataclass(frozen=True)
class Times(ImplicitArray):
    """Numbers times a static one, or what a static function makes of them."""

    values: Any
    by: Any = aux_field(default=1)  # noqa: RUF009

    def materialize(self) -> Any:
        return self.by(self.values) if callable(self.by) else self.values * self.by


def test_equal_static_fields_of_other_kinds_are_other_arrays() -> None:
    """1, 1.0 and True are equal to Python, and so are the zeros."""
    v = gt.tensor("v", dtype="int64", shape=(3,))
    for by in (1, 1.0, True, 1.0, 1):
        wanted = (np.arange(3) * by).dtype
        assert (
            Times(np.arange(3), by).dtype == gt.as_tensor(Times(v, by)).type.numpy_dtype == wanted
        )
    assert Treedef.of(Times(v, (0, 0.0)))[0] != Treedef.of(Times(v, (0, -0.0)))[0]
    assert Treedef.of(Times(v, (0, 0.0)))[0] == Treedef.of(Times(v, (0, 0.0)))[0]


@pytest.mark.parametrize("mode", ["NUMPY", "JAX"])
def test_functions_of_one_name_in_static_fields_have_programs_of_their_own(mode: str) -> None:
    def times(k: int) -> Any:
        return lambda x: x * k

    found = []
    for k in (2, 3):
        x = Times(np.ones(3), times(k))
        w = gt.implicit(x, name="w")
        found.append(graphc.function([w], w + 1, mode=mode)(x).tolist())
    assert found == [[3, 3, 3], [4, 4, 4]]


def test_fields_of_64_bits_are_made_whole_whatever_jax_is_set_to() -> None:
    with jax.enable_x64(True):
        x = Outer(jnp.arange(3.0), jnp.ones(2))
    assert not jax.config.jax_enable_x64
    assert np.asarray(x).dtype == np.float64


def test_what_a_filter_left_without_arrays_has_no_shape() -> None:
    nested = Sum((Diagonal(np.ones(4)), np.ones((4, 4))))
    trees = [
        jax.tree.map(lambda _: None, outer()),
        jax.tree.map(lambda _: (), outer()),
        jax.tree.map(lambda _: object(), outer()),
        jax.tree.map(lambda x: None if x.ndim == 1 else x, nested),
        with_fields(LoRA.of(np.ones((4, 4)), rank=1), {"a": None}),
    ]
    for x in trees:
        assert getattr(x, "shape", None) is getattr(x, "dtype", None) is None
        assert not hasattr(x, "ndim")
        with pytest.raises(AttributeError, match=r"no array|not an array"):
            _ = x.shape
    with pytest.raises(AttributeError, match=r"parts\[0\]\.values"):
        _ = trees[3].shape


FIELDS = [np.arange(1.0, 4.0), jnp.arange(1.0, 4.0)]
"""The diagonals of matrices of NumPy's and of JAX's arrays."""


@pytest.mark.parametrize("values", FIELDS, ids=["numpy", "jax"])
def test_operators_and_methods_keep_the_structure_outside_of_functions(values: Any) -> None:
    x, dense = Diagonal(values), np.diag(values)
    for made, wanted in [(x**2, dense**2), (abs(-x), dense), (x.copy(), dense), (+x, dense)]:
        assert isinstance(made, Diagonal)
        np.testing.assert_allclose(np.asarray(made), wanted)
    for name in ("sum", "mean", "max", "min", "prod", "any", "all"):
        for settings in ({}, {"axis": 0}, {"axis": -1, "keepdims": True}):
            found = getattr(x, name)(**settings)
            np.testing.assert_allclose(found, getattr(dense, name)(**settings), rtol=1e-6)
    assert isinstance(x.swapaxes(0, 1), Diagonal)
    np.testing.assert_allclose(x.dot(np.ones(3)), dense.sum(1))
    np.testing.assert_allclose(np.mean(x, dtype="float32"), dense.mean(), rtol=1e-6)
    assert float(Diagonal(values[:1])) == 1.0
    assert not np.shares_memory(x.copy().values, values) or isinstance(values, jax.Array)


@pytest.mark.parametrize("values", FIELDS, ids=["numpy", "jax"])
@pytest.mark.parametrize(
    "f",
    [
        lambda x: x < 1,
        lambda x: np.ones((3, 3)) >= x,
        lambda x: 2**x,
        lambda x: 2 // x,
        lambda x: divmod(2, x),
        lambda x: x.ravel(),
        float,
        lambda x: 1.0 in x,
        lambda x: x.__setitem__(0, 1.0),
        lambda x: x.sum(out=np.ones(())),
    ],
)
def test_what_needs_the_whole_outside_of_functions_is_refused(f: Any, values: Any) -> None:
    with pytest.raises(ImplicitArrayError, match=r"(?s)Diagonal.*test_array.py:\d+"):
        f(Diagonal(values))


@pytest.mark.parametrize("values", FIELDS, ids=["numpy", "jax"])
def test_arithmetic_that_needs_the_whole_is_up_to_the_policy(values: Any) -> None:
    x = Diagonal(values)
    wanted = np.asarray(x) + 1
    with materializations() as report:
        np.testing.assert_allclose(x + 1, wanted)
    assert [y.type for y in report] == ["Diagonal"]
    for f in (lambda: x + 1, lambda: x.reshape(9)):
        with materializing("error"), pytest.raises(MaterializeError):
            f()


@pytest.mark.parametrize("values", FIELDS, ids=["numpy", "jax"])
def test_comparisons_with_what_is_no_implicit_array_warn(values: Any) -> None:
    x = Diagonal(values)
    for f in (lambda: x == 1, lambda: x != np.ones((3, 3)), lambda: jnp.ones((3, 3)) == x):
        with pytest.warns(IdentityWarning, match="Diagonal"):
            f()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert x == x  # noqa: PLR0124
        assert x not in (None, Diagonal(values))


def test_an_attribute_of_arrays_that_is_missing_says_what_there_is() -> None:
    x = outer()
    for name in ("sharding", "at", "cumsum", "real"):
        assert getattr(x, name, None) is None
        with pytest.raises(AttributeError, match=rf"{name}.*\n?.*materialize.*np.asarray"):
            getattr(x, name)
    with pytest.raises(AttributeError, match=r"^'Outer' object has no attribute 'weight'$"):
        x.weight  # noqa: B018


def test_fields_may_have_the_names_of_methods() -> None:
    @dataclass(frozen=True)
    class Ranged(ImplicitArray):
        min: Any
        max: Any
        codes: Any

        def materialize(self) -> Any:
            return self.min + (self.max - self.min) * self.codes

    x = Ranged(np.float64(1), np.float64(3), np.array([0.0, 0.5]))
    assert x.max == 3
    np.testing.assert_array_equal(np.asarray(x), [1.0, 2.0])
    with pytest.raises(TypeError, match="codes"):
        Ranged(1, 2)  # type: ignore[call-arg]
