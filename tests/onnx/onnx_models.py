"""Small models of the kinds that are deployed, for torch.onnx's tests: `MODELS[name]` is a Model.

inputs(batch, length) makes the arguments, shapes says which of their sizes may change.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn

randn, randint = torch.randn, torch.randint


@dataclasses.dataclass
class Model:
    """A kind of model, its inputs, and which of their sizes may change."""

    make: Callable[[], nn.Module]
    inputs: Callable[[int, int], tuple[Any, ...]]
    shapes: Any
    opset: int | None = None


MODELS: dict[str, Model] = {}
BATCH = {0: "batch"}
BATCH_LENGTH = {0: "batch", 1: "length"}


def model(inputs: Callable[[int, int], tuple[Any, ...]], *shapes: Any, opset: int | None = None) -> Any:
    """Decorate a module's class, or a function that makes one."""

    def keep(make: Any) -> Any:
        MODELS[make.__name__] = Model(make, inputs, shapes, opset)
        return make

    return keep


def image(channels: int, size: int) -> Callable[[int, int], tuple[Any, ...]]:
    return lambda n, length: (randn(n, channels, size, size),)


def picture(channels: int, size: int) -> Callable[[int, int], tuple[Any, ...]]:
    """Images of other heights and widths at other lengths."""
    return lambda n, length: (randn(n, channels, size + 4 * (length - 5), size + 8 * (length - 5)),)


# ---------------------------------------------------------------- vectors and images


@model(lambda n, length: (randn(n, 16),), BATCH)
def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(), nn.Linear(32, 8), nn.LogSoftmax(-1))


@model(image(3, 16), BATCH)
def cnn() -> nn.Module:
    block = lambda i, o: (nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True), nn.MaxPool2d(2))
    return nn.Sequential(*block(3, 8), *block(8, 16), nn.Flatten(), nn.Linear(256, 10))


class Residual(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, i: int, o: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o)
        self.conv2, self.bn2 = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)
        self.relu = nn.ReLU(inplace=True)
        self.down = None if stride == 1 else nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        y += x if self.down is None else self.down(x)
        return self.relu(y)


@model(picture(3, 32), {0: "batch", 2: "height", 3: "width"})
class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(True), nn.MaxPool2d(3, 2, 1))
        self.layers = nn.Sequential(Residual(8, 8, 1), Residual(8, 16, 2), Residual(16, 32, 2))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(32, 10)

    def forward(self, x):
        return self.fc(torch.flatten(self.avgpool(self.layers(self.stem(x))), 1))


class SqueezeExcite(nn.Module):
    """Channels weighed by what the whole image says."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Conv2d(channels, channels // 4, 1), nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x):
        scale = F.adaptive_avg_pool2d(x, 1)
        return F.hardsigmoid(self.fc2(F.relu(self.fc1(scale)))) * x


@model(image(3, 24), BATCH)
def MobileNet() -> nn.Module:
    inverted = lambda c, s: (
        nn.Conv2d(c, 2 * c, 1, bias=False), nn.BatchNorm2d(2 * c), nn.Hardswish(),
        nn.Conv2d(2 * c, 2 * c, 5, s, 2, groups=2 * c, bias=False), nn.BatchNorm2d(2 * c), nn.Hardswish(),
        SqueezeExcite(2 * c), nn.Conv2d(2 * c, c, 1, bias=False), nn.BatchNorm2d(c),
    )  # fmt: skip
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1), nn.Hardswish(), *inverted(8, 1), *inverted(8, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Dropout(0.2), nn.Linear(8, 10),
    )  # fmt: skip


@model(picture(1, 20), {0: "batch", 2: "height", 3: "width"})
class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        conv = lambda i, o: nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.ReLU(), nn.Conv2d(o, o, 3, padding=1), nn.ReLU())
        self.down1, self.down2, self.bottom = conv(1, 4), conv(4, 8), conv(8, 16)
        self.up2, self.conv2 = nn.ConvTranspose2d(16, 8, 2, 2), conv(16, 8)
        self.conv1, self.head = conv(12, 4), nn.Conv2d(4, 2, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.up2(self.bottom(F.max_pool2d(b, 2)))
        c = self.conv2(torch.cat([c, b], 1))
        c = F.interpolate(c, size=a.shape[-2:], mode="bilinear", align_corners=False)
        return self.head(self.conv1(torch.cat([c, a], 1)))


@model(image(1, 16), BATCH)
def autoencoder() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, 2, 1), nn.LeakyReLU(0.1), nn.Conv2d(8, 16, 3, 2, 1), nn.LeakyReLU(0.1), nn.Flatten(),
        nn.Linear(256, 8), nn.Linear(8, 256), nn.Unflatten(1, (16, 4, 4)), nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.ELU(),
        nn.Upsample(scale_factor=2), nn.Conv2d(8, 1, 3, padding=1), nn.Sigmoid(),
    )  # fmt: skip


@model(picture(4, 20), {0: "batch", 2: "height", 3: "width"})
def norms() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(4, 8, 3, padding=1), nn.GroupNorm(4, 8), nn.SiLU(), nn.Conv2d(8, 8, 3, padding=1, padding_mode="reflect"),
        nn.InstanceNorm2d(8, affine=True), nn.Mish(), nn.ZeroPad2d(1), nn.AvgPool2d(2),
    )  # fmt: skip


@model(picture(1, 20), {0: "batch", 2: "height", 3: "width"})
def super_resolution() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2), nn.Tanh(), nn.Conv2d(16, 9, 3, padding=1), nn.PixelShuffle(3), nn.Hardtanh(0, 1)
    )


@model(image(4, 36), BATCH)
def dqn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(4, 8, 8, 4), nn.ReLU(), nn.Conv2d(8, 16, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(144, 32), nn.ReLU(),
        nn.Linear(32, 6),
    )  # fmt: skip


@model(image(3, 16), BATCH)
class Detector(nn.Module):
    """A head whose best boxes are taken by topk and gather, and decoded."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.scores, self.boxes = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 6, 1), nn.Conv2d(8, 8, 1)

    def forward(self, x):
        features = F.relu(self.body(x))
        n, _, h, w = features.shape
        scores = self.scores(features).view(n, 2, 3, h, w).permute(0, 3, 4, 1, 2).reshape(n, -1, 3)
        boxes = self.boxes(features).view(n, 2, 4, h, w).permute(0, 3, 4, 1, 2).reshape(n, -1, 4)
        best, labels = scores.sigmoid().max(-1)
        top, where = best.topk(5, dim=1)
        taken = boxes.gather(1, where.unsqueeze(-1).expand(-1, -1, 4))
        center, size = taken[..., :2], taken[..., 2:].exp().clamp(max=100)
        return torch.cat([center - size / 2, center + size / 2], -1), top, labels.gather(1, where)


