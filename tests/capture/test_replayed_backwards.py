"""Backward passes behind replays' results: replayed where nobody can tell, and always with eager's gradients, to the bit."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.base.flags import flags
from flambeau.capture import backwards
from flambeau.capture.check import ReplayDiffers
from flambeau.capture.entry import Captured
from flambeau.nn import functional as F
from flambeau.utils._python_dispatch import TorchDispatchMode
from tests.capture.test_never_stale import _same


class Net(nn.Module):
    """A net whose weights all have one place in the graph, and one inside the call that is a result, too."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c, self.norm = nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 3), nn.LayerNorm(6)

    def forward(self, x: Any) -> Any:
        h = torch.tanh(self.a(x))
        return self.c(F.gelu(self.norm(self.b(h) + h))), h


class Tied(nn.Module):
    """A net with a weight that has two places, and one whose gradient is the result's."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.shift = nn.Linear(4, 4), nn.Linear(4, 3), nn.Parameter(torch.ones(5, 3))

    def forward(self, x: Any) -> Any:
        return self.b(torch.tanh(self.a(torch.sigmoid(self.a(x))))) + self.shift, None


Loss = Callable[[Any, Any, Any], Any]  # function, net, batch -> what is run backwards


def plain(f: Any, net: Any, x: Any) -> Any:
    F.cross_entropy(f(x)[0], torch.tensor([0, 1, 2, 0, 1])).backward()


def weighted(f: Any, net: Any, x: Any) -> Any:
    f(x)[0].backward(x[:, :3])
    f(x)[0].backward(torch.ones(1, 3).expand(5, 3))
    f(x)[0].backward(torch.randn(3, 5).t())


def retained(f: Any, net: Any, x: Any) -> Any:
    loss = f(x)[0].square().sum()
    loss.backward(retain_graph=True)
    loss.backward()
    return loss


def freed(f: Any, net: Any, x: Any) -> Any:
    retained(f, net, x).backward()


def both_results(f: Any, net: Any, x: Any) -> Any:
    y, h = f(x)
    (y.sum() + (0 if h is None else h.square().sum())).backward()


def inner_result(f: Any, net: Any, x: Any) -> Any:
    y, h = f(x)
    y.sum().backward(retain_graph=True)
    if h is not None:
        h.sum().backward()
    torch.autograd.backward([each for each in f(x) if each is not None], [torch.ones_like(y), h][: 1 + (h is not None)])


def several_calls(f: Any, net: Any, x: Any) -> Any:
    (f(x)[0].sum() + f(x * 2)[0].exp().mean() + f(-x)[0].square().sum()).backward()


def weights_elsewhere(f: Any, net: Any, x: Any) -> Any:
    before = net.b.weight.sin().sum() + net.a.weight.sum()
    y = f(x)[0].sum()
    (before + y + net.a.weight.exp().sum() + net.b.weight.cos().sum()).backward()


def inputs_with_graphs(f: Any, net: Any, x: Any) -> Any:
    x.requires_grad_()
    parts = torch.stack([x, x.sin()]).unbind(0)
    (f(parts[1])[0] + f(parts[0])[0] * 2 + f(x)[0]).sum().backward()


def hooks(f: Any, net: Any, x: Any) -> Any:
    y, h = f(x)
    y.register_hook(lambda g: g * 2)
    y.grad_fn.register_prehook(lambda g: (g[0] + 1,))
    y.sum().backward()
    y, h = f(x)
    y.grad_fn.register_hook(lambda inputs, outputs: tuple(None if g is None else g * 3 for g in inputs))
    y.sum().backward()
    y, h = f(x)
    (y if h is None else h).retain_grad()
    y.sum().backward()
    assert (y if h is None else h).grad is not None
    y, _ = f(x)
    inner = next(node for node, _ in y.grad_fn.next_functions if node is not None and node.next_functions)
    inner.register_prehook(lambda g: tuple(each * 3 for each in g))
    y.sum().backward()


def a_hook(f: Any, net: Any, x: Any) -> Any:
    y = f(x)[0]
    y.register_hook(lambda g: g * 2)
    y.sum().backward()


def out_of_order(f: Any, net: Any, x: Any) -> Any:
    """A user of an inner result whose turn is after the call's steps."""
    y, h = f(x)
    loss = (y if h is None else h).square()
    loss.grad_fn._set_sequence_nr(0)
    (loss.sum() + y.sum()).backward()


