"""How long is the cycle of the sun? A Gaussian process whose kernel has its length as a parameter.

The yearly sunspot numbers, 1700 to 2008; ``data/README.md`` has the source. Their square roots vary
about a mean as a Gaussian process does whose covariance is periodic, and fades with the years:

    size**2 * exp(-d**2 / (2 * fade**2)) * exp(-2 * sin(pi * d / period)**2 / shape**2)

plus noise of its own in each year. The likelihood wants a solve with the matrix of covariances, and
its determinant; its gradient wants the inverse. That the matrix is symmetric and positive definite
is said once: one Cholesky factor then serves all three. SciPy finds the maximum on each backend,
and the process goes on beyond the last year. Run it with ``make examples``.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

import graphc
import graphc.tensor as gt

ROOT = Path(__file__).parents[1]
MODES = ("NUMPY", "JAX", "MLX")
NAMES = ("size", "fade", "period", "shape", "noise")
START = np.log([3.0, 20.0, 11.0, 1.0, 0.5])
AHEAD = 30  # how many years the forecast goes

years, values = gt.vector("years"), gt.vector("values")
later = gt.vector("later")
logs = gt.vector("logs", shape=(5,))  # logarithms of the parameters, which are positive
size, fade, period, shape, noise = (gt.exp(logs[i]) for i in range(5))


def covariance(a, b):
    """Return the covariance of the process at years a and at years b."""
    apart = gt.abs(a[:, None] - b)
    near = gt.exp(-((apart / fade) ** 2) / 2)
    return size**2 * near * gt.exp(-2 * (gt.sin(np.pi * apart / period) / shape) ** 2)


n = years.shape[0]
observed = gt.assume(
    covariance(years, years) + noise**2 * gt.eye(n), symmetric=True, positive_definite=True
)
weights = gt.linalg.solve(observed, values)
likelihood = -(values @ weights + gt.linalg.logdet(observed) + n * np.log(2 * np.pi)) / 2

across = covariance(later, years)
forecast = across @ weights
remaining = size**2 - (across * gt.linalg.solve(observed, across.T).T).sum(axis=1)
curves = [forecast, gt.sqrt(remaining + noise**2)]


def fit(times: np.ndarray, roots: np.ndarray, mode: str) -> tuple[np.ndarray, float]:
    """Fit the parameters; return them and the logarithm of their likelihood."""
    slope = graphc.grad(likelihood, logs)
    evaluate = graphc.function([logs, years, values], [likelihood, slope], mode=mode)

    def value_and_slope(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = evaluate(x, times, roots)
        return -float(value), -np.asarray(slope)

    fitted = minimize(value_and_slope, START, jac=True, method="L-BFGS-B")
    if not fitted.success:
        raise RuntimeError(f"The fit did not converge on {mode}: {fitted.message}")
    return np.exp(fitted.x), -fitted.fun


def by_scipy(times: np.ndarray, roots: np.ndarray, parameters: np.ndarray) -> float:
    """Return the logarithm of the likelihood, computed by NumPy and SciPy alone."""
    size, fade, period, shape, noise = parameters
    apart = np.abs(np.subtract.outer(times, times))
    waves = np.exp(-2 * (np.sin(np.pi * apart / period) / shape) ** 2)
    matrix = size**2 * np.exp(-((apart / fade) ** 2) / 2) * waves + noise**2 * np.eye(len(times))
    return multivariate_normal(cov=matrix).logpdf(roots)


def draw(picture: Path, table: np.ndarray, mean: float, parameters: np.ndarray) -> None:
    """Plot the numbers, and the forecast with its 95 % band, as a PNG file."""
    ahead = table[-1, 0] + 1 + np.arange(AHEAD)
    evaluate = graphc.function([logs, years, values, later], curves)
    middle, spread = evaluate(np.log(parameters), table[:, 0], np.sqrt(table[:, 1]) - mean, ahead)
    low, high = (np.maximum(mean + middle + k * spread, 0) ** 2 for k in (-1.96, 1.96))
    figure = Figure(figsize=(6.4, 3.4), layout="constrained")
    axes = figure.subplots()
    axes.plot(*table[-120:].T, "o-", color="black", alpha=0.5, markersize=3, linewidth=0.5)
    axes.plot(ahead, (mean + middle) ** 2, color="tab:blue", label="forecast, 95 % band")
    axes.fill_between(ahead, low, high, color="tab:blue", alpha=0.15)
    axes.set(xlabel="year", ylabel="sunspot number")
    axes.legend(loc="upper left", frameon=False)
    picture.parent.mkdir(exist_ok=True)
    figure.savefig(picture, dpi=100)


def main() -> None:
    """Fit on each backend, print the parameters beside SciPy's likelihood, and draw."""
    source = ROOT / "examples" / "data" / "sunspots.csv"
    table = np.loadtxt(source, delimiter=",", skiprows=1)
    roots = np.sqrt(table[:, 1])
    mean = roots.mean()
    fits = {mode: fit(table[:, 0], roots - mean, mode) for mode in MODES}

    print(f"{'':<8}{''.join(f'{name:>10}' for name in NAMES)}{'log likelihood':>18}")
    for mode, (parameters, value) in fits.items():
        print(f"{mode:<8}{''.join(f'{x:>10.4f}' for x in parameters)}{value:>18.6f}")
    parameters, value = fits["JAX"]
    again = by_scipy(table[:, 0], roots - mean, parameters)
    print(f"{'SciPy':<8}{'':>50}{again:>18.6f}")

    picture = ROOT / "build" / "sunspot_cycle.png"
    draw(picture, table, mean, parameters)
    print(f"Picture: {picture.relative_to(ROOT)}")

    if not all(np.allclose(fits[mode][0], parameters, rtol=1e-3) for mode in MODES):
        sys.exit("The backends disagree.")
    if not np.isclose(value, again, rtol=1e-8):
        sys.exit("The likelihood is not SciPy's.")


if __name__ == "__main__":
    main()
