"""Can digits of unequal length, packed into one sequence, be read without seeing each other?

1,797 handwritten digits of 8 x 8 pixels; ``data/README.md`` has the source. A digit is the list of
its dark pixels, 16 to 42 of them, each a token. Some thirty digits are packed into a sequence, and
always others. Attention tells each token which digit it is of:

- the mask function lets a token see those of its own digit alone, by numbers that it captures;
- the score function adds a learned number for how far up and aside the other pixel is.

Masks are arguments, so that one program serves all packings; and there is a gradient by the learned
numbers. Run it with ``make demo``, or one backend with ``python examples/packed.py --mode JAX``.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

import graphc
import graphc.tensor as gt
from graphc import attention

ROOT = Path(__file__).parents[1]
MODES = ("JAX", "MLX")  # NUMPY computes empty blocks too, and takes minutes
LENGTH, BLOCK = 1024, 64  # tokens of a sequence, and of a block of the mask
SIDE = 8  # pixels
HEADS, WIDTH = 4, 64
EPOCHS = 2
RATE = 0.005
WANTED = 0.93  # the share of digits that is to be read

place = gt.vector("place", shape=(LENGTH,), dtype="int32")
shade = gt.vector("shade", shape=(LENGTH,), dtype="float32")
label = gt.vector("label", shape=(LENGTH,), dtype="int32")  # the digit it is of; -1 for none


def mask_of(number: np.ndarray) -> attention.BlockMask:
    """Return the mask in which a token sees the tokens of its digit.

    Args:
        number: Index of each token's digit in the sequence.
    """
    own = attention.document(number)
    return attention.create_block_mask(own, None, None, LENGTH, LENGTH, BLOCK)


mask = mask_of(np.zeros(LENGTH, "int32")).variables("mask")  # symbolic, for any numbers
tokens = [place, shade, mask, label]


def parameters() -> dict[str, graphc.Shared]:
    """Draw the parameters before training."""
    rng = np.random.default_rng(0)

    def draw(name: str, *shape: int, scale: float) -> graphc.Shared:
        values = rng.normal(size=shape) * scale
        return graphc.shared(values.astype("float32"), name=name, shape=shape)

    return {
        "place": draw("place", SIDE**2, WIDTH, scale=1.0),
        "heads": draw("heads", WIDTH, 3 * WIDTH, scale=WIDTH**-0.5),
        "nearness": draw("nearness", HEADS, 2 * SIDE - 1, 2 * SIDE - 1, scale=0.1),
        "hidden": draw("hidden", WIDTH, 2 * WIDTH, scale=WIDTH**-0.5),
        "digit": draw("digit", 2 * WIDTH, 10, scale=0.1),
    }


def normal(x: gt.Tensor) -> gt.Tensor:
    """Normalize rows to mean 0 and variance 1."""
    x = x - x.mean(axis=1, keepdims=True)
    return x / gt.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-5)


def attend(x: gt.Tensor, p: dict[str, graphc.Shared]) -> gt.Tensor:
    """Return the attention of each token to the tokens that it sees."""
    q, k, v = (
        gt.moveaxis(part.reshape((LENGTH, HEADS, -1)), 1, 0)[None]
        for part in gt.array_split(x @ p["heads"], 3, axis=1)
    )

    def by_place(score, b, h, q_idx, kv_idx):
        one, other = place[q_idx], place[kv_idx]
        up = one // SIDE - other // SIDE + SIDE - 1
        aside = one % SIDE - other % SIDE + SIDE - 1
        return score + p["nearness"][h, up, aside]

    y = attention.flex_attention(q, k, v, by_place, mask)
    return gt.moveaxis(y[0], 0, 1).reshape((LENGTH, WIDTH))


def scores(p: dict[str, graphc.Shared]) -> gt.Tensor:
    """Return the score of each of the ten digits for each token."""
    seen = normal(attend(shade[:, None] * p["place"][place], p))
    return gt.maximum(seen @ p["hidden"], 0) @ p["digit"]


def loss_of(score: gt.Tensor) -> gt.Tensor:
    """Return the mean over tokens of minus the logarithm of the right digit's probability."""
    right = gt.log_softmax(score, axis=1)[gt.arange(LENGTH), gt.maximum(label, 0)]
    counts = (label >= 0).astype("float32")
    return -(right * counts).sum() / counts.sum()


def adam(loss: gt.Tensor, learned: list[graphc.Shared]) -> list[tuple]:
    """Return one step of Adam for each parameter, as updates; the steps become smaller."""
    steps = graphc.shared(np.float32(1), name="steps")
    updates, rate = [(steps, steps + 1)], RATE / (1 + steps / 100)
    for p, g in zip(learned, graphc.grad(loss, learned), strict=True):
        zeros = np.zeros_like(p.get_value())
        mean, square = graphc.shared(zeros), graphc.shared(zeros)
        new_mean, new_square = 0.9 * mean + 0.1 * g, 0.999 * square + 0.001 * g**2
        scale = gt.sqrt(new_square / (1 - 0.999**steps)) + 1e-8
        updates += [(mean, new_mean), (square, new_square)]
        updates += [(p, p - rate * new_mean / (1 - 0.9**steps) / scale)]
    return updates


