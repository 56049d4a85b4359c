"""Random pairs of graphs that share parts and captured arrays, compiled in several processes.

Each process builds the programs of each pair in the order ``1``, ``12`` or ``21``, compares the
results with NumPy's, and prints a line of JSON for each first program: all that every process must
give alike, and whether the program was loaded.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import graphc
import graphc.compile.cache
import graphc.tensor as gt
from graphc.export import runtime
from graphc.ir import dprint

UNARY = ("sin", "cos", "tanh", "exp")
BINARY = ("add", "multiply", "add", "multiply", "maximum", "minimum", "subtract")
LENGTHS = {True: (11, 11), False: (11, 13)}
"""The lengths of the captured arrays, by whether they are equal."""

ARRAYS = 4
"""The number of arrays of each length."""

Expression = tuple[Any, ...]


class Pair(NamedTuple):
    """Two programs, each a list of vectors, and the arrays that they refer to."""

    programs: tuple[list[Expression], list[Expression]]
    arrays: list[np.ndarray]


def pair(seed: int) -> Pair:
    """Return the pair of a seed; the arrays of even seeds have equal shapes."""
    rng = np.random.default_rng(seed)
    lengths = [n for n in LENGTHS[seed % 2 == 0] for _ in range(ARRAYS)]
    arrays = [rng.normal(size=n) for n in lengths]
    pools: list[list[Expression]] = [
        [("array", i + side * ARRAYS) for i in range(ARRAYS)] for side in range(2)
    ]

    def grow(pool: list[Expression], count: int) -> None:
        for _ in range(count):
            a, b = (pool[int(rng.integers(len(pool)))] for _ in range(2))
            kind = rng.integers(5)
            if kind == 0:
                pool.append((UNARY[rng.integers(len(UNARY))], ("tanh", a)))
            elif kind == 1:
                pool.append(("scale", int(rng.integers(3)), a))
            else:
                pool.append((BINARY[rng.integers(len(BINARY))], ("tanh", a), b))

    for pool in pools:
        grow(pool, 6)

    def program() -> list[Expression]:
        own = [[*pool] for pool in pools]
        rng.shuffle(own[0])
        for pool in own:
            grow(pool, 6)
        (a, b), (c, d) = (pool[-2:] for pool in own)
        total = ("multiply", ("sum", a), ("add", ("sum", c), ("sum", d)))
        return [b, d, ("expand", total), ("expand", ("sum", b))]

    return Pair((program(), program()), arrays)


def evaluate(
    expressions: Sequence[Expression], arrays: Sequence[Any], c: Any, library: Any
) -> list[Any]:
    """Return the vectors of a program by the functions of NumPy or of graphc."""
    forms = {
        "array": lambda i: arrays[i],
        "scale": lambda k, a: value(a) * c[k],
        "sum": lambda a: value(a).sum(),
        "expand": lambda a: value(a) * c,
    }
    done: dict[Expression, Any] = {}

    def value(x: Expression) -> Any:
        if x not in done:
            name, *operands = x
            form = forms.get(name)
            done[x] = form(*operands) if form else getattr(library, name)(*map(value, operands))
        return done[x]

    return [value(x) for x in expressions]


def compiled(program: list[Expression], arrays: Sequence[np.ndarray], mode: str) -> Any:
    """Return the function of a program."""
    c = gt.vector("c")
    outputs = evaluate(program, [gt.as_tensor(x) for x in arrays], c, gt)
    loss = sum(y.sum() for y in outputs)
    return graphc.function([c], [*outputs, graphc.grad(loss, c)], mode=mode, returns="numpy")


def check(f: Any, program: list[Expression], arrays: Sequence[np.ndarray], n: int) -> None:
    """Compare a function's results with NumPy's, and the gradient with a difference quotient."""
    c = np.linspace(0.5, 1.5, n)
    *results, gradient = f(c)
    for result, expected in zip(results, evaluate(program, arrays, c, np), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-12)
    for i in range(3):
        step = np.zeros(n)
        step[i] = 1e-6
        up, down = (
            sum(y.sum() for y in evaluate(program, arrays, c + sign * step, np)) for sign in (1, -1)
        )
        np.testing.assert_allclose(gradient[i], (up - down) / 2e-6, rtol=1e-4, atol=1e-4)


class Writer:
    """Files of functions, which the process of order ``1`` writes and others read.

    Args:
        mode: The backend, which gets a program of its own in each file.
        folder: Where the files are.
    """

    def __init__(self, mode: str, folder: Path) -> None:
        self.mode = mode
        self.folder = folder

    def write(self, f: Any, name: str) -> str:
        """Write a model, and the function as a pickle; return a digest of the model."""
        path = self.folder / f"{name}.graphc"
        programs = (
            () if self.mode == "NUMPY" else ("JAX",) if self.mode == "JAX" else ("JAX", "MLX")
        )
        f.export(path, dynamic={"c": ("n",)}, programs=programs, lengths=self.lengths())
        (self.folder / f"{name}.pickle").write_bytes(pickle.dumps(f))
        return blake2b(path.read_bytes()).hexdigest()

    def lengths(self) -> dict[str, tuple[int, ...]]:
        """Return the lengths that MLX's program takes."""
        return {"n": (4,)} if self.mode == "MLX" else {}

    def read(self, name: str) -> list[Any]:
        """Return the functions of what was written under a name."""
        path = self.folder / f"{name}.graphc"
        loaded = [
            graphc.load(path, self.mode),
            pickle.loads((self.folder / f"{name}.pickle").read_bytes()),
        ]
        return loaded if self.mode == "NUMPY" else [*loaded, runtime.load(path, self.mode)]


def main(mode: str, order: str, first: int, count: int, folder: str | None = None) -> None:
    """Build pairs, check them, and print what describes the first program of each."""
    graphc.compile.cache.WORTH_SAVING = 0.0
    for seed in range(first, first + count):
        programs, arrays = pair(seed)
        functions = {which: compiled(programs[int(which) - 1], arrays, mode) for which in order}
        for which, f in functions.items():
            check(f, programs[int(which) - 1], arrays, 4)
        f = functions["1"]
        was_loaded = f._lowered is None
        if mode == "JAX" and order != "1":
            check(f, programs[0], arrays, 5)
        text, leaves = graphc.serialize(f)
        facts = {
            "key": f.key,
            "text": text,
            "arrays": {name: np.asarray(x)[:2].tolist() for name, x in leaves.items()},
            "rewritten": dprint(f._own_program.graph, file="str"),
            "results": [np.asarray(y).tolist() for y in f(np.ones(4))],
        }
        if folder is not None:
            writer = Writer(mode, Path(folder))
            for g in writer.read(str(seed)) if order != "1" else ():
                check(g, programs[0], arrays, 4)
            digest = writer.write(f, str(seed) if order == "1" else f"{seed}-{order}")
            # MLX writes numbers of its own into its programs.
            facts["file"] = digest if mode != "MLX" else ""
        print(json.dumps([facts, was_loaded]), flush=True)  # noqa: T201 (the answer)
        f.verify(np.ones(4)).raise_if_different()
