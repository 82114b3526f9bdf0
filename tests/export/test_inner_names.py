"""Inner names of torch.export that programs use, and what is checked and left out at its edges."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau import nn
from flambeau._export import utils
from flambeau.export import exported_program
from flambeau.export._unlift import _unlift_exported_program_lifted_states


class State(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p = nn.Parameter(torch.ones(3))
        self.register_buffer("kept", torch.ones(3))
        self.register_buffer("hidden", torch.ones(3), persistent=False)
        self.constant = torch.full((3,), 2.0)

    def forward(self, x, *, y):
        torch.tensor(3)
        return self.p * x + self.kept + self.hidden + self.constant + y


def test_what_nodes_are() -> None:
    program = torch.export.export(State(), (torch.ones(3),), {"y": torch.ones(3)})
    found = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    assert utils.is_param(program, found["p_p"]) and utils.get_param(program, found["p_p"]) is program.state_dict["p"]
    assert utils.get_buffer(program, found["b_kept"]) is program.state_dict["kept"]
    assert utils.get_buffer(program, found["b_hidden"]) is program.constants["hidden"]
    assert utils.get_lifted_tensor_constant(program, found["c_constant"]) is program.constants["constant"]
    assert utils.get_param(program, found["x"]) is utils.get_buffer(program, found["x"]) is None
    assert set(program.constants) == {"hidden", "constant"}  # without the tensor that nothing uses
    assert isinstance(program.graph_signature.input_specs[0], exported_program.InputSpec)
    assert "hidden" not in _unlift_exported_program_lifted_states(program).state_dict()


def test_example_inputs_are_in_the_containers_of_the_program() -> None:
    x = torch.ones(3)
    program = torch.export.export(State(), (x,), {"y": x})
    program.example_inputs = (x,), {"y": x}
    with pytest.raises(ValueError, match="Example inputs should be a tuple"):
        program.example_inputs = (x,)
    with pytest.raises(ValueError, match="Ran into a kwarg keyword mismatch"):
        program.example_inputs = (x,), {}
    with pytest.raises(ValueError, match="Trying to flatten user inputs"):
        program.example_inputs = (), {"y": x}


def test_a_constant_truth_of_cond_warns() -> None:
    class Chosen(nn.Module):
        def forward(self, x):
            return torch.cond(True, torch.sin, torch.cos, (x,))

    with pytest.warns(UserWarning, match="Pred is a Python constant"):
        torch.export.export(Chosen(), (torch.ones(3),))
