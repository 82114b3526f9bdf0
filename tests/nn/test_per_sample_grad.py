"""Gradients of each sample in one backward pass, and other names by which libraries reach inside."""

from __future__ import annotations

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.nn.utils._expanded_weights import ExpandedWeight
from flambeau.nn.utils._expanded_weights.expanded_weights_utils import forward_helper, sum_over_all_but_batch_and_last_n
from flambeau.nn.utils._per_sample_grad import call_for_per_sample_grads
from flambeau.utils import _foreach_utils


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_gradients_of_each_sample(reduction: str) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.GroupNorm(1, 3), nn.Flatten(), nn.Linear(12, 2))
    net[4].bias.requires_grad_(False)
    x = torch.randn(3, 2, 4, 4, requires_grad=True)
    losses = call_for_per_sample_grads(net, loss_reduction=reduction)(x).pow(2).sum(1)
    (losses.sum() if reduction == "sum" else losses.mean()).backward()
    assert x.grad.shape == x.shape and not hasattr(net[4].bias, "grad_sample")
    wanted = [p for p in net.parameters() if p.requires_grad]
    assert all(p.grad is None for p in wanted)
    for i in range(3):
        for p, own in zip(wanted, torch.autograd.grad(net(x[i : i + 1]).pow(2).sum(), wanted)):
            torch.testing.assert_close(p.grad_sample[i], own)
    with pytest.raises(RuntimeError, match="accumulates the gradients, which will be incorrect for multiple calls"):
        call_for_per_sample_grads(net)


def test_what_it_refuses() -> None:
    with pytest.raises(RuntimeError, match=r"Module passed must be nn\.Module, got int"):
        call_for_per_sample_grads(3)
    with pytest.raises(RuntimeError, match="got input batch size of 4 with ExpandedWeight of batch size 3"):
        call_for_per_sample_grads(nn.Linear(2, 3), batch_size=3)(torch.ones(4, 2))
    with pytest.raises(RuntimeError, match="cannot handle function batch_norm"):
        call_for_per_sample_grads(nn.BatchNorm1d(2))(torch.ones(4, 2))


def test_lists_by_device_and_dtype() -> None:
    a, b, c = torch.ones(2), torch.ones(2, dtype=torch.float64), torch.ones(3)
    cpu = torch.device("cpu")
    groups = _foreach_utils._group_tensors_by_device_and_dtype([[a, b, c], [None] * 3], True)
    assert groups == {(cpu, torch.float32): ([[a, c], [None, None]], [0, 2]), (cpu, torch.float64): ([[b], [None]], [1])}
    assert _foreach_utils._has_foreach_support([a, None], cpu)
    assert not _foreach_utils._device_has_foreach_support(torch.device("meta"))


def test_whether_a_transform_is_in_progress() -> None:
    seen = []
    torch.func.vmap(lambda x: seen.append(torch._C._are_functorch_transforms_active()) or x)(torch.ones(2))
    torch.func.grad(lambda x: seen.append(torch._C._are_functorch_transforms_active()) or x)(torch.tensor(1.0))
    assert seen == [True, True] and not torch._C._are_functorch_transforms_active()


def test_a_function_whose_forward_is_a_plain_function() -> None:
    class Triple(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 3

        @staticmethod
        def backward(ctx, g):
            return g * 3

    inner = Triple.forward
    Triple.forward = lambda ctx, x: inner(ctx, x) + 1
    x = torch.ones(2, requires_grad=True)
    y = Triple.apply(x)
    y.sum().backward()
    assert y.tolist() == [4, 4] and x.grad.tolist() == [3, 3]


def test_clone_without_a_format() -> None:
    x = torch.ones(2, 3, 4).transpose(0, 1)
    assert x.clone(memory_format=None).stride() == (4, 12, 1)
    with pytest.raises(TypeError, match=r"argument 'memory_format' must be torch\.memory_format, not NoneType"):
        x.contiguous(memory_format=None)


def test_switches_and_stretches_take_attributes() -> None:
    with getattr(torch.backends, "__allow_nonbracketed_mutation")():
        pass
    stretch = torch.profiler.record_function("a")
    stretch.x = 3
    assert vars(stretch) == {"args": None, "x": 3}


def test_words_for_statistics_that_nobody_keeps() -> None:
    with pytest.warns(UserWarning, match="'set_vital' is deprecated, please do not call"):
        assert torch.set_vital("Dataloader", "enabled", "True") is None


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize(
    ("function", "shape", "weights"),
    [
        (F.linear, (3, 2, 4), [(5, 4), (5,)]),
        (F.conv1d, (3, 2, 7), [(4, 2, 3), (4,)]),
        (F.conv2d, (3, 2, 5, 5), [(4, 2, 3, 3)]),
        (lambda x, w, b: F.layer_norm(x, (4,), w, b), (3, 2, 4), [(4,), (4,)]),
        (lambda x, w, b: F.group_norm(x, 2, weight=w, bias=b), (3, 4, 2), [(4,), (4,)]),
        (lambda x, w, b: F.instance_norm(x, weight=w, bias=b), (3, 4, 5), [(4,), (4,)]),
        (lambda x, w: F.embedding(x.long() % 4, w), (3, 5), [(4, 3)]),
    ],
)
def test_functions_of_expanded_weights(function, shape, weights, reduction):
    x = torch.rand(shape) * 5
    leaves = [torch.randn(size, requires_grad=True) for size in weights]
    made = function(x, *[ExpandedWeight(w, 3, reduction) for w in leaves])
    assert torch.allclose(made, function(x, *leaves), atol=1e-6)
    getattr(made.sin(), reduction)().backward()
    for number in range(3):
        alone = torch.autograd.grad(getattr(function(x[number : number + 1], *leaves).sin(), reduction)(), leaves)
        for leaf, expected in zip(leaves, alone):
            assert torch.allclose(leaf.grad_sample[number], expected, atol=1e-5) and leaf.grad is None


def test_expanded_weights_that_are_refused():
    weight = torch.ones(2, 2, requires_grad=True)
    expanded = ExpandedWeight(weight, 3, "sum")
    for words, call in (
        ("cannot handle function sin", lambda: torch.sin(expanded)),
        ("have batch size matching input but got input batch size of 4", lambda: F.linear(torch.ones(4, 2), expanded)),
        ("mixture of ExpandedWeight parameters and normal", lambda: F.linear(torch.ones(3, 2), expanded, weight[0])),
        ("inputs that are also ExpandedWeights", lambda: F.linear(expanded, expanded)),
        ("0 is not a valid batch size", lambda: F.linear(torch.ones(0, 2), expanded)),
        ("tensors that requires_grad", lambda: ExpandedWeight(torch.ones(2), 3, "sum")),
        ("of Tensors, got int", lambda: ExpandedWeight(3, 3, "sum")),
    ):
        with pytest.raises(RuntimeError, match=words):
            call()
    assert expanded.shape == (2, 2) and expanded.dtype is torch.float32
    assert torch.equal(forward_helper(F.linear, (torch.ones(3, 2), expanded), {}), torch.full((3, 2), 2.0))
    assert sum_over_all_but_batch_and_last_n(torch.ones(2, 3, 4, 5), 1).tolist() == [[12.0] * 5] * 2
