"""What MLX alone has: devices, dtypes it lacks, a C++ compiler that may be missing."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, ModeError, UnsupportedOperationError
from graphc.link.mlx.arrays import MAX_OPERATIONS
from graphc.link.mlx.gaps import GAPS
from graphc.link.mlx.segments import size_of
from graphc.tensor.core.elementwise import ROWS

x, z = gt.vector("x"), gt.zvector("z")
ONES = np.ones(3)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """As though there were a GPU; nothing can run on it."""
    monkeypatch.setattr(mx, "is_available", lambda device: True)


# Devices.


@pytest.mark.parametrize("device", ["cpu", mx.cpu, mx.Device(mx.cpu, 0)])
def test_a_mode_may_name_a_device(device: Any) -> None:
    w = graphc.shared(ONES)
    f = graphc.function([x], x + w, updates=[(w, w * 2)], mode=graphc.Mode("MLX", device=device))
    f(ONES)
    np.testing.assert_array_equal(np.asarray(f(ONES)), ONES * 3)
    assert f"MLX {mx.__version__}, on cpu (" in str(f.plan())
    assert float((x.sum() + 1).eval({x: ONES}, mode=graphc.Mode("MLX", device=device))) == 4.0


@pytest.mark.parametrize("device", ["tpu", "gpu", "cpu:1", mx.gpu, mx.Device(mx.cpu, 7), 3])
def test_a_device_that_is_not_there_is_refused_with_those_that_are(device: Any) -> None:
    if mx.is_available(mx.gpu) and device in ("gpu", mx.gpu):
        pytest.skip("there is a GPU")
    with pytest.raises(ModeError, match=r"device=.*: MLX has no such device.\nIt has .*'cpu'"):
        graphc.function([x], x * 2, mode=graphc.Mode("MLX", device=device))


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("compile", 1, "compile=1: expected 'auto' or True or False, or None"),
        ("compile", "no", "compile='no'"),
        ("float64", "float32", "float64='float32': expected 'downcast', or None"),
        ("fallback", "jax", "fallback='jax'"),
        ("threads", 2, r"no option threads.\nIt has check, .*compile, device, fallback, float64"),
    ],
)
def test_an_option_of_another_value_is_refused(option: str, value: Any, words: str) -> None:
    with pytest.raises(ModeError, match=words):
        graphc.Mode("MLX", **{option: value})


# Dtypes.


def test_an_option_that_is_none_is_left_out() -> None:
    assert graphc.Mode("MLX", compile=None, device=None, fallback=None) == graphc.Mode("MLX")
    assert graphc.Mode("MLX", compile=False).change(compile=None) == graphc.Mode("MLX")


def test_all_that_needs_complex128_is_named_with_its_lines() -> None:
    rows = graphc.scan(lambda v, c: c * v, sequences=z, outputs_info=z[0])
    with pytest.raises(UnsupportedOperationError) as error:
        graphc.function([z], [rows, gt.exp(z).real, gt.abs(z)], mode="MLX")
    text = str(error.value)
    assert text.startswith(
        "mode='MLX' does not support complex128: its complex numbers are complex64."
    )
    for part in ("  z: complex128[?]   test_backend.py:", "  z * ", "  exp(z)", "  z[0]"):
        assert part in text
    # Neither the magnitudes nor the real parts are complex.
    assert "real(" not in text
    assert "abs(" not in text
    assert "float64='downcast'" in text


def test_complex64_is_there() -> None:
    c = gt.cvector("c")
    y = graphc.function([c], c * (1 + 2j), mode="MLX", returns="native")(np.complex64([1j, 2]))
    assert y.dtype == mx.complex64
    np.testing.assert_allclose(np.asarray(y), [-2 + 1j, 2 + 4j], 1e-6)


def test_float64_is_kept_on_the_processor() -> None:
    mode = graphc.Mode("MLX", device="cpu", returns="native")
    third = graphc.function([x], x / 3, mode=mode)(ONES)
    assert third.dtype == mx.float64
    np.testing.assert_array_equal(np.asarray(third), ONES / 3)


@pytest.mark.usefixtures("gpu")
def test_float64_on_a_gpu_is_refused_with_all_that_needs_it_and_ways_out() -> None:
    on_gpu = graphc.Mode("MLX", device="gpu")
    rows = graphc.scan(lambda v, s: gt.tanh(s * v), sequences=x, outputs_info=x[0])
    table = np.linspace(0, 1, 20)
    choice = graphc.cond(x.sum() > 0, lambda: gt.sin(x), lambda: x)
    with pytest.raises(UnsupportedOperationError) as error:
        graphc.function([x], [rows, table, choice, x > 0], mode=on_gpu)
    text = str(error.value)
    assert text.startswith("mode='MLX' does not support float64 on a GPU: ")
    for part in ("  x: float64[?]   test_backend.py:", "  tanh(", "  array: float64[20]", "  sin("):
        assert part in text
    assert " > 0.0" not in text
    for way in ("Mode('MLX', float64='downcast')", "Mode('MLX', device='cpu')", "floatX"):
        assert way in text


@pytest.mark.usefixtures("gpu")
def test_float32_is_there_on_a_gpu_and_so_is_float64_that_is_downcast() -> None:
    v = gt.fvector("v")
    graphc.function([v], [gt.tanh(v) + v.mean(), v.shape], mode=graphc.Mode("MLX", device="gpu"))
    narrow = graphc.Mode("MLX", device="gpu", float64="downcast")
    f = graphc.function([x, z], [gt.tanh(x) @ np.linspace(0, 1, 20), z * 2], mode=narrow)
    assert [y.type.dtype for y in f.graph.outputs] == ["float32", "complex64"]


# What the documentation says.


def test_the_page_on_backends_says_exactly_what_the_tables_say() -> None:
    docs = Path(__file__).parents[3] / "docs"
    script = runpy.run_path(str(docs / "tables.py"))
    page = (docs / "backends.md").read_text(encoding="utf-8")
    assert script["fill_tables"]("backends", page) == page
    assert all(made() in page for made in script["BLOCKS"]["backends"].values())
    assert all(gap.reason in page for gap in GAPS)


@pytest.mark.parametrize("excluding", [(), ("all",)], ids=["rewritten", "as written"])
def test_a_complex_constant_is_a_result_in_narrow_dtypes_alone(excluding: tuple[str, ...]) -> None:
    results = [gt.constant(1j), gt.stack([gt.constant(1j), gt.constant(2j)])]
    mode = graphc.Mode("MLX", compile=False, excluding=excluding)
    with pytest.raises(UnsupportedOperationError, match="does not support complex128"):
        graphc.function([], results, mode)
    narrow = graphc.function([], [y.astype("complex64") for y in results], mode, returns="numpy")
    assert [x.tolist() for x in narrow()] == [1j, [1j, 2j]]


# The C++ compiler.

SCRIPT = """
import sys, warnings
import numpy as np, graphc, graphc.tensor as gt
x = gt.vector("x")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for mode in (graphc.Mode("MLX", compile=False), "MLX", "MLX"):
        f = graphc.function([x], gt.tanh(x * 2) + mode_number(mode), mode=mode)
        np.testing.assert_allclose(f([0.5]), np.tanh([1.0]) + mode_number(mode))
        print([str(w.message) for w in caught if w.category is RuntimeWarning])
