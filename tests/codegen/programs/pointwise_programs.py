"""Random programs of pointwise operators, reductions, views and writes in place, for passes over what is recorded of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau.nn import functional as F

FLOATS = (torch.float32, torch.float32, torch.float64, torch.bfloat16, torch.float16)
UNARY: list[Callable[[Any], Any]] = [
    torch.neg, torch.abs, torch.exp, torch.sigmoid, torch.tanh, torch.relu, torch.sin, torch.erf, torch.square, torch.reciprocal,
    torch.sqrt, torch.floor, F.gelu, F.silu, F.softplus, F.hardswish, torch.sign, torch.log1p, torch.nan_to_num, F.mish,
    lambda x: x * 3.7, lambda x: 1.3 - x, lambda x: x / 3, lambda x: x + 0.1, lambda x: x.clamp(-1, 1), lambda x: x**3,
    lambda x: F.leaky_relu(x, 0.1), lambda x: x.clone(), lambda x: x.double(), lambda x: x.bfloat16(), lambda x: x.float(),
    lambda x: x.half(),
]  # fmt: skip
BINARY: list[Callable[[Any, Any], Any]] = [
    torch.add, torch.sub, torch.mul, torch.div, torch.maximum, torch.minimum, torch.atan2, torch.hypot,
    lambda x, y: torch.add(x, y, alpha=0.3), lambda x, y: torch.where(x > y, x, y), lambda x, y: x * torch.sigmoid(y),
    lambda x, y: (x < y) * x, lambda x, y: torch.addcmul(x, y, x, value=0.5), lambda x, y: torch.lerp(x, y.to(x.dtype), 0.3),
    lambda x, y: torch.addcmul(x, x, y), lambda x, y: x * y + x, lambda x, y: -(x * y) - x, lambda x, y: x - x * y,
]  # fmt: skip
TERNARY: list[Callable[[Any, Any, Any], Any]] = [
    torch.addcmul, torch.addcdiv, lambda x, y, z: x * y + z, lambda x, y, z: torch.where(x > 0, y, z),
]  # fmt: skip
ROWS: list[Callable[[Any], Any]] = [
    lambda x: x.sum(-1, keepdim=True), lambda x: x.mean(0, keepdim=True), lambda x: x.amax(-1), lambda x: x.sum(),
    lambda x: F.softmax(x, -1), lambda x: F.log_softmax(x, 0), lambda x: F.layer_norm(x, x.shape[-1:]), lambda x: x.var(-1),
    lambda x: x.norm(dim=0), lambda x: x.logsumexp(-1), lambda x: F.normalize(x, dim=-1), lambda x: x.argmax(-1) + 0.5,
    lambda x: x.square().mean(-1, keepdim=True), lambda x: x.cumsum(-1), lambda x: x.prod(0),
]  # fmt: skip
WRITES: list[Callable[[Any, Any], Any]] = [
    lambda x, y: x.mul_(0.5), lambda x, y: x.add_(1.25), lambda x, y: x.sigmoid_(), lambda x, y: x.copy_(y),
    lambda x, y: x.zero_(),
    lambda x, y: x.add_(y), lambda x, y: x.mul_(y), lambda x, y: x.sub_(y, alpha=2), lambda x, y: x.addcmul_(y, y),
    lambda x, y: x[..., 1:].add_(1), lambda x, y: x[..., :1].mul_(y[..., :1]), lambda x, y: x[..., ::2].copy_(y[..., ::2]),
    lambda x, y: x.t().mul_(2) if x.ndim == 2 else x.neg_(), lambda x, y: x.masked_fill_(y > 0, 0.5),
]  # fmt: skip


def fitting(draw: random.Random, values: list[Any], x: Any) -> Any:
    """One of the values that broadcasts to the shape of x."""
    found = [v for v in values if _broadcasts(v.shape, x.shape)]
    return draw.choice(found[-6:]) if found else x


def _broadcasts(shape: Any, target: Any) -> bool:
    return len(shape) <= len(target) and all(a in (1, b) for a, b in zip(reversed(shape), reversed(target)))


def view_of(draw: random.Random, x: Any) -> Any:
    """The same elements, or some, in another way."""
    way = draw.randrange(6)
    if way == 0 and x.ndim > 1:
        return x.transpose(0, 1)
    if way == 1:
        return x.reshape(-1)
    if way == 2 and x.numel() % 2 == 0:
        return x.reshape(2, -1)
    if way == 3:
        return x[..., 1:]
    if way == 4:
        return x.unsqueeze(0)
    return x[..., ::2]


def program_of(seed: int, rows: bool = False) -> tuple[Callable[..., Any], Callable[[int], list[Any]]]:
    """A function of tensors, and their values by another seed; rows: with reductions."""
    draw = random.Random(seed)
    shapes = [(7,), (64,), (3, 5), (8, 33), (2, 3, 4), (40, 70), (3, 1, 17), (1000,), (16, 16), (5, 130)]
    shape = draw.choice([*shapes, (1100, 40), (70000,), (2, 35000)] if rows else shapes)
    layouts = []
    for _ in range(draw.randint(2, 4)):
        own = tuple(n if draw.random() < 0.85 else 1 for n in shape)[draw.random() < 0.15 and len(shape) > 1 :]
        layouts.append((own, draw.choice(FLOATS), draw.choice(("plain", "plain", "plain", "t", "step", "offset"))))

    def inputs(salt: int) -> list[Any]:
        source = torch.Generator().manual_seed(salt)
        made = []
        for own, dtype, kind in layouts:
            if kind == "t":
                x = torch.randn(own[::-1], generator=source).to(dtype).permute(*range(len(own) - 1, -1, -1))
            elif kind == "step":
                x = torch.randn((*own[:-1], 2 * own[-1]), generator=source).to(dtype)[..., ::2]
            elif kind == "offset":
                x = torch.randn((*own[:-1], own[-1] + 1), generator=source).to(dtype)[..., 1:]
            else:
                x = torch.randn(own, generator=source).to(dtype)
            made.append(x)
        return made

    length = draw.randint(3, 14)
    plan = draw.randrange(1 << 30)

    def fn(*tensors: Any) -> Any:
        inner = random.Random(plan)
        values, written = list(tensors), []
        for _ in range(length):
            x = inner.choice(values[-5:])
            way = inner.random()
            if rows and inner.random() < 0.25 and x.ndim and x.numel():
                values.append(inner.choice(ROWS)(x))
            elif way < 0.33:
                values.append(inner.choice(UNARY)(x))
            elif way < 0.62:
                values.append(inner.choice(BINARY)(x, fitting(inner, values, x)))
            elif way < 0.72:
                values.append(inner.choice(TERNARY)(x, fitting(inner, values, x), fitting(inner, values, x)))
            elif way < 0.82:
                values.append(view_of(inner, x))
            elif x.numel() and not any(n > 1 and s == 0 for n, s in zip(x.shape, x.stride())):
                inner.choice(WRITES)(x, fitting(inner, values, x))
                written.append(x)
        count = inner.randint(1, 3)
        return values[-1:] + [inner.choice(values) for _ in range(count)]

    return fn, inputs