def the_step_alone(f: Any, net: Any, x: Any) -> Any:
    y, told = f(x)[0], []
    loss = y.sum()
    loss.register_hook(lambda g: told.append(y.grad_fn(torch.ones(5, 3))))
    loss.backward()
    return [each for each in told[0] if each is not None]


def some_only(f: Any, net: Any, x: Any) -> Any:
    f(x)[0].sum().backward(inputs=[net.a.weight])
    return torch.autograd.grad(f(x)[0].sum(), [net.a.bias, net.b.weight])


def of_gradients(f: Any, net: Any, x: Any) -> Any:
    made = torch.autograd.grad(f(x)[0].square().sum(), [net.a.weight, net.b.weight], create_graph=True)
    sum(g.square().sum() for g in made).backward()
    f(x)[0].square().sum().backward(create_graph=True)
    return net.a.weight.grad.requires_grad


def written(f: Any, net: Any, x: Any) -> Any:
    loss = f(x)[0].sum()
    with torch.no_grad():
        net.b.weight.mul_(1.0)
    loss.backward()


class Seen(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.operators: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operators.append(str(func))
        return func(*args, **(kwargs or {}))


def under_modes(f: Any, net: Any, x: Any) -> Any:
    losses = [f(x)[0].sum() for _ in range(5)]
    with Seen() as seen:
        losses[4].backward()
    with torch.no_grad():
        losses[0].backward()
    with torch.autograd.detect_anomaly(check_nan=False), torch.autograd.graph.save_on_cpu():
        losses[1].backward()
    torch.use_deterministic_algorithms(True)
    losses[2].backward()
    torch.use_deterministic_algorithms(False)
    net.a.weight.requires_grad_(False)
    losses[3].backward()
    net.a.weight.requires_grad_(True)
    return seen.operators


LOSSES: list[Loss] = [
    plain,
    weighted,
    retained,
    freed,
    both_results,
    inner_result,
    several_calls,
    weights_elsewhere,
    inputs_with_graphs,
    hooks,
    a_hook,
    out_of_order,
    the_step_alone,
    some_only,
    of_gradients,
    written,
    under_modes,
]


def _hits(captured: Captured) -> int:
    return sum(each.hits for entries in captured.entries.values() for entry in entries for each in entry.backwards)


def _gradients(loss: Loss, function: Any, net: Any, seed: int) -> list[Any]:
    torch.manual_seed(seed)
    x = torch.randn(5, 4)
    try:
        told = loss(function, net, x)
    except RuntimeError as error:
        told = str(error).split(" is at version")[0]
    return [told, x.grad, *[(p.grad, p.grad is not None and p.grad.is_leaf) for p in net.parameters()]]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("check", ["on", "check"])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.__name__)
