"""torch.export: graphs of operators as they are called; expected texts are PyTorch's."""

import copy
import subprocess
import sys

import pytest

import flambeau as torch
import flambeau.nn.functional as F
import flambeau.utils._pytree as pytree
from flambeau import nn
from flambeau._dynamo.exc import UserError
from flambeau.export.graph_signature import ConstantArgument, InputKind, TensorArgument
from flambeau.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

export = torch.export.export


def module(forward, **state) -> nn.Module:
    """A module with this forward, and parameters, buffers and tensors by name."""

    class Made(nn.Module):
        pass

    Made.forward = forward
    made = Made()
    for name, value in state.items():
        if isinstance(value, nn.Parameter | nn.Module):
            setattr(made, name, value)
        else:
            made.register_buffer(name, value)
    return made


def lines(program) -> list[str]:
    return [line.strip() for line in program.graph_module.code.strip().splitlines()]


class CNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.bn = nn.BatchNorm2d(8)
        self.act = nn.ReLU(inplace=True)
        self.pool = nn.MaxPool2d(2)
        self.fc = nn.Linear(8, 5)

    def forward(self, x):
        x = self.pool(self.act(self.bn(self.conv(x))))
        return self.fc(F.dropout(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1), 0.5, self.training))


def test_training_ir_of_a_network() -> None:
    program = export(CNN(), (torch.rand(2, 3, 8, 8),))
    assert lines(program) == [
        "def forward(self, p_conv_weight, p_conv_bias, p_bn_weight, p_bn_bias, p_fc_weight, p_fc_bias, b_bn_running_mean, "
        "b_bn_running_var, b_bn_num_batches_tracked, x):",
        "conv2d = torch.ops.aten.conv2d.default(x, p_conv_weight, p_conv_bias, [1, 1], [1, 1]);  "
        "x = p_conv_weight = p_conv_bias = None",
        "add_ = torch.ops.aten.add_.Tensor(b_bn_num_batches_tracked, 1);  b_bn_num_batches_tracked = add_ = None",
        "batch_norm = torch.ops.aten.batch_norm.default(conv2d, p_bn_weight, p_bn_bias, b_bn_running_mean, b_bn_running_var, "
        "True, 0.1, 1e-05, False);  conv2d = p_bn_weight = p_bn_bias = b_bn_running_mean = b_bn_running_var = None",
        "relu_ = torch.ops.aten.relu_.default(batch_norm);  batch_norm = None",
        "max_pool2d = torch.ops.aten.max_pool2d.default(relu_, [2, 2], [2, 2]);  relu_ = None",
        "adaptive_avg_pool2d = torch.ops.aten.adaptive_avg_pool2d.default(max_pool2d, [1, 1]);  max_pool2d = None",
        "flatten = torch.ops.aten.flatten.using_ints(adaptive_avg_pool2d, 1);  adaptive_avg_pool2d = None",
        "dropout = torch.ops.aten.dropout.default(flatten, 0.5, True);  flatten = None",
        "linear = torch.ops.aten.linear.default(dropout, p_fc_weight, p_fc_bias);  dropout = p_fc_weight = p_fc_bias = None",
        "return (linear,)",
    ]
    names = ["conv.weight", "conv.bias", "bn.weight", "bn.bias", "fc.weight", "fc.bias"]
    assert [name for name, _ in program.named_parameters()] == names
    assert list(program.state_dict) == [*names, "bn.running_mean", "bn.running_var", "bn.num_batches_tracked"]


def test_the_module_is_as_before_and_the_program_computes_the_same() -> None:
    model, x = CNN(), torch.rand(2, 3, 8, 8)
    before = copy.deepcopy(model.state_dict())
    program = export(model, (x,))
    assert type(model.conv.weight) is nn.Parameter
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    twin = copy.deepcopy(model)
    torch.manual_seed(0)
    made = program.module()(x)
    torch.manual_seed(0)
    assert torch.equal(made, twin(x))
    assert torch.equal(model.bn.running_mean, twin.bn.running_mean)  # the program has the module's own state
    made.sum().backward()
    assert model.conv.weight.grad is not None


