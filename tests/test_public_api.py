"""Public names: all are documented, and have PyTensor's arguments or a row that says not."""

from __future__ import annotations

import doctest
import inspect
import math
import pydoc
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.tensor.arrays.create import CONSTRUCTORS
from graphc.tensor.core.elementwise import Elementwise

MIGRATING = (Path(__file__).parents[1] / "docs" / "migrating.md").read_text(encoding="utf-8")

PUBLIC = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in (graphc, gt)
    for name in module.__all__
}
FUNCTIONS = {
    name: value
    for name, value in PUBLIC.items()
    if callable(value)
    and not isinstance(value, Elementwise)
    and not (isinstance(value, type) and issubclass(value, Warning))
    and name.split(".")[-1] not in CONSTRUCTORS
}

FAMILIAR = {"x", "a", "b", "xs", "axis", "keepdims", "dtype", "shape"}
"""Parameters whose meaning is NumPy's and needs no words."""


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_is_there_and_has_a_first_line(name: str) -> None:
    value = PUBLIC[name]
    text = value.meaning if isinstance(value, Elementwise) else inspect.getdoc(value)
    assert text
    assert isinstance(value, Elementwise) or text.split("\n\n")[0].rstrip().endswith(".")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_public_function_tells_its_arguments_or_shows_an_example(name: str) -> None:
    text = inspect.getdoc(FUNCTIONS[name]) or ""
    told = re.search(r"^(Args|Attributes|Example|Returns):$", text, re.MULTILINE)
    elsewhere = re.search(r"arguments.* as (for|there)", text, re.DOTALL | re.IGNORECASE)
    parameters = set(inspect.signature(FUNCTIONS[name]).parameters)
    assert told or elsewhere or parameters <= FAMILIAR


ROWS = [name for name, value in PUBLIC.items() if isinstance(value, Elementwise)]


@pytest.mark.parametrize("name", ROWS)
def test_the_example_in_the_help_of_an_elementwise_function_holds(name: str) -> None:
    text = PUBLIC[name].__doc__ or ""
    example = doctest.DocTestParser().get_doctest(text, {}, name, None, None)
    assert len(example.examples) == 2
    assert doctest.DocTestRunner(verbose=False).run(example).failed == 0


def test_the_help_of_a_function_is_its_own() -> None:
    text = pydoc.plain(pydoc.render_doc(gt.exp))
    for part in (
        *("exp(x)", "e ** x; element by element.", "int32, int64", ">>> gt.exp([0.5, 2.0])"),
        *("- range: result >= 0", "- x: ``exp(x)``", "- nondecreasing in x"),
    ):
        assert part in text
    assert "- domain: -1 <= x <= 1; NaN elsewhere" in inspect.getdoc(gt.arcsin)
    assert "- poles: 0, -1, ..." in inspect.getdoc(gt.gamma)
    assert "- s: none; to ask for one is a GradientError" in inspect.getdoc(gt.zeta)
    assert "where x is the result, ``erfinv(y)``" in inspect.getdoc(gt.erfinv)
    assert "Derivative" not in inspect.getdoc(gt.equal)
    assert "Elementwise(" not in text
    assert [*inspect.signature(gt.add).parameters] == ["a", "b", "more"]
    assert [*inspect.signature(gt.owens_t).parameters] == ["h", "a"]
    assert inspect.signature(gt.exp).return_annotation == "Tensor"
    assert (Elementwise.__doc__ or "").startswith("A function applied to each element")
    assert inspect.signature(gt.sum).parameters["axis"].default is None


@pytest.mark.parametrize("name", ["dmatrix", "irow", "cscalar"])
def test_the_help_of_a_type_is_that_of_making_inputs(name: str) -> None:
    constructor = getattr(gt, name)
    text = inspect.getdoc(constructor) or ""
    example = doctest.DocTestParser().get_doctest(text, {}, name, None, None)
    assert doctest.DocTestRunner(verbose=False).run(example) == (0, 2)
    assert f"when it is called: {constructor!r}." in pydoc.plain(pydoc.render_doc(constructor))
    assert [*inspect.signature(constructor).parameters] == ["name", "shape", "sharding", "bucket"]


