"""Draw the pictures of the tutorials into ``images``, from what their examples computed.

Run ``python docs/pictures.py`` after a tutorial changed, or with the names of some:
``python docs/pictures.py kalman``. Each picture is a function here, which gets the variables
of the examples of its page.
"""

from __future__ import annotations

import doctest
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "tutorials"
PICTURES = ROOT / "docs" / "images"

Names = dict[str, Any]


def session(page: str) -> Names:
    """Run the examples of a page and return their variables; tests check the output."""
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    lines = ["" if line.lstrip().startswith("```") else line for line in text.splitlines()]
    names: Names = {"__name__": "__main__"}
    with redirect_stdout(StringIO()):
        for example in doctest.DocTestParser().get_examples("\n".join(lines)):
            try:
                exec(compile(example.source, page, "single"), names)
            except Exception:
                if example.exc_msg is None:
                    raise
    return names


def kalman(figure: Any, names: Names) -> None:
    """Plot the flow of the Nile, the filtered level and its band."""
    years, level, margin = names["years"][1:], names["level"], 1.96 * np.sqrt(names["variance"])
    axes = figure.subplots()
    axes.fill_between(years, level - margin, level + margin, color="tab:blue", alpha=0.15)
    axes.plot(years, level, color="tab:blue", label="filtered level, 95 % band")
    axes.plot(names["years"], names["flow"], "o-", color="gray", markersize=3, linewidth=0.5)
    axes.set(xlabel="year", ylabel="flow of the Nile (10⁸ m³)")
    axes.legend(loc="upper right", frameon=False)


def performance(figure: Any, names: Names) -> None:
    """Plot the time of each call; colours tell whether its length was new."""
    lengths, times = names["lengths"], 1000 * np.array(names["seconds"])
    new = np.array([n not in lengths[:i] for i, n in enumerate(lengths)])
    position = np.arange(len(lengths))
    axes = figure.subplots()
    for chosen, label in ((new, "first call of a length: compiles"), (~new, "later call")):
        axes.bar(position[chosen], times[chosen], label=label)
    axes.set(yscale="log", xlabel="length of the argument", ylabel="milliseconds")
    axes.set_xticks(position, [str(n) for n in lengths])
    axes.legend(frameon=False, ncols=2, loc="lower left", bbox_to_anchor=(0, 1))


def rnn(figure: Any, names: Names) -> None:
    """Plot the loss of each round, and predictions before and after training."""
    left, right = figure.subplots(1, 2, width_ratios=[3, 2])
    left.plot(names["on_jax"], label="JAX")
    left.plot(names["on_mlx"], "o", label="MLX, three rounds")
    left.set(yscale="log", xlabel="round", ylabel="mean squared error")
    left.legend(frameon=False)
    right.plot(names["targets"], names["expected"], "o", color="lightgray", markersize=3)
    right.plot(names["targets"], names["predicted"], "o", color="tab:blue", markersize=3)
    right.axline((0, 0), slope=1, color="black", linewidth=0.5)
    right.set(xlabel="recent level", ylabel="prediction")


def hidden_markov(figure: Any, names: Names) -> None:
    """Plot the probability of the loaded die, the likeliest path, and the truth in gray."""
    axes = figure.subplots()
    time = np.arange(len(names["truth"]))
    axes.fill_between(time, names["truth"], step="mid", color="lightgray", label="loaded die")
    axes.plot(names["chance"][:, 1], color="tab:blue", label="chance of the loaded die")
    axes.step(time, 1.05 * names["path"][:, 1], color="tab:orange", where="mid", label="likeliest")
    axes.set(xlabel="throw", ylim=(-0.02, 1.1))
    axes.legend(frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0, 1))


def from_jax(figure: Any, names: Names) -> None:
    """Plot the observations, and the path before and after the fit."""
    axes = figure.subplots()
    axes.plot(names["observed"], "o", color="gray", markersize=3, label="observed")
    axes.plot(names["before"], color="tab:orange", label="at the start")
    axes.plot(names["after"], color="tab:blue", label="fitted")
    axes.set(xlabel="step", ylabel="place")
    axes.legend(frameon=False)


