"""torch.onnx.export: its forms, names, files, checks and errors."""

from __future__ import annotations

import io
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from onnx_running import Function, agree, exported, onnx

import flambeau as torch
from flambeau import nn
from flambeau.onnx import verification


@pytest.fixture
def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).eval()


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(3, 4)


def export(*args, **kwargs):
    return torch.onnx.export(*args, verbose=False, **kwargs)


def test_a_program_says_what_it_is(mlp: nn.Module, x: torch.Tensor) -> None:
    program = export(mlp, x, input_names=["a"], output_names=["b"])
    proto = program.model_proto
    assert [v.name for v in proto.graph.input] == ["a"] and [v.name for v in proto.graph.output] == ["b"]
    assert [n.op_type for n in proto.graph.node] == ["Gemm", "Relu", "Gemm"]
    assert [n.name for n in proto.graph.node] == ["node_linear", "node_relu", "node_b"]
    assert sorted(t.name for t in proto.graph.initializer) == sorted(mlp.state_dict())
    assert (proto.ir_version, proto.producer_name, proto.opset_import[0].version) == (10, "pytorch", 20)
    props = {p.key: p.value for p in proto.graph.node[1].metadata_props}
    assert props["pkg.torch.onnx.class_hierarchy"] == (
        "['torch.nn.modules.container.Sequential', 'torch.nn.modules.activation.ReLU', 'aten.relu.default']"
    ) or props["pkg.torch.onnx.class_hierarchy"].endswith("'aten.relu.default']")
    assert program.model.graph.inputs[0].shape == [3, 4] and program.exported_program is not None
    assert str(program).startswith("ONNXProgram(\n    model=\n")
    agree(program, mlp, (x,))
    np.testing.assert_allclose(program.call_reference(x)[0].numpy(), mlp(x).detach().numpy(), rtol=1e-5)
    assert export(torch.export.export(mlp, (x,)))(x)[0].shape == (3, 2)


def test_files(mlp: nn.Module, x: torch.Tensor, tmp_path: Path) -> None:
    large = nn.Linear(64, 64).eval()
    path = tmp_path / "m.onnx"
    assert export(large, (torch.randn(1, 64),), path) is not None
    assert (tmp_path / "m.onnx.data").stat().st_size > 64 * 64 * 4 - 1 and path.stat().st_size < 4096
    onnx.checker.check_model(str(path))
    assert len(onnx.load(path).graph.initializer) == 2
    export(large, (torch.randn(1, 64),), tmp_path / "one.onnx", external_data=False)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx", "m.onnx.data", "one.onnx"]
    program = export(mlp, x)
    program.save(tmp_path / "inputs.onnx", keep_initializers_as_inputs=True)
    assert len(onnx.load(tmp_path / "inputs.onnx").graph.input) == 5
    program.save(tmp_path / "bare.onnx", include_initializers=False)
    assert not onnx.load(tmp_path / "bare.onnx").graph.initializer
    buffer = io.BytesIO()
    with pytest.warns(DeprecationWarning, match="Saving ONNX model to a BytesIO object is deprecated"):
        export(mlp, x, buffer)
    assert len(onnx.load_from_string(buffer.getvalue()).graph.node) == 3


