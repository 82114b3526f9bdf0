"""Modules: attributes, constants, submodules, containers, methods, properties, ignored and unused methods."""

from typing import Dict, Final, List, Optional, Tuple

from implementation import torch

nn = torch.nn


class Simple(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.register_buffer("scale", torch.full((2,), 2.0))

    def forward(self, x):
        return x * self.weight + self.scale


class Methods(nn.Module):
    def helper(self, x, n: int = 2):
        return x * n

    def forward(self, x):
        return self.helper(x) + self.helper(x, n=3)

    @torch.jit.export
    def other(self, n: int) -> int:
        return n + 1


class Attributes(nn.Module):
    number: Final[int]
    names: List[str]
    table: Dict[str, int]

    def __init__(self):
        super().__init__()
        self.number = 3
        self.names = ["a", "b"]
        self.table = {}
        self.count = 0
        self.ratio = 0.5
        self.pair = (1, "x")

    def forward(self, x, extra: Optional[int] = None):
        self.count += 1
        self.table["k"] = self.count
        if extra is not None:
            x = x * extra
        return x * self.number * self.ratio + len(self.names) + self.pair[0]


class Containers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Simple(), Simple()])
        self.named = nn.ModuleDict({"a": Simple(), "b": Simple()})

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        for key, layer in self.named.items():
            x = layer(x)
        return self.layers[0](x) + len(self.layers)


class Training(nn.Module):
    __constants__ = ["p"]

    def __init__(self):
        super().__init__()
        self.p = 0.5

    def forward(self, x):
        if self.training:
            return x * self.p
        return x


class WithProperty(nn.Module):
    def __init__(self):
        super().__init__()
        self.value = 2

    @property
    def double(self) -> int:
        return self.value * 2

    def forward(self, x):
        return x * self.double


class Ignoring(nn.Module):
    @torch.jit.ignore
    def plain(self, x):
        return x * 2

    @torch.jit.unused
    def never(self, x):
        return lambda: x

    def forward(self, x, flag: bool = False):
        if flag:
            x = self.never(x)
        return self.plain(x)


class Gate(nn.Module):
    def forward(self, x: torch.Tensor, hidden: Tuple[torch.Tensor, torch.Tensor]):
        h, c = hidden
        i = torch.sigmoid(x + h)
        c = i * c + (1 - i) * torch.tanh(x)
        return c, (torch.tanh(c), c)


class OptionalParts(nn.Module):
    def __init__(self, with_part: bool = False):
        super().__init__()
        self.part = Simple() if with_part else None
        self.register_parameter("bias", None)

    def forward(self, x):
        if self.part is not None:
            x = self.part(x)
        if self.bias is not None:
            x = x + self.bias
        return x


def PROGRAMS():
    torch.manual_seed(0)
    return {
        "simple": Simple(),
        "methods": Methods(),
        "attributes": Attributes(),
        "containers": Containers(),
        "training": Training(),
        "property": WithProperty(),
        "ignoring": Ignoring(),
        "gate": Gate(),
        "without_part": OptionalParts(),
        "with_part": OptionalParts(True),
        "linear": nn.Linear(2, 2),
        "sequential": nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Dropout(0.1)).eval(),
    }


INPUTS = {
    name: lambda: (torch.ones(2),)
    for name in ("simple", "methods", "attributes", "containers", "training", "property", "ignoring", "without_part", "with_part")
}
INPUTS["gate"] = lambda: (torch.ones(2), (torch.zeros(2), torch.ones(2)))