# ---------------------------------------------------------------- tables and sequences


@model(lambda n, length: (randint(0, 10, (n, 3)), randn(n, 5)), BATCH, BATCH)
class Tabular(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(10, 4) for _ in range(3))
        self.bn, self.body = nn.BatchNorm1d(5), nn.Sequential(nn.Linear(17, 16), nn.ReLU(), nn.BatchNorm1d(16), nn.Linear(16, 1))

    def forward(self, kinds, numbers):
        parts = [table(kinds[:, i]) for i, table in enumerate(self.tables)]
        return self.body(torch.cat([*parts, self.bn(numbers)], 1)).squeeze(-1).sigmoid()


@model(lambda n, length: (randint(1, 20, (n, length)), (torch.arange(length) < torch.arange(1, n + 1)[:, None] + 1).long()),
       BATCH_LENGTH, BATCH_LENGTH)  # fmt: skip
class SentenceEmbedding(nn.Module):
    """The mean of the words that a mask counts, of length one."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.norm = nn.Embedding(20, 8, padding_idx=0), nn.LayerNorm(8)

    def forward(self, words, mask):
        y = self.norm(self.table(words))
        weights = mask.unsqueeze(-1).expand(y.size()).float()
        return F.normalize((y * weights).sum(1) / weights.sum(1).clamp(min=1e-9), p=2, dim=1)


class _Recurrent(nn.Module):
    kind: Any = nn.LSTM

    def __init__(self) -> None:
        super().__init__()
        self.net = self.kind(6, 8, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        y, _ = self.net(x)
        return self.head(y[:, -1]), y


@model(lambda n, length: (randn(n, length, 6),), BATCH_LENGTH)
class LSTM(_Recurrent):
    """A classifier of sequences."""


@model(lambda n, length: (randn(n, length, 6),), BATCH_LENGTH)
class GRU(_Recurrent):
    """The same with another cell."""

    kind = nn.GRU


# ---------------------------------------------------------------- attention


class Attention(nn.Module):
    """Heads by hand, with a mask that is added to the scores."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x, memory, mask=None):
        split = lambda y: y.view(y.shape[0], y.shape[1], self.heads, -1).transpose(1, 2)
        q, k, v = split(self.q(x)), split(self.k(memory)), split(self.v(memory))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores + mask
        y = (F.softmax(scores, -1) @ v).transpose(1, 2).contiguous()
        return self.o(y.view(y.shape[0], y.shape[1], -1))