def test_the_older_form_writes_a_file(mlp: nn.Module, x: torch.Tensor, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    mlp.train()
    with pytest.warns(DeprecationWarning, match="You are using the legacy TorchScript-based ONNX export"):
        assert torch.onnx.export(
            mlp, x, buffer, dynamo=False, input_names=["in"], output_names=["out"], opset_version=13, do_constant_folding=True
        ) is None  # fmt: skip
    assert mlp.training
    model = onnx.load_from_string(buffer.getvalue())
    onnx.checker.check_model(model, full_check=True)
    assert model.opset_import[0].version == 13 and model.graph.input[0].name == "in" and model.graph.output[0].name == "out"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(RuntimeError, match="Unsupported onnx_opset_version: 30"):
            torch.onnx.export(mlp, x, buffer, dynamo=False, opset_version=30)
        with pytest.raises(ValueError, match="only supports dynamic shapes through parameter dynamic_axes when dynamo=False"):
            torch.onnx.export(mlp, x, buffer, dynamo=False, dynamic_shapes=({0: "n"},))
        torch.onnx.export(mlp, (x,), tmp_path / "t.onnx", dynamo=False, training=torch.onnx.TrainingMode.TRAINING)
    assert (tmp_path / "t.onnx").exists()


def test_inputs_in_containers_and_by_name() -> None:
    class Takes(nn.Module):
        def forward(self, d, scale, *, bias=None, flag=True):
            return {"y": d["a"] * scale + d["b"][0] + bias, "n": None, "k": d["a"] if flag else bias}

    a, b = torch.randn(2), torch.randn(2)
    program = exported(Takes(), ({"a": a, "b": [b]}, 2.0), {"bias": torch.ones(2)})
    assert [v.name for v in program.model.graph.inputs] == ["d_a", "d_b_0", "bias"]
    assert len(program.model.graph.outputs) == 2


def test_an_output_that_is_an_input_or_another_output_has_its_own_name() -> None:
    program = exported(Function(lambda x: (x, x.relu(), x.relu(), torch.ones(2))), (torch.randn(2),))
    names = [v.name for v in program.model.graph.outputs]
    assert len(set(names)) == 4
    with pytest.raises(ValueError, match="Output names cannot be duplicated"):
        export(Function(lambda x: (x, x)), (torch.randn(2),), output_names=["a", "a"])
    with pytest.raises(ValueError, match="Input and output names cannot be the same"):
        export(Function(lambda x: x + 1), (torch.randn(2),), input_names=["a"], output_names=["a"])
    with pytest.raises(ValueError, match="Input name 'weight' is the name of a weight"):
        export(nn.Linear(2, 2).eval(), (torch.randn(1, 2),), input_names=["weight"])


def test_sizes_that_may_change(mlp: nn.Module) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = export(
            mlp, torch.randn(1, 4), input_names=["in"], output_names=["out"], opset_version=14,
            dynamic_axes={"in": {0: "batch_size"}, "out": {0: "batch_size"}},
        )  # fmt: skip
    assert program.model.graph.outputs[0].shape == ["batch_size", 2]
    assert program.exported_program.example_inputs[0][0].shape == (1, 4)
    agree(program, mlp, (torch.randn(5, 4),))
    dim = torch.export.Dim
    for shapes in (({0: "n"}, {0: "m"}), ({0: dim("n")}, ("m", None)), ([dim.DYNAMIC, None], None)):
        net = Function(lambda x, y: torch.cat([x, y]))
        program = export(net, (torch.randn(3, 4), torch.randn(2, 4)), dynamic_shapes=(shapes,))
    size = program.model.graph.inputs[0].shape[0]
    program.rename_axes({size: "rows"})
    assert program.model.graph.inputs[0].shape == ["rows", 4] and program.model.graph.outputs[0].shape == ["rows + 2", 4]


def test_axes_of_the_older_form() -> None:
    net = nn.LSTM(3, 4, batch_first=True).eval()
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(net, torch.randn(1, 5, 3), buffer, dynamo=False, input_names=["x"], output_names=["y", "h", "c"],
                          dynamic_axes={"x": [0, 1], "y": {0: "batch", 1: "time"}})  # fmt: skip
    session = torch.onnx._package.onnxruntime().InferenceSession(buffer.getvalue())
    assert next(v.shape for v in session.get_outputs()) == ["batch", "time", 4]
    x = torch.randn(3, 7, 3)
    np.testing.assert_allclose(session.run(None, {"x": x.numpy()})[0], net(x)[0].detach().numpy(), atol=1e-5)


def test_sizes_that_the_module_fixes_are_an_error() -> None:
    class Fixed(nn.Module):
        def forward(self, x):
            return x.view(3, 8)

    with pytest.raises(torch.onnx.OnnxExporterError, match="Failed to export the model"):
        export(Fixed().eval(), (torch.randn(3, 8),), dynamic_shapes=({0: "n"},))


def test_arithmetic_of_sizes() -> None:
    def forward(x):
        n, m = x.shape
        half, up = n // 2, -(-m // 2)
        grid = torch.arange(n * m).view(n, m) % m
        return x[:half], x[:, up:].expand(n, m - up), x * (n - m), grid + n, torch.zeros(n + 1, m % 3), n

    net = Function(forward).eval()
    program = export(net, (torch.randn(5, 7),), dynamic_shapes=(({0: "n", 1: "m"},),))
    for n, m in ((5, 7), (4, 2), (9, 4)):
        *tensors, number = program(torch.ones(n, m))
        wanted = forward(torch.ones(n, m))
        assert number == n and all(torch.equal(a, b) for a, b in zip(tensors, wanted))


def test_sizes_that_values_tell() -> None:
    net = Function(lambda x: (x[x > 0] * 2, x.nonzero(), torch.masked_select(x, x < 0).sum()))
    program = exported(net, (torch.tensor([1.0, -2.0, 3.0]),), dynamic_shapes=(({0: "n"},),))
    agree(program, net, (torch.tensor([-1.0, 0.0, 3.0, 4.0, -5.0]),))
    agree(program, net, (torch.zeros(2),))


@pytest.mark.parametrize("opset", [13, 20])
def test_control_flow(opset: int) -> None:
    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x):
            y = x * 2
            a, b = torch.cond(x.sum() > 0, lambda a, b: (self.fc(a) + b, a.clone()), lambda a, b: (a - 1, b * 1), (x, y))
            return a + 1, b

    program = exported(net := Branches(), (torch.randn(2, 3),), dynamic_shapes=({0: "n"},), opset_version=opset)
    assert "If" in {n.op_type for n in program.model.graph}
    for sign in (1, -1):
        agree(program, net, (sign * torch.rand(4, 3),))

    from flambeau._higher_order_ops import while_loop

    def forward(count, x):
        return while_loop(lambda i, a: i < count, lambda i, a: (i + 1, a * 2 + i), (torch.tensor(0), x))

    loop = Function(forward)
    program = exported(loop, (torch.tensor(3), torch.randn(2)), opset_version=opset)
    agree(program, loop, (torch.tensor(6), torch.randn(2)))
    agree(program, loop, (torch.tensor(0), torch.randn(2)))


