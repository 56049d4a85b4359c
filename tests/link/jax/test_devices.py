"""Choices for a GPU: in plans and programs for one, and lowered for CUDA where there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import graphc
import graphc.tensor as gt
from graphc.attention import flex_attention
from graphc.implicit import quantize
from graphc.link.jax import devices
from graphc.link.jax.backend import platform_of
from graphc.link.jax.devices import CHOICES, compiling_for
from graphc.link.jax.exported import export_stablehlo
from graphc.link.jax.implicit import quantized
from graphc.loop.loop import Loop

RANDOM = np.random.default_rng(5)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modes without a device are for a GPU; calls still run here."""
    monkeypatch.setattr("graphc.link.jax.backend.default_platform", lambda: "gpu")
    monkeypatch.setattr(devices, "default_platform", lambda: "gpu")


def lowered(f: graphc.Function, *arguments: Any, platform: str = "cuda") -> str:
    """The StableHLO of a function for a platform that need not be here."""
    return jax.jit(f.pure).trace(*arguments).lower(lowering_platforms=(platform,)).as_text()


def recurrent(n: int = 24, **options: Any) -> graphc.Function:
    x, w = gt.tensor("x", shape=(n, 3), dtype="float32"), gt.matrix("w", dtype="float32")
    step: Callable[..., Any] = lambda row, h: gt.tanh(row + h @ w)  # noqa: E731
    start = gt.zeros(3, "float32")
    states = graphc.scan(step, sequences=x, outputs_info=start, **options)
    return graphc.function([x, w], states.sum(), mode=graphc.Mode("JAX"))


def steps_in(text: str) -> int:
    """How many steps a scan writes out: JAX lowers a step to a function that it calls."""
    return text.count("call @closed_call")


def test_every_choice_has_a_reason_and_a_source() -> None:
    for choice in CHOICES.values():
        assert choice.reason
        assert choice.source
        assert choice.on("cpu") != choice.on("gpu")


def test_a_scan_for_a_gpu_writes_out_as_many_steps_as_fit() -> None:
    f, operands = recurrent(), (jnp.ones((24, 3)), jnp.ones((3, 3)))
    # A product, a sum and a tanh are a step: 21 steps are within 64 operations, and 12 twice 24.
    (op,) = {x.op for x in f.plan().program.graph.nodes if isinstance(x.op, Loop)}
    assert sum(bool(node.inputs) for node in op.step.nodes) == 3
    assert steps_in(lowered(f, *operands, platform="cpu")) == 1
    assert steps_in(lowered(f, *operands)) == 12
    assert steps_in(lowered(f, *operands, platform="rocm")) == 12


def test_a_program_in_a_file_is_for_its_platform() -> None:
    types = [("float32", (24, 3)), ("float32", (3, 3))]
    for platforms, steps in ((["cuda"], 12), (["cpu"], 1), (["cpu", "cuda"], 1)):
        data, _ = export_stablehlo(recurrent().pure, types, platforms, 0)
        exported = export.deserialize(bytearray(data))
        assert steps_in(str(exported.mlir_module())) == steps


def test_the_users_unroll_takes_precedence_on_every_device() -> None:
    operands = jnp.ones((24, 3)), jnp.ones((3, 3))
    assert steps_in(lowered(recurrent(unroll=2), *operands)) == 2


def test_a_scan_of_few_steps_has_no_more_than_these() -> None:
    assert steps_in(lowered(recurrent(5), jnp.ones((5, 3)), jnp.ones((3, 3)))) == 5


def test_programs_are_for_the_device_of_their_arguments_and_not_for_the_default_one(
    gpu: None,
) -> None:
    here = graphc.Mode("JAX", device="cpu")
    assert platform_of(here.options) == "cpu"
    assert platform_of({}) == "gpu"
    # A mode may name a device that is not here, until a program is compiled.
    assert "linear_recurrence" in graphc.Mode("JAX", device="cuda:7").included
    assert "linear_recurrence" in graphc.Mode("JAX").included
    assert "linear_recurrence" not in here.included
    assert "linear_recurrence" not in graphc.Mode("JAX").change(device="cpu").included
    assert repr(graphc.Mode("JAX")) == "Mode('JAX')"
    f = recurrent()
    # The arguments are on a CPU, whose key the executable has.
    x, w = np.ones((24, 3), "float32"), np.ones((3, 3), "float32")
    cpu = jax.devices("cpu")[0]
    text = backend_text(f, jax.device_put(x, cpu), jax.device_put(w, cpu))
    assert steps_in(text) == 1


