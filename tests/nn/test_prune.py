"""Pruning: masks, names in the state_dict, one method on top of another. Expected masks are PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau.nn.utils import prune

nn = torch.nn


def linear(*sizes: int) -> Any:
    torch.manual_seed(0)
    return nn.Linear(*sizes)


def test_a_pruned_parameter() -> None:
    module = linear(4, 3)
    original = module.weight
    assert prune.l1_unstructured(module, "weight", 0.3) is module
    assert list(module.state_dict()) == ["bias", "weight_orig", "weight_mask"]
    assert module.weight_orig is original and not isinstance(module.weight, nn.Parameter)
    assert module.weight_mask.tolist() == [[0, 1, 1, 1], [1, 1, 0, 1], [0, 1, 1, 0]]
    assert torch.equal(module.weight, original * module.weight_mask) and prune.is_pruned(nn.Sequential(module))
    module(torch.ones(1, 4)).sum().backward()
    assert torch.equal(original.grad, module.weight_mask)
    with torch.no_grad():
        original.fill_(2)
    module(torch.ones(1, 4))
    assert torch.equal(module.weight, 2 * module.weight_mask)


def test_a_second_pruning_acts_on_what_is_left() -> None:
    module = linear(4, 3)
    prune.l1_unstructured(module, "weight", 0.3)
    prune.l1_unstructured(module, "weight", 2)
    assert module.weight_mask.tolist() == [[0, 1, 1, 1], [1, 0, 0, 1], [0, 0, 1, 0]]
    (hook,) = module._forward_pre_hooks.values()
    assert isinstance(hook, prune.PruningContainer) and len(hook) == 2 and hook[0].amount == 0.3
    prune.random_structured(module, "weight", 1, -1)
    assert len(module._forward_pre_hooks) == 1 and (module.weight_mask.sum(0) == 0).any()


def test_removing_makes_it_final() -> None:
    module = linear(4, 3)
    original = module.weight
    prune.l1_unstructured(module, "weight", 4)
    expected = module.weight.detach().clone()
    assert prune.remove(module, "weight") is module
    assert list(module.state_dict()) == ["bias", "weight"] and module.weight is original
    assert torch.equal(module.weight, expected) and not module._forward_pre_hooks and not prune.is_pruned(module)
    with pytest.raises(ValueError, match="has to be pruned before pruning can be removed"):
        prune.remove(module, "weight")


def test_structured() -> None:
    module = linear(4, 3)
    prune.ln_structured(module, "weight", 0.34, 2, 0)
    assert module.weight_mask.tolist() == [[1] * 4, [1] * 4, [0] * 4]
    prune.ln_structured(module, "weight", 1, 1, 1)
    assert module.weight_mask.tolist() == [[0, 1, 1, 1], [0, 1, 1, 1], [0, 0, 0, 0]]
    largest = nn.Conv2d(2, 3, 1, bias=False)
    with torch.no_grad():
        largest.weight.copy_(torch.tensor([[3.0, 0], [0, -5], [2, 1]])[:, :, None, None])
    prune.ln_structured(largest, "weight", 1, float("inf"), 0)
    assert largest.weight_mask[:, 0, 0, 0].tolist() == [1, 1, 0]


def test_random_pruning_follows_pytorchs_stream() -> None:
    module = linear(4, 3)
    torch.manual_seed(5)
    prune.random_unstructured(module, "weight", 5)
    assert module.weight_mask.tolist() == [[0, 1, 0, 0], [0, 1, 1, 1], [1, 0, 1, 1]]
    prune.random_unstructured(module, "weight", 2)
    assert module.weight_mask.tolist() == [[0, 1, 0, 0], [0, 1, 0, 1], [0, 0, 1, 1]]
    module = linear(4, 3)
    prune.random_structured(module, "weight", 0.5, 0)
    assert module.weight_mask.sum(1).tolist() == [0, 0, 4]


def test_masks_and_scores_of_ones_own() -> None:
    module = linear(4, 3)
    prune.identity(module, "bias")
    assert module.bias_mask.tolist() == [1, 1, 1]
    prune.custom_from_mask(module, "weight", torch.tensor([[1.0, 0, 1, 0]] * 3))
    assert (module.weight[:, 1::2] == 0).all() and (module.weight[:, ::2] != 0).all()
    module = linear(4, 3)
    prune.l1_unstructured(module, "weight", 4, importance_scores=torch.arange(12.0).reshape(3, 4))
    assert module.weight_mask.tolist() == [[0] * 4, [1] * 4, [1] * 4]
    with pytest.raises(AssertionError, match="same shape as parameter weight"):
        prune.l1_unstructured(linear(4, 3), "weight", 1, importance_scores=torch.ones(2, 2))


def test_several_parameters_as_one() -> None:
    a, b = linear(4, 3), linear(3, 2)
    both = [(a, "weight"), (b, "weight")]
    prune.global_unstructured(both, pruning_method=prune.L1Unstructured, amount=0.5)
    assert a.weight_mask.tolist() == [[0, 1, 1, 1], [1, 0, 0, 1], [0, 0, 0, 0]]
    assert b.weight_mask.tolist() == [[0, 1, 1], [1, 1, 0]]
    scores = {(a, "weight"): torch.arange(12.0).reshape(3, 4)}
    prune.global_unstructured(both, prune.L1Unstructured, importance_scores=scores, amount=3)
    assert a.weight_mask.tolist() == [[0, 1, 1, 1], [1, 0, 0, 1], [0, 0, 0, 0]]
    assert b.weight_mask.tolist() == [[0, 0, 1], [0, 0, 0]]
    with pytest.raises(TypeError, match="parameters is not an Iterable"):
        prune.global_unstructured(5, prune.L1Unstructured, amount=1)
    with pytest.raises(TypeError, match='Only "unstructured" PRUNING_TYPE'):
        prune.global_unstructured([(linear(4, 3), "weight")], prune.LnStructured, amount=1, n=2)


class EveryOther(prune.BasePruningMethod):
    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: torch.Tensor, default_mask: torch.Tensor) -> torch.Tensor:
        mask = default_mask.clone()
        mask.view(-1)[::2] = 0
        return mask


def test_a_method_of_ones_own() -> None:
    module = linear(4, 3)
    EveryOther.apply(module, "weight")
    EveryOther.apply(module, "weight")
    assert module.weight_mask.tolist() == [[0, 0, 0, 1]] * 3
    method = prune.L1Unstructured(amount=2)
    t = torch.tensor([1.0, 2, 3, 4])
    assert method.prune(t).tolist() == [0, 0, 3, 4]
    assert method.prune(t, default_mask=torch.tensor([1.0, 1, 0, 1])).tolist() == [0, 0, 0, 4]
    assert method.prune(t, importance_scores=t.flip(0)).tolist() == [1, 2, 0, 0]
    with pytest.raises(TypeError, match="is not a BasePruningMethod"):
        prune.PruningContainer().add_pruning_method(5)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda m: prune.l1_unstructured(m, "weight", 13), ValueError, "amount=13 should be smaller than the number of"),
        (lambda m: prune.l1_unstructured(m, "weight", 1.5), ValueError, r"in the range \[0, 1\] or a non-negative integer"),
        (lambda m: prune.l1_unstructured(m, "weight", "a"), TypeError, "Invalid type for amount: a. Must be int or float."),
        (lambda m: prune.ln_structured(m, "bias", 1, 2, 0), ValueError, "only be applied to multidimensional tensors"),
        (lambda m: prune.ln_structured(m, "weight", 1, 2, 5), IndexError, "Invalid index 5 for tensor of size"),
        (lambda m: prune.random_structured(m, "weight", 4, 0), ValueError, "the number of parameters to prune=3"),
        (lambda m: prune.custom_from_mask(m, "weight", torch.ones(2, 2)), AssertionError, "must match self.mask shape"),
        (lambda m: prune.identity(m, "nothing"), AttributeError, "has no attribute 'nothing'"),
    ],
)
def test_refusals_leave_the_module_as_it_was(call: Callable[..., Any], error: type[Exception], words: str) -> None:
    module = linear(4, 3)
    with pytest.raises(error, match=words):
        call(module)
    assert set(module.state_dict()) == {"weight", "bias"} and not module._forward_pre_hooks
    prune.l1_unstructured(module, "weight", 0.25)
    (hook,) = module._forward_pre_hooks.values()
    with pytest.raises(ValueError, match="smaller than the number of parameters to prune=9"):
        prune.l1_unstructured(module, "weight", 10)
    assert list(module._forward_pre_hooks.values()) == [hook] and torch.equal(hook.apply_mask(module), module.weight)