def test_writes_in_place_are_seen() -> None:
    def forward(x):
        y = x * 2
        z = y.view(-1)
        y.add_(1)
        z[0] = 7
        y[:, 1:] *= 3
        return y, z

    exported(Function(forward), (torch.randn(2, 3),))
    exported(Function(lambda x: (x.clone().relu_().mul_(2), x)), (torch.randn(3),))


def test_nothing_is_left_that_nobody_uses(x: torch.Tensor) -> None:
    class Wasteful(nn.Module):
        def __init__(self):
            super().__init__()
            self.bn, self.unused = nn.BatchNorm1d(4), nn.Linear(2, 2)

        def forward(self, x):
            x.exp()
            return self.bn(x).sigmoid() + self.bn(x).sigmoid()

    program = exported(Wasteful(), (x,))
    assert [n.op_type for n in program.model.graph] == ["BatchNormalization", "Sigmoid", "Add"]
    assert not any("unused" in name or "tracked" in name for name in program.model.graph.initializers)
    whole = exported(Wasteful(), (x,), optimize=False)
    assert len(whole.model.graph) == 5
    whole.optimize()
    assert len(whole.model.graph) == 3


def test_what_stays_whole(x: torch.Tensor) -> None:
    def ops(module, *args, **how):
        return {n.op_type for n in exported(module, args, **how).model.graph}

    norm, q = nn.LayerNorm(4), torch.randn(1, 2, 3, 4)
    attention = Function(lambda q: nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True))
    assert ops(norm, x) == {"LayerNormalization"} and ops(nn.GELU(), x) == {"Gelu"}
    assert "Erf" in ops(nn.GELU(), x, opset_version=18)
    assert ops(attention, q, opset_version=23) == {"Attention"} and "Softmax" in ops(attention, q)
    assert "LSTM" in ops(nn.LSTM(4, 2), torch.randn(5, 1, 4)) and ops(nn.RMSNorm(4), x, opset_version=23) == {"RMSNormalization"}


