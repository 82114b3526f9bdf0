"""Results of replays have the graph that the function's own results have: compared node by node, and by its gradients."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.capture.entry import Captured
from flambeau.nn import functional as F
from tests.capture.test_never_stale import _same


def _weight() -> torch.Tensor:
    torch.manual_seed(5)
    return nn.Parameter(torch.randn(4, 4))


W, OTHER, SCALE = _weight(), _weight(), torch.ones(3, 4)


def products(x: Any) -> Any:
    return torch.tanh(x @ W) @ W.t()


def a_view(x: Any) -> Any:
    y = (x * W[0]).exp()
    return y.view(-1), y[0], y


def written(x: Any) -> Any:
    y = x * 2
    y[0].mul_(W[0])
    y.add_(1)
    return y.sigmoid_()


def parts(x: Any) -> Any:
    a, b = (x @ W).split(2, dim=1)
    return torch.cat([b, a * b]).relu(), a.amax(dim=1)


def an_index(x: Any) -> Any:
    return F.embedding(torch.tensor([1, 2, 1]), W) * x[:3].std(dim=1, keepdim=True), W[[0, 2]]


def without_a_graph(x: Any) -> Any:
    y = x @ W
    with torch.no_grad():
        scale = y.abs().amax()
    return y / scale, scale, y.detach()


def a_gradient(x: Any) -> Any:
    y = (x.square() @ W).sum()
    (g,) = torch.autograd.grad(y, W, create_graph=True)
    return g.square().sum() + y


def a_statistic(x: Any) -> Any:
    return F.layer_norm(F.dropout(x @ W + OTHER, 0.3), (4,), W[0], W[1]), F.cross_entropy(x, torch.tensor([0, 1, 2, 3]))


def windows(x: Any) -> Any:
    image = (x @ W)[None, None]
    return F.max_pool2d(image, 2), F.avg_pool2d(image, 2, ceil_mode=True), F.interpolate(image, scale_factor=2, mode="bilinear")


def parts_of_the_surroundings(x: Any) -> Any:
    """Views of several at once are marked, and saved: as the states of recurrent nets are."""
    a, b = W.detach().view(2, 2, 4).unbind(0)
    return (x[:2] @ OTHER) * a + b


def written_when_it_was_saved(x: Any) -> Any:
    """Backward raises."""
    y = (x @ W) * SCALE[1:].unbind(0)[0]
    SCALE.mul_(1.0)
    return y


def nothing_of_it(x: Any) -> Any:
    return x, W, x.detach() * 2


CASES: list[Callable[[Any], Any]] = [
    products,
    windows,
    a_view,
    written,
    parts,
    an_index,
    without_a_graph,
    a_gradient,
    a_statistic,
    parts_of_the_surroundings,
    written_when_it_was_saved,
    nothing_of_it,
]


def _tensors(result: Any) -> list[Any]:
    if isinstance(result, torch.Tensor):
        return [result]
    return [x for each in result for x in _tensors(each)]


def _graph(node: Any, seen: dict[Any, int]) -> Any:
    if node is None:
        return None
    if node in seen:
        return seen[node]
    seen[node] = len(seen)
    return node.name(), [(_graph(each, seen), index) for each, index in node.next_functions]


def _shown(result: Any) -> list[Any]:
    """Values, graphs, and what is a view of what."""
    tensors, seen = _tensors(result), {}
    places = [(x.is_leaf, x is W or x._version, x.output_nr, x._is_view() and x._base.shape) for x in tensors]
    return [tensors, places, [_graph(x.grad_fn, seen) for x in tensors]]


def _backward(result: Any, x: Any, way: str) -> Any:
    """What comes of the graph, in one of the ways in which programs use it; errors are part of it."""
    W.grad = OTHER.grad = x.grad = None
    told: list[Any] = []
    try:
        loss = sum((t.sum() * t).sum() for t in _tensors(result) if t.requires_grad)
        if way == "hooks":
            handles = [t.register_hook(lambda g: told.append(g.clone())) for t in _tensors(result) if t.requires_grad]
            handles.append(W.register_hook(lambda g: g * 2))
        if way == "written":
            result = [t.mul_(2) for t in _tensors(result) if t.grad_fn is not None]
            loss = loss + sum(t.sum() for t in result)
        if way == "twice":
            first = torch.autograd.grad(loss, [x, W], create_graph=True, allow_unused=True)
            loss = sum((g * g).sum() for g in first if g is not None)
        if way == "version":
            with torch.no_grad():
                W.mul_(1.0)
        loss.backward(retain_graph=way == "retained")
        if way in ("retained", "freed"):
            loss.backward()
    except Exception as error:
        at = [int(n) for n in re.findall(r"version (\d+)", str(error))]  # W is written to once for each function
        told += [type(error), re.sub(r"version \d+", "", str(error)), [n - at[0] for n in at]]
    if way == "hooks":
        for handle in handles:
            handle.remove()
    return [told, W.grad, OTHER.grad, x.grad]


WAYS = ("plain", "retained", "freed", "twice", "written", "version", "hooks")  # whose traces stay


@pytest.mark.parametrize("leaf", [True, False])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_graphs(case: Any, leaf: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "W", _weight())
    captured = Captured(case)
    torch.manual_seed(3)
    for way in ("plain", "plain", *WAYS):
        made = []
        data, state = torch.randn(4, 4), torch.get_rng_state()
        for function in (case, captured):
            torch.set_rng_state(state)
            start = data.clone().requires_grad_()
            result = function(start if leaf else start * 1)
            made.append([_shown(result), _backward(result, start, way), torch.get_rng_state()])
        assert _same(*made), (way, made, captured.refusals)
    if case is a_gradient and not leaf:
        assert set(captured.refusals) == {"a graph from before the call is run backwards"}
    else:
        assert sum(entry.hits for entries in captured.entries.values() for entry in entries) >= len(WAYS) - 1, captured.refusals


def test_a_graph_of_the_surroundings() -> None:
    """A tensor with a graph that the call didn't make: gradients pass through it as it is then."""
    hidden = W.detach() * 1

    def function(x: Any) -> Any:
        return x @ hidden

    captured = Captured(function)
    for _ in range(5):
        W.grad = None
        hidden = W * 2
        captured(torch.ones(2, 4)).sum().backward()
        assert bytes(W.grad.numpy()) == bytes((torch.full((4, 4), 4.0)).numpy())


def test_a_function_of_the_program_runs_as_it_is() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 3

    captured = Captured(lambda x: Double.apply(x))
    for _ in range(4):
        x = torch.ones(2, requires_grad=True)
        captured(x).sum().backward()
        assert x.grad.tolist() == [3.0, 3.0]
