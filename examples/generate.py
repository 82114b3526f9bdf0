"""Train a small language model on this repository's documentation, and write text with it in float32, bfloat16, int8 and int4.

    flambeau run examples/generate.py        # under flambeau
    python examples/generate.py              # under PyTorch: the same file

A decoder of characters as Llama is made: RMS norms, rotated queries and keys, heads in groups, a gated middle, a cache of keys
and values that grows in place. The weights of its linear layers are then rounded: to bfloat16, to int8 by rows
(`torch._weight_int8pack_mm`), and to int4 by groups of 32 (`torch._weight_int4pack_mm_for_cpu`). For each it prints characters a
second, bytes of weights, and how often its most likely next character is that of float32.
"""

import argparse
import copy
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

ROOT = Path(__file__).resolve().parent.parent
GROUP = 32  # columns of a weight that share a scale in int4


class Attention(nn.Module):
    """Causal attention whose groups of heads share keys and values, over a cache."""

    def __init__(self, width: int, heads: int, groups: int) -> None:
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.query = nn.Linear(width, width, bias=False)
        self.key_value = nn.Linear(width, 2 * groups * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(
        self, x: torch.Tensor, turn: torch.Tensor, cache: tuple[torch.Tensor, torch.Tensor] | None, at: int
    ) -> torch.Tensor:
        batch, length, _ = x.shape
        query = self.query(x).view(batch, length, self.heads, self.size).transpose(1, 2)
        pair = self.key_value(x).view(batch, length, 2 * self.groups, self.size).transpose(1, 2)
        key, value = pair.chunk(2, 1)
        query, key = rotated(query, turn), rotated(key, turn)
        if cache is not None:  # a step writes its own columns, and reads those before it where they lie
            for kept, new in zip(cache, (key, value)):
                kept[:, :, at : at + length] = new
            key, value = (kept[:, :, : at + length] for kept in cache)
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=length > 1, enable_gqa=True)
        return self.out(seen.transpose(1, 2).reshape(batch, length, -1))


