"""How sure is the model of ``earthquakes.py``? Its posterior, sampled by PyMC on graphc.

The world's earthquakes of magnitude 7 or more, 1900 to 2006, in a hidden Markov model of three
states; ``data/README.md`` has the source. The model is plain PyMC, its likelihood a scan of
PyTensor's, and nothing in it knows of graphc. ``mode("JAX")`` is a mode of PyTensor in which
graphc compiles it: the scan, and PyTensor's gradient through it, become one program for JAX, which
PyMC's own sampler calls.

V. Wang sampled the same model, with the same prior, in Stan, and the table shows both posteriors.
Run it with ``make examples``.
"""

import sys
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from matplotlib.figure import Figure

from graphc.interop.pytensor import mode

ROOT = Path(__file__).parents[1]
STATES, CHAINS, WARM_UP, DRAWS = 3, 4, 500, 750
STRAY = 4  # how many standard errors a mean or a spread of the draws may be off
PUBLISHED = {  # of 4,000 draws: the mean, the spread, and the standard error of the mean
    "means": [(13.164, 0.829, 0.016), (19.752, 1.044, 0.018), (29.766, 1.900, 0.031)],
    "stays": [(0.860, 0.084, 0.002), (0.816, 0.082, 0.002), (0.694, 0.123, 0.002)],
    "shares": [(0.389, 0.144, 0.002), (0.418, 0.129, 0.002), (0.194, 0.094, 0.001)],
}
ROUNDED = 0.0005  # the published figures have three digits


def hidden_markov(counts: np.ndarray) -> pm.Model:
    """Return a model in which each year has a state; its likelihood sums over the states.

    Variables: ``means`` of the states, ascending; ``moves``, the probability of each next state;
    ``shares``, the stationary distribution of the states, from which the first year's is drawn.
    """
    with pm.Model() as model:
        means = pm.Gamma(
            "means",
            alpha=0.1,
            beta=0.01,
            shape=STATES,
            transform=pm.distributions.transforms.ordered,
            initval=np.quantile(counts, (np.arange(STATES) + 0.5) / STATES),
        )
        moves = pm.Dirichlet("moves", np.ones((STATES, STATES)))
        pm.Deterministic("stays", pt.diagonal(moves))
        # They solve shares @ moves = shares, shares.sum() = 1.
        equations = pt.transpose(pt.eye(STATES) - moves + 1)
        shares = pm.Deterministic("shares", pt.linalg.solve(equations, pt.ones(STATES)))

        log_pmf = pm.logp(pm.Poisson.dist(means), counts[:, None])
        paths = pytensor.scan(
            lambda now, before, log_moves: pt.logsumexp(before[:, None] + log_moves, axis=0) + now,
            sequences=log_pmf[1:],
            outputs_info=pt.log(shares) + log_pmf[0],
            non_sequences=pt.log(moves),
            return_updates=False,
        )
        pm.Potential("likelihood", pt.logsumexp(paths[-1]))
    return model


def draw(picture: Path, means: np.ndarray) -> None:
    """Plot a histogram of each mean, and each chain's draws in order, as a PNG file.

    Args:
        picture: Path of the file.
        means: Draws of the means, by chain, draw and state.
    """
    figure = Figure(figsize=(6.4, 4.8), layout="constrained")
    rows = figure.subplots(STATES, 2, width_ratios=[1, 2])
    for state, (left, right) in enumerate(rows):
        draws = means[:, :, state]
        bins = np.linspace(draws.min(), draws.max(), 40)
        for chain in draws:
            left.hist(chain, bins, density=True, histtype="step", alpha=0.7)
            right.plot(chain, linewidth=0.4, alpha=0.7)
        mean, spread, _ = PUBLISHED["means"][state]
        right.axhspan(mean - spread, mean + spread, color="black", alpha=0.12, linewidth=0)
        left.axvspan(mean - spread, mean + spread, color="black", alpha=0.12, linewidth=0)
        left.axvline(mean, color="black", linewidth=1)
        right.axhline(mean, color="black", linewidth=1)
        left.set(yticks=[], ylabel=f"mean of state {state + 1}")
        right.set(xlim=(0, DRAWS))
    rows[-1, 0].set(xlabel="earthquakes a year")
    rows[-1, 1].set(xlabel="draw of each chain, and the mean ± spread in Stan")
    picture.parent.mkdir(exist_ok=True)
    figure.savefig(picture, dpi=100)


def main() -> None:
    """Sample, print the posterior beside the published one, and draw it."""
    source = ROOT / "examples" / "data" / "earthquakes.csv"
    counts = np.loadtxt(source, delimiter=",", skiprows=1, dtype=int)[:, 1]
    print(f"PyMC {pm.__version__} draws {CHAINS} chains of {WARM_UP} + {DRAWS} on graphc's JAX.")
    sys.stdout.flush()
    with hidden_markov(counts):
        trace = pm.sample(
            DRAWS,
            tune=WARM_UP,
            chains=CHAINS,
            cores=1,  # JAX runs on all of them, and must not be forked
            target_accept=0.9,
            random_seed=1,
            progressbar=sys.stdout.isatty(),
            compile_kwargs={"mode": mode("JAX")},
        )
    summary = pm.stats.summary(trace, var_names=list(PUBLISHED), round_to="none")
    wanted = np.array([row for rows in PUBLISHED.values() for row in rows])

    print(f"{'':<12}{'PyMC':>9}{'±':>8}{'Stan':>10}{'±':>8}{'draws worth':>14}{'R-hat':>8}")
    for name, row, (mean, spread, _) in zip(
        summary.index, summary.itertuples(), wanted, strict=True
    ):
        print(
            f"{name:<12}{row.mean:>9.3f}{row.sd:>8.3f}{mean:>10.3f}{spread:>8.3f}"
            f"{row.ess_bulk:>14.0f}{row.r_hat:>8.3f}"
        )
    print(f"Divergent: {float(trace.sample_stats['diverging'].mean()):.1%} of the draws.")
    picture = ROOT / "build" / "earthquakes_posterior.png"
    draw(picture, trace.posterior["means"].values)
    print(f"Picture: {picture.relative_to(ROOT)}")

    for column, error, published in [("mean", "mcse_mean", 0), ("sd", "mcse_sd", 1)]:
        errors = np.hypot(summary[error], wanted[:, 2]) + ROUNDED
        if np.any(np.abs(summary[column] - wanted[:, published]) > STRAY * errors):
            sys.exit("The draws are not of the published posterior.")
    if np.any(summary["r_hat"] > 1.02):
        sys.exit("The chains have not settled.")


if __name__ == "__main__":
    main()
