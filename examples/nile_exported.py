"""Does a published likelihood need graphc?

The Kalman filter of ``nile.py``, its likelihood and the gradient of that, a loop backwards over the
years, are written to files. Three processes in which ``import graphc`` fails read them, by JAX, MLX
and onnxruntime, and search for the most likely variances again. Run it with ``make examples``.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import numpy as np
from scipy.optimize import minimize

ROOT = Path(__file__).parents[1]
READERS = ("JAX", "MLX", "onnxruntime")
PUBLISHED = np.array([15099.0, 1469.1])  # Durbin & Koopman: variances of noise and of moves
STEADY = 0.005  # how near to them the estimates are to come, relatively

Likelihood = Callable[[np.ndarray, np.ndarray], tuple]
"""A function of log variances and flow: minus the log likelihood, and its gradient."""


def write(folder: Path) -> None:
    """Write the function as a file with programs for JAX and MLX, and as an ONNX model."""
    import nile  # noqa: PLC0415

    import graphc  # noqa: PLC0415 (readers do without)

    outputs = [nile.loss, graphc.grad(nile.loss, nile.logs)]
    f = graphc.function([nile.logs, nile.flow], outputs, name="likelihood")
    years = {"flow": (100,)}
    f.export(folder / "nile.graphc", programs=("JAX", "MLX"), dynamic=years)
    f.export(folder / "nile.onnx", dynamic=years)
    with ZipFile(folder / "nile.graphc") as file:
        file.extract("runtime.py", folder)


def read(reader: str, folder: Path) -> Likelihood:
    """Read the function from a file, without graphc."""
    sys.modules["graphc"] = None  # so that importing it fails
    if reader == "onnxruntime":
        import onnxruntime  # noqa: PLC0415

        session = onnxruntime.InferenceSession(folder / "nile.onnx")
        return lambda logs, flow: session.run(None, {"logs": logs, "flow": flow})
    sys.path.insert(0, str(folder))
    import runtime  # noqa: PLC0415

    return runtime.load(folder / "nile.graphc", reader)


def fit(likelihood: Likelihood) -> np.ndarray:
    """Fit the variances; return them, their log likelihood, and the steps taken."""
    table = np.loadtxt(ROOT / "examples" / "data" / "nile.csv", delimiter=",", skiprows=1)
    flow = table[:, 1]

    def value_and_slope(logs: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = likelihood(logs, flow)
        return float(value), np.asarray(slope, "float64")

    start = np.log([flow.var() / 2] * 2)
    fitted = minimize(value_and_slope, start, jac=True, method="BFGS", options={"gtol": 1e-3})
    return np.array([*np.exp(fitted.x), -fitted.fun, fitted.nit])


def main() -> None:
    """Write the files and start processes that read them; with ``--read``, read one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--read", nargs=2, metavar=("READER", "FOLDER"), help="one file")
    if request := parser.parse_args().read:
        reader, folder = request
        print(*fit(read(reader, Path(folder))))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder)
        sizes = ", ".join(f"{x.name} {x.stat().st_size:,} bytes" for x in sorted(folder.iterdir()))
        print(f"written: {sizes}")
        print(f"{'':<12}{'noise':>12}{'moves':>12}{'log likelihood':>16}{'steps':>8}")
        for reader in READERS:
            command = [sys.executable, __file__, "--read", reader, str(folder)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(f"{reader} did not read its file:\n{done.stderr}")
            noise, moves, likelihood, steps = map(float, done.stdout.split())
            print(f"{reader:<12}{noise:>12.1f}{moves:>12.1f}{likelihood:>16.4f}{steps:>8.0f}")
            if not np.allclose([noise, moves], PUBLISHED, rtol=STEADY):
                sys.exit(f"The estimates by {reader} are not the published ones.")
    print(f"{'published':<12}{PUBLISHED[0]:>12.1f}{PUBLISHED[1]:>12.1f}")


if __name__ == "__main__":
    main()