def test_printed_program() -> None:
    def forward(self, x):
        return self.fc(x).relu()

    program = export(module(forward, fc=nn.Linear(4, 2, bias=False)), (torch.rand(3, 4),))
    text = [line for line in str(program).splitlines() if "# File" not in line and line.strip()]
    assert text == [
        "ExportedProgram:",
        "    class GraphModule(torch.nn.Module):",
        '        def forward(self, p_fc_weight: "f32[2, 4]", x: "f32[3, 4]"):',
        '            linear: "f32[3, 2]" = torch.ops.aten.linear.default(x, p_fc_weight);  x = p_fc_weight = None',
        '            relu: "f32[3, 2]" = torch.ops.aten.relu.default(linear);  linear = None',
        "            return (relu,)",
        "Graph signature: ",
        "    # inputs",
        "    p_fc_weight: PARAMETER target='fc.weight'",
        "    x: USER_INPUT",
        "    # outputs",
        "    relu: USER_OUTPUT",
        "Range constraints: {}",
    ]
    assert "code: return F.linear(" in str(program)
    assert program.module().code.splitlines()[3:] == [
        "def forward(self, x):",
        "    x, = fx_pytree.tree_flatten_spec(([x], {}), self._in_spec)",
        "    fc_weight = self.fc.weight",
        "    _guards_fn = self._guards_fn(x);  _guards_fn = None",
        "    linear = torch.ops.aten.linear.default(x, fc_weight);  x = fc_weight = None",
        "    relu = torch.ops.aten.relu.default(linear);  linear = None",
        "    return pytree.tree_unflatten((relu,), self._out_spec)",
        "    ",
    ]


def test_containers_and_constants_among_inputs_and_results() -> None:
    def forward(self, d, *, scale, flag):
        return {"out": d["a"] * scale if flag else d["a"], "rest": [d["b"][1], None, 3]}

    given = {"a": torch.rand(2), "b": [torch.rand(2), torch.rand(2)]}
    program = export(module(forward), (given,), {"scale": torch.rand(2), "flag": True})
    assert lines(program) == [
        "def forward(self, d_a, d_b_0, d_b_1, scale, flag):",
        "mul = torch.ops.aten.mul.Tensor(d_a, scale);  d_a = scale = None",
        "return (mul, d_b_1, None, 3)",
    ]
    specs = program.graph_signature.input_specs
    assert specs[-1].arg == ConstantArgument("flag", True)
    assert specs[0].arg == TensorArgument("d_a")
    made = program.module()(given, flag=True, scale=torch.full((2,), 2.0))
    assert torch.equal(made["out"], given["a"] * 2)
    assert made["rest"][0] is given["b"][1]
    assert made["rest"][1:] == [None, 3]
    with pytest.raises(AssertionError, match=r"^Guard failed: flag == True$"):
        program.module()(given, flag=False, scale=given["a"])
    with pytest.raises(ValueError, match=r"keyword mismatch: Got the following keywords \['scale'\]"):
        program.module()(given, scale=given["a"])


def test_buffers_constants_and_shared_weights() -> None:
    def forward(self, x):
        self.n = self.n + 1
        return x * torch.tensor([1.0, 2.0, 3.0]) + self.n

    program = export(module(forward, n=torch.zeros(3)), (torch.rand(2, 3),))
    assert lines(program) == [
        "def forward(self, b_n, c_lifted_tensor_0, x):",
        "add = torch.ops.aten.add.Tensor(b_n, 1)",
        "lift_fresh_copy = torch.ops.aten.lift_fresh_copy.default(c_lifted_tensor_0);  c_lifted_tensor_0 = None",
        "detach_ = torch.ops.aten.detach_.default(lift_fresh_copy);  lift_fresh_copy = None",
        "mul = torch.ops.aten.mul.Tensor(x, detach_);  x = detach_ = None",
        "add_1 = torch.ops.aten.add.Tensor(mul, add);  mul = None",
        "copy__default = torch.ops.aten.copy_.default(b_n, add);  b_n = add = copy__default = None",
        "return (add_1,)",
    ]
    assert [spec.kind for spec in program.graph_signature.input_specs] == [
        InputKind.BUFFER, InputKind.CONSTANT_TENSOR, InputKind.USER_INPUT]  # fmt: skip
    assert program.constants["lifted_tensor_0"].tolist() == [1, 2, 3]
    run = program.module()
    assert run(torch.ones(2, 3))[0].tolist() == [2, 3, 4]
    assert run(torch.ones(2, 3))[0].tolist() == [3, 4, 5]

    tied = module(lambda self, i: self.head(self.table(i)), table=nn.Embedding(10, 4), head=nn.Linear(4, 10, bias=False))
    tied.head.weight = tied.table.weight
    assert lines(export(tied, (torch.tensor([1, 2]),)))[1].startswith(
        "embedding = torch.ops.aten.embedding.default(p_head_weight, i)")  # fmt: skip


