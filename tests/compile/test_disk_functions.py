"""Functions whose programs are on disk: later processes find them, and never a wrong one."""

import json
import os
import pickle
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.compile import cache as cache_module, entry as entry_module
from graphc.compile.cache import PROGRAMS
from graphc.ir import Graph, TensorType
from graphc.link import load
from graphc.rewrite import optimize
from tests.compile.processes import answer, started
from tests.disks import posix

RNN = """
x, h0, W = gt.matrix("x"), gt.vector("h0"), gt.matrix("W")
states = graphc.scan(
    lambda x_t, h, W: gt.tanh(h @ W + x_t), sequences=x, outputs_info=h0, non_sequences=W
)
loss = (states[-1] ** 2).sum()
def arguments():
    random = np.random.default_rng(0)
    return random.normal(size=(5, 3)), random.normal(size=3), random.normal(size=(3, 3))
"""

RUN = """
mode = sys.argv[1]
traced_by_python(mode)
kinds, compiled_by_jax = [], []
if mode == "JAX":
    import jax
    jax.devices()
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **options: compiled_by_jax.append(event)
    )
if sys.argv[2:] == ["wait"]:
    print("ready", flush=True)
    sys.stdin.readline()
with graphc.events.subscribe(lambda event: kinds.append(event.kind)):
    f = graphc.function([x, h0, W], [loss, graphc.grad(loss, W)], mode=mode)
    found = f(*arguments())
traces = [event for event in compiled_by_jax if "trace" in event or "compile" in event]
print(json.dumps([len(rewrites), kinds, traces, values(found)]))
"""


