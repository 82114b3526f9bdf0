"""torch.export.unflatten: exported programs as modules again; module_call_graph is PyTorch's."""

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.export import ModuleCallSignature
from flambeau.export.graph_signature import TensorArgument
from flambeau.export.unflatten import FlatArgsAdapter, InterpreterModule
from flambeau.utils import _pytree as pytree


class Part(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.register_buffer("b", torch.ones(4))

    def forward(self, x, *, y):
        return {"z": self.lin(x) + self.b, "l": [y + 1, x]}


class Whole(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.c, self.bn = Part(), nn.Sequential(nn.Linear(4, 4), nn.ReLU()), nn.BatchNorm1d(4)

    def forward(self, x):
        u = self.a(x, y=x * 2)
        v = self.a(u["z"], y=u["l"][0])
        return self.bn(self.c(v["z"])) + v["l"][1] + self.c[0].weight.sum()


def programs(kept=()):
    model, x = Whole(), torch.rand(3, 4)
    program = torch.export.export(model, (x,), preserve_module_call_signature=kept)
    return model, x, [program, program.run_decompositions()]


@pytest.mark.parametrize("kept", [(), ("a",), ("a", "c.0")])
def test_the_modules_compute_and_write_what_the_original_does(kept) -> None:
    model, x, found = programs(kept)
    for program in found:
        modules = torch.export.unflatten(program)
        own, state = dict(modules.named_modules()), modules.state_dict()
        assert {"a", "a.lin", "c", "c.0", "c.1", "bn", "a@1"} <= set(own)
        assert set(model.state_dict()) <= set(state)
        assert isinstance(modules.c, InterpreterModule) and modules.bn.type_name().endswith("batchnorm.BatchNorm1d")
        before = model.bn.running_mean.clone()
        torch.testing.assert_close(modules(x), program.module()(x), rtol=1e-6, atol=1e-6)
        assert not torch.equal(model.bn.running_mean, before)  # which the program shares


def test_signatures_are_written_down() -> None:
    _, _, (program, taken) = programs(("a", "c.0"))
    calls = {entry.fqn: entry.signature for entry in program.module_call_graph}
    assert list(calls) == ["", "a", "a.lin", "c", "c.0", "c.1", "bn", "a@1"]
    leaf = pytree.tree_structure(0)
    assert calls["a"] == ModuleCallSignature(
        [TensorArgument("x"), TensorArgument("mul")],
        [TensorArgument("add"), TensorArgument("add_1"), TensorArgument("x")],
        pytree.tree_structure(((0,), {"y": 0})),
        pytree.tree_structure({"z": 0, "l": [0, 0]}),
    )
    assert calls["c.0"].out_spec == leaf and calls["c"] is None
    assert [a.name for a in calls["a@1"].outputs] == ["add_2", "add_3", "add"]
    names = {node.name for node in taken.graph.nodes}
    assert all(a.name in names for e in taken.module_call_graph if e.fqn and e.signature for a in e.signature.outputs)


def test_a_module_whose_signature_is_kept_can_be_exchanged() -> None:
    class Other(nn.Module):
        def forward(self, x, *, y):
            return {"z": x * 0, "l": [y, x + 5]}

    model, x, found = programs(("a",))
    model.a = Other()
    for program in found:
        modules = torch.export.unflatten(program)
        modules.a = Other()
        torch.testing.assert_close(modules(x), model(x), rtol=1e-6, atol=1e-6)


def test_what_does_not_fit_is_an_error() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin = nn.Linear(4, 4)

        def forward(self, x):
            return self.lin(input=self.lin(x))

    with pytest.raises(AssertionError, match=r"in_spec mismatch for _export_root\.lin"):
        torch.export.export(Twice(), (torch.rand(2, 4),), preserve_module_call_signature=("lin",))
    with pytest.raises(ValueError, match=r"no submodules \['other'\]"):
        torch.export.export(Twice(), (torch.rand(2, 4),), preserve_module_call_signature=("other",))
    modules = torch.export.unflatten(torch.export.export(Twice(), (torch.rand(2, 4),)))
    with pytest.raises(TypeError, match="There is no flat args adapter specified"):
        modules([torch.rand(2, 4)])
    with pytest.raises(RuntimeError, match=r"Expected input at \*args\[0\]\.shape\[0\] to be equal to 2, but got 3"):
        modules(torch.rand(3, 4))


def test_an_adapter_takes_other_containers() -> None:
    class Adapter(FlatArgsAdapter):
        def adapt(self, target_spec, input_spec, input_args, metadata=None, obj=None):
            return input_args[:1]

    model, x, (program, _) = programs()
    modules = torch.export.unflatten(program, Adapter())
    torch.testing.assert_close(modules([x, x]), model(x), rtol=1e-6, atol=1e-6)


class _Leaf(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("buf", torch.ones(1))

    def forward(self, x):
        return x + 1


class _Middle(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.leaf = _Leaf()

    def forward(self, x):
        return self.leaf(x + self.leaf.buf) * 2


class _Shared(nn.Module):
    """Calls modules from several modules, and writes to a buffer of one in between."""

    def __init__(self) -> None:
        super().__init__()
        self.middle = _Middle()

    def forward(self, x):
        x = self.middle.leaf(self.middle(x))
        self.middle.leaf.buf.add_(1)
        return self.middle.leaf(self.middle(x))


def test_modules_that_several_call_and_buffers_that_are_written() -> None:
    model, x = _Shared(), torch.ones(1)
    program = torch.export.export(_Shared(), (x,))
    run, modules = program.module(), torch.export.unflatten(program)
    assert modules.middle.leaf.buf is not program.state_dict["middle.leaf.buf"]  # state of its own
    for _ in range(3):
        expected = model(x)
        assert torch.equal(run(x), expected) and torch.equal(modules(x), expected)