def backend_text(f: graphc.Function, *arguments: Any) -> str:
    """What a call compiles."""
    texts = []
    original = jax.stages.Lowered.compile

    def compile(self: Any, *args: Any, **kwargs: Any) -> Any:
        texts.append(self.as_text())
        return original(self, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax.stages.Lowered, "compile", compile)
        f(*arguments)
    return "\n".join(texts)


def test_values_do_not_depend_on_the_choices(gpu: None) -> None:
    a, b = gt.matrices("a", "b")
    states = graphc.scan(lambda a, b, h: a * h + gt.exp(b), [a, b], outputs_info=gt.zeros(3))
    outputs = [states, graphc.grad((states**2).sum(), a)]
    values = RANDOM.standard_normal((2, 9, 3))
    found = graphc.function([a, b], outputs, mode=graphc.Mode("JAX"))(*values)
    wanted = graphc.function([a, b], outputs, mode="NUMPY")(*values)
    for y, z in zip(found, wanted, strict=True):
        np.testing.assert_allclose(y, z, rtol=1e-10, atol=1e-12)
    loop = recurrent()
    x, w = (RANDOM.standard_normal(n).astype("float32") for n in ((24, 3), (3, 3)))
    with compiling_for(["cuda"]):
        here = jax.jit(loop.pure)(x, w)
    np.testing.assert_allclose(here, loop(x, w), rtol=1e-5)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_recurrence_keeps_zeros_though_a_product_of_its_factors_overflows(reverse: bool) -> None:
    a, b = gt.vectors("a", "b")
    h = graphc.scan(
        lambda a, b, h: a * h + b, [a, b], outputs_info=gt.as_tensor(0.0), go_backwards=reverse
    )
    mode = graphc.Mode("JAX").including("linear_recurrence")
    f = graphc.function([a, b], h, mode=mode)
    assert not [x for x in f.plan().program.graph.nodes if isinstance(x.op, Loop)]
    factors, terms = np.full(12, 1e60), np.zeros(12)
    np.testing.assert_array_equal(f(factors, terms), np.zeros(12))
    # An infinite factor times zero is NaN, as in a loop.
    factors[5] = np.inf
    assert np.isnan(f(factors, terms)).any()


# Plans.


def test_a_plan_says_what_was_chosen_for_which_device(gpu: None) -> None:
    text = str(recurrent().plan())
    assert "for gpu: " in text
    assert "steps of a scan written out at a time" in text
    x = gt.matrix("x")
    elsewhere = graphc.function([x], graphc.map(gt.sum, x), mode=graphc.Mode("JAX", device="cpu"))
    assert "for gpu" not in str(elsewhere.plan())


def test_a_plan_names_each_call_of_numpy_with_its_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    m = gt.tensor("m", shape=(5, 5), dtype="float64")
    f = graphc.function([m], gt.linalg.sqrtm(m), mode=graphc.Mode("JAX"))
    assert "NumPy on the host: the device waits, and 400 bytes cross" in str(f.plan())
    # In a step of a loop, too.
    walk = graphc.scan(gt.linalg.sqrtm, outputs_info=m, n_steps=3)
    assert "NumPy on the host" in str(graphc.function([m], walk[-1], mode="JAX").plan())
    # Schur forms are LAPACK's on a CPU alone.
    schur = graphc.function([m], gt.linalg.schur(m)[0], mode=graphc.Mode("JAX"))
    assert "NumPy on the host" not in str(schur.plan())
    monkeypatch.setattr("graphc.link.jax.backend.default_platform", lambda: "gpu")
    assert "NumPy on the host: the device waits, and 600 bytes cross" in str(schur.plan())


def packed(kind: str, shape: tuple[int, int] = (64, 96), axis: int = -1) -> Any:
    return quantize(RANDOM.standard_normal(shape).astype("float32"), kind, axis=axis)


def test_a_plan_says_if_a_weight_is_made_dense(gpu: None) -> None:
    x, w = gt.tensor("x", shape=(3, 64), dtype="float32"), graphc.shared(packed("int4"))
    product = graphc.function([x], x @ w, mode=graphc.Mode("JAX"))
    assert "decode some 16,777,216 packed elements" in str(product.plan())
    assert "became dense" not in str(product.plan())
    powers = str(graphc.function([x], x @ gt.exp(w), mode=graphc.Mode("JAX")).plan())
    assert "AffineQuantized, float32[64, 96], 24576 bytes, became dense for exp" in powers
    z = gt.matrix("z", dtype="float32")
    unknown = graphc.function([z], z @ gt.exp(w), mode=graphc.Mode("JAX"))
    assert "call plan(*args) to see which implicit arrays" in str(unknown.plan())
    assert "became dense for exp" in str(unknown.plan(np.ones((3, 64), "float32")))


