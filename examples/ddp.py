"""Train on handwritten digits in several processes with DistributedDataParallel, in plain PyTorch.

    flambeau launch --standalone --nproc-per-node 2 examples/ddp.py     # under flambeau, with the extra flambeau[dist]
    torchrun --standalone --nproc-per-node 2 examples/ddp.py            # under PyTorch: the same file

Each process trains on its share of every epoch, which DistributedSampler deals out, and gradients are averaged while the backward
pass goes on. Rank 0 writes a checkpoint after each epoch; started again after a failure (torchrun --max-restarts), training goes
on from there.
"""

import argparse
import os
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

HERE = Path(__file__).resolve().parent


def load_digits() -> tuple[TensorDataset, TensorDataset]:
    """1437 digits to train on and 360 to test with: images (N, 1, 8, 8) float32, labels (N,) int64."""
    with np.load(HERE / "data" / "digits.npz") as archive:
        images = (torch.from_numpy(archive["images"]).float().unsqueeze(1) - 5.0) / 6.0
        labels = torch.from_numpy(archive["labels"]).long()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    train, test = order[:1437], order[1437:]
    return TensorDataset(images[train], labels[train]), TensorDataset(images[test], labels[test])


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(128, 10))  # fmt: skip


class ProgressBar:
    """Rank 0's line per epoch: redrawn in place on a terminal, printed once at the end anywhere else."""

    def __init__(self, title: str, total: int, width: int = 24) -> None:
        self.title, self.total, self.width = title, total, width
        self.live, self.shown = sys.stdout.isatty(), dist.get_rank() == 0
        self.start = time.perf_counter()

    def draw(self, done: int, text: str) -> None:
        if not self.shown or (not self.live and done < self.total):
            return
        filled = self.width * done // self.total
        line = f"{self.title} [{'#' * filled}{'.' * (self.width - filled)}] {time.perf_counter() - self.start:5.2f} s  {text}"
        print(f"\r{line}\033[K" if self.live else line, end="", flush=True)

    def close(self, text: str) -> None:
        if self.shown:
            print(f"  {text}", flush=True)


@torch.no_grad()
def accuracy(model: nn.Module, dataset: TensorDataset) -> float:
    """The share of digits that are recognized; every process looks at some of them."""
    model.eval()
    rank, size = dist.get_rank(), dist.get_world_size()
    images, labels = dataset.tensors
    hits = (model(images[rank::size]).argmax(dim=1) == labels[rank::size]).sum()
    dist.all_reduce(hits)
    return hits.item() / len(labels)


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch", type=int, default=32, help="of each process")
    parser.add_argument("--checkpoint", type=Path, default=HERE / "out" / "ddp.pt")
    arguments = parser.parse_args()

    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    train, test = load_digits()
    sampler = DistributedSampler(train, seed=0, drop_last=True)
    loader = DataLoader(train, batch_size=arguments.batch, sampler=sampler, drop_last=True)
    model = DistributedDataParallel(network())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    first = 1
    if os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0" and arguments.checkpoint.exists():
        state = torch.load(arguments.checkpoint, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["epoch"] + 1
    if rank == 0:
        print(f"{size} processes, {arguments.batch} images each; {len(train)} digits to train on", flush=True)

    for epoch in range(first, arguments.epochs + 1):
        model.train()
        sampler.set_epoch(epoch)
        bar, total = ProgressBar(f"epoch {epoch}/{arguments.epochs}", len(loader)), 0.0
        for done, (images, labels) in enumerate(loader, start=1):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            total += loss.item()
            bar.draw(done, f"loss {total / done:.4f}")
        bar.close(f"test accuracy {accuracy(model.module, test):6.2%}")
        if rank == 0:
            arguments.checkpoint.parent.mkdir(exist_ok=True)
            state = {"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
            part = arguments.checkpoint.with_suffix(".part")
            torch.save(state, part)
            part.replace(arguments.checkpoint)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
