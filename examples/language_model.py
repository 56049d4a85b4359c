"""Can a language model write verse when each of its weights has less than two bits?

24 sonnets by Shakespeare, read byte by byte; ``data/README.md`` has the source. A transformer
learns their stanzas: several are packed into a sequence, flex attention keeps each from seeing the
others, and ``graphc.scan`` goes over the stacked layers. Then the weights of the layers are rounded
to four bits, and to -1, 0 and 1 times a scale. The rounded weights are frozen implicit arrays; to
those of three values adapters are trained, which make good what the rounding lost.

Each of these models writes, in a loop over bytes. Keys and values that it has seen are kept in
eight bits. Within ``materializing("error")`` it is an error if weights or keys become dense.

The same training step over a mesh of eight devices has to find the same losses. Run it with ``make
demo``, or one backend with ``python examples/language_model.py --mode JAX``.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

import graphc
import graphc.tensor as gt
from graphc import attention, implicit

ROOT = Path(__file__).parents[1]
MODES = ("JAX", "MLX")
DATA, MODEL = 4, 2  # devices along each axis of the mesh

BYTES = 128
LAYERS, WIDTH, HEADS = 2, 64, 2
SIZE = WIDTH // HEADS
BATCH, LENGTH, BLOCK = 4, 512, 64  # sequences, their bytes, and those of a block of the mask
GROUP = 32  # weights that share a scale
RANK = 8  # of the adapters
STEPS, ADAPTING = 100, 20  # of training, and of adapters
RATE = 0.01
WRITERS, WRITTEN = 4, 128  # stanzas written at a time, and their bytes
COLD = 0.5  # bytes of small probability are drawn less often

START = "\nShall I compare thee to a "
SLOPES = 2.0 ** -np.arange(1, HEADS + 1, dtype="float32")  # how fast a head forgets

Weights = dict[str, Any]
"""Shared arrays by name: the bytes' vectors, and four stacks of the layers' matrices."""

SHAPES = {
    "words": (BYTES, WIDTH),
    "attend": (LAYERS, WIDTH, 3 * WIDTH),
    "merge": (LAYERS, WIDTH, WIDTH),
    "up": (LAYERS, WIDTH, 4 * WIDTH),
    "down": (LAYERS, 4 * WIDTH, WIDTH),
}
STACKS = ("attend", "merge", "up", "down")
SHARDING = {
    "attend": (None, None, "model"),
    "merge": (None, "model", None),
    "up": (None, None, "model"),
    "down": (None, "model", None),
}

token = gt.tensor("token", shape=(BATCH, LENGTH), dtype="int32", sharding=("data", None))
stanza = gt.tensor("stanza", shape=(BATCH, LENGTH), dtype="int32", sharding=("data", None))


def draw_weights() -> dict[str, np.ndarray]:
    """Draw the weights before training."""
    rng = np.random.default_rng(0)
    arrays = {name: rng.normal(size=shape) * shape[-2] ** -0.5 for name, shape in SHAPES.items()}
    return {name: x.astype("float32") for name, x in arrays.items()}


def shared(arrays: dict[str, Any]) -> Weights:
    """Return shared variables of arrays, which may be implicit."""
    return {
        name: graphc.shared(x, name=name, sharding=SHARDING.get(name)) for name, x in arrays.items()
    }


def normal(x: gt.Tensor) -> gt.Tensor:
    """Scale rows to a mean square of 1."""
    return x / gt.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def perceptron(up: gt.Tensor, down: gt.Tensor, x: gt.Tensor) -> gt.Tensor:
    """Apply the perceptron of a layer, its second half."""
    return x + gt.maximum(normal(x) @ up, 0) @ down


def is_seen(b, h, q_idx, kv_idx):
    """Return whether a byte sees another one: those before it in its stanza."""
    return (stanza[b, q_idx] == stanza[b, kv_idx]) & (q_idx >= kv_idx)


def scores(p: Weights) -> gt.Tensor:
    """Return the score of each byte to come next, after each byte of the sequences."""
    mask = attention.create_block_mask(is_seen, BATCH, None, LENGTH, LENGTH, BLOCK)

    def nearer(score, b, h, q_idx, kv_idx):
        return score - gt.as_tensor(SLOPES)[h] * (q_idx - kv_idx)

    def layer(attend, merge, up, down, x):
        heads = (normal(x) @ attend).reshape((BATCH, LENGTH, HEADS, 3, SIZE))
        q, k, v = (heads[:, :, :, i].swapaxes(1, 2) for i in range(3))
        mixed = attention.flex_attention(q, k, v, nearer, mask)
        return perceptron(up, down, x + mixed.swapaxes(1, 2).reshape(x.shape) @ merge)

    stacks = [p[name] for name in STACKS]
    x = graphc.scan(layer, sequences=stacks, outputs_info=p["words"][token])[-1]
    return normal(x) @ p["words"].T


def loss_of(p: Weights) -> gt.Tensor:
    """Return the mean of minus the logarithm of the right byte's probability."""
    right = gt.take_along_axis(gt.log_softmax(scores(p), axis=-1)[:, :-1], token[:, 1:, None], -1)
    counts = gt.eq(stanza[:, 1:], stanza[:, :-1]) & (stanza[:, 1:] >= 0)
    return -gt.where(counts, right[..., 0], 0).sum() / counts.sum()