@pytest.fixture(autouse=True)
def _all_kept(_pinned: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fast machine keeps all that a slow one does; what is compared is not a user's storm."""
    monkeypatch.setattr("graphc.compile.cache.WORTH_SAVING", 0.0)
    monkeypatch.setattr(graphc.config, "recompile", "ignore")


def entries(cache: Path) -> list[Path]:
    return sorted(cache.glob("*.entry"))


modes = pytest.mark.parametrize("mode", ["NUMPY", "JAX", "MLX"])


# A second process.


@pytest.mark.sample(every=3)
@modes
def test_a_second_process_starts_without_rewriting(tmp_path: Path, mode: str) -> None:
    runs = [answer(started(RNN + RUN, tmp_path / "cache", mode)) for _ in range(2)]
    assert [rewrites for rewrites, *_ in runs] == [1, 0]
    first, second = (found for *_, found in runs)
    assert first == second
    random = np.random.default_rng(0)
    x, h, w = random.normal(size=(5, 3)), random.normal(size=3), random.normal(size=(3, 3))
    for x_t in x:
        h = np.tanh(h @ w + x_t)
    np.testing.assert_allclose(first[0], (h**2).sum(), rtol=1e-12)


def test_a_second_process_neither_traces_nor_compiles_with_jax(tmp_path: Path) -> None:
    first, second = (answer(started(RNN + RUN, tmp_path, "JAX")) for _ in range(2))
    assert first[1] == ["compile"]
    assert any("backend_compile" in event for event in first[2])
    assert second[1:3] == [["load"], []]


STREAM = """
mode = sys.argv[1]
traced_by_python(mode)
stream = gt.random.RandomStream(7)
draws = graphc.scan(lambda s: s + stream.normal(), outputs_info=0.0, n_steps=3)
f = graphc.function([], [stream.uniform(size=4), draws], mode=mode)
# What an earlier process left is where this one goes on.
for (key, _), value in zip(stream.state_updates, json.loads(sys.argv[2]), strict=False):
    key.set_value(np.array(value, "uint32"))
found = [values(f()) for _ in range(2)]
keys = [key.get_value().tolist() for key, _ in stream.state_updates]
print(json.dumps([len(rewrites), found, keys]))
"""


@pytest.mark.sample(every=3)
@modes
def test_a_second_process_goes_on_with_a_streams_draws(tmp_path: Path, mode: str) -> None:
    rewrites, first, keys = answer(started(STREAM, tmp_path / "cache", mode, "[]"))
    again, second, _ = answer(started(STREAM, tmp_path / "cache", mode, json.dumps(keys)))
    assert (rewrites, again) == (1, 0)
    stream = gt.random.RandomStream(7)
    draws = graphc.scan(lambda s: s + stream.normal(), outputs_info=0.0, n_steps=3)
    f = graphc.function([], [stream.uniform(size=4), draws], mode="NUMPY")
    for found in [*first, *second]:
        for x, y in zip(found, f(), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-6)


@pytest.mark.sample(every=3)
@modes
def test_a_process_without_a_cache_writes_nothing(tmp_path: Path, mode: str) -> None:
    code = f"graphc.config.cache_dir = None\n{RNN}{RUN}"
    assert answer(started(code, tmp_path, mode))[0] == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.sample(every=3)
@modes
def test_damaged_entries_are_made_anew(tmp_path: Path, mode: str) -> None:
    first = answer(started(RNN + RUN, tmp_path, mode))
    paths = entries(tmp_path)
    assert paths
    for i, path in enumerate(paths):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1 + i
        path.write_bytes(data)
    second = answer(started(RNN + RUN, tmp_path, mode))
    third = answer(started(RNN + RUN, tmp_path, mode))
    assert [first[0], second[0], third[0]] == [1, 1, 0]
    assert first[3] == second[3] == third[3]
    assert entries(tmp_path) == paths


# Many processes.


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", ["NUMPY", "JAX"])
def test_eight_processes_at_once_make_one_program(tmp_path: Path, mode: str) -> None:
    alone = answer(started(RNN + RUN, tmp_path / "alone", mode))
    processes = [started(RNN + RUN, tmp_path / "all", mode, "wait") for _ in range(8)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    found = [answer(process) for process in processes]
    assert all(values == alone[3] for *_, values in found)
    names = [path.name for path in entries(tmp_path / "alone")]
    assert [path.name for path in entries(tmp_path / "all")] == names
    if mode == "JAX":
        assert sorted(kinds for _, kinds, *_ in found) == [["compile"], *[["load"]] * 7]


# Forked where nothing has threads yet; a process that is not killed ends by itself.
KILLED = """
import os, random, signal, time
from graphc.link import load

for mode in ("NUMPY", "JAX"):
    load(mode)

def compile_for_ever(seed):
    for i in range(1000):
        n = (seed + i) % 40
        mode = ("NUMPY", "JAX")[n % 2]
        y = gt.exp(x @ x.T) * (n + 2.5)
        f = graphc.function([x], [y.sum(), graphc.grad(y.sum(), x)], mode=mode)
        f(np.eye(3) * 0.5)

x = gt.matrix("x")
source = random.Random(0)
killed = 0
patience = 0.3  # seconds; it grows until a process is fast enough to leave an entry
while killed < 16 or len(list(graphc.config.cache_dir.glob("*.entry"))) < 4:
    children = []
    for _ in range(2):
        seed = source.randrange(40)
        child = os.fork()
        if child == 0:
            compile_for_ever(seed)
            os._exit(0)
        children.append(child)
    time.sleep(patience * (0.5 + source.random()))
    patience *= 1.02
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        killed += 1
print(json.dumps(killed))
"""

AFTERWARDS = """
x = gt.matrix("x")
found = []
for n in range(40):
    y = gt.exp(x @ x.T) * (n + 2.5)
    f = graphc.function([x], y.sum(), mode=("NUMPY", "JAX")[n % 2])
    g = graphc.function([x], [y.sum(), graphc.grad(y.sum(), x)], mode=("NUMPY", "JAX")[n % 2])
    found.append([float(f(np.eye(3) * 0.5)), float(g(np.eye(3) * 0.5)[0])])
print(json.dumps([found, len(rewrites)]))
"""


@pytest.mark.exhaustive
@posix
def test_processes_killed_while_they_compile_leave_no_bad_entry(tmp_path: Path) -> None:
    assert answer(started(KILLED, tmp_path)) >= 16
    assert len(entries(tmp_path)) >= 4
    for path in entries(tmp_path):
        assert entry_module.read(str(path)[: -len(".entry")]) is not None
    found, rewrites = answer(started(AFTERWARDS, tmp_path))
    right = [(3 * np.exp(0.25) + 6) * (n + 2.5) for n in range(40)]
    np.testing.assert_allclose(found, np.stack([right, right], axis=1), rtol=1e-12)
    assert rewrites < 80  # some of what the dead had made is used


# Never another program's.


def outcome(build: Any, cache: Path, mode: str) -> tuple[Any, bool]:
    """What a function gives as if in a new process, and whether it was read from the disk."""
    PROGRAMS.clear()
    seen: list[int] = []
    with graphc.config.change_flags(cache_dir=cache), pytest.MonkeyPatch.context() as patch:
        built = cache_module.lower_program
        patch.setattr(
            cache_module, "lower_program", lambda signature: (seen.append(1), built(signature))[1]
        )
        inputs, outputs, values = build()
        found = graphc.function(inputs, outputs, mode=mode)(*values)
    return np.asarray(found).tolist(), not seen


def chain(
    last: Any = gt.tanh,
    scale: float = 2.0,
    data: np.ndarray[Any, Any] | None = None,
    dtype: str = "float64",
    axis: int = 0,
) -> Any:
    """A function of a matrix that differs in what is given."""
    x = gt.matrix("x", dtype=dtype)
    captured = np.arange(12.0).reshape(3, 4) if data is None else data
    y = last((x * scale + captured.astype(dtype)).sum(axis))
    return [x], y, [np.full((3, 4), 0.125, dtype)]


@modes
@pytest.mark.parametrize(
    "changes",
    [
        {"last": gt.cos},
        {"scale": 3.0},
        {"dtype": "float32"},
        {"axis": 1},
    ],
    ids=repr,
)
def test_a_graph_that_was_changed_is_another_program(
    tmp_path: Path, mode: str, changes: dict[str, Any]
) -> None:
    first, _ = outcome(chain, tmp_path, mode)
    changed, was_read = outcome(lambda: chain(**changes), tmp_path, mode)
    assert not was_read
    assert changed == outcome(lambda: chain(**changes), tmp_path / "other", mode)[0]
    assert changed != first
    assert outcome(chain, tmp_path, mode) == (first, True)


@modes
def test_other_captured_data_are_another_value_of_the_same_program(
    tmp_path: Path, mode: str
) -> None:
    outcome(chain, tmp_path, mode)
    data = np.linspace(0, 1, 12).reshape(3, 4)
    found, was_read = outcome(lambda: chain(data=data), tmp_path, mode)
    assert was_read
    np.testing.assert_allclose(found, np.tanh((0.25 + data).sum(0)), rtol=1e-12)


@modes
def test_data_that_decide_a_shape_are_part_of_the_program(tmp_path: Path, mode: str) -> None:

    def masked(mask: np.ndarray[Any, Any]) -> Any:
        x = gt.vector("x")
        return [x], gt.exp(x[gt.constant(mask)] * 0.5), [np.arange(12.0)]

    for cut in (3, 7, 3):
        mask = np.arange(12) < cut
        found, _ = outcome(lambda mask=mask: masked(mask), tmp_path, mode)
        np.testing.assert_allclose(found, np.exp(np.arange(cut) * 0.5), rtol=1e-12)
    assert outcome(lambda: masked(np.arange(12) < 7), tmp_path, mode)[1]


def test_a_mode_and_its_options_are_part_of_what_is_found(tmp_path: Path) -> None:
    def written() -> Any:
        x = gt.scalar("x")
        return [x], gt.log(1 + x), [1e-18]

    assert outcome(written, tmp_path, "NUMPY")[0] == 1e-18
    plain = graphc.Mode("NUMPY", excluding=["all"])
    assert outcome(written, tmp_path, plain) == (0.0, False)
    assert outcome(written, tmp_path, "NUMPY") == (1e-18, True)
    assert outcome(written, tmp_path, plain) == (0.0, True)


def test_an_entry_of_another_build_of_the_backend_is_a_miss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = outcome(chain, tmp_path, "NUMPY")
    kind = type(load("NUMPY"))
    build = kind.build
    monkeypatch.setattr(kind, "build", lambda self, options: build(self, options) + " next")
    assert outcome(chain, tmp_path, "NUMPY") == (first, False)
    assert outcome(chain, tmp_path, "NUMPY") == (first, True)


# What is not kept.


@dataclass(frozen=True)
class Doubled(graphc.Op):
    """Twice as much; its code may be another in the next process."""

    def infer(self, x: TensorType) -> TensorType:
        return x

    def perform(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return 2 * x


def test_an_operation_of_ones_own_is_not_kept(tmp_path: Path) -> None:
    def own() -> Any:
        x = gt.vector("x")
        return [x], gt.Tensor.make(Doubled(), x).sum(), [np.ones(3)]

    for _ in range(2):
        assert outcome(own, tmp_path, "NUMPY") == (6.0, False)
    assert entries(tmp_path) == []


def test_an_operation_of_ones_own_within_a_loop_is_not_kept(tmp_path: Path) -> None:
    def own() -> Any:
        x = gt.vector("x")
        y = graphc.scan(lambda x_t, s: s + gt.Tensor.make(Doubled(), x_t), x, gt.constant(0.0))
        return [x], y[-1], [np.ones(3)]

    for _ in range(2):
        assert outcome(own, tmp_path, "NUMPY") == (6.0, False)
    assert entries(tmp_path) == []


@posix
def test_a_directory_that_is_not_trusted_does_not_keep_a_function_from_running(
    tmp_path: Path,
) -> None:
    tmp_path.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="can be written to by others") as told:
        first, _ = outcome(chain, tmp_path, "NUMPY")
    assert told[0].filename == __file__
    np.testing.assert_allclose(first, np.tanh(0.75 + np.arange(12).reshape(3, 4).sum(0)))
    assert outcome(chain, tmp_path, "NUMPY") == (first, False)
    assert list(tmp_path.iterdir()) == []


@dataclass(frozen=True)
class Exploit:
    """What does something as it is unpickled."""

    directory: str

    def __reduce__(self) -> Any:
        return os.mkdir, (self.directory,)


@posix
@pytest.mark.parametrize("how", ["bare", "file", "directory"])
def test_what_others_wrote_is_not_unpickled(tmp_path: Path, how: str) -> None:
    cache, done = tmp_path / "cache", tmp_path / "done"
    first, _ = outcome(chain, cache, "NUMPY")
    (path,) = entries(cache)
    data = pickle.dumps(Exploit(str(done)))
    if how == "bare":
        path.write_bytes(data)
    else:
        entry_module.write(str(path)[: -len(".entry")], data)
        (path if how == "file" else cache).chmod(0o777)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert outcome(chain, cache, "NUMPY") == (first, False)
    assert not done.exists()
    pickle.loads(data)
    assert done.exists()


# What is kept.


def rnn_gradient() -> Graph:
    x, h0, w = gt.matrix("x"), gt.vector("h0"), gt.matrix("w")
    states = graphc.scan(lambda x_t, h: gt.tanh(h @ w + x_t), x, h0)
    loss = (states[-1] ** 2).sum()
    return Graph((x, h0, w), (loss, graphc.grad(loss, w)))


def test_a_graph_read_back_is_the_same_graph() -> None:
    written = optimize(rnn_gradient()).graph
    read = pickle.loads(pickle.dumps(written))
    assert read.key() == written.key()
    assert [y.type for y in read.outputs] == [y.type for y in written.outputs]
    random = np.random.default_rng(0)
    values = random.normal(size=(5, 3)), random.normal(size=3), random.normal(size=(3, 3))
    for graph in (written, read):
        f = graphc.function(list(graph.inputs), list(graph.outputs), mode="NUMPY")
        found = f(*values)
        if graph is written:
            right = found
    for y, expected in zip(found, right, strict=True):
        np.testing.assert_array_equal(y, expected)


def test_a_long_graph_is_kept(tmp_path: Path) -> None:
    def long() -> Any:
        x = gt.vector("x")
        y = x
        for i in range(1000):
            y = gt.sin(y) + gt.cos(x * (i + 0.5))
        return [x], y, [np.ones(3)]

    first, _ = outcome(long, tmp_path, "NUMPY")
    assert outcome(long, tmp_path, "NUMPY") == (first, True)