def test_what_depends_on_parameters_alone_is_worked_out() -> None:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.bn = nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4)
            self.up, self.bn2 = nn.ConvTranspose2d(4, 2, 2), nn.BatchNorm2d(2)
            self.fc, self.lstm = nn.Linear(7, 5), nn.LSTM(5, 3)

        def forward(self, x):
            y = self.fc(self.bn2(self.up(self.bn(self.conv(x)))))
            return self.lstm(y.flatten(0, 2)[:, None])[0]

    net, x = Net(), torch.randn(2, 3, 8, 8)
    for m in (net.bn, net.bn2):
        m.running_mean.uniform_(-1, 1)
        m.running_var.uniform_(0.5, 2)
    program = exported(net, (x,))
    ops = [n.op_type for n in program.model.graph]
    assert "BatchNormalization" not in ops and "Split" not in ops and ops.count("Transpose") == 0
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match=r"Weight 'conv.weight' not found"):
        program.apply_weights({"conv.weight": net.conv.weight})
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        export(net, (x,), buffer, keep_initializers_as_inputs=True)
    named = {v.name for v in onnx.load_from_string(buffer.getvalue()).graph.input}
    assert {"conv.weight", "bn.running_var", "fc.weight", "lstm.weight_hh_l0"} < named


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_other_precisions(dtype: torch.dtype) -> None:
    net = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 4), nn.Softmax(-1)).to(dtype).eval()
    x = torch.randn(3, 8, dtype=dtype)
    program = export(net, (x,), opset_version=18)
    onnx.checker.check_model(program.model_proto, full_check=True)
    (made,) = program(x)
    assert made.dtype is dtype
    torch.testing.assert_close(made, net(x).detach(), rtol=2e-3 if dtype is torch.float16 else 1e-10, atol=1e-3)
    half = export(nn.Linear(4, 2).bfloat16().eval(), (torch.ones(1, 4, dtype=torch.bfloat16),)).model_proto
    onnx.checker.check_model(half, full_check=True)
    assert half.graph.initializer[0].data_type == onnx.TensorProto.BFLOAT16


def test_a_model_in_training_is_exported_so() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)).train()
    x = torch.randn(8, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = export(net, (x,))
    assert "Dropout" in {n.op_type for n in program.model.graph}
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert net.training and int(net[1].num_batches_tracked) == 0


def test_older_operator_sets(x: torch.Tensor) -> None:
    pooled = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU6(), nn.MaxPool2d(2), nn.AvgPool2d(2), nn.Flatten())
    assert exported(pooled, (torch.randn(1, 1, 12, 12),), opset_version=8).model_proto.opset_import[0].version == 8
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match="'aten::Einsum'.* was added in version 12"):
        exported(Function(lambda x: torch.einsum("ij,kj->ik", x, x)), (x,), opset_version=11)
    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.GELU(), nn.Softmax(-1))
    for version in (9, 11, 13, 16, 17):
        program = exported(model, (x,), opset_version=version)
        assert program.model_proto.opset_import[0].version == version
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match="versions up to 23"):
        assert export(model, (x,), opset_version=99).model_proto.opset_import[0].version == 23


