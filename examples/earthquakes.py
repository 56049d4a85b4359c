"""Do great earthquakes come in spells? A hidden Markov model of their number in each year.

The world's earthquakes of magnitude 7 or more, 1900 to 2006; ``data/README.md`` has the source. The
earth is in one of a few states, of which each has its mean:

    earthquakes[t] ~ Poisson(means[state[t]]),    state[t + 1] ~ moves[state[t]]

The likelihood sums over all paths of states. It is a ``graphc.scan`` over the years that keeps
the logarithms of each state's share. Its gradient is the loop's, and SciPy finds the maximum on
each backend. Two more things are derivatives: how likely each state was in each year, given all
years, is the slope of the likelihood by the logarithms of that year's probabilities; and the most
likely path is that slope where the sum over paths is replaced by the largest. Run it with
``make examples``.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import minimize

import graphc
import graphc.tensor as gt

ROOT = Path(__file__).parents[1]
MODES = ("NUMPY", "JAX", "MLX")
PUBLISHED = {  # Zucchini & MacDonald: the means, and the log likelihood
    2: ([15.472, 26.125], -342.3183),
    3: ([13.146, 19.721, 29.714], -329.4603),
}

counts = gt.vector("counts")
log_means = gt.vector("log_means")
# How likely a state is to follow each, against staying; the diagonal is ignored.
log_odds = gt.matrix("log_odds")

states = log_means.shape[0]
stays = gt.eye(states)
log_moves = gt.log_softmax(gt.where(stays > 0, 0.0, log_odds), axis=1)

# The share of each state in the long run solves shares @ moves = shares, shares.sum() = 1.
moves = gt.exp(log_moves)
shares = gt.linalg.solve(gt.transpose(stays - moves + 1), gt.ones(states))

# Of each year and state; the last term is the same for all states.
log_pmf = counts[:, None] * log_means - gt.exp(log_means) - gt.gammaln(counts + 1)[:, None]


def log_likelihood(pmf, total):
    """Return the log likelihood of all years, given their log probabilities in each state.

    ``total`` adds up the shares of paths along an axis; it takes and returns logarithms.
    """
    last = graphc.scan(
        lambda now, before: total(before[:, None] + log_moves, axis=0) + now,
        sequences=pmf[1:],
        outputs_info=gt.log(shares) + pmf[0],
    )[-1]
    return total(last, axis=0)


likelihood = log_likelihood(log_pmf, gt.logsumexp)
chances = graphc.grad(likelihood, log_pmf)
path = gt.argmax(graphc.grad(log_likelihood(log_pmf, gt.max), log_pmf), axis=1)


def fit(observed: np.ndarray, n: int, mode: str) -> tuple[np.ndarray, np.ndarray, float]:
    """Fit means and odds of n states; return them and the logarithm of their likelihood."""
    slopes = graphc.grad(likelihood, [log_means, log_odds])
    evaluate = graphc.function([log_means, log_odds, counts], [likelihood, *slopes], mode=mode)
    aside = ~np.eye(n, dtype=bool)

    def unpack(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        odds = np.zeros((n, n))
        odds[aside] = x[n:]
        return x[:n], odds

    def value_and_slope(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, by_means, by_odds = map(np.asarray, evaluate(*unpack(x), observed))
        return -float(value), -np.concatenate([by_means, by_odds[aside]])

    quantiles = np.quantile(observed, (np.arange(n) + 0.5) / n)
    start = np.concatenate([np.log(quantiles), np.full(n * (n - 1), -2.0)])
    fitted = minimize(value_and_slope, start, jac=True, method="L-BFGS-B")
    if not fitted.success:
        raise RuntimeError(f"The fit did not converge on {mode}: {fitted.message}")
    return *unpack(fitted.x), -fitted.fun


def draw(picture: Path, table: np.ndarray, means: np.ndarray, odds: np.ndarray) -> None:
    """Plot the counts, the mean of the most likely state, and the probability of each state."""
    evaluate = graphc.function([log_means, log_odds, counts], [path, chances])
    states, likely = evaluate(means, odds, table[:, 1])
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    above, below = figure.subplots(2, sharex=True, height_ratios=[2, 1])
    above.plot(table[:, 0], table[:, 1], "o", color="black", alpha=0.5, markersize=3)
    above.step(table[:, 0], np.exp(means)[states], where="mid", label="mean of the likeliest path")
    above.set(ylabel="earthquakes of magnitude ≥ 7")
    above.legend(frameon=False)
    below.stackplot(table[:, 0], likely.T, labels=[f"{mean:.1f}" for mean in np.exp(means)])
    below.set(xlabel="year", ylabel="chance of state")
    picture.parent.mkdir(exist_ok=True)
    figure.savefig(picture, dpi=100)


def main() -> None:
    """Fit two and three states on each backend, print them beside the published, and draw."""
    source = ROOT / "examples" / "data" / "earthquakes.csv"
    table = np.loadtxt(source, delimiter=",", skiprows=1)

    print(f"{'':<12}{'states':>8}{'log likelihood':>16}   means")
    for n, (published, best) in PUBLISHED.items():
        rows = {}
        for mode in MODES:
            means, odds, found = fit(table[:, 1], n, mode)
            rows[mode] = np.exp(means), found
        for name, (values, value) in {**rows, "published": (published, best)}.items():
            print(f"{name:<12}{n:>8}{value:>16.4f}   {'  '.join(f'{x:.3f}' for x in values)}")
        for values, value in rows.values():
            if not np.allclose(values, published, rtol=1e-3) or abs(value - best) > 1e-3:
                sys.exit("The estimates are not the published ones.")

    picture = ROOT / "build" / "earthquakes.png"
    draw(picture, table, means, odds)
    print(f"Picture: {picture.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