def adam(loss: gt.Tensor, learned: Sequence[Any]) -> list[tuple]:
    """Return one step of Adam for each parameter, as updates; the steps become smaller."""
    steps = graphc.shared(np.float32(1), name="steps")
    updates, rate = [(steps, steps + 1)], RATE / (1 + steps / 50)
    for p, g in zip(learned, graphc.grad(loss, learned), strict=True):
        zeros = np.zeros_like(p.get_value())
        mean, square = graphc.shared(zeros), graphc.shared(zeros)
        new_mean, new_square = 0.9 * mean + 0.1 * g, 0.99 * square + 0.01 * g**2
        scale = gt.sqrt(new_square / (1 - 0.99**steps)) + 1e-8
        updates += [(mean, new_mean), (square, new_square)]
        updates += [(p, p - rate * new_mean / (1 - 0.9**steps) / scale)]
    return updates


def writer(p: Weights, mode: Any) -> graphc.Function:
    """Compile a function that continues ``START``: new bytes (WRITTEN, WRITERS) in each call."""
    stream = graphc.random.RandomStream(1)
    noise = stream.gumbel(size=(WRITTEN, WRITERS, BYTES)).astype("float32")
    start = np.frombuffer(START.encode(), "uint8").astype("int32")
    empty = np.zeros((LAYERS, WRITERS, HEADS, WRITTEN, SIZE), "float32")
    cache = gt.as_tensor(implicit.quantize(empty, "int8", group_size=SIZE))

    def step(position, noise, byte, keys, values):
        visible = attention.create_block_mask(
            lambda b, h, q_idx, kv_idx: kv_idx <= position, None, None, 1, WRITTEN
        )

        def nearer(score, b, h, q_idx, kv_idx):
            return score - gt.as_tensor(SLOPES)[h] * (position - kv_idx)

        def layer(attend, merge, up, down, *state):
            keys, values, x = state
            heads = (normal(x) @ attend).reshape((WRITERS, HEADS, 3, SIZE))
            keys = gt.set_subtensor(keys[:, :, position], heads[:, :, 1])
            values = gt.set_subtensor(values[:, :, position], heads[:, :, 2])
            q = heads[:, :, :1]
            mixed = attention.flex_attention(q, keys, values, nearer, visible)
            return perceptron(up, down, x + mixed.reshape(x.shape) @ merge), keys, values

        x, keys, values = graphc.scan(
            layer,
            sequences=[*(p[name] for name in STACKS), keys, values],
            outputs_info=[p["words"][byte], None, None],
        )
        score = normal(x[-1]) @ p["words"].T / COLD
        following = gt.argmax(score + noise, axis=-1)
        last = len(start) - 1
        prescribed = gt.as_tensor(start)[gt.minimum(position + 1, last)]
        return gt.where(position < last, prescribed, following).astype("int32"), keys, values

    first = gt.full((WRITERS,), start[0], dtype="int32")
    written, *_ = graphc.scan(
        step, sequences=[gt.arange(WRITTEN), noise], outputs_info=[first, cache, cache]
    )
    return graphc.function([], written, mode=mode)


def stanzas() -> list[np.ndarray]:
    """Read the bytes of the stanzas: four lines each, and two at the end of a sonnet."""
    text = (ROOT / "examples" / "data" / "sonnets.txt").read_text(encoding="ascii")
    sonnets = [sonnet.strip().split("\n") for sonnet in text.split("\n\n")]
    parts = ["\n".join(["", *lines[i : i + 4], ""]) for lines in sonnets for i in (0, 4, 8, 12)]
    return [np.frombuffer(part.encode(), "uint8") for part in parts]