def test_types_that_a_user_meets_have_public_names() -> None:
    x = gt.vector("x")
    f = graphc.function([x], x + 1, mode="NUMPY")
    for _ in range(20):
        f(np.ones(2))
    assert type(f) is graphc.Function
    number, stream = graphc.runtime(2.5), gt.random.RandomStream(3)
    rows = graphc.scan(lambda a: a * x, x)
    others = [x, x + 1, rows, number, stream, graphc.shared(1.0), graphc.Mode("JAX"), f.plan()]
    assert not [cls for cls in map(type, others) if cls.__name__.startswith("_")]
    assert repr(stream) == "RandomStream(seed=3)"


def test_public_names_come_once() -> None:
    for module in (graphc, gt):
        assert len(module.__all__) == len(set(module.__all__))


def test_no_file_hides_a_public_name() -> None:
    assert not [name for name in gt.__all__ if isinstance(getattr(gt, name), ModuleType)]
    assert math.isnan(gt.nan)


def test_gradient_is_the_module_of_barriers_too() -> None:
    assert graphc.gradient.zero_grad is graphc.zero_grad
    assert graphc.gradient.__all__ == sorted(graphc.gradient.__all__)


# PyTensor's arguments, after the arrays that come first.

PYTENSOR = {
    "graphc.OpFromGraph": "inputs outputs inline=False pullback=None pushforward=None "
    "lop_overrides=None grad_overrides rop_overrides=None connection_pattern "
    "strict=False name=None destroy_map",
    "graphc.as_op": "itypes otypes infer_shape=None",
    "graphc.wrap_jax": "jax_function=None allow_eval",
    "graphc.wrap_py": "itypes otypes infer_shape=None",
    "graphc.In": "variable name=None value update mutable strict=False allow_downcast=None "
    "autoname implicit borrow shared",
    "graphc.Lop": "f wrt eval_points consider_constant=None disconnected_inputs='raise' "
    "return_disconnected='zero'",
    "graphc.Mode": "linker optimizer db",
    "graphc.Out": "variable borrow=False",
    "graphc.Rop": "f wrt eval_points disconnected_outputs='raise' return_disconnected='zero' "
    "use_op_rop_implementation=False",
    "graphc.clone_replace": "output replace=None rebuild_strict",
    "graphc.foldl": "fn sequences outputs_info non_sequences=None mode=None name=None "
    "return_updates=True",
    "graphc.foldr": "fn sequences outputs_info non_sequences=None mode=None name=None "
    "return_updates=True",
    "graphc.function": "inputs outputs=None mode=None updates=None givens=None no_default_updates "
    "accept_inplace name=None rebuild_strict allow_input_downcast=None profile on_unused_input "
    "trust_input",
    "graphc.grad": "cost wrt consider_constant=None disconnected_inputs='raise' add_names "
    "known_grads=None return_disconnected='zero' null_gradients",
    "graphc.grad_clip": "x lower_bound upper_bound",
    "graphc.grad_scale": "x multiplier",
    "graphc.hessian": "cost wrt consider_constant=None disconnected_inputs='raise'",
    "graphc.hessian_vector_product": "cost wrt p grad_kwargs",
    "graphc.ifelse": "condition then_branch else_branch name=None",
    "graphc.jacobian": "expression wrt consider_constant=None disconnected_inputs='raise' "
    "vectorize",
    "graphc.map": "fn sequences non_sequences=None truncate_gradient=-1 go_backwards=False "
    "mode=None name=None return_updates=True",
    "graphc.pullback": "f wrt cotangents consider_constant=None disconnected_inputs='raise' "
    "return_disconnected='zero'",
    "graphc.pushforward": "f wrt tangents disconnected_outputs='raise' return_disconnected='zero' "
    "use_op_pushforward=False",
    "graphc.reduce": "fn sequences outputs_info non_sequences=None go_backwards=False mode=None "
    "name=None return_updates=True",
    "graphc.scan": "fn sequences=None outputs_info=None non_sequences=None n_steps=None "
    "truncate_gradient=-1 go_backwards=False mode=None name=None profile=False allow_gc=None "
    "strict=False return_list=False return_updates=True",
    "graphc.shared": "value name=None strict=False allow_downcast=None",
    "graphc.verify_grad": "fun pt n_tests=2 rng=None eps=None out_type abs_tol=None rel_tol=None "
    "mode cast_to_output_type no_debug_ref",
    "graphc.until": "condition",
    "graphc.tensor.all": "x axis=None keepdims=False",
    "graphc.tensor.allclose": "a b rtol=1e-05 atol=1e-08 equal_nan=False",
    "graphc.tensor.any": "x axis=None keepdims=False",
    "graphc.tensor.arange": "start stop=None step=1 dtype=None",
    "graphc.tensor.argmax": "x axis=None keepdims=False",
    "graphc.tensor.argmin": "x axis=None keepdims=False",
    "graphc.tensor.argsort": "x axis=-1 kind=None order=None stable=None",
    "graphc.tensor.as_tensor": "x name=None ndim=None",
    "graphc.tensor.as_tensor_variable": "x name=None ndim=None",
    "graphc.tensor.atleast_Nd": "x n=1 left=True",
    "graphc.tensor.bartlett": "M",
    "graphc.tensor.beta": "a b",
    "graphc.tensor.bincount": "x weights=None minlength=None assert_nonneg=False",
    "graphc.tensor.broadcast_to": "x shape",
    "graphc.tensor.cast": "x dtype",
    "graphc.tensor.ceil_intdiv": "a b",
    "graphc.tensor.chi2sf": "x k",
    "graphc.tensor.choose": "x choices mode='raise'",
    "graphc.tensor.complex_from_polar": "abs angle",
    "graphc.tensor.compress": "condition x axis=None",
    "graphc.tensor.concat_with_broadcast": "tensor_list axis=0",
    "graphc.tensor.concatenate": "x axis=0",
    "graphc.tensor.constant": "x name=None ndim dtype=None",
    "graphc.tensor.cov": "x y=None rowvar=True bias=False ddof=None fweights=None aweights=None",
    "graphc.tensor.cumprod": "x axis=None",
    "graphc.tensor.cumsum": "x axis=None",
    "graphc.tensor.dense_dot": "a b",
    "graphc.tensor.diag": "v k=0",
    "graphc.tensor.diagonal": "a offset=0 axis1=0 axis2=1",
    "graphc.tensor.diff": "x n=1 axis=-1",
    "graphc.tensor.dot": "x x",
    "graphc.tensor.einsum": "subscripts optimize=None",
    "graphc.tensor.empty": "shape dtype=None",
    "graphc.tensor.empty_like": "x dtype=None",
    "graphc.tensor.expand_dims": "x axis",
    "graphc.tensor.eye": "n m=None k=0 dtype=None",
    "graphc.tensor.factorial": "n",
    "graphc.tensor.fill_diagonal": "a val",
    "graphc.tensor.fill_diagonal_offset": "a val offset",
    "graphc.tensor.flatten": "x ndim=1",
    "graphc.tensor.flip": "x axis=None",
    "graphc.tensor.full": "shape fill_value dtype=None",
    "graphc.tensor.full_like": "x fill_value dtype=None",
    "graphc.tensor.gammal": "k x",
    "graphc.tensor.gammau": "k x",
    "graphc.tensor.geomspace": "start stop num=50 base=10.0 endpoint",
    "graphc.tensor.get_scalar_constant_value": "v elemwise=True only_process_constants=False "
    "max_recur=10 raise_not_constant=True",
    "graphc.tensor.get_underlying_scalar_constant_value": "v elemwise=True "
    "only_process_constants=False max_recur=10 raise_not_constant=True",
    "graphc.tensor.get_vector_length": "v",
    "graphc.tensor.identity_like": "x dtype=None",
    "graphc.tensor.inc_subtensor": "x x inplace set_instead_of_inc tolerate_inplace_aliasing "
    "ignore_duplicates",
    "graphc.tensor.interp": "x xp fp left=None right=None period=None",
    "graphc.tensor.interpolate1d": "x y method='linear' left_pad=None right_pad=None "
    "extrapolate=True",
    "graphc.tensor.inverse_permutation": "perm",
    "graphc.tensor.iround": "x mode=None",
    "graphc.tensor.is_flat": "x ndim=1",
    "graphc.tensor.isclose": "a b rtol=1e-05 atol=1e-08 equal_nan=False",
    "graphc.tensor.join": "axis",
    "graphc.tensor.join_dims": "x start_axis=0 n_axes=None",
    "graphc.tensor.kn": "n x",
    "graphc.tensor.kron": "a b",
    "graphc.tensor.linspace": "start stop num",
    "graphc.tensor.log_softmax": "x axis=None",
    "graphc.tensor.logspace": "start stop num=50 base=10.0 endpoint",
    "graphc.tensor.logsumexp": "x axis=None keepdims=False",
    "graphc.tensor.matmul": "x x dtype",
    "graphc.tensor.matrix": "name=None dtype=None shape=(None,_None)",
    "graphc.tensor.matrix_power": "M n",
    "graphc.tensor.matvec": "x1 x2 dtype=None",
    "graphc.tensor.max": "x axis=None keepdims=False initial",
    "graphc.tensor.mean": "x axis=None dtype=None keepdims=False acc_dtype",
    "graphc.tensor.median": "x axis=None",
    "graphc.tensor.min": "x axis=None keepdims=False initial",
    "graphc.tensor.moveaxis": "x source destination",
    "graphc.tensor.nan_to_num": "x nan=0.0 posinf=None neginf=None",
    "graphc.tensor.nonzero": "x return_matrix=False",
    "graphc.tensor.norm": "x ord=None axis=None keepdims=False",
    "graphc.tensor.ones": "shape dtype=None",
    "graphc.tensor.ones_like": "x dtype=None opt",
    "graphc.tensor.outer": "x x",
    "graphc.tensor.pack": "x keep_axes=None",
    "graphc.tensor.pad": "x pad_width mode",
    "graphc.tensor.permute_row_elements": "x y inverse=False",
    "graphc.tensor.poch": "z m",
    "graphc.tensor.prod": "x axis=None dtype=None keepdims=False acc_dtype no_zeros_in_input",
    "graphc.tensor.ptp": "x axis=None",
    "graphc.tensor.ravel_multi_index": "multi_index dims mode='raise' order='C'",
    "graphc.tensor.repeat": "x repeats axis=None",
    "graphc.tensor.reshape": "x newshape ndim=None",
    "graphc.tensor.roll": "x shift axis=None",
    "graphc.tensor.round": "x mode=None",
    "graphc.tensor.searchsorted": "x v side='left' sorter=None",
    "graphc.tensor.set_subtensor": "x x inplace tolerate_inplace_aliasing",
    "graphc.tensor.shape_padaxis": "x axis",
    "graphc.tensor.shape_padleft": "x n_ones=1",
    "graphc.tensor.shape_padright": "x n_ones=1",
    "graphc.tensor.slice_at_axis": "sl axis",
    "graphc.tensor.softmax": "x axis=None",
    "graphc.tensor.sort": "x axis=-1 kind=None order=None stable=None",
    "graphc.tensor.specify_shape": "x shape",
    "graphc.tensor.split": "x splits_size n_splits=None axis=0",
    "graphc.tensor.split_dims": "x shape axis=0",
    "graphc.tensor.squeeze": "x axis=None",
    "graphc.tensor.stack": "x axis=0",
    "graphc.tensor.stacklists": "arg",
    "graphc.tensor.std": "x axis=None ddof=0 keepdims=False corrected",
    "graphc.tensor.sum": "x axis=None dtype=None keepdims=False acc_dtype",
    "graphc.tensor.swapaxes": "x axis1 axis2",
    "graphc.tensor.take": "x indices axis=None mode",
    "graphc.tensor.take_along_axis": "x indices axis=0",
    "graphc.tensor.tensor": "name=None dtype=None shape=None",
    "graphc.tensor.tensordot": "x x axes",
    "graphc.tensor.tile": "x reps",
    "graphc.tensor.trace": "a offset=0 axis1=0 axis2=1",
    "graphc.tensor.transpose": "x axes=None",
    "graphc.tensor.tri": "N M=None k=0 dtype=None",
    "graphc.tensor.tril": "m k=0",
    "graphc.tensor.tril_indices": "n k=0 m=None",
    "graphc.tensor.tril_indices_from": "a k=0",
    "graphc.tensor.triu": "m k=0",
    "graphc.tensor.triu_indices": "n k=0 m=None",
    "graphc.tensor.triu_indices_from": "a k=0",
    "graphc.tensor.unique": "x return_index=False return_inverse=False return_counts=False "
    "axis=None",
    "graphc.tensor.unpack": "packed_input packed_shapes keep_axes=None",
    "graphc.tensor.unravel_index": "indices dims order='C'",
    "graphc.tensor.var": "x axis=None ddof=0 keepdims=False corrected",
    "graphc.tensor.vecdot": "x1 x2 dtype=None",
    "graphc.tensor.vecmat": "x1 x2 dtype=None",
    "graphc.tensor.vector": "name=None dtype=None shape=(None,)",
    "graphc.tensor.vectorize": "func signature=None",
    "graphc.tensor.where": "x x x",
    "graphc.tensor.zeros": "shape dtype=None",
    "graphc.tensor.zeros_like": "x dtype=None opt",
}
"""PyTensor's parameters in order; ``x`` is an array; a default is there where ours is to be it."""


