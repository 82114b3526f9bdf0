"""ExportedProgram.run_decompositions: graphs without writes, in core operators; expected texts are PyTorch's."""

import copy
import importlib.util
import pathlib

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.export.graph_signature import OutputKind
from flambeau.utils import _pytree as pytree

aten = torch.ops.aten
_found = importlib.util.spec_from_file_location("models", pathlib.Path(__file__).with_name("decomposition_models.py"))
_models = importlib.util.module_from_spec(_found)
_found.loader.exec_module(_models)
MODELS = _models.models(torch)


def lines(program) -> list[str]:
    return [line.strip().partition(";  ")[0] for line in program.graph_module.code.strip().splitlines()][1:]


def exported(forward, *inputs, **buffers):
    class Made(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, value in buffers.items():
                self.register_buffer(name, value)

    Made.forward = forward
    return torch.export.export(Made(), inputs)


@pytest.mark.parametrize("name", MODELS)
def test_a_program_computes_and_writes_what_the_module_does(name) -> None:
    model, given = MODELS[name]
    expected_model, expected_given, own = copy.deepcopy(model), copy.deepcopy(given), copy.deepcopy(given)
    program = torch.export.export(model, given).run_decompositions()
    for node in program.graph.nodes:
        assert not isinstance(node.target, torch._ops.OpOverload) or not node.target._schema.is_mutable
    module = program.module()
    torch.manual_seed(1)
    expected = pytree.tree_leaves(expected_model(*expected_given))
    torch.manual_seed(1)
    found = pytree.tree_leaves(module(*own))
    assert len(expected) == len(found)
    if not name.startswith("dropout"):
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(own, expected_given, rtol=1e-6, atol=1e-6)
    for key, value in expected_model.state_dict().items():
        torch.testing.assert_close(module.state_dict()[key], value, rtol=1e-6, atol=1e-6)


def test_writes_through_views_become_what_they_write() -> None:
    def forward(self, x):
        z = x.clone()
        w = z.view(-1)
        w[2:4] = 5.0
        return z, w

    program = exported(forward, torch.rand(3, 3)).run_decompositions()
    assert lines(program) == [
        "clone = torch.ops.aten.clone.default(x)",
        "view = torch.ops.aten.view.default(clone, [-1])",
        "clone_1 = torch.ops.aten.clone.default(c_lifted_tensor_0)",
        "slice_1 = torch.ops.aten.slice.Tensor(view, 0, 2, 4)",
        "copy = torch.ops.aten.copy.default(slice_1, clone_1)",
        "view_1 = torch.ops.aten.view.default(clone, [-1])",
        "slice_scatter = torch.ops.aten.slice_scatter.default(view_1, copy, 0, 2, 4)",
        "view_2 = torch.ops.aten.view.default(slice_scatter, [3, 3])",
        "view_4 = torch.ops.aten.view.default(view_2, [-1])",
        "return (view_2, view_4)",
    ]


def test_what_is_written_is_an_output_in_front_of_the_results() -> None:
    def forward(self, x):
        self.b.mul_(0.9).add_(x)
        x.copy_(self.b)
        return x * 2

    program = exported(forward, torch.rand(3), b=torch.zeros(3)).run_decompositions()
    assert [(s.kind, s.arg.name, s.target) for s in program.graph_signature.output_specs] == [
        (OutputKind.BUFFER_MUTATION, "add", "b"),
        (OutputKind.USER_INPUT_MUTATION, "copy", "x"),
        (OutputKind.USER_OUTPUT, "mul_1", None),
    ]
    assert program.dialect == "ATEN"
    module, x = program.module(), torch.ones(3)
    assert torch.equal(module(x), torch.full((3,), 2.0))
    assert torch.equal(module.b, torch.ones(3)) and torch.equal(x, torch.ones(3))


def test_tables_say_what_stays_and_what_becomes_of_the_rest() -> None:
    program = torch.export.export(nn.Sequential(nn.Linear(4, 3), nn.SiLU()), (torch.rand(2, 4),))

    def targets(*table):
        return [str(n.target) for n in program.run_decompositions(*table).graph.nodes if n.op == "call_function"]

    assert targets() == ["aten.permute.default", "aten.addmm.default", "aten.sigmoid.default", "aten.mul.Tensor"]
    assert targets({}) == ["aten.linear.default", "aten.silu.default"]
    table = torch.export.default_decompositions()
    del table[aten.linear.default]
    assert targets(table)[0] == "aten.linear.default"
    table.pop(aten.silu.default)
    assert targets(table) == ["aten.linear.default", "aten.silu.default"]
    table[aten.silu.default] = lambda x: x / (1 + torch.exp(-x))
    assert targets(table)[1:] == ["aten.neg.default", "aten.exp.default", "aten.add.Tensor", "aten.div.Tensor"]
    with pytest.raises(KeyError):
        table.pop(aten.linear.default)


def test_programs_register_decompositions() -> None:
    from flambeau._decomp import core_aten_decompositions, get_decompositions, register_decomposition

    own: dict = {}

    @register_decomposition([aten.addcmul.default, aten.addcdiv], own)
    def rule(*args):
        return args[0]

    assert set(own) == {aten.addcmul.default, aten.addcdiv.default, aten.addcdiv.out}
    with pytest.raises(RuntimeError, match=r"duplicate registrations for aten\.addcmul\.default"):
        register_decomposition(aten.addcmul.default, own)(rule)
    with pytest.raises(TypeError, match="Expected OpOverload or OpOverloadPacket"):
        register_decomposition("addcmul", own)(rule)
    found = get_decompositions([aten.silu, aten.mm])
    assert list(found) == [aten.silu.default]
    assert aten.linear.default in core_aten_decompositions() and aten.mm.default not in core_aten_decompositions()


def test_a_result_that_nothing_recorded_is_an_error() -> None:
    program = exported(lambda self, x: torch.ops.aten.corrcoef.default(x), torch.rand(3, 3))
    with pytest.raises(NotImplementedError, match=r"table.pop\(aten.corrcoef.default\)"):
        program.run_decompositions()
    table = torch.export.default_decompositions()
    table.pop(aten.corrcoef.default)
    assert lines(program.run_decompositions(table))[0].endswith("aten.corrcoef.default(x)")


class Sizes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()

    def forward(self, x):
        y = self.layer(x).transpose(0, 1).clone()
        y[0] = 2.0
        return y.reshape(-1), torch.flatten(x, 1).sum(0)


def test_symbols_of_sizes_are_kept() -> None:
    model, example = Sizes(), torch.rand(3, 5, 8)
    program = torch.export.export(model, (example,), dynamic_shapes={"x": {0: torch.export.Dim("b"), 1: torch.export.Dim("t")}})
    taken = program.run_decompositions()
    assert lines(taken)[:2] == [
        "sym_size_int = torch.ops.aten.sym_size.int(x, 0)",
        "sym_size_int_1 = torch.ops.aten.sym_size.int(x, 1)",
    ]
    assert taken.range_constraints == program.range_constraints
    for shape in ((3, 5, 8), (4, 7, 8), (6, 2, 8)):
        x = torch.rand(shape)
        torch.testing.assert_close(taken.module()(x), model(x), rtol=1e-6, atol=1e-6)


def test_a_size_that_would_become_a_number_is_an_error() -> None:
    program = torch.export.export(nn.GRU(4, 3), (torch.rand(3, 2, 4),), dynamic_shapes={"input": {0: torch.export.Dim("t")}})
    with pytest.raises(NotImplementedError, match=r"table\.pop\(aten\.gru\.input\)"):
        program.run_decompositions()


def test_nodes_know_where_they_come_from() -> None:
    program = torch.export.export(nn.Sequential(nn.Linear(2, 2)), (torch.rand(3, 2),)).run_decompositions()
    permute, addmm = (node for node in program.graph.nodes if node.op == "call_function")
    assert permute.meta["original_aten"] is aten.t.default and addmm.meta["original_aten"] is aten.addmm.default
    for node in (permute, addmm):
        assert list(node.meta["nn_module_stack"].values())[-1][0] == "0" and "in forward" in node.meta["stack_trace"]
        assert node.meta["from_node"][-1].name == "linear"


def test_a_program_moves_to_another_device() -> None:
    from flambeau.export.passes import move_to_device_pass

    program = exported(lambda self, x: x + self.b + torch.zeros(3, device=x.device), torch.rand(3), b=torch.ones(3))
    assert move_to_device_pass(program, {"cpu": "meta"}) is program
    assert program.state_dict["b"].device.type == program.example_inputs[0][0].device.type == "meta"
    assert "zeros.default([3], device = device(type='meta'), pin_memory = False)" in program.graph_module.code
    assert {node.meta["val"].device.type for node in program.graph.nodes if "val" in node.meta} == {"meta"}


def test_draws_in_place_become_draws() -> None:
    program = exported(lambda self, x: x.clone().normal_(3.0, 0.5).add_(torch.zeros(3).uniform_()), torch.rand(3))
    assert [line.partition(" = ")[0] for line in lines(program.run_decompositions())][:2] == ["clone", "normal_functional"]
    assert "normal_functional.default(clone, 3.0, 0.5)" in program.run_decompositions().graph_module.code
    torch.manual_seed(3)
    made = program.run_decompositions().module()(torch.rand(3))
    assert 0.5 < made.mean() < 6.5


def test_broadcast_to_with_open_sizes() -> None:
    class Spread(torch.nn.Module):
        def forward(self, x, y):
            return torch.broadcast_to(x, (3, *y.shape)).clone()

    auto = {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO}
    x = torch.arange(20.0).reshape(4, 5)
    program = torch.export.export(Spread(), (x, x + 1), dynamic_shapes=(auto, auto)).run_decompositions()
    assert "expand" in program.graph_module.code and "broadcast_to" not in program.graph_module.code
    assert torch.equal(program.module()(x[:2], x[:2]), x[:2].expand(3, 2, 5))
