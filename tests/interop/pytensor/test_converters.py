"""Operations without a converter are refused by one error; users register converters."""

from __future__ import annotations

import functools
import inspect
import sys
import warnings
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import numpy as np
import pytensor.tensor as pt
import pytest
from pytensor.breakpoint import PdbBreakpoint
from pytensor.compile.ops import wrap_py
from pytensor.gradient import grad_not_implemented
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar.basic import BinaryScalarOp, upgrade_to_float
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import Elemwise

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, GraphcError, ShapeError, UnsupportedOperationError
from graphc.interop.pytensor import (
    Application,
    Refusal,
    by_perform,
    from_pytensor,
    register,
    variables,
)
from graphc.interop.pytensor.table import converter_of, is_dense
from graphc.ir.walk import reachable_nodes
from graphc.site import where
from tests.interop.pytensor.oracle import check
from tests.interop.pytensor.user_operations import Cubed


class Plus(BinaryScalarOp):  # type: ignore[misc]
    """A scalar operation of a user's package."""

    identity = 0

    def impl(self, x: Any, y: Any) -> Any:
        return x + y

    def pullback(self, inputs: Any, outputs: Any, gradients: Any) -> Any:
        return [gradients[0], gradients[0]]

    L_op = pullback


def test_one_error_names_all_that_is_missing_with_types_and_the_way_out() -> None:
    missing = PdbBreakpoint("stop")
    x, never = pt.vector("x"), pt.as_tensor(np.array(False))
    y = pt.exp(missing(never, x))
    with pytest.raises(UnsupportedOperationError) as caught:
        from_pytensor([y, missing(never, x * 2)])
    text = str(caught.value)
    assert "2 operations of PyTensor cannot be converted" in text
    assert "PdbBreakpoint{name='stop'}(" in text
    assert "x: float64[?]): it has no converter" in text
    assert "@graphc.interop.pytensor.register(TheOp)" in text
    assert "givens=" in text
    assert "test_converters.py:" in text


def test_a_dtype_that_an_operation_does_not_take_is_refused_as_well() -> None:
    with pytest.raises(
        UnsupportedOperationError, match=r"Lt\(.*complex128.*not defined for complex"
    ):
        from_pytensor(pt.lt(pt.zvector(), pt.zvector()))


def test_nodes_and_errors_have_the_line_of_pytensors_variable() -> None:
    x = pt.vector("x")
    y = x.reshape((3, -1))  # the line
    found = from_pytensor(pt.exp(y)).inputs[0]
    line = inspect.getsource(sys.modules[__name__]).split("# the line")[0].count("\n") + 1
    assert found.where == f"test_converters.py:{line}"
    f = graphc.function([from_pytensor(x)], from_pytensor(y), mode="NUMPY")
    with pytest.raises(ShapeError, match=f"test_converters.py:{line}$"):
        f([1.0, 2.0])


def test_the_line_is_the_users_also_where_installed_packages_call_one_another() -> None:
    x = pt.vector("x")
    y = x.reshape((3, -1))
    between = [(path + "/a.py", 1, "f", "") for path in (*variables.INSTALLED, pt.__path__[0])]
    own = (__file__, 7, "f", "")
    for trace, line in [
        ([own, *between], "test_converters.py:7"),
        ([*between, (functools.__file__, 909, "wrapper", "")], "a.py:1"),
        ([(functools.__file__, 909, "wrapper", "")], None),
    ]:
        y.tag.trace = [trace]
        assert where(variables.site_of(y)) == line


ABSTRACT = """
    Output _NoPythonOp COp ExternalCOp OpenMPOp _NoPythonCOp _NoPythonExternalCOp ScalarOp
    UnaryScalarOp BinaryScalarOp BinaryBitOp UnaryBitOp LogicalComparison FixedLogicalComparison
    ScalarInnerGraphOp BaseBLAS GemmRelated BaseBlockDiagonal SolveBase ScipyWrapperOp
    ScipyScalarWrapperOp ScipyVectorWrapperOp ScipyRandomVariable RandomVariable RNGConsumerOp
    AbstractRNGConstructor
"""
"""Classes of PyTensor that others inherit from."""