"""


def printed(script: str, **environment: str) -> list[str]:
    """The lines that a script prints in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_missing_compiler_is_told_of_once_and_results_are_right() -> None:
    first, second, third = printed("def mode_number(mode): return len(str(mode))" + SCRIPT, PATH="")
    assert first == "[]"
    assert second.count("no C++ compiler") == 1
    assert "apt install g++" in second
    assert "Mode('MLX', compile=False)" in second
    assert third == second


KERNELS = """
import os, warnings
import numpy as np, graphc, graphc.tensor as gt
x = gt.vector("x")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for number in (3, 4):
        mode = graphc.Mode("MLX", compile=True)
        f = graphc.function([x], gt.tanh(x * number) + gt.exp(x), mode=mode)
        np.testing.assert_allclose(f([0.5]), np.tanh([0.5 * number]) + np.exp([0.5]))
print(os.environ["TMPDIR"])
print(*[str(w.message) for w in caught if w.category is RuntimeWarning])
"""


def kernels(place: Path) -> list[Path]:
    return [path for path in place.glob("mlx/*/cpu/*.so") if path.is_file()]


@pytest.mark.exhaustive
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler to test")
def test_kernels_are_kept_where_others_cannot_write(tmp_path: Path) -> None:
    temporary, cache = tmp_path / "temporary", tmp_path / "cache"
    temporary.mkdir()
    settings = {"TMPDIR": str(temporary), "GRAPHC_CACHE_DIR": str(cache)}
    used, warned = printed(KERNELS, **settings)
    assert (used, warned) == (str(temporary), "")
    assert kernels(temporary)
    (version,) = (temporary / "mlx").iterdir()
    assert [path.stat().st_mode & 0o777 for path in (version.parent, version)] == [0o700] * 2
    # Where others can write, theirs are not loaded, and the process keeps its own elsewhere.
    version.chmod(0o777)
    planted = kernels(temporary)
    for path in planted:
        path.write_bytes(b"no library")
    used, warned = printed(KERNELS, **settings)
    assert used == str(cache / "mlx-kernels")
    assert kernels(Path(used))
    assert f"{version} can be written to by others" in warned
    assert f"run: chmod go-w '{version}'" in warned
    assert warned.count("temporary directory of this process") == 1