@pytest.mark.parametrize(("forward", "expected"), [
    (lambda self, x: x[:, 1:][0, None], ["slice_1 = torch.ops.aten.slice.Tensor(x, 1, 1, 9223372036854775807)",
                                         "select = torch.ops.aten.select.int(slice_1, 0, 0)",
                                         "unsqueeze = torch.ops.aten.unsqueeze.default(select, 0)"]),
    (lambda self, x: 1 / x, ["reciprocal = torch.ops.aten.reciprocal.default(x)",
                             "mul = torch.ops.aten.mul.Tensor(reciprocal, 1)"]),
    (lambda self, x: F.softmax(x.reshape(9), 0), ["reshape = torch.ops.aten.reshape.default(x, [9])",
                                                  "softmax = torch.ops.aten.softmax.int(reshape, 0)"]),
    (lambda self, x: torch.ones(2, 3) @ x, [
        "ones = torch.ops.aten.ones.default([2, 3], device = device(type='cpu'), pin_memory = False)",
        "matmul = torch.ops.aten.matmul.default(ones, x)"]),
    (lambda self, x: F.cross_entropy(x, torch.arange(3), reduction="sum"), [
        "arange = torch.ops.aten.arange.default(3, device = device(type='cpu'), pin_memory = False)",
        "cross_entropy_loss = torch.ops.aten.cross_entropy_loss.default(x, arange, None, 2)"]),
    (lambda self, x: x.double(), [
        "_assert_tensor_metadata_default = torch.ops.aten._assert_tensor_metadata.default(x, dtype = torch.float32, "
        "device = device(type='cpu'), layout = torch.strided)",
        "to = torch.ops.aten.to.dtype(x, torch.float64)"]),
    (lambda self, x: x.max(0).values + x.norm(), [
        "max_1 = torch.ops.aten.max.dim(x, 0)", "getitem = max_1[0]", "getitem_1 = max_1[1]",
        "linalg_vector_norm = torch.ops.aten.linalg_vector_norm.default(x)",
        "add = torch.ops.aten.add.Tensor(getitem, linalg_vector_norm)"]),
    (lambda self, x: F.interpolate(x[None, None], scale_factor=2.0), [
        "unsqueeze = torch.ops.aten.unsqueeze.default(x, 0)", "unsqueeze_1 = torch.ops.aten.unsqueeze.default(unsqueeze, 1)",
        "upsample_nearest2d = torch.ops.aten.upsample_nearest2d.vec(unsqueeze_1, None, [2.0, 2.0])"]),
])  # fmt: skip
def test_operators_of_calls(forward, expected) -> None:
    model, x = module(forward), torch.rand(3, 3) + 1
    program = export(model, (x,))
    assert [line.partition(";")[0] for line in lines(program)[1:-1]] == expected
    assert torch.equal(program.module()(x), model(x))


def test_writes_to_parts_of_a_tensor() -> None:
    def forward(self, x):
        y = x.clone()
        y[0] = 1.0
        y[:, 0] += 2
        return y

    model, x = module(forward), torch.rand(3, 3)
    program = export(model, (x,))
    assert [line.partition(" = ")[0] for line in lines(program)[1:-1]] == [
        "clone", "lift_fresh_copy", "select", "fill_", "select_1", "add_", "select_2", "copy_"]  # fmt: skip
    assert torch.equal(program.module()(x), model(x))


