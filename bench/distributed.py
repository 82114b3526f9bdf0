"""Collectives and DistributedDataParallel beside PyTorch's with Gloo, interleaved: `python bench/distributed.py NAME=PYTHON...`.

Each round starts the processes of one contender after the other, so that both see the same machine; a figure is the median over
rounds of each round's median. Used by `make bench-distributed`.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

SIZES = {"4 KB": 1 << 10, "1 MB": 1 << 18, "64 MB": 1 << 24}  # elements of float32
REPEATS = {"4 KB": 60, "1 MB": 30, "64 MB": 6}


def times(call: Callable[[], object], repeats: int, dist: object) -> float:
    """The median of a call's seconds; processes begin each one together."""
    found = []
    for _ in range(repeats + 2):
        dist.barrier()
        begin = time.perf_counter()
        call()
        found.append(time.perf_counter() - begin)
    return statistics.median(found[2:])


def calls_of(torch: object, dist: object, count: int) -> dict[str, Callable[[], object]]:
    """The collectives, on `count` elements: that many has the largest tensor of a call."""
    size, rank = dist.get_world_size(), dist.get_rank()
    whole, part, out = torch.ones(count), torch.ones(count // size), torch.ones(count)
    half, parts = torch.ones(count, dtype=torch.bfloat16), list(torch.empty(count).chunk(size))
    return {
        "all_reduce": lambda: dist.all_reduce(whole),
        "all_reduce bf16": lambda: dist.all_reduce(half),
        "broadcast": lambda: dist.broadcast(whole, 0),
        "reduce": lambda: dist.reduce(out, 0),
        "all_gather": lambda: dist.all_gather(parts, part),
        "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(out, part),
        "reduce_scatter_tensor": lambda: dist.reduce_scatter_tensor(part, out),
        "all_to_all_single": lambda: dist.all_to_all_single(out, whole),
        "gather": lambda: dist.gather(part, parts if rank == 0 else None),
        "scatter": lambda: dist.scatter(part, parts if rank == 0 else None),
        "send and receive": lambda: dist.send(whole, 1) if rank == 0 else dist.recv(whole, 0) if rank == 1 else None,
    }


def collectives(torch: object, dist: object) -> dict[str, float]:
    """Seconds of each collective at each size."""
    return {
        f"{name} {label}": times(call, REPEATS[label], dist)
        for label, count in SIZES.items()
        for name, call in calls_of(torch, dist, count).items()
    }


def steps(torch: object, dist: object) -> dict[str, float]:
    """Seconds of a step of training, of the benchmark's networks."""
    nn, functional = torch.nn, torch.nn.functional
    ddp = torch.nn.parallel.DistributedDataParallel

    class Block(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x):
            batch, length, _ = x.shape
            q, k, v = (t.view(batch, length, 4, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
            return x + self.mlp(self.norm2(x))

    class Residual(nn.Module):
        def __init__(self, before: int, width: int, stride: int) -> None:
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(before, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width))  # fmt: skip
            self.short = (
                nn.Identity()
                if stride == 1 and before == width
                else nn.Sequential(nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))
            )

        def forward(self, x):
            return functional.relu(self.body(x) + self.short(x))

    torch.manual_seed(0)
    gpt = nn.Sequential(nn.Embedding(256, 128), *[Block(128) for _ in range(4)], nn.LayerNorm(128), nn.Linear(128, 256))
    widths = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)]
    resnet = nn.Sequential(
        nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(), *[Residual(*each) for each in widths],
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))  # fmt: skip
    tokens = torch.randint(0, 256, (16, 129))
    images, labels = torch.randn(32, 3, 32, 32), torch.randint(0, 10, (32,))
    found = {}
    for name, network, loss, repeats in (
        (
            "train/gpt_4L_d128_T128_B16",
            gpt,
            lambda m: functional.cross_entropy(m(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()),
            8,
        ),
        ("train/resnet18_cifar_B32", resnet, lambda m: functional.cross_entropy(m(images), labels), 4),
    ):
        model = ddp(network)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

        def step(model=model, optimizer=optimizer, loss=loss) -> None:
            optimizer.zero_grad()
            loss(model).backward()
            optimizer.step()

        found[name] = times(step, repeats, dist)
    return found


def child(module: str, what: str, path: str) -> None:
    """One process of a contender: rank 0 writes what it measured."""
    if module == "flambeau":
        import flambeau as torch
        import flambeau.distributed as dist
    else:
        import torch
        import torch.distributed as dist
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    found = steps(torch, dist) if what == "steps" else collectives(torch, dist)
    if dist.get_rank() == 0:
        Path(path).write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


def measured(python: str, module: str, ranks: int, what: str) -> dict[str, float]:
    """A contender's figures of one round."""
    with socket.create_server(("", 0)) as probe:
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/figures.json"
        command = [python, __file__, "--child", module, what, path]
        processes = [
            subprocess.Popen(
                command,
                env={
                    **os.environ,
                    "RANK": str(rank),
                    "WORLD_SIZE": str(ranks),
                    "LOCAL_RANK": str(rank),
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(port),
                    "OMP_NUM_THREADS": "1",
                },
            )
            for rank in range(ranks)
        ]
        try:
            codes = [process.wait(600) for process in processes]
        finally:
            for process in processes:
                process.kill()
        if any(codes):
            raise SystemExit(f"{python}: a process failed ({codes})")
        return json.loads(Path(path).read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("contenders", nargs="*", help="NAME=PYTHON; flambeau is the one of that name")
    parser.add_argument("--child", nargs=3)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["collectives", "steps"])
    arguments = parser.parse_args()
    if arguments.child:
        child(*arguments.child)
        return
    contenders = dict(each.split("=", 1) for each in arguments.contenders)
    found: dict[str, list[dict[str, float]]] = {name: [] for name in contenders}
    for _ in range(arguments.rounds):
        for what in [arguments.only] if arguments.only else ["collectives", "steps"]:
            for name, python in contenders.items():
                found[name].append(measured(python, "flambeau" if name == "flambeau" else "torch", arguments.ranks, what))
    rows = dict.fromkeys(key for runs in found.values() for run in runs for key in run)
    print(f"{arguments.ranks} processes, median of {arguments.rounds} rounds, ms")
    print(f"{'':34}" + "".join(f"{name:>14}" for name in found) + ("     ratio" if len(found) == 2 else ""))
    for row in rows:
        figures = [statistics.median(run[row] for run in runs if row in run) for runs in found.values()]
        ratio = f"{figures[0] / figures[1]:10.2f}" if len(figures) == 2 else ""
        print(f"{row:34}" + "".join(f"{figure * 1e3:14.3f}" for figure in figures) + ratio)


if __name__ == "__main__":
    main()
