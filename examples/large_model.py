"""Would a model of 1.3 billion parameters fit on 256 devices, and what would these exchange?

A transformer of 24 layers, 2,048 wide, with 16 heads and 50,304 words, and a step of gradient
descent, over a mesh of 32 x 8 devices: the batch is divided over 32, heads and hidden units over 8.
There are shapes alone. The processor shows as 256 devices, the step is compiled for them, and its
plan says how much memory each needs and what they tell each other. Both are compared with what one
counts by hand. Run it with ``python examples/large_model.py``; it takes some five seconds.
"""

import sys
from collections import defaultdict
from math import prod, sqrt

import jax

import graphc
import graphc.tensor as gt

DATA, MODEL = 32, 8  # devices along each axis of the mesh
LAYERS, WIDTH, HEADS, WORDS, LENGTH = 24, 2048, 16, 50304, 1024
BATCH = DATA  # one sequence for each part of the mesh that has a batch of its own
SIZE = 4  # bytes of a float32
RATE = 0.01

ROWS, COLUMNS = ("data", None, None), ("data", None, "model")  # of what layers tell each other
WEIGHTS = {
    "words": ((WORDS, WIDTH), ("model", None)),
    "attend": ((LAYERS, WIDTH, 3 * WIDTH), (None, None, "model")),
    "merge": ((LAYERS, WIDTH, WIDTH), (None, "model", None)),
    "up": ((LAYERS, WIDTH, 4 * WIDTH), (None, None, "model")),
    "down": ((LAYERS, 4 * WIDTH, WIDTH), (None, "model", None)),
}


def normal(x: gt.Tensor) -> gt.Tensor:
    """Scale rows to a mean square of 1."""
    return x / gt.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def layer(
    attend: gt.Tensor, merge: gt.Tensor, up: gt.Tensor, down: gt.Tensor, x: gt.Tensor
) -> gt.Tensor:
    """Apply causal attention and a perceptron; each ends in one sum over devices."""
    heads = (normal(x) @ attend).reshape((BATCH, LENGTH, HEADS, 3, WIDTH // HEADS))
    q, k, v = (heads[:, :, :, i].swapaxes(1, 2) for i in range(3))
    position = gt.arange(LENGTH)
    scores = gt.where(
        position[:, None] >= position, q @ k.swapaxes(2, 3) / sqrt(WIDTH // HEADS), -1e9
    )
    mixed = (gt.softmax(scores, axis=-1) @ v).swapaxes(1, 2).reshape(x.shape)
    x = gt.shard(x + gt.shard(mixed, COLUMNS) @ merge, ROWS)
    return gt.shard(x + gt.shard(gt.maximum(normal(x) @ up, 0), COLUMNS) @ down, ROWS)


def step(mesh: jax.sharding.Mesh) -> graphc.Function:
    """Compile a step of gradient descent: from tokens and weights to the loss and new weights."""
    token, following = (
        gt.tensor(name, shape=(BATCH, LENGTH), dtype="int32", sharding=("data", None))
        for name in ("token", "following")
    )
    weights = {
        name: gt.tensor(name, shape=shape, dtype="float32", sharding=sharding)
        for name, (shape, sharding) in WEIGHTS.items()
    }
    words, *layers = weights.values()
    x = gt.shard(words[token], ROWS)
    y = normal(graphc.scan(layer, sequences=layers, outputs_info=x, checkpoint=1)[-1])
    scores = gt.shard(y @ words.T, COLUMNS)
    is_following = gt.equal(following[:, :, None], gt.arange(WORDS))
    right = gt.where(is_following, scores, 0).sum(-1)
    loss = (gt.logsumexp(scores, axis=-1) - right).mean()
    slopes = graphc.grad(loss, [*weights.values()])
    new = [
        graphc.Out(w - RATE * g, sharding=WEIGHTS[name][1])
        for (name, w), g in zip(weights.items(), slopes, strict=True)
    ]
    mode = graphc.Mode("JAX", mesh=mesh)
    return graphc.function([token, following, *weights.values()], [loss, *new], mode=mode)


def count_by_hand() -> dict[str, int]:
    """Compute memory and communication by hand, in bytes on one device."""
    parameters = sum(prod(shape) for shape, _ in WEIGHTS.values())
    own = parameters // MODEL * SIZE
    tokens = BATCH // DATA * LENGTH  # on one device
    state = tokens * WIDTH * SIZE  # of a layer
    words = WORDS * WIDTH // MODEL * SIZE
    return {
        "arguments": own + 2 * tokens * SIZE,
        # The loss, and a pointer to each result.
        "results": own + SIZE + (1 + len(WEIGHTS)) * 8,
        # At least: the slopes, and the state before each layer, which is all that is stored.
        "on the way": own + LAYERS * state,
        # Forwards and backwards, attention and perceptron end in a sum. The attention is computed
        # again for the gradient, as only states are stored. Then the weights' slopes.
        "exchanged by layers": LAYERS * 5 * state + own - words,
        # Words looked up, and the slope of the last state; the largest score, the sum of their
        # exponentials and the right one; the slopes of both uses of the words; the loss.
        "exchanged besides": 2 * state + 3 * tokens * SIZE + 2 * words + SIZE,
    }


def read_plan(f: graphc.Function) -> dict[str, int]:
    """Read memory and communication from the plan; a collective in the loop runs in each layer."""
    placement = f.plan().placement
    assert placement is not None
    assert placement.memory is not None
    sys.stdout.write(f"  {placement.memory}\n")
    exchanged = defaultdict[str, int](int)
    for collective in placement.collectives:
        where, times = ("layers", LAYERS) if collective.loop else ("besides", 1)
        key = f"exchanged {'by ' if collective.loop else ''}{where}"
        exchanged[key] += collective.bytes * times
        sys.stdout.write(f"  {collective}\n")
    return {
        "arguments": placement.memory.arguments,
        "results": placement.memory.results,
        "on the way": placement.memory.temporary,
        **exchanged,
    }


def main() -> None:
    jax.config.update("jax_num_cpu_devices", DATA * MODEL)
    sys.stdout.write(f"on {DATA} x {MODEL} devices\n")
    plan = read_plan(step(graphc.mesh(data=DATA, model=MODEL)))
    sys.stdout.write(f"{'bytes on a device':<24} {'plan':>15} {'by hand':>15}\n")
    for name, wanted in count_by_hand().items():
        sys.stdout.write(f"{name:<24} {plan[name]:>15,} {wanted:>15,}\n")


if __name__ == "__main__":
    main()
