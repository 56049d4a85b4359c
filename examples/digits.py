"""Can a network whose weights are frozen at four bits learn to read digits that lie on their side?

1,797 handwritten digits of 8 x 8 pixels; ``data/README.md`` has the source. A network of two hidden
layers learns to read them upright. Then its hidden weights are rounded to four bits, and frozen. It
cannot read the digits turned by 90 degrees, so each frozen weight W gets an adapter,

    x @ (W + a @ b)

of two thin matrices, and these alone are trained on the turned digits. W is an implicit array, and
stays in its four bits: within ``materializing("error")`` it is an error if an operation needs it
whole. Run it with ``make demo``, or one backend with ``python examples/digits.py --mode JAX``.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

import graphc
import graphc.tensor as gt
from graphc import implicit

ROOT = Path(__file__).parents[1]
MODES = ("NUMPY", "JAX", "MLX")
SIZES = (64, 256, 256, 10)  # pixels, units of the hidden layers, digits
RANK = 8  # of the adapters
GROUP = 64  # weights that share a scale and an offset
BATCH = 128
WANTED = 0.9  # the accuracy on turned digits that the adapters are to reach

pixels = gt.matrix("pixels", dtype="float32", shape=(None, SIZES[0]))
digit = gt.vector("digit", dtype="int32")


def scores(weights: Sequence[gt.Tensor], biases: Sequence[gt.Tensor]) -> gt.Tensor:
    """Return the score of each digit for each image; weights may be implicit arrays."""
    x = pixels
    for w, b in zip(weights[:-1], biases[:-1], strict=True):
        x = gt.maximum(x @ w + b, 0)
    return x @ weights[-1] + biases[-1]


def loss_of(score: gt.Tensor) -> gt.Tensor:
    """Return the mean of minus the logarithm of the right digit's probability."""
    return -gt.log_softmax(score, axis=1)[gt.arange(digit.shape[0]), digit].mean()


def adam(loss: gt.Tensor, parameters: Sequence[graphc.Shared], rate: float) -> list[tuple]:
    """Return one step of Adam for each parameter, as updates."""
    steps = graphc.shared(np.float32(1), name="steps")
    updates = [(steps, steps + 1)]
    for p, g in zip(parameters, graphc.grad(loss, parameters), strict=True):
        zeros = np.zeros_like(p.get_value())
        mean, square = graphc.shared(zeros), graphc.shared(zeros)
        new_mean, new_square = 0.9 * mean + 0.1 * g, 0.999 * square + 0.001 * g**2
        scale = gt.sqrt(new_square / (1 - 0.999**steps)) + 1e-8
        updates += [(mean, new_mean), (square, new_square)]
        updates += [(p, p - rate * new_mean / (1 - 0.9**steps) / scale)]
    return updates


@dataclass(frozen=True)
class Digits:
    """Images as rows, and the digits that they show."""

    rows: np.ndarray
    labels: np.ndarray

    def train(self, step: graphc.Function, epochs: int) -> None:
        """Call a training step with one batch after the other."""
        for _ in range(epochs):
            for start in range(0, len(self.labels), BATCH):
                step(self.rows[start : start + BATCH], self.labels[start : start + BATCH])

    def accuracy(self, score: gt.Tensor, mode: str) -> float:
        """Return the fraction of the images that are read right."""
        right = gt.eq(gt.argmax(score, axis=1), digit).mean()
        return float(graphc.function([pixels, digit], right, mode=mode)(self.rows, self.labels))


def read(turned: bool) -> tuple[Digits, Digits]:
    """Read the training images, and every fifth image to test with."""
    with np.load(ROOT / "examples" / "data" / "digits.npz") as file:
        images, labels = file["images"] / np.float32(16), file["labels"].astype("int32")
    images = np.rot90(images, axes=(1, 2)) if turned else images
    rows = np.ascontiguousarray(images.reshape(len(images), -1))
    test = np.arange(len(rows)) % 5 == 0
    return Digits(rows[~test], labels[~test]), Digits(rows[test], labels[test])


def pretrain(mode: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Train weights and biases to read upright digits."""
    rng = np.random.default_rng(0)
    initial = [rng.normal(size=pair) * np.sqrt(2 / pair[0]) for pair in pairwise(SIZES)]
    weights = [graphc.shared(w.astype("float32")) for w in initial]
    biases = [graphc.shared(np.zeros(n, "float32")) for n in SIZES[1:]]
    score = scores(weights, biases)
    loss = loss_of(score)
    step = graphc.function(
        [pixels, digit], loss, updates=adam(loss, [*weights, *biases], 0.002), mode=mode
    )
    upright, _ = read(turned=False)
    upright.train(step, epochs=10)
    return [w.get_value() for w in weights], [b.get_value() for b in biases]


@dataclass(frozen=True)
class Result:
    """Accuracies on a backend, and bytes of the hidden weights."""

    upright: float
    rounded: float
    before: float
    after: float
    dense: int
    frozen: int
    adapters: int


def run(mode: str) -> Result:
    """Train, round to four bits, adapt."""
    dense, biases = pretrain(mode)
    hidden = implicit.quantize(dense[:-1], "int4", group_size=GROUP)
    # One factor is zero at first, so that an adapter changes nothing.
    arrays = [implicit.LoRA.of(w, RANK, seed=seed) for seed, w in enumerate(hidden)]

    weights = [graphc.shared(w, name=f"weight{i}") for i, w in enumerate(arrays)]
    adapters = [x for w in weights for x in (w.array.a, w.array.b)]
    learning, testing = read(turned=True)
    _, upright = read(turned=False)
    plain, score = scores(dense, biases), scores([*weights, dense[-1]], biases)
    loss = loss_of(score)
    with implicit.materializing("error"):
        before = testing.accuracy(score, mode)
        rounded = upright.accuracy(score, mode)
        updates = adam(loss, adapters, 0.01)
        step = graphc.function([pixels, digit], loss, updates=updates, mode=mode)
        learning.train(step, epochs=20)
        after = testing.accuracy(score, mode)
    for w, array in zip(weights, arrays, strict=True):
        after_training, frozen = implicit.leaves(w.get_value().base), implicit.leaves(array.base)
        if not all(map(np.array_equal, after_training, frozen)):
            sys.exit("A frozen weight has changed.")
    return Result(
        upright.accuracy(plain, mode),
        rounded,
        before,
        after,
        sum(w.nbytes for w in dense[:-1]),
        sum(w.base.nbytes for w in arrays),
        sum(w.a.nbytes + w.b.nbytes for w in arrays),
    )


def main() -> None:
    """Run the experiment on each backend, and print accuracies and bytes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mode", choices=MODES, action="append", help="by default all of them")
    modes = parser.parse_args().mode or MODES
    print(
        f"{'':<8}{'upright':>10}{'at 4 bits':>11}{'turned':>9}{'adapted':>9}"
        f"{'dense':>14}{'4 bits':>9}{'adapters':>10}"
    )
    for mode in modes:
        result = run(mode)
        print(
            f"{mode:<8}{result.upright:>10.1%}{result.rounded:>11.1%}{result.before:>9.1%}"
            f"{result.after:>9.1%}{result.dense:>8,} bytes{result.frozen:>9,}{result.adapters:>10,}"
        )
        if result.after < WANTED:
            sys.exit(f"The adapters have not learned on {mode}.")


if __name__ == "__main__":
    main()