def pack(parts: Sequence[np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield arguments for ``token`` and ``stanza``: sequences of complete stanzas, in order."""
    ends = np.cumsum([len(part) for part in parts])
    rows, start, done = [], 0, 0
    while start < len(parts):
        stop = int(np.searchsorted(ends, done + LENGTH, side="right"))
        number = np.repeat(np.arange(start, stop), [len(part) for part in parts[start:stop]])
        rest = (0, LENGTH - len(number))
        text = np.pad(np.concatenate(parts[start:stop]), rest)
        rows.append((text, np.pad(number, rest, constant_values=-1)))
        start, done = stop, ends[stop - 1]
    for i in range(0, len(rows) - BATCH + 1, BATCH):
        texts, numbers = zip(*rows[i : i + BATCH], strict=True)
        yield np.array(texts, "int32"), np.array(numbers, "int32")


def batches(parts: Sequence[np.ndarray], count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield ``count`` batches; the stanzas come in another order each time."""
    rng = np.random.default_rng(0)
    while True:
        for batch in pack([parts[i] for i in rng.permutation(len(parts))]):
            if not count:
                return
            yield batch
            count -= 1


PARTS = stanzas()
LEARNED = [part for i, part in enumerate(PARTS) if i % 5]
KEPT = next(pack(PARTS[::5]))  # to test with


def train(mode: Any, count: int) -> tuple[dict[str, np.ndarray], list[float]]:
    """Train for ``count`` steps; return the weights, and the loss of each step."""
    p = shared(draw_weights())
    loss = loss_of(p)
    updates = adam(loss, [*p.values()])
    step = graphc.function([token, stanza], loss, updates=updates, mode=mode)
    losses = [float(step(*batch)) for batch in batches(LEARNED, count)]
    return {name: x.get_value() for name, x in p.items()}, losses


def round_weights(arrays: dict[str, np.ndarray], kind: str) -> dict[str, Any]:
    """Quantize the weights of the layers."""
    return implicit.quantize(
        arrays, kind, group_size=GROUP, where=lambda path, _: path[0] in STACKS
    )


def adapt(arrays: dict[str, Any], mode: str) -> dict[str, Any]:
    """Add adapters to the layers' weights, and train the adapters; they begin as zero."""
    p = shared(
        {
            name: implicit.LoRA.of(x, RANK, seed=0) if name in STACKS else x
            for name, x in arrays.items()
        }
    )
    loss = loss_of(p)
    adapters = jax.tree.leaves(implicit.trainable(p, where=lambda path, _: path[0] in STACKS))
    step = graphc.function([token, stanza], loss, updates=adam(loss, adapters), mode=mode)
    for batch in batches(LEARNED, ADAPTING):
        step(*batch)
    return {name: x.get_value() for name, x in p.items()}


@dataclass(frozen=True)
class Result:
    """Size, loss and speed of a model.

    Attributes:
        bytes: Bytes of the layers' weights.
        loss: Loss on stanzas that the model has not seen.
        speed: Bytes of text that the model writes in a second.
        text: The text that the model wrote.
    """

    bytes: int
    loss: float
    speed: float
    text: str


def result(arrays: dict[str, Any], mode: str) -> Result:
    """Test a model, and let it write."""
    p = shared(arrays)
    loss = graphc.function([token, stanza], loss_of(p), mode=mode)(*KEPT)
    write = writer(p, mode)
    write()
    start = time.perf_counter()
    written = write()
    seconds = time.perf_counter() - start
    stored = sum(arrays[name].nbytes for name in STACKS)
    text = bytes(written[:, 0].tolist()).decode("ascii")
    return Result(stored, float(loss), written.size / seconds, text)


def run(mode: str, dense: dict[str, np.ndarray]) -> Iterator[tuple[str, Result]]:
    """Round the weights, adapt them, and yield the result of each model."""
    yield "dense", result(dense, mode)
    with implicit.materializing("error"):
        yield "4 bits", result(round_weights(dense, "int4"), mode)
        ternary = round_weights(dense, "ternary")
        yield "ternary", result(ternary, mode)
        yield "adapted", result(adapt(ternary, mode), mode)


def main() -> None:
    """Train once, check the mesh, and print a table for each backend."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mode", choices=MODES, action="append", help="by default all of them")
    modes = parser.parse_args().mode or MODES
    jax.config.update("jax_num_cpu_devices", DATA * MODEL)
    dense, losses = train("JAX", STEPS)
    print(f"loss {losses[0]:.2f} to {np.mean(losses[-5:]):.2f} in {STEPS} steps")
    others = {mode: mode for mode in modes if mode != "JAX"}
    others[f"{DATA} x {MODEL} devices"] = graphc.Mode(
        "JAX", mesh=graphc.mesh(data=DATA, model=MODEL)
    )
    for name, mode in others.items():
        _, first = train(mode, 3)
        print(f"the first three on {name}: {', '.join(f'{x:.4f}' for x in first)}")
        if not np.allclose(first, losses[:3], 1e-4):
            sys.exit(f"The losses on {name} are others than {losses[:3]}.")
    for mode in modes:
        print(f"\n{mode:<8}{'bytes':>10}{'loss':>8}{'bytes/s':>10}")
        losses = {}
        for name, model in run(mode, dense):
            print(f"{name:<8}{model.bytes:>10,}{model.loss:>8.2f}{model.speed:>10,.0f}")
            losses[name] = model.loss
        print(model.text)
        # Of what is lost by the rounding, adapters are to make good a half.
        if losses["adapted"] > (losses["dense"] + losses["ternary"]) / 2:
            sys.exit(f"The adapters have not learned on {mode}.")


if __name__ == "__main__":
    main()
