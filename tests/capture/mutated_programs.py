"""Programs with what may change around them between two calls: each gives a function, its arguments, and the changes."""

from __future__ import annotations

import collections
import functools
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F


class Case(NamedTuple):
    """A function, what makes its arguments, and changes of what it depends on, each of which may be made any number of times."""

    function: Callable[..., Any]
    arguments: Callable[[], tuple[Any, ...]]
    changes: list[Callable[[Any], Any]]  # each is given a random.Random


def _x(*shape: int) -> torch.Tensor:
    return torch.randn(*(shape or (3, 4)))


SCALE = 2.0
TABLE = {"a": 1.0, "b": [1.0, 2.0]}
LIST = [1, 2.5, 3]


def helper(x: Any, k: float = 1.5) -> Any:
    return x * k


def other_helper(x: Any, k: float = 1.5) -> Any:
    return x - k


def globals_() -> Case:
    def f(x: Any) -> Any:
        y = helper(x) * SCALE + TABLE["a"]
        for v in LIST:
            y = y + v
        if "c" in TABLE:
            y = y * TABLE["c"]
        return y + TABLE["b"][1] * len(LIST)

    own = globals()

    def defaults(r: Any) -> None:
        helper.__defaults__ = (r.choice([1.5, 2.5]),)

    def code(r: Any) -> None:
        helper.__code__ = r.choice([_HELPER, other_helper.__code__])

    return Case(
        f,
        lambda: (_x(),),
        [
            lambda r: own.update(SCALE=r.choice([1.0, 2.0, 2, True, -0.0, 0.0])),
            lambda r: TABLE.update(a=r.random()),
            lambda r: TABLE["b"].__setitem__(1, r.random()),  # type: ignore[index]
            lambda r: TABLE.pop("c", None) or TABLE.update(c=r.random()),
            lambda r: LIST.append(r.random()) if len(LIST) < 5 else LIST.pop(0),
            lambda r: LIST.reverse(),
            defaults,
            code,
            lambda r: own.update(helper=r.choice([_helper, other_helper])),
        ],
    )


_HELPER, _helper = helper.__code__, helper


class Options:
    slope = 0.1
    names = ("a", "b")

    def __init__(self) -> None:
        self.size, self.flags = 3, {"bias": True}

    @property
    def doubled(self) -> int:
        return self.size * 2

    def factor(self) -> float:
        return 1.25


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value: float) -> None:
        self.value = value


class Net(nn.Module):
    def __init__(self, options: Options) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 3)
        self.norm = nn.BatchNorm1d(8)
        self.drop = nn.Dropout(0.5)
        self.blocks = nn.ModuleList([nn.Linear(8, 8) for _ in range(2)])
        self.register_buffer("shift", torch.randn(8))
        self.options, self.extra, self.slotted = options, None, Slotted(0.5)
        self.activation = F.relu

    def forward(self, x: Any) -> Any:
        x = self.activation(self.norm(self.first(x)) + self.shift)
        for i, block in enumerate(self.blocks):
            x = x + block(x) * (i + 1) * self.options.slope
        if self.options.flags["bias"]:
            x = x + self.options.doubled
        if self.extra is not None:
            x = x * self.extra
        return self.second(self.drop(x)) * self.options.factor() * self.slotted.value


