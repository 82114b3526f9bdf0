"""Writes tests/jit/archives with PyTorch: run it there, with a Python that has torch 2.13.

Each archive is a program with inputs and what it gives for them, in its extra file expected.json.
"""

# ruff: noqa: UP006, UP035, UP045 - words of programs
import json
from enum import Enum
from typing import Dict, List, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Color(Enum):
    RED = 1
    BLUE = 2


class Point(NamedTuple):
    x: Tensor
    n: int


@torch.jit.script
class Counter:
    def __init__(self, start: int):
        self.count = start
        self.names: List[str] = []

    def add(self, name: str) -> int:
        self.count += len(name)
        self.names.append(name)
        return self.count


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3, padding=1)
        self.norm = nn.BatchNorm2d(2)
        self.pool = nn.AdaptiveAvgPool2d(1)

    def forward(self, x):
        return self.pool(F.relu(self.norm(self.conv(x)))).flatten(1)


class Flow(nn.Module):
    table: Dict[str, int]
    extra: Optional[Tensor]
    scale: float

    def __init__(self):
        super().__init__()
        self.table = {"a": 1, "bb": 2}
        self.extra = None
        self.scale = 0.5
        self.sizes = [1, 2, 3]
        self.color = Color.BLUE
        self.register_buffer("steps", torch.arange(3.0))

    def forward(self, x: Tensor, n: int) -> Tuple[Tensor, Dict[str, Tensor], Point]:
        total = torch.zeros_like(x)
        made: Dict[str, Tensor] = {}
        for i in range(n):
            if i % 2 == 0:
                total = total + x * self.scale
            else:
                total = total - self.steps
            if i > 3:
                break
        counter = Counter(len(self.sizes))
        for name, size in self.table.items():
            made[name] = total + size + counter.add(name)
        extra = self.extra
        if extra is not None:
            total = total + extra
        if self.color == Color.BLUE:
            total = total * 2
        j = 0
        while j < 2 and bool(total.sum() > -100):
            total = total + 1
            j += 1
        return total, made, Point(total[0], counter.count)

    @torch.jit.export
    def other(self, items: List[int]) -> List[int]:
        return [i * i for i in items]


class Rec(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(2, 3, batch_first=True)

    def forward(self, x):
        out, (_, c) = self.rnn(x)
        return out, c


class Attend(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(4, 2, 4, batch_first=True)

    def forward(self, x):
        return self.layer(x)


class Parts(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = [torch.ones(2), torch.zeros(2)]
        self.layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(2)])
        self.shared = self.layers[0].weight

    def forward(self, x: Tensor) -> List[Tensor]:
        made: List[Tensor] = []
        for layer in self.layers:
            x = layer(x)
            made.append(x + self.parts[0])
        return made


def lists(x):
    if isinstance(x, Tensor):
        return x.tolist()
    if isinstance(x, (list, tuple)):
        return [lists(i) for i in x]
    return {k: lists(v) for k, v in x.items()} if isinstance(x, dict) else x


def write(name, program, inputs):
    out = program(*inputs)
    text = json.dumps({"inputs": [lists(x) for x in inputs], "outputs": lists(out)})
    program.save(f"{name}.pt", _extra_files={"expected.json": text})


torch.manual_seed(0)
x3 = torch.tensor([[0.5, -1.0, 2.0]])
write("scripted_mlp", torch.jit.script(Net()), (x3,))
image = torch.arange(32.0).reshape(1, 1, 4, 8) / 10
write("traced_convolution", torch.jit.trace(Conv().eval(), image), (image,))
write("scripted_flow", torch.jit.script(Flow()), (x3, 6))
seq = torch.arange(8.0).reshape(1, 4, 2) / 8
write("scripted_lstm", torch.jit.script(Rec()), (seq,))
write("traced_lstm", torch.jit.trace(Rec(), seq), (seq,))
tok = torch.arange(12.0).reshape(1, 3, 4) / 6
write("traced_attention", torch.jit.trace(Attend().eval(), tok, check_trace=False), (tok,))
write("scripted_parts", torch.jit.script(Parts()), (torch.tensor([[1.0, 2.0]]),))
frozen = torch.jit.freeze(torch.jit.script(Conv().eval()))
write("frozen_convolution", frozen, (image,))