@pytest.mark.parametrize("name", PYTENSOR)
def test_arguments_are_pytensors_or_the_difference_has_a_row(name: str) -> None:
    ours = inspect.signature(PUBLIC[name]).parameters
    theirs = [written.partition("=")[::2] for written in PYTENSOR[name].split()]
    names = {parameter for parameter, _ in theirs}
    arrays = [parameter for parameter, _ in theirs].count("x")
    assert arrays <= len(ours)
    for parameter, default in theirs[arrays if "x" in names else 0 :]:
        if parameter not in ours:
            assert f"`{parameter}=`" in MIGRATING
            continue
        written = default.strip("'").replace("_", " ")
        same = not default or str(ours[parameter].default) == written
        places = list(ours)
        inserted = set(places[arrays : places.index(parameter)]) - names
        keyword = ours[parameter].kind is inspect.Parameter.KEYWORD_ONLY
        in_place = keyword or not inserted
        assert (same and in_place) or f"`{name.rpartition('.')[2]}`" in MIGRATING


PYTENSORS_NAMES = (
    "abs add all allclose alloc angle any arange arccos arccosh arcsin arcsinh arctan arctan2 "
    "arctanh argmax argmin argsort as_tensor as_tensor_variable atleast_Nd bartlett beta betainc "
    "betaincinv betaln bincount bitwise_and bitwise_not bitwise_or bitwise_xor broadcast_arrays "
    "broadcast_shape broadcast_to cast ceil ceil_intdiv chi2sf choose clip complex "
    "complex_from_polar compress concat_with_broadcast concatenate conj conjugate constant cos "
    "cosh cov cumprod cumsum deg2rad dense_dot diag diagonal diff digamma divmod dot einsum empty "
    "empty_like eq equal erf erfc erfcinv erfcx erfinv exp exp2 expand_dims expit expm1 "
    "extract_diag eye factorial fill fill_diagonal fill_diagonal_offset flatnonzero flatten flip "
    "floor floor_div full full_like gamma gammainc gammaincc gammainccinv gammaincinv gammal "
    "gammaln gammau ge geomspace get_scalar_constant_value get_underlying_scalar_constant_value "
    "get_vector_length greater greater_equal gt hessian horizontal_stack hyp2f1 i0 i1 identity "
    "identity_like imag inc_subtensor int_div interp interpolate1d inverse_permutation invert "
    "iround is_flat isclose isfinite isinf isnan isneginf isposinf iv ive j0 j1 jacobian join "
    "join_dims jv kn kv kve largest le less less_equal linspace log log10 log1mexp log1p log1pexp "
    "log2 log_softmax logaddexp logit logspace logsumexp lt make_slice matmul matrix_transpose "
    "matvec max max_and_argmax maximum mean median min minimum mod moveaxis mul nan_to_num "
    "ndtri_exp neg neq none_type_t nonzero nonzero_values not_equal ones ones_like outer owens_t "
    "pack pad permute_row_elements poch polygamma pow power prod psi ptp rad2deg "
    "ravel_multi_index real reciprocal repeat reshape roll round round_half_away_from_zero "
    "round_half_to_even scalar_from_tensor searchsorted second set_subtensor sgn shape "
    "shape_padaxis shape_padleft shape_padright sigmoid sign sin sinh slice_at_axis slicetype "
    "smallest softmax softplus sort specify_broadcastable specify_shape split split_dims sqr sqrt "
    "square squeeze stack stacklists std sub sum swapaxes switch take take_along_axis tan tanh "
    "tensor tensor_copy tensor_from_scalar tensordot tile trace transfer transpose tri tri_gamma "
    "tril tril_indices tril_indices_from triu triu_indices triu_indices_from true_div trunc "
    "unique unpack unravel_index values_eq_approx_always_true var vecdot vecmat vectorize "
    "vertical_stack where xlog1py xlogy xor zeros zeros_like"
)
"""The functions of its tensor module and of ``special``, without the constructors by dtype."""