def test_writes_without_a_result() -> None:
    def forward(self, x):
        y, z = x.clone(), x * 2
        torch._foreach_add_([y, z], 1)
        return y, z

    model, x = module(forward), torch.rand(3)
    program = export(model, (x,))
    assert "torch.ops.aten._foreach_add_.Scalar([clone, mul], 1)" in program.graph_module.code
    for made, expected in zip(program.module()(x), model(x), strict=True):
        assert torch.equal(made, expected)


def test_a_transformer_layer() -> None:
    layer, x = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), torch.rand(2, 3, 8)
    program = export(layer, (x,))
    assert "scaled_dot_product_attention = " in program.graph_module.code
    assert torch.allclose(program.module()(x), layer(x), atol=1e-6)


def test_inputs_are_checked() -> None:
    run = export(nn.Linear(4, 2), (torch.rand(3, 4),)).module()
    with pytest.raises(AssertionError, match=r"^Guard failed: input\.size\(\)\[0\] == 3$"):
        run(torch.rand(2, 4))
    with pytest.raises(ValueError, match="Trying to flatten user inputs with exported input tree spec: \nTreeSpec"):
        run(torch.rand(3, 4), 1)
    for change in (run.train, run.eval):
        with pytest.raises(NotImplementedError, match="is not supported yet"):
            change()


def test_what_cannot_be_exported() -> None:
    x = torch.rand(2, 3)

    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x

    with pytest.raises(GuardOnDataDependentSymNode, match="Could not guard on data-dependent expression") as caught:
        export(module(forward), (x,))
    assert "if x.sum() > 0:" in str(caught.value)
    with pytest.raises(UserError, match="Expecting `args` to be a tuple of example positional inputs, got"):
        export(nn.ReLU(), x)
    with pytest.raises(ValueError, match=r"Expected `mod` to be an instance of `torch\.nn\.Module`, got <class 'function'>"):
        export(forward, (x,))
    with pytest.raises(ValueError, match="Unsupported input type <class 'object'>"):
        export(nn.ReLU(), (object(),))
    with pytest.raises(RuntimeError, match="Found <class 'object'> in output, which is not a known type"):
        export(module(lambda self, x: object()), (x,))
    with pytest.raises(NotImplementedError, match=r"torch\.export: .* is not implemented in flambeau; "):
        export(module(lambda self, x: x + torch.tensor(1.0, requires_grad=True)), (x,))
    program = export(nn.ReLU(), (x,))
    with pytest.raises(RuntimeError, match="Unable to call ExportedProgram directly"):
        program(x)


def test_a_failure_leaves_the_module_and_functions_as_they_were() -> None:
    def forward(self, x):
        self.n = x + 1
        raise RuntimeError("no")

    model = module(forward, n=torch.zeros(3))
    with pytest.raises(RuntimeError, match="no"):
        export(model, (torch.rand(3),))
    assert model.n.tolist() == [0, 0, 0]
    assert type(torch.ones(2) + 1) is torch.Tensor


def test_a_graph_that_does_not_fit_its_signature_is_refused() -> None:
    program = export(nn.ReLU(), (torch.rand(2),))
    program.graph_signature.input_specs[0].arg.name = "other"
    with pytest.raises(Exception, match="are not those of the signature"):
        program.validate()


def test_the_room_loads_when_it_is_used() -> None:
    code = "import sys, flambeau; assert not any(m.startswith('flambeau.export.') for m in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_functions_that_are_several_operators_in_pytorch_too() -> None:
    def forward(self, x):
        pooled, where = F.max_pool2d(x, 2, return_indices=True)
        return F.max_unpool2d(pooled, where, 2), F.lp_pool2d(x, 2.0, 2), torch.atleast_3d(x[0, 0]), torch.atleast_2d(x[0, 0, 0])

    x = torch.rand(1, 2, 4, 6)
    made = export(module(forward), (x,)).module()(x)
    for a, b in zip(made, forward(None, x)):
        torch.testing.assert_close(a, b)


