"""How likely was it that the Challenger's O-rings would be damaged, given all that was known?

The 23 earlier flights in a logistic regression of distress on temperature, with a prior; see
``data/README.md``, and ``oring.py`` for the most likely coefficients. The logarithm of the
posterior density is written in graphc, and ``f.pure`` is a function of JAX's that blackjax samples
from by NUTS, four chains at a time under ``jax.vmap``, with graphc's own gradient.

SciPy's densities, summed up over a fine grid, tell the same posterior without sampling. Run it with
``make examples``.
"""

import sys
from pathlib import Path

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from scipy import stats

import graphc
import graphc.tensor as gt

ROOT = Path(__file__).parents[1]
CHAINS, WARM_UP, DRAWS = 4, 500, 2000
COLD = 31.0  # °F, at the launch on 28 January 1986
MIDDLE = 70.0
STRAY = 4  # how many standard errors a mean or a spread of the draws may be off
NAMES = ("intercept", "slope", "at 31 °F")

temperature, distress = gt.vector("temperature"), gt.vector("distress")
place = {"intercept": gt.scalar("intercept"), "slope": gt.scalar("slope")}
# Per 10 °F around 70 °F: the chances are anything there, and may change a lot with the weather.
prior = {"intercept": 2.5, "slope": 2.5}


def logits(intercept, slope, degrees):
    """Of the chance of distress, in whichever library the arguments are of."""
    return intercept + slope * (degrees - MIDDLE) / 10


z = logits(**place, degrees=temperature)
likelihood = (distress * z - gt.softplus(z)).sum()
log_posterior = likelihood - sum((place[name] / prior[name]) ** 2 / 2 for name in place)


def sample(density, start: dict, key: jax.Array) -> tuple[dict, float]:
    """Draws of each chain after it has settled, and the share of divergent ones."""
    warm_up, drawing = jax.random.split(key)
    adaptation = blackjax.window_adaptation(blackjax.nuts, density)
    first = jax.tree.map(lambda x: x[0], start)
    (_, parameters), _ = adaptation.run(warm_up, first, num_steps=WARM_UP)
    kernel = blackjax.nuts(density, **parameters)

    def step(state, key):
        state, info = kernel.step(key, state)
        return state, (state.position, info.is_divergent)

    def chain(position, key):
        before = kernel.init(position)
        _, (positions, divergent) = jax.lax.scan(
            step, before, jax.random.split(key, WARM_UP + DRAWS)
        )
        return jax.tree.map(lambda x: x[WARM_UP:], positions), divergent[WARM_UP:].mean()

    draws, divergent = jax.jit(jax.vmap(chain))(start, jax.random.split(drawing, CHAINS))
    return draws, float(divergent.mean())


def by_grid(degrees: np.ndarray, damaged: np.ndarray) -> np.ndarray:
    """Return the posterior's means, standard deviations and fourth roots of the 4th central moment.

    The sum over a grid uses SciPy's densities, without graphc or JAX.
    """
    a, b = np.meshgrid(np.linspace(-8, 6, 1201), np.linspace(-12, 5, 1201), indexing="ij")
    chance = 1 / (1 + np.exp(-logits(a[..., None], b[..., None], degrees)))
    density = stats.bernoulli.logpmf(damaged.astype(int), chance).sum(-1)
    density += stats.norm.logpdf(a, scale=prior["intercept"])
    density += stats.norm.logpdf(b, scale=prior["slope"])
    weight = np.exp(density - density.max())
    weight /= weight.sum()
    values = [a, b, 1 / (1 + np.exp(-logits(a, b, COLD)))]
    means = [(weight * x).sum() for x in values]
    spreads, fourths = (
        [(weight * (x - m) ** p).sum() ** (1 / p) for x, m in zip(values, means, strict=True)]
        for p in (2, 4)
    )
    return np.array([means, spreads, fourths])


def draw(picture: Path, draws: dict, degrees: np.ndarray, damaged: np.ndarray) -> None:
    """Plot the probability of distress by temperature and its 90 % band, as a PNG file."""
    axis = np.linspace(28, 84, 113)
    flat = {name: np.asarray(x).reshape(-1, 1) for name, x in draws.items()}
    chances = 1 / (1 + np.exp(-logits(**flat, degrees=axis)))
    low, middle, high = np.quantile(chances, [0.05, 0.5, 0.95], axis=0)
    figure = Figure(figsize=(6.4, 3.4), layout="constrained")
    axes = figure.subplots()
    axes.fill_between(axis, low, high, color="tab:blue", alpha=0.15, label="90 % of the posterior")
    axes.plot(axis, middle, color="tab:blue", label="its median")
    axes.plot(degrees, damaged, "o", color="black", alpha=0.6, label="flights before")
    axes.axvline(COLD, color="tab:red", linestyle=":", label="28 January 1986")
    axes.set(xlabel="temperature of the joints (°F)", ylabel="chance of distress")
    axes.legend(loc="center right", frameon=False)
    picture.parent.mkdir(exist_ok=True)
    figure.savefig(picture, dpi=100)


def main() -> None:
    """Sample, print the posterior beside the grid's, and draw it."""
    jax.config.update("jax_enable_x64", True)
    table = np.loadtxt(ROOT / "examples" / "data" / "oring.csv", delimiter=",", skiprows=1)
    degrees, damaged = table.T
    f = graphc.function([place, temperature, distress], log_posterior)

    def density(position: dict) -> jax.Array:
        return f.pure(position, degrees, damaged)

    key, starting = jax.random.split(jax.random.key(0))
    start = {
        name: scale * jax.random.normal(k, (CHAINS,))
        for (name, scale), k in zip(prior.items(), jax.random.split(starting), strict=True)
    }
    draws, divergent = sample(density, start, key)
    cold = jax.nn.sigmoid(logits(**draws, degrees=COLD))
    values = jnp.stack([draws["intercept"], draws["slope"], cold], axis=-1)
    likeness = blackjax.diagnostics.potential_scale_reduction(values)
    enough = blackjax.diagnostics.effective_sample_size(values)
    means, spreads = values.mean((0, 1)), values.std((0, 1))
    enough_squares = blackjax.diagnostics.effective_sample_size((values - means) ** 2)
    wanted = by_grid(degrees, damaged)

    print(f"{'':<12}{'NUTS':>9}{'±':>8}{'grid':>10}{'±':>8}{'draws worth':>14}{'R-hat':>8}")
    for i, name in enumerate(NAMES):
        row = f"{name:<12}{means[i]:>9.3f}{spreads[i]:>8.3f}{wanted[0, i]:>10.3f}"
        print(f"{row}{wanted[1, i]:>8.3f}{enough[i]:>14.0f}{likeness[i]:>8.3f}")
    print(f"Divergent: {divergent:.1%} of {CHAINS * DRAWS} draws.")
    picture = ROOT / "build" / "oring_posterior.png"
    draw(picture, draws, degrees, damaged)
    print(f"Picture: {picture.relative_to(ROOT)}")

    errors = spreads / np.sqrt(enough)
    if np.any(np.abs(means - wanted[0]) > STRAY * errors) or np.any(likeness > 1.02):
        sys.exit("The draws are not of the posterior.")
    # The chance at 31 °F is almost 1 with a long tail: its spread is known to some 6 % only.
    errors = np.sqrt(wanted[2] ** 4 - wanted[1] ** 4) / (2 * wanted[1]) / np.sqrt(enough_squares)
    if np.any(np.abs(spreads - wanted[1]) > STRAY * errors):
        sys.exit("The draws spread otherwise than the posterior.")


if __name__ == "__main__":
    main()
