"""torch.onnx.export of quantized models: QuantizeLinear and DequantizeLinear, and what ONNX Runtime makes of them."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx_running import Function, onnx

import flambeau as torch
from flambeau import nn
from flambeau.ao import quantization as aq
from flambeau.ao.nn.quantized import FloatFunctional
from flambeau.ao.quantization import quantize_fx

F = nn.functional


class Network(nn.Module):
    """Convolutions, a sum, a pool, views and a product, in stubs."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave, self.together = aq.QuantStub(), aq.DeQuantStub(), FloatFunctional()
        self.first, self.norm, self.relu = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()
        self.second, self.pool, self.last = nn.Conv2d(8, 8, 3, stride=2, groups=2), nn.MaxPool2d(2), nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.second(self.relu(self.norm(self.first(self.enter(x)))))
        x = self.together.cat([self.together.add(x, x), x], 1)[:, 4:12]
        return self.leave(self.last(torch.flatten(self.pool(x), 1)))


def export(module: nn.Module, args: tuple[Any, ...], **how: Any) -> Any:
    program = torch.onnx.export(module, args, verbose=False, **how)
    onnx.checker.check_model(program.model_proto, full_check=True)
    return program


def kinds(program: Any) -> Counter[str]:
    return Counter(node.op_type for node in program.model_proto.graph.node)


def within(program: Any, module: nn.Module, args: tuple[Any, ...], step: float) -> None:
    """The model's results are those of the module but for so much."""
    with torch.no_grad():
        wanted = module(*args)
    (given,) = program(*args)
    assert given.shape == wanted.shape and given.dtype == wanted.dtype
    np.testing.assert_allclose(given.numpy(), wanted.numpy(), rtol=0, atol=step * 1.01 + 1e-6)


def stored(program: Any) -> dict[str, np.ndarray]:
    arrays = [onnx.numpy_helper.to_array(t) for t in program.model_proto.graph.initializer]
    for node in program.model_proto.graph.node:
        arrays += [onnx.numpy_helper.to_array(a.t) for a in node.attribute if node.op_type == "Constant" and a.name == "value"]
    return {f"{a.dtype}{list(a.shape)}": a for a in arrays}


def converted(scheme: str = "x86") -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    model, x = Network().eval(), torch.randn(4, 3, 11, 11)
    aq.fuse_modules(model, [["first", "norm", "relu"]], inplace=True)
    model.qconfig = aq.default_qconfig if scheme == "whole" else aq.get_default_qconfig(scheme)
    aq.prepare(model, inplace=True)(x)
    return aq.convert(model), x


@pytest.mark.parametrize("scheme", ["x86", "whole"])
def test_a_converted_model(scheme: str) -> None:
    model, x = converted(scheme)
    program = export(model, (x,))
    within(program, model, (x,), 2 * model.last.scale)
    made = kinds(program)
    assert (made["Conv"], made["Gemm"], made["MaxPool"]) == (2, 1, 1) and "Clip" not in made
    arrays = stored(program)
    assert "int8[8, 3, 3, 3]" in arrays and "int8[10, 32]" in arrays and "float32[8, 3, 3, 3]" not in arrays
    np.testing.assert_array_equal(arrays["int8[10, 32]"], model.last.weight().int_repr().numpy())
    axes = [[a.i for a in n.attribute] for n in program.model_proto.graph.node if n.op_type == "DequantizeLinear"]
    assert axes.count([0]) == (3 if scheme == "x86" else 0)


