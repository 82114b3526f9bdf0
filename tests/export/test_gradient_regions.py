"""Stretches of exported programs with gradients or autocast switched; expected texts are PyTorch's."""

import io

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn


class Module(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function, self.layer = function, nn.Linear(3, 3)
        self.register_buffer("b", torch.zeros(3, 3))

    def forward(self, *x):
        return self.function(self, *x)


def exported(function, *inputs):
    """The program, read back from a file of it; it, its decomposition and what is read compute what the module does."""
    program, file = torch.export.export(Module(function), inputs), io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    read, taken = torch.export.load(file), program.run_decompositions()
    for made in (program.module(), read.module(), taken.module()):
        made.load_state_dict({k: v.clone() for k, v in program.state_dict.items()})
        own = Module(function)
        own.load_state_dict(program.state_dict)
        for a, b in zip(made(*inputs), own(*inputs), strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=0)
    return program, taken


def shown(module) -> list[str]:
    text = [line.strip().partition(";  ")[0].replace("torch.ops.", "") for line in module.code.strip().splitlines()]
    return [line for line in text if line]


def two(self, x):
    with torch.no_grad():
        a = x + 1
    b = a * 2
    with torch.no_grad():
        c = b + 3
        d = c * x
    return (c + d,)


def test_without_gradients() -> None:
    program, taken = exported(two, torch.rand(3, 3))
    assert shown(program.graph_module) == [
        "def forward(self, p_layer_weight, p_layer_bias, b_b, x_0):",
        "submod_5 = self.submod_1",
        "add = higher_order.wrap_with_set_grad_enabled(False, submod_5, x_0)",
        "getitem_2 = add[0]",
        "mul = aten.mul.Tensor(getitem_2, 2)",
        "submod_6 = self.submod_3",
        "wrap_with_set_grad_enabled = higher_order.wrap_with_set_grad_enabled(False, submod_6, mul, x_0)",
        "add_1 = wrap_with_set_grad_enabled[0]",
        "mul_1 = wrap_with_set_grad_enabled[1]",
        "add_2 = aten.add.Tensor(add_1, mul_1)",
        "return (add_2,)",
    ]
    assert shown(program.graph_module.submod_3) == [
        "def forward(self, mul, x_0):", "add_1 = aten.add.Tensor(mul, 3)", "mul_1 = aten.mul.Tensor(add_1, x_0)",
        "return (add_1, mul_1)",
    ]  # fmt: skip
    assert shown(taken.graph_module)[1:] == [
        "add = aten.add.Tensor(x_0, 1)", "mul = aten.mul.Tensor(add, 2)", "add_1 = aten.add.Tensor(mul, 3)",
        "mul_1 = aten.mul.Tensor(add_1, x_0)", "add_2 = aten.add.Tensor(add_1, mul_1)", "return (add_2,)",
    ]  # fmt: skip


def partly(self, x):
    with torch.no_grad():
        a = self.layer(x)
        with torch.enable_grad():
            b = self.layer(x)
        c = self.layer(b)
    return a, b, c


def test_what_wants_a_gradient_is_what_the_module_said() -> None:
    x = torch.rand(3, 3)
    program, _ = exported(partly, x)
    assert [made.requires_grad for made in program.module()(x)] == [False, True, False]
    with torch.no_grad():
        assert "submod" in torch.export.export(Module(partly), (x,)).graph_module.code
        assert "submod" not in torch.export.export(Module(two), (x,)).graph_module.code


def test_a_switch_that_changes_nothing_leaves_no_trace_and_an_empty_block_does() -> None:
    def forward(self, x):
        with torch.enable_grad():
            y = x + 1
        with torch.no_grad():
            z = y
        return (z * 2,)

    program, _ = exported(forward, torch.rand(3, 3))
    assert shown(program.graph_module)[1:] == [
        "add = aten.add.Tensor(x_0, 1)",
        "submod_5 = self.submod_3",
        "wrap_with_set_grad_enabled = higher_order.wrap_with_set_grad_enabled(False, submod_5)",
        "mul = aten.mul.Tensor(add, 2)",
        "return (mul,)",
    ]


def test_a_write_in_a_block() -> None:
    def forward(self, x):
        with torch.no_grad():
            self.b.add_(x)
        return (self.b + 1,)

    program, taken = exported(forward, torch.rand(3, 3))
    assert shown(program.graph_module.submod_1)[1:] == ["add_ = aten.add_.Tensor(b_b, x_0)", "return (add_,)"]
    assert [spec.kind.name for spec in taken.graph_signature.output_specs] == ["BUFFER_MUTATION", "USER_OUTPUT"]


def test_blocks_inside_branches() -> None:
    def forward(self, x):
        def without(a):
            with torch.no_grad():
                return a + 1

        return (torch.cond(x.sum() > 0, without, lambda a: a * 2, (x,)),)

    program, _ = exported(forward, torch.rand(3, 3))
    assert shown(program.graph_module.true_graph_0)[1:] == [
        "submod_3 = self.submod_1", "add = higher_order.wrap_with_set_grad_enabled(False, submod_3, x_0)", "getitem = add[0]",
        "return (getitem,)",
    ]  # fmt: skip


def mixed(self, x):
    with torch.autocast("cpu", torch.bfloat16):
        y = self.layer(x)
        z = F.scaled_dot_product_attention(x[None], y[None], y[None])
        w = torch.cat([x, y])
    return y, z, w


def test_autocast() -> None:
    program, taken = exported(mixed, torch.rand(3, 3))
    call = "wrap_with_autocast('cpu', torch.bfloat16, True, False, submod_2, x_0, p_layer_weight, p_layer_bias)"
    assert shown(program.graph_module)[1:] == [
        "submod_2 = self.submod_1",
        f"wrap_with_autocast = higher_order.{call}",
        "linear = wrap_with_autocast[0]",
        "scaled_dot_product_attention = wrap_with_autocast[1]",
        "cat = wrap_with_autocast[2]",
        "return (linear, scaled_dot_product_attention, cat)",
    ]
    assert shown(program.graph_module.submod_1)[:2] == [
        "def forward(self, arg3_1, arg0_1, arg1_1):",
        "linear = aten.linear.default(arg3_1, arg0_1, arg1_1)",
    ]
    assert shown(taken.graph_module)[1:6] == [
        "_to_copy = aten._to_copy.default(p_layer_bias, dtype = torch.bfloat16)",
        "_to_copy_1 = aten._to_copy.default(p_layer_weight, dtype = torch.bfloat16)",
        "_to_copy_2 = aten._to_copy.default(x_0, dtype = torch.bfloat16)",
        "permute = aten.permute.default(_to_copy_1, [1, 0])",
        "addmm = aten.addmm.default(_to_copy, _to_copy_2, permute)",
    ]


def rotary(self, x):
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        y = (x @ x).cos()
    return (y + 1,)


def test_autocast_off_without_gradients() -> None:
    program, _ = exported(rotary, torch.rand(3, 3))
    assert shown(program.graph_module.submod_1)[1:] == [
        "submod_2 = self.submod_1",
        "cos = higher_order.wrap_with_autocast('cpu', torch.bfloat16, False, False, submod_2, x_0)",
        "getitem = cos[0]",
        "return (getitem,)",
    ]
    with torch.autocast("cpu", torch.bfloat16):
        (made,) = program.module()(torch.ones(3, 3))
    assert made.dtype is torch.float32


@pytest.mark.parametrize("enabled", [True, False])
def test_gradients_switched_inside_autocast(enabled) -> None:
    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            with torch.no_grad():
                y = self.layer(x)
            with torch.autocast("cpu", enabled=not enabled):
                z = self.layer(y.float())
        return y, z

    x = torch.rand(3, 3)
    program, _ = exported(forward, x)
    assert [made.requires_grad for made in program.module()(x)] == [False, True]


def test_an_input_given_twice_isnt_written_by_views() -> None:
    def forward(self, q, k):
        return (q + k.view(9).view(3, 3),)

    x = torch.rand(3, 3)
    _, taken = exported(forward, x, x)
    assert [spec.kind.name for spec in taken.graph_signature.output_specs] == ["USER_OUTPUT"]


class Looking(torch.nn.Module):
    """What the package does by itself with gradients off is no stretch of the program's."""

    def forward(self, x):
        assert "2" in repr(x.shape) and repr(x)
        return x * 2


def test_switches_of_the_package_itself_leave_no_trace():
    program = torch.export.export(Looking(), (torch.ones(2),), strict=False)
    assert [node.name for node in program.graph.nodes] == ["x", "mul", "output"]
