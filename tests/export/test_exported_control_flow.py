"""torch.cond, while_loop, map and scan in exported programs: one operator each; expected texts are PyTorch's."""

import pytest

import flambeau as torch
from flambeau import nn
from flambeau._dynamo.exc import UncapturedHigherOrderOpError
from flambeau._higher_order_ops import map as mapped
from flambeau._higher_order_ops import scan, while_loop


class Module(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function, self.layer = function, nn.Linear(3, 3)
        self.register_buffer("z", torch.ones(3))
        self.c = torch.full((3,), 2.0)

    def forward(self, *x):
        return self.function(self, *x)


def exported(function, *inputs):
    model = Module(function)
    program = torch.export.export(model, inputs)
    taken = program.run_decompositions()
    for made in (program.module(), taken.module()):
        torch.testing.assert_close(made(*inputs), model(*inputs), rtol=1e-6, atol=1e-6)
    return program, taken


def lines(module) -> list[str]:
    return [line.strip().partition(";  ")[0].replace("torch.ops.", "") for line in module.code.strip().splitlines()]


def branches(self, x, y):
    u, v = x.sin(), y.cos()
    return torch.cond(u.sum() > 0, lambda a: self.layer(a) + v + self.z + self.c, lambda a: a - u + self.layer.bias, (x.exp(),))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_branches_have_the_tensors_around_them_as_inputs(sign) -> None:
    program, taken = exported(branches, torch.full((2, 3), sign), torch.ones(2, 3))
    assert lines(program.graph_module) == [
        "def forward(self, p_layer_weight, p_layer_bias, b_z, c_c, x_0, x_1):",
        "sin = aten.sin.default(x_0)",
        "cos = aten.cos.default(x_1)",
        "sum_1 = aten.sum.default(sin)",
        "gt = aten.gt.Scalar(sum_1, 0)",
        "exp = aten.exp.default(x_0)",
        "true_graph_0 = self.true_graph_0",
        "false_graph_0 = self.false_graph_0",
        "cond = higher_order.cond(gt, true_graph_0, false_graph_0, (p_layer_bias, exp, b_z, c_c, p_layer_weight, cos, sin))",
        "getitem = cond[0]",
        "return (getitem,)",
    ]
    inner = "def forward(self, p_layer_bias, exp, b_z, c_c, p_layer_weight, cos, sin):"
    assert lines(program.graph_module.false_graph_0) == [
        inner,
        "sub = aten.sub.Tensor(exp, sin)",
        "add = aten.add.Tensor(sub, p_layer_bias)",
        "return (add,)",
    ]
    assert lines(taken.graph_module.true_graph_0)[:3] == [
        inner,
        "permute = aten.permute.default(p_layer_weight, [1, 0])",
        "addmm = aten.addmm.default(p_layer_bias, exp, permute)",
    ]


def test_branches_within_branches_and_containers() -> None:
    def forward(self, x):
        made = torch.cond(
            x.sum() > 0,
            lambda a: torch.cond(a.sum() > 1, lambda b: {"k": b + 1, "l": [b * 2]}, lambda b: {"k": b - 1, "l": [b / 2]}, (a,)),
            lambda a: {"k": a * 3, "l": [a * 4]},
            (x,),
        )
        return made["k"] + made["l"][0]

    for value in (-1.0, 0.1, 1.0):
        program, _ = exported(forward, torch.full((3,), value))
    assert [name for name, _ in program.graph_module.named_modules()][1:] == [
        "true_graph_0", "true_graph_0.true_graph_0", "true_graph_0.false_graph_0", "false_graph_0",
    ]  # fmt: skip


def test_a_truth_of_python_chooses_at_once() -> None:
    program, _ = exported(lambda self, x: torch.cond(x.shape[0] > 2, lambda a: a + 1, lambda a: a - 1, (x,)), torch.rand(3))
    assert lines(program.graph_module)[1:] == ["add = aten.add.Tensor(x_0, 1)", "return (add,)"]


def test_loops() -> None:
    def loop(self, i, x):
        return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * self.z), (i, x))

    program, _ = exported(loop, torch.tensor(0), torch.rand(3))
    call = "higher_order.while_loop(while_loop_cond_graph_0, while_loop_body_graph_0, (x_0, x_1), (b_z,))"
    assert f"while_loop = {call}" in lines(program.graph_module)
    assert lines(program.graph_module.while_loop_cond_graph_0) == [
        "def forward(self, arg0_1, arg1_1, arg2_1):", "lt = aten.lt.Scalar(arg0_1, 3)", "return lt",
    ]  # fmt: skip
    program, _ = exported(lambda self, xs, y: mapped(lambda x, y: x + y, xs, y), torch.rand(2, 3), torch.rand(3))
    assert "map_impl = higher_order.map_impl(body_graph_0, [x_0], [x_1])" in lines(program.graph_module)
    step = lambda carry, x: (carry + x, (carry * 2).clone())
    program, _ = exported(lambda self, init, xs: scan(step, init, xs), torch.rand(3), torch.rand(4, 3))
    assert "scan = higher_order.scan(scan_combine_graph_0, [x_0], [x_1], ())" in lines(program.graph_module)
    assert lines(program.graph_module.scan_combine_graph_0)[-1] == "return [add, clone]"
    exported(lambda self, init, xs: scan(step, init, xs, dim=1, reverse=True), torch.rand(3), torch.rand(3, 4))