LACKING = {
    "PdbBreakpoint": "it stops in the debugger",
    "JAXShapeTuple": "PyTensor's JAX linker makes it, of graphs that it compiles itself",
}
"""Operations on dense arrays that have no converter, and why."""


@pytest.mark.exhaustive
def test_every_operation_of_pytensor_on_dense_arrays_has_a_converter() -> None:
    with warnings.catch_warnings(action="ignore"):
        for name in ("pytensor.tensor", "pytensor.scalar", "pytensor.compile", "pytensor.scan"):
            for module in walk_packages(import_module(name).__path__, f"{name}."):
                import_module(module.name)
    classes = reachable_nodes(Op.__subclasses__(), lambda cls: cls.__subclasses__())
    own = [cls for cls in classes if is_dense(cls)]
    assert len(own) > 200
    missing = {cls.__name__ for cls in own if converter_of(cls) is None}
    assert missing <= {*ABSTRACT.split(), *LACKING}


def test_other_types_of_variables_are_refused_by_name() -> None:
    from pytensor import sparse, typed_list  # noqa: PLC0415 (they take a second to load)

    s, items = sparse.csr_matrix("s"), typed_list.make_list([pt.vector(), pt.vector()])
    with pytest.raises(UnsupportedOperationError, match=r"s: Sparse.* is no array"):
        from_pytensor(sparse.dense_from_sparse(s))
    with pytest.raises(UnsupportedOperationError, match="MakeList"):
        from_pytensor(typed_list.basic.getitem(items, pt.lscalar()))


def test_a_registered_converter_is_used_and_may_refuse() -> None:
    class Own(Cubed):
        """It has a converter of its own."""

    @register(Own)
    def own(at: Application, x: Any) -> Any:
        if x.ndim:
            raise Refusal("of vectors")
        return x * x * x

    x = pt.scalar("x")
    assert from_pytensor(Own()(x)) is from_pytensor(x * x * x)
    with pytest.raises(UnsupportedOperationError, match="of vectors"):
        from_pytensor(Own()(pt.vector()))
    with pytest.raises(ArgumentError, match="is no class"):
        register(Own())


def test_a_converter_registered_for_an_elementwise_class_precedes_the_python_code_of_scalars() -> (
    None
):
    class Scaled(Elemwise):  # type: ignore[misc]
        """It has a converter, which its scalar operation lacks."""

    @register(Scaled)
    def scaled(at: Application, x: Any, y: Any) -> Any:
        return x * y * 1000

    x, y = pt.vectors("x", "y")
    a, b, z = from_pytensor([x, y, Scaled(Plus(upgrade_to_float, name="plus"))(x, y)])
    assert graphc.function([a, b], z, mode="NUMPY")([2.0, 4.0], [3.0, 5.0]).tolist() == [6e3, 2e4]


def test_an_operation_on_a_generator_that_is_no_random_variable_is_refused() -> None:
    class Drawing(Op):  # type: ignore[misc]
        """It draws, and is no random variable."""

        def make_node(self, rng: Any, x: Any) -> Any:
            return Apply(self, [rng, x], [rng.type(), x.type()])

        def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
            raise NotImplementedError

    rng = pt.random.type.random_generator_type("rng")
    with pytest.raises(UnsupportedOperationError, match="not all arrays"):
        from_pytensor(Drawing()(rng, pt.vector("x"))[1])


def test_an_operation_of_another_package_runs_as_its_python_code_with_its_gradient_and_warns_once(
    mode: str,
) -> None:
    class Missing(Cubed):
        """It has no converter, and no shape of its results is declared."""

        infer_shape = None

    x = pt.vector("x")
    with pytest.warns(UserWarning, match="Missing has no converter") as warned:
        a, y, twice = from_pytensor([x, Missing()(x), Missing()(2 * x)])
    assert len(warned) == 1
    f = graphc.function([a], [y, twice, graphc.grad(y.sum(), a)], mode=mode, returns="numpy")
    for values in ([1.0, 2.0], [1.0, 2.0, -3.0]):
        found = f(values)
        np.testing.assert_allclose(found[0], np.power(values, 3))
        np.testing.assert_allclose(found[1], 8 * np.power(values, 3))
        np.testing.assert_allclose(found[2], 3 * np.square(values))


