"""How likely is a damaged O-ring, given the temperature at launch?

A logistic regression of the 23 flights before the Challenger accident, each of which showed thermal
distress (1) or none (0); ``data/README.md`` has the source:

    probability of distress = sigmoid(intercept + slope * temperature)

The likelihood is written once. Its gradient and Hessian are graphs made from it, and Newton's
method finds its maximum on each backend. Run it with ``make demo``.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import graphc
import graphc.tensor as gt

ROOT = Path(__file__).parents[1]
MODES = ("NUMPY", "JAX", "MLX")
PUBLISHED = np.array([[15.0429, 7.3786], [-0.2322, 0.1082]])  # rows: estimate, standard error
FORECAST = 31.0  # degrees Fahrenheit, for the morning of the last launch

x = gt.matrix("x")  # a row for each flight: 1 and the temperature
distress = gt.vector("distress")
beta = gt.vector("beta")  # intercept and slope
covariance = gt.matrix("covariance")

logit = x @ beta
loss = (gt.softplus(logit) - distress * logit).sum()  # minus the logarithm of the likelihood
margin = 1.96 * gt.sqrt(((x @ covariance) * x).sum(axis=1))  # half of a 95 % interval
curves = [gt.sigmoid(logit), gt.sigmoid(logit - margin), gt.sigmoid(logit + margin)]


def design(temperature: np.ndarray) -> np.ndarray:
    """Return a row for each temperature: 1 and the temperature."""
    return np.column_stack([np.ones_like(temperature), temperature])


def fit(temperature: np.ndarray, observed: np.ndarray, mode: str) -> tuple[np.ndarray, np.ndarray]:
    """Fit beta; return it and its covariance, the inverse of the Hessian at the maximum."""
    derivatives = [graphc.grad(loss, beta), graphc.hessian(loss, beta)]
    evaluate = graphc.function([x, distress, beta], derivatives, mode=mode)
    estimate = np.zeros(2)
    for _ in range(20):
        gradient, hessian = map(np.asarray, evaluate(design(temperature), observed, estimate))
        step = np.linalg.solve(hessian, gradient)
        if step @ gradient < 1e-20:  # a step's squared length, in standard errors
            return estimate, np.linalg.inv(hessian)
        estimate = estimate - step
    raise RuntimeError(f"Newton's method did not converge in 20 steps on {mode}.")


def draw(picture: Path, temperature: np.ndarray, observed: np.ndarray, *fitted: np.ndarray) -> None:
    """Plot the flights, the fitted probability and its 95 % band, as a PNG file."""
    degrees = np.linspace(FORECAST - 1, 85, 200)
    middle, low, high = graphc.function([x, beta, covariance], curves)(design(degrees), *fitted)
    figure = Figure(figsize=(6.4, 3.4), layout="constrained")
    axes = figure.subplots()
    axes.fill_between(degrees, low, high, color="tab:blue", alpha=0.15, label="95 % band")
    axes.plot(degrees, middle, color="tab:blue", label="fitted probability")
    axes.plot(temperature, observed, "o", color="black", alpha=0.5, label="flights")
    axes.axvline(FORECAST, color="tab:red", linestyle=":", label="forecast for 28 January 1986")
    axes.set(xlabel="temperature at launch (°F)", ylabel="probability of distress")
    axes.legend(loc="lower left", bbox_to_anchor=(0.05, 0.04), frameon=False)
    picture.parent.mkdir(exist_ok=True)
    figure.savefig(picture, dpi=100)


def main() -> None:
    """Fit on each backend, print the estimates beside the published ones, and draw the curve."""
    table = np.loadtxt(ROOT / "examples" / "data" / "oring.csv", delimiter=",", skiprows=1)
    temperature, observed = table.T
    fits = {mode: fit(temperature, observed, mode) for mode in MODES}
    results = {mode: np.column_stack([b, np.sqrt(np.diag(cov))]) for mode, (b, cov) in fits.items()}

    print(f"{'':<12}{'intercept':>19}{'slope':>19}")
    for name, rows in (results | {"published": PUBLISHED}).items():
        print(f"{name:<12}" + "".join(f"{b:>10.4f} ± {error:.4f}" for b, error in rows))

    estimate, cov = fits["JAX"]
    risk = graphc.function([x, beta], curves[0])(design(np.array([FORECAST])), estimate)
    print(f"\nProbability of distress at {FORECAST:.0f} °F: {float(risk[0]):.4f}")
    print(f"(an extrapolation: the coldest flight had {temperature.min():.0f} °F)")

    picture = ROOT / "build" / "oring.png"
    draw(picture, temperature, observed, estimate, cov)
    print(f"Picture: {picture.relative_to(ROOT)}")

    if not all(np.allclose(results["NUMPY"], results[mode], rtol=1e-9) for mode in MODES):
        sys.exit("The backends disagree.")
    if not np.allclose(results["NUMPY"], PUBLISHED, rtol=0, atol=1e-4):
        sys.exit("The estimates are not the published ones.")


if __name__ == "__main__":
    main()
