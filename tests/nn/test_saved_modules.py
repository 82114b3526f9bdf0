"""Whole modules in files: what a saved module holds is what PyTorch's own holds, so that either reads the other's."""

import copy
import io
import json
import pickletools
import zipfile
from pathlib import Path

import pytest

import flambeau as torch
from flambeau import nn

# By the call that makes a module: its attributes beyond Module's, its parameters, buffers and submodules; from PyTorch 2.13.
RECORDED = json.loads(Path(__file__).with_name("module_attributes_recorded.json").read_text())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", RECORDED)
def test_a_module_holds_the_attributes_of_pytorch(call):
    module = eval("nn." + call, {"nn": nn})
    state = module.__reduce_ex__(2)[2]
    own = nn.Module().__dict__
    assert own.keys() <= state.keys()
    assert [
        sorted(state.keys() - own.keys()),
        list(module._parameters),
        list(module._buffers),
        list(module._modules),
    ] == RECORDED[call]


def _file(module):
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    return file


def test_a_recurrent_layer_is_saved_with_its_weights_and_read_back():
    layer = nn.LSTM(2, 3, 2, proj_size=2)
    x, state = torch.randn(4, 1, 2), layer.__getstate__()
    assert all(
        weight is getattr(layer, name) for weight, name in zip(state["_flat_weights"], layer._flat_weights_names, strict=True)
    )
    for read in (torch.load(_file(layer), weights_only=False), copy.deepcopy(layer)):
        assert read(x)[0].equal(layer(x)[0])
        assert not any(weight is layer.weight_ih_l0 for weight in read._flat_weights)
        assert read._flat_weights[0] is read.weight_ih_l0


class Counting(nn.Linear):
    def __init__(self):
        super().__init__(2, 2)
        self.seen = 0
        self.register_load_state_dict_pre_hook(self.count)

    @staticmethod
    def count(module, state_dict, *rest):
        module.seen += 1


def test_loading_hooks_are_saved_and_copied_with_their_module():
    first = Counting()
    (hook,) = first._load_state_dict_pre_hooks.values()
    hook(first.state_dict(), "", {}, True, [], [], [])
    assert first.seen == 1 and hook.__name__ == "count"
    for other in (copy.deepcopy(first), torch.load(_file(first), weights_only=False)):
        other.load_state_dict(first.state_dict())
        assert (first.seen, other.seen) == (1, 2)


def test_a_lazy_module_names_its_hook_as_pytorch_does():
    with zipfile.ZipFile(_file(nn.LazyConv1d(2, 3))) as file:
        pickled = file.read(next(name for name in file.namelist() if name.endswith("data.pkl")))
    named = {argument for opcode, argument, _ in pickletools.genops(pickled) if opcode.name == "GLOBAL"}
    assert "torch.nn.modules.module _WrappedHook" in named
