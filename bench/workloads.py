"""What is measured: each workload is a function of the torch namespace that returns one step to time.

The same code runs for flambeau and for PyTorch; inputs come from NumPy with fixed seeds, so that the results of the
first steps can be compared. Used by `child.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Step = Callable[[], Any]
WORKLOADS: dict[str, Callable[[Any], Step]] = {}


def workload(name: str) -> Callable[[Callable[[Any], Step]], Callable[[Any], Step]]:
    """Register a function `f(torch) -> step` under `group/name`."""

    def register(make: Callable[[Any], Step]) -> Callable[[Any], Step]:
        WORKLOADS[name] = make
        return make

    return register


def normal(torch: Any, *shape: int, seed: int = 0, grad: bool = False) -> Any:
    """A normal float32 tensor in the implementation's own memory (NumPy's may lie on other pages)."""
    values = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
    return torch.from_numpy(values).clone().requires_grad_(grad)


def expression(name: str, shapes: list[tuple[int, ...]], compute: Callable[..., Any], backward: bool = False) -> None:
    """Register `compute(torch, *tensors)`; with `backward`, its sum's gradient too."""

    @workload(name)
    def make(torch: Any) -> Step:
        tensors = [normal(torch, *shape, seed=seed, grad=backward) for seed, shape in enumerate(shapes)]
        torch.set_grad_enabled(backward)
        if not backward:
            return lambda: compute(torch, *tensors)

        def step() -> Any:
            for tensor in tensors:
                tensor.grad = None
            compute(torch, *tensors).sum().backward()
            return tensors[0].grad

        return step


VECTOR, SQUARE, LARGE = (16,), (16, 16), (4096, 4096)

expression("small/add", [VECTOR, VECTOR], lambda torch, a, b: a + b)
expression("small/relu", [VECTOR], lambda torch, a: torch.relu(a))
expression("small/sum", [VECTOR], lambda torch, a: a.sum())
expression("small/softmax", [SQUARE], lambda torch, a: torch.softmax(a, dim=-1))
expression("small/matmul", [SQUARE, SQUARE], lambda torch, a, b: a @ b)
expression("small/linear", [(4, 16), SQUARE, VECTOR], lambda torch, x, w, b: torch.nn.functional.linear(x, w, b))
expression("small/layer_norm", [SQUARE], lambda torch, a: torch.nn.functional.layer_norm(a, (16,)))
expression("small/view", [SQUARE], lambda torch, a: a.view(8, 32))
expression("small/index", [SQUARE], lambda torch, a: a[1:5, 2])
expression("small/cat", [VECTOR, VECTOR], lambda torch, a, b: torch.cat((a, b)))
expression("small/add backward", [VECTOR, VECTOR], lambda torch, a, b: a + b, backward=True)

expression("bandwidth/add 16M", [LARGE, LARGE], lambda torch, a, b: a + b)
expression("bandwidth/mul_ 16M", [LARGE], lambda torch, a: a.mul_(1.0))
expression("bandwidth/sum 16M", [LARGE], lambda torch, a: a.sum())
expression("bandwidth/softmax 16M", [LARGE], lambda torch, a: torch.softmax(a, dim=-1))
expression("bandwidth/transpose 16M", [LARGE], lambda torch, a: a.t().contiguous())
expression("bandwidth/gelu backward 4M", [(2048, 2048)], lambda torch, a: torch.nn.functional.gelu(a), backward=True)

for size in (256, 1024, 2048):
    expression(f"matmul/{size}", [(size, size), (size, size)], lambda torch, a, b: a @ b)
expression("matmul/batched 64x128", [(64, 128, 128), (64, 128, 128)], lambda torch, a, b: a @ b)
expression("matmul/linear 64x784x256", [(64, 784), (256, 784)], lambda torch, x, w: torch.nn.functional.linear(x, w))

CONVOLUTIONS = {
    "3x3 64 on 32x32": ((16, 64, 32, 32), (64, 64, 3, 3), {"padding": 1}),
    "1x1 256 on 14x14": ((16, 256, 14, 14), (256, 256, 1, 1), {}),
    "7x7 stem": ((4, 3, 224, 224), (64, 3, 7, 7), {"stride": 2, "padding": 3}),
    "depthwise 3x3": ((16, 128, 28, 28), (128, 1, 3, 3), {"padding": 1, "groups": 128}),
}
for name, (image, kernel, options) in CONVOLUTIONS.items():
    for backward in (False, True) if name.startswith("3x3") else (False,):
        expression(
            f"conv/{name}{' backward' if backward else ''}",
            [image, kernel],
            lambda torch, x, w, options=options: torch.nn.functional.conv2d(x, w, **options),
            backward,
        )


def training(torch: Any, model: Any, inputs: Any, classes: int, per_position: bool = False) -> Step:
    """A step of AdamW on cross entropy; returns the loss."""
    torch.set_grad_enabled(True)
    with torch.no_grad():
        for seed, parameter in enumerate(model.parameters()):
            if parameter.dim() > 1:
                fan_in = math.prod(parameter.shape[1:])
                parameter.copy_(normal(torch, *parameter.shape, seed=seed) / math.sqrt(fan_in))
    count = inputs.numel() if per_position else len(inputs)
    targets = torch.from_numpy(np.random.default_rng(1).integers(0, classes, count))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step() -> Any:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs).reshape(count, classes), targets)
        loss.backward()
        optimizer.step()
        return loss

    return step


@workload("train/mlp 784-256-10, batch 64")
def mlp(torch: Any) -> Step:
    nn = torch.nn
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    return training(torch, model, normal(torch, 64, 784), 10)


@workload("train/cnn on 32x32, batch 64")
def cnn(torch: Any) -> Step:
    nn = torch.nn
    layers: list[Any] = []
    for before, after in ((3, 32), (32, 64), (64, 128)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(), nn.MaxPool2d(2)]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(128 * 4 * 4, 10))
    return training(torch, model, normal(torch, 64, 3, 32, 32), 10)


@workload("train/gpt 4 layers, width 128, 16x128 tokens")
def gpt(torch: Any) -> Step:
    nn, F = torch.nn, torch.nn.functional
    width, heads, length, vocabulary = 128, 4, 128, 256

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x: Any) -> Any:
            batch = x.shape[0]
            parts = self.qkv(self.norm1(x)).view(batch, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
            attended = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
            x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
            return x + self.mlp(self.norm2(x))

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
            self.blocks = nn.Sequential(*[Block() for _ in range(4)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

        def forward(self, tokens: Any) -> Any:
            return self.head(self.norm(self.blocks(self.tokens(tokens) + self.positions(torch.arange(length)))))

    tokens = torch.from_numpy(np.random.default_rng(0).integers(0, vocabulary, (16, length)))
    return training(torch, GPT(), tokens, vocabulary, per_position=True)
