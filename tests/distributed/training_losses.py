r"""Two small models trained by DistributedDataParallel for a hundred steps: every rank's losses.

Runs under either implementation. Under PyTorch it writes what test_training_losses compares with:

    FLAMBEAU_TEST_IMPL=torch PYTHONPATH=tests torchrun --nproc-per-node 2 \
        tests/distributed/training_losses.py tests/distributed/recorded/training_losses.json
"""

import json
import sys

from implementation import torch

dist, nn, F = torch.distributed, torch.nn, torch.nn.functional

STEPS, BATCH = 100, 12  # sequences or images of one step, over all ranks


class Block(nn.Module):
    """Attention and two products, each added to what came in."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.first, self.second = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixed, self.back = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, length, width = x.shape
        q, k, v = (part.view(n, length, self.heads, -1).transpose(1, 2) for part in self.mixed(self.first(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.back(y.transpose(1, 2).reshape(n, length, width))
        return x + self.narrow(F.gelu(self.wide(self.second(x))))


class Language(nn.Module):
    """A small GPT whose last product shares its weight with the embedding."""

    def __init__(self, words=32, length=12, width=32):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(Block(width, 4), Block(width, 4))
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.out.weight = self.words.weight

    def forward(self, x):
        return self.out(self.norm(self.blocks(self.words(x) + self.places(torch.arange(x.shape[1])))))


def images():
    """Two convolutions with batch norm, and a product."""
    return nn.Sequential(
        nn.Conv2d(2, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32, 4),
    )


def batch(kind, step):
    """What all ranks together compute on in a step."""
    generator = torch.Generator().manual_seed(1000 + step)
    if kind == "language":
        start = torch.randint(0, 32, (BATCH, 1), generator=generator)
        words = (start + 3 * torch.arange(13) + torch.randint(0, 2, (BATCH, 13), generator=generator)) % 32
        return words[:, :-1], words[:, 1:]
    x = torch.randn(BATCH, 2, 8, 8, generator=generator)
    return x, (x.mean((2, 3)) > 0).long() @ torch.tensor([2, 1])


def losses(kind, rank, size, wrap=lambda model: model):
    """The loss of this rank's part of each step's batch."""
    torch.manual_seed(7)
    model = wrap(Language() if kind == "language" else images())
    optimizer = (
        torch.optim.AdamW(model.parameters(), lr=0.003)
        if kind == "language"
        else torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    )
    part, found = slice(rank * BATCH // size, (rank + 1) * BATCH // size), []
    for step in range(STEPS):
        x, y = (each[part] for each in batch(kind, step))
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).flatten(0, -2), y.flatten())
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def main():
    dist.init_process_group("gloo")
    found = {
        kind: losses(kind, dist.get_rank(), dist.get_world_size(), nn.parallel.DistributedDataParallel)
        for kind in ("language", "images")
    }
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, found)
    if dist.get_rank() == 0:
        with open(sys.argv[1], "w") as file:
            json.dump({kind: [[round(loss, 6) for loss in each[kind]] for each in everyone] for kind in found}, file)
            file.write("\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
