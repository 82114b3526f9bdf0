"""Step times of data parallel, fully sharded and tensor parallel training on many machines, from costs that were measured on one.

    python tools/simulate_scaling.py    print the tables of docs/scaling.md

A message of n bytes takes α + n β; a collective is the ring or tree of such messages that MPI uses (Thakur, Rabenseifner, Gropp:
Optimization of Collective Communication Operations in MPICH, 2005), and each call has a price of its own. Standard library only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Network:
    """Between processes: seconds until a message's first byte, and seconds per byte of a reduction, its additions included."""

    name: str
    latency: float
    per_byte: float


@dataclass(frozen=True)
class Model:
    """A step of one process alone: seconds of computation, and what data parallelism has to send.

    layers: how many parts parameters are gathered in; activations: bytes that tensor parallelism sums per layer and direction.
    """

    name: str
    forward: float
    backward: float
    update: float
    parameters: int
    layers: int
    activations: int


#: Measured on one machine with two cores, quiet: see docs/scaling.md.
GPT = Model("GPT of the benchmarks (4 layers of 128, 16 x 128 tokens)", 0.0183, 0.0401, 0.0009, 859_136, 4, 16 * 128 * 128 * 4)
#: Seconds of a call of a collective beside the messages: what 4 KB take where they only lie in shared memory.
CALL = 20e-6
SHARED_MEMORY = Network("shared memory", 1e-6, 0.26e-9)
TCP = Network("TCP, two processes of one machine", 80e-6, 1.8e-9)
#: Seconds to add a byte of float32 to another, one thread; half of what a reduction moves is added.
ADDITION = 0.07e-9
#: TCP as measured; the others by the bandwidth and latency that their makers publish, and our additions.
NETWORKS = (
    TCP,
    Network("100 Gbit/s, RDMA", 2e-6, 8 / 100e9 + ADDITION / 2),
    Network("400 Gbit/s, RDMA", 2e-6, 8 / 400e9 + ADDITION / 2),
)
#: Seconds that bench/distributed.py measured for an all-reduce among two, by bytes.
MEASURED = {SHARED_MEMORY: {4096: 21e-6, 2**20: 222e-6, 2**26: 17.2e-3}, TCP: {4096: 110e-6, 2**20: 2.01e-3, 2**26: 121e-3}}
NODES = (1, 2, 4, 16, 64, 256, 1024)
#: Gradients are sent in buckets of this many bytes (DistributedDataParallel's default).
BUCKET = 25 * 2**20
#: How much longer the slowest of n processes takes than the mean: noise of this share, growing as the expected maximum does.
NOISE = 0.01


def all_reduce(size: float, count: int, network: Network) -> float:
    """Seconds of an all-reduce: recursive doubling where messages are short, else reduce-scatter and all-gather."""
    if count == 1:
        return 0.0
    steps = math.ceil(math.log2(count))
    short = steps * (network.latency + size * network.per_byte)
    long = 2 * steps * network.latency + 2 * (count - 1) / count * size * network.per_byte
    return CALL + min(short, long)


def gather(size: float, count: int, network: Network) -> float:
    """Seconds of an all-gather, or reduce-scatter, of a tensor of `size` bytes in all."""
    if count == 1:
        return 0.0
    return CALL + math.ceil(math.log2(count)) * network.latency + (count - 1) / count * size * network.per_byte


def slowest(seconds: float, count: int) -> float:
    """What everyone waits for: the slowest of `count` processes."""
    return seconds * (1 + NOISE * math.sqrt(2 * math.log(count))) if count > 1 else seconds


def data_parallel(model: Model, count: int, network: Network) -> float:
    """Buckets are reduced while backward goes on; the last one only after it."""
    size = model.parameters * 4
    buckets = max(1, math.ceil(size / BUCKET))
    each = all_reduce(size / buckets, count, network)
    backward = slowest(model.backward, count)
    hidden = backward * (buckets - 1) / buckets
    left = max(0.0, each * (buckets - 1) - hidden) + each
    return slowest(model.forward, count) + backward + left + model.update


def fully_sharded(model: Model, count: int, network: Network) -> float:
    """Each layer is gathered before its forward and its backward, and its gradients are scattered; nothing overlaps."""
    per_layer = model.parameters * 4 / model.layers
    sent = model.layers * 3 * gather(per_layer, count, network)
    return slowest(model.forward + model.backward, count) + sent + model.update / count


def tensor_parallel(model: Model, count: int, network: Network) -> float:
    """Two sums of activations per layer and direction; the batch is one, its computation divided."""
    sent = model.layers * 4 * all_reduce(model.activations, count, network)
    return slowest((model.forward + model.backward) / count, count) + sent + model.update / count


def table(model: Model, network: Network) -> str:
    """Rows by the number of machines, in Markdown: seconds of a step, and the efficiency against one machine."""
    alone = model.forward + model.backward + model.update
    rows = [
        f"| machines | DDP, ms | efficiency | fully sharded, ms | efficiency | tensor parallel, ms | speed-up |\n{'| --- ' * 7}|"
    ]
    for count in NODES:
        ddp, sharded, tensor = (f(model, count, network) for f in (data_parallel, fully_sharded, tensor_parallel))
        rows.append(
            f"| {count} | {ddp * 1e3:.1f} | {alone / ddp:.0%} | {sharded * 1e3:.1f} | {alone / sharded:.0%} "
            f"| {tensor * 1e3:.1f} | {alone / tensor:.1f} |"
        )
    return "\n".join(rows)


def grown(model: Model, width: int) -> Model:
    """The model with layers `width` times as wide: computation and parameters grow by its square, activations by it."""
    square = width * width
    return Model(
        f"the same, {width} times as wide",
        model.forward * square,
        model.backward * square,
        model.update * square,
        model.parameters * square,
        model.layers,
        model.activations * width,
    )


def main() -> None:
    """Print the tables."""
    print("| all-reduce among two | bytes | measured, ms | simulated, ms |\n| --- | --- | --- | --- |")
    for network, rows in MEASURED.items():
        for size, seconds in rows.items():
            print(f"| {network.name} | {size} | {seconds * 1e3:.3f} | {all_reduce(size, 2, network) * 1e3:.3f} |")
    for model in (GPT, grown(GPT, 16)):
        for network in NETWORKS:
            print(f"\n**{model.name}, {network.name}**\n\n{table(model, network)}")


if __name__ == "__main__":
    main()
