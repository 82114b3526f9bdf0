"""What is registered on a leaf stays with it while requires_grad is off, and while its memory changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.autograd.graph import get_gradient_edge


def attribute(p: Any) -> None:
    p.requires_grad = False


def method(p: Any) -> None:
    p.requires_grad_(False)


def of_module(p: Any) -> None:
    nn.ParameterList([p]).requires_grad_(False)


def detached(p: Any) -> None:
    p.detach_()


def written(p: Any) -> None:
    p.requires_grad_(False)
    p.fill_(3.0)


def other_data(p: Any) -> None:
    p.requires_grad_(False)
    p.data = torch.zeros(2)


def other_memory(p: Any) -> None:
    with torch.no_grad():
        p.set_(torch.ones(2))


def other_dtype(p: Any) -> None:
    p.data = p.data.double()


def other_dtype_while_off(p: Any) -> None:
    p.requires_grad_(False)
    p.data = p.data.double()


SAME_NODE = [attribute, method, of_module, detached, written, other_data]
OTHER_NODE = [other_memory, other_dtype, other_dtype_while_off]  # what was registered on the node stays behind


@pytest.mark.parametrize("change", SAME_NODE + OTHER_NODE)
def test_hooks_stay(change: Callable[[Any], None]) -> None:
    p, seen = nn.Parameter(torch.ones(2)), []
    p.register_hook(lambda g: seen.append("tensor"))
    p.register_post_accumulate_grad_hook(lambda q: seen.append("after"))
    node = get_gradient_edge(p).node
    node.register_prehook(lambda *_: seen.append("before node"))
    node.register_hook(lambda *_: seen.append("node"))
    change(p)
    assert len(p._backward_hooks) == len(p._post_accumulate_grad_hooks) == 1
    p.requires_grad_(True)
    same = change in SAME_NODE
    assert (get_gradient_edge(p).node is node) == same
    for _ in range(2):
        seen.clear()
        p.sum().backward()
        assert seen == (["tensor", "before node", "after", "node"] if same else ["tensor", "after"])


def test_handles_reach_hooks_while_off() -> None:
    p, seen = nn.Parameter(torch.ones(2)), []
    first = p.register_hook(lambda g: seen.append(1))
    second = p.register_post_accumulate_grad_hook(lambda q: seen.append(2))
    p.requires_grad_(False)
    with pytest.raises(RuntimeError, match="doesn't require gradient"):
        p.register_hook(lambda g: seen.append(3))
    first.remove()
    second.remove()
    p.requires_grad_(True)
    p.sum().backward()
    assert not seen


def test_a_graph_from_before() -> None:
    p, seen = nn.Parameter(torch.ones(2)), []
    p.register_hook(lambda g: seen.append("tensor"))
    p.register_post_accumulate_grad_hook(lambda q: seen.append("after"))
    y = (p * 2).sum()
    p.requires_grad_(False)
    y.backward()
    assert p.grad is None and seen == ["tensor"]  # nothing is added to what requires no grad
    y = (p.requires_grad_() * 2).sum()
    p.requires_grad_(False).requires_grad_(True).register_hook(lambda g: seen.append("later"))
    y.backward()
    assert p.grad.tolist() == [2, 2] and seen == ["tensor", "tensor", "later", "after"]


def test_hooks_go_with_a_swap() -> None:
    p, q, seen = nn.Parameter(torch.ones(2)), torch.zeros(3), []
    p.register_hook(lambda g: seen.append(g.shape[0]))
    torch.utils.swap_tensors(p, q)
    p.requires_grad_().sum().backward()
    assert not seen
    q.sum().backward()
    assert seen == [2]


def test_hooks_of_a_result_that_becomes_a_leaf() -> None:
    y, seen = torch.ones(2, requires_grad=True) * 2, []
    y.register_hook(lambda g: seen.append(1))
    y.detach_().requires_grad_().sum().backward()
    assert seen == [1]