@model(lambda n, length: (randint(0, 30, (n, length)), torch.ones(n, length, dtype=torch.long)), BATCH_LENGTH, BATCH_LENGTH)
class Bert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.positions, self.kinds = nn.Embedding(30, 16), nn.Embedding(32, 16), nn.Embedding(2, 16)
        self.norm, self.norm1, self.norm2 = nn.LayerNorm(16), nn.LayerNorm(16), nn.LayerNorm(16)
        self.attention, self.up, self.down, self.pool = Attention(16, 4), nn.Linear(16, 32), nn.Linear(32, 16), nn.Linear(16, 16)
        self.register_buffer("position_ids", torch.arange(32).expand((1, -1)), persistent=False)

    def forward(self, words, mask):
        kinds = torch.zeros_like(words)
        x = self.norm(self.words(words) + self.positions(self.position_ids[:, : words.shape[1]]) + self.kinds(kinds))
        added = (1.0 - mask[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
        x = self.norm1(x + self.attention(x, x, added))
        x = self.norm2(x + self.down(F.gelu(self.up(x))))
        return x, torch.tanh(self.pool(x[:, 0]))


@model(lambda n, length: (randint(0, 30, (n, length)),), BATCH_LENGTH)
class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(30, 16), nn.Embedding(32, 16)
        self.ln1, self.ln2, self.qkv, self.proj = nn.LayerNorm(16), nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16)
        self.mlp = nn.Sequential(nn.Linear(16, 64), nn.GELU(approximate="tanh"), nn.Linear(64, 16))
        self.head = nn.Linear(16, 30, bias=False)
        self.head.weight = self.words.weight
        self.register_buffer("bias", torch.tril(torch.ones(32, 32)).view(1, 1, 32, 32), persistent=False)

    def forward(self, words):
        n, length = words.size()
        x = self.words(words) + self.positions(torch.arange(length))
        q, k, v = self.qkv(self.ln1(x)).split(16, dim=2)
        q, k, v = (y.view(n, length, 4, 4).transpose(1, 2) for y in (q, k, v))
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        scores = scores.masked_fill(self.bias[:, :, :length, :length] == 0, float("-inf"))
        y = (F.softmax(scores, -1) @ v).transpose(1, 2).contiguous().view(n, length, 16)
        same = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y) + self.proj(same.transpose(1, 2).reshape(n, length, 16))
        return self.head(x + self.mlp(self.ln2(x)))


@model(lambda n, length: (randint(0, 30, (n, length)), randint(0, 30, (n, length + 1))), BATCH_LENGTH,
       {0: "batch", 1: "target_length"})  # fmt: skip
class T5(nn.Module):
    """An encoder and a decoder with RMS norms and biases by distance."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.bias = nn.Embedding(30, 16), nn.Embedding(8, 4)
        self.norms = nn.ModuleList(nn.RMSNorm(16) for _ in range(4))
        self.own, self.causal, self.cross = Attention(16, 4), Attention(16, 4), Attention(16, 4)
        self.wi, self.wo = nn.Linear(16, 32, bias=False), nn.Linear(32, 16, bias=False)

    def distances(self, length):
        away = torch.arange(length)[None, :] - torch.arange(length)[:, None]
        near = away.abs()
        far = 2 + (torch.log(near.float().clamp(min=1) / 2) * 1.5).long()
        bucket = torch.where(near < 2, near, far.clamp(max=3)) + (away > 0).long() * 4
        return self.bias(bucket).permute(2, 0, 1).unsqueeze(0)

    def forward(self, source, target):
        x, y = self.words(source), self.words(target)
        h = self.norms[0](x)
        x = x + self.own(h, h, self.distances(source.shape[1]))
        x = x + self.wo(F.relu(self.wi(self.norms[1](x))))
        length = target.shape[1]
        later = torch.triu(torch.full((length, length), float("-inf")), diagonal=1)
        h = self.norms[2](y)
        y = y + self.causal(h, h, self.distances(length) + later)
        return y + self.cross(self.norms[3](y), x)


@model(lambda n, length: (randn(n, length, 16), torch.arange(length) >= length - torch.arange(n)[:, None] % 2), BATCH_LENGTH,
       BATCH_LENGTH)  # fmt: skip
class Encoder(nn.Module):
    """PyTorch's own layer, with padding."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x, padding):
        return self.layers(x, src_key_padding_mask=padding)


@model(image(3, 16), BATCH)
class ViT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 4, 4)
        self.token, self.positions = nn.Parameter(torch.zeros(1, 1, 16)), nn.Parameter(randn(1, 17, 16))
        self.ln1, self.ln2, self.ln3 = nn.LayerNorm(16), nn.LayerNorm(16), nn.LayerNorm(16)
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)
        self.mlp, self.head = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)), nn.Linear(16, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        y = self.ln1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        x = x + self.mlp(self.ln2(x))
        return self.head(self.ln3(x)[:, 0])


@model(lambda n, length: (randn(n, length, 8), randn(n, length, 8)), BATCH_LENGTH, BATCH_LENGTH)
class Einsums(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(randn(2, 8, 4))

    def forward(self, x, y):
        a, b = torch.einsum("nld,hdk->nhlk", x, self.weight), torch.einsum("nld,hdk->nhlk", y, self.weight)
        scores = torch.einsum("nhik,nhjk->nhij", a, b).softmax(-1)
        return torch.einsum("nhij,nhjk->nihk", scores, b).flatten(2)
