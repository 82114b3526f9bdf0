"""Tensors: attributes, methods, indexing in all its forms, arithmetic, functions by several names."""

import math

from implementation import torch

F = torch.nn.functional


def attributes(x):
    return x.shape, x.dtype, x.device, x.ndim, x.size(0), x.dim(), x.T, x.requires_grad, x.is_cuda, x.shape[0], x.numel()


def indexed(x, n: int):
    return x[0], x[1:], x[:, 1], x[..., 0], x[None], x[n, 1:2], x[-1, ::2], x[0][1]


def by_tensors(x, i):
    return x[i], x[x > 0], x[[0, 1]], x[:, i], x[i, 0]


def written(x, i):
    x[0] = 1
    x[:, 1] += 2
    x[i] = 5.0
    x[x > 3] = 0
    x[1, 1] = x[0, 0]
    return x


def in_place(x, y):
    x += 1
    x -= y
    x *= 2
    x /= y
    return x


def arithmetic(x, y, n: int):
    return x + y, x - n, n - x, 2 * x, x / y, 1 / x, x**2, 2**x, x // 2, x % 2, -x, ~(x > 0), x @ y, (x > y) & (x < 3), (x == n) | (x != y)


def compared(x, n: int):
    return x > n, n > x, x >= 1.5, x == n, x != n, n <= x


def calls(x, y):
    a = torch.add(x, y, alpha=2)
    b = torch.cat([x, y], dim=1)
    c = x.sum(dim=0, keepdim=True)
    d, e = x.max(dim=1)
    f = torch.zeros(2, 3, dtype=torch.float64)
    g = torch.full((2,), 3)
    h = x.view(-1).reshape(2, 2).permute(1, 0).contiguous()
    return a, b, c, d, e, f, g, h, torch.arange(3), x.to(torch.float64), x.to("cpu"), torch.where(x > 0, x, y)


def casts(x):
    return float(x.sum()), int(x.sum()), bool(x.sum()), x.item(), torch.tensor(3), torch.tensor([1.0, 2.0]), x.tolist() if False else 1


def unpacked(x):
    a, b = x.chunk(2)
    c, d = x.unbind(0)
    h, w = x.shape
    return a + b, c + d, h * w


def math_functions(f: float, n: int):
    return math.sqrt(f), math.floor(f), math.pi * n, math.exp(f), math.ceil(f), math.log(f), math.pow(f, 2.0), math.isinf(f)


def functional(x, w):
    return F.linear(x, w), F.relu(x), F.softmax(x, dim=1), F.gelu(x)


def constants(x):
    return x.to(torch.float32), torch.zeros([2], device=torch.device("cpu")), float("inf"), math.inf, 1e-5, 0.1, 1e20, -1, -2.5


def no_grads(x, n: int):
    with torch.no_grad():
        y = x * n
    return y + x


def printed(x, n: int):
    print(n, 2.5, True, None, "a", [1, 2], (1, "b"), {"k": 1.0})
    return x


def iterated(x):
    s = torch.zeros(2)
    for row in x:
        s = s + row
    return s


def chained(x):
    return x.relu().sum(1).mean().exp().log().sqrt().pow(2).add(1).mul(2).sub(3)


def long_expressions(first_value, second_value):
    return torch.add(torch.mul(first_value, second_value), torch.div(first_value, torch.add(second_value, torch.neg(first_value))))


def called(x):
    return helper(x, 2) + helper(helper(x, 1), n=3)


def helper(x, n: int):
    return x * n


INPUTS = {
    "indexed": lambda: (torch.arange(6.0).reshape(2, 3), 1),
    "by_tensors": lambda: (torch.arange(6.0).reshape(2, 3), torch.tensor([0, 1])),
    "written": lambda: (torch.arange(6.0).reshape(2, 3), torch.tensor([1])),
    "in_place": lambda: (torch.arange(4.0), torch.full((4,), 2.0)),
    "arithmetic": lambda: (torch.arange(1.0, 5.0).reshape(2, 2), torch.ones(2, 2), 3),
    "compared": lambda: (torch.arange(4.0), 2),
    "calls": lambda: (torch.arange(4.0).reshape(2, 2), torch.ones(2, 2)),
    "casts": lambda: (torch.ones(1),),
    "unpacked": lambda: (torch.arange(4.0).reshape(2, 2),),
    "math_functions": lambda: (2.5, 3),
    "functional": lambda: (torch.arange(4.0).reshape(2, 2), torch.ones(2, 2)),
    "no_grads": lambda: (torch.ones(2), 2),
    "iterated": lambda: (torch.ones(3, 2),),
    "chained": lambda: (torch.ones(2, 2),),
    "called": lambda: (torch.ones(2),),
}