def test_operators_that_a_program_defines_are_nodes() -> None:
    @torch.library.custom_op("testexport::twice", mutates_args=())
    def twice(x: torch.Tensor, factor: float) -> torch.Tensor:
        return x * 2 * factor

    @twice.register_fake
    def _(x: torch.Tensor, factor: float) -> torch.Tensor:
        return torch.empty_like(x)

    def forward(self, x):
        return twice(x, 3.0) + torch.ops.testexport.twice(x, 1.0) + torch.ops.aten.relu.default(x)

    x = torch.randn(2, 3, requires_grad=True)
    program = export(module(forward), (x,))
    assert [str(n.target) for n in program.graph.nodes if n.op == "call_function"] == [
        "testexport.twice.default", "testexport.twice.default", "aten.add.Tensor", "aten.relu.default", "aten.add.Tensor",
    ]  # fmt: skip
    torch.testing.assert_close(program.module()(x), 8 * x + x.relu())


def test_operators_that_are_called_by_name() -> None:
    @torch.library.custom_op("test_export::scaled", mutates_args=())
    def scaled(x: torch.Tensor, n: int) -> torch.Tensor:
        return x * n

    @scaled.register_fake
    def _(x, n):
        return torch.empty_like(x)

    def forward(self, x):
        y = torch.ops.aten.add_(torch.ops.aten.mul.Tensor(x, 2), 1)
        return torch.ops.test_export.scaled(y, 3) + scaled(x, 2)

    program = export(module(forward), (torch.ones(2, 2, requires_grad=True),))
    assert lines(program) == [
        "def forward(self, x):",
        "mul = torch.ops.aten.mul.Tensor(x, 2)",
        "add_ = torch.ops.aten.add_.Tensor(mul, 1);  mul = None",
        "scaled = torch.ops.test_export.scaled.default(add_, 3);  add_ = None",
        "scaled_1 = torch.ops.test_export.scaled.default(x, 2);  x = None",
        "add = torch.ops.aten.add.Tensor(scaled, scaled_1);  scaled = scaled_1 = None",
        "return (add,)",
    ]
    assert program.module()(torch.ones(2, 2)).tolist() == [[11, 11], [11, 11]]


def test_cells_and_other_ways_to_resample() -> None:
    lstm, gru, rnn = nn.LSTMCell(3, 4), nn.GRUCell(3, 4), nn.RNNCell(3, 4, nonlinearity="relu")

    def forward(self, x, image):
        how = {"size": (3, 2), "mode": "bilinear", "antialias": True}
        images = F.interpolate(image, scale_factor=2.0, mode="nearest-exact"), F.interpolate(image, **how)
        return self.lstm(x), self.gru(x), self.rnn(x), *images, F.interpolate(image, size=3, mode="area")

    made = module(forward, lstm=lstm, gru=gru, rnn=rnn)
    x, image = torch.randn(2, 3), torch.randn(1, 2, 5, 6)
    for a, b in zip(pytree.tree_leaves(export(made, (x, image)).module()(x, image)), pytree.tree_leaves(made(x, image))):
        torch.testing.assert_close(a, b)


class Asking(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        asked = torch.compiler.is_exporting(), torch.compiler.is_compiling(), torch.compiler.is_dynamo_compiling()
        return x * (1 + asked[0] + 10 * asked[1] + 100 * asked[2])


def test_a_module_sees_that_it_is_exported() -> None:
    module, x = Asking(), torch.ones(2)
    assert torch.export.export(module, (x,)).module()(x).tolist() == [12, 12]
    assert torch.export.export(module, (x,), strict=True).module()(x).tolist() == [111, 111]
    with pytest.raises(ValueError, match="wrong"):
        torch.export.export(Failing(), (x,))
    assert module(x).tolist() == [1, 1] and not torch.compiler.is_compiling()


class Failing(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ValueError("wrong")


def test_tensors_that_become_attributes_are_told_of():
    class Keeps(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.kept, self.number = [torch.ones(2)], 1
            self.register_buffer("state", torch.ones(2))

        def forward(self, x):
            self.last, self.kept[0], self.number, self.state = x + 1, x, 2, x * 2
            self.new = [x]
            return x * 2

    with pytest.warns(UserWarning, match=r"The tensor attributes self.kept\[0\], self.last were assigned during export"):
        torch.export.export(Keeps(), (torch.ones(2),))