def test_a_plan_says_if_a_gpu_decodes_a_weight_whole(gpu: None) -> None:
    x = gt.tensor("x", shape=(3, 64), dtype="float32")
    f = graphc.function([x], x @ packed("int4"), mode=graphc.Mode("JAX"))
    assert "the weight is decoded at once: dense, unless XLA fuses" in str(f.plan())


# Lowered for CUDA.


@pytest.mark.parametrize("axis", [-1, -2])
@pytest.mark.parametrize("kind", ["int4", "int8", "nf4", "mxfp4", "ternary"])
def test_a_gpu_decodes_packed_codes_for_one_product(
    kind: str, axis: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    w, x = packed(kind, axis=axis), gt.matrix("x", dtype="float32")
    f = graphc.function([x], x @ w, mode="JAX")
    for rows in (1, 5):
        values = RANDOM.standard_normal((rows, 64)).astype("float32")
        text = lowered(f, jnp.asarray(values))
        assert text.count("stablehlo.dot_general") >= 1
        assert "stablehlo.while" not in text
        # The same method here, in one block and in several.
        for elements in (2**24, 1_000):
            with monkeypatch.context() as patch:
                patch.setattr(quantized, "current_kind", lambda: "gpu")
                patch.setattr(quantized, "device_choice", lambda name, kind, n=elements: n)
                quantized._forward.clear_cache()
                found = graphc.function([x], x @ w, mode="JAX")(values)
            wanted = values.astype("float64") @ np.asarray(w.materialize(), "float64")
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("rows", [1, 6])
def test_a_product_of_integers_stays_one_of_integers_for_cuda(rows: int) -> None:
    x = gt.matrix("x", dtype="float32")
    f = graphc.function([x], x @ packed("w8a8", axis=-2), mode="JAX")
    text = lowered(f, jnp.ones((rows, 64), "float32"))
    products = [line for line in text.splitlines() if "stablehlo.dot_general" in line]
    assert len(products) == 1
    assert "xi8>" in products[0]
    assert "xi32>" in products[0]
    assert "f32" not in products[0].partition(" loc(")[0]


def gradients() -> list[Any]:
    x, w = gt.tensor("x", shape=(7, 3)), gt.matrix("w")
    states = graphc.scan(lambda row, h: gt.tanh(row + h @ w), x, outputs_info=gt.zeros(3))
    return [[x, w], graphc.grad(states.sum(), w), (7, 3), (3, 3)]


def until() -> list[Any]:
    x = gt.vector("x")
    y = graphc.while_loop(lambda x: (x**2).sum() > 1, lambda x: x / 2, x)
    return [[x], y, (5,)]


def attention() -> list[Any]:
    q, k, v = (gt.tensor(name, shape=(1, 2, 300, 16), dtype="float32") for name in "qkv")
    out = flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: gt.where(i >= j, s, -np.inf))
    return [[q, k, v], out, *[(1, 2, 300, 16)] * 3]


def one(f: Callable[[Any], Any], *shape: int) -> Callable[[], list[Any]]:
    def program() -> list[Any]:
        x = gt.tensor("x", shape=shape)
        return [[x], f(x), shape]

    return program


PROGRAMS: dict[str, Callable[[], list[Any]]] = {
    "gradient of a loop": gradients,
    "while loop": until,
    "attention": attention,
    "product": one(lambda x: x @ x, 4, 4),
    "convolution": one(lambda x: gt.signal.convolve2d(x, x), 4, 6),
    "Cholesky": one(lambda x: gt.linalg.cholesky(x @ x.T), 4, 5),
    "eigenvalues": one(gt.linalg.eigvals, 4, 4),
    "SVD": one(lambda x: gt.linalg.svd(x)[1], 4, 5),
    "sort": one(gt.argsort, 9),
    "scatter": one(lambda x: gt.inc_subtensor(x[gt.cast(x, "int64")], x), 9),
    "recurrence": one(gt.cumsum, 9),
    "normal": one(lambda x: x + gt.random.normal(rng=gt.random.key(3), size=(9,)), 9),
    "gamma": one(lambda x: x * gt.random.gamma(x, rng=gt.random.key(3)), 9),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_lowered_for_cuda(name: str) -> None:
    inputs, y, *shapes = PROGRAMS[name]()
    f = graphc.function(inputs, y, mode="JAX")
    assert "stablehlo" in lowered(f, *[jnp.ones(shape, "float32") for shape in shapes])