def test_sizes_may_change() -> None:
    model, x = converted()
    program = export(model, (x,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    other = torch.randn(7, 3, 11, 11)
    within(program, model, (other,), 2 * model.last.scale)


def test_old_files(tmp_path: Any) -> None:
    import onnxruntime

    model, x = converted("whole")
    for opset in (11, 13, 17):
        path = str(tmp_path / f"{opset}.onnx")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(model, (x,), path, dynamo=False, opset_version=opset)
        assert onnx.load(path).opset_import[0].version == opset
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        (given,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        np.testing.assert_allclose(given, model(x).numpy(), rtol=0, atol=2 * model.last.scale * 1.01)
    model, x = converted("x86")
    with (
        pytest.raises(torch.onnx.errors.UnsupportedOperatorError, match=r"version 12 is not supported.*13"),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (x,), str(tmp_path / "x.onnx"), dynamo=False, opset_version=12)


class Plain(nn.Module):
    """Layers that quantize_fx takes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.last = nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.Linear(6 * 16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.norm(self.conv(x)))
        return self.last((torch.sigmoid(x) + x).flatten(1))


def prepared(train: bool = False) -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    x, model = torch.randn(2, 3, 6, 6), Plain().train(train)
    mapping = aq.get_default_qat_qconfig_mapping("x86") if train else aq.get_default_qconfig_mapping("x86")
    made = (quantize_fx.prepare_qat_fx if train else quantize_fx.prepare_fx)(model, mapping, (x,))
    made(x)
    return made.eval(), x


@pytest.mark.parametrize("convert", [quantize_fx.convert_fx, quantize_fx.convert_to_reference_fx])
def test_graphs_of_quantize_fx(convert: Callable[..., Any]) -> None:
    made, x = prepared()
    model = convert(made)
    program = export(model, (x,))
    step = float(next(v for name, v in model.state_dict().items() if (name.startswith("last") and name.endswith("scale"))
                      or name == "last_scale_0"))  # fmt: skip
    within(program, model, (x,), 2 * step if model(x).dtype.is_floating_point and step < 1 else 0.1)
    assert kinds(program)["QuantizeLinear"] >= 4 and "int8[5, 96]" in stored(program)


def test_weights_rounded_as_a_whole_in_reference_modules() -> None:
    torch.manual_seed(0)
    x, model = torch.randn(2, 3, 6, 6), Plain().eval()
    made = quantize_fx.prepare_fx(model, aq.QConfigMapping().set_global(aq.default_qconfig), (x,))
    made(x)
    model = quantize_fx.convert_to_reference_fx(made)
    program = export(model, (x,))
    within(program, model, (x,), 2 * float(model.last_scale_0))
    assert "int8[5, 96]" in stored(program)


def test_models_in_training_with_rounded_weights() -> None:
    model, x = prepared(train=True)
    with pytest.raises(torch.onnx.errors.OnnxExporterError, match="disable_observer"):
        export(model, (x,))
    model.apply(aq.disable_observer)
    program = export(model, (x,))
    within(program, model, (x,), 1e-5)
    assert "int8[5, 96]" in stored(program)
    assert type(model).forward is not None and "forward" not in vars(model.activation_post_process_0)
    model.apply(aq.disable_fake_quant)
    assert kinds(export(model, (x,)))["QuantizeLinear"] == 0


def test_activations_rounded_as_they_come() -> None:
    torch.manual_seed(0)
    model = aq.quantize_dynamic(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8)).eval(), {nn.Linear})
    for shape in ((4, 16), (2, 3, 16)):
        x = torch.randn(shape)
        program = export(model, (x,))
        np.testing.assert_allclose(program.call_reference(x)[0].numpy(), model(x).numpy(), rtol=0, atol=1e-5)
        within(program, model, (x,), 0.02)  # ONNX Runtime rounds activations itself, where it multiplies them by integers
        assert "int8[32, 16]" in stored(program) or "int8[16, 32]" in stored(program)
        assert "Transpose" not in kinds(program)
    half = aq.quantize_dynamic(nn.Sequential(nn.Linear(16, 32)).eval(), {nn.Linear}, dtype=torch.float16)
    within(export(half, (torch.randn(4, 16),)), half, (torch.randn(4, 16),), 1e-2)


#: Functions of a float tensor (2, 6, 8, 8), which they quantize.
def _q(x: torch.Tensor, scale: float = 0.05, zero: int = 120, dtype: Any = torch.quint8) -> torch.Tensor:
    return torch.quantize_per_tensor(x, scale, zero, dtype)


_CHANNELS = torch.tensor([0.02, 0.03, 0.04, 0.05, 0.06, 0.07]), torch.tensor([0, 1, -2, 3, 0, 5])

FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "whole": lambda x: _q(x).dequantize(),
    "int8": lambda x: _q(x, 0.03, -5, torch.qint8).dequantize(),
    "channels": lambda x: torch.quantize_per_channel(x, *_CHANNELS, 1, torch.qint8).dequantize(),
    "by range": lambda x: torch.quantize_per_tensor_dynamic(x, torch.quint8, False).dequantize(),
    "relu": lambda x: F.relu(_q(x)).dequantize(),
    "hardtanh": lambda x: F.hardtanh(_q(x), -1.0, 1.0).dequantize(),
    "in place": lambda x: (lambda q: (F.relu(q, inplace=True), q)[1])(_q(x)).dequantize(),
    "sigmoid": lambda x: torch.sigmoid(_q(x)).dequantize(),
    "tanh": lambda x: torch.tanh(_q(x)).dequantize(),
    "max_pool": lambda x: F.max_pool2d(_q(x), 2).dequantize(),
    "avg_pool": lambda x: F.avg_pool2d(_q(x), 2).dequantize(),
    "adaptive": lambda x: F.adaptive_avg_pool2d(_q(x), 1).dequantize(),
    "mean": lambda x: _q(x).mean([2, 3]).dequantize(),
    "interpolate": lambda x: F.interpolate(_q(x), scale_factor=2.0).dequantize(),
    "views": lambda x: _q(x).permute(0, 2, 3, 1)[:, 1:, ::2].reshape(2, -1).unsqueeze(1).dequantize(),
    "split": lambda x: torch.cat(torch.chunk(_q(x), 3, 1)[:2], 1).dequantize(),
    "cat": lambda x: torch.cat([_q(x), _q(x, 0.1, 100)], 1).dequantize(),
    "pad": lambda x: F.pad(_q(x), (1, 1)).dequantize(),
    "compare": lambda x: torch.where(_q(x) > _q(x, 0.1, 100), 1.0, 0.0),
    "facts": lambda x: _q(x).dequantize() * _q(x).size(1) * _q(x).q_scale() / _q(x).ndim,
    "int_repr": lambda x: _q(x).int_repr(),
    "add": lambda x: torch.ops.quantized.add(_q(x), _q(x, 0.083, 100), 0.1, 90).dequantize(),
    "mul_relu": lambda x: torch.ops.quantized.mul_relu(_q(x), _q(x), 0.1, 3).dequantize(),
    "hardswish": lambda x: torch.ops.quantized.hardswish(_q(x), 0.04, 20).dequantize(),
    "leaky": lambda x: torch.ops.quantized.leaky_relu(_q(x), 0.1, False, 0.05, 30).dequantize(),
    "elu": lambda x: torch.ops.quantized.elu(_q(x), 0.05, 30, 1.2).dequantize(),
    "softmax": lambda x: torch.ops.quantized.softmax(_q(x), 1, 1 / 256, 0).dequantize(),
    "layer_norm": lambda x: torch.ops.quantized.layer_norm(_q(x), [8], None, None, 1e-5, 0.04, 128).dequantize(),
    "group_norm": lambda x: torch.ops.quantized.group_norm(_q(x), 2, None, None, 1e-5, 0.04, 128).dequantize(),
    "instance_norm": lambda x: torch.ops.quantized.instance_norm(_q(x), None, None, 1e-5, 0.04, 128).dequantize(),
    "matmul": lambda x: torch.ops.quantized.matmul(_q(x), _q(x), 0.2, 128).dequantize(),
    "fake": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.05, 100, 0, 200),
    "fake in 4 bits": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.3, 0, -8, 7),
    "fake in 16 bits": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.001, 30000, 0, 65535),
    "fake channels": lambda x: torch.fake_quantize_per_channel_affine(x, _CHANNELS[0], _CHANNELS[1].int(), 1, -8, 7),
    "fake float zeros": lambda x: torch.fake_quantize_per_channel_affine(x, _CHANNELS[0], _CHANNELS[1] + 0.25, 1, 0, 255),
}  # fmt: skip
#: The step of the results where it isn't 0.05; integers count their own.
STEPS = {"int8": 0.03, "channels": 0.07, "sigmoid": 1 / 256, "tanh": 1 / 128, "add": 0.1, "mul_relu": 0.1, "softmax": 1 / 256,
         "matmul": 0.2, "int_repr": 1, "compare": 1, "facts": 0.01, "fake": 1e-6, "fake in 4 bits": 1e-6, "fake in 16 bits": 1e-6,
         "fake channels": 1e-6, "fake float zeros": 0.0701}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_quantized_tensors(name: str) -> None:
    torch.manual_seed(0)
    x, step = torch.randn(2, 6, 8, 8), STEPS.get(name, 0.05)
    module = Function(FUNCTIONS[name])
    for opset in (18, 21):
        program = export(module, (x,), opset_version=opset)
        wanted, (given,) = module(x), program(x)
        assert given.shape == wanted.shape and given.dtype == wanted.dtype
        away = (given.double() - wanted.double()).abs()
        assert away.max() <= step * 1.01 + 1e-6
        assert (away > 1e-5).double().mean() < 0.05  # few lie between two integers


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("transposed", [False, True])
def test_convolutions(dims: int, transposed: bool) -> None:
    torch.manual_seed(0)
    kind = getattr(torch.ao.nn.quantized, f"Conv{'Transpose' if transposed else ''}{dims}d")
    layer = kind(4, 6, 3, stride=2, padding=1, dilation=2, groups=2)
    shape = (4, 3) if transposed else (6, 2)
    weight = torch.quantize_per_tensor(torch.randn(*shape, *[3] * dims), 0.02, 0, torch.qint8)
    layer.set_weight_bias(weight, torch.randn(6))
    layer.scale, layer.zero_point = 0.1, 100
    module = Function(lambda x: layer(torch.quantize_per_tensor(x, 0.05, 120, torch.quint8)).dequantize())
    x = torch.randn(2, 4, *[9] * dims)
    program = export(module, (x,))
    within(program, module, (x,), 0.1)
    assert kinds(program)["ConvTranspose" if transposed else "Conv"] == 1


def test_what_is_refused() -> None:
    q = lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.quint8)
    for function, words in (
        (lambda x: torch.ops.quantized.add(q(x), 2.0).dequantize(), "quantized.add with a number"),
        (lambda x: q(x).cumsum(0), "cumsum of quantized tensors"),
        (lambda x: torch.sin(q(x)), "sin of quantized tensors"),
        (lambda x: q(x), "quantized tensor"),
    ):
        with pytest.raises(torch.onnx.errors.OnnxExporterError, match=words):
            export(Function(function), (torch.randn(3, 4),))


def test_programs_with_integers() -> None:
    """torch.ops.quantized_decomposed, as convert_pt2e writes it."""
    ops = torch.ops.quantized_decomposed
    scale, zero = torch.tensor([0.1]), torch.tensor([3])

    def forward(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a = ops.dequantize_per_tensor(ops.quantize_per_tensor(x, 0.05, 2, -128, 127, torch.int8), 0.05, 2, -128, 127, torch.int8)
        b = ops.quantize_per_tensor.tensor(x, scale, zero, 0, 100, torch.uint8)
        own = ops.choose_qparams.tensor(x, 0, 255, 1e-5, torch.uint8)
        c = ops.quantize_per_tensor.tensor(x, *own, 0, 255, torch.uint8)
        d = ops.choose_qparams_symmetric.tensor(x, -127, 127, 1e-5, torch.int8)
        e = ops.quantize_per_tensor(x, 0.001, 5, -1000, 1000, torch.int16)
        f = ops.quantize_per_channel(x, _CHANNELS[0], _CHANNELS[1], 1, -8, 7, torch.int8)
        g = ops.dequantize_per_channel(f, _CHANNELS[0], None, 1, -8, 7, torch.int8)
        return a, b, ops.dequantize_per_tensor.tensor(c, *own, 0, 255, torch.uint8), *own, *d, e, f, g

    torch.manual_seed(0)
    x = torch.randn(2, 6, 4)
    for opset in (20, 21):
        program = export(torch.export.export(Function(forward), (x,)), (), opset_version=opset)
        for given, wanted in zip(program(x), forward(x), strict=True):
            assert given.dtype == wanted.dtype and given.shape == wanted.shape
            np.testing.assert_allclose(given.double().numpy(), wanted.double().numpy(), rtol=1e-6, atol=1e-6)
