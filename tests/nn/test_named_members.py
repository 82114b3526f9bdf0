"""Parameters, buffers and submodules by paths, as functional calls of other libraries take and put them."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau.nn.utils._named_member_accessor import _MISSING, NamedMemberAccessor, set_tensor, swap_submodule, swap_tensor


def made() -> torch.nn.Sequential:
    module = torch.nn.Sequential(torch.nn.Linear(1, 1))
    module[0].register_buffer("b", torch.ones(1))
    module[0].word = "x"
    return module


def test_tensors_take_the_place_of_parameters_and_come_back() -> None:
    layer = made()[0]
    weight, one = layer.weight, torch.ones(1)
    assert swap_tensor(layer, "weight", one) is weight and layer._parameters["weight"] is one
    assert swap_tensor(layer, "weight", weight) is one and layer.weight is weight
    assert swap_tensor(layer, "new", one, allow_missing=True) is _MISSING and layer.new is one
    assert swap_tensor(layer, "new", _MISSING) is one and not hasattr(layer, "new")
    set_tensor(layer, "b", one * 2)
    assert layer._buffers["b"].item() == 2
    for call, error, words in [
        (lambda: set_tensor(layer, "a.b", one), KeyError, "contain"),
        (lambda: set_tensor(layer, "", one), KeyError, "empty string"),
        (lambda: set_tensor(layer, "weight", 3), TypeError, "3 is not an instance of torch.Tensor"),
        (lambda: swap_tensor(layer, "nope", one), AttributeError, "Linear has no attribute `nope`"),
        (lambda: swap_tensor(layer, "word", one), TypeError, "attribute `word`: x is not an instance of torch.Tensor"),
        (lambda: swap_submodule(made(), "7", layer), KeyError, "submodule 7 does not exist"),
    ]:
        with pytest.raises(error, match=words):
            call()


def test_members_by_paths() -> None:
    module = made()
    members, one = NamedMemberAccessor(module), torch.ones(1)
    assert members.check_keys(["0.b", "q"]) == (["0.bias", "0.weight"], ["q"])
    before, missing = members.swap_tensors_dict({"0.b": one * 6, "0.z": one}, allow_missing=True)
    assert before["0.b"].item() == 1 and missing == ["0.z"] and module[0].b.item() == 6
    members.swap_tensors_dict(before)
    assert module[0].b.item() == 1 and not hasattr(module[0], "z")
    with pytest.raises(RuntimeError, match=r"Missing key\(s\): '0.z'"):
        members.swap_tensors_dict({"0.b": one * 9, "0.z": one})
    assert module[0].b.item() == 1
    members.del_tensor("0.bias")
    assert [name for name, _ in members.named_tensors()] == ["0.weight", "0.b"]
    relu = torch.nn.ReLU()
    assert isinstance(members.swap_submodule("0", relu), torch.nn.Linear) and module[0] is relu
