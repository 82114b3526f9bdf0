"""torch.func's transforms in graphs: by the operators that they compute by, or eagerly, with eager's values in any case."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.func import functional_call, grad, grad_and_value, hessian, jvp, vmap
from flambeau.fx.names import public_functions

F = nn.functional
linear = nn.Linear(4, 4)
W = torch.randn(4, 4)
frozen = {name: parameter.detach() for name, parameter in linear.named_parameters()}


def loss(parameters: Any, x: Any, target: Any) -> Any:
    return (functional_call(linear, parameters, (x,)) - target).square().mean()


def branch(x: Any) -> Any:
    return (x * 2).sum() if x.sum() > 0 else (x * 3).sum()


def written(x: Any) -> Any:
    y = x * 2
    y.add_(1)
    y[0] = 0
    return y.sin().sum()


def under_autocast(x: Any) -> Any:
    def f(y: Any) -> Any:
        with torch.autocast("cpu", enabled=False):
            return (y @ W).square().sum()

    with torch.autocast("cpu", dtype=torch.bfloat16):
        return grad(f)(x)


into = torch.zeros(4)


def fills(x: Any) -> Any:
    return vmap(lambda y: into.mul_(0).add_(1) * y)(x)


#: A function, and whether it is one graph that has all that it computes.
PROGRAMS: dict[str, tuple[Callable[..., Any], bool]] = {
    "grad": (lambda x: grad(lambda y: (y.sin() @ W).sum())(x * 2) + 1, True),
    "grad of grad": (lambda x: grad(lambda y: grad(lambda z: (z**3).sum())(y).sin().sum())(x), True),
    "value": (lambda x: grad_and_value(lambda y: ((y * y).sum(), y * 3), has_aux=True)(x)[1][1], True),
    "per sample": (lambda x: vmap(grad(loss), (None, 0, 0))(frozen, x, x * 2)["weight"], True),
    "vmap": (lambda x: vmap(lambda a, b: a * b.sum(), (1, None), 1)(x, x) + x, True),
    "nested": (lambda x: vmap(lambda a: vmap(lambda b: (a * b).sum())(x))(x), True),
    "hessian": (lambda x: hessian(lambda y: (y**3).sum())(x[0]), False),
    "jvp": (lambda x: jvp(lambda y: y.sin() @ W, (x,), (x,))[1], True),
    "dropout": (lambda x: grad(lambda y: F.dropout(y, 0.5).sum())(x), True),
    "random": (lambda x: vmap(lambda y: y + torch.rand(4), randomness="same")(x), True),
    "writes": (lambda x: grad(written)(x), True),
    "without grad mode": (lambda x: torch.no_grad()(grad(lambda y: linear(y).sum()))(x), True),
    "parameters": (lambda x: grad(lambda y: linear(y).square().sum())(x), False),
    "branch": (lambda x: grad(branch)(x), False),
    "autocast": (under_autocast, False),
    "writes to others": (lambda x: torch.no_grad()(fills)(x), False),
}  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_graphs(name: str, backend: str) -> None:
    function, whole = PROGRAMS[name]
    counter = torch._dynamo.testing.CompileCounterWithBackend(backend)
    compiled = torch.compile(function, backend=counter)
    for seed in range(3):
        x = torch.randn(4, 4) - seed + 1
        torch.manual_seed(seed)
        wanted = function(x)
        torch.manual_seed(seed)
        made = compiled(x)
        assert torch.allclose(made, wanted, atol=1e-6) and made.dtype is wanted.dtype
        assert made.requires_grad is wanted.requires_grad
    if whole:
        assert counter.frame_count == 1
        torch.compile(function, backend=counter, fullgraph=True)(torch.ones(4, 4))


def test_gradients_through_transforms() -> None:
    """What requires gradients is transformed eagerly: the recorded operators would lose them."""
    x = torch.randn(4, 4, requires_grad=True)
    compiled = torch.compile(lambda x: grad(lambda y: (y**3).sum())(x * 2), backend="eager")
    (made,) = torch.autograd.grad(compiled(x).sum(), x)
    assert torch.allclose(made, 24 * x, atol=1e-5)


def test_what_closures_hold_is_read_in_every_call() -> None:
    scale = [2.0]
    compiled = torch.compile(lambda x: vmap(lambda y: y * scale[0])(x), backend="eager")
    for scale[0] in (2.0, 3.0, 2.0):
        assert torch.equal(compiled(torch.ones(2, 2)), torch.full((2, 2), scale[0]))


def test_helpers_are_no_public_functions() -> None:
    """Those would look for observers, in the midst of an error."""
    assert not any(function.__name__ == "filter_traceback" for function in public_functions())