@pytest.mark.filterwarnings("ignore:.* has no converter")
def test_operations_of_another_package_run_on_elements_and_on_batches(mode: str) -> None:
    class Missing(Cubed):
        """It has no converter."""

        def make_node(self, x: Any) -> Any:
            return Apply(self, [x], [pt.dvector()])

    x, y = pt.matrix("x"), pt.vector("y")
    total = Elemwise(Plus(upgrade_to_float, name="plus"))(x, y)
    cubes = Blockwise(Missing(), signature="(n)->(n)")(x)
    slopes = pt.grad((total**2).sum() + cubes.sum(), [x, y])
    values = [np.array([[1.0, -2.0, 3.0], [0.5, 4.0, 2.0]]), np.array([10.0, 20.0, 30.0])]
    check([x, y], [total, cubes, *slopes], values, mode)


def test_by_perform_is_registered_for_an_operation_that_should_not_warn(mode: str) -> None:
    register(Cubed)(by_perform)
    x = pt.vector("x")
    a, y = from_pytensor([x, Cubed()(x)])
    f = graphc.function([a], [y, graphc.grad(y.sum(), a)], mode=mode, returns="numpy")
    values, slopes = f([1.0, 2.0])
    assert values.tolist() == [1.0, 8.0]
    assert slopes.tolist() == [3.0, 12.0]


def test_a_gradient_that_an_operation_does_not_define_is_nan_and_never_zero() -> None:
    class Half(Cubed):
        """It has a gradient with respect to x, and none with respect to y."""

        infer_shape = None

        def make_node(self, x: Any, y: Any) -> Any:
            return Apply(self, [x, y], [x.type()])

        def pullback(self, inputs: Any, outputs: Any, gradients: Any) -> Any:
            return [3 * inputs[0] ** 2 * gradients[0], grad_not_implemented(self, 1, inputs[1])]

        L_op = pullback

    register(Half)(by_perform)
    x, y = pt.scalars("x", "y")
    a, b, z = from_pytensor([x, y, Half()(x, y)])
    for wrt, slope in ((a, 12.0), (b, np.nan)):
        f = graphc.function([a, b], graphc.grad(z, wrt), mode="NUMPY", on_unused_input="ignore")
        np.testing.assert_equal(float(f(2.0, 3.0)), slope)


def test_a_python_function_of_a_user_is_called() -> None:
    @wrap_py(itypes=[pt.dvector], otypes=[pt.dvector])
    def doubled(x: Any) -> Any:
        return x * 2

    x = pt.dvector("x")
    a, y = from_pytensor([x, doubled(x)])
    assert graphc.function([a], y, mode="NUMPY")([1.0]).tolist() == [2.0]


def test_a_check_raises_the_exception_that_pytensor_would(mode: str) -> None:
    x = pt.vector("x")
    a, y = from_pytensor([x, CheckAndRaise(IndexError, "x is negative")(x, (x > 0).all())])
    f = graphc.function([a], y * 2, mode=mode)
    with pytest.raises(IndexError, match="x is negative"):
        f(np.array([-1.0]))


@pytest.mark.parametrize(
    "use",
    [
        gt.exp,
        lambda x: gt.vector() + gt.as_tensor(x),
        lambda x: graphc.grad(gt.scalar() ** 2, x),
        lambda x: graphc.function([x], gt.ones(3)),
    ],
)
def test_a_variable_of_pytensors_in_place_of_an_array_is_told_how_to_become_one(use: Any) -> None:
    with pytest.raises(GraphcError, match=r"It is PyTensor's: .*from_pytensor"):
        use(pt.vector("x"))


def test_a_sum_and_a_product_may_have_one_operand(mode: str) -> None:
    x = pt.vector("x")
    check([x], [pt.add(x), pt.mul(x)], [np.array([1.0, 2.0])], mode)


def test_what_is_no_variable_is_refused() -> None:
    with pytest.raises(ArgumentError, match="is no PyTensor variable"):
        from_pytensor(gt.vector())
    with pytest.raises(ArgumentError, match='"linked" or "copied"'):
        from_pytensor(pt.vector(), shared="both")  # type: ignore[arg-type]