def from_pytensor(figure: Any, names: Names) -> None:
    """Plot the values, the mean and band of the process, and the sine that generated them."""
    axes, between = figure.subplots(), names["between"][:, 0]
    curve, margin = names["curve"], 2 * names["spread"]
    axes.fill_between(between, curve - margin, curve + margin, color="tab:blue", alpha=0.15)
    axes.plot(between, curve, color="tab:blue", label="mean, and two standard deviations")
    axes.plot(between, np.sin(between), color="black", linewidth=0.8, label="sine")
    axes.plot(names["places"][:, 0], names["values"], "o", color="gray", markersize=3)
    axes.set(xlabel="place", ylabel="value")
    axes.legend(frameon=False, ncols=2, loc="lower left", bbox_to_anchor=(0, 1))


def attention_masks(figure: Any, names: Names) -> None:
    """Plot the keys that each query sees in four masks, and the kinds of their blocks."""
    masks = ("causal", "mask"), ("window", "near"), ("prefix", "prefix"), ("documents", "packed")
    kinds = {"empty": (1.0, 1.0, 1.0), "partial": (1.0, 0.86, 0.62), "full": (0.62, 0.78, 0.93)}
    figure.set_size_inches(6.4, 2.4)
    for axes, (title, name) in zip(figure.subplots(1, 4, sharey=True), masks, strict=True):
        seen, blocks = names[name].to_dense()[0, 0], names[name].blocks()[0, 0]
        edges = np.linspace(0, len(seen), len(blocks) + 1)
        colors = np.array(list(kinds.values()))[blocks]
        axes.imshow(colors, interpolation="none", extent=(0, len(seen), len(seen), 0))
        axes.hlines(edges, 0, len(seen), color="lightgray", linewidth=0.3)
        axes.vlines(edges, 0, len(seen), color="lightgray", linewidth=0.3)
        steps = np.diff(np.pad(seen.astype(int), ((0, 0), (1, 1))))
        (queries, starts), (_, ends) = np.nonzero(steps > 0), np.nonzero(steps < 0)
        axes.hlines(queries + 0.5, starts, ends, color="black", linewidth=0.4)
        axes.set(title=title, xlabel="key")
        axes.set(xticks=edges[::4], yticks=edges[::4])
    figure.axes[0].set(ylabel="query")
    for kind, color in kinds.items():
        axes.plot([], [], "s", color=color, markeredgecolor="gray", label=f"{kind} block")
    axes.plot([], [], color="black", linewidth=0.4, label="keys that a query sees")
    figure.legend(loc="outside lower center", frameon=False, ncols=4)


def language_model(figure: Any, names: Names) -> None:
    """Plot the loss by the number of bits, and on the sonnet while adapters learn."""
    left, right = figure.subplots(1, 2, sharey=True)
    left.bar(["32 bits"], [names["exact"]], color="gray")
    left.bar(list(names["after"]), list(names["after"].values()), color="tab:blue")
    left.set(ylabel="loss", title="the licence, weights rounded")
    left.tick_params(axis="x", labelsize=8)
    before, rounded = names["before"]
    right.axhline(before, color="gray", linewidth=1, label="32 bits, no adapters")
    right.axhline(rounded, color="tab:blue", linestyle=":", label="NF4, no adapters")
    right.plot(names["curve"], color="tab:orange", label="NF4 and adapters")
    right.set(xlabel="step", title="the sonnet")
    right.legend(frameon=False)


PLOTTERS: dict[str, Callable[[Any, Names], None]] = {
    "kalman": kalman,
    "performance": performance,
    "rnn": rnn,
    "hidden-markov": hidden_markov,
    "from-jax": from_jax,
    "from-pytensor": from_pytensor,
    "attention-masks": attention_masks,
    "language-model": language_model,
}
"""The function that draws the picture of each page."""


def draw(page: str) -> Path:
    """Draw the picture of a page into an SVG file, with the same bytes each time."""
    import matplotlib as mpl  # noqa: PLC0415 (an extra: the tests import this file without it)
    from matplotlib.figure import Figure  # noqa: PLC0415

    mpl.rcParams.update({"svg.hashsalt": page, "svg.fonttype": "none"})
    figure = Figure(figsize=(6.4, 3.4), layout="constrained")
    PLOTTERS[page](figure, session(page))
    picture = PICTURES / f"{page}.svg"
    figure.savefig(picture, metadata={"Date": None}, facecolor="white")
    return picture


if __name__ == "__main__":
    for name in sys.argv[1:] or PLOTTERS:
        draw(name)
