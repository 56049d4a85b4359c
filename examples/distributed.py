"""Next year's sunspots by a recurrent network, trained by two processes with four devices each.

The yearly sunspot numbers, 1700 to 2008; ``data/README.md`` has the source. The network is a
``graphc.scan`` over 11 years, about one cycle, and learns to tell the next one:

    hidden[t] = tanh(spots[t] * w_in + hidden[t - 1] @ w + b),     next = hidden[-1] @ w_out

The processes are of this machine, and the devices are its processor's, which shows as several. Over
these the batches are divided, and the weights too, which a step gathers before it uses them. Each
process reads its own half of a batch. They save a checkpoint now and then, and begin with one if
there is one. The same graph, trained on one device by one process, has to give the same weights.
Run it with ``make examples``.
"""

import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import jax
import numpy as np

import graphc
import graphc.tensor as gt

ROOT = Path(__file__).parents[1]
PROCESSES, DEVICES = 2, 4
YEARS, HIDDEN, BATCH = 11, 16, 64
STEPS, EVERY = 20, 5  # from one checkpoint to the next
HEARTBEAT = 10  # seconds after which a process that has died is missed


class Network:
    """The graph of a training step, and its shared variables, which checkpoints have."""

    def __init__(self) -> None:
        draws = np.random.default_rng(0)
        initial = {
            "w_in": draws.normal(size=HIDDEN) / 4,
            "w": draws.normal(size=(HIDDEN, HIDDEN)) / 4,
            "b": np.zeros(HIDDEN),
            "w_out": draws.normal(size=HIDDEN) / 4,
        }
        self.weights = [graphc.shared(x, name, sharding=("data",)) for name, x in initial.items()]
        self.speeds = [
            graphc.shared(np.zeros_like(x), f"{name} speed", sharding=("data",))
            for name, x in initial.items()
        ]
        self.step = graphc.shared(0, "step")
        # Noise in the inputs, the same on any mesh, keeps the network from learning by heart.
        self.stream = graphc.random.RandomStream(1)
        self.noise = 0.05 * self.stream.normal(size=(BATCH, YEARS))
        self.spots = gt.matrix("spots", sharding=("data", None))
        self.following = gt.vector("following", sharding=("data",))

    @property
    def variables(self) -> dict:
        """All variables from which training continues."""
        named = [*self.weights, *self.speeds, self.step]
        return {"noise": self.stream, **{x.name: x for x in named}}

    def compile(self, mode: graphc.Mode) -> graphc.Function:
        """Compile a step of gradient descent with momentum that returns the loss."""
        w_in, w, b, w_out = [gt.shard(x, ()) for x in self.weights]

        def advance(now, hidden):
            return gt.tanh(now[:, None] * w_in + hidden @ w + b)

        hidden = graphc.scan(advance, (self.spots + self.noise).T, gt.zeros((BATCH, HIDDEN)))[-1]
        loss = ((hidden @ w_out - self.following) ** 2).mean()
        updates = [(self.step, self.step + 1)]
        for x, speed in zip(self.weights, self.speeds, strict=True):
            new = 0.9 * speed - 0.05 * graphc.grad(loss, x)
            updates += [(speed, new), (x, x + new)]
        inputs = [self.spots, self.following]
        return graphc.function(inputs, loss, updates=updates, mode=mode, name="step")


def batch(step: int, part: slice = slice(None)) -> tuple[np.ndarray, np.ndarray]:
    """Return a part of a batch: rows of years, as hundreds of spots, and the year after each."""
    table = np.loadtxt(ROOT / "examples" / "data" / "sunspots.csv", delimiter=",", skiprows=1)
    spots = table[:, 1] / 100
    windows = np.lib.stride_tricks.sliding_window_view(spots, YEARS + 1)
    rows = np.random.default_rng(step).choice(len(windows), BATCH, replace=False)[part]
    return windows[rows, :-1], windows[rows, -1]


def train_here() -> Network:
    """Train on one device."""
    network = Network()
    step = network.compile(graphc.Mode("JAX"))
    for i in range(STEPS):
        step(*batch(i))
    return network


def train_together(process: int, address: str, folder: str) -> None:
    """Train in one of the processes."""
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", DEVICES)
    graphc.distributed.initialize(address, PROCESSES, process, heartbeat_timeout_seconds=HEARTBEAT)
    mode = graphc.Mode("JAX", mesh=graphc.mesh(data=-1))
    network = Network()
    if graphc.distributed.has_checkpoint(folder):
        graphc.distributed.load_checkpoint(folder, network.variables, mode)
    first = int(network.step.get_value())
    step = network.compile(mode)
    graphc.distributed.print_once(f"Training on {mode.mesh_axes} from step {first}", flush=True)
    own = slice(process * BATCH // PROCESSES, (process + 1) * BATCH // PROCESSES)
    for i in range(first, STEPS):
        spots, following = batch(i, own)
        loss = step(
            graphc.distributed.global_array(spots, network.spots, mode),
            graphc.distributed.global_array(following, network.following, mode),
        )
        if (i + 1) % EVERY == 0:
            graphc.distributed.save_checkpoint(folder, network.variables)
            text = f"step {i + 1:>4}   loss {float(loss):.4f}   saved"
            graphc.distributed.print_once(text, flush=True)


def start(folder: str) -> list[subprocess.Popen]:
    """Start the processes; the first one prints into a pipe."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    commands = [[sys.executable, __file__, str(i), address, folder] for i in range(PROCESSES)]
    outputs = [subprocess.PIPE] + (PROCESSES - 1) * [subprocess.DEVNULL]
    return [
        subprocess.Popen(command, stdout=output, text=True)
        for command, output in zip(commands, outputs, strict=True)
    ]


def follow(processes: list[subprocess.Popen]) -> None:
    """Print the progress of training until it is done, without messages of the transport."""
    for line in processes[0].stdout:
        if line.startswith(("Training", "step")):
            print(line, end="", flush=True)
    codes = [process.wait() for process in processes]
    if any(codes):
        sys.exit("A process failed.")


def difference(folder: str, network: Network) -> float:
    """Return the largest difference between weights of a checkpoint and of a network."""
    saved = Network()
    graphc.distributed.load_checkpoint(folder, saved.variables)
    pairs = zip(saved.weights, network.weights, strict=True)
    return max(float(np.abs(a.get_value() - b.get_value()).max()) for a, b in pairs)


def main() -> None:
    """Train in two processes and in this one, and compare."""
    with tempfile.TemporaryDirectory() as folder:
        follow(start(folder))
        network = train_here()
        largest = difference(folder, network)
    print(f"Largest difference of a weight from those of one device: {largest:.1e}")
    if largest > 1e-10:
        sys.exit("Two processes do not compute what one device does.")


if __name__ == "__main__":
    if sys.argv[1:]:
        train_together(int(sys.argv[1]), *sys.argv[2:])
    else:
        main()
