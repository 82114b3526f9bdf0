"""Models that are traced; `models.json` has the code that PyTorch prints for them and their submodules.

/python/with/torch tests/jit/traces/models.py    # writes models.json, with PyTorch 2.13
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).with_name("models.json")


def models(torch: Any) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    """(name, module, example inputs), by PyTorch or by us."""
    nn = torch.nn
    F = nn.functional
    rows, image = torch.linspace(-1, 1, 12).reshape(3, 4), torch.linspace(-1, 1, 2 * 3 * 16 * 16).reshape(2, 3, 16, 16)
    yield "linear", nn.Linear(4, 5), (rows,)
    yield ("mlp", nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 2), nn.Softmax(-1)).eval(), (rows,))

    class Block(nn.Module):
        def __init__(self, i, o, st=1):
            super().__init__()
            self.conv1 = nn.Conv2d(i, o, 3, st, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(o)
            self.relu = nn.ReLU(inplace=True)
            self.conv2 = nn.Conv2d(o, o, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(o)
            self.downsample = nn.Sequential(nn.Conv2d(i, o, 1, st, bias=False), nn.BatchNorm2d(o)) if st != 1 or i != o else None

        def forward(self, x):
            identity = x
            out = self.conv1(x)
            out = self.bn1(out)
            out = self.relu(out)
            out = self.conv2(out)
            out = self.bn2(out)
            if self.downsample is not None:
                identity = self.downsample(x)
            out += identity
            out = self.relu(out)
            return out

    class ResNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(3, 4, 7, 2, 3, bias=False)
            self.bn1 = nn.BatchNorm2d(4)
            self.relu = nn.ReLU(inplace=True)
            self.maxpool = nn.MaxPool2d(3, 2, 1)
            self.layer1 = nn.Sequential(Block(4, 4), Block(4, 4))
            self.layer2 = nn.Sequential(Block(4, 8, 2), Block(8, 8))
            self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
            self.fc = nn.Linear(8, 5)

        def forward(self, x):
            x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
            x = self.layer2(self.layer1(x))
            x = self.avgpool(x)
            x = torch.flatten(x, 1)
            return self.fc(x)

    yield "resnet", ResNet().eval(), (image,)
    yield "resnet_train", ResNet(), (image,)
    yield "lstm", nn.LSTM(4, 5, 2, batch_first=True), (rows[None],)
    yield "lstm_bi", nn.LSTM(4, 5, bidirectional=True), (rows[:, None],)
    yield ("lstm_hx", nn.LSTM(4, 5), (rows[:, None], (torch.zeros(1, 1, 5), torch.zeros(1, 1, 5))))
    yield "gru", nn.GRU(4, 5), (rows[:, None],)
    yield "rnn", nn.RNN(4, 5), (rows[:, None],)

    class Emb(nn.Module):
        def __init__(self):
            super().__init__()
            self.e = nn.Embedding(10, 4)
            self.p = nn.Parameter(torch.zeros(6, 4))
            self.ln = nn.LayerNorm(4)
            self.head = nn.Linear(4, 10, bias=False)
            self.head.weight = self.e.weight

        def forward(self, ids):
            _, t = ids.shape
            h = self.e(ids) + self.p[:t]
            h = self.ln(h)
            return self.head(h)

    yield "embedding", Emb(), (torch.tensor([[1, 2, 3], [4, 5, 6]]),)

    class Attn(nn.Module):
        def __init__(self, d=8, h=2):
            super().__init__()
            self.h = h
            self.qkv = nn.Linear(d, 3 * d)
            self.proj = nn.Linear(d, d)
            self.drop = nn.Dropout(0.1)
            self.register_buffer("mask", torch.tril(torch.ones(16, 16)).view(1, 1, 16, 16))

        def forward(self, x):
            B, T, C = x.size()
            q, k, v = self.qkv(x).split(C, dim=2)
            k = k.view(B, T, self.h, C // self.h).transpose(1, 2)
            q = q.view(B, T, self.h, C // self.h).transpose(1, 2)
            v = v.view(B, T, self.h, C // self.h).transpose(1, 2)
            att = (q @ k.transpose(-2, -1)) * (1.0 / (k.size(-1) ** 0.5))
            att = att.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
            att = F.softmax(att, dim=-1)
            att = self.drop(att)
            y = att @ v
            y = y.transpose(1, 2).contiguous().view(B, T, C)
            return self.proj(y)

    class GPTBlock(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln1 = nn.LayerNorm(8)
            self.attn = Attn()
            self.ln2 = nn.LayerNorm(8)
            self.mlp = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8))

        def forward(self, x):
            x = x + self.attn(self.ln1(x))
            x = x + self.mlp(self.ln2(x))
            return x

    yield "gpt", GPTBlock().eval(), (torch.linspace(-1, 1, 48).reshape(2, 3, 8),)

    class BertSelf(nn.Module):
        def __init__(self):
            super().__init__()
            self.query = nn.Linear(8, 8)
            self.key = nn.Linear(8, 8)
            self.value = nn.Linear(8, 8)
            self.heads = 2
            self.size = 4

        def split(self, x):
            new = x.size()[:-1] + (self.heads, self.size)
            return x.view(new).permute(0, 2, 1, 3)

        def forward(self, h, mask=None):
            q = self.split(self.query(h))
            k = self.split(self.key(h))
            v = self.split(self.value(h))
            scores = torch.matmul(q, k.transpose(-1, -2)) / 2.0
            if mask is not None:
                scores = scores + mask
            p = nn.functional.softmax(scores, dim=-1)
            c = torch.matmul(p, v).permute(0, 2, 1, 3).contiguous()
            return c.view(c.size()[:-2] + (8,)), p

    class Bert(nn.Module):
        def __init__(self):
            super().__init__()
            self.word = nn.Embedding(20, 8)
            self.pos = nn.Embedding(16, 8)
            self.norm = nn.LayerNorm(8, eps=1e-12)
            self.att = BertSelf()
            self.out = nn.Linear(8, 8)
            self.register_buffer("position_ids", torch.arange(16).expand((1, -1)))

        def forward(self, input_ids, attention_mask):
            seq = input_ids.size(1)
            pos = self.position_ids[:, :seq]
            h = self.norm(self.word(input_ids) + self.pos(pos))
            m = (1.0 - attention_mask[:, None, None, :].to(dtype=h.dtype)) * -10000.0
            c, p = self.att(h, m)
            h = self.norm(h + self.out(c))
            return h, torch.tanh(h[:, 0]), p

    yield ("bert", Bert().eval(), (torch.tensor([[1, 2, 3, 4]]), torch.ones(1, 4, dtype=torch.long)))
    yield (
        "conv1d",
        nn.Sequential(nn.Conv1d(4, 6, 3, padding=1), nn.ReLU(), nn.MaxPool1d(2)),
        (torch.linspace(-1, 1, 32).reshape(1, 4, 8),),
    )
    yield (
        "convT",
        nn.Sequential(nn.ConvTranspose2d(3, 4, 4, 2, 1), nn.InstanceNorm2d(4, affine=True), nn.LeakyReLU(0.2)),
        (image,),
    )
    yield "norms", nn.Sequential(nn.GroupNorm(1, 3), nn.BatchNorm2d(3)), (image,)

    class Multi(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 4)

        def forward(self, x, y):
            z = self.a(x) + self.a(y)
            u, v = torch.max(z, dim=1)
            return z, (u, v), [z, u]

    yield ("multi", Multi(), (rows, rows * 2))

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.d = nn.Conv2d(3, 4, 3, padding=1)
            self.u = nn.Conv2d(7, 3, 3, padding=1)

        def forward(self, x):
            y = F.max_pool2d(F.relu(self.d(x)), 2)
            y = F.interpolate(y, scale_factor=2, mode="bilinear", align_corners=True)
            return torch.sigmoid(self.u(torch.cat([x, y], dim=1)))

    yield "unet", UNet(), (image,)

    class Flow(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
            self.k = torch.ones(4)

        def forward(self, x):
            outs = []
            for l in self.l:
                x = torch.tanh(l(x)) + self.k
                outs.append(x)
            return torch.stack(outs).mean(0)

    yield "modulelist", Flow(), (rows,)

    class Shape(nn.Module):
        def forward(self, x):
            b, c, h, w = x.shape
            y = x.view(b, c, h * w).mean(-1)
            g = torch.arange(h, device=x.device).float() / h
            z = torch.zeros(b, 1, dtype=x.dtype)
            return y + z, g.unsqueeze(0).expand(b, -1)

    yield "shape", Shape(), (image,)
    yield (
        "act",
        nn.Sequential(nn.SiLU(), nn.Hardswish(), nn.ELU(), nn.Mish(), nn.Softplus(), nn.PReLU(), nn.Tanh(), nn.LogSoftmax(1)),
        (rows,),
    )
    yield ("mha", nn.MultiheadAttention(4, 2, batch_first=True), (rows[None], rows[None], rows[None]))

    class DictOut(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(4, 2)

        def forward(self, d):
            return {"y": self.l(d["x"]), "z": d["x"] * 2}

    yield "dict", DictOut(), ({"x": rows},)

    class Nested(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), nn.Linear(4, 4))
            self.scale = nn.Parameter(torch.ones(1))

        def forward(self, x):
            return self.a(x) * self.scale + self.a[0](x)

    yield "nested", Nested(), (rows,)
    yield "embbag", nn.EmbeddingBag(10, 3, mode="sum"), (torch.tensor([[1, 2], [3, 4]]),)
    yield ("loss", nn.CrossEntropyLoss(), (rows, torch.tensor([0, 1, 2])))
    yield (
        "sdpa",
        type("S", (nn.Module,), {"forward": lambda s, q: F.scaled_dot_product_attention(q, q, q, is_causal=True)})(),
        (image,),
    )


def codes(module: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """(path and method, code) of a traced module and of those in it."""
    for method in module._c._method_names():
        yield f"{name}:{method}", getattr(module, method).code if not name else module._c._get_method(method).code
    for child, inner in module.named_children():
        yield from codes(inner, f"{name}.{child}" if name else child)


def main() -> None:
    """Write what PyTorch prints."""
    import torch

    warnings.simplefilter("ignore")
    made = {}
    for name, module, inputs in models(torch):
        traced = torch.jit.trace(module, inputs, check_trace=False, strict=False)
        made[name] = dict(codes(traced))
    RECORDED.write_text(json.dumps(made, indent=0) + "\n")


if __name__ == "__main__":
    sys.exit(main())
