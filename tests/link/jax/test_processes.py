"""Executables on JAX from process to process, and on several devices."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from graphc.link import load

ROOT = Path(__file__).parents[3]
backend = load("JAX")

FILES = """
import sys
from pathlib import Path
import numpy as np, jax, jax.numpy as jnp
from graphc.link import CompileContext
from graphc.link.jax.executables import Executables
from graphc.link.jax.call_key import KnownArguments

class Files(CompileContext):
    kinds = []
    def executable(self, name, load, compile):
        place = FOLDER / name
        found = load(place.read_bytes()) if place.exists() else None
        if found is None:
            found, serialized = compile()
            data = serialized()
            if data is not None:
                place.write_bytes(data)
        return found
    def record(self, kind, shapes, values, seconds):
        self.kinds.append(kind)

context = Files()
traced = []
def executable(function, **how):
    def noted(*arguments):
        traced.append(function)
        return function(*arguments)
    how = {"donated": (), "pure": True} | how
    how |= {"known": KnownArguments(), "foreign": False}
    return Executables(noted, context=context, **how).caller()
"""


def run(script: str, folder: Path | None = None, **environment: str) -> str:
    """What a new process prints."""
    text = f"FOLDER = None\n{FILES}" if folder is None else FILES
    source = f"from pathlib import Path\nFOLDER = Path({str(folder)!r})\n{text}\n{script}"
    done = subprocess.run(
        [sys.executable, "-c", source],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_another_process_neither_traces_nor_compiles(tmp_path: Path) -> None:
    script = """
compiled = []
def note(event, seconds, **rest):
    compiled.append(event)
jax.monitoring.register_event_duration_secs_listener(note)
def f(a, b):
    doubled = jax.lax.while_loop(lambda x: x.sum() < 99, lambda x: 2 * x, b)
    return [jnp.sort(a @ b), jnp.fft.fft(a), doubled]
x = np.arange(16, dtype="float32").reshape(4, 4)
found = executable(f)(x, x)
total = sum(float(abs(np.asarray(y)).sum()) for y in found)
compiled = [event for event in compiled if "compile" in event or "trace" in event]
print(context.kinds, len(traced), bool(compiled), total)
"""
    first, second = (run(script, tmp_path).strip() for _ in range(2))
    assert first.startswith("['compile'] 1 True")
    assert second.startswith("['load'] 0 False")
    assert first.split()[-1] == second.split()[-1]


def test_linear_algebra_runs_where_nothing_was_traced(tmp_path: Path) -> None:
    """LAPACK is not there until JAX lowers something of it; a call would crash the process."""
    script = """
x = np.diag(np.arange(4, 0, -1)).astype("float32")
f = executable(lambda x: jnp.linalg.eigvalsh(x))
print(context.kinds or "", np.asarray(f(x)), context.kinds)
"""
    assert run(script, tmp_path).split()[-1] == "['compile']"
    found = run(script, tmp_path)
    assert found.split() == ["[1.", "2.", "3.", "4.]", "['load']"]


TWO = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}


@pytest.mark.exhaustive
def test_executables_stay_on_their_devices(tmp_path: Path) -> None:
    script = """
a, b = jax.devices()
execute = executable(lambda x: x * 2)
x = np.arange(3, dtype="float32")
def where(y):
    np.testing.assert_array_equal(y, x * 2)
    return next(iter(y.devices())).id
found = []
for _ in range(2):
    found.append(where(execute(x)))
    found += [where(execute(jax.device_put(x, device))) for device in (b, a)]
    with jax.default_device(b):
        found.append(where(execute(x)))
print(found, context.kinds)
"""
    # ``jax.jit`` compiles unasked where arguments differ in their devices alone, so that it takes
    # some processes until all four are kept.
    found = [run(script, tmp_path, **TWO).strip() for _ in range(4)]
    assert all(line.startswith("[0, 1, 0, 1, 0, 1, 0, 1] ") for line in found)
    assert found[0].endswith("['compile', 'compile']")
    assert found[3].endswith("['load', 'load', 'load', 'load']")


@pytest.mark.exhaustive
def test_executables_of_arrays_spread_over_devices_are_kept(tmp_path: Path) -> None:
    script = """
from jax.sharding import Mesh, NamedSharding, PartitionSpec
rows = NamedSharding(Mesh(np.array(jax.devices()), "a"), PartitionSpec("a"))
x = np.arange(8, dtype="float32")
execute = executable(lambda x: x * 2)
execute(x)
y = execute(jax.device_put(x, rows))
np.testing.assert_array_equal(y, x * 2)
print(len(y.devices()), context.kinds, len([*FOLDER.iterdir()]))
"""
    assert run(script, tmp_path, **TWO).strip() == "2 ['compile', 'compile'] 2"
    assert run(script, tmp_path, **TWO).strip() == "2 ['load', 'load'] 2"


@pytest.mark.exhaustive
def test_a_mode_with_a_device_has_executables_there(tmp_path: Path) -> None:
    script = """
from tests.link.executables import made, gt
x = gt.vector("x")
context = Files()
execute = made([x], [x * 2], context, has_program=not [*FOLDER.iterdir()], device="cpu:1")
y = execute(np.arange(3.0))
assert y.dtype == "float64" and y.tolist() == [0, 2, 4]
print(next(iter(y.devices())).id, context.kinds)
"""
    assert run(script, tmp_path, **TWO).strip() == "1 ['compile']"
    assert run(script, tmp_path, **TWO).strip() == "1 ['load']"


@pytest.mark.exhaustive
def test_the_build_names_all_that_executables_depend_on() -> None:
    text = backend.build({})
    assert jax.__version__ in text
    assert jax.devices()[0].device_kind in text
    script = "from graphc.link import load; print(load('JAX').build({}))"
    assert run(script).strip() == text
    assert run(script, **TWO).strip() != text
    assert run(script, XLA_FLAGS="--xla_cpu_enable_fast_math=true").strip() != text


@pytest.mark.exhaustive
def test_where_jax_keeps_executables_itself_none_is_kept_twice(tmp_path: Path) -> None:
    """One that JAX has read from its own files loads once more, and then fails when it runs."""
    script = f"""
import jax
import pytest
jax.config.update("jax_compilation_cache_dir", {str(tmp_path)!r})
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
import numpy as np
from tests.link.executables import Kept, made, gradient, same
inputs, outputs, arguments = gradient()
context = Kept()
first = made(inputs, outputs, context)(*arguments)
same(made(inputs, outputs, context)(*arguments), first)
assert context.kinds == ["compile", "compile"] and not context.data
"""
    for _ in range(2):
        run(script)