@pytest.mark.exhaustive
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler to test")
def test_kernels_have_a_directory_of_their_own_without_a_cache(tmp_path: Path) -> None:
    (tmp_path / "mlx").write_text("no directory")
    used, warned = printed(KERNELS, TMPDIR=str(tmp_path), GRAPHC_CACHE_DIR="off")
    assert used.startswith(str(tmp_path / "graphc-"))
    assert not Path(used).exists()  # it is removed at the end
    assert "cannot be used" in warned


def test_mlx_that_is_not_installed_is_asked_for() -> None:
    (line,) = printed(
        "import sys\n"
        "sys.modules['mlx'] = None\n"
        "import graphc, graphc.tensor as gt\n"
        "x = gt.scalar('x')\n"
        "assert float(graphc.function([x], x + 1, mode='NUMPY')(1.0)) == 2.0\n"
        "try:\n"
        "    graphc.function([x], x + 1, mode='MLX')\n"
        "except graphc.errors.ModeError as error:\n"
        "    print(str(error).replace(chr(10), ' '))\n"
    )
    assert line.startswith("mode='MLX' needs the package mlx")
    assert "pip install 'graphc[mlx]'" in line


@pytest.mark.parametrize("excluding", [(), ("all",)], ids=["rewritten", "as written"])
def test_a_length_may_follow_from_what_numpy_has_no_name_for(excluding: tuple[str, ...]) -> None:
    k, v = gt.lscalar("k"), gt.TensorType("float32", (None,))("v")
    weights = gt.softmax(gt.ones((k,)).astype("float32") * 2)
    n = gt.cast(gt.round(weights.sum() * 2), "int64")
    constant = gt.log_softmax(gt.constant(np.zeros(2, np.float32)))
    mode = graphc.Mode("MLX", compile=False, excluding=excluding)
    f = graphc.function([v, k], [v[:n], constant], mode, returns="numpy")
    found, logs = f(np.arange(4, dtype=np.float32), 3)
    np.testing.assert_array_equal(found, [0, 1])
    np.testing.assert_allclose(logs, np.full(2, -np.log(2)), 1e-6)


OF_ONE = gt.vector("of_one", dtype="float32")


@pytest.mark.parametrize(
    "y",
    [
        OF_ONE * 2,
        graphc.scan(lambda a, h: gt.tanh(a * h), sequences=OF_ONE, outputs_info=OF_ONE[0]),
        OF_ONE[OF_ONE > 0],
        graphc.cond(OF_ONE[0] > 0, lambda: OF_ONE, lambda: -OF_ONE),
    ],
    ids=["straight", "loop", "mask", "branch"],
)
@pytest.mark.parametrize("how", ["grad", "vmap", "jvp"])
def test_a_call_within_a_transformation_of_mlx_is_refused_with_what_to_do(y: Any, how: str) -> None:
    f = graphc.function([OF_ONE], y, mode=graphc.Mode("MLX", compile=False))
    ones = mx.ones((3, 50))
    ways = {
        "grad": lambda: mx.grad(lambda a: f(a).sum())(ones[0]),
        "vmap": lambda: mx.vmap(f)(ones),
        "jvp": lambda: mx.jvp(f, [ones[0]], [ones[0]]),
    }
    words = r"mx.compile, mx.grad, mx.vmap(.|\n)*graphc.grad(.|\n)*test_backend.py:\d+"
    with pytest.raises(ArgumentError, match=words):
        ways[how]()
    assert f(ones[0]).shape == (50,)


def test_a_traced_array_of_mlx_becomes_no_other_dtype_and_no_shared_value() -> None:
    f = graphc.function([OF_ONE], OF_ONE * 2, mode="MLX")
    w = graphc.shared(np.ones(3, np.float32))
    for use in (lambda a: f(a.astype(mx.float16)), w.set_value):
        with pytest.raises(ArgumentError, match="Values are needed of what mx"):
            mx.vmap(use)(mx.ones((2, 3)))


# Lowerings of a thousand operations.


def test_a_loop_with_a_special_function_in_its_step_has_shorter_chunks() -> None:
    b, xs = gt.scalar("b"), gt.vector("xs")
    hs = graphc.scan(
        lambda x_t, h, b: gt.betainc(1.5 + h, b, 0.2 + 0.6 * h * x_t),
        sequences=xs,
        outputs_info=gt.constant(0.4),
        non_sequences=b,
    )
    outputs = [hs, *graphc.grad((hs * hs).sum(), [b, xs])]
    given = 2.5, np.linspace(0.3, 0.9, 12)
    wanted = graphc.function([b, xs], outputs, "NUMPY")(*given)
    found = graphc.function([b, xs], outputs, "MLX", returns="numpy")(*given)
    for y, exact in zip(found, wanted, strict=True):
        np.testing.assert_allclose(y, exact, 1e-11)
    sizes = [size_of(ROWS[name](*[b] * ROWS[name].arity)) for name in ("betainc", "betaincinv")]
    assert sizes[0] > 500
    assert sizes[1] > MAX_OPERATIONS