def test_what_branches_may_not_do() -> None:
    def program(true_fn, false_fn=lambda a: a * 2, operands=None):
        function = lambda self, x: torch.cond(x.sum() > 0, true_fn, false_fn, (x,) if operands is None else operands)
        return torch.export.export(Module(function), (torch.rand(3),))

    with pytest.raises(UncapturedHigherOrderOpError, match="Higher order ops do not support aliasing"):
        program(lambda a: a[:1])
    with pytest.raises(UncapturedHigherOrderOpError, match="Higher order ops do not support input mutation"):
        program(lambda a: a.add_(1).clone())
    with pytest.raises(UncapturedHigherOrderOpError, match="tensors of the same shapes and dtypes"):
        program(lambda a: a[:2] + 1)
    with pytest.raises(UncapturedHigherOrderOpError, match="functions must give tensors"):
        program(lambda a: 3)
    with pytest.raises(NotImplementedError, match="an operand of type int"):
        program(lambda a: a, operands=(1,))


def test_a_truth_of_sizes_is_asked_at_a_run() -> None:
    class Chosen(nn.Module):
        def forward(self, x):
            return torch.cond(x.shape[0] > 4, lambda x: x.sin(), lambda x: x.cos(), (x,))

    program = torch.export.export(Chosen(), (torch.rand(5, 3),), dynamic_shapes=({0: torch.export.Dim("n", min=2, max=9)},))
    assert "cond(gt, true_graph_0, false_graph_0, (x,))" in program.graph_module.code
    for run in (program.module(), program.run_decompositions().module()):
        for n in (3, 4, 8):
            x = torch.rand(n, 3)
            torch.testing.assert_close(run(x), Chosen()(x))


def test_sizes_of_both_branches_are_the_same() -> None:
    class Either(nn.Module):
        def forward(self, x, y):
            return torch.cond(x.sum() > 0, lambda x, y: x + 1, lambda x, y: y * 2, (x, y))

    shapes = ({0: torch.export.Dim.AUTO}, {0: torch.export.Dim.AUTO})
    run = torch.export.export(Either(), (torch.rand(4), torch.rand(4)), dynamic_shapes=shapes).module()
    for x in (torch.rand(6), -torch.rand(3)):
        torch.testing.assert_close(run(x, x), Either()(x, x))
    with pytest.raises(AssertionError, match=r"Guard failed: .*y.size\(\)\[0\]"):
        run(torch.rand(4), torch.rand(5))


def test_numbers_in_branches_are_checked_in_them() -> None:
    """What one branch asserts of a number that only a run tells says nothing of the other."""

    def one(x, y):
        n = x.item()
        torch._check(n <= 5)
        return x - n

    def other(x, y):
        n = y.item()
        torch._check(n >= 2)
        return x + n

    class Chosen(nn.Module):
        def forward(self, pred, x, y):
            return torch.cond(pred, one, other, (x, y))

    run = torch.export.export(Chosen(), (torch.tensor(True), torch.tensor([2]), torch.tensor([5]))).module()
    yes, no = torch.tensor(True), torch.tensor(False)
    assert run(yes, torch.tensor([4]), torch.tensor([0])).item() == 0
    assert run(no, torch.tensor([9]), torch.tensor([3])).item() == 12
    for pred, x, y in ((yes, 6, 5), (no, 2, 1)):
        with pytest.raises(RuntimeError, match="Runtime assertion failed"):
            run(pred, torch.tensor([x]), torch.tensor([y]))