@pytest.mark.parametrize("name", PYTENSORS_NAMES.split())
def test_each_of_pytensors_functions_is_there_or_named_as_missing(name: str) -> None:
    assert hasattr(gt, name) or f"`{name}`" in MIGRATING


@pytest.mark.parametrize(
    "word",
    [
        "default mode",
        "`==`",
        "`x.name = ...`",
        "int64",
        "`In(update=...)`",
        "`default_update`",
        "`trust_input=`",
        "`profile=`",
        "`get_value(borrow=True)`",
        "`eval`",
        "shared variable's shape",
        "complex gradient",
        "ties",
        "`vectorize=`",
        "returns",
        "x[mask]",
        "strict",
    ],
)
def test_each_known_difference_has_a_row(word: str) -> None:
    rows = [line for line in MIGRATING.splitlines() if line.startswith("| ")]
    assert [row for row in rows if word in row]


def test_every_row_of_differences_is_complete() -> None:
    differences = MIGRATING.partition("## Differences")[2].partition("\n## ")[0]
    for row in (line for line in differences.splitlines() if line.startswith("| ")):
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert len(cells) == 4
        assert all(cells)


def test_results_of_several_arrays_are_lists_as_in_pytensor() -> None:
    v, a = gt.vector("v"), gt.matrix("a")
    several = [
        *(gt.linalg.svd(a), gt.linalg.qr(a), gt.linalg.eig(a), gt.linalg.eigh(a)),
        *(gt.linalg.lu(a), gt.linalg.lu_factor(a), gt.linalg.lstsq(a, v)),
        *(gt.linalg.schur(a), gt.linalg.qz(a, a), gt.unique(v, return_index=True)),
        *(
            gt.max_and_argmax(a, 0),
            gt.meshgrid(v, v),
            gt.ogrid[0:2, 0:3],
            gt.broadcast_arrays(v, a),
        ),
        *(gt.split(v, [1, 2]), gt.vectors("a", "b")),
    ]
    assert {type(found) for found in several} == {list}