@pytest.mark.parametrize("net", [Net, Tied], ids=lambda net: net.__name__)
def test_gradients(net: Any, loss: Loss, check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the recorded pass, of replays, and of what comes after the passes of `loss`; into gradients of several kinds."""
    monkeypatch.setattr(flags, "compile", check)
    nets = []
    for _ in range(2):
        torch.manual_seed(0)
        nets.append(net())
    captured = Captured(nets[1])
    order = [loss] * 5 + [plain] * 4 + [loss] * 3 + [plain]
    for seed, each in enumerate(order):
        made = [_gradients(each, f, n, seed) for f, n in zip((nets[0], captured), nets)]
        assert _same(*made), (seed, captured.refusals)
        for n in nets:
            if seed % 3 == 1:
                n.zero_grad(set_to_none=seed % 2 == 0)
            if seed == 7:
                n.a.weight.grad = torch.ones(n.a.weight.shape[::-1]).t()
    assert _hits(captured), captured.refusals


def test_a_view_from_before_the_call() -> None:
    """Whose graph leads to a weight that the call uses as well."""
    weight = nn.Parameter(torch.ones(4, 4))
    row = weight[0]
    captured = Captured(lambda x: torch.tanh(torch.sigmoid(F.linear(x, weight))) * row.sum())
    for _ in range(6):
        weight.grad = None
        captured(torch.ones(2, 4)).sum().backward(retain_graph=True)
        first = weight.grad
        weight.grad = None
        (torch.tanh(torch.sigmoid(F.linear(torch.ones(2, 4), weight))) * row.sum()).sum().backward(retain_graph=True)
        assert _same(first, weight.grad)


@pytest.mark.parametrize("turns", [True, False])
def test_two_results_with_the_same_weights(turns: bool) -> None:
    """Whose gradients are added up in the order of steps, which is not that of results where their steps take turns."""
    a, b = (nn.Parameter(torch.randn(4, 4, generator=torch.manual_seed(i))) for i in range(2))
    steps = (torch.sigmoid, torch.tanh, torch.sin)

    def both(x: Any) -> Any:
        first = second = x
        if turns:
            for step in steps:
                first, second = step(first @ a), step(second @ b)
                first, second = step(first @ b), step(second @ a)
        else:
            for step in steps:
                first = step(step(first @ a) @ b)
            for step in steps:
                second = step(step(second @ b) @ a)
        return first, second

    captured = Captured(both)
    for seed in range(8):
        made = []
        for function in (both, captured):
            x = torch.randn(5, 4, generator=torch.manual_seed(seed)).requires_grad_()
            first, second = function(x)
            (second.square().sum() + first.sum() + x.exp().sum()).backward()
            made.append([x.grad, a.grad, b.grad])
            a.grad = b.grad = None
        assert _same(*made), seed
    assert sum(entry.hits for entries in captured.entries.values() for entry in entries), captured.refusals
    assert turns or _hits(captured), captured.refusals


def test_what_a_pass_lets_go() -> None:
    """After a pass nothing holds what the steps had saved, though the result is there."""
    net = Net()
    captured = Captured(net)
    for _ in range(5):
        x = torch.randn(5, 4)
        y, _ = captured(x)
        y.sum().backward()
    gone = weakref.ref(x)
    gc.disable()
    try:
        del x, _
        assert gone() is None
        with pytest.raises(RuntimeError, match="second time"):
            y.sum().backward()
        node = weakref.ref(y.grad_fn.next_functions[1][0])
        del y
        assert node() is None
    finally:
        gc.enable()
    assert _hits(captured)


def test_a_node_looks_as_ever() -> None:
    net = Net()
    captured = Captured(net)
    for _ in range(4):
        y, _ = captured(torch.randn(5, 4))
        wanted, _ = net(torch.randn(5, 4))
        y.sum().backward(retain_graph=True)
        seen = [
            (type(node), node.name(), [(n and n.name(), i) for n, i in node.next_functions])
            for node in (wanted.grad_fn, y.grad_fn)
        ]
        assert (
            seen[0][1:] == seen[1][1:]
            and isinstance(y.grad_fn, seen[0][0])
            and seen[0][0].__qualname__ == seen[1][0].__qualname__
        )


def test_a_wrong_pass_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net()
    captured = Captured(net)
    for _ in range(5):
        captured(torch.randn(5, 4))[0].sum().backward()
    monkeypatch.setattr(flags, "compile", "check")
    answer = backwards._Program.answer
    monkeypatch.setattr(backwards._Program, "answer", lambda self, inputs: [g * 2 for g in answer(self, inputs)])
    with pytest.raises(ReplayDiffers, match="the backward pass of AddmmBackward0"):
        captured(torch.randn(5, 4))[0].sum().backward()