def module() -> Case:
    options = Options()
    net = Net(options).eval()
    slope, factor = Options.slope, Options.factor
    hooks: list[Any] = []

    def hook(r: Any) -> None:
        if hooks:
            hooks.pop().remove()
        else:
            hooks.append(net.first.register_forward_hook(lambda module, args, result: result * 2))

    def swapped(r: Any) -> None:
        net.first, net.blocks[0] = nn.Linear(4, 8), nn.Linear(8, 8)

    def patched(r: Any) -> None:
        if "forward" in net.second.__dict__:
            del net.second.forward
        else:
            net.second.forward = lambda x: x[:, :3] * 0.5  # type: ignore[method-assign]

    def restored(r: Any) -> None:
        Options.slope, Options.factor = slope, factor  # type: ignore[method-assign]

    def exchanged(r: Any) -> None:
        options.__dict__ = {"size": r.randrange(5), "flags": {"bias": r.random() < 0.5}}

    class Other(Options):
        slope = 0.7

        def factor(self) -> float:
            return 0.3

    return Case(
        lambda x: net(x),
        lambda: (_x(),),
        [
            lambda r: net.train(not net.training),
            lambda r: net.norm.eval() if net.norm.training else net.norm.train(),
            lambda r: net.first.weight.data.add_(0.1),
            lambda r: setattr(net.first, "weight", nn.Parameter(torch.randn(8, 4))),
            lambda r: setattr(net.second.bias, "data", torch.randn(3)),
            lambda r: net.shift.mul_(1.5),
            lambda r: setattr(net, "shift", torch.randn(8)),
            lambda r: setattr(net, "activation", r.choice([F.relu, F.gelu, torch.tanh])),
            lambda r: setattr(net, "extra", r.choice([None, 2.0, torch.tensor(3.0), torch.randn(8)])),
            lambda r: setattr(options, "size", r.randrange(5)),
            lambda r: options.flags.update(bias=not options.flags["bias"]),
            lambda r: setattr(Options, "slope", r.random()),
            lambda r: setattr(options, "slope", r.random()),
            lambda r: options.__dict__.pop("slope", None),
            lambda r: object.__setattr__(options, "size", r.randrange(5)),
            lambda r: options.__dict__.update(size=r.randrange(5)),
            lambda r: setattr(Options, "factor", r.choice([lambda self: 0.75, lambda self: 0.5 * self.size])),
            restored,
            exchanged,
            lambda r: setattr(options, "__class__", r.choice([Options, Other])),
            lambda r: setattr(net, "options", r.choice([options, Options(), Other()])),
            lambda r: setattr(net.slotted, "value", r.random()),
            lambda r: net.load_state_dict({k: v * 0.9 for k, v in net.state_dict().items()}),
            lambda r: net.blocks.append(nn.Linear(8, 8)) if len(net.blocks) < 4 else net.blocks.__delitem__(0),
            lambda r: net.requires_grad_(r.random() < 0.5),
            lambda r: net.first.register_parameter("bias", r.choice([None, nn.Parameter(torch.randn(8))])),
            lambda r: setattr(net.norm, "eps", r.choice([1e-5, 0.1])),
            hook,
            swapped,
            patched,
        ],
    )


def closures() -> Case:
    scale, items, inner_scale = 2.0, [1.0, 2.0], 3.0
    weight = torch.randn(4)
    kept = types.SimpleNamespace(n=1, more=types.SimpleNamespace(k=2))

    def inner(x: Any, *, y: float = 0.5) -> Any:
        return x * inner_scale + y

    part = functools.partial(inner, y=1.0)

    def f(x: Any) -> Any:
        total = part(x) * scale + inner(x) + weight
        total = total + sum(v * 2 for v in items) + kept.n * kept.more.k
        return sorted([total.mean(), total.sum()], key=lambda t: 0)[0], {"all": total, "n": len(items)}

    def set_scale(r: Any) -> None:
        nonlocal scale, inner_scale
        scale, inner_scale = r.random(), r.choice([3.0, 4.0])

    def set_weight(r: Any) -> None:
        nonlocal weight
        weight = torch.randn(r.choice([4, 1]))

    return Case(
        f,
        lambda: (_x(),),
        [
            set_scale,
            set_weight,
            lambda r: weight.add_(1),
            lambda r: items.append(r.random()) if len(items) < 4 else items.clear(),
            lambda r: setattr(kept, "n", r.randrange(3)),
            lambda r: setattr(kept.more, "k", r.random()),
            lambda r: setattr(kept, "more", types.SimpleNamespace(k=r.random())),
            lambda r: inner.__kwdefaults__.update(y=r.random()),  # type: ignore[union-attr]
            lambda r: part.keywords.update(y=r.random()),
        ],
    )


class Stack(collections.OrderedDict):
    def total(self) -> float:
        return sum(self.values())


