"""Classes of Python in programs: those that dataclasses writes, and objects that a module's attributes hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional

import pytest

import flambeau as torch


@torch.jit.script
@dataclass
class Point:
    x: float
    y: int = 3

    def norm(self) -> float:
        return self.x * self.x + self.y


@torch.jit.script
@dataclass(order=True)
class Rank:
    a: int
    name: str = "k"

    def __post_init__(self):
        self.a = self.a + 1


@torch.jit.script
@dataclass
class Maybe:
    x: int
    t: Optional[int] = None  # noqa: UP045


@torch.jit.script
def points(x: float):
    p = Point(x)
    return p.norm(), p == Point(x, 4), p == Point(x), p.y


@torch.jit.script
def ranks(a: int):
    p, q = Rank(a), Rank(a + 1)
    return p < q, p == q, p.a, p <= q, p > q, p <= p, p < p, p >= q


@torch.jit.script
def maybes(x: int):
    return Maybe(x) == Maybe(x, 3), Maybe(x, 3) == Maybe(x, 3), Maybe(x).t


def test_dataclasses_are_classes_of_programs() -> None:
    assert points(2.0) == (7.0, False, True, 3) and repr(Point(1.0)) == "Point(x=1.0, y=3)"
    assert ranks(1) == (True, False, 2, True, False, True, False, False)
    assert maybes(2) == (False, True, None)

    @dataclass
    class Grown:
        x: list[int] = field(default_factory=list)

    with pytest.raises(NotImplementedError, match="Default factory initializers are not supported in TorchScript dataclasses"):
        torch.jit.script(Grown)


class Recipe:
    def __init__(self, n: int):
        self.n = n
        self.sizes: list[int] = [n]


class Cook(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.by_size, self.one, self.many, self.pair = {1: Recipe(3)}, Recipe(4), [Recipe(1)], (Recipe(2), 1)

    def forward(self, x):
        return x * self.by_size[1].n + self.one.n + self.many[0].sizes[0] + self.pair[0].n


def test_attributes_hold_objects_of_classes() -> None:
    assert torch.jit.script(Cook())(torch.ones(1)).tolist() == [10.0]


def test_modules_as_programs_by_inner_names() -> None:
    from flambeau.jit import _recursive

    class Two(torch.nn.Module):
        def forward(self, x):
            return x + 1

        @torch.jit.export
        def twice(self, x):
            return x * 2

    names = [name for name, _ in _recursive.infer_methods_to_compile(Two())]
    assert sorted(names) == ["forward", "twice"]
    made = _recursive.create_script_module(Two(), lambda module: _recursive.infer_methods_to_compile(module)[:1])
    assert _recursive.wrap_cpp_module(made._c) is made and made(torch.ones(1)).tolist() == [2.0]
    with pytest.raises(NotImplementedError, match=r"use them as they are"):
        __import__("flambeau.utils.mkldnn").utils.mkldnn.to_mkldnn(Two())


def test_a_graph_module_is_a_program() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
    made = torch.jit.script(torch.fx.symbolic_trace(net))
    x = torch.ones(1, 2)
    assert torch.equal(made(x), net(x))