def test_verification(mlp: nn.Module, x: torch.Tensor, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = torch.onnx.export(mlp, (x,), verify=True, report=True, artifacts_dir=tmp_path)
    said = capsys.readouterr().out
    assert "[torch.onnx] Translate the graph into ONNX... ✅" in said and "Verify output accuracy... ✅" in said
    (report,) = tmp_path.iterdir()
    assert report.name.startswith("onnx_export_success_") and "✅ Validate model output accuracy" in report.read_text()
    (info,) = verification.verify_onnx_program(program)
    assert info.name == "linear_1" and info.max_abs_diff < 1e-5 and info.asdict()["expected_dtype"] == "torch.float32"
    between = verification.verify_onnx_program(program, compare_intermediates=True)
    assert [i.name for i in between] == ["linear", "relu", "linear_1"] and max(i.max_abs_diff for i in between) < 1e-5
    assert program.compute_values(["relu"], (x,))[0].shape == (3, 8)
    with pytest.raises(ValueError, match="Value 'none' not found in the model"):
        program.compute_values(["none"], (x,))


def test_other_weights(mlp: nn.Module, x: torch.Tensor) -> None:
    program = export(mlp, x)
    other = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    program.apply_weights(other.state_dict())
    agree(program, other, (x,))
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match="Weight 'no' not found in the model"):
        program.apply_weights({"no": x})


def test_an_operator_that_cant_be_written_is_named_with_its_line(x: torch.Tensor, tmp_path: Path) -> None:
    class Decomposes(nn.Module):
        def forward(self, x):
            return torch.linalg.qr(x)[0]

    with pytest.raises(torch.onnx.errors.UnsupportedOperatorError) as caught:
        export(Decomposes().eval(), (x,))
    text = str(caught.value)
    assert "Exporting the operator 'aten::linalg_qr' to ONNX opset version 20 is not supported" in text
    assert "return torch.linalg.qr(x)[0]" in text and "custom_translation_table" in text
    with pytest.raises(torch.onnx.OnnxExporterError, match="not supported from"):
        export(Function(lambda x: nn.functional.adaptive_max_pool1d(x, 3)), (torch.randn(1, 2, 7),))
    with pytest.raises(torch.onnx.OnnxExporterError):
        export(Decomposes().eval(), (x,), report=True, artifacts_dir=tmp_path)
    assert "❌ Translate the graph into ONNX" in next(tmp_path.iterdir()).read_text()
    with pytest.raises(torch.onnx.OnnxExporterError, match=r"Failed to export the model with torch\.export"):
        export(Function(lambda x: x if x.sum() > 0 else -x), (x,))
    with pytest.raises(torch.onnx.OnnxExporterError, match=r"Failed to export the model with torch\.export"):
        export(None)