def rotated(x: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
    """Halves of the last dimension turned against each other; turn: cosines and sines, (2, length, size)."""
    first, second = x.chunk(2, -1)
    return x * turn[0] + torch.cat([-second, first], -1) * turn[1]


class Block(nn.Module):
    """Attention, and a gated layer of two and a half times the width."""

    def __init__(self, width: int, heads: int, groups: int) -> None:
        super().__init__()
        middle = 5 * width // 2
        self.before, self.between = nn.RMSNorm(width), nn.RMSNorm(width)
        self.attention = Attention(width, heads, groups)
        self.gate, self.up = nn.Linear(width, middle, bias=False), nn.Linear(width, middle, bias=False)
        self.down = nn.Linear(middle, width, bias=False)

    def forward(
        self, x: torch.Tensor, turn: torch.Tensor, cache: tuple[torch.Tensor, torch.Tensor] | None, at: int
    ) -> torch.Tensor:
        x = x + self.attention(self.before(x), turn, cache, at)
        h = self.between(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Decoder(nn.Module):
    """Characters (batch, length) to logits of the next ones (batch, length, vocabulary)."""

    def __init__(self, vocabulary: int, width: int, layers: int, heads: int, longest: int) -> None:
        super().__init__()
        self.heads, self.size, self.longest = heads, width // heads, longest
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, heads, heads // 2) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, vocabulary, bias=False)
        angles = torch.outer(torch.arange(longest), 10000 ** -(torch.arange(0, self.size, 2) / self.size)).repeat(1, 2)
        self.register_buffer("turn", torch.stack([angles.cos(), angles.sin()]), persistent=False)

    def forward(
        self, ids: torch.Tensor, caches: list[tuple[torch.Tensor, torch.Tensor]] | None = None, at: int = 0
    ) -> torch.Tensor:
        x, turn = self.embedding(ids), self.turn[:, at : at + ids.shape[1]]
        for number, block in enumerate(self.blocks):
            x = block(x, turn, None if caches is None else caches[number], at)
        return self.head(self.norm(x))

    def new_caches(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Keys and values of each layer, to be filled."""
        shape = 1, self.heads // 2, self.longest, self.size
        return [(self.turn.new_zeros(shape), self.turn.new_zeros(shape)) for _ in self.blocks]


class Int8Linear(nn.Module):
    """A linear layer whose weights are int8, with a scale for each row."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        scale = linear.weight.abs().amax(1) / 127
        self.register_buffer("weight", (linear.weight / scale[:, None]).round().to(torch.int8))
        self.register_buffer("scale", scale)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch._weight_int8pack_mm(x.flatten(0, -2), self.weight, self.scale).unflatten(0, x.shape[:-1])


class Int4Linear(nn.Module):
    """A linear layer whose weights are 0 ... 15, two in a byte; each group of 32 in a row has a scale and what 8 stands for."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        groups = linear.weight.unflatten(1, (-1, GROUP))
        low, high = groups.aminmax(dim=-1, keepdim=True)
        scale = ((high - low) / 15).clamp(min=1e-6)
        codes = ((groups - low) / scale).round().clamp(0, 15).to(torch.int32).flatten(1)
        self.register_buffer("weight", torch._convert_weight_to_int4pack_for_cpu(codes, 2))
        stands = torch.cat([scale, low + 8 * scale], -1).transpose(0, 1)
        self.register_buffer("scale_and_zero", stands.contiguous().to(linear.weight.dtype))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.flatten(0, -2).contiguous()
        return torch._weight_int4pack_mm_for_cpu(rows, self.weight, GROUP, self.scale_and_zero).unflatten(0, x.shape[:-1])


def with_layers(model: nn.Module, kind: type[nn.Module]) -> nn.Module:
    """A copy of a model whose linear layers are of another kind."""
    made = copy.deepcopy(model)
    for module in list(made.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, kind(child))
    return made


def size_of(model: nn.Module) -> int:
    """Bytes of what a model's file holds."""
    return sum(x.numel() * x.element_size() for x in model.state_dict().values())


def read_text() -> tuple[str, list[str]]:
    """The repository's pages, and their characters; the vocabulary is filled up to a multiple of 16, as int4 wants it."""
    text = "".join(path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("docs/**/*.md")))
    letters = sorted(set(text))
    return text, letters + [" "] * (-len(letters) % 16)


def train(model: Decoder, data: torch.Tensor, steps: int, length: int) -> None:
    """AdamW with a warm and a cooling phase; prints losses."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps)
    began = time.perf_counter()
    for step in range(1, steps + 1):
        starts = torch.randint(len(data) - length - 1, (16,))
        rows = torch.stack([data[start : start + length + 1] for start in starts])
        loss = F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % max(1, steps // 8) == 0 or step == steps:
            print(f"step {step:4d}   loss {loss.item():.3f}   {time.perf_counter() - began:.1f} s", flush=True)


@torch.no_grad()
def write(model: Decoder, prompt: torch.Tensor, count: int, label: str) -> tuple[list[int], float]:
    """The characters that a model writes after a prompt, drawn from its ten likeliest, and how many a second."""
    torch.manual_seed(0)
    caches, written = model.new_caches(), []
    logits, at = model(prompt, caches)[:, -1], prompt.shape[1]
    began = time.perf_counter()
    for _ in range(count):
        likely, places = (logits.float() / 0.8).topk(10)
        drawn = places.gather(1, likely.softmax(-1).multinomial(1))
        written.append(int(drawn))
        logits, at = model(drawn, caches, at)[:, -1], at + 1
        if sys.stderr.isatty():
            print(f"\r{label}: {len(written)} of {count}", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print("\r" + " " * 40 + "\r", end="", file=sys.stderr)
    return written, count / (time.perf_counter() - began)


def main() -> None:
    """Train, round, write, compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=300, help="of training")
    parser.add_argument("--characters", type=int, default=200, help="to write with each")
    parser.add_argument("--width", type=int, default=128, help="of the model, a multiple of 64")
    options = parser.parse_args()
    torch.manual_seed(0)
    text, letters = read_text()
    number = {letter: at for at, letter in reversed(list(enumerate(letters)))}
    data = torch.tensor([number[letter] for letter in text])
    held = len(data) // 20
    model = Decoder(len(letters), options.width, layers=3, heads=4, longest=options.characters + 128)
    print(f"{len(text):,} characters, {len(letters)} different ones; {sum(p.numel() for p in model.parameters()):,} weights")
    train(model, data[:-held], options.steps, length=96)
    model.eval().requires_grad_(False)

    prompt, unseen = data[None, -held : -held + 64], data[None, -held : -held + 128]
    kinds = {
        "float32": model,
        "bfloat16": copy.deepcopy(model).bfloat16(),
        "int8": with_layers(model, Int8Linear),
        "int4": with_layers(model, Int4Linear),
    }
    wanted = model(unseen).argmax(-1)
    print("\n          characters/s    weights   next character as float32's")
    for label, kind in kinds.items():
        write(kind, prompt, 4, label)  # kernels are compiled at their first call
        written, speed = write(kind, prompt, options.characters, label)
        same = (kind(unseen).argmax(-1) == wanted).double().mean().item()
        print(f"{label:9s} {speed:12.0f} {size_of(kind) / 1e6:7.2f} MB   {same:.1%}", flush=True)
        text = "".join(letters[at] for at in written)
        print("          " + repr(text[:100]))


if __name__ == "__main__":
    main()
