"""Training steps and calls over meshes of 1 to 8 devices of one processor, beside the same in JAX.

``python -m benchmarks.sharding WAY`` runs one of them in a process that shows eight devices. They
share the processor's cores, so that what grows with their number is the work, and what is compared
at each number is graphc with JAX. On several devices of one processor a call of graphc's waits for
its results; by hand it waits too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from math import sqrt
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import graphc
import graphc.tensor as gt
from benchmarks.table import Line, benchmark, write
from benchmarks.timing import Ratio, agree, compared
from graphc.link.jax.collectives import collectives
from graphc.link.jax.hlo import ProgramText

DEVICES = (1, 2, 4, 8)
SEVERAL = "--xla_force_host_platform_device_count=8"
RATE = 0.01
"""By how much of its gradient a step changes a weight."""

Weights = dict[str, tuple[np.ndarray[Any, Any], tuple[str | None, ...]]]
"""Values and shardings by name."""


class Library(NamedTuple):
    """What programs need of graphc or of JAX."""

    np: Any
    softmax: Callable[..., Any]
    logsumexp: Callable[..., Any]
    shard: Callable[[Any, tuple[str | None, ...]], Any]
    scan: Callable[[Callable[..., Any], Any, Any], Any]
    """The last state of a loop over rows: of a step from rows and a state to a state."""


def last_state(step: Callable[..., Any], rows: Any, state: Any) -> Any:
    """That of a loop in graphc."""
    return graphc.scan(step, sequences=rows, outputs_info=state)[-1]


GRAPHC = Library(gt, gt.softmax, gt.logsumexp, gt.shard, last_state)


def by_hand(mesh: Mesh) -> Library:
    """The like of JAX."""

    def shard(x: Any, entries: tuple[str | None, ...]) -> Any:
        return jax.lax.with_sharding_constraint(x, named(mesh, entries))

    def scan(step: Callable[..., Any], rows: Any, state: Any) -> Any:
        return jax.lax.scan(lambda h, row: (step(*row, h), None), state, tuple(rows))[0]

    return Library(jnp, jax.nn.softmax, jax.nn.logsumexp, shard, scan)


def named(mesh: Mesh, entries: tuple[Any, ...]) -> NamedSharding:
    return NamedSharding(mesh, PartitionSpec(*entries))


# The programs: a loss of weights and of a batch.


def rnn(w: Mapping[str, Any], x: Any, library: Library) -> Any:
    """A tanh RNN over (time, batch, width), its product with the inputs out of the loop."""
    np = library.np
    rows = x @ w["input"] + w["bias"]
    last = library.scan(
        lambda row, h: np.tanh(row + h @ w["state"]), [rows], np.zeros_like(rows[0])
    )
    return ((last @ w["output"]) ** 2).mean()


HEADS = 4


def transformer(w: Mapping[str, Any], tokens: Any, library: Library) -> Any:
    """Layers of causal attention and perceptrons, a scan over the first axis of their weights."""
    np, shard = library.np, library.shard
    rows, columns = ("data", None, None), ("data", None, "model")

    def normal(x: Any) -> Any:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)

    def layer(*given: Any) -> Any:
        query, key, value, out, up, down, x = given
        y = normal(x)
        heads = (*x.shape[:2], HEADS, WIDTH // HEADS)
        q, k, v = ((y @ w).reshape(heads).swapaxes(1, 2) for w in (query, key, value))
        places = np.arange(x.shape[1])
        scores = q @ k.swapaxes(2, 3) / sqrt(WIDTH // HEADS)
        scores = np.where(places[:, None] >= places, scores, -1e9)
        mixed = (library.softmax(scores, axis=-1) @ v).swapaxes(1, 2)
        x = shard(x + shard(mixed.reshape(x.shape), columns) @ out, rows)
        return shard(x + shard(np.maximum(normal(x) @ up, 0), columns) @ down, rows)

    words = w["words"]
    layers = [w[name] for name in ("query", "key", "value", "out", "up", "down")]
    y = normal(library.scan(layer, layers, words[tokens[:, :-1]]))
    scores = y @ words.T
    return (library.logsumexp(scores, axis=-1) - (y * words[tokens[:, 1:]]).sum(-1)).mean()


LAYERS, WIDTH, WORDS = 4, 64, 256


def array(*shape: int) -> np.ndarray[Any, Any]:
    """Normally distributed, small."""
    return 0.1 * np.random.default_rng(0).standard_normal(shape, dtype="float32")


def tokens(devices: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).integers(0, WORDS, (4 * devices, 65)).astype("int32")


@dataclass(frozen=True)
class Program:
    """A training step.

    Attributes:
        loss: Of weights and a batch.
        weights: Values and shardings.
        batch: The batch for a number of devices: as much for each.
        sharding: The batch's.
        model: The most devices along the axis of the mesh that divides weights.
    """

    loss: Callable[..., Any]
    weights: Weights
    batch: Callable[[int], np.ndarray[Any, Any]]
    sharding: tuple[str | None, ...]
    model: int


COLUMNS, ROWS = (None, None, "model"), (None, "model", None)
PROGRAMS = {
    "RNN": Program(
        rnn,
        {
            "input": (array(64, 64), ()),
            "state": (array(64, 64), ()),
            "bias": (array(64), ()),
            "output": (array(64, 8), ()),
        },
        lambda devices: array(100, 32 * devices, 64),
        (None, "data", None),
        1,
    ),
    "transformer": Program(
        transformer,
        {
            "words": (array(WORDS, WIDTH), ()),
            **{name: (array(LAYERS, WIDTH, WIDTH), COLUMNS) for name in ("query", "key", "value")},
            "out": (array(LAYERS, WIDTH, WIDTH), ROWS),
            "up": (array(LAYERS, WIDTH, 4 * WIDTH), COLUMNS),
            "down": (array(LAYERS, 4 * WIDTH, WIDTH), ROWS),
        },
        tokens,
        ("data", None),
        2,
    ),
}


class Step(NamedTuple):
    """A compiled training step, and how many collectives of each kind it has."""

    run: Callable[[Any], Any]
    collectives: Mapping[str, int]


def compiled(program: Program, mesh: Mesh, batch: jax.Array) -> Step:
    """By graphc: shared weights that each call updates."""
    shared = {
        name: graphc.shared(value, name, sharding=sharding)
        for name, (value, sharding) in program.weights.items()
    }
    x = gt.tensor("x", dtype=batch.dtype.name, shape=batch.shape, sharding=program.sharding)
    loss = program.loss(shared, x, GRAPHC)
    slopes = graphc.grad(loss, [*shared.values()])
    updates = [(w, w - RATE * g) for w, g in zip(shared.values(), slopes, strict=True)]
    f = graphc.function([x], loss, updates=updates, mode=graphc.Mode("JAX", mesh=mesh))
    made = f.plan(batch).placement
    counts = Counter[str]()
    for each in made.collectives if made else ():
        counts[each.kind] += each.count
    return Step(f, counts)


def jitted(program: Program, mesh: Mesh, batch: jax.Array) -> Step:
    """The same by hand: weights that ``jax.jit`` takes, updates and gives back."""
    places = {name: named(mesh, entries) for name, (_, entries) in program.weights.items()}
    weights = {
        name: jax.device_put(value, places[name]) for name, (value, _) in program.weights.items()
    }
    library = by_hand(mesh)

    def step(weights: dict[str, Any], x: Any) -> Any:
        loss, slopes = jax.value_and_grad(program.loss)(weights, x, library)
        return loss, {name: w - RATE * slopes[name] for name, w in weights.items()}

    whole = named(mesh, ())
    made = jax.jit(
        step,
        in_shardings=(places, named(mesh, program.sharding)),
        out_shardings=(whole, places),
        donate_argnums=0,
    )
    text = ProgramText(made.lower(weights, batch).compile().as_text() or "")

    def run(x: Any) -> Any:
        nonlocal weights
        loss, weights = made(weights, x)
        return waited(loss, mesh)

    return Step(run, Counter(kind for _, kind, _ in collectives(text)))


def waited(y: Any, mesh: Mesh) -> Any:
    """A result, as graphc returns it on several devices of a processor: when it is there."""
    return jax.block_until_ready(y) if mesh.size > 1 else y


def steps(name: str) -> Iterator[dict[str, Any]]:
    """Measure a program's step over each number of devices."""
    program = PROGRAMS[name]
    for n in DEVICES:
        model = min(n, program.model)
        mesh = graphc.mesh(data=n // model, model=model)
        batch = jax.device_put(program.batch(n), named(mesh, program.sharding))
        ours, theirs = compiled(program, mesh, batch), jitted(program, mesh, batch)
        for _ in range(3):
            agree(ours.run(batch), theirs.run(batch), rtol=1e-5)
        ratio = compared(ours.run, theirs.run, batch, blocks=40)
        yield {
            "title": f"{name} step over {mesh_text(mesh)}",
            "told": f"collectives: {told(ours)}; by hand: {told(theirs)}",
            "ratio": asdict(ratio),
        }


def mesh_text(mesh: Mesh) -> str:
    return " x ".join(str(n) for n in mesh.shape.values())


def told(step: Step) -> str:
    return ", ".join(f"{n} {kind}" for kind, n in sorted(step.collectives.items())) or "none"


# Calls.


def calls() -> Iterator[dict[str, Any]]:
    """Measure what a call over eight devices costs, of x * 2 of each array."""
    mesh = graphc.mesh(data=8)
    mode = graphc.Mode("JAX", mesh=mesh)
    place = named(mesh, ("data",))
    for n in (1, 16):
        xs = [gt.vector(f"x{i}", dtype="float32", sharding=("data",)) for i in range(n)]
        f = graphc.function(xs, [graphc.Out(x * 2, sharding=("data",)) for x in xs], mode=mode)
        made = jax.jit(
            lambda *xs: [x * 2 for x in xs], in_shardings=place, out_shardings=[place] * n
        )
        hosted = [np.full(80, i, "float32") for i in range(n)]
        for kind, arrays in (
            ("divided arrays", [jax.device_put(x, place) for x in hosted]),
            ("NumPy arrays", hosted),
        ):
            agree(f(*arrays), made(*arrays), rtol=1e-6)
            ratio = compared(f, _waiting(made, mesh), *arrays, blocks=100)
            yield {"title": f"call over 8 devices, {n} {kind}", "told": "", "ratio": asdict(ratio)}
        yield {
            "title": f"call over 8 devices, NumPy array and {n} updates",
            "told": "",
            "ratio": asdict(updates(mesh, n, hosted[0])),
        }


def updates(mesh: Mesh, n: int, given: np.ndarray[Any, Any]) -> Ratio:
    """Calls that add an array to each of some shared variables."""
    place = named(mesh, ("data",))
    x = gt.vector("x", dtype="float32", sharding=("data",))
    shared = [graphc.shared(np.zeros_like(given), sharding=("data",)) for _ in range(n)]
    mode = graphc.Mode("JAX", mesh=mesh)
    f = graphc.function([x], [], updates=[(w, w + x) for w in shared], mode=mode)
    held = [jax.device_put(np.zeros_like(given), place) for _ in range(n)]
    made = jax.jit(
        lambda held, x: [w + x for w in held],
        in_shardings=place,
        out_shardings=[place] * n,
        donate_argnums=0,
    )

    def run(x: Any) -> Any:
        nonlocal held
        held = waited(made(held, x), mesh)

    return compared(f, run, given, blocks=100)


def _waiting(run: Callable[..., Any], mesh: Mesh) -> Callable[..., Any]:
    return lambda *arguments: waited(run(*arguments), mesh)


# In processes of their own.


def main(way: str) -> None:
    """Print a line of JSON for each measurement."""
    for found in calls() if way == "call" else steps(way):
        sys.stdout.write(json.dumps(found) + "\n")


def measured(way: str, target: float) -> Iterator[Line]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.sharding", way],
        cwd=Path(__file__).parents[1],
        env={**os.environ, "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {SEVERAL}"},
        stdout=subprocess.PIPE,
        check=True,
    )
    for text in done.stdout.splitlines():
        found = json.loads(text)
        if found["told"]:
            write(f"  {found['title']}: {found['told']}")
        yield Line(found["title"], Ratio(**found["ratio"]), target)


@benchmark("sharding rnn")
def recurrent() -> Iterator[Line]:
    yield from measured("RNN", 1.05)


@benchmark("sharding transformer")
def attending() -> Iterator[Line]:
    yield from measured("transformer", 1.05)


@benchmark("sharding call")
def dispatch() -> Iterator[Line]:
    yield from measured("call", 1.2)


if __name__ == "__main__":
    main(sys.argv[1])