def test_without_the_package(mlp: nn.Module, x: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    program = export(mlp, x)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(torch.onnx.OnnxExporterError, match="pip install onnxruntime"):
        program(x)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(torch.onnx.OnnxExporterError, match=r"pip install flambeau\[onnx\]"):
        export(mlp, x)


def test_programs_know_that_they_are_exported(x: torch.Tensor) -> None:
    class Asks(nn.Module):
        def forward(self, x):
            return x + 1 if torch.onnx.is_in_onnx_export() else x - 1

    program = export(Asks().eval(), (x,))
    assert not torch.onnx.is_in_onnx_export()
    np.testing.assert_allclose(program(x)[0].numpy(), x.numpy() + 1)


def test_modules_that_switch_gradients_off() -> None:
    class Frozen(nn.Module):
        def forward(self, x):
            with torch.no_grad():
                y = x * 2
            return y + x

    exported(Frozen(), (torch.randn(3),))


def test_a_module_that_knows_its_arguments(x: torch.Tensor) -> None:
    class Scale(torch.onnx.ExportableModule):
        def forward(self, x):
            return x * 2

        def example_arguments(self):
            return (torch.ones(2),), None

        def input_names(self):
            return ["given"]

    program = Scale().eval().to_onnx(verbose=False)
    assert program.model.graph.inputs[0].name == "given" and program(torch.ones(2))[0].tolist() == [2, 2]


def test_a_model_in_training_is_warned_of(mlp: nn.Module, x: torch.Tensor) -> None:
    with pytest.warns(UserWarning, match="Exporting a model while it is in training mode"):
        export(mlp.train(), (x,))


# ---------------------------------------------------------------- a program's own translations


def test_symbolic_functions(x: torch.Tensor) -> None:
    helper = torch.onnx.symbolic_helper

    @helper.parse_args("v", "f")
    def elu(g, x, alpha, *rest):
        assert helper._get_tensor_sizes(x) == [3, 4] and x.type().scalarType() == "Float"
        return g.op("mine::Elu", x, alpha_f=alpha).setType(x.type())

    def gelu(g, x, approximate):
        assert approximate == "none"
        half = g.op("Constant", value_t=torch.tensor(0.5))
        return g.op("Mul", torch.onnx.symbolic_opset9.relu(g, x), half)

    def write(model, **how):
        buffer = io.BytesIO()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(model, (x,), buffer, dynamo=False, **how)
        return onnx.load_from_string(buffer.getvalue())

    torch.onnx.register_custom_op_symbolic("aten::gelu", gelu, 9)
    torch.onnx.register_custom_op_symbolic("aten::elu", helper.parse_args("v", "f", "v", "v")(elu.__wrapped__), 9)
    try:
        assert [n.op_type for n in write(nn.GELU()).graph.node] == ["Relu", "Constant", "Mul"]
        model = write(nn.ELU(0.3), custom_opsets={"mine": 2})
    finally:
        for name in ("gelu", "elu"):
            torch.onnx.unregister_custom_op_symbolic(f"aten::{name}", 9)
    (node,) = model.graph.node
    assert (node.domain, node.op_type, round(node.attribute[0].f, 3)) == ("mine", "Elu", 0.3)
    assert {o.domain: o.version for o in model.opset_import}["mine"] == 2
    assert [n.op_type for n in write(nn.GELU()).graph.node] == ["Gelu"]


def test_translations_in_onnxscript(x: torch.Tensor) -> None:
    pytest.importorskip("onnxscript")
    from onnxscript import opset18 as op

    def silu(x):
        return op.Mul(x, op.Sigmoid(x * 2.0))

    program = export(nn.SiLU().eval(), (x,), custom_translation_table={torch.ops.aten.silu.default: silu})
    np.testing.assert_allclose(program(x)[0].numpy(), (x * (2 * x).sigmoid()).numpy(), rtol=1e-5)
    with pytest.raises(TypeError, match="should be a single callable, not a sequence"):
        export(nn.SiLU().eval(), (x,), custom_translation_table={torch.ops.aten.silu.default: [silu]})


class Switching(nn.Module):
    """A scale without gradients, and where it is asked for a layer in bfloat16."""

    def __init__(self, lower):
        super().__init__()
        self.layer, self.lower = nn.Linear(3, 4), lower

    def forward(self, x):
        with torch.no_grad():
            scale = x.abs().amax()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.lower):
            y = self.layer(x)
        return y.float() / scale


def test_stretches_with_autocast_or_without_gradients_are_part_of_the_model():
    x = torch.randn(2, 3)
    exported(Switching(False), (x,))
    program = torch.onnx.export(Switching(True).eval(), (x,), verbose=False)  # which onnxruntime can't run on the CPU
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert [node.op_type for node in program.model_proto.graph.node].count("Cast") == 2  # weights are cast before


def test_what_isnt_done_is_refused():
    with pytest.raises(NotImplementedError, match=r"profile=True\) is not implemented in flambeau: run the call under"):
        torch.onnx.export(nn.Linear(2, 2), (torch.ones(1, 2),), profile=True)
