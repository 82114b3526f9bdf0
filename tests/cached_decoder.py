"""A small decoder with a cache of keys and values, built as language models of other people are.

Rotary positions, heads in groups, a mask of the padding and of what comes later, made by indexing. Used by the tests of
torch.export and of torch.onnx.
"""

from __future__ import annotations

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn

HEADS, KEY_HEADS, WIDTH, WORDS, LAYERS = 4, 2, 4, 23, 2
Past = tuple[torch.Tensor, ...]


class Layer(nn.Module):
    """Attention over what the cache has and over the new tokens, and a gate."""

    def __init__(self) -> None:
        super().__init__()
        size = HEADS * WIDTH
        self.q, self.o = nn.Linear(size, size, bias=False), nn.Linear(size, size, bias=False)
        self.k, self.v = (nn.Linear(size, KEY_HEADS * WIDTH, bias=False) for _ in range(2))
        self.norm, self.gate = nn.RMSNorm(size), nn.Linear(size, size)

    def forward(self, x, mask, turn, past):
        y = self.norm(x)
        shape = (*y.shape[:-1], -1, WIDTH)
        q, k, v = (f(y).view(shape).transpose(1, 2) for f in (self.q, self.k, self.v))
        q, k = (z * turn[0] + torch.cat((-z[..., WIDTH // 2 :], z[..., : WIDTH // 2]), -1) * turn[1] for z in (q, k))
        k, v = torch.cat([past[0], k], -2), torch.cat([past[1], v], -2)
        batch, heads, length, width = k.shape
        wide = [z[:, :, None].expand(batch, heads, 2, length, width).reshape(batch, heads * 2, length, width) for z in (k, v)]
        y = F.scaled_dot_product_attention(q, *wide, attn_mask=mask)
        x = x + self.o(y.transpose(1, 2).reshape(*x.shape[:-1], -1).contiguous())
        return x + F.silu(self.gate(x)), k, v


class Decoder(nn.Module):
    """Scores of the next tokens, and the cache with them in it."""

    def __init__(self) -> None:
        super().__init__()
        size = HEADS * WIDTH
        self.words, self.scores = nn.Embedding(WORDS, size), nn.Linear(size, WORDS, bias=False)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.register_buffer("speeds", 1 / 100 ** (torch.arange(0, WIDTH, 2) / WIDTH))

    def forward(self, ids, attention_mask, position_ids, *past):
        batch, length = ids.shape
        before = past[0].shape[-2]
        rows, columns = torch.arange(length) + before, torch.arange(length + before)
        seen = rows.new_ones((), dtype=torch.bool) & (columns[None, None, None] <= rows[None, None, :, None])
        seen = seen & attention_mask.bool()[torch.arange(batch)[:, None, None, None], columns[None, None, None]]
        seen = seen.expand(batch, -1, length, length + before)
        angles = (position_ids[:, :, None].float() * self.speeds).repeat(1, 1, 2)
        turn = angles.cos()[:, None], angles.sin()[:, None]
        x, cache = self.words(ids), []
        for i, layer in enumerate(self.layers):
            x, *kept = layer(x, seen, turn, past[2 * i : 2 * i + 2])
            cache += kept
        return self.scores(x), *cache


def decoder() -> nn.Module:
    """The model with the weights of a seed."""
    torch.manual_seed(0)
    return Decoder().eval()


def inputs(batch: int, length: int, before: int, padding: int = 0) -> tuple[torch.Tensor, ...]:
    """ids, mask, positions and a cache; the first row begins with padding."""
    source = torch.Generator().manual_seed(batch + 10 * length + 100 * before)
    mask = torch.ones(batch, length + before, dtype=torch.int64)
    mask[0, :padding] = 0
    past = [torch.randn(batch, KEY_HEADS, before, WIDTH, generator=source) for _ in range(2 * LAYERS)]
    ids = torch.randint(0, WORDS, (batch, length), generator=source)
    return ids, mask, torch.arange(before, before + length).expand(batch, length), *past


def generated(step, prompt: torch.Tensor, count: int) -> torch.Tensor:
    """The prompt and `count` tokens more, each that with the best score, token by token; `step` is the model."""
    batch, before, ids, made = len(prompt), 0, prompt, prompt
    past = [torch.zeros(batch, KEY_HEADS, 0, WIDTH) for _ in range(2 * LAYERS)]
    for _ in range(count):
        length = ids.shape[1]
        mask = torch.ones(batch, before + length, dtype=torch.int64)
        scores, *past = step(ids, mask, torch.arange(before, before + length).repeat(batch, 1), *past)
        ids, before = scores[:, -1:].argmax(-1), before + length
        made = torch.cat([made, ids], 1)
    return made
