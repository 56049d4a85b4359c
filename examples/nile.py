"""How much of the Nile's variation is noise, and how much is the level that moves?

The annual flow at Aswan, 1871 to 1970, in the local level model; ``data/README.md`` has the source:

    flow[t] = level[t] + noise,    level[t + 1] = level[t] + move

The Kalman filter gives the likelihood of both variances. It is a loop over the years, written with
``graphc.scan``; its gradient is the loop's, and SciPy finds the maximum on each backend. A second
loop, backwards over what the first one filtered, smooths the level. Run it with ``make demo``.
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
PUBLISHED = np.array([15099.0, 1469.1])  # Durbin & Koopman: variances of noise and of moves
STEADY = 0.005  # how near to them the estimates are to come, relatively

flow = gt.vector("flow")
logs = gt.vector("logs", shape=(2,))  # logarithms of the variances, which are positive
noise, move = gt.exp(logs[0]), gt.exp(logs[1])


def update(observed, level, variance):
    """Return the level's mean and variance after a year is observed, and its log likelihood."""
    spread = variance + move
    total = spread + noise
    surprise = observed - level
    gain = spread / total
    likelihood = -0.5 * (gt.log(2 * np.pi * total) + surprise**2 / total)
    return level + gain * surprise, gain * noise, likelihood


def smooth(level, variance, later_level, later_variance):
    """Return the level's mean and variance given all years, from the filtered ones and the next."""
    back = variance / (variance + move)
    mean = level + back * (later_level - level)
    return mean, variance + back**2 * (later_variance - variance - move)


# The level before the first year has no prior, so the first year determines the level alone.
levels, variances, likelihoods = graphc.scan(
    update, sequences=flow[1:], outputs_info=[flow[0], noise, None]
)
loss = -likelihoods.sum()

levels, variances = gt.concatenate([flow[:1], levels]), gt.concatenate([noise[None], variances])
smoothed = graphc.scan(
    smooth,
    sequences=[levels[:-1], variances[:-1]],
    outputs_info=[levels[-1], variances[-1]],
    go_backwards=True,
)
curves = [
    gt.concatenate([past[::-1], last[-1:]])
    for past, last in zip(smoothed, (levels, variances), strict=True)
]


def fit(observed: np.ndarray, mode: str) -> tuple[np.ndarray, float, int]:
    """Fit the variances; return them, the logarithm of their likelihood, and the steps taken."""
    evaluate = graphc.function([logs, flow], [loss, graphc.grad(loss, logs)], mode=mode)

    def value_and_slope(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = evaluate(x, observed)
        return float(value), np.asarray(slope)

    start = np.log([observed.var() / 2] * 2)
    fitted = minimize(value_and_slope, start, jac=True, method="BFGS", options={"gtol": 1e-6})
    if not fitted.success:
        raise RuntimeError(f"BFGS did not converge on {mode}: {fitted.message}")
    return np.exp(fitted.x), -fitted.fun, fitted.nit


def draw(picture: Path, years: np.ndarray, observed: np.ndarray, estimate: np.ndarray) -> None:
    """Plot the flow, the smoothed level and its 95 % band, as a PNG file."""
    smoother = graphc.function([logs, flow], curves)
    level, variance = smoother(np.log(estimate), observed)
    margin = 1.96 * np.sqrt(variance)
    figure = Figure(figsize=(6.4, 3.4), layout="constrained")
    axes = figure.subplots()
    axes.fill_between(years, level - margin, level + margin, color="tab:blue", alpha=0.15)
    axes.plot(years, level, color="tab:blue", label="smoothed level, 95 % band")
    axes.plot(years, observed, "o-", color="black", alpha=0.5, markersize=3, linewidth=0.5)
    axes.axvline(1898.5, color="tab:red", linestyle=":", label="dam at Aswan begun")
    axes.set(xlabel="year", ylabel="flow of the Nile (10⁸ m³)")
    axes.legend(loc="upper right", frameon=False)
    picture.parent.mkdir(exist_ok=True)
    figure.savefig(picture, dpi=100)


def main() -> None:
    """Fit on each backend, print the estimates beside the published ones, and draw the level."""
    table = np.loadtxt(ROOT / "examples" / "data" / "nile.csv", delimiter=",", skiprows=1)
    years, observed = table.T
    fits = {mode: fit(observed, mode) for mode in MODES}

    print(f"{'':<12}{'noise':>12}{'moves':>12}{'log likelihood':>16}{'steps':>8}")
    for mode, (variance, likelihood, steps) in fits.items():
        noise, moves = variance
        print(f"{mode:<12}{noise:>12.1f}{moves:>12.1f}{likelihood:>16.4f}{steps:>8}")
    print(f"{'published':<12}{PUBLISHED[0]:>12.1f}{PUBLISHED[1]:>12.1f}")

    estimate = fits["JAX"][0]
    picture = ROOT / "build" / "nile.png"
    draw(picture, years, observed, estimate)
    print(f"Picture: {picture.relative_to(ROOT)}")

    if not all(np.allclose(fits[mode][0], estimate, rtol=1e-5) for mode in MODES):
        sys.exit("The backends disagree.")
    if not np.allclose(estimate, PUBLISHED, rtol=STEADY):
        sys.exit("The estimates are not the published ones.")


if __name__ == "__main__":
    main()