class Packed(NamedTuple):
    """A sequence of digits one behind the other, and padding.

    Attributes:
        place: Index of each token's pixel (LENGTH,).
        shade: Darkness of each pixel, above 0 and up to 1.
        number: Index of each token's digit in the sequence.
        label: The digit, 0 to 9; -1 for padding.
        images: Indices of the digits' images.
    """

    place: np.ndarray
    shade: np.ndarray
    number: np.ndarray
    label: np.ndarray
    images: np.ndarray

    @property
    def given(self) -> list:
        """Arguments for ``tokens``."""
        return [self.place, self.shade, mask_of(self.number), self.label]


@dataclass(frozen=True)
class Digits:
    """Images (count, 64) between 0 and 1, and the digits that they show."""

    images: np.ndarray
    labels: np.ndarray

    def packed(self, order: np.ndarray) -> Iterator[Packed]:
        """Yield sequences of complete digits, in the given order."""
        ends = np.cumsum([np.count_nonzero(self.images[i]) for i in order])
        start, done = 0, 0
        while start < len(order):
            stop = int(np.searchsorted(ends, done + LENGTH, side="right"))
            yield self.sequence(order[start:stop])
            start, done = stop, ends[stop - 1]

    def sequence(self, chosen: np.ndarray) -> Packed:
        """Return one sequence, of the chosen images."""
        number, place = np.nonzero(self.images[chosen])
        shade, label = self.images[chosen][number, place], self.labels[chosen][number]
        rest = (0, LENGTH - len(place))
        return Packed(
            np.pad(place.astype("int32"), rest),
            np.pad(shade, rest),
            np.pad(number.astype("int32"), rest, constant_values=len(chosen)),
            np.pad(label, rest, constant_values=-1),
            chosen,
        )


def read() -> tuple[Digits, Digits]:
    """Read the training images, and every fifth image to test with."""
    with np.load(ROOT / "examples" / "data" / "digits.npz") as file:
        images, labels = file["images"] / np.float32(16), file["labels"].astype("int32")
    images = images.reshape(len(images), -1)
    test = np.arange(len(images)) % 5 == 0
    return Digits(images[~test], labels[~test]), Digits(images[test], labels[test])


def votes(f: graphc.Function, digits: Digits, order: np.ndarray) -> np.ndarray:
    """Return the mean score of each image's tokens (count, 10), packed in the given order."""
    means = np.zeros((len(digits.labels), 10))
    for sequence in digits.packed(order):
        score = f(*sequence.given[:3])
        for i, image in enumerate(sequence.images):
            means[image] = score[sequence.number == i].mean(axis=0)
    return means


@dataclass(frozen=True)
class Result:
    """Losses and accuracy on a backend.

    Attributes:
        losses: Loss of each step, each of other digits packed in another way.
        accuracy: The fraction of the digits that are read right.
        apart: Largest difference of a digit's scores beside other digits.
        programs: Number of programs that the steps took.
    """

    losses: list[float]
    accuracy: float
    apart: float
    programs: int


def run(mode: str) -> Result:
    """Train, then read the test digits."""
    learning, testing = read()
    p = parameters()
    score = scores(p)
    loss = loss_of(score)
    step = graphc.function(tokens, loss, updates=adam(loss, list(p.values())), mode=mode)
    rng, losses = np.random.default_rng(1), []
    for _ in range(EPOCHS):
        order = rng.permutation(len(learning.labels))
        losses += [float(step(*sequence.given)) for sequence in learning.packed(order)]
    programs = step.stats.compiles + step.stats.loads + step.stats.hits

    f = graphc.function(tokens[:3], score, mode=mode)
    order = np.arange(len(testing.labels))
    means = votes(f, testing, order)
    # In another order, each digit has other neighbours and lies elsewhere.
    apart = np.abs(means - votes(f, testing, order[::-1])).max()
    right = np.mean(means.argmax(axis=1) == testing.labels)
    return Result(losses, float(right), float(apart), programs)


def main() -> None:
    """Run the experiment on each backend, and print losses and accuracy."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mode", choices=("NUMPY", *MODES), action="append")
    modes = parser.parse_args().mode or MODES
    first = next(read()[1].packed(np.arange(100)))
    print(f"{len(first.images)} digits in {LENGTH} tokens, and which blocks see which:")
    print(mask_of(first.number).picture())
    print(f"\n{'':<8}{'loss':>16}{'read right':>13}{'packings':>10}{'programs':>10}")
    for mode in modes:
        result = run(mode)
        before, after = np.mean(result.losses[:5]), np.mean(result.losses[-5:])
        print(
            f"{mode:<8}{before:>7.3f} to {after:.3f}{result.accuracy:>13.1%}"
            f"{len(result.losses):>10}{result.programs:>10}"
        )
        if result.accuracy < WANTED:
            sys.exit(f"The digits have not been learned on {mode}.")
        if result.apart > 1e-3:
            sys.exit(f"Digits have seen each other on {mode}: {result.apart}.")


if __name__ == "__main__":
    main()
