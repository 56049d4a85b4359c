"""When does the sun have spots? An autoregression of two years, and where it goes from here.

The yearly sunspot numbers, 1700 to 2008; ``data/README.md`` has the source:

    spots[t] = constant + first * spots[t - 1] + second * spots[t - 2] + noise

The model is fitted to the years until 1988, and forecasts the others. The fit is a ``graphc.scan``
that reads its sequence at three places; Newton's method takes the gradient and the Hessian through
it. The forecast is one that reads its own last two results. Run it with ``make examples``.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import graphc
import graphc.tensor as gt

ROOT = Path(__file__).parents[1]
MODES = ("NUMPY", "JAX", "MLX")
LAST = 1988  # the last year that the model sees

spots = gt.vector("spots")
beta = gt.vector("beta", shape=(3,))  # the constant, and the weights of one and two years ago
years = gt.lscalar("years")


def expected(last, before):
    """Return the expected number, given the last year's and the number of the year before."""
    return beta[0] + beta[1] * last + beta[2] * before


def ripple(last, before):
    """Return the effect of a surprise a year later."""
    return beta[1] * last + beta[2] * before


residuals = graphc.scan(
    lambda now, last, before: now - expected(last, before),
    sequences={"input": spots, "taps": [0, -1, -2]},
)
loss = (residuals**2).sum()

forecast = graphc.scan(
    expected, outputs_info={"initial": spots[-2:], "taps": [-1, -2]}, n_steps=years
)
ripples = graphc.scan(
    ripple, outputs_info={"initial": [0.0, 1.0], "taps": [-1, -2]}, n_steps=years - 1
)
variance = (residuals**2).mean() * (1 + gt.concatenate([[0.0], gt.cumsum(ripples**2)]))
curves = [forecast, 1.96 * gt.sqrt(variance)]


def fit(observed: np.ndarray, mode: str) -> np.ndarray:
    """Fit the coefficients by one step of Newton's method, as the loss is quadratic."""
    derivatives = [graphc.grad(loss, beta), graphc.hessian(loss, beta)]
    evaluate = graphc.function([spots, beta], derivatives, mode=mode)
    gradient, hessian = map(np.asarray, evaluate(observed, np.zeros(3)))
    return np.linalg.solve(hessian, -gradient)


def least_squares(observed: np.ndarray) -> np.ndarray:
    """Fit the coefficients by NumPy's least squares, with a row for each year."""
    rows = np.column_stack([np.ones(len(observed) - 2), observed[1:-1], observed[:-2]])
    return np.linalg.lstsq(rows, observed[2:])[0]


def period(estimate: np.ndarray) -> float:
    """Return the years between maxima: two pi over the angle of the characteristic root."""
    _, first, second = estimate
    return 2 * np.pi / np.arccos(first / (2 * np.sqrt(-second)))


def draw(picture: Path, table: np.ndarray, middle: np.ndarray, margin: np.ndarray) -> None:
    """Plot the numbers since 80 years before ``LAST``, and the forecast with its 95 % band."""
    year, number = table[table[:, 0] >= LAST - 80].T
    ahead = LAST + 1 + np.arange(len(middle))
    figure = Figure(figsize=(6.4, 3.4), layout="constrained")
    axes = figure.subplots()
    axes.plot(year, number, "o-", color="black", alpha=0.5, markersize=3, linewidth=0.5)
    axes.fill_between(ahead, middle - margin, middle + margin, color="tab:blue", alpha=0.15)
    axes.plot(ahead, middle, color="tab:blue", label="forecast, 95 % band")
    axes.axvline(LAST + 0.5, color="tab:red", linestyle=":", label="the model sees what is before")
    axes.set(xlabel="year", ylabel="sunspot number", ylim=(0, None))
    axes.legend(loc="upper left", frameon=False)
    picture.parent.mkdir(exist_ok=True)
    figure.savefig(picture, dpi=100)


def main() -> None:
    """Fit on each backend, print the estimates beside NumPy's, and draw the forecast."""
    table = np.loadtxt(ROOT / "examples" / "data" / "sunspots.csv", delimiter=",", skiprows=1)
    seen = table[table[:, 0] <= LAST, 1]
    fits = {mode: fit(seen, mode) for mode in MODES} | {"lstsq": least_squares(seen)}

    print(f"{'':<12}{'constant':>10}{'last year':>12}{'before it':>12}{'period':>16}")
    for name, estimate in fits.items():
        numbers = "".join(f"{x:>12.5f}" for x in estimate[1:])
        print(f"{name:<12}{estimate[0]:>10.4f}{numbers}{period(estimate):>10.2f} years")

    after = table[table[:, 0] > LAST, 1]
    forecaster = graphc.function([spots, beta, years], curves)
    middle, margin = forecaster(seen, fits["JAX"], len(after))
    inside = np.abs(after - middle) < margin
    print(
        f"\nWithin the forecast's 95 % band: {inside.sum()} of the {len(after)} years after {LAST}"
    )

    picture = ROOT / "build" / "sunspots.png"
    draw(picture, table, middle, margin)
    print(f"Picture: {picture.relative_to(ROOT)}")

    if not all(np.allclose(fits[mode], fits["lstsq"], rtol=1e-9) for mode in MODES):
        sys.exit("The estimates are not those of least squares.")


if __name__ == "__main__":
    main()