def containers() -> Case:
    stack = Stack(a=1.0, b=2.0)
    queue, names = collections.deque([1.0, 2.0]), {"relu", "tanh"}
    default = collections.defaultdict(lambda: 2.0, a=1.5)
    mixed = {1: 2.0, "k": 3.0}
    tree = {"x": [1.0, {"y": (2.0, [3.0])}]}

    def f(x: Any, options: dict[str, Any], *rest: float) -> Any:
        y = x * stack.total() + queue[0] + x.to(torch.int64) * queue[1]
        for key, value in stack.items():
            y = y + value if key == "a" else y * value
        for key in mixed:
            y = y + (1 if type(key) is bool else 2)
        if "relu" in names:
            y = y.relu()
        if options.get("flip"):
            y = y.flip(0)
        return y * default["a"] + tree["x"][1]["y"][1][0] + sum(rest)  # type: ignore[index]

    return Case(
        f,
        lambda: (_x(), {"flip": bool(torch.rand(()) < 0.5)}, 1.0, 2.0),
        [
            lambda r: stack.update(a=r.random()),
            lambda r: stack.move_to_end(next(iter(stack))),
            lambda r: stack.update(c=r.random()) if "c" not in stack else stack.pop("c"),
            lambda r: queue.rotate(1),
            lambda r: (mixed.pop(1), mixed.update({r.choice([1, True]): 2.0})),
            lambda r: queue.__setitem__(0, r.random()),
            lambda r: names.discard("relu") if "relu" in names else names.add("relu"),
            lambda r: queue.__setitem__(1, r.choice([1, 1.0, True, 0.0, -0.0])),
            lambda r: default.update(a=r.random()),
            lambda r: tree["x"][1]["y"][1].__setitem__(0, r.random()),  # type: ignore[index]
            lambda r: tree["x"].__setitem__(1, {"y": (1.0, [r.random()])}),
        ],
    )


def tensors() -> Case:
    a, b = torch.randn(3, 4), torch.randn(3, 4)
    held = {"a": a, "list": [a, b]}

    def f(x: Any, y: Any) -> Any:
        z = x + held["a"] * 2 if x is not y else x * 3
        z = z + held["list"][0] @ held["list"][1].t() @ x
        x.add_(1.0)
        return z, x.view(-1), y[0]

    def arguments() -> tuple[Any, ...]:
        x = _x()
        return (x, x) if torch.rand(()) < 0.3 else (x, _x()) if torch.rand(()) < 0.5 else (x, x[:2])

    return Case(
        f,
        arguments,
        [
            lambda r: a.mul_(0.9),
            lambda r: a.set_(torch.randn(3, 4)),
            lambda r: setattr(a, "data", torch.randn(3, 4)),
            lambda r: held.update(a=r.choice([a, b, torch.randn(3, 4), torch.randn(1, 4)])),
            lambda r: held["list"].reverse(),  # type: ignore[union-attr]
            lambda r: held.update(list=[a, a]),
            lambda r: b.requires_grad_(not b.requires_grad),
        ],
    )


def modes() -> Case:
    def f(x: Any) -> Any:
        y = x * 2
        if torch.is_grad_enabled():
            y = y + 1
        return y + torch.ones(4) + torch.arange(4.0), torch.is_inference_mode_enabled(), torch.get_default_dtype()

    return Case(
        f,
        lambda: (_x(),),
        [
            lambda r: torch.set_default_dtype(r.choice([torch.float32, torch.float64])),
            lambda r: torch.set_num_threads(r.choice([1, 2])),
            lambda r: torch.use_deterministic_algorithms(r.random() < 0.5),
        ],
    )


def random_() -> Case:
    def f(x: Any) -> Any:
        return F.dropout(x, 0.5) + torch.rand(4) + torch.randn_like(x) * torch.randint(0, 5, (4,))

    return Case(
        f, lambda: (_x(),), [lambda r: torch.manual_seed(r.randrange(3)), lambda r: torch.rand(3), lambda r: torch.randn(1)]
    )


CASES = [globals_, module, closures, containers, tensors, modes, random_]