def test_floatx_is_a_dtype_wherever_one_is_taken() -> None:
    x, key = gt.ivector("x"), gt.random.key(0)
    with graphc.config.change_flags(floatX="float32"):
        made = [
            *(gt.zeros(3, "floatX"), gt.ones(3, dtype="floatX"), gt.full(3, 2, dtype="floatX")),
            *(gt.zeros_like(x, "floatX"), gt.eye(3, dtype="floatX"), gt.arange(3, dtype="floatX")),
            *(gt.linspace(0, 1, 5, dtype="floatX"), gt.tri(3, dtype="floatX"), x.astype("floatX")),
            *(gt.constant([1, 2], dtype="floatX"), gt.as_tensor(1, dtype="floatX")),
            *(x.sum(dtype="floatX"), x.mean(dtype="floatX"), gt.cumsum(x, dtype="floatX")),
            *(gt.tensor("y", dtype="floatX", shape=()), gt.TensorType("floatX", (2,))("z")),
            *(gt.vector("v", dtype="floatX"), gt.to_one_hot(x, 3, dtype="floatX")),
            *(
                gt.random.normal(size=3, rng=key, dtype="floatX"),
                gt.identity_like(x[None], "floatX"),
            ),
        ]
        assert {y.dtype for y in made} == {"float32"}
        assert graphc.shared(np.zeros(3, graphc.config.floatX)).dtype == "float32"
